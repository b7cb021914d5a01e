//! Modelled traffic of another link, separate from measured figures.

use super::{Ledger, SideSums};
use crate::operation::Class;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The bytes a link would have carried for the same payload. Modelled, not measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Projection {
    /// MTU of the link in bytes; `null` if frames stay as captured.
    pub mtu: Option<u32>,
    /// Whether frames include Ethernet's overhead on the cable, posted to `link` (for frames without payload, to
    /// `control`).
    pub physical: bool,
    /// Frames of the model.
    pub frames: u64,
    /// Bytes of these frames.
    pub wire_bytes: u64,
    /// Captured frames that were cut.
    pub cut_frames: u64,
    /// Frames that the cuts added.
    pub added_frames: u64,
    /// Headers of the added frames.
    pub added_header_bytes: u64,
    /// Acknowledgments that a receiver would add, one for every two of the cut segments. No other total includes
    /// them, because a receiver may send fewer.
    pub ack_frames: u64,
    /// Bytes of these acknowledgments.
    pub ack_bytes: u64,
    /// Bytes of Ethernet preambles; 0 unless `physical`.
    pub preamble_bytes: u64,
    /// Bytes of check sequences; 0 unless `physical`.
    pub check_sequence_bytes: u64,
    /// Gaps between frames, in bytes; 0 unless `physical`.
    pub gap_bytes: u64,
    /// Padding of short frames that was not captured, in bytes; 0 unless `physical`.
    pub padding_bytes: u64,
    /// The ledger of the model. Its payload accounts are the measured ones.
    pub ledger: Ledger,
    /// Its operations, in the order of the measured ones.
    pub operations: Vec<ProjectedRow>,
}

/// The operations of a row as a link would have carried them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProjectedRow {
    /// Protocol name.
    pub protocol: String,
    /// Class.
    pub class: Class,
    /// Name of the operation.
    pub name: String,
    /// How it was sent.
    pub via: String,
    /// Operations and unsolicited messages: the samples of means.
    pub count: u64,
    /// Client to server.
    pub request: SideSums,
    /// Server to client.
    pub response: SideSums,
}
