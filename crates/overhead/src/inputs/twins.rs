//! Inputs that hold the same segments at other times: captures at both ends of a connection, or with clocks that differ.
//!
//! Their frames are not alike (addresses of the link layer, hop limits and times differ), and what is in both would be taken
//! for retransmissions. Nobody can say which of them to believe, so they are named, not mended.

use overhead_dissect::packet::{Packet, Segment, parse};
use overhead_model::Frame;
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

/// Segments compared at most. Where there are more, a part of them is, the same in each file.
const SEGMENTS: usize = 1 << 16;
/// Files compared at most.
const FILES: usize = 64;
/// Bytes of payload that tell segments apart, next to their headers.
const PAYLOAD: usize = 64;
/// Segments that must be the same before files are called twins, and which part of the smaller file's, as a divisor.
const SAME: u64 = 3;
const PART: u64 = 10;

/// Compares the segments of several files.
#[derive(Debug, Default)]
pub struct Twins {
    /// The files that have a segment, a bit each, by its digest.
    files: HashMap<u64, u64>,
    /// Digests with any of these bits are left out.
    mask: u64,
}

/// Two files that hold the same segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair {
    /// Which files.
    pub files: [usize; 2],
    /// Segments with payload that both have, of those compared.
    pub same: u64,
    /// How many of the smaller file were compared.
    pub of: u64,
}

impl Twins {
    /// Takes in a frame.
    pub fn frame(&mut self, file: usize, frame: &Frame<'_>) {
        let Packet::Tcp(segment) = parse(frame) else { return };
        if segment.payload_len == 0 || file >= FILES {
            return;
        }
        let digest = digest(&segment);
        if digest & self.mask != 0 {
            return;
        }
        *self.files.entry(digest).or_default() |= 1 << file;
        if self.files.len() > SEGMENTS {
            self.mask = self.mask << 1 | 1;
            let mask = self.mask;
            self.files.retain(|digest, _| digest & mask == 0);
        }
    }

    /// Returns the files that hold the same segments, each pair once.
    pub fn pairs(&self) -> Vec<Pair> {
        let mut counts: HashMap<u64, u64> = HashMap::new();
        self.files.values().for_each(|files| *counts.entry(*files).or_default() += 1);
        let having = |bits: u64| counts.iter().filter(|(files, _)| *files & bits == bits).map(|(_, n)| n).sum::<u64>();
        let alone: Vec<u64> = (0..FILES).map(|file| having(1 << file)).collect();
        let mut pairs = Vec::new();
        for (a, &of_a) in alone.iter().enumerate().filter(|(_, n)| **n > 0) {
            for (b, &of_b) in alone.iter().enumerate().skip(a + 1).filter(|(_, n)| **n > 0) {
                let (same, of) = (having(1 << a | 1 << b), of_a.min(of_b));
                if same >= SAME.min(of) && same * PART >= of {
                    pairs.push(Pair { files: [a, b], same, of });
                }
            }
        }
        pairs
    }
}

/// Returns what stays the same on the way. A retransmission has another identification or another time stamp among its options.
fn digest(segment: &Segment<'_>) -> u64 {
    let mut hasher = DefaultHasher::new();
    (segment.source, segment.destination, segment.seq, segment.ack, segment.ip_id).hash(&mut hasher);
    (segment.payload_len, segment.options).hash(&mut hasher);
    segment.payload.get(..PAYLOAD.min(segment.payload.len())).hash(&mut hasher);
    hasher.finish()
}
