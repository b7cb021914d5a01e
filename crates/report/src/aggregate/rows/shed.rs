//! The limit on distinct statements.
//!
//! Keys and texts are unlimited, so the statements with the fewest bytes so far are shed. The remaining ones are exact from
//! their first appearance. The choice depends on all earlier input and therefore on frame order. The ledger sheds between two
//! frames, when no reports are pending.

use super::{Rows, Statement};
use overhead_model::{OTHER, RowId};
use std::cmp::Reverse;
use std::collections::HashMap;

/// Statements that are no longer distinct.
#[derive(Clone, Debug, Default)]
pub(super) struct Shed {
    /// Number so far. A statement that returns counts again.
    pub count: u64,
    /// Ids from the latest shedding, with their replacements.
    moved: HashMap<RowId, RowId>,
}

impl Rows {
    /// Returns the number of distinct statements.
    #[inline]
    pub(crate) fn told_apart(&self) -> usize {
        self.told_apart
    }

    /// Keeps the `keep` largest statements by bytes, ties by key, and adds the others to their rows' [`OTHER`].
    pub(crate) fn shed(&mut self, keep: usize) {
        let own = |at: &u32| {
            let statement = &self.statements[*at as usize];
            statement.is_in_use() && !statement.text.is_empty() && *statement.text != *OTHER
        };
        let mut places: Vec<u32> = (0..self.statements.len() as u32).filter(own).collect();
        places.sort_by_cached_key(|&at| {
            let statement = &self.statements[at as usize];
            (Reverse(statement.bytes()), self.row_of(statement).key.clone(), statement.text.clone())
        });
        self.shed.moved.clear();
        for at in places.into_iter().skip(keep) {
            self.shed_one(at);
        }
        let statements = &self.statements;
        for (row, number) in self.list.iter_mut().zip(0..) {
            row.statements.retain(|&at| statements[at as usize].row == number);
        }
    }

    /// Leaves removal from the row to the caller.
    fn shed_one(&mut self, at: u32) {
        let Statement { row, id, .. } = self.statements[at as usize];
        let other = self.other_of(row);
        self.fold(at, other);
        self.shed.count += 1;
        self.shed.moved.insert(id, self.statements[other as usize].id);
    }

    /// Returns the current id for one issued before the latest shedding.
    pub(crate) fn renumbered(&self, id: RowId) -> RowId {
        self.shed.moved.get(&id).copied().unwrap_or(id)
    }
}
