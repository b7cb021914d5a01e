//! System calls, CPU time and similar work per workload operation of each subject.

use super::interval::{Repeated, mean};
use crate::group::RunGroup;
use crate::summary::{CpuUnit, RoleName, per_operation, present, syscalls_per_operation, workload_count};
use overhead_model::Run;
use overhead_model::record::{Measured, Role};
use serde::Serialize;
use std::collections::BTreeSet;

/// Calls per operation below which, in all runs, a system call appears only in the sum.
const RARE: f64 = 0.005;

/// Prefix of the name of a single system call.
pub(super) const PART: &str = "of them ";

/// One kind of a role's work per operation, such as system calls or CPU time.
#[derive(Clone, Debug, PartialEq, Serialize)]
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

pub(super) fn differences(first: &RunGroup, second: &RunGroup) -> Vec<WorkDifference> {
    RoleName::ALL.into_iter().flat_map(|role| role_differences(role, [first, second])).collect()
}

type RoleTotal = fn(&Role) -> Result<u64, &str>;

const FIGURES: [(&str, RoleTotal); 6] = [
    ("on-CPU ns", |role| CpuUnit::OnCpuNs.amounts(role).map(|[user, kernel]| user + kernel)),
    ("of it in the kernel, ns", |role| CpuUnit::OnCpuNs.amounts(role).map(|[_, kernel]| kernel)),
    ("cycles, hardware", |role| CpuUnit::Hardware.amounts(role).map(|[user, kernel]| user + kernel)),
    ("cycles, reference", |role| CpuUnit::Reference.amounts(role).map(|[user, kernel]| user + kernel)),
    ("context switches", |role| present(&role.context_switches).map(|n| n.voluntary + n.involuntary)),
    ("socket sends and receives", |role| present(&role.socket).map(|n| n.send_calls + n.recv_calls)),
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
    let value = |run| match of(run) {
        Measured::Value(value) => Ok(value),
        Measured::Unavailable { unavailable } => Err(unavailable),
    };
    group.runs.iter().map(|named| value(&named.run)).collect()
}
