//! Compressed packets, and the stream of plain packets inside them.
//!
//! The content of compressed packets is one stream; plain packets start and end anywhere in it. Their postings are held
//! on a tape until they cover the content of the first compressed packet, which is then posted in proportion. Bytes
//! that are not posted yet are not consumed either, so a stream that ends within a packet needs no special care.
//!
//! Of a plain packet longer than the buffer, the start is decoded and the rest only counted.

use super::boundary;
use super::decode::PlainDecoder;
use super::wire::header;
use crate::decompress::append_plain;
use overhead_decode::limits::{BOUNDARY_WINDOW, EXPANSION_ZLIB, MESSAGE_BUFFER, OUTSTANDING};
use overhead_decode::tape::{DeferredCloses, PostingTape, TapeRecorder, post_shares};
use overhead_decode::{
    Codec, DecodeStep, Expansion, Input, Malformed, MessageBoundary, Note, OpId, OperationShares, Out, Reader, Step,
};
use overhead_model::{Account, Outcome, Side};
use std::collections::VecDeque;
use std::sync::Arc;

/// Compressed packet header: length u24, sequence number u8, length of the content u24 (0 if it is stored
/// uncompressed).
const HEADER: u64 = 7;
/// Most content bytes buffered for a plain packet.
const GATHERED: u64 = 2 * MESSAGE_BUFFER;
/// Most bytes of compressed packets buffered for it.
const GATHERED_WIRE: u64 = MESSAGE_BUFFER - (256 << 10);
/// Postings of a compressed packet that are reported one by one to a listener that wants them. A packet of more is reported in part.
const DETAILED: usize = 1 << 21;
/// Content memory kept between packets.
const KEPT: usize = 64 << 10;
/// Shortest compressed content: two bytes of header, a block, and four bytes of checksum (RFC 1950 section 2.2).
const PACKED: u64 = 8;

#[derive(Clone, Copy, Debug)]
struct CompressedPacket {
    wire: u64,
    content: u64,
    is_packed: bool,
}

impl CompressedPacket {
    /// Parses the header at the start of `bytes`; `None` if more are needed.
    fn read(bytes: &[u8]) -> Option<Self> {
        let (wire, _) = header(bytes)?;
        let [a, b, c] = *bytes.get(4..)?.first_chunk()?;
        let content = u64::from(u32::from_le_bytes([a, b, c, 0]));
        Some(Self { wire, content: if content == 0 { wire } else { content }, is_packed: content > 0 })
    }

    fn total(self) -> u64 {
        HEADER + self.wire
    }
}

#[derive(Debug)]
pub(super) struct CompressedLayer {
    directions: [CompressedDirection; 2],
    /// Finished operations with postings still on a tape.
    closing: DeferredCloses,
    expansion: Arc<Expansion>,
}

#[derive(Debug, Default)]
struct CompressedDirection {
    /// Packets whose content was read but not posted.
    packets: VecDeque<CompressedPacket>,
    /// Their length in bytes.
    read: u64,
    /// Content of these and all before them, in bytes.
    taken: u64,
    /// Content not decoded yet.
    content: Vec<u8>,
    tape: PostingTape,
    /// Bytes of the tape already posted.
    played: u64,
    /// Bytes on the tape whose content has yet to arrive.
    ahead: u64,
    /// The next plain packet's position is unknown.
    is_lost: bool,
    /// The last compressed packet starts a request or a reply.
    begins: bool,
    /// Closed operations, with the bytes on the tape at that time.
    closed: Vec<(u64, OpId, Outcome)>,
    /// The operation charged by the current plain packet.
    current: Option<OpId>,
    owners: Vec<(OpId, u64)>,
    around: OperationShares,
    parts: OperationShares,
}

impl CompressedLayer {
    pub fn new(expansion: Arc<Expansion>) -> Self {
        let directions = [CompressedDirection::default(), CompressedDirection::default()];
        Self { directions, closing: DeferredCloses::default(), expansion }
    }

    /// Decodes one compressed packet, once the plain packets in it are complete.
    pub fn step<R: Reader>(&mut self, plain: &mut PlainDecoder, input: Input<'_>, out: &mut Out<'_, R>) -> DecodeStep {
        let step = self.directions[out.side() as usize].step(plain, &self.expansion, input, out);
        self.close(out);
        step
    }

    /// Closes the operations closed on the tape of this side, or defers that until their bytes are posted.
    fn close<R: Reader>(&mut self, out: &mut Out<'_, R>) {
        let side = out.side();
        let closed = std::mem::take(&mut self.directions[side as usize].closed);
        let recorded = self.directions.each_ref().map(|direction| direction.tape.recorded);
        for (position, op, outcome) in closed {
            let mut after = recorded;
            after[side as usize] = position;
            self.closing.push(op, outcome, after);
        }
        let played = self.directions.each_ref().map(|direction| direction.played);
        self.closing.settle(played, OUTSTANDING, out);
    }

    pub fn lost<R: Reader>(&mut self, plain: &mut PlainDecoder, out: &mut Out<'_, R>) {
        let side = out.side();
        self.directions[side as usize] = CompressedDirection { is_lost: true, ..CompressedDirection::default() };
        self.closing.forget(side);
        self.directions[side as usize].record(out, |out| plain.lost(side, out));
        self.close(out);
    }

    /// No packet of the server is captured.
    pub fn abandon<R: Reader>(&mut self, plain: &mut PlainDecoder, out: &mut Out<'_, R>) {
        self.directions[Side::Response as usize].record(out, |out| plain.abandon(out));
        self.close(out);
    }

    /// Ends the connection: held postings are dropped.
    pub fn end<R: Reader>(&mut self, out: &mut Out<'_, R>) {
        self.closing.settle([u64::MAX; 2], 0, out);
    }

    pub fn held(&self) -> usize {
        let directions = self.directions.iter().map(|direction| {
            direction.content.capacity()
                + direction.tape.held_bytes()
                + direction.packets.capacity() * size_of::<CompressedPacket>()
        });
        size_of::<Self>() + directions.sum::<usize>() + self.closing.held()
    }
}

impl CompressedDirection {
    fn step<R: Reader>(
        &mut self,
        plain: &mut PlainDecoder,
        expansion: &Expansion,
        input: Input<'_>,
        out: &mut Out<'_, R>,
    ) -> DecodeStep {
        loop {
            let decoded = self.tape.recorded - self.played;
            if self.packets.front().is_some_and(|front| decoded >= front.content) {
                self.post(out);
                return Ok(Step::Progress);
            }
            let next = usize::try_from(self.read).ok().and_then(|read| input.bytes.get(read..)).unwrap_or_default();
            let Some(packet) = CompressedPacket::read(next) else {
                if self.packets.is_empty() {
                    return Ok(Step::More);
                }
                if input.available() < self.read + HEADER {
                    return Ok(Step::Need(self.read + HEADER));
                }
                // The next bytes were not captured.
                self.give_up(plain, out);
                continue;
            };
            if self.packets.is_empty() {
                match is_plausible(packet, next) {
                    MessageBoundary::No => return Err(Malformed("not a compressed packet of MySQL")),
                    MessageBoundary::More if input.opaque == 0 => return Ok(Step::More),
                    MessageBoundary::More | MessageBoundary::Yes => {}
                }
            }
            if input.available() < self.read + packet.total() {
                return Ok(Step::Need(self.read + packet.total()));
            }
            let wire = next.get(HEADER as usize..).unwrap_or_default();
            let wire = usize::try_from(packet.wire).ok().and_then(|len| wire.get(..len)).unwrap_or(wire);
            // Sequence number at the start of a request or reply.
            self.begins = next.get(3) == Some(&u8::from(out.side() == Side::Response));
            self.take(plain, (packet, wire), expansion, out)?;
        }
    }

    /// Reads the content of a packet, and decodes complete plain packets.
    fn take<R: Reader>(
        &mut self,
        plain: &mut PlainDecoder,
        (packet, wire): (CompressedPacket, &[u8]),
        expansion: &Expansion,
        out: &mut Out<'_, R>,
    ) -> DecodeStep<()> {
        self.packets.push_back(packet);
        self.read += packet.total();
        let start = self.taken;
        self.taken += packet.content;
        let summed = if packet.is_packed { start..self.taken } else { 0..0 };
        self.tape.sum_up(summed, if out.wants_inner() { DETAILED } else { 0 });
        let passed = self.ahead.min(packet.content);
        self.ahead -= passed;
        if passed == packet.content {
            return Ok(());
        }
        let before = self.content.len();
        let mut missing = 0;
        if packet.is_packed {
            if let Err(note) = self.unpack(wire, packet, expansion) {
                out.note(note);
                missing = packet.content;
            }
        } else {
            self.content.extend_from_slice(wire);
            missing = packet.content - wire.len() as u64;
        }
        let passed = usize::try_from(passed).unwrap_or(usize::MAX).min(self.content.len() - before);
        self.content.drain(before..before + passed);
        self.decode(plain, missing, (packet.total(), expansion), out)
    }

    fn unpack(&mut self, wire: &[u8], packet: CompressedPacket, expansion: &Expansion) -> Result<(), Note> {
        let size = usize::try_from(packet.content).unwrap_or(usize::MAX);
        let codec = codec(wire).filter(|_| wire.len() as u64 == packet.wire).ok_or(Note::UndecodedMessage)?;
        append_plain((codec, wire, size), expansion, &mut self.content)
    }

    /// Decodes complete plain packets, as many as a compressed packet of `packed` bytes may have. The content is followed by `opaque`
    /// unreadable bytes.
    fn decode<R: Reader>(
        &mut self,
        plain: &mut PlainDecoder,
        mut opaque: u64,
        (packed, expansion): (u64, &Expansion),
        out: &mut Out<'_, R>,
    ) -> DecodeStep<()> {
        let content = std::mem::take(&mut self.content);
        let (mut at, mut done) = (0, Ok(()));
        let (start, mut before) = (self.tape.opened, 0);
        loop {
            let here = Input { bytes: content.get(at..).unwrap_or_default(), opaque };
            if here.available() == 0 {
                break;
            }
            let operations = self.tape.opened - start;
            let may_go_on = expansion.allows_operations(packed, std::mem::replace(&mut before, operations), operations);
            match if self.is_lost {
                self.search(plain, here, out)
            } else if may_go_on {
                self.one(plain, here, out)
            } else {
                out.note(Note::ManyOperations);
                Ok(self.skip(plain, here.available(), out))
            } {
                Ok(0) => break,
                Ok(used) => {
                    let left = here.after(used);
                    (at, opaque) = (content.len() - left.bytes.len(), left.opaque);
                }
                Err(malformed) => {
                    done = Err(malformed);
                    break;
                }
            }
        }
        self.content = content;
        self.content.drain(..at);
        self.content.shrink_to(KEPT);
        done
    }

    /// Decodes one plain packet and returns its available bytes; 0 if more are needed.
    fn one<R: Reader>(&mut self, plain: &mut PlainDecoder, here: Input<'_>, out: &mut Out<'_, R>) -> DecodeStep<u64> {
        let (side, available) = (out.side(), here.available());
        let (step, posted) = self.record(out, |out| plain.step(side, here, out));
        match step? {
            _ if posted > 0 => Ok(posted),
            Step::Need(need) if here.opaque > 0 || available >= GATHERED || self.read >= GATHERED_WIRE => {
                let opaque = need.saturating_sub(here.bytes.len() as u64);
                out.note(if available < GATHERED { Note::UndecodedMessage } else { Note::LongMessage });
                let (step, posted) = self.record(out, |out| plain.step(side, Input { opaque, ..here }, out));
                step?;
                self.ahead += posted.saturating_sub(available);
                Ok(posted.min(available))
            }
            _ if here.opaque > 0 => Ok(self.skip(plain, available, out)),
            _ => Ok(0),
        }
    }

    /// Decodes a plain packet if one starts with the compressed packet; otherwise returns the number of skipped bytes.
    fn search<R: Reader>(
        &mut self,
        plain: &mut PlainDecoder,
        here: Input<'_>,
        out: &mut Out<'_, R>,
    ) -> DecodeStep<u64> {
        if !self.begins || plain.boundary(out.side(), here.bytes) != MessageBoundary::Yes {
            self.lose(here.available(), out);
            return Ok(here.available());
        }
        self.is_lost = false;
        self.one(plain, here, out)
    }

    fn lose<R: Reader>(&mut self, len: u64, out: &mut Out<'_, R>) {
        self.is_lost = true;
        self.record(out, |out| out.post_alone("(undecoded)", (Account::Unknown, "undecoded", len)));
    }

    /// Drops the buffered content because no readable bytes follow.
    fn give_up<R: Reader>(&mut self, plain: &mut PlainDecoder, out: &mut Out<'_, R>) {
        let len = self.content.len() as u64;
        self.content.clear();
        self.skip(plain, len, out);
    }

    /// Passes over content in which the decoder can't go on, and returns its length.
    fn skip<R: Reader>(&mut self, plain: &mut PlainDecoder, len: u64, out: &mut Out<'_, R>) -> u64 {
        let side = out.side();
        self.lose(len, out);
        self.record(out, |out| plain.lost(side, out));
        len
    }

    /// Records the postings of `decode` on the tape. Returns its result and the number of bytes posted.
    fn record<T, R: Reader>(
        &mut self,
        out: &mut Out<'_, R>,
        decode: impl FnOnce(&mut Out<'_, TapeRecorder<'_, '_, R>>) -> T,
    ) -> (T, u64) {
        let side = out.side();
        let mut recorder = TapeRecorder::append(out, &mut self.tape);
        let mut inner = Out::new(&mut recorder, side, self.current);
        let result = decode(&mut inner);
        inner.leave_all();
        self.current = inner.current();
        let posted = inner.posted();
        let recorded = self.tape.recorded;
        self.closed.extend(self.tape.closed().map(|(op, outcome)| (recorded, op, outcome)));
        (result, posted)
    }

    fn post<R: Reader>(&mut self, out: &mut Out<'_, R>) {
        let Some(packet) = self.packets.pop_front() else { return };
        self.read -= packet.total();
        let mut player = self.tape.play();
        player.owners(packet.content, &mut self.owners);
        if self.owners.is_empty() {
            out.post_alone("(empty packet)", (Account::Framing, "compressed packet header", packet.total()));
            return;
        }
        let around = self.around.divide(HEADER, self.owners.iter().map(|&(_, weight)| weight));
        post_shares(&self.owners, around, (Account::Framing, "compressed packet header", HEADER), out);
        if packet.is_packed {
            player.post_pro_rata(packet.content, packet.wire, &mut self.parts, out);
        } else {
            player.post(packet.content, out);
        }
        out.leave_all();
        out.release();
        let position = player.at;
        self.tape.forget(position);
        self.played += packet.content;
    }
}

/// Returns whether a compressed packet of `side` starts here: its content has a compression header, or is stored and
/// starts with a plain packet.
pub(super) fn begins(side: Side, bytes: &[u8]) -> MessageBoundary {
    // The plain packet inside must not be searched further than the compressed one.
    let bytes = bytes.get(..BOUNDARY_WINDOW).unwrap_or(bytes);
    // Starts a request or reply, and has room for a plain packet.
    let first = u8::from(side == Side::Response);
    if header(bytes).is_some_and(|(wire, sequence)| wire <= super::wire::HEADER || sequence != first) {
        return MessageBoundary::No;
    }
    let Some(packet) = CompressedPacket::read(bytes) else { return MessageBoundary::More };
    let inside = bytes.get(HEADER as usize..).unwrap_or_default();
    if packet.is_packed {
        if packet.wire < PACKED {
            return MessageBoundary::No;
        }
        let is_longer =
            packet.content > packet.wire && packet.content <= packet.wire.saturating_mul(EXPANSION_ZLIB as u64);
        // One of four levels, with the usual window.
        let is_odd = !matches!(inside, [0x78, 0x01 | 0x5e | 0x9c | 0xda, ..]);
        return match codec(inside) {
            Some(Codec::Zlib) if is_odd => MessageBoundary::No,
            Some(_) if is_longer => MessageBoundary::Yes,
            None if is_longer && inside.len() < 4 => MessageBoundary::More,
            _ => MessageBoundary::No,
        };
    }
    let fits = header(inside).is_none_or(|(len, _)| len + 4 <= packet.wire);
    let inner = match side {
        Side::Request => boundary::request_boundary(inside),
        Side::Response => boundary::response_boundary(inside, None),
    };
    if fits { inner } else { MessageBoundary::No }
}

/// Returns whether this may be a packet. Within a compressed stream, less proof is needed.
fn is_plausible(packet: CompressedPacket, bytes: &[u8]) -> MessageBoundary {
    let inside = bytes.get(HEADER as usize..).unwrap_or_default();
    // Bytes after the packet do not count.
    let inside = usize::try_from(packet.wire).ok().and_then(|len| inside.get(..len)).unwrap_or(inside);
    match codec(inside) {
        None if packet.is_packed && inside.len() as u64 >= packet.wire.min(4) => MessageBoundary::No,
        None if packet.is_packed => MessageBoundary::More,
        _ => MessageBoundary::Yes,
    }
}

/// Returns the compression of `bytes` (RFC 1950 section 2.2; RFC 8878 section 3.1.1).
fn codec(bytes: &[u8]) -> Option<Codec> {
    match *bytes {
        [0x28, 0xb5, 0x2f, 0xfd, ..] => Some(Codec::Zstd),
        [first, second, ..] if first & 0x0f == 8 && u16::from_be_bytes([first, second]) % 31 == 0 => Some(Codec::Zlib),
        _ => None,
    }
}
