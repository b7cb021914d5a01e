//! Reads messages from segments: assembles a message, decodes it, and posts everything in wire order.

use super::Cql;
use super::decode::{CqlBuffers, CqlFraming, CqlRemainder};
use super::segment::{CqlSegment, SegmentFormat, TRAILER, segment_checksum};
use super::wire::Header;
use crate::decompress::append_plain;
use crate::limits::MESSAGE_BUFFER;
use overhead_decode::tape::{PostingTape, TapeRecorder, post_shares};
use overhead_decode::{Codec, DecodeStep, Expansion, FieldRead, Input, Note, Out, Reader, Short, Step};
use overhead_model::{Account, Outcome, Side};

/// Most segment bytes assembled for one message; the rest is counted, not read. Leaves room for one more segment in the
/// engine's buffer.
const GATHERED: u64 = MESSAGE_BUFFER - (1 << 18);

/// Most decompressed bytes for one message.
const GATHERED_DECOMPRESSED: u64 = 2 * MESSAGE_BUFFER;

/// Segments whose list is kept for the next message.
const KEPT: usize = 64;

/// Segments of one message so far. Kept between calls so that each is read once.
#[derive(Debug, Default)]
pub(super) struct SegmentAssembly {
    segments: Vec<CqlSegment>,
    /// Bytes of the segments.
    end: u64,
    /// Bytes of their decompressed payload.
    length: u64,
    /// Bytes of the message; 0 if it has only one segment.
    whole: u64,
}

impl SegmentAssembly {
    fn begin(&mut self, first: CqlSegment, whole: u64) {
        self.segments.push(first);
        (self.end, self.length, self.whole) = (first.total(), first.length, whole);
    }

    fn end(&mut self) {
        self.segments.clear();
        self.segments.shrink_to(KEPT);
    }

    /// Adds the segments that have arrived. Returns the bytes to wait for; `None` once the message is complete or
    /// cannot be read on.
    fn collect(&mut self, input: Input<'_>) -> Option<u64> {
        let format = self.segments.first()?.format;
        while self.length < self.whole && self.end < GATHERED && self.length < GATHERED_DECOMPRESSED {
            if input.available() < self.end + format.header() as u64 {
                return Some(self.end + format.header() as u64);
            }
            // An unreadable header ends the message; the next step reports it.
            let next = usize::try_from(self.end).ok().and_then(|end| input.bytes.get(end..))?;
            let segment = CqlSegment::read(next, format)?;
            if input.available() < self.end + segment.total() {
                return Some(self.end + segment.total());
            }
            self.end += segment.total();
            self.length += segment.length;
            self.segments.push(segment);
        }
        None
    }
}

impl Cql {
    /// Reads the segment at the start of `bytes`; `Err` if there are too few.
    pub(super) fn segment(&self, bytes: &[u8]) -> FieldRead<Option<CqlSegment>> {
        match self.format {
            Some(format) if bytes.len() < format.header() => Err(Short),
            Some(format) => Ok(CqlSegment::read(bytes, format)),
            None if bytes.len() < SegmentFormat::Compressed.header() => Err(Short),
            None => Ok(CqlSegment::read(bytes, SegmentFormat::Plain)
                .or_else(|| CqlSegment::read(bytes, SegmentFormat::Compressed))),
        }
    }

    /// Reads a self-contained segment, or all segments of a long message.
    pub(super) fn next_segments<R: Reader>(
        &mut self,
        first: CqlSegment,
        input: Input<'_>,
        out: &mut Out<'_, R>,
    ) -> DecodeStep {
        let side = out.side();
        self.format = Some(first.format);
        self.framing[side as usize] = CqlFraming::Segments;
        if input.available() < first.total() {
            return Ok(Step::Need(first.total()));
        }
        if let Some(rest) = self.rest[side as usize].take() {
            self.continue_message(rest, first, out);
            return Ok(Step::Progress);
        }
        if let Some((header, message)) = sole_message(side, first, input.bytes) {
            return self.play_segment(&header, message, first, out);
        }
        let mut assembly = std::mem::take(&mut self.assembly[side as usize]);
        if assembly.segments.is_empty() {
            let whole = self.message_length(side, first, input);
            assembly.begin(first, whole);
        }
        let done = if let Some(need) = assembly.collect(input) {
            Ok(Step::Need(need))
        } else {
            let done = self.play_segments(&assembly.segments, input, out);
            assembly.end();
            self.buffers.shrink();
            done.map(|()| Step::Progress)
        };
        self.assembly[side as usize] = assembly;
        done
    }

    /// Reads an uncompressed segment with one message. This common case needs no recording.
    fn play_segment<R: Reader>(
        &mut self,
        header: &Header,
        message: &[u8],
        segment: CqlSegment,
        out: &mut Out<'_, R>,
    ) -> DecodeStep {
        let exchange = self.exchange(header, out);
        out.charge(exchange.op);
        out.post(Account::Framing, "segment header", segment.header());
        let rest = self.message(header, exchange, Input { bytes: message, opaque: 0 }, out)?;
        out.post(Account::Framing, "segment checksum", TRAILER);
        out.release();
        self.close(rest, out);
        Ok(Step::Progress)
    }

    /// Returns the length of the message that starts in `first` and continues in others; otherwise 0.
    fn message_length(&mut self, side: Side, first: CqlSegment, input: Input<'_>) -> u64 {
        if first.self_contained {
            return 0;
        }
        let (buffers, expansion) = (&mut self.buffers, &self.session.shared.expansion);
        buffers.payload.clear();
        unpack(first, input.bytes, &mut buffers.payload, expansion);
        // If its start was lost, there is no header.
        Header::read(&buffers.payload, side).ok().flatten().map_or(0, |header| header.total())
    }

    /// Decodes the messages of the segments and posts everything in wire order.
    fn play_segments<R: Reader>(
        &mut self,
        segments: &[CqlSegment],
        input: Input<'_>,
        out: &mut Out<'_, R>,
    ) -> DecodeStep<()> {
        let (side, mut payload) = (out.side(), std::mem::take(&mut self.buffers.payload));
        let mut tape = std::mem::take(&mut self.buffers.tape);
        payload.clear();
        let mut at = 0;
        for &segment in segments {
            let bytes = usize::try_from(at).ok().and_then(|at| input.bytes.get(at..)).unwrap_or_default();
            if !unpack(segment, bytes, &mut payload, &self.session.shared.expansion) {
                if segment.packed
                    && let Some(note) = Codec::Lz4.refusal(segment.wire as usize, segment.length as usize)
                {
                    out.note(note);
                }
                break;
            }
            at += segment.total();
        }
        let length: u64 = segments.iter().map(|segment| segment.length).sum();
        let inside = Input { bytes: &payload, opaque: length - payload.len() as u64 };
        let done = {
            let mut recorder = TapeRecorder::new(out, &mut tape);
            let mut inner = Out::new(&mut recorder, side, None);
            self.messages(inside, at, &mut inner)
        };
        self.post_segments(segments, &tape, out);
        out.release();
        tape.close(out);
        self.buffers.payload = payload;
        self.buffers.tape = tape;
        done
    }

    /// Decodes the messages in the payload of segments, as many as `packed` bytes may have. An incomplete one at the end is damaged or
    /// too long to assemble.
    fn messages<R: Reader>(&mut self, mut input: Input<'_>, packed: u64, out: &mut Out<'_, R>) -> DecodeStep<()> {
        let mut number = 0;
        while input.available() > 0 {
            number += 1;
            let may_go_on = self.session.shared.expansion.allows_operations(packed, number - 1, number);
            let header = Header::read(input.bytes, out.side()).ok().flatten().filter(|_| may_go_on);
            let Some(header) = header else {
                out.note(if may_go_on { Note::UndecodedMessage } else { Note::ManyOperations });
                out.post_alone("(undecoded)", (Account::Unknown, "undecoded", input.available()));
                return Ok(());
            };
            let exchange = self.exchange(&header, out);
            let rest = self.message(&header, exchange, input, out)?;
            out.release();
            let left = rest.left;
            self.close(rest, out);
            input.advance(header.total() - left);
        }
        Ok(())
    }

    /// Posts a recording, with segment headers and checksums in between.
    fn post_segments<R: Reader>(&mut self, segments: &[CqlSegment], tape: &PostingTape, out: &mut Out<'_, R>) {
        let mut player = tape.play();
        let CqlBuffers { owners, overhead, shares, .. } = &mut self.buffers;
        for segment in segments {
            player.owners(segment.length, owners);
            if owners.is_empty() {
                out.post_alone("(empty segment)", (Account::Framing, "segment", segment.total()));
                continue;
            }
            // Messages share a segment's header and checksum as they share frame headers.
            let around = overhead.divide(segment.header() + TRAILER, owners.iter().map(|&(_, weight)| weight));
            post_shares(owners, around, (Account::Framing, "segment header", segment.header()), out);
            if segment.packed {
                player.post_pro_rata(segment.length, segment.wire, shares, out);
            } else {
                player.post(segment.length, out);
            }
            post_shares(owners, around, (Account::Framing, "segment checksum", TRAILER), out);
        }
        player.post(u64::MAX, out);
    }

    /// Reads a further segment of a message too long to assemble.
    fn continue_message<R: Reader>(&mut self, mut rest: CqlRemainder, segment: CqlSegment, out: &mut Out<'_, R>) {
        let op = if rest.answered { out.orphan("(undecoded)") } else { rest.op };
        out.charge(op);
        out.post(Account::Framing, "segment header", segment.header());
        out.post(Account::Unknown, "undecoded", segment.wire);
        out.post(Account::Framing, "segment checksum", TRAILER);
        out.release();
        if rest.answered {
            out.close(op, Outcome::NoReply);
        }
        rest.left = rest.left.saturating_sub(segment.length);
        self.close(rest, out);
    }

    /// After a loss, nothing continues the current message.
    pub(super) fn lose_rest<R: Reader>(&mut self, out: &mut Out<'_, R>) {
        let side = out.side();
        self.assembly[side as usize].end();
        if let Some(rest) = self.rest[side as usize].take()
            && rest.outcome.is_some()
        {
            self.close(CqlRemainder { left: 0, outcome: Some(Outcome::Unanswered), ..rest }, out);
        }
    }
}

/// Returns the message in a segment if it is the only one, uncompressed and intact.
fn sole_message(side: Side, segment: CqlSegment, bytes: &[u8]) -> Option<(Header, &[u8])> {
    let from = segment.format.header();
    let wire = bytes.get(from..from + segment.wire as usize)?;
    let header = Header::read(wire, side).ok()??;
    let checksum = bytes.get(from + wire.len()..)?.first_chunk::<4>()?;
    let whole = !segment.packed && header.total() == segment.wire && *checksum == segment_checksum(wire).to_le_bytes();
    whole.then_some((header, wire))
}

/// Appends the captured payload of the segment at the start of `bytes`; returns false if it is incomplete or damaged.
fn unpack(segment: CqlSegment, bytes: &[u8], payload: &mut Vec<u8>, expansion: &Expansion) -> bool {
    let from = segment.format.header();
    let end = from + segment.wire as usize;
    let Some(wire) = bytes.get(from..end) else {
        if !segment.packed {
            payload.extend_from_slice(bytes.get(from..).unwrap_or_default());
        }
        return false;
    };
    let sound = |checksum: &[u8]| checksum == segment_checksum(wire).to_le_bytes();
    if !bytes.get(end..end + TRAILER as usize).is_none_or(sound) {
        return false;
    }
    if !segment.packed {
        payload.extend_from_slice(wire);
        return true;
    }
    append_plain((Codec::Lz4, wire, segment.length as usize), expansion, payload).is_ok()
}
