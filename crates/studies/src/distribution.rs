//! Distributions as `redis-benchmark` prints them: lists of `[percent, bound, count]`, both rising.

use crate::query::error;
use minijinja::Error;
use minijinja::value::Value;

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
    fn a_distribution_is_read_from_both_sides() {
        let entries = Value::from(Serde(vec![(51.6, 0.207, 1032), (80.9, 0.407, 1619), (100.0, 13.103, 2000)]));
        let parts = [0.1, 0.3, 1.0, 20.0].map(|bound| within(&entries, bound).unwrap().to_string());
        assert_eq!(parts, ["0", "51.6", "80.9", "100"]);
        let bounds = [50.0, 51.6, 99.0].map(|part| percentile(&entries, part).unwrap().to_string());
        assert_eq!(bounds, ["0.207", "0.207", "13.103"]);
        assert!(percentile(&entries, 100.1).is_err() && within(&Value::from(1), 1.0).is_err());
    }
}
