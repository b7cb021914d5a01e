//! Operations, that is requests with their responses.

use crate::account::Amounts;
use crate::stream::Transport;
use crate::system::Protocol;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;

crate::enum_with! {
    /// A direction of a connection.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "lowercase")]
    #[repr(u8)]
    pub enum Side, name: &'static str {
        /// Client to server.
        Request = "request",
        /// Server to client.
        Response = "response",
    }
}

impl Side {
    pub const BOTH: [Self; 2] = [Self::Request, Self::Response];

    /// Returns the opposite direction.
    #[must_use]
    pub const fn other(self) -> Self {
        match self {
            Self::Request => Self::Response,
            Self::Response => Self::Request,
        }
    }
}

crate::enum_with! {
    /// The purpose of an operation, so that handshakes and heartbeats do not dilute a benchmark's results.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "lowercase")]
    pub enum Class, name: &'static str {
        /// Requests of the application.
        Workload = "workload",
        /// Connecting, authenticating, preparing.
        Setup = "setup",
        /// Heartbeats, events, topology queries, replication.
        Background = "background",
        /// A response without a request, a request cut off, an undecoded stretch.
        Unmatched = "unmatched",
    }
}

impl Class {
    /// Number of classes; [`Class::Unmatched`] is the last.
    pub const COUNT: usize = Self::Unmatched as usize + 1;
}

crate::enum_with! {
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum Outcome, name: &'static str {
        Ok = "ok",
        Error = "error",
        /// No answer is due (`moreToCome`, `CLIENT REPLY OFF`, `Terminate`, a statement skipped in an aborted pipeline).
        NoReply = "no_reply",
        /// The capture ended, or lost bytes, before the answer was complete.
        Unanswered = "unanswered",
        /// The server sent it unasked (an event, a push, a notification): there is no request, and no operation.
        Unsolicited = "unsolicited",
    }
}

/// The key of a row in the run record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RowKey<'a> {
    pub protocol: Protocol,
    pub class: Class,
    /// Command word, verb, or one of the fixed names (`CONNECT`, `STARTUP`, …).
    pub name: &'a str,
    /// How it was sent (`array`, `inline`, `simple`, `prepared`, `batch`, …); empty if there is only one way.
    pub via: &'static str,
    /// The finer grain below the name: SQL without literals, a command with the pattern of its keys. Without user data.
    /// Empty if there is none; [`OTHER`] if statements are merged.
    pub statement: &'a str,
}

/// Name of the row for everything beyond a limit, of operations and of statements.
pub const OTHER: &str = "(other)";

/// A row and statement of a [`crate::Tally`], numbered by that tally.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RowId(pub u64);

/// The bytes of an operation in one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SideTotals {
    /// Frames touched. Shared frames count for each operation.
    pub frames: u64,
    pub amounts: Amounts,
}

impl SideTotals {
    /// Adds `other` a number of times.
    #[inline]
    pub fn add_times(&mut self, other: &Self, times: u64) {
        self.frames += other.frames * times;
        self.amounts.add_times(&other.amounts, times);
    }
}

/// A closed operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation {
    /// Totals by [`Side`].
    pub sides: [SideTotals; 2],
    pub outcome: Outcome,
    /// Time from the frame with the request's first byte to the frame with the response's last; `None` unless both were
    /// seen.
    pub latency_ns: Option<u64>,
    /// Times that the client waited for its server before it sent a part of the request.
    pub round_trips: u32,
}

impl Operation {
    /// Returns the bytes by side.
    pub fn amounts(&self) -> [Amounts; 2] {
        self.sides.map(|side| side.amounts)
    }
}

crate::enum_with! {
    /// How it was decided which end of a connection is the server.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "lowercase")]
    pub enum DecidedBy, name: &'static str {
        /// The handshake was captured.
        Syn = "syn",
        /// The port was selected by the user or is well known.
        Port = "port",
        /// One side's bytes parse as requests, or as responses.
        Content = "content",
        /// The kernel says whose end of a UNIX socket listened, or a TLS library which end it was.
        Socket = "socket",
    }
}

/// A connection with open operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionEnds {
    /// Unique within the tally.
    pub number: u64,
    pub client: SocketAddr,
    pub server: SocketAddr,
    /// Capture time of its first frame, Unix nanoseconds.
    pub first_ns: u64,
}

/// A selected connection at its end, or at the end of the capture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectionSummary {
    pub client: SocketAddr,
    pub server: SocketAddr,
    pub transport: Transport,
    /// Names of client and server, if the addresses are only placeholders.
    pub names: Option<Box<[String; 2]>>,
    pub protocol: Protocol,
    /// The server's name and version from the handshake, if given.
    pub server_software: Option<String>,
    /// The name and version of the client or its driver, if given.
    pub client_software: Option<String>,
    /// TLS records were seen.
    pub tls: bool,
    /// Some application data was not decrypted.
    pub encrypted: bool,
    /// How the server's side was determined.
    pub server_decided_by: DecidedBy,
    /// Capture time of its first frame, Unix nanoseconds.
    pub first_ns: u64,
    /// Closed operations, without class `unmatched` and `CONNECT`.
    pub operations: u64,
    /// All bytes of its frames on the wire.
    pub wire_bytes: u64,
    /// TCP payload of both directions, each byte once.
    pub payload_bytes: u64,
    /// Times that the client waited for the server, with the TCP handshake.
    pub round_trips: u64,
    /// Those up to the first answer to the application; `None` without an answer.
    pub round_trips_to_answer: Option<u64>,
}

impl ConnectionSummary {
    /// Returns the client's name, or else its address.
    pub fn client_name(&self) -> String {
        self.names.as_ref().map_or_else(|| self.client.to_string(), |names| names[0].clone())
    }

    /// Returns the server's name, or else its address.
    pub fn server_name(&self) -> String {
        self.names.as_ref().map_or_else(|| self.server.to_string(), |names| names[1].clone())
    }
}
