//! The columns of the operations table: names, headers, meanings and cells.

use super::table::TableRows;
use crate::bounds::LowerBounds;
use crate::grid::Column;
use crate::number::{DASH, decimal, grouped, microseconds, money, percent, with_digits};
use crate::summary::{Families, distinct, per_operation};
use overhead_model::record::{BillingPeriod, Cost, Latency, Price, ViewRow};
use overhead_model::{Account, Amounts, Class};

/// A column of the operations table.
#[derive(Clone, Copy, Debug)]
pub enum OperationColumn {
    /// A column of the fixed set.
    Named(&'static NamedColumn),
    /// One account, both directions, per operation.
    Account(Account),
}

/// A column that is not a single account.
#[derive(Debug)]
pub struct NamedColumn {
    /// As in `--columns`.
    name: &'static str,
    /// With its unit; empty for what rows are.
    header: &'static str,
    /// Whether the cells are words.
    is_key: bool,
    /// Importance in the whole table, most important first; `None` if the column is shown only on request.
    rank: Option<u8>,
    /// Which tables have the column.
    belongs_to: TableCondition,
    /// Rank in the tables that need it more than others.
    raised: Option<(u8, TableCondition)>,
    /// Place on the page, and which rows need it there; `None` if the page never has it.
    page: Option<(u8, RowCondition)>,
    /// Explanation below the table; may be empty.
    meaning: &'static str,
    cell: ColumnCell,
}

type ColumnCell = fn(&ViewRow, &TableRows<'_>) -> String;
type TableCondition = fn(&TableRows<'_>) -> bool;
type RowCondition = fn(&ViewRow) -> bool;

/// Place of the accounts on the page.
const PAGE_ACCOUNTS: u8 = 7;

/// Rank of errors, missing answers and undecoded bytes, if there are any.
const RARE: u8 = 3;

/// Missing answers get a column among the first from one operation in this many.
const NOTABLE: u64 = 100;

const BYTES: &str = "B/op: bytes on the wire per operation, headers and acknowledgments included";
const USER_DATA: &str = "data: the user's own keys, parameters and values, both ways";
const TIMES: &str = "latency: from the frame with the first byte of the request to the frame with the last byte of the \
response, at the capture point, not the client's";

/// All columns except the single accounts, in table order.
#[expect(clippy::redundant_closure_for_method_calls, reason = "a method of one lifetime is not a `TableCondition`")]
static NAMED: &[NamedColumn] = &[
    NamedColumn {
        header: "#",
        ..key("number", 0, |row, _| row.number.map_or_else(String::new, |number| format!("#{number}")))
    }
    .means("#: the number of a statement, for explain, advise and --statement")
    .only_in(|table| table.is_compact())
    .on_page(1),
    key("class", 18, |row, _| row.class.map_or(DASH, |class| class.name()).to_owned())
        .on_page_if(2, |row| row.class != Some(Class::Workload)),
    NamedColumn { header: "", ..key("operation", 0, |row, table| table.name_cell(row)) }.on_page(0),
    key("via", 9, |row, _| row.via.clone())
        .means("via: how the operation was sent (array or inline; simple, prepared, batch, …)")
        .only_in(|table| table.has_via() && (!table.is_compact() || table.any(|row| !row.via.is_empty())))
        .raised_in(|table| table.has_ways(), 0)
        .on_page_if(10, |row| !row.via.is_empty()),
    figure("of-wire", "of\nwire", 2, |row, table| percent(row.amounts().total(), table.run.source.wire_bytes))
        .means("of wire: share of all bytes on the wire")
        .on_page(3),
    figure("count", "count", 2, |row, _| grouped(row.samples())).on_page(9),
    figure("errors", "errors", 16, |row, _| grouped(row.errors))
        .raised_in(|table| table.any(|row| row.errors > 0), RARE)
        .on_page_if(11, |row| row.errors > 0),
    figure("unanswered", "un-\nanswered", 17, |row, _| grouped(row.unanswered))
        .means("unanswered: no complete answer in the capture, though one was due")
        // When a capture ends, the last operations are still waiting.
        .raised_in(|table| table.any(|row| row.unanswered.saturating_mul(NOTABLE) >= row.count.max(1)), RARE)
        .on_page_if(12, |row| row.unanswered > 0),
    figure("round-trips", "RTs\n/op", 3, |row, _| {
        let count = row.round_trips.value().and_then(|count| per_operation(*count, row.count));
        count.map_or_else(|| DASH.to_owned(), |count| with_digits(count, 2))
    })
    .means("RTs: round trips, the times that the client waited for its server before it sent on")
    .only_in(|table| table.any(has_other_waits))
    .on_page_if(9, has_other_waits),
    figure("frames", "frames\n/op", 0, |row, table| wire(row.request.frames + row.response.frames, row, table))
        .on_request(),
    figure("wire", "wire\nbytes", 6, |row, table| table.bounds.wire(grouped(row.amounts().total()))),
    figure("request", "request\nB/op", 7, |row, table| wire(row.request.accounts.total(), row, table))
        .means(BYTES)
        .on_page(5),
    figure("response", "response\nB/op", 8, response).means(BYTES).on_page(6),
    figure("total", "total\nB/op", 1, |row, table| wire(row.amounts().total(), row, table)).means(BYTES).on_page(4),
    figure("prepare", "+ pre-\npare\nB/op", RARE, |row, _| {
        preparation(row).map_or_else(String::new, |bytes| format!("+{}", decimal(bytes)))
    })
    .means("prepare: bytes to prepare, describe and close the statement, per execution; they are also in setup")
    .only_in(|table| table.any(|row| preparation(row).is_some()))
    .on_page_if(4, |row| preparation(row).is_some()),
    figure("headers", "head-\ners\nB/op", 4, |row, table| wire(families(row).frame + families(row).waste, row, table))
        .means("headers: link, IP and TCP headers, acknowledgments, and payload sent again"),
    figure("frame", "frame\nB/op", 12, |row, table| wire(families(row).frame, row, table))
        .means("frame: link, IP and TCP headers of frames with payload"),
    figure("waste", "ack +\nretrans\nB/op", 13, |row, table| wire(families(row).waste, row, table))
        .means("ack + retrans: frames without payload, and payload sent again"),
    figure("protocol", "proto-\ncol\nB/op", 4, |row, table| part(families(row).protocol, row, table))
        .means("protocol: all decoded payload that is not the user's own data"),
    figure("data", "data\nB/op", 4, |row, table| part(families(row).data, row, table))
        .means(USER_DATA)
        .raised_in(is_mostly_data, RARE),
    figure("unknown", "unknown\nB/op", RARE, |row, table| wire(families(row).unknown, row, table))
        .means("unknown: payload that was not decoded")
        .only_in(|table| table.has_unknown()),
    figure("share", "data /\ntotal", 10, |row, _| percent(families(row).data, row.amounts().total()))
        .means(USER_DATA)
        .on_page(8),
    figure("min", "min\nµs", 0, |row, _| latency(row, |of| of.min)).means(TIMES).on_request(),
    figure("mean", "mean\nµs", 0, |row, _| latency(row, |of| of.mean.round() as u64)).means(TIMES).on_request(),
    figure("p50", "p50\nµs", 5, |row, _| latency(row, |of| of.p50)).means(TIMES).on_page(13),
    figure("p90", "p90\nµs", 0, |row, _| latency(row, |of| of.p90)).means(TIMES).on_request().on_page(13),
    figure("p99", "p99\nµs", 11, |row, _| latency(row, |of| of.p99)).means(TIMES).on_page(13),
    figure("p999", "p999\nµs", 20, |row, _| latency(row, |of| of.p999)).means(TIMES).on_page(13),
    figure("p9999", "p9999\nµs", 21, |row, _| latency(row, |of| of.p9999)).means(TIMES),
    figure("max", "max\nµs", 22, |row, _| latency(row, |of| of.max)).means(TIMES).on_page(13),
    figure("cost-million", "cost /\n10^6 op", 4, |row, table| cost(row, table, |of| of.per_million_operations))
        .only_in(|table| table.price.is_some())
        .on_page(14),
    figure("cost-day", "cost /\nday", RARE, |row, table| cost(row, table, |of| of.per_day))
        .only_in(|table| table.period() == Some(BillingPeriod::Day))
        .on_page(14),
    figure("cost-month", "cost /\nmonth", RARE, |row, table| {
        cost(row, table, |of| of.per_day.map(|day| day * BillingPeriod::Month.days()))
    })
    .only_in(|table| table.period() == Some(BillingPeriod::Month))
    .on_page(14),
];

const fn key(name: &'static str, rank: u8, cell: ColumnCell) -> NamedColumn {
    let (header, rank, meaning) = (name, Some(rank), "");
    NamedColumn { name, header, is_key: true, rank, belongs_to: |_| true, raised: None, page: None, meaning, cell }
}

/// Returns whether most of the bytes are the user's data.
fn is_mostly_data(table: &TableRows<'_>) -> bool {
    let sum = |amount: fn(&ViewRow) -> u64| table.rows.iter().map(amount).sum::<u64>();
    2 * sum(|row| families(row).data) > sum(|row| row.amounts().total())
}

const fn figure(name: &'static str, header: &'static str, rank: u8, cell: ColumnCell) -> NamedColumn {
    NamedColumn { header, is_key: false, ..key(name, rank, cell) }
}

impl NamedColumn {
    const fn means(self, meaning: &'static str) -> Self {
        Self { meaning, ..self }
    }

    const fn on_request(self) -> Self {
        Self { rank: None, ..self }
    }

    const fn only_in(self, belongs_to: TableCondition) -> Self {
        Self { belongs_to, ..self }
    }

    const fn raised_in(self, tables: TableCondition, rank: u8) -> Self {
        Self { raised: Some((rank, tables)), ..self }
    }

    const fn on_page(self, place: u8) -> Self {
        self.on_page_if(place, |_| true)
    }

    /// Shows the column on the page if a row needs it.
    const fn on_page_if(self, place: u8, needs: RowCondition) -> Self {
        Self { page: Some((place, needs)), ..self }
    }

    /// Returns the importance in this table; `None` if the column does not belong to it.
    fn rank_in(&self, table: &TableRows<'_>) -> Option<u8> {
        let raised = self.raised.filter(|(_, needs)| needs(table)).map(|(rank, _)| rank);
        raised.or(self.rank).filter(|_| (self.belongs_to)(table))
    }
}

/// Returns the columns on the page for these rows of tables: bytes before everything else, for screens that show few.
pub(crate) fn on_page(tables: &[TableRows<'_>], rows: &[&ViewRow]) -> Vec<OperationColumn> {
    let belongs = |column: &NamedColumn| tables.iter().any(|table| (column.belongs_to)(table));
    let named = NAMED.iter().filter(|column| belongs(column)).filter_map(|column| {
        let (place, needs) = column.page?;
        rows.iter().any(|row| needs(row)).then_some((place, OperationColumn::Named(column)))
    });
    let is_used = |account: &Account| rows.iter().any(|row| row.amounts()[*account] > 0);
    let accounts = Account::ALL.into_iter().filter(is_used);
    let accounts = accounts.filter_map(|account| Some((PAGE_ACCOUNTS, OperationColumn::named(account.name())?)));
    let mut columns: Vec<_> = named.chain(accounts).collect();
    columns.sort_by_key(|(place, _)| *place);
    columns.into_iter().map(|(_, column)| column).collect()
}

/// Returns the columns of the whole table.
pub(crate) fn whole(table: &TableRows<'_>) -> Vec<OperationColumn> {
    let belongs = NAMED.iter().filter(|column| column.rank_in(table).is_some());
    belongs.map(OperationColumn::Named).collect()
}

/// Returns the columns of the whole table, most important first, so that a caller can show as many as fit.
pub(crate) fn by_importance(table: &TableRows<'_>) -> Vec<OperationColumn> {
    let mut ranked: Vec<_> = NAMED.iter().filter_map(|column| Some((column.rank_in(table)?, column))).collect();
    ranked.sort_by_key(|(rank, _)| *rank);
    ranked.into_iter().map(|(_, column)| OperationColumn::Named(column)).collect()
}

/// Returns a column's position in table order.
pub(crate) fn position(column: OperationColumn) -> Option<usize> {
    NAMED.iter().position(|known| known.name == column.name())
}

impl OperationColumn {
    /// Finds a column or account by its name in `--columns`.
    pub fn named(name: &str) -> Option<Self> {
        let name = name.trim().to_ascii_lowercase();
        // The header of the column by statement.
        let name = if name == "statement" { "operation" } else { &name };
        let named = NAMED.iter().find(|named| named.name == name).map(Self::Named);
        named.or_else(|| Account::from_name(name).map(Self::Account))
    }

    /// Returns the columns with these names.
    pub(crate) fn listed(names: &[&str]) -> Vec<Self> {
        names.iter().filter_map(|name| Self::named(name)).collect()
    }

    /// Returns the names of all columns in table order.
    pub fn names() -> impl Iterator<Item = &'static str> {
        let accounts = Account::ALL.into_iter().map(Account::name);
        NAMED
            .iter()
            .map(|named| named.name)
            .chain(accounts.filter(|name| NAMED.iter().all(|known| known.name != *name)))
    }

    /// Returns the name for `--columns`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Account(account) => account.name(),
            Self::Named(column) => column.name,
        }
    }

    /// Returns whether the cells are words.
    pub(crate) fn is_key(self) -> bool {
        matches!(self, Self::Named(column) if column.is_key)
    }

    /// Returns the explanation of the column; may be empty.
    pub(crate) fn meaning(self) -> &'static str {
        match self {
            Self::Account(_) => "",
            Self::Named(column) => column.meaning,
        }
    }

    /// Returns the header with its unit.
    pub(crate) fn header(self, table: &TableRows<'_>) -> Column {
        match self {
            Self::Account(account) => Column::right(&format!("{account}\nB/op")),
            Self::Named(column) if column.header.is_empty() => Column::left(table.noun()),
            Self::Named(column) => Column { header: column.header.to_owned(), left: column.is_key },
        }
    }

    pub(crate) fn cell(self, row: &ViewRow, table: &TableRows<'_>) -> String {
        match self {
            Self::Account(account) => account_cell(&row.amounts(), account, row.samples(), table.bounds),
            Self::Named(column) => (column.cell)(row, table),
        }
    }
}

impl PartialEq for OperationColumn {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name()
    }
}

impl Eq for OperationColumn {}

/// Statements that are prepared more often than once in this many executions show what that costs.
const EXECUTIONS: u64 = 10;

/// Returns the bytes per execution that prepare a statement; `None` if that is rare.
fn preparation(row: &ViewRow) -> Option<f64> {
    let prepare = row.prepare.as_ref()?.value()?;
    let bytes = per_operation(prepare.wire_bytes(), row.count)?;
    (prepare.count.saturating_mul(EXECUTIONS) > row.count).then_some(bytes)
}

/// Returns whether an operation of the workload did not mean one wait each.
fn has_other_waits(row: &ViewRow) -> bool {
    row.class == Some(Class::Workload) && row.round_trips.value().is_some_and(|count| *count != row.count)
}

fn families(row: &ViewRow) -> Families {
    Families::new(&row.amounts())
}

/// Formats bytes on the wire per operation.
fn wire(bytes: u64, row: &ViewRow, table: &TableRows<'_>) -> String {
    table.bounds.wire(mean(bytes, row.samples()))
}

/// Formats a part of the payload per operation.
fn part(bytes: u64, row: &ViewRow, table: &TableRows<'_>) -> String {
    table.bounds.payload(mean(bytes, row.samples()))
}

fn response(row: &ViewRow, table: &TableRows<'_>) -> String {
    match row.response.unseen {
        Some(_) => DASH.to_owned(),
        None => wire(row.response.accounts.total(), row, table),
    }
}

fn latency(row: &ViewRow, figure: fn(&Latency) -> u64) -> String {
    let latency = row.latency_ns.value().filter(|latency| latency.count > 0);
    latency.map_or_else(|| DASH.to_owned(), |latency| microseconds(figure(latency)))
}

fn cost(row: &ViewRow, table: &TableRows<'_>, figure: fn(Cost) -> Option<f64>) -> String {
    table.bounds.wire(row.cost.and_then(figure).map_or_else(|| DASH.to_owned(), money))
}

/// Formats one account per operation.
pub(crate) fn account_cell(amounts: &Amounts, account: Account, count: u64, bounds: LowerBounds) -> String {
    let text = mean(amounts[account], count);
    if account.is_payload() && account != Account::Unknown { bounds.payload(text) } else { bounds.wire(text) }
}

/// Formats bytes per operation with one decimal digit.
fn mean(bytes: u64, count: u64) -> String {
    per_operation(bytes, count).map_or_else(|| DASH.to_owned(), decimal)
}

/// Returns the accounts that are not empty in these amounts, in stack order.
pub(crate) fn used_accounts(amounts: &[&Amounts]) -> Vec<Account> {
    Account::ALL.into_iter().filter(|&account| amounts.iter().any(|amounts| amounts[account] > 0)).collect()
}

/// Explains these columns, one line for each that needs it.
pub(crate) fn legend(table: &TableRows<'_>, columns: &[OperationColumn]) -> Vec<String> {
    let has = |wanted: &[&str]| columns.iter().any(|column| wanted.contains(&column.name()));
    let meanings = columns.iter().map(|column| column.meaning()).filter(|meaning| !meaning.is_empty());
    let mut said = distinct(meanings.map(str::to_owned));
    let common = table.common_server.as_ref().filter(|_| has(&["operation"]));
    said.extend(common.map(|server| format!("connection: the client's end; the server's end is always {server}")));
    said.extend(table.price.filter(|_| has(&["cost-million", "cost-day", "cost-month"])).map(cost_in_words));
    said
}

fn cost_in_words(price: &Price) -> String {
    format!(
        "cost: of all bytes on the wire at {}, per million operations and per {} at the rate of this run",
        price.text,
        price.per.name()
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_column_is_found_by_its_name() {
        let names: Vec<_> = OperationColumn::names().collect();
        assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len(), "a name has two columns: {names:?}");
        for name in names {
            let column = OperationColumn::named(name).unwrap_or_else(|| panic!("{name}"));
            assert_eq!(column.name(), name);
        }
        assert_eq!(OperationColumn::named(" P99 ").map(OperationColumn::name), Some("p99"));
        assert!(OperationColumn::named("colour").is_none());
    }
}
