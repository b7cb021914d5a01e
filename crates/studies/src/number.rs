//! Numbers as sentences and tables print them. Anything but a number is an error, not an empty place.

use crate::query::error;
use minijinja::Error;
use minijinja::value::Value;
use overhead_model::Spread;
use overhead_report::text::number;

/// Returns a number; anything else is an error.
pub(crate) fn from_number(value: &Value) -> Result<f64, Error> {
    f64::try_from(value.clone()).map_err(|_| error(format!("{value:?} is not a number")))
}

/// A filter for templates: its name, and how it prints a number.
type NumberFilter = (&'static str, fn(f64) -> String);

pub(crate) const FILTERS: [NumberFilter; 6] = [
    // With one digit after the point if they are not whole: `1,234`, `25.5`.
    ("bytes", |value| signed_by(value, false, number::bytes_label)),
    // A difference of bytes with its sign: `+33`, `−7.5`.
    ("signed", |value| signed_by(value, true, number::bytes_label)),
    // About three significant digits: `0.032`, `3.21`, `1,234`.
    ("digits", |value| signed_by(value, false, number::significant)),
    ("whole", |value| signed_by(value, false, |value| number::with_digits(value, 0))),
    // Nanoseconds in microseconds.
    ("us", |value| number::significant(value / 1e3)),
    // A part of one: `12.3%`.
    ("percent", |value| signed_by(value * 100.0, false, |value| number::with_digits(value, 1)) + "%"),
];

fn signed_by(value: f64, plus: bool, print: impl Fn(f64) -> String) -> String {
    let text = print(value.abs());
    let is_zero = text.bytes().all(|byte| !byte.is_ascii_digit() || byte == b'0');
    match value {
        _ if is_zero => text,
        value if value < 0.0 => format!("−{text}"),
        _ if plus => format!("+{text}"),
        _ => text,
    }
}

/// Returns the spread of a cell or of a list of numbers.
///
/// # Errors
///
/// Anything else, and an empty list.
pub(crate) fn from_value(value: &Value) -> Result<Spread, Error> {
    if value.get_attr("median")?.is_undefined() {
        let figures = value.try_iter()?.map(|value| from_number(&value)).collect::<Result<Vec<_>, _>>()?;
        return Spread::from_values(&figures).ok_or_else(|| error(format!("{value:?} has no spread")));
    }
    let part = |name: &str| from_number(&value.get_attr(name)?);
    let (median, q1, q3) = (part("median")?, part("q1")?, part("q3")?);
    Ok(Spread { runs: part("runs")? as u64, median, q1, q3, min: part("min")?, max: part("max")? })
}

/// Returns whether all runs of one lie on one side of all runs of the other: overlapping runs do not differ.
pub(crate) fn apart(one: &Value, other: &Value) -> Result<bool, Error> {
    let (one, other) = (from_value(one)?, from_value(other)?);
    Ok(one.max < other.min || other.max < one.min)
}

/// Returns the percentage of requests that took no longer than `bound`, from the last entry at or below it; 0 before all.
pub(crate) fn within(entries: &Value, bound: f64) -> Result<f64, Error> {
    let reached = pairs(entries)?.into_iter().take_while(|(_, at)| *at <= bound).last();
    Ok(reached.map_or(0.0, |(percent, _)| percent))
}

/// Returns the bound within which `percent` of the requests were answered, from the first entry that is no lower.
///
/// # Errors
///
/// A percentage above all entries.
pub(crate) fn percentile(entries: &Value, percent: f64) -> Result<f64, Error> {
    let reached = pairs(entries)?.into_iter().find(|(part, _)| *part >= percent);
    reached.map(|(_, bound)| bound).ok_or_else(|| error(format!("no entry of {percent} per cent")))
}

fn pairs(entries: &Value) -> Result<Vec<(f64, f64)>, Error> {
    let pair =
        |entry: Value| Ok((f64::try_from(entry.get_item_by_index(0)?)?, f64::try_from(entry.get_item_by_index(1)?)?));
    entries.try_iter()?.map(pair).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use minijinja::value::Serde;

    #[test]
    fn numbers_are_printed_with_their_sign_and_what_is_none_is_refused() {
        let print = |name: &str, value: Value| {
            let (_, print) = FILTERS.into_iter().find(|(of, _)| *of == name).unwrap();
            print(from_number(&value).unwrap())
        };
        assert_eq!(print("bytes", Value::from(1234)), "1,234");
        assert_eq!(print("bytes", Value::from(25.46)), "25.5");
        assert_eq!(print("signed", Value::from(-7.5)), "−7.5");
        assert_eq!(print("signed", Value::from(33)), "+33");
        assert_eq!(print("signed", Value::from(0.001)), "0");
        assert_eq!(print("percent", Value::from(0.123)), "12.3%");
        assert_eq!(print("us", Value::from(12_345)), "12.3");
        assert!(from_number(&Value::from("many")).is_err() && from_number(&Value::UNDEFINED).is_err());
    }

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

    #[test]
    fn a_distribution_is_read_from_both_sides() {
        let entries = Value::from(Serde(vec![(51.6, 0.207, 1032), (80.9, 0.407, 1619), (100.0, 13.103, 2000)]));
        let parts = [0.1, 0.3, 1.0, 20.0].map(|bound| within(&entries, bound).unwrap().to_string());
        assert_eq!(parts, ["0", "51.6", "80.9", "100"]);
        let bounds = [50.0, 51.6, 99.0].map(|part| percentile(&entries, part).unwrap().to_string());
        assert_eq!(bounds, ["0.207", "0.207", "13.103"]);
        assert!(percentile(&entries, 100.1).is_err() && within(&Value::from(1), 1.0).is_err());
    }
}
