//! Why an export ends before its time: writing has failed, or somebody wants it to end.

use anyhow::{Context, Result};
use overhead::reading::StatusFault;
use signal_hook::consts::TERM_SIGNALS;
use signal_hook::flag;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// What all parts of an export look at.
#[derive(Clone, Debug)]
pub struct Stop {
    failed: Arc<AtomicBool>,
    interrupted: Arc<AtomicBool>,
}

impl Stop {
    /// Returns one that the first Ctrl-C sets, or a signal that means the same. The second ends the program at once.
    pub fn on_signals() -> Result<Self> {
        let (failed, interrupted) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        for signal in TERM_SIGNALS {
            flag::register_conditional_default(*signal, Arc::clone(&interrupted))
                .and_then(|_| flag::register(*signal, Arc::clone(&interrupted)))
                .context("signals cannot be heard")?;
        }
        Ok(Self { failed, interrupted })
    }

    /// Says that writing has failed.
    pub fn set(&self) {
        self.failed.store(true, Ordering::Relaxed);
    }

    /// Returns whether it is of no use to go on.
    #[inline]
    pub fn is_set(&self) -> bool {
        self.failed.load(Ordering::Relaxed) || self.interrupted.load(Ordering::Relaxed)
    }

    /// Returns an error where somebody wants it to end.
    pub fn check(&self) -> Result<()> {
        if self.interrupted.load(Ordering::Relaxed) {
            return Err(StatusFault::aborted("nothing of this run is written").into());
        }
        Ok(())
    }
}
