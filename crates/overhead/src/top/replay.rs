//! Figures of a capture, replayed at its original speed or another.

use super::feed::{Feed, Look};
use crate::cli::Which;
use crate::inputs;
use crate::keys::{KeyFiles, KeyReader};
use crate::runs::KeptRun;
use crate::warnings::Warnings;
use anyhow::{Result, anyhow};
use overhead_dissect::{Dissector, Selection};
use overhead_model::Frame;
use overhead_model::record::By;
use overhead_report::{Aggregate, OperationKind};
use std::ops::ControlFlow;
use std::path::PathBuf;
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
    /// Starts reading; without a `speed`, reads to the end without delay.
    pub fn open(files: &[PathBuf], which: &Which, keys: &KeyFiles, speed: Option<f64>) -> Result<Self> {
        let kept = match files {
            [path] => KeptRun::open(path)?,
            _ => None,
        };
        let which = kept.as_ref().map_or_else(|| which.clone(), |kept| kept.which(which));
        let name = kept.as_ref().map(KeptRun::name);
        let first = files.first().map_or_else(String::new, |path| path.display().to_string());
        let mut title = name.unwrap_or(first);
        if files.len() > 1 {
            title = format!("{title} and {} more", files.len() - 1);
        }
        if let Some(speed) = speed.filter(|speed| (speed - 1.0).abs() > f64::EPSILON) {
            title = format!("{title}, {speed} times as fast");
        }
        let files = kept.map_or_else(|| files.to_vec(), |kept| kept.packets);
        // Report unreadable files before the screen appears.
        for file in files.iter().filter(|file| inputs::can_be_read_again(file)) {
            overhead_capture::FileSource::open(file)?;
        }
        let (selection, keys) = (which.selection()?, keys.clone());
        let (requests, asked) = channel();
        let thread = std::thread::spawn(move || Replay::new(asked, speed).run(&files, selection, &keys));
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
    fn new(asked: Receiver<Request>, speed: Option<f64>) -> Self {
        Self { asked, speed, clock: None, paused: false, deserted: false, frames: 0, wire_bytes: 0 }
    }

    fn run(mut self, files: &[PathBuf], selection: Selection, keys: &KeyFiles) -> Result<Warnings> {
        let mut warnings = Warnings::default();
        let keys = KeyReader::read(keys, &mut warnings)?;
        let tally = Aggregate::new().with_rows_by(By::Connection);
        let mut dissector = Dissector::new(selection, tally).with_keys(keys.log());
        let findings = inputs::read(files, &keys, |_: usize, frame: &Frame<'_>| {
            keys.commit();
            if self.wait(frame, &mut dissector).is_break() {
                return ControlFlow::Break(());
            }
            self.frames += 1;
            self.wire_bytes += u64::from(frame.wire_len());
            dissector.frame(frame);
            ControlFlow::Continue(())
        })?;
        findings.report(&mut warnings);
        let (aggregate, totals) = dissector.finish();
        warnings.of_totals(&totals);
        while let Ok(request) = self.asked.recv() {
            if let Request::Look(by, told) = request {
                let _ = told.send(Look { is_over: true, ..self.look(aggregate.kinds(by)) });
            }
        }
        Ok(warnings)
    }

    /// Answers requests until the frame is due; breaks off once nobody can ask any more.
    fn wait(&mut self, frame: &Frame<'_>, dissector: &mut Dissector<Aggregate>) -> ControlFlow<()> {
        let clock = self.clock.get_or_insert_with(|| Clock {
            first_ns: frame.time_ns,
            latest_ns: frame.time_ns,
            begun: Instant::now(),
            held: None,
        });
        clock.latest_ns = clock.latest_ns.max(frame.time_ns);
        let Some(speed) = self.speed else { return ControlFlow::Continue(()) };
        let due = Duration::from_nanos((clock.latest_ns.saturating_sub(clock.first_ns) as f64 / speed) as u64);
        if !self.frames.is_multiple_of(BATCH) && clock.begun.elapsed() >= due && !self.paused {
            return ControlFlow::Continue(());
        }
        loop {
            let left = self.clock.as_ref().map_or(Duration::ZERO, |clock| due.saturating_sub(clock.begun.elapsed()));
            let request = match (self.paused, left) {
                (true, _) => self.asked.recv().map_err(|_| RecvTimeoutError::Disconnected),
                (false, left) => self.asked.recv_timeout(left),
            };
            match request {
                Ok(request) => self.answer(request, dissector),
                Err(RecvTimeoutError::Timeout) => return ControlFlow::Continue(()),
                Err(RecvTimeoutError::Disconnected) => self.deserted = true,
            }
            if self.deserted {
                return ControlFlow::Break(());
            }
        }
    }

    fn answer(&mut self, request: Request, dissector: &mut Dissector<Aggregate>) {
        match request {
            Request::Look(by, told) => drop(told.send(self.look(dissector.tally().kinds(by)))),
            Request::Pause(paused) => {
                self.paused = paused;
                if let Some(clock) = &mut self.clock {
                    clock.hold(paused);
                }
            }
        }
    }

    fn look(&self, kinds: Vec<OperationKind>) -> Look {
        let at = self.clock.as_ref().map_or(0, |clock| clock.latest_ns.saturating_sub(clock.first_ns));
        let (frames, wire_bytes) = (self.frames, self.wire_bytes);
        Look { at: Duration::from_nanos(at), frames, wire_bytes, dropped: 0, kinds, is_over: false }
    }
}
