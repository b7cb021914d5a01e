//! The content of a chart: rows (one operation of a run each) with bars in three panels.

use super::palette::{self, KERNEL, OTHER_SYSCALLS, Rgb, SYSCALLS, USER};
use crate::bounds::LowerBounds;
use crate::clean::{clean, shortened};
use crate::limits::{FIGURE_NAME_CHARS, FIGURE_NEGLIGIBLE, FIGURE_ROWS};
use crate::number::{bytes_label, counted, grouped, percent, significant, with_digits};
use crate::run::NamedRun;
use crate::summary::{
    CpuUnit, RoleName, both_sides, noteworthy, per_operation, syscalls_per_operation, whole_run_counters, workload,
    workload_count,
};
use crate::sums::kind;
use overhead_model::record::{OperationRow, Role};
use overhead_model::{Account, Amounts, Spread};
use std::collections::BTreeSet;

pub(crate) struct Chart {
    pub rows: Vec<BarRow>,
    /// Bytes, system calls and CPU work, as far as they were measured; only one in a stacked layout.
    pub panels: Vec<Panel>,
}

#[derive(Clone)]
pub(crate) struct BarRow {
    pub run: String,
    /// Operation and way of sending, or why there is none.
    pub operation: String,
    /// Count and total; empty without operations.
    pub count: String,
    pub total: String,
    /// Whether it starts a run.
    pub first: bool,
    /// Number of rows of the run, set at its first row.
    pub rows_of_run: usize,
    /// Summary of omissions, at the last row of a run.
    pub remainder: Option<String>,
    /// Whether its bytes are lower bounds.
    pub at_least: bool,
}

/// One kind of bar for every row.
#[derive(Clone)]
pub(crate) struct Panel {
    pub title: &'static str,
    /// Unit, and how it came about.
    pub unit: String,
    pub legend: Vec<(String, Rgb)>,
    pub tags: [String; 2],
    /// `None` if a row shares the bars of the row before.
    pub rows: Vec<Option<[Bar; 2]>>,
    pub print: fn(f64) -> String,
    /// Whether a bar covers all operations of its run.
    pub whole_run: bool,
}

/// A bar, or why there is none.
pub(crate) type Bar = Result<BarStack, String>;

/// Parts stacked from zero.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct BarStack {
    pub parts: Vec<BarPart>,
    /// The smallest and the largest sum of repeated runs; `None` for a single one.
    pub range: Option<(f64, f64)>,
}

impl BarStack {
    fn new(parts: Vec<BarPart>) -> Self {
        Self { parts, range: None }
    }

    fn sum(&self) -> f64 {
        self.parts.iter().map(|part| part.value).sum()
    }
}

/// Returns the bar with the median sum (of an even number, the smaller), with the range of all.
fn median_bar(bars: impl Iterator<Item = Bar>) -> Bar {
    let mut measured = Vec::new();
    let mut absent = None;
    for bar in bars {
        match bar {
            Ok(bar) => measured.push(bar),
            Err(reason) => absent = absent.or(Some(reason)),
        }
    }
    measured.sort_by(|a, b| a.sum().total_cmp(&b.sum()));
    let ends = measured.first().zip(measured.last()).map(|(least, most)| (least.sum(), most.sum()));
    let range = ends.filter(|_| measured.len() > 1);
    let middle = measured.len().saturating_sub(1) / 2;
    let median = measured.into_iter().nth(middle).map(|bar| BarStack { range, ..bar });
    median.ok_or_else(|| absent.unwrap_or_default())
}

/// A part of a bar in the panel's unit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct BarPart {
    pub value: f64,
    pub color: Rgb,
}

/// An operation to draw, with its run.
pub(crate) struct Drawn<'a> {
    /// Its repeated runs; one without repetitions.
    pub group: &'a [NamedRun],
    /// `None` for a run without workload.
    pub operation: Option<&'a OperationRow>,
    pub row: BarRow,
}

impl Chart {
    /// Builds a chart of each run's largest operations, or of the operations with these names if there are any. Neighbours with
    /// one name are repeated runs, which share their rows.
    pub(crate) fn choosing(runs: &[NamedRun], operations_per_run: Option<usize>, names: &[String]) -> Self {
        let groups = || runs.chunk_by(|one, next| one.name == next.name);
        let room = (FIGURE_ROWS / groups().count().max(1)).max(1);
        // Keep comparable operations of the runs in the same order.
        let mut order: Vec<&str> = Vec::new();
        let drawn: Vec<Drawn<'_>> = groups()
            .flat_map(|group| {
                let all = workload(&group[0].run);
                let mut chosen = match operations_per_run {
                    _ if !names.is_empty() => all.iter().copied().filter(|row| is_named(row, names)).collect(),
                    Some(limit) => all.iter().copied().take(limit.max(1)).collect(),
                    None => noteworthy(&all, room),
                };
                order.extend(chosen.iter().map(|row| kind(&row.name)));
                chosen.sort_by_key(|row| order.iter().position(|known| *known == kind(&row.name)));
                drawn_rows(group, &all, &chosen)
            })
            .collect();
        let mut panels = vec![bytes(&drawn), syscalls(&drawn, runs), cpu(&drawn, runs)];
        panels.retain(Panel::is_measured);
        Self { rows: drawn.into_iter().map(|drawn| drawn.row).collect(), panels }
    }

    /// Splits the chart into one per panel, with one row per run if bars cover a whole run.
    pub(crate) fn stacked(&self) -> Vec<Self> {
        let of_panel = |panel: &Panel| {
            let whole = |row: &BarRow| BarRow {
                operation: "whole workload".to_owned(),
                count: String::new(),
                total: String::new(),
                rows_of_run: 1,
                remainder: None,
                ..row.clone()
            };
            let (rows, bars) = if panel.whole_run {
                let firsts = self.rows.iter().zip(&panel.rows).filter(|(row, _)| row.first);
                firsts.map(|(row, bars)| (whole(row), bars.clone())).unzip()
            } else {
                (self.rows.clone(), panel.rows.clone())
            };
            Self { rows, panels: vec![Panel { rows: bars, ..panel.clone() }] }
        };
        self.panels.iter().map(of_panel).collect()
    }
}

impl Panel {
    pub(crate) fn max(&self) -> f64 {
        let bars = self.rows.iter().flatten().flatten().filter_map(|bar| bar.as_ref().ok());
        bars.map(|bar| bar.range.map_or_else(|| bar.sum(), |(_, most)| most)).fold(0.0, f64::max)
    }

    /// Returns whether it has any bar. Bytes are always available.
    fn is_measured(&self) -> bool {
        !self.whole_run || self.rows.iter().flatten().flatten().any(Result::is_ok)
    }
}

/// Returns whether an operation has one of these names, ignoring case.
pub(crate) fn is_named(row: &OperationRow, names: &[String]) -> bool {
    names.iter().any(|name| name.eq_ignore_ascii_case(&row.name))
}

fn drawn_rows<'a>(group: &'a [NamedRun], all: &[&'a OperationRow], chosen: &[&'a OperationRow]) -> Vec<Drawn<'a>> {
    let named = &group[0];
    let last = chosen.len().saturating_sub(1);
    let drawn = |(at, operation)| {
        let bounds = LowerBounds::new(&named.run);
        let (words, count, total) = match operation {
            None => ("no workload operations".to_owned(), String::new(), String::new()),
            Some(operation) => words(group, operation, bounds),
        };
        let row = BarRow {
            run: shortened(&clean(&named.name), FIGURE_NAME_CHARS),
            operation: shortened(&words, FIGURE_NAME_CHARS),
            count,
            total,
            first: at == 0,
            rows_of_run: if at == 0 { chosen.len().max(1) } else { 0 },
            remainder: if at == last { remainder(all, chosen) } else { None },
            at_least: bounds.wire,
        };
        Drawn { group, operation, row }
    };
    if chosen.is_empty() {
        return vec![drawn((0, None))];
    }
    chosen.iter().map(|row| Some(*row)).enumerate().map(drawn).collect()
}

/// Returns the operation in each of these runs that has it.
fn repeated<'a>(group: &'a [NamedRun], row: &OperationRow) -> impl Iterator<Item = &'a OperationRow> {
    let is_it = |of: &&OperationRow| {
        (&of.protocol, of.class, &of.name, &of.via) == (&row.protocol, row.class, &row.name, &row.via)
    };
    group.iter().filter_map(move |named| named.run.operations.iter().find(is_it))
}

/// Returns the operation, its count, and its bytes: of repeated runs, the median and the range.
fn words(group: &[NamedRun], row: &OperationRow, bounds: LowerBounds) -> (String, String, String) {
    let name = clean(&row.name);
    let operation = if row.via.is_empty() { name } else { format!("{name} · {}", clean(&row.via)) };
    let runs = if group.len() > 1 { format!(", {} runs", group.len()) } else { String::new() };
    let count = format!("n = {}{runs}", grouped(row.samples()));
    let means = repeated(group, row).filter_map(|row| per_operation(both_sides(row).total(), row.samples()));
    let total = Spread::from_values(&means.collect::<Vec<_>>()).map(|Spread { median, min, max, .. }| {
        let [median, min, max] = [median, min, max].map(bytes_label);
        let range = if min == max { String::new() } else { format!(" ({min}-{max})") };
        bounds.wire(format!("{median} B/op{range}"))
    });
    (operation, count, total.unwrap_or_default())
}

/// Summarises the number and size of the omitted operations, unless they are negligible.
fn remainder(all: &[&OperationRow], chosen: &[&OperationRow]) -> Option<String> {
    let rest: Vec<&OperationRow> =
        all.iter().filter(|row| !chosen.iter().any(|drawn| std::ptr::eq(*drawn, **row))).copied().collect();
    let bytes = |rows: &[&OperationRow]| rows.iter().map(|row| both_sides(row).total()).sum::<u64>();
    let (few, all) = (bytes(&rest), bytes(all));
    (few > 0 && few >= all / FIGURE_NEGLIGIBLE).then(|| {
        let share = percent(few, all);
        format!("and {} not drawn, {share} of the bytes", counted(rest.len() as u64, "more operation"))
    })
}

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
        let of_side = |row: &OperationRow, at: usize| {
            let side = [&row.request, &row.response][at];
            match &side.unseen {
                Some(reason) => Err(reason.clone()),
                None => Ok(BarStack::new(bar(&side.accounts, row.samples()))),
            }
        };
        Some(match row {
            Ok(row) => [0, 1].map(|at| median_bar(repeated(drawn.group, row).map(|row| of_side(row, at)))),
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
    let of_run = |named: &NamedRun, role| {
        let count = workload_count(&named.run);
        match whole_run_counters(&named.run, role) {
            Err(reason) => Err(reason.to_owned()),
            Ok(_) if count == 0 => Err(NO_OPERATIONS.to_owned()),
            Ok(role) => bar(role, count),
        }
    };
    let of_group =
        |group: &[NamedRun]| RoleName::ALL.map(|role| median_bar(group.iter().map(|named| of_run(named, role))));
    drawn.iter().map(|drawn| drawn.row.first.then(|| of_group(drawn.group))).collect()
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
        Ok(BarStack::new(parts.chain(part(rest, count, OTHER_SYSCALLS)).collect()))
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
        Ok(BarStack::new(parts.map(|part| BarPart { value: part.value / scale, ..part }).collect()))
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
