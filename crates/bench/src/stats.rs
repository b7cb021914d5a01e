//! Latencies and errors per client, their sums, and the CPU time of this process.

use anyhow::{Context, Result};
use hdrhistogram::Histogram;
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use overhead_model::load::LoadCpu;
use overhead_model::record::Latency;
use std::time::Duration;

/// Histogram precision: 0.1%, as everywhere in the record.
const SIGNIFICANT_DIGITS: u8 = 3;

/// Upper bound of the histogram. Slower servers count as silent.
const LONGEST_NS: u64 = 3_600_000_000_000;

/// Results of one client.
#[derive(Debug)]
pub struct ClientTally {
    latencies: Histogram<u64>,
    sum_ns: u128,
    max_ns: u64,
    min_ns: u64,
    /// Correct answers.
    pub operations: u64,
    pub faults: Faults,
}

/// Operations answered with an error or the wrong row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    pub count: u64,
    /// Message of the first one.
    pub first: Option<String>,
}

impl Faults {
    pub fn add(&mut self, what: impl std::fmt::Display) {
        self.count += 1;
        if self.first.is_none() {
            self.first = Some(what.to_string());
        }
    }

    /// Adds `count` faults of one kind.
    pub fn add_all(&mut self, count: usize, what: impl std::fmt::Display) {
        if count > 0 {
            self.add(what);
            self.count += count as u64 - 1;
        }
    }
}

impl ClientTally {
    /// `None` only if the histogram bounds were invalid.
    pub fn new() -> Option<Self> {
        let latencies = Histogram::new_with_bounds(1, LONGEST_NS, SIGNIFICANT_DIGITS).ok()?;
        Some(Self { latencies, sum_ns: 0, max_ns: 0, min_ns: u64::MAX, operations: 0, faults: Faults::default() })
    }

    /// Records `count` operations of this latency.
    #[inline]
    pub fn record(&mut self, latency: Duration, count: u64) {
        if count == 0 {
            return;
        }
        let nanos = u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX).max(1);
        self.latencies.saturating_record_n(nanos, count);
        self.sum_ns += u128::from(nanos) * u128::from(count);
        self.max_ns = self.max_ns.max(nanos);
        self.min_ns = self.min_ns.min(nanos);
        self.operations += count;
    }

    /// Adds `count` faults, and takes their message.
    #[inline]
    pub fn record_faults(&mut self, count: u64, faults: &mut Faults) {
        if count > 0 {
            self.faults.count += count;
            let first = faults.first.take();
            self.faults.first = self.faults.first.take().or(first);
        }
    }

    /// Adds another client's tally.
    pub fn merge(&mut self, other: &Self) {
        // Both have the same bounds.
        let _ = self.latencies.add(&other.latencies);
        self.sum_ns += other.sum_ns;
        self.max_ns = self.max_ns.max(other.max_ns);
        self.min_ns = self.min_ns.min(other.min_ns);
        self.operations += other.operations;
        self.record_faults(other.faults.count, &mut other.faults.clone());
    }

    /// Returns the distribution for the record; zeros without operations.
    pub fn latency(&self) -> Latency {
        if self.operations == 0 {
            return Latency::default();
        }
        let at = |quantile| self.latencies.value_at_quantile(quantile).clamp(self.min_ns, self.max_ns);
        Latency {
            count: self.operations,
            mean: self.sum_ns as f64 / self.operations as f64,
            min: self.min_ns,
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            p999: at(0.999),
            p9999: at(0.9999),
            max: self.max_ns,
        }
    }
}

/// Returns the CPU time of all threads since the start. The sum is exact; the kernel samples how it splits.
pub fn cpu() -> Result<LoadCpu> {
    let usage = getrusage(UsageWho::RUSAGE_SELF).context("the CPU time of this process cannot be read")?;
    let nanos = |time: nix::sys::time::TimeVal| time.num_nanoseconds().unsigned_abs();
    Ok(LoadCpu { user: nanos(usage.user_time()), kernel: nanos(usage.system_time()) })
}

/// Returns the CPU time since an earlier reading.
pub fn cpu_since(before: LoadCpu) -> Result<LoadCpu> {
    let now = cpu()?;
    Ok(LoadCpu { user: now.user.saturating_sub(before.user), kernel: now.kernel.saturating_sub(before.kernel) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_within_a_thousandth() {
        let mut left = ClientTally::new().unwrap();
        let mut right = ClientTally::new().unwrap();
        for n in 1..=10_000_u64 {
            let half = if n % 2 == 0 { &mut left } else { &mut right };
            half.record(Duration::from_nanos(n * 1000), 1);
        }
        left.merge(&right);
        let latency = left.latency();
        assert_eq!((latency.count, latency.min, latency.max), (10_000, 1000, 10_000_000));
        assert!((latency.mean - 5_000_500.0).abs() < 1e-6);
        for (found, exact) in [
            (latency.p50, 5_000_000.0),
            (latency.p90, 9_000_000.0),
            (latency.p99, 9_900_000.0),
            (latency.p999, 9_990_000.0),
            (latency.p9999, 9_999_000.0),
        ] {
            assert!((found as f64 / exact - 1.0).abs() <= 0.001, "{found} {exact}");
        }
    }

    #[test]
    fn a_pipeline_counts_each_of_its_operations() {
        let mut tally = ClientTally::new().unwrap();
        tally.record(Duration::from_micros(10), 50);
        tally.record(Duration::from_micros(10), 0);
        assert_eq!((tally.operations, tally.latency().count), (50, 50));
    }

    #[test]
    fn nothing_seen_reads_as_zeros() {
        assert_eq!(ClientTally::new().unwrap().latency(), Latency::default());
    }

    #[test]
    fn the_first_fault_is_kept() {
        let mut faults = Faults::default();
        faults.add_all(0, "none");
        faults.add_all(3, "first");
        faults.add("second");
        assert_eq!(faults, Faults { count: 4, first: Some("first".to_owned()) });
    }
}
