//! Decodes messages into postings.

use super::compress::{NOOP, why_not, with_plain};
use super::pair::{MongoPairing, MongoPending};
use super::walk::BodyWalk;
use super::wire::{HEADER, Header, MORE_TO_COME, MongoOpcode, i32_at, u32_at};
use crate::limits;
use overhead_decode::Expansion;
use overhead_decode::{Cursor, Free, Input, Malformed, OpId, OperationShares, Out, Reader, Short, Step, Weigher};
use overhead_model::Account::{self, Framing, Metadata};
use overhead_model::{Class, Outcome, Side};
use std::hash::Hasher;
use std::sync::Arc;

/// Length of an `OP_COMPRESSED` up to the compressed body.
const COMPRESSED_HEADER: u64 = HEADER + 9;

#[derive(Debug)]
pub(super) struct MongoDecoder {
    pairing: MongoPairing,
    directions: [MongoDirection; 2],
    expansion: Arc<Expansion>,
}

#[derive(Debug, Default)]
struct MongoDirection {
    message: Option<MongoMessage>,
    walk: BodyWalk,
}

#[derive(Clone, Copy, Debug)]
struct MongoMessage {
    header: Header,
    op: OpId,
    waiting: Option<MongoPending>,
}

impl MongoDecoder {
    pub(super) fn new(mid_stream: bool, expansion: Arc<Expansion>) -> Self {
        Self {
            pairing: MongoPairing::new(mid_stream),
            directions: [MongoDirection::default(), MongoDirection::default()],
            expansion,
        }
    }

    pub(super) fn step<R: Reader>(
        &mut self,
        side: Side,
        input: Input<'_>,
        out: &mut Out<'_, R>,
    ) -> Result<Step, Malformed> {
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

    /// Bytes of `side` were lost: the current message cannot be completed.
    pub(super) fn lost<R: Reader>(&mut self, side: Side, out: &mut Out<'_, R>) {
        let direction = &mut self.directions[side as usize];
        if let Some(message) = direction.message.take() {
            if side == Side::Request {
                let via = message.header.opcode.name();
                out.label(message.op, Class::Unmatched, "(cut off)", via);
            }
            out.close(message.op, Outcome::Unanswered);
        }
    }

    pub(super) fn abandon<R: Reader>(&mut self, out: &mut Out<'_, R>) {
        self.pairing.abandon(out);
    }

    pub(super) fn held(&self) -> usize {
        self.pairing.held()
    }

    /// Returns the number of the current state while no message is incomplete and no request waits.
    pub(super) fn idle_state(&self) -> Option<u64> {
        let Self { pairing, directions, expansion: _ } = self;
        // A walk keeps nothing between messages.
        let between = directions.iter().all(|direction| direction.message.is_none());
        between.then(|| pairing.idle_state()).flatten()
    }

    pub(super) fn feed_state(&self, state: &mut impl Hasher) -> bool {
        self.pairing.feed_state(state)
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
        let (opcode, facts) = (walk.opcode, &walk.facts);
        match (side, message.waiting) {
            (Side::Request, _) => {
                let statement = walk.shape.statement(facts);
                self.pairing.request(out, message.op, &message.header, (opcode, facts), &statement);
            }
            (Side::Response, Some(waiting)) => self.pairing.reply(out, waiting, &message.header, opcode, facts),
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
        let whole = compressed_header(&mut cursor).is_ok();
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
        self.inflate(side, message, wrapped, captured, out);
        self.end(side, message, out);
    }

    /// Posts a compressed body in proportion to its decompressed content.
    fn inflate<R: Reader>(
        &mut self,
        side: Side,
        message: MongoMessage,
        wrapped: CompressedMessage,
        body: &[u8],
        out: &mut Out<'_, R>,
    ) {
        let len = message.header.len.saturating_sub(COMPRESSED_HEADER);
        // Connections share the decompression budget.
        self.pairing.differ();
        let is_sane = body.len() as u64 == len && wrapped.size <= limits::DECOMPRESSED;
        // An oversized or incompletely captured body is not decompressed.
        let size = if is_sane && self.expansion.allows(body.len(), wrapped.size) { wrapped.size } else { usize::MAX };
        with_plain(wrapped.compressor, body, size, |plain| {
            let Some(plain) = plain else {
                self.walk_from(side, message, (wrapped.opcode, 0), false);
                out.note(why_not(wrapped.compressor, body, wrapped.size));
                out.post(Account::Unknown, "compressed body", len);
                return;
            };
            self.walk_from(side, message, (wrapped.opcode, plain.len() as u64), out.wants_statements());
            let mut weigher = Weigher::new(out);
            let mut inner = Out::new(&mut weigher, side, Some(message.op));
            let whole = Input { bytes: plain, opaque: 0 };
            let mut cursor = Cursor::new(whole, whole.available(), &mut inner);
            self.directions[side as usize].walk.run(&mut cursor);
            cursor.finish();
            let amounts = weigher.amounts();
            OperationShares::default().post(&amounts, len, "compressed body", out);
        });
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
        let opcode = MongoOpcode::of(i32_at(message, at)?)?;
        let fits = opcode != MongoOpcode::Compressed && opcode.is_sent_by(side);
        fits.then_some(Self {
            opcode,
            size: usize::try_from(i32_at(message, at + 4)?).ok()?,
            compressor: *message.get(at + 8)?,
        })
    }
}

/// Returns whether no further reply can answer a server message that begins with `bytes`, unless the request was an
/// `OP_QUERY` with the exhaust flag.
fn is_last(opcode: MongoOpcode, bytes: &[u8]) -> bool {
    match opcode {
        MongoOpcode::Reply => true,
        MongoOpcode::Msg => u32_at(bytes, HEADER as usize).is_some_and(|flags| flags & MORE_TO_COME == 0),
        _ => false,
    }
}

fn compressed_header<R: Reader>(cursor: &mut Cursor<'_, '_, '_, R>) -> Result<(), Short> {
    cursor.skip(4, Framing, "original opcode")?;
    cursor.skip(4, Framing, "uncompressed size")?;
    cursor.skip(1, Framing, "compressor id")
}
