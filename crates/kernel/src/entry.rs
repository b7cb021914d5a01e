//! Times a sample of the system calls, by a program at the entry to them.
//!
//! Calls are counted at the return. A program at the entry would cost every system call of the machine nearly as much
//! again, so it is attached for a sixteenth of the time, in short windows, and times every call that enters
//! meanwhile. A short run could end before the second window, so at the start it is attached without a break and
//! times one call in sixteen.

use crate::background::BackgroundThread;
use crate::clock::monotonic_ns;
use crate::error::Error;
use crate::object::bytes_of;
use crate::skeleton::types;
use crate::timing::descriptor;
use libbpf_rs::libbpf_sys;
use libbpf_rs::{MapCore, MapFlags, MapHandle};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

/// Calls, or time, per sampled one. A power of two.
const ONE_IN: u32 = 16;
/// How long the program stays attached at the start.
const INITIAL: Duration = Duration::from_millis(100);
/// Bounds of the period between windows, which is an eighth of the time so far. Attaching and detaching take a third
/// of a millisecond, mostly waiting.
const MIN_PERIOD: Duration = Duration::from_millis(16);
const MAX_PERIOD: Duration = Duration::from_millis(160);
const PERIODS_SO_FAR: u32 = 8;

/// Each entered call has the same chance.
pub(crate) const THROUGHOUT: types::timing_window = types::timing_window { one_in: ONE_IN, spare: 0, end_ns: u64::MAX };
/// No call is timed.
const NEVER: types::timing_window = types::timing_window { one_in: ONE_IN, spare: 0, end_ns: 0 };

/// Attaches the program for the start and starts the thread that detaches and reattaches it. If it cannot be
/// reattached, no more calls are timed.
pub(crate) fn start(program: OwnedFd, windows: &MapHandle) -> Result<BackgroundThread, Error> {
    let windows = MapHandle::try_from(windows)?;
    set(&windows, &THROUGHOUT)?;
    let link = attach(&program)?;
    let begun = Instant::now();
    let thread = BackgroundThread::start("timer", move |wait| {
        if !wait(INITIAL) || set(&windows, &NEVER).is_err() {
            return;
        }
        drop(link);
        let mut schedule = TimingSchedule::default();
        while window(&program, &windows, schedule.next(begun.elapsed()), begun, wait) {}
    })?;
    Ok(thread)
}

/// Waits for a window and until it ends. Returns false if there are to be no more.
fn window(
    program: &OwnedFd,
    windows: &MapHandle,
    at: TimingWindow,
    begun: Instant,
    wait: &dyn Fn(Duration) -> bool,
) -> bool {
    let until = |time: Duration| time.saturating_sub(begun.elapsed());
    if !wait(until(at.start)) {
        return false;
    }
    let Ok(link) = attach(program) else { return false };
    // The BPF program checks the end, because this thread may be late for it.
    let end_ns = monotonic_ns() + at.length.as_nanos() as u64;
    let goes_on = set(windows, &types::timing_window { one_in: 1, end_ns, ..NEVER }).is_ok() && wait(at.length);
    drop(link);
    goes_on && wait(until(at.end_of_period))
}

pub(crate) fn set(windows: &MapHandle, window: &types::timing_window) -> Result<(), Error> {
    Ok(windows.update(&0_u32.to_ne_bytes(), bytes_of(window), MapFlags::ANY)?)
}

/// Attaches a program to its tracepoint until the descriptor is closed.
fn attach(program: &OwnedFd) -> io::Result<OwnedFd> {
    // SAFETY: the descriptor is open, and a program loaded for its tracepoint needs no name.
    descriptor(unsafe { libbpf_sys::bpf_raw_tracepoint_open(std::ptr::null(), program.as_raw_fd()) })
}

#[derive(Default)]
struct TimingSchedule {
    round: u64,
}

/// Times since the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct TimingWindow {
    start: Duration,
    length: Duration,
    end_of_period: Duration,
}

impl TimingSchedule {
    /// Returns the window in the period that starts now, at a pseudo-random place against beats.
    fn next(&mut self, now: Duration) -> TimingWindow {
        let period = (now / PERIODS_SO_FAR).clamp(MIN_PERIOD, MAX_PERIOD);
        let length = period / ONE_IN;
        // Knuth's multiplicative hash: spread out, and the same in each run.
        let spread = (self.round.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 48) as u32;
        self.round += 1;
        let start = now + length * (ONE_IN - 1) * spread / (1 << 16);
        TimingWindow { start, length, end_of_period: now + period }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_are_a_sixteenth_of_each_period_and_lie_anywhere_in_it() {
        let mut schedule = TimingSchedule::default();
        let (mut now, mut offsets) = (INITIAL, Vec::new());
        for _ in 0..400 {
            let window = schedule.next(now);
            let period = window.end_of_period.saturating_sub(now);
            assert!((MIN_PERIOD..=MAX_PERIOD).contains(&period) && window.length == period / ONE_IN, "{window:?}");
            assert!(window.start >= now && window.start + window.length <= window.end_of_period, "{window:?}");
            offsets.push(window.start.saturating_sub(now).as_secs_f64() / period.as_secs_f64());
            now = window.end_of_period;
        }
        assert_eq!(now + MAX_PERIOD, schedule.next(now).end_of_period);
        for tenth in 0..9 {
            let in_it = offsets.iter().filter(|offset| (**offset * 10.0) as u32 == tenth).count();
            assert!((20..=70).contains(&in_it), "{in_it} of 400 windows start in tenth {tenth}");
        }
    }
}
