//! The decompression budget of a run.

use crate::limits;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes decompressed in a run beyond [`limits::EXPANSION_FREE`] times the compressed length, and operations beyond one for each compressed
/// byte.
#[derive(Debug)]
pub struct Expansion {
    /// In each body, and operations in each packet or segment.
    most_at_once: [u64; 2],
    most_bytes: u64,
    most_operations: u64,
    bytes: AtomicU64,
    operations: AtomicU64,
    refused: AtomicU64,
}

impl Default for Expansion {
    fn default() -> Self {
        Self::limited(limits::EXPANDED, limits::EXPANDED_OPERATIONS)
    }
}

impl Expansion {
    /// Returns a budget of so many bytes and operations.
    pub fn limited(most_bytes: u64, most_operations: u64) -> Self {
        let zero = || AtomicU64::new(0);
        let most_at_once = [limits::DECOMPRESSED as u64, limits::PACKED_OPERATIONS];
        Self { most_at_once, most_bytes, most_operations, bytes: zero(), operations: zero(), refused: zero() }
    }

    /// Returns the budget of a run that may hold so many bytes. With 32 MiB, a body has 20 MiB at most, which is more than the largest packet
    /// of `MySQL` or reply of MongoDB, and a packet 4,096 operations.
    pub fn within(bytes: u64) -> Self {
        let run = Self::limited(bytes, limits::EXPANDED_OPERATIONS.min(bytes >> 8));
        let [body, operations] = run.most_at_once;
        Self { most_at_once: [body.min(bytes / 8 * 5), operations.min(bytes >> 13)], ..run }
    }

    /// Returns whether `packed` bytes may be decompressed to `plain` bytes. After one refusal, all bodies that would draw
    /// on the budget are refused.
    pub fn allows(&self, packed: usize, plain: usize) -> bool {
        let excess = plain.saturating_sub(packed.saturating_mul(limits::EXPANSION_FREE)) as u64;
        let drawn = if excess > 0 { self.bytes.fetch_add(excess, Ordering::Relaxed) + excess } else { 0 };
        let is_allowed = drawn <= self.most_bytes && plain as u64 <= self.most_at_once[0];
        if !is_allowed {
            self.refused.fetch_add(1, Ordering::Relaxed);
        }
        is_allowed
    }

    /// Returns whether decoding of a compressed packet or segment of `packed` bytes may go on, in which the number of operations rose
    /// from `before` to `now`.
    pub fn allows_operations(&self, packed: u64, before: u64, now: u64) -> bool {
        let excess = now.saturating_sub(packed.max(before));
        let drawn = if excess > 0 { self.operations.fetch_add(excess, Ordering::Relaxed) + excess } else { 0 };
        now <= self.most_at_once[1] && drawn <= self.most_operations
    }

    /// Returns how many bodies were refused because the budget was spent.
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_of_real_data_draws_on_nothing_and_bombs_are_refused_for_good() {
        let expansion = Expansion::default();
        for _ in 0..1_000 {
            assert!(expansion.allows(44 << 10, 44 << 14));
        }
        let bombs = (0..60).filter(|_| expansion.allows(44 << 10, 45 << 20)).count();
        assert_eq!(bombs as u64, limits::EXPANDED / ((45 << 20) - (44 << 17)));
        assert_eq!(expansion.refused(), 60 - bombs as u64);
        assert!(expansion.allows(1 << 10, 1 << 16));
    }

    #[test]
    fn a_body_and_a_packet_have_a_part_of_a_small_budget() {
        let agent = Expansion::within(32 << 20);
        assert!(agent.allows(4 << 20, (16 << 20) + (16 << 10)) && !agent.allows(4 << 20, 48 << 20));
        assert!(
            agent.allows_operations(1 << 20, 0, 1 << 12) && !agent.allows_operations(1 << 20, 1 << 12, (1 << 12) + 1)
        );
        let run = Expansion::within(400 << 20);
        assert!(run.allows(4 << 20, limits::DECOMPRESSED));
        assert!(run.allows_operations(1 << 20, 0, limits::PACKED_OPERATIONS));
    }

    #[test]
    fn operations_draw_on_the_budget_beyond_one_for_each_byte() {
        let expansion = Expansion::default();
        assert!((0..limits::PACKED_OPERATIONS).all(|number| expansion.allows_operations(20_000, number, number + 1)));
        assert!(!expansion.allows_operations(20_000, limits::PACKED_OPERATIONS, limits::PACKED_OPERATIONS + 1));
        let packets = (0..200).take_while(|_| expansion.allows_operations(6_384, 0, 16_384)).count();
        assert_eq!(packets as u64, limits::EXPANDED_OPERATIONS / 10_000);
        assert!(expansion.allows_operations(6_384, 0, 6_384));
        assert!(!expansion.allows_operations(6_384, 6_384, 6_385));
    }
}
