//! Puts the payload of segments into stream order, and charges what is repeated.

use super::ConnectionFlow;
use super::disorder::{AstraySegment, EarlySegment};
use super::half::{ORIGIN, StreamPlace};
use super::sniffing::{DecodingStage, FlowStage};
use super::trial::HeldPayload;
use crate::ledger::{Arrival, ChargeOwner, LedgerReader};
use crate::packet::Segment;
use overhead_decode::{Moment, Note};
use overhead_model::{Account, Side, Tally, Trace};
use std::cmp::Ordering;
use std::ops::Range;

impl ConnectionFlow {
    /// Takes in the payload of a segment: delivers what is next, keeps what is early, and charges what is repeated.
    pub(super) fn payload<T: Tally>(&mut self, side: Side, segment: &Segment<'_>, number: u64, tally: &mut T) {
        let len = u64::from(segment.payload_len);
        if segment.payload.len() as u64 != len {
            self.counts.rare().snapped_bytes += len - segment.payload.len() as u64;
        }
        if !self.is_settled || self.halves[side.other() as usize].is_ahead() {
            self.book.received(side, self.received(side));
        }
        let Some(start) = self.start_of(side, segment, tally) else {
            return self.hold_astray(side, segment, len, tally);
        };
        tally.trace(Trace::Placed { side, offset: start.wrapping_sub(ORIGIN).cast_signed() });
        let half = &self.halves[side as usize];
        if start == half.next && half.is_ahead() {
            self.book.note(Note::CapturedTooLate);
        }
        if start == ORIGIN && len == 1 && self.may_be_keep_alive(side, segment) {
            return self.hold_probe(side, segment, start, number);
        }
        let half = &self.halves[side as usize];
        if half.is_next(start) && self.probes[side as usize].is_none() {
            self.next_bytes(side, segment, len, tally);
            return;
        }
        if self.probe(side, segment, start, number, tally) {
            return;
        }
        let half = &mut self.halves[side as usize];
        let mut new_parts = Vec::new();
        half.unseen(start..start + len, &mut new_parts);
        let new: u64 = new_parts.iter().map(|part| part.end - part.start).sum();
        self.repeated(side, segment, start, len - new, new, tally);
        if new > 0 {
            let half = &self.halves[side as usize];
            let late = new_parts.first().is_some_and(|part| part.start < half.high);
            if late {
                self.counts.rare().out_of_order_frames += 1;
            }
            let frame = self.book.arrival(side, segment.time_ns, segment.headers, new);
            for part in &new_parts {
                self.new_part(side, segment, start, part, frame, tally);
            }
            self.drain(side, tally);
        }
    }

    /// Returns where the payload starts, and gives up holes that will not be filled before it. `None` if it lies outside the stream.
    fn start_of<T: Tally>(&mut self, side: Side, segment: &Segment<'_>, tally: &mut T) -> Option<u64> {
        let seq = segment.seq.wrapping_add(u32::from(segment.flags.syn));
        let half = &mut self.halves[side as usize];
        let place = match segment.stream {
            Some(piece) => StreamPlace::At(half.place_piece(piece.offset, piece.begins)),
            None => half.place(seq),
        };
        match place {
            // Pieces of a stream come in order: bytes missing before one were lost.
            StreamPlace::At(start) if segment.stream.is_some() => {
                let hole = half.next..start;
                self.skip_hole(side, &hole, tally);
                Some(start)
            }
            StreamPlace::At(start) => Some(start),
            StreamPlace::Behind => {
                self.resume(side, tally);
                Some(self.halves[side as usize].next)
            }
            StreamPlace::Astray => None,
        }
    }

    /// Returns how much of the other stream the sender of a segment of `side` had received, as an offset from the start.
    fn received(&self, side: Side) -> u64 {
        let other = &self.halves[side.other() as usize];
        // What no frame carried came in this order.
        let received = if self.stream.is_some() { other.next } else { other.acked };
        received.saturating_sub(ORIGIN)
    }

    /// Notes what a segment of the server without payload acknowledges.
    #[cold]
    pub(super) fn note_bare(&mut self, segment: &Segment<'_>) {
        if let Some(at) = self.halves[Side::Response as usize].stream_offset(segment.seq) {
            self.book.acknowledged_bare(Moment { at, received: self.received(Side::Response) });
        }
    }

    /// Holds a segment that is further away than any window allows, until another one shows whether the stream continues there.
    #[cold]
    fn hold_astray<T: Tally>(&mut self, side: Side, segment: &Segment<'_>, len: u64, tally: &mut T) {
        let frame = self.book.arrival(side, segment.time_ns, segment.headers, len);
        let held = EarlySegment { frame, received: self.received(side), bytes: segment.payload.to_vec(), len };
        let astray = AstraySegment { seq: segment.seq, ack: segment.ack, segment: held };
        let before = self.halves[side as usize].hold_astray(astray);
        self.leave_astray(side, before, tally);
    }

    /// Files a segment that nothing continued.
    pub(super) fn leave_astray<T: Tally>(&mut self, side: Side, astray: Option<AstraySegment>, tally: &mut T) {
        if let Some(AstraySegment { segment: EarlySegment { frame, bytes, len, .. }, .. }) = astray {
            self.stray(side, &bytes, frame, len, tally);
        }
    }

    /// Goes on with the segment held as astray: the capture paused before it, in both directions.
    #[cold]
    pub(super) fn resume<T: Tally>(&mut self, side: Side, tally: &mut T) {
        let Some(AstraySegment { seq, ack, mut segment }) = self.halves[side as usize].take_astray() else { return };
        let other = side.other();
        if self.halves[other as usize].is_far(ack) {
            let hole = self.halves[other as usize].pause(ack);
            self.skip_hole(other, &hole, tally);
            segment.received = self.halves[other as usize].next.saturating_sub(ORIGIN);
            if let Some((offset, astray)) = self.halves[other as usize].take_near_astray() {
                self.halves[other as usize].hold(offset, astray);
                self.drain(other, tally);
            }
        }
        // The stream continues, so a byte that probed a zero window was taken.
        self.accept_probe(side, tally);
        let hole = self.halves[side as usize].pause(seq);
        self.skip_hole(side, &hole, tally);
        self.halves[side as usize].hold(hole.end, segment);
        self.drain(side, tally);
    }

    /// Delivers payload that starts at the next byte while nothing is held back: the usual case.
    #[inline]
    fn next_bytes<T: Tally>(&mut self, side: Side, segment: &Segment<'_>, len: u64, tally: &mut T) {
        let frame = self.book.arrival(side, segment.time_ns, segment.headers, len);
        self.book.slice(side, frame, len);
        self.halves[side as usize].deliver_bytes(segment.payload, len);
        self.decode(side, segment.payload, len - segment.payload.len() as u64, tally);
    }

    /// Charges the repeated part of a frame, or all of it if nothing is new.
    fn repeated(&mut self, side: Side, segment: &Segment<'_>, start: u64, old: u64, new: u64, tally: &mut impl Tally) {
        if old == 0 {
            return;
        }
        self.counts.rare().retransmitted_bytes += old;
        let half = &self.halves[side as usize];
        let flags = segment.flags;
        let bare = !(flags.syn || flags.fin || flags.rst);
        // RFC 9293 section 3.8.4: a keep-alive repeats the last byte, which has been acknowledged.
        let keep_alive = bare && segment.payload_len == 1 && start + 1 == half.high.max(ORIGIN) && half.acked > start;
        let before_stream = bare && segment.payload_len == 1 && start + 1 == ORIGIN && half.syn_seen();
        if !keep_alive && half.contradicts(start, segment.payload) {
            self.book.note(Note::Conflict);
        }
        let wire = u64::from(segment.wire_len);
        let (owner, account, bytes) = if new == 0 && (keep_alive || before_stream) {
            (self.latest(), Account::Control, wire)
        } else {
            let of_byte = ChargeOwner::Byte(side, start.saturating_sub(ORIGIN));
            (of_byte, Account::Retransmission, if new > 0 { old } else { wire })
        };
        self.book.charge(side, owner, account, bytes, tally);
    }

    /// Delivers, holds or files one stretch of new payload.
    fn new_part<T: Tally>(
        &mut self,
        side: Side,
        segment: &Segment<'_>,
        start: u64,
        part: &Range<u64>,
        frame: Arrival,
        tally: &mut T,
    ) {
        let (len, received) = (part.end - part.start, self.received(side));
        let from = usize::try_from(part.start - start).unwrap_or(usize::MAX);
        let to = usize::try_from(part.end - start).unwrap_or(usize::MAX).min(segment.payload.len());
        let bytes = segment.payload.get(from..to).unwrap_or_default();
        let half = &mut self.halves[side as usize];
        match part.start.cmp(&half.next) {
            Ordering::Less => {
                half.fill(part);
                half.lower(part.start);
                self.stray(side, bytes, frame, len, tally);
            }
            Ordering::Equal => {
                half.deliver_bytes(bytes, len);
                self.book.slice(side, frame, len);
                self.decode(side, bytes, len - bytes.len() as u64, tally);
            }
            Ordering::Greater => {
                let hopeless = half.acked >= part.end && half.hole().is_some();
                half.hold(part.start, EarlySegment { frame, received, bytes: bytes.to_vec(), len });
                // Acknowledged before its capture, and no earlier piece waits for it: the hole will not be filled.
                if hopeless && let Some(hole) = self.halves[side as usize].hole() {
                    self.give_up(side, &hole, tally);
                }
            }
        }
    }

    /// Posts `len` new bytes outside the ordered stream. They wait too until the protocol is known.
    pub(super) fn stray<T: Tally>(&mut self, side: Side, bytes: &[u8], frame: Arrival, len: u64, tally: &mut T) {
        match &mut self.stage {
            FlowStage::Decoding(DecodingStage { protocol, .. }) => {
                tally.trace(Trace::Stray { bytes });
                self.book.stray(*protocol, side, frame, len, tally);
            }
            FlowStage::Sniffing(sniffing) => {
                sniffing.push(side, HeldPayload::Stray { bytes: bytes.to_vec(), frame, len });
            }
            FlowStage::Other => {}
        }
    }

    /// Delivers held bytes that are next, and gives up holes if too much is held.
    pub(super) fn drain<T: Tally>(&mut self, side: Side, tally: &mut T) {
        loop {
            while let Some(early) = self.halves[side as usize].take_next() {
                self.has_released = true;
                self.halves[side as usize].deliver_bytes(&early.bytes, early.len);
                self.book.received(side, early.received);
                self.book.slice(side, early.frame, early.len);
                self.decode(side, &early.bytes, early.len - early.bytes.len() as u64, tally);
            }
            match self.halves[side as usize].hole() {
                Some(hole) if self.halves[side as usize].overfull() => self.skip_hole(side, &hole, tally),
                _ => return,
            }
        }
    }

    pub(super) fn give_up<T: Tally>(&mut self, side: Side, hole: &Range<u64>, tally: &mut T) {
        self.skip_hole(side, hole, tally);
        self.drain(side, tally);
    }

    pub(super) fn skip_hole<T: Tally>(&mut self, side: Side, hole: &Range<u64>, tally: &mut T) {
        let len = hole.end.saturating_sub(hole.start);
        if len > 0 {
            self.halves[side as usize].give_up(hole);
            self.book.gap(side, len);
            self.decode(side, &[], len, tally);
        }
    }

    /// Gives up what a segment with payload acknowledges up to this sequence number, because it is not in the capture: the message that it
    /// answers ends there.
    #[cold]
    pub fn lack<T: Tally>(&mut self, segment: &Segment<'_>, seq: u32, tally: &mut T) {
        let of = self.side_of(segment).other();
        self.fall_back(None, tally);
        if segment.payload_len > 0
            && let Some(hole) = self.halves[of as usize].lacking([segment.ack, seq])
        {
            self.skip_hole(of, &hole, tally);
        }
    }

    /// Hands on ordered bytes: `bytes`, then `opaque` more that cannot be read.
    pub(super) fn decode<T: Tally>(&mut self, side: Side, bytes: &[u8], opaque: u64, tally: &mut T) {
        match &mut self.stage {
            FlowStage::Decoding(_) if self.unproven => self.prove(side, bytes, opaque, tally),
            FlowStage::Decoding(DecodingStage { protocol, engine }) => {
                tally.trace(Trace::Bytes { side, bytes, opaque });
                let mut ledger = LedgerReader::new(&mut self.book, *protocol, tally);
                engine.bytes(side, bytes, &mut ledger);
                if opaque > 0 {
                    engine.opaque(side, opaque, &mut ledger);
                }
            }
            FlowStage::Sniffing(sniffing) => {
                if !bytes.is_empty() {
                    sniffing.push(side, HeldPayload::Bytes(bytes.to_vec(), self.book.received_by(side)));
                }
                if opaque > 0 {
                    sniffing.push(side, HeldPayload::Opaque(opaque));
                }
            }
            FlowStage::Other => {}
        }
    }
}
