//! The whole cost of two subjects, and the operations that change it.

use super::Subject;
use crate::document::Document;
use crate::grid::Grid;
use crate::limits;
use crate::number::{DASH, counted, decimal, grouped, money, with_digits};
use crate::run::RunGroup;
use crate::summary::grouped_by;
use crate::sums::OperationSum;
use crate::text::statement_name;
use overhead_model::record::{Price, Whole};
use overhead_model::{Class, Measured};
use schemars::JsonSchema;
use serde::Serialize;

/// Operations of a kind in both subjects, or in one.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct OperationChange {
    /// By subject; absent if it has none.
    pub operations: [Option<Subject>; 2],
    /// Bytes on the wire in all runs, by subject.
    pub bytes: [u64; 2],
    /// Change in bytes on the wire, of all runs or per unit of work.
    pub change: f64,
}

/// Returns the whole cost of all runs of a subject.
pub(crate) fn total_cost(group: &RunGroup) -> Whole {
    let mut wholes = group.runs.iter().map(|named| named.run.whole.clone());
    let first = wholes.next().unwrap_or_default();
    wholes.fold(first, |mut sum, whole| {
        sum.add(&whole);
        sum
    })
}

/// Returns the changes, the largest first. Operations with the same verb and table stand together.
pub(super) fn changes(
    whole: &[Whole; 2],
    pairs: &[[OperationSum; 2]],
    alone: &[Vec<OperationSum>; 2],
) -> Vec<OperationChange> {
    let units = whole.each_ref().map(|whole| whole.work.as_ref().map_or(1.0, |work| work.units));
    let change = |sums: [Option<&OperationSum>; 2]| {
        let bytes = sums.map(|sum| sum.map_or(0, OperationSum::total));
        let change = bytes[1] as f64 / units[1] - bytes[0] as f64 / units[0];
        OperationChange { operations: sums.map(|sum| sum.map(Subject::new)), bytes, change }
    };
    let paired = pairs.iter().map(|[first, second]| change([Some(first), Some(second)]));
    let firsts = alone[0].iter().map(|sum| change([Some(sum), None]));
    let seconds = alone[1].iter().map(|sum| change([None, Some(sum)]));
    let mut kinds = grouped_by(paired.chain(firsts).chain(seconds).map(|change| (change.kind(), change)));
    let largest_first = |a: &OperationChange, b: &OperationChange| b.change.abs().total_cmp(&a.change.abs());
    for (_, changes) in &mut kinds {
        changes.sort_by(largest_first);
    }
    kinds.sort_by(|(_, a), (_, b)| largest_first(&a[0], &b[0]));
    kinds.into_iter().flat_map(|(_, changes)| changes).collect()
}

impl OperationChange {
    fn subject(&self) -> Option<&Subject> {
        self.operations.iter().flatten().next()
    }

    /// Returns the class, the verb and the table.
    fn kind(&self) -> String {
        self.subject().map_or_else(String::new, |subject| {
            let statement = subject.statement.as_deref().unwrap_or_default();
            format!("{} {}", subject.class.name(), statement_name(&subject.protocol, &subject.name, statement))
        })
    }

    fn cells(&self, name: String, unit: &str) -> Vec<String> {
        let count = |at: usize| self.operations[at].as_ref().map_or_else(dash, |subject| grouped(subject.count));
        let mean = |at: usize| self.operations[at].as_ref().map_or_else(dash, |of| decimal(of.wire.iter().sum()));
        let change = if unit == OPERATION { signed(self.change, 0) } else { signed(self.change, 1) };
        vec![name, count(0), count(1), mean(0), mean(1), change]
    }
}

fn dash() -> String {
    DASH.to_owned()
}

/// The unit without `--work`.
const OPERATION: &str = "op";

/// Adds a sentence, the totals and the changes to a document.
pub(super) fn add(
    document: &mut Document,
    (whole, changes): (&[Whole; 2], &[OperationChange]),
    runs: &[String; 2],
    price: Option<&Price>,
    title: impl Fn(&OperationChange) -> String,
) {
    let unit = whole[0].work.as_ref().zip(whole[1].work.as_ref()).map_or(OPERATION, |(work, _)| &work.name);
    document.prose(sentence(whole, runs, unit));
    let rows = totals(whole, unit, price);
    document.table(Grid::new(&["whole cost"], &[&runs[0], &runs[1], "change"], rows));
    let all = whole[0].wire_bytes as f64 / divisors(whole)[0].filter(|_| unit != OPERATION).unwrap_or(1.0);
    let is_notable = |change: &&OperationChange| change.change.abs() * 100.0 >= all;
    let shown: Vec<_> = changes.iter().filter(is_notable).take(limits::CHANGES_TOLD).collect();
    let others = changes.len() - shown.len();
    let mut rows: Vec<_> = shown.iter().map(|change| change.cells(title(change), unit)).collect();
    if others > 0 {
        let of_shown: f64 = shown.iter().map(|change| change.change).sum();
        let of_all: f64 = changes.iter().map(|change| change.change).sum();
        let name = if changes.len() > others && shown.len() == limits::CHANGES_TOLD {
            counted(others as u64, "other kind")
        } else {
            format!("{}, each below 1%", counted(others as u64, "other kind"))
        };
        let rest = OperationChange { operations: [None, None], bytes: [0; 2], change: of_all - of_shown };
        rows.push(rest.cells(name, unit));
    }
    let per = if unit == OPERATION { "change\nin bytes".to_owned() } else { format!("change\nB/{unit}") };
    let columns = [0, 1].map(|at| format!("{}\ncount", runs[at]));
    let means = [0, 1].map(|at| format!("{}\nB/op", runs[at]));
    document.table(Grid::new(&["operation"], &[&columns[0], &columns[1], &means[0], &means[1], &per], rows));
}

fn divisors(whole: &[Whole; 2]) -> [Option<f64>; 2] {
    whole.each_ref().map(Whole::divisor)
}

/// Returns the answer in one sentence.
fn sentence(whole: &[Whole; 2], runs: &[String; 2], unit: &str) -> String {
    let [first, second] = whole.each_ref().map(|whole| (whole.wire_bytes as f64, whole.divisor()));
    let change = match ((first.0, first.1), (second.0, second.1)) {
        ((bytes, Some(of)), (other, Some(by))) => percent([bytes / of, other / by]),
        _ => None,
    };
    let [cost, other] = [first, second].map(|(bytes, divisor)| match divisor {
        Some(divisor) => format!("{} B/{unit}", decimal(bytes / divisor)),
        None => format!("{} B and no operation of the workload", grouped(bytes as u64)),
    });
    let waits = |whole: &Whole| Some(*whole.round_trips.value()? as f64 / whole.divisor()?);
    let waits = match (waits(&whole[0]), waits(&whole[1])) {
        (Some(first), Some(second)) => {
            format!("; round trips {}/{unit} against {}", with_digits(second, 2), with_digits(first, 2))
        }
        _ => String::new(),
    };
    let change = change.map_or_else(String::new, |change| format!(" ({change})"));
    format!("Whole cost: {} {other}, {} {cost}{change}{waits}.", runs[1], runs[0])
}

/// Returns the rows of totals: what is counted, then what a unit costs.
fn totals(whole: &[Whole; 2], unit: &str, price: Option<&Price>) -> Vec<Vec<String>> {
    let values = |of: &dyn Fn(&Whole) -> Option<f64>| whole.each_ref().map(of);
    let row = |name: String, values: [Option<f64>; 2], digits: usize| {
        let [first, second] = values.map(|value| value.map_or_else(dash, |value| with_digits(value, digits)));
        let change = match values {
            [Some(first), Some(second)] => {
                let percent = percent([first, second]).map_or_else(String::new, |percent| format!(" ({percent})"));
                signed(second - first, digits) + &percent
            }
            _ => dash(),
        };
        vec![name, first, second, change]
    };
    let each = |of: &dyn Fn(&Whole) -> Option<f64>| values(&|whole| Some(of(whole)? / whole.divisor()?));
    let measured = |value: &Measured<u64>| value.value().map(|value| *value as f64);
    let class = |class: Class| move |whole: &Whole| Some(whole.class(class).wire_bytes as f64);
    let mut rows = vec![
        row("wire bytes".to_owned(), values(&|whole| Some(whole.wire_bytes as f64)), 0),
        row("operations".to_owned(), values(&|whole| Some(whole.operations as f64)), 0),
        row(format!("wire B/{unit}"), each(&|whole| Some(whole.wire_bytes as f64)), 1),
        row(format!("round trips/{unit}"), each(&|whole| measured(&whole.round_trips)), 2),
        row(format!("frames/{unit}"), each(&|whole| measured(&whole.frames)), 2),
    ];
    for (name, of) in [("setup", class(Class::Setup)), ("background", class(Class::Background))] {
        if whole.iter().any(|whole| of(whole) > Some(0.0)) {
            rows.push(row(format!("{name} B/{unit}"), each(&of), 1));
        }
    }
    rows.push(row("connections".to_owned(), values(&|whole| Some(whole.connections as f64)), 0));
    if let Some(price) = price {
        let [first, second] = each(&|whole| Some(whole.wire_bytes as f64 * price.per_byte * 1e6));
        let [cost, other] = [first, second].map(|cost| cost.map_or_else(dash, money));
        let change = percent([first.unwrap_or(0.0), second.unwrap_or(0.0)]).unwrap_or_else(dash);
        rows.push(vec![format!("cost/10^6 {unit}"), cost, other, change]);
    }
    rows
}

fn signed(value: f64, digits: usize) -> String {
    super::render::with_sign(value, |value| with_digits(value, digits))
}

/// Returns the difference in percent of the first; `None` without one.
fn percent([first, second]: [f64; 2]) -> Option<String> {
    let percent = (second - first) / first * 100.0;
    (percent.is_finite() && percent.abs() >= 0.05).then(|| format!("{}%", signed(percent, 1)))
}
