//! Rotation of packet files.

use serde::{Deserialize, Serialize};

/// Packet files of a run that wrote several, one after the other (`-G`, `-C`, `-W`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Rotation {
    /// Files written, those that are deleted by now included.
    pub files: u64,
    /// Of these, those that later ones have taken the place of. The figures of the run are of their frames too.
    pub deleted_files: u64,
    /// Frames in the deleted files.
    pub deleted_frames: u64,
    /// Original lengths of these, in bytes.
    pub deleted_wire_bytes: u64,
}
