//! The table `statements`, and the list of statements that operations refer to.

use super::operations::{OperationBatch, OperationShape, RowEnding};
use super::{ExportField, columns, side_fields};
use foldhash::fast::FixedState;
use hashbrown::HashTable;
use overhead_model::{Class, OTHER, Protocol, RowKey, SideTotals};
use sha2::{Digest, Sha256};
use std::hash::BuildHasher;
use std::sync::Arc;

/// Distinct statements: 24 MiB with texts of a kilobyte. Later ones become `(other)` of their name.
const STATEMENTS: usize = 1 << 14;
/// Including `(other)` statements. Beyond this limit, names become `(other)` too.
const ROWS: usize = STATEMENTS + (1 << 11);

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatementKey {
    /// First 63 bits of the SHA-256 of protocol, class, name, via and text, each followed by a zero byte. The same in
    /// all runs.
    pub id: i64,
    pub protocol: Protocol,
    pub class: Class,
    pub name: String,
    /// How it was sent.
    pub via: &'static str,
    /// Without user data; may be empty.
    pub text: String,
}

impl StatementKey {
    fn new(key: RowKey<'_>) -> Self {
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

/// Sums of a statement's operations. Unlike a run record's rows, they count operations by [`RowEnding`] and have no latencies.
#[derive(Clone, Debug)]
pub struct StatementSums {
    pub key: Arc<StatementKey>,
    /// Rows by ending.
    counts: [u64; 7],
    /// By direction.
    pub sides: [SideTotals; 2],
}

impl StatementSums {
    fn count(&self, endings: &[RowEnding]) -> u64 {
        endings.iter().filter_map(|ending| self.counts.get(*ending as usize)).sum()
    }
}

#[derive(Debug, Default)]
pub struct StatementList {
    list: Vec<StatementSums>,
    index: HashTable<u32>,
    hasher: FixedState,
}

impl StatementList {
    /// Returns the index of a statement, which is added if new.
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
        self.list.push(StatementSums {
            key: Arc::new(StatementKey::new(key)),
            counts: [0; 7],
            sides: Default::default(),
        });
        let (list, hasher) = (&self.list, &self.hasher);
        let rehash = |place: &u32| list.get(*place as usize).map_or(0, |known| hasher.hash_one(known.key.row_key()));
        self.index.insert_unique(hash, place, rehash);
        place
    }

    #[inline]
    pub fn key(&self, place: u32) -> Option<&Arc<StatementKey>> {
        self.list.get(place as usize).map(|sums| &sums.key)
    }

    pub fn add(&mut self, batch: &OperationBatch) {
        for (OperationShape { statement, ending, sides, .. }, times) in batch.counts() {
            let Some(sums) = self.list.get_mut(*statement as usize) else { continue };
            sums.counts[*ending as usize] += times;
            sums.sides.iter_mut().zip(sides).for_each(|(sum, side)| sum.add_times(side, times));
        }
    }

    /// Returns the statements with rows, sorted by id.
    pub fn into_sums(self) -> Vec<StatementSums> {
        let mut list = self.list;
        list.retain(|sums| sums.counts.iter().any(|count| *count > 0));
        list.sort_by_key(|sums| sums.key.id);
        list
    }
}

const STATEMENT_ID: &str = "the first 63 bits of the SHA-256 of protocol, class, name, via and text, each followed by a zero byte: the same in all runs";

type StatementField = ExportField<Vec<StatementSums>>;

pub fn fields() -> Vec<StatementField> {
    let mut fields = columns! { StatementField |sums|
        signed "statement_id" [""], STATEMENT_ID => sums.key.id;
        text "protocol", "protocol" => sums.key.protocol.name().into();
        text "class", "workload, setup, background or unmatched" => sums.key.class.name().into();
        text "name", "name of the operations" => (&*sums.key.name).into();
        text "via", "how they were sent; empty if there is only one way" => sums.key.via.into();
        text "text",
            "the statement as in the run record, without user data; empty if there is none" => (&*sums.key.text).into();
        number "operations" ["1"],
            "operations; of class unmatched, stretches" =>
            sums.count(&[RowEnding::Ok, RowEnding::Error, RowEnding::NoReply, RowEnding::Unanswered, RowEnding::Cut]);
        number "errors" ["1"], "operations answered by an error" => sums.count(&[RowEnding::Error]);
        number "unanswered" ["1"],
            "operations whose answer is due, but missing or incomplete in the capture" =>
            sums.count(&[RowEnding::Unanswered, RowEnding::Cut]);
        number "no_reply" ["1"], "of the operations, no answer was due" => sums.count(&[RowEnding::NoReply]);
        number "cut" ["1"],
            "of the unanswered, operations open when their window ended (--sample)" => sums.count(&[RowEnding::Cut]);
        number "unsolicited" ["1"], "messages that the server sent unasked" => sums.count(&[RowEnding::Unsolicited]);
    };
    fields.extend(side_fields(|list: &Vec<StatementSums>| list, |sums| &sums.sides, |_| None));
    fields
}
