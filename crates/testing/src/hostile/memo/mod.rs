//! A capture dissected twice, with the memo and without: what comes of it must be the same.
//!
//! The input is a script: connections of one protocol whose turns repeat with other contents, and damage done to the frames
//! that they make. See [`script`] for how it is read.

mod again;
mod damage;
mod script;
mod sheet;
pub(crate) mod turns;
mod wire;
mod words;

pub(crate) use script::ScriptStep;
pub(crate) use words::Words;

use overhead_dissect::{Dissector, Selection, Totals};
use overhead_model::{Frame, LinkType, Protocol, Tally};
use script::Script;
use sheet::Sheet;
use wire::WrittenPacket;

/// A capture, and which connections of it are dissected.
#[derive(Debug)]
pub struct ScriptedCapture {
    protocol: Protocol,
    selection: Selection,
    packets: Vec<WrittenPacket>,
}

impl ScriptedCapture {
    /// Makes the capture that a script describes; any bytes are one.
    pub fn decode(input: &[u8]) -> Self {
        Script::run(input)
    }

    /// Returns the protocol that is spoken.
    pub fn protocol(&self) -> Protocol {
        self.protocol
    }

    /// Returns which connections are to be dissected.
    pub fn selection(&self) -> &Selection {
        &self.selection
    }

    /// Returns how many frames there are.
    pub fn len(&self) -> usize {
        self.packets.len()
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    /// Returns its frames.
    pub fn frames(&self) -> impl Iterator<Item = Frame<'_>> + Clone {
        self.packets.iter().map(|packet| Frame {
            time_ns: packet.time_ns,
            link: LinkType::ETHERNET,
            original_len: packet.original_len,
            interface: 0,
            bytes: &packet.bytes,
        })
    }

    /// Dissects it; gives what the tally came to, the totals, and how many frames the memo took.
    pub fn dissect<T: Tally>(&self, tally: T, memo: bool) -> (T, Totals, u64) {
        let mut dissector = Dissector::new(self.selection.clone(), tally);
        if !memo {
            dissector = dissector.without_memo();
        }
        for frame in self.frames() {
            dissector.frame(&frame);
        }
        let hits = dissector.memo_hits();
        let (tally, totals) = dissector.finish();
        (tally, totals, hits)
    }
}

/// Dissects the capture of a script with the memo and without; gives how many of its frames the memo took.
///
/// # Panics
///
/// If the memo makes a difference, or the ledger does not balance.
pub(crate) fn run(input: &[u8]) -> u64 {
    let capture = ScriptedCapture::decode(input);
    let (general, totals, none) = capture.dissect(Sheet::of_each(), false);
    // Whoever wants each operation by itself learns other turns.
    let (each, with_each, _) = capture.dissect(Sheet::of_each(), true);
    general.assert_each_is(&each);
    assert_eq!(with_each, totals, "totals with the memo told one by one, and without it");
    let (memo, with_memo, hits) = capture.dissect(Sheet::default(), true);
    assert_eq!(none, 0, "frames taken from the memo that is off");
    assert_eq!(general.total() + totals.other, totals.wire_bytes, "the ledger balances");
    assert_eq!(with_memo, totals, "totals with the memo, and without it");
    general.assert_is(memo);
    hits
}

#[cfg(test)]
mod tests;
