//! What the benchmarks are of: the captures of real servers in `fixtures`, one for each protocol, held in memory.

use overhead_capture::{FileSource, FrameSource, NextFrame, SourceError};
use overhead_model::frame::OwnedFrame;
use overhead_model::{ConnectionSummary, Operation, RowId, Tally};
use std::path::{Path, PathBuf};

/// The captures, by their folder in `fixtures`.
pub const CAPTURES: [&str; 5] =
    ["redis-get-set", "redis-rust-pipeline", "postgres-rust", "cassandra-rust", "ferretdb-rust"];

/// The path of a capture.
pub fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures").join(name).join("capture.pcap")
}

/// All frames of a capture.
///
/// # Errors
///
/// [`SourceError`] where it is not there or cannot be read.
pub fn frames(name: &str) -> Result<Vec<OwnedFrame>, SourceError> {
    let mut source = FileSource::open(path(name))?;
    let mut frames = Vec::new();
    while let NextFrame::Frame(frame) = source.next_frame()? {
        frames.push(OwnedFrame::new(&frame));
    }
    Ok(frames)
}

/// A tally that keeps nothing but a number: dissection without the report.
#[derive(Clone, Copy, Debug, Default)]
pub struct Count(
    /// Operations closed.
    pub u64,
);

impl Tally for Count {
    fn operation(&mut self, _: RowId, _: &Operation) {
        self.0 += 1;
    }

    fn connection(&mut self, _: ConnectionSummary) {}
}
