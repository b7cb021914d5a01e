//! MongoDB wire protocol: MongoDB, FerretDB and others that speak it.
//!
//! Specification: <https://www.mongodb.com/docs/manual/reference/mongodb-wire-protocol/> for the messages,
//! <https://github.com/mongodb/specifications> (`message/OP_MSG`, `compression/OP_COMPRESSED`, `server-discovery-and-monitoring`)
//! for how drivers use them, and <https://bsonspec.org/spec.html> for the documents. All integers are little-endian.
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
//! **Operations.** A request and the message whose `responseTo` is its `requestID`. In a stream of replies (`moreToCome`,
//! or an `OP_QUERY` with its exhaust flag) each answers the one before; the stream is one operation. Names are those
//! of the commands, as sent; a legacy opcode has the name of the command that took its place (`OP_QUERY` on a
//! collection is `find`, `OP_GET_MORE` is `getMore`, `OP_KILL_CURSORS` is `killCursors`). `via` is the opcode.
//! An operation is an error where `ok` is not 1, and where it has write errors or a write concern error.
//!
//! **Classes.** Setup: the first `hello` of a connection, authentication, `endSessions`, and what shells ask
//! (`buildInfo`, `getLog`, …) before anything else. Background: later and streaming `hello`, `ping` on a connection
//! that streams them, reads of the oplog, commands of replication and between servers.
//!
//! **Accounts.** Command name, collection, operators and stage names are `query`; user's field names `schema`, in sort,
//! projection and index keys too; the values of filters, updates and documents `data`; in a reply, the outcome with its
//! names `status`; every other name and value `metadata`. A compressed body is posted pro rata.
//!
//! Messages are walked through as they come in, element by element, so that their size does not matter; just a compressed one is
//! kept until it is whole.

mod compress;
mod decode;
mod facts;
mod layout;
mod pair;
mod roles;
#[cfg(test)]
mod tests;
mod value;
mod walk;
mod wire;

use super::Sniff;
use crate::decode::{Boundary, Decoder, Input, Malformed, Out, Reader, Step, is_client_hello};
use overhead_model::Side;
use wire::{EMPTY_DOCUMENT, HEADER, Header, Opcode, i32_at, u32_at};

/// State of one connection.
#[derive(Debug)]
pub struct Mongo {
    connection: decode::Connection,
    /// Nothing was decoded yet: the client may begin with TLS.
    fresh: bool,
}

impl Mongo {
    /// A decoder for a new connection; `mid_stream` where its handshake was not captured.
    pub fn new(mid_stream: bool) -> Self {
        Self { connection: decode::Connection::new(mid_stream), fresh: true }
    }
}

/// What the first bytes of a direction look like.
pub fn sniff(bytes: &[u8]) -> Sniff {
    let [request, response] = Side::BOTH.map(|side| begins(side, bytes));
    match (request, response) {
        (Boundary::More, _) | (_, Boundary::More) => Sniff::More,
        (Boundary::Yes, Boundary::Yes) if is_reply(bytes) => Sniff::Response,
        (Boundary::Yes, _) => Sniff::Request,
        (_, Boundary::Yes) => Sniff::Response,
        _ => Sniff::No,
    }
}

/// Whether a message that both ends may send is the server's.
fn is_reply(message: &[u8]) -> bool {
    // The first request of a connection may have the id 0; then its reply answers 0, as a request does.
    const FIRST_FIELDS: [&[u8]; 4] = [b"\x08helloOk\0", b"\x08ismaster\0", b"\x03topologyVersion\0", b"\x01ok\0"];
    let body = message.get(25..).unwrap_or_default();
    i32_at(message, 8).is_some_and(|response_to| response_to > 0)
        || FIRST_FIELDS.iter().any(|field| body.starts_with(field))
}

/// Whether a message of `side` begins with `bytes`: the lengths in it must agree.
fn begins(side: Side, bytes: &[u8]) -> Boundary {
    if (bytes.len() as u64) < HEADER {
        return Boundary::More;
    }
    let Some(header) = Header::read(side, bytes) else {
        return Boundary::No;
    };
    match holds(&header, bytes) {
        None => Boundary::More,
        Some(true) => Boundary::Yes,
        Some(false) => Boundary::No,
    }
}

/// Whether what follows the header agrees with it; `None` where more must be seen.
fn holds(header: &Header, bytes: &[u8]) -> Option<bool> {
    let word = |at| u32_at(bytes, at);
    // A document or section whose length stands at `at` ends within the message.
    let fits = |at: usize| {
        let len = i32_at(bytes, at)?;
        let room = header.len.saturating_sub(at as u64);
        Some(u64::try_from(len).is_ok_and(|len| (EMPTY_DOCUMENT..=room).contains(&len)))
    };
    Some(match header.opcode {
        Opcode::Msg => {
            let known = word(16)? & !wire::KNOWN_FLAGS == 0;
            known && *bytes.get(20)? <= 1 && fits(21)?
        }
        Opcode::Compressed => {
            let inner = Opcode::of(i32_at(bytes, 16)?).is_some_and(|inner| inner != Opcode::Compressed);
            inner && word(20)? <= 64 << 20 && *bytes.get(24)? <= 3
        }
        Opcode::Reply => word(16)? < 16 && i32_at(bytes, 28)? >= 0 && i32_at(bytes, 32)? >= 0,
        Opcode::Query => word(16)? < 256 && bytes.get(20)?.is_ascii_graphic(),
        Opcode::Insert => word(16)? < 2 && bytes.get(20)?.is_ascii_graphic(),
        Opcode::Update | Opcode::Delete | Opcode::GetMore => word(16)? == 0 && bytes.get(20)?.is_ascii_graphic(),
        Opcode::KillCursors => word(16)? == 0 && u64::from(word(20)?) * 8 + 24 == header.len,
        Opcode::Command => bytes.get(16)?.is_ascii_graphic(),
        Opcode::CommandReply => fits(16)?,
        Opcode::OldMsg => bytes.get(16)?.is_ascii(),
    })
}

impl Decoder for Mongo {
    fn step<R: Reader>(&mut self, side: Side, input: Input<'_>, out: &mut Out<'_, R>) -> Result<Step, Malformed> {
        if self.fresh && side == Side::Request && is_client_hello(input.bytes) {
            return Ok(Step::Tls);
        }
        let step = self.connection.step(side, input, out)?;
        self.fresh &= step != Step::Progress;
        Ok(step)
    }

    fn boundary(&self, side: Side, bytes: &[u8]) -> Boundary {
        begins(side, bytes)
    }

    fn lost<R: Reader>(&mut self, side: Side, out: &mut Out<'_, R>) {
        self.connection.lost(side, out);
    }
}
