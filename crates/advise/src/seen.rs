//! The observed traffic, as rules receive it.

use crate::finding::{ByteEvidence, Example, FindingSubject};
use overhead_dissect::explain::FieldPaths;
use overhead_model::idle::{IdlePurpose, is_idle};
use overhead_model::{Account, Amounts, Class, FrameFacts, Operation, Protocol, Side};
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::SocketAddr;

/// All fields of one name in a row.
#[derive(Clone, Copy, Debug, Default)]
pub struct FieldSum {
    pub bytes: u64,
    /// Number of fields.
    pub times: u64,
    /// Operations with at least one.
    pub operations: u64,
    /// The first of them.
    pub example: Option<Example>,
}

/// Direction, account and number of the name.
pub type SeenFieldKey = (Side, Account, u32);

/// Operations of one protocol, class, name and way of sending; of the workload, also of one statement.
#[derive(Clone, Debug)]
pub struct SeenRow {
    /// Position in [`SeenTraffic::rows`].
    pub number: usize,
    pub protocol: Protocol,
    pub class: Class,
    pub name: String,
    /// How they were sent.
    pub via: &'static str,
    /// Without literals; empty outside the workload, without statements, or if there are too many.
    pub statement: String,
    /// Closed operations.
    pub count: u64,
    /// By side, including late frames.
    pub amounts: [Amounts; 2],
    /// Sum of the known latencies, and their number.
    pub latency_ns: (u64, u64),
    pub example: Option<Example>,
    pub fields: BTreeMap<SeenFieldKey, FieldSum>,
}

impl From<&SeenRow> for FindingSubject {
    fn from(row: &SeenRow) -> Self {
        let SeenRow { protocol, class, name, via, statement, .. } = row;
        let (name, via, statement) = (name.clone(), (*via).to_owned(), statement.clone());
        Self { protocol: protocol.name(), class: class.name(), name, via, statement }
    }
}

impl SeenRow {
    /// Returns the bytes on the wire of both sides.
    pub fn wire(&self) -> u64 {
        self.amounts.iter().map(Amounts::total).sum()
    }

    /// Returns whether its operations only read.
    pub fn is_read(&self) -> bool {
        let of_resp = ["GET", "MGET", "HGET", "HGETALL", "HMGET", "EXISTS"];
        let of_others = ["SELECT", "find", "aggregate", "count", "get", "gets", "mg", "bin get"];
        let is_command = of_resp.contains(&&*self.name) || of_others.contains(&&*self.name);
        is_command || self.name.starts_with("GET /")
    }

    /// Returns why it is sent without a request of the application; `None` if one may have asked for it.
    pub fn idle_purpose(&self) -> Option<IdlePurpose> {
        IdlePurpose::find(self.class, &self.name, &self.statement)
    }

    /// Returns whether the application sent it.
    pub fn is_workload(&self) -> bool {
        self.class == Class::Workload
    }
}

/// Sums of several fields.
#[derive(Clone, Debug, Default)]
pub struct FieldGroup {
    /// By side.
    pub amounts: [Amounts; 2],
    /// Number of fields.
    pub times: u64,
    /// Operations with the most frequent of the fields.
    pub operations: u64,
    /// First operation with one of them.
    pub example: Option<Example>,
    pub evidence: Vec<ByteEvidence>,
}

impl FieldGroup {
    pub fn bytes(&self) -> u64 {
        self.amounts.iter().map(Amounts::total).sum()
    }
}

#[derive(Debug, Default)]
pub struct SeenTraffic {
    pub rows: Vec<SeenRow>,
    /// Field names.
    pub paths: FieldPaths,
    /// Largest payload of any frame.
    pub largest_payload: u64,
    /// Operations that are in no row.
    pub unlisted: u64,
    /// Closed connections.
    pub connections: u64,
    /// The servers as they name themselves.
    pub servers: BTreeSet<String>,
    /// Times of the first and the last frame, Unix nanoseconds.
    pub span: Option<(u64, u64)>,
}

impl SeenTraffic {
    /// Returns the bytes of all selected connections.
    pub fn wire(&self) -> u64 {
        self.rows.iter().map(SeenRow::wire).sum()
    }

    /// Returns the seconds that the capture lasted if no application did anything in that time; `None` if one did, or if it was too
    /// short for a rate.
    pub fn idle_seconds(&self) -> Option<f64> {
        let (first, last) = self.span?;
        let seconds = last.saturating_sub(first) as f64 / 1e9;
        let workload = self.rows.iter().filter(|row| row.is_workload());
        let workload = workload.map(|row| (row.idle_purpose(), row.count));
        is_idle(seconds, self.connections, workload).then_some(seconds)
    }

    /// Returns the total latency of the application's operations.
    pub fn waited_ns(&self) -> u64 {
        self.rows.iter().filter(|row| row.is_workload()).map(|row| row.latency_ns.0).sum()
    }

    /// Returns the sum of the matching fields of a row.
    pub fn group(&self, row: &SeenRow, fits: impl Fn(Side, &str) -> bool) -> FieldGroup {
        let mut group = FieldGroup::default();
        for (&(side, account, path), sum) in &row.fields {
            let field = self.paths.name(path);
            if !fits(side, field) {
                continue;
            }
            group.amounts[side as usize][account] += sum.bytes;
            group.times += sum.times;
            group.operations = group.operations.max(sum.operations);
            if group.example.is_none_or(|first| sum.example.is_some_and(|this| this.operation < first.operation)) {
                group.example = sum.example;
            }
            group.evidence.push(ByteEvidence { side, account, field: field.to_owned(), bytes: sum.bytes });
        }
        group.evidence.sort_by_key(|evidence| std::cmp::Reverse(evidence.bytes));
        group
    }

    /// Returns how often a field occurs in a row.
    pub fn times(&self, row: &SeenRow, side: Side, name: &str) -> u64 {
        let is_this = |(key, _): &(&SeenFieldKey, &FieldSum)| key.0 == side && self.paths.name(key.2) == name;
        row.fields.iter().filter(is_this).map(|(_, sum)| sum.times).sum()
    }
}

/// Payload of an operation in one frame.
#[derive(Clone, Copy, Debug)]
pub struct SeenPiece {
    pub frame: u64,
    /// Capture time, Unix nanoseconds.
    pub time_ns: u64,
    /// Bytes of the operation.
    pub len: u64,
    /// All payload of the frame.
    pub payload: u64,
    /// Header bytes: link, IP, TCP.
    pub headers: [u64; 3],
    /// Time of the last frame without payload between this frame and the one with payload before it; `None` if there is none.
    pub bare_ns: Option<u64>,
}

/// One direction of a closed operation.
#[derive(Clone, Debug, Default)]
pub struct SeenDirection {
    /// The first ones, up to [`crate::limits::PIECES`].
    pub pieces: Vec<SeenPiece>,
    pub last: Option<SeenPiece>,
    /// Number of pieces.
    pub count: u64,
    /// Payload bytes.
    pub len: u64,
    /// In clear; empty if no rule needs it, it is too long, or some bytes are unknown.
    pub message: Vec<u8>,
    /// Digest of the request's text, names, keys and values; `None` if some bytes are unknown.
    pub digest: Option<u64>,
    /// Digest of only the text or command.
    pub text_digest: Option<u64>,
}

/// A closed operation.
#[derive(Debug)]
pub struct SeenOperation<'a> {
    pub row: &'a SeenRow,
    pub connection: u64,
    pub example: Example,
    /// From the ledger.
    pub operation: &'a Operation,
    /// The shortest latency on the connection so far: no more of this operation's latency is the network's. 0 if unknown.
    pub round_trip_ns: u64,
    /// Operations before this one on the connection, each within 10 ms after the one before it.
    pub in_a_row: u64,
    /// By side.
    pub directions: &'a [SeenDirection; 2],
    pub fields: &'a [(SeenFieldKey, FieldSum)],
    pub paths: &'a FieldPaths,
}

impl SeenOperation<'_> {
    /// Returns the bytes by side, and the number of matching fields.
    pub fn group(&self, fits: impl Fn(Side, &str) -> bool) -> ([Amounts; 2], u64) {
        let (mut amounts, mut times) = ([Amounts::ZERO; 2], 0);
        for ((side, account, path), sum) in self.fields {
            if self.paths.names.get(*path as usize).is_some_and(|name| fits(*side, name)) {
                amounts[*side as usize][*account] += sum.bytes;
                times += sum.times;
            }
        }
        (amounts, times)
    }

    /// Returns a digest of the statement without literals if known, else of its text or command.
    pub fn statement_digest(&self) -> Option<u64> {
        if self.row.statement.is_empty() {
            return self.directions[0].text_digest;
        }
        let mut hasher = DefaultHasher::new();
        self.row.statement.hash(&mut hasher);
        Some(hasher.finish())
    }

    /// Returns when the request started, Unix nanoseconds.
    pub fn begun_ns(&self) -> Option<u64> {
        self.directions[0].pieces.first().map(|piece| piece.time_ns)
    }

    /// Returns when the answer was complete, Unix nanoseconds.
    pub fn ended_ns(&self) -> Option<u64> {
        self.directions[1].last.map(|piece| piece.time_ns)
    }
}

/// A decoded field.
#[derive(Debug)]
pub struct SeenField<'a> {
    pub connection: u64,
    /// Number in the capture.
    pub operation: u64,
    pub side: Side,
    /// Name after its groups.
    pub path: &'a str,
    pub len: u64,
    /// `None` if some are unknown.
    pub bytes: Option<&'a [u8]>,
}

#[derive(Clone, Copy, Debug)]
pub struct SeenFrame<'a> {
    pub facts: &'a FrameFacts,
    /// Index of the sending end, in order of appearance.
    pub end: usize,
    /// Last operation started on the connection.
    pub latest: Option<Example>,
}

/// Bytes of a frame that are not new payload.
#[derive(Clone, Copy, Debug)]
pub struct SeenCharge {
    pub connection: u64,
    pub frame: u64,
    pub account: Account,
    pub side: Side,
    pub bytes: u64,
    /// Time since the previous frame with payload on the connection.
    pub since_ns: Option<u64>,
    /// The charged operation; `None` for `CONNECT` and closed ones.
    pub operation: Option<Example>,
    /// Row and example of the last closed operation on the connection.
    pub closed: Option<(usize, Example)>,
}

/// Sums of one row on one connection.
#[derive(Clone, Copy, Debug, Default)]
pub struct RowOnConnection {
    /// The application sent these operations.
    pub is_workload: bool,
    pub count: u64,
    /// By side.
    pub amounts: [Amounts; 2],
}

/// A closed connection.
#[derive(Debug)]
pub struct ClosedConnection<'a> {
    pub number: u64,
    pub client: SocketAddr,
    pub server: SocketAddr,
    pub protocol: Protocol,
    /// From the first frame to the application's first request.
    pub ready_ns: Option<u64>,
    /// The first operation.
    pub example: Option<Example>,
    /// By row number.
    pub rows: &'a BTreeMap<usize, RowOnConnection>,
}

impl ClosedConnection<'_> {
    /// Returns the number of the application's operations.
    pub fn workload(&self) -> u64 {
        self.rows.values().filter(|on| on.is_workload).map(|on| on.count).sum()
    }
}
