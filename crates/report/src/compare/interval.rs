//! Tests whether a difference between repeated runs could be chance.

use schemars::JsonSchema;
use serde::Serialize;
use statrs::distribution::{ContinuousCDF, StudentsT};

/// Probability that such an interval contains the true difference.
pub const CONFIDENCE: f64 = 0.95;

/// A quantity of repeated runs, with the run as the unit.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Repeated {
    /// Value of each run, by subject.
    pub runs: [Vec<f64>; 2],
    /// 95% confidence interval of the difference of the means, the second's minus the first's (Welch's, for unequal variances).
    pub interval: [f64; 2],
    /// Whether the interval excludes 0; otherwise it shows no difference.
    pub shown: bool,
}

impl Repeated {
    /// Compares the runs of two subjects; returns `None` if either has fewer than two.
    pub fn new(runs: [Vec<f64>; 2]) -> Option<Self> {
        let [first, second] = [IntervalSample::new(&runs[0])?, IntervalSample::new(&runs[1])?];
        let difference = second.mean - first.mean;
        let margin = margin(&first, &second)?;
        let interval = [difference - margin, difference + margin];
        let shown = interval.iter().all(|end| *end > 0.0) || interval.iter().all(|end| *end < 0.0);
        Some(Self { runs, interval, shown })
    }
}

/// Mean of the runs and its squared standard error.
struct IntervalSample {
    mean: f64,
    error: f64,
    freedom: f64,
}

impl IntervalSample {
    fn new(values: &[f64]) -> Option<Self> {
        let (count, mean) = (values.len() as f64, mean(values)?);
        if values.len() < 2 {
            return None;
        }
        let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (count - 1.0);
        Some(Self { mean, error: variance / count, freedom: count - 1.0 })
    }
}

/// Returns the arithmetic mean, or `None` without values.
pub(crate) fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// Returns half the width of the interval. Identical runs leave nothing to chance.
fn margin(first: &IntervalSample, second: &IntervalSample) -> Option<f64> {
    let error = first.error + second.error;
    if error <= 0.0 {
        return Some(0.0);
    }
    let parts = [first, second].map(|sample| sample.error.powi(2) / sample.freedom);
    let freedom = error.powi(2) / (parts[0] + parts[1]);
    Some(quantile(freedom)? * error.sqrt())
}

/// Returns how many standard errors half the interval takes.
pub(crate) fn quantile(freedom: f64) -> Option<f64> {
    Some(StudentsT::new(0.0, 1.0, freedom).ok()?.inverse_cdf(f64::midpoint(1.0, CONFIDENCE)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Five runs each with variance 2.5: standard error 1, 8 degrees of freedom, so Student's t is 2.306004.
    /// Student's t.
    #[test]
    fn the_interval_is_that_of_welch() {
        let (first, second) = ([100.0, 102.0, 98.0, 101.0, 99.0], [110.0, 112.0, 108.0, 111.0, 109.0]);
        let repeated = Repeated::new([first.to_vec(), second.to_vec()]).unwrap();
        let [low, high] = repeated.interval;
        assert!((low - (10.0 - 2.306_004)).abs() < 1e-5 && (high - (10.0 + 2.306_004)).abs() < 1e-5, "{low} {high}");
        assert!(repeated.shown);
    }

    /// Variances of 2.5 and 10: 5.88 degrees of freedom, between the value for one sample and for both.
    #[test]
    fn unequal_variances_widen_it() {
        let (first, second) = ([100.0, 102.0, 98.0, 101.0, 99.0], [110.0, 114.0, 106.0, 112.0, 108.0]);
        let [low, high] = Repeated::new([first.to_vec(), second.to_vec()]).unwrap().interval;
        let quantile = (high - low) / 2.0 / 2.5_f64.sqrt();
        // Student's t for 6 and 5 degrees of freedom.
        assert!(quantile > 2.446_912 && quantile < 2.570_582, "{quantile}");
    }

    #[test]
    fn what_overlaps_shows_no_difference() {
        let repeated = Repeated::new([vec![100.0, 130.0, 90.0], vec![105.0, 95.0, 128.0]]).unwrap();
        assert!(!repeated.shown, "{:?}", repeated.interval);
    }

    #[test]
    fn one_run_shows_nothing_and_runs_that_do_not_vary_show_all() {
        assert_eq!(Repeated::new([vec![1.0], vec![2.0, 3.0]]), None);
        let exact = Repeated::new([vec![4.0, 4.0], vec![5.0, 5.0]]).unwrap();
        assert_eq!((exact.interval, exact.shown), ([1.0, 1.0], true));
        let same = Repeated::new([vec![4.0, 4.0], vec![4.0, 4.0]]).unwrap();
        assert!(!same.shown);
    }
}
