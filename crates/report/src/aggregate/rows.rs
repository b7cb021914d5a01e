//! Rows of the aggregate and how they are found.
//!
//! A row's number stays valid for good. When there are more kinds of operation than [`ROWS`], those that come first in
//! the order (class, protocol, name, via) have a row each and the others share one named [`OTHER`] per protocol and class.
//! A row may thus be folded away when one that precedes it appears; its number then leads to the shared row. What is
//! kept is decided by keys alone, never by arrival, so threads and merges agree.

use super::distribution::Values;
use crate::limits::ROWS;
use hashbrown::HashTable;
use overhead_model::record::{Distribution, Latency, OperationRow, SideRow};
use overhead_model::{Amounts, Class, Operation, Outcome, Protocol, RowId, RowKey, Side, SideTotals};
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

/// One row.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    key: Key,
    /// Where it is found by number.
    id: RowId,
    count: u64,
    errors: u64,
    unanswered: u64,
    no_reply: u64,
    unsolicited: u64,
    latency: Values,
    sides: [SideSums; 2],
}

/// An owned [`RowKey`], in the order in which rows are kept when there are too many.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    class: Class,
    protocol: Protocol,
    name: Box<str>,
    via: &'static str,
}

#[derive(Clone, Debug, Default)]
struct SideSums {
    frames: u64,
    amounts: Amounts,
    wire: Values,
    payload: Values,
}

impl Key {
    fn of(key: RowKey<'_>) -> Self {
        Self { class: key.class, protocol: key.protocol, name: key.name.into(), via: key.via }
    }

    fn borrowed(&self) -> RowKey<'_> {
        RowKey { protocol: self.protocol, class: self.class, name: &self.name, via: self.via }
    }

    fn is_shared(key: RowKey<'_>) -> bool {
        key.name == OTHER && key.via.is_empty()
    }
}

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
        self.list.iter().for_each(|row| sum += row.sides[side as usize].amounts);
        sum
    }

    pub(crate) fn class_totals(&self, class: Class) -> (u64, u64) {
        let rows = self.list.iter().filter(|row| row.key.class == class);
        let bytes = |row: &Row| row.sides.iter().map(|side| side.amounts.total()).sum::<u64>();
        rows.fold((0, 0), |(count, sum), row| (count + row.count, sum + bytes(row)))
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

impl Row {
    fn new(key: Key, id: RowId) -> Self {
        let (latency, sides) = (Values::default(), Default::default());
        Self { key, id, count: 0, errors: 0, unanswered: 0, no_reply: 0, unsolicited: 0, latency, sides }
    }

    /// Takes in a closed operation.
    #[inline]
    pub(crate) fn add(&mut self, operation: &Operation) {
        let unsolicited = operation.outcome == Outcome::Unsolicited;
        self.unsolicited += u64::from(unsolicited);
        self.count += u64::from(!unsolicited);
        self.errors += u64::from(operation.outcome == Outcome::Error);
        // A stretch of class `unmatched` is no request.
        if self.key.class != Class::Unmatched {
            let silent = operation.outcome == Outcome::NoReply;
            self.no_reply += u64::from(silent);
            self.unanswered += u64::from(silent || operation.outcome == Outcome::Unanswered);
        }
        if let Some(latency_ns) = operation.latency_ns {
            self.latency.record(latency_ns);
        }
        for (sums, totals) in self.sides.iter_mut().zip(&operation.sides) {
            sums.add(totals);
            sums.wire.record(totals.amounts.total());
            sums.payload.record(totals.amounts.payload());
        }
    }

    /// Takes in bytes of operations that have closed before.
    pub(crate) fn add_late(&mut self, side: Side, totals: &SideTotals) {
        self.sides[side as usize].add(totals);
    }

    fn merge(&mut self, other: &Self) {
        self.count += other.count;
        self.errors += other.errors;
        self.unanswered += other.unanswered;
        self.no_reply += other.no_reply;
        self.unsolicited += other.unsolicited;
        self.latency.merge(&other.latency);
        for (mine, theirs) in self.sides.iter_mut().zip(&other.sides) {
            mine.frames += theirs.frames;
            mine.amounts += theirs.amounts;
            mine.wire.merge(&theirs.wire);
            mine.payload.merge(&theirs.payload);
        }
    }

    /// False for a row that was asked for and never used: which ones these are may depend on the split into threads.
    fn holds_something(&self) -> bool {
        self.count > 0 || self.sides.iter().any(|side| side.frames > 0 || side.amounts != Amounts::ZERO)
    }

    fn to_record(&self) -> OperationRow {
        let [request, response] = &self.sides;
        OperationRow {
            protocol: self.key.protocol.name().to_owned(),
            class: self.key.class,
            name: self.key.name.to_string(),
            via: self.key.via.to_owned(),
            count: self.count,
            errors: self.errors,
            unanswered: self.unanswered,
            no_reply: self.no_reply,
            unsolicited: self.unsolicited,
            request: request.to_record(self.count + self.unsolicited),
            response: response.to_record(self.count + self.unsolicited),
            latency_ns: latency(&self.latency),
            fields: None,
        }
    }
}

impl SideSums {
    #[inline]
    fn add(&mut self, totals: &SideTotals) {
        self.frames += totals.frames;
        self.amounts += totals.amounts;
    }

    fn to_record(&self, count: u64) -> SideRow {
        SideRow {
            frames: self.frames,
            wire_bytes: distribution(&self.wire, self.amounts.total(), count),
            payload_bytes: distribution(&self.payload, self.amounts.payload(), count),
            accounts: self.amounts,
        }
    }
}

/// What a key looks like at a glance: a place in [`Rows::recent`].
#[inline]
fn looks(key: RowKey<'_>) -> usize {
    let first = key.name.as_bytes().first().copied().unwrap_or_default();
    (usize::from(first) + 5 * key.name.len() + 3 * key.via.len() + key.class as usize) % RECENT
}

fn distribution(values: &Values, total: u64, count: u64) -> Distribution {
    let mean = if count == 0 { 0.0 } else { total as f64 / count as f64 };
    let [p50, p90, p99, p999] = values.quantiles([5_000, 9_000, 9_900, 9_990]);
    Distribution { total, mean, min: values.min(), p50, p90, p99, p999, max: values.max() }
}

fn latency(values: &Values) -> Latency {
    let [p50, p90, p99, p999, p9999] = values.quantiles([5_000, 9_000, 9_900, 9_990, 9_999]);
    let (count, mean) = (values.count(), values.mean());
    Latency { count, mean, min: values.min(), p50, p90, p99, p999, p9999, max: values.max() }
}
