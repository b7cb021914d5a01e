//! Reasons to stop an export: a write error or a signal.

use anyhow::{Context, Result};
use overhead_model::exit::StatusFault;
use signal_hook::consts::TERM_SIGNALS;
use signal_hook::flag;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

#[derive(Clone, Debug)]
pub struct ExportStop {
    failed: Arc<AtomicBool>,
    interrupted: Arc<AtomicBool>,
}

impl ExportStop {
    /// Handles termination signals: the first stops the export, the second ends the program.
    pub fn on_signals() -> Result<Self> {
        let (failed, interrupted) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        for signal in TERM_SIGNALS {
            flag::register_conditional_default(*signal, Arc::clone(&interrupted))
                .and_then(|_| flag::register(*signal, Arc::clone(&interrupted)))
                .context("signals cannot be handled")?;
        }
        Ok(Self { failed, interrupted })
    }

    pub fn set_failed(&self) {
        self.failed.store(true, Ordering::Relaxed);
    }

    #[inline]
    pub fn should_stop(&self) -> bool {
        self.failed.load(Ordering::Relaxed) || self.interrupted.load(Ordering::Relaxed)
    }

    /// Returns an error after a signal.
    pub fn check(&self) -> Result<()> {
        if self.interrupted.load(Ordering::Relaxed) {
            return Err(StatusFault::aborted("nothing of this run is written").into());
        }
        Ok(())
    }
}
