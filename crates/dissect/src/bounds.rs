//! What all connections of a run may take together.

use crate::limits;

/// What the connections hold.
#[derive(Debug, Default)]
pub struct Holdings {
    held: usize,
    bare: usize,
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
}
