//! Clocks: the window's ends in all of them, and the rate of the time-stamp counter.

/// Readings of the clocks for one [`ClockStamp`].
const ATTEMPTS: u32 = 5;

/// A window, in the clock of captured packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockWindow {
    /// Its beginning, Unix nanoseconds.
    pub start_unix_ns: u64,
    /// Its end, or the last reading, Unix nanoseconds.
    pub end_unix_ns: u64,
    /// Its length on the monotonic clock.
    pub length_ns: u64,
    /// How far the wall clock moved against the monotonic one meanwhile: what can be wrong in joining both.
    pub drift_ns: i64,
}

/// One moment, in every clock.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ClockStamp {
    unix_ns: u64,
    monotonic_ns: u64,
    /// Not disciplined by NTP, as the counter is not.
    raw_ns: u64,
    ticks: u64,
}

impl ClockStamp {
    /// The clocks are read one after the other: of several attempts, the one that was interrupted least.
    pub(crate) fn now() -> Self {
        let first = Self::attempt();
        (1..ATTEMPTS).map(|_| Self::attempt()).fold(first, |best, next| if next.0 < best.0 { next } else { best }).1
    }

    /// Returns how long the reading took, and what was read.
    fn attempt() -> (u64, Self) {
        let start = monotonic_ns();
        let stamp = Self {
            unix_ns: read(libc::CLOCK_REALTIME),
            monotonic_ns: monotonic_ns(),
            raw_ns: read(libc::CLOCK_MONOTONIC_RAW),
            ticks: ticks(),
        };
        (monotonic_ns().saturating_sub(start), stamp)
    }

    pub(crate) fn since(&self, start: &Self) -> ClockWindow {
        let length_ns = self.monotonic_ns.saturating_sub(start.monotonic_ns);
        let wall = self.unix_ns.wrapping_sub(start.unix_ns).cast_signed();
        ClockWindow {
            start_unix_ns: start.unix_ns,
            end_unix_ns: self.unix_ns,
            length_ns,
            drift_ns: wall - length_ns.cast_signed(),
        }
    }

    /// Returns a moment of the monotonic clock in Unix nanoseconds, as if the wall clock had run like it since.
    pub(crate) fn unix_ns_at(&self, monotonic_ns: u64) -> u64 {
        self.unix_ns.wrapping_add(monotonic_ns.wrapping_sub(self.monotonic_ns))
    }

    /// Ticks of the time-stamp counter per nanosecond between two moments; `None` when no time passed.
    pub(crate) fn ticks_per_ns(&self, start: &Self) -> Option<f64> {
        let elapsed = self.raw_ns.checked_sub(start.raw_ns).filter(|elapsed| *elapsed > 0)?;
        Some(self.ticks.wrapping_sub(start.ticks) as f64 / elapsed as f64)
    }
}

/// `CLOCK_MONOTONIC`, the clock of the BPF programs.
pub(crate) fn monotonic_ns() -> u64 {
    read(libc::CLOCK_MONOTONIC)
}

/// The wall clock.
pub(crate) fn unix_ns() -> u64 {
    read(libc::CLOCK_REALTIME)
}

/// Length of the scheduler's clock tick: the coarse clock advances by that much at once.
pub(crate) fn tick_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid place for the one `timespec` that the call writes.
    let failed = unsafe { libc::clock_getres(libc::CLOCK_MONOTONIC_COARSE, &raw mut time) } != 0;
    if failed { 0 } else { nanoseconds(time) }
}

fn read(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid place for the one `timespec` that the call writes; it stays 0 for an unknown clock.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    nanoseconds(time)
}

fn nanoseconds(time: libc::timespec) -> u64 {
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

#[cfg(target_arch = "x86_64")]
fn ticks() -> u64 {
    // SAFETY: every x86-64 has the instruction, and it touches nothing.
    unsafe { core::arch::x86_64::_rdtsc() }
}

#[cfg(target_arch = "aarch64")]
fn ticks() -> u64 {
    let value: u64;
    // SAFETY: Linux lets user space read the virtual counter (ARM ARM, CNTVCT_EL0); it touches nothing.
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
    fn a_window_tells_how_far_the_wall_clock_moved() {
        let start = ClockStamp { unix_ns: 1_000, monotonic_ns: 10, ..ClockStamp::default() };
        let end = ClockStamp { unix_ns: 1_900, monotonic_ns: 1_010, ..ClockStamp::default() };
        let window = end.since(&start);
        assert_eq!((window.length_ns, window.drift_ns), (1_000, -100));
    }

    #[test]
    fn the_tick_is_that_of_a_usual_kernel() {
        assert!((500_000..=10_000_000).contains(&tick_ns()), "{}", tick_ns());
    }
}
