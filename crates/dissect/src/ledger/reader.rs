//! The books as a decoder sees them.

use super::direction::NOBODY;
use super::{Book, Posting};
use crate::limits;
use overhead_decode::{Free, Note, OpId, Reader};
use overhead_model::{Account, Amounts, Class, Outcome, Protocol, RowKey, Side, Tally, Trace};

/// The [`Reader`] that adds up: the fields of one operation in one frame first, and these into the books.
#[derive(Debug)]
pub struct Ledger<'a, T: Tally> {
    book: &'a mut Book,
    protocol: Protocol,
    tally: &'a mut T,
    sums: Sums,
}

/// Bytes of the current run that are in no books yet.
#[derive(Debug)]
pub(super) struct Sums {
    pub side: Side,
    /// Whose they are, and where that is among the open operations; [`NOBODY`] where nothing is added up.
    pub op: OpId,
    pub place: u32,
    /// Bytes by account, and all of them.
    pub amounts: Amounts,
    pub len: u64,
    /// More than may be added up: with as many, a frame ends, or somebody waits for them.
    pub limit: u64,
}

impl<'a, T: Tally> Ledger<'a, T> {
    /// Adds up into `book` what is of `protocol`; closed operations go to `tally`.
    #[inline]
    pub fn new(book: &'a mut Book, protocol: Protocol, tally: &'a mut T) -> Self {
        let sums = Sums { side: Side::Request, op: NOBODY, place: 0, amounts: Amounts::ZERO, len: 0, limit: 0 };
        Self { book, protocol, tally, sums }
    }

    /// Puts what was added up into the books.
    #[inline]
    fn enter_sums(&mut self) {
        if self.sums.len > 0 {
            self.book.add(&self.sums);
            (self.sums.amounts, self.sums.len) = (Amounts::ZERO, 0);
        }
        (self.sums.op, self.sums.limit) = (NOBODY, 0);
    }

    /// Posts a field that does not go on with what is added up: begins to add up anew where that is possible.
    #[inline(never)]
    fn post_alone(&mut self, side: Side, op: OpId, posting: Posting) {
        self.enter_sums();
        if self.tally.listener().is_some() {
            return self.book.post(side, op, posting, self.tally);
        }
        self.book.turn_to(side, op);
        if self.begin_sums(side, op) && posting.len < self.sums.limit {
            self.sums.len = posting.len;
            self.sums.amounts[posting.account] = posting.len;
            return;
        }
        self.book.post(side, op, posting, self.tally);
        self.begin_sums(side, op);
    }

    /// Begins to add up for an operation where it is open, and posting is within a frame.
    #[inline]
    fn begin_sums(&mut self, side: Side, op: OpId) -> bool {
        let room = self.book.room(side, op);
        if let Some((place, limit)) = room {
            (self.sums.side, self.sums.op, self.sums.place, self.sums.limit) = (side, op, place, limit);
        }
        room.is_some()
    }
}

impl<T: Tally> Drop for Ledger<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.enter_sums();
    }
}

impl<T: Tally> Reader for Ledger<'_, T> {
    fn open(&mut self) -> OpId {
        self.book.open(self.tally)
    }

    #[inline]
    fn post(&mut self, side: Side, op: OpId, account: Account, field: &'static str, len: u64) {
        let sums = &mut self.sums;
        let sum = sums.len + len;
        if sums.op == op && sum < sums.limit && sums.side == side {
            sums.len = sum;
            sums.amounts[account] += len;
        } else {
            self.post_alone(side, op, Posting { account, field, len });
        }
    }

    #[inline]
    fn free(&mut self, side: Side, op: OpId, ahead: u64, len: u64, free: Free) {
        if self.book.is_recording() {
            let ahead = ahead + if self.sums.side == side { self.sums.len } else { 0 };
            self.book.free(side, op, ahead, len, free);
        }
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
        self.book.label_row(op, RowKey { protocol: self.protocol, class, name, via }, self.tally);
    }

    fn close(&mut self, op: OpId, outcome: Outcome) {
        self.enter_sums();
        self.book.close_op(self.protocol, op, outcome, self.tally);
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

/// Returns the beginning of a name of software, as much of it as is kept.
fn cut(name: &str) -> &str {
    let mut end = name.len().min(limits::SOFTWARE);
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    name.get(..end).unwrap_or_default()
}
