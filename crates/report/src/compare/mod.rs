//! Compares subjects of one or more runs: which accounts and fields cause the difference per operation, and how kernel work
//! differs.
//!
//! All quantities are per operation; a difference is the second subject's value minus the first's. Bytes are exact. Times, calls
//! and cycles vary between runs, so only repeated runs of each subject can show a difference in them.

use crate::bounds::{LowerBounds, lower_bounds};
pub use crate::document::json;
use crate::run::{NamedRun, RunGroup};
use crate::summary::{
    CpuUnit, RoleName, data_difference, distinct, failed_command, per_operation, syscalls_per_operation, workload_count,
};
use crate::sums::OperationSum;
pub use csv::csv;
pub use interval::{CONFIDENCE, Repeated};
pub(crate) use interval::{mean, quantile};
use overhead_model::record::{By, FieldRow, Latency, Measured, Role, Whole};
use overhead_model::{Account, Class, Run, Side};
pub(crate) use pairing::pairs;
pub use render::{ComparisonOptions, markdown, table};
use schemars::JsonSchema;
use serde::Serialize;
pub(crate) use shape::is_same_statement;
use std::collections::{BTreeMap, BTreeSet};
pub use whole::OperationChange;
pub(crate) use whole::total_cost;

mod csv;
mod interval;
mod order;
mod pairing;
mod render;
mod sentence;
mod shape;
mod whole;

/// Comparisons with the first subject. JSON flattens the first comparison; `further` holds the ones with the third and later
/// subjects.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Comparisons {
    /// The second subject against the first.
    #[serde(flatten)]
    pub first: Comparison,
    /// The third and later subjects against the first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default)]
    pub further: Vec<Comparison>,
}

/// Two subjects: their matching operations, the work of both, and what limits the result.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Comparison {
    /// Names of the subjects.
    pub runs: [String; 2],
    /// Number of runs of each subject.
    pub repetitions: [usize; 2],
    /// Paired kinds of workload operations, largest contribution to the difference first.
    pub pairs: Vec<KindPair>,
    /// Pairs outside the workload, such as setup and keep-alive.
    pub beside: Vec<KindPair>,
    /// Kinds of workload operations without a counterpart in the other subject.
    pub alone: [Vec<Subject>; 2],
    /// The whole cost of all runs, by subject.
    pub whole: [Whole; 2],
    /// Kinds of operations of all classes, in the order of how much they change the whole cost.
    pub changes: Vec<OperationChange>,
    /// Work of server and client for all workload operations of a run.
    pub work: Vec<WorkDifference>,
    /// Why a subject's byte counts are lower bounds; absent if they are exact.
    pub lower_bounds: [Option<String>; 2],
    /// Caveats, as complete sentences.
    pub remarks: Vec<String>,
}

/// Matching operations of two subjects, with the causes of their difference.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct KindPair {
    /// Both sides of the pair, in the order of the subjects.
    pub operations: [Subject; 2],
    /// The difference in one sentence.
    pub sentence: String,
    /// Difference in bytes per operation, times the larger of the two operation counts.
    pub effect_bytes: f64,
    /// Accounts that hold anything, largest difference first.
    pub accounts: Vec<AccountDifference>,
    /// Payload fields, by the same order of accounts; absent if a run recorded none.
    pub fields: Option<Vec<FieldDifference>>,
    /// Latency percentiles from the captures, averaged over the runs.
    pub latency: Vec<LatencyDifference>,
    /// Lower bounds, by subject.
    #[serde(skip)]
    bounds: [LowerBounds; 2],
}

/// One subject's operations of a kind: means per operation over its runs.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Subject {
    /// Protocol name.
    pub protocol: String,
    /// Class of the operations.
    pub class: Class,
    /// Name, as in the record.
    pub name: String,
    /// Statement; absent if the comparison covers all operations of this name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub statement: Option<String>,
    /// How it was sent; empty if there is only one way.
    pub via: String,
    /// Operations in all runs.
    pub count: u64,
    /// Bytes per operation, by side.
    pub wire: [f64; 2],
    /// TCP payload per operation, by side.
    pub payload: [f64; 2],
    /// Frames per operation, by side.
    pub frames: [f64; 2],
    /// Smallest and largest bytes per operation of any run, by side; absent for a single run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wire_range: Option<[[f64; 2]; 2]>,
    /// Median latency in nanoseconds from the capture, averaged over several runs; absent if none was seen.
    pub p50_ns: Option<u64>,
}

/// One latency percentile of a pair.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct LatencyDifference {
    /// Name, such as `p50`.
    pub figure: &'static str,
    /// Mean over the runs in nanoseconds, by subject; absent if none was seen.
    pub ns: [Option<f64>; 2],
    /// The second minus the first; absent if either is absent.
    pub difference: Option<f64>,
    /// Evidence from repeated runs, if both subjects have several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repeated: Option<Repeated>,
}

/// One account in one direction.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct AccountDifference {
    /// Direction of the bytes.
    pub side: Side,
    /// Account of the bytes.
    pub account: Account,
    /// Bytes per operation, by run.
    pub bytes: [f64; 2],
    /// The second minus the first.
    pub difference: f64,
}

/// One field in one direction.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct FieldDifference {
    /// Direction of the field.
    pub side: Side,
    /// Account of the field.
    pub account: Account,
    /// Field name, as `explain` prints it.
    pub field: String,
    /// Bytes per operation, by run; absent if the run has no such field.
    pub bytes: [Option<f64>; 2],
    /// The second minus the first.
    pub difference: f64,
}

impl Comparisons {
    /// Returns all comparisons, the first one included.
    pub fn each(&self) -> impl Iterator<Item = &Comparison> {
        std::iter::once(&self.first).chain(&self.further)
    }
}

impl From<Comparison> for Comparisons {
    fn from(first: Comparison) -> Self {
        Self { first, further: Vec::new() }
    }
}

/// Name and accessor of a percentile.
pub(crate) type NamedPercentile = (&'static str, fn(&Latency) -> f64);

pub(crate) const PERCENTILES: [NamedPercentile; 4] = [
    ("p50", |latency| latency.p50 as f64),
    ("p90", |latency| latency.p90 as f64),
    ("p99", |latency| latency.p99 as f64),
    ("p999", |latency| latency.p999 as f64),
];

impl Subject {
    fn new(sum: &OperationSum) -> Self {
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

    /// Returns a label such as `SELECT (prepared)`.
    pub fn label(&self) -> String {
        crate::sums::label(&self.name, &self.via)
    }
}

/// Compares each further subject with the first. Returns `None` if there are fewer than two.
pub fn compare_all(groups: &[RunGroup], by: By) -> Option<Comparisons> {
    let (reference, others) = groups.split_first()?;
    let mut comparisons = others.iter().map(|group| compare_groups(reference, group, by));
    Some(Comparisons { first: comparisons.next()?, further: comparisons.collect() })
}

/// Compares the second run with the first.
pub fn compare(first: &NamedRun, second: &NamedRun) -> Comparison {
    let [first, second] = [first, second].map(|run| RunGroup::single(run.clone()));
    compare_groups(&first, &second, By::Statement)
}

/// Compares the second subject with the first, by payload if only one has frames.
pub fn compare_groups(first: &RunGroup, second: &RunGroup, by: By) -> Comparison {
    if !pairing::differ([first, second]) {
        return compare_alike(first, second, by);
    }
    let mut comparison = compare_alike(&pairing::alone(first), &pairing::alone(second), by);
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

fn compare_alike(first: &RunGroup, second: &RunGroup, by: By) -> Comparison {
    let groups = [first, second];
    let bounds = groups.map(group_bounds);
    let (pairs, rest) = pairs(first, second, by);
    let whole = groups.map(total_cost);
    let changes = whole::changes(&whole, &pairs, &rest);
    let pairs = pairs.iter().map(|sums| KindPair::from_sums(sums.each_ref(), bounds));
    let (mut pairs, mut beside): (Vec<_>, Vec<_>) = pairs.partition(|pair| pair.class() == Class::Workload);
    order::sort(&mut pairs);
    order::sort(&mut beside);
    let is_workload = |sum: &&OperationSum| sum.key.class == Class::Workload;
    Comparison {
        runs: groups.map(|group| group.name.clone()),
        repetitions: groups.map(|group| group.runs.len()),
        pairs,
        beside,
        alone: rest.map(|sums| sums.iter().filter(is_workload).map(Subject::new).collect()),
        whole,
        changes,
        work: differences(first, second),
        lower_bounds: groups.map(|group| group.runs.iter().find_map(|named| lower_bounds(&named.run))),
        remarks: remarks(groups),
    }
}

fn group_bounds(group: &RunGroup) -> LowerBounds {
    let bounds = group.runs.iter().map(|named| LowerBounds::new(&named.run));
    bounds.fold(LowerBounds::default(), LowerBounds::or)
}

/// Returns the caveats of a comparison without duplicates.
fn remarks(groups: [&RunGroup; 2]) -> Vec<String> {
    let of_first = |group: &RunGroup| Some(NamedRun::new(&group.name, group.runs.first()?.run.clone()));
    let firsts: Vec<NamedRun> = groups.into_iter().filter_map(of_first).collect();
    let said_of = |group: &RunGroup| {
        let said = group.runs.iter().flat_map(|NamedRun { run, .. }| {
            let bound = lower_bounds(run).map(|bound| format!("{bound}; differences from it are not exact."));
            let failed = failed_command(run).map(|status| format!("the command ended with status {status}."));
            bound.into_iter().chain(failed).chain(run.warnings.iter().cloned())
        });
        said.map(|said| format!("{}: {said}", group.name)).collect::<Vec<_>>()
    };
    distinct(data_difference(&firsts).into_iter().chain(groups.into_iter().flat_map(said_of)))
}

impl KindPair {
    /// Compares two kinds of operations.
    pub(crate) fn from_sums(sums: [&OperationSum; 2], bounds: [LowerBounds; 2]) -> Self {
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
        let operations = sums.map(Subject::new);
        let mut pair =
            Self { operations, sentence: String::new(), effect_bytes: 0.0, accounts, fields, latency, bounds };
        pair.effect_bytes = pair.difference() * pair.operations.iter().map(|it| it.count).max().unwrap_or(0) as f64;
        pair.sentence = sentence::difference(&pair);
        pair
    }

    pub(crate) fn class(&self) -> Class {
        self.operations[0].class
    }

    /// Returns the difference in wire bytes per operation over both directions, the second minus the first.
    pub fn difference(&self) -> f64 {
        let [first, second] = &self.operations;
        second.wire.iter().sum::<f64>() - first.wire.iter().sum::<f64>()
    }
}

fn latency(sums: [&OperationSum; 2], (figure, of): &NamedPercentile) -> LatencyDifference {
    let runs = sums.map(|sum| sum.latencies(*of));
    let ns = runs.each_ref().map(|values| mean(values));
    let difference = ns[0].zip(ns[1]).map(|(first, second)| second - first);
    LatencyDifference { figure, ns, difference, repeated: Repeated::new(runs) }
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

/// Calls per operation below which, in all runs, a system call appears only in the sum.
const RARE: f64 = 0.005;

/// Prefix of the name of a single system call.
const PART: &str = "of them ";

/// One kind of a role's work per operation, such as system calls or CPU time.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct WorkDifference {
    /// `server` or `client`.
    pub role: &'static str,
    /// Name of the quantity, with its unit.
    pub figure: String,
    /// Mean of the runs per operation, by subject, or the reason for its absence.
    pub per_operation: [Measured<f64>; 2],
    /// The second minus the first; absent if either is absent.
    pub difference: Option<f64>,
    /// Evidence from repeated runs, if both subjects have several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repeated: Option<Repeated>,
}

fn differences(first: &RunGroup, second: &RunGroup) -> Vec<WorkDifference> {
    RoleName::ALL.into_iter().flat_map(|role| role_differences(role, [first, second])).collect()
}

type RoleTotal = fn(&Role) -> Result<u64, &str>;

const FIGURES: [(&str, RoleTotal); 6] = [
    ("on-CPU ns", |role| CpuUnit::OnCpuNs.amounts(role).map(|[user, kernel]| user + kernel)),
    ("of it in the kernel, ns", |role| CpuUnit::OnCpuNs.amounts(role).map(|[_, kernel]| kernel)),
    ("cycles, hardware", |role| CpuUnit::Hardware.amounts(role).map(|[user, kernel]| user + kernel)),
    ("cycles, reference", |role| CpuUnit::Reference.amounts(role).map(|[user, kernel]| user + kernel)),
    ("context switches", |role| role.context_switches.as_result().map(|n| n.voluntary + n.involuntary)),
    ("socket sends and receives", |role| role.socket.as_result().map(|n| n.send_calls + n.recv_calls)),
];

fn role_differences(name: RoleName, groups: [&RunGroup; 2]) -> Vec<WorkDifference> {
    let mut rows = vec![row(name, "system calls".to_owned(), groups, |run| system_calls(name, run))];
    rows.extend(frequent_calls(name, groups).into_iter().map(|call| {
        let count = |run: &Run| {
            let count = |role: &Role| role.syscalls.get(&call).map_or(0, |call| call.count);
            run_mean(name, run, |role, operations| per_operation(count(role), operations))
        };
        row(name, format!("{PART}{call}"), groups, count)
    }));
    for (figure, of) in FIGURES {
        let row = row(name, figure.to_owned(), groups, |run| match name.counters(run).and_then(of) {
            Ok(total) => measured(per_operation(total, workload_count(run))),
            Err(reason) => Measured::unavailable(reason),
        });
        // Omit cycle units that no run has.
        if !figure.starts_with("cycles") || row.per_operation.iter().any(|figure| figure.value().is_some()) {
            rows.push(row);
        }
    }
    rows
}

/// Returns a role's system calls per workload operation of a run.
pub(crate) fn system_calls(name: RoleName, run: &Run) -> Measured<f64> {
    run_mean(name, run, syscalls_per_operation)
}

/// Returns a role's CPU cycles per workload operation of a run, with their unit.
pub(crate) fn cycles(name: RoleName, run: &Run) -> Result<(CpuUnit, f64), &str> {
    let role = name.counters(run)?;
    let source = match CpuUnit::Hardware.amounts(role) {
        Ok(cycles) => Ok((CpuUnit::Hardware, cycles)),
        Err(_) => CpuUnit::Reference.amounts(role).map(|cycles| (CpuUnit::Reference, cycles)),
    };
    let (unit, [user, kernel]) = source?;
    per_operation(user + kernel, workload_count(run)).map(|each| (unit, each)).ok_or("no workload operations")
}

fn run_mean(name: RoleName, run: &Run, of: impl Fn(&Role, u64) -> Option<f64>) -> Measured<f64> {
    match name.counters(run) {
        Ok(role) => measured(of(role, workload_count(run))),
        Err(reason) => Measured::unavailable(reason),
    }
}

fn measured(figure: Option<f64>) -> Measured<f64> {
    figure.map_or_else(|| Measured::unavailable("no workload operations"), Measured::Value)
}

/// Returns the names of notable calls, most frequent first.
fn frequent_calls(name: RoleName, groups: [&RunGroup; 2]) -> Vec<String> {
    let runs = || groups.into_iter().flat_map(|group| &group.runs).map(|named| &named.run);
    let most = |call: &str| {
        let of = |run: &Run| per_operation(name.counters(run).ok()?.syscalls.get(call)?.count, workload_count(run));
        runs().filter_map(of).fold(0.0, f64::max)
    };
    let names: BTreeSet<&String> =
        runs().filter_map(|run| name.counters(run).ok()).flat_map(|role| role.syscalls.keys()).collect();
    let mut frequent: Vec<(&String, f64)> =
        names.into_iter().map(|call| (call, most(call))).filter(|call| call.1 >= RARE).collect();
    frequent.sort_by(|a, b| b.1.total_cmp(&a.1));
    frequent.into_iter().map(|(call, _)| call.clone()).collect()
}

fn row(name: RoleName, figure: String, groups: [&RunGroup; 2], of: impl Fn(&Run) -> Measured<f64>) -> WorkDifference {
    let values = groups.map(|group| values(group, &of));
    let per_operation = values.each_ref().map(|values| match values {
        Ok(values) => measured(mean(values)),
        Err(reason) => Measured::unavailable(reason.clone()),
    });
    let difference = match &per_operation {
        [Measured::Value(first), Measured::Value(second)] => Some(second - first),
        _ => None,
    };
    let repeated = match values {
        [Ok(first), Ok(second)] => Repeated::new([first, second]),
        _ => None,
    };
    WorkDifference { role: name.name(), figure, per_operation, difference, repeated }
}

/// Returns the value of each run, or why one has none.
fn values(group: &RunGroup, of: &impl Fn(&Run) -> Measured<f64>) -> Result<Vec<f64>, String> {
    let value = |run| of(run).as_result().copied().map_err(str::to_owned);
    group.runs.iter().map(|named| value(&named.run)).collect()
}
