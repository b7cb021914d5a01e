//! Bounds the memory of all connections in a run.

use crate::limits;

#[derive(Debug)]
pub struct Holdings {
    most: usize,
    held: usize,
    bare: usize,
}

impl Holdings {
    /// Returns a budget of so many bytes.
    pub fn new(most: usize) -> Self {
        Self { most, held: 0, bare: 0 }
    }

    pub fn begin(&mut self) {
        self.bare += 1;
    }

    /// Changes a connection's memory from `before`, 0 if it had no payload yet, to `now`.
    pub fn change(&mut self, before: usize, now: usize) {
        self.held = (self.held + now).saturating_sub(before);
        if before == 0 {
            self.bare = self.bare.saturating_sub(1);
        }
    }

    pub fn end(&mut self, held: usize) {
        self.change(held, 0);
    }

    /// Returns whether the connections hold more than the limit.
    pub fn is_over(&self) -> bool {
        self.held > self.most
    }

    /// Returns whether they still hold too much once over the limit; making extra room avoids doing so for each frame.
    pub fn is_crowded(&self) -> bool {
        self.held > self.most / 8 * 7
    }

    /// Returns whether there are too many connections without payload.
    pub fn is_flooded(&self) -> bool {
        self.bare > limits::BARE
    }
}
