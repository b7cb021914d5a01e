//! Charts of a load: rates against the varied setting, and latencies by percentile.

use super::tables::label;
use crate::figure::{DotFigure, DotRow, Line, LineFigure, Plot, left_out, only_in_table};
use crate::limits::RANGE_ROWS;
use crate::number::grouped;
use crate::summary::distinct;
use overhead_model::Spread;
use overhead_model::load::{Load, LoadResult};
use std::collections::BTreeSet;

/// Names of all possible charts of a load.
const NAMES: [&str; 2] = ["rate", "latency"];

/// Returns the charts of a load that have measurements.
pub(super) fn figures(load: &Load) -> Vec<(&'static str, Plot)> {
    let latency = Some(latency(load)).filter(|figure| !figure.lines.is_empty()).map(Plot::Lines);
    NAMES.into_iter().zip([rate(load), latency]).filter_map(|(name, plot)| Some((name, plot?))).collect()
}

/// Draws operations per second: lines if one setting varies, otherwise ranges.
fn rate(load: &Load) -> Option<Plot> {
    let places: BTreeSet<Setting> = load.results.iter().map(setting).collect();
    let pipelines: BTreeSet<u32> = places.iter().map(|(_, pipeline)| *pipeline).collect();
    let varies = |result: &LoadResult| result.rate.is_some();
    if places.len() > 1 && pipelines.len() == 1 && !load.results.iter().any(varies) {
        return Some(rate_by_clients(load, &places)).filter(|figure| !figure.lines.is_empty()).map(Plot::Lines);
    }
    Some(rate_ranges(load)).filter(|figure| !figure.rows.is_empty()).map(Plot::Dots)
}

/// Returns the rates of a result's complete runs, in order.
fn rates(result: &LoadResult) -> Vec<f64> {
    result.runs.iter().filter(|run| run.partial.is_none() && run.operations > 0).map(|run| run.per_second).collect()
}

/// Draws a row for each result, with a point for each run.
fn rate_ranges(load: &Load) -> DotFigure {
    let row = |result: &LoadResult| {
        let rates = rates(result);
        let spread = Spread::from_values(&rates)?;
        let whole = |rate: f64| grouped(rate.round() as u64);
        let figures = match rates.len() {
            1 => format!("{}, of one run", whole(spread.median)),
            _ => format!("{}, from {} to {}", whole(spread.median), whole(spread.min), whole(spread.max)),
        };
        Some(DotRow {
            group: String::new(),
            name: label(load, result),
            figures,
            mark: spread.median,
            bar: (spread.q1, spread.q3),
            line: (spread.min, spread.max),
            points: rates,
        })
    };
    let mut rows: Vec<DotRow> = load.results.iter().filter_map(row).collect();
    let left_out = rows.len().saturating_sub(RANGE_ROWS);
    rows.truncate(RANGE_ROWS);
    let ends = |row: &DotRow| [row.line.0, row.line.1];
    let least = rows.iter().flat_map(ends).fold(f64::INFINITY, f64::min);
    let most = rows.iter().flat_map(ends).fold(0.0, f64::max);
    let logarithmic = least > 0.0 && most / least > 20.0;
    DotFigure {
        title: "Operations per second".to_owned(),
        description: "A row for each combination: the rate of each of its runs, their median, and how far they go."
            .to_owned(),
        x_title: if logarithmic { "operations per second, logarithmic" } else { "operations per second" }.to_owned(),
        logarithmic,
        legend: ["median of the runs", "the half in the middle", "slowest to quickest"].map(str::to_owned),
        rows,
        method: method(load),
        note: format!(
            "A point is a run; where lines of two rows overlap, these have no order. {}",
            only_in_table(left_out, "line")
        ),
        ..DotFigure::default()
    }
}

fn method(load: &Load) -> String {
    format!("Measured by {} {}, as the client saw it.", load.driver.name, load.driver.version)
}

/// Settings of a result apart from its operation.
type Setting = (u32, u32);

fn setting(result: &LoadResult) -> Setting {
    (result.clients, result.pipeline)
}

/// Draws operations per second by number of clients, one line per operation.
fn rate_by_clients(load: &Load, places: &BTreeSet<Setting>) -> LineFigure {
    let operations = distinct(load.results.iter().map(|result| &*result.operation));
    let spread = |operation: &str, place: &Setting| {
        let result = load.results.iter().find(|result| result.operation == operation && setting(result) == *place)?;
        Spread::from_values(&rates(result))
    };
    let line = |operation: &str| (operation.to_owned(), places.iter().map(|place| spread(operation, place)).collect());
    let mut lines: Vec<Line> = operations.into_iter().map(line).collect();
    lines.retain(|(_, spreads)| spreads.iter().any(Option::is_some));
    let left_out = left_out(&mut lines, "line");
    LineFigure {
        title: "Operations per second".to_owned(),
        description: "Lines: the median rate of each operation, with its spread over the runs, by clients.".to_owned(),
        x_title: "clients".to_owned(),
        y_title: "operations per second".to_owned(),
        places: places.iter().map(|(clients, _)| clients.to_string()).collect(),
        lines,
        method: method(load),
        note: format!("Points are medians over the runs, thick bars the middle half, thin ones the range. {left_out}"),
        ..LineFigure::default()
    }
}

/// Draws the latencies of each result's median run by percentile.
fn latency(load: &Load) -> LineFigure {
    let mut lines: Vec<Line> = load
        .results
        .iter()
        .filter_map(|result| {
            let latency = &result.runs.get(result.summary?.median_run)?.latency_ns;
            let of = [latency.p50, latency.p90, latency.p99, latency.p999, latency.p9999, latency.max];
            Some((label(load, result), of.map(|ns| (ns > 0).then(|| (ns as f64 / 1e3).into())).to_vec()))
        })
        .collect();
    let left_out = left_out(&mut lines, "line");
    LineFigure {
        title: "Latency by percentile".to_owned(),
        description: "Lines: how long the slowest operations took, from the median to the slowest of all.".to_owned(),
        x_title: "of the operations took no longer".to_owned(),
        y_title: "µs, logarithmic".to_owned(),
        logarithmic: true,
        places: ["50%", "90%", "99%", "99.9%", "99.99%", "all"].map(str::to_owned).to_vec(),
        lines,
        method: method(load),
        note: format!("Latencies of the median run of each combination. {left_out}"),
        ..LineFigure::default()
    }
}
