//! Modelled traffic of another link, kept apart from measured figures.

use super::{Ledger, SideSums};
use crate::operation::Class;
use serde::{Deserialize, Serialize};

/// The bytes a link would have carried for the same payload. Modelled, not measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Projection {
    /// MTU of the link in bytes; `null` where frames stay as they were captured.
    pub mtu: Option<u32>,
    /// Frames have on them what Ethernet's have on the cable: it is in the account `link`, of frames without payload in `control`.
    pub physical: bool,
    /// Frames of the model.
    pub frames: u64,
    /// Their lengths.
    pub wire_bytes: u64,
    /// Captured frames that were cut.
    pub cut_frames: u64,
    /// Frames that there are more for it.
    pub added_frames: u64,
    /// Headers of these.
    pub added_header_bytes: u64,
    /// Acknowledgments that a receiver would send besides, one for two of the segments that were cut. They are in none of the other
    /// figures: a receiver may send fewer.
    pub ack_frames: u64,
    /// Bytes of these.
    pub ack_bytes: u64,
    /// Bytes that Ethernet takes for preambles; 0 unless `physical`.
    pub preamble_bytes: u64,
    /// Check sequences; 0 unless `physical`.
    pub check_sequence_bytes: u64,
    /// Gaps between frames; 0 unless `physical`.
    pub gap_bytes: u64,
    /// Padding of short frames that was not captured; 0 unless `physical`.
    pub padding_bytes: u64,
    /// The ledger of the model. Its accounts of payload are the measured ones.
    pub ledger: Ledger,
    /// Its operations, as the measured ones are sorted.
    pub operations: Vec<ProjectedRow>,
}

/// The operations of a row as a link would have carried them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ProjectedRow {
    /// Protocol name.
    pub protocol: String,
    /// Class.
    pub class: Class,
    /// Name of the operation.
    pub name: String,
    /// How it was sent.
    pub via: String,
    /// Operations and unsolicited messages: what means are over.
    pub count: u64,
    /// Client to server.
    pub request: SideSums,
    /// Server to client.
    pub response: SideSums,
}
