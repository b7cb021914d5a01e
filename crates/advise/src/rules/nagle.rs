//! Last segments held back until a delayed acknowledgment of the previous one.

use crate::finding::{AdviceFinding, Certainty, FoundOperations, Remedy, remedies};
use crate::rule::Rule;
use crate::seen::{SeenOperation, SeenPiece, SeenRow, SeenTraffic};
use overhead_model::Side;
use std::collections::BTreeMap;

/// Minimum number of stalls in a row.
const STALLS: u64 = 3;
/// Delay of an acknowledgment: 40 ms on Linux, at most 200 ms elsewhere (RFC 1122 section 4.2.3.2 allows 500).
const DELAY_NS: std::ops::RangeInclusive<u64> = 35_000_000..=250_000_000;
/// Longest time from the acknowledgment to the held segment.
const AT_ONCE_NS: u64 = 5_000_000;

/// Nagle's algorithm (RFC 896) against delayed acknowledgments (RFC 1122 section 4.2.3.2).
#[derive(Default)]
pub struct NagleDelays {
    rows: BTreeMap<(usize, Side), FoundOperations>,
}

const CLIENT_REMEDIES: &[Remedy] = remedies! {
    "pymemcache": "Client(…, no_delay=True)",
    "libmemcached": "MEMCACHED_BEHAVIOR_TCP_NODELAY",
    "pgjdbc, MySQL Connector/J": "tcpNoDelay=true (the default)",
    "sockets": "setsockopt(TCP_NODELAY), or one write (writev, TCP_CORK) for each message",
};

/// A client cannot change how its server sends.
const SERVER_REMEDIES: &[Remedy] = remedies! {
    "the server's sockets": "setsockopt(TCP_NODELAY), or one write (writev, TCP_CORK) for each answer",
};

impl Rule for NagleDelays {
    fn operation(&mut self, closed: &SeenOperation<'_>) {
        for side in Side::BOTH {
            let pieces = &closed.directions[side as usize].pieces;
            let held = pieces.iter().zip(pieces.iter().skip(1)).filter_map(|(before, piece)| held_ns(before, piece));
            for ns in held {
                self.rows.entry((closed.row.number, side)).or_default().add(1, ns, closed.example);
            }
        }
    }

    fn side_finding(&self, _: &SeenTraffic, row: &SeenRow, side: Side) -> Option<AdviceFinding> {
        let FoundOperations { times, ns, example, .. } = *self.rows.get(&(row.number, side))?;
        if times < STALLS {
            return None;
        }
        let (who, remedies) = held_by(side);
        let mean = ns as f64 / times as f64 / 1e6;
        let title = format!(
            "{times} times the {who} held the rest of a message back until it was acknowledged, {mean:.0} ms later on average"
        );
        Some(AdviceFinding {
            remedies: remedies.to_vec(),
            certainty: Certainty::Exact,
            computed: "time between two segments of a message, 35 to 250 ms, if the second follows an acknowledgment without payload within 5 ms".to_owned(),
            unknown: "whether the rest of the message was ready throughout",
            ..AdviceFinding::new(title, row, times, example).waiting(ns)
        })
    }
}

/// Returns who holds back what `side` sends, and the settings that avoid it.
fn held_by(side: Side) -> (&'static str, &'static [Remedy]) {
    match side {
        Side::Request => ("client", CLIENT_REMEDIES),
        Side::Response => ("server", SERVER_REMEDIES),
    }
}

/// Returns how long the second piece was held back, if it was.
fn held_ns(before: &SeenPiece, piece: &SeenPiece) -> Option<u64> {
    let waited = piece.time_ns.saturating_sub(before.time_ns);
    let acknowledged = piece
        .bare_ns
        .is_some_and(|bare| bare > before.time_ns && bare <= piece.time_ns && piece.time_ns - bare <= AT_ONCE_NS);
    (DELAY_NS.contains(&waited) && acknowledged).then_some(waited)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stall_of_the_server_has_no_remedy_of_clients() {
        let ((_, of_clients), (who, of_servers)) = (held_by(Side::Request), held_by(Side::Response));
        assert_eq!(who, "server");
        assert!(!of_servers.is_empty() && of_servers.iter().all(|remedy| !of_clients.contains(remedy)));
    }
}
