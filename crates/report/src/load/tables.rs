//! Tables of a load.

use crate::grid::Grid;
use crate::number::{DASH, grouped, microseconds, with_digits};
use overhead_model::load::{Load, LoadResult, LoadRun};

/// Returns a label such as `read, 16 clients`, with pipeline and rate if set.
pub(super) fn label(load: &Load, result: &LoadResult) -> String {
    let clients = if result.clients == 1 { "1 client".to_owned() } else { format!("{} clients", result.clients) };
    let several = load.results.iter().any(|other| other.pipeline != result.pipeline) || result.pipeline > 1;
    let pipeline = if several { format!(", pipeline {}", result.pipeline) } else { String::new() };
    let rate = result.rate.map(|rate| format!(", {} /s asked for", grouped(rate.round() as u64))).unwrap_or_default();
    format!("{}, {clients}{pipeline}{rate}", result.operation)
}

/// Headers of the results' numbers.
const RESULTS: &str = "clients|pipeline|runs|per second|slowest run|fastest run|errors|\
    p50 µs|p90 µs|p99 µs|p99.9 µs|p99.99 µs|max µs|client CPU µs/op";

pub(super) fn results(load: &Load) -> Grid {
    let headers: Vec<&str> = RESULTS.split('|').collect();
    Grid::new(&["operation"], &headers, load.results.iter().map(cells).collect())
}

fn cells(result: &LoadResult) -> Vec<String> {
    let rate = |rate: f64| grouped(rate.round() as u64);
    let errors: u64 = result.runs.iter().map(|run| run.errors).sum();
    let mut cells = vec![
        result.operation.clone(),
        result.clients.to_string(),
        result.pipeline.to_string(),
        result.runs.len().to_string(),
    ];
    match result.summary.and_then(|summary| Some((summary, result.runs.get(summary.median_run)?))) {
        None => cells.extend(
            [DASH; 3].map(str::to_owned).into_iter().chain([grouped(errors)]).chain([DASH; 7].map(str::to_owned)),
        ),
        Some((summary, run)) => {
            cells.extend([summary.per_second, summary.per_second_min, summary.per_second_max].map(rate));
            cells.push(grouped(errors));
            let latency = &run.latency_ns;
            let of = [latency.p50, latency.p90, latency.p99, latency.p999, latency.p9999, latency.max];
            cells.extend(of.map(|ns| if latency.count == 0 { DASH.to_owned() } else { microseconds(ns) }));
            cells.push(cpu(run));
        }
    }
    cells
}

/// Formats the client's CPU time per operation in microseconds.
fn cpu(run: &LoadRun) -> String {
    let operations = (run.operations + run.errors).max(1);
    with_digits((run.cpu_ns.user + run.cpu_ns.kernel) as f64 / 1e3 / operations as f64, 2)
}

pub(super) fn repetitions(load: &Load) -> Grid {
    let figures =
        ["run", "operations", "errors", "seconds", "per second", "p50 µs", "p99 µs", "max µs", "client CPU µs/op"];
    let of = |result: &LoadResult| {
        let name = label(load, result);
        let cells = |(at, run): (usize, &LoadRun)| {
            let latency = &run.latency_ns;
            let time = |ns: u64| if latency.count == 0 { DASH.to_owned() } else { microseconds(ns) };
            vec![
                name.clone(),
                (at + 1).to_string(),
                grouped(run.operations),
                grouped(run.errors),
                with_digits(run.elapsed_ns as f64 / 1e9, 2),
                grouped(run.per_second.round() as u64),
                time(latency.p50),
                time(latency.p99),
                time(latency.max),
                cpu(run),
            ]
        };
        result.runs.iter().enumerate().map(cells).collect::<Vec<_>>()
    };
    Grid::new(&["combination"], &figures, load.results.iter().flat_map(of).collect())
}
