//! Line charts of latencies: by percentile, and cumulative.

use crate::figure::{LineFigure, left_out};
use crate::run::NamedRun;
use crate::summary::{noteworthy, workload};
use crate::sums;
use crate::text::distribution::{self, bounds, count_within};
use overhead_model::Spread;
use overhead_model::record::{Latency, OperationRow, Within};

/// Maximum time limits labelled below a chart.
const BOUNDS: usize = 24;

/// Names of all possible latency charts of a report.
pub(crate) const NAMES: [&str; 2] = ["latency", "distribution"];

/// Name, minimum operation count and accessor.
type PercentileLine = (&'static str, u64, fn(&Latency) -> u64);

/// Percentiles, with the operation count from which each can differ from the maximum.
const PERCENTILES: [PercentileLine; 6] = [
    ("50%", 2, |latency| latency.p50),
    ("90%", 10, |latency| latency.p90),
    ("99%", 100, |latency| latency.p99),
    ("99.9%", 1_000, |latency| latency.p999),
    ("99.99%", 10_000, |latency| latency.p9999),
    ("all", 1, |latency| latency.max),
];

/// Start and end of a latency.
pub(crate) const MEASURED: &str = "Latency runs from the frame with the first byte of the request to the frame with the last byte of the \
response, at the capture point, not the client's.";

/// Returns the latency charts, without empty ones.
pub(crate) fn figures(runs: &[NamedRun]) -> Vec<(&'static str, LineFigure)> {
    let all = [by_percentile(runs), distributions(runs)];
    NAMES.into_iter().zip(all).filter(|(_, figure)| !figure.lines.is_empty()).collect()
}

/// Returns the workload operations to draw (the largest of each run before the second of any) and a sentence about the others.
fn drawn(runs: &[NamedRun], has: impl Fn(&OperationRow) -> bool) -> (Vec<(String, &OperationRow)>, String) {
    // A benchmark's initial queries are not its subject.
    let of_run = |named| noteworthy(&workload(named), usize::MAX).into_iter().filter(|row| has(row)).collect();
    let rows: Vec<Vec<&OperationRow>> = runs.iter().map(|named| of_run(&named.run)).collect();
    let longest = rows.iter().map(Vec::len).max().unwrap_or(0);
    let mut all = Vec::new();
    for at in 0..longest {
        for (named, rows) in runs.iter().zip(&rows) {
            if let Some(row) = rows.get(at) {
                all.push((label(runs, named, row), *row));
            }
        }
    }
    let left_out = left_out(&mut all, "operation");
    (all, left_out)
}

pub(crate) fn label(runs: &[NamedRun], named: &NamedRun, row: &OperationRow) -> String {
    let of = sums::label(&row.name, &row.via);
    if runs.len() > 1 { format!("{}: {of}", named.name) } else { of }
}

fn by_percentile(runs: &[NamedRun]) -> LineFigure {
    let (rows, left_out) = drawn(runs, |row| row.latency_ns.or_empty().count > 0 && row.latency_ns.or_empty().max > 0);
    // Omit percentiles that no row has.
    let most = rows.iter().map(|(_, row)| row.latency_ns.or_empty().count).max().unwrap_or(0);
    let places: Vec<PercentileLine> = PERCENTILES.into_iter().filter(|(_, least, _)| most >= *least).collect();
    let values = |latency: &Latency| -> Vec<Option<Spread>> {
        let of = |(_, least, of): &PercentileLine| (latency.count >= *least).then(|| (of(latency) as f64 / 1e3).into());
        places.iter().map(of).collect()
    };
    LineFigure {
        title: "Latency by percentile".to_owned(),
        description: "Lines: within what time a half, nine tenths and so on of the operations were answered."
            .to_owned(),
        x_title: "of the operations were answered within".to_owned(),
        y_title: "µs, logarithmic".to_owned(),
        logarithmic: true,
        places: places.iter().map(|(name, ..)| (*name).to_owned()).collect(),
        lines: rows.into_iter().map(|(name, row)| (name, values(&row.latency_ns.or_empty()))).collect(),
        method: MEASURED.to_owned(),
        note: left_out,
        ..LineFigure::default()
    }
}

fn distributions(runs: &[NamedRun]) -> LineFigure {
    let (rows, left_out) = drawn(runs, |row| row.latency_within.as_ref().is_some_and(|within| !within.is_empty()));
    let within = rows.into_iter().filter_map(|(name, row)| Some((name, row.latency_within.as_deref()?)));
    LineFigure {
        title: distribution::TITLE.to_owned(),
        x_title: "took no longer than (logarithmic)".to_owned(),
        method: MEASURED.to_owned(),
        note: left_out,
        ..shares(within.collect(), BOUNDS)
    }
}

/// Draws the shares of operations within at most `most` time limits, on a logarithmic axis.
pub(crate) fn shares(found: Vec<(String, &[Within])>, most: usize) -> LineFigure {
    let bounds = bounds(&found.iter().map(|(_, within)| *within).collect::<Vec<_>>(), most);
    let share = |within: &[Within], ns: u64| {
        let all = within.last().filter(|last| last.count > 0)?.count;
        Some((count_within(within, ns) as f64 / all as f64 * 100.0).into())
    };
    let line = |(name, within)| (name, bounds.iter().map(|ns| share(within, *ns)).collect());
    LineFigure {
        description: "Lines: the share of operations that took no longer than each of some lengths of time.".to_owned(),
        y_title: "% of operations".to_owned(),
        places: bounds.iter().map(|ns| distribution::bound(*ns)).collect(),
        positions: bounds.iter().map(|ns| (*ns as f64).max(1.0).log10()).collect(),
        lines: found.into_iter().map(line).collect(),
        ..LineFigure::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;
    use overhead_model::Measured;

    #[test]
    fn a_percentile_that_so_few_operations_do_not_have_is_not_drawn() {
        let mut named = fixture::redis_live();
        let set_count = |named: &mut NamedRun, count| {
            for row in &mut named.run.operations {
                row.latency_ns = Measured::Value(Latency { count, ..row.latency_ns.or_empty() });
            }
        };
        set_count(&mut named, 500);
        let figure = &figures(&[named.clone()])[0].1;
        let values = &figure.lines[0].1;
        assert!(values.iter().all(Option::is_some), "{values:?}");
        assert_eq!(figure.places, ["50%", "90%", "99%", "all"]);
        set_count(&mut named, 0);
        assert!(figures(&[named]).is_empty());
    }

    #[test]
    fn each_run_has_a_line_before_any_has_a_second() {
        let runs: Vec<NamedRun> = (0..3).flat_map(|_| fixture::databases(true)).collect();
        let figure = &figures(&runs)[0].1;
        assert_eq!(figure.lines.len(), 8, "one per colour");
        let named: std::collections::BTreeSet<&str> =
            figure.lines.iter().filter_map(|(name, _)| name.split(':').next()).collect();
        assert_eq!(named.len(), fixture::databases(true).len());
        assert!(figure.note.contains("more operations"), "{}", figure.note);
    }

    #[test]
    fn shares_are_drawn_where_the_record_has_them_on_a_logarithmic_axis() {
        let mut named = fixture::redis_live();
        assert_eq!(figures(std::slice::from_ref(&named)).len(), 1);
        let within = [(1_000, 5), (10_000, 9), (100_000, 10)].map(|(ns, count)| Within { ns, count });
        named.run.operations.iter_mut().for_each(|row| row.latency_within = Some(within.to_vec()));
        let figures = figures(&[named]);
        let (name, figure) = &figures[1];
        assert_eq!((*name, figure.positions.as_slice()), ("distribution", &[3.0, 4.0, 5.0][..]));
        assert_eq!(figure.lines[0].1, [50.0, 90.0, 100.0].map(|share| Some(share.into())));
    }
}
