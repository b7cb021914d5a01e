//! Signals to a capture, heard from before anything is started.

use std::fs;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// The signals that mean something to a capture.
pub struct Signals {
    /// Somebody wants it to end.
    pub end: End,
    /// Somebody wants to know the figures so far.
    pub usr1: Signal,
    /// A process of the command has ended.
    pub child: Signal,
}

/// Signals by which somebody wants the capture to end.
pub struct End {
    interrupt: Signal,
    terminate: Signal,
    /// The terminal went away; `None` where we were told not to mind, as by nohup.
    hangup: Option<Signal>,
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
        let end = End {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: minds_hangup.then(|| signal(SignalKind::hangup())).transpose()?,
        };
        Ok(Self { end, usr1: signal(SignalKind::user_defined1())?, child: signal(SignalKind::child())? })
    }
}

impl End {
    /// Waits for the next one.
    pub async fn recv(&mut self) -> Asked {
        tokio::select! {
            _ = self.interrupt.recv() => Asked::Interrupt,
            _ = self.terminate.recv() => Asked::Otherwise,
            () = hung_up(self.hangup.as_mut()) => Asked::Otherwise,
        }
    }
}

async fn hung_up(signal: Option<&mut Signal>) {
    match signal {
        Some(signal) => drop(signal.recv().await),
        None => std::future::pending().await,
    }
}

/// Whether this process was started with the signal ignored.
fn ignores(kind: SignalKind) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let set = ignored.and_then(|set| u64::from_str_radix(set.trim(), 16).ok()).unwrap_or(0);
    set >> (kind.as_raw_value() - 1) & 1 == 1
}
