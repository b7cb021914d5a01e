//! An integer distribution that merges exactly: a short sorted list that becomes a histogram as it grows.
//!
//! Both forms count the values per bucket of a histogram with three significant digits, so results do not depend on when the
//! conversion happened.

use crate::limits::SPARSE_VALUES;

/// Values below 2^11 have a bucket each; above, each power of two has half as many. A bucket is thus at most 1/1,024 of its
/// values wide, within the promised 0.1%.
const EXACT_BITS: u32 = 11;

/// Buckets per power of two.
const BUCKETS: usize = 1 << (EXACT_BITS - 1);

/// Counts, exact extremes and sum of `u64` values.
#[derive(Clone, Debug)]
pub(crate) struct Values {
    count: u64,
    sum: u128,
    min: u64,
    max: u64,
    buckets: Buckets,
}

/// Value counts by bucket.
///
/// The histogram holds 8 kB for each power of two with values: latencies from 50 µs to 1 ms take 40 kB, from 10 µs to a second
/// 140 kB, sizes up to 64 kB at most 57 kB. The list is under 8 kB, and empty for a row without operations.
#[derive(Clone, Debug)]
enum Buckets {
    /// By highest value, ascending, with the place of the latest addition because most values recur.
    Sparse(Vec<(u64, u64)>, usize),
    /// By [`index_of`], in blocks of [`BUCKETS`]; blocks without values are empty.
    Dense(Vec<Box<[u64]>>),
}

impl Default for Values {
    fn default() -> Self {
        Self { count: 0, sum: 0, min: u64::MAX, max: 0, buckets: Buckets::Sparse(Vec::new(), 0) }
    }
}

impl Values {
    /// Adds a value `times` times; `times` is at least one.
    #[inline]
    pub(crate) fn record(&mut self, value: u64, times: u64) {
        self.count += times;
        self.sum += u128::from(value) * u128::from(times);
        self.min = self.min.min(value);
        self.max = self.max.max(value);
        self.buckets.add(value, times);
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        self.count += other.count;
        self.sum += other.sum;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
        other.buckets.for_each(|bucket, count| self.buckets.add(bucket, count));
    }

    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// Returns the smallest value, or 0 without values.
    pub(crate) fn min(&self) -> u64 {
        if self.count == 0 { 0 } else { self.min }
    }

    /// Returns the largest value, or 0 without values.
    pub(crate) fn max(&self) -> u64 {
        self.max
    }

    /// Returns the arithmetic mean, or 0 without values.
    pub(crate) fn mean(&self) -> f64 {
        if self.count == 0 { 0.0 } else { self.sum as f64 / self.count as f64 }
    }

    /// Returns nearest-rank quantiles for ascending parts per 10,000, or zeros without values.
    pub(crate) fn quantiles<const N: usize>(&self, per_10_000: [u64; N]) -> [u64; N] {
        let ranks = per_10_000.map(|q| (u128::from(self.count) * u128::from(q)).div_ceil(10_000).max(1));
        let mut found = [self.max; N];
        let mut next = 0;
        let mut seen: u128 = 0;
        self.buckets.for_each(|bucket, count| {
            seen += u128::from(count);
            while next < N && ranks[next] <= seen {
                found[next] = bucket.clamp(self.min(), self.max);
                next += 1;
            }
        });
        found
    }

    /// Returns the values added since an earlier state of this distribution, with the extremes of their buckets.
    pub(crate) fn since(&self, earlier: &Self) -> Self {
        let mut before = Vec::new();
        earlier.buckets.for_each(|bucket, count| before.push((bucket, count)));
        let mut before = before.into_iter().peekable();
        let mut since = Self::default();
        self.buckets.for_each(|bucket, count| {
            while before.next_if(|(known, _)| *known < bucket).is_some() {}
            let known = before.next_if(|(known, _)| *known == bucket).map_or(0, |(_, count)| count);
            if count > known {
                since.record(bucket, count - known);
            }
        });
        since
    }

    /// Returns the number of values up to each ascending bound, as exactly as [`Values::quantiles`].
    pub(crate) fn counts_within<const N: usize>(&self, bounds: &[u64; N]) -> [u64; N] {
        let mut counts = [0; N];
        let (mut next, mut seen) = (0, 0);
        self.buckets.for_each(|bucket, count| {
            while next < N && highest_equivalent(bounds[next]) < bucket {
                counts[next] = seen;
                next += 1;
            }
            seen += count;
        });
        counts[next..].fill(seen);
        counts
    }
}

impl Buckets {
    #[inline]
    fn add(&mut self, value: u64, count: u64) {
        match self {
            Self::Sparse(list, last) => {
                let bucket = highest_equivalent(value);
                match list.get_mut(*last) {
                    Some(entry) if entry.0 == bucket => entry.1 += count,
                    _ => self.add_elsewhere(bucket, count),
                }
            }
            Self::Dense(blocks) => {
                let index = index_of(value);
                match blocks.get_mut(index / BUCKETS).and_then(|block| block.get_mut(index % BUCKETS)) {
                    Some(place) => *place += count,
                    None => grow(blocks, index, count),
                }
            }
        }
    }

    fn add_elsewhere(&mut self, bucket: u64, count: u64) {
        let Self::Sparse(list, last) = self else { return };
        match list.binary_search_by_key(&bucket, |entry| entry.0) {
            Ok(at) => {
                list[at].1 += count;
                *last = at;
            }
            Err(at) if list.len() < SPARSE_VALUES => {
                list.insert(at, (bucket, count));
                *last = at;
            }
            Err(_) => {
                let mut dense = Self::Dense(Vec::new());
                for &(bucket, count) in list.iter().chain([&(bucket, count)]) {
                    dense.add(bucket, count);
                }
                *self = dense;
            }
        }
    }

    /// Visits every non-empty bucket by its highest value, in ascending order.
    fn for_each(&self, mut visit: impl FnMut(u64, u64)) {
        match self {
            Self::Sparse(list, _) => list.iter().for_each(|&(bucket, count)| visit(bucket, count)),
            Self::Dense(blocks) => {
                for (first, block) in (0..).step_by(BUCKETS).zip(blocks) {
                    let filled = block.iter().enumerate().filter(|&(_, &count)| count > 0);
                    filled.for_each(|(index, &count)| visit(highest_at(first + index), count));
                }
            }
        }
    }
}

/// Adds to a bucket in a block that the histogram lacks so far.
#[cold]
fn grow(blocks: &mut Vec<Box<[u64]>>, index: usize, count: u64) {
    let number = index / BUCKETS;
    if number >= blocks.len() {
        blocks.resize_with(number + 1, Box::default);
    }
    let mut block = vec![0; BUCKETS];
    block[index % BUCKETS] = count;
    blocks[number] = block.into_boxed_slice();
}

/// Returns the number of low bits that a bucket ignores for this value.
#[inline]
const fn width_bits(value: u64) -> u32 {
    (u64::BITS - value.leading_zeros()).saturating_sub(EXACT_BITS)
}

/// Returns the largest value that shares a bucket with `value`.
#[inline]
const fn highest_equivalent(value: u64) -> u64 {
    value | ((1 << width_bits(value)) - 1)
}

/// Returns the bucket index of `value`; buckets are in value order.
#[inline]
const fn index_of(value: u64) -> usize {
    let bits = width_bits(value);
    (value >> bits) as usize + bits as usize * BUCKETS
}

const fn highest_at(index: usize) -> u64 {
    let bits = (index / BUCKETS).saturating_sub(1);
    let value = (index - bits * BUCKETS) as u64;
    (value << bits) | ((1 << bits) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Generates latencies and sizes: small, large, and at bucket edges.
    fn values() -> impl Strategy<Value = Vec<u64>> {
        let value =
            prop_oneof![0_u64..3_000, 1_000_000..2_000_000_000_u64, (0_u32..63).prop_map(|bit| 1 << bit), any::<u64>()];
        proptest::collection::vec(value, 1..1_500)
    }

    fn filled(values: &[u64]) -> Values {
        let mut distribution = Values::default();
        for &value in values {
            distribution.record(value, 1);
        }
        distribution
    }

    const QUANTILES: [u64; 5] = [5_000, 9_000, 9_900, 9_990, 9_999];

    proptest! {
        #[test]
        fn buckets_are_those_of_the_histogram(value in any::<u64>()) {
            let histogram = hdrhistogram::Histogram::<u64>::new_with_bounds(1, u64::MAX, 3).unwrap();
            let top = highest_equivalent(value);
            prop_assert!(histogram.equivalent(value, top));
            prop_assert!(top == u64::MAX || !histogram.equivalent(value, top + 1));
            prop_assert_eq!(highest_at(index_of(value)), top);
            prop_assert!(top == u64::MAX || index_of(top + 1) == index_of(top) + 1);
        }

        #[test]
        fn quantiles_are_nearest_rank_within_a_thousandth(mut values in values()) {
            let distribution = filled(&values);
            values.sort_unstable();
            for (q, found) in QUANTILES.into_iter().zip(distribution.quantiles(QUANTILES)) {
                let rank = (values.len() as u64 * q).div_ceil(10_000).max(1);
                let exact = values[rank as usize - 1];
                prop_assert!(found >= exact && found <= *values.last().unwrap());
                prop_assert!((found - exact) as f64 <= exact as f64 * 0.001, "q {} is {}, not {}", q, found, exact);
            }
            prop_assert_eq!((distribution.min(), distribution.max()), (values[0], *values.last().unwrap()));
        }

        #[test]
        fn counts_within_bounds_are_exact_within_a_thousandth(values in values(), mut bounds in any::<[u64; 5]>()) {
            bounds.sort_unstable();
            let counts = filled(&values).counts_within(&bounds);
            for (bound, count) in bounds.into_iter().zip(counts) {
                let up_to = |bound: u64| values.iter().filter(|value| **value <= bound).count() as u64;
                prop_assert!(count >= up_to(bound) && count <= up_to(bound.saturating_add(bound / 1_000)));
            }
        }

        #[test]
        fn merging_equals_recording(values in values(), cut in 0_usize..1_500) {
            let (left, right) = values.split_at(cut.min(values.len()));
            let whole = filled(&values).quantiles(QUANTILES);
            let mut merged = filled(right);
            merged.merge(&filled(left));
            prop_assert_eq!(merged.quantiles(QUANTILES), whole);
        }
    }

    #[test]
    fn the_largest_values_of_all_are_counted() {
        let many: Vec<u64> = (0..2 * SPARSE_VALUES as u64).map(|n| u64::MAX - (n << 54)).collect();
        let distribution = filled(&many);
        assert!(matches!(distribution.buckets, Buckets::Dense(_)));
        assert_eq!(distribution.quantiles([10_000]), [u64::MAX]);
        assert_eq!((distribution.count(), distribution.max()), (many.len() as u64, u64::MAX));
        let mut counted = 0;
        distribution.buckets.for_each(|_, count| counted += count);
        assert_eq!(counted, distribution.count());
    }

    #[test]
    fn nothing_recorded_reads_as_zeros() {
        let empty = Values::default();
        assert_eq!((empty.min(), empty.max(), empty.quantiles([5_000, 9_999])), (0, 0, [0, 0]));
    }
}
