//! CQL: the native protocol of Cassandra and ScyllaDB, versions 3 to 5, with headers and pairing of 1 and 2.
//!
//! Specification: `doc/native_protocol_v{3,4,5}.spec` in the repository of Apache Cassandra (section numbers in this
//! folder are those of version 4 unless said otherwise), and `docs/dev/protocol-extensions.md` in ScyllaDB's.
//!
//! ```text
//! version u8 (high bit: response) | flags u8 | stream i16 | opcode u8 | length u32 | body
//! ```
//!
//! Integers are big-endian. Up to version 4 that is all there is, and a body may be compressed. In version 5 the
//! messages after the handshake (the specification calls them envelopes) lie in segments, which carry checksums and are
//! compressed as a whole: see `segment`. The specification calls a message of versions 3 and 4 a frame; we do not.
//!
//! The parts: `wire` (header and primitives), `request` and `response` (bodies to postings), `types` and `cells` (typed
//! values), `statement` (what a text asks for), `pair` (messages to operations), `decode` (messages to postings),
//! `known` (statements that connections share), `segment`, `segmented` and `compression` (messages that do not lie plainly on the stream).
//!
//! Prepared statements are resolved wherever in the capture they were prepared: see `known`. Where that was before the
//! capture, operations are called `EXECUTE` (or `SELECT`, where the response says so), and their values are untyped.

mod cells;
mod compression;
mod decode;
mod known;
mod pair;
mod probe;
mod request;
mod response;
mod segment;
mod segmented;
mod statement;
#[cfg(test)]
mod tests;
mod types;
mod wire;

use super::{Facts, Shared, Sniff};
pub use known::SharedStatements;
use overhead_decode::{Boundary, Decoder, Input, Malformed, Out, Reader, Step};

use decode::{CqlBuffers, CqlFraming, CqlRemainder};
use overhead_model::{Outcome, Side};
use pair::Session;
use probe::message_begins;
use segment::SegmentFormat;
use segmented::SegmentAssembly;
use std::hash::Hasher;

/// State of one connection.
#[derive(Debug)]
pub struct Cql {
    session: Session,
    framing: [CqlFraming; 2],
    /// Header of the connection's segments, once one was seen.
    format: Option<SegmentFormat>,
    rest: [Option<CqlRemainder>; 2],
    assembly: [SegmentAssembly; 2],
    buffers: CqlBuffers,
}

impl Cql {
    /// Returns a decoder for a new connection; `mid_stream` where its handshake was not captured.
    pub fn new(mid_stream: bool) -> Self {
        Self::sharing(mid_stream, Shared::default())
    }

    /// Returns the same, for one of several connections.
    pub fn sharing(mid_stream: bool, shared: Shared) -> Self {
        let framing = if mid_stream { CqlFraming::Either } else { CqlFraming::Messages };
        Self {
            session: Session::new(mid_stream, shared),
            framing: [framing; 2],
            format: None,
            rest: [None; 2],
            assembly: Default::default(),
            buffers: CqlBuffers::default(),
        }
    }
}

/// What there is to say of it beside how it is decoded.
pub(super) const FACTS: Facts = Facts {
    sniff,
    is_text: false,
    // OPTIONS in version 4, stream 0, no body; answered by SUPPORTED, or an error.
    greeting: b"\x04\0\0\0\x05\0\0\0\0",
    answer: b"\x84\0\0\0\x06\0\0\0\x02\0\0",
    is_greeted: |answer| matches!(answer, [0x84, _, _, _, 0 | 6, _, _, _, _, ..]),
};

/// Returns what the first bytes of a direction look like.
pub fn sniff(bytes: &[u8]) -> Sniff {
    let asked = message_begins(bytes, Side::Request);
    let answered = message_begins(bytes, Side::Response);
    match (asked, answered) {
        (Boundary::Yes, _) => Sniff::Request,
        (_, Boundary::Yes) => Sniff::Response,
        (Boundary::No, Boundary::No) => Sniff::No,
        _ => Sniff::More,
    }
}

impl Decoder for Cql {
    #[inline(never)]
    fn step<R: Reader>(&mut self, side: Side, input: Input<'_>, out: &mut Out<'_, R>) -> Result<Step, Malformed> {
        let framing = self.framing[side as usize];
        if framing == CqlFraming::Messages {
            return self.next_message(side, input, out);
        }
        match self.segment(input.bytes) {
            Err(_) => Ok(Step::More),
            Ok(Some(first)) => self.next_segments(side, first, input, out),
            Ok(None) if framing == CqlFraming::Either => self.next_message(side, input, out),
            Ok(None) => Err(Malformed("a segment header with a wrong checksum")),
        }
    }

    fn boundary(&self, side: Side, bytes: &[u8]) -> Boundary {
        let framing = self.framing[side as usize];
        if framing != CqlFraming::Messages {
            match self.segment(bytes) {
                Ok(Some(_)) => return Boundary::Yes,
                Ok(None) if framing == CqlFraming::Segments => return Boundary::No,
                Ok(None) => {}
                Err(_) => return Boundary::More,
            }
        }
        message_begins(bytes, side)
    }

    fn lost<R: Reader>(&mut self, side: Side, out: &mut Out<'_, R>) {
        self.lose_rest(side, out);
        if side == Side::Response {
            self.session.lost_responses();
        }
    }

    fn abandon<R: Reader>(&mut self, out: &mut Out<'_, R>) {
        for op in self.session.abandon() {
            out.close(op, Outcome::Unanswered);
        }
    }

    fn quiet(&self) -> Option<u64> {
        // All fields are named, so that a further one cannot be left out unseen. Segments carry checksums, so that nothing in
        // them is free to differ; without them nothing is gathered.
        let Self { session, framing, format: _, rest, assembly: _, buffers: _ } = self;
        let is_plain = *framing == [CqlFraming::Messages; 2] && rest.iter().all(Option::is_none);
        if is_plain { session.quiet() } else { None }
    }

    fn feed_state(&self, state: &mut impl Hasher) -> bool {
        self.session.feed_state(state)
    }

    fn held(&self) -> usize {
        self.session.held() + self.buffers.held()
    }
}
