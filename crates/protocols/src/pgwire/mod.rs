//! PostgreSQL frontend/backend protocol, versions 3.0 and 3.2
//! (PostgreSQL manual, chapter "Frontend/Backend Protocol": <https://www.postgresql.org/docs/current/protocol.html>).
//!
//! ```text
//! before start-up   length u32 | code u32 | inside          SSLRequest, GSSENCRequest (each answered by one byte),
//!                                                           CancelRequest, StartupMessage (its code is the version)
//! afterwards        type u8 | length u32 | inside           the length counts itself, not the type
//! ```
//!
//! All integers are big-endian; names and texts end with a NUL. A type byte can mean different things in the two
//! directions.

mod boundary;
mod client;
mod copy;
mod decode;
mod hidden;
mod idle;
mod pair;
mod server;
mod session;
#[cfg(test)]
mod tests;
mod types;
mod values;
mod wire;

use super::{ProtocolFacts, Sniff};
use overhead_decode::{DecodeStep, Decoder, Input, MessageBoundary, OpId, Out, Reader};
use overhead_model::Side;
use pair::{PgPairing, PgRequest};

#[derive(Debug)]
pub struct Pgwire {
    phase: PgPhase,
    /// The client started the session, so no start-up packet follows.
    is_started: bool,
    pairing: PgPairing,
    states: idle::PgIdleStates,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PgPhase {
    /// Packets without a type byte, up to `StartupMessage`.
    Startup,
    Messages,
    /// GSSAPI packets in both directions.
    Gss(Option<GssOperation>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct GssOperation {
    op: OpId,
    encrypted: bool,
}

pub(super) const FACTS: ProtocolFacts = ProtocolFacts {
    sniff,
    is_text: false,
    pairs_by_order: false,
    takes_resp: false,
    has_udp: false,
    // SSLRequest; the answer is one letter.
    greeting: b"\0\0\0\x08\x04\xd2\x16\x2f",
    reply: b"N",
    is_greeted: |reply| matches!(reply, [b'S' | b'N']),
};

pub fn sniff(bytes: &[u8]) -> Sniff {
    Sniff::from_sides(boundary::request_boundary(bytes), boundary::response_boundary(bytes))
}

impl Decoder for Pgwire {
    #[inline(never)]
    fn step<R: Reader>(&mut self, side: Side, input: Input<'_>, out: &mut Out<'_, R>) -> DecodeStep {
        match side {
            Side::Request => self.request(input, out),
            Side::Response => self.response(input, out),
        }
    }

    fn boundary(&self, side: Side, bytes: &[u8]) -> MessageBoundary {
        let negotiates = |front: pair::PgExpectedReply| matches!(front.request, PgRequest::Ssl | PgRequest::Gss);
        match side {
            Side::Request if self.is_started && bytes.first() == Some(&0) => MessageBoundary::No,
            Side::Request => boundary::request_boundary(bytes),
            Side::Response if self.pairing.front().is_some_and(negotiates) && self.pairing.is_certain() => {
                MessageBoundary::yes_if(matches!(bytes.first(), Some(b'S' | b'G' | b'N' | b'E')))
            }
            Side::Response => boundary::response_boundary(bytes),
        }
    }

    fn lost<R: Reader>(&mut self, side: Side, out: &mut Out<'_, R>) {
        self.pairing.note_loss(side == Side::Request, out);
        if side == Side::Request && self.phase == PgPhase::Startup {
            self.phase = PgPhase::Messages;
        }
    }

    fn end<R: Reader>(&mut self, out: &mut Out<'_, R>) {
        self.pairing.finish(out);
    }

    fn abandon<R: Reader>(&mut self, out: &mut Out<'_, R>) {
        self.pairing.abandon(out);
    }

    fn idle_state(&self) -> Option<u64> {
        self.states.number(&self.view()?, &self.pairing.lasting_facts())
    }

    fn held(&self) -> usize {
        self.pairing.held() + self.states.held()
    }
}
