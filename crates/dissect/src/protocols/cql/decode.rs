//! Messages, wherever they lie: plain on the stream, with compressed bodies, or within segments.

use super::pair::{Exchange, Session};
use super::segment::{Format, Segment, TRAILER, crc32};
use super::tape::{Recorder, Shares, Tape};
use super::wire::{Header, NoHeader, flag, opcode};
use super::{Cql, compression, request, response};
use crate::decode::{Cursor, Input, Malformed, Note, OpId, Out, Reader, Short, Step};
use crate::limits::MESSAGE_BUFFER;
use overhead_model::{Account, Outcome, Side};

/// Bytes of segments that are gathered for one message; what it has beyond is counted, not read. Leaves room for one
/// more segment in what the engine keeps.
const GATHERED: u64 = MESSAGE_BUFFER - (1 << 18);

/// Memory that is kept for the next message. More than this is given back.
const KEPT: usize = 1 << 20;

/// How the bytes of one direction are cut into messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Framing {
    /// Message after message.
    Messages,
    /// Messages up to the first segment: the handshake of version 5, or an unknown point of a connection.
    Either,
    /// Segments.
    Segments,
}

/// The rest of a message of which all that could be read was decoded.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rest {
    op: OpId,
    left: u64,
    outcome: Option<Outcome>,
}

/// Buffers that are kept from message to message.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    body: Vec<u8>,
    body_tape: Tape,
    payload: Vec<u8>,
    block: Vec<u8>,
    segments: Vec<Segment>,
    payload_tape: Tape,
    owners: Vec<(OpId, u64)>,
    overhead: Shares,
    shares: Shares,
}

impl Scratch {
    fn shrink(&mut self) {
        for buffer in [&mut self.body, &mut self.payload, &mut self.block] {
            if buffer.capacity() > KEPT {
                *buffer = Vec::new();
            }
        }
    }
}

impl Cql {
    /// One message from the start of `input`.
    pub(super) fn plain<R: Reader>(
        &mut self,
        side: Side,
        input: Input<'_>,
        out: &mut Out<'_, R>,
    ) -> Result<Step, Malformed> {
        let header = match Header::read(input.bytes, side) {
            Ok(header) => header,
            Err(NoHeader::Short) => return Ok(Step::More),
            Err(NoHeader::Bad(reason)) => return Err(Malformed(reason)),
        };
        if input.available() < header.total() {
            return Ok(Step::Need(header.total()));
        }
        self.settle_framing(&header);
        let exchange = self.exchange(&header, out);
        let rest = self.message(&header, exchange, input, out)?;
        out.release();
        if let Some(outcome) = rest.outcome {
            out.close(rest.op, outcome);
        }
        Ok(Step::Progress)
    }

    /// Segments begin after the handshake of version 5 and never below it.
    fn settle_framing(&mut self, header: &Header) {
        if header.version < 5 {
            self.framing[header.side as usize] = Framing::Messages;
        } else if header.opcode == opcode::STARTUP {
            self.framing = [Framing::Either; 2];
            self.format = None;
        }
    }

    /// Posts as much of a message as `input` has to the operation of `exchange`, and says what of it is left and how the
    /// operation ends.
    fn message<R: Reader>(
        &mut self,
        header: &Header,
        mut exchange: Exchange,
        input: Input<'_>,
        out: &mut Out<'_, R>,
    ) -> Result<Rest, Malformed> {
        let op = exchange.op;
        out.charge(op);
        out.enter(header.name);
        let before = exchange;
        let mut cursor = Cursor::new(input, header.total(), out);
        let available = cursor.remaining();
        if header.post(&mut cursor).is_ok() {
            let _ = self.body(header, &mut exchange, &mut cursor);
        }
        cursor.finish();
        out.leave();
        let renamed = (exchange.name, exchange.class) != (before.name, before.class);
        if header.side == Side::Request || renamed {
            out.label(op, exchange.class, exchange.name, exchange.via);
        }
        let mut outcome = None;
        if header.side == Side::Response {
            outcome = Some(match header.opcode {
                opcode::ERROR => Outcome::Error,
                opcode::EVENT => Outcome::Unsolicited,
                _ => Outcome::Ok,
            });
        } else {
            self.session.wait(header.stream, exchange)?;
        }
        Ok(Rest { op, left: header.total() - available, outcome })
    }

    /// The operation that a message belongs to.
    fn exchange<R: Reader>(&mut self, header: &Header, out: &mut Out<'_, R>) -> Exchange {
        if header.side == Side::Request {
            let op = out.open();
            return self.session.request(op, header);
        }
        // Streams below 0 are the server's own.
        let answered = if header.stream < 0 || header.opcode == opcode::EVENT {
            None
        } else {
            self.session.answered(header.stream)
        };
        answered.unwrap_or_else(|| {
            let op = out.open();
            let exchange = self.session.unasked(op, header);
            out.label(op, exchange.class, exchange.name, exchange.via);
            exchange
        })
    }

    fn body<R: Reader>(
        &mut self,
        header: &Header,
        exchange: &mut Exchange,
        cursor: &mut Cursor<'_, '_, '_, R>,
    ) -> Result<(), Short> {
        // Version 5 compresses segments instead, and a STARTUP is never compressed.
        if !header.has(flag::COMPRESSED) || header.version >= 5 || header.opcode == opcode::STARTUP {
            return plain_body(&mut self.session, header, exchange, cursor);
        }
        let whole = cursor.peek();
        if (whole.len() as u64) < cursor.remaining() {
            return Err(Short);
        }
        let scratch = &mut self.scratch;
        let preamble = compression::body(self.session.compression, whole, &mut scratch.body).ok_or(Short)?;
        cursor.skip(preamble, Account::Framing, "decompressed length")?;
        {
            let mut recorder = Recorder::new(cursor.out(), &mut scratch.body_tape);
            let mut current = Some(exchange.op);
            let mut out = Out::new(&mut recorder, header.side, &mut current);
            let input = Input { bytes: &scratch.body, opaque: 0 };
            let mut inner = Cursor::new(input, scratch.body.len() as u64, &mut out);
            let _ = plain_body(&mut self.session, header, exchange, &mut inner);
            inner.finish();
        }
        cursor.out().note(Note::ProRata);
        let amounts = scratch.body_tape.amounts();
        let shares = scratch.shares.of(cursor.remaining(), amounts.iter().map(|(_, amount)| amount));
        for (account, &mut share) in Account::ALL.into_iter().zip(shares) {
            cursor.skip(share, account, "compressed")?;
        }
        // What nothing is compressed to.
        cursor.rest(Account::Framing, "compressed");
        scratch.shrink();
        Ok(())
    }
}

fn plain_body<R: Reader>(
    session: &mut Session,
    header: &Header,
    exchange: &mut Exchange,
    cursor: &mut Cursor<'_, '_, '_, R>,
) -> Result<(), Short> {
    match header.side {
        Side::Request => request::body(session, header, exchange, cursor),
        Side::Response => response::body(session, header, exchange, cursor),
    }
}

/// Segments.
impl Cql {
    /// The segment at the start of `bytes`; `Err` where there are too few to tell.
    pub(super) fn segment(&self, bytes: &[u8]) -> Result<Option<Segment>, Short> {
        match self.format {
            Some(format) if bytes.len() < format.header() => Err(Short),
            Some(format) => Ok(Segment::read(bytes, format)),
            None if bytes.len() < Format::Compressed.header() => Err(Short),
            None => Ok(Segment::read(bytes, Format::Plain).or_else(|| Segment::read(bytes, Format::Compressed))),
        }
    }

    /// One self-contained segment, or as many as one long message takes.
    pub(super) fn segments<R: Reader>(
        &mut self,
        side: Side,
        first: Segment,
        input: Input<'_>,
        out: &mut Out<'_, R>,
    ) -> Result<Step, Malformed> {
        self.format = Some(first.format);
        self.framing = [Framing::Segments; 2];
        if input.available() < first.total() {
            return Ok(Step::Need(first.total()));
        }
        if let Some(rest) = self.rest[side as usize].take() {
            self.continue_message(side, rest, first, out);
            return Ok(Step::Progress);
        }
        if let Some((header, message)) = only_message(side, first, input.bytes) {
            return self.play_segment(&header, message, first, out);
        }
        let mut segments = std::mem::take(&mut self.scratch.segments);
        let gathered = self.gather(side, first, input, &mut segments);
        let done = match gathered {
            Some(need) => Ok(Step::Need(need)),
            None => self.play_segments(side, &segments, input, out).map(|()| Step::Progress),
        };
        self.scratch.segments = segments;
        self.scratch.shrink();
        done
    }

    /// A plain segment that holds one message: the usual case, and one that needs no recording.
    fn play_segment<R: Reader>(
        &mut self,
        header: &Header,
        message: &[u8],
        segment: Segment,
        out: &mut Out<'_, R>,
    ) -> Result<Step, Malformed> {
        let exchange = self.exchange(header, out);
        out.charge(exchange.op);
        out.post(Account::Framing, "segment header", segment.header());
        let rest = self.message(header, exchange, Input { bytes: message, opaque: 0 }, out)?;
        out.post(Account::Framing, "segment checksum", TRAILER);
        out.release();
        if let Some(outcome) = rest.outcome {
            out.close(rest.op, outcome);
        }
        Ok(Step::Progress)
    }

    /// Lists the segments of the message that begins in `first`. Gives the number of bytes to wait for, if any.
    fn gather(&mut self, side: Side, first: Segment, input: Input<'_>, segments: &mut Vec<Segment>) -> Option<u64> {
        segments.clear();
        segments.push(first);
        if first.self_contained {
            return None;
        }
        // A continuation whose beginning was lost has no header.
        let whole = self.read_payload(side, first, input)?;
        let (mut end, mut length) = (first.total(), first.length);
        while length < whole && end < GATHERED {
            let next = usize::try_from(end).ok().and_then(|end| input.bytes.get(end..)).unwrap_or_default();
            let header = first.header();
            if input.available() < end + header {
                return Some(end + header);
            }
            // Where the next header cannot be read, the message ends here; the next step says why.
            let segment = Segment::read(next, first.format)?;
            if input.available() < end + segment.total() {
                return Some(end + segment.total());
            }
            end += segment.total();
            length += segment.length;
            segments.push(segment);
        }
        None
    }

    /// Length of the message that begins in `first`, read into the scratch payload where it is compressed.
    fn read_payload(&mut self, side: Side, first: Segment, input: Input<'_>) -> Option<u64> {
        let scratch = &mut self.scratch;
        scratch.payload.clear();
        unpack(first, input.bytes, &mut scratch.block, &mut scratch.payload);
        Header::read(&scratch.payload, side).ok().map(|header| header.total())
    }

    /// Decodes the messages of gathered segments and posts everything in the order in which it lies on the wire.
    fn play_segments<R: Reader>(
        &mut self,
        side: Side,
        segments: &[Segment],
        input: Input<'_>,
        out: &mut Out<'_, R>,
    ) -> Result<(), Malformed> {
        let mut payload = std::mem::take(&mut self.scratch.payload);
        let mut tape = std::mem::take(&mut self.scratch.payload_tape);
        payload.clear();
        let mut at = 0;
        for &segment in segments {
            let bytes = usize::try_from(at).ok().and_then(|at| input.bytes.get(at..)).unwrap_or_default();
            if !unpack(segment, bytes, &mut self.scratch.block, &mut payload) {
                break;
            }
            at += segment.total();
        }
        let length: u64 = segments.iter().map(|segment| segment.length).sum();
        let inside = Input { bytes: &payload, opaque: length - payload.len() as u64 };
        let done = {
            let mut recorder = Recorder::new(out, &mut tape);
            let mut current = None;
            let mut inner = Out::new(&mut recorder, side, &mut current);
            self.messages(side, inside, &mut inner)
        };
        self.post_segments(segments, &tape, out);
        out.release();
        tape.close(out);
        self.scratch.payload = payload;
        self.scratch.payload_tape = tape;
        done
    }

    /// The messages in the payload of segments. What does not make a whole message at the end is the beginning of one
    /// that is too long to be gathered, or damaged.
    fn messages<R: Reader>(&mut self, side: Side, mut input: Input<'_>, out: &mut Out<'_, R>) -> Result<(), Malformed> {
        while input.available() > 0 {
            let Ok(header) = Header::read(input.bytes, side) else {
                out.note(Note::UndecodedMessage);
                let op = out.orphan("(undecoded)");
                out.post(Account::Unknown, "undecoded", input.available());
                out.close(op, Outcome::NoReply);
                return Ok(());
            };
            let exchange = self.exchange(&header, out);
            let rest = self.message(&header, exchange, input, out)?;
            out.release();
            if rest.left > 0 {
                self.rest[side as usize] = Some(rest);
            } else if let Some(outcome) = rest.outcome {
                out.close(rest.op, outcome);
            }
            let used = header.total() - rest.left;
            let read = usize::try_from(used).unwrap_or(usize::MAX).min(input.bytes.len());
            input.opaque -= used - read as u64;
            input.bytes = input.bytes.get(read..).unwrap_or_default();
        }
        Ok(())
    }

    /// Posts a recording with the headers and checksums of the segments in between.
    fn post_segments<R: Reader>(&mut self, segments: &[Segment], tape: &Tape, out: &mut Out<'_, R>) {
        let mut player = tape.play();
        let Scratch { owners, overhead, shares, .. } = &mut self.scratch;
        for segment in segments {
            player.owners(segment.length, owners);
            if owners.is_empty() {
                let op = out.orphan("(empty segment)");
                out.post(Account::Framing, "segment", segment.total());
                out.close(op, Outcome::NoReply);
                continue;
            }
            // Header and checksum are shared by the messages as frame headers are.
            let around = overhead.of(segment.header() + TRAILER, owners.iter().map(|&(_, weight)| weight));
            post_shares(owners, around, segment.header(), "segment header", out);
            if segment.packed {
                out.note(Note::ProRata);
                player.post_pro_rata(segment.length, segment.wire, shares, out);
            } else {
                player.post(segment.length, out);
            }
            post_shares(owners, around, TRAILER, "segment checksum", out);
        }
        player.post(u64::MAX, out);
    }

    /// A segment of a message that is too long to be gathered.
    fn continue_message<R: Reader>(&mut self, side: Side, mut rest: Rest, segment: Segment, out: &mut Out<'_, R>) {
        out.charge(rest.op);
        out.post(Account::Framing, "segment header", segment.header());
        out.post(Account::Unknown, "undecoded", segment.wire);
        out.post(Account::Framing, "segment checksum", TRAILER);
        out.release();
        rest.left = rest.left.saturating_sub(segment.length);
        if rest.left > 0 {
            self.rest[side as usize] = Some(rest);
        } else if let Some(outcome) = rest.outcome {
            out.close(rest.op, outcome);
        }
    }

    /// The bytes after a loss do not continue the message before it.
    pub(super) fn lose_rest<R: Reader>(&mut self, side: Side, out: &mut Out<'_, R>) {
        if let Some(rest) = self.rest[side as usize].take()
            && rest.outcome.is_some()
        {
            out.close(rest.op, Outcome::Unanswered);
        }
    }
}

/// Posts the next `len` bytes of `shares`, which go down by as much.
fn post_shares<R: Reader>(
    owners: &[(OpId, u64)],
    shares: &mut [u64],
    mut len: u64,
    field: &'static str,
    out: &mut Out<'_, R>,
) {
    for ((op, _), share) in owners.iter().zip(shares) {
        let taken = len.min(*share);
        *share -= taken;
        len -= taken;
        if taken > 0 {
            out.charge(*op);
            out.post(Account::Framing, field, taken);
        }
    }
}

/// The message that makes up the payload of the segment that begins `bytes`, where it is one, plain and sound.
fn only_message(side: Side, segment: Segment, bytes: &[u8]) -> Option<(Header, &[u8])> {
    let from = segment.format.header();
    let wire = bytes.get(from..from + segment.wire as usize)?;
    let header = Header::read(wire, side).ok()?;
    let checksum = bytes.get(from + wire.len()..)?.first_chunk::<4>()?;
    let whole = !segment.packed && header.total() == segment.wire && *checksum == crc32(wire).to_le_bytes();
    whole.then_some((header, wire))
}

/// Adds the payload of the segment that begins `bytes` to `payload`: all of it, or what was captured of it. False
/// where it is not whole or not sound.
fn unpack(segment: Segment, bytes: &[u8], block: &mut Vec<u8>, payload: &mut Vec<u8>) -> bool {
    let from = segment.format.header();
    let end = from + segment.wire as usize;
    let Some(wire) = bytes.get(from..end) else {
        if !segment.packed {
            payload.extend_from_slice(bytes.get(from..).unwrap_or_default());
        }
        return false;
    };
    let sound = |checksum: &[u8]| checksum == crc32(wire).to_le_bytes();
    if !bytes.get(end..end + TRAILER as usize).is_none_or(sound) {
        return false;
    }
    if !segment.packed {
        payload.extend_from_slice(wire);
        return true;
    }
    let done = compression::block_into(wire, segment.length as usize, block);
    if done.is_some() {
        payload.extend_from_slice(block);
    }
    done.is_some()
}
