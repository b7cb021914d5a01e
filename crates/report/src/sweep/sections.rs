//! Tables of a sweep: bytes, latencies, whole runs and the command's own reports, with a row per combination of values.

use super::figures::notable;
use super::summary::{LATENCIES, Sweep, SweepOperation, SweepPoint, SweepWork};
use crate::bounds::AT_LEAST;
use crate::clean::clean;
use crate::document::Section;
use crate::grid::{Column, Grid};
use crate::limits::FIGURE_NEGLIGIBLE;
use crate::number::{DASH, decimal, grouped, significant};
use crate::summary::distinct;
use crate::text::distribution;
use overhead_model::record::{CycleSource, Within};
use overhead_model::{Measured, Spread};

type Printed = fn(f64) -> String;

/// Explanation of the cells.
pub(super) const CELLS: &str =
    "Cells: the median over the runs, and in parentheses the first and the third quartile where they differ from it.";

/// Returns the non-empty tables.
pub(super) fn sections(sweep: &Sweep) -> Vec<Section> {
    let all = [whole, bytes, latencies, within, work, reported].map(|section| section(sweep));
    let all = all.into_iter().map(|of| Section { table: of.table.measured(), ..of });
    all.filter(|section| section.table.columns.len() > section.table.keys && !section.table.rows.is_empty()).collect()
}

/// Returns `GET`, or `SELECT (prepared)` if the sweep has several ways of sending.
fn label(sweep: &Sweep, operation: &SweepOperation) -> String {
    let name = operation.name.clone();
    let is_other = |other: &SweepOperation| other.name == operation.name && other.via != operation.via;
    let has_several = sweep.points.iter().flat_map(|point| &point.operations).any(is_other);
    if has_several && !operation.via.is_empty() { format!("{name} ({})", operation.via) } else { name }
}

fn whole(sweep: &Sweep) -> Section {
    let figures = ["runs", "wire\nB/op", "round\ntrips/op", "frames\n/op", "operations\n/s"];
    let row = |point: &SweepPoint| {
        let total = &point.total;
        let counted = point.runs.iter().filter(|run| run.fault.is_none()).count();
        let wire = |figure: &Measured<Spread>, print: Printed| bounded(point, measured(figure, print));
        let mut cells = keys(point);
        cells.push(format!("{counted} of {}", point.runs.len().max(sweep.runs)));
        cells.push(wire(&total.wire_bytes, decimal));
        cells.push(wire(&total.round_trips, significant));
        cells.push(wire(&total.frames, significant));
        cells.push(measured(&total.per_second, |rate| grouped(rate.round() as u64)));
        cells
    };
    let rows = sweep.points.iter().map(row).collect();
    let note = "Everything on the selected connections (setup, background and connection set-up too), per operation of the \
                workload. Operations per second: from the first frame to the last, under the capture.";
    Section::new("Whole cost per operation", table(sweep, &[], &figures, rows), note)
}

fn bytes(sweep: &Sweep) -> Section {
    let figures = ["count", "request\nB/op", "response\nB/op", "total\nB/op", "errors"];
    let cells = |point: &SweepPoint, operation: &SweepOperation| {
        let wire = |figure: String| bounded(point, figure);
        vec![
            cell(operation.count, |count| grouped(count.round() as u64)),
            wire(cell(operation.request_bytes, decimal)),
            wire(measured(&operation.response_bytes, decimal)),
            wire(cell(operation.wire_bytes, decimal)),
            grouped(operation.errors),
        ]
    };
    let table = table(sweep, &["operation"], &figures, by_operation(sweep, cells));
    let note = "B/op: bytes on the wire, headers and acknowledgments included; errors: of all runs together.";
    Section::new("Bytes per operation", table, note)
}

fn latencies(sweep: &Sweep) -> Section {
    let rows = by_operation(sweep, |_, operation| operation.latency_ns.iter().map(microseconds).collect());
    let table = table(sweep, &["operation"], &LATENCIES, rows);
    let note = "From the frame with the first byte of the request to the frame with the last byte of the response, at the \
                capture point, not the client's.";
    Section::new("Latency in µs", table, note)
}

fn within(sweep: &Sweep) -> Section {
    let rows: Vec<(Vec<String>, &[Within])> = sweep
        .points
        .iter()
        .flat_map(|point| {
            notable(point, FIGURE_NEGLIGIBLE)
                .map(|one| ([keys(point), vec![label(sweep, one)]].concat(), &*one.latency_within))
        })
        .filter(|(_, within)| !within.is_empty())
        .collect();
    let (bounds, cells) = distribution::percentages(&rows.iter().map(|(_, within)| *within).collect::<Vec<_>>());
    let rows = rows.into_iter().zip(cells).map(|((keys, _), cells)| [keys, cells].concat()).collect();
    let mut table = table(sweep, &["operation"], &[], rows);
    table.columns.extend(bounds);
    Section::new(distribution::TITLE, table, "Of all runs together; at the capture point, rounded down.")
}

fn work(sweep: &Sweep) -> Section {
    let figures = [
        "server\ncalls/op",
        "client\ncalls/op",
        "server\nCPU µs/op",
        "client\nCPU µs/op",
        "server\ncycles/op",
        "client\ncycles/op",
    ];
    let row = |point: &SweepPoint| {
        let roles = || point.total.work.iter();
        let mut cells = keys(point);
        cells.extend(roles().map(|role| measured(&role.syscalls, significant)));
        cells.extend(roles().map(|role| measured(&role.on_cpu_ns, |ns| significant(ns / 1e3))));
        cells.extend(roles().map(cycles));
        cells
    };
    let note = format!("All workload operations of a run together.{}", absences(sweep));
    let rows = sweep.points.iter().map(row).collect();
    Section::new("Work per operation", table(sweep, &[], &figures, rows), note)
}

/// Formats cycles; reference cycles are a unit of time.
fn cycles(work: &SweepWork) -> String {
    let text = measured(&work.cycles, significant);
    if work.cycles_source == Some(CycleSource::Reference) && text != DASH { format!("{text} ref") } else { text }
}

/// Returns the reasons for missing work figures without duplicates.
fn absences(sweep: &Sweep) -> String {
    let has_runs = |point: &&SweepPoint| point.runs.iter().any(|run| run.fault.is_none());
    let said = sweep.points.iter().filter(has_runs).map(|point| &point.total).flat_map(|total| {
        let figures = [
            ("operations per second", &total.per_second),
            ("frames", &total.frames),
            ("server", &total.work[0].syscalls),
            ("client", &total.work[1].syscalls),
            ("server's cycles", &total.work[0].cycles),
            ("client's cycles", &total.work[1].cycles),
        ];
        figures.into_iter().filter_map(|(name, figure)| {
            Some(format!(" {name}: not measured: {}.", figure.reason()?.trim_end_matches('.')))
        })
    });
    distinct(said).concat()
}

fn reported(sweep: &Sweep) -> Section {
    let rows = sweep.points.iter().flat_map(|point| {
        point.reported.iter().map(|test| {
            let [mean, p50, _, p95, p99, p999, _, max] = &test.latency_ns;
            let mut cells = keys(point);
            cells.push(format!("{} {}", test.program, test.name));
            cells.push(measured(&test.per_second, |rate| grouped(rate.round() as u64)));
            cells.extend([mean, p50, p95, p99, p999, max].map(microseconds));
            cells
        })
    });
    let figures = ["per\nsecond", "mean", "p50", "p95", "p99", "p99.9", "max"];
    let table = table(sweep, &["test"], &figures, rows.collect());
    let note = "What the command printed about itself: its rate per second, and latencies from its own side.";
    Section::new("As the command reported, in µs", table, note)
}

/// Returns a table with a column for each key that distinguishes the runs, then further keys, then figures.
fn table(sweep: &Sweep, keys: &[&str], figures: &[&str], rows: Vec<Vec<String>>) -> Grid {
    let names = sweep.keys.all().map(|key| {
        let is_number = key.values.iter().all(|value| value.parse::<f64>().is_ok());
        let name = clean(&key.name);
        if is_number { Column::right(&name) } else { Column::left(&name) }
    });
    let columns = names.chain(keys.iter().map(|key| Column::left(key)));
    let columns = columns.chain(figures.iter().map(|figure| Column::right(figure))).collect();
    Grid { columns, rows, keys: sweep.keys.all().count() + keys.len() }
}

/// Returns a point's values in the order of the keys.
fn keys(point: &SweepPoint) -> Vec<String> {
    point.values.iter().map(|value| value.clone().unwrap_or_else(|| DASH.to_owned())).collect()
}

fn by_operation(sweep: &Sweep, cells: impl Fn(&SweepPoint, &SweepOperation) -> Vec<String>) -> Vec<Vec<String>> {
    let row = |point: &SweepPoint, operation: &SweepOperation| {
        let mut row = keys(point);
        row.push(label(sweep, operation));
        row.extend(cells(point, operation));
        row
    };
    sweep
        .points
        .iter()
        .flat_map(|point| notable(point, FIGURE_NEGLIGIBLE).map(|one| row(point, one)).collect::<Vec<_>>())
        .collect()
}

/// Marks a byte or frame figure of a point whose captures had losses.
fn bounded(point: &SweepPoint, figure: String) -> String {
    if point.lower_bounds.is_empty() || figure == DASH { figure } else { format!("{AT_LEAST}{figure}") }
}

fn microseconds(ns: &Measured<Spread>) -> String {
    measured(ns, |ns| significant(ns / 1e3))
}

fn measured(figure: &Measured<Spread>, print: Printed) -> String {
    figure.value().map_or_else(|| DASH.to_owned(), |spread| cell(*spread, print))
}

/// Formats `41.5 (40.2-42.0)`, or only the median without a spread.
fn cell(spread: Spread, print: Printed) -> String {
    let [median, q1, q3] = [spread.median, spread.q1, spread.q3].map(print);
    if q1 == median && q3 == median { median } else { format!("{median} ({q1}-{q3})") }
}
