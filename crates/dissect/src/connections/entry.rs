//! A connection that is tracked.

use super::parking::Parking;
use crate::flow::ConnectionFlow;
use crate::limits;
use crate::moment::CaptureMoment;
use crate::packet::Segment;
use overhead_model::{FrameFacts, Tally, Trace};

#[derive(Debug)]
pub(super) struct ConnectionEntry {
    pub flow: ConnectionFlow,
    /// In order of appearance, from 1.
    pub number: u64,
    /// When both ends had closed; `None` while open.
    pub closed_ns: Option<u64>,
    /// Approximate memory in bytes; 0 without payload.
    pub held: usize,
    /// Payload bytes since `held` was last estimated.
    pub unweighed: u32,
    /// Whether the connection is on a selected port, or to be detected by content.
    pub selected: bool,
    pub parking: Parking,
}

impl ConnectionEntry {
    /// Handles a segment without the memo; returns whether it closes the connection.
    #[inline(always)]
    pub fn handle<T: Tally>(&mut self, segment: &Segment<'_>, at: CaptureMoment, tally: &mut T) -> bool {
        if tally.listener().is_some() {
            tally.trace(Trace::Frame(facts(segment, self.number, at.number)));
        }
        self.flow.segment(segment, at.number, tally);
        let is_due = self.flow.take_released();
        self.unweighed = if is_due { u32::MAX } else { self.unweighed.saturating_add(segment.payload_len) };
        let closes = self.closed_ns.is_none() && self.flow.is_closed();
        if closes {
            // The segment's own time may have been set back.
            self.closed_ns = Some(at.clock_ns);
            self.flow.shrink(tally);
            self.unweighed = u32::MAX;
        }
        closes
    }

    /// Turns the tally to this connection, if it distinguishes connections.
    #[inline]
    pub fn announce<T: Tally>(&self, tally: &mut T) {
        if tally.wants_ends() {
            tally.turn_to(&self.flow.ends(self.number));
            if let Some(names) = self.flow.names() {
                tally.name_ends(names);
            }
        }
    }

    /// Updates `held` if due, and returns the previous value if that changes.
    #[inline]
    pub fn weigh_if_due(&mut self) -> Option<usize> {
        // Most frames are short and leave little behind, so weighing after each is not worth it.
        let is_due = self.unweighed > limits::UNWEIGHED || (self.held == 0 && self.unweighed > 0);
        is_due.then(|| self.weigh()).filter(|before| *before != self.held)
    }

    /// Updates `held` and returns the previous value.
    pub fn weigh(&mut self) -> usize {
        self.unweighed = 0;
        std::mem::replace(&mut self.held, self.flow.held() + self.parking.held())
    }

    /// Returns whether it closed so long ago that nothing more can belong to it.
    pub fn is_gone(&self, clock_ns: u64) -> bool {
        self.closed_ns.is_some_and(|closed_ns| clock_ns.saturating_sub(closed_ns) > limits::LINGER_NS)
    }
}

fn facts(segment: &Segment<'_>, connection: u64, number: u64) -> FrameFacts {
    FrameFacts {
        number,
        connection,
        time_ns: segment.time_ns,
        wire_len: segment.wire_len,
        headers: [segment.headers.link, segment.headers.ip, segment.headers.tcp],
        payload_len: segment.payload_len,
        flags: segment.flags,
        source: segment.source,
        destination: segment.destination,
        seq: segment.seq,
        window: segment.window,
    }
}
