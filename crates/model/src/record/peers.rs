//! Operations by connection, by client or by server.

use super::{By, Latency, Measured, SideSums};
use crate::operation::Class;
use serde::{Deserialize, Serialize};

/// Operations added up by connection, by client or by server. All rows together come to what `operations` come to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PeerRows {
    /// The grain of the rows.
    pub by: By,
    /// A row for each class that there is of a group, the largest group first; the last ones have what is left out.
    pub rows: Vec<PeerRow>,
    /// Groups that have no rows of their own.
    pub left_out: u64,
}

/// Totals of a class of operations on one connection, with one client or with one server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PeerRow {
    /// Class of the operations.
    pub class: Class,
    /// Protocol name.
    pub protocol: String,
    /// The client's address, of a connection with its port. Absent where servers are told apart, and of what is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
    /// The server's address and port. Absent where clients are told apart, and of what is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// Time of the first frame of a connection, Unix nanoseconds; absent where rows are of something else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_ns: Option<u64>,
    /// Connections of the group, whatever the class.
    pub connections: u64,
    /// Operations (of class `unmatched`: stretches).
    pub count: u64,
    /// Messages sent by the server of its own accord.
    pub unsolicited: u64,
    /// Of the operations, answered by an error.
    pub errors: u64,
    /// Of the operations, an answer was due and is not in the capture, or not all of it.
    pub unanswered: u64,
    /// Of the operations, no answer was due.
    pub no_reply: u64,
    /// Client to server.
    pub request: SideSums,
    /// Server to client.
    pub response: SideSums,
    /// First byte of the request to last byte of the response; unavailable if two clocks were at work.
    pub latency_ns: Measured<Latency>,
}
