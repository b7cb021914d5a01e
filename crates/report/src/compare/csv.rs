//! A comparison as one table: a row for each quantity, with both subjects' values and their difference.

use super::{Comparison, Comparisons, KindPair, Repeated, Subject, WorkDifference};
use overhead_model::{Csv, Side};

const COLUMNS: &str = "row first_run second_run first_protocol first_operation first_via second_protocol second_operation \
     second_via side account figure first second difference lower_bound unavailable class first_statement \
     second_statement interval_low interval_high";

/// Returns comparisons as RFC 4180 text with a header line. `row` is `operation` (counts, bytes, frames and latency), `account`
/// or `field` (bytes per operation), `alone` (an operation without a partner) or `work` (per workload operation of a subject).
pub fn csv(comparisons: &Comparisons) -> String {
    let mut csv = Csv::new(COLUMNS.split(' '));
    for comparison in comparisons.each() {
        Table { csv: &mut csv, comparison }.all();
    }
    csv.finish()
}

struct Table<'a> {
    csv: &'a mut Csv,
    comparison: &'a Comparison,
}

impl Table<'_> {
    fn all(&mut self) {
        for pair in self.comparison.pairs.iter().chain(&self.comparison.beside) {
            self.pair(pair);
        }
        for (at, alone) in self.comparison.alone.iter().enumerate() {
            for subject in alone {
                let operations = if at == 0 { [Some(subject), None] } else { [None, Some(subject)] };
                let value = |at: usize| operations[at].map(|subject| subject.count as f64);
                figure(self.row("alone", operations).text("figure", "count"), [value(0), value(1)]);
            }
        }
        for work in &self.comparison.work {
            self.work(work);
        }
    }

    fn row(&mut self, kind: &str, operations: [Option<&Subject>; 2]) -> &mut Csv {
        let [first, second] = &self.comparison.runs;
        let bounds = self.comparison.lower_bounds.each_ref().map(Option::is_some);
        let cells = self.csv.row().text("row", kind).text("first_run", first).text("second_run", second);
        for (subject, run) in operations.into_iter().zip(["first", "second"]) {
            let Some(subject) = subject else { continue };
            cells.text(&format!("{run}_protocol"), &subject.protocol);
            cells.text(&format!("{run}_operation"), &subject.name);
            cells.text(&format!("{run}_via"), &subject.via);
            cells.text(&format!("{run}_statement"), subject.statement.as_deref().unwrap_or_default());
            cells.text("class", subject.class.name());
        }
        cells.text(
            "lower_bound",
            match bounds {
                [false, false] => "",
                [true, false] => "first",
                [false, true] => "second",
                [true, true] => "both",
            },
        )
    }

    fn pair(&mut self, pair: &KindPair) {
        let both = [Some(&pair.operations[0]), Some(&pair.operations[1])];
        let of = |figure: fn(&Subject) -> Option<f64>| pair.operations.each_ref().map(figure);
        let counts = of(|subject| Some(subject.count as f64));
        figure(self.row("operation", both).text("figure", "count"), counts);
        for side in Side::BOTH {
            let at = side as usize;
            let wire = pair.operations.each_ref().map(|subject| Some(subject.wire[at]));
            let payload = pair.operations.each_ref().map(|subject| Some(subject.payload[at]));
            let frames = pair.operations.each_ref().map(|subject| Some(subject.frames[at]));
            for (name, values) in [("wire_bytes", wire), ("payload_bytes", payload), ("frames", frames)] {
                figure(self.row("operation", both).text("side", side.name()).text("figure", name), values);
            }
        }
        for latency in &pair.latency {
            let cells = self.row("operation", both).text("figure", &format!("latency_{}_ns", latency.figure));
            interval(figure(cells, latency.ns), latency.repeated.as_ref());
        }
        for account in &pair.accounts {
            let cells = self.row("account", both).text("side", account.side.name());
            let cells = cells.text("account", account.account.name()).text("figure", "bytes");
            figure(cells, account.bytes.map(Some));
        }
        for field in pair.fields.iter().flatten() {
            let cells = self.row("field", both).text("side", field.side.name());
            let cells = cells.text("account", field.account.name()).text("figure", &field.field);
            let values = field.bytes.map(|bytes| bytes.or(Some(0.0)));
            figure(cells, values);
        }
    }

    fn work(&mut self, work: &WorkDifference) {
        let values = work.per_operation.each_ref().map(|figure| figure.value().copied());
        let cells = self.row("work", [None, None]).text("side", work.role).text("figure", &work.figure);
        interval(figure(cells, values), work.repeated.as_ref());
        for (run, figure) in self.comparison.runs.iter().zip(&work.per_operation) {
            self.csv.value(run, figure);
        }
    }
}

/// Sets both values, and their difference if both exist.
fn figure(cells: &mut Csv, [first, second]: [Option<f64>; 2]) -> &mut Csv {
    let difference = first.zip(second).map(|(first, second)| second - first);
    cells.maybe("first", first).maybe("second", second).maybe("difference", difference)
}

/// Sets the confidence interval of the difference, if any.
fn interval<'a>(cells: &'a mut Csv, repeated: Option<&Repeated>) -> &'a mut Csv {
    let end = |at: usize| repeated.map(|repeated| repeated.interval[at]);
    cells.maybe("interval_low", end(0)).maybe("interval_high", end(1))
}
