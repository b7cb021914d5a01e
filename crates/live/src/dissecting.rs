//! The dissecting thread of a capture. It takes frames from a queue, and uses only idle time as long as it keeps up.

use super::queue::{FrameBatch, QueueOutlet};
use overhead_capture::live::StopHandle;
use overhead_dissect::{KeyLog, Totals};
use overhead_kernel::WorkListener;
use overhead_model::record::OperationRow;
use overhead_model::{Amounts, Class, Frame, Side};
use overhead_reading::time::unix_ns;
use overhead_reading::{Dissection, Sampled, Windows};
use overhead_report::{Aggregate, OperationKind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Interval between updates of the progress.
pub const TICK: Duration = Duration::from_millis(250);

pub type SharedProgress = Arc<Mutex<CaptureProgress>>;

/// Receives the operations near sampling windows of kernel work.
pub type SharedWorkListener = Arc<Mutex<WorkListener>>;

/// The progress of a capture.
#[derive(Clone, Copy, Debug, Default)]
pub struct CaptureProgress {
    pub frames: u64,
    pub wire_bytes: u64,
    /// Workload operations closed so far.
    pub operations: u64,
    /// Bytes on the wire of these operations.
    pub operation_bytes: u64,
    /// Frames that the kernel dropped.
    pub dropped: u64,
}

/// The values up to a moment.
#[derive(Default)]
pub struct SoFar {
    pub progress: CaptureProgress,
    /// A row per kind of operation, with its latency distribution.
    pub operations: Vec<OperationRow>,
    /// Sums by server, if they are wanted.
    pub servers: Vec<OperationKind>,
    /// Bytes posted to these operations, request and response.
    pub ledger: [Amounts; 2],
    /// Dissected frames.
    pub frames: u64,
    pub wire_bytes: u64,
    /// Time during which frames were captured, nanoseconds; `None` for all of it.
    pub covered_ns: Option<u64>,
}

/// A question to the dissecting thread.
pub type DissectionQuestion = Box<dyn FnOnce(&mut DissectingThread) + Send>;

/// Questions that pass through both threads.
#[derive(Default)]
pub struct PendingQuestions {
    pub asked: AtomicBool,
    pub waiting: Mutex<Vec<DissectionQuestion>>,
}

/// What the dissecting thread owns.
pub struct DissectingThread {
    pub dissection: Dissection,
    pub windows: Option<Windows>,
    /// When the capture ended, once it has.
    pub end_ns: Arc<AtomicU64>,
    pub keys: Arc<KeyLog>,
    /// The capture ends after this many operations.
    pub limit: Option<u64>,
    pub stop: StopHandle,
    pub progress: SharedProgress,
    pub questions: Arc<PendingQuestions>,
    pub published: Option<Instant>,
    pub work: Option<SharedWorkListener>,
    /// The time of the next check whether the tally should listen.
    pub turn_ns: u64,
}

impl DissectingThread {
    /// Dissects frames until the other end of the queue is dropped.
    pub fn run(mut self, frames: QueueOutlet<FrameBatch>) -> (Aggregate, Totals, Option<Sampled>) {
        let in_background = self.limit.is_none();
        frames.drain_frames(in_background, &mut self, Self::frame, Self::publish);
        self.dissection.finish(Some(self.end_ns.load(Ordering::Acquire)))
    }

    fn frame(&mut self, frame: &Frame<'_>) {
        self.keys.set_time(frame.time_ns);
        if frame.time_ns >= self.turn_ns {
            self.turn(frame.time_ns);
        }
        self.dissection.dissect(frame);
    }

    /// Returns the values of all frames so far.
    pub fn so_far(&mut self) -> SoFar {
        let tally = self.dissection.tally();
        let servers = tally.servers();
        let (operations, ledger) = (tally.timed_operations(), Side::BOTH.map(|side| tally.ledger(side)));
        let (frames, wire_bytes) = self.dissection.frames();
        let covered_ns = self.windows.map(|windows| windows.covered_ns(unix_ns()));
        SoFar { progress: CaptureProgress::default(), operations, servers, ledger, frames, wire_bytes, covered_ns }
    }

    /// Starts or stops listening when a sampling window starts or ends.
    #[cold]
    fn turn(&mut self, time_ns: u64) {
        let Some(work) = &self.work else { return };
        let (is_listening, until_ns) = work.lock().unwrap_or_else(PoisonError::into_inner).advance_to(time_ns);
        self.turn_ns = until_ns;
        self.dissection.listen(is_listening);
    }

    /// Publishes the number of operations, ends the capture at its limit, and answers questions if `asked`.
    fn publish(&mut self, asked: bool) {
        if !asked && self.limit.is_none() && self.published.is_some_and(|before| before.elapsed() < TICK) {
            return;
        }
        self.published = Some(Instant::now());
        let (operations, operation_bytes) = self.dissection.tally().class_totals(Class::Workload);
        let mut now = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        (now.operations, now.operation_bytes) = (operations, operation_bytes);
        drop(now);
        if self.limit.is_some_and(|limit| operations >= limit) {
            self.stop.stop();
        }
        if asked {
            let waiting = std::mem::take(&mut *self.questions.waiting.lock().unwrap_or_else(PoisonError::into_inner));
            for question in waiting {
                question(self);
            }
        }
    }
}
