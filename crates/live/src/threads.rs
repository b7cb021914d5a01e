//! The threads of a capture. The capturing thread reads the interface and writes the file: only what cannot wait, so
//! that it disturbs the benchmark as little as possible. It passes frames to the dissecting thread.

use super::beside::LiveInput;
use super::clock::ClockWatch;
use super::dissecting::{
    CaptureProgress, DissectingThread, PendingQuestions, SharedProgress, SharedWorkListener, SoFar, TICK,
};
use super::only::CommandFilter;
use super::queue::{FrameBatch, QueueInlet, frame_queue};
use super::rotation::{FrameFate, PacketFiles, PacketSet};
use super::warmup::WarmUp;
use anyhow::{Context, Result, anyhow};
use overhead_capture::live::{StopHandle, return_large_blocks};
use overhead_capture::{KernelStats, NextFrame, SourceError, WriteError};
use overhead_dissect::{KeyLog, Totals};
use overhead_model::record::{By, OnlyCommand};
use overhead_model::{Frame, Measured};
use overhead_reading::time::unix_ns;
use overhead_reading::{Dissection, KeyReader, Sampled, Warnings, Windows};
use overhead_report::text::counted;
use overhead_report::{Aggregate, OperationKind};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use tokio::sync::{Notify, oneshot};

/// Frames between two readings of the clock.
const BATCH: u64 = 512;
/// Maximum wait for values on a busy machine.
const PATIENCE: Duration = Duration::from_secs(2);

/// Frames are still delivered this long after a window, and for twice as long before the next one, in nanoseconds. This
/// exceeds a frame's delay and the interval between readings of the clock.
const GRACE_NS: u64 = 250_000_000;

/// Limits of a capture.
#[derive(Clone, Debug, Default)]
pub struct CaptureLimits {
    pub frames: Option<u64>,
    pub operations: Option<u64>,
    /// Frames before this moment, Unix nanoseconds, are dropped: it is when the counters started.
    pub start_ns: Arc<AtomicU64>,
    /// Frames within the warm-up are dropped.
    pub warmup: Option<Arc<WarmUp>>,
    /// Frames outside these windows are dropped.
    pub windows: Option<Windows>,
}

/// Result of the capturing thread.
pub struct CaptureOutcome {
    /// Closed operations.
    pub aggregate: Aggregate,
    /// Totals of the dissection.
    pub totals: Totals,
    /// Estimates from windows.
    pub sampled: Option<Sampled>,
    /// Frames dropped by the kernel.
    pub kernel_drops: Measured<u64>,
    pub packets: PacketSet,
    /// What `--only-command` left out.
    pub only_command: Option<OnlyCommand>,
    pub warnings: Warnings,
}

impl CaptureOutcome {
    /// Returns the outcome of a capture without packets.
    pub fn nothing() -> Self {
        Self {
            aggregate: Aggregate::new(),
            totals: Totals::default(),
            sampled: None,
            kernel_drops: Measured::unavailable("no packets were captured (--bpf-only)"),
            packets: PacketSet::default(),
            only_command: None,
            warnings: Warnings::default(),
        }
    }
}

/// A running capture.
pub struct CaptureThreads {
    thread: JoinHandle<Result<CaptureOutcome>>,
    stop: StopHandle,
    progress: SharedProgress,
    questions: Arc<PendingQuestions>,
    ended: Arc<Notify>,
    keys: Arc<KeyLog>,
}

impl CaptureThreads {
    /// Starts both threads.
    ///
    /// # Errors
    ///
    /// The system refuses a thread.
    pub fn start(
        source: impl LiveInput,
        dissection: Dissection,
        (keys, patience): (KeyReader, Duration),
        packets: Option<PacketFiles>,
        (limits, only): (CaptureLimits, Option<CommandFilter>),
        work: Option<SharedWorkListener>,
    ) -> Result<Self> {
        // Packet files and batches are freed and allocated again during the capture.
        return_large_blocks();
        let stop = source.stop_handle();
        let progress = SharedProgress::default();
        let questions = Arc::<PendingQuestions>::default();
        let (inlet, outlet) = frame_queue();
        let is_behind = inlet.is_behind();
        let log = keys.wait(patience, move || is_behind.load(Ordering::Relaxed));
        let end_ns = Arc::<AtomicU64>::default();
        let dissecting = DissectingThread {
            dissection,
            windows: limits.windows,
            end_ns: Arc::clone(&end_ns),
            keys: Arc::clone(&log),
            limit: limits.operations,
            stop: stop.clone(),
            progress: Arc::clone(&progress),
            questions: Arc::clone(&questions),
            published: None,
            turn_ns: if work.is_some() { 0 } else { u64::MAX },
            work,
        };
        let dissecting = spawn(move || dissecting.run(outlet))?;
        let sink = FrameSink { inlet, packets, warnings: Warnings::default(), is_over: false };
        let mut worker = CaptureWorker {
            source,
            sink,
            limits,
            only,
            is_paused: false,
            end_ns,
            dissecting,
            progress: Arc::clone(&progress),
            questions: Arc::clone(&questions),
            clock: ClockWatch::new(),
        };
        let ended = Arc::new(Notify::new());
        let ending = EndNotice(Arc::clone(&ended));
        let thread = spawn(move || {
            let outcome = worker.run();
            drop(ending);
            worker.end(outcome)
        })?;
        Ok(Self { thread, stop, progress, questions, ended, keys: log })
    }

    /// Waits for the thread to reach a limit, or for the interface to fail.
    pub async fn ended(&self) {
        self.ended.notified().await;
    }

    /// Returns the secrets of TLS connections so far.
    pub fn key_log(&self) -> Arc<KeyLog> {
        Arc::clone(&self.keys)
    }

    /// Returns the progress.
    pub fn progress(&self) -> CaptureProgress {
        *self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks for the operations in all frames so far, the number of these frames, and their bytes on the wire. Returns
    /// `None` if the threads do not answer in time.
    pub async fn kinds(&self, by: By) -> Option<(Vec<OperationKind>, u64, u64)> {
        self.ask_thread(move |dissecting| {
            let kinds = dissecting.dissection.tally().kinds(by);
            let (frames, wire_bytes) = dissecting.dissection.frames();
            (kinds, frames, wire_bytes)
        })
        .await
    }

    /// Asks the dissecting thread once it has dissected all frames so far. Returns `None` if the threads do not answer
    /// in time.
    async fn ask_thread<T: Send + 'static>(
        &self,
        question: impl FnOnce(&mut DissectingThread) -> T + Send + 'static,
    ) -> Option<T> {
        let (told, answer) = oneshot::channel();
        let question = move |dissecting: &mut DissectingThread| drop(told.send(question(dissecting)));
        self.questions.waiting.lock().unwrap_or_else(PoisonError::into_inner).push(Box::new(question));
        self.questions.asked.store(true, Ordering::Release);
        tokio::time::timeout(PATIENCE, answer).await.ok()?.ok()
    }

    /// Returns the values of all frames so far, if frames are captured; without operations if the threads do not
    /// answer in time.
    pub async fn so_far(threads: Option<&Self>) -> Option<SoFar> {
        let threads = threads?;
        let so_far = threads.ask_thread(DissectingThread::so_far).await.unwrap_or_default();
        Some(SoFar { progress: threads.progress(), ..so_far })
    }

    /// Ends the capture now.
    pub fn stop(&self) {
        self.stop.stop();
    }

    /// Ends the capture now, and waits for what was captured before.
    pub fn finish(self) -> Result<CaptureOutcome> {
        self.stop.stop();
        self.thread.join().map_err(|_| anyhow!("the capturing thread failed: this is a bug, please report it"))?
    }
}

fn spawn<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<JoinHandle<T>> {
    let fix = "a thread cannot be started: raise the limit on memory (ulimit -v) or on processes (ulimit -u)";
    thread::Builder::new().spawn(work).context(fix)
}

/// Returns whether a moment lies between windows. `window` caches the last window.
#[inline]
fn outside(windows: Option<Windows>, window: &mut Range<u64>, time_ns: u64) -> bool {
    let Some(windows) = windows else { return false };
    if !window.contains(&time_ns) {
        *window = windows.at_or_after(time_ns);
    }
    !window.contains(&time_ns)
}

/// Reports the end of the capture when dropped, even by a panic.
struct EndNotice(Arc<Notify>);

impl Drop for EndNotice {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}

/// The capturing thread.
struct CaptureWorker<S> {
    source: S,
    sink: FrameSink,
    limits: CaptureLimits,
    /// Leaves out connections of other processes than the command's.
    only: Option<CommandFilter>,
    /// Whether the kernel drops frames.
    is_paused: bool,
    /// When the capture ended, Unix nanoseconds.
    end_ns: Arc<AtomicU64>,
    dissecting: JoinHandle<(Aggregate, Totals, Option<Sampled>)>,
    progress: SharedProgress,
    questions: Arc<PendingQuestions>,
    clock: ClockWatch,
}

/// Destination of frames.
struct FrameSink {
    inlet: QueueInlet<FrameBatch>,
    packets: Option<PacketFiles>,
    warnings: Warnings,
    /// Whether the reader of the file has gone, or the requested number of files is full.
    is_over: bool,
}

impl<S: LiveInput> CaptureWorker<S> {
    fn run(&mut self) -> Result<()> {
        // Writes the header, by which a reader of a pipe sees that the capture has started; frames follow at the next
        // pause.
        self.sink.flush();
        let mut published = Instant::now();
        let (mut frames, mut window) = (0, 0..0);
        while !self.sink.is_over && self.limits.frames.is_none_or(|limit| frames < limit) {
            let idle = match self.source.next_frame()? {
                NextFrame::Frame(frame) => {
                    // The filter needs all frames, to follow every connection from its start.
                    let is_left_out = self.only.as_mut().is_some_and(|only| only.leaves_out(&frame))
                        || frame.time_ns < self.limits.start_ns.load(Ordering::Acquire)
                        || self.limits.warmup.as_ref().is_some_and(|warmup| warmup.leaves_out(frame.time_ns))
                        || outside(self.limits.windows, &mut window, frame.time_ns);
                    frames += u64::from(!is_left_out && self.sink.frame(&frame) == FrameFate::Written);
                    false
                }
                NextFrame::Idle => {
                    self.sink.flush();
                    true
                }
                NextFrame::End => return Ok(()),
            };
            if idle {
                self.pause_between_windows()?;
            }
            if !(idle || frames % BATCH == 0) {
                continue;
            }
            let asked = self.questions.asked.swap(false, Ordering::AcqRel);
            if asked || published.elapsed() >= TICK {
                published = Instant::now();
                self.publish();
            }
            if asked {
                self.sink.inlet.ask();
            }
        }
        // The limit is reached, or no more frames are wanted. A stop has already ended the window.
        self.source.end_window();
        Ok(())
    }

    /// Lets the kernel drop frames between two windows, and resumes well before the next window.
    fn pause_between_windows(&mut self) -> Result<()> {
        let Some(windows) = self.limits.windows else { return Ok(()) };
        let now_ns = unix_ns();
        let is_far = windows.at_or_after(now_ns.saturating_sub(GRACE_NS)).start > now_ns + 2 * GRACE_NS;
        if is_far && !self.is_paused {
            self.source.pause();
        } else if !is_far && self.is_paused {
            self.source.resume()?;
            self.only.iter_mut().for_each(CommandFilter::forget);
        }
        self.is_paused = is_far;
        Ok(())
    }

    fn publish(&mut self) {
        self.clock.check();
        let dropped = self.source.kernel().value().map_or(0, |kernel| kernel.dropped);
        let totals = self.source.totals();
        let [frames, wire_bytes] = self.only.as_ref().map(CommandFilter::left_out).unwrap_or_default();
        let (frames, wire_bytes) = (totals.frames - frames, totals.wire_bytes - wire_bytes);
        let mut now = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        (now.frames, now.wire_bytes, now.dropped) = (frames, wire_bytes, dropped);
    }

    fn end(mut self, outcome: Result<()>) -> Result<CaptureOutcome> {
        self.end_ns.store(unix_ns(), Ordering::Release);
        self.clock.check();
        if let Err(error) = outcome {
            let is_removed = matches!(error.downcast_ref(), Some(SourceError::InterfaceRemoved { .. }));
            if self.source.totals().frames == 0 && !is_removed {
                return Err(error);
            }
            self.sink.warnings.partial(format!("the capture ended early: {error:#}"));
        }
        self.source.losses().into_iter().for_each(|loss| self.sink.warnings.partial(loss));
        self.source.remarks().into_iter().for_each(|remark| self.sink.warnings.remark(remark));
        self.clock.steps().into_iter().for_each(|step| self.sink.warnings.partial(step));
        let (is_whole, warnings) = (self.limits.windows.is_none(), &mut self.sink.warnings);
        let only_command = self.only.map(|only| only.finish(is_whole, warnings));
        let kernel = self.source.kernel();
        let packets = self.sink.close(kernel.value());
        let kernel_drops = kernel.map(|kernel| kernel.dropped);
        let FrameSink { mut warnings, inlet, .. } = self.sink;
        drop(inlet);
        if let Some(dropped) = kernel_drops.value().filter(|dropped| **dropped > 0) {
            warnings.partial(format!(
                "the kernel dropped {} because its buffer was full: enlarge it with -B, or keep less of each frame with -s",
                counted(*dropped, "frame")
            ));
        }
        let dissected = self.dissecting.join();
        let (aggregate, totals, sampled) =
            dissected.map_err(|_| anyhow!("the dissecting thread failed: this is a bug, please report it"))?;
        Ok(CaptureOutcome { aggregate, totals, sampled, kernel_drops, packets, only_command, warnings })
    }
}

impl FrameSink {
    /// Writes a frame and passes it on, unless the requested number of files is full.
    fn frame(&mut self, frame: &Frame<'_>) -> FrameFate {
        match self.packets.as_mut().map(|packets| packets.write(frame)) {
            Some(Ok(FrameFate::Enough)) => {
                self.is_over = true;
                return FrameFate::Enough;
            }
            Some(Err(error)) => self.give_up_file(&error),
            Some(Ok(FrameFate::Written)) | None => {}
        }
        self.inlet.push(frame);
        FrameFate::Written
    }

    fn flush(&mut self) {
        self.inlet.offer();
        let Some(packets) = &mut self.packets else { return };
        // The last file's period can pass without a further frame.
        self.is_over |= packets.is_enough(unix_ns());
        if let Err(error) = packets.flush() {
            self.give_up_file(&error);
        }
    }

    /// The capture continues without the file. If its reader has gone, the capture ends.
    fn give_up_file(&mut self, error: &WriteError) {
        self.is_over = error.is_broken_pipe();
        if !self.is_over {
            self.warnings.partial(format!("{error}; the file ends there, and the capture goes on without it"));
        }
        self.packets = None;
    }

    /// Finishes the last file and returns the files.
    fn close(&mut self, kernel: Option<&KernelStats>) -> PacketSet {
        let finished = self.packets.take().map(|packets| packets.finish(kernel)).transpose();
        finished.inspect_err(|error| self.give_up_file(error)).unwrap_or_default().unwrap_or_default()
    }
}
