//! The capturing thread: frames from the interface to the dissector and the file.

use crate::doubts::Doubts;
use anyhow::Result;
use overhead_capture::live::{LiveSource, StopHandle};
use overhead_capture::{Next, PcapngWriter, Source};
use overhead_dissect::{Dissector, Totals};
use overhead_model::{Class, Measured};
use overhead_report::Aggregate;
use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How often progress is published.
const TICK: Duration = Duration::from_millis(250);
/// Frames between looks at the clock.
const BATCH: u64 = 512;

/// How far a capture is.
#[derive(Clone, Copy, Debug, Default)]
pub struct Progress {
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

/// When to stop by itself.
#[derive(Clone, Copy, Debug, Default)]
pub struct Limits {
    /// Frames.
    pub frames: Option<u64>,
    /// Workload operations.
    pub operations: Option<u64>,
}

/// What the thread comes back with.
pub struct Captured {
    /// Closed operations.
    pub aggregate: Aggregate,
    /// Totals of the dissection.
    pub totals: Totals,
    /// Frames the kernel dropped.
    pub kernel_drops: Measured<u64>,
    /// Frames in the file; `None` without one.
    pub written: Option<(u64, u64)>,
    /// What went wrong.
    pub doubts: Doubts,
}

/// A running capture.
pub struct Capturing {
    thread: JoinHandle<Result<Captured>>,
    stop: StopHandle,
    progress: Arc<Mutex<Progress>>,
}

type Writer = PcapngWriter<Box<dyn Write + Send>>;

impl Capturing {
    /// Starts the thread.
    pub fn start(source: LiveSource, dissector: Dissector<Aggregate>, writer: Option<Writer>, limits: Limits) -> Self {
        let stop = source.stop_handle();
        let progress = Arc::new(Mutex::new(Progress::default()));
        let shared = Arc::clone(&progress);
        let mut worker =
            Worker { source, dissector, writer, limits, progress: shared, doubts: Doubts::default(), written_bytes: 0 };
        let thread = std::thread::spawn(move || {
            let outcome = worker.run();
            worker.end(outcome)
        });
        Self { thread, stop, progress }
    }

    /// True once the thread has ended by itself: a limit was reached, or the interface failed.
    pub fn has_ended(&self) -> bool {
        self.thread.is_finished()
    }

    /// How far it is.
    pub fn progress(&self) -> Progress {
        *self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the capture as of now and waits for what was captured before.
    pub fn finish(self) -> Result<Captured> {
        self.stop.stop();
        self.thread
            .join()
            .map_err(|_| anyhow::anyhow!("the capturing thread failed: this is a bug, please report it"))?
    }
}

struct Worker {
    source: LiveSource,
    dissector: Dissector<Aggregate>,
    writer: Option<Writer>,
    limits: Limits,
    progress: Arc<Mutex<Progress>>,
    doubts: Doubts,
    written_bytes: u64,
}

impl Worker {
    fn run(&mut self) -> Result<()> {
        let mut published = Instant::now();
        let mut frames = 0;
        loop {
            let idle = match self.source.next_frame()? {
                Next::Frame(frame) => {
                    if let Some(writer) = &mut self.writer {
                        if let Err(error) = writer.write(&frame) {
                            self.doubts.partial(format!("{error}; the figures go on without the file"));
                            self.writer = None;
                        } else {
                            self.written_bytes += u64::from(frame.original_len);
                        }
                    }
                    self.dissector.frame(&frame);
                    frames += 1;
                    if self.limits.frames.is_some_and(|limit| frames >= limit) {
                        return Ok(());
                    }
                    false
                }
                Next::Idle => true,
                Next::End => return Ok(()),
            };
            let due = idle || frames % BATCH == 0;
            if due && (published.elapsed() >= TICK || self.limits.operations.is_some()) {
                published = Instant::now();
                let operations = self.publish();
                if self.limits.operations.is_some_and(|limit| operations >= limit) {
                    return Ok(());
                }
            }
        }
    }

    /// Publishes progress and gives the number of workload operations.
    fn publish(&mut self) -> u64 {
        let totals = self.dissector.totals();
        let dropped = self.source.kernel().value().map_or(0, |kernel| kernel.dropped);
        let (operations, operation_bytes) = self.dissector.tally().class_totals(Class::Workload);
        let now =
            Progress { frames: totals.frames, wire_bytes: totals.wire_bytes, operations, operation_bytes, dropped };
        *self.progress.lock().unwrap_or_else(PoisonError::into_inner) = now;
        operations
    }

    fn end(mut self, outcome: Result<()>) -> Result<Captured> {
        if let Err(error) = outcome {
            if self.dissector.totals().frames == 0 {
                return Err(error);
            }
            self.doubts.partial(format!("the capture ended early: {error:#}"));
        }
        let kernel = self.source.kernel();
        let mut written = None;
        if let Some(writer) = self.writer {
            let frames = writer.frames();
            match writer.finish(kernel.value()) {
                Ok(_) => written = Some((frames, self.written_bytes)),
                Err(error) if error.is_broken_pipe() => written = Some((frames, self.written_bytes)),
                Err(error) => self.doubts.partial(error.to_string()),
            }
        }
        let kernel_drops = match kernel {
            Measured::Value(kernel) => Measured::Value(kernel.dropped),
            Measured::Unavailable { unavailable } => Measured::Unavailable { unavailable },
        };
        if let Some(dropped) = kernel_drops.value().filter(|dropped| **dropped > 0) {
            self.doubts.partial(format!(
                "the kernel dropped {} for want of buffer: give it more with -B, or keep less of each with -s",
                crate::doubts::counted(*dropped, "frame")
            ));
        }
        let (aggregate, totals) = self.dissector.finish();
        Ok(Captured { aggregate, totals, kernel_drops, written, doubts: self.doubts })
    }
}
