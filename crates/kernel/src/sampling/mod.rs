//! Samples work by operation: in short windows the BPF programs report slices of the threads' work, which a listener
//! joins with the operations in the capture.
//!
//! A *slice* is a thread's work from a system call that touches a socket to the next one that does, or to one by
//! which an event loop waits. A slice that starts in a window is reported however long it lasts, so all have the same
//! chance. A kind's work per operation is the sum of its slices divided by the operations read (by a client: written) in them.

mod join;
mod record;
mod sampler;

pub use join::WorkListener;
pub use record::SampledWork;
pub(crate) use sampler::start;

use crate::ownership;
use crate::skeleton::types;
use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Slices that wait for their operations. At this number, windows stay empty.
const MAX_PENDING_SLICES: usize = 1 << 18;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SamplingWindow {
    pub number: u32,
    pub start_unix_ns: u64,
    pub end_unix_ns: u64,
}

/// Length of a window whose slices have weight 1.
const UNIT_NS: f64 = 10_000_000.0;

/// Returns the weight of a window's slices. Windows come at a steady rate but differ in length, so a slice's chance
/// is proportional to the length. The inverse makes each part of the run count for what was done in it (Horvitz and
/// Thompson).
fn weight(length_ns: u64) -> f64 {
    UNIT_NS / length_ns.max(1) as f64
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SliceKind {
    /// The event loop.
    Loop,
    /// `len` bytes of a direction from a sequence number on.
    Bytes { from: SocketAddr, to: SocketAddr, is_send: bool, is_empty: bool, seq: u32, len: u32 },
    /// A socket that is not captured.
    Elsewhere,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct WorkSlice {
    pub tid: u32,
    pub slot: u32,
    pub kind: SliceKind,
    pub work: CpuWork,
}

/// CPU time and system calls, or a share of each.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct CpuWork {
    pub ns: f64,
    pub in_calls_ns: f64,
    /// By number.
    pub calls: BTreeMap<u16, f64>,
}

impl CpuWork {
    pub fn add(&mut self, other: &Self, part: f64) {
        self.ns += other.ns * part;
        self.in_calls_ns += other.in_calls_ns * part;
        for (number, count) in &other.calls {
            *self.calls.entry(*number).or_default() += count * part;
        }
    }

    pub fn count(&self) -> f64 {
        self.calls.values().sum()
    }
}

/// Stands for 32-bit programs' calls, and for calls beyond the kinds that a slice counts separately.
pub(crate) const OTHER_CALLS: u16 = 511;

impl WorkSlice {
    fn from_bpf(slice: &types::slice) -> Self {
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

    fn weighted(self, weight: f64) -> Self {
        let mut work = CpuWork::default();
        work.add(&self.work, weight);
        Self { work, ..self }
    }
}

/// State shared by the sampling thread and the listener.
#[derive(Debug, Default)]
pub(crate) struct SliceExchange(Mutex<ExchangeState>);

#[derive(Debug, Default)]
struct ExchangeState {
    /// Windows that the listener has not reached.
    planned: VecDeque<SamplingWindow>,
    /// By the window in which they started.
    slices: BTreeMap<u32, Vec<WorkSlice>>,
    waiting: usize,
    /// Lengths of closed windows.
    lengths: BTreeMap<u32, u64>,
    /// Earlier windows are not part of the run.
    first: u32,
    next: u32,
    /// Number and total length of the run's closed windows.
    windows: u64,
    window_ns: u64,
    dropped: u64,
}

impl SliceExchange {
    fn lock(&self) -> MutexGuard<'_, ExchangeState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Discards all samples up to now.
    pub fn begin(&self) {
        let mut all = self.lock();
        *all = ExchangeState { first: all.next, next: all.next, ..ExchangeState::default() };
    }

    fn plan(&self, window: SamplingWindow) {
        let mut all = self.lock();
        all.next = window.number + 1;
        all.planned.push_back(window);
    }

    /// Closes a window. Returns how many of its slices have been reported.
    fn close(&self, window: SamplingWindow, length_ns: u64, dropped: u64) -> usize {
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
        self.lock().waiting >= MAX_PENDING_SLICES
    }

    fn push(&self, slice: &types::slice) {
        let mut all = self.lock();
        if slice.window >= all.first && all.waiting < 2 * MAX_PENDING_SLICES {
            all.waiting += 1;
            all.slices.entry(slice.window).or_default().push(WorkSlice::from_bpf(slice));
        }
    }

    /// Takes a window's slices and their weight.
    fn take(&self, number: u32) -> (Vec<WorkSlice>, f64) {
        let mut all = self.lock();
        let slices = all.slices.remove(&number).unwrap_or_default();
        all.waiting -= slices.len();
        (slices, all.lengths.remove(&number).map_or(0.0, weight))
    }
}
