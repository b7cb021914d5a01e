//! The capturing thread, from the interface to the file, and the dissecting one, which has the same frames from a queue.
//!
//! The benchmark is to notice as little as possible: what cannot wait is done by the first, and the second runs in the time
//! that nobody else wants, as long as it keeps up.

use super::queue::{LiveInlet, LiveOutlet, queue};
use super::warmup::WarmUp;
use crate::keys::KeyReader;
use crate::warnings::Warnings;
use anyhow::{Result, anyhow};
use overhead_capture::live::{LiveSource, StopHandle};
use overhead_capture::{KernelStats, Next, PcapngWriter, Source, WriteError};
use overhead_dissect::{Dissector, Totals};
use overhead_model::record::OperationRow;
use overhead_model::{Class, Frame, Measured};
use overhead_report::Aggregate;
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// How often progress is published.
const TICK: Duration = Duration::from_millis(250);
/// Frames between looks at the clock.
const BATCH: u64 = 512;
/// How long is waited for the figures of a moment, where the machine is busy.
const PATIENCE: Duration = Duration::from_secs(2);

type Shared = Arc<Mutex<CaptureProgress>>;

/// How far a capture is.
#[derive(Clone, Copy, Debug, Default)]
pub struct CaptureProgress {
    /// Frames so far.
    pub frames: u64,
    /// Their lengths on the wire.
    pub wire_bytes: u64,
    /// Workload operations closed so far.
    pub operations: u64,
    /// Bytes on the wire of these.
    pub operation_bytes: u64,
    /// Frames that the kernel dropped.
    pub dropped: u64,
}

/// The figures of a moment.
pub struct SoFar {
    /// How far the capture is.
    pub progress: CaptureProgress,
    /// A row for each kind of operation.
    pub operations: Vec<OperationRow>,
}

/// A question for the figures of now, on its way through both threads.
#[derive(Default)]
struct ProgressQuestion {
    asked: AtomicBool,
    answer: Mutex<Vec<OperationRow>>,
    answered: Notify,
}

/// When to begin to count, and to stop, by itself.
#[derive(Clone, Debug, Default)]
pub struct Limits {
    /// Frames.
    pub frames: Option<u64>,
    /// Workload operations.
    pub operations: Option<u64>,
    /// Frames in it are left out.
    pub warmup: Option<Arc<WarmUp>>,
}

/// What the thread comes back with.
pub struct CaptureOutcome {
    /// Closed operations.
    pub aggregate: Aggregate,
    /// Totals of the dissection.
    pub totals: Totals,
    /// Frames the kernel dropped.
    pub kernel_drops: Measured<u64>,
    /// Frames in the file; `None` without one.
    pub written: Option<(u64, u64)>,
    /// What went wrong.
    pub warnings: Warnings,
}

/// A source that goes on until it is stopped.
pub trait LiveInput: Source + Send + 'static {
    /// Returns a handle that ends it.
    fn stop_handle(&self) -> StopHandle;

    /// Returns what was delivered so far.
    fn totals(&self) -> &overhead_capture::Totals;

    /// Nothing that comes from here on counts.
    fn end_window(&mut self);

    /// Why not all that was delivered is whole, in whole sentences.
    fn losses(&self) -> Vec<String> {
        Vec::new()
    }
}

impl LiveInput for LiveSource {
    fn stop_handle(&self) -> StopHandle {
        self.stop_handle()
    }

    fn totals(&self) -> &overhead_capture::Totals {
        self.totals()
    }

    fn end_window(&mut self) {
        self.end_window();
    }
}

/// A running capture.
pub struct Capturing {
    thread: JoinHandle<Result<CaptureOutcome>>,
    stop: StopHandle,
    progress: Shared,
    question: Arc<ProgressQuestion>,
    ended: Arc<Notify>,
}

type Writer = PcapngWriter<Box<dyn Write + Send>>;

impl Capturing {
    /// Starts the thread.
    pub fn start(
        source: impl LiveInput,
        dissector: Dissector<Aggregate>,
        keys: KeyReader,
        writer: Option<Writer>,
        limits: Limits,
    ) -> Self {
        let stop = source.stop_handle();
        let progress = Shared::default();
        let question = Arc::<ProgressQuestion>::default();
        let (inlet, outlet) = queue();
        let dissecting = Dissecting {
            dissector,
            keys,
            limit: limits.operations,
            stop: stop.clone(),
            progress: Arc::clone(&progress),
            question: Arc::clone(&question),
            published: None,
        };
        let dissecting = std::thread::spawn(move || dissecting.run(outlet));
        let sink = Sink { inlet, writer, written_bytes: 0, warnings: Warnings::default(), deserted: false };
        let mut worker = Worker {
            source,
            sink,
            limits,
            dissecting,
            progress: Arc::clone(&progress),
            question: Arc::clone(&question),
        };
        let ended = Arc::new(Notify::new());
        let ending = Ending(Arc::clone(&ended));
        let thread = std::thread::spawn(move || {
            let outcome = worker.run();
            drop(ending);
            worker.end(outcome)
        });
        Self { thread, stop, progress, question, ended }
    }

    /// Waits until the thread ends by itself: a limit was reached, or the interface failed.
    pub async fn ended(&self) {
        self.ended.notified().await;
    }

    /// Returns how far it is.
    pub fn progress(&self) -> CaptureProgress {
        *self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The figures of all frames up to now; of a moment before, where the threads do not answer in time.
    pub async fn so_far(&self) -> SoFar {
        self.question.asked.store(true, Ordering::Release);
        let _ = tokio::time::timeout(PATIENCE, self.question.answered.notified()).await;
        let operations = self.question.answer.lock().unwrap_or_else(PoisonError::into_inner).clone();
        SoFar { progress: self.progress(), operations }
    }

    /// Ends the capture as of now.
    pub fn stop(&self) {
        self.stop.stop();
    }

    /// Ends the capture as of now and waits for what was captured before.
    pub fn finish(self) -> Result<CaptureOutcome> {
        self.stop.stop();
        self.thread.join().map_err(|_| anyhow!("the capturing thread failed: this is a bug, please report it"))?
    }
}

/// Says that the capture is over when it goes away, even by a panic.
struct Ending(Arc<Notify>);

impl Drop for Ending {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}

/// The capturing thread: where frames come from, where they go, and when it ends.
struct Worker<S> {
    source: S,
    sink: Sink,
    limits: Limits,
    dissecting: JoinHandle<(Aggregate, Totals)>,
    progress: Shared,
    question: Arc<ProgressQuestion>,
}

/// Where frames go.
struct Sink {
    inlet: LiveInlet,
    writer: Option<Writer>,
    written_bytes: u64,
    warnings: Warnings,
    /// The reader of the file went away.
    deserted: bool,
}

impl<S: LiveInput> Worker<S> {
    fn run(&mut self) -> Result<()> {
        // A reader of a pipe sees by the header that the capture has begun, and frames as soon as there is a pause.
        self.sink.flush();
        let mut published = Instant::now();
        let mut frames = 0;
        while !self.sink.deserted && self.limits.frames.is_none_or(|limit| frames < limit) {
            let idle = match self.source.next_frame()? {
                Next::Frame(frame) if self.limits.warmup.as_ref().is_some_and(|warmup| warmup.has(frame.time_ns)) => {
                    false
                }
                Next::Frame(frame) => {
                    self.sink.frame(&frame);
                    // A TLS library's call is no frame.
                    frames += u64::from(frame.wire_len() > 0);
                    false
                }
                Next::Idle => {
                    self.sink.flush();
                    true
                }
                Next::End => return Ok(()),
            };
            if !(idle || frames % BATCH == 0) {
                continue;
            }
            let asked = self.question.asked.swap(false, Ordering::AcqRel);
            if asked || published.elapsed() >= TICK {
                published = Instant::now();
                self.publish();
            }
            if asked {
                self.sink.inlet.ask();
            }
        }
        // There are enough, or nobody wants more: a stop has ended the window already.
        self.source.end_window();
        Ok(())
    }

    fn publish(&mut self) {
        let dropped = self.source.kernel().value().map_or(0, |kernel| kernel.dropped);
        let totals = self.source.totals();
        let mut now = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        (now.frames, now.wire_bytes, now.dropped) = (totals.frames, totals.wire_bytes, dropped);
    }

    fn end(mut self, outcome: Result<()>) -> Result<CaptureOutcome> {
        if let Err(error) = outcome {
            if self.source.totals().frames == 0 {
                return Err(error);
            }
            self.sink.warnings.partial(format!("the capture ended early: {error:#}"));
        }
        self.source.losses().into_iter().for_each(|loss| self.sink.warnings.partial(loss));
        let kernel = self.source.kernel();
        let written = self.sink.close(kernel.value());
        let kernel_drops = match kernel {
            Measured::Value(kernel) => Measured::Value(kernel.dropped),
            Measured::Unavailable { unavailable } => Measured::Unavailable { unavailable },
        };
        let Sink { mut warnings, inlet, .. } = self.sink;
        drop(inlet);
        if let Some(dropped) = kernel_drops.value().filter(|dropped| **dropped > 0) {
            warnings.partial(format!(
                "the kernel dropped {} for want of buffer: give it more with -B, or keep less of each with -s",
                overhead_report::text::counted(*dropped, "frame")
            ));
        }
        let dissected = self.dissecting.join();
        let (aggregate, totals) =
            dissected.map_err(|_| anyhow!("the dissecting thread failed: this is a bug, please report it"))?;
        Ok(CaptureOutcome { aggregate, totals, kernel_drops, written, warnings })
    }
}

impl Sink {
    fn frame(&mut self, frame: &Frame<'_>) {
        match self.writer.as_mut().map(|writer| writer.write(frame)) {
            Some(Ok(())) => self.written_bytes += u64::from(frame.wire_len()),
            Some(Err(error)) => self.give_up_file(&error),
            None => {}
        }
        self.inlet.push(frame);
    }

    fn flush(&mut self) {
        self.inlet.hand_over();
        if let Some(Err(error)) = self.writer.as_mut().map(PcapngWriter::flush) {
            self.give_up_file(&error);
        }
    }

    /// The figures go on without the file; where nobody reads it any more, the capture ends.
    fn give_up_file(&mut self, error: &WriteError) {
        self.deserted = error.is_broken_pipe();
        if !self.deserted {
            self.warnings.partial(format!("{error}; the file ends there, and the figures go on without it"));
        }
        self.writer = None;
    }

    /// Ends the file; gives its frames and their bytes on the wire, where there is one.
    fn close(&mut self, kernel: Option<&KernelStats>) -> Option<(u64, u64)> {
        let writer = self.writer.take()?;
        let frames = writer.frames();
        if let Err(error) = writer.finish(kernel) {
            self.give_up_file(&error);
        }
        Some((frames, self.written_bytes))
    }
}

/// The dissecting thread.
struct Dissecting {
    dissector: Dissector<Aggregate>,
    keys: KeyReader,
    /// Operations after which the capture is to end.
    limit: Option<u64>,
    stop: StopHandle,
    progress: Shared,
    question: Arc<ProgressQuestion>,
    published: Option<Instant>,
}

impl Dissecting {
    fn run(mut self, frames: LiveOutlet) -> (Aggregate, Totals) {
        let in_background = self.limit.is_none();
        frames.drain(in_background, &mut self, Self::frame, Self::publish);
        self.dissector.finish()
    }

    fn frame(&mut self, frame: &Frame<'_>) {
        self.keys.refresh(frame.time_ns);
        self.dissector.frame(frame);
    }

    /// Says how many operations there are, and of what kind where that is `asked`, and ends the capture where they are enough.
    fn publish(&mut self, asked: bool) {
        if !asked && self.limit.is_none() && self.published.is_some_and(|before| before.elapsed() < TICK) {
            return;
        }
        self.published = Some(Instant::now());
        let (operations, operation_bytes) = self.dissector.tally().class_totals(Class::Workload);
        let mut now = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        (now.operations, now.operation_bytes) = (operations, operation_bytes);
        drop(now);
        if self.limit.is_some_and(|limit| operations >= limit) {
            self.stop.stop();
        }
        if asked {
            let rows = self.dissector.tally().operations();
            *self.question.answer.lock().unwrap_or_else(PoisonError::into_inner) = rows;
            self.question.answered.notify_one();
        }
    }
}
