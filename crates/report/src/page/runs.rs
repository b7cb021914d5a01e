//! The page for several runs.

use super::content::{Conditions, PageExtras, PageFigure, PageRow, PageTable, PageWarning, Record, RowDetail, WebPage};
use super::{PAGE_BYTES, detail, words};
use crate::clean;
use crate::document::{COMMAND, Fact, Section};
use crate::error::ReportError;
use crate::grid::{Column, Grid};
use crate::number::{DASH, counted, grouped, percent, with_digits};
use crate::run::NamedRun;
use crate::series::{self, RunSeries};
use crate::summary::{counters_only, data_difference, per_operation, ranked, work};
use crate::sums::is_one_statement;
use crate::text::table::TableRows;
use crate::text::{absolute, columns, distance, distribution, facts, kernel, projection, sampled, table};
use crate::view::{ViewOptions, is_told_apart, view};
use overhead_model::outside::json_escaped;
use overhead_model::record::{By, OperationRow, StatementRow, Syscall, ViewRow};
use overhead_model::{Class, Measured, OTHER, Run};
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::BTreeSet;

/// Builds the page of these runs from finished charts, with lists short enough for a reasonable page size.
/// Fails with [`ReportError::Json`] if a number is not finite, or [`ReportError::Page`].
pub(crate) fn render_runs(
    runs: &[NamedRun],
    figures: &[PageFigure],
    theme: Option<&'static str>,
    title: &str,
    extras: &PageExtras,
) -> Result<String, ReportError> {
    let mut text = String::new();
    for shown in Shown::LEVELS {
        let whole = runs;
        let runs: Vec<NamedRun> = runs.iter().map(|named| shortened(named, shown)).collect();
        let records = runs.iter().filter(|_| shown.records).map(|named| embedded(&named.name, "run", &named.run));
        let records: Vec<Record> = records.collect::<Result<_, _>>()?;
        if records.iter().map(|record| record.json.len()).sum::<usize>() >= PAGE_BYTES {
            continue;
        }
        let mut tables: Vec<PageTable> = statements(whole, shown).into_iter().chain(tables(&runs, shown)).collect();
        tables.extend(over_time(&extras.series));
        let page = WebPage {
            title: title.to_owned(),
            sentences: words::sentences(&runs),
            warnings: warnings(&runs),
            charts: figures.to_vec(),
            tables,
            found: extras.findings_table(),
            method: String::new(),
            conditions: runs.iter().map(conditions).collect(),
            records,
            tool: runs.first().map_or_else(String::new, |named| made_by(&named.run)),
            theme,
            extras: extras.clone(),
        };
        text = page.render()?;
        if text.len() < PAGE_BYTES {
            break;
        }
    }
    Ok(text)
}

pub(crate) fn made_by(run: &Run) -> String {
    format!("{} {}", run.tool.name, run.tool.version)
}

/// Returns the caveats; lists those common to all runs once.
fn warnings(runs: &[NamedRun]) -> Vec<PageWarning> {
    let texts = |named: &NamedRun| {
        let name = named.name.clone();
        table::warnings(&named.run).map(move |text| (name.clone(), text)).collect::<Vec<_>>()
    };
    let named = |names: Vec<String>| match names.len() {
        _ if runs.len() == 1 => String::new(),
        all if all == runs.len() => "all runs".to_owned(),
        _ => names.join(", "),
    };
    let common = PageWarning::listed(runs.iter().flat_map(texts), named);
    let between = data_difference(runs).map(|text| PageWarning { of: String::new(), text });
    between.into_iter().chain(common).collect()
}

/// Returns operations over time, folded because the table is long and the chart shows most of it.
fn over_time(all: &[RunSeries]) -> Option<PageTable> {
    let table = PageTable::from_grid("over-time", "Operations over time", series::grid(all)?);
    Some(PageTable { folded: true, ..table })
}

fn tables(runs: &[NamedRun], shown: Shown) -> Vec<PageTable> {
    let mut tables = Vec::new();
    tables.extend(each_run("estimates", runs, sampled::section));
    tables.extend(operations(runs, true, shown));
    tables.extend(work_table(runs));
    tables.extend(calls(runs));
    tables.extend(kernel_work(runs));
    tables.extend(each_run("within", runs, distribution::section));
    tables.extend(each_run("modelled", runs, projection::section));
    tables.extend(each_run("distance", runs, distance::sections));
    tables.extend(each_run("counted", runs, absolute::sections));
    tables.extend(operations(runs, false, shown));
    tables
}

/// A table of all runs, with a column for their names if there are several. `None` without rows.
fn merged_table(
    runs: &[NamedRun],
    id: &str,
    title: &str,
    columns: Vec<Column>,
    rows: Vec<PageRow>,
) -> Option<PageTable> {
    let run = (runs.len() > 1).then(|| Column::left("run"));
    let (rows, details): (Vec<_>, Vec<_>) = rows.into_iter().map(|row| (row.cells, row.detail)).unzip();
    let grid = Grid { columns: run.into_iter().chain(columns).collect(), rows, keys: 1 }.if_any()?;
    let mut table = PageTable::from_grid(id, title, grid);
    table.rows.iter_mut().zip(details).for_each(|(row, detail)| row.detail = detail);
    Some(table)
}

fn run_row(runs: &[NamedRun], named: &NamedRun, cells: impl IntoIterator<Item = String>) -> PageRow {
    PageRow { cells: run_cell(runs, named).into_iter().chain(cells).collect(), detail: None }
}

fn run_cell(runs: &[NamedRun], named: &NamedRun) -> Option<String> {
    (runs.len() > 1).then(|| named.name.clone())
}

/// Returns the operations of the workload or the others, or `None` if there are none.
fn operations(all: &[NamedRun], workload: bool, most: Shown) -> Option<PageTable> {
    let tables: Vec<TableRows<'_>> = all.iter().map(|named| TableRows::new(&named.run)).collect();
    let is_of_table = |row: &&ViewRow| (row.class == Some(Class::Workload)) == workload;
    let rows: Vec<&ViewRow> = tables.iter().flat_map(|table| table.rows.iter()).filter(is_of_table).collect();
    let columns = columns::on_page(&tables, &rows);
    let first = tables.first()?;
    let headers = columns.iter().map(|column| column.header(first)).collect();
    let (mut rows, mut left_out) = (Vec::new(), 0);
    for (at, (named, table)) in all.iter().zip(&tables).enumerate() {
        let mut unfolding = 0;
        for (number, (shown, row)) in table.rows.iter().zip(ranked(table.run)).enumerate() {
            if (row.class == Class::Workload) != workload {
                continue;
            }
            if unfolding >= most.rows {
                left_out += 1;
                continue;
            }
            let cells = columns.iter().map(|column| column.cell(shown, table));
            let id = format!("operation-{at}-{number}");
            let detail = (unfolding < most.details).then(|| {
                let detail = detail::row_detail(row, id, table);
                RowDetail { cell: usize::from(all.len() > 1), ..detail }
            });
            rows.push(PageRow { detail, ..run_row(all, named, cells) });
            unfolding += 1;
        }
    }
    let left_out = (left_out > 0).then(|| {
        let operations = counted(left_out, "operation");
        format!("{operations} with fewer bytes left out, so that the page stays small: the record has all.")
    });
    let notes = left_out.into_iter().chain(columns::legend(first, &columns)).collect();
    let (id, title) =
        if workload { ("operations", "Operations") } else { ("beside", "Setup, background and other traffic") };
    Some(PageTable { notes, folded: !workload, ..merged_table(all, id, title, headers, rows)? })
}

/// Returns the statements of whole records by share of the wire, or `None` if no operation has several. Numbers are those that
/// other commands take.
fn statements(all: &[NamedRun], most: Shown) -> Option<PageTable> {
    if most.statements == 1 || !all.iter().any(|named| named.run.operations.iter().any(is_told_apart)) {
        return None;
    }
    let by_statement = |named: &NamedRun| {
        let top = Some(most.statements as u64);
        let options = ViewOptions { by: By::Statement, is_compact: true, top, ..ViewOptions::default() };
        let mut rows = view(&named.run, &options);
        rows.rows.retain(|row| row.class == Some(Class::Workload));
        Run { view: Some(rows), ..named.run.clone() }
    };
    let runs: Vec<Run> = all.iter().map(by_statement).collect();
    let tables: Vec<TableRows<'_>> = runs.iter().map(TableRows::new).collect();
    let rows: Vec<&ViewRow> = tables.iter().flat_map(|table| table.rows.iter()).collect();
    let columns = columns::on_page(&tables, &rows);
    let first = tables.first()?;
    let headers = columns.iter().map(|column| column.header(first)).collect();
    let row = |(named, table)| {
        let cells = |shown| columns.iter().map(|column| column.cell(shown, table)).collect::<Vec<_>>();
        table.rows.iter().map(|shown| run_row(all, named, cells(shown))).collect::<Vec<_>>()
    };
    let rows = all.iter().zip(&tables).flat_map(row).collect();
    let notes = columns::legend(first, &columns);
    Some(PageTable { notes, ..merged_table(all, "statements", "Statements", headers, rows)? })
}

/// Merges the tables of several runs and adds a run column.
fn together(id: &str, title: &str, runs: &[NamedRun], grid: impl Fn(&Run) -> Option<Grid>) -> Option<PageTable> {
    let (mut columns, mut rows) = (Vec::new(), Vec::new());
    for named in runs {
        let Some(grid) = grid(&named.run) else { continue };
        rows.extend(grid.rows.into_iter().map(|cells| run_row(runs, named, cells)));
        columns = if columns.is_empty() { grid.columns } else { columns };
    }
    merged_table(runs, id, title, columns, rows)
}

fn work_table(runs: &[NamedRun]) -> Option<PageTable> {
    let title = "Work of the processes per operation";
    let reference = runs.iter().any(|named| table::is_reference(&named.run));
    let table = together("work", title, runs, |run| (!counters_only(run)).then(|| table::work_grid(run)).flatten())?;
    let notes = ["Over all operations of the workload of a run together."].into_iter();
    let notes = notes.chain(reference.then_some("Reference cycles are a unit of time, not information beyond it."));
    Some(table.with_notes(notes.map(str::to_owned)))
}

/// Calls per operation below which a foldable row sums system calls.
const RARE: f64 = 0.01;

/// Row count from which the system call table starts folded.
const LONG: usize = 40;

const CALL_FIGURES: [&str; 5] = ["calls/op", "share", "calls", "errors", "ns a call"];

/// Returns the system calls of both roles: frequent ones separately, the others as a sum.
fn calls(runs: &[NamedRun]) -> Option<PageTable> {
    let mut rows = Vec::new();
    for (at, named) in runs.iter().enumerate().filter(|(_, named)| !counters_only(&named.run)) {
        for (number, of) in work(&named.run).into_iter().enumerate() {
            let Ok(role) = of.role else { continue };
            let all = role.syscalls.values().map(|call| call.count).sum();
            let mut calls: Vec<(&String, &Syscall)> = role.syscalls.iter().collect();
            calls.sort_by_key(|(_, call)| Reverse(call.count));
            let is_rare = |call: &Syscall| per_operation(call.count, of.operations).is_some_and(|calls| calls < RARE);
            let frequent = calls.iter().filter(|(_, call)| !is_rare(call)).count();
            // A sum of one call would only hide its name.
            let (shown, rare) = calls.split_at(if calls.len() - frequent > 1 { frequent } else { calls.len() });
            let row = |cells: Vec<String>| run_row(runs, named, [of.label.clone()].into_iter().chain(cells));
            let cells = |name: String, call: &Syscall| [vec![name], call_cells(call, of.operations, all)].concat();
            rows.extend(shown.iter().map(|(name, call)| row(cells((*name).clone(), call))));
            if !rare.is_empty() {
                let name = format!("{} others", rare.len());
                let id = format!("calls-{at}-{number}");
                let each = rare.iter().map(|(name, call)| cells((*name).clone(), call)).collect();
                let title = format!("Less than {RARE} times per operation, {}", of.label);
                let table =
                    PageTable { id: format!("{id}-0"), ..detail::titled(&title, &["call"], &CALL_FIGURES, each) };
                let cell = usize::from(runs.len() > 1) + 1;
                let detail = RowDetail { id, cell, name: name.clone(), sides: Vec::new(), tables: vec![table] };
                rows.push(PageRow { detail: Some(detail), ..row(cells(name, &sum(rare))) });
            }
        }
    }
    let columns = ["role", "call"].map(Column::left).into_iter().chain(CALL_FIGURES.map(Column::right)).collect();
    let folded = rows.len() > LONG;
    let notes = vec!["Counted exactly, by name; the time per call is estimated from sampled calls.".to_owned()];
    Some(PageTable { notes, folded, ..merged_table(runs, "calls", "System calls", columns, rows)? })
}

fn call_cells(call: &Syscall, operations: u64, all: u64) -> Vec<String> {
    let each = call.ns.value().and_then(|ns| per_operation(*ns, call.count));
    let calls = per_operation(call.count, operations);
    vec![
        calls.map_or_else(|| DASH.to_owned(), |calls| with_digits(calls, 3)),
        percent(call.count, all),
        grouped(call.count),
        grouped(call.errors),
        each.map_or_else(|| DASH.to_owned(), |ns| grouped(ns.round() as u64)),
    ]
}

/// Sums calls; their time is known if each call's time is.
fn sum(calls: &[(&String, &Syscall)]) -> Syscall {
    let calls = || calls.iter().map(|(_, call)| *call);
    let ns: Option<u64> = calls().map(|call| call.ns.value().copied()).sum();
    Syscall {
        count: calls().map(|call| call.count).sum(),
        errors: calls().map(|call| call.errors).sum(),
        ns: ns.map_or_else(|| Measured::unavailable("some of these calls have no time"), Measured::Value),
    }
}

fn kernel_work(runs: &[NamedRun]) -> Option<PageTable> {
    let notes: Vec<String> = runs.iter().flat_map(|named| kernel::lines(&named.run)).collect();
    Some(together("sampled", kernel::TITLE, runs, kernel::grid)?.with_notes(notes))
}

/// Returns a table for each run that has this section, for sections whose columns or titles differ between runs.
fn each_run<S: IntoIterator<Item = Section>>(id: &str, runs: &[NamedRun], sections: fn(&Run) -> S) -> Vec<PageTable> {
    let titled = |named| {
        let name = run_cell(runs, named).map(|name| name + ": ").unwrap_or_default();
        sections(&named.run).into_iter().map(move |of| Section { title: format!("{name}{}", of.title), ..of })
    };
    let sections = runs.iter().flat_map(titled).enumerate();
    sections.map(|(at, section)| PageTable::from_section(&format!("{id}-{at}"), section)).collect()
}

/// Returns the conditions of a run: source, date, versions, machine and commands.
pub(crate) fn conditions(named: &NamedRun) -> Conditions {
    let run = &named.run;
    let mut said = facts::origin(run);
    said.insert(0, Fact::new("date", facts::date(run.source.first_ns)));
    let ends = [("servers", software(run, |connection| connection.server_software.as_ref()))];
    let ends = ends.into_iter().chain([("clients", software(run, |connection| connection.client_software.as_ref()))]);
    said.extend(ends.filter(|(_, names)| !names.is_empty()).map(|(term, names)| Fact::new(term, names.join(", "))));
    if let Some(machine) = &run.environment {
        let about = format!("{}: Linux {}, {} CPUs ({})", machine.host, machine.kernel, machine.cpus, machine.cpu);
        said.push(Fact::new("machine", about));
        said.extend(
            machine.interface.as_ref().map(|interface| Fact::new("interface", facts::interface_line(interface))),
        );
    }
    said.extend(facts::measuring(run));
    said.push(Fact::new("made by", made_by(run)));
    Conditions { name: named.name.clone(), facts: said, commands: commands(run) }
}

/// Returns the self-reported programs at one end.
fn software(run: &Run, of: impl Fn(&overhead_model::record::Connection) -> Option<&String>) -> Vec<String> {
    let names: BTreeSet<String> = run.connections.iter().filter_map(of).cloned().collect();
    names.into_iter().take(8).collect()
}

/// Returns the commands that reproduce the run.
fn commands(run: &Run) -> Vec<Fact> {
    let Some(machine) = &run.environment else {
        let db = run.source.selection.db.iter().map(|db| format!(" --db {}", facts::quoted(db)));
        let ports = run.source.selection.ports.iter().map(|port| format!(" --port {port}"));
        let files = run.source.inputs.iter().map(|input| format!(" {}", facts::quoted(&input.path)));
        let command: String = files.chain(db).chain(ports).collect();
        return (!run.source.inputs.is_empty())
            .then(|| Fact::new(COMMAND, format!("overhead analyze{command}")))
            .into_iter()
            .collect();
    };
    let own = (!machine.command_line.is_empty()).then(|| Fact::new(COMMAND, facts::shell(&machine.command_line)));
    let workload = machine.workload.as_ref().map(|workload| Fact::new("under it", facts::shell(&workload.command)));
    own.into_iter().chain(workload).collect()
}

/// Maximum lengths of a page's long lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shown {
    pub statements: usize,
    pub peers: usize,
    /// Expandable operations of a run, largest of each class.
    pub details: usize,
    /// Operation rows of a run, largest of each class.
    pub rows: usize,
    pub records: bool,
    pub chars: usize,
}

impl Shown {
    /// Limits from long to short; the page uses the first that makes it small enough.
    pub(super) const LEVELS: [Self; 8] = [
        Self { statements: 30, peers: 100, ..Self::ALL },
        Self { statements: 15, peers: 20, ..Self::ALL },
        Self { statements: 5, peers: 5, details: 8, ..Self::ALL },
        Self { statements: 1, peers: 0, details: 2, ..Self::ALL },
        Self { statements: 1, peers: 0, details: 0, ..Self::ALL },
        Self { statements: 1, peers: 0, details: 0, rows: 100, records: false, chars: 2_000 },
        Self { statements: 1, peers: 0, details: 0, rows: 20, records: false, chars: 400 },
        Self { statements: 1, peers: 0, details: 0, rows: 5, records: false, chars: 200 },
    ];

    /// No limits.
    const ALL: Self = Self {
        statements: usize::MAX,
        peers: usize::MAX,
        details: usize::MAX,
        rows: usize::MAX,
        records: true,
        chars: usize::MAX,
    };
}

/// Returns a record as JSON that is safe to embed in a page.
/// Fails with [`ReportError::Json`] if a number is not finite.
pub(crate) fn embedded(name: &str, kind: &'static str, record: &impl Serialize) -> Result<Record, ReportError> {
    // Escape characters that could end the element or start another.
    let json = json_escaped(&serde_json::to_string(record)?).replace('<', "\\u003c").replace('&', "\\u0026");
    Ok(Record { name: name.to_owned(), kind, json })
}

/// Returns the records of these runs, shortened, or none if they are too large for a page.
/// Fails with [`ReportError::Json`] if a number is not finite.
pub(crate) fn embedded_runs<'r>(runs: impl Iterator<Item = &'r NamedRun>) -> Result<Vec<Record>, ReportError> {
    let (mut records, mut size) = (Vec::new(), 0);
    for named in runs {
        let record = embedded(&named.name, "run", &shortened(named, Shown::LEVELS[3]).run)?;
        size += record.json.len();
        if size >= PAGE_BYTES {
            return Ok(Vec::new());
        }
        records.push(record);
    }
    Ok(records)
}

/// Shortens a run's long lists and keeps its sums.
pub(super) fn shortened(named: &NamedRun, shown: Shown) -> NamedRun {
    let mut run: Run = named.run.clone();
    for row in &mut run.operations {
        shorten_statements(row, shown.statements);
        cut(&mut row.name, shown);
        cut(&mut row.via, shown);
    }
    run.warnings.iter_mut().for_each(|warning| cut(warning, shown));
    if let Some(machine) = &mut run.environment {
        let commands = machine.workload.iter_mut().flat_map(|workload| &mut workload.command);
        // Limit all words of a command together, to the length of one name.
        let mut room = shown.chars;
        for word in machine.command_line.iter_mut().chain(commands) {
            *word = clean::shortened(word, room.max(1));
            room = room.saturating_sub(word.chars().count());
        }
    }
    let connections = run.connections.len();
    run.connections.truncate(shown.peers);
    run.connections_omitted += (connections - run.connections.len()) as u64;
    // Options of a terminal table do not apply to the page.
    (run.view, run.peers) = (None, None);
    NamedRun::new(named.name.clone(), run)
}

/// Shortens a text that exceeds the character limit.
fn cut(name: &mut String, shown: Shown) {
    if name.len() > shown.chars {
        *name = clean::shortened(name, shown.chars);
    }
}

fn shorten_statements(row: &mut OperationRow, most: usize) {
    let most = most.max(1);
    if row.statements.iter().filter(|statement| is_one_statement(&statement.text)).count() <= most {
        return;
    }
    let (mut kept, mut other) = (0, StatementRow { text: OTHER.to_owned(), ..StatementRow::default() });
    row.statements.retain(|statement| {
        let is_kept = kept < most && is_one_statement(&statement.text);
        if is_kept {
            kept += 1;
        } else {
            other.totals.add(statement);
        }
        is_kept
    });
    row.statements.push(other);
}
