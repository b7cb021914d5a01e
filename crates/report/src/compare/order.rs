//! Which pairs are named first.

use super::KindPair;
use std::cmp::Reverse;

/// What is rarer than one in this many of the most frequent pair's operations, in both subjects, never leads.
const RARE: u64 = 100;

/// Sorts pairs of one class: rare ones last, then by what their difference comes to, largest first.
pub(super) fn sort(pairs: &mut [KindPair]) {
    let count = |pair: &KindPair| pair.operations.iter().map(|subject| subject.count).max().unwrap_or(0);
    let most = pairs.iter().map(count).max().unwrap_or(0);
    let rank = |pair: &KindPair| {
        let bytes = |value: f64| Reverse(value.abs().round() as u64);
        let wire = pair.operations.iter().map(|subject| subject.wire.iter().sum::<f64>() * subject.count as f64).sum();
        (pair.class(), count(pair).saturating_mul(RARE) < most, bytes(pair.effect_bytes), bytes(wire))
    };
    pairs.sort_by_cached_key(rank);
}
