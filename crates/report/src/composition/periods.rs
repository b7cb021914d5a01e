//! Adds up compositions period by period, as the load changes over a day.

use super::{Composition, KEPT_PER_SHOWN, PartBytes, PartRatios, TrafficPart, interval};
use overhead_model::record::Estimate;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Parts compete for counters by their bytes in a period, which halve in a day of periods of five minutes: `0.5^(1 / 288)`. So a
/// statement that is no longer used makes room.
const RECENT_FALL: f64 = 0.997_596;

/// How much larger than the smallest part a new one must be to take its place. Without it, a load that never repeats a statement
/// would replace counters in every period; with it, each about once a day.
const DISPLACING: f64 = 2.0;

/// Sum of the variances of independent estimates.
#[derive(Clone, Copy, Debug, Default)]
struct VarianceSum {
    variance: f64,
    /// Squared variances over their degrees of freedom, for those of the sum (Satterthwaite).
    squares: f64,
}

impl VarianceSum {
    /// Adds the variance of a ratio times bytes. If the same windows already stood for `from` bytes, their error is the same one,
    /// so the standard error grows with the bytes `to` that they stand for now.
    fn add(&mut self, standard_error: f64, freedom: f64, [from, to]: [f64; 2]) {
        let [from, to] = [from, to].map(|bytes| (standard_error * bytes).powi(2));
        self.variance += to - from;
        self.squares += (to * to - from * from) / freedom;
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
        let mut estimate = interval(value, self.variance.sqrt(), freedom);
        estimate.high = estimate.high.min(most);
        estimate
    }
}

/// Sums of a part over periods.
#[derive(Clone, Copy, Debug, Default)]
struct PartSums {
    wire_bytes: [u64; 2],
    bytes_error: VarianceSum,
    operations: f64,
    operations_error: VarianceSum,
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
        self.bytes_error.add_correlated(other.bytes_error);
        self.operations_error.add_correlated(other.operations_error);
    }
}

/// The counters of a part.
#[derive(Clone, Debug, PartialEq)]
pub struct PartTotal {
    /// What the counters belong to.
    pub part: TrafficPart,
    /// All parts add up to the exact totals.
    pub wire_bytes: u64,
    /// `wire_bytes` of requests and of responses; absent from [`TrafficPart::Unknown`].
    pub sides: Option<[u64; 2]>,
    /// `wire_bytes` with its error.
    pub bytes: Estimate,
    /// Number of operations.
    pub operations: Estimate,
    /// Number of periods before the counters started. Earlier bytes, if any, are in [`TrafficPart::Other`].
    pub since: u64,
}

/// Counters of a server's parts over periods, each with its own composition and exact total. They never fall.
///
/// At most `limit` parts have counters. A new part with twice the bytes of the smallest takes its place, and what the smallest
/// has counted so far is added to [`TrafficPart::Other`].
///
/// Windows of different periods are independent, so the variances of their estimates add up. A period with fewer than two windows
/// with frames borrows a composition: that of its windows and those of the thin periods right before it or, if these are fewer
/// than two as well, the last one that was used. In the latter case its windows are kept for the next period. Periods with the
/// same composition have the same error, so their standard errors add up, not their variances. Whether the composition has
/// changed since is unknown, so these bytes are counted in [`Self::borrowed_bytes`]. Periods before the first composition are
/// [`TrafficPart::Unknown`].
///
/// A period should have about 30 windows. If bursts have a third of the bytes in 3% of the time, that is too few: 95% intervals
/// hold in 91% of simulated hours, and in 96% if the hour is one period.
#[derive(Clone, Debug)]
pub struct CompositionPeriods {
    limit: usize,
    periods: u64,
    total_bytes: u64,
    borrowed_bytes: u64,
    current: Composition,
    /// Windows of `current` from earlier periods.
    carried: u64,
    /// The latest composition that was used, and the bytes that it stands for.
    used: Option<(Composition, f64)>,
    parts: BTreeMap<TrafficPart, PartSums>,
    /// Sums since the last [`CompositionPeriods::clear_latest`], also of parts that have been displaced since.
    latest: BTreeMap<TrafficPart, PartSums>,
}

impl CompositionPeriods {
    /// Makes counters for at most `limit` parts, before the first period.
    pub fn new(limit: usize) -> Self {
        let current = Composition::new(limit);
        Self {
            limit,
            periods: 0,
            total_bytes: 0,
            borrowed_bytes: 0,
            current,
            carried: 0,
            used: None,
            parts: BTreeMap::new(),
            latest: BTreeMap::new(),
        }
    }

    /// Adds a window of the current period, as [`Composition::add_window`].
    pub fn add_window<'a>(&mut self, total_bytes: u64, parts: impl IntoIterator<Item = (&'a TrafficPart, PartBytes)>) {
        self.current.add_window(total_bytes, parts);
    }

    /// Ends a period with exactly `total_bytes`. Its windows cover `covered_share` of its time.
    pub fn end_period(&mut self, total_bytes: u64, covered_share: f64) {
        let is_borrowed = self.current.windows() - self.carried < 2;
        self.carried = self.current.windows();
        if self.carried >= 2 {
            self.carried = 0;
            self.used = Some((std::mem::replace(&mut self.current, Composition::new(self.limit)), 0.0));
        }
        self.total_bytes = self.total_bytes.saturating_add(total_bytes);
        if let Some((mut composition, from)) = self.used.take() {
            let to = from + total_bytes as f64;
            self.admit(&composition, total_bytes as f64);
            composition.fold(|part| self.parts.contains_key(part));
            let ratios = composition.ratios(if is_borrowed { 0.0 } else { covered_share });
            self.post(total_bytes, ratios, [from, to]);
            self.borrowed_bytes += if is_borrowed { total_bytes } else { 0 };
            self.used = Some((composition, to));
        } else {
            for parts in [&mut self.parts, &mut self.latest] {
                let [_, bytes] = &mut parts.entry(TrafficPart::Unknown).or_default().wire_bytes;
                *bytes = bytes.saturating_add(total_bytes);
            }
        }
        self.periods += 1;
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

    fn post(&mut self, total_bytes: u64, ratios: Vec<PartRatios>, range: [f64; 2]) {
        let sides =
            |ratios: &PartRatios| [ratios.request_share, 1.0 - ratios.request_share].map(|of| of * ratios.bytes.value);
        let weights: Vec<f64> = ratios.iter().flat_map(sides).collect();
        let mut bytes = apportion(total_bytes, &weights).into_iter();
        let room = self.limit.saturating_mul(KEPT_PER_SHOWN);
        for PartRatios { part, bytes: ratio, operations, freedom, .. } in ratios {
            let sides = [bytes.next(), bytes.next()].map(Option::unwrap_or_default);
            let has_room = self.latest.len() < room || self.latest.contains_key(&part) || !part.is_operations();
            let latest = if has_room { part.clone() } else { TrafficPart::Other };
            for sums in [self.parts.entry(part).or_default(), self.latest.entry(latest).or_default()] {
                for (sum, bytes) in sums.wire_bytes.iter_mut().zip(sides) {
                    *sum = sum.saturating_add(bytes);
                }
                sums.bytes_error.add(ratio.standard_error, freedom, range);
                sums.operations += operations.value * total_bytes as f64;
                sums.operations_error.add(operations.standard_error, freedom, range);
            }
        }
    }

    /// Returns the counters, largest first.
    pub fn totals(&self) -> Vec<PartTotal> {
        totals(&self.parts)
    }

    /// Returns the sums since the last [`Self::clear_latest`], largest first. A part has them under its own name even if another
    /// has taken its counters since.
    pub fn latest(&self) -> Vec<PartTotal> {
        totals(&self.latest)
    }

    /// Restarts the sums of [`Self::latest`] anew.
    pub fn clear_latest(&mut self) {
        self.latest.clear();
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

fn totals(parts: &BTreeMap<TrafficPart, PartSums>) -> Vec<PartTotal> {
    let all = parts.values().flat_map(|sums| sums.wire_bytes).sum::<u64>() as f64;
    let total = |(part, sums): (&TrafficPart, &PartSums)| {
        let wire_bytes = sums.wire_bytes.iter().sum();
        PartTotal {
            part: part.clone(),
            wire_bytes,
            sides: (*part != TrafficPart::Unknown).then_some(sums.wire_bytes),
            bytes: sums.bytes_error.estimate(wire_bytes as f64, all),
            operations: sums.operations_error.estimate(sums.operations, f64::INFINITY),
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
