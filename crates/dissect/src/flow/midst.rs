//! Connections joined midway: detects answers paired with the wrong requests.
//!
//! If answers come in request order and do not identify their requests, the answer to an uncaptured request goes to the next one. Every
//! later answer shifts too, until the client waits for all of them. A surplus answer reveals this; so does a client that never waits,
//! whose pairing cannot be verified.

use super::{ConnectionFlow, FlowStage};
use overhead_decode::Note;
use overhead_model::{Protocol, Side};
use overhead_protocols::facts;

/// State of the pairing on such a connection, as far as known.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct MidStreamPairing {
    /// A captured request has its answer, or another request's.
    is_paired: bool,
    /// At some time, all captured requests were answered.
    is_drained: bool,
}

/// State of the books before a segment.
#[derive(Clone, Copy, Debug)]
pub(super) struct PairingCounts {
    operations: u64,
    unmatched: u64,
}

impl MidStreamPairing {
    /// Returns the initial state for a connection of `protocol`; `None` if its answers cannot be paired with wrong requests.
    pub fn for_protocol(protocol: Protocol) -> Option<Self> {
        facts(protocol).pairs_by_order.then(Self::default)
    }
}

impl ConnectionFlow {
    /// Returns the state to compare after a segment of `side`; `None` if there is nothing to compare.
    #[inline]
    pub(super) fn before(&self, side: Side) -> Option<PairingCounts> {
        if side == Side::Request || self.midst.is_none() {
            return None;
        }
        Some(PairingCounts { operations: self.book.operations, unmatched: self.book.unmatched })
    }

    /// Returns whether only an answer without a request, which no turn has, can still reveal wrong pairing.
    #[inline]
    pub(super) fn is_past_midst(&self) -> bool {
        let is_known = |midst: MidStreamPairing| midst.is_paired && midst.is_drained;
        matches!(self.stage, FlowStage::Decoding(_)) && self.midst.is_none_or(is_known)
    }

    /// Compares the books after a segment of the server.
    #[cold]
    pub(super) fn compare(&mut self, before: PairingCounts) {
        // Lost requests leave answers without a request too.
        let is_whole = self.counts.snapped_bytes() == 0 && self.halves.iter().all(|half| half.hole_bytes() == 0);
        let Some(midst) = self.midst.as_mut().filter(|_| is_whole) else { return self.midst = None };
        midst.is_paired |= self.book.operations > before.operations;
        midst.is_drained |= self.book.outstanding() == 0;
        if midst.is_paired && self.book.unmatched > before.unmatched {
            self.book.note_once(Note::Shifted);
        }
    }

    /// Notes, at the end of the connection, that the pairing may be wrong if the client never waited.
    pub(super) fn leave_midst(&mut self) {
        if self.midst.is_some_and(|midst| midst.is_paired && !midst.is_drained) {
            self.book.note_once(Note::Shifted);
        }
    }
}
