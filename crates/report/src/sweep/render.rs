//! Renders a sweep as text, Markdown, JSON and CSV.

use super::sections::{CELLS, sections};
use crate::clean::clean;
use crate::document::Document;
use crate::grid::Style;
use crate::number::counted;
use overhead_model::sweep::{Sweep, SweepLatency, SweepPoint, SweepWork};
use overhead_model::{Csv, Measured, Spread};

pub fn table(sweep: &Sweep, style: Style) -> String {
    let mut titled = Document::default();
    titled.heading(1, title(sweep));
    titled.append(document(&[("", sweep)]));
    titled.terminal(style)
}

/// Renders for a document: tables under second-level headings.
pub fn markdown(sweep: &Sweep) -> String {
    document(&[("", sweep)]).markdown()
}

/// Returns the tables and caveats, without a title.
pub(super) fn document(sweeps: &[(&str, &Sweep)]) -> Document {
    let mut document = Document::default();
    for section in sections(sweeps) {
        document.section(2, section);
    }
    document.prose(CELLS);
    let of = |name: &str, text: String| if sweeps.len() > 1 { format!("{name}: {text}") } else { text };
    document
        .warnings(sweeps.iter().flat_map(|(name, sweep)| remarks(sweep).into_iter().map(move |text| of(name, text))));
    document
}

/// Returns a title such as `redis-benchmark -P {P}: P = 1, 10, 25, 50; 5 runs each`.
pub(super) fn title(sweep: &Sweep) -> String {
    let parameters = sweep.parameters.iter().map(|parameter| {
        let values: Vec<String> = parameter.values.clone();
        format!("{} = {}", parameter.name, values.join(", "))
    });
    let parameters: Vec<String> = parameters.collect();
    let runs = counted(u64::from(sweep.runs), "run");
    if parameters.is_empty() {
        return format!("{}: {runs}", command(sweep));
    }
    let runs = format!("{runs} each");
    format!("{}: {}; {runs}", command(sweep), parameters.join("; "))
}

/// Returns the command with its parameters in braces.
pub(super) fn command(sweep: &Sweep) -> String {
    sweep.command.iter().map(|word| clean(word)).collect::<Vec<_>>().join(" ")
}

/// Returns the caveats: why the sweep is incomplete, which runs do not count, and what was lost.
pub fn remarks(sweep: &Sweep) -> Vec<String> {
    let mut remarks: Vec<String> = sweep.partial.iter().cloned().collect();
    for run in sweep.points.iter().flat_map(|point| &point.runs) {
        remarks.extend(run.fault.as_ref().map(|fault| format!("{} does not count: {}", run.folder, fault)));
    }
    for run in sweep.points.iter().flat_map(|point| &point.runs).filter(|run| run.partial) {
        remarks.push(format!("{} is partial: its record says why", run.folder));
    }
    for bound in sweep.points.iter().flat_map(|point| &point.lower_bounds) {
        remarks.push(format!("{bound}: figures of bytes and frames marked ≥ are lower bounds"));
    }
    remarks
}

/// Columns that identify a line, apart from the parameters.
const KEYS: [&str; 8] = ["of", "protocol", "operation", "via", "figure", "unit", "runs", "lower_bound"];
const SPREAD: [&str; 5] = ["median", "q1", "q3", "min", "max"];
/// Reason for a missing figure.
const ABSENT: &str = "unavailable";

/// Renders CSV with a line per figure and combination. Parameter columns have the prefix `vary_`.
pub fn csv(sweep: &Sweep) -> String {
    let parameters: Vec<String> = sweep.parameters.iter().map(|parameter| format!("vary_{}", parameter.name)).collect();
    let fixed = KEYS.into_iter().chain(SPREAD).chain([ABSENT]).map(str::to_owned);
    let mut lines = SweepLines { csv: Csv::new(parameters.iter().cloned().chain(fixed)), parameters };
    for point in &sweep.points {
        lines.point(point);
    }
    lines.csv.finish()
}

struct SweepLines {
    csv: Csv,
    parameters: Vec<String>,
}

#[derive(Clone, Copy, Default)]
struct LineKey<'a> {
    of: &'a str,
    protocol: &'a str,
    operation: &'a str,
    via: &'a str,
}

impl SweepLines {
    fn point(&mut self, point: &SweepPoint) {
        let total = &point.total;
        let key = LineKey { of: "run", ..LineKey::default() };
        self.line(point, key, "operations", "count", &total.operations);
        self.line(point, key, "per_second", "1/s", &total.per_second);
        self.line(point, key, "wire_bytes", "B/op", &total.wire_bytes);
        self.line(point, key, "frames", "1/op", &total.frames);
        for (role, work) in [("server", &total.server), ("client", &total.client)] {
            self.work(point, LineKey { of: role, ..key }, work);
        }
        for one in &point.operations {
            let key = LineKey { of: "operation", protocol: &one.protocol, operation: &one.name, via: &one.via };
            let exact = [("count", "count", one.count), ("request_bytes", "B/op", one.request_bytes)];
            for (figure, unit, spread) in exact.into_iter().chain([("wire_bytes", "B/op", one.wire_bytes)]) {
                self.line(point, key, figure, unit, &Measured::Value(spread));
            }
            self.line(point, key, "response_bytes", "B/op", &one.response_bytes);
            self.latency(point, key, &one.latency_ns);
        }
        for test in &point.reported {
            let key = LineKey { of: &test.program, operation: &test.name, ..LineKey::default() };
            self.line(point, key, "per_second", "1/s", &test.per_second);
            self.latency(point, key, &test.latency_ns);
        }
    }

    fn work(&mut self, point: &SweepPoint, key: LineKey<'_>, work: &SweepWork) {
        self.line(point, key, "syscalls", "1/op", &work.syscalls);
        let unit = match work.cycles_source {
            Some(overhead_model::record::CycleSource::Reference) => "reference cycles/op",
            _ => "cycles/op",
        };
        self.line(point, key, "cycles", unit, &work.cycles);
        self.line(point, key, "on_cpu", "ns/op", &work.on_cpu_ns);
    }

    fn latency(&mut self, point: &SweepPoint, key: LineKey<'_>, latency: &SweepLatency) {
        for (name, figure) in SweepLatency::NAMES.into_iter().zip(latency.figures()) {
            self.line(point, key, &format!("latency_{name}"), "ns", figure);
        }
    }

    fn line(&mut self, point: &SweepPoint, key: LineKey<'_>, figure: &str, unit: &str, measured: &Measured<Spread>) {
        let mut row = self.csv.row();
        for (column, value) in self.parameters.iter().zip(&point.values) {
            // Keep numbers as numbers, including negative ones.
            row = if value.parse::<f64>().is_ok() { row.number(column, value) } else { row.text(column, value) };
        }
        let LineKey { of, protocol, operation, via } = key;
        let row = row.text("of", of).text("protocol", protocol).text("operation", operation).text("via", via);
        let bounded = !point.lower_bounds.is_empty() && (unit == "B/op" || figure == "frames");
        let row = row.text("figure", figure).text("unit", unit).number("lower_bound", bounded);
        match measured {
            Measured::Unavailable { unavailable } => row.text(ABSENT, unavailable).end(),
            Measured::Value(Spread { runs, median, q1, q3, min, max }) => {
                let row = row.number("runs", runs);
                let figures = SPREAD.into_iter().zip([median, q1, q3, min, max]);
                figures.fold(row, |row, (column, figure)| row.number(column, figure)).end();
            }
        }
    }
}
