//! Rows of the aggregate and how they are found.
//!
//! A row's number stays valid for good: it says where the row is, and which row that place had then. When there are more kinds of operation than [`ROWS`], those that come first in
//! the order (class, protocol, name, via) have a row each and the others share one named [`OTHER`] per protocol and class.
//! A row may thus be folded away when one that precedes it appears; its number then leads to the shared row. What is
//! kept is decided by keys alone, never by arrival, so threads and merges agree.

use super::row::{OwnedRowKey, Row};
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
    /// By key, to a position in `list`. Only the rows of their own, not the shared ones.
    index: HashTable<u32>,
    hasher: foldhash::fast::RandomState,
    list: Vec<Row>,
    /// Rows of their own so far.
    ever: u64,
    /// Positions of shared rows, by what they share.
    shared: BTreeMap<(Class, Protocol), u32>,
    /// The shared row of each [`Group`].
    by_group: [Option<u32>; GROUPS],
    /// Rows of their own in the order in which they are kept, by position; empty until there are as many as there may be.
    order: BTreeMap<OwnedRowKey, u32>,
    /// Positions found before, by [`RowKey`]'s looks: operations of few kinds follow one another.
    recent: [u32; RECENT],
}

/// A [`RowId`] is a serial number, a group and a position. The group leads to the shared row once the row was folded away.
const POSITION_BITS: u32 = 12;
const GROUPS: usize = Class::COUNT * Protocol::COUNT;
const GROUP_BITS: u32 = GROUPS.next_power_of_two().trailing_zeros();
const _: () = assert!(ROWS + GROUPS <= 1 << POSITION_BITS);

/// Returns what shares a row: class and protocol, as a small number.
fn group(class: Class, protocol: Protocol) -> usize {
    class as usize * Protocol::COUNT + protocol as usize
}

/// Places in [`Rows::recent`].
const RECENT: usize = 16;

impl Rows {
    /// Returns the number of the row with this key. Allocates only when the row is new.
    #[inline]
    pub(crate) fn id_of(&mut self, key: RowKey<'_>) -> RowId {
        let looks = looks(key);
        match self.list.get(self.recent[looks] as usize) {
            Some(row) if row.key.is(key) => row.id,
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

    /// Returns the row with this number; `None` for a number of another aggregate.
    #[inline]
    pub(crate) fn get_mut(&mut self, id: RowId) -> Option<&mut Row> {
        let at = id.0 as usize & ((1 << POSITION_BITS) - 1);
        if self.list.get(at).is_some_and(|row| row.id == id) {
            return self.list.get_mut(at);
        }
        let group = (id.0 >> POSITION_BITS) as usize & ((1 << GROUP_BITS) - 1);
        let at = self.by_group.get(group).copied().flatten()?;
        self.list.get_mut(at as usize)
    }

    /// A number for the row of `key` at a position.
    fn number(&mut self, key: &OwnedRowKey, at: u32) -> RowId {
        self.ever += 1;
        let group = group(key.class, key.protocol) as u64;
        RowId((self.ever << GROUP_BITS | group) << POSITION_BITS | u64::from(at))
    }

    #[cold]
    fn new_id(&mut self, key: RowKey<'_>, hash: u64) -> RowId {
        if OwnedRowKey::is_shared(key) {
            return self.shared_id(key.class, key.protocol);
        }
        if self.index.len() < ROWS {
            let at = self.push(OwnedRowKey::of(key));
            self.insert_index(hash, at);
            return self.list[at as usize].id;
        }
        self.replace_last(OwnedRowKey::of(key), hash)
    }

    /// Adds a row at the end, with a number of its own.
    fn push(&mut self, key: OwnedRowKey) -> u32 {
        let at = self.list.len() as u32;
        let id = self.number(&key, at);
        self.list.push(Row::new(key, id));
        at
    }

    fn insert_index(&mut self, hash: u64, at: u32) {
        let (rows, hasher) = (&self.list, &self.hasher);
        self.index.insert_unique(hash, at, |&at| hasher.hash_one(rows[at as usize].key.borrowed()));
    }

    /// Returns the row of what has none of its own.
    fn shared_id(&mut self, class: Class, protocol: Protocol) -> RowId {
        let at = match self.shared.get(&(class, protocol)) {
            Some(&at) => at,
            None => self.push(OwnedRowKey { class, protocol, name: OTHER.into(), via: "" }),
        };
        self.shared.insert((class, protocol), at);
        if let Some(place) = self.by_group.get_mut(group(class, protocol)) {
            *place = Some(at);
        }
        self.list[at as usize].id
    }

    /// Gives `key` the place of the last row where it precedes that, and a share of `(other)` where it does not.
    fn replace_last(&mut self, key: OwnedRowKey, hash: u64) -> RowId {
        if self.order.is_empty() {
            let own = self.index.iter().map(|&at| (self.list[at as usize].key.clone(), at));
            self.order = own.collect();
        }
        let Some(last) = self.order.last_entry().filter(|last| *last.key() > key) else {
            return self.shared_id(key.class, key.protocol);
        };
        let last = last.remove();
        self.order.insert(key.clone(), last);
        let id = self.number(&key, last);
        let old_hash = self.hasher.hash_one(self.list[last as usize].key.borrowed());
        if let Ok(entry) = self.index.find_entry(old_hash, |&at| at == last) {
            entry.remove();
        }
        let old = std::mem::replace(&mut self.list[last as usize], Row::new(key, id));
        self.insert_index(hash, last);
        let shared = self.shared_id(old.key.class, old.key.protocol);
        if let Some(row) = self.get_mut(shared) {
            row.merge(&old);
        }
        id
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

/// Returns the first place to look for a key: [`Rows::recent`].
#[inline]
fn looks(key: RowKey<'_>) -> usize {
    let first = key.name.as_bytes().first().copied().unwrap_or_default();
    (usize::from(first) + 5 * key.name.len() + 3 * key.via.len() + key.class as usize) % RECENT
}
