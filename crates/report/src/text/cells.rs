//! The cells of the operations table, the same on a terminal and in Markdown.

use super::clean;
use super::grid::Column;
use super::number::{DASH, decimal, grouped, microseconds, percent};
use crate::summary::{Families, both_sides, per_operation};
use overhead_model::record::OperationRow;
use overhead_model::{Account, Amounts, Run};

/// Columns whose values say which operation a row is.
pub(super) const KEYS: usize = 3;

/// Headers of the operations table; `unknown` just where something was not decoded.
pub(super) fn operation_columns(unknown: bool) -> Vec<Column> {
    let keys = ["class", "operation", "via"].map(Column::left);
    let counts = ["count", "errors", "un-\nanswered", "wire\nbytes"].map(Column::right);
    let means = ["request\nB/op", "response\nB/op", "total\nB/op"].map(Column::right);
    let families = ["frame\nB/op", "ack +\nretrans\nB/op", "protocol\nB/op", "data\nB/op"].map(Column::right);
    let unknown = unknown.then(|| Column::right("unknown\nB/op"));
    let rest = ["data /\ntotal", "p50\nlatency\nµs", "p99\nlatency\nµs"].map(Column::right);
    keys.into_iter().chain(counts).chain(means).chain(families).chain(unknown).chain(rest).collect()
}

/// True when some byte of the run was not decoded.
pub(super) fn has_unknown(run: &Run) -> bool {
    run.operations.iter().any(|row| both_sides(row)[Account::Unknown] > 0)
}

/// One row of the operations table.
pub(super) fn operation_cells(row: &OperationRow, protocol: bool, unknown: bool) -> Vec<String> {
    let amounts = both_sides(row);
    let mut cells = vec![row.class.name().to_owned(), name_cell(row, protocol), clean(&row.via)];
    cells.extend([row.samples(), row.errors, row.missing_answers(), amounts.total()].map(grouped));
    cells.extend(
        [&row.request.accounts, &row.response.accounts, &amounts].map(|side| mean(side.total(), row.samples())),
    );
    let families = Families::of(&amounts);
    cells.extend([families.frame, families.waste, families.protocol, families.data].map(|b| mean(b, row.samples())));
    cells.extend(unknown.then(|| mean(families.unknown, row.samples())));
    cells.push(percent(families.data, amounts.total()));
    let latency = &row.latency_ns;
    cells.extend([latency.p50, latency.p99].map(
        |ns| {
            if latency.count == 0 { DASH.to_owned() } else { microseconds(ns) }
        },
    ));
    cells
}

/// Name of an operation, with its protocol where a run has several.
pub(super) fn name_cell(row: &OperationRow, protocol: bool) -> String {
    if protocol { format!("{} {}", row.protocol, clean(&row.name)) } else { clean(&row.name) }
}

/// True when the rows of a run are of more than one protocol.
pub(super) fn several_protocols(run: &Run) -> bool {
    run.operations.windows(2).any(|pair| pair[0].protocol != pair[1].protocol)
}

/// Bytes per operation with one digit.
pub(super) fn mean(bytes: u64, count: u64) -> String {
    per_operation(bytes, count).map_or_else(|| DASH.to_owned(), decimal)
}

/// The accounts that hold anything in these amounts, in stack order.
pub(super) fn used_accounts(amounts: &[&Amounts]) -> Vec<Account> {
    Account::ALL.into_iter().filter(|&account| amounts.iter().any(|amounts| amounts[account] > 0)).collect()
}
