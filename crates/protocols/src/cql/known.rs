//! Prepared statements that the connections of a capture share.
//!
//! A server knows a prepared statement by an id that is a hash of its text, on all of its connections and on all nodes of
//! its cluster. Drivers rely on that: they prepare on one connection and execute on others.

use super::pair::Prepared;
use crate::limits;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Entries of types that all shared statements may hold together, about 12 bytes each.
const TYPE_ENTRIES: usize = 1 << 20;

/// Statements by id, as they were prepared last. One thread decodes all connections that share them, so nobody ever waits
/// for the lock.
#[derive(Clone, Debug, Default)]
pub struct SharedStatements(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    known: Mutex<Known>,
    is_withheld: AtomicBool,
}

#[derive(Debug, Default)]
struct Known {
    by_id: HashMap<Box<[u8]>, Arc<Prepared>>,
    type_entries: usize,
}

impl SharedStatements {
    /// Hides the statements, and takes none in, as long as a connection ends. When that happens depends on the frames of
    /// other connections: what its last bytes bring is its own.
    pub fn withhold(&self, withheld: bool) {
        self.0.is_withheld.store(withheld, Ordering::Relaxed);
    }

    /// Takes a statement in as it was prepared, in place of an earlier one with its id. Where there is no room for it, the
    /// others are kept.
    pub(super) fn publish(&self, statement: &Arc<Prepared>) {
        if !self.is_withheld() {
            self.known().insert(statement);
        }
    }

    /// Returns the statement with this id.
    pub(super) fn find(&self, id: &[u8]) -> Option<Arc<Prepared>> {
        if self.is_withheld() { None } else { self.known().by_id.get(id).cloned() }
    }

    fn is_withheld(&self) -> bool {
        self.0.is_withheld.load(Ordering::Relaxed)
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    fn insert(&mut self, statement: &Arc<Prepared>) {
        if self.by_id.get(&statement.id).is_some_and(|earlier| earlier == statement) {
            return;
        }
        let earlier = self.by_id.remove(&statement.id);
        self.type_entries -= earlier.map_or(0, |earlier| earlier.weight());
        let has_room = self.by_id.len() < limits::SHARED_STATEMENTS
            && self.type_entries.saturating_add(statement.weight()) <= TYPE_ENTRIES;
        if has_room {
            self.type_entries += statement.weight();
            self.by_id.insert(statement.id.clone(), Arc::clone(statement));
        }
    }
}
