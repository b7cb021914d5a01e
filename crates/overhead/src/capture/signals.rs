//! Signals to a capture, heard from before anything is started.

use super::or_never;
use anyhow::{Context, Result};
use overhead_model::say;
use rustix::time::{ClockId, clock_gettime};
use std::fs;
use std::time::{Duration, Instant};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// The signals that mean something to a capture.
pub struct CaptureSignals {
    /// Somebody wants it to end.
    pub end: EndSignals,
    /// Somebody wants to know the figures so far.
    pub usr1: Signal,
    /// A process of the command has ended.
    pub child: Signal,
}

/// Signals that end a capture.
pub struct EndSignals {
    interrupt: Signal,
    terminate: Signal,
    /// The terminal went away; `None` if the signal is ignored, as under nohup.
    hangup: Option<Signal>,
    /// How somebody asked first.
    first: Option<EndRequest>,
    /// How often somebody did.
    heard: u32,
}

/// How long a thread may wait for a file, a pipe or a disk once somebody has asked for the end.
const PATIENCE: Duration = Duration::from_secs(5);
/// A process that used less of a processor within [`PATIENCE`] waits; one that works uses much more.
const WORK: Duration = Duration::from_millis(50);
/// How often it is looked which of the two it does.
const LOOK: Duration = Duration::from_millis(250);

/// How somebody asked for the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndRequest {
    /// By Ctrl-C, or by the signal that it sends.
    Interrupt,
    /// By another signal.
    Otherwise,
}

impl CaptureSignals {
    /// Listens from here on.
    pub fn new() -> std::io::Result<Self> {
        let minds_hangup = !ignores(SignalKind::hangup());
        let end = EndSignals {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: minds_hangup.then(|| signal(SignalKind::hangup())).transpose()?,
            first: None,
            heard: 0,
        };
        Ok(Self { end, usr1: signal(SignalKind::user_defined1())?, child: signal(SignalKind::child())? })
    }
}

impl EndSignals {
    /// Waits for the next one.
    pub async fn recv(&mut self) -> EndRequest {
        let asked = tokio::select! {
            _ = self.interrupt.recv() => EndRequest::Interrupt,
            _ = self.terminate.recv() => EndRequest::Otherwise,
            _ = or_never(self.hangup.as_mut().map(Signal::recv)) => EndRequest::Otherwise,
        };
        self.first.get_or_insert(asked);
        self.heard += 1;
        asked
    }

    /// Returns how somebody asked for the end so far.
    pub fn asked(&self) -> Option<EndRequest> {
        self.first
    }

    /// Returns whether somebody has asked for the end so far.
    pub async fn was_heard(&mut self) -> bool {
        tokio::select! {
            biased;
            _ = self.recv() => {}
            () = std::future::ready(()) => {}
        }
        self.heard > 0
    }

    /// Does in a thread of its own what takes long, or waits for a file, a pipe or a disk. Returns `None`, and leaves the thread
    /// behind, if somebody asks for the end a second time, before or meanwhile, or has asked once and the thread only waits.
    /// The first time, `notice` is printed.
    pub async fn unless_aborted<T: Send + 'static>(
        &mut self,
        notice: Option<&str>,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<Option<T>> {
        let (done, mut outcome) = tokio::sync::oneshot::channel();
        let runtime = tokio::runtime::Handle::current();
        let in_runtime = move || {
            let _entered = runtime.enter();
            // Nobody waits for the outcome any more if it was aborted.
            done.send(work()).is_ok()
        };
        std::thread::Builder::new().name("session".to_owned()).spawn(in_runtime)?;
        let (mut looks, mut last) = (tokio::time::interval(LOOK), (Instant::now(), cpu_time()));
        loop {
            tokio::select! {
                biased;
                outcome = &mut outcome => {
                    return outcome.map(Some).context("a thread of the capture failed: this is a bug, please report it");
                }
                _ = self.recv() => {
                    if self.heard > 1 {
                        return Ok(None);
                    }
                    if let Some(notice) = notice {
                        say!("{notice}");
                    }
                    last = (Instant::now(), cpu_time());
                }
                _ = looks.tick(), if self.heard > 0 => {
                    let now = cpu_time();
                    if now.saturating_sub(last.1) > WORK {
                        last = (Instant::now(), now);
                    } else if last.0.elapsed() > PATIENCE {
                        return Ok(None);
                    }
                }
            }
        }
    }
}

/// Returns the time on processors of all threads.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::try_from(time).unwrap_or_default()
}

/// Returns whether this process was started with the signal ignored.
fn ignores(kind: SignalKind) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let set = ignored.and_then(|set| u64::from_str_radix(set.trim(), 16).ok()).unwrap_or(0);
    set >> (kind.as_raw_value() - 1) & 1 == 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::{Signal as Kill, getpid, kill_process};
    use std::sync::mpsc::channel;

    #[tokio::test]
    async fn a_second_signal_ends_what_takes_long_and_the_first_does_not() {
        let mut signals = CaptureSignals::new().unwrap();
        assert_eq!(signals.end.unless_aborted(None, || 7).await.unwrap(), Some(7));
        kill_process(getpid(), Kill::INT).unwrap();
        assert_eq!(signals.end.recv().await, EndRequest::Interrupt);
        assert_eq!(signals.end.unless_aborted(None, || 7).await.unwrap(), Some(7));
        let (stop, until) = channel::<()>();
        let work = move || {
            kill_process(getpid(), Kill::TERM).unwrap();
            // Ends when the test does.
            until.recv().is_err()
        };
        assert_eq!(signals.end.unless_aborted(None, work).await.unwrap(), None);
        drop(stop);
    }
}
