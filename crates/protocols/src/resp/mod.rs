//! RESP, the Redis serialization protocol, versions 2 and 3.
//!
//! Specification: <https://redis.io/docs/latest/develop/reference/protocol-spec/>.
//!
//! ```text
//! command   *<n>\r\n  n × ( $<len>\r\n <bytes>\r\n )        or an inline line of words
//! reply     + text | - error | : integer | $ string | * array           RESP2
//!           _ null | # boolean | , double | ( big number | ! error | = verbatim
//!           % map | ~ set | > push | | attribute | streamed $? *? …     RESP3
//! ```
//!
//! Command words and option tokens are `query`, other arguments `data`. The command table of Redis (`commands.txt`,
//! generated) distinguishes them, and whether an integer reply counts changes (`status`) or is the requested value
//! (`data`).

mod argument;
mod command;
mod commands;
mod decode;
mod pair;
mod pubsub;
mod replication;
mod resolved;
#[cfg(test)]
mod tests;
mod value;
mod wire;

use super::{ProtocolFacts, Sniff};
use crate::limits::BOUNDARY_WINDOW;
use decode::{RespRequest, RespStage};
use overhead_decode::{DecodeStep, Decoder, Input, MessageBoundary, Out, Reader, Step};
use overhead_model::{Class, Outcome, Side};
use pair::{RespPairing, RespReplyTarget};
use replication::ReplicationStream;
use std::hash::Hasher;
use value::RespValue;

/// Returns whether this is a known command, or a command with its subcommand as in `CLIENT|LIST`, in upper or lower
/// case.
pub fn knows(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    commands::CommandSpec::named(&name).is_some() || resolved::class(&name.replace('|', " ")) != Class::Workload
}

pub(super) const FACTS: ProtocolFacts = ProtocolFacts {
    sniff,
    is_text: true,
    pairs_by_order: true,
    takes_resp: false,
    has_udp: false,
    greeting: b"PING\r\n",
    reply: b"+PONG\r\n",
    is_greeted: |reply| [&b"+PONG"[..], b"-NOAUTH", b"-DENIED"].iter().any(|word| reply.starts_with(word)),
};

#[derive(Debug, Default)]
pub struct Resp {
    request: RespRequest,
    reply: RespValue,
    /// The operation of the current value.
    target: Option<RespReplyTarget>,
    pairing: RespPairing,
    /// The stream from a primary to its replica. Absent before it starts.
    replication: Option<Box<ReplicationStream>>,
}

impl Resp {
    /// Returns a decoder for a connection; `mid_stream` if its start was not captured.
    pub fn new(mid_stream: bool) -> Self {
        Self { pairing: RespPairing::new(mid_stream), ..Self::default() }
    }
}

/// Inline commands and status lines resemble other protocols.
pub fn sniff(bytes: &[u8]) -> Sniff {
    match (value(bytes), inline_command(bytes)) {
        (Sniff::No, MessageBoundary::Yes) => Sniff::Perhaps(Side::Request),
        (Sniff::No, MessageBoundary::More) => Sniff::More,
        (value, _) => value,
    }
}

/// Returns whether the first word of an operation's name is in the command table.
pub(super) fn is_command(name: &str) -> bool {
    name.split(' ').next().is_some_and(|word| commands::CommandSpec::named(word).is_some())
}

impl Decoder for Resp {
    #[inline(never)]
    fn step<R: Reader>(&mut self, side: Side, input: Input<'_>, out: &mut Out<'_, R>) -> DecodeStep {
        let mut left = input;
        let step = match side {
            Side::Request => self.commands(&mut left, out),
            Side::Response => self.replies(&mut left, out),
        }?;
        // A step's need is counted from its start; if bytes were consumed, the next call asks again.
        Ok(if left.available() < input.available() { Step::Progress } else { step })
    }

    fn boundary(&self, side: Side, bytes: &[u8]) -> MessageBoundary {
        boundary(side, bytes)
    }

    fn abandon<R: Reader>(&mut self, out: &mut Out<'_, R>) {
        self.lost(Side::Response, out);
        self.pairing.pending.abandon(out);
    }

    fn lost<R: Reader>(&mut self, side: Side, out: &mut Out<'_, R>) {
        match side {
            Side::Request => {
                if self.request.stage != RespStage::Idle {
                    self.request.stage = RespStage::Idle;
                    out.close(self.request.command.op, Outcome::NoReply);
                }
                self.request.scanned = 0;
                self.pairing.lost(side, None, out);
            }
            Side::Response => {
                self.reply.reset();
                self.pairing.lost(side, self.target.take(), out);
                if let Some(replication) = &mut self.replication {
                    replication.lost(out);
                }
            }
        }
    }

    fn idle_state(&self) -> Option<u64> {
        // All fields are named, so that a new one cannot be missed. The ignored ones belong to the current message.
        let Self { request, reply: _, target, pairing, replication } = self;
        let between = request.is_between() && target.is_none() && replication.is_none();
        between.then(|| pairing.idle_state()).flatten()
    }

    fn feed_state(&self, state: &mut impl Hasher) -> bool {
        self.pairing.feed_state(state)
    }

    fn held(&self) -> usize {
        self.pairing.pending.held() + self.request.command.held()
    }
}

/// Returns whether a RESP value starts here.
fn value(bytes: &[u8]) -> Sniff {
    match bytes {
        [] => Sniff::More,
        [b'*' | b'+' | b'-' | b'$' | b':' | b'%' | b'>', ..] => {
            let line = bytes.split(|&byte| byte == b'\n').next().unwrap_or(bytes);
            let whole = line.len() < bytes.len();
            match line {
                [b'*', digits @ .., b'\r'] if whole && wire::number(digits).is_some() => {
                    match bytes.get(line.len() + 1) {
                        Some(b'$') => Sniff::Request,
                        Some(_) => Sniff::Response,
                        None => Sniff::More,
                    }
                }
                [b'$' | b':' | b'%' | b'>', digits @ .., b'\r'] if whole && wire::number(digits).is_some() => {
                    Sniff::Response
                }
                [b'+' | b'-', text @ .., b'\r'] if whole && text.iter().all(|byte| (b' '..0x7f).contains(byte)) => {
                    Sniff::Perhaps(Side::Response)
                }
                _ if whole => Sniff::No,
                _ if is_long_error(line) => Sniff::Perhaps(Side::Response),
                _ => Sniff::More,
            }
        }
        _ => Sniff::No,
    }
}

/// Returns whether an error starts here that is longer than what is inspected: a code in capitals, and text.
fn is_long_error(bytes: &[u8]) -> bool {
    let text = bytes.strip_prefix(b"-").filter(|_| bytes.len() >= BOUNDARY_WINDOW).unwrap_or_default();
    let code = text.split(|byte| *byte == b' ').next().unwrap_or_default();
    code.len() > 1 && code.iter().all(u8::is_ascii_uppercase) && text.iter().all(|byte| (b' '..0x7f).contains(byte))
}

/// Returns whether bytes within a stream start a message.
fn boundary(side: Side, bytes: &[u8]) -> MessageBoundary {
    // Asked at every byte, so only a window is inspected.
    let bytes = bytes.get(..BOUNDARY_WINDOW).unwrap_or(bytes);
    match (side, value(bytes)) {
        (_, Sniff::More) => MessageBoundary::More,
        (Side::Request, Sniff::Request)
        | (Side::Response, Sniff::Response | Sniff::Request | Sniff::Perhaps(Side::Response)) => MessageBoundary::Yes,
        (Side::Request, _) => inline_command(bytes),
        _ => MessageBoundary::No,
    }
}

/// Returns whether `bytes` start an inline command in the command table.
fn inline_command(bytes: &[u8]) -> MessageBoundary {
    let word = bytes.split(u8::is_ascii_whitespace).next().unwrap_or_default();
    if !word.iter().all(|byte| byte.is_ascii_alphanumeric() || b"_-.".contains(byte)) {
        return MessageBoundary::No;
    }
    if word.len() == bytes.len() {
        return MessageBoundary::More;
    }
    let known =
        std::str::from_utf8(word).is_ok_and(|word| commands::CommandSpec::named(&word.to_ascii_uppercase()).is_some());
    MessageBoundary::yes_if(known)
}
