//! CQL, the native protocol of Cassandra and ScyllaDB: versions 3 to 5, and the headers and pairing of 1 and 2.
//!
//! Specification: `doc/native_protocol_v{3,4,5}.spec` in the Apache Cassandra repository (section numbers in this
//! folder refer to version 4 unless noted), and `docs/dev/protocol-extensions.md` in the ScyllaDB repository.
//!
//! ```text
//! version u8 (high bit: response) | flags u8 | stream i16 | opcode u8 | length u32 | body
//! ```
//!
//! Integers are big-endian. Up to version 4, a body may be compressed. In version 5, messages after the handshake
//! (envelopes in the specification) are wrapped in segments with checksums, and segments are compressed: see `segment`.
//! The specification of versions 3 and 4 calls a message a frame; we do not.
//!
//! The modules: `wire` (header and primitives), `request` and `response` (bodies to postings), `types` and `cells`
//! (typed values), `statement` (verbs and keyspaces), `pair` (messages to operations), `decode` (messages to postings),
//! `probe` (message boundaries), `known` (statements shared by connections), `segment`, `segmented` and `compression`.
//!
//! A statement can be prepared on any connection of the capture: see `known`. If it was prepared before the capture,
//! its operations are called `EXECUTE` (or `SELECT`, if the response shows that), and their values are untyped.

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

use super::{ProtocolFacts, SharedContext, Sniff};
pub use known::SharedStatements;
use overhead_decode::{DecodeStep, Decoder, Input, Malformed, MessageBoundary, Out, Reader, Step};

use decode::{CqlBuffers, CqlFraming, CqlRemainder};
use overhead_model::{Outcome, Side};
use pair::Session;
use probe::message_begins;
pub use segment::segment_checksum;
use segment::{CqlSegment, SegmentFormat};
use segmented::SegmentAssembly;
use std::hash::Hasher;

#[derive(Debug, Default)]
pub struct Cql {
    session: Session,
    framing: [CqlFraming; 2],
    /// The connection's segment header, once known.
    format: Option<SegmentFormat>,
    rest: [Option<CqlRemainder>; 2],
    assembly: [SegmentAssembly; 2],
    buffers: CqlBuffers,
}

impl Cql {
    pub fn sharing(mid_stream: bool, shared: SharedContext) -> Self {
        let framing = if mid_stream { CqlFraming::Either } else { CqlFraming::Messages };
        Self { session: Session::new(mid_stream, shared), framing: [framing; 2], ..Self::default() }
    }
}

pub(super) const FACTS: ProtocolFacts = ProtocolFacts {
    sniff,
    is_text: false,
    pairs_by_order: false,
    takes_resp: false,
    has_udp: false,
    // OPTIONS in version 4, stream 0, no body; the answer is SUPPORTED or an error.
    greeting: b"\x04\0\0\0\x05\0\0\0\0",
    reply: b"\x84\0\0\0\x06\0\0\0\x02\0\0",
    is_greeted: |reply| matches!(reply, [0x84, _, _, _, 0 | 6, _, _, _, _, ..]),
};

pub fn sniff(bytes: &[u8]) -> Sniff {
    match Sniff::from_sides(message_begins(bytes, Side::Request), message_begins(bytes, Side::Response)) {
        Sniff::No => sniff_segment(bytes),
        sniffed => sniffed,
    }
}

/// Recognises a segment of version 5, as on a connection joined midway, by its checksum and the first byte of a message.
fn sniff_segment(bytes: &[u8]) -> Sniff {
    let mut formats = [SegmentFormat::Plain, SegmentFormat::Compressed].into_iter();
    let Some(segment) = formats.find_map(|format| CqlSegment::read(bytes, format)) else { return Sniff::No };
    let payload = bytes.get(segment.header() as usize..).unwrap_or_default();
    // LZ4 starts with a token; its high bits are the number of bytes that follow as they are, or 15 and a further byte.
    let token = payload.first().filter(|_| segment.packed);
    match payload.get(token.map_or(0, |token| 1 + usize::from(token >> 4 == 15))) {
        Some(0x05) => Sniff::Request,
        Some(0x85) => Sniff::Response,
        _ => Sniff::No,
    }
}

impl Decoder for Cql {
    #[inline(never)]
    fn step<R: Reader>(&mut self, side: Side, input: Input<'_>, out: &mut Out<'_, R>) -> DecodeStep {
        let framing = self.framing[side as usize];
        if framing == CqlFraming::Messages {
            return self.next_message(side, input, out);
        }
        match self.segment(input.bytes) {
            Err(_) => Ok(Step::More),
            Ok(Some(first)) => self.next_segments(first, input, out),
            Ok(None) if framing == CqlFraming::Either => self.next_message(side, input, out),
            Ok(None) => Err(Malformed("a segment header with a wrong checksum")),
        }
    }

    fn boundary(&self, side: Side, bytes: &[u8]) -> MessageBoundary {
        let framing = self.framing[side as usize];
        if framing != CqlFraming::Messages {
            match self.segment(bytes) {
                Ok(Some(_)) => return MessageBoundary::Yes,
                Ok(None) if framing == CqlFraming::Segments => return MessageBoundary::No,
                Ok(None) => {}
                Err(_) => return MessageBoundary::More,
            }
        }
        message_begins(bytes, side)
    }

    fn lost<R: Reader>(&mut self, side: Side, out: &mut Out<'_, R>) {
        self.lose_rest(out);
        self.session.lose(side);
    }

    fn abandon<R: Reader>(&mut self, out: &mut Out<'_, R>) {
        for op in self.session.abandon() {
            out.close(op, Outcome::Unanswered);
        }
    }

    fn idle_state(&self) -> Option<u64> {
        // All fields are named, so that a new one cannot be missed. Segments have checksums, so none of their bytes are
        // free to differ; without segments, nothing is assembled.
        let Self { session, framing, format: _, rest, assembly: _, buffers: _ } = self;
        let is_plain = *framing == [CqlFraming::Messages; 2] && rest.iter().all(Option::is_none);
        if is_plain { session.idle_state() } else { None }
    }

    fn feed_state(&self, state: &mut impl Hasher) -> bool {
        self.session.feed_state(state)
    }

    fn held(&self) -> usize {
        self.session.held() + self.buffers.held()
    }
}
