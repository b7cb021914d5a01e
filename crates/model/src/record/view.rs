//! Rows of a record as requested: grain, order and number.

use super::{Latency, Measured, OperationRow, PeerRow, SideRow, StatementRow};
use crate::account::Amounts;
use crate::operation::{Class, OTHER, SideTotals};
use serde::{Deserialize, Serialize};

/// The grain of the rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum By {
    /// Operations of a name.
    #[default]
    Name,
    /// Operations of a name that have one statement.
    Statement,
    /// A connection.
    Connection,
    /// The address of a client.
    Client,
    /// The address and port of a server.
    Server,
}

impl By {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Name => "name",
            Self::Statement => "statement",
            Self::Connection => "connection",
            Self::Client => "client",
            Self::Server => "server",
        }
    }
}

/// What rows are sorted by, the largest first; those of the workload stand before the other classes in any case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Price {
    /// As it was given, such as `0.02/GB`.
    pub text: String,
    /// For one byte, in whatever it is paid in.
    pub per_byte: f64,
}

/// The price of the bytes of a row.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Cost {
    /// Of a million such operations; `null` without operations.
    pub per_million_operations: Option<f64>,
    /// Of a day at the rate that was seen; `null` where all frames have one time.
    pub per_day: Option<f64>,
}

/// The rows of a record in the order and number that were asked for; they add up to the same as all rows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct View {
    /// The grain of the rows.
    pub by: By,
    /// The sort key.
    pub sort: SortKey,
    /// How many were asked for; what is beyond is one more. `null` for all.
    pub top: Option<u64>,
    /// The price of a byte; absent if none was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price: Option<Price>,
    /// The rows.
    pub rows: Vec<ViewRow>,
}

/// A row of a view.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ViewRow {
    /// Class of the operations; `null` where rows of several classes are one.
    pub class: Option<Class>,
    /// Protocol name; empty where rows of several are one.
    pub protocol: String,
    /// Name of the operation; empty where rows are of something else, `(other)` where rows are one.
    pub name: String,
    /// How it was sent; empty where there is only one way, or where that does not tell rows apart.
    pub via: String,
    /// The statement, where rows are of these and the operations have one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub statement: Option<String>,
    /// The client's address, of a connection with its port; absent where rows are of something else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
    /// The server's address and port; absent where rows are of something else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// Rows that are added up in this one.
    pub rows: u64,
    /// Operations.
    pub count: u64,
    /// Messages sent by the server of its own accord.
    pub unsolicited: u64,
    /// Of the operations, answered by an error.
    pub errors: u64,
    /// Of the operations, without a complete answer, though one was due.
    pub unanswered: u64,
    /// Of the operations, those that no answer was due to.
    pub no_reply: u64,
    /// Client to server.
    pub request: SideSums,
    /// Server to client.
    pub response: SideSums,
    /// First byte of the request to last byte of the response.
    pub latency_ns: Measured<Latency>,
    /// The price of its bytes; absent if none was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<Cost>,
}

/// Totals of one direction of a row.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SideSums {
    /// Frames touched, summed over operations; shared frames count once in each.
    pub frames: u64,
    /// Bytes on the wire.
    pub wire_bytes: u64,
    /// TCP payload, each byte once.
    pub payload_bytes: u64,
    /// Totals per account.
    pub accounts: Amounts,
    /// Why the zeros of this direction mean that it was not seen, not that it was empty; absent where it was seen.
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
    pub fn of_statement(row: &OperationRow, statement: &StatementRow) -> Self {
        Self {
            statement: Some(statement.text.clone()),
            count: statement.count,
            unsolicited: statement.unsolicited,
            errors: statement.errors,
            unanswered: statement.unanswered,
            no_reply: statement.no_reply,
            request: statement.request.clone(),
            response: statement.response.clone(),
            latency_ns: statement.latency_ns.clone(),
            ..row.into()
        }
    }
}

impl From<&OperationRow> for ViewRow {
    fn from(row: &OperationRow) -> Self {
        Self {
            class: Some(row.class),
            protocol: row.protocol.clone(),
            name: row.name.clone(),
            via: row.via.clone(),
            statement: None,
            client: None,
            server: None,
            rows: 1,
            count: row.count,
            unsolicited: row.unsolicited,
            errors: row.errors,
            unanswered: row.unanswered,
            no_reply: row.no_reply,
            request: (&row.request).into(),
            response: (&row.response).into(),
            latency_ns: row.latency_ns.clone(),
            cost: None,
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
            via: String::new(),
            statement: None,
            client: row.client.clone(),
            server: row.server.clone(),
            rows: 1,
            count: row.count,
            unsolicited: row.unsolicited,
            errors: row.errors,
            unanswered: row.unanswered,
            no_reply: row.no_reply,
            request: row.request.clone(),
            response: row.response.clone(),
            latency_ns: row.latency_ns.clone(),
            cost: None,
        }
    }
}

impl ViewRow {
    /// Counts the samples of means: operations and unsolicited messages.
    pub fn samples(&self) -> u64 {
        self.count + self.unsolicited
    }

    pub fn amounts(&self) -> Amounts {
        let mut sum = self.request.accounts;
        sum += self.response.accounts;
        sum
    }

    /// Adds another row but keeps the name.
    pub fn add(&mut self, other: &Self) {
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
        self.count += other.count;
        self.unsolicited += other.unsolicited;
        self.errors += other.errors;
        self.unanswered += other.unanswered;
        self.no_reply += other.no_reply;
        self.request.add(&other.request);
        self.response.add(&other.response);
        self.latency_ns = Measured::unavailable("the latencies of several rows do not add up");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::account::Account;

    #[test]
    fn sides_add_up_and_what_was_seen_once_is_seen() {
        let unseen = SideSums { unseen: Some("not captured".to_owned()), ..SideSums::default() };
        let seen = SideSums::new(2, Amounts::of(Account::Data, 7));
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
