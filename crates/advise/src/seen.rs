//! What has been seen of the traffic, as rules are given it.

use crate::finding::{Evidence, Example, Subject};
use overhead_model::{Account, Amounts, Class, Operation, Protocol, Side};
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::SocketAddr;

/// Fields of one name, in all operations of a row.
#[derive(Clone, Copy, Debug, Default)]
pub struct FieldSum {
    /// Bytes.
    pub bytes: u64,
    /// How many such fields.
    pub times: u64,
    /// Operations that have at least one.
    pub operations: u64,
    /// The first of these.
    pub example: Option<Example>,
}

/// Which field: direction, account, and the number of its name.
pub type FieldKey = (Side, Account, u32);

/// Operations of one protocol, class, name and way of sending.
#[derive(Clone, Debug)]
pub struct Row {
    /// Its protocol.
    pub protocol: Protocol,
    /// Its class.
    pub class: Class,
    /// Its name.
    pub name: String,
    /// The way of sending.
    pub via: &'static str,
    /// Closed operations.
    pub count: u64,
    /// Those answered by an error.
    pub errors: u64,
    /// Bytes by side, those that came late included.
    pub amounts: [Amounts; 2],
    /// Frames touched by side.
    pub frames: [u64; 2],
    /// Sum of the latencies that are known, in nanoseconds, and of how many operations.
    pub latency_ns: (u64, u64),
    /// The first operation.
    pub example: Option<Example>,
    /// Its fields.
    pub fields: BTreeMap<FieldKey, FieldSum>,
}

impl Row {
    /// Returns what a finding calls it.
    pub fn subject(&self) -> Subject {
        let Self { protocol, class, name, via, .. } = self;
        Subject { protocol: protocol.name(), class: class.name(), name: name.clone(), via: (*via).to_owned() }
    }

    /// Returns its bytes on the wire, both sides.
    pub fn wire(&self) -> u64 {
        self.amounts.iter().map(Amounts::total).sum()
    }

    /// Returns whether its operations read, and change nothing.
    pub fn is_read(&self) -> bool {
        const READS: [&str; 14] = [
            "SELECT",
            "GET",
            "MGET",
            "HGET",
            "HGETALL",
            "HMGET",
            "EXISTS",
            "find",
            "aggregate",
            "get",
            "gets",
            "mg",
            "bin get",
            "count",
        ];
        READS.contains(&self.name.as_str()) || self.name.starts_with("GET /")
    }

    /// Returns whether the application asked for it.
    pub fn is_workload(&self) -> bool {
        self.class == Class::Workload
    }
}

/// Fields taken together.
#[derive(Clone, Debug, Default)]
pub struct Group {
    /// Their bytes, by side.
    pub amounts: [Amounts; 2],
    /// How many fields.
    pub times: u64,
    /// Operations that have the field that most have.
    pub operations: u64,
    /// The first operation that has one.
    pub example: Option<Example>,
    /// Each of them.
    pub evidence: Vec<Evidence>,
}

impl Group {
    /// Returns the bytes of both sides.
    pub fn bytes(&self) -> u64 {
        self.amounts.iter().map(Amounts::total).sum()
    }
}

/// Everything that was seen.
#[derive(Debug, Default)]
pub struct Seen {
    /// By number.
    pub rows: Vec<Row>,
    /// Names of fields, by number.
    pub paths: Vec<String>,
    /// The largest payload of a frame.
    pub largest_payload: u64,
    /// Operations of rows beyond the limit.
    pub unlisted: u64,
}

impl Seen {
    /// Returns the bytes of all selected connections.
    pub fn wire(&self) -> u64 {
        self.rows.iter().map(Row::wire).sum()
    }

    /// Returns the time that the application waited for answers, in nanoseconds, added up over operations.
    pub fn waited_ns(&self) -> u64 {
        self.rows.iter().filter(|row| row.is_workload()).map(|row| row.latency_ns.0).sum()
    }

    /// Returns the rows of what the application asked for, with their numbers.
    pub fn workload(&self) -> impl Iterator<Item = (usize, &Row)> {
        self.rows.iter().enumerate().filter(|(_, row)| row.is_workload() && row.count > 0)
    }

    /// Returns the name of a field.
    pub fn path(&self, number: u32) -> &str {
        self.paths.get(number as usize).map_or("(others)", String::as_str)
    }

    /// Returns the fields of a row that fit, taken together.
    pub fn group(&self, row: &Row, fits: impl Fn(Side, &str) -> bool) -> Group {
        let mut group = Group::default();
        for (&(side, account, path), sum) in &row.fields {
            let field = self.path(path);
            if !fits(side, field) {
                continue;
            }
            group.amounts[side as usize][account] += sum.bytes;
            group.times += sum.times;
            group.operations = group.operations.max(sum.operations);
            if group.example.is_none_or(|first| sum.example.is_some_and(|this| this.operation < first.operation)) {
                group.example = sum.example;
            }
            group.evidence.push(Evidence { side, account, field: field.to_owned(), bytes: sum.bytes });
        }
        group.evidence.sort_by_key(|evidence| std::cmp::Reverse(evidence.bytes));
        group
    }

    /// Returns how often a field occurs in a row.
    pub fn times(&self, row: &Row, side: Side, name: &str) -> u64 {
        let is_this = |(key, _): &(&FieldKey, &FieldSum)| key.0 == side && self.path(key.2) == name;
        row.fields.iter().filter(is_this).map(|(_, sum)| sum.times).sum()
    }
}

/// Payload of an operation in one frame.
#[derive(Clone, Copy, Debug)]
pub struct Piece {
    /// The frame.
    pub frame: u64,
    /// When it was captured, Unix nanoseconds.
    pub time_ns: u64,
    /// Bytes of the operation in it.
    pub len: u64,
    /// Payload of the frame.
    pub payload: u64,
    /// Bytes of its headers: link, IP, TCP.
    pub headers: [u64; 3],
    /// When the last frame without payload before it, and after the frame with payload before, was captured.
    pub bare_ns: Option<u64>,
}

/// One direction of a closed operation.
#[derive(Clone, Debug, Default)]
pub struct Direction {
    /// Its first pieces, up to [`crate::limits::PIECES`].
    pub pieces: Vec<Piece>,
    /// The last piece.
    pub last: Option<Piece>,
    /// How many there are.
    pub count: u64,
    /// Bytes of payload.
    pub len: u64,
    /// The message in clear; empty where no rule wants it, it is too long, or not all of it is known.
    pub message: Vec<u8>,
    /// Digest of the bytes that say what is asked: text, names, keys and values; `None` where not all are known.
    pub digest: Option<u64>,
    /// Digest of the text or command alone.
    pub text: Option<u64>,
}

/// An operation that has closed.
#[derive(Debug)]
pub struct Closed<'a> {
    /// The number of its row, and the row.
    pub row_number: usize,
    /// See `row_number`.
    pub row: &'a Row,
    /// The statement behind it, as labelled; empty where there is none.
    pub statement: &'a str,
    /// The number of its connection.
    pub connection: u64,
    /// Where to find it.
    pub example: Example,
    /// What the ledger made of it.
    pub operation: &'a Operation,
    /// By side.
    pub directions: &'a [Direction; 2],
    /// Its fields.
    pub fields: &'a [(FieldKey, FieldSum)],
    /// Names of fields, by number.
    pub paths: &'a [String],
}

impl Closed<'_> {
    /// Returns the bytes, by side, and the number of its fields that fit.
    pub fn group(&self, fits: impl Fn(Side, &str) -> bool) -> ([Amounts; 2], u64) {
        let (mut amounts, mut times) = ([Amounts::ZERO; 2], 0);
        for ((side, account, path), sum) in self.fields {
            if self.paths.get(*path as usize).is_some_and(|name| fits(*side, name)) {
                amounts[*side as usize][*account] += sum.bytes;
                times += sum.times;
            }
        }
        (amounts, times)
    }

    /// Returns what tells its statement from others: a digest of its text without literals where that is known, or else of
    /// its text or command as it is.
    pub fn text(&self) -> Option<u64> {
        if self.statement.is_empty() {
            return self.directions[0].text;
        }
        let mut hasher = DefaultHasher::new();
        self.statement.hash(&mut hasher);
        Some(hasher.finish())
    }

    /// Returns when its request began, Unix nanoseconds.
    pub fn begun_ns(&self) -> Option<u64> {
        self.directions[0].pieces.first().map(|piece| piece.time_ns)
    }

    /// Returns when its answer was complete, Unix nanoseconds.
    pub fn ended_ns(&self) -> Option<u64> {
        self.directions[1].last.map(|piece| piece.time_ns)
    }
}

/// A field as it was decoded.
#[derive(Debug)]
pub struct SeenField<'a> {
    /// The number of its connection.
    pub connection: u64,
    /// The number of its operation in the capture.
    pub operation: u64,
    /// Its direction.
    pub side: Side,
    /// Its name, groups first.
    pub path: &'a str,
    /// Its length in bytes.
    pub len: u64,
    /// Its bytes; `None` where not all are known.
    pub bytes: Option<&'a [u8]>,
}

/// A frame with its direction.
#[derive(Clone, Copy, Debug)]
pub struct SeenFrame {
    /// The number of its connection.
    pub connection: u64,
    /// The frame.
    pub frame: u64,
    /// When it was captured, Unix nanoseconds.
    pub time_ns: u64,
    /// Payload.
    pub payload: u64,
    /// The window field.
    pub window: u16,
    /// `RST` or `FIN` is set.
    pub closes: bool,
    /// `SYN` is set.
    pub opens: bool,
    /// Which of the two ends sent it, in order of appearance.
    pub end: usize,
    /// The operation that opened last on the connection.
    pub latest: Option<Example>,
}

/// Bytes of a frame that are not new payload.
#[derive(Clone, Copy, Debug)]
pub struct SeenCharge {
    /// The number of its connection.
    pub connection: u64,
    /// The frame.
    pub frame: u64,
    /// The account.
    pub account: Account,
    /// Its direction.
    pub side: Side,
    /// How many bytes.
    pub bytes: u64,
    /// Since the frame with payload before it on this connection; `None` where there was none.
    pub since_ns: Option<u64>,
    /// The operation that it was charged to; `None` for `CONNECT`, and for one that has closed.
    pub operation: Option<Example>,
    /// The row of the operation that closed last on the connection, and where to find that.
    pub closed: Option<(usize, Example)>,
}

/// What operations of one row came to on one connection.
#[derive(Clone, Copy, Debug, Default)]
pub struct OnConnection {
    /// The application asked for them.
    pub is_workload: bool,
    /// How many.
    pub count: u64,
    /// Their bytes, by side.
    pub amounts: [Amounts; 2],
}

/// A connection that has ended.
#[derive(Debug)]
pub struct SeenConnection<'a> {
    /// Its number.
    pub number: u64,
    /// Address of the client.
    pub client: SocketAddr,
    /// Address of the server.
    pub server: SocketAddr,
    /// Its protocol.
    pub protocol: Protocol,
    /// TLS records were seen.
    pub tls: bool,
    /// From its first frame to its last, nanoseconds.
    pub lasted_ns: u64,
    /// From its first frame to the first request of the application, nanoseconds.
    pub ready_ns: Option<u64>,
    /// The first operation on it.
    pub example: Option<Example>,
    /// By number of the row.
    pub rows: &'a BTreeMap<usize, OnConnection>,
}

impl SeenConnection<'_> {
    /// Returns how many operations of the application it carried.
    pub fn workload(&self) -> u64 {
        self.rows.values().filter(|on| on.is_workload).map(|on| on.count).sum()
    }
}
