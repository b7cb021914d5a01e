//! Frames on their way to the thread that has their connections.

use crate::queue::Batch;
use overhead_dissect::Moment;
use overhead_model::{Frame, LinkType};
use std::sync::Arc;

/// Frames that are handed over together.
const FRAMES: usize = 1 << 10;
/// Bytes of the buffers that they lie in, and of those that were copied: what is read meanwhile needs others.
const BYTES: usize = 1 << 20;

/// Frames in order. They stay where they were read; what lies nowhere else is copied.
#[derive(Debug, Default)]
pub struct Handed {
    entries: Vec<Entry>,
    buffers: Vec<Arc<Vec<u8>>>,
    copied: Vec<u8>,
    /// Of both together.
    bytes: usize,
}

/// A frame without its bytes.
#[derive(Clone, Copy, Debug)]
struct Entry {
    time_ns: u64,
    at: Moment,
    start: usize,
    len: u32,
    /// Which buffer they are in; none of them where they were copied.
    buffer: u32,
    original_len: u32,
    interface: u32,
    link: LinkType,
}

/// The place of what was copied.
const COPIED: u32 = u32::MAX;

impl Handed {
    /// Adds a frame at the end, which may lie in this buffer.
    #[inline]
    pub fn push(&mut self, frame: &Frame<'_>, at: Moment, buffer: &Arc<Vec<u8>>) {
        let Frame { time_ns, link, original_len, interface, bytes } = *frame;
        let start = (bytes.as_ptr() as usize).wrapping_sub(buffer.as_ptr() as usize);
        let (start, buffer) = if start < buffer.len() && bytes.len() <= buffer.len() - start {
            if self.buffers.last().is_none_or(|last| !Arc::ptr_eq(last, buffer)) {
                self.buffers.push(Arc::clone(buffer));
                self.bytes += buffer.len();
            }
            (start, self.buffers.len() as u32 - 1)
        } else {
            self.copied.extend_from_slice(bytes);
            self.bytes += bytes.len();
            (self.copied.len() - bytes.len(), COPIED)
        };
        let len = bytes.len() as u32;
        self.entries.push(Entry { time_ns, at, start, len, buffer, original_len, interface, link });
    }

    /// Returns whether it is time to hand it over.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.entries.len() >= FRAMES || self.bytes > BYTES
    }

    /// Hands every frame to `take`, in order.
    #[inline]
    pub fn for_each(&self, mut take: impl FnMut(&Frame<'_>, Moment)) {
        for &Entry { time_ns, at, start, len, buffer, original_len, interface, link } in &self.entries {
            let bytes = self.buffers.get(buffer as usize).map_or(&self.copied[..], |buffer| &buffer[..]);
            let bytes = bytes.get(start..start + len as usize).unwrap_or_default();
            take(&Frame { time_ns, link, original_len, interface, bytes }, at);
        }
    }
}

impl Batch for Handed {
    fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    fn clear(&mut self) {
        self.entries.clear();
        self.buffers.clear();
        self.copied.clear();
        self.bytes = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_come_out_as_they_went_in_wherever_they_lie() {
        let buffers = [Arc::new(vec![1_u8; 1_000]), Arc::new((0..=255).collect())];
        let elsewhere = [7_u8; 600];
        let pieces = [
            (&buffers[0][..10], 0),
            (&elsewhere[..], 0),
            (&buffers[1][200..], 1),
            (&buffers[1][..0], 1),
            // Of the buffer before.
            (&buffers[0][990..], 1),
            (&elsewhere[5..6], 1),
        ];
        let mut handed = Handed::default();
        for round in 0..2_u64 {
            for (number, (bytes, buffer)) in (0..).zip(pieces) {
                let frame = Frame { time_ns: round, link: LinkType::ETHERNET, original_len: 9, interface: 3, bytes };
                handed.push(&frame, Moment { number, clock_ns: round }, &buffers[buffer]);
            }
            let mut seen = Vec::new();
            handed.for_each(|frame, at| {
                assert_eq!((frame.time_ns, frame.original_len, frame.interface, at.clock_ns), (round, 9, 3, round));
                seen.push((at.number, frame.bytes.to_vec()));
            });
            assert_eq!(seen, (0..).zip(pieces.map(|(bytes, _)| bytes.to_vec())).collect::<Vec<_>>());
            assert!(!handed.is_full() && buffers.iter().all(|buffer| Arc::strong_count(buffer) == 2));
            handed.clear();
            assert!(handed.is_empty() && buffers.iter().all(|buffer| Arc::strong_count(buffer) == 1));
        }
    }

    #[test]
    fn it_is_full_of_frames_or_of_bytes() {
        let at = Moment { number: 1, clock_ns: 0 };
        let count = |buffer_len: usize, is_inside: bool| {
            let (mut handed, outside) = (Handed::default(), vec![0; buffer_len]);
            (1..10_000).find(|_| {
                let buffer = Arc::new(vec![0; buffer_len]);
                let bytes = if is_inside { &buffer } else { &outside };
                let frame = Frame { time_ns: 0, link: LinkType::ETHERNET, original_len: 1, interface: 0, bytes };
                handed.push(&frame, at, &buffer);
                handed.is_full()
            })
        };
        assert_eq!(
            [(1, false), (1, true), (300_000, false), (300_000, true), (1 << 21, true)]
                .map(|(len, is_inside)| count(len, is_inside)),
            [Some(1_024), Some(1_024), Some(4), Some(4), Some(1)]
        );
    }
}
