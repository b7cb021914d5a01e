//! The protocols: decoders that turn the bytes of a connection into postings and operations. Each has two lines here
//! and a folder of the same shape:
//!
//! - `mod.rs`: specification, layout in prose, the [`Decoder`], and `FACTS` (see [`ProtocolFacts`]);
//! - `wire.rs`: constants and readers of primitives;
//! - `decode.rs`: from messages to postings;
//! - `pair.rs`: from messages to operations;
//! - `tests.rs`: hex vectors named after their situation, cuts at every byte, properties.

#![forbid(unsafe_code)]

pub mod cql;
mod decompress;
mod foreign;
mod given;
pub mod http;
mod keys;
mod learned;
pub mod limits;
mod lines;
pub mod memcache;
pub mod mongo;
pub mod mysql;
pub mod pattern;
pub mod pgwire;
pub mod resp;
mod servers;
pub mod ssdb;
pub mod statement;
mod verb;
mod words_by_length;

pub use cql::SharedStatements;
pub use foreign::{SniffVerdict, judge, judge_both, judge_so_far, look, marked};
pub use given::GivenStatements;
pub use learned::{LearnedCounts, LearnedStatements};
pub use servers::KnownServers;

use overhead_decode::{DecodeStep, Decoder, Expansion, Input, MessageBoundary, Out, Reader};
use overhead_model::{Protocol, Side};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// How the first bytes of a direction look to one protocol.
///
/// A port suggests a protocol, and the bytes must agree. If a port has an expected protocol, [`judge`] checks in this
/// order until one is certain: marks unique to other protocols (`SSH-`), the expected protocol, TLS, our other
/// protocols, then foreign protocols recognised by lengths that agree. If none is certain, [`judge_both`] looks at both
/// directions together.
///
/// If a port suggests nothing, its candidates are tried in the order of [`Protocol::ALL`], most distinctive first; the
/// first one to return [`Sniff::Request`] or [`Sniff::Response`] wins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sniff {
    No,
    /// Too few bytes. Asked again with more, up to [`limits::SNIFF`].
    More,
    /// Only a client of this protocol sends such bytes.
    Request,
    /// Only a server of this protocol sends such bytes.
    Response,
    /// This side sends such bytes, but so do other protocols (a line that starts with a word, or with `+`). Counts only
    /// if the other direction agrees.
    Perhaps(Side),
}

impl Sniff {
    /// Returns whose message starts these bytes, as a client's and as a server's.
    fn from_sides(request: MessageBoundary, response: MessageBoundary) -> Self {
        match (request, response) {
            (MessageBoundary::Yes, _) => Self::Request,
            (_, MessageBoundary::Yes) => Self::Response,
            (MessageBoundary::No, MessageBoundary::No) => Self::No,
            _ => Self::More,
        }
    }
}

/// Everything about a protocol except how it is decoded. Each folder defines it in its `mod.rs`.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "facts that do not exclude each other")]
pub struct ProtocolFacts {
    pub sniff: fn(&[u8]) -> Sniff,
    /// Whether messages are lines of text, as in many protocols, so that recognition takes both directions: `sniff`
    /// returns [`Sniff::Perhaps`]. Decoders of other protocols reject foreign bytes themselves.
    pub is_text: bool,
    /// Whether only its order pairs an answer with a request, and servers send nothing unasked: on a connection joined midway,
    /// answers may be paired with the wrong requests.
    pub pairs_by_order: bool,
    /// Whether its servers also accept RESP on the same port.
    pub takes_resp: bool,
    /// Whether its servers may accept it over UDP, which is not decoded.
    pub has_udp: bool,
    /// The smallest request answered without a login; empty if the server speaks first.
    pub greeting: &'static [u8],
    /// The smallest reply to it, or the server's first message.
    pub reply: &'static [u8],
    /// Returns whether bytes start a reply to [`ProtocolFacts::greeting`].
    pub is_greeted: fn(&[u8]) -> bool,
}

/// State shared by the connections of a capture.
#[derive(Clone, Debug, Default)]
pub struct SharedContext {
    /// Statements prepared on any connection.
    pub statements: SharedStatements,
    /// Texts of statements prepared before the capture.
    pub given: GivenStatements,
    /// Servers of earlier connections, as far as no port names them.
    pub servers: KnownServers,
    /// The budget for decompressed bodies.
    expansion: Arc<Expansion>,
}

impl SharedContext {
    /// Sets a budget for decompressed bodies other than the usual one.
    #[must_use]
    pub fn with_expansion(mut self, expansion: Expansion) -> Self {
        self.expansion = Arc::new(expansion);
        self
    }

    /// Returns a context for decoding bytes to find out what they are: it knows nothing, and spends nothing.
    pub fn for_trial() -> Self {
        Self { expansion: Arc::new(Expansion::limited(0, 0)), ..Self::default() }
    }

    /// Returns how many compressed bodies were refused because the budget was spent.
    pub fn refused(&self) -> u64 {
        self.expansion.refused()
    }
}

pub fn sniff(protocol: Protocol, bytes: &[u8]) -> Sniff {
    (facts(protocol).sniff)(bytes)
}

/// Returns whether `name` is a request of `protocol`. Only decoders of RESP accept any name.
pub fn is_known_request(protocol: Protocol, name: &str) -> bool {
    protocol != Protocol::Resp || resp::is_command(name)
}

/// Defines the enum of all decoders and its dispatch, with one line per protocol.
macro_rules! registry {
    ($($variant:ident => $module:ident :: $decoder:ident, $make:expr);+ $(;)?) => {
        /// A decoder of any protocol. Boxed, so that its size depends on the protocol, not on the largest decoder.
        #[derive(Debug)]
        pub enum AnyDecoder {
            $(#[doc = concat!("See [`", stringify!($module), "`].")] $variant(Box<$module::$decoder>),)+
        }

        impl AnyDecoder {
            /// Returns a decoder for a connection; `mid_stream` if its start was not captured.
            pub fn new(protocol: Protocol, mid_stream: bool, shared: &SharedContext) -> Self {
                match protocol {
                    $(Protocol::$variant => {
                        let make: fn(bool, &SharedContext) -> $module::$decoder = $make;
                        Self::$variant(Box::new(make(mid_stream, shared)))
                    })+
                }
            }
        }

        /// Returns the facts about a protocol.
        pub const fn facts(protocol: Protocol) -> ProtocolFacts {
            match protocol {
                $(Protocol::$variant => $module::FACTS,)+
            }
        }

        impl Decoder for AnyDecoder {
            #[inline]
            fn step<R: Reader>(&mut self, side: Side, input: Input<'_>, out: &mut Out<'_, R>) -> DecodeStep {
                match self {
                    $(Self::$variant(decoder) => decoder.step(side, input, out),)+
                }
            }

            fn boundary(&self, side: Side, bytes: &[u8]) -> MessageBoundary {
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
            fn idle_state(&self) -> Option<u64> {
                match self {
                    $(Self::$variant(decoder) => decoder.idle_state(),)+
                }
            }

            fn feed_state(&self, state: &mut impl Hasher) -> bool {
                std::mem::discriminant(self).hash(state);
                match self {
                    $(Self::$variant(decoder) => decoder.feed_state(state),)+
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
    Pgwire => pgwire::Pgwire, |mid_stream, shared| pgwire::Pgwire::sharing(mid_stream, shared);
    Http => http::Http, |_, _| http::Http::default();
    Ssdb => ssdb::Ssdb, |_, _| ssdb::Ssdb::default();
    Memcache => memcache::Memcache, |_, _| memcache::Memcache::default();
    Mysql => mysql::Mysql, |mid_stream, shared| mysql::Mysql::sharing(mid_stream, shared);
    Mongo => mongo::Mongo, |mid_stream, shared| mongo::Mongo::sharing(mid_stream, shared);
}
