//! The three panels: bytes by account, system calls by name, CPU work by mode.

use super::chart::{Bar, BarPart, Drawn, Panel};
use super::palette::{self, KERNEL, OTHER_SYSCALLS, Rgb, SYSCALLS, USER};
use crate::clean::clean;
use crate::number::{bytes_label, significant, with_digits};
use crate::run::NamedRun;
use crate::summary::{CpuUnit, RoleName, per_operation, syscalls_per_operation, whole_run_counters, workload_count};
use overhead_model::record::Role;
use overhead_model::{Account, Amounts};
use std::collections::BTreeSet;

/// Values from here on use a unit 1,000 times as large.
const LARGE: f64 = 10_000.0;

/// Share of the longest bar below which a system call is not drawn by name: it would be hardly wider than its outline.
const VISIBLE: f64 = 0.03;

/// Reason for a row without any bars.
const NO_OPERATIONS: &str = "no workload operations";

/// Returns bytes per operation by account, request above response.
pub(crate) fn bytes(drawn: &[Drawn<'_>]) -> Panel {
    let sides = drawn.iter().map(|drawn| {
        let row = drawn.operation.ok_or_else(|| NO_OPERATIONS.to_owned());
        let bar = |amounts: &Amounts, count| {
            amounts.iter().filter_map(|(account, bytes)| part(bytes, count, palette::account(account))).collect()
        };
        Some(match row {
            Ok(row) => [&row.request, &row.response].map(|side| match &side.unseen {
                Some(reason) => Err(reason.clone()),
                None => Ok(bar(&side.accounts, row.samples())),
            }),
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

fn part(total: u64, count: u64, color: Rgb) -> Option<BarPart> {
    per_operation(total, count).filter(|value| *value > 0.0).map(|value| BarPart { value, color })
}

/// Places both roles' bars at the first row of each run, because counters cover the whole run.
fn by_role(drawn: &[Drawn<'_>], bar: impl Fn(&Role, u64) -> Bar) -> Vec<Option<[Bar; 2]>> {
    let of_run = |named: &NamedRun| {
        let count = workload_count(&named.run);
        RoleName::ALL.map(|role| match whole_run_counters(&named.run, role) {
            Err(reason) => Err(reason.to_owned()),
            Ok(_) if count == 0 => Err(NO_OPERATIONS.to_owned()),
            Ok(role) => bar(role, count),
        })
    };
    drawn.iter().map(|drawn| drawn.row.first.then(|| of_run(drawn.named))).collect()
}

/// Returns the measured roles with their runs' operation counts.
fn measured(runs: &[NamedRun]) -> impl Iterator<Item = (&Role, u64)> {
    runs.iter().flat_map(|named| {
        let count = workload_count(&named.run);
        RoleName::ALL.into_iter().filter_map(move |role| Some((whole_run_counters(&named.run, role).ok()?, count)))
    })
}

/// Returns system calls per operation by name, server above client; each call has the same colour and place in all charts.
pub(crate) fn syscalls(drawn: &[Drawn<'_>], runs: &[NamedRun]) -> Panel {
    let shown = visible(runs);
    let others = measured(runs).any(|(role, _)| role.syscalls.keys().any(|name| !shown.contains(&&**name)));
    let of_name = |role: &Role, name: &str| role.syscalls.get(name).map_or(0, |call| call.count);
    let rows = by_role(drawn, |role, count| {
        let named = SYSCALLS.iter().filter(|(name, _)| shown.contains(name));
        let parts = named.filter_map(|(name, color)| part(of_name(role, name), count, *color));
        let rest =
            role.syscalls.iter().filter(|(name, _)| !shown.contains(&&***name)).map(|(_, call)| call.count).sum();
        Ok(parts.chain(part(rest, count, OTHER_SYSCALLS)).collect())
    });
    let legend =
        SYSCALLS.iter().filter(|(name, _)| shown.contains(name)).map(|(name, color)| ((*name).to_owned(), *color));
    Panel {
        title: "Syscalls per operation",
        unit: "calls, by name".to_owned(),
        legend: legend.chain(others.then(|| ("other".to_owned(), OTHER_SYSCALLS))).collect(),
        tags: RoleName::ALL.map(|role| role.name().to_owned()),
        rows,
        print: |value| with_digits(value, 2),
        whole_run: true,
    }
}

/// Returns the calls that have a colour and are visible in some bar.
fn visible(runs: &[NamedRun]) -> BTreeSet<&'static str> {
    let per = |role: &Role, count, name: &str| {
        role.syscalls.get(name).and_then(|call| per_operation(call.count, count)).unwrap_or(0.0)
    };
    let all = |role: &Role, count| syscalls_per_operation(role, count).unwrap_or(0.0);
    let longest = measured(runs).map(|(role, count)| all(role, count)).fold(0.0, f64::max);
    let most = |name: &str| measured(runs).map(|(role, count)| per(role, count, name)).fold(0.0, f64::max);
    let names = SYSCALLS.iter().map(|(name, _)| *name);
    names.filter(|name| most(name) > 0.0 && most(name) >= longest * VISIBLE).collect()
}

/// Returns CPU work per operation by mode, server above client, in the most common unit.
pub(crate) fn cpu(drawn: &[Drawn<'_>], runs: &[NamedRun]) -> Panel {
    let unit = common_unit(runs);
    let largest = measured(runs).filter_map(|(role, count)| {
        let [user, kernel] = unit.amounts(role).ok()?;
        per_operation(user + kernel, count)
    });
    let scale = if largest.fold(0.0, f64::max) >= LARGE { 1e3 } else { 1.0 };
    let rows = by_role(drawn, |role, count| {
        let [user, kernel] = unit.amounts(role).map_err(clean)?;
        let parts = [part(user, count, USER), part(kernel, count, KERNEL)].into_iter().flatten();
        Ok(parts.map(|part| BarPart { value: part.value / scale, ..part }).collect())
    });
    Panel {
        title: if unit == CpuUnit::OnCpuNs { "CPU time per operation" } else { "CPU cycles per operation" },
        unit: unit_in_words(unit, scale > 1.0).to_owned(),
        legend: vec![("user".to_owned(), USER), ("kernel".to_owned(), KERNEL)],
        tags: RoleName::ALL.map(|role| role.name().to_owned()),
        rows,
        print: significant,
        whole_run: true,
    }
}

/// Returns the most common unit; in a tie, hardware cycles before time, and time before reference cycles, which say no more.
fn common_unit(runs: &[NamedRun]) -> CpuUnit {
    let having = |unit: &CpuUnit| measured(runs).filter(|(role, _)| unit.amounts(role).is_ok()).count();
    // `max_by_key` returns the last maximum, so reverse the order.
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
