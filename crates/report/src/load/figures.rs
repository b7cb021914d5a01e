//! A load in lines: rates against what varies, and latencies by percentile.

use super::tables::label;
use crate::figure::{LineFigure, Look};
use crate::text::clean;
use overhead_model::Spread;
use overhead_model::load::{Load, LoadResult};
use std::collections::BTreeSet;

/// Lines that a figure has room for: as many as there are colours.
const LINES: usize = 8;

/// Names of all figures that a load may have.
pub(super) const NAMES: [&str; 2] = ["rate", "latency"];

/// Returns the figures of a load, those left out that nothing was measured of.
pub(super) fn figures(load: &Load) -> Vec<(&'static str, LineFigure)> {
    let all = [rate(load), latency(load)];
    NAMES.into_iter().zip(all).filter(|(_, figure)| !figure.lines.is_empty()).collect()
}

fn note(load: &Load, left_out: usize) -> String {
    let left_out = match left_out {
        0 => String::new(),
        1 => " One more line is in the table alone.".to_owned(),
        more => format!(" {more} more lines are in the table alone."),
    };
    format!("by {} {}, as the client saw it.{left_out}", clean(&load.driver.name), clean(&load.driver.version))
}

/// What a result was measured with, beside its operation.
type Setting = (u32, u32);

fn setting(result: &LoadResult) -> Setting {
    (result.clients, result.pipeline)
}

/// Operations per second: a place for each number of clients and length of pipeline, a line for each operation.
fn rate(load: &Load) -> LineFigure {
    let places: BTreeSet<Setting> = load.results.iter().map(setting).collect();
    let several = places.iter().map(|(_, pipeline)| pipeline).collect::<BTreeSet<_>>().len() > 1;
    let mut operations: Vec<&str> = Vec::new();
    for result in &load.results {
        if !operations.contains(&&*result.operation) {
            operations.push(&result.operation);
        }
    }
    let spread = |operation: &str, place: &Setting| {
        let result = load.results.iter().find(|result| result.operation == operation && setting(result) == *place)?;
        let complete = result.runs.iter().filter(|run| run.partial.is_none() && run.operations > 0);
        Spread::of(&complete.map(|run| run.per_second).collect::<Vec<_>>())
    };
    let spreads: Vec<Vec<Option<Spread>>> = operations
        .iter()
        .take(LINES)
        .map(|operation| places.iter().map(|place| spread(operation, place)).collect())
        .collect();
    let lines = operations.iter().zip(&spreads).filter(|(_, spreads)| spreads.iter().any(Option::is_some));
    let lines: Vec<(String, Vec<Option<f64>>)> = lines
        .map(|(operation, spreads)| (clean(operation), spreads.iter().map(|of| of.map(|of| of.median)).collect()))
        .collect();
    LineFigure {
        title: "Operations per second".to_owned(),
        description: "Lines: the median rate of each operation, with its spread over the runs, by clients.".to_owned(),
        x_title: if several { "clients x pipeline" } else { "clients" }.to_owned(),
        y_title: "operations per second".to_owned(),
        logarithmic: false,
        places: places
            .iter()
            .map(|(clients, pipeline)| if several { format!("{clients} x {pipeline}") } else { clients.to_string() })
            .collect(),
        positions: Vec::new(),
        look: Look::default(),
        is_unordered: several,
        spreads: spreads.into_iter().filter(|spreads| spreads.iter().any(Option::is_some)).collect(),
        lines,
        note: format!(
            "points are medians over the runs, thick bars the middle half, thin ones the range; {}",
            note(load, operations.len().saturating_sub(LINES))
        ),
    }
}

/// Latencies of the median run of each result, by percentile.
fn latency(load: &Load) -> LineFigure {
    let lines: Vec<(String, Vec<Option<f64>>)> = load
        .results
        .iter()
        .filter_map(|result| {
            let latency = &result.runs.get(result.summary?.median_run)?.latency_ns;
            let of = [latency.p50, latency.p90, latency.p99, latency.p999, latency.p9999, latency.max];
            Some((label(load, result), of.map(|ns| Some(ns as f64 / 1e3).filter(|us| *us > 0.0)).to_vec()))
        })
        .collect();
    let left_out = lines.len().saturating_sub(LINES);
    LineFigure {
        title: "Latency by percentile".to_owned(),
        description: "Lines: how long the slowest operations took, from the median to the slowest of all.".to_owned(),
        x_title: "of the operations took no longer".to_owned(),
        y_title: "µs, logarithmic".to_owned(),
        logarithmic: true,
        places: ["50%", "90%", "99%", "99.9%", "99.99%", "all"].map(str::to_owned).to_vec(),
        positions: Vec::new(),
        look: Look::default(),
        is_unordered: false,
        lines: lines.into_iter().take(LINES).collect(),
        spreads: Vec::new(),
        note: format!("latencies of the median run of each combination; {}", note(load, left_out)),
    }
}
