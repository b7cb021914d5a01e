//! Figures of a capture, replayed at its original speed or another.

use super::{Feed, Look};
use anyhow::{Result, anyhow};
use overhead_model::Frame;
use overhead_model::record::By;
use overhead_reading::{Dissect, DissectPlan, Dissection, InputPlan, Warnings, can_be_read_again};
use overhead_report::{Aggregate, OperationKind};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Frames between checks for requests while frames are not delayed.
const BATCH: u64 = 1024;
/// How long to wait for the figures of one moment.
const PATIENCE: Duration = Duration::from_secs(10);

enum Request {
    Look(By, SyncSender<Look>),
    Pause(bool),
}

/// A capture read by a separate thread.
pub struct ReplayFeed {
    thread: JoinHandle<Result<Warnings>>,
    requests: Sender<Request>,
    title: String,
    is_whole: bool,
}

impl ReplayFeed {
    /// Starts to read: at full speed without `speed`.
    pub fn open(input: InputPlan, speed: Option<f64>) -> Result<Self> {
        let mut title = input.name();
        if let Some(speed) = speed.filter(|speed| (speed - 1.0).abs() > f64::EPSILON) {
            title = format!("{title}, {speed} times as fast");
        }
        // Reports unreadable files before there is a screen.
        for file in input.files.iter().filter(|file| can_be_read_again(file)) {
            overhead_capture::FileSource::open(file)?;
        }
        let (requests, asked) = channel();
        let thread = std::thread::spawn(move || Replay::run(&input, asked, speed));
        Ok(Self { thread, requests, title, is_whole: speed.is_none() })
    }
}

impl Feed for ReplayFeed {
    fn title(&self) -> String {
        self.title.clone()
    }

    fn look(&mut self, by: By) -> Result<Option<Look>> {
        let (told, answer) = sync_channel(1);
        // If the thread has failed, `finish` returns its error.
        let _ = self.requests.send(Request::Look(by, told));
        let look = if self.is_whole { answer.recv().ok() } else { answer.recv_timeout(PATIENCE).ok() };
        Ok(look.or_else(|| self.thread.is_finished().then(|| Look { is_over: true, ..Look::default() })))
    }

    fn takes_time(&self) -> bool {
        !self.is_whole
    }

    fn pause(&mut self, paused: bool) {
        let _ = self.requests.send(Request::Pause(paused));
    }

    fn finish(self: Box<Self>) -> Result<Warnings> {
        let Self { thread, requests, .. } = *self;
        drop(requests);
        thread.join().map_err(|_| anyhow!("the reading thread failed: this is a bug, please report it"))?
    }
}

/// State of the reading thread.
struct Replay {
    dissection: Dissection,
    asked: Receiver<Request>,
    speed: Option<f64>,
    clock: Option<Clock>,
    paused: bool,
    /// The screen has stopped asking.
    deserted: bool,
    frames: u64,
    wire_bytes: u64,
}

/// Relates the capture's time to real time.
struct Clock {
    first_ns: u64,
    latest_ns: u64,
    begun: Instant,
    held: Option<Instant>,
}

impl Clock {
    /// Stops the clock, or lets it continue from the same moment.
    fn hold(&mut self, holds: bool) {
        match (holds, self.held.take()) {
            (true, held) => self.held = held.or_else(|| Some(Instant::now())),
            (false, Some(since)) => self.begun += since.elapsed(),
            (false, None) => {}
        }
    }
}

impl Replay {
    fn run(input: &InputPlan, asked: Receiver<Request>, speed: Option<f64>) -> Result<Warnings> {
        let mut warnings = Warnings::default();
        let keys = input.read_keys(&mut warnings)?;
        let tally = Aggregate::new().with_rows_by(By::Connection);
        let dissection = DissectPlan::default().dissection(&input.selection, keys.log(), tally, None);
        let (clock, frames, wire_bytes) = (None, 0, 0);
        let mut replay = Self { dissection, asked, speed, clock, paused: false, deserted: false, frames, wire_bytes };
        input.read(&mut replay, &keys, &mut warnings)?;
        let Self { dissection, asked, clock, frames, wire_bytes, .. } = replay;
        let (aggregate, totals, _) = dissection.finish(None);
        warnings.warn_of_totals(&totals);
        while let Ok(request) = asked.recv() {
            if let Request::Look(by, told) = request {
                let look = figures(clock.as_ref(), (frames, wire_bytes), aggregate.kinds(by));
                let _ = told.send(Look { is_over: true, ..look });
            }
        }
        Ok(warnings)
    }

    /// Answers requests until a frame is due, or until the screen has gone.
    fn wait(&mut self, frame: &Frame<'_>) {
        let clock = self.clock.get_or_insert_with(|| Clock {
            first_ns: frame.time_ns,
            latest_ns: frame.time_ns,
            begun: Instant::now(),
            held: None,
        });
        clock.latest_ns = clock.latest_ns.max(frame.time_ns);
        let Some(speed) = self.speed else { return };
        let due = Duration::from_nanos((clock.latest_ns.saturating_sub(clock.first_ns) as f64 / speed) as u64);
        if !self.frames.is_multiple_of(BATCH) && clock.begun.elapsed() >= due && !self.paused {
            return;
        }
        while !self.deserted {
            let left = self.clock.as_ref().map_or(Duration::ZERO, |clock| due.saturating_sub(clock.begun.elapsed()));
            let request = match (self.paused, left) {
                (true, _) => self.asked.recv().map_err(|_| RecvTimeoutError::Disconnected),
                (false, left) => self.asked.recv_timeout(left),
            };
            match request {
                Ok(request) => self.answer(request),
                Err(RecvTimeoutError::Timeout) => return,
                Err(RecvTimeoutError::Disconnected) => self.deserted = true,
            }
        }
    }

    fn answer(&mut self, request: Request) {
        match request {
            Request::Look(by, told) => {
                let kinds = self.dissection.tally().kinds(by);
                drop(told.send(figures(self.clock.as_ref(), (self.frames, self.wire_bytes), kinds)));
            }
            Request::Pause(paused) => {
                self.paused = paused;
                if let Some(clock) = &mut self.clock {
                    clock.hold(paused);
                }
            }
        }
    }
}

impl Dissect for Replay {
    fn frame(&mut self, frame: &Frame<'_>) {
        self.wait(frame);
        if !self.deserted {
            self.frames += 1;
            self.wire_bytes += u64::from(frame.wire_len());
            self.dissection.dissect(frame);
        }
    }

    fn is_over(&mut self) -> bool {
        self.deserted
    }
}

fn figures(clock: Option<&Clock>, (frames, wire_bytes): (u64, u64), kinds: Vec<OperationKind>) -> Look {
    let at = clock.map_or(0, |clock| clock.latest_ns.saturating_sub(clock.first_ns));
    Look { at: Duration::from_nanos(at), frames, wire_bytes, kinds, ..Look::default() }
}
