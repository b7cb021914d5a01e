//! Tables of a sweep: bytes, latencies, whole runs and the command's own reports, with a row per combination of values.

use crate::bounds::AT_LEAST;
use crate::clean::clean;
use crate::document::Section;
use crate::grid::{Column, Grid};
use crate::limits::{FIGURE_COMMON, FIGURE_NEGLIGIBLE};
use crate::number::{DASH, decimal, grouped, significant};
use crate::summary::distinct;
use crate::text::distribution;
use overhead_model::record::{CycleSource, Within};
use overhead_model::sweep::{Sweep, SweepLatency, SweepOperation, SweepPoint, SweepWork};
use overhead_model::{Measured, Spread};

type Printed = fn(f64) -> String;

/// Explanation of the cells.
pub(super) const CELLS: &str =
    "Cells: the median over the runs, and in parentheses the first and the third quartile where they differ from it.";

/// Returns the non-empty tables of these sweeps: one of all if their columns are the same, or one of each.
pub(super) fn sections(sweeps: &[(&str, &Sweep)]) -> Vec<Section> {
    let of_kind = |section: fn(&Sweep) -> Section| {
        let each = sweeps.iter().map(|(name, sweep)| (*name, section(sweep)));
        let each: Vec<(&str, Section)> = each.filter(|(_, section)| !section.table.rows.is_empty()).collect();
        if sweeps.len() == 1 { each.into_iter().map(|(_, section)| section).collect() } else { together(each) }
    };
    [bytes, latencies, within, work, reported].into_iter().flat_map(of_kind).collect()
}

fn together(mut each: Vec<(&str, Section)>) -> Vec<Section> {
    let headers = |of: &Section| of.table.columns.iter().map(|column| column.header.clone()).collect::<Vec<_>>();
    let is_alike = each.windows(2).all(|pair| headers(&pair[0].1) == headers(&pair[1].1));
    if !is_alike {
        for (name, of) in &mut each {
            of.title = format!("{name}: {}", of.title);
        }
        return each.into_iter().map(|(_, section)| section).collect();
    }
    for (name, Section { table, .. }) in &mut each {
        table.columns.insert(0, Column::left("system"));
        table.rows.iter_mut().for_each(|row| row.insert(0, (*name).to_owned()));
        table.keys += 1;
    }
    let one = each.into_iter().map(|(_, section)| section).reduce(|mut all, next| {
        all.table.rows.extend(next.table.rows);
        all.notes.extend(next.notes);
        all.notes.dedup();
        all
    });
    one.into_iter().collect()
}

/// Returns the notable operations of a point: nearly all of its bytes, and the frequent ones.
pub(super) fn shown(point: &SweepPoint) -> impl Iterator<Item = &SweepOperation> {
    let of = |figure: fn(&SweepOperation) -> f64| point.operations.iter().map(figure).sum::<f64>();
    let (bytes, count) = (of(total_bytes), of(|operation| operation.count.median));
    point.operations.iter().filter(move |operation| {
        total_bytes(operation) * FIGURE_NEGLIGIBLE as f64 >= bytes
            || operation.count.median * FIGURE_COMMON as f64 >= count
    })
}

fn total_bytes(operation: &SweepOperation) -> f64 {
    operation.wire_bytes.median * operation.count.median
}

/// Returns `GET`, or `SELECT (prepared)` if the sweep has several ways of sending.
fn label(sweep: &Sweep, operation: &SweepOperation) -> String {
    let name = operation.name.clone();
    let is_other = |other: &SweepOperation| other.name == operation.name && other.via != operation.via;
    let has_several = sweep.points.iter().flat_map(|point| &point.operations).any(is_other);
    if has_several && !operation.via.is_empty() { format!("{name} ({})", operation.via) } else { name }
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
    let rows = by_operation(sweep, |_, operation| {
        let SweepLatency { p50, p90, p99, p999, p9999, max, .. } = &operation.latency_ns;
        [p50, p90, p99, p999, p9999, max].map(microseconds).into()
    });
    let table = table(sweep, &["operation"], &["p50", "p90", "p99", "p99.9", "p99.99", "max"], rows);
    let note = "From the frame with the first byte of the request to the frame with the last byte of the response, at the \
                capture point, not the client's.";
    Section::new("Latency in µs", table, note)
}

fn within(sweep: &Sweep) -> Section {
    let rows: Vec<(Vec<String>, &[Within])> = sweep
        .points
        .iter()
        .flat_map(|point| {
            shown(point).map(|one| ([keys(point), vec![label(sweep, one)]].concat(), &*one.latency_within))
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
        "runs",
        "operations\n/s",
        "frames\n/op",
        "server\ncalls/op",
        "client\ncalls/op",
        "server\nCPU µs/op",
        "client\nCPU µs/op",
        "server\ncycles/op",
        "client\ncycles/op",
    ];
    let row = |point: &SweepPoint| {
        let total = &point.total;
        let counted = point.runs.iter().filter(|run| run.fault.is_none()).count();
        let roles = [&total.server, &total.client];
        let mut cells = keys(point);
        cells.push(format!("{counted} of {}", sweep.runs));
        cells.push(measured(&total.per_second, |rate| grouped(rate.round() as u64)));
        cells.push(bounded(point, measured(&total.frames, significant)));
        cells.extend(roles.map(|role| measured(&role.syscalls, significant)));
        cells.extend(roles.map(|role| measured(&role.on_cpu_ns, |ns| significant(ns / 1e3))));
        cells.extend(roles.map(cycles));
        cells
    };
    let note = format!(
        "All workload operations of a run together. Operations per second: from the first frame to the last, under the \
         capture. Frames: all of the connections, acknowledgments and connection set-up included.{}",
        absences(sweep)
    );
    let rows = sweep.points.iter().map(row).collect();
    Section::new("Rate and work per operation", table(sweep, &[], &figures, rows), note)
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
            ("server", &total.server.syscalls),
            ("client", &total.client.syscalls),
            ("server's cycles", &total.server.cycles),
            ("client's cycles", &total.client.cycles),
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
            let SweepLatency { p50, p95, p99, p999, max, mean, .. } = &test.latency_ns;
            let mut cells = keys(point);
            cells.push(format!("{} {}", test.program, test.name));
            cells.push(measured(&test.per_second, |rate| grouped(rate.round() as u64)));
            cells.extend([mean, p50, p95, p99, p999, max].map(microseconds));
            cells
        })
    });
    let figures = ["per\nsecond", "mean", "p50", "p95", "p99", "p99.9", "max"];
    let table = table(sweep, &["test"], &figures, rows.collect()).measured();
    let note = "What the command printed about itself: its rate per second, and latencies from its own side.";
    Section::new("As the command reported, in µs", table, note)
}

/// Returns a table with a column for each parameter, then further keys, then figures.
fn table(sweep: &Sweep, keys: &[&str], figures: &[&str], rows: Vec<Vec<String>>) -> Grid {
    let parameters = sweep.parameters.iter().map(|parameter| Column::right(&clean(&parameter.name)));
    let columns = parameters.chain(keys.iter().map(|key| Column::left(key)));
    let columns = columns.chain(figures.iter().map(|figure| Column::right(figure))).collect();
    Grid { columns, rows, keys: sweep.parameters.len() + keys.len() }
}

/// Returns a point's values in parameter order.
fn keys(point: &SweepPoint) -> Vec<String> {
    point.values.clone()
}

fn by_operation(sweep: &Sweep, cells: impl Fn(&SweepPoint, &SweepOperation) -> Vec<String>) -> Vec<Vec<String>> {
    let row = |point: &SweepPoint, operation: &SweepOperation| {
        let mut row = keys(point);
        row.push(label(sweep, operation));
        row.extend(cells(point, operation));
        row
    };
    sweep.points.iter().flat_map(|point| shown(point).map(|one| row(point, one)).collect::<Vec<_>>()).collect()
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
