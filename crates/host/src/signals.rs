//! Signals to a capture, received from before anything is started.

use anyhow::{Context, Result};
use overhead_model::say;
use rustix::process::Signal as Kill;
use rustix::time::{ClockId, clock_gettime};
use std::fs;
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// The signals that a capture handles.
pub struct CaptureSignals {
    /// Requests to end the capture.
    pub end: EndSignals,
    /// Requests for the values so far.
    pub usr1: Signal,
    /// Reports that a process of the command has ended.
    pub child: Signal,
    /// Turns the signal at the limit of a file's size (`ulimit -f`) into an error of the write.
    _file_size: Signal,
}

/// Signals that end a capture.
pub struct EndSignals {
    interrupt: Signal,
    terminate: Signal,
    /// The terminal's disconnection; `None` if the signal is ignored, as under nohup. If it is taken, it is no request to end any more.
    pub hangup: Option<Signal>,
    /// The first request so far.
    pub first: Option<EndRequest>,
    /// Number of requests.
    requests: u32,
}

/// Time that a thread may wait for a file, a pipe or a disk after a request to end.
const PATIENCE: Duration = Duration::from_secs(5);
/// A process that used less CPU time than this within [`PATIENCE`] is waiting; one that works uses much more.
const WORK: Duration = Duration::from_millis(50);
/// Interval between these checks.
const CHECK_INTERVAL: Duration = Duration::from_millis(250);

/// How the user requested the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndRequest {
    /// By Ctrl-C or its signal.
    Interrupt,
    /// By another signal.
    Otherwise,
}

impl CaptureSignals {
    /// Starts to listen.
    pub fn new() -> std::io::Result<Self> {
        let handles_hangup = !ignores(SignalKind::hangup());
        let end = EndSignals {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: handles_hangup.then(|| signal(SignalKind::hangup())).transpose()?,
            first: None,
            requests: 0,
        };
        let file_size = signal(SignalKind::from_raw(Kill::XFSZ.as_raw()))?;
        let (usr1, child) = (signal(SignalKind::user_defined1())?, signal(SignalKind::child())?);
        Ok(Self { end, usr1, child, _file_size: file_size })
    }
}

impl EndSignals {
    /// Waits for the next request.
    pub async fn recv(&mut self) -> EndRequest {
        let asked = tokio::select! {
            _ = self.interrupt.recv() => EndRequest::Interrupt,
            _ = self.terminate.recv() => EndRequest::Otherwise,
            _ = or_never(self.hangup.as_mut().map(Signal::recv)) => EndRequest::Otherwise,
        };
        self.first.get_or_insert(asked);
        self.requests += 1;
        asked
    }

    /// Returns whether there was a request so far.
    pub async fn was_requested(&mut self) -> bool {
        tokio::select! {
            biased;
            _ = self.recv() => {}
            () = std::future::ready(()) => {}
        }
        self.requests > 0
    }

    /// Runs long or blocking work in a separate thread. Returns `None` and abandons the thread if the user asks for the
    /// end a second time, even if the first was earlier, or has asked once and the thread is only waiting. Prints
    /// `notice` at the first request.
    pub async fn unless_aborted<T: Send + 'static>(
        &mut self,
        notice: Option<&str>,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<Option<T>> {
        let (done, mut outcome) = tokio::sync::oneshot::channel();
        let runtime = tokio::runtime::Handle::current();
        let in_runtime = move || {
            let _entered = runtime.enter();
            // If the work was aborted, the result has no receiver.
            done.send(work()).is_ok()
        };
        std::thread::Builder::new().name("session".to_owned()).spawn(in_runtime)?;
        let (mut checks, mut last) = (tokio::time::interval(CHECK_INTERVAL), (Instant::now(), process_cpu()));
        loop {
            tokio::select! {
                biased;
                outcome = &mut outcome => {
                    return outcome.map(Some).context("a thread of the capture failed: this is a bug, please report it");
                }
                _ = self.recv() => {
                    if self.requests > 1 {
                        return Ok(None);
                    }
                    if let Some(notice) = notice {
                        say!("{notice}");
                    }
                    last = (Instant::now(), process_cpu());
                }
                _ = checks.tick(), if self.requests > 0 => {
                    let now = process_cpu();
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

/// Returns the CPU time of all threads.
pub fn process_cpu() -> Duration {
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

/// Returns a runtime of one thread.
pub fn runtime() -> Result<Runtime> {
    Ok(tokio::runtime::Builder::new_current_thread().enable_all().build()?)
}

/// Waits for `future`, or forever if there is none.
pub async fn or_never<F: Future>(future: Option<F>) -> F::Output {
    match future {
        Some(future) => future.await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::{getpid, kill_process};
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
