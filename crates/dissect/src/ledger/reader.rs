//! The books as a decoder sees them.

use super::{Book, Posting};
use crate::limits;
use overhead_decode::{Free, Note, OpId, Reader};
use overhead_model::{Account, Class, Outcome, Side, Tally, Trace};

/// The [`Reader`] that adds up.
#[derive(Debug)]
pub struct Ledger<'a, T> {
    /// The connection's books.
    pub book: &'a mut Book,
    /// Where closed operations go.
    pub tally: &'a mut T,
}

impl<T: Tally> Reader for Ledger<'_, T> {
    fn open(&mut self) -> OpId {
        self.book.open(self.tally)
    }

    #[inline(always)]
    fn post(&mut self, side: Side, op: OpId, account: Account, field: &'static str, len: u64) {
        self.book.post(side, op, Posting { account, field, len }, self.tally);
    }

    #[inline]
    fn free(&mut self, side: Side, op: OpId, ahead: u64, len: u64, free: Free) {
        self.book.free(side, op, ahead, len, free);
    }

    #[inline]
    fn wants_free(&self) -> bool {
        self.book.is_recording()
    }

    fn enter(&mut self, side: Side, group: &'static str) {
        self.tally.trace(Trace::Enter { side, group });
    }

    fn leave(&mut self, side: Side) {
        self.tally.trace(Trace::Leave { side });
    }

    fn decrypted(&mut self, side: Side, ahead: u64, bytes: &[u8]) {
        self.tally.trace(Trace::Decrypted { side, ahead, bytes });
    }

    fn label(&mut self, op: OpId, class: Class, name: &str, via: &'static str) {
        self.book.label_row(op, class, name, via, self.tally);
    }

    fn close(&mut self, op: OpId, outcome: Outcome) {
        self.book.close_op(op, outcome, self.tally);
    }

    fn software(&mut self, side: Side, name: &str) {
        self.book.spoil();
        self.book.said.get_or_insert_default().software[side as usize] = Some(cut(name).to_owned());
    }

    fn software_version(&mut self, side: Side, version: &str) {
        self.book.spoil();
        let name = self.book.said.get_or_insert_default().software[side as usize].get_or_insert_default();
        name.push(' ');
        name.push_str(cut(version));
        name.truncate(cut(name).len());
    }

    fn note(&mut self, note: Note) {
        self.book.note(note);
    }
}

/// The beginning of a name of software, as much of it as is kept.
fn cut(name: &str) -> &str {
    let mut end = name.len().min(limits::SOFTWARE);
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    name.get(..end).unwrap_or_default()
}
