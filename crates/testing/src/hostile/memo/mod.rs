//! Dissects a capture with and without the memo, and compares the results, which must be equal.
//!
//! The input is a script: connections of one protocol whose turns repeat with changes, and damage to their frames.
//! [`script`] describes the format.

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

/// A capture, and the selection of connections to dissect.
#[derive(Debug)]
pub struct ScriptedCapture {
    protocol: Protocol,
    selection: Selection,
    packets: Vec<WrittenPacket>,
}

impl ScriptedCapture {
    /// Builds the capture that a script describes. Any bytes are a script.
    pub fn decode(input: &[u8]) -> Self {
        Script::run(input)
    }

    /// Returns the protocol of the connections.
    pub fn protocol(&self) -> Protocol {
        self.protocol
    }

    pub fn selection(&self) -> &Selection {
        &self.selection
    }

    /// Returns the number of frames.
    pub fn len(&self) -> usize {
        self.packets.len()
    }

    pub fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    pub fn frames(&self) -> impl Iterator<Item = Frame<'_>> + Clone {
        self.packets.iter().map(|packet| Frame {
            time_ns: packet.time_ns,
            link: LinkType::ETHERNET,
            original_len: packet.original_len,
            interface: 0,
            bytes: &packet.bytes,
        })
    }

    /// Dissects the capture. Returns the tally, the totals, and the number of frames that the memo handled.
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

/// Dissects the capture of a script with and without the memo. Returns the number of frames that the memo handled.
///
/// # Panics
///
/// If the results differ, or the ledger does not balance.
pub(crate) fn run(input: &[u8]) -> u64 {
    let capture = ScriptedCapture::decode(input);
    let (general, totals, none) = capture.dissect(Sheet::of_each(), false);
    // A tally that wants each operation learns other turns.
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
