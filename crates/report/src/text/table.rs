//! A run as a document, for a terminal or as Markdown.

use super::columns::{self, OperationColumn, account_cell, legend, used_accounts};
use super::{Columns, absolute, distance, distribution, facts, kernel, projection, sampled};
use crate::bounds::{LowerBounds, lower_bounds};
use crate::clean::{clean, middle_cut};
use crate::document::{Document, Fact, Section};
use crate::grid::{Grid, Style};
use crate::number::{DASH, counted, decimal, grouped, money, percent, significant, with_digits};
use crate::run::NamedRun;
use crate::summary::{
    self, CpuUnit, RoleName, RoleWork, counters_only, per_operation, syscalls_per_operation, window_ns, workload_count,
};
use crate::view::ranked_rows;
use overhead_model::record::{BillingPeriod, By, CycleSource, OperationRow, Price, Role, SideSums, ViewRow};
use overhead_model::{Account, Class, Protocol, Run, Side};
use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::BTreeSet;

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
    if operations.table.columns.iter().any(|column| column.header.starts_with("p50")) {
        operations.notes.extend(latency_reason(&table).map(|reason| format!("p50: not measured: {reason}")));
    }
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
    sections.into_iter().flatten().chain(distance::sections(run)).chain(absolute::sections(run)).collect()
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

/// Returns why no row of the workload has a latency.
fn latency_reason<'a>(table: &'a TableRows<'_>) -> Option<&'a str> {
    let mut workload = table.rows.iter().filter(|row| row.class == Some(Class::Workload));
    let first = workload.next()?.latency_ns.reason()?;
    workload.all(|row| row.latency_ns.reason().is_some()).then_some(first)
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
    let columns = ["wire", "of-wire", "cost-day", "cost-month", "total"];
    let places = columns.map(|name| place(shown, name).filter(|at| *at > 0));
    if places.iter().all(Option::is_none) {
        return Vec::new();
    }
    let [wire, part, day, month, mean] = places;
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
    let mut total = sum("total", request + response + run.ledger.other);
    if let (Some(at), Ok(bytes)) = (mean, run.whole.wire_bytes_per_operation.as_result()) {
        total[at] = bounds.wire(decimal(*bytes));
    }
    rows.push(total);
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
    let calls = |of: RoleWork<'_>| {
        let since = if of.is_since_connect { " since it connected" } else { "" };
        Some(format!("{} syscalls/op{since}: {}", of.label, syscall_list(of.role.ok()?, of.operations)))
    };
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
    let switches =
        role.context_switches.as_result().ok().and_then(|n| per_operation(n.voluntary + n.involuntary, count));
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

/// Characters of a statement below the table, if lines have no limit.
const LONGEST_TEXT: usize = 240;

pub(crate) struct TableRows<'run> {
    pub run: &'run Run,
    pub rows: Cow<'run, [ViewRow]>,
    pub by: By,
    pub price: Option<&'run Price>,
    pub several_protocols: bool,
    pub bounds: LowerBounds,
    /// Names a statement by its verb and its first table.
    pub has_short_names: bool,
    /// The server common to all connections, if rows are connections.
    pub common_server: Option<String>,
}

impl<'run> TableRows<'run> {
    /// Returns the requested rows, or all.
    pub fn new(run: &'run Run) -> Self {
        let (rows, by, price) = match &run.view {
            Some(view) => (Cow::Borrowed(view.rows.as_slice()), view.by, view.price.as_ref()),
            None => (Cow::Owned(ranked_rows(run)), By::Name, None),
        };
        let several_protocols = run.operations.windows(2).any(|pair| pair[0].protocol != pair[1].protocol);
        let common_server = rows.iter().find_map(|row| row.server.clone()).filter(|server| {
            by == By::Connection && rows.iter().filter_map(|row| row.server.as_ref()).all(|other| other == server)
        });
        let (bounds, has_short_names) = (LowerBounds::new(run), false);
        Self { run, rows, by, price, several_protocols, bounds, has_short_names, common_server }
    }

    /// Returns whether a row fulfils the condition.
    pub fn any(&self, condition: fn(&ViewRow) -> bool) -> bool {
        self.rows.iter().any(condition)
    }

    /// Returns whether any byte was not decoded.
    pub fn has_unknown(&self) -> bool {
        let unknown =
            |row: &OperationRow| row.request.accounts[Account::Unknown] + row.response.accounts[Account::Unknown];
        self.run.operations.iter().any(|row| unknown(row) > 0)
    }

    /// Returns the header of the name column.
    pub fn noun(&self) -> &'static str {
        match self.by {
            By::Name => "operation",
            by => by.name(),
        }
    }

    /// Returns the time that costs are for; `None` without a price.
    pub fn period(&self) -> Option<BillingPeriod> {
        self.price.map(|price| price.per)
    }

    /// Returns whether statements have numbers, and each class except the workload is one row.
    pub fn is_compact(&self) -> bool {
        self.rows.iter().any(|row| row.number.is_some())
    }

    /// Returns whether ways of sending have rows of their own, and so numbers come again.
    pub fn has_ways(&self) -> bool {
        let numbers: Vec<u64> = self.rows.iter().filter_map(|row| row.number).collect();
        numbers.iter().collect::<BTreeSet<_>>().len() < numbers.len()
    }

    /// Returns whether rows can differ by way of sending.
    pub fn has_via(&self) -> bool {
        matches!(self.by, By::Name | By::Statement)
    }

    pub fn title(&self) -> &'static str {
        match self.by {
            By::Name => "Operations",
            By::Statement => "Statements",
            By::Connection => "Connections",
            By::Client => "Clients",
            By::Server => "Servers",
        }
    }

    /// Returns the texts of statements that have the same short name, each in a line of at most `width` characters.
    pub fn texts(&self, width: Option<usize>) -> Vec<String> {
        let numbered = || self.rows.iter().filter_map(|row| Some((row.number?, self.name_cell(row), row)));
        let is_shared = |name: &str| numbered().filter(|(_, other, _)| other == name).count() > 1;
        let text = |(number, name, row): (u64, String, &ViewRow)| {
            let text = row.statement.as_ref().filter(|_| self.has_short_names && is_shared(&name))?;
            Some(middle_cut(&format!("#{number}: {}", clean(text)), width.unwrap_or(LONGEST_TEXT)))
        };
        numbered().filter_map(text).collect()
    }

    /// Returns a row's subject, with its protocol if there are several.
    pub fn name_cell(&self, row: &ViewRow) -> String {
        let name = match (&row.client, &row.server) {
            _ if row.rows > 1 => format!("({})", counted(row.rows, "more row")),
            (None, None) => match &row.statement {
                Some(statement) if self.has_short_names => statement_name(&row.protocol, &row.name, statement),
                // A placeholder for several statements or for none.
                Some(statement) if statement.starts_with('(') => format!("{} {statement}", row.name),
                statement => statement.as_ref().unwrap_or(&row.name).clone(),
            },
            (Some(end), None) | (None, Some(end)) => end.clone(),
            (Some(client), Some(_)) if self.common_server.is_some() => client.clone(),
            (Some(client), Some(server)) => format!("{client} > {server}"),
        };
        if self.several_protocols && !row.protocol.is_empty() { format!("{} {name}", row.protocol) } else { name }
    }
}

/// Returns a name such as `SELECT customer` or `find orders`; `EXECUTE 7` if only the id is known, `GET (other)` for a
/// placeholder; or the statement if it names no table, or the name if it is empty.
pub fn statement_name(protocol: &str, name: &str, statement: &str) -> String {
    if statement.is_empty() {
        return name.to_owned();
    }
    if statement.starts_with('(') {
        let id = statement.strip_suffix(')').and_then(|text| text.split_once(" before the capture: "));
        return format!("{name} {}", id.map_or(statement, |(_, id)| id));
    }
    if !Protocol::named(protocol).is_some_and(Protocol::has_tables) {
        return statement.split(" {").next().unwrap_or(statement).to_owned();
    }
    let words: Vec<&str> = statement.split([' ', '(', ')', ',', ';']).filter(|word| !word.is_empty()).collect();
    let is_one_of = |word: &str, of: &[&str]| of.iter().any(|known| known.eq_ignore_ascii_case(word));
    let is_before = |word: &str| is_one_of(word, &["FROM", "INTO", "UPDATE", "TABLE", "ONLY", "EXISTS"]);
    let is_name = |word: &str| !is_before(word) && !is_one_of(word, &["IF", "NOT", "SELECT"]);
    let table = words.windows(2).find(|pair| is_before(pair[0]) && is_name(pair[1]));
    table.map_or_else(|| statement.to_owned(), |pair| format!("{name} {}", pair[1]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_name_is_a_verb_and_a_table() {
        for (name, statement, wanted) in [
            ("SELECT", "SELECT a FROM (SELECT b FROM orders) x", "SELECT orders"),
            ("CREATE", "CREATE TABLE IF NOT EXISTS k.things(id int)", "CREATE k.things"),
            ("LOAD", "load data local infile ? INTO TABLE f", "LOAD f"),
            ("UPDATE", "UPDATE only t SET a = ?", "UPDATE t"),
            ("SELECT", "SELECT ? / ?", "SELECT ? / ?"),
            ("EXECUTE", "(prepared before the capture: S_1)", "EXECUTE S_1"),
            ("SELECT", "(other)", "SELECT (other)"),
        ] {
            assert_eq!(statement_name("pgwire", name, statement), wanted);
        }
        assert_eq!(statement_name("resp", "SET", "SET from b"), "SET from b");
        assert_eq!(statement_name("mongo", "find", "find orders {a: ?}"), "find orders");
    }
}
