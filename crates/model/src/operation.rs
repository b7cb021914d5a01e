//! Operations - a request and the response that answers it - and where closed ones are handed.

use crate::account::Amounts;
use crate::stream::Transport;
use crate::system::Protocol;
use crate::trace::Trace;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;

/// A direction of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
#[repr(u8)]
pub enum Side {
    /// Client to server.
    Request,
    /// Server to client.
    Response,
}

impl Side {
    /// Both sides, request first.
    pub const BOTH: [Self; 2] = [Self::Request, Self::Response];

    /// Returns the identifier that records use.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Request => "request",
            Self::Response => "response",
        }
    }

    /// Returns the opposite direction.
    #[must_use]
    pub const fn other(self) -> Self {
        match self {
            Self::Request => Self::Response,
            Self::Response => Self::Request,
        }
    }
}

/// What an operation is for, so that a benchmark's figures are not diluted by handshakes and heartbeats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Class {
    /// What the application asked for.
    Workload,
    /// Connecting, authenticating, preparing.
    Setup,
    /// Heartbeats, events, topology queries, replication.
    Background,
    /// A response without a request, a request cut off, an undecoded stretch.
    Unmatched,
}

impl Class {
    /// How many there are; the last one is [`Class::Unmatched`].
    pub const COUNT: usize = Self::Unmatched as usize + 1;

    /// Returns the stable identifier of the run record.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Workload => "workload",
            Self::Setup => "setup",
            Self::Background => "background",
            Self::Unmatched => "unmatched",
        }
    }
}

/// How an operation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// Answered, and not by an error.
    Ok,
    /// Answered by an error.
    Error,
    /// No answer is due (`moreToCome`, `CLIENT REPLY OFF`, `Terminate`, a statement skipped in an aborted pipeline).
    NoReply,
    /// The capture ended, or lost bytes, before the answer was complete.
    Unanswered,
    /// The server sent it of its own accord (an event, a push, a notification): there is no request, and no operation.
    Unsolicited,
}

/// What tells the rows of the run record apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RowKey<'a> {
    /// The protocol of the connection.
    pub protocol: Protocol,
    /// The class of the operations in the row.
    pub class: Class,
    /// Command word, verb, or one of the fixed names (`CONNECT`, `STARTUP`, …).
    pub name: &'a str,
    /// How it was sent (`array`, `inline`, `simple`, `prepared`, `batch`, …); empty where there is only one way.
    pub via: &'static str,
    /// The grain below the name: SQL text without its literals, a command with the pattern of its keys. It holds no user
    /// data. Empty where there is none; [`OTHER`] for what is not told apart.
    pub statement: &'a str,
}

/// Name of what is added up because it is beyond a bound: of operations, and of statements.
pub const OTHER: &str = "(other)";

/// What a [`Tally`] adds up by itself, as that tally numbers it: a statement of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RowId(pub u64);

/// What one direction of an operation came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SideTotals {
    /// Frames touched. Frames shared with other operations count in each.
    pub frames: u64,
    /// Bytes per account.
    pub amounts: Amounts,
}

/// A closed operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation {
    /// What each direction came to, by [`Side`].
    pub sides: [SideTotals; 2],
    /// How it ended.
    pub outcome: Outcome,
    /// From the frame with the request's first byte to the frame with the response's last; `None` unless both were seen.
    pub latency_ns: Option<u64>,
}

/// How it was decided which end of a connection is the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum DecidedBy {
    /// The handshake was captured.
    Syn,
    /// The port was selected by the user or is well known.
    Port,
    /// One side's bytes parse as requests, or as responses.
    Content,
    /// The kernel says whose end of a UNIX socket listened, or a TLS library which end it was.
    Socket,
}

/// A connection that operations are of, as far as is known while they come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ends {
    /// Its number, which no other has that is told to the same tally.
    pub number: u64,
    /// Address of the client.
    pub client: SocketAddr,
    /// Address of the server.
    pub server: SocketAddr,
    /// Capture time of its first frame, Unix nanoseconds.
    pub first_ns: u64,
}

/// What is known of a selected connection when it ends or the capture does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectionSummary {
    /// Address of the client.
    pub client: SocketAddr,
    /// Address of the server.
    pub server: SocketAddr,
    /// What carried its bytes.
    pub transport: Transport,
    /// Names of client and server where the addresses only stand for them.
    pub names: Option<Box<[String; 2]>>,
    /// Protocol it was decoded as.
    pub protocol: Protocol,
    /// The server's name and version as it stated them in the handshake, where it did.
    pub server_software: Option<String>,
    /// The client's or driver's name and version, likewise.
    pub client_software: Option<String>,
    /// True when TLS records were seen.
    pub tls: bool,
    /// How the server's side was told.
    pub server_decided_by: DecidedBy,
    /// Capture time of its first frame, Unix nanoseconds.
    pub first_ns: u64,
    /// Operations closed on it (all classes but `unmatched`, `CONNECT` left out).
    pub operations: u64,
    /// All bytes of its frames on the wire.
    pub wire_bytes: u64,
    /// TCP payload of both directions, each byte once.
    pub payload_bytes: u64,
}

impl ConnectionSummary {
    /// Returns how the client is to be called: by its name, or else by its address.
    pub fn client_name(&self) -> String {
        self.names.as_ref().map_or_else(|| self.client.to_string(), |names| names[0].clone())
    }

    /// Returns the same of the server.
    pub fn server_name(&self) -> String {
        self.names.as_ref().map_or_else(|| self.server.to_string(), |names| names[1].clone())
    }
}

/// Where closed operations go. The aggregate of the report is one; so is a list in a test.
///
/// Calls may come in any order between connections; an implementation must come to the same result whatever the order.
pub trait Tally {
    /// Returns the number of the row, and statement, with this key, which is made when it is new.
    fn row(&mut self, key: RowKey<'_>) -> RowId;

    /// Returns whether it tells statements apart. Where it does not, decoders need not find them out.
    #[inline]
    fn wants_statements(&self) -> bool {
        true
    }

    /// Returns how many statements take memory, for a tally that holds them all; 0 for one that does not.
    #[inline]
    fn statements(&self) -> usize {
        0
    }

    /// Keeps so many of its statements, the largest by bytes, and adds up the others in [`OTHER`] of their rows. What is
    /// kept depends on all that was tallied so far.
    fn shed_statements(&mut self, keep: usize) {
        let _ = keep;
    }

    /// Returns the number that stands, since statements were shed last, for one that was given out before.
    fn renumbered(&self, row: RowId) -> RowId {
        row
    }

    /// An operation of `row` has closed: counts, totals and distributions take it in.
    fn operation(&mut self, row: RowId, operation: &Operation);

    /// As many operations as `times`, of which each came to the same. Their latencies are told apart, by [`Tally::latency`].
    fn operations(&mut self, row: RowId, operation: &Operation, times: u64) {
        (0..times).for_each(|_| self.operation(row, operation));
    }

    /// The latency of so many operations of `row`, in nanoseconds, for a tally that keeps latencies.
    fn latency(&mut self, row: RowId, latency_ns: u64, times: u64) {
        let _ = (row, latency_ns, times);
    }

    /// Returns whether it wants to hear of each operation by itself, and when it began, by [`Tally::each`].
    #[inline]
    fn wants_each(&self) -> bool {
        false
    }

    /// An operation of `row` has closed. This is told besides [`Tally::operation`] and [`Tally::operations`], to a tally that
    /// [wants it](Tally::wants_each): of each operation once, as soon as it is known, those of a connection in the order of their
    /// closing. `start_ns` is the capture time of the frame with the first byte of its request, or where that was not seen, with
    /// the last byte of its response, in Unix nanoseconds; `None` where neither was.
    #[inline]
    fn each(&mut self, row: RowId, operation: &Operation, start_ns: Option<u64>) {
        let _ = (row, operation, start_ns);
    }

    /// Bytes that arrived after their operation had closed: totals take them in, distributions do not.
    fn late(&mut self, row: RowId, side: Side, totals: &SideTotals);

    /// A selected connection has ended.
    fn connection(&mut self, summary: ConnectionSummary) {
        let _ = summary;
    }

    /// Returns whether it tells connections apart: then it hears by [`Tally::turn_to`] whose everything else is.
    #[inline]
    fn wants_ends(&self) -> bool {
        false
    }

    /// What is told next is of this connection.
    fn turn_to(&mut self, ends: &Ends) {
        let _ = ends;
    }

    /// That connection's ends are called by these names, client first: their addresses only stand for them.
    fn name_ends(&mut self, names: &[String; 2]) {
        let _ = names;
    }

    /// Client and server of that connection were taken for each other. Nothing was told of it yet.
    fn swap_ends(&mut self) {}

    /// Who wants to hear of each step on the way to an operation. Nobody, unless an implementation says otherwise: then the
    /// calls are compiled away, and with them whatever was prepared for them.
    #[inline]
    fn listener(&mut self) -> Option<&mut dyn Listener> {
        None
    }

    /// The listener is to hear of what comes from here on, or is not; for a tally that has one at times.
    fn listen(&mut self, is_listening: bool) {
        let _ = is_listening;
    }

    /// Returns whether it has a listener at times, and not throughout: what is like before is taken in by memory while it has none.
    #[inline]
    fn listens_at_times(&self) -> bool {
        false
    }

    /// Tells the listener of a step.
    #[inline]
    fn trace(&mut self, step: Trace<'_>) {
        if let Some(listener) = self.listener() {
            listener.hear(step);
        }
    }
}

/// Hears of each step on the way to an operation.
pub trait Listener {
    /// Takes a step in.
    fn hear(&mut self, step: Trace<'_>);
}
