//! Extrapolates from windows of a capture to its whole time: ratio estimates with windows as clusters.
//!
//! Each estimate is a ratio over the whole time, such as operations per second or bytes per operation. For window `i` of `k`,
//! let `x` be the numerator and `n` the denominator. The estimate is `R = Σx / Σn`, with linearised variance (Cochran,
//! *Sampling Techniques*, 6.4 and 9.2):
//!
//! ```text
//! (1 - f) · k / (k - 1) · Σ (x - R n)² / (Σ n)²        f: share of the time that was covered
//! ```
//!
//! Operations in one window resemble one another, so the number of windows, not operations, determines the error. A few
//! windows can be alike by chance, so totals have at least the error of random arrivals: the variance of a count is the count.
//! No window shows whether the load lasted the whole run. If it started at any time before the first
//! window, with equal chance, and ended so after the last, its total has a further variance of `R² · Σ u² / 3`, where `u` are
//! the times before the first window and after the last. The interval takes this part with its own quantile, since more windows
//! would not tell more about it.
//! The code keeps only sums over windows, so a capture of months takes no more memory than one of minutes.

use crate::compare::quantile;
use overhead_model::record::{AccountEstimate, Estimate, Measured, OperationRow, RowEstimates, Sample};
use overhead_model::{Account, Class, Run, Side};
use std::collections::BTreeMap;

/// Totals of a window apart from its operations.
#[derive(Clone, Copy, Debug, Default)]
pub struct WindowTotals {
    /// Length in nanoseconds.
    pub covered_ns: u64,
    /// Number of frames.
    pub frames: u64,
    /// Bytes of frames on the wire.
    pub wire_bytes: u64,
}

/// The sum of two equally distributed times at the ends is below this many of its standard errors, in 95% of cases.
const ENDS_QUANTILE: f64 = 2.062;

/// Sums over windows for a ratio of `x` to `n`.
#[derive(Clone, Copy, Debug, Default)]
struct Ratio {
    x: f64,
    n: f64,
    xx: f64,
    nn: f64,
    nx: f64,
}

impl Ratio {
    fn add(&mut self, x: f64, n: f64) {
        self.x += x;
        self.n += n;
        self.xx += x * x;
        self.nn += n * n;
        self.nx += n * x;
    }

    /// Returns the estimate over `windows`, `with` of them non-empty, covering a share `f` of the whole. The variance of `x`
    /// is at least `least`; `ends` is the relative variance for the ends of the whole that no window shows.
    fn estimate(&self, windows: u64, with: u64, f: f64, [least, ends]: [f64; 2]) -> Measured<Estimate> {
        if self.n <= 0.0 {
            return Measured::unavailable("no window contains a complete one");
        }
        if with < 2 {
            return Measured::unavailable("seen in only one window, which has no spread: capture longer");
        }
        let value = self.x / self.n;
        // Rounding can make a difference of large sums negative.
        let squares = (self.xx - 2.0 * value * self.nx + value * value * self.nn).max(0.0);
        let k = windows as f64;
        let variance = (1.0 - f).max(0.0) * (k / (k - 1.0) * squares).max(least);
        let (error, ends_error) = (variance.sqrt() / self.n, ends.sqrt() * value);
        let quantile = quantile((with - 1) as f64).unwrap_or(f64::INFINITY);
        let sampled = if error > 0.0 { quantile * error } else { 0.0 };
        let margin = sampled.hypot(ENDS_QUANTILE * ends_error);
        let standard_error = error.hypot(ends_error);
        Measured::Value(Estimate { value, standard_error, low: (value - margin).max(0.0), high: value + margin })
    }
}

type ClusterKey = (String, Class, String, String);

fn key(row: &OperationRow) -> ClusterKey {
    (row.protocol.clone(), row.class, row.name.clone(), row.via.clone())
}

/// Sums over the windows that contain a row.
#[derive(Clone, Copy, Debug, Default)]
struct RowClusters {
    windows: u64,
    rate: Ratio,
    request: Ratio,
    response: Ratio,
    latency: Ratio,
    errors: Ratio,
    accounts: [[Ratio; Account::COUNT]; 2],
}

/// Sums over the windows of a sampled capture, for the run and for each row.
#[derive(Clone, Debug, Default)]
pub struct Clusters {
    windows: u64,
    covered_ns: u64,
    frames: Ratio,
    wire_bytes: Ratio,
    rows: BTreeMap<ClusterKey, RowClusters>,
    /// The rows at the end of the last window.
    before: BTreeMap<ClusterKey, OperationRow>,
    cut: u64,
}

impl Clusters {
    /// Adds a window: the run's rows with operations entirely within it (`whole`), and including those cut by its end (`all`).
    pub fn add(&mut self, totals: WindowTotals, whole: &[OperationRow], all: Vec<OperationRow>) {
        let seconds = totals.covered_ns as f64 / 1e9;
        self.windows += 1;
        self.covered_ns += totals.covered_ns;
        self.frames.add(totals.frames as f64, seconds);
        self.wire_bytes.add(totals.wire_bytes as f64, seconds);
        let whole: BTreeMap<ClusterKey, &OperationRow> = whole.iter().map(|row| (key(row), row)).collect();
        let after: BTreeMap<ClusterKey, OperationRow> = all.into_iter().map(|row| (key(&row), row)).collect();
        for (key, all) in &after {
            let before = self.before.get(key);
            let whole = whole.get(key).copied().or(before);
            self.cut += all.unanswered.saturating_sub(whole.map_or(0, |row| row.unanswered));
            // Count an operation in the window where it starts. Window ends cut connections artificially, so count only whole operations
            // outside the workload.
            let count = |row: Option<&OperationRow>| row.map_or(0.0, |row| row.count as f64);
            let begun = count(if key.1 == Class::Workload { Some(all) } else { whole }) - count(before);
            let of = |figure: &dyn Fn(&OperationRow) -> f64| {
                (whole.map_or(0.0, figure) - before.map_or(0.0, figure)).max(0.0)
            };
            let samples = of(&|row| row.samples() as f64);
            if begun <= 0.0 && samples <= 0.0 {
                continue;
            }
            let row = self.rows.entry(key.clone()).or_default();
            row.windows += 1;
            row.rate.add(begun, seconds);
            row.request.add(of(&|row| row.request.wire_bytes.total as f64), samples);
            row.response.add(of(&|row| row.response.wire_bytes.total as f64), samples);
            let latencies = |row: &OperationRow| row.latency_ns.or_empty();
            let time = of(&|row| latencies(row).mean * latencies(row).count as f64);
            row.latency.add(time, of(&|row| latencies(row).count as f64));
            row.errors.add(of(&|row| row.errors as f64), of(&|row| row.count as f64));
            for (side, ratios) in Side::BOTH.into_iter().zip(&mut row.accounts) {
                for (account, ratio) in Account::ALL.into_iter().zip(ratios) {
                    let bytes = |row: &OperationRow| [&row.request, &row.response][side as usize].accounts[account];
                    ratio.add(of(&|row| bytes(row) as f64), samples);
                }
            }
        }
        self.before = after;
    }

    /// Adds `windows` windows of this length without frames.
    pub fn add_empty(&mut self, covered_ns: u64, windows: u64) {
        self.windows += windows;
        self.covered_ns += covered_ns.saturating_mul(windows);
        let seconds = covered_ns as f64 / 1e9;
        for ratio in [&mut self.frames, &mut self.wire_bytes] {
            ratio.n += seconds * windows as f64;
            ratio.nn += seconds * seconds * windows as f64;
        }
    }

    /// Stores the estimates in the record. `sample` describes the windows' placement; this function sets its totals over
    /// windows. `unseen_ns` are the times before the first window and after the last.
    pub fn report(&self, run: &mut Run, mut sample: Sample, unseen_ns: [u64; 2]) {
        let f = if sample.span_ns == 0 { 1.0 } else { (self.covered_ns as f64 / sample.span_ns as f64).min(1.0) };
        (sample.windows, sample.covered_ns, sample.covered_share) = (self.windows, self.covered_ns, f);
        sample.cut_operations = self.cut;
        let squares: f64 = unseen_ns.iter().map(|ns| (*ns as f64 / sample.span_ns.max(1) as f64).powi(2)).sum();
        let rate = |ratio: &Ratio, least: f64| ratio.estimate(self.windows, self.windows, f, [least, squares / 3.0]);
        let seconds = sample.span_ns as f64 / 1e9;
        let total = |rate: &Measured<Estimate>| match rate {
            Measured::Value(rate) => Measured::Value(rate.scaled(seconds)),
            absent @ Measured::Unavailable { .. } => absent.clone(),
        };
        sample.frames_per_second = rate(&self.frames, self.frames.x);
        sample.frames = total(&sample.frames_per_second);
        let each_frame = self.wire_bytes.x / self.frames.x.max(1.0);
        sample.wire_bytes_per_second = rate(&self.wire_bytes, self.wire_bytes.x * each_frame);
        sample.wire_bytes = total(&sample.wire_bytes_per_second);
        run.sample = Some(sample);
        for row in &mut run.operations {
            let found = self.rows.get(&key(row)).copied().unwrap_or_default();
            // Windows without frames still contribute their time.
            let per_second = rate(&Ratio { n: self.frames.n, nn: self.frames.nn, ..found.rate }, found.rate.x);
            let of = |ratio: Ratio| ratio.estimate(self.windows, found.windows, f, [0.0; 2]);
            row.sampled = Some(RowEstimates {
                windows: found.windows,
                count: total(&per_second),
                per_second,
                request_wire_bytes: of(found.request),
                response_wire_bytes: of(found.response),
                latency_ns: of(found.latency),
                error_share: of(found.errors),
                accounts: Side::BOTH
                    .into_iter()
                    .zip(found.accounts)
                    .flat_map(|(side, ratios)| Account::ALL.into_iter().zip(ratios).map(move |of| (side, of)))
                    .filter(|(_, (_, ratio))| ratio.x > 0.0)
                    .map(|(side, (account, ratio))| AccountEstimate { side, account, bytes: of(ratio) })
                    .collect(),
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three windows: R = 60 / 6 = 10, residuals -2, 0, 2, so 1.5 · 8 / 36 = 1/3 with nothing covered, and 4.302653 of the
    /// tables for two degrees of freedom.
    #[test]
    fn the_ratio_and_its_error_are_those_of_the_book() {
        let mut ratio = Ratio::default();
        for (x, n) in [(8.0, 1.0), (20.0, 2.0), (32.0, 3.0)] {
            ratio.add(x, n);
        }
        let found = ratio.estimate(3, 3, 0.0, [0.0; 2]);
        let found = found.value().unwrap();
        assert!((found.value - 10.0).abs() < 1e-12);
        assert!((found.standard_error - (1.0_f64 / 3.0).sqrt()).abs() < 1e-9, "{found:?}");
        assert!((found.high - 10.0 - 4.302_653 * (1.0_f64 / 3.0).sqrt()).abs() < 1e-5, "{found:?}");
    }

    /// 4 windows of 1 s with 400 operations each: sqrt(1,600) / 4 = 10 a second with nothing covered, times 3.182446.
    #[test]
    fn equal_windows_have_the_error_of_random_arrivals() {
        let mut ratio = Ratio::default();
        (0..4).for_each(|_| ratio.add(400.0, 1.0));
        let found = *ratio.estimate(4, 4, 0.0, [ratio.x, 0.0]).value().unwrap();
        assert!((found.standard_error - 10.0).abs() < 1e-9, "{found:?}");
        assert!((found.low - 368.175_54).abs() < 1e-4, "{found:?}");
        assert!((found.scaled(12.0).high - 12.0 * 431.824_46).abs() < 1e-3, "{found:?}");
    }

    /// 2 s before the first window and 1 s after the last, of 10 s: sqrt(5 / 3) / 10 of the estimate, next to the 10 of above.
    #[test]
    fn ends_that_no_window_shows_add_to_the_error() {
        let mut ratio = Ratio::default();
        (0..4).for_each(|_| ratio.add(400.0, 1.0));
        let found = *ratio.estimate(4, 4, 0.0, [ratio.x, 0.05 / 3.0]).value().unwrap();
        let wanted = (100.0_f64 + 400.0_f64.powi(2) * 0.05 / 3.0).sqrt();
        assert!((found.standard_error - wanted).abs() < 1e-9, "{found:?}");
    }

    #[test]
    fn what_was_seen_whole_has_no_error() {
        let mut ratio = Ratio::default();
        for (x, n) in [(8.0, 1.0), (20.0, 2.0)] {
            ratio.add(x, n);
        }
        let found = ratio.estimate(2, 2, 1.0, [28.0, 0.0]);
        assert!(found.value().unwrap().standard_error <= 0.0);
    }

    #[test]
    fn one_window_has_no_spread_and_says_so() {
        let mut ratio = Ratio::default();
        ratio.add(8.0, 1.0);
        assert!(ratio.estimate(1, 1, 0.1, [8.0, 0.0]).reason().unwrap().contains("one window"));
        assert!(Ratio::default().estimate(3, 0, 0.1, [0.0; 2]).reason().is_some());
    }
}
