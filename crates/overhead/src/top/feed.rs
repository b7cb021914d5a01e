//! Where the figures of the screen come from.

use crate::warnings::Warnings;
use anyhow::Result;
use overhead_model::record::By;
use overhead_report::OperationKind;
use std::time::Duration;

/// The figures of one moment, since the beginning.
#[derive(Clone, Debug, Default)]
pub struct Look {
    /// Since the beginning, by the clock that rates are of.
    pub at: Duration,
    /// Frames so far.
    pub frames: u64,
    /// Their lengths on the wire.
    pub wire_bytes: u64,
    /// Frames that the kernel dropped.
    pub dropped: u64,
    /// What operations came to, each kind once.
    pub kinds: Vec<OperationKind>,
    /// Nothing comes any more.
    pub is_over: bool,
}

/// A source of figures.
pub trait Feed {
    /// Returns what is watched, in a few words.
    fn title(&self) -> String;

    /// Returns the figures of now; `None` where they do not come in time.
    fn look(&mut self, by: By) -> Result<Option<Look>>;

    /// Returns whether figures come with time; they are there at once otherwise, and looking waits for them.
    fn takes_time(&self) -> bool;

    /// Holds the clock, where it is ours, or lets it go on.
    fn pause(&mut self, paused: bool);

    /// Ends it, and returns what there is to say of it.
    fn finish(self: Box<Self>) -> Result<Warnings>;
}
