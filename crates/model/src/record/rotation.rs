//! Rotation of packet files.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Packet files of a run that wrote several in sequence (`-G`, `-C`, `-W`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Rotation {
    /// Files written, including deleted ones.
    pub files: u64,
    /// Files that later ones replaced. The totals of the run include their frames.
    pub deleted_files: u64,
    /// Frames in the deleted files.
    pub deleted_frames: u64,
    /// Original lengths of these frames, in bytes.
    pub deleted_wire_bytes: u64,
}
