//! The table `operations`: one row per operation, in batches of rows that share what most of them have alike.

use super::statements::Key;
use super::{Field, Kind, Values, WINDOW, column, integer, of_sides, text};
use crate::encode::Form;
use foldhash::fast::FixedState;
use hashbrown::HashTable;
use overhead_model::{Outcome, SideTotals};
use std::collections::HashMap;
use std::hash::BuildHasher;
use std::net::SocketAddr;
use std::sync::Arc;

/// Rows of a batch, which is a row group of a file: so much is held at once of a file, and by each thread that encodes.
pub const ROWS: usize = 1 << 17;
/// The same of text, whose rows are a kilobyte and more until they are written.
const LINES: usize = 1 << 13;
/// Different operations of a batch, where hardly any two come to the same.
const SHAPES: usize = 1 << 14;

/// How a row came to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Ending {
    /// See [`Outcome::Ok`].
    Ok,
    /// See [`Outcome::Error`].
    Error,
    /// See [`Outcome::NoReply`].
    NoReply,
    /// See [`Outcome::Unanswered`].
    Unanswered,
    /// See [`Outcome::Unsolicited`].
    Unsolicited,
    /// Frames that came after their operations had closed, of a connection and statement together.
    Late,
    /// Of a capture in windows: the end of one came before that of the operation.
    Cut,
}

impl Ending {
    /// Returns its name in the table.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Error => "error",
            Self::NoReply => "no_reply",
            Self::Unanswered => "unanswered",
            Self::Unsolicited => "unsolicited",
            Self::Late => "late",
            Self::Cut => "cut",
        }
    }
}

impl From<Outcome> for Ending {
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

/// What operations may have alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Place of its statement in the list of them.
    pub statement: u32,
    /// How it ended.
    pub ending: Ending,
    /// What each direction came to.
    pub sides: [SideTotals; 2],
}

impl Shape {
    fn hash(&self) -> u64 {
        let [request, response] = &self.sides;
        let words = |side: &SideTotals| {
            let mut sum = side.frames;
            for (account, bytes) in side.amounts.iter() {
                sum = sum.rotate_left(7).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (bytes + account as u64);
            }
            sum
        };
        FixedState::default().hash_one((self.statement, self.ending as u8, words(request), words(response)))
    }
}

/// A connection, as its operations name it.
#[derive(Debug)]
pub struct Peers {
    /// Its number in the capture.
    pub number: u64,
    /// The period whose window it is of; `None` where all of the time was captured.
    pub window: Option<u64>,
    /// How client and server are called.
    pub names: [String; 2],
}

impl Peers {
    /// Returns those of addresses, where they have no names.
    pub fn new((number, window): (u64, Option<u64>), ends: [SocketAddr; 2], names: Option<&[String; 2]>) -> Self {
        Self { number, window, names: names.cloned().unwrap_or_else(|| ends.map(|end| end.to_string())) }
    }
}

/// Rows that are written together.
#[derive(Debug, Default)]
pub struct Batch {
    starts_ns: Vec<Option<i64>>,
    latencies_ns: Vec<Option<i64>>,
    /// Of each row, the place of its shape and of its connection.
    shape_of: Vec<u32>,
    peers_of: Vec<u32>,
    shapes: Vec<Shape>,
    keys: Vec<Arc<Key>>,
    peers: Vec<Arc<Peers>>,
    shape_index: HashTable<u32>,
    peers_index: HashMap<u64, u32, FixedState>,
    /// Places of the shapes found last, by the statements' places.
    recent: [u32; 16],
}

impl Batch {
    /// Returns whether it is to be written in this form.
    pub fn is_full(&self, form: Form) -> bool {
        let rows = if form == Form::Parquet { ROWS } else { LINES };
        self.shape_of.len() >= rows || self.shapes.len() >= SHAPES
    }

    /// Returns whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.shape_of.is_empty()
    }

    /// Returns how many rows it has.
    pub fn len(&self) -> usize {
        self.shape_of.len()
    }

    /// Adds a row.
    #[inline]
    pub fn push(
        &mut self,
        (start_ns, latency_ns): (u64, Option<u64>),
        shape: &Shape,
        key: &Arc<Key>,
        peers: &Arc<Peers>,
    ) {
        if self.shape_of.capacity() == 0 {
            self.reserve();
        }
        let shape = self.shape(shape, key);
        let peers = self.peer(peers);
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
    fn shape(&mut self, shape: &Shape, key: &Arc<Key>) -> u32 {
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
            self.shape_index.insert_unique(hash, place, |place| shapes.get(*place as usize).map_or(0, Shape::hash));
            place
        });
        *recent
    }

    #[inline]
    fn peer(&mut self, peers: &Arc<Peers>) -> u32 {
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

    /// Returns the shapes, and how many rows have each, and their latencies added up by nobody.
    pub fn counts(&self) -> impl Iterator<Item = (&Shape, u64)> {
        let mut counts = vec![0; self.shapes.len()];
        for &shape in &self.shape_of {
            if let Some(count) = counts.get_mut(shape as usize) {
                *count += 1;
            }
        }
        self.shapes.iter().zip(counts)
    }
}

/// Returns the columns.
#[expect(clippy::too_many_lines, reason = "a list")]
pub fn fields() -> Vec<Field<Batch>> {
    let by_shape: fn(&Batch) -> Option<&[u32]> = |batch| Some(&batch.shape_of);
    let by_peers: fn(&Batch) -> Option<&[u32]> = |batch| Some(&batch.peers_of);
    let of_key = |name: &str, description: &str, of: fn(&Key) -> &str| {
        let values = move |batch: &Batch| Values::Texts(batch.keys.iter().map(|key| text(of(key))).collect());
        Field::new(column(name, Kind::Text, "", description), values).by(by_shape)
    };
    let of_peers = |name: &str, description: &str, end: usize| {
        let values = move |batch: &Batch| {
            Values::Texts(batch.peers.iter().map(|peers| peers.names.get(end).and_then(|name| text(name))).collect())
        };
        Field::new(column(name, Kind::Text, "", description), values).by(by_peers)
    };
    let mut fields = vec![
        Field::new(
            column(
                "start_ns",
                Kind::Integer,
                "ns",
                "capture time of the frame with the request's first byte, Unix time; where none was seen, of the frame with the response's last byte; else of the connection's first frame",
            ),
            |batch: &Batch| Values::Integers(batch.starts_ns.clone()),
        )
        .varied(),
        Field::new(
            column(
                "latency_ns",
                Kind::Integer,
                "ns",
                "from the frame with the request's first byte to the frame with the response's last; absent unless both were seen",
            ),
            |batch: &Batch| Values::Integers(batch.latencies_ns.clone()),
        )
        .nullable()
        .varied(),
        Field::new(
            column("connection_id", Kind::Integer, "", "number of the connection in its run, as in the table connections"),
            |batch: &Batch| Values::Integers(batch.peers.iter().map(|peers| integer(peers.number)).collect()),
        )
        .by(by_peers),
        Field::new(column("window", Kind::Integer, "", WINDOW), |batch: &Batch| {
            Values::Integers(batch.peers.iter().map(|peers| peers.window.and_then(integer)).collect())
        })
        .by(by_peers)
        .nullable(),
        of_peers("client", "address:port of the client, or the name of its process", 0),
        of_peers("server", "address:port of the server, or the path of its socket", 1),
        of_key("protocol", "protocol of the connection", |key| key.protocol.name()),
        of_key("class", "workload, setup, background or unmatched", |key| key.class.name()),
        of_key("name", "name of the operation, as in the run record", |key| &key.name),
        of_key("via", "how it was sent; empty where there is only one way", |key| key.via),
        Field::new(
            column("statement_id", Kind::Integer, "", "statement, as in the table statements; the same in all runs and on all hosts"),
            |batch: &Batch| Values::Integers(batch.keys.iter().map(|key| Some(key.id)).collect()),
        )
        .by(by_shape),
        Field::new(
            column(
                "outcome",
                Kind::Text,
                "",
                "ok, error, no_reply, unanswered; unsolicited: a message that the server sent of its own accord; late: frames that came after their operations had closed, added up by connection and statement; cut: open when its window ended. Unsolicited and late are no operations, and cut ones are not whole",
            ),
            |batch: &Batch| Values::Texts(batch.shapes.iter().map(|shape| text(shape.ending.name())).collect()),
        )
        .by(by_shape),
    ];
    fields.extend(of_sides(|batch: &Batch| &batch.shapes, |shape| &shape.sides, by_shape));
    fields
}
