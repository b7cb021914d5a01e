//! Frames on their way from one thread to others.

use crate::queue::QueueBatch;
use overhead_model::{Frame, LinkType};

/// Bytes of frames that are handed over together, at least.
const BYTES: usize = 256 << 10;
/// Small frames that are handed over together.
const FRAMES: usize = 1 << 10;
/// Bytes of the longest frame that an interface has as a rule: 64 KiB of IP and what is around it.
const LONGEST: usize = (64 << 10) + 64;

/// Frames that own their bytes, in order.
#[derive(Debug, Default)]
pub struct FrameBatch {
    frames: Vec<FrameEntry>,
    bytes: Vec<u8>,
    /// Somebody asked how far the dissection is, once it is here.
    pub asked: bool,
}

/// A frame without its bytes.
#[derive(Clone, Copy, Debug)]
struct FrameEntry {
    time_ns: u64,
    /// End of its bytes; they begin at the end of the frame before.
    end: usize,
    original_len: u32,
    interface: u32,
    link: LinkType,
}

impl FrameBatch {
    /// Adds a copy of a frame at the end.
    #[inline]
    pub fn push(&mut self, frame: &Frame<'_>) {
        let Frame { time_ns, link, original_len, interface, bytes } = *frame;
        self.bytes.extend_from_slice(bytes);
        self.frames.push(FrameEntry { time_ns, end: self.bytes.len(), original_len, interface, link });
    }

    /// Returns whether it is time to hand it over.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.bytes.len() >= BYTES || self.frames.len() >= FRAMES
    }

    /// Hands every frame to `take`, in order.
    #[inline]
    pub fn for_each(&self, mut take: impl FnMut(&Frame<'_>)) {
        let mut start = 0;
        for &FrameEntry { time_ns, end, original_len, interface, link } in &self.frames {
            let bytes = self.bytes.get(start..end).unwrap_or_default();
            take(&Frame { time_ns, link, original_len, interface, bytes });
            start = end;
        }
    }
}

impl QueueBatch for FrameBatch {
    fn is_empty(&self) -> bool {
        self.frames.is_empty() && !self.asked
    }

    fn clear(&mut self) {
        self.frames.clear();
        self.bytes.clear();
        self.asked = false;
    }

    fn with_room() -> Self {
        let none = FrameEntry { time_ns: 0, end: 0, original_len: 0, interface: 0, link: LinkType::ETHERNET };
        let (frames, bytes) = (Vec::with_capacity(FRAMES), Vec::with_capacity(BYTES + LONGEST));
        let mut batch = Self { frames, bytes, asked: false };
        // Memory is there once it was written to.
        batch.frames.resize(FRAMES, none);
        batch.bytes.resize(BYTES + LONGEST, 0);
        batch.clear();
        batch
    }
}
