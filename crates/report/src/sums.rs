//! Operations of a group of runs, added up by what they are: what a comparison pairs, and what a budget is held against.

use crate::run::NamedRun;
use overhead_model::record::{FieldRow, Latency, OperationRow, SideRow, StatementSide};
use overhead_model::{Account, Amounts, Class, Side};
use std::collections::{BTreeMap, HashMap};

/// What tells sums apart.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct SumKey {
    pub protocol: String,
    pub class: Class,
    pub name: String,
    /// `None` for all operations of the name.
    pub statement: Option<String>,
    /// How it was sent; empty where there is only one way, or where several are added up.
    pub via: String,
}

/// One direction of a sum.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct SideSum {
    pub frames: u64,
    pub accounts: Amounts,
}

/// Operations of one kind, added up over the runs of a group.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct OperationSum {
    pub key: SumKey,
    /// Operations.
    pub count: u64,
    /// What means are over: operations, and messages sent unsolicited.
    pub samples: u64,
    /// By [`Side`].
    pub sides: [SideSum; 2],
    /// What the payload is made of, with totals over the runs; `None` where it is not known of all.
    pub fields: Option<Vec<FieldRow>>,
    /// Each run that has such operations, in order.
    pub runs: Vec<RunPart>,
}

/// What one run has of a sum.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RunPart {
    pub samples: u64,
    /// Bytes on the wire by side.
    pub wire: [u64; 2],
    pub latency: Latency,
}

/// How fine operations are told apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Grain {
    /// By name alone.
    Name,
    /// By statement, where the records have statements.
    #[default]
    Statement,
}

impl OperationSum {
    /// Returns a row of one run.
    pub(crate) fn of_row(row: &OperationRow) -> Self {
        let side = |side: &SideRow| SideSum { frames: side.frames, accounts: side.accounts };
        let wire = [&row.request, &row.response].map(|side| side.accounts.total());
        Self {
            key: SumKey {
                protocol: row.protocol.clone(),
                class: row.class,
                name: row.name.clone(),
                statement: None,
                via: row.via.clone(),
            },
            count: row.count,
            samples: row.samples(),
            sides: [side(&row.request), side(&row.response)],
            fields: row.fields.clone(),
            runs: vec![RunPart { samples: row.samples(), wire, latency: row.latency_ns.or_empty() }],
        }
    }

    /// Returns an amount per operation.
    pub(crate) fn per_operation(&self, amount: u64) -> f64 {
        amount as f64 / self.samples.max(1) as f64
    }

    /// Returns the bytes of an account per operation.
    pub(crate) fn bytes(&self, side: Side, account: Account) -> f64 {
        self.per_operation(self.sides[side as usize].accounts[account])
    }

    /// Returns the bytes of a direction on the wire, per operation.
    pub(crate) fn wire(&self, side: Side) -> f64 {
        self.per_operation(self.sides[side as usize].accounts.total())
    }

    /// Returns the TCP payload of a direction per operation.
    pub(crate) fn payload(&self, side: Side) -> f64 {
        self.per_operation(self.sides[side as usize].accounts.payload())
    }

    /// Returns all bytes on the wire, both directions, of all runs.
    pub(crate) fn total(&self) -> u64 {
        self.sides.iter().map(|side| side.accounts.total()).sum()
    }

    /// Returns this figure of the latency of each run that saw one.
    pub(crate) fn latencies(&self, figure: fn(&Latency) -> f64) -> Vec<f64> {
        self.runs.iter().filter(|run| run.latency.count > 0).map(|run| figure(&run.latency)).collect()
    }

    /// Returns the smallest and the largest bytes per operation that a run of several has of a direction.
    pub(crate) fn range(&self, side: Side) -> Option<[f64; 2]> {
        let values: Vec<f64> =
            self.runs.iter().map(|run| run.wire[side as usize] as f64 / run.samples.max(1) as f64).collect();
        let least = values.iter().copied().min_by(f64::total_cmp)?;
        let most = values.iter().copied().max_by(f64::total_cmp)?;
        (values.len() > 1).then_some([least, most])
    }

    /// Adds operations of the same kind of a further run.
    pub(crate) fn add_run(&mut self, other: Self) {
        self.add_amounts(&other);
        self.runs.extend(other.runs);
    }

    /// Adds operations of the same runs that were sent in another way.
    ///
    /// Their latencies have no common percentiles: none are kept.
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
            side.frames += more.frames;
            side.accounts += more.accounts;
        }
        self.fields = match (self.fields.take(), &other.fields) {
            (Some(fields), Some(others)) => Some(added(fields, others)),
            _ => None,
        };
    }
}

/// Returns `SELECT (prepared)`, or the name alone where there is only one way of sending.
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

/// Returns the rows of all runs, those of the same kind added up; most bytes first.
pub(crate) fn by_name(runs: &[NamedRun]) -> Vec<OperationSum> {
    added_up(runs.iter().flat_map(|named| named.run.operations.iter().map(OperationSum::of_row)))
}

/// Returns the statements of all runs, those of the same kind added up; most bytes first.
pub(crate) fn by_statement(runs: &[NamedRun]) -> Vec<OperationSum> {
    added_up(runs.iter().flat_map(|named| &named.run.operations).flat_map(statements))
}

/// Returns the statements of a row. The fields of a row that has only one are that one's.
fn statements(row: &OperationRow) -> impl Iterator<Item = OperationSum> {
    let side = |side: &StatementSide| SideSum { frames: side.frames, accounts: side.accounts };
    row.statements.iter().map(move |statement| {
        let samples = statement.count + statement.unsolicited;
        let wire = [statement.request.wire_bytes, statement.response.wire_bytes];
        let fields = if row.statements.len() == 1 { row.fields.clone() } else { statement.fields.clone() };
        OperationSum {
            key: SumKey {
                protocol: row.protocol.clone(),
                class: row.class,
                name: row.name.clone(),
                statement: Some(statement.text.clone()),
                via: row.via.clone(),
            },
            count: statement.count,
            samples,
            sides: [side(&statement.request), side(&statement.response)],
            fields,
            runs: vec![RunPart { samples, wire, latency: statement.latency_ns.or_empty() }],
        }
    })
}

/// Returns whether this is a statement, and not what a record has no room for or no text of: `(other)`, `(none)`.
pub(crate) fn is_one_statement(statement: &str) -> bool {
    !statement.is_empty() && !statement.starts_with('(')
}

/// Adds up what has the same key; most bytes first.
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
