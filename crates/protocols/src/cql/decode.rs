//! Reads messages: plain, with compressed bodies, or from segments.

use super::Cql;
use super::compression;
use super::pair::{CqlCompression, CqlExchange, Session};
use super::wire::{Header, flag, opcode};
use crate::decompress::with_plain;
use overhead_decode::tape::PostingTape;
use overhead_decode::{
    Cursor, DecodeStep, FieldRead, Input, Label, Note, OpId, OperationShares, Out, Reader, Short, Step, Weigher,
};
use overhead_model::{Account, Outcome, Side};
use std::sync::Arc;

/// Bytes of each buffer kept for the next message.
const KEPT: usize = 1 << 20;

/// How one direction is split into messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum CqlFraming {
    #[default]
    Messages,
    /// Messages up to the first segment: during the handshake of version 5, or in the middle of a connection.
    Either,
    Segments,
}

/// The rest of a message whose readable part was decoded.
#[derive(Clone, Copy, Debug)]
pub(super) struct CqlRemainder {
    pub op: OpId,
    pub left: u64,
    pub outcome: Option<Outcome>,
    /// The operation is already closed.
    pub answered: bool,
}

/// Buffers reused by all messages.
#[derive(Debug, Default)]
pub(super) struct CqlBuffers {
    /// Consecutive payloads of segments.
    pub payload: Vec<u8>,
    pub tape: PostingTape,
    pub owners: Vec<(OpId, u64)>,
    pub overhead: OperationShares,
    pub shares: OperationShares,
}

impl CqlBuffers {
    pub fn held(&self) -> usize {
        self.payload.capacity()
    }

    pub fn shrink(&mut self) {
        if self.payload.capacity() > KEPT {
            self.payload = Vec::new();
        }
        self.tape.shrink(KEPT);
    }
}

impl Cql {
    pub(super) fn next_message<R: Reader>(&mut self, side: Side, input: Input<'_>, out: &mut Out<'_, R>) -> DecodeStep {
        let Some(header) = Header::read(input.bytes, side)? else { return Ok(Step::More) };
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

    /// Closes the operation of a complete response. If its request is still arriving, the rest belongs to no operation.
    pub(super) fn close<R: Reader>(&mut self, rest: CqlRemainder, out: &mut Out<'_, R>) {
        if rest.left > 0 {
            self.rest[out.side() as usize] = Some(rest);
        } else if let Some(outcome) = rest.outcome {
            out.close(rest.op, outcome);
            if let Some(request) = self.rest[Side::Request as usize].as_mut().filter(|request| request.op == rest.op) {
                request.answered = true;
            }
        }
    }

    /// Expects segments only after the handshake of version 5.
    fn update_framing(&mut self, header: &Header) {
        if header.version < 5 {
            self.framing[header.side as usize] = CqlFraming::Messages;
        } else if header.opcode == opcode::STARTUP {
            self.framing = [CqlFraming::Either; 2];
            self.format = None;
        }
    }

    /// Posts the available part of a message to the operation of `exchange`; returns the remaining length and the
    /// outcome.
    pub(super) fn message<R: Reader>(
        &mut self,
        header: &Header,
        mut exchange: CqlExchange,
        input: Input<'_>,
        out: &mut Out<'_, R>,
    ) -> DecodeStep<CqlRemainder> {
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
            self.session.enqueue(header.pairing_id(), exchange, out.has_unseen(Side::Request))?;
        }
        Ok(CqlRemainder { op, left: header.total() - available, outcome, answered: false })
    }

    /// Returns the operation that a message belongs to.
    pub(super) fn exchange<R: Reader>(&mut self, header: &Header, out: &mut Out<'_, R>) -> CqlExchange {
        if header.side == Side::Request {
            let op = out.open();
            return self.session.open_exchange(op, header);
        }
        // Negative stream ids are the server's.
        let answered = if header.stream < 0 || header.opcode == opcode::EVENT {
            None
        } else {
            self.session.take_answered(header.pairing_id(), out.has_unseen(Side::Response))
        };
        answered.unwrap_or_else(|| {
            if header.stream >= 0 {
                self.session.memory.change(|_| {});
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
    ) -> FieldRead {
        // Version 5 compresses segments instead; STARTUP is never compressed.
        if !header.has(flag::COMPRESSED) || header.version >= 5 || header.opcode == opcode::STARTUP {
            return CqlBody { session: &mut self.session, header, exchange }.post(cursor);
        }
        self.session.memory.put(|memory| &mut memory.compresses, true);
        let whole = cursor.peek();
        if (whole.len() as u64) < cursor.remaining() {
            return Err(Short);
        }
        let compression = self.session.memory.compression;
        let (codec, block, size, preamble) = compression::parts(compression, whole).ok_or(Short)?;
        let expansion = Arc::clone(&self.session.shared.expansion);
        with_plain((codec, block, size), &expansion, |plain| {
            let plain = plain.map_err(|note| {
                let is_limit = matches!(note, Note::Implausible(_) | Note::LongBody);
                if is_limit && compression != CqlCompression::NotSeen {
                    cursor.out().note(note);
                }
                Short
            })?;
            cursor.skip(preamble, Account::Framing, "decompressed length")?;
            let mut weigher = Weigher::new(cursor.out());
            let mut out = Out::new(&mut weigher, header.side, Some(exchange.op));
            let mut inner = Cursor::new(Input { bytes: plain, opaque: 0 }, plain.len() as u64, &mut out);
            let _ = CqlBody { session: &mut self.session, header, exchange }.post(&mut inner);
            inner.finish();
            let amounts = weigher.amounts;
            cursor.rest_pro_rata(&amounts, &mut self.buffers.shares, "compressed");
            Ok(())
        })
    }
}

/// An uncompressed body, with the state that it depends on and changes.
pub(super) struct CqlBody<'m> {
    pub session: &'m mut Session,
    pub header: &'m Header,
    pub exchange: &'m mut CqlExchange,
}

impl CqlBody<'_> {
    fn post<R: Reader>(&mut self, cursor: &mut Cursor<'_, '_, '_, R>) -> FieldRead {
        match self.header.side {
            Side::Request => self.request(cursor),
            Side::Response => self.response(cursor),
        }
    }
}
