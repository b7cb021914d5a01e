//! Rows of a record as requested: grain, order and number.

use super::{Measured, OperationRow, PeerRow, Preparation, RowTotals, SideRow, StatementRow};
use crate::account::Amounts;
use crate::operation::{Class, OTHER, SideTotals};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

crate::enum_with! {
    /// The grain of the rows.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "lowercase")]
    pub enum By, name: &'static str {
        /// Operations with the same name.
        #[default]
        Name = "name",
        /// Operations with the same name and statement.
        Statement = "statement",
        /// A connection.
        Connection = "connection",
        /// The address of a client.
        Client = "client",
        /// The address and port of a server.
        Server = "server",
    }
}

/// The sort key of rows, largest first. Rows of the workload always come first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum SortKey {
    /// Bytes on the wire.
    #[default]
    #[serde(rename = "bytes")]
    Bytes,
    /// Operations.
    #[serde(rename = "count")]
    Count,
    /// The median of the latency.
    #[serde(rename = "latency")]
    Latency,
    /// Bytes on the wire per operation.
    #[serde(rename = "bytes/op")]
    BytesPerOperation,
}

/// The price of a byte on the wire.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Price {
    /// The price as given, such as `0.02/GB`.
    pub text: String,
    /// Price of one byte, in the currency of `text`.
    pub per_byte: f64,
    /// The time that costs on a screen are for; absent for a day.
    #[serde(default, skip_serializing_if = "BillingPeriod::is_day")]
    pub per: BillingPeriod,
}

impl Price {
    /// Returns the cost of a day with as many bytes in each `window_ns`; `None` without a window.
    pub fn cost_per_day(&self, bytes: f64, window_ns: u64) -> Option<f64> {
        (window_ns > 0).then(|| bytes * self.per_byte * DAY_NS / window_ns as f64)
    }

    /// Returns the cost of the period with as many bytes in each `window_ns`; `None` without a window.
    pub fn cost_per_period(&self, bytes: f64, window_ns: u64) -> Option<f64> {
        self.cost_per_day(bytes, window_ns).map(|cost| cost * self.per.days())
    }
}

const DAY_NS: f64 = 86_400e9;

crate::enum_with! {
    /// The time that a cost is for.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "snake_case")]
    pub enum BillingPeriod, name: &'static str {
        /// 24 hours.
        #[default]
        Day = "day",
        /// 730 hours, as in cloud price lists.
        Month = "month",
    }
}

impl BillingPeriod {
    pub const fn days(self) -> f64 {
        match self {
            Self::Day => 1.0,
            Self::Month => 730.0 / 24.0,
        }
    }

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
    fn is_day(&self) -> bool {
        *self == Self::Day
    }
}

/// The price of a row's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Cost {
    /// Price of a million such operations; `null` without operations.
    pub per_million_operations: Option<f64>,
    /// Price of a day at the observed rate; `null` if all frames have the same time.
    pub per_day: Option<f64>,
}

/// The rows of a record in the requested order and number. They have the same sum as all rows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct View {
    /// The grain of the rows.
    pub by: By,
    /// The sort key.
    pub sort: SortKey,
    /// The requested number of rows; one more row sums up the rest. `null` for all.
    pub top: Option<u64>,
    /// The price of a byte; absent if none was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price: Option<Price>,
    /// The rows.
    pub rows: Vec<ViewRow>,
}

/// A row of a view.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ViewRow {
    /// Class of the operations; `null` if the row merges several classes.
    pub class: Option<Class>,
    /// Protocol name; empty if the row merges several protocols.
    pub protocol: String,
    /// Name of the operation; empty if rows are not operations; `(other)` for merged rows.
    pub name: String,
    /// How it was sent; empty if there is only one way, or if rows do not distinguish it.
    pub via: String,
    /// The statement; absent if rows are not statements, or if the operations have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub statement: Option<String>,
    /// The client's address, with the port for a connection; absent if rows are not clients or connections.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
    /// The server's address and port; absent if rows are not servers or connections.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// Rank of a statement among those of the workload, from 1; only in tables.
    #[serde(skip)]
    pub number: Option<u64>,
    /// Number of rows merged in this one.
    pub rows: u64,
    /// Totals of these operations.
    #[serde(flatten)]
    pub totals: RowTotals,
    /// The cost of preparing the statement; absent if rows are not statements, or if that costs nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prepare: Option<Measured<Preparation>>,
    /// The price of its bytes; absent if none was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<Cost>,
}

/// Totals of one direction of a row.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SideSums {
    /// Frames touched, summed over operations; shared frames count once in each.
    pub frames: u64,
    /// Bytes on the wire.
    pub wire_bytes: u64,
    /// TCP payload, each byte once.
    pub payload_bytes: u64,
    /// Totals per account.
    pub accounts: Amounts,
    /// Why the zeros of this direction mean that it was not seen, not that it was empty; absent if it was seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unseen: Option<String>,
}

impl SideSums {
    pub fn new(frames: u64, accounts: Amounts) -> Self {
        Self { frames, wire_bytes: accounts.total(), payload_bytes: accounts.payload(), accounts, unseen: None }
    }

    /// Adds another row's direction. The sum is seen if either was.
    pub fn add(&mut self, other: &Self) {
        let unseen = self.unseen.take().filter(|_| other.unseen.is_some());
        *self = Self { unseen, ..Self::new(self.frames + other.frames, self.accounts) };
        self.accounts += other.accounts;
        (self.wire_bytes, self.payload_bytes) = (self.accounts.total(), self.accounts.payload());
    }
}

impl From<&SideRow> for SideSums {
    fn from(side: &SideRow) -> Self {
        Self { unseen: side.unseen.clone(), ..Self::new(side.frames, side.accounts) }
    }
}

impl From<SideTotals> for SideSums {
    fn from(side: SideTotals) -> Self {
        Self::new(side.frames, side.amounts)
    }
}

impl ViewRow {
    pub fn from_statement(row: &OperationRow, statement: &StatementRow) -> Self {
        let (statement, totals, prepare) =
            (Some(statement.text.clone()), statement.totals.clone(), statement.prepare.clone());
        Self { statement, totals, prepare, ..row.into() }
    }

    /// Adds another row but keeps the name.
    pub fn merge(&mut self, other: &Self) {
        if self.class != other.class {
            self.class = None;
        }
        if self.protocol != other.protocol {
            self.protocol.clear();
        }
        if self.via != other.via {
            self.via.clear();
        }
        self.rows += other.rows;
        self.totals.add(&other.totals);
        self.prepare = match (self.prepare.take(), other.prepare.clone()) {
            (Some(Measured::Value(mut sum)), Some(Measured::Value(other))) => {
                sum.add(&other);
                Some(Measured::Value(sum))
            }
            (Some(unknown @ Measured::Unavailable { .. }), _) | (_, Some(unknown @ Measured::Unavailable { .. })) => {
                Some(unknown)
            }
            (one, None) | (None, one) => one,
        };
    }

    /// Returns the bytes on the wire in both directions, with those that prepare the statement.
    pub fn whole_bytes(&self) -> u64 {
        let prepare = self.prepare.as_ref().and_then(Measured::value);
        self.amounts().total() + prepare.map_or(0, Preparation::wire_bytes)
    }
}

impl From<&OperationRow> for ViewRow {
    fn from(row: &OperationRow) -> Self {
        Self {
            class: Some(row.class),
            protocol: row.protocol.clone(),
            name: row.name.clone(),
            via: row.via.clone(),
            rows: 1,
            totals: row.totals(),
            ..Self::default()
        }
    }
}

impl From<&PeerRow> for ViewRow {
    /// Names the remainder, which has neither end.
    fn from(row: &PeerRow) -> Self {
        let is_other = row.client.is_none() && row.server.is_none();
        Self {
            class: Some(row.class),
            protocol: row.protocol.clone(),
            name: if is_other { OTHER.to_owned() } else { String::new() },
            client: row.client.clone(),
            server: row.server.clone(),
            rows: 1,
            totals: row.totals.clone(),
            ..Self::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::account::Account;

    #[test]
    fn sides_add_up_and_what_was_seen_once_is_seen() {
        let unseen = SideSums { unseen: Some("not captured".to_owned()), ..SideSums::default() };
        let seen = SideSums::new(2, Amounts::new(Account::Data, 7));
        let sum = |a: &SideSums, b: &SideSums| {
            let mut sum = a.clone();
            sum.add(b);
            sum
        };
        assert_eq!(sum(&unseen, &seen), seen);
        assert_eq!(sum(&seen, &unseen), seen);
        assert_eq!(sum(&unseen, &unseen), unseen);
        let twice = sum(&seen, &seen);
        assert_eq!((twice.frames, twice.wire_bytes, twice.payload_bytes, twice.accounts.total()), (4, 14, 14, 14));
    }
}
