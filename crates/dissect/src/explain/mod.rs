//! Explains one operation byte by byte: its frames, its payload fields, and the account of each byte.
//!
//! Everything here is a [`Tally`] that listens to [`Trace`]. The decoders and the ledger are the same as in any other run, so an
//! explanation always adds up to the operation's totals. A [`crate::Dissector`] with the same selection reads the capture three times,
//! because only an earlier reading shows what to keep:
//!
//! 1. [`Finder`] numbers the operations and finds the wanted one;
//! 2. [`OperationRecorder`] keeps its postings with their bytes;
//! 3. [`FrameFinder`] keeps the headers of its frames.
//!
//! The explained operation and [`crate::limits`] bound memory; the capture does not.
//!
//! [`FieldSums`] sums the same postings over all operations, in one reading.

mod fields;
mod find;
mod notes;
mod number;
mod record;
mod stream;
mod turns;

pub use fields::{FieldPaths, FieldSums, RowName};
pub use find::{Finder, FoundOperation, OperationQuery, QueryKind, SizedOperation};
pub use notes::{Findings, OperationNotes};
pub use number::{BegunOperation, Numbering};
pub use record::{ExplainedOperation, FieldPiece, FrameItem, FramePart, FrameView, OperationRecorder};
pub use stream::{ByteVisibility, DecodedRun, UnpostedStream};
pub use turns::ConnectionStates;

use overhead_model::{ConnectionSummary, FrameFacts, Operation, RowId, RowKey, Side, SideTotals};
use overhead_model::{Listener, Tally, Trace};
use std::collections::{BTreeMap, BTreeSet};

/// A reading of a capture, used as a trait object so that the decoders compile once for all three.
pub trait CaptureReading: Tally {
    /// Returns whether the reading can stop.
    fn is_done(&self) -> bool {
        false
    }
}

impl CaptureReading for Finder {}

impl CaptureReading for OperationRecorder {
    fn is_done(&self) -> bool {
        self.done
    }
}

impl CaptureReading for FrameFinder {
    fn is_done(&self) -> bool {
        self.found.len() == self.wanted.len()
    }
}

impl Tally for &mut dyn CaptureReading {
    fn row(&mut self, key: RowKey<'_>) -> RowId {
        (**self).row(key)
    }
    fn operation(&mut self, row: RowId, operation: &Operation) {
        (**self).operation(row, operation);
    }
    fn wants_each(&self) -> bool {
        (**self).wants_each()
    }
    fn each(&mut self, row: RowId, operation: &Operation, start_ns: Option<u64>) {
        (**self).each(row, operation, start_ns);
    }
    fn late(&mut self, row: RowId, side: Side, totals: &SideTotals) {
        (**self).late(row, side, totals);
    }
    fn connection(&mut self, summary: ConnectionSummary) {
        (**self).connection(summary);
    }
    fn listener(&mut self) -> Option<&mut dyn Listener> {
        (**self).listener()
    }
}

#[derive(Debug)]
pub struct FrameFinder {
    wanted: BTreeSet<u64>,
    /// By their numbers.
    pub found: BTreeMap<u64, FrameFacts>,
}

impl FrameFinder {
    pub fn new(wanted: BTreeSet<u64>) -> Self {
        Self { wanted, found: BTreeMap::new() }
    }
}

impl Tally for FrameFinder {
    fn listener(&mut self) -> Option<&mut dyn Listener> {
        Some(self)
    }
}

impl Listener for FrameFinder {
    fn hear(&mut self, step: Trace<'_>) {
        if let Trace::Frame(facts) = step
            && self.wanted.contains(&facts.number)
        {
            self.found.insert(facts.number, facts);
        }
    }
}
