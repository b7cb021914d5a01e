//! How much of the traffic of some processes the capture saw.

use overhead_model::Measured;

/// Unreported relative difference between captured and socket bytes, which may be in flight at a window's ends.
const TOLERANCE: f64 = 0.01;
/// Difference from which work per operation is withheld.
pub(super) const WITHHELD_ABOVE: f64 = 0.1;

/// Bytes of the same connections at the sockets and in the capture.
pub(super) struct SocketShares {
    /// Sent and received by the processes.
    pub moved: u64,
    /// Captured of their connections.
    pub owned: u64,
    /// Captured in total.
    pub captured: u64,
    pub layered: bool,
}

impl SocketShares {
    pub fn coverage(&self) -> Measured<f64> {
        if self.layered {
            return Measured::unavailable("TLS is done in the kernel: sockets count bytes before it");
        }
        if self.moved == 0 {
            return Measured::unavailable("the processes sent and received nothing");
        }
        Measured::Value(self.owned as f64 / self.moved as f64)
    }

    pub fn captured_share(&self) -> Measured<f64> {
        if self.captured == 0 {
            return Measured::unavailable("no payload was captured");
        }
        Measured::Value(self.owned as f64 / self.captured as f64)
    }

    /// Returns coverage and captured share if they differ from 1 by more than `most`.
    fn differing(&self, most: f64) -> [Option<f64>; 2] {
        let shares = [self.coverage(), self.captured_share()];
        shares.map(|share| share.value().copied().filter(|share| (share - 1.0).abs() > most))
    }

    pub fn withheld(&self) -> Option<String> {
        let [coverage, share] = self.differing(WITHHELD_ABOVE);
        coverage.map(coverage_in_words).or_else(|| share.map(share_in_words))
    }

    pub fn warning(&self) -> Option<String> {
        let (off_by, how) = match self.differing(TOLERANCE) {
            [Some(coverage), _] => (coverage, why_covered(coverage).to_owned()),
            [None, Some(share)] => (share, share_in_words(share)),
            [None, None] => return None,
        };
        Some(format!("counters per operation are off by about {:.0}%: {how}", (off_by - 1.0).abs() * 100.0))
    }
}

fn coverage_in_words(coverage: f64) -> String {
    let share = percent(coverage);
    format!("the capture saw {share} of the bytes that the processes sent and received: {}", why_covered(coverage))
}

const fn why_covered(coverage: f64) -> &'static str {
    if coverage > 1.0 {
        "part of the work of the processes was not counted"
    } else {
        "frames were lost, or the processes also serve connections that were not captured"
    }
}

fn share_in_words(share: f64) -> String {
    format!(
        "{} of the captured bytes belong to these processes: the other connections belong to other hosts, or to processes that were not followed",
        percent(share)
    )
}

pub(super) fn percent(share: f64) -> String {
    format!("{:.1}%", share * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shares(moved: u64, owned: u64, captured: u64) -> SocketShares {
        SocketShares { moved, owned, captured, layered: false }
    }

    #[test]
    fn equal_bytes_raise_no_warning() {
        let shares = shares(1_000, 1_000, 1_000);
        assert_eq!((shares.coverage(), shares.captured_share()), (Measured::Value(1.0), Measured::Value(1.0)));
        assert_eq!((shares.withheld(), shares.warning()), (None, None));
    }

    #[test]
    fn a_few_percent_are_a_warning_and_more_is_withheld() {
        assert!(shares(1_000, 970, 970).warning().unwrap().contains("off by about 3%: frames were lost"));
        assert_eq!(shares(1_000, 970, 970).withheld(), None);
        assert!(shares(10_000, 1_000, 1_000).withheld().unwrap().contains("10.0% of the bytes"));
    }

    #[test]
    fn connections_of_others_are_in_the_operations_but_not_in_the_counters() {
        let reason = shares(500, 500, 1_000).withheld().unwrap();
        assert!(reason.contains("50.0% of the captured bytes"), "{reason}");
    }

    #[test]
    fn sockets_above_tls_in_the_kernel_are_not_compared() {
        let shares = SocketShares { layered: true, ..shares(900, 1_000, 1_000) };
        assert!(shares.coverage().reason().unwrap().contains("TLS"));
        assert_eq!(shares.withheld(), None);
    }
}
