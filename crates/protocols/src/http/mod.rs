//! HTTP/1.0 and HTTP/1.1.
//!
//! Specification: RFC 9112 (messages), RFC 9110 (semantics); sections are those of RFC 9112 unless another one is named.
//!
//! ```text
//! request   <method> SP <target> SP HTTP/1.x CRLF  fields  CRLF  body
//! response  HTTP/1.x SP <status> SP <reason> CRLF  fields  CRLF  body
//! fields    n × ( <name>: <value> CRLF )
//! body      nothing | Content-Length bytes | chunks | all up to the end of the connection
//! chunks    n × ( <hex size> [;extension] CRLF <bytes> CRLF )  0 CRLF  fields  CRLF
//! ```
//!
//! Heads are read by `httparse`, once they are there as a whole; bodies are posted as they come, by their length alone. Method
//! and path are `query`, what follows the question mark and bodies `data`, status and reason `status`, names and values of fields
//! `metadata`; what delimits them, and the value of Content-Length, is `framing`.
//!
//! Responses answer requests in order; interim ones (1xx) belong to the operation that they precede. A connection that changes its
//! protocol (`Upgrade`, `CONNECT`, HTTP/2) is not decoded from there on.

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
use overhead_decode::{Boundary, Decoder, Input, Malformed, Out, Reader, Step};
use overhead_model::Side;
use pair::HttpPairing;
use std::hash::{Hash, Hasher};

/// What there is to say of it beside how it is decoded.
pub(super) const FACTS: ProtocolFacts = ProtocolFacts {
    sniff,
    // Its first line names the protocol, so that one direction is enough to tell it.
    is_text: false,
    greeting: b"HEAD / HTTP/1.0\r\n\r\n",
    answer: b"HTTP/1.0 200 OK\r\n\r\n",
    is_greeted: |answer| answer.starts_with(b"HTTP/1."),
};

/// State of one connection.
#[derive(Debug, Default)]
pub struct Http {
    request: HttpRequest,
    response: HttpResponse,
    pairing: HttpPairing,
}

impl Http {
    /// Returns a decoder for a new connection, or for one whose start was not captured.
    pub fn new() -> Self {
        Self::default()
    }
}

/// Returns what the first bytes of a direction look like.
pub fn sniff(bytes: &[u8]) -> Sniff {
    match (wire::begins_request(bytes), wire::begins_response(bytes)) {
        (Boundary::Yes, _) => Sniff::Request,
        (_, Boundary::Yes) => Sniff::Response,
        (Boundary::No, Boundary::No) => Sniff::No,
        _ => Sniff::More,
    }
}

impl Decoder for Http {
    fn step<R: Reader>(&mut self, side: Side, input: Input<'_>, out: &mut Out<'_, R>) -> Result<Step, Malformed> {
        if self.pairing.has_switched() {
            return Ok(self.pairing.foreign(input.available(), out));
        }
        match side {
            Side::Request => self.requests(input, out),
            Side::Response => self.responses(input, out),
        }
    }

    fn boundary(&self, side: Side, bytes: &[u8]) -> Boundary {
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

    fn end<R: Reader>(&mut self, out: &mut Out<'_, R>) {
        self.end_messages(out);
        self.pairing.end(out);
    }

    fn quiet(&self) -> Option<u64> {
        // All that outlives an operation is whose software is known: it is told once.
        let Self { request, response, pairing } = self;
        let is_quiet = request.is_between() && response.is_between() && pairing.is_quiet();
        is_quiet.then(|| u64::from(request.knows_software()) | u64::from(response.knows_software()) << 1)
    }

    fn feed_state(&self, state: &mut impl Hasher) -> bool {
        // The number says all of it.
        self.quiet().hash(state);
        true
    }

    fn held(&self) -> usize {
        self.pairing.held()
    }
}
