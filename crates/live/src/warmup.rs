//! The warm-up, which is excluded from both frames and counters.

use overhead_reading::Warnings;
use overhead_reading::time::unix_ns;
use overhead_report::text::counted;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::Notify;

/// No frame has arrived yet, or the counters have not started.
const UNKNOWN: u64 = u64::MAX;

/// A warm-up, which starts with the first frame.
#[derive(Debug)]
pub struct WarmUp {
    pub length: Duration,
    /// Planned end, Unix nanoseconds.
    due_ns: AtomicU64,
    /// Actual end, when the counters started.
    end_ns: AtomicU64,
    started: Notify,
    left_out: AtomicU64,
}

impl WarmUp {
    /// Returns a warm-up of this length that has not started.
    pub fn new(length: Duration) -> Arc<Self> {
        let [due_ns, end_ns] = [UNKNOWN, UNKNOWN].map(AtomicU64::new);
        Arc::new(Self { length, due_ns, end_ns, started: Notify::new(), left_out: AtomicU64::new(0) })
    }

    /// Starts now, without waiting for a frame.
    pub fn start(&self) {
        self.start_at(unix_ns());
    }

    fn start_at(&self, time_ns: u64) {
        let length = u64::try_from(self.length.as_nanos()).unwrap_or(UNKNOWN);
        self.due_ns.store(time_ns.saturating_add(length).min(UNKNOWN - 1), Ordering::Release);
        self.started.notify_one();
    }

    /// Ends the warm-up: the counters have started, and frames count from now on.
    pub fn end(&self) {
        self.end_ns.store(unix_ns(), Ordering::Release);
    }

    /// Returns whether a frame of this time is dropped, and counts it.
    pub fn leaves_out(&self, time_ns: u64) -> bool {
        let is_left_out = time_ns < self.end_ns.load(Ordering::Acquire);
        if is_left_out && self.due_ns.load(Ordering::Relaxed) == UNKNOWN {
            self.start_at(time_ns);
        }
        if is_left_out {
            self.left_out.fetch_add(1, Ordering::Relaxed);
        }
        is_left_out
    }

    /// Waits until the warm-up has lasted long enough. Cancel-safe.
    pub async fn over(&self) {
        if self.due_ns.load(Ordering::Acquire) == UNKNOWN {
            self.started.notified().await;
        }
        let left = self.due_ns.load(Ordering::Acquire).saturating_sub(unix_ns());
        tokio::time::sleep(Duration::from_nanos(left)).await;
    }

    /// Reports what was excluded.
    pub fn report(&self, warnings: &mut Warnings) {
        if self.end_ns.load(Ordering::Acquire) == UNKNOWN {
            warnings.partial("the capture ended before its warm-up: nothing was counted; shorten --warmup");
        }
        let frames = self.left_out.load(Ordering::Relaxed);
        if frames > 0 {
            warnings.remark(format!("{} of the warm-up are not counted", counted(frames, "frame")));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_starts_with_the_first_frame_and_ends_when_the_counters_start() {
        let warmup = WarmUp::new(Duration::from_nanos(10));
        assert_eq!([100, 109, 111].map(|time_ns| warmup.leaves_out(time_ns)), [true; 3]);
        assert_eq!(warmup.due_ns.load(Ordering::Relaxed), 110);
        warmup.end();
        assert!(!warmup.leaves_out(unix_ns()));
        let mut warnings = Warnings::default();
        warmup.report(&mut warnings);
        assert_eq!(warnings.settle(), (vec!["3 frames of the warm-up are not counted".to_owned()], 0));
    }

    #[test]
    fn a_capture_that_ends_within_has_nothing() {
        let mut warnings = Warnings::default();
        WarmUp::new(Duration::from_secs(1)).report(&mut warnings);
        assert_eq!(warnings.settle().1, overhead_model::exit::PARTIAL);
    }
}
