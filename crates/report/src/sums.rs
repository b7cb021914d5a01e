//! Sums of a run group's operations by kind, for comparisons and budgets.

use crate::run::NamedRun;
use overhead_model::record::{FieldRow, Latency, OperationRow, RowTotals, SideSums};
use overhead_model::{Account, Class, Side};
use std::collections::{BTreeMap, HashMap};

/// Each protocol's names for reading and writing by key.
pub(crate) const ALIKE: [&[&str]; 3] =
    [&["GET", "get", "SELECT", "find"], &["SET", "set", "INSERT", "insert"], &["SET", "set", "UPDATE", "update"]];

/// Key that separates sums.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct SumKey {
    pub protocol: String,
    pub class: Class,
    pub name: String,
    /// `None` for all operations of the name.
    pub statement: Option<String>,
    /// How it was sent; empty if there is only one way, or if the sum combines several.
    pub via: String,
}

/// Operations of one kind, summed over the runs of a group. Unlike a row of a view, it keeps each run's part for intervals.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct OperationSum {
    pub key: SumKey,
    pub count: u64,
    /// Divisor for means: operations, and messages sent unsolicited.
    pub samples: u64,
    /// By [`Side`].
    pub sides: [SideSums; 2],
    /// Payload fields, with totals over the runs; `None` unless known for all.
    pub fields: Option<Vec<FieldRow>>,
    /// Each run that has such operations, in order.
    pub runs: Vec<RunPart>,
}

/// One run's part of a sum.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RunPart {
    pub samples: u64,
    /// Bytes on the wire by side.
    pub wire: [u64; 2],
    pub latency: Latency,
}

impl OperationSum {
    /// Converts a row of one run.
    pub(crate) fn from_row(row: &OperationRow) -> Self {
        Self::new(row, None, row.totals(), row.fields.as_ref())
    }

    fn new(row: &OperationRow, statement: Option<String>, totals: RowTotals, fields: Option<&Vec<FieldRow>>) -> Self {
        let OperationRow { protocol, class, name, via, .. } = row;
        let (protocol, name, via) = (protocol.clone(), name.clone(), via.clone());
        let (samples, latency) = (totals.samples(), totals.latency_ns.or_empty());
        let wire = [totals.request.wire_bytes, totals.response.wire_bytes];
        Self {
            key: SumKey { protocol, class: *class, name, statement, via },
            count: totals.count,
            samples,
            sides: [totals.request, totals.response],
            fields: fields.cloned(),
            runs: vec![RunPart { samples, wire, latency }],
        }
    }

    pub(crate) fn per_operation(&self, amount: u64) -> f64 {
        amount as f64 / self.samples.max(1) as f64
    }

    /// Returns an account's bytes per operation.
    pub(crate) fn bytes(&self, side: Side, account: Account) -> f64 {
        self.per_operation(self.sides[side as usize].accounts[account])
    }

    /// Returns the wire bytes per operation in one direction.
    pub(crate) fn wire(&self, side: Side) -> f64 {
        self.per_operation(self.sides[side as usize].accounts.total())
    }

    /// Returns the TCP payload per operation in one direction.
    pub(crate) fn payload(&self, side: Side) -> f64 {
        self.per_operation(self.sides[side as usize].accounts.payload())
    }

    /// Returns the wire bytes of all runs in both directions.
    pub(crate) fn total(&self) -> u64 {
        self.sides.iter().map(|side| side.accounts.total()).sum()
    }

    /// Returns this latency value for each run that has latencies.
    pub(crate) fn latencies(&self, figure: fn(&Latency) -> f64) -> Vec<f64> {
        self.runs.iter().filter(|run| run.latency.count > 0).map(|run| figure(&run.latency)).collect()
    }

    /// Returns the smallest and largest bytes per operation among several runs, for one direction.
    pub(crate) fn range(&self, side: Side) -> Option<[f64; 2]> {
        let values: Vec<f64> =
            self.runs.iter().map(|run| run.wire[side as usize] as f64 / run.samples.max(1) as f64).collect();
        let least = values.iter().copied().min_by(f64::total_cmp)?;
        let most = values.iter().copied().max_by(f64::total_cmp)?;
        (values.len() > 1).then_some([least, most])
    }

    /// Adds a further run's operations of the same kind.
    pub(crate) fn add_run(&mut self, other: Self) {
        self.add_amounts(&other);
        self.runs.extend(other.runs);
    }

    /// Adds operations of the same runs that were sent in another way.
    ///
    /// Drops their latencies, which have no common percentiles.
    pub(crate) fn add_way(&mut self, other: &Self) {
        self.add_amounts(other);
        self.key.via = String::new();
        for (run, others) in self.runs.iter_mut().zip(&other.runs) {
            run.samples += others.samples;
            run.latency = Latency::default();
            for (wire, more) in run.wire.iter_mut().zip(others.wire) {
                *wire += more;
            }
        }
    }

    fn add_amounts(&mut self, other: &Self) {
        self.count += other.count;
        self.samples += other.samples;
        for (side, more) in self.sides.iter_mut().zip(&other.sides) {
            side.add(more);
        }
        self.fields = match (self.fields.take(), &other.fields) {
            (Some(fields), Some(others)) => Some(added(fields, others)),
            _ => None,
        };
    }
}

/// Returns `SELECT (prepared)`, or only the name if there is one way of sending.
pub(crate) fn label(name: &str, via: &str) -> String {
    if via.is_empty() { name.to_owned() } else { format!("{name} ({via})") }
}

fn added(mut fields: Vec<FieldRow>, others: &[FieldRow]) -> Vec<FieldRow> {
    let key = |field: &FieldRow| (field.side, field.account, field.field.clone());
    let mut places: BTreeMap<_, usize> = fields.iter().enumerate().map(|(at, field)| (key(field), at)).collect();
    for other in others {
        if let Some(field) = places.get(&key(other)).and_then(|at| fields.get_mut(*at)) {
            field.bytes += other.bytes;
        } else {
            places.insert(key(other), fields.len());
            fields.push(other.clone());
        }
    }
    fields
}

/// Sums the rows of all runs by kind, most bytes first.
pub(crate) fn by_name(runs: &[NamedRun]) -> Vec<OperationSum> {
    added_up(runs.iter().flat_map(|named| named.run.operations.iter().map(OperationSum::from_row)))
}

/// Sums the statements of all runs by kind, most bytes first.
pub(crate) fn by_statement(runs: &[NamedRun]) -> Vec<OperationSum> {
    added_up(runs.iter().flat_map(|named| &named.run.operations).flat_map(statements))
}

/// Returns the statements of a row. A single statement inherits the row's fields.
fn statements(row: &OperationRow) -> impl Iterator<Item = OperationSum> {
    row.statements.iter().map(move |statement| {
        let fields = if row.statements.len() == 1 { &row.fields } else { &statement.fields };
        OperationSum::new(row, Some(statement.text.clone()), statement.totals.clone(), fields.as_ref())
    })
}

/// Returns the operation's protocol-independent kind if there is one, or its name.
pub(crate) fn kind(name: &str) -> &str {
    let alike = ALIKE.iter().find(|names| names.contains(&name));
    alike.and_then(|names| names.first()).map_or(name, |name| *name)
}

/// Returns whether this is a statement rather than a placeholder in a record, such as `(other)` or `(none)`.
pub(crate) fn is_one_statement(statement: &str) -> bool {
    !statement.is_empty() && !statement.starts_with('(')
}

/// Sums parts with equal keys, most bytes first.
fn added_up(parts: impl Iterator<Item = OperationSum>) -> Vec<OperationSum> {
    let mut sums: Vec<OperationSum> = Vec::new();
    let mut places: HashMap<SumKey, usize> = HashMap::new();
    for part in parts {
        if let Some(sum) = places.get(&part.key).and_then(|at| sums.get_mut(*at)) {
            sum.add_run(part);
        } else {
            places.insert(part.key.clone(), sums.len());
            sums.push(part);
        }
    }
    sums.sort_by(|a, b| b.total().cmp(&a.total()).then_with(|| a.key.cmp(&b.key)));
    sums
}
