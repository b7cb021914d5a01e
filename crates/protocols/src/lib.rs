//! The protocols: bytes of a connection to postings and operations. Each has two lines here and a folder of the same shape:
//!
//! - `mod.rs`: specification, layout in prose, the decoder's struct with its [`Decoder`], and `FACTS` (see [`ProtocolFacts`]);
//! - `wire.rs`: the protocol's constants and small readers of its primitives;
//! - `decode.rs`: messages to postings;
//! - `pair.rs`: messages to operations;
//! - `tests.rs`: hex vectors named after their situation, cuts at every byte, properties.

#![forbid(unsafe_code)]

pub mod cql;
mod foreign;
pub mod http;
mod keys;
pub mod limits;
pub mod memcache;
pub mod mongo;
pub mod mysql;
pub mod pattern;
pub mod pgwire;
pub mod resp;
pub mod ssdb;
pub mod statement;
mod verb;

pub use cql::SharedStatements;
pub use foreign::{SniffVerdict, judge, judge_both, judge_so_far, look};

use overhead_decode::{Boundary, Decoder, Expansion, Input, Malformed, Out, Reader, Step};
use overhead_model::{Protocol, Side};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// What the first bytes of a direction look like to one protocol.
///
/// A port says what is expected, and the bytes have to agree. Where a port is expected to have one protocol, [`judge`] asks in
/// this order, until something is certain: other protocols' marks that none of ours begins with (`SSH-`), the
/// expected protocol, TLS, our other protocols, then foreign ones that are told by lengths that agree. Where nothing is
/// certain, [`judge_both`] looks at both directions together.
///
/// Where a port says nothing, all protocols that it may be are asked in the order of [`Protocol::ALL`], those first whose
/// messages prove most: of several that say [`Sniff::Request`] or [`Sniff::Response`] the first one is believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sniff {
    /// Not this protocol, whatever follows.
    No,
    /// Too few bytes to tell. Asked again with more, up to [`limits::SNIFF`].
    More,
    /// A client of this protocol sends such bytes, and nothing else that is known does.
    Request,
    /// A server of this protocol sends such bytes, and nothing else that is known does.
    Response,
    /// An end on this side sends such bytes, and so do ends of other protocols (a line that begins with a word, or with `+`).
    /// It is believed only where the other direction says the same of the other side.
    Perhaps(Side),
}

/// What there is to say of a protocol beside how it is decoded. Each folder has its own in its `mod.rs`.
#[derive(Clone, Copy, Debug)]
pub struct ProtocolFacts {
    /// Says what the first bytes of a direction look like.
    pub sniff: fn(&[u8]) -> Sniff,
    /// Whether its messages are lines of text, as those of many protocols are: it takes both directions to tell. Where
    /// messages have lengths and types, the decoder finds out by itself that bytes are not of its protocol.
    pub is_text: bool,
    /// The smallest thing that its servers answer without a login; empty where the server speaks first.
    pub greeting: &'static [u8],
    /// The smallest answer to it that a server may give, or what it says first.
    pub answer: &'static [u8],
    /// Returns whether the first bytes of an answer are one to [`ProtocolFacts::greeting`].
    pub is_greeted: fn(&[u8]) -> bool,
}

/// What the connections of a capture share.
#[derive(Clone, Debug, Default)]
pub struct SharedContext {
    /// What was prepared on any of them.
    pub statements: SharedStatements,
    /// What compressed bodies may still decompress to.
    expansion: Arc<Expansion>,
}

impl SharedContext {
    /// Returns how many compressed bodies were refused for want of what all of a run may take.
    pub fn refused(&self) -> u64 {
        self.expansion.refused()
    }
}

/// Returns whether servers of this protocol take RESP on the same port.
pub const fn takes_resp(protocol: Protocol) -> bool {
    matches!(protocol, Protocol::Ssdb)
}

/// Returns whether servers of this protocol may take it in datagrams of UDP, which are not decoded.
pub const fn speaks_udp(protocol: Protocol) -> bool {
    matches!(protocol, Protocol::Memcache)
}

/// Returns what the first bytes of a direction look like to `protocol`.
pub fn sniff(protocol: Protocol, bytes: &[u8]) -> Sniff {
    (facts(protocol).sniff)(bytes)
}

/// Makes the enum of all decoders, and dispatches to them, from one line per protocol.
macro_rules! registry {
    ($($variant:ident => $module:ident :: $decoder:ident, $make:expr);+ $(;)?) => {
        /// A decoder of any protocol. Boxed, so that a connection takes the room of its own one, not of the largest.
        #[derive(Debug)]
        pub enum AnyDecoder {
            $(#[doc = concat!("See [`", stringify!($module), "`].")] $variant(Box<$module::$decoder>),)+
        }

        impl AnyDecoder {
            /// Returns a decoder for a new connection; `mid_stream` where its handshake was not captured.
            pub fn new(protocol: Protocol, mid_stream: bool, shared: &SharedContext) -> Self {
                match protocol {
                    $(Protocol::$variant => {
                        let make: fn(bool, &SharedContext) -> $module::$decoder = $make;
                        Self::$variant(Box::new(make(mid_stream, shared)))
                    })+
                }
            }
        }

        /// Returns what there is to say of `protocol`.
        pub const fn facts(protocol: Protocol) -> ProtocolFacts {
            match protocol {
                $(Protocol::$variant => $module::FACTS,)+
            }
        }

        impl Decoder for AnyDecoder {
            #[inline]
            fn step<R: Reader>(&mut self, side: Side, input: Input<'_>, out: &mut Out<'_, R>) -> Result<Step, Malformed> {
                match self {
                    $(Self::$variant(decoder) => decoder.step(side, input, out),)+
                }
            }

            fn boundary(&self, side: Side, bytes: &[u8]) -> Boundary {
                match self {
                    $(Self::$variant(decoder) => decoder.boundary(side, bytes),)+
                }
            }

            fn resumes_at_turns(&self) -> bool {
                match self {
                    $(Self::$variant(decoder) => decoder.resumes_at_turns(),)+
                }
            }

            fn lost<R: Reader>(&mut self, side: Side, out: &mut Out<'_, R>) {
                match self {
                    $(Self::$variant(decoder) => decoder.lost(side, out),)+
                }
            }

            fn end<R: Reader>(&mut self, out: &mut Out<'_, R>) {
                match self {
                    $(Self::$variant(decoder) => decoder.end(out),)+
                }
            }

            fn abandon<R: Reader>(&mut self, out: &mut Out<'_, R>) {
                match self {
                    $(Self::$variant(decoder) => decoder.abandon(out),)+
                }
            }

            #[inline]
            fn quiet(&self) -> Option<u64> {
                match self {
                    $(Self::$variant(decoder) => decoder.quiet(),)+
                }
            }

            fn feed_state(&self, state: &mut impl Hasher) -> bool {
                std::mem::discriminant(self).hash(state);
                match self {
                    $(Self::$variant(decoder) => decoder.feed_state(state),)+
                }
            }

            #[inline]
            fn resume(&mut self, number: u64) -> bool {
                match self {
                    $(Self::$variant(decoder) => decoder.resume(number),)+
                }
            }

            fn held(&self) -> usize {
                match self {
                    $(Self::$variant(decoder) => decoder.held(),)+
                }
            }
        }
    };
}

registry! {
    Resp => resp::Resp, |mid_stream, _| resp::Resp::new(mid_stream);
    Cql => cql::Cql, |mid_stream, shared| cql::Cql::sharing(mid_stream, shared.clone());
    Pgwire => pgwire::Pgwire, |mid_stream, _| pgwire::Pgwire::new(mid_stream);
    Http => http::Http, |_, _| http::Http::new();
    Ssdb => ssdb::Ssdb, |_, _| ssdb::Ssdb::new();
    Memcache => memcache::Memcache, |_, _| memcache::Memcache::new();
    Mysql => mysql::Mysql, |mid_stream, shared| mysql::Mysql::sharing(mid_stream, shared);
    Mongo => mongo::Mongo, |mid_stream, shared| mongo::Mongo::sharing(mid_stream, shared);
}
