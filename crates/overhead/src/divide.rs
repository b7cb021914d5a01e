//! Dissection by one thread, or divided among several by connection.
//!
//! One thread reads the frames and hands them to all; each of these dissects the connections that are its own. They add up on
//! their own; at the end their sums are added, which comes to the same in any order. So the result does not depend on the
//! number of threads.

use crate::frames::FrameBatch;
use crate::queue::Inlet;
use anyhow::{Result, anyhow};
use overhead_dissect::{Dissector, KeyLog, Selection, Share, Totals};
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
        let shares = Share::among(threads.get(), selection);
        Self::Parts(Box::new(Parts::start(shares, dissector)))
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

/// Several threads, which all have the same frames.
pub struct Parts {
    inlet: Inlet<FrameBatch>,
    threads: Vec<JoinHandle<(Aggregate, Totals)>>,
    /// That of any thread.
    share: Option<Share>,
    is_over: bool,
}

impl Dissect for Parts {
    #[inline]
    fn frame(&mut self, frame: &Frame<'_>) {
        let filling = self.inlet.filling();
        filling.push(frame);
        if filling.is_full() {
            self.hand_over();
        }
    }

    fn catch_up(&mut self) {
        self.hand_over();
        self.inlet.catch_up();
        self.note_bounds();
    }

    /// As far as was seen when frames were handed over last.
    #[inline]
    fn is_over(&self) -> bool {
        self.is_over
    }
}

impl Parts {
    fn start(shares: Vec<Share>, dissector: impl Fn() -> Dissector<Aggregate>) -> Self {
        let mut inlet = Inlet::<FrameBatch>::new(BATCHES);
        let share = shares.first().cloned();
        let start = |share| {
            let (outlet, mut dissector) = (inlet.outlet(), dissector().with_share(share));
            std::thread::spawn(move || {
                outlet.drain(|| {}, |batch| batch.for_each(|frame| dissector.frame(frame)));
                dissector.finish()
            })
        };
        let threads = shares.into_iter().map(start).collect();
        Self { inlet, threads, share, is_over: false }
    }

    fn hand_over(&mut self) {
        self.inlet.hand_over();
        self.note_bounds();
    }

    fn note_bounds(&mut self) {
        self.is_over = self.share.as_ref().is_some_and(Share::is_over);
    }

    fn finish(self) -> Result<(Aggregate, Totals)> {
        let Self { mut inlet, threads, .. } = self;
        inlet.hand_over();
        drop(inlet);
        let (mut sum, mut totals) = (Aggregate::new(), Totals::default());
        for (number, thread) in threads.into_iter().enumerate() {
            let outcome = thread.join();
            let (aggregate, of_part) =
                outcome.map_err(|_| anyhow!("a dissecting thread failed: this is a bug, please report it"))?;
            sum.merge(aggregate);
            if number == 0 {
                totals = of_part;
            } else {
                totals.add(&of_part);
            }
        }
        Ok((sum, totals))
    }
}
