//! The bound on statements that are told apart.
//!
//! There may be as many as there are keys or texts, so some are to be shed: those with the fewest bytes so far. Those that stay
//! are exact from when they appeared. Which ones these are depends on all that came before, and so on the order of frames: the
//! ledger sheds between two frames, once nothing waits to be told.

use super::{Rows, Statement};
use overhead_model::{OTHER, RowId};
use std::cmp::Reverse;
use std::collections::HashMap;

/// What became of statements that are not told apart any more.
#[derive(Clone, Debug, Default)]
pub(super) struct Shed {
    /// Those so far. One that comes again counts again.
    pub count: u64,
    /// The numbers of those that were shed last, and those that stand for them.
    moved: HashMap<RowId, RowId>,
}

impl Rows {
    /// Returns how many statements are told apart.
    #[inline]
    pub(crate) fn told_apart(&self) -> usize {
        self.told_apart
    }

    /// Keeps so many statements, the largest by bytes, and of equal ones the first by key; adds the others up in [`OTHER`] of
    /// their rows.
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

    /// Its row is still to forget its place.
    fn shed_one(&mut self, at: u32) {
        let Statement { row, id, .. } = self.statements[at as usize];
        let other = self.other_of(row);
        self.fold(at, other);
        self.shed.count += 1;
        self.shed.moved.insert(id, self.statements[other as usize].id);
    }

    /// Returns the number that stands for one that was given out before statements were shed last.
    pub(crate) fn renumbered(&self, id: RowId) -> RowId {
        self.shed.moved.get(&id).copied().unwrap_or(id)
    }
}
