//! Cumulative latency counts: operations within 1 ms, 2 ms, …

use super::distribution::Values;
use overhead_model::record::Within;

/// Time limits for the counts, in units of 10 µs: familiar steps up to 100 s.
const BOUNDS: [u64; 30] = [
    1, 2, 5, 10, 20, 50, 100, 200, 300, 400, 500, 600, 700, 800, 900, 1_000, 2_000, 3_000, 4_000, 5_000, 10_000,
    20_000, 50_000, 100_000, 200_000, 500_000, 1_000_000, 2_000_000, 5_000_000, 10_000_000,
];

/// Returns the count of values within each limit, from the first that includes any to the first that includes all.
pub(super) fn within(values: &Values) -> Vec<Within> {
    let mut bounds_ns = [u64::MAX; BOUNDS.len() + 1];
    bounds_ns.iter_mut().zip(BOUNDS).for_each(|(ns, bound)| *ns = bound * 10_000);
    let counts = values.counts_within(&bounds_ns);
    let all = bounds_ns.into_iter().zip(counts).map(|(ns, count)| Within { ns, count });
    let mut some: Vec<Within> = all.filter(|within| within.count > 0).collect();
    let whole = some.iter().position(|within| within.count == values.count());
    some.truncate(whole.map_or(some.len(), |at| at + 1));
    // For values beyond every limit, use the largest.
    if let Some(last) = some.last_mut().filter(|last| last.ns == u64::MAX) {
        last.ns = values.max();
    }
    some
}
