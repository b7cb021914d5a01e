//! Digests of recently delivered bytes, which show whether a retransmission repeats or contradicts them.

use super::mask::{halves, last_halves};
use crate::limits;

/// An odd number without a pattern (the fractional part of the golden ratio).
const KEY: u64 = 0x9e37_79b9_7f4a_7c15;

#[derive(Clone, Copy, Debug, Default)]
struct RecentSegment {
    /// Low 32 bits of the offset, which identify as much as a sequence number does.
    start: u32,
    len: u32,
    digest: u32,
}

#[derive(Debug, Default)]
pub struct RecentSegments {
    kept: [RecentSegment; limits::RECENT],
    next: u8,
}

impl RecentSegments {
    #[inline(always)]
    pub fn remember(&mut self, start: u64, bytes: &[u8]) {
        if let Some(piece) = self.kept.get_mut(usize::from(self.next)) {
            *piece = RecentSegment { start: start as u32, len: bytes.len() as u32, digest: digest(bytes) };
        }
        self.next = (self.next + 1) % limits::RECENT as u8;
    }

    /// Returns whether `bytes` at `start` differ from a remembered segment within them.
    pub fn contradicts(&self, start: u64, bytes: &[u8]) -> bool {
        self.kept.iter().filter(|piece| piece.len > 0).any(|piece| {
            let from = piece.start.wrapping_sub(start as u32) as usize;
            let within = bytes.get(from..from.saturating_add(piece.len as usize));
            within.is_some_and(|bytes| digest(bytes) != piece.digest)
        })
    }
}

/// Length from which summing words first pays off.
const LONG: usize = 256;

/// Returns a digest that misses a change of eight bytes only once in 2^32.
#[inline(always)]
fn digest(bytes: &[u8]) -> u32 {
    let mut digest = bytes.len() as u64;
    let mut add = |word: u64| digest = (digest.rotate_left(29) ^ word).wrapping_mul(KEY);
    // Two words at once: adding one costs as much as reading two.
    let both = |[one, other]: [u64; 2]| one.wrapping_add(other.wrapping_mul(3));
    let (rounds, rest) = bytes.as_chunks::<32>();
    if bytes.len() < LONG {
        for round in rounds {
            let [a, b, c, d] = words(round);
            add(both([a, b]));
            add(both([c, d]));
        }
    } else {
        sums(rounds).as_flattened().iter().for_each(|sum| add(*sum));
    }
    // The remainder is shorter than sixteen bytes, and so among the last sixteen.
    if let Some(next) = halves(rest, 0) {
        add(both(next));
    }
    add(both(last_halves(bytes)));
    (digest >> 32) as u32
}

#[inline]
fn words(bytes: &[u8; 32]) -> [u64; 4] {
    let (words, _) = bytes.as_chunks();
    [0, 1, 2, 3].map(|at| words.get(at).map_or(0, |word| u64::from_le_bytes(*word)))
}

/// Returns the sum of every fourth word, with the sum of its intermediate values, which depends on the order of the words.
#[inline(never)]
fn sums(pieces: &[[u8; 32]]) -> [[u64; 2]; 4] {
    let (mut sums, mut of_sums) = ([0_u64; 4], [0_u64; 4]);
    for piece in pieces {
        for (at, word) in words(piece).into_iter().enumerate() {
            sums[at] = sums[at].wrapping_add(word);
            of_sums[at] = of_sums[at].wrapping_add(sums[at]);
        }
    }
    [0, 1, 2, 3].map(|at| [sums[at], of_sums[at]])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_change_within_eight_bytes_shows(
            bytes in prop::collection::vec(any::<u8>(), 1..600),
            at in any::<prop::sample::Index>(),
            with in 1_u64..,
        ) {
            let mut changed = bytes.clone();
            let at = at.index(bytes.len());
            let change = with.to_le_bytes();
            for (byte, change) in changed[at..].iter_mut().zip(change) {
                *byte ^= change;
            }
            prop_assert_eq!(changed == bytes, digest(&changed) == digest(&bytes));
        }

        /// Checks pieces in another order, which have the same sum.
        #[test]
        fn words_in_another_order_show(
            bytes in prop::collection::vec(any::<u8>(), 256..600),
            one in any::<prop::sample::Index>(),
            other in any::<prop::sample::Index>(),
        ) {
            let mut changed = bytes.clone();
            let words = changed.as_chunks_mut::<8>().0;
            words.swap(one.index(words.len()), other.index(words.len()));
            prop_assert_eq!(changed == bytes, digest(&changed) == digest(&bytes));
        }
    }
}
