//! Requests to stop: from a signal, or because the server is gone.

use anyhow::Result;
use overhead_model::exit::ABORTED;
use overhead_model::say;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::Notify;

/// A shared stop flag. The first reason wins.
#[derive(Clone, Debug, Default)]
pub struct StopRequest(Arc<StopFlags>);

#[derive(Debug, Default)]
struct StopFlags {
    asked: AtomicBool,
    aborting: AtomicBool,
    reason: Mutex<Option<String>>,
    changed: Notify,
}

impl StopRequest {
    pub fn request(&self, reason: impl Into<String>) {
        self.0.reason.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_with(|| reason.into());
        self.0.asked.store(true, Ordering::Release);
        self.0.changed.notify_waiters();
    }

    #[inline]
    pub fn is_requested(&self) -> bool {
        self.0.asked.load(Ordering::Relaxed)
    }

    /// Returns whether a second signal asked to exit as soon as the cleanup is done.
    pub fn is_aborting(&self) -> bool {
        self.0.aborting.load(Ordering::Acquire)
    }

    pub fn reason(&self) -> Option<String> {
        self.0.reason.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Waits for a request.
    pub async fn wait(&self) {
        let changed = self.0.changed.notified();
        tokio::pin!(changed);
        changed.as_mut().enable();
        if !self.is_requested() {
            changed.await;
        }
    }

    /// Handles SIGINT, SIGTERM and SIGHUP. The first requests a stop and a cleanup; the second exits after the cleanup
    /// or after [`GRACE`]; the third exits at once.
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
                // `timeout` and terminals signal both the process and its group.
                if last.is_some_and(|last| last.elapsed() <= ONE_AND_THE_SAME) {
                    continue;
                }
                last = Some(Instant::now());
                count += 1;
                match count {
                    1 => stop.request(INTERRUPTED),
                    2 => {
                        stop.0.aborting.store(true, Ordering::Release);
                        say!(
                            "overhead bench: removing what was made on the server, then aborting; once more leaves it there"
                        );
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

fn abort() -> ! {
    say!("overhead bench: aborted; what is left on the server is removed by --cleanup-only");
    std::process::exit(i32::from(ABORTED));
}

/// Signals closer together than this count as one.
const ONE_AND_THE_SAME: Duration = Duration::from_millis(200);

/// Time limit for the cleanup after the second signal.
const GRACE: Duration = Duration::from_secs(5);

const INTERRUPTED: &str = "interrupted";
