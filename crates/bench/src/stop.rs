//! The wish to end: by Ctrl-C, or because there is nothing left to hope for.

use anyhow::Result;
use overhead_model::exit::ABORTED;
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::Notify;

/// Shared by everything that can be interrupted. The first reason counts.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    asked: AtomicBool,
    aborting: AtomicBool,
    reason: Mutex<Option<String>>,
    changed: Notify,
}

impl Stop {
    /// Asks everything to end.
    pub fn ask(&self, reason: impl Into<String>) {
        self.0.reason.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_with(|| reason.into());
        self.0.asked.store(true, Ordering::Release);
        self.0.changed.notify_waiters();
    }

    /// Returns whether it was asked.
    #[inline]
    pub fn asked(&self) -> bool {
        self.0.asked.load(Ordering::Relaxed)
    }

    /// Returns whether it was asked a second time: the program ends as soon as what was made is removed.
    pub fn aborting(&self) -> bool {
        self.0.aborting.load(Ordering::Acquire)
    }

    /// Why.
    pub fn reason(&self) -> Option<String> {
        self.0.reason.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Waits until it is asked.
    pub async fn wait(&self) {
        let changed = self.0.changed.notified();
        tokio::pin!(changed);
        changed.as_mut().enable();
        if !self.asked() {
            changed.await;
        }
    }

    /// Listens to Ctrl-C, SIGTERM and SIGHUP from now on: the first asks, and what was made is removed; the second
    /// aborts, once that is removed or [`GRACE`] is over; the third ends the program as it stands.
    pub fn on_signals(&self) -> Result<()> {
        let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
        let mut hangup = signal(SignalKind::hangup())?;
        let stop = self.clone();
        tokio::spawn(async move {
            let mut last: Option<Instant> = None;
            let mut count = 0;
            loop {
                tokio::select! {
                    _ = interrupt.recv() => {}
                    _ = terminate.recv() => {}
                    _ = hangup.recv() => {}
                }
                // `timeout` and terminals send the same signal twice, to the process and to its group.
                if last.is_some_and(|last| last.elapsed() <= ONE_AND_THE_SAME) {
                    continue;
                }
                last = Some(Instant::now());
                count += 1;
                match count {
                    1 => stop.ask(INTERRUPTED),
                    2 => {
                        stop.0.aborting.store(true, Ordering::Release);
                        say("removing what was made on the server, then aborting; once more leaves it there");
                        tokio::spawn(async {
                            tokio::time::sleep(GRACE).await;
                            abort();
                        });
                    }
                    _ => abort(),
                }
            }
        });
        Ok(())
    }
}

/// Ends the program as it stands.
fn abort() -> ! {
    say("aborted; what is left on the server is removed by --cleanup-only");
    std::process::exit(i32::from(ABORTED));
}

/// Tells the user, where standard error is still there.
fn say(text: &str) {
    let _ = writeln!(std::io::stderr(), "overhead bench: {text}");
}

/// A further signal within this time is the one before again.
const ONE_AND_THE_SAME: Duration = Duration::from_millis(200);

/// How long removing may take after the second signal.
const GRACE: Duration = Duration::from_secs(5);

/// The reason after Ctrl-C.
const INTERRUPTED: &str = "interrupted";
