//! memcached: the text protocol with its meta commands, and the binary protocol.
//!
//! Specifications: memcached's `doc/protocol.txt` and `doc/protocol-binary.txt`.
//!
//! ```text
//! text      get <key>*\r\n                                        VALUE <key> <flags> <bytes> [<cas>]\r\n <data>\r\n … END\r\n
//!           set <key> <flags> <exptime> <bytes> [noreply]\r\n     STORED\r\n
//!           <data>\r\n
//! meta      mg <key> <flag>*\r\n                                  VA <bytes> <flag>*\r\n <data>\r\n, HD <flag>*\r\n, EN\r\n
//!           ms <key> <bytes> <flag>*\r\n <data>\r\n               HD <flag>*\r\n
//! binary    0x80 opcode keylen(2) extlen datatype vbucket(2) bodylen(4) opaque(4) cas(8)   extras key value
//!           0x81 opcode keylen(2) extlen datatype status(2)  bodylen(4) opaque(4) cas(8)   extras key value
//! ```
//!
//! As in servers, the first byte of a connection decides between the two. The length of a value determines its end, and
//! every line is treated as a command, so that decoding recovers from a client's mistake as a server would.

mod binary;
mod meta;
mod opcodes;
mod pair;
mod probe;
mod reply;
#[cfg(test)]
mod tests;
mod text;
mod wire;

use super::ProtocolFacts;
use crate::keys::KeyPatterns;
use overhead_decode::{
    DecodeStep, Decoder, Free, Input, Malformed, MaybeStep, MessageBoundary, OpId, Out, Reader, Step,
};
use overhead_model::{Account, Outcome, Side};
use pair::{MemcachePairing, MemcacheReplyTarget};
use std::hash::{Hash, Hasher};

pub use probe::sniff;

/// Returns whether this is a known command of the text protocol.
pub fn knows(name: &str) -> bool {
    wire::Command::named(name.as_bytes()).is_some()
}

pub(super) const FACTS: ProtocolFacts = ProtocolFacts {
    sniff,
    is_text: true,
    pairs_by_order: true,
    takes_resp: false,
    has_udp: true,
    greeting: b"version\r\n",
    reply: b"VERSION 1.6.18\r\n",
    is_greeted: |reply| reply.starts_with(b"VERSION ") || reply.starts_with(b"CLIENT_ERROR unauthenticated"),
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MemcacheEncoding {
    Text,
    Binary,
}

#[derive(Debug, Default)]
pub struct Memcache {
    /// Absent before the first byte.
    mode: Option<MemcacheEncoding>,
    /// By side.
    stages: [MemcacheStage; 2],
    /// The request whose value is arriving.
    sent: Option<IncompleteRequest>,
    target: Option<MemcacheReplyTarget>,
    pairing: MemcachePairing,
    /// The server streams its log.
    is_watching: bool,
    /// Bytes already searched for a line end, by side.
    scanned: [usize; 2],
    keys: KeyPatterns,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum MemcacheStage {
    /// Between messages, or between lines.
    #[default]
    Idle,
    /// Among the keys of a retrieval command.
    Words(PartialLine),
    Value(PartialValue),
}

/// A line read word by word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct PartialLine {
    op: OpId,
    name: &'static str,
    place: usize,
}

/// The rest of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct PartialValue {
    left: u64,
    account: Account,
    /// A CRLF follows.
    has_end: bool,
    is_last: bool,
}

/// A labelled request whose value is incomplete.
#[derive(Clone, Copy, Debug)]
struct IncompleteRequest {
    op: OpId,
    name: &'static str,
    /// It has no reply.
    is_silent: bool,
    /// The outcome, if it was answered early.
    answered: Option<Outcome>,
}

impl Memcache {
    /// Decodes the next line, header or piece of a value. Returns the step to stop with if it is incomplete.
    fn element<R: Reader>(&mut self, side: Side, input: &mut Input<'_>, out: &mut Out<'_, R>) -> MaybeStep {
        if let MemcacheStage::Value(value) = self.stages[side as usize] {
            return Ok(self.value(value, input, out));
        }
        let Some(&first) = input.bytes.first() else { return Err(Malformed("what was not captured")) };
        let magic = if side == Side::Request { wire::REQUEST } else { wire::RESPONSE };
        let mode =
            *self.mode.get_or_insert(if first == magic { MemcacheEncoding::Binary } else { MemcacheEncoding::Text });
        match (mode, side) {
            (MemcacheEncoding::Binary, _) if first != magic => {
                Err(Malformed("a binary message without its magic byte"))
            }
            (MemcacheEncoding::Binary, _) => self.binary(input, out),
            (MemcacheEncoding::Text, Side::Request) => self.command(input, out),
            (MemcacheEncoding::Text, Side::Response) => self.text_reply(input, out),
        }
    }

    /// Posts the available part of a value and the line end after it.
    fn value<R: Reader>(&mut self, value: PartialValue, input: &mut Input<'_>, out: &mut Out<'_, R>) -> Option<Step> {
        let (side, taken) = (out.side(), value.left.min(input.available()));
        out.post_free(value.account, "value", taken, Free::Any);
        input.advance(taken);
        let left = value.left - taken;
        self.stages[side as usize] = MemcacheStage::Value(PartialValue { left, ..value });
        if left > 0 {
            return Some(Step::More);
        }
        if value.has_end {
            if input.available() < 2 {
                return Some(Step::Need(2));
            }
            let end = input.bytes.get(..2).unwrap_or(input.bytes);
            // Servers skip two bytes, whatever they are (`CLIENT_ERROR bad data chunk`).
            let account = if b"\r\n".starts_with(end) { Account::Framing } else { Account::Data };
            out.post(account, "CRLF", 2);
            input.advance(2);
        }
        self.stages[side as usize] = MemcacheStage::Idle;
        match side {
            Side::Request => self.end_request(out),
            Side::Response if value.is_last => self.end_reply(out),
            Side::Response => {}
        }
        None
    }

    /// Ends a request whose value is complete.
    fn end_request<R: Reader>(&mut self, out: &mut Out<'_, R>) {
        if let Some(IncompleteRequest { op, name, is_silent, answered }) = self.sent.take() {
            self.name(op, name, out);
            match answered {
                Some(outcome) => out.close(op, outcome),
                None if is_silent => self.pairing.push_silent(op, out),
                None => {}
            }
        }
        out.release();
    }

    fn end_reply<R: Reader>(&mut self, out: &mut Out<'_, R>) {
        let Some(target) = self.target.take() else { return };
        match &mut self.sent {
            // The rejected value is still arriving.
            Some(sent) if sent.op == target.op => sent.answered = Some(target.outcome),
            _ => out.close(target.op, if target.is_orphan { Outcome::NoReply } else { target.outcome }),
        }
        out.release();
    }
}

impl Decoder for Memcache {
    fn step<R: Reader>(&mut self, side: Side, input: Input<'_>, out: &mut Out<'_, R>) -> DecodeStep {
        input.each(|left| self.element(side, left, out))
    }

    fn boundary(&self, side: Side, bytes: &[u8]) -> MessageBoundary {
        probe::boundary(side, bytes)
    }

    fn lost<R: Reader>(&mut self, side: Side, out: &mut Out<'_, R>) {
        self.scanned[side as usize] = 0;
        let stage = std::mem::take(&mut self.stages[side as usize]);
        match side {
            Side::Request => {
                if let MemcacheStage::Words(words) = stage {
                    self.end_words(words, out);
                }
                self.end_request(out);
            }
            Side::Response => {
                if let Some(target) = &mut self.target {
                    target.outcome = Outcome::Unanswered;
                }
                self.end_reply(out);
            }
        }
        self.pairing.lost(side, out);
    }

    fn abandon<R: Reader>(&mut self, out: &mut Out<'_, R>) {
        self.lost(Side::Response, out);
        self.pairing.abandon(&mut self.sent, out);
    }

    fn end<R: Reader>(&mut self, out: &mut Out<'_, R>) {
        self.pairing.end(out);
    }

    fn idle_state(&self) -> Option<u64> {
        let Self { mode, stages, sent, target, pairing, is_watching, scanned: _, keys: _ } = self;
        let between = *stages == [MemcacheStage::Idle; 2]
            && sent.is_none()
            && target.is_none()
            && pairing.is_idle()
            && !is_watching;
        let mode = mode.map_or(0, |mode| 1 + mode as u64);
        between.then(|| (2 * mode + u64::from(pairing.has_silent)) << 2 | pairing.pending.habit())
    }

    fn feed_state(&self, state: &mut impl Hasher) -> bool {
        // The number is the complete state.
        self.idle_state().hash(state);
        true
    }

    fn held(&self) -> usize {
        self.pairing.pending.held() + self.keys.held()
    }
}
