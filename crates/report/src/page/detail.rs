//! The expandable detail of an operation: both directions by account, latencies and fields.

use super::content::{PageTable, RowDetail, SideBar, SidePart};
use crate::bounds::LowerBounds;
use crate::clean::clean;
use crate::grid::Grid;
use crate::number::{DASH, decimal, duration, grouped, microseconds, percent};
use crate::summary::{both_sides, per_operation};
use crate::text::columns::{account_cell, used_accounts};
use crate::text::table::TableRows;
use overhead_model::record::{Latency, OperationRow, SideRow};
use overhead_model::{Account, Side};
use std::cmp::Reverse;

/// Characters of name and number that fit in short and middle parts of a bar.
const ROOM: [usize; 2] = [10, 15];

pub(super) fn row_detail(row: &OperationRow, id: String, table: &TableRows<'_>) -> RowDetail {
    let bounds = table.bounds;
    let mut tables = vec![accounts(row, bounds)];
    tables.extend(latencies(&row.latency_ns.or_empty()));
    tables.extend(fields(row));
    for (at, table) in tables.iter_mut().enumerate() {
        table.id = format!("{id}-{at}");
    }
    RowDetail { name: row.name.clone(), sides: sides(row, bounds), tables, id, cell: 0 }
}

fn sides(row: &OperationRow, bounds: LowerBounds) -> Vec<SideBar> {
    let both = [("request", &row.request), ("response", &row.response)];
    let longest = both.iter().map(|(_, side)| side.accounts.total()).max().unwrap_or(0).max(1);
    both.into_iter().map(|(name, side)| bar(name, side, row.samples(), longest, bounds)).collect()
}

fn bar(name: &'static str, side: &SideRow, count: u64, longest: u64, bounds: LowerBounds) -> SideBar {
    let total = side.accounts.total();
    let part = |(account, amount): (Account, u64)| {
        let share = amount as f64 * 100.0 / total.max(1) as f64;
        let bytes = account_cell(&side.accounts, account, count, bounds);
        let length = match account.name().len() + 1 + bytes.chars().count() {
            chars if chars <= ROOM[0] => "short",
            chars if chars <= ROOM[1] => "middle",
            _ => "long",
        };
        SidePart { account: account.name(), bytes, share: format!("{share:.3}"), length }
    };
    SideBar {
        name,
        absent: side.unseen.as_deref().map(clean),
        total: bounds.wire(per_operation(total, count).map_or_else(|| DASH.to_owned(), decimal)),
        width: format!("{:.3}", total as f64 * 100.0 / longest as f64),
        parts: side.accounts.iter().filter(|(_, bytes)| *bytes > 0).map(part).collect(),
    }
}

pub(super) fn titled(title: &str, keys: &[&str], figures: &[&str], rows: Vec<Vec<String>>) -> PageTable {
    PageTable::from_grid("", title, Grid::new(keys, figures, rows))
}

fn accounts(row: &OperationRow, bounds: LowerBounds) -> PageTable {
    let sides = [&row.request, &row.response];
    let both = both_sides(row);
    let mut rows: Vec<Vec<String>> = Vec::new();
    for account in used_accounts(&[&both]) {
        let mut cells = vec![account.name().to_owned()];
        cells.extend(sides.map(|side| match side.unseen {
            Some(_) => DASH.to_owned(),
            None => account_cell(&side.accounts, account, row.samples(), bounds),
        }));
        cells.push(account_cell(&both, account, row.samples(), bounds));
        cells.push(percent(both[account], both.total()));
        rows.push(cells);
    }
    titled("Bytes per operation by account", &["account"], &["request", "response", "both", "share"], rows)
}

/// Returns the percentiles, or `None` if no operation has a latency.
fn latencies(latency: &Latency) -> Option<PageTable> {
    let named = [
        ("smallest", latency.min),
        ("50%", latency.p50),
        ("90%", latency.p90),
        ("99%", latency.p99),
        ("99.9%", latency.p999),
        ("99.99%", latency.p9999),
        ("largest", latency.max),
        ("mean", latency.mean.round() as u64),
    ];
    let rows = named.map(|(name, ns)| vec![name.to_owned(), microseconds(ns)]);
    (latency.count > 0).then(|| {
        let table = titled("Latency", &["of the operations"], &["took no longer than µs"], rows.into());
        table.with_notes([format!(
            "Over {} operations, from {} to {}.",
            grouped(latency.count),
            duration(latency.min),
            duration(latency.max)
        )])
    })
}

fn fields(row: &OperationRow) -> Option<PageTable> {
    let mut fields: Vec<_> = row.fields.as_ref()?.iter().collect();
    fields.sort_by_key(|field| (field.side != Side::Request, Reverse(field.bytes)));
    let rows: Vec<Vec<String>> = fields
        .into_iter()
        .map(|field| {
            let mean = per_operation(field.bytes, row.samples()).map_or_else(|| DASH.to_owned(), decimal);
            vec![field.field.clone(), field.side.name().to_owned(), field.account.name().to_owned(), mean]
        })
        .collect();
    (!rows.is_empty()).then(|| titled("Fields", &["field", "side", "account"], &["B/op"], rows))
}
