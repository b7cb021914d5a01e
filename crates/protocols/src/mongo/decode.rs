//! Decodes messages into postings.

use super::Mongo;
use super::pair::MongoPending;
use super::walk::BodyWalk;
use super::wire::{HEADER, Header, MORE_TO_COME, MongoOpcode, i32_at, u32_at};
use crate::decompress::with_plain;
use overhead_decode::{
    Codec, Cursor, DecodeStep, Free, Input, Malformed, Note, OpId, OperationShares, Out, Reader, Step, Weigher,
};
use overhead_model::Account::{self, Framing, Metadata};
use overhead_model::{Outcome, Side};
use std::sync::Arc;

/// The `compressorId` of an uncompressed body.
const NOOP: u8 = 0;

/// Length of an `OP_COMPRESSED` up to the compressed body.
const COMPRESSED_HEADER: u64 = HEADER + 9;

#[derive(Debug, Default)]
pub(super) struct MongoDirection {
    pub message: Option<MongoMessage>,
    walk: BodyWalk,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct MongoMessage {
    pub header: Header,
    pub op: OpId,
    waiting: Option<MongoPending>,
}

impl Mongo {
    /// Decodes the next message, or the available part of it.
    pub(super) fn next_part<R: Reader>(&mut self, side: Side, input: Input<'_>, out: &mut Out<'_, R>) -> DecodeStep {
        if let Some(message) = self.directions[side as usize].message.take() {
            out.charge(message.op);
            self.directions[side as usize].walk.reopen(out);
            return Ok(self.body(side, message, input, out));
        }
        if (input.bytes.len() as u64) < HEADER {
            return Ok(Step::More);
        }
        let header = Header::read(side, input.bytes).ok_or(Malformed("not a message header"))?;
        if header.opcode == MongoOpcode::Compressed && input.available() < header.len {
            return Ok(Step::Need(header.len));
        }
        let message = self.begin(side, header, is_last(header.opcode, input.bytes), out);
        if header.opcode == MongoOpcode::Compressed {
            self.compressed(side, message, input, out);
            return Ok(Step::Progress);
        }
        self.walk_from(side, message, (header.opcode, header.len - HEADER), out.wants_statements());
        let input = input.after(HEADER);
        let _ = self.body(side, message, input, out);
        Ok(Step::Progress)
    }

    /// Finds the operation of a message and posts its header. `is_last`: no further reply answers this one.
    fn begin<R: Reader>(&mut self, side: Side, header: Header, is_last: bool, out: &mut Out<'_, R>) -> MongoMessage {
        let waiting = match side {
            Side::Request => None,
            Side::Response => self.pairing.answered(&header),
        };
        let op = match (side, waiting) {
            (_, Some(waiting)) => waiting.op,
            (Side::Request, None) => out.open(),
            (Side::Response, None) => out.orphan("(reply)"),
        };
        out.charge(op);
        out.enter(header.opcode.name());
        out.enter("header");
        match (side, waiting) {
            (Side::Request, _) => out.free(4, 4, Free::Id(0xff)),
            (Side::Response, Some(waiting)) => {
                if is_last && !waiting.exhaust {
                    out.free(4, 4, Free::Any);
                }
                if !waiting.streams {
                    out.free(8, 4, Free::Id(0xff));
                }
            }
            (Side::Response, None) => {}
        }
        out.post_all([
            (Framing, "message length", 4),
            (Metadata, "request id", 4),
            (Metadata, "response to", 4),
            (Framing, "opcode", 4),
        ]);
        out.leave();
        MongoMessage { header, op, waiting }
    }

    /// Prepares to decode a body of `len` bytes.
    fn walk_from(&mut self, side: Side, message: MongoMessage, (opcode, len): (MongoOpcode, u64), wants_shape: bool) {
        let walk = &mut self.directions[side as usize].walk;
        walk.begin(side, opcode, len, wants_shape);
        if let Some(waiting) = message.waiting {
            let (reply, batch) = waiting.reply.roles();
            walk.expect(reply, batch);
        }
    }

    /// Posts the available part of the body, and ends the message after its last byte.
    fn body<R: Reader>(&mut self, side: Side, message: MongoMessage, input: Input<'_>, out: &mut Out<'_, R>) -> Step {
        let direction = &mut self.directions[side as usize];
        let before = direction.walk.left();
        let mut cursor = Cursor::new(input, before, out);
        direction.walk.run(&mut cursor);
        if direction.walk.left() == 0 {
            self.end(side, message, out);
        } else {
            let waits = direction.walk.left() == before;
            direction.message = Some(message);
            if waits {
                return Step::More;
            }
        }
        Step::Progress
    }

    fn end<R: Reader>(&mut self, side: Side, message: MongoMessage, out: &mut Out<'_, R>) {
        let walk = &self.directions[side as usize].walk;
        match (side, message.waiting) {
            (Side::Request, _) => self.pairing.request(&message, walk, out),
            (Side::Response, Some(waiting)) => self.pairing.reply(waiting, &message.header, walk, out),
            (Side::Response, None) => out.close(message.op, Outcome::NoReply),
        }
        out.release();
    }

    /// Decodes an `OP_COMPRESSED`, complete as far as it was captured.
    fn compressed<R: Reader>(&mut self, side: Side, message: MongoMessage, input: Input<'_>, out: &mut Out<'_, R>) {
        let wrapped = CompressedMessage::read(side, input.bytes);
        let body = input.after(COMPRESSED_HEADER);
        let len = message.header.len.saturating_sub(COMPRESSED_HEADER);
        let mut cursor = Cursor::new(input.after(HEADER), message.header.len - HEADER, out);
        let fields =
            [(Framing, "original opcode", 4), (Framing, "uncompressed size", 4), (Framing, "compressor id", 1)];
        let whole = cursor.skip_all(fields).is_ok();
        let Some(wrapped) = wrapped.filter(|_| whole) else {
            cursor.finish();
            self.walk_from(side, message, (MongoOpcode::Compressed, 0), false);
            return self.end(side, message, out);
        };
        if wrapped.compressor == NOOP {
            self.walk_from(side, message, (wrapped.opcode, len), out.wants_statements());
            let _ = self.body(side, message, body, out);
            return;
        }
        let captured = body.bytes.get(..len as usize).unwrap_or_default();
        if let Err(note) = self.inflate(message, wrapped, captured, out) {
            self.walk_from(side, message, (wrapped.opcode, 0), false);
            out.note(note);
            out.post(Account::Unknown, "compressed body", len);
        }
        self.end(side, message, out);
    }

    /// Posts a compressed body in proportion to its decompressed content.
    fn inflate<R: Reader>(
        &mut self,
        message: MongoMessage,
        wrapped: CompressedMessage,
        body: &[u8],
        out: &mut Out<'_, R>,
    ) -> Result<(), Note> {
        let (side, len) = (out.side(), message.header.len.saturating_sub(COMPRESSED_HEADER));
        // Connections share the decompression budget.
        self.pairing.differ();
        let expansion = Arc::clone(&self.expansion);
        // A body that was not captured completely is empty here.
        let is_whole = len > 0 && body.len() as u64 == len;
        let codec = codec(wrapped.compressor).filter(|_| is_whole).ok_or(Note::UndecodedMessage)?;
        with_plain((codec, body, wrapped.size), &expansion, |plain| {
            let plain = plain.map_err(|note| if note == Note::Expansion { Note::UndecodedMessage } else { note })?;
            self.walk_from(side, message, (wrapped.opcode, plain.len() as u64), out.wants_statements());
            let mut weigher = Weigher::new(out);
            let mut inner = Out::new(&mut weigher, side, Some(message.op));
            let whole = Input { bytes: plain, opaque: 0 };
            let mut cursor = Cursor::new(whole, whole.available(), &mut inner);
            self.directions[side as usize].walk.run(&mut cursor);
            cursor.finish();
            let amounts = weigher.amounts;
            OperationShares::default().post(&amounts, len, "compressed body", out);
            Ok(())
        })
    }
}

/// The fields of an `OP_COMPRESSED`.
#[derive(Clone, Copy, Debug)]
struct CompressedMessage {
    opcode: MongoOpcode,
    size: usize,
    compressor: u8,
}

impl CompressedMessage {
    fn read(side: Side, message: &[u8]) -> Option<Self> {
        let at = HEADER as usize;
        let opcode = MongoOpcode::from_code(i32_at(message, at)?)?;
        let fits = opcode != MongoOpcode::Compressed && opcode.is_sent_by(side);
        fits.then_some(Self {
            opcode,
            size: usize::try_from(i32_at(message, at + 4)?).ok()?,
            compressor: *message.get(at + 8)?,
        })
    }
}

/// Returns whether no further reply can answer a server message that starts with `bytes`, unless the request was an
/// `OP_QUERY` with the exhaust flag.
fn is_last(opcode: MongoOpcode, bytes: &[u8]) -> bool {
    match opcode {
        MongoOpcode::Reply => true,
        MongoOpcode::Msg => u32_at(bytes, HEADER as usize).is_some_and(|flags| flags & MORE_TO_COME == 0),
        _ => false,
    }
}

/// Returns the format of a `compressorId`.
fn codec(compressor: u8) -> Option<Codec> {
    let first = compressor.checked_sub(1)?;
    [Codec::Snappy, Codec::Zlib, Codec::Zstd].get(usize::from(first)).copied()
}
