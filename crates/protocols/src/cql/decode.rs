//! Messages, wherever they lie: plain on the stream, with compressed bodies, or within segments.

use super::pair::{CqlExchange, Session};
use super::wire::{CqlHeaderError, Header, flag, opcode};
use super::{Cql, compression, request, response};
use overhead_decode::tape::Tape;
use overhead_decode::{Cursor, Input, Label, Malformed, OpId, Out, Reader, Shares, Short, Step, Weigher};
use overhead_model::{Account, Outcome, Side};

/// Memory that is kept for the next message. More than this is given back.
const KEPT: usize = 1 << 20;

/// How the bytes of one direction are cut into messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CqlFraming {
    /// Message after message.
    Messages,
    /// Messages up to the first segment: the handshake of version 5, or an unknown point of a connection.
    Either,
    /// Segments.
    Segments,
}

/// The rest of a message of which all that could be read was decoded.
#[derive(Clone, Copy, Debug)]
pub(super) struct CqlRemainder {
    pub op: OpId,
    pub left: u64,
    pub outcome: Option<Outcome>,
    /// The operation is over already.
    pub answered: bool,
}

/// Buffers that are kept from message to message.
#[derive(Debug, Default)]
pub(super) struct CqlBuffers {
    /// A decompressed body.
    pub body: Vec<u8>,
    /// Payload of segments, one behind the other.
    pub payload: Vec<u8>,
    /// A decompressed segment.
    pub block: Vec<u8>,
    pub tape: Tape,
    pub owners: Vec<(OpId, u64)>,
    pub overhead: Shares,
    pub shares: Shares,
}

impl CqlBuffers {
    /// Returns how many bytes of memory are kept for the next message.
    pub fn held(&self) -> usize {
        self.body.capacity() + self.payload.capacity() + self.block.capacity()
    }

    /// Gives back what an unusually long message took.
    pub fn shrink(&mut self) {
        for buffer in [&mut self.body, &mut self.payload, &mut self.block] {
            if buffer.capacity() > KEPT {
                *buffer = Vec::new();
            }
        }
        self.tape.shrink(KEPT);
    }
}

impl Cql {
    /// One message from the start of `input`.
    pub(super) fn next_message<R: Reader>(
        &mut self,
        side: Side,
        input: Input<'_>,
        out: &mut Out<'_, R>,
    ) -> Result<Step, Malformed> {
        let header = match Header::read(input.bytes, side) {
            Ok(header) => header,
            Err(CqlHeaderError::Short) => return Ok(Step::More),
            Err(CqlHeaderError::Bad(reason)) => return Err(Malformed(reason)),
        };
        if input.available() < header.total() {
            return Ok(Step::Need(header.total()));
        }
        self.update_framing(&header);
        let exchange = self.exchange(&header, out);
        let rest = self.message(&header, exchange, input, out)?;
        out.release();
        self.close(rest, out);
        Ok(Step::Progress)
    }

    /// A response is whole: its operation is over. What is missing of its request, where that is longer than it should
    /// be, belongs to nobody.
    pub(super) fn close<R: Reader>(&mut self, rest: CqlRemainder, out: &mut Out<'_, R>) {
        if let Some(outcome) = rest.outcome {
            out.close(rest.op, outcome);
            if let Some(request) = self.rest[Side::Request as usize].as_mut().filter(|request| request.op == rest.op) {
                request.answered = true;
            }
        }
    }

    /// Segments begin after the handshake of version 5 and never below it.
    fn update_framing(&mut self, header: &Header) {
        if header.version < 5 {
            self.framing[header.side as usize] = CqlFraming::Messages;
        } else if header.opcode == opcode::STARTUP {
            self.framing = [CqlFraming::Either; 2];
            self.format = None;
        }
    }

    /// Posts as much of a message as `input` has to the operation of `exchange`, and says what of it is left and how the
    /// operation ends.
    pub(super) fn message<R: Reader>(
        &mut self,
        header: &Header,
        mut exchange: CqlExchange,
        input: Input<'_>,
        out: &mut Out<'_, R>,
    ) -> Result<CqlRemainder, Malformed> {
        let op = exchange.op;
        out.charge(op);
        out.enter(header.name);
        let before = (exchange.name, exchange.class);
        let mut cursor = Cursor::new(input, header.total(), out);
        let available = cursor.remaining();
        if header.post(exchange.is_paired, &mut cursor).is_ok() {
            let _ = self.body(header, &mut exchange, &mut cursor);
        }
        cursor.finish();
        out.leave();
        let renamed = (exchange.name, exchange.class) != before;
        if header.side == Side::Request || renamed {
            let CqlExchange { class, name, via, ref asked, .. } = exchange;
            out.label_statement(op, Label { class, name, via, statement: asked.as_str() });
        }
        let mut outcome = None;
        if header.side == Side::Response {
            outcome = Some(match header.opcode {
                opcode::ERROR => Outcome::Error,
                opcode::EVENT => Outcome::Unsolicited,
                _ => Outcome::Ok,
            });
        } else {
            self.session.enqueue(header.stream, exchange)?;
        }
        Ok(CqlRemainder { op, left: header.total() - available, outcome, answered: false })
    }

    /// The operation that a message belongs to.
    pub(super) fn exchange<R: Reader>(&mut self, header: &Header, out: &mut Out<'_, R>) -> CqlExchange {
        if header.side == Side::Request {
            let op = out.open();
            return self.session.open_exchange(op, header);
        }
        // Streams below 0 are the server's own.
        let answered = if header.stream < 0 || header.opcode == opcode::EVENT {
            None
        } else {
            self.session.take_answered(header.stream)
        };
        answered.unwrap_or_else(|| {
            if header.stream >= 0 {
                self.session.mark_irregular();
            }
            let op = out.open();
            let exchange = self.session.unsolicited(op, header);
            out.label(op, exchange.class, exchange.name, exchange.via);
            exchange
        })
    }

    fn body<R: Reader>(
        &mut self,
        header: &Header,
        exchange: &mut CqlExchange,
        cursor: &mut Cursor<'_, '_, '_, R>,
    ) -> Result<(), Short> {
        // Version 5 compresses segments instead, and a STARTUP is never compressed.
        if !header.has(flag::COMPRESSED) || header.version >= 5 || header.opcode == opcode::STARTUP {
            return plain_body(&mut self.session, header, exchange, cursor);
        }
        self.session.memory.put(|memory| &mut memory.compresses, true);
        let whole = cursor.peek();
        if (whole.len() as u64) < cursor.remaining() {
            return Err(Short);
        }
        let buffers = &mut self.buffers;
        let (compression, expansion) = (self.session.memory.compression, &self.session.shared.expansion);
        let Some(preamble) = compression::body(compression, whole, &mut buffers.body, expansion) else {
            if let Some(note) = compression::refusal_note(compression, whole) {
                cursor.out().note(note);
            }
            return Err(Short);
        };
        cursor.skip(preamble, Account::Framing, "decompressed length")?;
        let mut weigher = Weigher::new(cursor.out());
        let mut out = Out::new(&mut weigher, header.side, Some(exchange.op));
        let input = Input { bytes: &buffers.body, opaque: 0 };
        let mut inner = Cursor::new(input, buffers.body.len() as u64, &mut out);
        let _ = plain_body(&mut self.session, header, exchange, &mut inner);
        inner.finish();
        let amounts = weigher.amounts();
        cursor.rest_pro_rata(&amounts, &mut buffers.shares, "compressed");
        buffers.shrink();
        Ok(())
    }
}

fn plain_body<R: Reader>(
    session: &mut Session,
    header: &Header,
    exchange: &mut CqlExchange,
    cursor: &mut Cursor<'_, '_, '_, R>,
) -> Result<(), Short> {
    match header.side {
        Side::Request => request::body(session, header, exchange, cursor),
        Side::Response => response::body(session, header, exchange, cursor),
    }
}
