//! Prepared statements shared by the connections of a capture.
//!
//! The id of a prepared statement is a hash of its text, valid on all connections and nodes of a cluster. Drivers
//! prepare on one connection and execute on others.

use super::pair::CqlPreparedStatement;
use crate::limits;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Types in all shared statements.
const TYPES: usize = 1 << 19;

/// Prepared statements by id, shared by all connections of a capture. The lock is never contended: it only lets the dissector move to
/// another thread.
#[derive(Clone, Debug, Default)]
pub struct SharedStatements(Arc<Mutex<StatementsById>>);

#[derive(Debug, Default)]
struct StatementsById {
    by_id: HashMap<Box<[u8]>, Arc<CqlPreparedStatement>>,
    types: usize,
    is_withheld: bool,
}

impl SharedStatements {
    /// Hides the statements, and ignores new ones, while a connection ends: when it ends depends on other connections' frames,
    /// and its last bytes must not.
    pub fn withhold(&self, withheld: bool) {
        self.lock().is_withheld = withheld;
    }

    /// Adds a statement, replacing an earlier one with its id. Without room for it, the others are kept.
    pub(super) fn publish(&self, statement: &Arc<CqlPreparedStatement>) {
        let mut known = self.lock();
        let is_known = known.by_id.get(&statement.id).is_some_and(|earlier| earlier == statement);
        if known.is_withheld || is_known {
            return;
        }
        let earlier = known.by_id.remove(&statement.id);
        known.types -= earlier.map_or(0, |earlier| earlier.weight());
        let has_room =
            known.by_id.len() < limits::SHARED_STATEMENTS && known.types.saturating_add(statement.weight()) <= TYPES;
        if has_room {
            known.types += statement.weight();
            known.by_id.insert(statement.id.clone(), Arc::clone(statement));
        }
    }

    pub(super) fn find(&self, id: &[u8]) -> Option<Arc<CqlPreparedStatement>> {
        let known = self.lock();
        if known.is_withheld { None } else { known.by_id.get(id).cloned() }
    }

    fn lock(&self) -> MutexGuard<'_, StatementsById> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
