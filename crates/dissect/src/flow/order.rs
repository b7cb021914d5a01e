//! Compares a segment with what was captured so far, to restore the order of directions with different clocks.

use super::{ConnectionFlow, FlowStage};
use crate::packet::Segment;
use overhead_decode::Note;

impl ConnectionFlow {
    /// Returns whether a segment acknowledges more than was captured, and the rest may come.
    #[inline]
    pub fn is_early(&self, segment: &Segment<'_>) -> bool {
        if !segment.flags.ack || segment.flags.syn || matches!(self.stage, FlowStage::Other) {
            return false;
        }
        let side = self.side_of(segment);
        match self.halves[side.other() as usize].is_beyond_captured(segment.ack) {
            Some(is_beyond) => is_beyond,
            // The SYN of the other end is still to come.
            None => !segment.flags.rst && self.halves[side as usize].syn_seen(),
        }
    }

    /// Returns whether a segment lies behind bytes that were not captured.
    pub fn is_beyond(&self, segment: &Segment<'_>) -> bool {
        self.halves[self.side_of(segment) as usize].is_beyond_captured(segment.seq) == Some(true)
    }

    /// Notes that a segment was captured later than its acknowledgment, if it has what was acknowledged.
    pub fn note_late(&mut self, segment: &Segment<'_>) {
        if segment.payload_len > 0 || segment.flags.syn {
            self.book.note(Note::CapturedLate);
        }
    }

    /// Leaves the next segment to the general path.
    pub fn unsettle(&mut self) {
        self.is_settled = false;
    }
}
