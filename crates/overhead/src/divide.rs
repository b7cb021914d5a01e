//! Dissection by one thread, or divided among several by connection.
//!
//! One thread reads frames down to their TCP segments, for copies and fragments concern all of them, and hands each segment
//! to the thread that has its connection. These add up on their own; at the end their sums are added, which comes to the
//! same in any order. So the result does not depend on the number of threads.

use anyhow::{Result, anyhow};
use overhead_dissect::{Batch, Connections, Dissector, Frames, KeyLog, Selection, Shared, Totals, route};
use overhead_model::{Frame, Tally};
use overhead_report::Aggregate;
use std::num::NonZero;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

/// Segments that are handed over together: so many that handing over costs nothing each, so few that they stay in the cache.
const SEGMENTS: usize = 1 << 10;
/// Bytes after which a batch is handed over with fewer.
const BYTES: usize = 256 << 10;
/// Batches of one thread: being filled, waiting, being dissected, and one to spare.
const BATCHES: usize = 4;

/// What takes frames in.
pub trait Dissect {
    /// Takes in one frame.
    fn frame(&mut self, frame: &Frame<'_>);

    /// Waits until all frames so far are dissected.
    fn catch_up(&mut self) {}

    /// Returns whether it is of no use to go on.
    fn is_over(&self) -> bool {
        false
    }
}

impl<T: Tally> Dissect for Dissector<T> {
    #[inline]
    fn frame(&mut self, frame: &Frame<'_>) {
        Self::frame(self, frame);
    }
}

/// Dissection for a run.
pub enum Division {
    /// All to this thread.
    Whole(Box<Dissector<Aggregate>>),
    /// To several.
    Parts(Box<Parts>),
}

impl Division {
    /// A division among so many threads, which take from a memo what repeats itself, or do not.
    pub fn new(threads: NonZero<usize>, selection: &Selection, keys: &Arc<KeyLog>, memo: bool) -> Self {
        if threads.get() == 1 {
            let dissector = Dissector::new(selection.clone(), Aggregate::new()).with_keys(Arc::clone(keys));
            return Self::Whole(Box::new(if memo { dissector } else { dissector.without_memo() }));
        }
        let shared = Shared::divided(threads.get());
        let parts = shared.into_iter().map(|shared| Part::start(selection, keys, shared, memo)).collect();
        Self::Parts(Box::new(Parts { frames: Frames::new(), parts }))
    }

    /// Returns whether a bound of the run may have been reached by several threads together. What is given up at a bound
    /// depends on the order of all frames: the whole is to be dissected again by one.
    pub fn is_over(&self) -> bool {
        matches!(self, Self::Parts(parts) if parts.parts.first().is_some_and(|part| part.shared.is_over()))
    }

    /// The sums over all frames.
    pub fn finish(self) -> Result<(Aggregate, Totals)> {
        match self {
            Self::Whole(dissector) => Ok(dissector.finish()),
            Self::Parts(parts) => parts.finish(),
        }
    }
}

impl Dissect for Division {
    #[inline]
    fn frame(&mut self, frame: &Frame<'_>) {
        match self {
            Self::Whole(dissector) => dissector.frame(frame),
            Self::Parts(parts) => parts.frame(frame),
        }
    }

    #[inline]
    fn is_over(&self) -> bool {
        Self::is_over(self)
    }

    fn catch_up(&mut self) {
        if let Self::Parts(parts) = self {
            parts.hand_over();
            parts.parts.iter_mut().for_each(Part::catch_up);
        }
    }
}

/// The threads, and what is to be done before them.
pub struct Parts {
    frames: Frames,
    parts: Vec<Part>,
}

impl Parts {
    fn frame(&mut self, frame: &Frame<'_>) {
        let Self { frames, parts } = self;
        let mut is_full = false;
        frames.frame(frame, |segment, at| {
            let part = ((u128::from(route(segment)) * parts.len() as u128) >> 64) as usize;
            if let Some(part) = parts.get_mut(part) {
                part.filling.push(segment, at);
                is_full = part.filling.len() >= SEGMENTS || part.filling.bytes() >= BYTES;
            }
        });
        if is_full {
            self.hand_over();
        }
    }

    /// Gives away what was filled, to all threads at once: one may wait for another to come as far as it is itself.
    fn hand_over(&mut self) {
        let last = self.frames.totals().frames;
        self.parts.iter_mut().for_each(|part| part.hand_over(last));
        self.parts.iter_mut().for_each(Part::make_ready);
    }

    fn finish(mut self) -> Result<(Aggregate, Totals)> {
        self.hand_over();
        let mut totals = self.frames.finish();
        let mut sum = Aggregate::new();
        // All of them have to learn that nothing follows before any of them is waited for.
        let threads: Vec<_> = self.parts.into_iter().map(|part| part.thread).collect();
        for thread in threads {
            let outcome = thread.join();
            let (aggregate, of_part) =
                outcome.map_err(|_| anyhow!("a dissecting thread failed: this is a bug, please report it"))?;
            sum.merge(aggregate);
            totals.add(&of_part);
        }
        Ok((sum, totals))
    }
}

/// One thread with its connections.
struct Part {
    filling: Batch,
    /// To the thread: segments, and the number of the last frame that any of them came of, here or elsewhere.
    full: Sender<(Batch, u64)>,
    empty: Receiver<Batch>,
    /// Batches that can be had without waiting for the thread.
    spare: Vec<Batch>,
    thread: JoinHandle<(Aggregate, Totals)>,
    /// What all threads share.
    shared: Shared,
}

/// A thread that ends, by failing perhaps, is waited for no longer.
struct End(Shared);

impl Drop for End {
    fn drop(&mut self) {
        self.0.end();
    }
}

impl Part {
    fn start(selection: &Selection, keys: &Arc<KeyLog>, shared: Shared, memo: bool) -> Self {
        let connections = Connections::new(selection.clone(), Aggregate::new());
        let connections = connections.with_keys(Arc::clone(keys)).with_shared(shared.clone());
        let mut connections = if memo { connections } else { connections.without_memo() };
        let (full, to_dissect) = channel::<(Batch, u64)>();
        let (done, empty) = channel();
        let end = End(shared.clone());
        let thread = std::thread::spawn(move || {
            let _end = end;
            for (mut batch, last) in to_dissect {
                batch.for_each(|segment, at| connections.segment(segment, at));
                connections.passed(last);
                batch.clear();
                // Nobody waits for it at the end.
                let _ = done.send(batch);
            }
            connections.finish()
        });
        let spare = (1..BATCHES).map(|_| Batch::default()).collect();
        Self { filling: Batch::default(), full, empty, spare, thread, shared }
    }

    /// Gives away what was filled. A thread that failed takes nothing: see `finish`.
    fn hand_over(&mut self, last: u64) {
        let _ = self.full.send((std::mem::take(&mut self.filling), last));
    }

    /// Gets room for more, and waits for it where the thread is behind.
    fn make_ready(&mut self) {
        self.filling = self.spare.pop().or_else(|| self.empty.recv().ok()).unwrap_or_default();
    }

    /// Waits until all that was given away is dissected.
    fn catch_up(&mut self) {
        while self.spare.len() + 1 < BATCHES {
            let Ok(batch) = self.empty.recv() else { return };
            self.spare.push(batch);
        }
    }
}
