//! A run as a document, for a terminal or as Markdown.

use super::columns::{self, OperationColumn, account_cell, used_accounts};
use super::legend::legend;
use super::rows::TableRows;
use super::{Columns, absolute, distribution, facts, kernel, projection, sampled};
use crate::bounds::lower_bounds;
use crate::clean::{clean, middle_cut};
use crate::document::{Document, Fact, Section};
use crate::grid::{Grid, Style};
use crate::number::{DASH, grouped, money, percent, significant, with_digits};
use crate::run::NamedRun;
use crate::summary::{
    self, CpuUnit, RoleName, RoleWork, counters_only, per_operation, present, syscalls_per_operation, window_ns,
    workload_count,
};
use overhead_model::record::{BillingPeriod, CycleSource, Role, SideSums, ViewRow};
use overhead_model::{Class, Run, Side};
use std::cmp::Reverse;

/// Minimum share of the line for names, as one in this many, before further columns are added.
const NAMES: usize = 5;
/// Minimum name length in characters.
const SHORT_NAME: usize = 16;

/// Returns a run for a terminal.
pub fn table(named: &NamedRun, columns: &Columns, style: Style) -> String {
    document(named, columns, style.width, style.legend).terminal(style)
}

/// Returns a run as GitHub Markdown. Shows all columns unless some are listed.
pub fn markdown(named: &NamedRun, columns: &Columns) -> String {
    let columns = if *columns == Columns::Fitting { &Columns::All } else { columns };
    document(named, columns, None, true).markdown()
}

fn document(named: &NamedRun, columns: &Columns, width: Option<usize>, has_legend: bool) -> Document {
    let run = &named.run;
    let mut document = Document::default();
    document.heading(3, &*named.name);
    document.facts(facts::origin(run).into_iter().chain(facts::command(run)).collect());
    document.warnings(warnings(run));
    for section in sections(run, columns, width, has_legend) {
        document.section(4, section);
    }
    let is_shown = |fact: &Fact| fact.term != "cycles" || *columns == Columns::All;
    document.facts(facts::measuring(run).into_iter().filter(is_shown).collect());
    document
}

/// Returns the warnings that precede the tables.
pub(crate) fn warnings(run: &Run) -> impl Iterator<Item = String> {
    lower_bounds(run).into_iter().chain(run.warnings.iter().cloned())
}

fn sections(run: &Run, columns: &Columns, width: Option<usize>, has_legend: bool) -> Vec<Section> {
    if counters_only(run) {
        return absolute::sections(run);
    }
    let is_whole = *columns == Columns::All;
    let table = TableRows { has_short_names: *columns == Columns::Fitting, ..TableRows::new(run) };
    let mut operations = operations_section(&table, columns, width);
    operations.notes.retain(|_| has_legend);
    // The legend gives the texts more room.
    operations.notes.extend(table.texts(width.filter(|_| !has_legend)));
    if table.is_compact() && !is_whole {
        operations.title.clear();
    }
    if run.sample.is_some() {
        "In the windows".clone_into(&mut operations.title);
    }
    let sections = [
        sampled::section(run),
        Some(operations),
        distribution::section(run),
        accounts(&table).filter(|_| is_whole),
        projection::section(run),
        work(run).filter(|_| is_whole),
        kernel::section(run),
    ];
    sections.into_iter().flatten().chain(absolute::sections(run)).collect()
}

/// Returns the operations table, with an explanation of its columns and a list of omitted ones.
fn operations_section(table: &TableRows<'_>, columns: &Columns, width: Option<usize>) -> Section {
    let (shown, grid) = operations(table, columns, width);
    let mut notes = legend(table, &shown);
    let whole = columns::whole(table).into_iter();
    let left_out: Vec<&str> = whole.filter(|column| !shown.contains(column)).map(OperationColumn::name).collect();
    if *columns == Columns::Fitting && !left_out.is_empty() {
        notes.push(format!("not shown: {} (--wide shows them, --columns chooses)", left_out.join(", ")));
    }
    Section { title: table.title().to_owned(), table: grid, notes }
}

fn operations(table: &TableRows<'_>, columns: &Columns, width: Option<usize>) -> (Vec<OperationColumn>, Grid) {
    let shown = match (columns, width) {
        (Columns::Listed(listed), _) => listed.clone(),
        (Columns::Fitting, Some(width)) => fitting(table, width),
        (Columns::Fitting, None) | (Columns::All, _) => columns::whole(table),
    };
    let mut grid = grid_of(table, &shown);
    if let (Columns::Fitting, Some(width)) = (columns, width) {
        let beyond = grid.width().saturating_sub(width);
        narrowed(&mut grid, &shown, beyond);
    }
    (shown, grid)
}

/// Returns the most important columns that fit next to names of reasonable length.
fn fitting(table: &TableRows<'_>, width: usize) -> Vec<OperationColumn> {
    let names = (width / NAMES).max(SHORT_NAME);
    let mut shown: Vec<OperationColumn> = Vec::new();
    for column in columns::by_importance(table) {
        let mut candidate = shown.clone();
        candidate.push(column);
        candidate.sort_by_key(|column| columns::position(*column));
        let mut grid = grid_of(table, &candidate);
        narrowed_to(&mut grid, &candidate, names);
        if grid.width() > width && shown.len() > 1 {
            break;
        }
        shown = candidate;
    }
    shown
}

/// Builds a table of these columns. Without a class column, rows outside the workload follow a heading.
fn grid_of(table: &TableRows<'_>, shown: &[OperationColumn]) -> Grid {
    let with_class = place(shown, "class").is_some();
    let mut rows: Vec<Vec<String>> = Vec::new();
    let mut class = None;
    for row in &*table.rows {
        if !with_class && !table.is_compact() && class.replace(row.class).is_some_and(|before| before != row.class) {
            let heading = row.class.map_or("of several classes", |class| class.name());
            rows.push(with_cells(shown, &[(0, format!("{heading}:"))]));
        }
        rows.push(shown.iter().map(|column| column.cell(row, table)).collect());
    }
    rows.extend(sums(table, shown));
    let keys = shown.iter().take_while(|column| column.is_key()).count();
    Grid { columns: shown.iter().map(|column| column.header(table)).collect(), rows, keys }
}

/// Returns the closing rows: frames without a connection, and the total. They show bytes and costs if the table does.
fn sums(table: &TableRows<'_>, shown: &[OperationColumn]) -> Vec<Vec<String>> {
    let places = ["wire", "of-wire", "cost-day", "cost-month"].map(|name| place(shown, name).filter(|at| *at > 0));
    if places.iter().all(Option::is_none) {
        return Vec::new();
    }
    let [wire, part, day, month] = places;
    let (run, bounds) = (table.run, table.bounds);
    let sum = |name: &str, bytes: u64| {
        let per_day = table.price.and_then(|price| price.cost_per_day(bytes as f64, window_ns(run)));
        let cost = |days: f64| per_day.map_or_else(|| DASH.to_owned(), |per_day| money(per_day * days));
        let mut cells = vec![(place(shown, "operation").unwrap_or(0), name.to_owned())];
        cells.extend(part.map(|at| (at, percent(bytes, run.source.wire_bytes))));
        cells.extend(wire.map(|at| (at, bounds.wire(grouped(bytes)))));
        cells.extend(day.map(|at| (at, bounds.wire(cost(1.0)))));
        cells.extend(month.map(|at| (at, bounds.wire(cost(BillingPeriod::Month.days())))));
        with_cells(shown, &cells)
    };
    let (request, response) = (run.ledger.request.total(), run.ledger.response.total());
    let mut rows = Vec::new();
    if run.ledger.other > 0 || run.operations.is_empty() {
        rows.push(sum("other traffic", run.ledger.other));
    }
    rows.push(sum("total", request + response + run.ledger.other));
    rows
}

/// Returns the place of a column among those shown.
fn place(shown: &[OperationColumn], name: &str) -> Option<usize> {
    shown.iter().position(|column| column.name() == name)
}

/// Returns a row that is empty except for these cells.
fn with_cells(shown: &[OperationColumn], cells: &[(usize, String)]) -> Vec<String> {
    let mut row = vec![String::new(); shown.len()];
    for (at, cell) in cells {
        if let Some(slot) = row.get_mut(*at) {
            slot.clone_from(cell);
        }
    }
    row
}

/// Shortens the names by `beyond` characters.
fn narrowed(grid: &mut Grid, shown: &[OperationColumn], beyond: usize) {
    if let Some(at) = place(shown, "operation") {
        let longest = grid.rows.iter().filter_map(|row| row.get(at)).map(|name| name.chars().count()).max();
        narrowed_to(grid, shown, longest.unwrap_or(0).saturating_sub(beyond).max(SHORT_NAME));
    }
}

/// Shortens the names to `chars` characters.
fn narrowed_to(grid: &mut Grid, shown: &[OperationColumn], chars: usize) {
    let Some(at) = place(shown, "operation") else { return };
    let names = grid.rows.iter_mut().filter_map(|row| row.get_mut(at));
    names.for_each(|name| *name = middle_cut(&clean(name), chars));
}

/// Returns the workload's accounts by direction.
fn accounts(table: &TableRows<'_>) -> Option<Section> {
    let workload = table.rows.iter().filter(|row| row.class == Some(Class::Workload));
    let sides = workload.flat_map(|row| [(row, Side::Request, &row.request), (row, Side::Response, &row.response)]);
    let sides: Vec<_> = sides.filter(|(.., side)| side.unseen.is_none()).collect();
    let used = used_accounts(&sides.iter().map(|(.., side)| &side.accounts).collect::<Vec<_>>());
    let via = table.has_via().then_some("via");
    let keys: Vec<&str> = [table.noun()].into_iter().chain(via).chain(["side"]).collect();
    let figures: Vec<&str> = used.iter().map(|account| account.name()).collect();
    let cells = |(row, side, sums): &(&ViewRow, Side, &SideSums)| {
        let via = table.has_via().then(|| row.via.clone());
        let keys = [table.name_cell(row)].into_iter().chain(via).chain([side.name().to_owned()]);
        keys.chain(used.iter().map(|of| account_cell(&sums.accounts, *of, row.samples(), table.bounds))).collect()
    };
    let grid = Grid::new(&keys, &figures, sides.iter().map(cells).collect()).if_any()?;
    Some(Section { title: "Workload by account, in B/op".to_owned(), table: grid, notes: Vec::new() })
}

/// Returns each role's work per operation, or `None` if none was measured.
pub(crate) fn work_grid(run: &Run) -> Option<Grid> {
    let cycles = if is_reference(run) { "reference\ncycles/op" } else { "cycles\n/op" };
    let split = "|of it\nuser|\nkernel|";
    let columns = format!("syscalls\n/op|{cycles}{split}on-CPU\nns/op{split}switches\n/op");
    let columns: Vec<&str> = columns.split('|').collect();
    let roles = summary::work(run);
    let measured = roles.iter().filter_map(|work| Some((&work.label, work.role.ok()?, work.operations)));
    let rows = measured.map(|(label, role, count)| role_cells(label, role, count)).collect();
    Grid::new(&["role"], &columns, rows).if_any()
}

/// Returns the work of both roles, or `None` if none was measured.
fn work(run: &Run) -> Option<Section> {
    let count = grouped(workload_count(run));
    let calls =
        |of: RoleWork<'_>| Some(format!("{} syscalls/op: {}", of.label, syscall_list(of.role.ok()?, of.operations)));
    Some(Section {
        title: format!("Work per operation (all {count} workload operations together)"),
        table: work_grid(run)?,
        notes: summary::work(run).into_iter().filter_map(calls).collect(),
    })
}

/// Returns whether cycles are a unit of time.
pub(crate) fn is_reference(run: &Run) -> bool {
    RoleName::ALL
        .iter()
        .filter_map(|role| role.counted(run).ok()?.cycles.value())
        .any(|cycles| cycles.source == CycleSource::Reference)
}

fn role_cells(label: &str, role: &Role, count: u64) -> Vec<String> {
    let mean = |total: u64| per_operation(total, count).map_or_else(|| DASH.to_owned(), significant);
    let syscalls = syscalls_per_operation(role, count).map_or_else(|| DASH.to_owned(), |n| with_digits(n, 2));
    let switches = present(&role.context_switches).ok().and_then(|n| per_operation(n.voluntary + n.involuntary, count));
    let unit = match role.cycles.value().map(|cycles| cycles.source) {
        Some(CycleSource::Hardware) => CpuUnit::Hardware,
        _ => CpuUnit::Reference,
    };
    let mut cells = vec![label.to_owned(), syscalls];
    for split in [unit.amounts(role), CpuUnit::OnCpuNs.amounts(role)] {
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
        .filter_map(|(name, calls)| Some(format!("{name} {}", with_digits(per_operation(*calls, count)?, 2))))
        .collect();
    let more = calls.len().saturating_sub(8);
    match (shown.is_empty(), more) {
        (true, _) => DASH.to_owned(),
        (false, 0) => shown.join(", "),
        (false, more) => format!("{}, and {more} more", shown.join(", ")),
    }
}
