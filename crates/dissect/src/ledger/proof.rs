//! What senders had received, as their acknowledgments prove. Kept apart only while bytes are missing: otherwise the latest acknowledgment
//! is that of the frame being decoded.

use super::ConnectionLedger;
use overhead_decode::Moment;
use overhead_model::Side;

#[derive(Debug, Default)]
pub(super) struct AckProofs {
    /// By [`Side`] of the sender of the next bytes, the offset up to which it had received the other stream.
    received: [u64; 2],
    /// The server's last segment without payload.
    pub bare: Moment,
}

impl ConnectionLedger {
    /// Notes how much of the other stream the sender of the next bytes of `side` had received.
    pub fn received(&mut self, side: Side, offset: u64) {
        self.proofs.get_or_insert_default().received[side as usize] = offset;
    }

    /// Notes a segment of the server without payload.
    pub fn acknowledged_bare(&mut self, bare: Moment) {
        self.proofs.get_or_insert_default().bare = bare;
    }

    /// Notes that nothing is missing any more.
    pub fn settle_received(&mut self) {
        self.proofs = None;
    }

    /// Returns how much of the other stream the sender of the next bytes of `side` had received.
    #[inline]
    pub fn received_by(&self, side: Side) -> u64 {
        match &self.proofs {
            Some(proofs) => proofs.received[side as usize],
            None => self.directions[side.other() as usize].acked,
        }
    }

    /// Returns the end of the posted bytes of `side`, and how much of the other stream their sender had received.
    #[inline]
    pub(super) fn moment(&self, side: Side) -> Moment {
        Moment { at: self.directions[side as usize].posted, received: self.received_by(side) }
    }
}
