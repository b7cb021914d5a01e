//! What all connections of a run may take together.
//!
//! What is given up at a bound depends on the order of frames. So one thread enforces the bounds by itself, and several only
//! watch: where the sum of the most that each has held is within the bounds, one thread would have been too, and nothing was
//! given up; where it is not, the caller has one thread do it all again.

use crate::limits;
use overhead_decode::Expansion;
use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Steps in which a thread tells the others how much it holds at most, so that it hardly ever has to.
const STEP: usize = 1 << 20;

/// What several threads hold together: the most that each of them has held, added up, and what they have decompressed.
#[derive(Debug, Default)]
pub struct Company {
    held: AtomicU64,
    bare: AtomicU64,
    pub(crate) expansion: Arc<Expansion>,
    /// Hashes of the statements that any of them tells apart, no more than it takes to be over.
    statements: Mutex<HashSet<u64>>,
}

impl Company {
    /// Returns whether the threads may have reached a bound of a run together. What is given up then depends on the order
    /// of frames, which only one thread sees: the result of several is to be discarded.
    pub fn is_over(&self) -> bool {
        self.expansion.refused() > 0
            || self.held.load(Ordering::Relaxed) > limits::HELD as u64
            || self.bare.load(Ordering::Relaxed) > limits::BARE as u64
            || self.statements().len() > limits::STATEMENTS
    }

    /// A thread tells these statements apart, which it did not before.
    pub fn tell_statements(&self, hashes: Vec<u64>) {
        let mut known = self.statements();
        let room = (limits::STATEMENTS + 1).saturating_sub(known.len());
        known.extend(hashes.into_iter().take(room));
    }

    fn statements(&self) -> MutexGuard<'_, HashSet<u64>> {
        self.statements.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What the connections of one thread hold.
#[derive(Debug, Default)]
pub struct Holdings {
    held: usize,
    bare: usize,
    /// What [`Company`] was told of.
    told: (usize, usize),
}

impl Holdings {
    /// A connection without payload has begun.
    pub fn begin(&mut self) {
        self.bare += 1;
    }

    /// A connection held `before`, 0 where it had no payload yet, and holds `now`.
    pub fn change(&mut self, before: usize, now: usize) {
        self.held = (self.held + now).saturating_sub(before);
        if before == 0 {
            self.bare = self.bare.saturating_sub(1);
        }
    }

    /// A connection has ended that held this much.
    pub fn end(&mut self, held: usize) {
        self.change(held, 0);
    }

    /// Returns whether the connections hold more than is allowed, and how much they hold beyond what they should then.
    pub fn is_over(&self) -> bool {
        self.held > limits::HELD
    }

    /// Returns whether they still hold more than they should once a bound was reached: some room saves doing it for each frame.
    pub fn is_crowded(&self) -> bool {
        self.held > limits::HELD / 8 * 7
    }

    /// Returns whether there are more connections without payload than are kept.
    pub fn is_flooded(&self) -> bool {
        self.bare > limits::BARE
    }

    /// Tells the other threads where this one holds more than ever before.
    #[inline]
    pub fn tell(&mut self, company: &Company) {
        if self.held > self.told.0 || self.bare > self.told.1 {
            self.tell_more(company);
        }
    }

    #[cold]
    fn tell_more(&mut self, company: &Company) {
        let rise = |told: &mut usize, now: usize, step: usize, sum: &AtomicU64| {
            if now > *told {
                let more = (now - *told).next_multiple_of(step);
                *told += more;
                sum.fetch_add(more as u64, Ordering::Relaxed);
            }
        };
        rise(&mut self.told.0, self.held, STEP, &company.held);
        rise(&mut self.told.1, self.bare, limits::BARE / 64, &company.bare);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_threads_are_over_before_one_would_be() {
        let company = Company::default();
        let mut threads = [Holdings::default(), Holdings::default()];
        for holdings in &mut threads {
            holdings.begin();
            holdings.change(0, limits::HELD / 2 - STEP);
            holdings.tell(&company);
        }
        assert!(!company.is_over());
        // The first one has less by now; but the two may have held the most at the same time.
        threads[0].end(limits::HELD / 2 - STEP);
        threads[1].begin();
        threads[1].change(0, 2 * STEP + 1);
        threads[1].tell(&company);
        assert!(company.is_over());
    }
}
