//! Line charts of a sweep: each quantity against the first parameter, a line per combination of the others.

use super::NamedSweep;
use super::render::command;
use super::sections::shown;
use crate::clean::capitalised;
use crate::figure::{Line, LineFigure, left_out};
use crate::latencies::{MEASURED, shares};
use crate::summary::{RunMix, distinct, is_one_mix};
use crate::sums::kind;
use crate::text::distribution::TITLE;
use overhead_model::record::{CycleSource, Within};
use overhead_model::sweep::{Sweep, SweepLatency, SweepOperation, SweepPoint, SweepWork};
use overhead_model::{Amounts, Measured, Spread};

/// Maximum time limits labelled below a figure.
const BOUNDS: usize = 16;

/// A figure and its file name.
pub(super) type Named = (&'static str, LineFigure);

/// Names of all possible figures of a sweep.
const NAMES: [&str; 7] = ["bytes", "frames", "calls", "cpu", "rate", "latency", "distribution"];

/// Returns the figures of these sweeps that have measurements: several lines for one sweep, a line for each of several.
pub(super) fn figures(sweeps: &[NamedSweep]) -> Vec<Named> {
    let all = [
        bytes(sweeps),
        frames(sweeps),
        calls(sweeps),
        cpu(sweeps),
        rate(sweeps),
        latency(sweeps),
        distribution(sweeps),
    ];
    let is_whole = |name: &str| ["frames", "calls", "cpu", "rate"].contains(&name);
    let is_alike = sweeps.len() == 1 || has_one_mix(sweeps);
    let is_drawn = |(name, figure): &Named| !figure.lines.is_empty() && (is_alike || !is_whole(name));
    NAMES.into_iter().zip(all).filter(is_drawn).collect()
}

/// Returns whether all points have the same operations in the same proportions, so that figures over all operations compare like
/// with like.
pub(super) fn has_one_mix(sweeps: &[NamedSweep]) -> bool {
    let mix = |point: &SweepPoint| -> RunMix {
        let of = |one: &SweepOperation| (kind(&one.name).to_owned(), (Amounts::default(), one.count.median as u64));
        shown(point).map(of).collect()
    };
    let points = sweeps.iter().flat_map(|of| &of.sweep.points).filter(|point| !point.operations.is_empty());
    is_one_mix(&points.map(mix).collect::<Vec<_>>())
}

/// Returns the values of the first parameter in all sweeps, in order: numbers rise, words stay as given.
fn places(sweeps: &[NamedSweep]) -> Vec<String> {
    let firsts = sweeps.iter().filter_map(|of| of.sweep.parameters.first());
    let mut places = distinct(firsts.flat_map(|first| first.values.clone()));
    let number = |place: &String| place.parse::<f64>().ok();
    if sweeps.len() > 1 && places.iter().all(|place| number(place).is_some()) {
        places.sort_by(|a, b| number(a).unwrap_or(0.0).total_cmp(&number(b).unwrap_or(0.0)));
    }
    places
}

/// Lines under construction: their names and the point that supplies each value.
struct SweepCurves<'a> {
    sweeps: &'a [NamedSweep],
    places: Vec<String>,
    lines: Vec<Line>,
}

impl<'a> SweepCurves<'a> {
    fn new(sweeps: &'a [NamedSweep]) -> Self {
        Self { sweeps, places: places(sweeps), lines: Vec::new() }
    }

    fn is_one(&self) -> bool {
        self.sweeps.len() == 1
    }

    /// Adds lines of every sweep.
    fn add(&mut self, name: &str, figure: impl Fn(&SweepPoint) -> Option<Spread>) {
        for named in self.sweeps {
            self.add_of(named, name, &figure);
        }
    }

    /// Adds a line for each combination of the other parameters that has values. A sweep without parameters is a level line.
    fn add_of(&mut self, named: &NamedSweep, name: &str, figure: impl Fn(&SweepPoint) -> Option<Spread>) {
        let points = &named.sweep.points;
        for others in others(&named.sweep) {
            let value = |place: &String| {
                let is_here = |point: &&SweepPoint| match point.values.split_first() {
                    Some((first, rest)) => first == place && rest == others,
                    None => true,
                };
                points.iter().find(is_here).and_then(&figure)
            };
            let values: Vec<Option<Spread>> = self.places.iter().map(value).collect();
            if values.iter().any(Option::is_some) {
                self.lines.push((self.named(named, name, others), values));
            }
        }
    }

    /// Returns a name such as `GET, c = 16` or `Redis 7: GET`.
    fn named(&self, named: &NamedSweep, name: &str, others: &[String]) -> String {
        let parameters = named.sweep.parameters.iter().skip(1).zip(others);
        let values = parameters.map(|(parameter, value)| format!("{} = {}", parameter.name, value));
        let words = std::iter::once(name.to_owned()).filter(|name| !name.is_empty()).chain(values);
        let words = words.collect::<Vec<_>>().join(", ");
        match (self.is_one(), words.is_empty()) {
            (true, _) => words,
            (false, true) => named.name.clone(),
            (false, false) => format!("{}: {words}", named.name),
        }
    }

    /// Returns the figure; `said` explains its quantity.
    fn figure(self, title: &str, y_title: &str, said: &str, logarithmic: bool) -> LineFigure {
        let Self { sweeps, places, mut lines } = self;
        let left_out = left_out(&mut lines, "line");
        let x_title = parameter(sweeps);
        LineFigure {
            title: title.to_owned(),
            description: format!("Lines with spreads: {y_title}, against the parameter of the sweep."),
            x_title: x_title.clone(),
            y_title: y_title.to_owned(),
            logarithmic,
            places,
            lines,
            method: format!(
                "Squares are medians over the runs of a combination, bars reach from the first to the third quartile, thin \
                 lines from the smallest to the largest. The values of {x_title} stand side by side, not to scale. {}",
                commands(sweeps)
            ),
            note: format!("{said} {left_out}"),
            ..LineFigure::default()
        }
    }
}

/// Returns the values of all parameters except the first, in point order.
fn others(sweep: &Sweep) -> Vec<&[String]> {
    distinct(sweep.points.iter().map(|point| point.values.get(1..).unwrap_or_default()))
}

/// Returns the name of the parameter that all sweeps vary.
pub(super) fn parameter(sweeps: &[NamedSweep]) -> String {
    let first = sweeps.iter().find_map(|of| of.sweep.parameters.first());
    first.map_or_else(String::new, |parameter| parameter.name.clone())
}

fn commands(sweeps: &[NamedSweep]) -> String {
    let command = |of: &NamedSweep| {
        let name = if sweeps.len() > 1 { format!(" of {}", of.name) } else { String::new() };
        format!("Command{name}: {}.", command(&of.sweep))
    };
    sweeps.iter().map(command).collect::<Vec<_>>().join(" ")
}

/// Returns the operations shown at any point, by protocol and name, in order of appearance. The way of sending may be what the
/// sweep varies.
pub(super) fn operations(sweep: &Sweep) -> Vec<&SweepOperation> {
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
pub(super) fn at<'p>(point: &'p SweepPoint, kind: &SweepOperation) -> Option<&'p SweepOperation> {
    point.operations.iter().find(|operation| is_same(operation, kind))
}

/// Returns `GET`, if that is the only operation of all sweeps, or `operation`.
fn noun(sweeps: &[NamedSweep]) -> String {
    let mut names: Vec<&String> = sweeps.iter().flat_map(|of| operations(&of.sweep)).map(|kind| &kind.name).collect();
    names.dedup();
    if let [one] = names.as_slice() { (*one).clone() } else { "operation".to_owned() }
}

/// Returns the name of an operation's line, which needs none if its sweep has no other, and has its own name in the legend.
fn kind_name<'k>(lines: &SweepCurves<'_>, kinds: &[&'k SweepOperation], kind: &'k SweepOperation) -> &'k str {
    if lines.is_one() || kinds.len() > 1 { &kind.name } else { "" }
}

fn bytes(sweeps: &[NamedSweep]) -> LineFigure {
    let mut lines = SweepCurves::new(sweeps);
    for named in sweeps {
        let kinds = operations(&named.sweep);
        for kind in &kinds {
            let name = kind_name(&lines, &kinds, kind);
            lines.add_of(named, name, |point| at(point, kind).map(|operation| operation.wire_bytes));
        }
    }
    let is_bound = |of: &NamedSweep| of.sweep.points.iter().any(|point| !point.lower_bounds.is_empty());
    let bound = if sweeps.iter().any(is_bound) {
        " Captures lost frames or parts of them: values are lower bounds where the table marks them."
    } else {
        ""
    };
    let said = format!(
        "Both directions, headers and acknowledgments included. Of several ways of sending, the one with the most bytes.{bound}"
    );
    let quantity = format!("Bytes per {}", noun(sweeps));
    lines.figure(&quantity, "bytes on the wire per operation", &said, false)
}

fn frames(sweeps: &[NamedSweep]) -> LineFigure {
    let mut lines = SweepCurves::new(sweeps);
    let name = if lines.is_one() { "all workload operations" } else { "" };
    lines.add(name, |point| point.total.frames.value().copied());
    let said =
        "All frames of the connections, acknowledgments and connection set-up included, over all workload operations.";
    lines.figure("Frames per operation", "frames per operation", said, false)
}

/// Adds a line for each role of one sweep, or for the server of several.
fn by_role(lines: &mut SweepCurves<'_>, figure: impl Fn(&SweepWork) -> &Measured<Spread>, factor: f64) {
    let work = |work: &SweepWork| figure(work).value().map(|spread| spread.times(factor));
    if !lines.is_one() {
        return lines.add("", |point| work(&point.total.server));
    }
    lines.add("server", |point| work(&point.total.server));
    lines.add("client", |point| work(&point.total.client));
}

/// Returns whose work is drawn, for the start of a title.
fn role(sweeps: &[NamedSweep]) -> &'static str {
    if sweeps.len() > 1 { "Server's " } else { "" }
}

fn calls(sweeps: &[NamedSweep]) -> LineFigure {
    let mut lines = SweepCurves::new(sweeps);
    by_role(&mut lines, |work| &work.syscalls, 1.0);
    let said = "All system calls of a role's processes over all workload operations.";
    let title = capitalised(&format!("{}system calls per operation", role(sweeps)));
    lines.figure(&title, "calls per operation", said, false)
}

/// Draws cycles if the hardware counts them everywhere, otherwise CPU time, whose unit differs from that of reference cycles.
fn cpu(sweeps: &[NamedSweep]) -> LineFigure {
    let points = sweeps.iter().flat_map(|of| &of.sweep.points);
    let sources: Vec<CycleSource> =
        points.flat_map(|point| [&point.total.server, &point.total.client]).filter_map(|of| of.cycles_source).collect();
    let mut lines = SweepCurves::new(sweeps);
    let said = "In user mode and in the kernel, of all of a role's processes, over all workload operations.";
    if !sources.is_empty() && sources.iter().all(|source| *source == CycleSource::Hardware) {
        by_role(&mut lines, |work| &work.cycles, 1e-3);
        let title = format!("{}CPU cycles per operation", role(sweeps));
        return lines.figure(&title, "thousand hardware cycles per operation", said, false);
    }
    by_role(&mut lines, |work| &work.on_cpu_ns, 1e-3);
    let title = format!("{}CPU time per operation", role(sweeps));
    lines.figure(&title, "µs on a CPU per operation (no hardware cycles were counted)", said, false)
}

/// Draws the rate on the wire, and for one sweep also what its command reported.
fn rate(sweeps: &[NamedSweep]) -> LineFigure {
    let mut lines = SweepCurves::new(sweeps);
    let name = if lines.is_one() { "on the wire" } else { "" };
    lines.add(name, |point| point.total.per_second.value().copied());
    for (program, name) in sweeps.iter().filter(|_| sweeps.len() == 1).flat_map(|of| tests(&of.sweep)) {
        let of = |point: &SweepPoint| {
            let test = point.reported.iter().find(|test| test.program == program && test.name == name);
            test.and_then(|test| test.per_second.value().copied())
        };
        lines.add(&format!("{program} {name}, as it says"), of);
    }
    let said = "On the wire: all workload operations from the first frame to the last, under the capture, which takes CPU time \
                of its own.";
    lines.figure("Operations per second", "operations per second", said, false)
}

/// Returns the command's tests in order of appearance.
fn tests(sweep: &Sweep) -> Vec<(&str, &str)> {
    distinct(sweep.points.iter().flat_map(|point| &point.reported).map(|test| (&*test.program, &*test.name)))
}

type SweepPercentile = fn(&SweepLatency) -> &Measured<Spread>;

const PERCENTILES: [(&str, SweepPercentile); 3] =
    [("p50", |latency| &latency.p50), ("p99", |latency| &latency.p99), ("p99.9", |latency| &latency.p999)];

/// Draws three percentiles of one sweep, or the median of each of several.
fn latency(sweeps: &[NamedSweep]) -> LineFigure {
    let mut lines = SweepCurves::new(sweeps);
    for named in sweeps {
        let kinds = operations(&named.sweep);
        let percentiles = if sweeps.len() == 1 { &PERCENTILES[..] } else { &PERCENTILES[..1] };
        for kind in &kinds {
            for (percentile, figure) in percentiles {
                let name = match (sweeps.len(), kinds.len()) {
                    (1, 1) => (*percentile).to_owned(),
                    (1, _) => format!("{} {percentile}", kind.name),
                    _ => kind_name(&lines, &kinds, kind).to_owned(),
                };
                let of = |point: &SweepPoint| figure(&at(point, kind)?.latency_ns).value().map(|of| of.times(1e-3));
                lines.add_of(named, &name, of);
            }
        }
    }
    let said = format!("{MEASURED} The scale is logarithmic.");
    let quantity = if sweeps.len() == 1 { "Latency" } else { "Median latency" };
    lines.figure(&format!("{quantity} per {}", noun(sweeps)), "µs, logarithmic", &said, true)
}

/// Draws cumulative latency distributions of one sweep, one line per operation and combination.
fn distribution(sweeps: &[NamedSweep]) -> LineFigure {
    let [NamedSweep { sweep, .. }] = sweeps else { return LineFigure::default() };
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
    let left_out = left_out(&mut found, "line");
    LineFigure {
        title: match kinds.as_slice() {
            [kind] => format!("Latency of {}: operations that took no longer", kind.name),
            _ => TITLE.to_owned(),
        },
        x_title: "took no longer than".to_owned(),
        method: commands(sweeps),
        note: format!(
            "A line for each combination, of all its runs together; the lengths of time stand side by side, not to scale. \
             {MEASURED} {left_out}"
        ),
        positions: Vec::new(),
        ..shares(found, BOUNDS)
    }
}
