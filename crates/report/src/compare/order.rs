//! Orders pairs by importance.

use super::KindPair;
use std::cmp::Reverse;

/// A pair never leads if, in both subjects, it is rarer than one in this many of the most frequent pair's operations.
const RARE: u64 = 100;

/// Sorts pairs of one class: rare ones last, then by the size of their difference, largest first.
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
