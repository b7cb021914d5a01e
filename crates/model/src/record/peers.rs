//! Operations by connection, by client or by server.

use super::{By, RowTotals};
use crate::operation::Class;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Operations summed by connection, client or server. All rows together equal the sum of `operations`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PeerRows {
    /// The grain of the rows.
    pub by: By,
    /// A row for each class of a group, the largest group first; the last rows have the omitted groups.
    pub rows: Vec<PeerRow>,
    /// Groups without rows.
    pub left_out: u64,
}

/// Totals of a class of operations on one connection, with one client or with one server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PeerRow {
    /// Class of the operations.
    pub class: Class,
    /// Protocol name.
    pub protocol: String,
    /// The client's address, with the port for a connection. Absent if rows are servers, and for omitted groups.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
    /// The server's address and port. Absent if rows are clients, and for omitted groups.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// Time of a connection's first frame, Unix nanoseconds; absent if rows are not connections.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_ns: Option<u64>,
    /// Connections of the group, of all classes.
    pub connections: u64,
    /// Totals of these operations.
    #[serde(flatten)]
    pub totals: RowTotals,
}
