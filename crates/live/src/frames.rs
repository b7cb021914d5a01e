//! Batches of frames, passed from one thread to another.

use super::queue::QueueBatch;
use overhead_model::{Frame, LinkType};

/// Minimum bytes of frames in a full batch.
const BYTES: usize = 256 << 10;
/// Frames in a full batch of small frames.
const FRAMES: usize = 1 << 10;
/// Bytes of the longest usual frame: 64 KiB of IP, and the headers around it.
const LONGEST: usize = (64 << 10) + 64;

/// Frames that own their bytes, in order.
#[derive(Debug, Default)]
pub struct FrameBatch {
    frames: Vec<FrameEntry>,
    bytes: Vec<u8>,
    /// Whether progress was requested; answered once the batch is dissected.
    pub asked: bool,
}

/// A frame without its bytes.
#[derive(Clone, Copy, Debug)]
struct FrameEntry {
    time_ns: u64,
    /// End of its bytes, which begin where those of the previous frame end.
    end: usize,
    original_len: u32,
    interface: u32,
    link: LinkType,
}

impl FrameBatch {
    /// Appends a copy of a frame.
    #[inline]
    pub fn push(&mut self, frame: &Frame<'_>) {
        let Frame { time_ns, link, original_len, interface, bytes } = *frame;
        self.bytes.extend_from_slice(bytes);
        self.frames.push(FrameEntry { time_ns, end: self.bytes.len(), original_len, interface, link });
    }

    /// Returns whether the batch should be handed over.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.bytes.len() >= BYTES || self.frames.len() >= FRAMES
    }

    /// Passes each frame to `take`, in order.
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
        // Writes to the memory, so that the system allocates it now.
        batch.frames.resize(FRAMES, none);
        batch.bytes.resize(BYTES + LONGEST, 0);
        batch.clear();
        batch
    }
}
