//! Sources of a live capture.

use anyhow::Result;
use overhead_capture::live::{LiveSource, StopHandle};
use overhead_capture::{FrameSource, LiveTotals};
use overhead_report::text::counted;

/// A source that runs until it is stopped.
pub trait LiveInput: FrameSource + Send + 'static {
    /// Returns a handle that stops it.
    fn stop_handle(&self) -> StopHandle;

    /// Returns the totals of the delivered frames.
    fn totals(&self) -> &LiveTotals;

    /// Ends the window: later frames do not count.
    fn end_window(&mut self);

    /// Makes the kernel drop frames until [`LiveInput::resume`], if it can.
    fn pause(&mut self) {}

    /// Makes the kernel deliver frames again.
    fn resume(&mut self) -> Result<()> {
        Ok(())
    }

    /// Returns warnings about lost content, as complete sentences.
    fn losses(&self) -> Vec<String> {
        Vec::new()
    }

    /// Returns remarks other than losses, as complete sentences.
    fn remarks(&self) -> Vec<String> {
        Vec::new()
    }
}

impl LiveInput for LiveSource {
    fn stop_handle(&self) -> StopHandle {
        self.stop_handle()
    }

    fn totals(&self) -> &LiveTotals {
        self.totals()
    }

    fn end_window(&mut self) {
        self.end_window();
    }

    fn pause(&mut self) {
        self.pause();
    }

    fn resume(&mut self) -> Result<()> {
        Ok(self.resume()?)
    }

    fn remarks(&self) -> Vec<String> {
        let times = u64::from(self.times_down());
        let said = || {
            format!(
                "the interface went down {} while it was captured on: there were no frames then, and connections may have \
                 ended or repeated themselves",
                counted(times, "time")
            )
        };
        (times > 0).then(said).into_iter().collect()
    }
}
