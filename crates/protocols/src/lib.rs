//! The protocols: bytes of a connection to postings and operations. One line of the registry each, and a folder of the same
//! shape:
//!
//! - `mod.rs`: the descriptor (specification, binary layout in prose) and the content sniffer;
//! - `wire.rs`: the protocol's constants and small readers of its primitives;
//! - `decode.rs`: messages to postings;
//! - `pair.rs`: messages to operations;
//! - `tests.rs`: hex vectors named after their situation, cuts at every byte, properties.

#![forbid(unsafe_code)]

pub mod cql;
mod foreign;
pub mod limits;
pub mod mongo;
pub mod pgwire;
pub mod resp;

pub use foreign::{Judgement, judge, judge_both, look};

use overhead_decode::{Boundary, Decoder, Expansion, Input, Malformed, Out, Reader, Step};
use overhead_model::{Protocol, Side};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

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

/// What the connections of a capture know of one another, as the connections of one thread see it.
///
/// It depends on the frames before the one at hand and on nothing else, so that it is the same with any number of
/// threads: who asks waits until the others have come as far.
#[derive(Clone, Debug, Default)]
pub struct Commons {
    statements: Arc<cql::Statements>,
    /// Number of the frame at hand: all before it are done with.
    frame: Arc<AtomicU64>,
    /// The same of the other threads.
    others: Arc<[Arc<AtomicU64>]>,
    /// What is said now comes of no frame.
    is_withheld: Arc<AtomicBool>,
    /// What compressed bodies may still decompress to, of all threads.
    expansion: Arc<Expansion>,
}

impl Commons {
    /// For as many threads.
    pub fn divided(threads: usize) -> Vec<Self> {
        let (statements, expansion): (Arc<cql::Statements>, Arc<Expansion>) = Default::default();
        let frames: Vec<Arc<AtomicU64>> = (0..threads).map(|_| Arc::default()).collect();
        let of = |own: usize| {
            let others = frames.iter().enumerate().filter(|(index, _)| *index != own);
            let others = others.map(|(_, frame)| Arc::clone(frame)).collect();
            let frame = frames.get(own).cloned().unwrap_or_default();
            let (statements, expansion) = (Arc::clone(&statements), Arc::clone(&expansion));
            Self { statements, frame, others, is_withheld: Arc::default(), expansion }
        };
        (0..threads).map(of).collect()
    }

    /// Returns how many compressed bodies were refused for want of what all of a run may take.
    pub fn refused(&self) -> u64 {
        self.expansion.refused()
    }

    /// What follows comes of this frame; `u64::MAX` when there is nothing to follow.
    #[inline]
    pub fn at(&self, frame: u64) {
        self.frame.store(frame, Ordering::Release);
    }

    /// What is said in the meantime comes of no frame: nobody is to know of it, nor does it know of others.
    pub fn withhold(&self, withheld: bool) {
        self.is_withheld.store(withheld, Ordering::Relaxed);
    }

    /// The frame at hand, for what is to be shared.
    fn frame(&self) -> Option<u64> {
        (!self.is_withheld.load(Ordering::Relaxed)).then(|| self.frame.load(Ordering::Relaxed))
    }

    /// The frame at hand, once the other threads have come as far: they share what the frames before brought.
    fn settled_frame(&self) -> Option<u64> {
        let frame = self.frame()?;
        for other in self.others.iter() {
            while other.load(Ordering::Acquire) < frame {
                std::thread::yield_now();
            }
        }
        Some(frame)
    }
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
            /// A decoder for a new connection; `mid_stream` where its handshake was not captured.
            pub fn new(protocol: Protocol, mid_stream: bool, commons: &Commons) -> Self {
                match protocol {
                    $(Protocol::$variant => {
                        let make: fn(bool, &Commons) -> $module::$decoder = $make;
                        Self::$variant(Box::new(make(mid_stream, commons)))
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
    Cql => cql::Cql, |mid_stream, commons| cql::Cql::sharing(mid_stream, commons.clone());
    Pgwire => pgwire::Pgwire, |mid_stream, _| pgwire::Pgwire::new(mid_stream);
    Mongo => mongo::Mongo, |mid_stream, commons| mongo::Mongo::sharing(mid_stream, commons);
}
