//! The SSDB protocol. Servers also accept RESP on the same port; the first byte decides, and RESP is decoded as such.
//!
//! Specification: <http://ssdb.io/docs/protocol.html> and SSDB's `src/net/link.cpp`. The tests follow these byte by
//! byte, as no server was available to record.
//!
//! ```text
//! packet    block… \n            a request is a command and its arguments, an answer a status and what was asked for
//! block     <size>\n <size bytes>\n
//! ```
//!
//! `\r\n` may replace `\n`. Replies come in order.

mod decode;
mod pair;
#[cfg(test)]
mod tests;
mod wire;

use super::{ProtocolFacts, Sniff};
use crate::keys::KeyPatterns;
use crate::limits::BOUNDARY_WINDOW;
use overhead_decode::{DecodeStep, Decoder, Free, Input, MessageBoundary, OpId, Out, Reader};
use overhead_model::{Account, Outcome, Side};
use pair::{SsdbPairing, SsdbReplyTarget, SsdbStatus};
use std::hash::{Hash, Hasher};
use wire::SsdbLine;

pub(super) const FACTS: ProtocolFacts = ProtocolFacts {
    sniff,
    is_text: false,
    pairs_by_order: true,
    takes_resp: true,
    has_udp: false,
    greeting: b"4\nping\n\n",
    reply: b"2\nok\n\n",
    is_greeted: |reply| reply.starts_with(b"2\nok\n") || reply.starts_with(b"6\nnoauth\n"),
};

#[derive(Debug, Default)]
pub struct Ssdb {
    packets: [SsdbPacket; 2],
    pairing: SsdbPairing,
    keys: KeyPatterns,
}

#[derive(Debug, Default)]
struct SsdbPacket {
    stage: SsdbStage,
    place: u32,
    /// The request's operation. Absent in replies and between packets.
    op: Option<OpId>,
    name: Vec<u8>,
    /// The request being answered. Absent in requests and between packets.
    target: Option<SsdbReplyTarget>,
    first: SsdbStatus,
    is_version: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum SsdbStage {
    /// Before a line with a size, or an empty line.
    #[default]
    Line,
    /// In a block.
    Block { left: u64, account: Account, free: Option<Free>, is_key: bool },
    /// After a block.
    BlockEnd,
}

/// Recognises a block that holds a command or a status.
pub fn sniff(bytes: &[u8]) -> Sniff {
    match wire::next(bytes) {
        Ok(SsdbLine::Block { size: size @ 2..=32, line }) => {
            let (size, line) = (size as usize, line as usize);
            let block = bytes.get(line..).unwrap_or_default();
            match block.get(..size) {
                None if block.is_empty() || wire::is_name(block) || block.len() < 2 => Sniff::More,
                Some(text) if wire::is_name(text) => match block.get(size) {
                    Some(b'\n' | b'\r') if wire::is_status(text) => Sniff::Response,
                    Some(b'\n' | b'\r') => Sniff::Request,
                    Some(_) => Sniff::No,
                    None => Sniff::More,
                },
                _ => Sniff::No,
            }
        }
        Ok(SsdbLine::More) => Sniff::More,
        _ => Sniff::No,
    }
}

impl Decoder for Ssdb {
    fn step<R: Reader>(&mut self, side: Side, input: Input<'_>, out: &mut Out<'_, R>) -> DecodeStep {
        input.each(|left| self.element(side, left, out))
    }

    fn boundary(&self, side: Side, bytes: &[u8]) -> MessageBoundary {
        // Asked at every byte, so only a window is inspected.
        match (side, sniff(bytes.get(..BOUNDARY_WINDOW).unwrap_or(bytes))) {
            (_, Sniff::More) => MessageBoundary::More,
            // A block of letters may occur inside a packet; a status rarely does.
            (Side::Request, Sniff::Request) | (Side::Response, Sniff::Response) => MessageBoundary::Yes,
            _ => MessageBoundary::No,
        }
    }

    fn abandon<R: Reader>(&mut self, out: &mut Out<'_, R>) {
        self.lost(Side::Response, out);
        self.pairing.pending.abandon(out);
    }

    fn lost<R: Reader>(&mut self, side: Side, out: &mut Out<'_, R>) {
        let packet = &mut self.packets[side as usize];
        (packet.stage, packet.place) = (SsdbStage::Line, 0);
        if let Some(op) = packet.op.take() {
            out.close(op, Outcome::NoReply);
        }
        let mut current = None;
        match packet.target.take() {
            Some(SsdbReplyTarget { op, unpaired: Some(outcome), .. }) => out.close(op, outcome),
            Some(SsdbReplyTarget { op, unpaired: None, .. }) => current = Some(op),
            None => {}
        }
        self.pairing.pending.lose_answer(side, current, out);
    }

    fn idle_state(&self) -> Option<u64> {
        // All fields are named, so that a new one cannot be missed. The ignored ones belong to the current packet.
        let Self { packets, pairing, keys: _ } = self;
        let is_between = |packet: &SsdbPacket| {
            let SsdbPacket { stage, place, op: _, name: _, target: _, first: _, is_version: _ } = packet;
            *stage == SsdbStage::Line && *place == 0
        };
        (packets.iter().all(is_between) && pairing.is_idle()).then(|| pairing.pending.habit())
    }

    fn feed_state(&self, state: &mut impl Hasher) -> bool {
        // The number is the complete state.
        self.idle_state().hash(state);
        true
    }

    fn held(&self) -> usize {
        let names: usize = self.packets.iter().map(|packet| packet.name.capacity()).sum();
        self.pairing.pending.held() + self.keys.held() + names
    }
}
