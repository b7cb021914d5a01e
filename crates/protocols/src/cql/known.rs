//! Prepared statements that the connections of a capture share.
//!
//! A server knows a prepared statement by an id that is a hash of its text, on all of its connections and on all nodes of
//! its cluster. Drivers rely on that: they prepare on one connection and execute on others.

use super::super::Commons;
use super::pair::Prepared;
use crate::limits;
use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

/// Entries of types that all shared statements may hold together, about 12 bytes each.
const TYPE_ENTRIES: usize = 1 << 20;

impl Commons {
    /// A statement was prepared by what the frame at hand brought.
    pub(super) fn publish(&self, statement: &Arc<Prepared>) {
        if let Some(frame) = self.frame() {
            self.statements.publish(frame, statement);
        }
    }

    /// The statement with this id, as far as the frames before this one tell.
    pub(super) fn statement(&self, id: &[u8]) -> Option<Arc<Prepared>> {
        self.statements.find(self.settled_frame()?, id)
    }
}

/// Statements by id, each with the frame that completed its preparation.
///
/// What is found depends on the frames before the one that asks and on nothing else, also where connections are
/// dissected side by side: the earliest statements are kept, and of one id the latest before the frame is taken.
#[derive(Debug, Default)]
pub struct Statements {
    known: Mutex<Known>,
}

/// Of one id, by the frames that completed them, in their order.
type Versions = Vec<(u64, Arc<Prepared>)>;

#[derive(Debug, Default)]
struct Known {
    versions: HashMap<Box<[u8]>, Versions>,
    order: BTreeSet<(u64, Box<[u8]>)>,
    type_entries: usize,
}

impl Statements {
    /// A statement was prepared by what `frame` brought.
    fn publish(&self, frame: u64, statement: &Arc<Prepared>) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.insert(frame, statement);
        while known.order.len() > limits::SHARED_STATEMENTS || known.type_entries > TYPE_ENTRIES {
            known.drop_latest();
        }
    }

    /// The statement with this id as of `frame`.
    fn find(&self, frame: u64, id: &[u8]) -> Option<Arc<Prepared>> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let versions = known.versions.get(id)?;
        let before = versions.partition_point(|(at, _)| *at <= frame);
        versions.get(before.checked_sub(1)?).map(|(_, statement)| Arc::clone(statement))
    }
}

impl Known {
    fn insert(&mut self, frame: u64, statement: &Arc<Prepared>) {
        let versions = self.versions.entry(statement.id.clone()).or_default();
        let at = versions.partition_point(|(other, _)| *other < frame);
        self.type_entries += statement.weight();
        let version = (frame, Arc::clone(statement));
        if let Some(slot) = versions.get_mut(at).filter(|(other, _)| *other == frame) {
            self.type_entries -= slot.1.weight();
            *slot = version;
        } else {
            versions.insert(at, version);
            self.order.insert((frame, statement.id.clone()));
        }
    }

    fn drop_latest(&mut self) {
        let Some((frame, id)) = self.order.pop_last() else { return };
        let Some(versions) = self.versions.get_mut(&id) else { return };
        if let Some(at) = versions.iter().rposition(|(of, _)| *of == frame) {
            let (_, statement) = versions.remove(at);
            self.type_entries -= statement.weight();
        }
        if versions.is_empty() {
            self.versions.remove(&id);
        }
    }
}
