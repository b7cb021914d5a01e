//! Payload of one direction that arrived out of sequence.

use crate::ledger::Arrival;
use std::collections::BTreeMap;
use std::ops::Range;

/// Bytes that arrived before the bytes they follow.
#[derive(Debug)]
pub struct EarlySegment {
    pub frame: Arrival,
    /// How much of the other stream its sender had received.
    pub received: u64,
    /// Captured bytes; the rest, up to `len`, was snapped.
    pub bytes: Vec<u8>,
    pub len: u64,
}

/// Payload that arrived out of sequence.
#[derive(Debug, Default)]
pub struct OutOfOrder {
    pub early: BTreeMap<u64, EarlySegment>,
    pub early_bytes: u64,
    /// Abandoned holes, by start, with their ends.
    pub holes: BTreeMap<u64, u64>,
    pub hole_bytes: u64,
    /// A segment further away than any window allows.
    pub astray: Option<AstraySegment>,
}

/// A segment that may be the first one after a pause in the capture.
#[derive(Debug)]
pub struct AstraySegment {
    pub seq: u32,
    /// Its acknowledgment number.
    pub ack: u32,
    pub segment: EarlySegment,
}

impl AstraySegment {
    pub fn end(&self) -> u32 {
        self.seq.wrapping_add(self.segment.len as u32)
    }
}

impl OutOfOrder {
    /// Returns the parts of `range` inside holes, lowest first.
    pub fn holes_in(&self, range: &Range<u64>) -> impl Iterator<Item = Range<u64>> {
        let (from, to) = (range.start, range.end);
        let first = self.holes.range(..=from).next_back().map_or(from, |(&start, _)| start);
        let parts = self.holes.range(first..to.max(first)).map(move |(&start, &end)| start.max(from)..end.min(to));
        parts.filter(|part| part.start < part.end)
    }

    pub fn held(&self) -> usize {
        size_of::<Self>()
            + usize::try_from(self.early_bytes).unwrap_or(usize::MAX)
            + 2 * self.early.len() * size_of::<EarlySegment>()
            + 2 * self.holes.len() * size_of::<Range<u64>>()
    }
}

/// Stands in for an absent [`OutOfOrder`].
pub static ORDER: OutOfOrder =
    OutOfOrder { early: BTreeMap::new(), early_bytes: 0, holes: BTreeMap::new(), hole_bytes: 0, astray: None };
