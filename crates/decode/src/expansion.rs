//! The decompression budget of a run.

use crate::limits;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes decompressed in a run beyond [`limits::EXPANSION_FREE`] times the compressed length.
#[derive(Debug, Default)]
pub struct Expansion {
    drawn: AtomicU64,
    refused: AtomicU64,
}

impl Expansion {
    /// Returns a budget of nothing.
    pub fn spent() -> Self {
        Self { drawn: AtomicU64::new(limits::EXPANDED), refused: AtomicU64::new(0) }
    }

    /// Returns whether `packed` bytes may be decompressed to `plain` bytes. After one refusal, all bodies that would draw
    /// on the budget are refused.
    pub fn allows(&self, packed: usize, plain: usize) -> bool {
        let excess = plain.saturating_sub(packed.saturating_mul(limits::EXPANSION_FREE)) as u64;
        let is_allowed = excess == 0 || self.drawn.fetch_add(excess, Ordering::Relaxed) + excess <= limits::EXPANDED;
        if !is_allowed {
            self.refused.fetch_add(1, Ordering::Relaxed);
        }
        is_allowed
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
        assert_eq!(bombs as u64, limits::EXPANDED / ((45 << 20) - (44 << 16)));
        assert_eq!(expansion.refused(), 60 - bombs as u64);
        assert!(expansion.allows(1 << 10, 1 << 16));
    }
}
