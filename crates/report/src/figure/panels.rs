//! The three panels: bytes by account, system calls by name, CPU work by mode.

use super::chart::{Bar, Drawn, Panel, Part};
use super::palette::{self, KERNEL, OTHER_SYSCALLS, Rgb, SYSCALLS, USER};
use crate::limits::FIGURE_SYSCALLS;
use crate::run::NamedRun;
use crate::summary::{CpuUnit, RoleName, per_operation, workload_count};
use crate::text::clean;
use crate::text::number::{bytes_label, significant, with_digits};
use overhead_model::record::Role;
use overhead_model::{Account, Amounts};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// From this many on, a unit a thousand times as large is used.
const LARGE: f64 = 10_000.0;

/// Why a row has no bars at all.
const NO_OPERATIONS: &str = "no workload operations";

/// Bytes per operation, request above response, by account.
pub(crate) fn bytes(drawn: &[Drawn<'_>]) -> Panel {
    let sides = drawn.iter().map(|drawn| {
        let row = drawn.operation.ok_or_else(|| NO_OPERATIONS.to_owned());
        let bar = |amounts: &Amounts, count| {
            amounts.iter().filter_map(|(account, bytes)| part(bytes, count, palette::account(account))).collect()
        };
        Some(match row {
            Ok(row) => [Ok(bar(&row.request.accounts, row.count)), Ok(bar(&row.response.accounts, row.count))],
            Err(reason) => [Err(reason.clone()), Err(reason)],
        })
    });
    let rows: Vec<_> = sides.collect();
    let used = |account: &Account| {
        let holds = |amounts: &Amounts| amounts[*account] > 0;
        drawn
            .iter()
            .filter_map(|drawn| drawn.operation)
            .any(|row| holds(&row.request.accounts) || holds(&row.response.accounts))
    };
    let legend =
        Account::ALL.into_iter().filter(used).map(|account| (account.name().to_owned(), palette::account(account)));
    Panel {
        title: "Bytes per operation",
        unit: "B on the wire, by account".to_owned(),
        legend: legend.collect(),
        tags: ["request", "response"].map(str::to_owned),
        rows,
        print: bytes_label,
        whole_run: false,
    }
}

fn part(total: u64, count: u64, color: Rgb) -> Option<Part> {
    per_operation(total, count).filter(|value| *value > 0.0).map(|value| Part { value, color })
}

/// Bars of both roles at the first row of each run, nothing at its other rows: counters are those of a whole run.
fn by_role(drawn: &[Drawn<'_>], bar: impl Fn(&Role, u64) -> Bar) -> Vec<Option<[Bar; 2]>> {
    let of_run = |named: &NamedRun| {
        let count = workload_count(&named.run);
        RoleName::BOTH.map(|role| match role.of(&named.run) {
            Err(reason) => Err(clean(reason)),
            Ok(_) if count == 0 => Err(NO_OPERATIONS.to_owned()),
            Ok(role) => bar(role, count),
        })
    };
    drawn.iter().map(|drawn| drawn.first.then(|| of_run(drawn.named))).collect()
}

/// The roles that were measured, with the operations of their runs.
fn measured(runs: &[NamedRun]) -> impl Iterator<Item = (&Role, u64)> {
    runs.iter().flat_map(|named| {
        let count = workload_count(&named.run);
        RoleName::BOTH.into_iter().filter_map(move |role| Some((role.of(&named.run).ok()?, count)))
    })
}

/// System calls per operation, server above client, by name.
pub(crate) fn syscalls(drawn: &[Drawn<'_>], runs: &[NamedRun]) -> Panel {
    let names = most_used(runs);
    let others = measured(runs).any(|(role, _)| role.syscalls.keys().any(|name| !names.contains(name)));
    let rows = by_role(drawn, |role, count| {
        let calls = |name: &String| role.syscalls.get(name).map_or(0, |call| call.count);
        let named = names.iter().zip(SYSCALLS).filter_map(|(name, color)| part(calls(name), count, color));
        let rest = role.syscalls.iter().filter(|(name, _)| !names.contains(name)).map(|(_, call)| call.count).sum();
        Ok(named.chain(part(rest, count, OTHER_SYSCALLS)).collect())
    });
    let legend = names.iter().map(|name| clean(name)).zip(SYSCALLS);
    Panel {
        title: "Syscalls per operation",
        unit: "calls, by name".to_owned(),
        legend: legend.chain(others.then(|| ("other".to_owned(), OTHER_SYSCALLS))).collect(),
        tags: RoleName::BOTH.map(|role| role.name().to_owned()),
        rows,
        print: |value| with_digits(value, 2),
        whole_run: true,
    }
}

/// Names with a colour of their own: those with the most calls per operation in any run, ties by name.
fn most_used(runs: &[NamedRun]) -> Vec<String> {
    let mut per_name: BTreeMap<&String, f64> = BTreeMap::new();
    for (role, count) in measured(runs) {
        for (name, call) in &role.syscalls {
            *per_name.entry(name).or_default() += per_operation(call.count, count).unwrap_or(0.0);
        }
    }
    let mut names: Vec<(&String, f64)> = per_name.into_iter().filter(|name| name.1 > 0.0).collect();
    // Whole billionths, since floating point has no total order of its own.
    names.sort_by_key(|name| Reverse((name.1 * 1e9) as u64));
    names.into_iter().take(FIGURE_SYSCALLS).map(|name| name.0.clone()).collect()
}

/// CPU work per operation, server above client, by mode, in the unit that most of what was measured has in common.
pub(crate) fn cpu(drawn: &[Drawn<'_>], runs: &[NamedRun]) -> Panel {
    let unit = common_unit(runs);
    let largest = measured(runs).filter_map(|(role, count)| {
        let [user, kernel] = unit.of(role).ok()?;
        per_operation(user + kernel, count)
    });
    let scale = if largest.fold(0.0, f64::max) >= LARGE { 1e3 } else { 1.0 };
    let rows = by_role(drawn, |role, count| {
        let [user, kernel] = unit.of(role).map_err(clean)?;
        let parts = [part(user, count, USER), part(kernel, count, KERNEL)].into_iter().flatten();
        Ok(parts.map(|part| Part { value: part.value / scale, ..part }).collect())
    });
    Panel {
        title: if unit == CpuUnit::OnCpuNs { "CPU time per operation" } else { "CPU cycles per operation" },
        unit: unit_in_words(unit, scale > 1.0).to_owned(),
        legend: vec![("user".to_owned(), USER), ("kernel".to_owned(), KERNEL)],
        tags: RoleName::BOTH.map(|role| role.name().to_owned()),
        rows,
        print: significant,
        whole_run: true,
    }
}

/// The unit that the most roles have; hardware cycles before others where as many have them.
fn common_unit(runs: &[NamedRun]) -> CpuUnit {
    let having = |unit: &CpuUnit| measured(runs).filter(|(role, _)| unit.of(role).is_ok()).count();
    // The last of the greatest wins, so the order is turned round.
    CpuUnit::ALL.into_iter().rev().max_by_key(having).unwrap_or(CpuUnit::Hardware)
}

const fn unit_in_words(unit: CpuUnit, thousands: bool) -> &'static str {
    match (unit, thousands) {
        (CpuUnit::Hardware, false) => "hardware cycles",
        (CpuUnit::Hardware, true) => "thousand hardware cycles",
        (CpuUnit::Reference, false) => "reference cycles (a time unit)",
        (CpuUnit::Reference, true) => "thousand reference cycles",
        (CpuUnit::OnCpuNs, false) => "ns on a CPU",
        (CpuUnit::OnCpuNs, true) => "µs on a CPU",
    }
}
