//! Adds up compositions period by period, as the load changes over a day.

use super::{Composition, KEPT_PER_SHOWN, PartRatios, SideRatios, TrafficPart, WindowSample, interval};
use overhead_model::record::Estimate;
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Parts compete for counters by their bytes in a period, which halve in a day of periods of five minutes: `0.5^(1 / 288)`. So a
/// statement that is no longer used makes room.
const RECENT_FALL: f64 = 0.997_596;

/// How much larger than the smallest part a new one must be to take its place. Without it, a load that never repeats a statement
/// would replace counters in every period; with it, each about once a day.
const DISPLACING: f64 = 2.0;

/// Windows that an interval takes: those that are not empty, and those with the part.
const INTERVAL_WINDOWS: [u64; 2] = [30, 10];

/// Windows of a block. In skewed traffic (80% of the bytes in a tenth of the operations, one in a window), the estimator is biased by 20% with
/// 30 windows, by 1.5% with 300, and by less than 1% with 600.
const BLOCK_WINDOWS: u64 = 600;

/// Sum of the variances of independent estimates.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
struct VarianceSum {
    variance: f64,
    /// Squared variances over their degrees of freedom, for those of the sum (Satterthwaite).
    squares: f64,
}

impl VarianceSum {
    /// Returns the variance of ratios times bytes.
    fn new(ratios: &SideRatios, freedom: f64, bytes: [f64; 2]) -> Self {
        let variance = ratios.variance(bytes);
        Self { variance, squares: variance * variance / freedom }
    }

    /// Returns the variance of the sum with an independent estimate.
    fn with(self, other: Self) -> Self {
        Self { variance: self.variance + other.variance, squares: self.squares + other.squares }
    }

    /// Adds a sum that may be correlated with this one, as if it were so completely.
    fn add_correlated(&mut self, other: Self) {
        let before = self.variance;
        self.variance = (self.variance.sqrt() + other.variance.sqrt()).powi(2);
        let grown = if before + other.variance > 0.0 { self.variance / (before + other.variance) } else { 1.0 };
        self.squares = (self.squares + other.squares) * grown * grown;
    }

    fn estimate(&self, value: f64, most: f64) -> Estimate {
        let freedom = if self.squares > 0.0 { self.variance * self.variance / self.squares } else { 1.0 };
        // Differences of estimates may have none that make sense.
        // Without a variance, it is no number.
        let freedom = if freedom.is_nan() { 1.0 } else { freedom.clamp(1.0, 1e6) };
        let mut estimate = interval(value, self.variance.sqrt(), freedom);
        estimate.high = estimate.high.min(most);
        estimate
    }
}

/// What windows show of a part.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
struct PartEstimate {
    bytes: [f64; 2],
    bytes_error: VarianceSum,
    operations: f64,
    operations_error: VarianceSum,
    /// Number of windows with the part.
    windows: u64,
}

impl PartEstimate {
    fn new(ratios: &PartRatios, bytes: [f64; 2]) -> Self {
        let PartRatios { bytes: shares, operations, freedom, windows, .. } = ratios;
        Self {
            bytes: [0, 1].map(|side| shares.values[side] * bytes[side]),
            bytes_error: VarianceSum::new(shares, *freedom, bytes),
            operations: operations.values[0] * bytes[0] + operations.values[1] * bytes[1],
            operations_error: VarianceSum::new(operations, *freedom, bytes),
            windows: *windows,
        }
    }

    /// Returns the sum with an estimate from other windows.
    fn with(self, other: Self) -> Self {
        Self {
            bytes: [0, 1].map(|side| self.bytes[side] + other.bytes[side]),
            bytes_error: self.bytes_error.with(other.bytes_error),
            operations: self.operations + other.operations,
            operations_error: self.operations_error.with(other.operations_error),
            windows: self.windows + other.windows,
        }
    }

    /// Returns what was added since an earlier estimate of the same block. A smaller error counts as none.
    fn since(self, before: &Self) -> Self {
        let error = |now: VarianceSum, before: VarianceSum| VarianceSum {
            variance: (now.variance - before.variance).max(0.0),
            squares: (now.squares - before.squares).max(0.0),
        };
        Self {
            bytes: [0, 1].map(|side| self.bytes[side] - before.bytes[side]),
            bytes_error: error(self.bytes_error, before.bytes_error),
            operations: self.operations - before.operations,
            operations_error: error(self.operations_error, before.operations_error),
            windows: self.windows.saturating_sub(before.windows),
        }
    }

    /// Adds the estimate of another part.
    fn absorb(&mut self, other: Self) {
        self.bytes.iter_mut().zip(other.bytes).for_each(|(sum, bytes)| *sum += bytes);
        self.operations += other.operations;
        self.bytes_error.add_correlated(other.bytes_error);
        self.operations_error.add_correlated(other.operations_error);
        self.windows = self.windows.max(other.windows);
    }
}

/// Sums of a part over periods.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
struct PartSums {
    /// These counters follow the estimates, but never fall.
    wire_bytes: [u64; 2],
    operations: f64,
    /// Of the blocks that have ended, and of the current one.
    settled: PartEstimate,
    block: PartEstimate,
    /// The most bytes in a period, falling by [`RECENT_FALL`].
    recent: f64,
    since: u64,
}

impl PartSums {
    /// Adds another part's sums.
    fn absorb(&mut self, other: &Self) {
        for (sum, bytes) in self.wire_bytes.iter_mut().zip(other.wire_bytes) {
            *sum = sum.saturating_add(bytes);
        }
        self.operations += other.operations;
        self.settled.absorb(other.settled);
        self.block.absorb(other.block);
    }
}

/// The counters of a part.
#[derive(Clone, Debug, PartialEq)]
pub struct PartTotal {
    /// What the counters belong to.
    pub part: TrafficPart,
    /// All parts add up to the exact totals.
    pub wire_bytes: u64,
    /// `wire_bytes` of requests and of responses.
    pub sides: [u64; 2],
    /// `wire_bytes` with its error.
    pub bytes: Estimate,
    /// Number of operations.
    pub operations: Estimate,
    /// Whether the intervals of `bytes` and `operations` hold as often as they should: at least 30 windows were not empty, and at least
    /// 10 had the part.
    pub has_interval: bool,
    /// Number of periods before the counters started. Earlier bytes, if any, are in [`TrafficPart::Other`].
    pub since: u64,
}

/// Counters of a server's parts over periods, each with its own composition and exact total. They never fall.
///
/// At most `limit` parts have counters. A new part with twice the bytes of the smallest takes its place, and what the smallest
/// has counted so far is added to [`TrafficPart::Other`].
///
/// Successive periods with at least 600 windows that are not empty are a block with one composition: the ratios of its windows times its
/// exact bytes. Windows of different blocks are independent, so the variances of their estimates add up. In slow traffic, a block has many
/// periods: ratios of the few windows of one would be biased. At each end of a period, the counters follow the estimates as far as
/// they can without a fall, and add up to the exact bytes.
///
/// A block lasts until the next one has two windows. Bytes of periods with fewer than two are counted in [`Self::borrowed_bytes`],
/// because whether their composition is that of the block is unknown. Bytes before the first composition are
/// [`TrafficPart::Unknown`].
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CompositionPeriods {
    limit: usize,
    /// Windows of a block.
    #[serde(skip, default = "block_windows")]
    pub(super) least: u64,
    periods: u64,
    total_bytes: u64,
    borrowed_bytes: u64,
    /// Windows of the blocks that have ended, and of all at the last [`CompositionPeriods::clear_latest`].
    windows: [u64; 2],
    block: CompositionBlock,
    /// Windows since the current block has enough.
    next: Composition,
    /// Windows of the current period, and of thin ones right before it.
    new: u64,
    #[serde(with = "overhead_model::pairs")]
    parts: BTreeMap<TrafficPart, PartSums>,
    /// Sums since the last [`CompositionPeriods::clear_latest`], also of parts that have been displaced since.
    #[serde(with = "overhead_model::pairs")]
    latest: BTreeMap<TrafficPart, PartSums>,
}

fn block_windows() -> u64 {
    BLOCK_WINDOWS
}

/// Periods with one composition.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct CompositionBlock {
    composition: Composition,
    /// Exact bytes of each side.
    bytes: [f64; 2],
    periods: f64,
    /// Sum over the periods.
    covered_share: f64,
}

impl CompositionBlock {
    fn new(composition: Composition) -> Self {
        Self { composition, bytes: [0.0; 2], periods: 0.0, covered_share: 0.0 }
    }

    fn is_full(&self, least: u64) -> bool {
        self.composition.windows() >= least
    }
}

impl CompositionPeriods {
    /// Makes counters for at most `limit` parts, before the first period.
    pub fn new(limit: usize) -> Self {
        Self {
            limit,
            least: BLOCK_WINDOWS,
            periods: 0,
            total_bytes: 0,
            borrowed_bytes: 0,
            windows: [0; 2],
            block: CompositionBlock::new(Composition::new(limit)),
            next: Composition::new(limit),
            new: 0,
            parts: BTreeMap::new(),
            latest: BTreeMap::new(),
        }
    }

    /// Changes how many parts have counters. Beyond the limit, the smallest are merged.
    pub fn set_limit(&mut self, limit: usize) {
        (self.limit, self.block.composition.limit, self.next.limit) = (limit, limit, limit);
        while self.parts.keys().filter(|part| part.is_operations()).count() > limit && self.displace(f64::INFINITY) {}
    }

    /// Adds a window of the current period.
    pub fn add_window(&mut self, window: &WindowSample) {
        let composition = if self.block.is_full(self.least) { &mut self.next } else { &mut self.block.composition };
        let before = composition.windows();
        composition.add_window(window);
        self.new += composition.windows() - before;
    }

    /// Returns whether windows show what bytes of a period that ends now are.
    pub fn is_known(&self) -> bool {
        self.block.composition.windows() >= 2 && !self.block.composition.parts.is_empty()
    }

    /// Ends a period with exactly these bytes of requests and of responses. Its windows cover `covered_share` of its time.
    pub fn end_period(&mut self, sides: [u64; 2], covered_share: f64) {
        if self.block.is_full(self.least) && self.next.windows() >= 2 {
            self.windows[0] += self.block.composition.windows();
            let next = std::mem::replace(&mut self.next, Composition::new(self.limit));
            self.block = CompositionBlock::new(next);
            for sums in self.parts.values_mut().chain(self.latest.values_mut()) {
                sums.settled = sums.settled.with(std::mem::take(&mut sums.block));
            }
        }
        let total_bytes = sides[0].saturating_add(sides[1]);
        self.total_bytes = self.total_bytes.saturating_add(total_bytes);
        if self.new < 2 {
            self.borrowed_bytes += total_bytes;
        } else {
            self.new = 0;
        }
        let mut composition = self.block.composition.clone();
        self.block.periods += 1.0;
        self.block.covered_share += covered_share;
        self.admit(&composition, total_bytes as f64);
        composition.fold(|part| self.parts.contains_key(part));
        let mut ratios = if composition.windows() < 2 {
            Vec::new()
        } else {
            composition.ratios(self.block.covered_share / self.block.periods)
        };
        let is_shown = [0, 1].map(|side| ratios.iter().any(|ratios| ratios.bytes.values[side] > 0.0));
        let [known, unknown] =
            [true, false].map(|wanted| [0, 1].map(|side| if is_shown[side] == wanted { sides[side] } else { 0 }));
        self.block.bytes.iter_mut().zip(known).for_each(|(sum, bytes)| *sum += bytes as f64);
        self.post(known, &mut ratios);
        self.post_unknown(unknown);
        self.periods += 1;
    }

    /// Adds bytes whose composition no window shows.
    fn post_unknown(&mut self, sides: [u64; 2]) {
        for parts in [&mut self.parts, &mut self.latest] {
            if sides != [0; 2] {
                let sums = parts.entry(TrafficPart::Unknown).or_default();
                sums.wire_bytes.iter_mut().zip(sides).for_each(|(sum, bytes)| *sum = sum.saturating_add(bytes));
            }
        }
    }

    /// Decides which parts have counters.
    fn admit(&mut self, composition: &Composition, total: f64) {
        let sizes: Vec<_> = composition.largest().into_iter().map(|(part, share)| (part, share * total)).collect();
        self.parts.values_mut().for_each(|sums| sums.recent *= RECENT_FALL);
        for (part, size) in &sizes {
            if let Some(sums) = self.parts.get_mut(part) {
                sums.recent = sums.recent.max(*size);
            }
        }
        let mut room = self.limit.saturating_sub(self.parts.keys().filter(|part| part.is_operations()).count());
        for (part, size) in sizes {
            if self.parts.contains_key(part) {
                continue;
            }
            if room == 0 && !self.displace(size / DISPLACING) {
                break;
            }
            room = room.saturating_sub(1);
            self.parts.insert(part.clone(), PartSums { recent: size, since: self.periods, ..PartSums::default() });
        }
    }

    /// Merges the smallest part if it is smaller than this, and returns whether it did.
    fn displace(&mut self, below: f64) -> bool {
        let own = self.parts.iter().filter(|(part, sums)| part.is_operations() && sums.recent < below);
        let smallest = own.min_by(|a, b| a.1.recent.total_cmp(&b.1.recent)).map(|(part, _)| part.clone());
        let Some(sums) = smallest.and_then(|part| self.parts.remove(&part)) else { return false };
        self.parts.entry(TrafficPart::Other).or_default().absorb(&sums);
        true
    }

    /// Adds the counters of another server to [`TrafficPart::Other`] and [`TrafficPart::Unknown`]. The windows of its current period
    /// are lost.
    pub fn absorb(&mut self, other: Self) {
        self.total_bytes = self.total_bytes.saturating_add(other.total_bytes);
        self.borrowed_bytes = self.borrowed_bytes.saturating_add(other.borrowed_bytes);
        for (own, more) in [(&mut self.parts, other.parts), (&mut self.latest, other.latest)] {
            for (part, sums) in more {
                own.entry(if part.is_operations() { TrafficPart::Other } else { part }).or_default().absorb(&sums);
            }
        }
    }

    /// Adds a period's exact bytes to the counters, so that they follow the estimates.
    fn post(&mut self, known: [u64; 2], ratios: &mut Vec<PartRatios>) {
        for part in self.parts.keys().filter(|part| **part != TrafficPart::Unknown) {
            if ratios.iter().all(|ratios| ratios.part != *part) {
                ratios.push(PartRatios { part: part.clone(), ..PartRatios::NONE });
            }
        }
        let room = self.limit.saturating_mul(KEPT_PER_SHOWN);
        let estimates: Vec<_> = ratios.iter().map(|ratios| PartEstimate::new(ratios, self.block.bytes)).collect();
        let owed = |side: usize| {
            let owed = ratios.iter().zip(&estimates).map(|(ratios, estimate)| {
                let sums = self.parts.get(&ratios.part).copied().unwrap_or_default();
                (sums.settled.bytes[side] + estimate.bytes[side] - sums.wire_bytes[side] as f64).max(0.0)
            });
            let owed: Vec<f64> = owed.collect();
            if owed.iter().sum::<f64>() > 0.0 {
                owed
            } else {
                ratios.iter().map(|ratios| ratios.bytes.values[side]).collect()
            }
        };
        let bytes = [0, 1]
            .map(|side| if known[side] > 0 { apportion(known[side], &owed(side)) } else { vec![0; ratios.len()] });
        for (place, (PartRatios { part, .. }, estimate)) in ratios.drain(..).zip(estimates).enumerate() {
            let sides = [bytes[0][place], bytes[1][place]];
            let has_room = self.latest.len() < room || self.latest.contains_key(&part) || !part.is_operations();
            let latest = if has_room { part.clone() } else { TrafficPart::Other };
            let sums = self.parts.entry(part).or_default();
            let before = *sums;
            sums.block = estimate;
            sums.operations = sums.operations.max(sums.settled.operations + estimate.operations);
            sums.wire_bytes.iter_mut().zip(sides).for_each(|(sum, bytes)| *sum = sum.saturating_add(bytes));
            let grown = sums.operations - before.operations;
            let more = estimate.since(&before.block);
            if sides == [0; 2] && estimate.windows == 0 {
                continue;
            }
            let latest = self.latest.entry(latest).or_default();
            latest.wire_bytes.iter_mut().zip(sides).for_each(|(sum, bytes)| *sum = sum.saturating_add(bytes));
            latest.operations += grown;
            latest.block = latest.block.with(more);
        }
    }

    /// Returns the counters, largest first.
    pub fn totals(&self) -> Vec<PartTotal> {
        totals(&self.parts, self.all_windows())
    }

    /// Returns the sums since the last [`Self::clear_latest`], largest first. A part has them under its own name even if another
    /// has taken its counters since.
    pub fn latest(&self) -> Vec<PartTotal> {
        totals(&self.latest, self.all_windows() - self.windows[1])
    }

    /// Restarts the sums of [`Self::latest`] anew.
    pub fn clear_latest(&mut self) {
        self.latest.clear();
        self.windows[1] = self.all_windows();
    }

    /// Returns the number of windows that estimates are from.
    fn all_windows(&self) -> u64 {
        self.windows[0] + self.block.composition.windows()
    }

    /// Returns the exact bytes of all periods.
    pub fn total_bytes(&self) -> u64 {
        self.total_bytes
    }

    /// Returns the bytes of periods that borrowed a composition.
    pub fn borrowed_bytes(&self) -> u64 {
        self.borrowed_bytes
    }
}

fn totals(parts: &BTreeMap<TrafficPart, PartSums>, windows: u64) -> Vec<PartTotal> {
    let all = parts.values().flat_map(|sums| sums.wire_bytes).sum::<u64>() as f64;
    let total = |(part, sums): (&TrafficPart, &PartSums)| {
        let wire_bytes = sums.wire_bytes.iter().sum();
        let estimate = sums.settled.with(sums.block);
        PartTotal {
            part: part.clone(),
            wire_bytes,
            sides: sums.wire_bytes,
            bytes: estimate.bytes_error.estimate(wire_bytes as f64, all),
            operations: estimate.operations_error.estimate(sums.operations, f64::INFINITY),
            has_interval: [windows, estimate.windows]
                .iter()
                .zip(INTERVAL_WINDOWS)
                .all(|(found, least)| *found >= least),
            since: sums.since,
        }
    };
    let mut totals: Vec<_> = parts.iter().map(total).collect();
    totals.sort_by_key(|total| Reverse(total.wire_bytes));
    totals
}

/// Divides a total in proportion to weights by largest remainder, ties to the earliest.
fn apportion(total: u64, weights: &[f64]) -> Vec<u64> {
    let sum: f64 = weights.iter().sum();
    let exact = |weight: &f64| *weight / sum * total as f64;
    let mut left = total;
    let mut shares: Vec<u64> = Vec::with_capacity(weights.len());
    for weight in weights {
        // The rounded sum of large shares can exceed the total.
        let share = (exact(weight) as u64).min(left);
        left -= share;
        shares.push(share);
    }
    let mut order: Vec<(f64, &mut u64)> = weights.iter().map(|weight| exact(weight).fract()).zip(&mut shares).collect();
    order.sort_by(|a, b| b.0.total_cmp(&a.0));
    let places = order.len().max(1) as u64;
    let (each, more) = (left / places, left % places);
    for ((_, share), place) in order.into_iter().zip(0..) {
        *share += each + u64::from(place < more);
    }
    shares
}
