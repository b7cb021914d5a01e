//! The spread of repeated measurements.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Median and spread of one quantity over repeated runs, one value for each run. Quartiles lie between the ordered values by
/// linear interpolation (type 7 of Hyndman and Fan, the default of R and NumPy): of five runs they are the second and the
/// fourth.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Spread {
    /// Runs that have a value.
    pub runs: u64,
    /// Median.
    pub median: f64,
    /// First quartile.
    pub q1: f64,
    /// Third quartile.
    pub q3: f64,
    /// Smallest value.
    pub min: f64,
    /// Largest value.
    pub max: f64,
}

/// A single measurement, which is its own median.
impl From<f64> for Spread {
    fn from(value: f64) -> Self {
        Self { runs: 1, median: value, q1: value, q3: value, min: value, max: value }
    }
}

impl Spread {
    /// Returns `None` without values, or if one is not finite.
    pub fn from_values(values: &[f64]) -> Option<Self> {
        if values.iter().any(|value| !value.is_finite()) {
            return None;
        }
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (&min, &max) = (sorted.first()?, sorted.last()?);
        let [q1, median, q3] = [0.25, 0.5, 0.75].map(|part| quantile(&sorted, part));
        Some(Self { runs: sorted.len() as u64, median, q1, q3, min, max })
    }

    /// Converts to a unit that is `factor` times smaller.
    #[must_use]
    pub fn times(self, factor: f64) -> Self {
        let Self { runs, median, q1, q3, min, max } = self;
        Self { runs, median: median * factor, q1: q1 * factor, q3: q3 * factor, min: min * factor, max: max * factor }
    }
}

/// Returns the value below which `part` of the sorted values lie; 0 without any.
fn quantile(sorted: &[f64], part: f64) -> f64 {
    let place = part * sorted.len().saturating_sub(1) as f64;
    let at = |index: f64| sorted.get(index as usize).copied().unwrap_or_default();
    let (below, above) = (at(place.floor()), at(place.ceil()));
    below + (above - below) * place.fract()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quartiles_of_five_runs_are_two_of_them() {
        let spread = Spread::from_values(&[50.0, 10.0, 40.0, 20.0, 30.0]).unwrap();
        assert_eq!(spread, Spread { runs: 5, median: 30.0, q1: 20.0, q3: 40.0, min: 10.0, max: 50.0 });
        let even = Spread::from_values(&[4.0, 1.0, 2.0, 3.0]).unwrap();
        assert_eq!((even.median, even.q1, even.q3), (2.5, 1.75, 3.25));
        assert!((spread.times(0.1).q3 - 4.0).abs() < 1e-9);
    }

    #[test]
    fn one_run_has_no_spread_and_none_has_nothing() {
        let one = Spread { runs: 1, median: 7.0, q1: 7.0, q3: 7.0, min: 7.0, max: 7.0 };
        assert_eq!(Spread::from_values(&[7.0]), Some(one));
        assert_eq!((Spread::from_values(&[]), Spread::from_values(&[1.0, f64::NAN])), (None, None));
    }
}
