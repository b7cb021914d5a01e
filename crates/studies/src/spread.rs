//! Spread of several runs of one thing: their median, and how far they lie apart.

use crate::query::error;
use minijinja::Error;
use minijinja::value::Value;
use overhead_model::Spread;

/// Returns the spread of a cell or of a list of numbers.
///
/// # Errors
///
/// Anything else, and an empty list.
pub(crate) fn from_value(value: &Value) -> Result<Spread, Error> {
    let figure = |value: Value| f64::try_from(value.clone()).map_err(|_| error(format!("{value:?} is not a number")));
    if value.get_attr("median")?.is_undefined() {
        let figures = value.try_iter()?.map(figure).collect::<Result<Vec<_>, _>>()?;
        return Spread::from_values(&figures).ok_or_else(|| error(format!("{value:?} has no spread")));
    }
    let part = |name: &str| figure(value.get_attr(name)?);
    let (median, q1, q3) = (part("median")?, part("q1")?, part("q3")?);
    Ok(Spread { runs: part("runs")? as u64, median, q1, q3, min: part("min")?, max: part("max")? })
}

/// Returns whether all runs of one lie on one side of all runs of the other: overlapping runs do not differ.
pub(crate) fn apart(one: &Value, other: &Value) -> Result<bool, Error> {
    let (one, other) = (from_value(one)?, from_value(other)?);
    Ok(one.max < other.min || other.max < one.min)
}

#[cfg(test)]
mod tests {
    use super::*;
    use minijinja::value::Serde;

    #[test]
    fn runs_that_overlap_are_not_apart() {
        let spread = |figures: &[f64]| Value::from(Serde(Spread::from_values(figures).unwrap()));
        let (slow, quick) = (spread(&[10.0, 12.0, 14.0]), spread(&[14.5, 16.0]));
        assert!(apart(&slow, &quick).unwrap() && apart(&quick, &slow).unwrap());
        assert!(!apart(&slow, &spread(&[13.9, 20.0])).unwrap() && !apart(&slow, &slow).unwrap());
        let median = from_value(&Value::from(Serde(vec![3.0, 1.0, 2.0]))).unwrap().median;
        assert_eq!(
            (median.to_string(), from_value(&slow).unwrap().median.to_string()),
            ("2".to_owned(), "12".to_owned())
        );
        for wrong in [Value::from(1), Value::from(Serde(Vec::<f64>::new())), Value::from("many")] {
            assert!(from_value(&wrong).is_err(), "{wrong:?}");
        }
    }
}
