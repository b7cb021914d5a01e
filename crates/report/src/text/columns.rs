//! The columns of the operations table: names, headers and cells.

use super::grid::Column;
use super::number::{DASH, decimal, grouped, microseconds, money, percent};
use super::rows::TableRows;
use crate::bounds::LowerBounds;
use crate::summary::{Families, per_operation};
use overhead_model::record::{Latency, ViewRow};
use overhead_model::{Account, Amounts, Measured};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OperationColumn {
    Class,
    /// Operation name, or the row's subject in other groupings.
    Operation,
    /// How the operation was sent.
    Via,
    /// Operations, and messages the server sent unsolicited.
    Count,
    Errors,
    /// Operations that lack a complete answer though one was due.
    Unanswered,
    /// Frames touched, both directions, per operation.
    Frames,
    /// Total bytes on the wire.
    Wire,
    /// Bytes on the wire from client to server, per operation.
    Request,
    /// Bytes on the wire from server to client, per operation.
    Response,
    /// Bytes on the wire, both directions, per operation.
    Total,
    /// Headers of frames with payload, per operation.
    Frame,
    /// Frames without payload, and repeats, per operation.
    Waste,
    /// Payload that is not the user's data, per operation.
    Protocol,
    /// The user's own bytes, per operation.
    Data,
    /// Payload that was not decoded, per operation.
    Unknown,
    /// The user's share of the wire bytes.
    Share,
    /// One account, both directions, per operation.
    Account(Account),
    /// A figure of the latency distribution.
    Latency(LatencyFigure),
    /// Cost of a million operations' bytes.
    CostOfMillion,
    /// Cost of a day's bytes at the observed rate.
    CostOfDay,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LatencyFigure {
    Min,
    Mean,
    P50,
    P90,
    P99,
    P999,
    P9999,
    Max,
}

use OperationColumn as Of;

/// All columns except the single accounts, in table order: name, column, header with unit, and whether the whole table has it.
const NAMED: [(&str, OperationColumn, &str, bool); 27] = [
    ("class", Of::Class, "class", true),
    ("operation", Of::Operation, "operation", true),
    ("via", Of::Via, "via", true),
    ("count", Of::Count, "count", true),
    ("errors", Of::Errors, "errors", true),
    ("unanswered", Of::Unanswered, "un-\nanswered", true),
    ("frames", Of::Frames, "frames\n/op", false),
    ("wire", Of::Wire, "wire\nbytes", true),
    ("request", Of::Request, "request\nB/op", true),
    ("response", Of::Response, "response\nB/op", true),
    ("total", Of::Total, "total\nB/op", true),
    ("frame", Of::Frame, "frame\nB/op", true),
    ("waste", Of::Waste, "ack +\nretrans\nB/op", true),
    ("protocol", Of::Protocol, "protocol\nB/op", true),
    ("data", Of::Data, "data\nB/op", true),
    ("unknown", Of::Unknown, "unknown\nB/op", true),
    ("share", Of::Share, "data /\ntotal", true),
    ("min", Of::Latency(LatencyFigure::Min), "min\nµs", false),
    ("mean", Of::Latency(LatencyFigure::Mean), "mean\nµs", false),
    ("p50", Of::Latency(LatencyFigure::P50), "p50\nµs", true),
    ("p90", Of::Latency(LatencyFigure::P90), "p90\nµs", false),
    ("p99", Of::Latency(LatencyFigure::P99), "p99\nµs", true),
    ("p999", Of::Latency(LatencyFigure::P999), "p999\nµs", true),
    ("p9999", Of::Latency(LatencyFigure::P9999), "p9999\nµs", true),
    ("max", Of::Latency(LatencyFigure::Max), "max\nµs", true),
    ("cost-million", Of::CostOfMillion, "cost /\n10^6 op", true),
    ("cost-day", Of::CostOfDay, "cost /\nday", true),
];

/// Returns the columns of the whole table. Omits `Unknown` if everything was decoded, and costs if there is no price.
pub(crate) fn whole(table: &TableRows<'_>) -> Vec<OperationColumn> {
    let is_said = |column: &OperationColumn| match column {
        Of::Unknown => table.has_unknown(),
        Of::CostOfMillion | Of::CostOfDay => table.price.is_some(),
        Of::Via => table.has_via(),
        _ => true,
    };
    NAMED.into_iter().filter(|named| named.3).map(|named| named.1).filter(is_said).collect()
}

/// Returns a column's position in table order.
pub(crate) fn position(column: OperationColumn) -> Option<usize> {
    NAMED.iter().position(|(_, known, ..)| *known == column)
}

/// Returns the columns of the whole table, most important first, so that a caller can show as many as fit. Errors, missing
/// answers and undecoded bytes come early if there are any, and late otherwise.
pub(crate) fn by_importance(table: &TableRows<'_>) -> Vec<OperationColumn> {
    let any = |figure: fn(&ViewRow) -> u64| table.rows.iter().any(|row| figure(row) > 0);
    let rare = [
        (Of::Errors, any(|row| row.errors)),
        (Of::Unanswered, any(|row| row.unanswered)),
        (Of::Unknown, table.has_unknown()),
        (Of::CostOfDay, table.price.is_some()),
        (Of::CostOfMillion, table.price.is_some()),
    ];
    let first = [Of::Operation, Of::Total, Of::Count];
    let then = [Of::Request, Of::Response, Of::Latency(LatencyFigure::P50), Of::Via, Of::Share];
    let last = [
        Of::Latency(LatencyFigure::P99),
        Of::Frame,
        Of::Waste,
        Of::Protocol,
        Of::Data,
        Of::Wire,
        Of::Errors,
        Of::Unanswered,
        Of::Class,
        Of::Latency(LatencyFigure::P999),
        Of::Latency(LatencyFigure::P9999),
        Of::Latency(LatencyFigure::Max),
    ];
    let mut order: Vec<OperationColumn> = first.to_vec();
    order.extend(rare.into_iter().filter(|(_, there)| *there).map(|(column, _)| column));
    order.extend(then.into_iter().chain(last));
    let mut seen = Vec::with_capacity(order.len());
    for column in order {
        if !seen.contains(&column) && (column != Of::Via || table.has_via()) {
            seen.push(column);
        }
    }
    seen
}

impl OperationColumn {
    /// Finds a column or account by its name in `--columns`.
    pub fn named(name: &str) -> Option<Self> {
        let name = name.trim().to_ascii_lowercase();
        let named = NAMED.iter().find(|named| named.0 == name).map(|named| named.1);
        named.or_else(|| Account::from_name(&name).map(Self::Account))
    }

    /// Returns the names of all columns in table order.
    pub fn names() -> impl Iterator<Item = &'static str> {
        let accounts = Account::ALL.into_iter().map(Account::name);
        NAMED.iter().map(|named| named.0).chain(accounts.filter(|name| NAMED.iter().all(|(known, ..)| known != name)))
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Account(account) => account.name(),
            column => NAMED.iter().find(|(_, known, ..)| *known == column).map_or("", |named| named.0),
        }
    }

    /// Returns whether the cells are words.
    pub(crate) fn is_key(self) -> bool {
        matches!(self, Self::Class | Self::Operation | Self::Via)
    }

    /// Returns the header with its unit.
    pub(crate) fn header(self, table: &TableRows<'_>) -> Column {
        match self {
            Self::Operation => Column::left(table.noun()),
            Self::Account(account) => Column::right(&format!("{account}\nB/op")),
            column => {
                let header = NAMED.iter().find(|(_, known, ..)| *known == column).map_or("", |named| named.2);
                if column.is_key() { Column::left(header) } else { Column::right(header) }
            }
        }
    }

    pub(crate) fn cell(self, row: &ViewRow, table: &TableRows<'_>) -> String {
        let (amounts, bounds) = (row.amounts(), table.bounds);
        let families = || Families::of(&amounts);
        let wire = |bytes: u64| bounds.wire(mean(bytes, row.samples()));
        let part = |bytes: u64| bounds.payload(mean(bytes, row.samples()));
        let cost = |figure: Option<f64>| bounds.wire(figure.map_or_else(|| DASH.to_owned(), money));
        match self {
            Self::Class => row.class.map_or(DASH, |class| class.name()).to_owned(),
            Self::Operation => table.name_cell(row),
            Self::Via => row.via.clone(),
            Self::Count => grouped(row.samples()),
            Self::Errors => grouped(row.errors),
            Self::Unanswered => grouped(row.unanswered),
            Self::Frames => wire(row.request.frames + row.response.frames),
            Self::Wire => bounds.wire(grouped(amounts.total())),
            Self::Request => wire(row.request.accounts.total()),
            Self::Response if row.response.unseen.is_some() => DASH.to_owned(),
            Self::Response => wire(row.response.accounts.total()),
            Self::Total => wire(amounts.total()),
            Self::Frame => wire(families().frame),
            Self::Waste => wire(families().waste),
            Self::Protocol => part(families().protocol),
            Self::Data => part(families().data),
            Self::Unknown => wire(families().unknown),
            Self::Share => percent(families().data, amounts.total()),
            Self::Account(account) => account_cell(&amounts, account, row.samples(), bounds),
            Self::Latency(figure) => latency_cell(&row.latency_ns, figure),
            Self::CostOfMillion => cost(row.cost.and_then(|cost| cost.per_million_operations)),
            Self::CostOfDay => cost(row.cost.and_then(|cost| cost.per_day)),
        }
    }
}

/// Formats one account per operation.
pub(crate) fn account_cell(amounts: &Amounts, account: Account, count: u64, bounds: LowerBounds) -> String {
    let text = mean(amounts[account], count);
    if account.is_payload() && account != Account::Unknown { bounds.payload(text) } else { bounds.wire(text) }
}

fn latency_cell(latency: &Measured<Latency>, figure: LatencyFigure) -> String {
    let Some(latency) = latency.value().filter(|latency| latency.count > 0) else { return DASH.to_owned() };
    microseconds(match figure {
        LatencyFigure::Min => latency.min,
        LatencyFigure::Mean => latency.mean.round() as u64,
        LatencyFigure::P50 => latency.p50,
        LatencyFigure::P90 => latency.p90,
        LatencyFigure::P99 => latency.p99,
        LatencyFigure::P999 => latency.p999,
        LatencyFigure::P9999 => latency.p9999,
        LatencyFigure::Max => latency.max,
    })
}

/// Formats bytes per operation with one decimal digit.
fn mean(bytes: u64, count: u64) -> String {
    per_operation(bytes, count).map_or_else(|| DASH.to_owned(), decimal)
}

/// Returns the accounts that are not empty in these amounts, in stack order.
pub(crate) fn used_accounts(amounts: &[&Amounts]) -> Vec<Account> {
    Account::ALL.into_iter().filter(|&account| amounts.iter().any(|amounts| amounts[account] > 0)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_column_is_found_by_its_name() {
        for name in OperationColumn::names() {
            let column = OperationColumn::named(name).unwrap_or_else(|| panic!("{name}"));
            assert_eq!(column.name(), name);
        }
        assert_eq!(OperationColumn::named(" P99 "), Some(Of::Latency(LatencyFigure::P99)));
        assert_eq!(OperationColumn::named("colour"), None);
    }
}
