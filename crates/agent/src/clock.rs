//! Times that go on in the next process.

use overhead_kernel::boot_id;
use overhead_reading::time::unix_ns;
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};
use std::time::{Duration, Instant};

/// A time that runs on, also in the next process.
#[derive(Debug, Serialize, Deserialize)]
#[serde(from = "Duration", into = "Duration")]
pub struct RunningTime {
    before: Duration,
    since: Instant,
}

impl RunningTime {
    pub fn elapsed(&self) -> Duration {
        self.before + self.since.elapsed()
    }
}

impl Default for RunningTime {
    fn default() -> Self {
        Duration::ZERO.into()
    }
}

impl Clone for RunningTime {
    fn clone(&self) -> Self {
        self.elapsed().into()
    }
}

impl From<Duration> for RunningTime {
    fn from(before: Duration) -> Self {
        Self { before, since: Instant::now() }
    }
}

impl From<RunningTime> for Duration {
    fn from(time: RunningTime) -> Self {
        time.elapsed()
    }
}

/// A moment that another process can compare with now.
#[derive(Debug, Serialize, Deserialize)]
pub struct SavedMoment {
    boot: String,
    since_boot: Duration,
    unix_ns: u64,
}

impl SavedMoment {
    pub fn now() -> Self {
        let since_boot = clock_gettime(ClockId::Boottime).try_into().unwrap_or_default();
        Self { boot: boot_id(), since_boot, unix_ns: unix_ns() }
    }

    pub fn is_of_this_boot(&self) -> bool {
        self.boot == boot_id()
    }

    /// Returns the time since then. Steps of the clock matter only if the host was started again since.
    pub fn elapsed(&self) -> Duration {
        let now = Self::now();
        if self.is_of_this_boot() {
            now.since_boot.saturating_sub(self.since_boot)
        } else {
            Duration::from_nanos(now.unix_ns.saturating_sub(self.unix_ns))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_runs_on() {
        let time: RunningTime = serde_json::from_str("{\"secs\": 5, \"nanos\": 0}").unwrap();
        assert!(time.elapsed() >= Duration::from_secs(5) && time.elapsed() < Duration::from_secs(65));
        let moment = |boot: &str, since_boot, unix_ns| SavedMoment { boot: boot.to_owned(), since_boot, unix_ns };
        // After a step of the clock by a year, in either direction, the time since the host's start counts.
        let (now, year) = (SavedMoment::now(), 31_536_000_000_000_000);
        for unix_ns in [now.unix_ns - year, now.unix_ns + year] {
            assert!(moment(&now.boot, now.since_boot, unix_ns).elapsed() < Duration::from_mins(1));
        }
        let other = moment("other", Duration::ZERO, now.unix_ns - 5_000_000_000).elapsed();
        assert!(other >= Duration::from_secs(5) && other < Duration::from_secs(65));
        assert_eq!(moment("other", Duration::ZERO, now.unix_ns + year).elapsed(), Duration::ZERO);
    }
}
