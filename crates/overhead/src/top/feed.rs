//! The source of the screen's figures.

use anyhow::Result;
use overhead_model::record::By;
use overhead_reading::Warnings;
use overhead_report::OperationKind;
use std::time::Duration;

/// Figures since the beginning, at one moment.
#[derive(Clone, Debug, Default)]
pub struct Look {
    /// Time since the beginning, by the clock for rates.
    pub at: Duration,
    pub frames: u64,
    /// Bytes of the frames on the wire.
    pub wire_bytes: u64,
    pub dropped: u64,
    pub kinds: Vec<OperationKind>,
    /// The feed has ended.
    pub is_over: bool,
}

pub trait Feed {
    /// Returns a short description of the source.
    fn title(&self) -> String;

    /// Returns the current figures; `None` if they do not arrive in time.
    fn look(&mut self, by: By) -> Result<Option<Look>>;

    /// Returns whether figures accumulate in real time. Otherwise a look waits until all are available.
    fn takes_time(&self) -> bool;

    /// Stops or resumes the feed's clock, if it has one.
    fn pause(&mut self, paused: bool);

    /// Ends the feed and returns its warnings.
    fn finish(self: Box<Self>) -> Result<Warnings>;
}
