//! The wish to end: by Ctrl-C, or because there is nothing left to hope for.

use anyhow::Result;
use overhead_model::exit::ABORTED;
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

    /// Whether it was asked.
    #[inline]
    pub fn asked(&self) -> bool {
        self.0.asked.load(Ordering::Relaxed)
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

    /// Listens to Ctrl-C and SIGTERM from now on: the first asks, the second ends the program.
    pub fn on_signals(&self) -> Result<()> {
        let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
        let stop = self.clone();
        tokio::spawn(async move {
            let mut first: Option<Instant> = None;
            loop {
                tokio::select! {
                    _ = interrupt.recv() => {}
                    _ = terminate.recv() => {}
                }
                // `timeout` and terminals send the same signal twice, to the process and to its group.
                if first.get_or_insert_with(Instant::now).elapsed() > ONE_AND_THE_SAME {
                    eprintln!("overhead bench: aborted; what is left on the server is removed by --cleanup-only");
                    std::process::exit(i32::from(ABORTED));
                }
                stop.ask(INTERRUPTED);
            }
        });
        Ok(())
    }
}

/// A second signal within this time is the first one again.
const ONE_AND_THE_SAME: Duration = Duration::from_millis(200);

/// The reason after Ctrl-C.
const INTERRUPTED: &str = "interrupted";
