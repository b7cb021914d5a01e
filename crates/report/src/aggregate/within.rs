//! Cumulative latency counts: operations within 1 ms, 2 ms, …

use super::distribution::Values;
use overhead_model::record::Within;

/// Time limits for the counts, in familiar steps from 10 µs to 100 s.
const BOUNDS_NS: [u64; 31] = {
    const US: u64 = 1_000;
    const MS: u64 = 1_000_000;
    [
        10 * US,
        20 * US,
        50 * US,
        100 * US,
        200 * US,
        500 * US,
        MS,
        2 * MS,
        3 * MS,
        4 * MS,
        5 * MS,
        6 * MS,
        7 * MS,
        8 * MS,
        9 * MS,
        10 * MS,
        20 * MS,
        30 * MS,
        40 * MS,
        50 * MS,
        100 * MS,
        200 * MS,
        500 * MS,
        1_000 * MS,
        2_000 * MS,
        5_000 * MS,
        10_000 * MS,
        20_000 * MS,
        50_000 * MS,
        100_000 * MS,
        u64::MAX,
    ]
};

/// Returns the count of values within each limit, from the first that includes any to the first that includes all.
pub(super) fn within(values: &Values) -> Vec<Within> {
    let counts = values.counts_within(&BOUNDS_NS);
    let all = BOUNDS_NS.into_iter().zip(counts).map(|(ns, count)| Within { ns, count });
    let mut some: Vec<Within> = all.filter(|within| within.count > 0).collect();
    let whole = some.iter().position(|within| within.count == values.count());
    some.truncate(whole.map_or(some.len(), |at| at + 1));
    // For values beyond every limit, use the largest.
    if let Some(last) = some.last_mut().filter(|last| last.ns == u64::MAX) {
        last.ns = values.max();
    }
    some
}
