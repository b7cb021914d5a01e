//! The rows of operations, and their distributions of sizes and latencies.

use super::{Measured, OperationKernel, PeerRow, RowEstimates, SideSums, ViewRow};
use crate::account::{Account, Amounts};
use crate::operation::{Class, Side};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One row of the record: all operations of one protocol, class, name and way of sending.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OperationRow {
    /// Protocol name.
    pub protocol: String,
    /// Class.
    pub class: Class,
    /// Name of the operation.
    pub name: String,
    /// How it was sent; empty if there is only one way.
    pub via: String,
    /// Operations, without unsolicited messages.
    pub count: u64,
    /// Unsolicited messages of the server; the row's distributions cover these and the operations.
    #[serde(default)]
    pub unsolicited: u64,
    /// Operations answered by an error.
    pub errors: u64,
    /// Operations whose answer was due and is not in the capture, or not completely.
    pub unanswered: u64,
    /// Operations that needed no answer (`moreToCome`, `CLIENT REPLY OFF`, `Terminate`, skipped in an aborted
    /// pipeline).
    #[serde(default)]
    pub no_reply: u64,
    /// Times that a client waited for its server before it sent a part of these operations. A round trip belongs to the operation that
    /// started it; the others sent in it have none.
    #[serde(default = "Measured::<u64>::not_recorded")]
    pub round_trips: Measured<u64>,
    /// Client to server.
    pub request: SideRow,
    /// Server to client.
    pub response: SideRow,
    /// Latencies; unavailable if the directions had different clocks.
    pub latency_ns: Measured<Latency>,
    /// Cumulative counts of `latency_ns`: how many operations took no longer than certain times, shortest first; absent
    /// unless requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_within: Option<Vec<Within>>,
    /// Estimates for the whole time from the sampled windows; absent if the whole time was captured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sampled: Option<RowEstimates>,
    /// The grain below the name: the largest by bytes on the wire, then `(other)` for the rest. They add up to the row.
    /// `(none)` has operations without a statement; empty if no operation has one.
    #[serde(default)]
    pub statements: Vec<StatementRow>,
    /// The payload of all its operations by side, account and field; absent unless requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fields: Option<Vec<FieldRow>>,
    /// The kernel's work for these operations; absent from offline records, and if it was not sampled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel: Option<OperationKernel>,
}

/// Totals of operations.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RowTotals {
    /// Operations, without unsolicited messages.
    pub count: u64,
    /// Unsolicited messages of the server.
    #[serde(default)]
    pub unsolicited: u64,
    /// Operations answered by an error.
    pub errors: u64,
    /// Operations whose answer was due and is not in the capture, or not completely.
    #[serde(default)]
    pub unanswered: u64,
    /// Operations that needed no answer.
    #[serde(default)]
    pub no_reply: u64,
    /// Times that a client waited for its server before it sent a part of them.
    #[serde(default = "Measured::<u64>::not_recorded")]
    pub round_trips: Measured<u64>,
    /// Client to server.
    pub request: SideSums,
    /// Server to client.
    pub response: SideSums,
    /// Latencies; unavailable if the directions had different clocks.
    pub latency_ns: Measured<Latency>,
}

/// The operations of a row with one statement.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StatementRow {
    /// SQL or CQL without its literals, a command with the shape of its filter or the pattern of its keys, a method with the
    /// pattern of its path. It holds no user data.
    pub text: String,
    /// Totals of these operations.
    #[serde(flatten)]
    pub totals: RowTotals,
    /// The operations of class setup that prepare, describe and close it, which are also in rows of their own. Absent if there
    /// are none, and if another row with the same text has them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prepare: Option<Measured<Preparation>>,
    /// The payload of its operations by side, account and field; absent unless requested, and if the row has only this
    /// statement.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fields: Option<Vec<FieldRow>>,
    /// The kernel's work for these operations; absent from offline records, and if it was not sampled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel: Option<OperationKernel>,
}

/// What it costs to prepare a statement.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Preparation {
    /// Operations.
    pub count: u64,
    /// Round trips that they started.
    pub round_trips: Measured<u64>,
    /// Client to server.
    pub request: SideSums,
    /// Server to client.
    pub response: SideSums,
}

impl From<&RowTotals> for Preparation {
    fn from(totals: &RowTotals) -> Self {
        let RowTotals { count, round_trips, request, response, .. } = totals.clone();
        Self { count, round_trips, request, response }
    }
}

impl Preparation {
    /// Adds another statement's.
    pub fn add(&mut self, other: &Self) {
        self.count += other.count;
        self.round_trips.add(&other.round_trips);
        self.request.add(&other.request);
        self.response.add(&other.response);
    }

    /// Returns the bytes on the wire in both directions.
    pub fn wire_bytes(&self) -> u64 {
        self.request.wire_bytes + self.response.wire_bytes
    }
}

/// Lets a row be read and written as its totals.
macro_rules! has_totals {
    ($($row:ident),+) => {$(
        impl std::ops::Deref for $row {
            type Target = RowTotals;

            fn deref(&self) -> &RowTotals {
                &self.totals
            }
        }

        impl std::ops::DerefMut for $row {
            fn deref_mut(&mut self) -> &mut RowTotals {
                &mut self.totals
            }
        }
    )+};
}

has_totals!(StatementRow, PeerRow, ViewRow);

impl RowTotals {
    /// Counts the samples of means: operations and unsolicited messages.
    pub fn samples(&self) -> u64 {
        self.count + self.unsolicited
    }

    /// Returns both directions together.
    pub fn amounts(&self) -> Amounts {
        let mut sum = self.request.accounts;
        sum += self.response.accounts;
        sum
    }

    /// Adds other operations. Their latencies together are unknown.
    pub fn add(&mut self, other: &Self) {
        crate::add_fields!(self, other => count, unsolicited, errors, unanswered, no_reply);
        self.round_trips.add(&other.round_trips);
        self.request.add(&other.request);
        self.response.add(&other.response);
        self.latency_ns = Measured::unavailable("the latencies of several rows do not add up");
    }
}

/// How many operations took no longer than a certain time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Within {
    /// The time; as exact as a percentile, to 0.1%.
    pub ns: u64,
    /// Operations that took no longer.
    pub count: u64,
}

/// One field of a row's messages.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FieldRow {
    /// Direction.
    pub side: Side,
    /// The account it is posted to.
    pub account: Account,
    /// The field and its groups, joined by dots, as `explain` names them.
    pub field: String,
    /// Total over the row's operations.
    pub bytes: u64,
}

impl OperationRow {
    /// Counts the samples of means and distributions: operations and unsolicited messages.
    pub fn samples(&self) -> u64 {
        self.count + self.unsolicited
    }

    /// Returns the totals, without distributions of sizes.
    pub fn totals(&self) -> RowTotals {
        RowTotals {
            count: self.count,
            unsolicited: self.unsolicited,
            errors: self.errors,
            unanswered: self.unanswered,
            no_reply: self.no_reply,
            round_trips: self.round_trips.clone(),
            request: (&self.request).into(),
            response: (&self.response).into(),
            latency_ns: self.latency_ns.clone(),
        }
    }
}

/// One direction of an [`OperationRow`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SideRow {
    /// Frames touched, summed over operations; shared frames count once in each.
    pub frames: u64,
    /// Bytes on the wire per operation.
    pub wire_bytes: Distribution,
    /// TCP payload per operation, each byte once.
    pub payload_bytes: Distribution,
    /// Totals per account.
    pub accounts: Amounts,
    /// Why the zeros of this direction mean that it was not seen, not that it was empty; absent if it was seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unseen: Option<String>,
}

/// A distribution of sizes over operations. `total` includes late bytes; the rest is fixed when an operation closes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Distribution {
    /// Sum.
    pub total: u64,
    /// `total` over the number of operations; 0 without any.
    pub mean: f64,
    /// Smallest.
    pub min: u64,
    /// Median, nearest rank.
    pub p50: u64,
    /// 90th percentile.
    pub p90: u64,
    /// 99th percentile.
    pub p99: u64,
    /// 99.9th percentile.
    pub p999: u64,
    /// Largest.
    pub max: u64,
}

/// A distribution of latencies, over operations with both ends in the capture.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Latency {
    /// Operations in the distribution.
    pub count: u64,
    /// Arithmetic mean.
    pub mean: f64,
    /// Smallest.
    pub min: u64,
    /// Median, nearest rank.
    pub p50: u64,
    /// 90th percentile.
    pub p90: u64,
    /// 99th percentile.
    pub p99: u64,
    /// 99.9th percentile.
    pub p999: u64,
    /// 99.99th percentile.
    pub p9999: u64,
    /// Largest.
    pub max: u64,
}
