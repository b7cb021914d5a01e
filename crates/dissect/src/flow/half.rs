//! One direction of a TCP connection: maps sequence numbers to stream offsets and puts bytes in order (RFC 9293 section 3.4).

use super::disorder::{AstraySegment, EarlySegment, ORDER, OutOfOrder};
use super::recent::RecentSegments;
use crate::limits;
use crate::packet::Segment;
use std::ops::Range;

/// Offset of the first byte of every stream. Above 0, so that bytes before a guessed start have an offset too.
pub const ORIGIN: u64 = 1 << 40;

/// Reassembly of one direction. Offsets count payload bytes from [`ORIGIN`].
#[derive(Debug, Default)]
pub struct StreamReassembly {
    /// Sequence number of the byte at `next`; `None` before the first segment.
    next_seq: Option<u32>,
    pub next: u64,
    /// Lowest offset seen or, after a SYN, possible.
    low: u64,
    pub high: u64,
    /// Bytes before [`ORIGIN`], for a stream that no frames carried: it has no acknowledgments.
    base: Option<u64>,
    isn: Option<u32>,
    syn_open: bool,
    pub fin: bool,
    /// Where the sender ended the stream, as far as known.
    end: u64,
    pub acked: u64,
    /// The first acknowledgment, and the number of the first segment without payload, if they came before the first byte.
    first_ack: Option<u32>,
    first_seq: Option<u32>,
    /// Where the sender was, by a segment without payload; not 0 if numbers went on before the first byte.
    reached: u64,
    /// The receiver's window is 0.
    closed: bool,
    recent: RecentSegments,
    /// Absent if segments arrived in sequence, as on most connections.
    disorder: Option<Box<OutOfOrder>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StreamPlace {
    At(u64),
    /// After an astray segment, which it directly continues.
    Behind,
    /// Further ahead or back than any window allows.
    Astray,
}

/// Data that an acknowledgment newly acknowledges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AckedData {
    Nothing,
    /// A SYN, and no payload.
    Handshake,
    /// An astray segment.
    Astray,
    Bytes,
}

/// Keeps the first number, and returns whether this one is more than a FIN ahead.
fn went_on(first: &mut Option<u32>, number: u32) -> bool {
    let ahead = number.wrapping_sub(*first.get_or_insert(number));
    (2..limits::WINDOW).contains(&u64::from(ahead))
}

impl StreamReassembly {
    /// Returns one direction of a connection, or of a stream that no frames carried.
    pub fn new(is_stream: bool) -> Self {
        Self { base: is_stream.then_some(0), ..Self::default() }
    }

    pub fn syn(&mut self, seq: u32) {
        if self.isn.is_none() && self.next_seq.is_none() {
            self.start(seq.wrapping_add(1));
        }
        self.syn_open |= self.isn.is_none();
        self.isn.get_or_insert(seq);
    }

    pub fn is_other_connection(&self, seq: u32) -> bool {
        match self.isn {
            Some(isn) => isn != seq,
            None => self.next_seq.is_some() && self.high > self.low,
        }
    }

    fn disorder(&self) -> &OutOfOrder {
        self.disorder.as_deref().unwrap_or(&ORDER)
    }

    fn start(&mut self, seq: u32) {
        self.next_seq = Some(seq);
        (self.next, self.low, self.high, self.acked) = (ORIGIN, ORIGIN, ORIGIN, ORIGIN);
    }

    /// Moves the start of the stream behind the byte that it started with.
    pub fn restart(&mut self) {
        if let Some(seq) = self.next_seq {
            self.start(seq.wrapping_add(1));
        }
    }

    pub fn syn_seen(&self) -> bool {
        self.isn.is_some()
    }

    /// Returns whether a SYN was seen and nothing has acknowledged it yet.
    pub fn awaits_handshake(&self) -> bool {
        self.syn_open
    }

    pub fn fin(&mut self) {
        self.fin = true;
    }

    /// Notes the sequence number of a RST. It counts a FIN before it, which may be lost.
    pub fn reset_at(&mut self, seq: u32) {
        if !self.fin && self.next_seq.is_some_and(|next| seq != next.wrapping_add(1)) {
            self.end_at(seq);
        }
    }

    /// Notes the sequence number after the last byte.
    pub fn end_at(&mut self, seq: u32) {
        if let Some(end) = self.position(seq).filter(|end| *end <= self.next + limits::WINDOW) {
            self.end = self.end.max(end);
        }
    }

    /// Returns the bytes missing between the last captured ones and the end of the stream.
    pub fn missing(&self) -> Range<u64> {
        self.next..if self.high > ORIGIN { self.end.max(self.next) } else { self.next }
    }

    /// Returns the bytes after the last ones and before all of these sequence numbers, if nothing is held. A FIN takes a number too.
    pub fn lacking(&self, before: [u32; 2]) -> Option<Range<u64>> {
        let end = before.into_iter().filter_map(|seq| self.position(seq)).min()?;
        let is_after_bytes = self.high > ORIGIN && self.hole().is_none();
        (is_after_bytes && end > self.next + 1 && end <= self.next + limits::WINDOW).then_some(self.next..end)
    }

    /// Takes back a hole at the end that only an acknowledgment shows. Returns whether there is one.
    pub fn forgo_end(&mut self) -> bool {
        let (next, end) = (self.next, self.end);
        let Some(disorder) = &mut self.disorder else { return false };
        let Some((&start, _)) = disorder.holes.last_key_value().filter(|(_, last)| **last == next && next > end) else {
            return false;
        };
        disorder.hole_bytes -= next - start.max(end);
        true
    }

    /// Notes the sequence number of a segment without payload that is not that of the next byte.
    #[cold]
    pub fn reach(&mut self, seq: u32) {
        match self.position(seq) {
            Some(offset) if offset <= self.next + limits::WINDOW => self.reached = self.reached.max(offset),
            Some(_) => {}
            None => self.reached |= u64::from(went_on(&mut self.first_seq, seq)),
        }
    }

    /// Returns whether sequence or acknowledgment numbers show bytes that are in no segment, at the end or instead of all; a FIN takes a
    /// number too.
    pub fn has_lost_end(&self) -> bool {
        match self.next_seq {
            Some(_) => self.acked.max(self.reached).max(self.end) > self.next + 1,
            None => self.reached > 0,
        }
    }

    /// Returns whether acknowledged bytes are still to come in the capture.
    #[inline]
    pub fn is_ahead(&self) -> bool {
        self.acked > self.next
    }

    /// Returns the highest acknowledged offset within the payload seen.
    #[inline]
    pub fn acked_seen(&self) -> u64 {
        self.acked.min(self.high)
    }

    /// Returns the number of acknowledged bytes among those seen.
    #[inline]
    pub fn acked_bytes(&self) -> u64 {
        self.acked_seen().saturating_sub(ORIGIN)
    }

    /// Returns the bytes in abandoned holes that were never filled.
    pub fn hole_bytes(&self) -> u64 {
        self.disorder().hole_bytes
    }

    #[inline]
    fn position(&self, seq: u32) -> Option<u64> {
        let distance = seq.wrapping_sub(self.next_seq?).cast_signed();
        Some(self.next.wrapping_add_signed(i64::from(distance)))
    }

    /// Returns the position in the stream, from 0, of the byte with this sequence number; `None` before the first segment, and for bytes
    /// before the stream.
    pub fn stream_offset(&self, seq: u32) -> Option<u64> {
        self.position(seq)?.checked_sub(ORIGIN)
    }

    /// Returns whether a segment has nothing new: all its bytes, its SYN or its FIN came before.
    pub fn repeats(&self, segment: &Segment<'_>) -> bool {
        if segment.flags.syn {
            return self.isn == Some(segment.seq);
        }
        let end = self.position(segment.seq).map(|offset| offset + u64::from(segment.payload_len));
        let is_delivered = end.is_some_and(|end| end > ORIGIN && end <= self.next);
        is_delivered && (segment.payload_len > 0 || segment.flags.fin && self.fin)
    }

    /// Returns whether this sequence number lies behind bytes that were not captured; `None` before the first segment.
    pub fn is_beyond_captured(&self, seq: u32) -> Option<bool> {
        let offset = self.position(seq)?;
        // A FIN takes a number of its own.
        let end = self.high + u64::from(self.fin);
        Some(offset > end && offset <= self.next + limits::WINDOW)
    }

    /// Returns whether an acknowledgment number has nothing new.
    pub fn is_acknowledged_again(&self, ack: u32) -> bool {
        self.position(ack).is_some_and(|offset| offset <= self.acked)
    }

    #[inline]
    pub fn place(&mut self, seq: u32) -> StreamPlace {
        if self.next_seq.is_none() {
            self.start(seq);
        }
        let offset = self.position(seq).unwrap_or(ORIGIN);
        if self.next.abs_diff(offset) <= limits::WINDOW {
            return StreamPlace::At(offset);
        }
        // Two consecutive segments agree: the stream continues here.
        if self.is_astray_end(seq) { StreamPlace::Behind } else { StreamPlace::Astray }
    }

    fn is_astray_end(&self, seq: u32) -> bool {
        let OutOfOrder { astray, early, .. } = self.disorder();
        early.is_empty() && astray.as_ref().is_some_and(|astray| astray.end() == seq)
    }

    /// Holds an astray segment, and returns the one held before, which nothing continued.
    #[cold]
    pub fn hold_astray(&mut self, astray: AstraySegment) -> Option<AstraySegment> {
        self.disorder.get_or_insert_default().astray.replace(astray)
    }

    pub fn take_astray(&mut self) -> Option<AstraySegment> {
        self.disorder.as_mut()?.astray.take()
    }

    /// Removes the astray segment and returns it with its offset, if it turns out to lie near.
    pub fn take_near_astray(&mut self) -> Option<(u64, EarlySegment)> {
        let offset = self.position(self.disorder.as_ref()?.astray.as_ref()?.seq)?;
        let is_near = offset >= self.next && offset <= self.next + limits::WINDOW;
        if is_near { self.take_astray().map(|astray| (offset, astray.segment)) } else { None }
    }

    /// Returns the bytes up to this sequence number, which lies ahead, however far.
    pub fn pause(&mut self, seq: u32) -> Range<u64> {
        if self.next_seq.is_none() {
            self.start(self.first_ack.unwrap_or(seq));
        }
        self.next..self.next + u64::from(self.next_seq.map_or(0, |next| seq.wrapping_sub(next)))
    }

    /// Returns whether this acknowledgment number is further away than any window allows.
    pub fn is_far(&self, ack: u32) -> bool {
        match self.position(ack) {
            Some(offset) => self.next.abs_diff(offset) > limits::WINDOW,
            None => self.first_ack.is_some_and(|first| first != ack),
        }
    }

    /// Takes in an acknowledgment number and returns what it newly acknowledges.
    #[inline]
    pub fn acknowledge(&mut self, ack: u32) -> AckedData {
        if self.base.is_some() {
            return AckedData::Nothing;
        }
        let Some(offset) = self.position(ack) else {
            self.reached |= u64::from(went_on(&mut self.first_ack, ack));
            return AckedData::Nothing;
        };
        let handshake = std::mem::take(&mut self.syn_open);
        if offset > self.acked && offset <= self.next + limits::WINDOW {
            self.acked = offset;
            return AckedData::Bytes;
        }
        if handshake {
            AckedData::Handshake
        } else if self.is_astray_end(ack) {
            AckedData::Astray
        } else {
            AckedData::Nothing
        }
    }

    /// Takes in an acknowledgment number as [`StreamReassembly::acknowledge`] does, if nothing is astray, no
    /// SYN awaits its acknowledgment, and the number acknowledges no more than was delivered. Returns whether it acknowledges new bytes.
    #[inline]
    pub fn acknowledge_delivered(&mut self, ack: u32) -> bool {
        let Some(next_seq) = self.next_seq.filter(|_| self.base.is_none()) else { return false };
        let offset = self.next - u64::from(next_seq.wrapping_sub(ack));
        let is_news = offset > self.acked;
        if is_news {
            self.acked = offset;
        }
        is_news
    }

    /// Returns the offset of a stream piece from the number of bytes before it. If the stream `begins` with the connection, offsets count
    /// from its start, otherwise from the first piece.
    pub fn place_piece(&mut self, offset: u64, begins: bool) -> u64 {
        if self.next_seq.is_none() {
            let base = if begins { 0 } else { offset };
            self.base = Some(base);
            self.start(base as u32);
        }
        ORIGIN.wrapping_add(offset.wrapping_sub(self.base.unwrap_or_default()))
    }

    /// Lowers the start of a stream that the capture joined late.
    pub fn lower(&mut self, offset: u64) {
        self.low = self.low.min(offset);
    }

    /// Returns whether payload at `offset` simply continues the stream: nothing is held or was given up, and it is no probe.
    #[inline]
    pub fn is_next(&self, offset: u64) -> bool {
        offset == self.next && self.is_orderly()
    }

    /// Returns whether nothing is held or was given up, and the receiver has room.
    #[inline]
    pub fn is_orderly(&self) -> bool {
        let orderly =
            |disorder: &OutOfOrder| disorder.early.is_empty() && disorder.holes.is_empty() && disorder.astray.is_none();
        !self.closed && self.disorder.as_deref().is_none_or(orderly)
    }

    #[inline]
    pub fn is_next_seq(&self, seq: u32) -> bool {
        self.next_seq == Some(seq)
    }

    /// Returns whether `ack` acknowledges nothing beyond what was delivered.
    #[inline]
    pub fn has_delivered(&self, ack: u32) -> bool {
        self.next_seq.is_some_and(|next| next.wrapping_sub(ack).cast_signed() >= 0)
    }

    /// Returns whether `ack` acknowledges everything delivered, and some of it for the first time.
    #[inline]
    pub fn is_acknowledged_by(&self, ack: u32) -> bool {
        self.is_next_seq(ack) && self.acked < self.next
    }

    /// Appends the parts of `range` never seen before to `new`, lowest first.
    pub fn unseen(&self, range: Range<u64>, new: &mut Vec<Range<u64>>) {
        let mut keep = |part: Range<u64>| {
            if part.start < part.end {
                new.push(part);
            }
        };
        if !self.syn_seen() {
            keep(range.start..range.end.min(self.low));
        }
        let disorder = self.disorder();
        for hole in disorder.holes_in(&range) {
            keep(hole);
        }
        let early = &disorder.early;
        let mut at = range.start.max(self.next);
        let first = early.range(..=at).next_back().map_or(at, |(&start, _)| start);
        for (&start, early) in early.range(first..range.end.max(first)) {
            keep(at..range.end.min(start));
            at = at.max(start + early.len);
        }
        keep(at..range.end);
        new.sort_unstable_by_key(|part| part.start);
    }

    /// Removes a part that was filled after all from the abandoned holes.
    pub fn fill(&mut self, part: &Range<u64>) {
        let Some(disorder) = &mut self.disorder else { return };
        let cuts: Vec<Range<u64>> = disorder.holes_in(part).collect();
        for cut in cuts {
            let Some((&start, end)) = disorder.holes.range_mut(..=cut.start).next_back() else { continue };
            let before = std::mem::replace(end, cut.start);
            if start == cut.start {
                disorder.holes.remove(&start);
            }
            if cut.end < before {
                disorder.holes.insert(cut.end, before);
            }
            disorder.hole_bytes -= cut.end - cut.start;
        }
        // Filling the middle of a hole splits it in two.
        while disorder.holes.len() > limits::PARTS_OF_HOLES {
            disorder.holes.pop_first();
        }
    }

    /// Records the receiver's announced window.
    pub fn window(&mut self, window: u16) {
        self.closed = window == 0;
    }

    /// Returns whether `len` bytes at `offset` probe a zero window: the next byte, which the receiver has no room for.
    pub fn is_probe(&self, offset: u64, len: u32) -> bool {
        self.closed && len == 1 && offset == self.next && self.acked <= offset && self.disorder().early.is_empty()
    }

    /// Returns whether `bytes` at `offset` differ from the earlier ones, as far as those are still known.
    pub fn contradicts(&self, offset: u64, bytes: &[u8]) -> bool {
        let end = offset.saturating_add(bytes.len() as u64);
        let held = self.disorder().early.range(..end).rev().take_while(|&(&start, early)| start + early.len > offset);
        let differs = |(&start, early): (&u64, &EarlySegment)| {
            let skip = |from: u64| usize::try_from(offset.max(start) - from).unwrap_or(usize::MAX);
            let (mine, theirs) = (bytes.get(skip(offset)..), early.bytes.get(skip(start)..));
            mine.unwrap_or_default().iter().zip(theirs.unwrap_or_default()).any(|(mine, theirs)| mine != theirs)
        };
        held.into_iter().any(differs) || self.recent.contradicts(offset, bytes)
    }

    /// Delivers `len` bytes at `next`, and remembers `bytes` if all of them were captured.
    #[inline(always)]
    pub fn deliver_bytes(&mut self, bytes: &[u8], len: u64) {
        // Bytes that no frame carried are never retransmitted.
        if bytes.len() as u64 == len && self.base.is_none() {
            self.recent.remember(self.next, bytes);
        }
        self.deliver(len);
    }

    #[inline]
    pub fn deliver(&mut self, len: u64) {
        self.next += len;
        self.next_seq = self.next_seq.map(|seq| seq.wrapping_add(len as u32));
        self.high = self.high.max(self.next);
    }

    pub fn hold(&mut self, offset: u64, early: EarlySegment) {
        self.high = self.high.max(offset + early.len);
        let disorder = self.disorder.get_or_insert_default();
        disorder.early_bytes += early.bytes.len() as u64;
        disorder.early.insert(offset, early);
    }

    /// Removes and returns the held piece at `next`.
    pub fn take_next(&mut self) -> Option<EarlySegment> {
        let disorder = self.disorder.as_mut()?;
        let early = disorder.early.remove(&self.next)?;
        disorder.early_bytes -= early.bytes.len() as u64;
        Some(early)
    }

    pub fn hole(&self) -> Option<Range<u64>> {
        let (&first, _) = self.disorder().early.first_key_value()?;
        Some(self.next..first)
    }

    /// Returns whether more is held than the limits allow.
    pub fn overfull(&self) -> bool {
        let OutOfOrder { early, early_bytes, .. } = self.disorder();
        *early_bytes > limits::OUT_OF_ORDER_BYTES || early.len() > limits::OUT_OF_ORDER_PIECES
    }

    #[inline]
    pub fn held(&self) -> usize {
        self.disorder.as_deref().map_or(0, OutOfOrder::held)
    }

    /// Abandons a hole and remembers it.
    pub fn give_up(&mut self, hole: &Range<u64>) {
        let disorder = self.disorder.get_or_insert_default();
        disorder.hole_bytes += hole.end - hole.start;
        disorder.holes.insert(hole.start, hole.end);
        if disorder.holes.len() > limits::GIVEN_UP_HOLES {
            disorder.holes.pop_first();
        }
        self.deliver(hole.end - hole.start);
    }
}
