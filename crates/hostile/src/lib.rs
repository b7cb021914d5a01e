//! What must hold for any input whatever, as functions that a fuzzer can call.
//!
//! Each [`Target`] takes arbitrary bytes, makes a conversation, TCP segments or a capture file of them, and panics where
//! a promise is broken: a byte posted twice or never, an operation used after its end, an outcome that depends on how
//! TCP cut the stream or on what a memo took, a ledger that does not balance. `fuzz/` runs them under libFuzzer,
//! `tests/short.rs` in `make test`.

#![forbid(unsafe_code)]

mod capture_file;
mod check;
mod conversation;
mod memo;
mod packet;
mod reassembler;
mod seeds;
mod sum;

pub use memo::Capture;
pub use seeds::{random_script, seeds};

use overhead_model::Protocol;

/// A fuzz target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Target {
    /// A conversation in RESP.
    Resp,
    /// A conversation in CQL.
    Cql,
    /// A conversation in PostgreSQL's protocol.
    Pgwire,
    /// A conversation in MongoDB's protocol.
    Mongo,
    /// TCP segments in any order.
    Reassembler,
    /// A capture file.
    CaptureFile,
    /// Turns that repeat themselves, with the memo and without.
    Memo,
}

impl Target {
    /// All targets.
    pub const ALL: [Self; 7] =
        [Self::Resp, Self::Cql, Self::Pgwire, Self::Mongo, Self::Reassembler, Self::CaptureFile, Self::Memo];

    /// Its name, which is that of its binary and of its folders below `fuzz/`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Resp => "resp",
            Self::Cql => "cql",
            Self::Pgwire => "pgwire",
            Self::Mongo => "mongo",
            Self::Reassembler => "reassembler",
            Self::CaptureFile => "capture_file",
            Self::Memo => "memo",
        }
    }

    /// The protocol of a target that is a conversation.
    const fn protocol(self) -> Option<Protocol> {
        match self {
            Self::Resp => Some(Protocol::Resp),
            Self::Cql => Some(Protocol::Cql),
            Self::Pgwire => Some(Protocol::Pgwire),
            Self::Mongo => Some(Protocol::Mongo),
            Self::Reassembler | Self::CaptureFile | Self::Memo => None,
        }
    }

    /// Tries one input.
    ///
    /// # Panics
    ///
    /// Where what must hold does not.
    pub fn run(self, input: &[u8]) {
        match (self, self.protocol()) {
            (_, Some(protocol)) => check::run(protocol, input),
            (Self::CaptureFile, None) => capture_file::run(input),
            (Self::Memo, None) => drop(memo::run(input)),
            (_, None) => reassembler::run(input),
        }
    }
}
