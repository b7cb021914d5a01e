//! Rows of the aggregate, their statements, and lookup.
//!
//! Lookup finds a statement of a row; operations without a statement use the empty one. If there are more kinds of operation
//! than [`ROWS`], the first in the order (class, protocol, name, via) get a row each. The others share one row named [`OTHER`]
//! per protocol and class, without separate statements. An earlier kind can therefore displace a row; the ids of the displaced
//! row's statements then resolve to the shared row. Keys, never arrival order, decide which rows stay. Statements are shed by
//! size, which depends on call order: see [`Rows::shed`].

mod shed;

use super::preparation;
use super::row::{OwnedRowKey, Row};
use super::row_sums::{KindKey, OperationKind, RowSums};
use super::statement::Statement;
use crate::limits::{ROWS, STATEMENTS};
use crate::number::{counted, grouped};
use hashbrown::HashTable;
use overhead_model::record::OperationRow;
use overhead_model::{Amounts, Class, OTHER, Operation, Protocol, RowId, RowKey, Side, SideTotals};
use shed::Shed;
use std::collections::BTreeMap;
use std::hash::BuildHasher;

#[derive(Clone, Debug, Default)]
pub(crate) struct Rows {
    hasher: foldhash::fast::RandomState,
    list: Vec<Row>,
    /// Places in `list` by key, without the shared rows.
    row_index: HashTable<u32>,
    statements: Vec<Statement>,
    /// Places in `statements` by key, without the statements of shared rows.
    index: HashTable<u32>,
    free: Vec<u32>,
    /// Statements created so far.
    ever: u64,
    /// Distinct statements: neither empty nor shared.
    told_apart: usize,
    shed: Shed,
    /// The statement of each shared row, by group.
    shared: BTreeMap<usize, u32>,
    /// Places of the unshared rows, in order of retention; empty until the limit is reached.
    order: BTreeMap<OwnedRowKey, u32>,
    /// Places in `statements` found before, by [`looks`]: a few kinds of operations tend to repeat.
    recent: [u32; RECENT],
}

/// A [`RowId`] holds a serial number, a group and a place in the statement list. The group resolves to the shared row after its
/// row is folded away. A ledger keeps 48 bits of the id.
const PLACE_BITS: u32 = 14;
const GROUPS: usize = Class::COUNT * Protocol::COUNT;
const GROUP_BITS: u32 = GROUPS.next_power_of_two().trailing_zeros();
const SERIAL_BITS: u32 = 48 - GROUP_BITS - PLACE_BITS;
/// Upper limit on distinct statements, regardless of who sheds them.
const MOST_STATEMENTS: usize = 2 * STATEMENTS;
// Each row may also have an empty and a shared statement.
const _: () = assert!(2 * (ROWS + GROUPS) + MOST_STATEMENTS <= 1 << PLACE_BITS);

/// Returns the shared-row group of a class and protocol as a small number.
fn group(class: Class, protocol: Protocol) -> usize {
    class as usize * Protocol::COUNT + protocol as usize
}

const RECENT: usize = 32;

impl Rows {
    /// Returns the id of the statement with this key. Allocates only for a new one.
    #[inline]
    pub(crate) fn id_of(&mut self, key: RowKey<'_>) -> RowId {
        let looks = looks(key);
        match self.statements.get(self.recent[looks] as usize) {
            Some(statement) if self.is(statement, key) => statement.id,
            _ => self.search(key, looks),
        }
    }

    #[inline]
    fn is(&self, statement: &Statement, key: RowKey<'_>) -> bool {
        let row = self.list.get(statement.row as usize);
        *statement.text == *key.statement && row.is_some_and(|row| row.key.is(key))
    }

    #[inline]
    fn row_of(&self, statement: &Statement) -> &Row {
        &self.list[statement.row as usize]
    }

    fn search(&mut self, key: RowKey<'_>, looks: usize) -> RowId {
        let hash = self.hasher.hash_one(key);
        if let Some(&at) = self.index.find(hash, |&at| self.key_of(at) == key) {
            self.recent[looks] = at;
            return self.statements[at as usize].id;
        }
        let at = self.add(key);
        self.statements[at as usize].id
    }

    fn key_of(&self, at: u32) -> RowKey<'_> {
        let statement = &self.statements[at as usize];
        self.row_of(statement).key.with_statement(&statement.text)
    }

    /// Returns the place of a statement id, or `None` if the id belongs to another aggregate.
    #[inline]
    fn place(&self, id: RowId) -> Option<u32> {
        let at = id.0 as u32 & ((1 << PLACE_BITS) - 1);
        if self.statements.get(at as usize).is_some_and(|statement| statement.id == id) {
            return Some(at);
        }
        let group = (id.0 >> PLACE_BITS) as usize & ((1 << GROUP_BITS) - 1);
        self.shared.get(&group).copied()
    }

    /// Returns the statement with this id, and its row.
    #[inline]
    fn get_mut(&mut self, id: RowId) -> Option<(&mut Statement, &mut Row)> {
        let at = self.place(id)?;
        let statement = self.statements.get_mut(at as usize)?;
        let row = self.list.get_mut(statement.row as usize)?;
        Some((statement, row))
    }

    /// Returns the class and protocol of the row with this id.
    pub(crate) fn kind_of(&self, id: RowId) -> Option<(Class, Protocol)> {
        let key = &self.row_of(self.statements.get(self.place(id)? as usize)?).key;
        Some((key.class, key.protocol))
    }

    /// Adds a closed operation.
    #[inline]
    pub(crate) fn add_operation(&mut self, id: RowId, operation: &Operation) {
        if let Some((statement, row)) = self.get_mut(id) {
            if let Some(latency_ns) = operation.latency_ns {
                statement.add_latency(latency_ns, 1);
            }
            statement.add_times(operation, 1, row);
        }
    }

    /// Adds closed operations with equal results, without their latencies.
    #[inline]
    pub(crate) fn add_times(&mut self, id: RowId, operation: &Operation, times: u64) {
        if let Some((statement, row)) = self.get_mut(id) {
            statement.add_times(operation, times, row);
        }
    }

    /// Adds latencies separately from their operations.
    #[inline]
    pub(crate) fn add_latency(&mut self, id: RowId, latency_ns: u64, times: u64) {
        if let Some((statement, _)) = self.get_mut(id) {
            statement.add_latency(latency_ns, times);
        }
    }

    /// Adds bytes of operations that closed earlier.
    pub(crate) fn add_late(&mut self, id: RowId, side: Side, totals: &SideTotals) {
        if let Some((statement, _)) = self.get_mut(id) {
            statement.add_late(side, totals);
        }
    }

    /// Creates the statement for an unknown key, or finds the shared one. Returns its place.
    #[cold]
    fn add(&mut self, key: RowKey<'_>) -> u32 {
        if OwnedRowKey::is_shared(key) {
            return self.shared(key.class, key.protocol);
        }
        let Some(row) = self.row(key) else { return self.shared(key.class, key.protocol) };
        let is_own = !key.statement.is_empty() && key.statement != OTHER;
        if is_own && self.told_apart >= MOST_STATEMENTS {
            self.shed.count += 1;
            return self.other_of(row);
        }
        if is_own {
            self.told_apart += 1;
        }
        let at = self.push(key.statement, row);
        self.insert_index(at);
        at
    }

    fn push(&mut self, text: &str, row: u32) -> u32 {
        let at = self.free.pop().unwrap_or(self.statements.len() as u32);
        let key = &self.list[row as usize].key;
        let group = group(key.class, key.protocol) as u64;
        self.ever = (self.ever + 1) & ((1 << SERIAL_BITS) - 1);
        let id = RowId((self.ever << GROUP_BITS | group) << PLACE_BITS | u64::from(at));
        let statement = Statement::new(text, row, id);
        match self.statements.get_mut(at as usize) {
            Some(place) => *place = statement,
            None => self.statements.push(statement),
        }
        let row = &mut self.list[row as usize];
        row.statements.push(at);
        row.other = row.other.or((text == OTHER).then_some(at));
        at
    }

    fn insert_index(&mut self, at: u32) {
        let Self { index, hasher, list, statements, .. } = self;
        let hash = |&at: &u32| {
            let statement = &statements[at as usize];
            hasher.hash_one(list[statement.row as usize].key.with_statement(&statement.text))
        };
        index.insert_unique(hash(&at), at, hash);
    }

    /// Returns the place of a key's row, creating it if needed, or `None` if the key belongs to a shared row.
    fn row(&mut self, key: RowKey<'_>) -> Option<u32> {
        let hash = self.hasher.hash_one(RowKey { statement: "", ..key });
        if let Some(&at) = self.row_index.find(hash, |&at| self.list[at as usize].key.is(key)) {
            return Some(at);
        }
        let at = if self.row_index.len() < ROWS {
            self.list.push(Row::new(OwnedRowKey::new(key)));
            self.list.len() as u32 - 1
        } else {
            self.replace_last(OwnedRowKey::new(key))?
        };
        let (rows, hasher) = (&self.list, &self.hasher);
        self.row_index.insert_unique(hash, at, |&at| hasher.hash_one(rows[at as usize].key.borrowed()));
        Some(at)
    }

    /// Returns the statement of a shared row.
    fn shared(&mut self, class: Class, protocol: Protocol) -> u32 {
        let group = group(class, protocol);
        if let Some(&at) = self.shared.get(&group) {
            return at;
        }
        self.list.push(Row::new(OwnedRowKey { class, protocol, name: OTHER.into(), via: "" }));
        let at = self.push("", self.list.len() as u32 - 1);
        self.shared.insert(group, at);
        at
    }

    /// Returns the statement that collects a row's undifferentiated operations.
    fn other_of(&mut self, row: u32) -> u32 {
        if let Some(at) = self.list[row as usize].other {
            return at;
        }
        let at = self.push(OTHER, row);
        self.insert_index(at);
        at
    }

    /// Gives `key` the place of the last row if `key` precedes it; otherwise returns `None`.
    fn replace_last(&mut self, key: OwnedRowKey) -> Option<u32> {
        if self.order.is_empty() {
            let own = self.row_index.iter().map(|&at| (self.list[at as usize].key.clone(), at));
            self.order = own.collect();
        }
        let last = self.order.last_entry().filter(|last| *last.key() > key)?.remove();
        self.order.insert(key.clone(), last);
        let hash = self.hasher.hash_one(self.list[last as usize].key.borrowed());
        if let Ok(entry) = self.row_index.find_entry(hash, |&at| at == last) {
            entry.remove();
        }
        let statements = std::mem::take(&mut self.list[last as usize].statements);
        let shared = self.shared(self.list[last as usize].key.class, self.list[last as usize].key.protocol);
        for at in statements {
            self.fold(at, shared);
        }
        let old = std::mem::replace(&mut self.list[last as usize], Row::new(key));
        let row = self.statements[shared as usize].row;
        self.list[row as usize].merge_sizes(&old);
        Some(last)
    }

    /// Adds a statement to another one and frees its place. Leaves its row's list to the caller.
    fn fold(&mut self, at: u32, into: u32) {
        let hash = self.hasher.hash_one(self.key_of(at));
        if let Ok(entry) = self.index.find_entry(hash, |&found| found == at) {
            entry.remove();
        }
        let old = std::mem::replace(&mut self.statements[at as usize], Statement::none());
        self.told_apart -= usize::from(!old.text.is_empty() && *old.text != *OTHER);
        self.free.push(at);
        // Its row has not yet received all of it.
        let into = &mut self.statements[into as usize];
        into.merge(&old, &mut self.list[into.row as usize]);
    }

    pub(crate) fn ledger(&self, side: Side) -> Amounts {
        let mut sum = Amounts::ZERO;
        self.statements.iter().for_each(|statement| sum += statement.amounts(side));
        sum
    }

    pub(crate) fn class_totals(&self, class: Class) -> (u64, u64) {
        let of_class = |statement: &&Statement| statement.is_in_use() && self.row_of(statement).key.class == class;
        let statements = self.statements.iter().filter(of_class);
        statements.fold((0, 0), |(count, sum), statement| (count + statement.count(), sum + statement.bytes()))
    }

    /// Returns warnings about exhausted limits.
    pub(crate) fn warnings(&self) -> impl Iterator<Item = String> {
        let has_shared = !self.shared.is_empty();
        let of_rows = has_shared.then(|| {
            format!(
                "there are more than {} kinds of operation: those that come last by class, protocol and name are added up \
                 in rows named `{OTHER}`",
                grouped(ROWS as u64),
            )
        });
        let of_statements = (self.shed.count > 0).then(|| {
            format!(
                "there were more than {} statements at once: {} that had few bytes by then are added up in those named \
                 `{OTHER}`, and begin anew where they come again",
                grouped(STATEMENTS as u64),
                counted(self.shed.count, "statement"),
            )
        });
        of_rows.into_iter().chain(of_statements)
    }

    /// Returns the totals so far, by statement or by name and via.
    pub(crate) fn kinds(&self, by_statement: bool) -> Vec<OperationKind> {
        let mut kinds = BTreeMap::<KindKey, RowSums>::new();
        for row in &self.list {
            let OwnedRowKey { class, protocol, ref name, via } = row.key;
            let name = if via.is_empty() { name.to_string() } else { format!("{name} ({via})") };
            let statements = row.statements.iter().map(|&at| &self.statements[at as usize]);
            for statement in statements.filter(|statement| statement.holds_something()) {
                let label = match &*statement.text {
                    text if !by_statement || text.is_empty() => name.clone(),
                    OTHER => format!("{name} {OTHER}"),
                    text => text.to_owned(),
                };
                let key = KindKey { class, protocol, label };
                kinds.entry(key).or_default().merge(&Statement::sums_of([statement], class));
            }
        }
        kinds.into_iter().collect()
    }

    pub(crate) fn to_record(&self, distributions: bool) -> Vec<OperationRow> {
        let mut rows: Vec<(&Row, Vec<&Statement>)> = Vec::new();
        for row in &self.list {
            let statements = row.statements.iter().map(|&at| &self.statements[at as usize]);
            let used: Vec<_> = statements.filter(|statement| statement.holds_something()).collect();
            if !used.is_empty() {
                rows.push((row, used));
            }
        }
        rows.sort_unstable_by_key(|(row, _)| (row.key.protocol.name(), row.key.class, &row.key.name, row.key.via));
        let mut rows: Vec<_> = rows.iter().map(|(row, statements)| row.to_record(statements, distributions)).collect();
        preparation::join(&mut rows);
        rows
    }
}

/// Returns the first place to look for a key in [`Rows::recent`].
#[inline]
fn looks(key: RowKey<'_>) -> usize {
    let end = |text: &str| text.as_bytes().last().copied().unwrap_or_default();
    let first = key.name.as_bytes().first().copied().unwrap_or_default();
    let name = usize::from(first) + 5 * key.name.len() + 3 * key.via.len() + key.class as usize;
    (name + 7 * key.statement.len() + usize::from(end(key.statement))) % RECENT
}
