//! MongoDB wire protocol, as spoken by MongoDB, FerretDB and others.
//!
//! Specification: <https://www.mongodb.com/docs/manual/reference/mongodb-wire-protocol/> (messages),
//! <https://github.com/mongodb/specifications> (`message/OP_MSG`, `compression/OP_COMPRESSED`,
//! `server-discovery-and-monitoring`: use by drivers), and <https://bsonspec.org/spec.html> (documents). All integers
//! are little-endian.
//!
//! ```text
//! message        length i32 | requestID i32 | responseTo i32 | opcode i32 | body
//! OP_MSG         flags u32 | section+ | checksum u32 where flag 0 is set
//! section        0 u8 | document                                          the command or the reply
//!                1 u8 | length i32 | identifier, NUL | document*          an array of the command, moved out of it
//!                2 u8 | token, NUL                                        between servers
//! OP_QUERY       flags u32 | database.collection, NUL | skip i32 | return i32 | document | document?
//! OP_REPLY       flags u32 | cursorID i64 | from i32 | count i32 | document*
//! OP_INSERT …    flags or 0 | database.collection, NUL | … | document*
//! OP_COMPRESSED  original opcode i32 | length i32 | compressor u8 | compressed body
//! document       length i32 | element* | 0 u8
//! element        type u8 | name, NUL | value                               arrays are documents named 0, 1, 2, …
//! ```
//!
//! **Operations.** A request and the message whose `responseTo` is its `requestID`. In a stream of replies
//! (`moreToCome`, or an `OP_QUERY` with the exhaust flag) each answers the previous one; the stream is one operation.
//! Names are command names as sent; a legacy opcode is named after its successor (`OP_QUERY` on a collection is `find`,
//! `OP_GET_MORE` is `getMore`, `OP_KILL_CURSORS` is `killCursors`). `via` is the opcode. An operation is an error if
//! `ok` is not 1, or if it has write errors or a write concern error.
//!
//! **Classes.** Setup: the first `hello` of a connection, authentication, `endSessions`, and the questions of shells
//! (`buildInfo`, `getLog`, …) before the first command of the application. Background: later and streaming `hello`,
//! `ping` on a connection that streams them, reads of the oplog, replication, and commands between servers.
//!
//! **Accounts.** Command name, collection, operators and stage names are `query`; field names `schema`, including sort,
//! projection and index keys; values of filters, updates and documents `data`; the outcome of a reply, with its names,
//! `status`; every other name and value `metadata`. A compressed body is posted pro rata.
//!
//! Messages are decoded element by element as they arrive, whatever their size; only compressed ones are buffered.

mod boundary;
mod decode;
mod element;
mod facts;
mod layout;
mod pair;
mod roles;
mod shape;
#[cfg(test)]
mod tests;
mod value;
mod walk;
mod wire;

use super::{ProtocolFacts, SharedContext};
use decode::MongoDirection;
use overhead_decode::{DecodeStep, Decoder, Expansion, Input, MessageBoundary, Out, Reader};
use overhead_model::{Class, Outcome, Side};
use pair::MongoPairing;
use std::hash::Hasher;
use std::sync::Arc;

pub use boundary::sniff;

pub(super) const FACTS: ProtocolFacts = ProtocolFacts {
    sniff,
    is_text: false,
    pairs_by_order: false,
    takes_resp: false,
    has_udp: false,
    // OP_MSG, request 1: { hello: 1, $db: "admin" }.
    greeting:
        b"\x34\0\0\0\x01\0\0\0\0\0\0\0\xdd\x07\0\0\0\0\0\0\0\x1f\0\0\0\x10hello\0\x01\0\0\0\x02$db\0\x06\0\0\0admin\0\0",
    reply: b"\x26\0\0\0\x05\0\0\0\x01\0\0\0\xdd\x07\0\0\0\0\0\0\0\x11\0\0\0\x01ok\0\0\0\0\0\0\0\xf0\x3f\0",
    is_greeted: |reply| matches!(reply, [_, _, _, _, _, _, _, _, 1, 0, 0, 0, 0xdd, 7, 0, 0, ..]),
};

#[derive(Debug)]
pub struct Mongo {
    pairing: MongoPairing,
    directions: [MongoDirection; 2],
    expansion: Arc<Expansion>,
}

impl Mongo {
    /// Returns a decoder for a connection; `mid_stream` if its start was not captured.
    pub fn sharing(mid_stream: bool, shared: &SharedContext) -> Self {
        Self {
            pairing: MongoPairing::new(mid_stream),
            directions: <[MongoDirection; 2]>::default(),
            expansion: Arc::clone(&shared.expansion),
        }
    }
}

impl Decoder for Mongo {
    #[inline(never)]
    fn step<R: Reader>(&mut self, side: Side, input: Input<'_>, out: &mut Out<'_, R>) -> DecodeStep {
        self.next_part(side, input, out)
    }

    fn boundary(&self, side: Side, bytes: &[u8]) -> MessageBoundary {
        boundary::begins(side, bytes)
    }

    /// The current message cannot be completed.
    fn lost<R: Reader>(&mut self, side: Side, out: &mut Out<'_, R>) {
        if let Some(message) = self.directions[side as usize].message.take() {
            if side == Side::Request {
                let via = message.header.opcode.name();
                out.label(message.op, Class::Unmatched, "(cut off)", via);
            }
            out.close(message.op, Outcome::Unanswered);
        }
    }

    fn abandon<R: Reader>(&mut self, out: &mut Out<'_, R>) {
        self.pairing.abandon(out);
    }

    fn idle_state(&self) -> Option<u64> {
        let Self { pairing, directions, expansion: _ } = self;
        // A walk keeps nothing between messages.
        let between = directions.iter().all(|direction| direction.message.is_none());
        between.then(|| pairing.idle_state()).flatten()
    }

    fn feed_state(&self, state: &mut impl Hasher) -> bool {
        self.pairing.feed_state(state)
    }

    fn held(&self) -> usize {
        self.pairing.held()
    }
}
