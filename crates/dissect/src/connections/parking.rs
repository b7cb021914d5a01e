//! Restores the order of a connection whose directions were captured by different clocks or taps.
//!
//! A segment that acknowledges more than was captured is *early*. It waits, with all that follows it in its direction, until these
//! bytes come, or the other direction continues behind them: then the capture lacks them.

use super::entry::ConnectionEntry;
use crate::limits;
use crate::moment::CaptureMoment;
use crate::packet::Segment;
use overhead_model::Tally;
use std::collections::VecDeque;
use std::net::SocketAddr;

/// The early segments of a connection.
#[derive(Debug, Default)]
pub enum Parking {
    #[default]
    Empty,
    Waiting(Box<ParkedSegments>),
    /// What was awaited did not come in time, so nothing waits any more.
    Closed,
}

impl Parking {
    /// Returns the approximate memory held, in bytes.
    pub fn held(&self) -> usize {
        if let Self::Waiting(parked) = self { parked.bytes } else { 0 }
    }
}

#[derive(Debug)]
pub struct ParkedSegments {
    sender: SocketAddr,
    since_ns: u64,
    segments: VecDeque<ParkedSegment>,
    bytes: usize,
}

#[derive(Debug)]
struct ParkedSegment {
    /// Without its options and payload.
    bare: Segment<'static>,
    options: Vec<u8>,
    payload: Vec<u8>,
    at: CaptureMoment,
}

impl ParkedSegment {
    fn new(segment: &Segment<'_>, at: CaptureMoment) -> Self {
        let bare = Segment { options: &[], payload: &[], stream: None, ..*segment };
        Self { bare, options: segment.options.to_vec(), payload: segment.payload.to_vec(), at }
    }

    fn segment(&self) -> Segment<'_> {
        Segment { options: &self.options, payload: &self.payload, ..self.bare }
    }
}

impl ParkedSegments {
    fn from_sender(segment: &Segment<'_>, at: CaptureMoment) -> Self {
        Self { sender: segment.source, since_ns: at.clock_ns, segments: VecDeque::new(), bytes: 0 }
    }

    fn push(&mut self, segment: ParkedSegment) {
        self.bytes += size_of::<ParkedSegment>() + segment.options.len() + segment.payload.len();
        self.segments.push_back(segment);
    }

    fn is_overdue(&self, clock_ns: u64) -> bool {
        self.segments.len() >= limits::PARKED_SEGMENTS
            || self.bytes >= limits::PARKED_BYTES
            || clock_ns.saturating_sub(self.since_ns) >= limits::PARKED_NS
    }
}

impl ConnectionEntry {
    /// Handles a segment without the memo, now or once what it acknowledges was captured. Returns whether this closes the connection.
    #[inline(never)]
    pub fn go_on<T: Tally>(&mut self, segment: &Segment<'_>, at: CaptureMoment, tally: &mut T) -> bool {
        match &self.parking {
            Parking::Empty if self.flow.is_early(segment) => {
                self.parking = Parking::Waiting(Box::new(ParkedSegments::from_sender(segment, at)));
            }
            Parking::Empty | Parking::Closed => return self.handle(segment, at, tally),
            Parking::Waiting(_) => {}
        }
        self.park_or_release(segment, at, tally)
    }

    /// Handles a segment that does not wait.
    // By `go_on`, so that the handling is inlined there, where most segments come.
    fn handle_now<T: Tally>(&mut self, segment: &Segment<'_>, at: CaptureMoment, tally: &mut T) -> bool {
        let parking = std::mem::replace(&mut self.parking, Parking::Closed);
        let closes = self.go_on(segment, at, tally);
        self.parking = parking;
        closes
    }

    #[cold]
    fn park_or_release<T: Tally>(&mut self, segment: &Segment<'_>, at: CaptureMoment, tally: &mut T) -> bool {
        let Parking::Waiting(parked) = &mut self.parking else { return false };
        self.flow.unsettle();
        if segment.source == parked.sender {
            parked.push(ParkedSegment::new(segment, at));
            self.unweighed = self.unweighed.saturating_add(segment.payload_len);
            if !parked.is_overdue(at.clock_ns) {
                return false;
            }
            let closes = self.release_all(|_| None, tally);
            self.parking = Parking::Closed;
            return closes;
        }
        let mut closes = false;
        if self.flow.is_beyond(segment) {
            closes |= self.release_all(|_| Some(segment.seq), tally);
        } else if self.flow.is_early(segment) {
            closes |= self.release_all(|_| None, tally);
        } else {
            self.flow.note_late(segment);
        }
        closes |= self.handle_now(segment, at, tally);
        closes | self.release_due(tally)
    }

    /// Handles the segments that wait for nothing any more.
    fn release_due<T: Tally>(&mut self, tally: &mut T) -> bool {
        let Parking::Waiting(mut parked) = std::mem::take(&mut self.parking) else { return false };
        let mut closes = false;
        while let Some(next) = parked.segments.pop_front_if(|next| !self.flow.is_early(&next.segment())) {
            closes |= self.handle_now(&next.segment(), next.at, tally);
        }
        if let Some(next) = parked.segments.front() {
            parked.since_ns = next.at.clock_ns;
            self.parking = Parking::Waiting(parked);
            self.flow.unsettle();
        }
        closes
    }

    /// Handles all segments that wait. `lost` returns the sequence number up to which the capture lacks what one acknowledges, if it surely
    /// does.
    pub fn release_all<T: Tally>(&mut self, lost: impl Fn(&Segment<'_>) -> Option<u32>, tally: &mut T) -> bool {
        let Parking::Waiting(parked) = std::mem::take(&mut self.parking) else { return false };
        parked.segments.iter().fold(false, |closes, next| {
            let segment = next.segment();
            if let Some(seq) = lost(&segment) {
                self.flow.lack(&segment, seq, tally);
            }
            closes | self.handle_now(&segment, next.at, tally)
        })
    }
}
