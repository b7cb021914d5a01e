//! The registry: one line per protocol. Each has a folder of the same shape:
//!
//! - `mod.rs`: the descriptor (specification, binary layout in prose) and the content sniffer;
//! - `wire.rs`: the protocol's constants and small readers of its primitives;
//! - `decode.rs`: messages to postings;
//! - `pair.rs`: messages to operations;
//! - `tests.rs`: hex vectors named after their situation, cuts at every byte, properties.

use crate::decode::{Boundary, Decoder, Input, Malformed, Out, Reader, Step};
use overhead_model::{Protocol, Side};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What the first bytes of a direction look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sniff {
    /// Not this protocol.
    No,
    /// Too few bytes to tell.
    More,
    /// A client of this protocol sends such bytes.
    Request,
    /// A server of this protocol sends such bytes.
    Response,
    /// One of this side sends such bytes, and so do ends of other protocols: it takes both directions to tell.
    Perhaps(Side),
}

/// What the connections of a capture know of one another.
#[derive(Clone, Debug, Default)]
pub struct Commons {
    statements: Arc<cql::Statements>,
    /// Number of the frame at hand.
    frame: Arc<AtomicU64>,
}

impl Commons {
    /// What follows comes of this frame.
    pub fn at(&self, frame: u64) {
        self.frame.store(frame, Ordering::Relaxed);
    }

    fn frame(&self) -> u64 {
        self.frame.load(Ordering::Relaxed)
    }
}

/// Makes the enum of all decoders, and dispatches to them, from one line per protocol.
macro_rules! registry {
    ($($variant:ident => $module:ident :: $decoder:ident, $make:expr);+ $(;)?) => {
        $(pub mod $module;)+

        /// A decoder of any protocol.
        #[derive(Debug)]
        pub enum AnyDecoder {
            $(#[doc = concat!("See [`", stringify!($module), "`].")] $variant($module::$decoder),)+
        }

        impl AnyDecoder {
            /// A decoder for a new connection; `mid_stream` where its handshake was not captured.
            pub fn new(protocol: Protocol, mid_stream: bool, commons: &Commons) -> Self {
                match protocol {
                    $(Protocol::$variant => {
                        let make: fn(bool, &Commons) -> $module::$decoder = $make;
                        Self::$variant(make(mid_stream, commons))
                    })+
                }
            }
        }

        /// What the first bytes of a direction look like to `protocol`.
        pub fn sniff(protocol: Protocol, bytes: &[u8]) -> Sniff {
            match protocol {
                $(Protocol::$variant => $module::sniff(bytes),)+
            }
        }

        impl Decoder for AnyDecoder {
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

            fn lost<R: Reader>(&mut self, side: Side, out: &mut Out<'_, R>) {
                match self {
                    $(Self::$variant(decoder) => decoder.lost(side, out),)+
                }
            }
        }
    };
}

registry! {
    Resp => resp::Resp, |mid_stream, _| resp::Resp::new(mid_stream);
    Cql => cql::Cql, |mid_stream, commons| cql::Cql::sharing(mid_stream, commons.clone());
    Pgwire => pgwire::Pgwire, |mid_stream, _| pgwire::Pgwire::new(mid_stream);
    Mongo => mongo::Mongo, |mid_stream, _| mongo::Mongo::new(mid_stream);
}
