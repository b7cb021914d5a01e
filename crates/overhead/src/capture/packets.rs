//! The capturing thread: frames from the interface to the dissector and the file.

use crate::doubts::Doubts;
use crate::keys::KeyReader;
use anyhow::Result;
use overhead_capture::live::{LiveSource, StopHandle};
use overhead_capture::{KernelStats, Next, PcapngWriter, Source, WriteError};
use overhead_dissect::{Dissector, Totals};
use overhead_model::{Class, Frame, Measured};
use overhead_report::Aggregate;
use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::sync::Notify;

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
    ended: Arc<Notify>,
}

type Writer = PcapngWriter<Box<dyn Write + Send>>;

impl Capturing {
    /// Starts the thread.
    pub fn start(
        source: LiveSource,
        dissector: Dissector<Aggregate>,
        keys: KeyReader,
        writer: Option<Writer>,
        limits: Limits,
    ) -> Self {
        let stop = source.stop_handle();
        let progress = Arc::new(Mutex::new(Progress::default()));
        let shared = Arc::clone(&progress);
        let mut worker = Worker { source, sink: Sink::new(dissector, keys, writer), limits, progress: shared };
        let ended = Arc::new(Notify::new());
        let ending = Ending(Arc::clone(&ended));
        let thread = std::thread::spawn(move || {
            let outcome = worker.run();
            drop(ending);
            worker.end(outcome)
        });
        Self { thread, stop, progress, ended }
    }

    /// Waits until the thread ends by itself: a limit was reached, or the interface failed.
    pub async fn ended(&self) {
        self.ended.notified().await;
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

/// Says that the capture is over when it goes away, even by a panic.
struct Ending(Arc<Notify>);

impl Drop for Ending {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}

/// The capturing thread: where frames come from, where they go, and when it ends.
struct Worker {
    source: LiveSource,
    sink: Sink,
    limits: Limits,
    progress: Arc<Mutex<Progress>>,
}

/// Where frames go.
struct Sink {
    dissector: Dissector<Aggregate>,
    keys: KeyReader,
    writer: Option<Writer>,
    written_bytes: u64,
    doubts: Doubts,
    /// The reader of the file went away.
    deserted: bool,
}

impl Worker {
    fn run(&mut self) -> Result<()> {
        // A reader of a pipe sees by the header that the capture has begun, and frames as soon as there is a pause.
        self.sink.flush();
        let mut published = Instant::now();
        let mut frames = 0;
        while !self.sink.deserted && self.limits.frames.is_none_or(|limit| frames < limit) {
            let idle = match self.source.next_frame()? {
                Next::Frame(frame) => {
                    self.sink.frame(&frame);
                    frames += 1;
                    false
                }
                Next::Idle => {
                    self.sink.flush();
                    true
                }
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
        Ok(())
    }

    /// Publishes progress and gives the number of workload operations.
    fn publish(&mut self) -> u64 {
        let totals = self.sink.dissector.totals();
        let dropped = self.source.kernel().value().map_or(0, |kernel| kernel.dropped);
        let (operations, operation_bytes) = self.sink.dissector.tally().class_totals(Class::Workload);
        let now =
            Progress { frames: totals.frames, wire_bytes: totals.wire_bytes, operations, operation_bytes, dropped };
        *self.progress.lock().unwrap_or_else(PoisonError::into_inner) = now;
        operations
    }

    fn end(mut self, outcome: Result<()>) -> Result<Captured> {
        if let Err(error) = outcome {
            if self.sink.dissector.totals().frames == 0 {
                return Err(error);
            }
            self.sink.doubts.partial(format!("the capture ended early: {error:#}"));
        }
        let kernel = self.source.kernel();
        let written = self.sink.close(kernel.value());
        let kernel_drops = match kernel {
            Measured::Value(kernel) => Measured::Value(kernel.dropped),
            Measured::Unavailable { unavailable } => Measured::Unavailable { unavailable },
        };
        let mut doubts = self.sink.doubts;
        if let Some(dropped) = kernel_drops.value().filter(|dropped| **dropped > 0) {
            doubts.partial(format!(
                "the kernel dropped {} for want of buffer: give it more with -B, or keep less of each with -s",
                overhead_report::text::counted(*dropped, "frame")
            ));
        }
        let (aggregate, totals) = self.sink.dissector.finish();
        Ok(Captured { aggregate, totals, kernel_drops, written, doubts })
    }
}

impl Sink {
    fn new(dissector: Dissector<Aggregate>, keys: KeyReader, writer: Option<Writer>) -> Self {
        Self { dissector, keys, writer, written_bytes: 0, doubts: Doubts::default(), deserted: false }
    }

    fn frame(&mut self, frame: &Frame<'_>) {
        match self.writer.as_mut().map(|writer| writer.write(frame)) {
            Some(Ok(())) => self.written_bytes += u64::from(frame.original_len),
            Some(Err(error)) => self.give_up_file(&error),
            None => {}
        }
        self.keys.refresh(frame.time_ns);
        self.dissector.frame(frame);
    }

    fn flush(&mut self) {
        if let Some(Err(error)) = self.writer.as_mut().map(PcapngWriter::flush) {
            self.give_up_file(&error);
        }
    }

    /// The figures go on without the file; where nobody reads it any more, the capture ends.
    fn give_up_file(&mut self, error: &WriteError) {
        self.deserted = error.is_broken_pipe();
        if !self.deserted {
            self.doubts.partial(format!("{error}; the figures go on without the file"));
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
