//! The bytes delivered last, as far as that needs no room: to tell whether a retransmission repeats or contradicts them.

use super::mask::last_word;
use crate::limits;

/// An odd number without a pattern (the fractional part of the golden ratio).
const KEY: u64 = 0x9e37_79b9_7f4a_7c15;

/// A delivered segment.
#[derive(Clone, Copy, Debug, Default)]
struct Piece {
    /// Offset, of which 32 bits tell as much as a sequence number does.
    start: u32,
    len: u32,
    digest: u32,
}

/// Digests of the segments delivered last.
#[derive(Debug, Default)]
pub struct Recent {
    kept: [Piece; limits::RECENT],
    next: u8,
}

impl Recent {
    /// `bytes` were delivered at `start`.
    #[inline]
    pub fn remember(&mut self, start: u64, bytes: &[u8]) {
        if let Some(piece) = self.kept.get_mut(usize::from(self.next)) {
            *piece = Piece { start: start as u32, len: bytes.len() as u32, digest: digest(bytes) };
        }
        self.next = (self.next + 1) % limits::RECENT as u8;
    }

    /// Returns whether `bytes`, which are to lie at `start`, hold a remembered segment with other bytes than it had.
    pub fn contradicts(&self, start: u64, bytes: &[u8]) -> bool {
        self.kept.iter().filter(|piece| piece.len > 0).any(|piece| {
            let from = piece.start.wrapping_sub(start as u32) as usize;
            let within = bytes.get(from..from.saturating_add(piece.len as usize));
            within.is_some_and(|bytes| digest(bytes) != piece.digest)
        })
    }
}

/// Returns a digest that any change of eight bytes shows in, but for one in 2^32.
#[inline]
fn digest(bytes: &[u8]) -> u32 {
    let mut digest = bytes.len() as u64;
    let mut add = |word: u64| digest = (digest.rotate_left(29) ^ word).wrapping_mul(KEY);
    // Four words a round: the rounds themselves cost as much as what they do.
    let (rounds, rest) = bytes.as_chunks::<32>();
    for round in rounds {
        round.as_chunks::<8>().0.iter().for_each(|word| add(u64::from_le_bytes(*word)));
    }
    rest.as_chunks::<8>().0.iter().for_each(|word| add(u64::from_le_bytes(*word)));
    add(last_word(bytes));
    (digest >> 32) as u32
}
