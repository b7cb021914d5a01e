//! Segments on their way to another thread.

use crate::moment::Moment;
use crate::packet::Segment;
use std::ops::Range;

/// Segments that own their bytes, in order.
#[derive(Debug, Default)]
pub struct Batch {
    segments: Vec<Kept>,
    bytes: Vec<u8>,
}

#[derive(Debug)]
struct Kept {
    /// With nothing borrowed: its options and payload are in the batch.
    segment: Segment<'static>,
    at: Moment,
    options: Range<usize>,
    payload: Range<usize>,
}

impl Batch {
    /// Adds a segment at the end.
    pub fn push(&mut self, segment: &Segment<'_>, at: Moment) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(segment.options);
        let middle = self.bytes.len();
        self.bytes.extend_from_slice(segment.payload);
        let (options, payload) = (start..middle, middle..self.bytes.len());
        self.segments.push(Kept { segment: Segment { options: &[], payload: &[], ..*segment }, at, options, payload });
    }

    /// How many segments it holds.
    pub fn len(&self) -> usize {
        self.segments.len()
    }

    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    /// How many bytes of options and payload it holds.
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Every segment in order.
    pub fn for_each(&self, mut take: impl FnMut(&Segment<'_>, Moment)) {
        for Kept { segment, at, options, payload } in &self.segments {
            let bytes = |range: &Range<usize>| self.bytes.get(range.clone()).unwrap_or_default();
            take(&Segment { options: bytes(options), payload: bytes(payload), ..*segment }, *at);
        }
    }

    /// Empties it, and keeps its room.
    pub fn clear(&mut self) {
        self.segments.clear();
        self.bytes.clear();
    }
}
