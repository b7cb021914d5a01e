//! Times on the command line: durations, and moments of a capture.

use anyhow::Result;
use overhead_model::bail_usage;
use std::ops::Bound;
use std::time::Duration;
use std::time::{SystemTime, UNIX_EPOCH};

/// Parses a duration, such as `10`, `500ms` or `2m`.
pub fn duration(text: &str) -> Result<Duration, String> {
    let split = text.find(|letter: char| !letter.is_ascii_digit() && letter != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let seconds = match unit {
        "us" => 0.000_001,
        "ms" => 0.001,
        "" | "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        _ => return Err(format!("invalid unit of time {unit}: use us, ms, s, m or h")),
    };
    let number: f64 = number.parse().map_err(|_| format!("{text} is not a time, such as 10s"))?;
    Duration::try_from_secs_f64(number * seconds).map_err(|error| error.to_string())
}

/// Returns the current time in Unix nanoseconds, but never `u64::MAX`, which means no time.
pub fn unix_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX - 1)
}

/// Parses a duration that is not zero.
pub fn some_time(text: &str) -> Result<Duration, String> {
    match duration(text)? {
        Duration::ZERO => Err("nothing would be captured in no time: give more than 0".to_owned()),
        time => Ok(time),
    }
}

/// A moment of a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimePoint {
    /// Unix nanoseconds.
    At(u64),
    /// Nanoseconds after the first frame.
    After(u64),
}

/// A time window. Frames outside it are ignored.
#[derive(Clone, Copy, Debug, Default)]
pub struct TimeWindow {
    /// Frames before this moment are skipped.
    pub from: Option<TimePoint>,
    /// Frames at this moment and later are skipped.
    pub to: Option<TimePoint>,
    /// Time skipped after the first frame. It has no effect if `from` is given.
    pub warmup: Option<Duration>,
}

impl TimeWindow {
    /// Returns whether the window keeps every frame.
    pub const fn is_all(&self) -> bool {
        self.from.is_none() && self.to.is_none() && self.warmup.is_none()
    }

    /// Rejects windows that cannot contain a frame.
    pub fn check(&self) -> Result<()> {
        use TimePoint::{After, At};
        match (self.start(), self.to) {
            (Some(At(from)), Some(At(to))) | (Some(After(from)), Some(After(to))) if from >= to => {
                bail_usage!("--from is not before --to: nothing would be left")
            }
            _ => Ok(()),
        }
    }

    /// Returns the window in Unix nanoseconds for a capture whose first frame has the time `first_ns`.
    pub fn bounds(&self, first_ns: u64) -> (Bound<u64>, Bound<u64>) {
        let absolute = |moment: TimePoint| match moment {
            TimePoint::At(ns) => ns,
            TimePoint::After(ns) => first_ns.saturating_add(ns),
        };
        // A broken time stamp may be the greatest possible, so the default has no upper bound.
        let to = self.to.map_or(Bound::Unbounded, |to| Bound::Excluded(absolute(to)));
        (Bound::Included(self.start().map_or(0, absolute)), to)
    }

    /// Returns the options that leave frames out.
    pub fn options(&self) -> &'static str {
        match (self.warmup.is_some(), self.to.is_some()) {
            (true, true) => "--warmup and --to",
            (true, false) => "--warmup",
            (false, _) => "--from and --to",
        }
    }

    fn start(&self) -> Option<TimePoint> {
        let warmup = |time: Duration| TimePoint::After(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
        self.from.or(self.warmup.map(warmup))
    }
}

/// Parses `+2s` and `1.5s` as times after the first frame; `1700000000.25` and `2026-01-31T12:00:00Z` as absolute times.
pub fn moment(text: &str) -> Result<TimePoint, String> {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    if digits(whole) && digits(fraction) {
        let nanoseconds = format!("{fraction:0<9}").get(..9).and_then(|digits| digits.parse::<u64>().ok());
        let seconds = whole.parse::<u64>().ok().and_then(|seconds| seconds.checked_mul(1_000_000_000));
        let sum = seconds.zip(nanoseconds).and_then(|(seconds, rest)| seconds.checked_add(rest));
        return sum.map(TimePoint::At).ok_or_else(|| format!("{text} is too far in the future"));
    }
    if let Some(text) = text.strip_prefix('+') {
        return after(text);
    }
    if text.bytes().take(4).all(|byte| byte.is_ascii_digit()) && text.contains(['T', 't']) {
        let time: jiff::Timestamp =
            text.parse().map_err(|error| format!("{error}: give it as 2026-01-31T12:00:00Z"))?;
        return u64::try_from(time.as_nanosecond()).map(TimePoint::At).map_err(|_| format!("{text} is before 1970"));
    }
    after(text).map_err(|_| format!("{text} is not a time: give +2s, 1.5s, 2026-01-31T12:00:00Z or Unix seconds"))
}

fn after(text: &str) -> Result<TimePoint, String> {
    let nanoseconds = u64::try_from(duration(text)?.as_nanos());
    nanoseconds.map(TimePoint::After).map_err(|_| format!("{text} is too long"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ops::RangeBounds;

    #[test]
    fn durations_take_units() {
        assert_eq!(duration("10"), Ok(Duration::from_secs(10)));
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(duration("1.5m"), Ok(Duration::from_secs(90)));
        assert!(duration("3 parsecs").is_err());
        assert!(duration("").is_err());
    }

    #[test]
    fn moments_are_absolute_or_after_the_first_frame() {
        assert_eq!(moment("+2s"), Ok(TimePoint::After(2_000_000_000)));
        assert_eq!(moment("+2"), Ok(TimePoint::After(2_000_000_000)));
        assert_eq!(moment("1.5s"), Ok(TimePoint::After(1_500_000_000)));
        assert_eq!(moment("250us"), Ok(TimePoint::After(250_000)));
        assert_eq!(moment("1700000000"), Ok(TimePoint::At(1_700_000_000_000_000_000)));
        assert_eq!(moment("1700000000.123456789"), Ok(TimePoint::At(1_700_000_000_123_456_789)));
        assert_eq!(moment("1700000000.5"), Ok(TimePoint::At(1_700_000_000_500_000_000)));
        assert_eq!(moment("2023-11-14T22:13:20.25Z"), Ok(TimePoint::At(1_700_000_000_250_000_000)));
        assert_eq!(moment("2023-11-15T00:13:20+02:00"), Ok(TimePoint::At(1_700_000_000_000_000_000)));
        for wrong in ["", "+", "yesterday", "2023-11-14", "2023-11-14T22:13:20", "-3s", "99999999999999", "1.2.3"] {
            assert!(moment(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_window_is_half_open() {
        let window = TimeWindow { from: Some(TimePoint::After(5)), to: Some(TimePoint::At(110)), warmup: None };
        let inside = |time_ns| window.bounds(100).contains(&time_ns);
        assert_eq!([104, 105, 109, 110].map(inside), [false, true, true, false]);
        let window = TimeWindow { warmup: Some(Duration::from_nanos(5)), ..TimeWindow::default() };
        let inside = |time_ns| window.bounds(100).contains(&time_ns);
        assert_eq!([100, 104, 105, 109].map(inside), [false, false, true, true]);
        assert!([0, u64::MAX].iter().all(|time_ns| TimeWindow::default().bounds(7).contains(time_ns)));
        assert!(window.check().is_ok());
        assert!(TimeWindow { from: Some(TimePoint::At(9)), to: Some(TimePoint::At(9)), warmup: None }.check().is_err());
    }
}
