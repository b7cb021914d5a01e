//! System calls, time on a CPU and their like, per workload operation of each run.

use crate::summary::{CpuUnit, RoleName, per_operation, present, syscalls_per_operation, workload_count};
use overhead_model::Run;
use overhead_model::record::{Measured, Role};
use serde::Serialize;
use std::collections::BTreeSet;

/// System calls that are rarer than this per operation, in both runs, are in the sum only.
const RARE: f64 = 0.005;

/// A figure of one role.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct WorkDifference {
    /// `server` or `client`.
    pub role: &'static str,
    /// What it is, with its unit.
    pub figure: String,
    /// Per operation, by run; or the reason why it is absent.
    pub per_operation: [Measured<f64>; 2],
    /// The second minus the first; absent where one of them is.
    pub difference: Option<f64>,
}

/// Returns all figures of server and client.
pub(super) fn differences(first: &Run, second: &Run) -> Vec<WorkDifference> {
    RoleName::BOTH.into_iter().flat_map(|role| of_role(role, [first, second])).collect()
}

fn of_role(name: RoleName, runs: [&Run; 2]) -> Vec<WorkDifference> {
    type Figure = fn(&Role) -> Result<u64, &str>;
    let figures: [(&str, Figure); 6] = [
        ("on-CPU ns", |role| CpuUnit::OnCpuNs.of(role).map(|[user, kernel]| user + kernel)),
        ("of it in the kernel, ns", |role| CpuUnit::OnCpuNs.of(role).map(|[_, kernel]| kernel)),
        ("cycles, hardware", |role| CpuUnit::Hardware.of(role).map(|[user, kernel]| user + kernel)),
        ("cycles, reference", |role| CpuUnit::Reference.of(role).map(|[user, kernel]| user + kernel)),
        ("context switches", |role| present(&role.context_switches).map(|n| n.voluntary + n.involuntary)),
        ("socket sends and receives", |role| present(&role.socket).map(|n| n.send_calls + n.recv_calls)),
    ];
    let mut rows = vec![row(name, "system calls".to_owned(), runs, syscalls_per_operation)];
    rows.extend(calls(name, runs).into_iter().map(|call| {
        let count =
            |role: &Role, operations| per_operation(role.syscalls.get(&call).map_or(0, |call| call.count), operations);
        row(name, format!("of them {call}"), runs, count)
    }));
    for (figure, of) in figures {
        let per_operation = runs.map(|run| match name.of(run).and_then(of) {
            Ok(total) => mean(per_operation(total, workload_count(run))),
            Err(reason) => Measured::unavailable(reason),
        });
        // Of the units that cycles come in, those that no run has are left out.
        if !figure.starts_with("cycles") || per_operation.iter().any(|figure| figure.value().is_some()) {
            rows.push(difference(name, figure.to_owned(), per_operation));
        }
    }
    rows
}

/// Names of the calls worth a line, most frequent first.
fn calls(name: RoleName, runs: [&Run; 2]) -> Vec<String> {
    let most = |call: &str| {
        let of = |run: &Run| per_operation(name.of(run).ok()?.syscalls.get(call)?.count, workload_count(run));
        runs.into_iter().filter_map(of).fold(0.0, f64::max)
    };
    let names: BTreeSet<&String> =
        runs.into_iter().filter_map(|run| name.of(run).ok()).flat_map(|role| role.syscalls.keys()).collect();
    let mut frequent: Vec<(&String, f64)> =
        names.into_iter().map(|call| (call, most(call))).filter(|call| call.1 >= RARE).collect();
    frequent.sort_by(|a, b| b.1.total_cmp(&a.1));
    frequent.into_iter().map(|(call, _)| call.clone()).collect()
}

fn row(name: RoleName, figure: String, runs: [&Run; 2], of: impl Fn(&Role, u64) -> Option<f64>) -> WorkDifference {
    let per_operation = runs.map(|run| match name.of(run) {
        Ok(role) => mean(of(role, workload_count(run))),
        Err(reason) => Measured::unavailable(reason),
    });
    difference(name, figure, per_operation)
}

fn mean(figure: Option<f64>) -> Measured<f64> {
    figure.map_or_else(|| Measured::unavailable("no workload operations"), Measured::Value)
}

fn difference(name: RoleName, figure: String, per_operation: [Measured<f64>; 2]) -> WorkDifference {
    let difference = match &per_operation {
        [Measured::Value(first), Measured::Value(second)] => Some(second - first),
        _ => None,
    };
    WorkDifference { role: name.name(), figure, per_operation, difference }
}
