//! Reads all clocks at one moment, and the rate of the time-stamp counter.

use rustix::time::{ClockId, Timespec, clock_getres, clock_gettime};

const ATTEMPTS: u32 = 5;

/// One moment by every clock.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ClockStamp {
    unix_ns: u64,
    monotonic_ns: u64,
    /// Not disciplined by NTP, like the counter.
    raw_ns: u64,
    ticks: u64,
}

impl ClockStamp {
    /// Reads the clocks one after the other. Of several attempts, returns the least interrupted one.
    pub(crate) fn now() -> Self {
        let first = Self::attempt();
        (1..ATTEMPTS).map(|_| Self::attempt()).fold(first, |best, next| if next.0 < best.0 { next } else { best }).1
    }

    /// Returns the reading and how long it took.
    fn attempt() -> (u64, Self) {
        let start = monotonic_ns();
        let stamp = Self {
            unix_ns: read(ClockId::Realtime),
            monotonic_ns: monotonic_ns(),
            raw_ns: read(ClockId::MonotonicRaw),
            ticks: ticks(),
        };
        (monotonic_ns().saturating_sub(start), stamp)
    }

    /// Returns the time since `start`, by the monotonic clock.
    pub(crate) fn ns_since(&self, start: &Self) -> u64 {
        self.monotonic_ns.saturating_sub(start.monotonic_ns)
    }

    /// Converts monotonic time to Unix nanoseconds, assuming that the wall clock ran alike since this stamp.
    pub(crate) fn unix_ns_at(&self, monotonic_ns: u64) -> u64 {
        self.unix_ns.wrapping_add(monotonic_ns.wrapping_sub(self.monotonic_ns))
    }

    /// Returns the time-stamp counter's ticks per nanosecond since `start`; `None` if no time passed.
    pub(crate) fn ticks_per_ns(&self, start: &Self) -> Option<f64> {
        let elapsed = self.raw_ns.checked_sub(start.raw_ns).filter(|elapsed| *elapsed > 0)?;
        Some(self.ticks.wrapping_sub(start.ticks) as f64 / elapsed as f64)
    }
}

/// `CLOCK_MONOTONIC`, the clock of the BPF programs.
pub(crate) fn monotonic_ns() -> u64 {
    read(ClockId::Monotonic)
}

pub(crate) fn unix_ns() -> u64 {
    read(ClockId::Realtime)
}

/// Returns the length of the scheduler's tick, by which the coarse clock advances.
pub(crate) fn tick_ns() -> u64 {
    nanoseconds(clock_getres(ClockId::MonotonicCoarse))
}

fn read(clock: ClockId) -> u64 {
    nanoseconds(clock_gettime(clock))
}

fn nanoseconds(time: Timespec) -> u64 {
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

#[cfg(target_arch = "x86_64")]
fn ticks() -> u64 {
    // SAFETY: every x86-64 CPU has this instruction, and it accesses no memory.
    unsafe { core::arch::x86_64::_rdtsc() }
}

#[cfg(target_arch = "aarch64")]
fn ticks() -> u64 {
    let value: u64;
    // SAFETY: Linux lets user space read the virtual counter (ARM ARM, CNTVCT_EL0); it accesses no memory.
    unsafe { core::arch::asm!("mrs {}, cntvct_el0", out(reg) value, options(nomem, nostack, preserves_flags)) };
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_counter_runs_at_a_steady_rate() {
        let start = ClockStamp::now();
        while monotonic_ns() < start.monotonic_ns + 20_000_000 {}
        let middle = ClockStamp::now();
        while monotonic_ns() < start.monotonic_ns + 40_000_000 {}
        let end = ClockStamp::now();
        let (first, second) = (middle.ticks_per_ns(&start).unwrap(), end.ticks_per_ns(&middle).unwrap());
        assert!((first / second - 1.0).abs() < 0.01, "{first} {second}");
    }

    #[test]
    fn no_time_gives_no_rate() {
        assert_eq!(ClockStamp::default().ticks_per_ns(&ClockStamp::default()), None);
    }

    #[test]
    fn the_tick_is_that_of_a_usual_kernel() {
        assert!((500_000..=10_000_000).contains(&tick_ns()), "{}", tick_ns());
    }
}
