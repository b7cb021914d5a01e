//! Windows of a duty cycle: where they lie in time.

use crate::time::duration;
use std::ops::Range;
use std::time::Duration;

/// Shortest window, in nanoseconds: a shorter one would hold less than a batch of frames.
const SHORTEST_NS: u64 = 1_000_000;

/// A window of each period, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DutyCycle {
    pub(crate) window_ns: u64,
    pub(crate) period_ns: u64,
}

impl DutyCycle {
    pub fn new(window: Duration, period: Duration) -> Self {
        let [window_ns, period_ns] = [window, period].map(|time| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
        Self { window_ns, period_ns }
    }
}

/// Parses `WINDOW/PERIOD`.
pub fn duty_cycle(text: &str) -> Result<DutyCycle, String> {
    let (window, period) = text.split_once('/').ok_or_else(|| "invalid duty cycle: write it as 10s/5m".to_owned())?;
    let length = |text: &str| u64::try_from(duration(text)?.as_nanos()).map_err(|_| format!("{text} is too long"));
    let (window_ns, period_ns) = (length(window)?, length(period)?);
    if window_ns < SHORTEST_NS {
        return Err(format!("a window of {window} is too short: give 1ms or more"));
    }
    if window_ns >= period_ns {
        return Err(format!("a window of {window} in a period of {period} leaves nothing out: leave --sample out"));
    }
    Ok(DutyCycle { window_ns, period_ns })
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Windows {
    pub(crate) cycle: DutyCycle,
    pub(crate) seed: u64,
    /// Start of the first period, Unix nanoseconds.
    pub(crate) start_ns: u64,
}

impl Windows {
    pub fn new(cycle: DutyCycle, seed: u64, start_ns: u64) -> Self {
        Self { cycle, seed, start_ns }
    }

    /// Parses the text that [`Windows::note`] returns.
    pub fn noted(text: &str) -> Option<Self> {
        let numbers: Vec<u64> = text.split('/').map(str::parse).collect::<Result<_, _>>().ok()?;
        let &[window_ns, period_ns, seed, start_ns] = numbers.as_slice() else { return None };
        (0 < window_ns && window_ns < period_ns).then_some(Self {
            cycle: DutyCycle { window_ns, period_ns },
            seed,
            start_ns,
        })
    }

    /// Returns the text that a packet file stores for these windows.
    pub fn note(&self) -> String {
        let Self { cycle: DutyCycle { window_ns, period_ns }, seed, start_ns } = self;
        format!("{window_ns}/{period_ns}/{seed}/{start_ns}")
    }

    /// Returns the number of the period that contains `time_ns`, from 0.
    pub(crate) fn period_of(&self, time_ns: u64) -> u64 {
        time_ns.saturating_sub(self.start_ns) / self.cycle.period_ns
    }

    pub(crate) fn window(&self, period: u64) -> Range<u64> {
        let DutyCycle { window_ns, period_ns } = self.cycle;
        let offset = mixed(self.seed ^ mixed(period)) % (period_ns - window_ns + 1);
        let begin = self.start_ns.saturating_add(period.saturating_mul(period_ns)).saturating_add(offset);
        begin..begin.saturating_add(window_ns)
    }

    /// Returns the window at `time_ns`, or else the next one.
    pub fn at_or_after(&self, time_ns: u64) -> Range<u64> {
        let period = self.period_of(time_ns);
        let window = self.window(period);
        if time_ns < window.end { window } else { self.window(period + 1) }
    }

    /// Returns how much of a window lies before `end_ns`, in nanoseconds.
    pub(crate) fn length_before(&self, period: u64, end_ns: u64) -> u64 {
        let window = self.window(period);
        end_ns.min(window.end).saturating_sub(window.start)
    }

    /// Returns the total time within windows until `end_ns`, in nanoseconds.
    pub fn covered_ns(&self, end_ns: u64) -> u64 {
        let period = self.period_of(end_ns);
        period * self.cycle.window_ns + self.length_before(period, end_ns)
    }
}

/// Returns a pseudorandom number (Steele, Lea and Flood, *Fast splittable pseudorandom number generators*, 2014).
fn mixed(number: u64) -> u64 {
    let number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn windows(seed: u64) -> Windows {
        Windows::new(duty_cycle("10s/5m").unwrap(), seed, 7 * SECOND)
    }

    #[test]
    fn a_duty_cycle_is_a_window_of_a_period() {
        assert_eq!(duty_cycle("10s/5m"), Ok(DutyCycle { window_ns: 10 * SECOND, period_ns: 300 * SECOND }));
        for wrong in ["10s", "10s/10s", "5m/10s", "0/1s", "1us/1s", "a/b"] {
            assert!(duty_cycle(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn each_period_has_one_window_anywhere_in_it() {
        let mut offsets: Vec<u64> = Vec::new();
        for period in 0..1_000 {
            let window = windows(1).window(period);
            assert_eq!(window.end - window.start, 10 * SECOND);
            let offset = window.start - (7 + period * 300) * SECOND;
            assert!(offset <= 290 * SECOND);
            offsets.push(offset);
        }
        let mean = offsets.iter().sum::<u64>() as f64 / 1e3 / 1e9;
        assert!((mean - 145.0).abs() < 8.0, "{mean}");
        assert_ne!(windows(1).window(0), windows(2).window(0));
    }

    #[test]
    fn a_note_is_read_as_it_was_written() {
        let windows = windows(3);
        assert_eq!(Windows::noted(&windows.note()), Some(windows));
        assert_eq!(Windows::noted("1/2/3"), None);
        assert_eq!(Windows::noted("2/1/3/4"), None);
        assert_eq!(windows.covered_ns(7 * SECOND + 600 * SECOND), 20 * SECOND);
    }
}
