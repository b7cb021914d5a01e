//! What senders had received, as their acknowledgments prove. Kept apart only while bytes are missing: otherwise the latest acknowledgment
//! is that of the frame being decoded.

use super::ConnectionLedger;
use overhead_decode::Moment;
use overhead_model::Side;

impl ConnectionLedger {
    /// Notes how much of the other stream the sender of the next bytes of `side` had received.
    pub fn received(&mut self, side: Side, offset: u64) {
        self.received.get_or_insert_default()[side as usize] = offset;
    }

    /// Notes that nothing is missing any more.
    pub fn settle_received(&mut self) {
        self.received = None;
    }

    /// Returns how much of the other stream the sender of the next bytes of `side` had received.
    #[inline]
    pub fn received_by(&self, side: Side) -> u64 {
        match &self.received {
            Some(received) => received[side as usize],
            None => self.directions[side.other() as usize].acked,
        }
    }

    /// Returns the end of the posted bytes of `side`, and how much of the other stream their sender had received.
    #[inline]
    pub(super) fn moment(&self, side: Side) -> Moment {
        Moment { at: self.directions[side as usize].posted, received: self.received_by(side) }
    }
}
