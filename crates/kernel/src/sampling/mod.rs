//! Work by operation: windows of time in which the kernel tells of each slice of a thread's work, and a listener that hears
//! which operations there were.
//!
//! A *slice* is the work of a thread from the system call that touches a socket to the next that does, or to one by which an
//! event loop waits. One that begins in a window is told of, however long it lasts, so each has the same chance. The
//! figures of a kind of operations are the sums of its slices over the number of its operations that were read (of a client:
//! written) in them.

mod join;
mod record;
mod sampler;

pub use join::WorkListener;
pub use record::SampledWork;
pub(crate) use sampler::SliceSampler;

use crate::options::ProcessRole;
use crate::ownership;
use crate::skeleton::types;
use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Slices that wait for their operations at most. More are not begun.
const WAITING: usize = 1 << 18;

/// A window of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SamplingWindow {
    pub number: u32,
    pub start_unix_ns: u64,
    pub end_unix_ns: u64,
}

/// Length of a window whose slices weigh 1.
const UNIT_NS: f64 = 10_000_000.0;

/// Returns what a slice of a window of this length weighs. Windows come at a steady rate and are of different lengths, so that the
/// chance of a slice to be in one is as its length: by the inverse of that, each part of the run counts for what was done in it
/// (Horvitz and Thompson).
fn weight(length_ns: u64) -> f64 {
    UNIT_NS / length_ns.max(1) as f64
}

/// What a slice is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SliceKind {
    /// The loop itself.
    Loop,
    /// Bytes of a direction, from a sequence number on, so many.
    Bytes { from: SocketAddr, to: SocketAddr, is_send: bool, is_empty: bool, seq: u32, len: u32 },
    /// A socket that is not captured.
    Elsewhere,
}

/// Work of a thread.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct WorkSlice {
    pub tid: u32,
    pub slot: u32,
    pub kind: SliceKind,
    pub work: CpuWork,
}

/// Time on a CPU and system calls, or shares of them.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct CpuWork {
    pub ns: f64,
    pub in_calls_ns: f64,
    /// By number.
    pub calls: BTreeMap<u16, f64>,
}

impl CpuWork {
    /// Adds a part of other work.
    pub fn add(&mut self, other: &Self, part: f64) {
        self.ns += other.ns * part;
        self.in_calls_ns += other.in_calls_ns * part;
        for (number, count) in &other.calls {
            *self.calls.entry(*number).or_default() += count * part;
        }
    }

    /// System calls of all numbers.
    pub fn count(&self) -> f64 {
        self.calls.values().sum()
    }
}

/// The number that stands for calls of 32-bit programs, and for those beyond the ones that a slice tells apart.
pub(crate) const OTHER_CALLS: u16 = 511;

impl WorkSlice {
    fn of(slice: &types::slice) -> Self {
        let mut calls = BTreeMap::new();
        for (number, count) in slice.numbers.iter().zip(slice.counts).filter(|(number, _)| **number > 0) {
            *calls.entry(number - 1).or_default() += f64::from(count);
        }
        if slice.other_calls > 0 {
            *calls.entry(OTHER_CALLS).or_default() += slice.other_calls as f64;
        }
        let ends = &slice.connection;
        let local = ownership::end(ends.local, ends.local_port);
        let remote = ownership::end(ends.remote, ends.remote_port);
        let kind = types::slice_kind(u32::from(slice.kind));
        let is_send = kind == types::slice_kind::SLICE_SEND;
        let kind = match kind {
            types::slice_kind::SLICE_LOOP => SliceKind::Loop,
            types::slice_kind::SLICE_RECEIVE | types::slice_kind::SLICE_SEND => {
                let (from, to) = if is_send { (local, remote) } else { (remote, local) };
                let (is_empty, seq, len) = (slice.is_empty != 0, slice.from, slice.len);
                SliceKind::Bytes { from, to, is_send, is_empty, seq, len }
            }
            _ => SliceKind::Elsewhere,
        };
        let work = CpuWork { ns: slice.ns as f64, in_calls_ns: slice.in_calls_ns as f64, calls };
        Self { tid: slice.tid, slot: slice.slot, kind, work }
    }

    fn role(&self) -> Option<ProcessRole> {
        ProcessRole::of_slot(self.slot)
    }

    fn weighted(self, weight: f64) -> Self {
        let mut work = CpuWork::default();
        work.add(&self.work, weight);
        Self { work, ..self }
    }
}

/// What the thread that samples and the listener share.
#[derive(Debug, Default)]
pub(crate) struct SliceExchange(Mutex<ExchangeState>);

#[derive(Debug, Default)]
struct ExchangeState {
    /// Windows that the listener has not come to.
    planned: VecDeque<SamplingWindow>,
    /// Slices by the window in which they began.
    slices: BTreeMap<u32, Vec<WorkSlice>>,
    waiting: usize,
    /// Of windows that are over.
    lengths: BTreeMap<u32, u64>,
    /// Windows before this one are not of the run.
    first: u32,
    next: u32,
    /// Windows that are over, and their length, of the run.
    windows: u64,
    window_ns: u64,
    dropped: u64,
}

impl SliceExchange {
    fn lock(&self) -> MutexGuard<'_, ExchangeState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What was sampled up to now is not of the run.
    pub fn begin(&self) {
        let mut all = self.lock();
        *all = ExchangeState { first: all.next, next: all.next, ..ExchangeState::default() };
    }

    /// Returns the number of the next window.
    pub fn number(&self) -> u32 {
        self.lock().next
    }

    fn plan(&self, window: SamplingWindow) {
        let mut all = self.lock();
        all.next = window.number + 1;
        all.planned.push_back(window);
    }

    /// A window is over after so long. Returns how many slices began in it so far.
    fn over(&self, window: SamplingWindow, length_ns: u64, dropped: u64) -> usize {
        let mut all = self.lock();
        if window.number >= all.first {
            all.windows += 1;
            all.window_ns += length_ns;
            all.lengths.insert(window.number, length_ns);
            all.dropped += dropped;
        }
        all.slices.get(&window.number).map_or(0, Vec::len)
    }

    fn is_full(&self) -> bool {
        self.lock().waiting >= WAITING
    }

    fn push(&self, slice: &types::slice) {
        let mut all = self.lock();
        if slice.window >= all.first && all.waiting < 2 * WAITING {
            all.waiting += 1;
            all.slices.entry(slice.window).or_default().push(WorkSlice::of(slice));
        }
    }

    /// Takes the slices of a window, and their weight.
    fn take(&self, number: u32) -> (Vec<WorkSlice>, f64) {
        let mut all = self.lock();
        let slices = all.slices.remove(&number).unwrap_or_default();
        all.waiting -= slices.len();
        (slices, all.lengths.remove(&number).map_or(0.0, weight))
    }

    /// The first window of the plan that the listener has not come to.
    fn planned(&self) -> Option<SamplingWindow> {
        self.lock().planned.front().copied()
    }

    fn forget_planned(&self) {
        self.lock().planned.pop_front();
    }
}

/// Where sampled work can be joined with operations.
#[derive(Clone, Debug)]
pub struct WorkSampling(Arc<SliceExchange>);

impl WorkSampling {
    pub(crate) fn new(exchange: Arc<SliceExchange>) -> Self {
        Self(exchange)
    }

    /// Returns what hears of operations in the windows.
    pub fn listener(&self) -> WorkListener {
        WorkListener::new(Arc::clone(&self.0))
    }
}
