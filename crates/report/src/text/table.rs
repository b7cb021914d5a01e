//! Formats a run for a terminal.

use super::columns::{self, OperationColumn, account_cell, used_accounts};
use super::facts::{balance_line, command, containers_line, cycle_label, integrity, observer_line, source_line};
use super::grid::{Grid, alarming, bold, wrapped};
use super::legend::legend;
use super::number::{DASH, grouped, money, significant, with_digits};
use super::rows::TableRows;
use super::{Columns, Style, absolute, clean, distribution, kernel, middle_cut, projection, sampled};
use crate::document::{Document, Section};
use crate::run::NamedRun;
use crate::summary::{
    self, CpuUnit, RoleName, RoleWork, counters_only, per_operation, present, syscalls_per_operation, window_ns,
    workload_count,
};
use crate::view::per_day;
use overhead_model::record::{CycleSource, Role, ViewRow};
use overhead_model::{Account, Amounts, Class, Run};
use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::fmt::Write;

/// Minimum share of the line for names, as one in this many, before further columns are added.
const NAMES: usize = 4;
/// Minimum name length in characters.
const SHORT_NAME: usize = 16;

/// Returns a run as aligned columns: source, operations, workload accounts, work and caveats.
pub fn table(named: &NamedRun, columns: &Columns, style: Style) -> String {
    let run = &named.run;
    let mut out = header(named, style);
    if counters_only(run) {
        section(&mut out, style, "Counted in the window", &absolute_section(run, style));
        out.push_str(&foot(run, style));
        return out;
    }
    let rows = TableRows::of(run);
    section(&mut out, style, rows.title(), &operations_section(&rows, columns, style));
    add(&mut out, style, sampled::section(run));
    add(&mut out, style, distribution::section(run));
    let accounts = accounts(&rows, columns, style);
    if !accounts.is_empty() {
        section(&mut out, style, "Workload by account, in B/op", &accounts);
    }
    add(&mut out, Style { prose: style.width, ..style }, projection::section(run));
    let count = grouped(workload_count(run));
    section(
        &mut out,
        style,
        &format!("Work per operation (all {count} workload operations together)"),
        &work(run, style),
    );
    add(&mut out, style, kernel::section(run));
    out.push_str(&foot(run, style));
    out
}

fn section(out: &mut String, style: Style, title: &str, body: &str) {
    let title = if style.color { bold(title) } else { title.to_owned() };
    // Writing to a string cannot fail.
    let _ = write!(out, "\n{title}\n\n{body}");
}

fn add(out: &mut String, style: Style, section: Option<Section>) {
    let mut document = Document::default();
    if let Some(section) = section {
        document.section(section);
        out.extend(["\n", &document.terminal(style)]);
    }
}

fn header(named: &NamedRun, style: Style) -> String {
    let name = clean(&named.name);
    let name = if style.color { bold(&name) } else { name };
    let containers = containers_line(&named.run).map(|line| wrapped(&line, style.prose) + "\n").unwrap_or_default();
    if counters_only(&named.run) {
        let command = command(&named.run).map(|command| format!("command: {command}\n")).unwrap_or_default();
        return format!("{name}\n{}\n{containers}{command}", source_line(&named.run));
    }
    let balance = balance_line(&named.run);
    let balance = if style.color && !named.run.ledger.balanced { alarming(&balance) } else { balance };
    let command = command(&named.run).map(|command| format!("command: {command}\n")).unwrap_or_default();
    format!("{name}\n{}\n{containers}{command}{balance}\n", wrapped(&source_line(&named.run), style.prose))
}

/// Returns the operations table, with an explanation of its columns and a list of omitted ones.
fn operations_section(table: &TableRows<'_>, columns: &Columns, style: Style) -> String {
    let (shown, grid) = operations(table, columns, style.width);
    let mut out = grid.render(style) + "\n";
    let mut lines = legend(table, &shown);
    let whole = columns::whole(table).into_iter();
    let left_out: Vec<&str> = whole.filter(|column| !shown.contains(column)).map(OperationColumn::name).collect();
    if *columns == Columns::Fitting && !left_out.is_empty() {
        lines.push(format!("not shown: {} (--wide shows them, --columns chooses)", left_out.join(", ")));
    }
    for line in lines {
        let _ = writeln!(out, "{}", wrapped(&line, style.width));
    }
    out
}

pub(super) fn operations(
    table: &TableRows<'_>,
    columns: &Columns,
    width: Option<usize>,
) -> (Vec<OperationColumn>, Grid) {
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
    let with_class = shown.contains(&OperationColumn::Class);
    let mut rows: Vec<Vec<String>> = Vec::new();
    let mut class = None;
    for row in &*table.rows {
        if !with_class && class.replace(row.class).is_some_and(|before| before != row.class) {
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
    let place = |wanted| shown.iter().position(|column| *column == wanted).filter(|at| *at > 0);
    let (wire, day) = (place(OperationColumn::Wire), place(OperationColumn::CostOfDay));
    if wire.is_none() && day.is_none() {
        return Vec::new();
    }
    let (run, bounds) = (table.run, table.bounds);
    let sum = |name: &str, bytes: u64| {
        let cost = table.price.and_then(|price| per_day(bytes, price, window_ns(run)));
        let cost = cost.map_or_else(|| DASH.to_owned(), money);
        let mut cells = vec![(0, name.to_owned())];
        cells.extend(wire.map(|at| (at, bounds.wire(grouped(bytes)))));
        cells.extend(day.map(|at| (at, bounds.wire(cost))));
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
    if let Some(at) = shown.iter().position(|column| *column == OperationColumn::Operation) {
        let longest = grid.rows.iter().filter_map(|row| row.get(at)).map(|name| name.chars().count()).max();
        narrowed_to(grid, shown, longest.unwrap_or(0).saturating_sub(beyond).max(SHORT_NAME));
    }
}

/// Shortens the names to `chars` characters.
fn narrowed_to(grid: &mut Grid, shown: &[OperationColumn], chars: usize) {
    if let Some(at) = shown.iter().position(|column| *column == OperationColumn::Operation) {
        shorten(grid, at, chars);
    }
}

fn shorten(grid: &mut Grid, column: usize, chars: usize) {
    let names = grid.rows.iter_mut().filter_map(|row| row.get_mut(column));
    names.for_each(|name| *name = middle_cut(&clean(name), chars));
}

type AccountColumn = (String, Vec<Account>);

/// Returns the workload's accounts by direction. A short line combines the headers into one column, and payload-free and
/// repeated frames into another.
fn accounts(table: &TableRows<'_>, columns: &Columns, style: Style) -> String {
    let workload = table.rows.iter().filter(|row| row.class == Some(Class::Workload));
    let sides: Vec<(&ViewRow, &str, &Amounts)> = workload
        .flat_map(|row| [(row, "request", &row.request), (row, "response", &row.response)])
        .filter(|(_, _, side)| side.unseen.is_none())
        .map(|(row, name, side)| (row, name, &side.accounts))
        .collect();
    if sides.is_empty() {
        return String::new();
    }
    let used = used_accounts(&sides.iter().map(|side| side.2).collect::<Vec<_>>());
    let each: Vec<AccountColumn> = used.iter().map(|account| (account.name().to_owned(), vec![*account])).collect();
    let whole = accounts_grid(table, &sides, &each, table.has_via());
    let Some(width) = style.width.filter(|width| *columns != Columns::All && whole.width() > *width) else {
        return whole.render(style);
    };
    let mut grid = accounts_grid(table, &sides, &together(&used), table.has_via() && vias_differ(&sides));
    let beyond = grid.width().saturating_sub(width);
    let longest = grid.rows.iter().filter_map(|row| row.first()).map(|name| name.chars().count()).max().unwrap_or(0);
    shorten(&mut grid, 0, longest.saturating_sub(beyond).max(SHORT_NAME));
    grid.render(style) + "\nheaders: link + ip + tcp; ack + retrans: control + retransmission\n"
}

/// Returns the accounts with the frame accounts rolled up.
fn together(used: &[Account]) -> Vec<AccountColumn> {
    use Account::{Control, Ip, Link, Retransmission, Tcp};
    let families = [("headers", vec![Link, Ip, Tcp]), ("ack +\nretrans", vec![Control, Retransmission])];
    let payload = used.iter().filter(|account| account.is_payload());
    let families = families.into_iter().map(|(name, accounts)| (name.to_owned(), accounts));
    families.chain(payload.map(|account| (account.name().to_owned(), vec![*account]))).collect()
}

/// Returns whether several rows share a name.
fn vias_differ(sides: &[(&ViewRow, &str, &Amounts)]) -> bool {
    let names: BTreeSet<(&str, &str)> = sides.iter().map(|(row, ..)| (&*row.protocol, &*row.name)).collect();
    names.len() * 2 < sides.len()
}

fn accounts_grid(
    table: &TableRows<'_>,
    sides: &[(&ViewRow, &str, &Amounts)],
    shown: &[AccountColumn],
    with_via: bool,
) -> Grid {
    let bounds = table.bounds;
    let keys: &[&str] = if with_via { &[table.noun(), "via", "side"] } else { &[table.noun(), "side"] };
    let figures: Vec<&str> = shown.iter().map(|(name, _)| &**name).collect();
    let cells = |(row, side, amounts): &(&ViewRow, &str, &Amounts)| {
        let mut cells = vec![table.name_cell(row)];
        cells.extend(with_via.then(|| row.via.clone()));
        cells.push((*side).to_owned());
        cells.extend(shown.iter().map(|(_, accounts)| match accounts.as_slice() {
            [account] => account_cell(amounts, *account, row.samples(), bounds),
            several => {
                let sum = Amounts::of(Account::Link, several.iter().map(|account| amounts[*account]).sum());
                account_cell(&sum, Account::Link, row.samples(), bounds)
            }
        }));
        cells
    };
    Grid::new(keys, &figures, sides.iter().map(cells).collect())
}

/// Returns each role's work per operation, or `None` if none was measured.
pub(crate) fn work_grid(run: &Run) -> Option<Grid> {
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
    let roles = summary::work(run);
    let measured = roles.iter().filter_map(|work| Some((&work.label, work.role.ok()?, work.operations)));
    let rows = measured.map(|(label, role, count)| role_cells(label, role, count)).collect();
    Grid::new(&["role"], &columns, rows).if_any()
}

fn work(run: &Run, style: Style) -> String {
    if let Err(reason) = present(&run.counters) {
        return format!("not measured: {}\n", clean(reason));
    }
    let mut out = work_grid(run).map_or_else(String::new, |grid| grid.render(style));
    for RoleWork { label, role, absence, operations } in summary::work(run) {
        let line = match role {
            Ok(role) => format!("{label} syscalls/op: {}", syscall_list(role, operations)),
            Err(reason) => format!("{label}: {absence}: {reason}"),
        };
        let _ = writeln!(out, "{}", wrapped(&line, style.prose));
    }
    let _ = writeln!(out, "{}", wrapped(&format!("cycles: {}", cycle_label(run)), style.prose));
    let withheld = absolute::roles(run);
    if !withheld.is_empty() {
        let _ = write!(
            out,
            "\nas counted in the window, whatever it was for:\n\n{}",
            absolute::totals(run, &withheld).render(style)
        );
    }
    out
}

/// Returns totals and system calls of a run without packets.
fn absolute_section(run: &Run, style: Style) -> String {
    let roles = absolute::roles(run);
    let mut out = String::new();
    if !roles.is_empty() {
        out =
            format!("{}\n{}", absolute::totals(run, &roles).render(style), absolute::calls(run, &roles).render(style));
    }
    for name in RoleName::BOTH {
        if let Err(reason) = name.counted(run) {
            let _ = writeln!(out, "{}", wrapped(&format!("{}: not measured: {reason}", name.name()), style.prose));
        }
    }
    out
}

/// Returns whether cycles are a unit of time.
pub(crate) fn is_reference(run: &Run) -> bool {
    RoleName::BOTH
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
        .filter_map(|(name, calls)| Some(format!("{name} {}", with_digits(per_operation(*calls, count)?, 2))))
        .collect();
    let more = calls.len().saturating_sub(8);
    match (shown.is_empty(), more) {
        (true, _) => DASH.to_owned(),
        (false, 0) => shown.join(", "),
        (false, more) => format!("{}, and {more} more", shown.join(", ")),
    }
}

fn foot(run: &Run, style: Style) -> String {
    let mut document = Document::default();
    let capture = (!counters_only(run)).then(|| format!("capture: {}", integrity(run)));
    document.notes(capture.into_iter().chain([format!("observer: {}", observer_line(&run.observer))]).collect());
    document.warnings(run.warnings.iter().cloned());
    format!("\n{}", document.terminal(style))
}
