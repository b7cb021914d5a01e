//! `MySQL` client/server protocol, version 10, as spoken by `MySQL`, `MariaDB` and compatible servers.
//!
//! Specification: <https://dev.mysql.com/doc/dev/mysql-server/latest/PAGE_PROTOCOL.html>, and
//! <https://mariadb.com/kb/en/clientserver-protocol/> for `MariaDB`'s extensions. All integers are little-endian.
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
//! **Operations.** A command with its complete reply, including all results; the handshake is one (`STARTUP`). Replies
//! come in order. Some commands have none (`COM_QUIT`, `COM_STMT_CLOSE`, `COM_STMT_SEND_LONG_DATA`).
//!
//! **Names.** Statements are named after their verb, prepared ones included; `via` tells how they were sent. For other
//! commands see `command.rs`.
//!
//! **Classes.** Setup: handshake, `PREPARE`, `CLOSE`, `RESET`, `USE`, `CHANGE USER`, `TERMINATE`, and `SET` before the
//! first other statement of a connection. Background: requests of a replica.
//!
//! **Capabilities.** If the login was not captured, the packets decide: the first `EOF` packet after definitions,
//! present or missing, and the bytes of query attributes, which cannot start a text.

mod boundary;
mod client_packet;
mod command;
mod compressed;
mod continuation;
mod decode;
mod handshake;
mod pair;
mod prepared;
mod request;
mod response;
mod session;
#[cfg(test)]
mod tests;
mod values;
mod wire;

use super::{ProtocolFacts, SharedContext};
use compressed::CompressedLayer;
use decode::PlainDecoder;
use overhead_decode::{DecodeStep, Decoder, Expansion, Input, MessageBoundary, Out, Reader, Step};
use overhead_model::Side;
use std::sync::Arc;

pub(super) use boundary::is_greeting;
pub use boundary::sniff;

pub(super) const FACTS: ProtocolFacts = ProtocolFacts {
    sniff,
    is_text: false,
    pairs_by_order: false,
    takes_resp: false,
    has_udp: false,
    greeting: b"",
    reply: b"\x4a\0\0\0\x0a8.0.36\0\x0b\0\0\0\x3aBK\x1e\x30\x16\x02\x05\0\xff\xff\xff\x02\0\xff\xdf\x15\0\0\0\0\0\0\0\0\0\0abcdefghijkl\0caching_sha2_password\0",
    is_greeted: is_greeting,
};

#[derive(Debug)]
pub struct Mysql {
    plain: PlainDecoder,
    layer: PacketLayer,
    expansion: Arc<Expansion>,
}

#[derive(Debug)]
enum PacketLayer {
    /// Not compressed, or not yet.
    Plain,
    /// The handshake was not captured; the first packet decides.
    Unknown,
    Compressed(Box<CompressedLayer>),
}

impl Mysql {
    /// Returns a decoder for a connection; `mid_stream` if its start was not captured.
    pub fn sharing(mid_stream: bool, shared: &SharedContext) -> Self {
        Self {
            plain: PlainDecoder::new(mid_stream, shared.given.clone()),
            layer: if mid_stream { PacketLayer::Unknown } else { PacketLayer::Plain },
            expansion: Arc::clone(&shared.expansion),
        }
    }

    fn compress(&mut self) {
        self.plain.is_compressed = true;
        self.layer = PacketLayer::Compressed(Box::new(CompressedLayer::new(Arc::clone(&self.expansion))));
    }
}

impl Decoder for Mysql {
    #[inline]
    fn step<R: Reader>(&mut self, side: Side, input: Input<'_>, out: &mut Out<'_, R>) -> DecodeStep {
        if matches!(self.layer, PacketLayer::Unknown) {
            match compressed::begins(side, input.bytes) {
                MessageBoundary::Yes => self.compress(),
                // Waits even if it may be a plain packet: a compressed one shows before that is complete.
                MessageBoundary::More if input.opaque == 0 && input.bytes.len() < crate::limits::BOUNDARY_WINDOW => {
                    return Ok(Step::More);
                }
                _ => self.layer = PacketLayer::Plain,
            }
        }
        if let PacketLayer::Compressed(layer) = &mut self.layer {
            return layer.step(&mut self.plain, input, out);
        }
        let step = self.plain.step(side, input, out);
        if self.plain.is_compressed {
            self.compress();
        }
        step
    }

    fn boundary(&self, side: Side, bytes: &[u8]) -> MessageBoundary {
        match self.layer {
            PacketLayer::Plain => self.plain.boundary(side, bytes),
            PacketLayer::Compressed(_) => compressed::begins(side, bytes),
            PacketLayer::Unknown => match (self.plain.boundary(side, bytes), compressed::begins(side, bytes)) {
                (MessageBoundary::Yes, _) | (_, MessageBoundary::Yes) => MessageBoundary::Yes,
                (MessageBoundary::No, MessageBoundary::No) => MessageBoundary::No,
                _ => MessageBoundary::More,
            },
        }
    }

    fn resumes_at_turns(&self) -> bool {
        true
    }

    fn lost<R: Reader>(&mut self, side: Side, out: &mut Out<'_, R>) {
        match &mut self.layer {
            PacketLayer::Compressed(layer) => layer.lost(&mut self.plain, out),
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
    fn idle_state(&self) -> Option<u64> {
        let Self { plain, layer, expansion: _ } = self;
        if matches!(layer, PacketLayer::Plain) { plain.idle_state() } else { None }
    }

    fn held(&self) -> usize {
        let layer = match &self.layer {
            PacketLayer::Compressed(layer) => layer.held(),
            PacketLayer::Plain | PacketLayer::Unknown => 0,
        };
        self.plain.held() + layer
    }
}
