//! Subjects set against each other, each one run or several: which accounts make the difference per operation, which fields
//! within them, and how the work of the kernel differs.
//!
//! Everything is per operation, and a difference is the second subject's figure minus the first's. Bytes are exact; times,
//! calls and cycles vary from run to run, and only several runs of each subject show a difference in them.

mod csv;
mod interval;
mod order;
mod pairing;
mod payload;
mod render;
mod sentence;
mod shape;
mod work;

pub use csv::csv;
pub(crate) use interval::mean;
pub use interval::{CONFIDENCE, Repeated};
pub(crate) use pairing::kind;
pub(crate) use pairing::pairs;
pub use render::{json, markdown, table};
pub(crate) use shape::is_same_statement;
pub use work::WorkDifference;
pub(crate) use work::{cycles, system_calls};

use crate::bounds::{LowerBounds, lower_bounds};
use crate::group::RunGroup;
use crate::run::NamedRun;
use crate::summary::{data_difference, failed_command};
use crate::sums::{Grain, OperationSum};
use overhead_model::record::{FieldRow, Latency, OperationRow};
use overhead_model::{Account, Class, Side};
use serde::Serialize;
use std::collections::BTreeMap;

/// Subjects against the first of them. As JSON, the first comparison stands for itself, and `further` has those with the
/// third subject and so on.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparisons {
    /// The second subject against the first.
    #[serde(flatten)]
    pub first: Comparison,
    /// Each further subject against the first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub further: Vec<Comparison>,
}

/// Two subjects.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// What the subjects are called.
    pub runs: [String; 2],
    /// How many runs each is of.
    pub repetitions: [usize; 2],
    /// Kinds of workload operations, side by side, those that make most of the difference first.
    pub pairs: Vec<KindPair>,
    /// Kinds of operations beside the workload: setting up, keeping alive.
    pub beside: Vec<KindPair>,
    /// Kinds of workload operations that the other subject has nothing to set against.
    pub alone: [Vec<Subject>; 2],
    /// Work of server and client, for all workload operations of a run together.
    pub work: Vec<WorkDifference>,
    /// Why the byte figures of a subject are lower bounds; absent where they are exact.
    pub lower_bounds: [Option<String>; 2],
    /// What to know before believing any of it, in whole sentences.
    pub remarks: Vec<String>,
}

/// A kind of operation of each subject.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct KindPair {
    /// What is compared.
    pub operations: [Subject; 2],
    /// What sets them apart, in a sentence.
    pub sentence: String,
    /// Bytes that the difference comes to: per operation, times the operations of the subject that has more of them.
    pub effect_bytes: f64,
    /// Accounts that hold anything, largest difference first.
    pub accounts: Vec<AccountDifference>,
    /// Fields of the payload, by the same order of accounts; absent where a run has none recorded.
    pub fields: Option<Vec<FieldDifference>>,
    /// Percentiles of the latency as the captures saw them, the means of the runs.
    pub latency: Vec<LatencyDifference>,
    /// Which figures are lower bounds, by subject.
    #[serde(skip)]
    bounds: [LowerBounds; 2],
}

/// A kind of operation.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Subject {
    /// Protocol name.
    pub protocol: String,
    /// Class.
    pub class: Class,
    /// Name.
    pub name: String,
    /// Its statement; absent where all operations of the name are compared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub statement: Option<String>,
    /// How it was sent; empty where there is only one way.
    pub via: String,
    /// Operations, of all runs together.
    pub count: u64,
    /// Bytes per operation, by side.
    pub wire: [f64; 2],
    /// TCP payload per operation, by side.
    pub payload: [f64; 2],
    /// Frames per operation, by side.
    pub frames: [f64; 2],
    /// Bytes per operation of the run that has least and of the one that has most, by side; absent of a single run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wire_range: Option<[[f64; 2]; 2]>,
    /// Median latency in nanoseconds as the capture saw it, of several runs the mean of theirs; absent where none was seen.
    pub p50_ns: Option<u64>,
}

/// A percentile of the latency.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LatencyDifference {
    /// `p50` or the like.
    pub figure: &'static str,
    /// In nanoseconds, by subject, the mean of its runs; absent where none was seen.
    pub ns: [Option<f64>; 2],
    /// The second minus the first; absent where one of them is.
    pub difference: Option<f64>,
    /// What the runs show, where both subjects have several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repeated: Option<Repeated>,
}

/// One account of one direction.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AccountDifference {
    /// Direction.
    pub side: Side,
    /// Account.
    pub account: Account,
    /// Bytes per operation, by run.
    pub bytes: [f64; 2],
    /// The second minus the first.
    pub difference: f64,
}

/// One field of one direction.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FieldDifference {
    /// Direction.
    pub side: Side,
    /// Where it is posted.
    pub account: Account,
    /// The field, as `explain` names it.
    pub field: String,
    /// Bytes per operation, by run; absent from a run that has no such field.
    pub bytes: [Option<f64>; 2],
    /// The second minus the first.
    pub difference: f64,
}

impl Comparisons {
    /// Returns all comparisons, the first first.
    pub fn each(&self) -> impl Iterator<Item = &Comparison> {
        std::iter::once(&self.first).chain(&self.further)
    }
}

impl From<Comparison> for Comparisons {
    fn from(first: Comparison) -> Self {
        Self { first, further: Vec::new() }
    }
}

/// A percentile's name and how to read it.
pub(crate) type Percentile = (&'static str, fn(&Latency) -> f64);

/// The percentiles that are compared.
pub(crate) const PERCENTILES: [Percentile; 4] = [
    ("p50", |latency| latency.p50 as f64),
    ("p90", |latency| latency.p90 as f64),
    ("p99", |latency| latency.p99 as f64),
    ("p999", |latency| latency.p999 as f64),
];

impl Subject {
    fn of(sum: &OperationSum) -> Self {
        let p50 = mean(&sum.latencies(|latency| latency.p50 as f64));
        let ranges = Side::BOTH.map(|side| sum.range(side));
        Self {
            protocol: sum.key.protocol.clone(),
            class: sum.key.class,
            name: sum.key.name.clone(),
            statement: sum.key.statement.clone(),
            via: sum.key.via.clone(),
            count: sum.count,
            wire: Side::BOTH.map(|side| sum.wire(side)),
            payload: Side::BOTH.map(|side| sum.payload(side)),
            frames: Side::BOTH.map(|side| sum.per_operation(sum.sides[side as usize].frames)),
            wire_range: ranges[0].zip(ranges[1]).map(Into::into),
            p50_ns: p50.map(|ns| ns.round() as u64),
        }
    }

    /// `SELECT (prepared)`.
    pub fn label(&self) -> String {
        crate::sums::label(&self.name, &self.via)
    }
}

/// Sets each further subject against the first. Gives `None` for fewer than two.
pub fn compare_all(groups: &[RunGroup], grain: Grain) -> Option<Comparisons> {
    let (reference, others) = groups.split_first()?;
    let mut comparisons = others.iter().map(|group| compare_groups(reference, group, grain));
    Some(Comparisons { first: comparisons.next()?, further: comparisons.collect() })
}

/// Sets the second run against the first.
pub fn compare(first: &NamedRun, second: &NamedRun) -> Comparison {
    let [first, second] = [first, second].map(|run| RunGroup::single(run.clone()));
    compare_groups(&first, &second, Grain::default())
}

/// Sets the second subject against the first. Where one of them was in no frames, by payload.
pub fn compare_groups(first: &RunGroup, second: &RunGroup, grain: Grain) -> Comparison {
    if !payload::differ([first, second]) {
        return compare_alike(first, second, grain);
    }
    let mut comparison = compare_alike(&payload::alone(first), &payload::alone(second), grain);
    let without = [first, second].into_iter().find_map(|group| {
        let run = group.runs.iter().find(|named| !named.run.transport.has_frames())?;
        Some((&group.name, run.run.transport))
    });
    if let Some((name, transport)) = without {
        let remark = format!("{name} has no link ({transport}): both are compared by payload, frames aside.");
        comparison.remarks.insert(0, remark);
    }
    comparison
}

fn compare_alike(first: &RunGroup, second: &RunGroup, grain: Grain) -> Comparison {
    let groups = [first, second];
    let bounds = groups.map(group_bounds);
    let (pairs, rest) = pairs(first, second, grain);
    let pairs = pairs.iter().map(|sums| KindPair::of_sums(sums.each_ref(), bounds));
    let (mut pairs, mut beside): (Vec<_>, Vec<_>) = pairs.partition(|pair| pair.class() == Class::Workload);
    order::sort(&mut pairs);
    order::sort(&mut beside);
    let is_workload = |sum: &&OperationSum| sum.key.class == Class::Workload;
    Comparison {
        runs: groups.map(|group| group.name.clone()),
        repetitions: groups.map(|group| group.runs.len()),
        pairs,
        beside,
        alone: rest.map(|sums| sums.iter().filter(is_workload).map(Subject::of).collect()),
        work: work::differences(first, second),
        lower_bounds: groups.map(|group| group.runs.iter().find_map(|named| lower_bounds(&named.run))),
        remarks: remarks(groups),
    }
}

fn group_bounds(group: &RunGroup) -> LowerBounds {
    let bounds = group.runs.iter().map(|named| LowerBounds::of(&named.run));
    bounds.fold(LowerBounds::default(), LowerBounds::or)
}

/// Returns what to know before believing a comparison, each sentence once.
fn remarks(groups: [&RunGroup; 2]) -> Vec<String> {
    let of_first = |group: &RunGroup| Some(NamedRun::new(&group.name, group.runs.first()?.run.clone()));
    let firsts: Vec<NamedRun> = groups.into_iter().filter_map(of_first).collect();
    let mut remarks: Vec<String> = data_difference(&firsts).into_iter().collect();
    for group in groups {
        for named in &group.runs {
            let bound = lower_bounds(&named.run).map(|bound| format!("{bound}; differences from it are not exact."));
            let failed = failed_command(&named.run).map(|status| format!("the command ended with status {status}."));
            for said in bound.iter().chain(&failed).chain(&named.run.warnings) {
                let remark = format!("{}: {said}", group.name);
                if !remarks.contains(&remark) {
                    remarks.push(remark);
                }
            }
        }
    }
    remarks
}

impl KindPair {
    /// Returns what sets one kind of operation apart from another.
    pub fn of(rows: [&OperationRow; 2]) -> Self {
        let sums = rows.map(OperationSum::of_row);
        Self::of_sums(sums.each_ref(), <[LowerBounds; 2]>::default())
    }

    pub(crate) fn of_sums(sums: [&OperationSum; 2], bounds: [LowerBounds; 2]) -> Self {
        let mut accounts = accounts(sums);
        accounts.sort_by(|a, b| b.difference.abs().total_cmp(&a.difference.abs()));
        let fields = fields(sums).map(|mut fields| {
            let rank = |field: &FieldDifference| {
                accounts.iter().position(|a| (a.side, a.account) == (field.side, field.account))
            };
            fields.sort_by(|a, b| {
                (rank(a), b.difference.abs())
                    .partial_cmp(&(rank(b), a.difference.abs()))
                    .unwrap_or(a.field.cmp(&b.field))
            });
            fields
        });
        let latency = PERCENTILES.iter().map(|percentile| latency(sums, percentile)).collect();
        let operations = sums.map(Subject::of);
        let mut pair =
            Self { operations, sentence: String::new(), effect_bytes: 0.0, accounts, fields, latency, bounds };
        pair.effect_bytes = pair.difference() * pair.operations.iter().map(|it| it.count).max().unwrap_or(0) as f64;
        pair.sentence = sentence::of(&pair);
        pair
    }

    /// Returns the class of its operations.
    pub(crate) fn class(&self) -> Class {
        self.operations[0].class
    }

    /// Bytes on the wire per operation, both directions, the second minus the first.
    pub fn difference(&self) -> f64 {
        let [first, second] = &self.operations;
        second.wire.iter().sum::<f64>() - first.wire.iter().sum::<f64>()
    }
}

fn latency(sums: [&OperationSum; 2], (figure, of): &Percentile) -> LatencyDifference {
    let runs = sums.map(|sum| sum.latencies(*of));
    let ns = runs.each_ref().map(|values| mean(values));
    let difference = ns[0].zip(ns[1]).map(|(first, second)| second - first);
    LatencyDifference { figure, ns, difference, repeated: Repeated::of(runs) }
}

fn accounts(sums: [&OperationSum; 2]) -> Vec<AccountDifference> {
    let mut differences = Vec::new();
    for side in Side::BOTH {
        for account in Account::ALL {
            let bytes = sums.map(|sum| sum.bytes(side, account));
            if bytes.iter().any(|bytes| *bytes > 0.0) {
                differences.push(AccountDifference { side, account, bytes, difference: bytes[1] - bytes[0] });
            }
        }
    }
    differences
}

fn fields(sums: [&OperationSum; 2]) -> Option<Vec<FieldDifference>> {
    let mut found: BTreeMap<(Side, Account, &str), [Option<f64>; 2]> = BTreeMap::new();
    for (at, sum) in sums.into_iter().enumerate() {
        for FieldRow { side, account, field, bytes } in sum.fields.as_ref()? {
            found.entry((*side, *account, field)).or_default()[at] = Some(sum.per_operation(*bytes));
        }
    }
    let difference = |((side, account, field), bytes): ((Side, Account, &str), [Option<f64>; 2])| FieldDifference {
        side,
        account,
        field: field.to_owned(),
        bytes,
        difference: bytes[1].unwrap_or(0.0) - bytes[0].unwrap_or(0.0),
    };
    Some(found.into_iter().map(difference).collect())
}

#[cfg(test)]
mod tests;
