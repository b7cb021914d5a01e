//! Finds inputs with the same segments at different times: captures from both ends of a connection, or with different clocks.
//!
//! The frames differ in link-layer addresses, hop limits and times, so their duplicates would look like retransmissions.
//! Neither tap is known to be right, so the tool reports them and repairs nothing.

use overhead_dissect::limits::COPY_NS;
use overhead_dissect::packet::{Packet, Segment, parse};
use overhead_model::Frame;
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

/// Maximum segments to compare. If there are more, the same sample is taken from each file.
const SEGMENTS: usize = 1 << 16;
const TAPS: usize = 64;
/// Bytes of payload to compare, in addition to the headers.
const PAYLOAD: usize = 64;
/// Twins share at least `SAME` segments (or all, if there are fewer), and at least one in `PART` of the smaller file's.
const SAME: u64 = 3;
const PART: u64 = 10;

#[derive(Debug, Default)]
pub struct TwinFinder {
    /// Files with their interfaces.
    taps: Vec<(usize, u32)>,
    /// The taps that have a segment, a bit each, and when the last one had it, by its digest.
    segments: HashMap<u64, (u64, u64)>,
    /// Digests with any of these bits set are skipped.
    mask: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TwinTaps {
    /// Which files, and which of their interfaces.
    pub taps: [(usize, u32); 2],
    /// Compared segments with payload that both taps have.
    pub same: u64,
    /// Segments compared from the tap with fewer.
    pub of: u64,
}

impl TwinFinder {
    /// Takes in a frame.
    pub fn frame(&mut self, file: usize, frame: &Frame<'_>) {
        let Packet::Tcp(segment) = parse(frame) else { return };
        let digest = digest(&segment);
        if segment.payload_len == 0 || digest & self.mask != 0 {
            return;
        }
        let Some(tap) = self.tap((file, frame.interface)) else { return };
        let (taps, seen_ns) = self.segments.entry(digest).or_insert((0, frame.time_ns));
        // The dissector counts it once.
        let is_copy = frame.time_ns.abs_diff(*seen_ns) <= COPY_NS
            && self
                .taps
                .iter()
                .enumerate()
                .any(|(other, (of, _))| *of == file && *taps & !(1 << tap) & 1 << other != 0);
        *taps |= u64::from(!is_copy) << tap;
        *seen_ns = frame.time_ns;
        if self.segments.len() > SEGMENTS {
            self.mask = self.mask << 1 | 1;
            let mask = self.mask;
            self.segments.retain(|digest, _| digest & mask == 0);
        }
    }

    fn tap(&mut self, tap: (usize, u32)) -> Option<usize> {
        let at = self.taps.iter().position(|known| *known == tap).unwrap_or(self.taps.len());
        if at == self.taps.len() && at < TAPS {
            self.taps.push(tap);
        }
        (at < TAPS).then_some(at)
    }

    /// Returns the taps that have the same segments, each pair once.
    pub fn pairs(&self) -> Vec<TwinTaps> {
        let mut counts: HashMap<u64, u64> = HashMap::new();
        self.segments.values().for_each(|(taps, _)| *counts.entry(*taps).or_default() += 1);
        let having = |bits: u64| counts.iter().filter(|(taps, _)| *taps & bits == bits).map(|(_, n)| n).sum::<u64>();
        let alone: Vec<u64> = (0..self.taps.len()).map(|tap| having(1 << tap)).collect();
        let mut pairs = Vec::new();
        for (a, &of_a) in alone.iter().enumerate().filter(|(_, n)| **n > 0) {
            for (b, &of_b) in alone.iter().enumerate().skip(a + 1).filter(|(_, n)| **n > 0) {
                let (same, of) = (having(1 << a | 1 << b), of_a.min(of_b));
                if same >= SAME.min(of) && same * PART >= of {
                    let mut taps = [self.taps[a], self.taps[b]];
                    taps.sort_unstable();
                    pairs.push(TwinTaps { taps, same, of });
                }
            }
        }
        pairs
    }
}

/// Returns a digest of the parts that stay the same along the path. A retransmission differs in its identification or its time
/// stamp option.
fn digest(segment: &Segment<'_>) -> u64 {
    let mut hasher = DefaultHasher::new();
    (segment.source, segment.destination, segment.seq, segment.ack, segment.ip_id).hash(&mut hasher);
    (segment.payload_len, segment.options).hash(&mut hasher);
    segment.payload.get(..PAYLOAD.min(segment.payload.len())).hash(&mut hasher);
    hasher.finish()
}
