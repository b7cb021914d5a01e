//! HTTP/1.0 and HTTP/1.1.
//!
//! Specification: RFC 9112 (messages), RFC 9110 (semantics). Section numbers refer to RFC 9112 unless stated otherwise.
//!
//! ```text
//! request   <method> SP <target> SP HTTP/1.x CRLF  fields  CRLF  body
//! response  HTTP/1.x SP <status> SP <reason> CRLF  fields  CRLF  body
//! fields    n × ( <name>: <value> CRLF )
//! body      nothing | Content-Length bytes | chunks | all up to the end of the connection
//! chunks    n × ( <hex size> [;extension] CRLF <bytes> CRLF )  0 CRLF  fields  CRLF
//! ```
//!
//! `httparse` reads complete heads; bodies are posted as they arrive, by length. Method and path are `query`, the query
//! part of the target and bodies `data`, status and reason `status`, names and values of fields `metadata`; delimiters
//! and the value of Content-Length are `framing`.
//!
//! Responses answer requests in order; interim ones (1xx) belong to the operation they precede. After a switch of
//! protocols (`Upgrade`, `CONNECT`, HTTP/2), the connection is no longer decoded.

mod body;
mod decode;
mod head;
mod pair;
#[cfg(test)]
mod tests;
mod wire;

use super::{ProtocolFacts, Sniff};
use crate::limits::BOUNDARY_WINDOW;
use decode::{HttpRequest, HttpResponse};
use overhead_decode::{DecodeStep, Decoder, Input, MessageBoundary, Out, Reader};
use overhead_model::Side;
use pair::HttpPairing;
use std::hash::{Hash, Hasher};

pub(super) const FACTS: ProtocolFacts = ProtocolFacts {
    sniff,
    // The first line names the protocol, so one direction is enough.
    is_text: false,
    pairs_by_order: false,
    takes_resp: false,
    has_udp: false,
    greeting: b"HEAD / HTTP/1.0\r\n\r\n",
    reply: b"HTTP/1.0 200 OK\r\n\r\n",
    is_greeted: |reply| reply.starts_with(b"HTTP/1."),
};

#[derive(Debug, Default)]
pub struct Http {
    request: HttpRequest,
    response: HttpResponse,
    pairing: HttpPairing,
}

pub fn sniff(bytes: &[u8]) -> Sniff {
    Sniff::from_sides(wire::begins_request(bytes), wire::begins_response(bytes))
}

impl Decoder for Http {
    fn step<R: Reader>(&mut self, side: Side, input: Input<'_>, out: &mut Out<'_, R>) -> DecodeStep {
        if self.pairing.has_switched() {
            return Ok(self.pairing.foreign(input.available(), out));
        }
        match side {
            Side::Request => self.requests(input, out),
            Side::Response => self.responses(input, out),
        }
    }

    fn boundary(&self, side: Side, bytes: &[u8]) -> MessageBoundary {
        let bytes = bytes.get(..BOUNDARY_WINDOW).unwrap_or(bytes);
        match side {
            Side::Request => wire::begins_request(bytes),
            Side::Response => wire::begins_response(bytes),
        }
    }

    fn lost<R: Reader>(&mut self, side: Side, out: &mut Out<'_, R>) {
        match side {
            Side::Request => self.lost_request(out),
            Side::Response => self.lost_response(out),
        }
    }

    fn abandon<R: Reader>(&mut self, out: &mut Out<'_, R>) {
        self.abandon_requests(out);
    }

    fn end<R: Reader>(&mut self, out: &mut Out<'_, R>) {
        self.end_messages(out);
        self.pairing.end(out);
    }

    fn idle_state(&self) -> Option<u64> {
        let Self { request, response, pairing } = self;
        let is_idle = request.is_between() && response.is_between() && pairing.is_idle();
        let known = u64::from(request.knows_software) | u64::from(response.knows_software) << 1;
        is_idle.then(|| known | pairing.pending.habit() << 2)
    }

    fn feed_state(&self, state: &mut impl Hasher) -> bool {
        // The number is the complete state.
        self.idle_state().hash(state);
        true
    }

    fn held(&self) -> usize {
        self.pairing.pending.held()
    }
}
