//! The way from one thread to others: batches that are filled at one end and read at the others, by each of them. They are
//! bounded in number and are used again, so that nothing is allocated once there are enough, and who fills waits where
//! others are behind.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvError, SyncSender, TryRecvError, sync_channel};

/// What is handed over at once.
pub trait Batch: Default + Send + Sync + 'static {
    /// Returns whether there is nothing in it.
    fn is_empty(&self) -> bool;

    /// Empties it and keeps its room.
    fn clear(&mut self);

    /// Returns an empty one that already has the memory that it takes when it is full.
    #[cfg(any(feature = "live", test))]
    fn with_room() -> Self {
        Self::default()
    }
}

/// The end where batches are filled.
pub struct Inlet<B> {
    filling: B,
    full: Vec<SyncSender<Arc<B>>>,
    /// Those that were handed over, in order; nobody else has them once they were read.
    out: VecDeque<Arc<B>>,
    /// Those that were read: the last ones on top, for they are in the caches.
    spare: Vec<B>,
    freed: Receiver<()>,
    done: SyncSender<()>,
    /// How many there are.
    made: usize,
    most: usize,
    /// How many are kept once they were read.
    kept: usize,
}

impl<B: Batch> Inlet<B> {
    /// Makes a queue that holds so many batches at most, the one that is being filled included.
    pub fn new(most: usize) -> Self {
        // One word that a batch was done with is as good as several.
        let (done, freed) = sync_channel(1);
        Self {
            filling: B::default(),
            full: Vec::new(),
            out: VecDeque::new(),
            spare: Vec::new(),
            freed,
            done,
            made: 1,
            most,
            kept: most,
        }
    }

    /// Makes so many batches at once, the one that is being filled included, and keeps them; those beyond are freed once they were read. So
    /// memory does not grow with the longest delay so far, unless that takes more than these.
    #[cfg(any(feature = "live", test))]
    #[must_use]
    pub fn keeping(self, kept: usize) -> Self {
        let spare = (self.made..kept).map(|_| B::with_room()).collect();
        Self { filling: B::with_room(), spare, made: kept, kept, ..self }
    }

    /// Adds an outlet, for what is handed over from now on.
    pub fn outlet(&mut self) -> Outlet<B> {
        let (full, filled) = sync_channel(self.most);
        self.full.push(full);
        Outlet { filled, done: Done(self.done.clone()) }
    }

    /// Returns the batch that is being filled.
    #[inline]
    pub fn filling(&mut self) -> &mut B {
        &mut self.filling
    }

    /// Lets the outlets have what was put in so far, if anything. Waits where one of them is too far behind.
    pub fn hand_over(&mut self) {
        if self.filling.is_empty() {
            return;
        }
        let next = self.next();
        let batch = Arc::new(std::mem::replace(&mut self.filling, next));
        for outlet in &self.full {
            // Where nobody is there any more, its thread has failed, which joining it shows.
            let _ = outlet.send(Arc::clone(&batch));
        }
        self.out.push_back(batch);
    }

    /// Waits until all that was handed over was read by all.
    pub fn catch_up(&mut self) {
        while self.out.iter_mut().any(|batch| Arc::get_mut(batch).is_none()) && self.freed.recv().is_ok() {}
    }

    /// Returns whether the last hand-over left half of the batches or more to be read.
    #[cfg(any(feature = "live", test))]
    pub fn is_half_full(&self) -> bool {
        self.out.len() >= self.most / 2
    }

    fn next(&mut self) -> B {
        loop {
            while let Some(batch) = self.free() {
                // What a moment of falling behind took is given back: a capture of days keeps what it needs all the time.
                if self.made > self.kept {
                    self.made -= 1;
                } else {
                    self.spare.push(batch);
                }
            }
            if let Some(batch) = self.spare.pop() {
                return batch;
            }
            if self.made < self.most {
                self.made += 1;
                return B::default();
            }
            let _ = self.freed.recv();
        }
    }

    /// Returns the batch that was handed over first, where all have read it.
    fn free(&mut self) -> Option<B> {
        Arc::get_mut(self.out.front_mut()?)?;
        let mut batch = Arc::into_inner(self.out.pop_front()?)?;
        batch.clear();
        Some(batch)
    }
}

/// An end where batches are read.
pub struct Outlet<B> {
    // Before `done`: what waits here is let go before that is said.
    filled: Receiver<Arc<B>>,
    done: Done,
}

/// Says that a batch was done with; once more when it goes away, be it by a panic.
struct Done(SyncSender<()>);

impl Done {
    fn say(&self) {
        let _ = self.0.try_send(());
    }
}

impl Drop for Done {
    fn drop(&mut self) {
        self.say();
    }
}

impl<B: Batch> Outlet<B> {
    /// Hands every batch to `take`, until the inlet is dropped. Calls `relax` before it waits for one.
    pub fn drain(self, mut relax: impl FnMut(), mut take: impl FnMut(&B)) {
        while let Ok(batch) = self.next(&mut relax) {
            take(&batch);
            drop(batch);
            self.done.say();
        }
    }

    fn next(&self, relax: &mut impl FnMut()) -> Result<Arc<B>, RecvError> {
        match self.filled.try_recv() {
            Ok(batch) => Ok(batch),
            Err(TryRecvError::Disconnected) => Err(RecvError),
            Err(TryRecvError::Empty) => {
                relax();
                self.filled.recv()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// How many were ever made.
    static MADE: AtomicUsize = AtomicUsize::new(0);

    struct Numbers(Vec<u32>);

    impl Default for Numbers {
        fn default() -> Self {
            MADE.fetch_add(1, Ordering::Relaxed);
            Self(Vec::new())
        }
    }

    impl Batch for Numbers {
        fn is_empty(&self) -> bool {
            self.0.is_empty()
        }

        fn clear(&mut self) {
            self.0.clear();
        }
    }

    #[derive(Default)]
    struct Flag(bool);

    impl Batch for Flag {
        fn is_empty(&self) -> bool {
            !self.0
        }

        fn clear(&mut self) {
            self.0 = false;
        }
    }

    fn fill(inlet: &mut Inlet<Flag>) -> bool {
        inlet.filling().0 = true;
        inlet.hand_over();
        inlet.is_half_full()
    }

    #[test]
    fn everybody_reads_all_batches_in_order_and_they_are_used_again() {
        let mut inlet = Inlet::<Numbers>::new(3);
        let threads = [inlet.outlet(), inlet.outlet()].map(|outlet| {
            std::thread::spawn(move || {
                let mut seen = Vec::<u32>::new();
                outlet.drain(|| {}, |batch| seen.extend(&batch.0));
                seen
            })
        });
        for number in 0..10_000 {
            inlet.filling().0.push(number);
            if number % 7 == 0 {
                inlet.hand_over();
            }
            if number % 1_000 == 0 {
                inlet.catch_up();
            }
        }
        inlet.hand_over();
        drop(inlet);
        for thread in threads {
            assert_eq!(thread.join().unwrap(), (0..10_000).collect::<Vec<_>>());
        }
        assert!(MADE.load(Ordering::Relaxed) <= 3, "and none for want of one");
    }

    #[test]
    fn what_is_not_kept_is_freed_and_made_anew() {
        let mut inlet = Inlet::<Flag>::new(8).keeping(3);
        assert_eq!((inlet.made, inlet.spare.len()), (3, 2), "from the beginning");
        let outlet = inlet.outlet();
        (0..7).for_each(|_| {
            fill(&mut inlet);
        });
        assert_eq!(inlet.made, 8, "nobody reads");
        let thread = std::thread::spawn(move || outlet.drain(|| {}, |_| {}));
        inlet.catch_up();
        fill(&mut inlet);
        assert_eq!((inlet.made, inlet.spare.len()), (3, 1));
        for _ in 0..20 {
            (0..7).for_each(|_| {
                fill(&mut inlet);
            });
            inlet.catch_up();
        }
        drop(inlet);
        thread.join().unwrap();
    }

    #[test]
    fn it_is_half_full_where_an_outlet_falls_behind_and_only_then() {
        let mut inlet = Inlet::<Flag>::new(8);
        let outlet = inlet.outlet();
        assert_eq!([(); 7].map(|()| fill(&mut inlet)), [false, false, false, true, true, true, true]);
        let thread = std::thread::spawn(move || outlet.drain(|| {}, |_| {}));
        inlet.catch_up();
        assert!(!fill(&mut inlet));
        drop(inlet);
        thread.join().unwrap();
    }

    #[test]
    fn who_catches_up_has_waited_until_all_have_read_all() {
        let mut inlet = Inlet::<Flag>::new(8);
        let (seen, seeing) = sync_channel(100);
        let threads = [inlet.outlet(), inlet.outlet(), inlet.outlet()].map(|outlet| {
            let seen = seen.clone();
            std::thread::spawn(move || outlet.drain(|| {}, |_| seen.send(()).unwrap()))
        });
        for round in 1..=20 {
            for _ in 0..5 {
                fill(&mut inlet);
            }
            inlet.catch_up();
            assert_eq!(seeing.try_iter().count(), 15, "round {round}");
        }
        drop(inlet);
        for thread in threads {
            thread.join().unwrap();
        }
    }

    #[test]
    fn an_outlet_that_fails_holds_nobody_up() {
        let mut inlet = Inlet::<Flag>::new(2);
        let (failing, reading) = (inlet.outlet(), inlet.outlet());
        let failing = std::thread::spawn(move || failing.drain(|| {}, |_| std::panic::resume_unwind(Box::new(()))));
        let reading = std::thread::spawn(move || reading.drain(|| {}, |_| {}));
        for _ in 0..100 {
            fill(&mut inlet);
        }
        inlet.catch_up();
        drop(inlet);
        assert!(failing.join().is_err());
        reading.join().unwrap();
    }

    #[test]
    fn without_outlets_nobody_waits() {
        let mut inlet = Inlet::<Flag>::new(2);
        drop((inlet.outlet(), inlet.outlet()));
        for _ in 0..10 {
            fill(&mut inlet);
        }
        inlet.catch_up();
    }
}
