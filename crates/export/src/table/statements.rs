//! The table `statements`, and the list of statements that operations refer to.

use super::operations::{Batch, Ending, Shape};
use super::{Column, Field, Kind, Values, column, integer, of_sides, text};
use foldhash::fast::FixedState;
use hashbrown::HashTable;
use overhead_model::{Class, OTHER, Protocol, RowKey, SideTotals};
use sha2::{Digest, Sha256};
use std::hash::BuildHasher;
use std::sync::Arc;

/// Statements that are told apart: with texts of a kilobyte they take 24 MiB. Those that come later are `(other)` of their row.
const STATEMENTS: usize = 1 << 14;
/// With those, beyond which names are `(other)`, too.
const ROWS: usize = STATEMENTS + (1 << 11);

/// A statement of a row of the record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    /// What tells it from all others, wherever they are from: of the SHA-256 of protocol, class, name, via and text, with a zero
    /// byte after each, the first 63 bits.
    pub id: i64,
    /// Protocol.
    pub protocol: Protocol,
    /// Class.
    pub class: Class,
    /// Name of the operations.
    pub name: String,
    /// How they were sent.
    pub via: &'static str,
    /// Text without user data; empty where there is none.
    pub text: String,
}

impl Key {
    fn of(key: RowKey<'_>) -> Self {
        let mut hash = Sha256::new();
        for part in [key.protocol.name(), key.class.name(), key.name, key.via, key.statement] {
            hash.update(part.as_bytes());
            hash.update([0]);
        }
        let first = hash.finalize().first_chunk().map_or(0, |first| u64::from_be_bytes(*first));
        Self {
            id: (first >> 1).cast_signed(),
            protocol: key.protocol,
            class: key.class,
            name: key.name.to_owned(),
            via: key.via,
            text: key.statement.to_owned(),
        }
    }

    fn row_key(&self) -> RowKey<'_> {
        let Self { protocol, class, ref name, via, ref text, .. } = *self;
        RowKey { protocol, class, name, via, statement: text }
    }
}

/// What the operations of a statement come to.
#[derive(Clone, Debug)]
pub struct StatementSums {
    /// The statement.
    pub key: Arc<Key>,
    /// Rows by their endings.
    counts: [u64; 7],
    /// What each direction comes to.
    pub sides: [SideTotals; 2],
}

impl StatementSums {
    fn count(&self, endings: &[Ending]) -> Option<i64> {
        integer(endings.iter().filter_map(|ending| self.counts.get(*ending as usize)).sum())
    }
}

/// All statements of a run.
#[derive(Debug, Default)]
pub struct Statements {
    list: Vec<StatementSums>,
    index: HashTable<u32>,
    hasher: FixedState,
}

impl Statements {
    /// Returns the place of a statement, which is made where it is new.
    pub fn place(&mut self, key: RowKey<'_>) -> u32 {
        let hash = self.hasher.hash_one(key);
        let is_like = |place: &u32| self.list.get(*place as usize).is_some_and(|known| known.key.row_key() == key);
        if let Some(&place) = self.index.find(hash, is_like) {
            return place;
        }
        if self.list.len() >= STATEMENTS && key.statement != OTHER {
            return self.place(RowKey { statement: OTHER, ..key });
        }
        if self.list.len() >= ROWS && key.name != OTHER {
            return self.place(RowKey { name: OTHER, via: "", statement: OTHER, ..key });
        }
        let place = self.list.len() as u32;
        self.list.push(StatementSums { key: Arc::new(Key::of(key)), counts: [0; 7], sides: Default::default() });
        let (list, hasher) = (&self.list, &self.hasher);
        let rehash = |place: &u32| list.get(*place as usize).map_or(0, |known| hasher.hash_one(known.key.row_key()));
        self.index.insert_unique(hash, place, rehash);
        place
    }

    /// Returns the statement at a place.
    #[inline]
    pub fn key(&self, place: u32) -> Option<&Arc<Key>> {
        self.list.get(place as usize).map(|sums| &sums.key)
    }

    /// Adds up what is in a batch.
    pub fn add(&mut self, batch: &Batch) {
        for (Shape { statement, ending, sides }, times) in batch.counts() {
            let Some(sums) = self.list.get_mut(*statement as usize) else { continue };
            sums.counts[*ending as usize] += times;
            for (sum, side) in sums.sides.iter_mut().zip(sides) {
                sum.frames += side.frames * times;
                sum.amounts.add_times(&side.amounts, times);
            }
        }
    }

    /// Returns all of them that have rows, in order of their ids.
    pub fn into_sums(self) -> Vec<StatementSums> {
        let mut list = self.list;
        list.retain(|sums| sums.counts.iter().any(|count| *count > 0));
        list.sort_by_key(|sums| sums.key.id);
        list
    }
}

/// Returns the columns.
pub fn fields() -> Vec<Field<Vec<StatementSums>>> {
    fn integers(
        column: Column,
        of: impl Fn(&StatementSums) -> Option<i64> + Send + Sync + 'static,
    ) -> Field<Vec<StatementSums>> {
        Field::new(column, move |list: &Vec<StatementSums>| Values::Integers(list.iter().map(&of).collect()))
    }
    let texts = |name: &str, description: &str, of: fn(&Key) -> &str| {
        let values =
            move |list: &Vec<StatementSums>| Values::Texts(list.iter().map(|sums| text(of(&sums.key))).collect());
        Field::new(column(name, Kind::Text, "", description), values)
    };
    let counts = |name: &str, description: &str, endings: &'static [Ending]| {
        integers(column(name, Kind::Integer, "1", description), move |sums| sums.count(endings))
    };
    let mut fields = vec![
        integers(
            column(
                "statement_id",
                Kind::Integer,
                "",
                "the first 63 bits of the SHA-256 of protocol, class, name, via and text, each followed by a zero byte: the same in all runs",
            ),
            |sums| Some(sums.key.id),
        ),
        texts("protocol", "protocol", |key| key.protocol.name()),
        texts("class", "workload, setup, background or unmatched", |key| key.class.name()),
        texts("name", "name of the operations", |key| &key.name),
        texts("via", "how they were sent; empty where there is only one way", |key| key.via),
        texts("text", "the statement as in the run record, without user data; empty where there is none", |key| {
            &key.text
        }),
        counts(
            "operations",
            "operations; of class unmatched, stretches",
            &[Ending::Ok, Ending::Error, Ending::NoReply, Ending::Unanswered, Ending::Cut],
        ),
        counts("errors", "of these, answered by an error", &[Ending::Error]),
        counts(
            "unanswered",
            "of these, an answer was due and is not in the capture, or not all of it",
            &[Ending::Unanswered, Ending::Cut],
        ),
        counts("no_reply", "of the operations, no answer was due", &[Ending::NoReply]),
        counts("cut", "of the unanswered, those that were open when their window ended (--sample)", &[Ending::Cut]),
        counts("unsolicited", "messages that the server sent of its own accord", &[Ending::Unsolicited]),
    ];
    fields.extend(of_sides(|list: &Vec<StatementSums>| list, |sums| &sums.sides, |_| None));
    fields
}
