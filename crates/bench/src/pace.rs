//! Open-loop pacing: operations are due at fixed times, answered or not.

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};
use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Evenly spaced due times of one client. The clients take turns.
#[derive(Clone, Debug)]
pub struct ClientSchedule {
    start: Instant,
    /// Seconds to the first round.
    offset: f64,
    /// Seconds between rounds.
    distance: f64,
    rounds: u64,
}

impl ClientSchedule {
    /// All clients together start `rate` operations per second, `pipeline` at once.
    pub fn new(start: Instant, rate: f64, client: u32, clients: u32, pipeline: u32) -> Self {
        let between_rounds = f64::from(pipeline) / rate;
        let offset = between_rounds * f64::from(client);
        Self { start, offset, distance: between_rounds * f64::from(clients), rounds: 0 }
    }

    /// Returns the next due time.
    pub fn next(&mut self) -> Instant {
        let due = self.offset + self.distance * self.rounds as f64;
        self.rounds += 1;
        self.start + Duration::from_secs_f64(due)
    }
}

/// A timerfd: the runtime's timers only have millisecond resolution.
pub struct PreciseTimer(AsyncFd<OwnedFd>);

impl PreciseTimer {
    #[expect(
        deprecated,
        reason = "what replaces it is unsafe, for descriptors that may be closed by others; this one is ours"
    )]
    pub fn new() -> io::Result<Self> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        Ok(Self(AsyncFd::with_interest(timer, Interest::READABLE)?))
    }

    /// Waits until `due`; returns at once if it has passed.
    pub async fn wait(&mut self, now: Instant, due: Instant) -> io::Result<()> {
        let left = due.saturating_duration_since(now);
        if left.is_zero() {
            return Ok(());
        }
        let value = Timespec { tv_sec: left.as_secs().cast_signed(), tv_nsec: i64::from(left.subsec_nanos()) };
        let once = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value: value };
        timerfd_settime(&self.0, TimerfdTimerFlags::empty(), &once)?;
        loop {
            let mut ready = self.0.readable().await?;
            let mut expirations = [0_u8; 8];
            match ready.try_io(|timer| Ok(rustix::io::read(timer.get_ref(), &mut expirations)?)) {
                Ok(read) => return read.map(drop),
                Err(_would_block) => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_take_turns() {
        let start = Instant::now();
        let mut first = ClientSchedule::new(start, 1000.0, 0, 2, 1);
        let mut second = ClientSchedule::new(start, 1000.0, 1, 2, 1);
        let due: Vec<_> = (0..3).flat_map(|_| [first.next(), second.next()]).map(|due| due - start).collect();
        let wanted: Vec<_> = (0..6).map(Duration::from_millis).collect();
        assert_eq!(due, wanted);
    }

    #[test]
    fn a_pipeline_is_due_as_a_whole() {
        let start = Instant::now();
        let mut schedule = ClientSchedule::new(start, 1000.0, 0, 1, 50);
        assert_eq!([schedule.next() - start, schedule.next() - start], [Duration::ZERO, Duration::from_millis(50)]);
    }

    #[test]
    fn the_schedule_does_not_drift() {
        let start = Instant::now();
        let mut schedule = ClientSchedule::new(start, 3.0, 0, 1, 1);
        let last = (0..3_000_001).map(|_| schedule.next()).last().unwrap();
        let drift = (last - start).as_secs_f64() - 1_000_000.0;
        assert!(drift.abs() < 1e-3, "{drift}");
    }

    #[tokio::test]
    async fn the_timer_waits_until_the_time_has_come() {
        let mut timer = PreciseTimer::new().unwrap();
        for _ in 0..3 {
            let now = Instant::now();
            let due = now + Duration::from_micros(300);
            timer.wait(now, due).await.unwrap();
            assert!(Instant::now() >= due);
        }
        let now = Instant::now();
        timer.wait(now, now).await.unwrap();
    }
}
