//! The capturing thread, from the interface to the file, and the dissecting one, which has the same frames from a queue.
//!
//! The benchmark is to notice as little as possible: what cannot wait is done by the first, and the second runs in the time
//! that nobody else wants, as long as it keeps up.

use super::clock::ClockWatch;
use super::queue::{LiveInlet, LiveOutlet, queue};
use super::rotation::{PacketFiles, PacketSet, Taken};
use super::warmup::WarmUp;
use crate::keys::KeyReader;
use crate::sample::{Sampled, Sampler, Windows};
use crate::time::unix_ns;
use crate::warnings::Warnings;
use anyhow::{Result, anyhow};
use overhead_capture::live::{LiveSource, StopHandle, return_large_blocks};
use overhead_capture::{FrameSource, KernelStats, NextFrame, SourceError, WriteError};
use overhead_dissect::{Dissector, KeyLog, Totals};
use overhead_kernel::WorkListener;
#[cfg(feature = "top")]
use overhead_model::record::By;
use overhead_model::record::OperationRow;
use overhead_model::{Amounts, Class, Frame, Measured, Side};
use overhead_report::Aggregate;
#[cfg(feature = "top")]
use overhead_report::OperationKind;
use overhead_report::text::counted;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::sync::{Notify, oneshot};

/// How often progress is published.
const TICK: Duration = Duration::from_millis(250);
/// Frames between looks at the clock.
const BATCH: u64 = 512;
/// How long is waited for the figures of a moment, where the machine is busy.
const PATIENCE: Duration = Duration::from_secs(2);

/// Frames are still delivered so long after a window, and again twice as long before the next, nanoseconds: more than a frame is
/// on its way, and than the looks at the clock lie apart.
const GRACE_NS: u64 = 250_000_000;

type Shared = Arc<Mutex<CaptureProgress>>;

/// Who hears of operations, near the windows in which the kernel's work is sampled.
pub type SharedWorkListener = Arc<Mutex<WorkListener>>;

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
    /// A row for each kind of operation, with how many took how long.
    pub operations: Vec<OperationRow>,
    /// Bytes posted to these, request and response.
    pub ledger: [Amounts; 2],
    /// Frames that were dissected.
    pub frames: u64,
    /// Their lengths on the wire.
    pub wire_bytes: u64,
    /// Time that frames were captured in, nanoseconds; `None` for all of it.
    pub covered_ns: Option<u64>,
}

/// What the dissecting thread knows at a moment.
#[derive(Clone, Debug, Default)]
struct Figures {
    operations: Vec<OperationRow>,
    ledger: [Amounts; 2],
    frames: u64,
    wire_bytes: u64,
    covered_ns: Option<u64>,
}

/// Something to be asked of the dissecting thread.
type Question = Box<dyn FnOnce(&mut Dissecting) + Send>;

/// Questions on their way through both threads.
#[derive(Default)]
struct Questions {
    asked: AtomicBool,
    waiting: Mutex<Vec<Question>>,
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
    /// Frames outside of these are left out.
    pub windows: Option<Windows>,
}

/// What frames are taken apart by.
pub enum Dissection {
    /// All of them.
    Whole(Box<Dissector<Aggregate>>),
    /// Those of windows.
    Windows(Box<Sampler>),
}

impl Dissection {
    #[inline]
    fn frame(&mut self, frame: &Frame<'_>) {
        match self {
            Self::Whole(dissector) => dissector.frame(frame),
            Self::Windows(sampler) => sampler.take(frame),
        }
    }

    /// Lets the listener hear of operations from now on, or no longer. With windows nothing is counted, and nobody listens.
    fn listen(&mut self, is_listening: bool) {
        if let Self::Whole(dissector) = self {
            dissector.listen(is_listening);
        }
    }

    fn tally(&mut self) -> &Aggregate {
        match self {
            Self::Whole(dissector) => dissector.tally(),
            Self::Windows(sampler) => sampler.tally(),
        }
    }

    /// Returns frames and their bytes on the wire so far.
    fn frames(&self) -> (u64, u64) {
        match self {
            Self::Whole(dissector) => (dissector.totals().frames, dissector.totals().wire_bytes),
            Self::Windows(sampler) => sampler.frames(),
        }
    }

    fn finish(self, end_ns: u64) -> (Aggregate, Totals, Option<Sampled>) {
        match self {
            Self::Whole(dissector) => {
                let (aggregate, totals) = dissector.finish();
                (aggregate, totals, None)
            }
            Self::Windows(sampler) => sampler.finish(Some(end_ns)),
        }
    }
}

/// What the thread comes back with.
pub struct CaptureOutcome {
    /// Closed operations.
    pub aggregate: Aggregate,
    /// Totals of the dissection.
    pub totals: Totals,
    /// What there was of windows.
    pub sampled: Option<Sampled>,
    /// Frames the kernel dropped.
    pub kernel_drops: Measured<u64>,
    /// The packet files; none where none are kept.
    pub packets: PacketSet,
    /// What went wrong.
    pub warnings: Warnings,
}

/// A source that goes on until it is stopped.
pub trait LiveInput: FrameSource + Send + 'static {
    /// Returns a handle that ends it.
    fn stop_handle(&self) -> StopHandle;

    /// Returns what was delivered so far.
    fn totals(&self) -> &overhead_capture::LiveTotals;

    /// Nothing that comes from here on counts.
    fn end_window(&mut self);

    /// Has the kernel leave frames out until [`LiveInput::resume`], where it can: they are not wanted.
    fn pause(&mut self) {}

    /// Has the kernel deliver frames again.
    fn resume(&mut self) -> Result<()> {
        Ok(())
    }

    /// Why not all that was delivered is whole, in whole sentences.
    fn losses(&self) -> Vec<String> {
        Vec::new()
    }

    /// What there is to know of it though nothing was lost, in whole sentences.
    fn remarks(&self) -> Vec<String> {
        Vec::new()
    }
}

impl LiveInput for LiveSource {
    fn stop_handle(&self) -> StopHandle {
        self.stop_handle()
    }

    fn totals(&self) -> &overhead_capture::LiveTotals {
        self.totals()
    }

    fn end_window(&mut self) {
        self.end_window();
    }

    fn pause(&mut self) {
        self.pause();
    }

    fn resume(&mut self) -> Result<()> {
        Ok(self.resume()?)
    }

    fn remarks(&self) -> Vec<String> {
        let times = u64::from(self.times_down());
        let said = || {
            format!(
                "the interface went down {} while it was captured on: there were no frames then, and connections may have \
                 ended or repeated themselves",
                counted(times, "time")
            )
        };
        (times > 0).then(said).into_iter().collect()
    }
}

/// A running capture.
pub struct Capturing {
    thread: JoinHandle<Result<CaptureOutcome>>,
    stop: StopHandle,
    progress: Shared,
    questions: Arc<Questions>,
    ended: Arc<Notify>,
    keys: Arc<KeyLog>,
}

impl Capturing {
    /// Starts the thread.
    pub fn start(
        source: impl LiveInput,
        dissection: Dissection,
        keys: KeyReader,
        packets: Option<PacketFiles>,
        limits: Limits,
        work: Option<SharedWorkListener>,
    ) -> Self {
        // Packet files and batches come and go as long as it runs.
        return_large_blocks();
        let stop = source.stop_handle();
        let progress = Shared::default();
        let questions = Arc::<Questions>::default();
        let (inlet, outlet) = queue();
        let log = keys.log();
        let end_ns = Arc::<AtomicU64>::default();
        let dissecting = Dissecting {
            dissection,
            windows: limits.windows,
            end_ns: Arc::clone(&end_ns),
            keys,
            limit: limits.operations,
            stop: stop.clone(),
            progress: Arc::clone(&progress),
            questions: Arc::clone(&questions),
            published: None,
            turn_ns: if work.is_some() { 0 } else { u64::MAX },
            work,
        };
        let dissecting = std::thread::spawn(move || dissecting.run(outlet));
        let sink = Sink { inlet, packets, warnings: Warnings::default(), is_over: false };
        let mut worker = Worker {
            source,
            sink,
            limits,
            is_paused: false,
            end_ns,
            dissecting,
            progress: Arc::clone(&progress),
            questions: Arc::clone(&questions),
            clock: ClockWatch::new(),
        };
        let ended = Arc::new(Notify::new());
        let ending = Ending(Arc::clone(&ended));
        let thread = std::thread::spawn(move || {
            let outcome = worker.run();
            drop(ending);
            worker.end(outcome)
        });
        Self { thread, stop, progress, questions, ended, keys: log }
    }

    /// Waits until the thread ends by itself: a limit was reached, or the interface failed.
    pub async fn ended(&self) {
        self.ended.notified().await;
    }

    /// Returns the secrets of TLS connections so far.
    pub fn key_log(&self) -> Arc<KeyLog> {
        Arc::clone(&self.keys)
    }

    /// Returns how far it is.
    pub fn progress(&self) -> CaptureProgress {
        *self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks what operations came to in all frames up to now, how many frames these are, and their bytes on the wire; `None` where
    /// the threads do not answer in time.
    #[cfg(feature = "top")]
    pub async fn kinds(&self, by: By) -> Option<(Vec<OperationKind>, u64, u64)> {
        self.ask_thread(move |dissecting| {
            let kinds = dissecting.dissection.tally().kinds(by);
            let (frames, wire_bytes) = dissecting.dissection.frames();
            (kinds, frames, wire_bytes)
        })
        .await
    }

    /// Asks the dissecting thread, once it has taken in all frames up to now; `None` where the threads do not answer in time.
    async fn ask_thread<T: Send + 'static>(
        &self,
        question: impl FnOnce(&mut Dissecting) -> T + Send + 'static,
    ) -> Option<T> {
        let (told, answer) = oneshot::channel();
        let question = move |dissecting: &mut Dissecting| drop(told.send(question(dissecting)));
        self.questions.waiting.lock().unwrap_or_else(PoisonError::into_inner).push(Box::new(question));
        self.questions.asked.store(true, Ordering::Release);
        tokio::time::timeout(PATIENCE, answer).await.ok()?.ok()
    }

    /// The figures of all frames up to now; without operations where the threads do not answer in time.
    pub async fn so_far(&self) -> SoFar {
        let Figures { operations, ledger, frames, wire_bytes, covered_ns } =
            self.ask_thread(Dissecting::figures).await.unwrap_or_default();
        SoFar { progress: self.progress(), operations, ledger, frames, wire_bytes, covered_ns }
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

/// Returns whether a moment lies outside of the windows, where there are any. `window` is the one of the moment before.
#[inline]
fn outside(windows: Option<Windows>, window: &mut Range<u64>, time_ns: u64) -> bool {
    let Some(windows) = windows else { return false };
    if !window.contains(&time_ns) {
        *window = windows.at_or_after(time_ns);
    }
    !window.contains(&time_ns)
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
    /// The kernel leaves frames out.
    is_paused: bool,
    /// When the capture ended, Unix nanoseconds.
    end_ns: Arc<AtomicU64>,
    dissecting: JoinHandle<(Aggregate, Totals, Option<Sampled>)>,
    progress: Shared,
    questions: Arc<Questions>,
    clock: ClockWatch,
}

/// Where frames go.
struct Sink {
    inlet: LiveInlet,
    packets: Option<PacketFiles>,
    warnings: Warnings,
    /// The reader of the file went away, or there are as many files as were asked for.
    is_over: bool,
}

impl<S: LiveInput> Worker<S> {
    fn run(&mut self) -> Result<()> {
        // A reader of a pipe sees by the header that the capture has begun, and frames as soon as there is a pause.
        self.sink.flush();
        let mut published = Instant::now();
        let (mut frames, mut window) = (0, 0..0);
        while !self.sink.is_over && self.limits.frames.is_none_or(|limit| frames < limit) {
            let idle = match self.source.next_frame()? {
                NextFrame::Frame(frame)
                    if self.limits.warmup.as_ref().is_some_and(|warmup| warmup.has(frame.time_ns)) =>
                {
                    false
                }
                NextFrame::Frame(frame) if outside(self.limits.windows, &mut window, frame.time_ns) => false,
                NextFrame::Frame(frame) => {
                    if self.sink.frame(&frame) == Taken::Written {
                        // A TLS library's call is no frame.
                        frames += u64::from(frame.wire_len() > 0);
                    }
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
        // There are enough, or nobody wants more: a stop has ended the window already.
        self.source.end_window();
        Ok(())
    }

    /// Lets the kernel leave out what is between two windows. It is asked for frames again well before the next one begins.
    fn pause_between_windows(&mut self) -> Result<()> {
        let Some(windows) = self.limits.windows else { return Ok(()) };
        let now_ns = unix_ns();
        let is_far = windows.at_or_after(now_ns.saturating_sub(GRACE_NS)).start > now_ns + 2 * GRACE_NS;
        if is_far && !self.is_paused {
            self.source.pause();
        } else if !is_far && self.is_paused {
            self.source.resume()?;
        }
        self.is_paused = is_far;
        Ok(())
    }

    fn publish(&mut self) {
        self.clock.look();
        let dropped = self.source.kernel().value().map_or(0, |kernel| kernel.dropped);
        let totals = self.source.totals();
        let mut now = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        (now.frames, now.wire_bytes, now.dropped) = (totals.frames, totals.wire_bytes, dropped);
    }

    fn end(mut self, outcome: Result<()>) -> Result<CaptureOutcome> {
        self.end_ns.store(unix_ns(), Ordering::Release);
        self.clock.look();
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
        let kernel = self.source.kernel();
        let packets = self.sink.close(kernel.value());
        let kernel_drops = match kernel {
            Measured::Value(kernel) => Measured::Value(kernel.dropped),
            Measured::Unavailable { unavailable } => Measured::Unavailable { unavailable },
        };
        let Sink { mut warnings, inlet, .. } = self.sink;
        drop(inlet);
        if let Some(dropped) = kernel_drops.value().filter(|dropped| **dropped > 0) {
            warnings.partial(format!(
                "the kernel dropped {} for want of buffer: give it more with -B, or keep less of each with -s",
                counted(*dropped, "frame")
            ));
        }
        let dissected = self.dissecting.join();
        let (aggregate, totals, sampled) =
            dissected.map_err(|_| anyhow!("the dissecting thread failed: this is a bug, please report it"))?;
        Ok(CaptureOutcome { aggregate, totals, sampled, kernel_drops, packets, warnings })
    }
}

impl Sink {
    /// Writes a frame and hands it on, unless there are files enough without it.
    fn frame(&mut self, frame: &Frame<'_>) -> Taken {
        match self.packets.as_mut().map(|packets| packets.write(frame)) {
            Some(Ok(Taken::Enough)) => {
                self.is_over = true;
                return Taken::Enough;
            }
            Some(Err(error)) => self.give_up_file(&error),
            Some(Ok(Taken::Written)) | None => {}
        }
        self.inlet.push(frame);
        Taken::Written
    }

    fn flush(&mut self) {
        self.inlet.hand_over();
        let Some(packets) = &mut self.packets else { return };
        // Nobody may send a frame once the last file is full.
        self.is_over |= packets.is_enough(unix_ns());
        if let Err(error) = packets.flush() {
            self.give_up_file(&error);
        }
    }

    /// The figures go on without the file; where nobody reads it any more, the capture ends.
    fn give_up_file(&mut self, error: &WriteError) {
        self.is_over = error.is_broken_pipe();
        if !self.is_over {
            self.warnings.partial(format!("{error}; the file ends there, and the figures go on without it"));
        }
        self.packets = None;
    }

    /// Ends the last file; gives what there is.
    fn close(&mut self, kernel: Option<&KernelStats>) -> PacketSet {
        let finished = self.packets.take().map(|packets| packets.finish(kernel)).transpose();
        finished
            .unwrap_or_else(|error| {
                self.give_up_file(&error);
                None
            })
            .unwrap_or_default()
    }
}

/// The dissecting thread.
struct Dissecting {
    dissection: Dissection,
    windows: Option<Windows>,
    /// When the capture ended, once it has.
    end_ns: Arc<AtomicU64>,
    keys: KeyReader,
    /// Operations after which the capture is to end.
    limit: Option<u64>,
    stop: StopHandle,
    progress: Shared,
    questions: Arc<Questions>,
    published: Option<Instant>,
    work: Option<SharedWorkListener>,
    /// When that is to be asked again whether it listens.
    turn_ns: u64,
}

impl Dissecting {
    fn run(mut self, frames: LiveOutlet) -> (Aggregate, Totals, Option<Sampled>) {
        let in_background = self.limit.is_none();
        frames.drain(in_background, &mut self, Self::frame, Self::publish);
        self.dissection.finish(self.end_ns.load(Ordering::Acquire))
    }

    fn frame(&mut self, frame: &Frame<'_>) {
        self.keys.refresh(frame.time_ns);
        if frame.time_ns >= self.turn_ns {
            self.turn(frame.time_ns);
        }
        self.dissection.frame(frame);
    }

    /// Returns the figures of all frames so far.
    fn figures(&mut self) -> Figures {
        let tally = self.dissection.tally();
        let (operations, ledger) = (tally.timed_operations(), Side::BOTH.map(|side| tally.ledger(side)));
        let (frames, wire_bytes) = self.dissection.frames();
        let covered_ns = self.windows.map(|windows| windows.covered_ns(unix_ns()));
        Figures { operations, ledger, frames, wire_bytes, covered_ns }
    }

    /// A window in which work is sampled comes near, or is over.
    #[cold]
    fn turn(&mut self, time_ns: u64) {
        let Some(work) = &self.work else { return };
        let (is_listening, until_ns) = work.lock().unwrap_or_else(PoisonError::into_inner).advance_to(time_ns);
        self.turn_ns = until_ns;
        self.dissection.listen(is_listening);
    }

    /// Says how many operations there are, and of what kind where that is `asked`, and ends the capture where they are enough.
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
