//! Detects changes of the system clock during a capture, because frames carry its time.

use overhead_report::text::number::duration;
use rustix::time::{ClockId, Timespec, clock_gettime};

/// Slewing changes a clock by at most 1 part in 2,000 (`adjtimex(2)`); this allows for twice as much.
const SLEWED: i128 = 1000;
/// On a busy machine, the readings of the two clocks may be this far apart.
const APART_NS: i128 = 5_000_000;

/// Readings of both clocks at one moment, in nanoseconds.
#[derive(Clone, Copy, Debug)]
struct ClockPair {
    /// The clock that can be set.
    real: i128,
    /// The clock that cannot be set. It also runs during suspend.
    steady: i128,
}

/// Compares the system clock with a clock that cannot be set.
#[derive(Debug)]
pub struct ClockWatch {
    before: ClockPair,
    /// How far the clock was set forward and back, in nanoseconds.
    forward: i128,
    back: i128,
}

impl ClockWatch {
    pub fn new() -> Self {
        Self { before: ClockPair::now(), forward: 0, back: 0 }
    }

    /// Checks whether the clock was set since the last call.
    pub fn check(&mut self) {
        self.take(ClockPair::now());
    }

    fn take(&mut self, now: ClockPair) {
        let passed = now.steady - self.before.steady;
        let step = now.real - self.before.real - passed;
        if step.abs() > APART_NS + passed / SLEWED {
            if step > 0 { self.forward += step } else { self.back -= step }
        }
        self.before = now;
    }

    /// Returns warnings about changes of the clock, as complete sentences.
    pub fn steps(&self) -> Vec<String> {
        let said = |how: &str, step_ns: i128| {
            (step_ns > 0).then(|| {
                format!(
                    "the machine's clock was set {how} by {} while the capture ran: the window, rates, and the latencies of what was \
                     under way then are wrong by that; bytes and counts are right",
                    duration(u64::try_from(step_ns).unwrap_or(u64::MAX))
                )
            })
        };
        said("forward", self.forward).into_iter().chain(said("back", self.back)).collect()
    }
}

impl ClockPair {
    /// Reads both clocks up to three times, and keeps the closest pair.
    fn now() -> Self {
        let ns = |time: Timespec| i128::from(time.tv_sec) * 1_000_000_000 + i128::from(time.tv_nsec);
        let read = || {
            let first = ns(clock_gettime(ClockId::Boottime));
            let real = ns(clock_gettime(ClockId::Realtime));
            let last = ns(clock_gettime(ClockId::Boottime));
            (last - first, Self { real, steady: first.midpoint(last) })
        };
        let (_, clocks) = (0..3).map(|_| read()).min_by_key(|(apart, _)| *apart).unwrap_or_else(read);
        clocks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i128 = 1_000_000_000;

    /// Looks once a second at a clock that is off by so much.
    fn watched(offsets: &[i128]) -> Vec<String> {
        let mut watch = ClockWatch { before: ClockPair { real: 0, steady: 0 }, forward: 0, back: 0 };
        for (second, offset) in offsets.iter().enumerate() {
            let steady = (second as i128 + 1) * SECOND;
            watch.take(ClockPair { real: steady + offset, steady });
        }
        watch.steps()
    }

    #[test]
    fn a_clock_that_is_set_is_told_from_one_that_is_slewed() {
        assert!(watched(&[0, 0, 0]).is_empty());
        let slewed: Vec<i128> = (0..1000).map(|second| second * 500_000).collect();
        assert!(watched(&slewed).is_empty(), "half a second in all, and never set");
        let back = watched(&[0, -3_600 * SECOND, -3_600 * SECOND]);
        assert!(
            back.len() == 1 && back[0].starts_with("the machine's clock was set back by 3,600 s while"),
            "{back:?}"
        );
        let both = watched(&[0, SECOND / 2, 0, SECOND / 2]);
        assert!(
            both.len() == 2 && both[0].contains("forward by 1.00 s") && both[1].contains("back by 500 ms"),
            "{both:?}"
        );
    }

    #[test]
    fn this_machine_s_clock_is_not_set_by_reading_it() {
        let mut watch = ClockWatch::new();
        (0..1000).for_each(|_| watch.check());
        assert!(watch.steps().is_empty());
    }
}
