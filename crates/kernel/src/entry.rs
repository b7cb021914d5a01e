//! The program at the entry to system calls, which times some: attached for a moment at the beginning and for short windows of
//! time from then on, or throughout.
//!
//! What is counted is counted at the return. A program at the entry costs every system call of the machine nearly as much
//! again, so it is there for a sixteenth of the time, and all calls that are entered meanwhile are timed. A short run could
//! be over before the second window: at the beginning it is there all the time, and times a sixteenth of the calls.

use crate::background::BackgroundThread;
use crate::clock::monotonic_ns;
use crate::error::Error;
use crate::skeleton::types;
use crate::snapshot::bytes_of;
use crate::timing::descriptor;
use libbpf_rs::libbpf_sys;
use libbpf_rs::{MapCore, MapFlags, MapHandle};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

/// One call, or one part of the time, in so many. A power of two.
const PARTS: u32 = 16;
/// How long it is there at the beginning.
const AT_FIRST: Duration = Duration::from_millis(100);
/// From the beginning of one window to that of the next: the bounds, and the part of the time so far. Attaching and detaching
/// take a third of a millisecond, mostly of waiting.
const SHORTEST: Duration = Duration::from_millis(16);
const LONGEST: Duration = Duration::from_millis(160);
const OF_TIME_SO_FAR: u32 = 8;

/// All calls that are entered have the same chance.
pub(crate) const THROUGHOUT: types::timing_window = types::timing_window { one_in: PARTS, spare: 0, end_ns: u64::MAX };
/// None has.
const NEVER: types::timing_window = types::timing_window { one_in: PARTS, spare: 0, end_ns: 0 };

/// Attaches the program for the beginning, and starts the thread that detaches it and attaches it again. Where it can no longer
/// be attached later, nothing more is timed.
pub(crate) fn start(program: OwnedFd, windows: &MapHandle) -> Result<BackgroundThread, Error> {
    let windows = MapHandle::try_from(windows)?;
    set(&windows, &THROUGHOUT)?;
    let link = attach(&program)?;
    let begun = Instant::now();
    let thread = BackgroundThread::start("timer", move |passes| {
        if !passes(AT_FIRST) || set(&windows, &NEVER).is_err() {
            return;
        }
        drop(link);
        let mut schedule = TimingSchedule::default();
        while window(&program, &windows, schedule.next(begun.elapsed()), begun, passes) {}
    })?;
    Ok(thread)
}

/// Waits for a window and for its end; false where there are to be no more.
fn window(
    program: &OwnedFd,
    windows: &MapHandle,
    at: TimingWindow,
    begun: Instant,
    passes: &dyn Fn(Duration) -> bool,
) -> bool {
    let until = |time: Duration| time.saturating_sub(begun.elapsed());
    if !passes(until(at.start)) {
        return false;
    }
    let Ok(link) = attach(program) else { return false };
    // Its end is the program's to see: this thread may be late for it.
    let end_ns = monotonic_ns() + at.length.as_nanos() as u64;
    let goes_on = set(windows, &types::timing_window { one_in: 1, end_ns, ..NEVER }).is_ok() && passes(at.length);
    drop(link);
    goes_on && passes(until(at.end_of_period))
}

/// Says which calls are timed.
pub(crate) fn set(windows: &MapHandle, window: &types::timing_window) -> Result<(), Error> {
    Ok(windows.update(&0_u32.to_ne_bytes(), bytes_of(window), MapFlags::ANY)?)
}

/// Attaches a program to the tracepoint that it was loaded for, until the descriptor is closed.
fn attach(program: &OwnedFd) -> io::Result<OwnedFd> {
    // SAFETY: a program that was loaded for its tracepoint needs no name; the descriptor is open.
    descriptor(unsafe { libbpf_sys::bpf_raw_tracepoint_open(std::ptr::null(), program.as_raw_fd()) })
}

/// When windows are.
#[derive(Default)]
struct TimingSchedule {
    round: u64,
}

/// One window, in time since the beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct TimingWindow {
    start: Duration,
    length: Duration,
    /// When the next period begins.
    end_of_period: Duration,
}

impl TimingSchedule {
    /// Returns the window of the period that begins now. It lies anywhere in it, so that nothing regular beats with it.
    fn next(&mut self, now: Duration) -> TimingWindow {
        let period = (now / OF_TIME_SO_FAR).clamp(SHORTEST, LONGEST);
        let length = period / PARTS;
        // A multiplicative hash of the round (Knuth): spread, and the same in each run.
        let spread = (self.round.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 48) as u32;
        self.round += 1;
        let start = now + length * (PARTS - 1) * spread / (1 << 16);
        TimingWindow { start, length, end_of_period: now + period }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_are_a_sixteenth_of_each_period_and_lie_anywhere_in_it() {
        let mut schedule = TimingSchedule::default();
        let (mut now, mut offsets) = (AT_FIRST, Vec::new());
        for _ in 0..400 {
            let window = schedule.next(now);
            let period = window.end_of_period.saturating_sub(now);
            assert!((SHORTEST..=LONGEST).contains(&period) && window.length == period / PARTS, "{window:?}");
            assert!(window.start >= now && window.start + window.length <= window.end_of_period, "{window:?}");
            offsets.push(window.start.saturating_sub(now).as_secs_f64() / period.as_secs_f64());
            now = window.end_of_period;
        }
        assert_eq!(now + LONGEST, schedule.next(now).end_of_period);
        for tenth in 0..9 {
            let in_it = offsets.iter().filter(|offset| (**offset * 10.0) as u32 == tenth).count();
            assert!((20..=70).contains(&in_it), "{in_it} of 400 windows begin in tenth {tenth}");
        }
    }
}
