//! Splits both streams into messages and dispatches them.

use super::client::{self, PgMessage};
use super::pair::{PgPairing, PgRequest};
use super::wire::{self, HEADER};
use super::{PgPhase, Pgwire};
use crate::{SharedContext, limits};
use overhead_decode::{Cursor, DecodeStep, FieldRead, Input, Malformed, OpId, Out, Reader, Step, near};
use overhead_model::{Account, Class, Outcome};

impl Pgwire {
    /// Returns a decoder for a connection; `mid_stream` if its start was not captured.
    pub fn sharing(mid_stream: bool, shared: &SharedContext) -> Self {
        let mut pairing = PgPairing::new(mid_stream);
        pairing.session.given = shared.given.clone();
        Self {
            phase: if mid_stream { PgPhase::Messages } else { PgPhase::Startup },
            is_started: false,
            pairing,
            states: super::idle::PgIdleStates::default(),
        }
    }

    pub(super) fn request<R: Reader>(&mut self, input: Input<'_>, out: &mut Out<'_, R>) -> DecodeStep {
        match (self.phase, input.bytes.first()) {
            (_, None) => Ok(Step::More),
            (PgPhase::Gss(_), _) => self.gss_packet(input, out),
            (PgPhase::Startup, _) | (PgPhase::Messages, Some(0)) => {
                let Some((code, total)) = wire::startup_header(input.bytes)? else { return Ok(Step::More) };
                if input.available() < total {
                    return Ok(Step::Need(total));
                }
                client::startup(self, code, total, input, out)?;
                Ok(Step::Progress)
            }
            (PgPhase::Messages, _) => {
                let Some((kind, total)) = wire::request_header(input.bytes)? else { return Ok(Step::More) };
                if input.available() < total {
                    return Ok(Step::Need(total));
                }
                self.is_started = true;
                self.client_message(PgMessage { kind, total, input }, out)?;
                Ok(Step::Progress)
            }
        }
    }

    pub(super) fn response<R: Reader>(&mut self, input: Input<'_>, out: &mut Out<'_, R>) -> DecodeStep {
        let Some(&first) = input.bytes.first() else { return Ok(Step::More) };
        if matches!(self.phase, PgPhase::Gss(_)) {
            return self.gss_packet(input, out);
        }
        let front = self.pairing.align(out).map(|front| front.request);
        match (front, first) {
            (Some(request @ (PgRequest::Ssl | PgRequest::Gss)), b'S' | b'G' | b'N') => {
                return self.negotiated(request, first, out);
            }
            (Some(PgRequest::Ssl | PgRequest::Gss | PgRequest::Startup), b'E')
                if input.bytes.len() < HEADER as usize =>
            {
                return Ok(Step::More);
            }
            (Some(PgRequest::Ssl | PgRequest::Gss | PgRequest::Startup), b'E') if wire::is_old_error(input.bytes) => {
                return self.old_error(input, out);
            }
            (Some(PgRequest::Ssl | PgRequest::Gss), kind) if kind != b'E' => {
                return Err(Malformed("not an answer to a request for encryption"));
            }
            _ => {}
        }
        let Some((kind, total)) = wire::response_header(input.bytes)? else { return Ok(Step::More) };
        if input.available() < total {
            return Ok(Step::Need(total));
        }
        self.server_message(PgMessage { kind, total, input }, out);
        if kind == b'Z' {
            self.number_state();
        }
        Ok(Step::Progress)
    }

    /// Reads the one-byte reply to `SSLRequest` or `GSSENCRequest`.
    fn negotiated<R: Reader>(&mut self, request: PgRequest, reply: u8, out: &mut Out<'_, R>) -> DecodeStep {
        let accepted = match (request, reply) {
            (_, b'N') => false,
            (PgRequest::Ssl, b'S') | (PgRequest::Gss, b'G') => true,
            _ => return Err(Malformed("not an answer to this request for encryption")),
        };
        self.answer_front(out);
        out.post(Account::Status, "encryption", 1);
        self.pairing.pop(out);
        match request {
            PgRequest::Ssl if accepted => return Ok(Step::Tls),
            PgRequest::Gss if accepted => self.phase = PgPhase::Gss(None),
            _ => {}
        }
        Ok(Step::Progress)
    }

    /// Reads the error of a server older than protocol 3: `E`, a text, NUL.
    fn old_error<R: Reader>(&mut self, input: Input<'_>, out: &mut Out<'_, R>) -> DecodeStep {
        let line = input.bytes.get(..limits::LINE).unwrap_or(input.bytes);
        let Some(end) = near::find(0, line) else {
            let is_endless = line.len() == limits::LINE;
            return if is_endless { Err(Malformed("an error text without an end")) } else { Ok(Step::More) };
        };
        let front = self.answer_front(out);
        out.enter("error");
        out.post(Account::Framing, "message type", 1);
        out.post(Account::Status, "message", end as u64 - 1);
        out.post(Account::Framing, "terminator", 1);
        if let Some(front) = front {
            self.pairing.fail(front, true, out);
        }
        Ok(Step::Progress)
    }

    fn answer_front<R: Reader>(&mut self, out: &mut Out<'_, R>) -> Option<super::pair::PgExpectedReply> {
        let front = self.pairing.front();
        if let Some(front) = front {
            self.pairing.begin_answer(front.unit, out);
        }
        front
    }

    /// Reads a GSSAPI packet (PostgreSQL manual, chapter 55.2.11): length and token. A token identifier distinguishes
    /// wrapped messages from the handshake (RFC 4121 section 4.2.6).
    fn gss_packet<R: Reader>(&mut self, input: Input<'_>, out: &mut Out<'_, R>) -> DecodeStep {
        let Some(total) = wire::gss_header(input.bytes)? else { return Ok(Step::More) };
        if input.available() < total {
            return Ok(Step::Need(total));
        }
        let is_wrapped = matches!(input.bytes.get(4..6), Some([5, 4]));
        let op = match self.phase {
            PgPhase::Gss(Some(gss)) if gss.encrypted || !is_wrapped => gss.op,
            PgPhase::Gss(gss) => self.gss_operation(gss.map(|gss| gss.op), is_wrapped, out),
            _ => return Err(Malformed("not encrypted by GSSAPI")),
        };
        out.charge(op);
        let mut c = Cursor::new(input, total, out);
        let _ = c.skip(4, Account::Tls, "packet length");
        if is_wrapped {
            c.rest(Account::Unknown, "ciphertext");
        } else {
            c.rest(Account::Tls, "handshake");
        }
        c.finish();
        Ok(Step::Progress)
    }

    /// Opens the operation of the handshake, or closes it and opens one for encrypted data.
    fn gss_operation<R: Reader>(&mut self, handshake: Option<OpId>, encrypted: bool, out: &mut Out<'_, R>) -> OpId {
        if let Some(op) = handshake {
            out.close(op, Outcome::Ok);
        }
        let op =
            if encrypted { out.orphan("(encrypted)") } else { out.begin(Class::Setup, "GSSENCREQUEST", "handshake") };
        self.phase = PgPhase::Gss(Some(super::GssOperation { op, encrypted }));
        op
    }
}

#[inline(always)]
pub fn header<R: Reader>(c: &mut Cursor<'_, '_, '_, R>) -> FieldRead {
    c.skip_all([(Account::Framing, "message type", 1), (Account::Framing, "message length", 4)])
}
