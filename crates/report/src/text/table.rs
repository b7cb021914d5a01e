//! A run on a terminal.

use super::cells::{
    KEYS, has_unknown, mean, name_cell, operation_cells, operation_columns, several_protocols, used_accounts,
};
use super::facts::{balance_line, command, cycle_label, integrity, observer_line, source_line};
use super::grid::{Column, Grid, alarming, bold};
use super::number::{DASH, grouped, significant, with_digits};
use super::{Style, clean, shortened};
use crate::run::NamedRun;
use crate::summary::{
    CpuUnit, RoleName, per_operation, present, ranked, syscalls_per_operation, workload, workload_count,
};
use overhead_model::record::{CycleSource, OperationRow, Role};
use overhead_model::{Amounts, Run};
use std::cmp::Reverse;
use std::fmt::Write;

/// A run as aligned columns: where it came from, its operations, the accounts of its workload, the work they made, and
/// what there is to doubt.
pub fn table(named: &NamedRun, style: Style) -> String {
    let run = &named.run;
    let mut out = header(named, style);
    section(&mut out, style, "Operations (B/op: bytes on the wire per operation)", &operations(run, style));
    let accounts = accounts(run, style);
    if !accounts.is_empty() {
        section(&mut out, style, "Workload by account, in B/op", &accounts);
    }
    let count = grouped(workload_count(run));
    section(
        &mut out,
        style,
        &format!("Work per operation (all {count} workload operations together)"),
        &work(run, style),
    );
    out.push_str(&foot(run, style));
    out
}

fn section(out: &mut String, style: Style, title: &str, body: &str) {
    let title = if style.color { bold(title) } else { title.to_owned() };
    // Writing to a string does not fail.
    let _ = write!(out, "\n{title}\n\n{body}");
}

fn header(named: &NamedRun, style: Style) -> String {
    let name = clean(&named.name);
    let name = if style.color { bold(&name) } else { name };
    let balance = balance_line(&named.run);
    let balance = if style.color && !named.run.ledger.balanced { alarming(&balance) } else { balance };
    let command = command(&named.run).map(|command| format!("command: {command}\n")).unwrap_or_default();
    format!("{name}\n{}\n{command}{balance}\n", source_line(&named.run))
}

fn operations(run: &Run, style: Style) -> String {
    let (protocols, unknown) = (several_protocols(run), has_unknown(run));
    let mut rows: Vec<Vec<String>> =
        ranked(run).into_iter().map(|row| operation_cells(row, protocols, unknown)).collect();
    let columns = operation_columns(unknown);
    let sum = |name: &str, bytes: u64| {
        let mut cells = vec![String::new(); columns.len()];
        name.clone_into(&mut cells[0]);
        cells[KEYS + 3] = grouped(bytes);
        cells
    };
    let (request, response) = (run.ledger.request.total(), run.ledger.response.total());
    if run.ledger.other > 0 || rows.is_empty() {
        rows.push(sum("other traffic", run.ledger.other));
    }
    rows.push(sum("total", request + response + run.ledger.other));
    narrowed(&mut rows, 1, style);
    Grid { columns, rows, keys: KEYS }.render(style)
}

/// Shortens the names in a column to a third of the terminal, so that there is room for figures beside them.
fn narrowed(rows: &mut [Vec<String>], column: usize, style: Style) {
    if let Some(width) = style.width {
        let names = rows.iter_mut().filter_map(|row| row.get_mut(column));
        names.for_each(|name| *name = shortened(name, (width / 3).max(16)));
    }
}

fn accounts(run: &Run, style: Style) -> String {
    let (protocols, rows) = (several_protocols(run), workload(run));
    let sides: Vec<(&OperationRow, &str, &Amounts)> = rows
        .into_iter()
        .flat_map(|row| [(row, "request", &row.request.accounts), (row, "response", &row.response.accounts)])
        .collect();
    let used = used_accounts(&sides.iter().map(|side| side.2).collect::<Vec<_>>());
    let keys = ["operation", "via", "side"].map(Column::left);
    let columns = keys.into_iter().chain(used.iter().map(|account| Column::right(account.name()))).collect();
    let cells = |(row, side, amounts): &(&OperationRow, &str, &Amounts)| {
        let mut cells = vec![name_cell(row, protocols), clean(&row.via), (*side).to_owned()];
        cells.extend(used.iter().map(|&account| mean(amounts[account], row.count)));
        cells
    };
    if sides.is_empty() {
        return String::new();
    }
    let mut rows: Vec<Vec<String>> = sides.iter().map(cells).collect();
    narrowed(&mut rows, 0, style);
    Grid { columns, rows: sides.iter().map(cells).collect(), keys: KEYS }.render(style)
}

fn work(run: &Run, style: Style) -> String {
    let count = workload_count(run);
    if let Err(reason) = present(&run.counters) {
        return format!("not measured: {}\n", clean(reason));
    }
    let cycles = if is_reference(run) { "reference\ncycles/op" } else { "cycles\n/op" };
    let columns = [
        "syscalls\n/op",
        cycles,
        "of it\nuser",
        "\nkernel",
        "on-CPU\nns/op",
        "of it\nuser",
        "\nkernel",
        "switches\n/op",
    ];
    let columns = std::iter::once(Column::left("role")).chain(columns.map(Column::right)).collect();
    let roles = RoleName::BOTH.map(|role| (role, role.of(run)));
    let measured = roles.iter().filter_map(|(name, role)| role.ok().map(|role| (*name, role)));
    let rows: Vec<Vec<String>> = measured.clone().map(|(name, role)| role_cells(name, role, count)).collect();
    let mut out = if rows.is_empty() { String::new() } else { Grid { columns, rows, keys: 1 }.render(style) };
    for (name, role) in roles {
        let line = match role {
            Ok(role) => format!("{} syscalls/op: {}", name.name(), syscall_list(role, count)),
            Err(reason) => format!("{}: not measured: {}", name.name(), clean(reason)),
        };
        out.push_str(&line);
        out.push('\n');
    }
    let _ = writeln!(out, "cycles: {}", cycle_label(run));
    out
}

/// True when cycles are a unit of time.
fn is_reference(run: &Run) -> bool {
    RoleName::BOTH
        .iter()
        .filter_map(|role| role.of(run).ok()?.cycles.value())
        .any(|cycles| cycles.source == CycleSource::Reference)
}

fn role_cells(name: RoleName, role: &Role, count: u64) -> Vec<String> {
    let mean = |total: u64| per_operation(total, count).map_or_else(|| DASH.to_owned(), significant);
    let syscalls = syscalls_per_operation(role, count).map_or_else(|| DASH.to_owned(), |n| with_digits(n, 2));
    let switches = present(&role.context_switches).ok().and_then(|n| per_operation(n.voluntary + n.involuntary, count));
    let unit = match role.cycles.value().map(|cycles| cycles.source) {
        Some(CycleSource::Hardware) => CpuUnit::Hardware,
        _ => CpuUnit::Reference,
    };
    let mut cells = vec![name.name().to_owned(), syscalls];
    for split in [unit.of(role), CpuUnit::OnCpuNs.of(role)] {
        cells.extend(match split {
            Ok([user, kernel]) => [user + kernel, user, kernel].map(mean),
            Err(_) => [DASH; 3].map(str::to_owned),
        });
    }
    cells.push(switches.map_or_else(|| DASH.to_owned(), |n| with_digits(n, 2)));
    cells
}

fn syscall_list(role: &Role, count: u64) -> String {
    let mut calls: Vec<(&String, u64)> = role.syscalls.iter().map(|(name, call)| (name, call.count)).collect();
    calls.sort_by_key(|call| Reverse(call.1));
    let shown: Vec<String> = calls
        .iter()
        .take(8)
        .filter_map(|(name, calls)| Some(format!("{} {}", clean(name), with_digits(per_operation(*calls, count)?, 2))))
        .collect();
    let more = calls.len().saturating_sub(8);
    match (shown.is_empty(), more) {
        (true, _) => DASH.to_owned(),
        (false, 0) => shown.join(", "),
        (false, more) => format!("{}, and {more} more", shown.join(", ")),
    }
}

fn foot(run: &Run, style: Style) -> String {
    let mut out = format!("\ncapture: {}\nobserver: {}\n", integrity(run), observer_line(&run.observer));
    for warning in &run.warnings {
        let line = format!("warning: {}", clean(warning));
        out.push_str(&if style.color { alarming(&line) } else { line });
        out.push('\n');
    }
    out
}
