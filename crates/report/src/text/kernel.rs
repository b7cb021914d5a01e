//! Sampled kernel work by operation.

use crate::document::Section;
use crate::grid::Grid;
use crate::number::{DASH, grouped, with_digits};
use crate::summary::{RoleName, ranked};
use overhead_model::record::{By, Measured, OperationKernel, OperationTime, OperationWork, SampledRole, SampledSums};
use overhead_model::{Class, Run};
use std::collections::BTreeMap;

pub(crate) const TITLE: &str = "Kernel work by operation (sampled)";

/// Returns the table with its notes, or `None` if there is no table.
pub(crate) fn section(run: &Run) -> Option<Section> {
    Some(Section { title: TITLE.to_owned(), table: grid(run)?, notes: lines(run) })
}

/// Returns a run's table, with a row per workload operation or statement and end, or `None` without samples.
pub(crate) fn grid(run: &Run) -> Option<Grid> {
    let by_statement = run.view.as_ref().is_some_and(|view| view.by == By::Statement);
    let mut rows = Vec::new();
    for row in ranked(run).into_iter().filter(|row| row.class == Class::Workload) {
        if by_statement && !row.statements.is_empty() {
            for statement in &row.statements {
                rows.extend(both(&statement.text, &row.via, statement.kernel.as_ref()));
            }
        } else {
            rows.extend(both(&row.name, &row.via, row.kernel.as_ref()));
        }
    }
    let headers =
        ["sampled", "of", "syscalls\n/op", "of them\nshared", "on-CPU\nns/op", "of it\nin calls", "of it\nshared"];
    Grid::new(&["operation", "via", "role"], &headers, rows).if_any()
}

fn both(name: &str, via: &str, kernel: Option<&OperationKernel>) -> Vec<Vec<String>> {
    let Some(kernel) = kernel else { return Vec::new() };
    let ends = [(RoleName::Server, &kernel.server), (RoleName::Client, &kernel.client)];
    let cells = |(role, work): (RoleName, &Measured<OperationWork>)| {
        let figures = work.value().map(figures)?;
        Some([vec![name.to_owned(), via.to_owned(), role.name().to_owned()], figures].concat())
    };
    ends.into_iter().filter_map(cells).collect()
}

fn figures(work: &OperationWork) -> Vec<String> {
    let shared: f64 = work.shared_syscalls.values().sum();
    let ns = |of: fn(&OperationTime) -> f64| {
        work.time.value().map_or_else(|| DASH.to_owned(), |time| grouped(of(time).round().max(0.0) as u64))
    };
    vec![
        grouped(work.sampled),
        grouped(work.of),
        with_digits(work.calls(), 2),
        with_digits(shared, 2),
        ns(OperationTime::total_ns),
        ns(|time| time.in_calls_ns),
        ns(|time| time.shared_ns),
    ]
}

/// Returns the notes below the table: system calls by name, and totals of the sampled work.
pub(crate) fn lines(run: &Run) -> Vec<String> {
    let Some(counters) = run.counters.value() else { return Vec::new() };
    let sample = match &counters.by_operation {
        Measured::Value(sample) => sample,
        Measured::Unavailable { unavailable } => {
            return vec![format!("kernel work by operation: not sampled: {unavailable}")];
        }
    };
    let mut lines = Vec::new();
    for row in ranked(run).into_iter().filter(|row| row.class == Class::Workload) {
        let Some(kernel) = &row.kernel else { continue };
        for (role, work) in [(RoleName::Server, &kernel.server), (RoleName::Client, &kernel.client)] {
            let work = match work {
                Measured::Value(work) => work,
                Measured::Unavailable { unavailable } => {
                    lines.push(format!("{} {}: not measured: {unavailable}", row.name, role.name()));
                    continue;
                }
            };
            if let Measured::Unavailable { unavailable } = &work.time {
                lines.push(format!("{} {}: no time on a CPU: {unavailable}", row.name, role.name()));
            }
            let mut calls: BTreeMap<&str, f64> = BTreeMap::new();
            for (name, count) in work.syscalls.iter().chain(&work.shared_syscalls) {
                *calls.entry(name).or_default() += count;
            }
            let calls = calls.iter().map(|(name, count)| format!("{name} {}", with_digits(*count, 2)));
            let calls = calls.collect::<Vec<_>>().join(", ");
            lines.push(format!("{} {}: {calls}", row.name, role.name()));
        }
    }
    for (role, sampled) in [(RoleName::Server, &sample.server), (RoleName::Client, &sample.client)] {
        lines.push(match sampled {
            Measured::Value(sampled) => format!("{}: {}", role.name(), in_words(sampled)),
            Measured::Unavailable { unavailable } => format!("{}: not sampled: {unavailable}", role.name()),
        });
    }
    let dropped = if sample.dropped > 0 { format!(", {} dropped", grouped(sample.dropped)) } else { String::new() };
    lines.push(format!("{} slices of {} windows{dropped}", grouped(sample.slices), grouped(sample.windows)));
    lines
}

fn in_words(role: &SampledRole) -> String {
    let part = |sums: &SampledSums, of: u64| {
        let all = (sums.operations + sums.shared + sums.unattributed).max(1);
        format!("{}%", with_digits(of as f64 * 100.0 / all as f64, 1))
    };
    let time = &role.on_cpu_ns;
    let scale = role.scale.value().map_or_else(|| DASH.to_owned(), |scale| with_digits(*scale, 3));
    let added = role.added_ns.value().map_or_else(|| DASH.to_owned(), |ns| with_digits(*ns, 0));
    let rest = role.rest_ns.value().map_or_else(|| DASH.to_owned(), |ns| with_digits(*ns as f64 / 1e6, 1));
    format!(
        "of the sampled time on a CPU {} was for operations, {} of the loop, {} for neither; {added} ns a call subtracted and scaled by {scale}, of the run's {rest} ms are left over",
        part(time, time.operations),
        part(time, time.shared),
        part(time, time.unattributed)
    )
}
