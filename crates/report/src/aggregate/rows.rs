//! Rows of the aggregate and how they are found.
//!
//! A row's number stays valid for good. When there are more kinds of operation than [`ROWS`], those that come first in
//! the order (class, protocol, name, via) have a row each and the others share one named [`OTHER`] per protocol and class.
//! A row may thus be folded away when one that precedes it appears; its number then leads to the shared row. What is
//! kept is decided by keys alone, never by arrival, so threads and merges agree.

use super::row::{Key, Row};
use crate::limits::ROWS;
use hashbrown::HashTable;
use overhead_model::record::OperationRow;
use overhead_model::{Amounts, Class, Protocol, RowId, RowKey, Side};
use std::collections::BTreeMap;
use std::hash::BuildHasher;

/// Name of the rows that take in what is beyond the limit.
pub(crate) const OTHER: &str = "(other)";

/// All rows of an aggregate.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rows {
    /// By key, to a position in `list`. Just the rows of their own, not the shared ones.
    index: HashTable<u32>,
    hasher: foldhash::fast::RandomState,
    list: Vec<Row>,
    /// From [`RowId`] to a position in `list`.
    positions: Vec<u32>,
    /// Shared rows, by what they share: a [`RowId`].
    shared: BTreeMap<(Class, Protocol), RowId>,
    /// Position of the row that gives way to the next one that precedes it; known once `list` is full.
    last: Option<u32>,
    /// Positions found before, by [`RowKey`]'s looks: operations of few kinds follow one another.
    recent: [u32; RECENT],
}

/// Places in [`Rows::recent`].
const RECENT: usize = 16;

impl Rows {
    /// The number of the row with this key. Allocates just when the row is new.
    #[inline]
    pub(crate) fn id_of(&mut self, key: RowKey<'_>) -> RowId {
        let looks = looks(key);
        match self.list.get(self.recent[looks] as usize) {
            Some(row) if row.key.borrowed() == key => row.id,
            _ => self.search(key, looks),
        }
    }

    fn search(&mut self, key: RowKey<'_>, looks: usize) -> RowId {
        let hash = self.hasher.hash_one(key);
        match self.index.find(hash, |&at| self.list[at as usize].key.borrowed() == key) {
            Some(&at) => {
                self.recent[looks] = at;
                self.list[at as usize].id
            }
            None => self.new_id(key, hash),
        }
    }

    /// The row with this number; `None` for a number of another aggregate.
    #[inline]
    pub(crate) fn get_mut(&mut self, id: RowId) -> Option<&mut Row> {
        let at = *self.positions.get(id.0 as usize)?;
        self.list.get_mut(at as usize)
    }

    #[cold]
    fn new_id(&mut self, key: RowKey<'_>, hash: u64) -> RowId {
        if Key::is_shared(key) {
            return self.shared_id(key.class, key.protocol);
        }
        if self.index.len() < ROWS {
            let at = self.push(Key::of(key));
            self.insert_index(hash, at);
            return self.list[at as usize].id;
        }
        self.replace_last(Key::of(key), hash)
    }

    /// Adds a row at the end, with a number of its own.
    fn push(&mut self, key: Key) -> u32 {
        let at = self.list.len() as u32;
        let id = RowId(self.positions.len() as u32);
        self.positions.push(at);
        self.list.push(Row::new(key, id));
        self.last = None;
        at
    }

    fn insert_index(&mut self, hash: u64, at: u32) {
        let (rows, hasher) = (&self.list, &self.hasher);
        self.index.insert_unique(hash, at, |&at| hasher.hash_one(rows[at as usize].key.borrowed()));
    }

    /// The row of what has none of its own.
    fn shared_id(&mut self, class: Class, protocol: Protocol) -> RowId {
        if let Some(&id) = self.shared.get(&(class, protocol)) {
            return id;
        }
        let at = self.push(Key { class, protocol, name: OTHER.into(), via: "" });
        let id = self.list[at as usize].id;
        self.shared.insert((class, protocol), id);
        id
    }

    /// Gives `key` the place of the last row where it precedes that, and a share of `(other)` where it does not.
    fn replace_last(&mut self, key: Key, hash: u64) -> RowId {
        let last = self.last_own_row();
        if self.list[last as usize].key <= key {
            return self.shared_id(key.class, key.protocol);
        }
        let id = RowId(self.positions.len() as u32);
        self.positions.push(last);
        let old_hash = self.hasher.hash_one(self.list[last as usize].key.borrowed());
        if let Ok(entry) = self.index.find_entry(old_hash, |&at| at == last) {
            entry.remove();
        }
        let old = std::mem::replace(&mut self.list[last as usize], Row::new(key, id));
        self.insert_index(hash, last);
        let shared = self.shared_id(old.key.class, old.key.protocol);
        self.positions[old.id.0 as usize] = self.positions[shared.0 as usize];
        if let Some(row) = self.get_mut(shared) {
            row.merge(&old);
        }
        self.last = None;
        id
    }

    /// Position of the row of its own whose key is the greatest. Scans after a change; the limit bounds it.
    fn last_own_row(&mut self) -> u32 {
        if let Some(last) = self.last {
            return last;
        }
        let last = self.index.iter().copied().max_by_key(|&at| &self.list[at as usize].key).unwrap_or_default();
        self.last = Some(last);
        last
    }

    pub(crate) fn merge(&mut self, other: Self) {
        for row in other.list {
            let id = self.id_of(row.key.borrowed());
            if let Some(mine) = self.get_mut(id) {
                mine.merge(&row);
            }
        }
    }

    pub(crate) fn ledger(&self, side: Side) -> Amounts {
        let mut sum = Amounts::ZERO;
        self.list.iter().for_each(|row| sum += row.amounts(side));
        sum
    }

    pub(crate) fn class_totals(&self, class: Class) -> (u64, u64) {
        let rows = self.list.iter().filter(|row| row.key.class == class);
        let bytes = |row: &Row| Side::BOTH.map(|side| row.amounts(side).total()).iter().sum::<u64>();
        rows.fold((0, 0), |(count, sum), row| (count + row.count(), sum + bytes(row)))
    }

    pub(crate) fn overflow_warning(&self) -> Option<String> {
        (!self.shared.is_empty()).then(|| {
            format!(
                "there are more than {} kinds of operation: those that come last by class, protocol and name are added up \
                 in rows named `{OTHER}`",
                crate::text::number::grouped(ROWS as u64),
            )
        })
    }

    pub(crate) fn to_record(&self) -> Vec<OperationRow> {
        let mut rows: Vec<&Row> = self.list.iter().filter(|row| row.holds_something()).collect();
        rows.sort_unstable_by_key(|row| (row.key.protocol.name(), row.key.class, &row.key.name, row.key.via));
        rows.into_iter().map(Row::to_record).collect()
    }
}

/// What a key looks like at a glance: a place in [`Rows::recent`].
#[inline]
fn looks(key: RowKey<'_>) -> usize {
    let first = key.name.as_bytes().first().copied().unwrap_or_default();
    (usize::from(first) + 5 * key.name.len() + 3 * key.via.len() + key.class as usize) % RECENT
}
