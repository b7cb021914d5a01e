//! Signals to a capture, heard from before anything is started.

use super::or_never;
use anyhow::{Context, Result};
use overhead_model::say;
use std::fs;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// The signals that mean something to a capture.
pub struct Signals {
    /// Somebody wants it to end.
    pub end: EndSignals,
    /// Somebody wants to know the figures so far.
    pub usr1: Signal,
    /// A process of the command has ended.
    pub child: Signal,
}

/// Signals by which somebody wants the capture to end.
pub struct EndSignals {
    interrupt: Signal,
    terminate: Signal,
    /// The terminal went away; `None` where we were told not to mind, as by nohup.
    hangup: Option<Signal>,
    /// How often somebody did.
    heard: u32,
}

/// How somebody asked for the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// By Ctrl-C, or by the signal that it sends.
    Interrupt,
    /// By another signal.
    Otherwise,
}

impl Signals {
    /// Listens from here on.
    pub fn new() -> std::io::Result<Self> {
        let minds_hangup = !ignores(SignalKind::hangup());
        let end = EndSignals {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: minds_hangup.then(|| signal(SignalKind::hangup())).transpose()?,
            heard: 0,
        };
        Ok(Self { end, usr1: signal(SignalKind::user_defined1())?, child: signal(SignalKind::child())? })
    }
}

impl EndSignals {
    /// Waits for the next one.
    pub async fn recv(&mut self) -> Asked {
        let asked = tokio::select! {
            _ = self.interrupt.recv() => Asked::Interrupt,
            _ = self.terminate.recv() => Asked::Otherwise,
            _ = or_never(self.hangup.as_mut().map(Signal::recv)) => Asked::Otherwise,
        };
        self.heard += 1;
        asked
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

    /// Does what takes long in a thread of its own. Gives `None`, and leaves the thread behind, where somebody asks for the
    /// end a second time, before or meanwhile.
    pub async fn unless_aborted<T: Send + 'static>(
        &mut self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<Option<T>> {
        let (done, mut outcome) = tokio::sync::oneshot::channel();
        // Nobody waits for the outcome any more where it was aborted.
        std::thread::Builder::new().name("finish".to_owned()).spawn(move || done.send(work()).is_ok())?;
        loop {
            tokio::select! {
                outcome = &mut outcome => {
                    return outcome.map(Some).context("the finishing thread failed: this is a bug, please report it");
                }
                _ = self.recv() => match self.heard {
                    1 => say!("overhead: the capture has ended and its result is made: the next Ctrl-C gives it up"),
                    _ => return Ok(None),
                },
            }
        }
    }
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
        let mut signals = Signals::new().unwrap();
        assert_eq!(signals.end.unless_aborted(|| 7).await.unwrap(), Some(7));
        kill_process(getpid(), Kill::INT).unwrap();
        assert_eq!(signals.end.recv().await, Asked::Interrupt);
        assert_eq!(signals.end.unless_aborted(|| 7).await.unwrap(), Some(7));
        let (stop, until) = channel::<()>();
        let work = move || {
            kill_process(getpid(), Kill::TERM).unwrap();
            // Ends when the test does.
            until.recv().is_err()
        };
        assert_eq!(signals.end.unless_aborted(work).await.unwrap(), None);
        drop(stop);
    }
}
