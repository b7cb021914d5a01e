//! A byte sent into a zero window (RFC 9293 section 3.8.6.1).
//!
//! The receiver has no room for it and usually drops it; the sender repeats it with later data once there is room. Then the probe was a
//! control frame. If the receiver did take it, a later acknowledgment or segment shows this, and it was payload. The outcome is unknown
//! at the time of the probe.

use super::ConnectionFlow;
use super::half::ORIGIN;
use crate::packet::{Headers, Segment};
use overhead_model::{Account, Side, Tally};

#[derive(Clone, Copy, Debug)]
pub struct ZeroWindowProbe {
    offset: u64,
    /// The byte, if it was captured.
    byte: Option<u8>,
    time_ns: u64,
    /// Number of its frame in the capture.
    number: u64,
    frames: u32,
    wire_len: u32,
    headers: Headers,
}

impl ConnectionFlow {
    /// Takes in a segment that may be a probe, and decides on an earlier probe. Returns whether this was one.
    pub fn probe<T: Tally>(&mut self, side: Side, segment: &Segment<'_>, at: u64, number: u64, tally: &mut T) -> bool {
        let Segment { flags, payload_len, .. } = *segment;
        if let Some(before) = &self.probes[side as usize] {
            if at > before.offset {
                self.accept_probe(side, tally);
            } else if at + u64::from(payload_len) > before.offset {
                self.reject_probe(side, tally);
            }
        }
        let bare = !(flags.syn || flags.fin || flags.rst);
        if !bare || !self.halves[side as usize].is_probe(at, payload_len) {
            return false;
        }
        self.hold_probe(side, segment, at, number);
        true
    }

    /// Keeps a byte until its fate is known.
    pub(super) fn hold_probe(&mut self, side: Side, segment: &Segment<'_>, at: u64, number: u64) {
        self.probes[side as usize] = Some(Box::new(ZeroWindowProbe {
            offset: at,
            byte: segment.payload.first().copied(),
            time_ns: segment.time_ns,
            number,
            frames: segment.frames,
            wire_len: segment.wire_len,
            headers: segment.headers,
        }));
    }

    /// Returns whether the first byte of a side, on a connection joined midway, may be a keep-alive, which repeats an earlier byte (RFC
    /// 9293 section 3.8.4).
    pub(super) fn may_be_keep_alive(&self, side: Side, segment: &Segment<'_>) -> bool {
        let half = &self.halves[side as usize];
        let is_bare = !(segment.flags.syn || segment.flags.fin || segment.flags.rst);
        is_bare && self.mid_stream && segment.stream.is_none() && half.high == ORIGIN && half.acked == ORIGIN
    }

    /// Treats such a byte as a keep-alive, since the receiver had it before (RFC 2883): the stream starts behind it.
    pub(super) fn drop_keep_alive<T: Tally>(&mut self, side: Side, tally: &mut T) {
        let is_first = |probe: &ZeroWindowProbe| probe.offset == ORIGIN && self.halves[side as usize].high == ORIGIN;
        if self.mid_stream && self.probes[side as usize].as_deref().is_some_and(is_first) {
            self.reject_probe(side, tally);
            self.halves[side as usize].restart();
        }
    }

    /// Accepts a probe that the receiver has acknowledged.
    pub(super) fn probe_acknowledged<T: Tally>(&mut self, side: Side, tally: &mut T) {
        let acked = self.halves[side as usize].acked;
        if self.probes[side as usize].as_ref().is_some_and(|probe| acked > probe.offset) {
            self.accept_probe(side, tally);
        }
    }

    /// Treats the probe as dropped: its frame was control.
    pub(super) fn reject_probe<T: Tally>(&mut self, side: Side, tally: &mut T) {
        let Some(probe) = self.probes[side as usize].take() else { return };
        self.counts.rare().retransmitted_bytes += 1;
        let here = self.book.at(probe.number, probe.frames);
        let owner = self.latest();
        self.book.charge(side, owner, Account::Control, u64::from(probe.wire_len), tally);
        self.book.at(here.0, here.1);
    }

    /// Treats the probe as taken: its byte is ordinary payload.
    pub(super) fn accept_probe<T: Tally>(&mut self, side: Side, tally: &mut T) {
        let next = self.halves[side as usize].next;
        let Some(probe) = self.probes[side as usize].take_if(|probe| probe.offset == next) else { return };
        let here = self.book.at(probe.number, probe.frames);
        let frame = self.book.arrival(side, probe.time_ns, probe.headers, 1);
        self.halves[side as usize].deliver(1);
        self.book.slice(side, frame, 1);
        self.decode(side, probe.byte.as_slice(), u64::from(probe.byte.is_none()), tally);
        self.book.at(here.0, here.1);
    }
}
