//! Decodes messages of both directions into postings.

use super::Http;
use super::body::HttpBody;
use super::head::{self, HeadFields, HeadOptions, HttpMethod};
use super::pair::HttpPending;
use super::wire::{self, MAX_EMPTY, MAX_HEAD};
use overhead_decode::{DecodeStep, Decoder, Input, Label, Malformed, MessageBoundary, OpId, Out, Reader, Step, near};
use overhead_model::{Class, Outcome, Side};
use std::borrow::Cow;

#[derive(Debug, Default)]
pub(super) struct HttpMessage {
    stage: HttpStage,
    /// Bytes of a head already searched for its end.
    scanned: usize,
    is_begun: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum HttpStage {
    /// Between messages, or in an incomplete head.
    #[default]
    Head,
    /// In a message of unknown length: it continues until bytes are lost.
    Endless,
    Body(HttpBody),
}

#[derive(Debug, Default)]
pub(super) struct HttpRequest {
    pub message: HttpMessage,
    op: OpId,
    /// The outcome, if the response came before the end of the request.
    early: Option<Outcome>,
    /// The client waits for `100 Continue` before it sends the body.
    waits: bool,
    /// Kept between requests to reuse its memory.
    name: String,
    statement: String,
    pub knows_software: bool,
}

#[derive(Debug, Default)]
pub(super) struct HttpResponse {
    pub message: HttpMessage,
    op: OpId,
    is_error: bool,
    /// It answers no known request.
    is_orphan: bool,
    pub knows_software: bool,
}

impl HttpRequest {
    /// Returns whether no request is incomplete. Only `knows_software` outlives a request.
    pub fn is_between(&self) -> bool {
        let Self { message, op: _, early: _, waits: _, name: _, statement: _, knows_software: _ } = self;
        message.is_between()
    }
}

impl HttpResponse {
    /// Returns whether no response is incomplete. Only `knows_software` outlives a response.
    pub fn is_between(&self) -> bool {
        let Self { message, op: _, is_error: _, is_orphan: _, knows_software: _ } = self;
        message.is_between()
    }

    fn outcome(&self) -> Outcome {
        if self.is_error { Outcome::Error } else { Outcome::Ok }
    }
}

/// A head, its length on the wire, and whether it was cut: only complete lines were captured, to which an empty line was
/// appended.
type HttpHead<'a> = (Cow<'a, [u8]>, usize, bool);

impl HttpMessage {
    fn is_between(&self) -> bool {
        let Self { stage, scanned: _, is_begun: _ } = self;
        *stage == HttpStage::Head
    }

    fn reset(&mut self) {
        *self = Self::default();
    }

    /// Searches `input` for a head that follows `empty` bytes of empty lines.
    fn find<'a>(&mut self, input: Input<'a>, empty: usize) -> DecodeStep<Option<HttpHead<'a>>> {
        let bytes = input.bytes;
        // The end may straddle the bytes already searched.
        let from = std::mem::take(&mut self.scanned).saturating_sub(2).max(empty);
        if let Some(end) = head::end(bytes, from) {
            return Ok(Some((bytes.get(..end).unwrap_or_default().into(), end, false)));
        }
        if bytes.len() > MAX_HEAD {
            return Err(Malformed("a head without an end"));
        }
        if input.opaque == 0 {
            self.scanned = bytes.len();
            return Ok(None);
        }
        let end = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
        let lines = bytes.get(..end).unwrap_or_default();
        Ok((end > empty).then(|| ([lines, b"\r\n"].concat().into(), end, true)))
    }
}

/// Returns the bytes of empty lines before a message (section 2.2).
fn empty_lines(bytes: &[u8]) -> usize {
    bytes.iter().take(MAX_EMPTY).take_while(|byte| matches!(byte, b'\r' | b'\n')).count()
}

impl Http {
    pub(super) fn requests<R: Reader>(&mut self, input: Input<'_>, out: &mut Out<'_, R>) -> DecodeStep {
        if self.request.waits && self.request.early.is_some() {
            // The request was refused; its body may follow, or the next request.
            match self.boundary(Side::Request, input.bytes) {
                MessageBoundary::More if input.opaque == 0 => return Ok(Step::More),
                MessageBoundary::Yes => self.end_request(out),
                _ => {}
            }
        }
        match &mut self.request.message.stage {
            HttpStage::Head => self.request_head(input, out),
            HttpStage::Endless => Ok(Step::More),
            HttpStage::Body(body) => {
                self.request.waits = false;
                out.charge(self.request.op);
                let step = body.step(input, out)?;
                if *body == HttpBody::Over {
                    self.end_request(out);
                }
                Ok(step)
            }
        }
    }

    fn request_head<R: Reader>(&mut self, input: Input<'_>, out: &mut Out<'_, R>) -> DecodeStep {
        let empty = empty_lines(input.bytes);
        if !self.request.message.is_begun {
            let begun = input.bytes.get(empty..).unwrap_or_default();
            match near::find(b'\n', begun).and_then(|end| begun.get(..=end)) {
                Some(b"PRI * HTTP/2.0\r\n") => self.pairing.switch("HTTP/2"),
                Some(line) if wire::is_request_line(line) => self.request.message.is_begun = true,
                // Too short to decide.
                None if begun.is_empty() || wire::may_begin_request(begun) => {}
                _ => self.pairing.switch(self.pairing.asked_to_switch().ok_or(Malformed("not a request line"))?),
            }
            if self.pairing.has_switched() {
                return Ok(self.pairing.foreign(input.available(), out));
            }
        }
        let Some((head, len, is_cut)) = self.request.message.find(input, empty)? else { return Ok(Step::More) };
        let op = out.open();
        out.charge(op);
        let HttpRequest { name, statement, knows_software, .. } = &mut self.request;
        let said = head::request(&head, &mut HeadOptions { len, knows_software, name, statement }, out);
        let (method, lengths) = said.unwrap_or((HttpMethod::Other, HeadFields::default()));
        let HttpRequest { name, statement, .. } = &self.request;
        let (name, statement) =
            if said.is_some() { (name.as_str(), statement.as_str()) } else { ("(bad request)", "") };
        out.label_statement(op, Label { class: Class::Workload, name, via: "", statement });
        let switches_to = match method {
            HttpMethod::Connect => Some("a tunnel"),
            _ => lengths.upgrade,
        };
        let pending = HttpPending { op, method, switches_to };
        self.pairing.pending.push_within(pending, "more requests wait for responses than can be kept", out)?;
        (self.request.op, self.request.early, self.request.waits) = (op, None, lengths.waits);
        // Without a length, the next message cannot be found.
        self.request.message.stage = HttpStage::Endless;
        if !is_cut {
            self.request.message.stage = HttpStage::Body(HttpBody::in_request(&lengths)?);
            if self.request.message.stage == HttpStage::Body(HttpBody::Over) {
                self.end_request(out);
            }
        }
        Ok(Step::Progress)
    }

    /// Ends a request that is complete, or that lost its rest.
    fn end_request<R: Reader>(&mut self, out: &mut Out<'_, R>) {
        self.request.message.reset();
        if let Some(outcome) = self.request.early.take() {
            out.close(self.request.op, outcome);
        }
        out.release();
    }

    pub(super) fn responses<R: Reader>(&mut self, input: Input<'_>, out: &mut Out<'_, R>) -> DecodeStep {
        match &mut self.response.message.stage {
            HttpStage::Head => self.response_head(input, out),
            HttpStage::Endless => Ok(Step::More),
            HttpStage::Body(body) => {
                out.charge(self.response.op);
                let step = body.step(input, out)?;
                if *body == HttpBody::Over {
                    self.end_response(Some(self.response.outcome()), out);
                }
                Ok(step)
            }
        }
    }

    fn response_head<R: Reader>(&mut self, input: Input<'_>, out: &mut Out<'_, R>) -> DecodeStep {
        let empty = empty_lines(input.bytes);
        let begun = input.bytes.get(empty..).unwrap_or_default();
        if wire::begins_response(begun) == MessageBoundary::No {
            match wire::begins_http2(begun) {
                MessageBoundary::No => return Err(Malformed("not a status line")),
                MessageBoundary::More => return Ok(Step::More),
                MessageBoundary::Yes => self.pairing.switch("HTTP/2"),
            }
            return Ok(self.pairing.foreign(input.available(), out));
        }
        let Some((head, len, is_cut)) = self.response.message.find(input, empty)? else { return Ok(Step::More) };
        let status = wire::status(head.get(empty..).unwrap_or_default());
        let sent = Some(self.request.op).filter(|op| self.is_being_sent(*op));
        let early = &mut self.request.early;
        let front = self.pairing.pending.answer(out, |HttpPending { op, .. }, out| match sent {
            Some(sent) if sent == op => *early = Some(Outcome::Unanswered),
            _ => out.close(op, Outcome::Unanswered),
        });
        let front = front.copied();
        let is_interim = (100..200).contains(&status) && status != 101;
        let op = front.map_or_else(|| out.orphan("RESPONSE"), |front| front.op);
        out.charge(op);
        (self.response.op, self.response.is_orphan, self.response.is_error) = (op, front.is_none(), status >= 400);
        // After an unreadable or cut head, the next message cannot be found.
        self.response.message.stage = HttpStage::Endless;
        let lengths = head::response(&head, len, &mut self.response.knows_software, out);
        if front.is_some() && (lengths.is_none() || !is_interim) {
            self.pairing.pending.pop();
        }
        let Some(lengths) = lengths else { return Err(Malformed("a response head that cannot be read")) };
        if is_interim && !is_cut {
            self.end_response(None, out);
        } else if !is_cut {
            let body = self.body_of_response(status, front, &lengths)?;
            self.response.message.stage = HttpStage::Body(body);
            if body == HttpBody::Over {
                self.end_response(Some(self.response.outcome()), out);
            }
        }
        Ok(Step::Progress)
    }

    /// Returns the body that follows the head of a response (section 6.3), and switches the protocol if the response
    /// grants that.
    fn body_of_response(
        &mut self,
        status: u16,
        request: Option<HttpPending>,
        lengths: &HeadFields,
    ) -> DecodeStep<HttpBody> {
        let method = request.map_or(HttpMethod::Other, |request| request.method);
        match (status, method) {
            (101, _) => {
                let asked = request.and_then(|request| request.switches_to);
                self.pairing.switch(lengths.upgrade.or(asked).unwrap_or("another protocol"));
                Ok(HttpBody::Over)
            }
            (200..300, HttpMethod::Connect) => {
                self.pairing.switch("a tunnel");
                Ok(HttpBody::Over)
            }
            (204 | 304, _) | (_, HttpMethod::Head) => Ok(HttpBody::Over),
            _ => HttpBody::in_response(lengths),
        }
    }

    /// Ends a response that is complete, or that lost its rest; without an outcome, one that another follows.
    fn end_response<R: Reader>(&mut self, outcome: Option<Outcome>, out: &mut Out<'_, R>) {
        self.response.message.reset();
        let HttpResponse { op, is_orphan, .. } = self.response;
        match outcome {
            _ if is_orphan => out.close(op, Outcome::NoReply),
            Some(outcome) if self.is_being_sent(op) => self.request.early = Some(outcome),
            Some(outcome) => out.close(op, outcome),
            None => {}
        }
        out.release();
    }

    fn is_being_sent(&self, op: OpId) -> bool {
        self.request.message.stage != HttpStage::Head && self.request.op == op
    }

    /// Bytes of a request were lost. The part already posted keeps its operation and still waits for its response.
    pub(super) fn lost_request<R: Reader>(&mut self, out: &mut Out<'_, R>) {
        if self.request.message.stage == HttpStage::Head {
            self.request.message.reset();
        } else {
            self.end_request(out);
        }
        self.pairing.pending.lose(Side::Request, out);
    }

    /// Bytes of a response were lost, and possibly further responses.
    pub(super) fn lost_response<R: Reader>(&mut self, out: &mut Out<'_, R>) {
        let waits = self.pairing.pending.front().is_some_and(|front| front.op == self.response.op);
        if waits || self.response.message.stage == HttpStage::Head {
            self.response.message.reset();
        } else {
            self.end_response(Some(Outcome::Unanswered), out);
        }
        self.pairing.pending.lose(Side::Response, out);
    }

    /// Closes all waiting requests as unanswered.
    pub(super) fn abandon_requests<R: Reader>(&mut self, out: &mut Out<'_, R>) {
        self.lost_response(out);
        let sent = Some(self.request.op).filter(|op| self.is_being_sent(*op));
        for HttpPending { op, .. } in self.pairing.pending.drain() {
            match sent {
                Some(sent) if sent == op => self.request.early = Some(Outcome::Unanswered),
                _ => out.close(op, Outcome::Unanswered),
            }
        }
    }

    /// Ends the messages of a closed connection: a body of unknown length, and a request answered before it was
    /// complete.
    pub(super) fn end_messages<R: Reader>(&mut self, out: &mut Out<'_, R>) {
        if self.response.message.stage == HttpStage::Body(HttpBody::UntilClose) {
            self.end_response(Some(self.response.outcome()), out);
        }
        if self.request.message.stage == HttpStage::Head {
            return;
        }
        if self.request.early.is_some() {
            self.end_request(out);
        } else if self.pairing.pending.iter().any(|pending| pending.op == self.request.op) {
            out.label(self.request.op, Class::Unmatched, "(cut off)", "");
        }
    }
}
