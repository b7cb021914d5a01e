//! Invariants for any input, as functions that a fuzzer can call.
//!
//! Each [`Target`] takes arbitrary bytes, makes a conversation, TCP segments or a capture file of them, and panics if
//! a promise is broken: a byte posted twice or never, an operation used after its end, an outcome that depends on how
//! TCP cut the stream or on what a memo took, a ledger that does not balance. `fuzz/` runs them under libFuzzer,
//! `tests/short.rs` in `make test`.

mod capture_file;
mod check;
mod checksum;
mod conversation;
mod later;
mod memo;
mod packet;
mod reassembler;
mod seeds;
mod sum;

pub use later::begun_later;
pub use memo::ScriptedCapture;
pub use seeds::{random_script, seeds};

use overhead_model::Protocol;

/// A fuzz target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Target {
    /// A conversation in one protocol.
    Conversation(Protocol),
    /// TCP segments in any order.
    Reassembler,
    /// A capture file.
    CaptureFile,
    /// Repeated turns, with and without the memo.
    Memo,
}

impl Target {
    /// All targets: one for each protocol, and the targets without a protocol.
    pub const ALL: [Self; Protocol::COUNT + 3] = {
        let mut all = [Self::Memo; Protocol::COUNT + 3];
        let mut at = 0;
        while at < Protocol::COUNT {
            all[at] = Self::Conversation(Protocol::ALL[at]);
            at += 1;
        }
        (all[at], all[at + 1]) = (Self::Reassembler, Self::CaptureFile);
        all
    };

    /// Returns its name, which is also the name of its folders in `fuzz/`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Conversation(protocol) => protocol.name(),
            Self::Reassembler => "reassembler",
            Self::CaptureFile => "capture_file",
            Self::Memo => "memo",
        }
    }

    /// Returns the target with a name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|target| target.name() == name)
    }

    /// Runs one input.
    ///
    /// # Panics
    ///
    /// If an invariant does not hold.
    pub fn run(self, input: &[u8]) {
        self.try_input(input, true);
    }

    /// Runs one input as a fuzzer does, which runs millions: of the rounds with other free bytes, it plays only the
    /// quarter that the input names.
    ///
    /// # Panics
    ///
    /// Like [`Target::run`].
    pub fn run_quickly(self, input: &[u8]) {
        self.try_input(input, false);
    }

    fn try_input(self, input: &[u8], thorough: bool) {
        match self {
            Self::Conversation(protocol) => check::run(protocol, input, thorough),
            Self::Reassembler => reassembler::run(input),
            Self::CaptureFile => capture_file::run(input),
            Self::Memo => drop(memo::run(input)),
        }
    }
}
