//! What looks for one kind of waste.

use crate::finding::Finding;
use crate::rules;
use crate::seen::{Closed, Seen, SeenCharge, SeenConnection, SeenField, SeenFrame};
use overhead_model::Protocol;

/// Looks for one kind of waste. It hears of what interests it while the capture is read, and says at the end what it found.
///
/// A rule fires only above thresholds that stand in its file, and what it finds says how it was computed and what it cannot know.
pub trait Rule {
    /// Returns its name, as `--what-if` takes it.
    fn name(&self) -> &'static str;

    /// Returns whether it wants to hear of a field of this name. Asked once for each name.
    fn wants(&self, _protocol: Protocol, _path: &str) -> bool {
        false
    }

    /// Returns whether it wants whole messages of this protocol.
    fn wants_messages(&self, _protocol: Protocol) -> bool {
        false
    }

    /// A field that it wants.
    fn field(&mut self, _field: &SeenField<'_>) {}

    /// A frame, in the order of the capture.
    fn frame(&mut self, _frame: &SeenFrame) {}

    /// Bytes of a frame that are not new payload.
    fn charge(&mut self, _charge: &SeenCharge) {}

    /// An operation has closed.
    fn operation(&mut self, _closed: &Closed<'_>) {}

    /// A connection has ended.
    fn connection(&mut self, _connection: &SeenConnection<'_>) {}

    /// Returns what it found.
    fn findings(&self, seen: &Seen) -> Vec<Finding>;
}

/// What `--what-if` supposes beside the name of a rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Suppositions {
    /// Requests sent before their answers are waited for; where there is none, 16, and the thresholds hold.
    pub depth: Option<u64>,
    /// How messages are compressed; where there is none, as is usual for the protocol, and the thresholds hold.
    pub compressor: Option<Compressor>,
}

/// A way of compressing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compressor {
    /// LZ4, as one block.
    Lz4,
    /// Zstandard, level 3.
    Zstd,
}

impl Compressor {
    /// Returns its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Lz4 => "lz4",
            Self::Zstd => "zstd",
        }
    }
}

/// Returns all rules.
pub fn all(suppositions: Suppositions) -> Vec<Box<dyn Rule>> {
    rules::all(suppositions)
}
