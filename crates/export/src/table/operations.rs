//! The table `operations`: one row per operation, in batches of rows that share their common values.

use super::statements::StatementKey;
use super::{ExportField, WINDOW, integer, side_fields, text};
use foldhash::fast::FixedState;
use hashbrown::HashTable;
use overhead_model::{Outcome, SideTotals, enum_with};
use std::collections::HashMap;
use std::hash::BuildHasher;
use std::net::SocketAddr;
use std::sync::Arc;

/// Rows per batch, which is a row group. Each open file and each encoding thread holds one batch.
pub const ROWS: usize = 1 << 17;
/// Rows per batch of text, which takes a kilobyte or more per row.
const LINES: usize = 1 << 13;
/// Limit on distinct shapes, for traffic with hardly any equal operations.
const SHAPES: usize = 1 << 14;

enum_with! {
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    #[repr(u8)]
    pub enum RowEnding, name: &'static str {
        Ok = "ok",
        Error = "error",
        NoReply = "no_reply",
        Unanswered = "unanswered",
        Unsolicited = "unsolicited",
        /// Frames after the operation had closed, added up by connection and statement.
        Late = "late",
        /// Open when its window ended.
        Cut = "cut",
    }
}

impl From<Outcome> for RowEnding {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Ok => Self::Ok,
            Outcome::Error => Self::Error,
            Outcome::NoReply => Self::NoReply,
            Outcome::Unanswered => Self::Unanswered,
            Outcome::Unsolicited => Self::Unsolicited,
        }
    }
}

/// Values that operations often share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OperationShape {
    /// Index in the list of statements.
    pub statement: u32,
    pub ending: RowEnding,
    /// By direction.
    pub sides: [SideTotals; 2],
    pub round_trips: u32,
}

impl OperationShape {
    fn hash(&self) -> u64 {
        let [request, response] = &self.sides;
        let words = |side: &SideTotals| {
            let mut sum = side.frames;
            for (account, bytes) in side.amounts.iter() {
                sum = sum.rotate_left(7).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (bytes + account as u64);
            }
            sum
        };
        let key = (self.statement, self.ending as u8, self.round_trips, words(request), words(response));
        FixedState::default().hash_one(key)
    }
}

/// The columns of a connection.
#[derive(Debug)]
pub struct ConnectionPeers {
    /// Number in the capture.
    pub number: u64,
    /// Period of its window; `None` without sampling.
    pub window: Option<u64>,
    /// Client and server.
    pub names: [String; 2],
}

impl ConnectionPeers {
    /// Uses addresses in place of missing names.
    pub fn new((number, window): (u64, Option<u64>), ends: [SocketAddr; 2], names: Option<&[String; 2]>) -> Self {
        Self { number, window, names: names.cloned().unwrap_or_else(|| ends.map(|end| end.to_string())) }
    }
}

#[derive(Debug, Default)]
pub struct OperationBatch {
    starts_ns: Vec<Option<i64>>,
    latencies_ns: Vec<Option<i64>>,
    /// Per row: index of its shape and its connection.
    shape_of: Vec<u32>,
    peers_of: Vec<u32>,
    shapes: Vec<OperationShape>,
    keys: Vec<Arc<StatementKey>>,
    peers: Vec<Arc<ConnectionPeers>>,
    shape_index: HashTable<u32>,
    peers_index: HashMap<u64, u32, FixedState>,
    /// Indexes of recent shapes, by the low bits of the statement.
    recent: [u32; 16],
}

impl OperationBatch {
    pub fn is_full(&self, is_text: bool) -> bool {
        let rows = if is_text { LINES } else { ROWS };
        self.shape_of.len() >= rows || self.shapes.len() >= SHAPES
    }

    pub fn is_empty(&self) -> bool {
        self.shape_of.is_empty()
    }

    pub fn len(&self) -> usize {
        self.shape_of.len()
    }

    #[inline]
    pub fn push(
        &mut self,
        (start_ns, latency_ns): (u64, Option<u64>),
        shape: &OperationShape,
        key: &Arc<StatementKey>,
        peers: &Arc<ConnectionPeers>,
    ) {
        if self.shape_of.capacity() == 0 {
            self.reserve();
        }
        let shape = self.shape_place(shape, key);
        let peers = self.peers_place(peers);
        self.starts_ns.push(integer(start_ns));
        self.latencies_ns.push(latency_ns.and_then(integer));
        self.shape_of.push(shape);
        self.peers_of.push(peers);
    }

    fn reserve(&mut self) {
        self.starts_ns.reserve(ROWS);
        self.latencies_ns.reserve(ROWS);
        self.shape_of.reserve(ROWS);
        self.peers_of.reserve(ROWS);
    }

    #[inline]
    fn shape_place(&mut self, shape: &OperationShape, key: &Arc<StatementKey>) -> u32 {
        let recent = &mut self.recent[shape.statement as usize & 15];
        if self.shapes.get(*recent as usize) == Some(shape) {
            return *recent;
        }
        let hash = shape.hash();
        let known = self.shape_index.find(hash, |place| self.shapes.get(*place as usize) == Some(shape)).copied();
        *recent = known.unwrap_or_else(|| {
            let place = self.shapes.len() as u32;
            self.shapes.push(*shape);
            self.keys.push(Arc::clone(key));
            let shapes = &self.shapes;
            self.shape_index
                .insert_unique(hash, place, |place| shapes.get(*place as usize).map_or(0, OperationShape::hash));
            place
        });
        *recent
    }

    #[inline]
    fn peers_place(&mut self, peers: &Arc<ConnectionPeers>) -> u32 {
        if let Some(&last) = self.peers_of.last()
            && self.peers.get(last as usize).is_some_and(|known| known.number == peers.number)
        {
            return last;
        }
        let list = &mut self.peers;
        *self.peers_index.entry(peers.number).or_insert_with(|| {
            list.push(Arc::clone(peers));
            list.len() as u32 - 1
        })
    }

    /// Returns the shapes and the number of rows with each.
    pub fn counts(&self) -> impl Iterator<Item = (&OperationShape, u64)> {
        let mut counts = vec![0; self.shapes.len()];
        for &shape in &self.shape_of {
            if let Some(count) = counts.get_mut(shape as usize) {
                *count += 1;
            }
        }
        self.shapes.iter().zip(counts)
    }
}

const START: &str = "capture time of the frame with the request's first byte, Unix time; or, if none was seen, of the frame with the response's last byte; else of the connection's first frame";
const LATENCY: &str =
    "from the frame with the request's first byte to the frame with the response's last; absent unless both were seen";
const ROUND_TRIPS: &str = "times that the client waited for its server before it sent a part of the request; operations sent without waiting have none";
const OUTCOME: &str = "ok, error, no_reply, unanswered; unsolicited: a message that the server sent unasked; late: frames that came after their operations had closed, added up by connection and statement; cut: open when its window ended. Unsolicited and late rows are not operations, and cut ones are incomplete";

type OperationField = ExportField<OperationBatch>;

pub fn fields() -> Vec<OperationField> {
    let by_shape: fn(&OperationBatch) -> Option<&[u32]> = |batch| Some(&batch.shape_of);
    let by_peers: fn(&OperationBatch) -> Option<&[u32]> = |batch| Some(&batch.peers_of);
    let of_key = |name: &str, description: &str, of: fn(&StatementKey) -> &str| {
        OperationField::texts(name, description, move |batch| batch.keys.iter().map(|key| text(of(key))).collect())
            .indexed_by(by_shape)
    };
    let of_peers = |name: &str, description: &str, end: usize| {
        let name_of = move |peers: &Arc<ConnectionPeers>| peers.names.get(end).and_then(|name| text(name));
        OperationField::texts(name, description, move |batch| batch.peers.iter().map(name_of).collect())
            .indexed_by(by_peers)
    };
    let number_of = |name: &str, description: &str, of: fn(&ConnectionPeers) -> Option<i64>| {
        let values = move |batch: &OperationBatch| batch.peers.iter().map(|peers| of(peers)).collect();
        OperationField::integers(name, "", description, values).indexed_by(by_peers)
    };
    let mut fields = vec![
        OperationField::integers("start_ns", "ns", START, |batch| batch.starts_ns.clone()).varied(),
        OperationField::integers("latency_ns", "ns", LATENCY, |batch| batch.latencies_ns.clone()).nullable().varied(),
        number_of("connection_id", "number of the connection in its run, as in the table connections", |peers| {
            integer(peers.number)
        }),
        number_of("window", WINDOW, |peers| peers.window.and_then(integer)).nullable(),
        of_peers("client", "address:port of the client, or the name of its process", 0),
        of_peers("server", "address:port of the server, or the path of its socket", 1),
        of_key("protocol", "protocol of the connection", |key| key.protocol.name()),
        of_key("class", "workload, setup, background or unmatched", |key| key.class.name()),
        of_key("name", "name of the operation, as in the run record", |key| &key.name),
        of_key("via", "how it was sent; empty if there is only one way", |key| key.via),
        OperationField::integers(
            "statement_id",
            "",
            "statement, as in the table statements; the same in all runs and on all hosts",
            |batch| batch.keys.iter().map(|key| Some(key.id)).collect(),
        )
        .indexed_by(by_shape),
        OperationField::texts("outcome", OUTCOME, |batch| {
            batch.shapes.iter().map(|shape| text(shape.ending.name())).collect()
        })
        .indexed_by(by_shape),
        OperationField::integers("round_trips", "1", ROUND_TRIPS, |batch| {
            batch.shapes.iter().map(|shape| Some(shape.round_trips.into())).collect()
        })
        .indexed_by(by_shape),
    ];
    fields.extend(side_fields(|batch: &OperationBatch| &batch.shapes, |shape| &shape.sides, by_shape));
    fields
}
