//! `MySQL` client/server protocol, version 10, as `MySQL`, `MariaDB` and those that are compatible with them speak it.
//!
//! Specification: <https://dev.mysql.com/doc/dev/mysql-server/latest/PAGE_PROTOCOL.html>, and
//! <https://mariadb.com/kb/en/clientserver-protocol/> for what `MariaDB` added. All integers are little-endian.
//!
//! ```text
//! packet         length u24 | sequence number u8 | payload          a length of 0xffffff: another packet continues it
//! greeting       10 u8 | version, NUL | thread id u32 | …           the server speaks first
//! login          capabilities u32 | … | user, NUL | …               what both ends can changes the layout of the rest
//! command        code u8 | inside                                   sequence number 0
//! result         column count | definition* | EOF? | row* | EOF or OK
//! compressed     length u24 | sequence number u8 | length of content u24 | content, compressed or not
//! ```
//!
//! **Operations.** A command and all that answers it, with all its results; the handshake is one (`STARTUP`). Answers come in
//! order. Some commands have none (`COM_QUIT`, `COM_STMT_CLOSE`, `COM_STMT_SEND_LONG_DATA`).
//!
//! **Names.** Statements go by their verb, prepared ones by the verb of what was prepared; `via` says how they were sent. Other
//! commands have names of their own (see `command.rs`).
//!
//! **Classes.** Setup: handshake, `PREPARE`, `CLOSE`, `RESET`, `USE`, `CHANGE USER`, `TERMINATE`, and `SET` before a connection's
//! first other statement. Background: what a replica asks.
//!
//! **Capabilities.** Where the login was not captured, what depends on it is told by the packets: whether an `EOF` packet stands
//! behind definitions, by the first one that does or does not; attributes of a query, by bytes that no text begins with.

mod boundary;
mod command;
mod compressed;
mod decode;
mod handshake;
mod pair;
mod request;
mod response;
mod session;
mod sql;
#[cfg(test)]
mod tests;
mod values;
mod wire;

use super::{ProtocolFacts, SharedContext};
use compressed::CompressedLayer;
use decode::PlainDecoder;
use overhead_decode::{Boundary, Decoder, Expansion, Input, Malformed, Out, Reader, Step};
use overhead_model::Side;
use std::sync::Arc;

pub(super) use boundary::is_greeting;
pub use boundary::sniff;

/// What there is to say of it beside how it is decoded.
pub(super) const FACTS: ProtocolFacts = ProtocolFacts {
    sniff,
    is_text: false,
    // The server speaks first.
    greeting: b"",
    answer: b"\x4a\0\0\0\x0a8.0.36\0\x0b\0\0\0\x3aBK\x1e\x30\x16\x02\x05\0\xff\xff\xff\x02\0\xff\xdf\x15\0\0\0\0\0\0\0\0\0\0abcdefghijkl\0caching_sha2_password\0",
    is_greeted: is_greeting,
};

/// State of one connection.
#[derive(Debug)]
pub struct Mysql {
    plain: PlainDecoder,
    layer: PacketLayer,
    expansion: Arc<Expansion>,
}

/// Whether packets are compressed.
#[derive(Debug)]
enum PacketLayer {
    /// They are not, or not yet.
    Plain,
    /// The handshake was not captured: the first packet tells.
    Unknown,
    Compressed(Box<CompressedLayer>),
}

impl Mysql {
    /// Returns a decoder for a new connection; `mid_stream` where its handshake was not captured.
    pub fn new(mid_stream: bool) -> Self {
        Self::sharing(mid_stream, &SharedContext::default())
    }

    /// Returns the same, for one of several connections.
    pub fn sharing(mid_stream: bool, shared: &SharedContext) -> Self {
        Self {
            plain: PlainDecoder::new(mid_stream),
            layer: if mid_stream { PacketLayer::Unknown } else { PacketLayer::Plain },
            expansion: Arc::clone(&shared.expansion),
        }
    }

    /// Packets are compressed from here on.
    fn compress(&mut self) {
        self.plain.is_compressed = true;
        self.layer = PacketLayer::Compressed(Box::new(CompressedLayer::new(Arc::clone(&self.expansion))));
    }
}

impl Decoder for Mysql {
    #[inline]
    fn step<R: Reader>(&mut self, side: Side, input: Input<'_>, out: &mut Out<'_, R>) -> Result<Step, Malformed> {
        if matches!(self.layer, PacketLayer::Unknown) {
            match compressed::begins(side, input.bytes) {
                Boundary::Yes => self.compress(),
                // Also where it may be a plain packet: what is compressed shows before that is there as a whole.
                Boundary::More if input.opaque == 0 && input.bytes.len() < crate::limits::BOUNDARY_WINDOW => {
                    return Ok(Step::More);
                }
                _ => self.layer = PacketLayer::Plain,
            }
        }
        if let PacketLayer::Compressed(layer) = &mut self.layer {
            return layer.step(&mut self.plain, side, input, out);
        }
        let step = self.plain.step(side, input, out);
        if self.plain.is_compressed {
            self.compress();
        }
        step
    }

    fn boundary(&self, side: Side, bytes: &[u8]) -> Boundary {
        match self.layer {
            PacketLayer::Plain => self.plain.boundary(side, bytes),
            PacketLayer::Compressed(_) => compressed::begins(side, bytes),
            PacketLayer::Unknown => match (self.plain.boundary(side, bytes), compressed::begins(side, bytes)) {
                (Boundary::Yes, _) | (_, Boundary::Yes) => Boundary::Yes,
                (Boundary::No, Boundary::No) => Boundary::No,
                _ => Boundary::More,
            },
        }
    }

    fn resumes_at_turns(&self) -> bool {
        true
    }

    fn lost<R: Reader>(&mut self, side: Side, out: &mut Out<'_, R>) {
        match &mut self.layer {
            PacketLayer::Compressed(layer) => layer.lost(&mut self.plain, side, out),
            PacketLayer::Plain | PacketLayer::Unknown => self.plain.lost(side, out),
        }
    }

    fn end<R: Reader>(&mut self, out: &mut Out<'_, R>) {
        if let PacketLayer::Compressed(layer) = &mut self.layer {
            layer.end(out);
        }
        self.plain.end(out);
    }

    fn abandon<R: Reader>(&mut self, out: &mut Out<'_, R>) {
        match &mut self.layer {
            PacketLayer::Compressed(layer) => layer.abandon(&mut self.plain, out),
            PacketLayer::Plain | PacketLayer::Unknown => self.plain.abandon(out),
        }
    }

    #[inline]
    fn quiet(&self) -> Option<u64> {
        if matches!(self.layer, PacketLayer::Plain) { self.plain.quiet() } else { None }
    }

    fn held(&self) -> usize {
        let layer = match &self.layer {
            PacketLayer::Compressed(layer) => layer.held(),
            PacketLayer::Plain | PacketLayer::Unknown => 0,
        };
        self.plain.held() + layer
    }
}
