//! A run as GitHub Markdown.

use super::Columns;
use super::facts::{balance_line, command, containers_line, cycle_label, integrity, observer_line, source_line};
use super::grid::Column;
use super::legend::legend;
use super::rows::TableRows;
use super::table::operations;
use super::{absolute, code_span, distribution, kernel, markdown_cell, projection, sampled};
use crate::run::NamedRun;
use crate::summary::{RoleName, RoleWork, counters_only, syscalls_per_operation, work};
use crate::text::number::with_digits;

/// Returns a run as a heading, a list of facts, and an operations table with an explanation of its columns. Shows all columns
/// unless some are listed.
pub fn markdown(named: &NamedRun, columns: &Columns) -> String {
    let run = &named.run;
    let mut out = format!("### {}\n\n", markdown_cell(&named.name));
    out.push_str(&facts(named));
    if counters_only(run) {
        let roles = absolute::roles(run);
        for grid in [absolute::totals(run, &roles), absolute::calls(run, &roles)] {
            out.push('\n');
            out.push_str(&github_table(&grid.columns, &grid.rows));
        }
        return out;
    }
    let columns = match columns {
        Columns::Fitting => &Columns::All,
        columns => columns,
    };
    let table = TableRows::of(run);
    let (shown, grid) = operations(&table, columns, None);
    out.push('\n');
    out.push_str(&github_table(&grid.columns, &grid.rows));
    let legend = legend(&table, &shown);
    if !legend.is_empty() {
        out.extend(["\n", &markdown_cell(&(legend.join(". ") + ".")), "\n"]);
    }
    if let Some(grid) = sampled::grid(run) {
        out.extend(["\n", sampled::TITLE, ":\n\n", &github_table(&grid.columns, &grid.rows)]);
        out.extend(["\n", &markdown_cell(&(sampled::lines(run).join(". ") + ".")), "\n"]);
    }
    if let Some((columns, rows)) = distribution::of_run(run) {
        out.extend(["\n", distribution::TITLE, ":\n\n", &github_table(&columns, &rows)]);
    }
    if let Some(projection) = &run.projection {
        let grid = projection::grid(run, projection);
        out.extend(["\n", &markdown_cell(&projection::title(projection)), "\n\n"]);
        out.push_str(&github_table(&grid.columns, &grid.rows));
        out.extend(["\n", &markdown_cell(&(projection::lines(run, projection).join(". ") + ".")), "\n"]);
    }
    if let Some(grid) = kernel::grid(run) {
        out.extend(["\n", kernel::TITLE, ":\n\n", &github_table(&grid.columns, &grid.rows)]);
        out.extend(["\n", &markdown_cell(&(kernel::lines(run).join(". ") + ".")), "\n"]);
    }
    let withheld = absolute::roles(run);
    if !withheld.is_empty() {
        let grid = absolute::totals(run, &withheld);
        out.push_str("\nAs counted in the window, whatever it was for:\n\n");
        out.push_str(&github_table(&grid.columns, &grid.rows));
    }
    out
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

/// Returns a table with aligned columns; replaces line breaks in headers with spaces.
pub(crate) fn github_table(columns: &[Column], rows: &[Vec<String>]) -> String {
    let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    let headers = columns.iter().map(|column| markdown_cell(&column.header.replace("-\n", "").replace('\n', " ")));
    let rules = columns.iter().map(|column| if column.left { ":--" } else { "--:" }.to_owned());
    let mut out = line(headers.collect()) + &line(rules.collect());
    out.extend(rows.iter().map(|row| line(row.iter().map(|cell| markdown_cell(cell)).collect())));
    out
}
