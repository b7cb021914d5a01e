//! Splits CPU time into user and kernel time by the better of two estimates.

use overhead_model::record::{OnCpu, Split};

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SplitEvidence {
    /// Exact.
    pub(crate) cpu_ns: u64,
    /// The scheduler's user time, in whole ticks on most kernels.
    pub(crate) user_ns: u64,
    pub(crate) system_ns: u64,
    pub(crate) tick_ns: u64,
    pub(crate) calls: u64,
    /// How many calls were timed.
    pub(crate) timed: u64,
    /// Page faults, which no system call shows.
    pub(crate) faults: u64,
    /// Time in all system calls, extrapolated from the timed ones.
    pub(crate) calls_ns: u64,
}

/// Kernel time per call outside the two clock readings, as measured (`docs/adr/0002-kernel-counters.md`).
const UNSEEN_PER_CALL_NS: f64 = 100.0;

/// Order of magnitude of a page fault: the handler and a cleared or copied page.
const UNSEEN_PER_FAULT_NS: f64 = 1_500.0;

impl SplitEvidence {
    /// Splits `cpu_ns` by the estimate with the smaller expected error.
    pub(crate) fn split(&self) -> OnCpu {
        let ticks = (self.user_ns + self.system_ns).checked_div(self.tick_ns).unwrap_or(0);
        if self.timed == 0 || self.tick_error(ticks) <= self.timing_error() {
            self.by_ticks(ticks)
        } else {
            self.with_kernel(self.calls_ns.min(self.cpu_ns), "sampled", self.timed)
        }
    }

    /// Standard error of the kernel's share by ticks: each tick is one draw, and Laplace adds two.
    fn tick_error(&self, ticks: u64) -> f64 {
        let draws = ticks as f64 + 2.0;
        let system = (self.system_ns.checked_div(self.tick_ns).unwrap_or(0) as f64 + 1.0) / draws;
        (system * (1.0 - system) / draws).sqrt()
    }

    /// Returns the part of the kernel's share that timing may miss.
    fn timing_error(&self) -> f64 {
        if self.cpu_ns == 0 {
            return 0.0;
        }
        (self.calls as f64 * UNSEEN_PER_CALL_NS + self.faults as f64 * UNSEEN_PER_FAULT_NS) / self.cpu_ns as f64
    }

    fn by_ticks(&self, ticks: u64) -> OnCpu {
        let all = self.user_ns + self.system_ns;
        let kernel = if all == 0 { 0 } else { u128::from(self.cpu_ns) * u128::from(self.system_ns) / u128::from(all) };
        self.with_kernel(kernel as u64, "scheduler", ticks)
    }

    fn with_kernel(&self, kernel: u64, method: &str, samples: u64) -> OnCpu {
        OnCpu { user: self.cpu_ns - kernel, kernel, split: Split { method: method.to_owned(), samples } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TICK: u64 = 4_000_000;

    #[test]
    fn a_long_run_is_split_by_ticks() {
        let evidence = SplitEvidence {
            cpu_ns: 10_000_000_000,
            user_ns: 500 * TICK,
            system_ns: 2_000 * TICK,
            tick_ns: TICK,
            calls: 3_000_000,
            timed: 190_000,
            calls_ns: 7_500_000_000,
            ..SplitEvidence::default()
        };
        let split = evidence.split();
        assert_eq!(
            (split.kernel, split.split.method.as_str(), split.split.samples),
            (8_000_000_000, "scheduler", 2_500)
        );
        assert_eq!(split.user + split.kernel, evidence.cpu_ns);
    }

    #[test]
    fn a_short_run_of_long_calls_is_split_by_timing() {
        let evidence = SplitEvidence {
            cpu_ns: 40_000_000,
            user_ns: 3 * TICK,
            system_ns: 7 * TICK,
            tick_ns: TICK,
            calls: 5_000,
            timed: 312,
            calls_ns: 30_000_000,
            ..SplitEvidence::default()
        };
        let split = evidence.split();
        assert_eq!((split.kernel, split.split.method.as_str(), split.split.samples), (30_000_000, "sampled", 312));
    }

    #[test]
    fn a_run_of_nothing_but_short_calls_is_not_taken_for_user_time() {
        let evidence = SplitEvidence {
            cpu_ns: 200_000_000,
            user_ns: 5 * TICK,
            system_ns: 45 * TICK,
            tick_ns: TICK,
            calls: 1_500_000,
            timed: 93_000,
            calls_ns: 60_000_000,
            ..SplitEvidence::default()
        };
        assert_eq!(evidence.split().kernel, 180_000_000);
    }

    #[test]
    fn a_run_of_page_faults_is_not_taken_for_user_time() {
        let evidence = SplitEvidence {
            cpu_ns: 1_000_000_000,
            user_ns: 100 * TICK,
            system_ns: 150 * TICK,
            tick_ns: TICK,
            calls: 20_000,
            timed: 1_250,
            faults: 200_000,
            calls_ns: 150_000_000,
        };
        assert_eq!(evidence.split().kernel, 600_000_000);
    }

    #[test]
    fn no_evidence_leaves_the_time_whole() {
        let split = SplitEvidence { cpu_ns: 1_000, ..SplitEvidence::default() }.split();
        assert_eq!((split.user, split.kernel, split.split.samples), (1_000, 0, 0));
    }
}
