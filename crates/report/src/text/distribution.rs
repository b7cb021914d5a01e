//! Cumulative latencies (operations within 1 ms, 2 ms, …), the table that many load generators end with.

use crate::document::Section;
use crate::grid::{Column, Grid};
use crate::number::{DASH, with_digits};
use crate::summary::ranked;
use overhead_model::Run;
use overhead_model::record::{OperationRow, Within};
use std::collections::BTreeSet;

pub(crate) const TITLE: &str = "Latency: operations that took no longer";

/// Returns the columns of the time limits and the cells of each row. A row holds cumulative counts, ending with the total.
pub(crate) fn percentages(rows: &[&[Within]]) -> (Vec<Column>, Vec<Vec<String>>) {
    let bounds: BTreeSet<u64> = rows.iter().flat_map(|row| row.iter().map(|within| within.ns)).collect();
    let columns = bounds.iter().map(|ns| Column::right(&format!("≤ {}", bound(*ns)))).collect();
    let cells = rows.iter().map(|row| {
        let all = row.last().map_or(0, |within| within.count);
        bounds.iter().map(|ns| share(count_within(row, *ns), all)).collect()
    });
    (columns, cells.collect())
}

/// Returns the number of operations within this time.
pub(crate) fn count_within(row: &[Within], ns: u64) -> u64 {
    row.iter().take_while(|within| within.ns <= ns).last().map_or(0, |within| within.count)
}

/// Returns a run's table, with columns for the operation and the time limits, or `None` if the record lacks the data.
pub(crate) fn section(run: &Run) -> Option<Section> {
    let rows: Vec<_> = ranked(run).into_iter().filter_map(|row| Some((row, row.latency_within.as_deref()?))).collect();
    if rows.is_empty() {
        return None;
    }
    let has_several = rows.iter().any(|(row, _)| rows.iter().any(|(other, _)| other.protocol != row.protocol));
    let name = |row: &OperationRow| {
        if has_several { format!("{} {}", row.protocol, row.name) } else { row.name.clone() }
    };
    let (bounds, cells) = percentages(&rows.iter().map(|(_, within)| *within).collect::<Vec<_>>());
    let keyed = rows.iter().zip(cells).map(|((row, _), cells)| [vec![name(row), row.via.clone()], cells].concat());
    let mut table = Grid::new(&["operation", "via"], &[], keyed.collect());
    table.columns.extend(bounds);
    Some(Section { title: TITLE.to_owned(), table, notes: Vec::new() })
}

/// Returns the time limits to draw, at most `most`: those of all lines, up to the first that includes every operation of each
/// line.
pub(crate) fn bounds(rows: &[&[Within]], most: usize) -> Vec<u64> {
    let all: BTreeSet<u64> = rows.iter().flat_map(|row| row.iter().map(|within| within.ns)).collect();
    let is_all = |ns: u64| rows.iter().all(|row| row.last().is_none_or(|last| count_within(row, ns) == last.count));
    let end = all.iter().position(|ns| is_all(*ns)).map_or(all.len(), |at| at + 1);
    let step = end.div_ceil(most).max(1);
    // Count from the end, to keep the limit that includes all operations.
    all.into_iter()
        .take(end)
        .enumerate()
        .filter(|(at, _)| (end - 1 - at).is_multiple_of(step))
        .map(|(_, ns)| ns)
        .collect()
}

/// Formats a time limit: `1 ms`, `200 µs`.
pub(crate) fn bound(ns: u64) -> String {
    let (value, unit) = match ns {
        0..1_000_000 => (ns as f64 / 1e3, "µs"),
        1_000_000..1_000_000_000 => (ns as f64 / 1e6, "ms"),
        _ => (ns as f64 / 1e9, "s"),
    };
    let digits = usize::from((value - value.round()).abs() >= 1e-9);
    format!("{} {unit}", with_digits(value, digits))
}

/// Rounds down, so that 100% means all operations.
fn share(count: u64, all: u64) -> String {
    match (count, all) {
        (_, 0) => DASH.to_owned(),
        (count, all) if count == all => "100%".to_owned(),
        (count, all) => {
            let hundredths = u128::from(count) * 10_000 / u128::from(all);
            format!("{}.{:02}%", hundredths / 100, hundredths % 100)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn within(pairs: &[(u64, u64)]) -> Vec<Within> {
        pairs.iter().map(|&(ns, count)| Within { ns, count }).collect()
    }

    #[test]
    fn every_row_has_every_bound_and_all_is_said_of_all_alone() {
        let fast = within(&[(500_000, 10), (1_000_000, 200)]);
        let slow = within(&[(1_000_000, 99_999), (1_500_000_000, 100_000)]);
        let (columns, cells) = percentages(&[&fast, &slow]);
        let headers: Vec<&str> = columns.iter().map(|column| &*column.header).collect();
        assert_eq!(headers, ["≤ 500 µs", "≤ 1 ms", "≤ 1.5 s"]);
        assert_eq!(cells, [["5.00%", "100%", "100%"], ["0.00%", "99.99%", "100%"]]);
        assert_eq!(share(0, 0), DASH);
    }
}
