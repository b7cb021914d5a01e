//! Queues between two threads: one fills batches, the other reads them. The number of batches is limited, and they are
//! reused instead of allocated again. The writer waits if the reader falls behind.

use overhead_capture::live::IdlePriority;
use overhead_model::{Frame, LinkType};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvError, SyncSender, TryRecvError, sync_channel};

/// Maximum number of batches of frames: 32 MB, half a second of a busy loopback. If half of them are in use, the
/// dissecting thread hurries. That half is allocated at the start.
const MOST: usize = 128;

/// Unread batches behind which one that is not full waits.
const FEW: usize = 4;

/// A batch, handed over at once.
pub trait QueueBatch: Default + Send + 'static {
    /// Returns whether there is nothing in it.
    fn is_empty(&self) -> bool;

    /// Empties it but keeps its memory.
    fn clear(&mut self);

    /// Returns an empty batch that already has the memory of a full one.
    fn with_room() -> Self {
        Self::default()
    }
}

/// Returns a queue of frames, whose reader runs in the background as long as it keeps up.
pub fn frame_queue() -> (QueueInlet<FrameBatch>, QueueOutlet<FrameBatch>) {
    let (inlet, outlet) = queue(MOST);
    (inlet.keeping(MOST / 2), outlet)
}

/// Returns a queue of at most `most` batches, including the one being filled.
fn queue<B: QueueBatch>(most: usize) -> (QueueInlet<B>, QueueOutlet<B>) {
    // Sending never blocks, because there are no more batches than that.
    let ((full, filled), (read, free), background) = (sync_channel(most), sync_channel(most), IdlePriority::default());
    let (filling, spare, outlet) =
        (B::default(), Vec::new(), QueueOutlet { filled, read, background: background.clone() });
    (
        QueueInlet {
            filling,
            full,
            free,
            out: 0,
            spare,
            made: 1,
            most,
            kept: most,
            background,
            is_behind: Arc::default(),
        },
        outlet,
    )
}

/// The end where batches are filled.
pub struct QueueInlet<B: QueueBatch> {
    filling: B,
    full: SyncSender<B>,
    free: Receiver<B>,
    /// Batches handed over and not yet returned.
    out: usize,
    /// Batches already read, the most recent on top because they are still in the caches.
    spare: Vec<B>,
    made: usize,
    most: usize,
    /// Batches to keep after reading.
    kept: usize,
    /// The thread of the other end.
    background: IdlePriority,
    /// Whether it has fallen behind by half of the batches.
    is_behind: Arc<AtomicBool>,
}

impl<B: QueueBatch> QueueInlet<B> {
    /// Allocates `kept` batches now, including the one being filled. Batches beyond these are freed after reading, so
    /// that a temporary delay does not keep memory.
    #[must_use]
    fn keeping(mut self, kept: usize) -> Self {
        self.spare = (self.made..kept).map(|_| B::with_room()).collect();
        self.filling = B::with_room();
        (self.made, self.kept) = (kept, kept);
        self
    }

    /// Hands over the current batch, unless it is empty. Waits if the outlet is too far behind.
    pub fn hand_over(&mut self) {
        if self.filling.is_empty() {
            return;
        }
        let next = self.next();
        // If the outlet is gone, its thread has failed, and joining it shows the error.
        if self.full.send(std::mem::replace(&mut self.filling, next)).is_ok() {
            self.out += 1;
        } else {
            self.made -= 1;
        }
        self.is_behind.store(self.is_half_full(), Ordering::Relaxed);
        if self.is_half_full() {
            self.background.hurry();
        }
    }

    /// Returns a flag that is set while at least half of the batches are unread.
    pub fn is_behind(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.is_behind)
    }

    /// Hands over the current batch if the outlet will soon need it. A batch that waits behind others fills up instead, so
    /// that the number of unread batches shows the bytes that wait.
    pub fn offer(&mut self) {
        while let Ok(batch) = self.free.try_recv() {
            self.take_back(batch);
        }
        if self.out < FEW {
            self.hand_over();
        }
    }

    /// Returns whether at least half of the batches were still unread after the last hand-over.
    fn is_half_full(&self) -> bool {
        self.out >= self.most / 2
    }

    fn next(&mut self) -> B {
        while let Ok(batch) = self.free.try_recv() {
            self.take_back(batch);
        }
        loop {
            if let Some(batch) = self.spare.pop() {
                return batch;
            }
            if self.made < self.most || !self.wait() {
                self.made += 1;
                return B::default();
            }
        }
    }

    /// Waits for a batch to come back; returns false if none will.
    fn wait(&mut self) -> bool {
        let batch = self.free.recv();
        let is_there = batch.is_ok();
        match batch {
            Ok(batch) => self.take_back(batch),
            // The outlet's batches are gone with its thread.
            Err(RecvError) => self.made -= std::mem::take(&mut self.out),
        }
        is_there
    }

    fn take_back(&mut self, mut batch: B) {
        self.out -= 1;
        // Frees memory from a temporary backlog: a capture of days keeps only what it always needs.
        if self.made > self.kept {
            self.made -= 1;
        } else {
            batch.clear();
            self.spare.push(batch);
        }
    }
}

impl QueueInlet<FrameBatch> {
    /// Adds a frame. Blocks if the other end is too far behind.
    #[inline]
    pub fn push(&mut self, frame: &Frame<'_>) {
        self.filling.push(frame);
        if self.filling.is_full() {
            self.hand_over();
        }
    }

    /// Asks the other end for the values of all frames so far.
    pub fn ask(&mut self) {
        self.background.hurry();
        self.filling.asked = true;
        self.hand_over();
    }
}

impl<B: QueueBatch> Drop for QueueInlet<B> {
    fn drop(&mut self) {
        self.hand_over();
        self.background.hurry();
    }
}

/// The end where batches are read.
pub struct QueueOutlet<B> {
    filled: Receiver<B>,
    read: SyncSender<B>,
    background: IdlePriority,
}

impl<B: QueueBatch> QueueOutlet<B> {
    /// Passes each batch to `take` until the inlet is dropped.
    fn drain(self, mut take: impl FnMut(&B)) {
        while let Ok(batch) = self.next() {
            take(&batch);
            // The send fails if the inlet is gone; that is normal for the last batches.
            let _ = self.read.send(batch);
        }
    }

    fn next(&self) -> Result<B, RecvError> {
        match self.filled.try_recv() {
            Ok(batch) => Ok(batch),
            Err(TryRecvError::Disconnected) => Err(RecvError),
            Err(TryRecvError::Empty) => {
                self.background.relax();
                self.filled.recv()
            }
        }
    }
}

impl QueueOutlet<FrameBatch> {
    /// Passes each frame to `take` until the other end is dropped. Calls `pause` after each batch, with whether values
    /// were requested there. `in_background` states that nobody waits for the values.
    pub fn drain_frames<T>(
        self,
        in_background: bool,
        state: &mut T,
        take: impl Fn(&mut T, &Frame<'_>),
        pause: impl Fn(&mut T, bool),
    ) {
        if in_background {
            self.background.enter();
        }
        self.drain(|batch| {
            batch.for_each(|frame| take(state, frame));
            pause(state, batch.asked);
        });
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;
    use overhead_model::LinkType;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc::channel;

    static MADE: AtomicUsize = AtomicUsize::new(0);

    impl<B: QueueBatch> QueueInlet<B> {
        /// Waits until the outlet has read everything handed over.
        fn catch_up(&mut self) {
            while self.out > 0 && self.wait() {}
        }
    }

    struct Numbers(Vec<u32>);

    impl Default for Numbers {
        fn default() -> Self {
            MADE.fetch_add(1, Ordering::Relaxed);
            Self(Vec::new())
        }
    }

    impl QueueBatch for Numbers {
        fn is_empty(&self) -> bool {
            self.0.is_empty()
        }

        fn clear(&mut self) {
            self.0.clear();
        }
    }

    #[derive(Default)]
    struct Flag(bool);

    impl QueueBatch for Flag {
        fn is_empty(&self) -> bool {
            !self.0
        }

        fn clear(&mut self) {
            self.0 = false;
        }
    }

    fn fill(inlet: &mut QueueInlet<Flag>) -> bool {
        inlet.filling.0 = true;
        inlet.hand_over();
        inlet.is_half_full()
    }

    #[test]
    fn all_batches_are_read_in_order_and_used_again() {
        let (mut inlet, outlet) = queue::<Numbers>(3);
        let thread = std::thread::spawn(move || {
            let mut seen = Vec::<u32>::new();
            outlet.drain(|batch| seen.extend(&batch.0));
            seen
        });
        for number in 0..10_000 {
            inlet.filling.0.push(number);
            if number % 7 == 0 {
                inlet.hand_over();
            }
            if number % 1_000 == 0 {
                inlet.catch_up();
            }
        }
        inlet.hand_over();
        drop(inlet);
        assert_eq!(thread.join().unwrap(), (0..10_000).collect::<Vec<_>>());
        assert!(MADE.load(Ordering::Relaxed) <= 3, "and none for want of one");
    }

    #[test]
    fn what_is_not_kept_is_freed_and_made_anew() {
        let (inlet, outlet) = queue::<Flag>(8);
        let mut inlet = inlet.keeping(3);
        assert_eq!((inlet.made, inlet.spare.len()), (3, 2), "from the beginning");
        (0..7).for_each(|_| {
            fill(&mut inlet);
        });
        assert_eq!(inlet.made, 8, "nobody reads");
        let thread = std::thread::spawn(move || outlet.drain(|_| {}));
        inlet.catch_up();
        assert_eq!((inlet.made, inlet.spare.len()), (3, 2));
        for _ in 0..20 {
            (0..7).for_each(|_| {
                fill(&mut inlet);
            });
            inlet.catch_up();
        }
        assert_eq!((inlet.made, inlet.spare.len()), (3, 2));
        drop(inlet);
        thread.join().unwrap();
    }

    #[test]
    fn it_is_half_full_where_the_outlet_falls_behind_and_only_then() {
        let (mut inlet, outlet) = queue::<Flag>(8);
        assert_eq!([(); 7].map(|()| fill(&mut inlet)), [false, false, false, true, true, true, true]);
        let thread = std::thread::spawn(move || outlet.drain(|_| {}));
        inlet.catch_up();
        assert!(!fill(&mut inlet));
        drop(inlet);
        thread.join().unwrap();
    }

    #[test]
    fn who_catches_up_has_waited_until_all_was_read() {
        let (mut inlet, outlet) = queue::<Flag>(8);
        let (seen, seeing) = sync_channel(100);
        let thread = std::thread::spawn(move || outlet.drain(|_| seen.send(()).unwrap()));
        for round in 1..=20 {
            for _ in 0..5 {
                fill(&mut inlet);
            }
            inlet.catch_up();
            assert_eq!(seeing.try_iter().count(), 5, "round {round}");
        }
        drop(inlet);
        thread.join().unwrap();
    }

    #[test]
    fn an_outlet_that_fails_holds_nobody_up() {
        let (mut inlet, outlet) = queue::<Flag>(2);
        let thread = std::thread::spawn(move || outlet.drain(|_| std::panic::resume_unwind(Box::new(()))));
        for _ in 0..100 {
            fill(&mut inlet);
        }
        inlet.catch_up();
        assert!(inlet.made <= 2, "what is gone is not counted");
        drop(inlet);
        assert!(thread.join().is_err());
    }

    #[test]
    fn without_an_outlet_nobody_waits() {
        let (mut inlet, outlet) = queue::<Flag>(2);
        drop(outlet);
        for _ in 0..10 {
            fill(&mut inlet);
        }
        inlet.catch_up();
    }

    #[test]
    fn frames_come_out_as_they_went_in() {
        let (mut inlet, outlet) = frame_queue();
        let thread = std::thread::spawn(move || {
            let mut out = Vec::new();
            outlet.drain_frames(
                true,
                &mut out,
                |out, frame| out.push((frame.time_ns, frame.bytes.to_vec())),
                |_, _| {},
            );
            out
        });
        let frames: Vec<(u64, Vec<u8>)> = (0..300_000_u64).map(|n| (n, vec![n as u8; n as usize % 300])).collect();
        for (time_ns, bytes) in &frames {
            let (original_len, link) = (bytes.len() as u32, LinkType::ETHERNET);
            inlet.push(&Frame { time_ns: *time_ns, link, original_len, interface: 0, bytes });
        }
        drop(inlet);
        assert_eq!(thread.join().unwrap(), frames);
    }

    #[test]
    fn a_question_is_answered_once_all_frames_before_it_are_taken() {
        let (mut inlet, outlet) = frame_queue();
        let (answers, answered) = channel();
        let thread = std::thread::spawn(move || {
            let answer = |seen: &mut u64, asked: bool| {
                if asked {
                    answers.send(*seen).unwrap();
                }
            };
            outlet.drain_frames(true, &mut 0_u64, |seen, _| *seen += 1, answer);
        });
        let frame = Frame { time_ns: 0, link: LinkType::ETHERNET, original_len: 1, interface: 0, bytes: &[0] };
        for (frames, expected) in [(0, 0), (3, 3), (0, 3)] {
            (0..frames).for_each(|_| inlet.push(&frame));
            inlet.ask();
            assert_eq!(answered.recv(), Ok(expected), "without waiting for a full batch");
        }
        drop(inlet);
        thread.join().unwrap();
    }
}
