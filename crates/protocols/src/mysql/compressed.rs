//! Compressed packets: the stream of plain ones within them.
//!
//! The content of compressed packets is one stream, in which plain packets begin and end anywhere. What these post is held on
//! a tape until it covers the content of the first compressed packet; that one is posted then, in proportion. So what is not
//! posted yet is not consumed either, and a stream that ends amid a packet ends like any other.
//!
//! A plain packet that is longer than what is gathered is decoded from its beginning: what is behind it is counted.

use super::boundary;
use super::decode::PlainDecoder;
use super::wire::header;
use overhead_decode::limits::{EXPANSION_ZLIB, MESSAGE_BUFFER, OUTSTANDING};
use overhead_decode::tape::{Position, Recorder, Tape, post_shares};
use overhead_decode::{Boundary, Codec, Expansion, Input, Malformed, Note, OpId, Out, Reader, Shares, Step};
use overhead_model::{Account, Outcome, Side};
use std::collections::VecDeque;
use std::sync::Arc;

/// Bytes of a compressed packet's header: length u24, sequence number u8, length of the content u24, which is 0 where the
/// content is not compressed.
const HEADER: u64 = 7;
/// Bytes of content that are gathered for one plain packet.
const GATHERED: u64 = 2 * MESSAGE_BUFFER;
/// Bytes of compressed packets that are.
const GATHERED_WIRE: u64 = MESSAGE_BUFFER - (256 << 10);
/// Content that is kept for the next packet's memory.
const KEPT: usize = 64 << 10;

/// Bytes of a content that is compressed, at least: two before it, a block, and a checksum of four (RFC 1950 section 2.2).
const PACKED: u64 = 8;

/// A compressed packet.
#[derive(Clone, Copy, Debug)]
struct CompressedPacket {
    /// Bytes of its payload.
    wire: u64,
    /// Bytes of its content.
    content: u64,
    is_packed: bool,
}

impl CompressedPacket {
    /// The packet whose header `bytes` begin with; `None` where more are needed.
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

/// Both directions of a connection.
#[derive(Debug)]
pub(super) struct CompressedLayer {
    lanes: [CompressedDirection; 2],
    /// Operations that are over but for postings that are held back.
    closing: VecDeque<DeferredClose>,
    expansion: Arc<Expansion>,
    unpacker: PacketDecompressor,
}

/// An operation to be closed when so many bytes of each direction's tape are posted.
#[derive(Clone, Copy, Debug)]
struct DeferredClose {
    op: OpId,
    outcome: Outcome,
    after: [u64; 2],
}

/// One direction.
#[derive(Debug, Default)]
struct CompressedDirection {
    /// Packets whose content was read, and which are not posted yet.
    packets: VecDeque<CompressedPacket>,
    /// Bytes of these.
    read: u64,
    /// Content that was not decoded yet.
    content: Vec<u8>,
    tape: Tape,
    /// Bytes of the tape that were posted.
    played: u64,
    /// Bytes on the tape whose content is yet to come.
    ahead: u64,
    /// Nobody knows where the next plain packet begins.
    is_lost: bool,
    /// The compressed packet that was read last begins a request or an answer.
    begins: bool,
    /// Operations that were closed, each with the bytes on the tape by then.
    closed: Vec<(u64, OpId, Outcome)>,
    /// Whom the plain packet charges that is being decoded.
    current: Option<OpId>,
    owners: Vec<(OpId, u64)>,
    around: Shares,
    parts: Shares,
}

impl CompressedLayer {
    pub fn new(expansion: Arc<Expansion>) -> Self {
        let lanes = [CompressedDirection::default(), CompressedDirection::default()];
        Self { lanes, closing: VecDeque::new(), expansion, unpacker: PacketDecompressor::default() }
    }

    /// One compressed packet, once the plain ones that lie in it are whole.
    pub fn step<R: Reader>(
        &mut self,
        plain: &mut PlainDecoder,
        side: Side,
        input: Input<'_>,
        out: &mut Out<'_, R>,
    ) -> Result<Step, Malformed> {
        let Self { lanes, unpacker, expansion, .. } = self;
        let lane = &mut lanes[side as usize];
        let step = lane.step(plain, side, (unpacker, expansion), input, out);
        self.close(side, out);
        step
    }

    /// Closes what was closed on the tape of `side`, now or once all of it is posted.
    fn close<R: Reader>(&mut self, side: Side, out: &mut Out<'_, R>) {
        let closed = std::mem::take(&mut self.lanes[side as usize].closed);
        let recorded = self.lanes.each_ref().map(|lane| lane.tape.recorded());
        for (position, op, outcome) in closed {
            let mut after = recorded;
            after[side as usize] = position;
            self.closing.push_back(DeferredClose { op, outcome, after });
        }
        self.settle(OUTSTANDING, out);
    }

    /// Closes what is over and posted, and the earliest of more than `limit` that are not.
    fn settle<R: Reader>(&mut self, limit: usize, out: &mut Out<'_, R>) {
        while let Some(&DeferredClose { op, outcome, after }) = self.closing.front() {
            let is_posted = self.lanes.iter().zip(after).all(|(lane, after)| after <= lane.played);
            if !is_posted && self.closing.len() <= limit {
                return;
            }
            self.closing.pop_front();
            out.close(op, outcome);
        }
    }

    /// Bytes of `side` were lost.
    pub fn lost<R: Reader>(&mut self, plain: &mut PlainDecoder, side: Side, out: &mut Out<'_, R>) {
        self.lanes[side as usize] = CompressedDirection { is_lost: true, ..CompressedDirection::default() };
        self.closing.iter_mut().for_each(|closing| closing.after[side as usize] = 0);
        let _ = self.lanes[side as usize].record(side, out, |out| {
            plain.lost(side, out);
            Ok(Step::Progress)
        });
        self.close(side, out);
    }

    /// Nothing of the server is captured.
    pub fn abandon<R: Reader>(&mut self, plain: &mut PlainDecoder, out: &mut Out<'_, R>) {
        let _ = self.lanes[Side::Response as usize].record(Side::Response, out, |out| {
            plain.abandon(out);
            Ok(Step::Progress)
        });
        self.close(Side::Response, out);
    }

    /// The connection is over: what was held back will not be posted any more.
    pub fn end<R: Reader>(&mut self, out: &mut Out<'_, R>) {
        for DeferredClose { op, outcome, .. } in self.closing.drain(..) {
            out.close(op, outcome);
        }
    }

    /// Returns about how many bytes of memory it holds.
    pub fn held(&self) -> usize {
        let lanes = self.lanes.iter().map(|lane| {
            lane.content.capacity() + lane.tape.held_bytes() + lane.packets.capacity() * size_of::<CompressedPacket>()
        });
        size_of::<Self>() + lanes.sum::<usize>() + self.closing.capacity() * size_of::<DeferredClose>()
    }
}

impl CompressedDirection {
    /// One compressed packet.
    fn step<R: Reader>(
        &mut self,
        plain: &mut PlainDecoder,
        side: Side,
        (unpacker, expansion): (&mut PacketDecompressor, &Expansion),
        input: Input<'_>,
        out: &mut Out<'_, R>,
    ) -> Result<Step, Malformed> {
        loop {
            if self.is_front_decoded() {
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
                // What follows was not captured.
                self.give_up(plain, side, out);
                continue;
            };
            if self.packets.is_empty() {
                match is_plausible(packet, next) {
                    Boundary::No => return Err(Malformed("not a compressed packet of MySQL")),
                    Boundary::More if input.opaque == 0 => return Ok(Step::More),
                    Boundary::More | Boundary::Yes => {}
                }
            }
            if input.available() < self.read + packet.total() {
                return Ok(Step::Need(self.read + packet.total()));
            }
            let wire = next.get(HEADER as usize..).unwrap_or_default();
            let wire = usize::try_from(packet.wire).ok().and_then(|len| wire.get(..len)).unwrap_or(wire);
            // A request or an answer begins with this number.
            self.begins = next.get(3) == Some(&u8::from(side == Side::Response));
            self.take(plain, side, (packet, wire), (unpacker, expansion), out)?;
        }
    }

    fn is_front_decoded(&self) -> bool {
        self.packets.front().is_some_and(|front| self.tape.recorded() - self.played >= front.content)
    }

    /// Reads the content of a packet, and decodes what is whole.
    fn take<R: Reader>(
        &mut self,
        plain: &mut PlainDecoder,
        side: Side,
        (packet, wire): (CompressedPacket, &[u8]),
        (unpacker, expansion): (&mut PacketDecompressor, &Expansion),
        out: &mut Out<'_, R>,
    ) -> Result<(), Malformed> {
        self.packets.push_back(packet);
        self.read += packet.total();
        let passed = self.ahead.min(packet.content);
        self.ahead -= passed;
        if passed == packet.content {
            return Ok(());
        }
        let before = self.content.len();
        let mut missing = 0;
        if packet.is_packed {
            match unpacker.unpack(wire, packet, expansion) {
                Ok(content) => self.content.extend_from_slice(content),
                Err(note) => {
                    out.note(note);
                    missing = packet.content;
                }
            }
        } else {
            self.content.extend_from_slice(wire);
            missing = packet.content - wire.len() as u64;
        }
        unpacker.settle();
        let passed = usize::try_from(passed).unwrap_or(usize::MAX).min(self.content.len() - before);
        self.content.drain(before..before + passed);
        self.decode(plain, side, missing, out)
    }

    /// Decodes plain packets, as far as there are whole ones. Of what follows them, `opaque` bytes cannot be read.
    fn decode<R: Reader>(
        &mut self,
        plain: &mut PlainDecoder,
        side: Side,
        mut opaque: u64,
        out: &mut Out<'_, R>,
    ) -> Result<(), Malformed> {
        let content = std::mem::take(&mut self.content);
        let (mut at, mut done) = (0, Ok(()));
        loop {
            let here = content.get(at..).unwrap_or_default();
            if here.is_empty() && opaque == 0 {
                break;
            }
            let used = if self.is_lost {
                self.search(plain, side, (here, opaque), out)
            } else {
                self.one(plain, side, (here, opaque), out)
            };
            match used {
                Ok(0) => break,
                Ok(used) => {
                    let captured = usize::try_from(used).unwrap_or(usize::MAX).min(here.len());
                    at += captured;
                    opaque -= used - captured as u64;
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

    /// Decodes one plain packet; gives the bytes of it that are here, 0 where more are needed.
    fn one<R: Reader>(
        &mut self,
        plain: &mut PlainDecoder,
        side: Side,
        (here, opaque): (&[u8], u64),
        out: &mut Out<'_, R>,
    ) -> Result<u64, Malformed> {
        let available = here.len() as u64 + opaque;
        let step = self.record(side, out, |out| plain.step(side, Input { bytes: here, opaque }, out));
        match step? {
            (_, posted @ 1..) => Ok(posted),
            (Step::Need(need), _) if opaque > 0 || available >= GATHERED || self.read >= GATHERED_WIRE => {
                let opaque = need.saturating_sub(here.len() as u64);
                if available < GATHERED {
                    out.note(Note::UndecodedMessage);
                } else {
                    out.note(Note::LongMessage);
                }
                let (_, posted) = self.record(side, out, |out| plain.step(side, Input { bytes: here, opaque }, out))?;
                self.ahead += posted.saturating_sub(available);
                Ok(posted.min(available))
            }
            _ if opaque > 0 => {
                self.lose(side, available, out);
                let lost = self.record(side, out, |out| {
                    plain.lost(side, out);
                    Ok(Step::Progress)
                });
                lost.map(|_| available)
            }
            _ => Ok(0),
        }
    }

    /// A plain packet, where the compressed one begins a request or an answer; else gives the bytes that are passed over.
    fn search<R: Reader>(
        &mut self,
        plain: &mut PlainDecoder,
        side: Side,
        (here, opaque): (&[u8], u64),
        out: &mut Out<'_, R>,
    ) -> Result<u64, Malformed> {
        let is_found = self.begins && plain.boundary(side, here) == Boundary::Yes;
        if !is_found {
            let passed = here.len() as u64 + opaque;
            self.lose(side, passed, out);
            return Ok(passed);
        }
        self.is_lost = false;
        self.one(plain, side, (here, opaque), out)
    }

    /// Records `len` bytes as undecoded.
    fn lose<R: Reader>(&mut self, side: Side, len: u64, out: &mut Out<'_, R>) {
        self.is_lost = true;
        let _ = self.record(side, out, |out| {
            let op = out.orphan("(undecoded)");
            out.post(Account::Unknown, "undecoded", len);
            out.close(op, Outcome::NoReply);
            Ok(Step::Progress)
        });
    }

    /// What was gathered is not followed by anything that can be read.
    fn give_up<R: Reader>(&mut self, plain: &mut PlainDecoder, side: Side, out: &mut Out<'_, R>) {
        let len = self.content.len() as u64;
        self.content.clear();
        self.lose(side, len, out);
        let _ = self.record(side, out, |out| {
            plain.lost(side, out);
            Ok(Step::Progress)
        });
    }

    /// Puts on the tape what `decode` posts; gives how many bytes it did, beside its result.
    fn record<R: Reader>(
        &mut self,
        side: Side,
        out: &mut Out<'_, R>,
        decode: impl FnOnce(&mut Out<'_, Recorder<'_, '_, R>>) -> Result<Step, Malformed>,
    ) -> Result<(Step, u64), Malformed> {
        let mut recorder = Recorder::append(out, &mut self.tape);
        let mut inner = Out::new(&mut recorder, side, self.current);
        let step = decode(&mut inner);
        inner.leave_all();
        self.current = inner.current();
        let posted = inner.posted();
        let recorded = self.tape.recorded();
        self.closed.extend(self.tape.closed().map(|(op, outcome)| (recorded, op, outcome)));
        Ok((step?, posted))
    }

    /// Posts the first packet.
    fn post<R: Reader>(&mut self, out: &mut Out<'_, R>) {
        let Some(packet) = self.packets.pop_front() else { return };
        self.read -= packet.total();
        let mut player = self.tape.play();
        player.owners(packet.content, &mut self.owners);
        if self.owners.is_empty() {
            let op = out.orphan("(empty packet)");
            out.post(Account::Framing, "compressed packet header", packet.total());
            out.close(op, Outcome::NoReply);
            return;
        }
        let around = self.around.of(HEADER, self.owners.iter().map(|&(_, weight)| weight));
        post_shares(&self.owners, around, (Account::Framing, "compressed packet header", HEADER), out);
        if packet.is_packed {
            player.post_pro_rata(packet.content, packet.wire, &mut self.parts, out);
        } else {
            player.post(packet.content, out);
        }
        out.leave_all();
        out.release();
        let position: Position = player.position();
        self.tape.forget(position);
        self.played += packet.content;
    }
}

/// Returns whether `bytes` provably begin a compressed packet of `side`: its content says what it was compressed with, or is
/// not compressed, and begins with a plain packet.
pub(super) fn begins(side: Side, bytes: &[u8]) -> Boundary {
    // A request or an answer begins here, and there is room for a plain packet.
    let first = u8::from(side == Side::Response);
    if header(bytes).is_some_and(|(wire, sequence)| wire <= super::wire::HEADER || sequence != first) {
        return Boundary::No;
    }
    let Some(packet) = CompressedPacket::read(bytes) else { return Boundary::More };
    let inside = bytes.get(HEADER as usize..).unwrap_or_default();
    if packet.is_packed {
        if packet.wire < PACKED {
            return Boundary::No;
        }
        let is_longer =
            packet.content > packet.wire && packet.content <= packet.wire.saturating_mul(EXPANSION_ZLIB as u64);
        // One of four levels, and the window that everybody has.
        let is_odd = !matches!(inside, [0x78, 0x01 | 0x5e | 0x9c | 0xda, ..]);
        return match codec(inside) {
            Some(Codec::Zlib) if is_odd => Boundary::No,
            Some(_) if is_longer => Boundary::Yes,
            None if is_longer && inside.len() < 4 => Boundary::More,
            _ => Boundary::No,
        };
    }
    let fits = header(inside).is_none_or(|(len, _)| len + 4 <= packet.wire);
    let inner = match side {
        Side::Request => boundary::of_request(inside),
        Side::Response => boundary::of_response(inside, None),
    };
    if fits { inner } else { Boundary::No }
}

/// Returns whether a packet could be one: amid a stream that is compressed, less proof is needed.
fn is_plausible(packet: CompressedPacket, bytes: &[u8]) -> Boundary {
    let inside = bytes.get(HEADER as usize..).unwrap_or_default();
    // What follows the packet says nothing of it.
    let inside = usize::try_from(packet.wire).ok().and_then(|len| inside.get(..len)).unwrap_or(inside);
    match codec(inside) {
        None if packet.is_packed && inside.len() as u64 >= packet.wire.min(4) => Boundary::No,
        None if packet.is_packed => Boundary::More,
        _ => Boundary::Yes,
    }
}

/// Returns what `bytes` are compressed with (RFC 1950 section 2.2; RFC 8878 section 3.1.1).
fn codec(bytes: &[u8]) -> Option<Codec> {
    match *bytes {
        [0x28, 0xb5, 0x2f, 0xfd, ..] => Some(Codec::Zstd),
        [first, second, ..] if first & 0x0f == 8 && u16::from_be_bytes([first, second]) % 31 == 0 => Some(Codec::Zlib),
        _ => None,
    }
}

/// Decompresses packets, one after the other, into the same memory.
#[derive(Default)]
struct PacketDecompressor {
    content: Vec<u8>,
    zlib: Option<flate2::Decompress>,
    zstd: Option<zstd::bulk::Decompressor<'static>>,
}

impl PacketDecompressor {
    /// Returns the content of a packet.
    fn unpack(&mut self, wire: &[u8], packet: CompressedPacket, expansion: &Expansion) -> Result<&[u8], Note> {
        let size = usize::try_from(packet.content).unwrap_or(usize::MAX);
        let codec = codec(wire).filter(|_| wire.len() as u64 == packet.wire).ok_or(Note::UndecodedMessage)?;
        if let Some(note) = codec.refusal(wire.len(), size) {
            return Err(note);
        }
        if !expansion.allows(wire.len(), size) {
            return Err(Note::Expansion);
        }
        self.content.clear();
        let done = match codec {
            Codec::Zstd => self.zstd(wire, size),
            _ => self.zlib(wire, size),
        };
        done.filter(|()| self.content.len() == size).ok_or(Note::UndecodedMessage)?;
        Ok(&self.content)
    }

    fn zlib(&mut self, wire: &[u8], size: usize) -> Option<()> {
        let zlib = self.zlib.get_or_insert_with(|| flate2::Decompress::new(true));
        zlib.reset(true);
        self.content.try_reserve_exact(size).ok()?;
        // Fills what was reserved and no more.
        let status = zlib.decompress_vec(wire, &mut self.content, flate2::FlushDecompress::Finish);
        matches!(status, Ok(flate2::Status::StreamEnd)).then_some(())
    }

    fn zstd(&mut self, wire: &[u8], size: usize) -> Option<()> {
        if self.zstd.is_none() {
            self.zstd = zstd::bulk::Decompressor::new().ok();
        }
        self.content.resize(size, 0);
        let written = self.zstd.as_mut()?.decompress_to_buffer(wire, self.content.as_mut_slice()).ok()?;
        self.content.truncate(written);
        Some(())
    }

    /// Gives back the memory that an unusually long packet took.
    fn settle(&mut self) {
        if self.content.capacity() > KEPT {
            self.content = Vec::new();
        }
    }
}

impl std::fmt::Debug for PacketDecompressor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Unpacker").field("content", &self.content.len()).finish_non_exhaustive()
    }
}
