//! Dissection by one thread, or divided among several by connection.
//!
//! One thread reads the frames and hands each to the thread that has its connection. They add up on
//! their own; at the end their sums are added, which comes to the same in any order. So the result does not depend on the
//! number of threads.

mod handed;

use crate::queue::{Inlet, queue};
use anyhow::{Result, anyhow};
use handed::Handed;
use overhead_dissect::{Dissector, KeyLog, Part, Recipient, Routes, Selection, Splitter, Totals};
use overhead_model::{Frame, Tally};
use overhead_report::Aggregate;
use std::num::NonZero;
use std::sync::Arc;
use std::thread::JoinHandle;

/// Batches of frames: being filled, being dissected, and some between, for no two threads are equally fast all the time.
const BATCHES: usize = 8;

/// What takes frames in.
pub trait Dissect {
    /// Takes in one frame.
    fn frame(&mut self, frame: &Frame<'_>);

    /// The next frames lie in this memory, which stays as it is for as long as somebody has it.
    fn buffer(&mut self, _: &Arc<Vec<u8>>) {}

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
    /// Returns a division among so many threads, each of which has a tally like this one, and takes from a memo what repeats
    /// itself, or does not.
    pub fn new(
        threads: NonZero<usize>,
        selection: &Selection,
        keys: &Arc<KeyLog>,
        (tally, memo): (Aggregate, bool),
    ) -> Self {
        let dissector = || {
            let dissector = Dissector::new(selection.clone(), tally.clone()).with_keys(Arc::clone(keys));
            if memo { dissector } else { dissector.without_memo() }
        };
        if threads.get() == 1 {
            return Self::Whole(Box::new(dissector()));
        }
        let routes = Routes::among(threads, selection);
        let parts = (0..threads.get()).map(|number| dissector().into_part(routes.clone(), number));
        Self::Parts(Box::new(Parts::start(Splitter::new(selection, routes.clone()), routes.clone(), parts)))
    }

    /// The sums over all frames; `None` where several threads may have reached a bound of the run together. What is given up at
    /// a bound depends on the order of all frames: the whole is to be dissected again by one.
    pub fn finish(self) -> Result<Option<(Aggregate, Totals)>> {
        match self {
            Self::Whole(dissector) => Ok(Some(dissector.finish())),
            Self::Parts(mut parts) => {
                parts.catch_up();
                if parts.is_over() { Ok(None) } else { parts.finish().map(Some) }
            }
        }
    }
}

/// A thread that dissects a part of the connections, and the way to it.
struct Worker {
    inlet: Inlet<Handed>,
    thread: JoinHandle<(Aggregate, Totals)>,
}

/// Several threads, each with its part. This one reads, counts, and says whose each frame is.
pub struct Parts {
    splitter: Splitter,
    workers: Vec<Worker>,
    /// What the next frames lie in.
    buffer: Arc<Vec<u8>>,
    routes: Routes,
    is_over: bool,
}

impl Dissect for Parts {
    #[inline]
    fn frame(&mut self, frame: &Frame<'_>) {
        let Self { splitter, workers, buffer, routes, is_over } = self;
        let mut push = |worker: &mut Worker, at| {
            let filling = worker.inlet.filling();
            filling.push(frame, at, buffer);
            if filling.is_full() {
                worker.inlet.hand_over();
                *is_over = routes.is_over();
            }
        };
        splitter.frame(frame, |recipient, at| match recipient {
            Recipient::Part(number) => {
                if let Some(worker) = workers.get_mut(number) {
                    push(worker, at);
                }
            }
            Recipient::All => workers.iter_mut().for_each(|worker| push(worker, at)),
        });
    }

    fn buffer(&mut self, buffer: &Arc<Vec<u8>>) {
        self.buffer = Arc::clone(buffer);
    }

    fn catch_up(&mut self) {
        // All have something to do before any of them is waited for.
        self.workers.iter_mut().for_each(|worker| worker.inlet.hand_over());
        self.workers.iter_mut().for_each(|worker| worker.inlet.catch_up());
        self.is_over = self.routes.is_over();
    }

    /// As far as was seen when frames were handed over last.
    #[inline]
    fn is_over(&self) -> bool {
        self.is_over
    }
}

impl Parts {
    fn start(splitter: Splitter, routes: Routes, parts: impl Iterator<Item = Part<Aggregate>>) -> Self {
        let start = |mut part: Part<Aggregate>| {
            let (inlet, outlet) = queue::<Handed>(BATCHES);
            let thread = std::thread::spawn(move || {
                outlet.drain(|| {}, |handed| handed.for_each(|frame, at| part.frame(frame, at)));
                part.finish()
            });
            Worker { inlet, thread }
        };
        Self { splitter, workers: parts.map(start).collect(), buffer: Arc::default(), routes, is_over: false }
    }

    fn finish(self) -> Result<(Aggregate, Totals)> {
        let (mut sum, mut totals) = (Aggregate::new(), self.splitter.finish());
        let mut threads = Vec::new();
        for Worker { mut inlet, thread } in self.workers {
            inlet.hand_over();
            threads.push(thread);
        }
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
