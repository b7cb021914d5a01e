//! Finds inputs with the same segments at different times: captures from both ends of a connection, or with different clocks.
//!
//! The frames differ in link-layer addresses, hop limits and times, so their duplicates would look like retransmissions.
//! Neither file is known to be right, so the tool reports them and repairs nothing.

use overhead_dissect::packet::{Packet, Segment, parse};
use overhead_model::Frame;
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

/// Maximum segments to compare. If there are more, the same sample is taken from each file.
const SEGMENTS: usize = 1 << 16;
const FILES: usize = 64;
/// Bytes of payload to compare, in addition to the headers.
const PAYLOAD: usize = 64;
/// Twins share at least `SAME` segments (or all, if there are fewer), and at least one in `PART` of the smaller file's.
const SAME: u64 = 3;
const PART: u64 = 10;

#[derive(Debug, Default)]
pub struct TwinFinder {
    /// The files that have a segment, a bit each, by its digest.
    files: HashMap<u64, u64>,
    /// Digests with any of these bits set are skipped.
    mask: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TwinFiles {
    /// Which files.
    pub files: [usize; 2],
    /// Compared segments with payload that both files contain.
    pub same: u64,
    /// Segments compared from the smaller file.
    pub of: u64,
}

impl TwinFinder {
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
    pub fn pairs(&self) -> Vec<TwinFiles> {
        let mut counts: HashMap<u64, u64> = HashMap::new();
        self.files.values().for_each(|files| *counts.entry(*files).or_default() += 1);
        let having = |bits: u64| counts.iter().filter(|(files, _)| *files & bits == bits).map(|(_, n)| n).sum::<u64>();
        let alone: Vec<u64> = (0..FILES).map(|file| having(1 << file)).collect();
        let mut pairs = Vec::new();
        for (a, &of_a) in alone.iter().enumerate().filter(|(_, n)| **n > 0) {
            for (b, &of_b) in alone.iter().enumerate().skip(a + 1).filter(|(_, n)| **n > 0) {
                let (same, of) = (having(1 << a | 1 << b), of_a.min(of_b));
                if same >= SAME.min(of) && same * PART >= of {
                    pairs.push(TwinFiles { files: [a, b], same, of });
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
