//! Line charts of a sweep: each quantity against the first parameter, a line per combination of the others.

use super::render::command;
use super::sections::shown;
use crate::figure::LineFigure;
use crate::text::distribution::{self, count_within};
use overhead_model::record::{CycleSource, Within};
use overhead_model::sweep::{Sweep, SweepLatency, SweepOperation, SweepPoint, SweepReported, SweepWork};
use overhead_model::{Measured, Spread};

/// Maximum lines in a figure: one per colour.
const LINES: usize = 8;

/// Maximum time limits labelled below a figure.
const BOUNDS: usize = 16;

/// A figure and its file name.
pub(super) type Named = (&'static str, LineFigure);

/// Names of all possible figures of a sweep.
const NAMES: [&str; 7] = ["bytes", "frames", "calls", "cpu", "rate", "latency", "distribution"];

/// Returns the figures of a sweep that have measurements.
pub(super) fn figures(sweep: &Sweep) -> Vec<Named> {
    let all = [bytes(sweep), frames(sweep), calls(sweep), cpu(sweep), rate(sweep), latency(sweep), distribution(sweep)];
    NAMES.into_iter().zip(all).filter(|(_, figure)| !figure.lines.is_empty()).collect()
}

/// Lines under construction: their names and the point that supplies each value.
struct SweepLines<'a> {
    sweep: &'a Sweep,
    lines: Vec<(String, Vec<Option<Spread>>)>,
}

impl<'a> SweepLines<'a> {
    fn new(sweep: &'a Sweep) -> Self {
        Self { sweep, lines: Vec::new() }
    }

    /// Adds a line for each combination of the other parameters that has values.
    fn add(&mut self, name: &str, figure: impl Fn(&SweepPoint) -> Option<Spread>) {
        let places = &self.sweep.parameters.first().map(|first| &first.values);
        for others in self.others() {
            let value = |place: &String| {
                let is_here = |point: &&SweepPoint| {
                    point.values.split_first().is_some_and(|(first, rest)| first == place && rest == others)
                };
                self.sweep.points.iter().find(is_here).and_then(&figure)
            };
            let values: Vec<Option<Spread>> = places.iter().flat_map(|places| places.iter()).map(value).collect();
            if values.iter().any(Option::is_some) {
                self.lines.push((self.named(name, &others), values));
            }
        }
    }

    /// Returns the values of all parameters except the first, in point order.
    fn others(&self) -> Vec<Vec<String>> {
        let mut found: Vec<Vec<String>> = Vec::new();
        for (_, rest) in self.sweep.points.iter().filter_map(|point| point.values.split_first()) {
            if !found.iter().any(|known| known == rest) {
                found.push(rest.to_vec());
            }
        }
        found
    }

    /// Returns a name such as `GET, c = 16`.
    fn named(&self, name: &str, others: &[String]) -> String {
        let parameters = self.sweep.parameters.iter().skip(1).zip(others);
        let values = parameters.map(|(parameter, value)| format!("{} = {}", parameter.name, value));
        std::iter::once(name.to_owned()).filter(|name| !name.is_empty()).chain(values).collect::<Vec<_>>().join(", ")
    }

    /// Returns the figure; `said` explains its quantity.
    fn figure(self, title: &str, y_title: &str, said: &str, logarithmic: bool) -> LineFigure {
        let Self { sweep, mut lines } = self;
        let left_out = left_out(&mut lines);
        let parameter = sweep.parameters.first();
        let runs = sweep.points.iter().flat_map(|point| &point.runs).filter(|run| run.fault.is_none()).count();
        LineFigure {
            title: title.to_owned(),
            description: format!("Lines with spreads: {y_title}, against the parameter of the sweep."),
            x_title: parameter.map_or_else(String::new, |parameter| parameter.name.clone()),
            y_title: y_title.to_owned(),
            logarithmic,
            places: parameter.iter().flat_map(|parameter| &parameter.values).cloned().collect(),
            spreads: lines.iter().map(|(_, spreads)| spreads.clone()).collect(),
            lines: lines
                .into_iter()
                .map(|(name, spreads)| (name, spreads.iter().map(|spread| spread.map(|it| it.median)).collect()))
                .collect(),
            note: format!(
                "squares are medians over the runs of a combination ({runs} runs in all), bars reach from the first to the \
                 third quartile, thin lines from the smallest to the largest. The values of {} stand side by side, not to \
                 scale. {said}{left_out} Command: {}.",
                parameter.map_or_else(String::new, |parameter| parameter.name.clone()),
                command(sweep)
            ),
            ..LineFigure::default()
        }
    }
}

/// Drops the lines that do not fit. Returns a sentence about the omission.
fn left_out<T>(lines: &mut Vec<T>) -> String {
    let more = lines.len().saturating_sub(LINES);
    lines.truncate(LINES);
    match more {
        0 => String::new(),
        1 => " One more line has no room: the table has it.".to_owned(),
        more => format!(" {more} more lines have no room: see the table."),
    }
}

/// Returns the operations shown at any point, by protocol and name, in order of appearance. The way of sending may be what the
/// sweep varies.
fn operations(sweep: &Sweep) -> Vec<&SweepOperation> {
    let mut found: Vec<&SweepOperation> = Vec::new();
    for operation in sweep.points.iter().flat_map(shown) {
        if !found.iter().any(|known| is_same(known, operation)) {
            found.push(operation);
        }
    }
    found
}

fn is_same(one: &SweepOperation, other: &SweepOperation) -> bool {
    (&one.protocol, &one.name) == (&other.protocol, &other.name)
}

/// Returns the operation of this kind at a point; of several ways of sending, the one with the most bytes.
fn at<'p>(point: &'p SweepPoint, kind: &SweepOperation) -> Option<&'p SweepOperation> {
    point.operations.iter().find(|operation| is_same(operation, kind))
}

fn bytes(sweep: &Sweep) -> LineFigure {
    let mut lines = SweepLines::new(sweep);
    for kind in operations(sweep) {
        lines.add(&kind.name, |point| at(point, kind).map(|operation| operation.wire_bytes));
    }
    let bound = if sweep.points.iter().any(|point| !point.lower_bounds.is_empty()) {
        " Captures lost frames or parts of them: values are lower bounds where the table marks them."
    } else {
        ""
    };
    let said = format!(
        "Both directions, headers and acknowledgments included; of several ways of sending the largest.{bound}"
    );
    lines.figure("Bytes on the wire", "bytes per operation", &said, false)
}

fn frames(sweep: &Sweep) -> LineFigure {
    let mut lines = SweepLines::new(sweep);
    lines.add("all workload operations", |point| point.total.frames.value().copied());
    let said =
        "All frames of the connections, acknowledgments and connection set-up included, over all workload operations.";
    lines.figure("Frames", "frames per operation", said, false)
}

fn by_role(lines: &mut SweepLines<'_>, figure: impl Fn(&SweepWork) -> &Measured<Spread>, factor: f64) {
    let work = |work: &SweepWork| figure(work).value().map(|spread| spread.times(factor));
    lines.add("server", |point| work(&point.total.server));
    lines.add("client", |point| work(&point.total.client));
}

fn calls(sweep: &Sweep) -> LineFigure {
    let mut lines = SweepLines::new(sweep);
    by_role(&mut lines, |work| &work.syscalls, 1.0);
    let said = "All system calls of a role's processes over all workload operations.";
    lines.figure("System calls", "calls per operation", said, false)
}

/// Draws cycles if the hardware counts them, otherwise CPU time, whose unit differs from that of reference cycles.
fn cpu(sweep: &Sweep) -> LineFigure {
    let sources = sweep.points.iter().flat_map(|point| [&point.total.server, &point.total.client]);
    let mut sources = sources.filter_map(|work| work.cycles_source);
    let mut lines = SweepLines::new(sweep);
    let said = "In user mode and in the kernel, of all of a role's processes, over all workload operations.";
    if sources.any(|source| source == CycleSource::Hardware) {
        by_role(&mut lines, |work| &work.cycles, 1e-3);
        return lines.figure("CPU cycles", "thousand hardware cycles per operation", said, false);
    }
    by_role(&mut lines, |work| &work.on_cpu_ns, 1e-3);
    lines.figure("CPU time", "µs on a CPU per operation (no hardware cycles were counted)", said, false)
}

fn rate(sweep: &Sweep) -> LineFigure {
    let mut lines = SweepLines::new(sweep);
    lines.add("on the wire", |point| point.total.per_second.value().copied());
    for (program, name) in tests(sweep) {
        let of = |point: &SweepPoint| {
            let test = point.reported.iter().find(|test| test.program == program && test.name == name);
            test.and_then(|test| test.per_second.value().copied())
        };
        lines.add(&format!("{program} {name}, as it says"), of);
    }
    let said = "On the wire: all workload operations from the first frame to the last. Both are under the capture, which takes \
                CPU time of its own.";
    lines.figure("Rate", "operations per second", said, false)
}

/// Returns the command's tests in order of appearance.
fn tests(sweep: &Sweep) -> Vec<(&str, &str)> {
    let mut found: Vec<(&str, &str)> = Vec::new();
    for SweepReported { program, name, .. } in sweep.points.iter().flat_map(|point| &point.reported) {
        if !found.contains(&(program, name)) {
            found.push((program, name));
        }
    }
    found
}

type SweepPercentile = fn(&SweepLatency) -> &Measured<Spread>;

const PERCENTILES: [(&str, SweepPercentile); 3] =
    [("p50", |latency| &latency.p50), ("p99", |latency| &latency.p99), ("p99.9", |latency| &latency.p999)];

fn latency(sweep: &Sweep) -> LineFigure {
    let mut lines = SweepLines::new(sweep);
    let kinds = operations(sweep);
    for kind in &kinds {
        for (name, figure) in PERCENTILES {
            let name = if kinds.len() == 1 { name.to_owned() } else { format!("{} {name}", kind.name) };
            lines.add(&name, |point| figure(&at(point, kind)?.latency_ns).value().map(|spread| spread.times(1e-3)));
        }
    }
    let said = "From the frame with the first byte of the request to the frame with the last byte of the response, at the \
                capture point, not the client's. The scale is logarithmic.";
    let title = match kinds.as_slice() {
        [kind] => format!("Latency of {}", kind.name),
        _ => "Latency".to_owned(),
    };
    lines.figure(&title, "latency, µs", said, true)
}

/// Draws cumulative latency distributions, one line per operation and combination.
fn distribution(sweep: &Sweep) -> LineFigure {
    let kinds = operations(sweep);
    let mut found: Vec<(String, &[Within])> = Vec::new();
    for kind in &kinds {
        for point in &sweep.points {
            let Some(operation) = at(point, kind).filter(|operation| !operation.latency_within.is_empty()) else {
                continue;
            };
            let parameters = sweep.parameters.iter().zip(&point.values);
            let values = parameters.map(|(parameter, value)| format!("{} = {}", parameter.name, value));
            let name = if kinds.len() == 1 { None } else { Some(kind.name.clone()) };
            found.push((name.into_iter().chain(values).collect::<Vec<_>>().join(", "), &operation.latency_within));
        }
    }
    let left_out = left_out(&mut found);
    let bounds = distribution::bounds(&found.iter().map(|(_, within)| *within).collect::<Vec<_>>(), BOUNDS);
    let share = |within: &[Within], ns: u64| {
        let all = within.last().filter(|last| last.count > 0)?.count;
        Some(count_within(within, ns) as f64 / all as f64 * 100.0)
    };
    LineFigure {
        title: match kinds.as_slice() {
            [kind] => format!("Latency of {}: operations that took no longer", kind.name),
            _ => distribution::TITLE.to_owned(),
        },
        description: "Lines: the share of operations that took no longer than each of some lengths of time.".to_owned(),
        x_title: "took no longer than".to_owned(),
        y_title: "% of operations".to_owned(),
        places: bounds.iter().map(|ns| distribution::bound(*ns)).collect(),
        lines: found
            .into_iter()
            .map(|(name, within)| (name, bounds.iter().map(|ns| share(within, *ns)).collect()))
            .collect(),
        note: format!(
            "a line for each combination, of all its runs together; the lengths of time stand side by side, not to scale. From \
             the frame with the first byte of the request to the frame with the last byte of the response, at the capture point, \
             not the client's.{left_out} Command: {}.",
            command(sweep)
        ),
        ..LineFigure::default()
    }
}
