//! Finds frames that several inputs share: one file under two names, or overlapping sets.
//!
//! A frame is identified by its time, length and bytes, never by its file name. The first input that contains a frame keeps it;
//! in the others it is a repeat. If one input has a frame several times, the others repeat it as often.

use overhead_model::Frame;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};

/// Maximum frames to remember, more than the distance between inputs that are merged by time.
const FRAMES: usize = 1 << 19;

/// Remembers frames while inputs overlap in time.
#[derive(Debug, Default)]
pub struct RepeatFinder {
    seen: HashMap<u64, FrameSighting>,
    /// Frames in order of their first sighting.
    order: VecDeque<u64>,
    latest_ns: u64,
    /// Repeats, by the file that repeats a frame and the file that had it first.
    counts: BTreeMap<(usize, usize), u64>,
}

/// The file that has a frame, and how often.
#[derive(Debug)]
struct FrameSighting {
    file: usize,
    times: u64,
    /// Other files with this frame, and how often each has repeated it.
    repeated: Vec<(usize, u64)>,
}

impl RepeatFinder {
    /// Returns whether another file has brought this frame before. `is_near` says whether another file that is yet to be
    /// read may hold it.
    #[inline]
    pub fn has(&mut self, file: usize, frame: &Frame<'_>, is_near: bool) -> bool {
        if !is_near && (self.seen.is_empty() || frame.time_ns > self.latest_ns) {
            return false;
        }
        self.look(file, frame)
    }

    fn look(&mut self, file: usize, frame: &Frame<'_>) -> bool {
        self.latest_ns = self.latest_ns.max(frame.time_ns);
        let digest = digest(frame);
        let Some(sighting) = self.seen.get_mut(&digest) else {
            self.remember(digest, file);
            return false;
        };
        if !sighting.is_repeated_by(file) {
            sighting.times += 1;
            return false;
        }
        *self.counts.entry((file, sighting.file)).or_default() += 1;
        true
    }

    fn remember(&mut self, digest: u64, file: usize) {
        if self.order.len() >= FRAMES
            && let Some(oldest) = self.order.pop_front()
        {
            self.seen.remove(&oldest);
        }
        self.order.push_back(digest);
        self.seen.insert(digest, FrameSighting { file, times: 1, repeated: Vec::new() });
    }

    /// Returns pairs of files (the one that repeats frames, and the one that had them first) with the number of frames.
    pub fn counts(&self) -> impl Iterator<Item = (usize, usize, u64)> {
        self.counts.iter().map(|(&(file, before), &frames)| (file, before, frames))
    }
}

impl FrameSighting {
    /// Counts a repeat by this file, unless it has repeated the frame as often already.
    fn is_repeated_by(&mut self, file: usize) -> bool {
        if file == self.file {
            return false;
        }
        match self.repeated.iter_mut().find(|(of, _)| *of == file) {
            Some((_, times)) if *times >= self.times => false,
            Some((_, times)) => {
                *times += 1;
                true
            }
            None => {
                self.repeated.push((file, 1));
                true
            }
        }
    }
}

fn digest(frame: &Frame<'_>) -> u64 {
    let mut hasher = DefaultHasher::new();
    (frame.time_ns, frame.link.0, frame.original_len, frame.bytes).hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use overhead_model::LinkType;

    fn frame(time_ns: u64, bytes: &[u8]) -> Frame<'_> {
        Frame { time_ns, link: LinkType::ETHERNET, original_len: bytes.len() as u32, interface: 0, bytes }
    }

    #[test]
    fn what_one_file_has_twice_is_no_repeat_until_another_has_it() {
        let mut repeats = RepeatFinder::default();
        let found: Vec<bool> =
            [0, 0, 1, 1, 1, 2].iter().map(|file| repeats.has(*file, &frame(7, b"same"), true)).collect();
        assert_eq!(found, [false, false, true, true, false, true]);
        assert_eq!(repeats.counts().collect::<Vec<_>>(), [(1, 0, 2), (2, 0, 1)]);
    }

    #[test]
    fn time_length_and_bytes_tell_frames_apart() {
        let mut repeats = RepeatFinder::default();
        assert!(!repeats.has(0, &frame(7, b"same"), true));
        assert!(!repeats.has(1, &frame(8, b"same"), true));
        assert!(!repeats.has(1, &frame(7, b"others"), true));
        assert!(!repeats.has(1, &Frame { original_len: 9, ..frame(7, b"same") }, true));
        assert!(repeats.has(1, &frame(7, b"same"), false));
    }
}
