//! The bytes delivered last, as far as that needs no room: to tell whether a retransmission repeats or contradicts them.

use crate::limits;

/// A delivered segment.
#[derive(Clone, Copy, Debug, Default)]
struct Piece {
    start: u64,
    len: usize,
    checksum: u32,
}

/// Checksums of the segments delivered last.
#[derive(Debug, Default)]
pub struct Recent {
    kept: [Piece; limits::RECENT],
    next: usize,
}

impl Recent {
    /// `bytes` were delivered at `start`.
    pub fn remember(&mut self, start: u64, bytes: &[u8]) {
        if let Some(piece) = self.kept.get_mut(self.next) {
            *piece = Piece { start, len: bytes.len(), checksum: crc32fast::hash(bytes) };
        }
        self.next = (self.next + 1) % limits::RECENT;
    }

    /// Whether `bytes`, which are to lie at `start`, hold a remembered segment with other bytes than it had.
    pub fn contradicts(&self, start: u64, bytes: &[u8]) -> bool {
        self.kept.iter().filter(|piece| piece.len > 0).any(|piece| {
            let from = piece.start.checked_sub(start).and_then(|from| usize::try_from(from).ok());
            let within = from.and_then(|from| bytes.get(from..from.checked_add(piece.len)?));
            within.is_some_and(|bytes| crc32fast::hash(bytes) != piece.checksum)
        })
    }
}
