//! A run as GitHub Markdown.

use super::Columns;
use super::facts::{balance_line, command, containers_line, cycle_label, integrity, observer_line, source_line};
use super::legend::legend;
use super::rows::TableRows;
use super::table::operations;
use super::{absolute, code_span, distribution, kernel, markdown_cell, projection, sampled};
use crate::document::{Document, Section};
use crate::run::NamedRun;
use crate::summary::{RoleName, RoleWork, counters_only, syscalls_per_operation, work};
use crate::text::number::with_digits;
use overhead_model::Run;

/// Returns a run as a heading, a list of facts, and an operations table with an explanation of its columns. Shows all columns
/// unless some are listed.
pub fn markdown(named: &NamedRun, columns: &Columns) -> String {
    let name = markdown_cell(&named.name);
    format!("### {name}\n\n{}\n{}", facts(named), tables(&named.run, columns).markdown())
}

fn tables(run: &Run, columns: &Columns) -> Document {
    let mut document = Document::default();
    let roles = absolute::roles(run);
    if counters_only(run) {
        document.table(absolute::totals(run, &roles));
        document.table(absolute::calls(run, &roles));
        return document;
    }
    let columns = match columns {
        Columns::Fitting => &Columns::All,
        columns => columns,
    };
    let rows = TableRows::of(run);
    let (shown, table) = operations(&rows, columns, None);
    document.table(table);
    document.notes(legend(&rows, &shown));
    let sections = [
        (sampled::section(run), ":"),
        (distribution::section(run), ":"),
        (projection::section(run), ""),
        (kernel::section(run), ":"),
    ];
    for (section, end) in sections {
        let Some(Section { title, table, notes }) = section else { continue };
        document.prose(title + end);
        document.table(table);
        document.notes(notes);
    }
    if !roles.is_empty() {
        document.prose("As counted in the window, whatever it was for:");
        document.table(absolute::totals(run, &roles));
    }
    document
}

/// Returns the facts about a run, apart from its figures, as a list.
pub(crate) fn facts(named: &NamedRun) -> String {
    let run = &named.run;
    let mut lines = vec![source_line(run)];
    lines.extend(containers_line(run));
    if counters_only(run) {
        let absent = |name: RoleName| Some(format!("{}: not measured: {}", name.name(), name.counted(run).err()?));
        lines.extend(RoleName::BOTH.into_iter().filter_map(absent));
    } else {
        lines.extend([balance_line(run), format!("capture: {}", integrity(run))]);
        lines.extend(work(run).into_iter().map(|RoleWork { label, role, absence, operations }| match role {
            Err(reason) => format!("{label}: {absence}: {reason}"),
            Ok(role) => match syscalls_per_operation(role, operations) {
                Some(calls) => format!("{label}: {} syscalls/op over the whole workload", with_digits(calls, 2)),
                None => format!("{label}: no workload operations in the window"),
            },
        }));
    }
    lines.push(format!("cycles: {}", cycle_label(run)));
    lines.push(format!("observer: {}", observer_line(&run.observer)));
    lines.extend(run.warnings.iter().map(|warning| format!("warning: {warning}")));
    let mut out = String::new();
    for line in &lines {
        out.extend(["- ", &markdown_cell(line), "\n"]);
    }
    if let Some(command) = command(run) {
        out.extend(["- command: ", &code_span(&command), "\n"]);
    }
    out
}
