//! A decoder's view of the books.

#![expect(clippy::inline_always, reason = "posting a field is a few instructions, and every field is posted")]

use super::ConnectionLedger;
use crate::limits;
use overhead_decode::{Field, Free, Label, Moment, Note, OpId, Reader};
use overhead_model::{Account, Outcome, PayloadAmounts, Protocol, RowKey, Side, Tally, Trace};

/// A [`Reader`] that sums the fields of one operation in one frame before it enters them in the books.
#[derive(Debug)]
pub struct LedgerReader<'a, T: Tally> {
    book: &'a mut ConnectionLedger,
    protocol: Protocol,
    tally: &'a mut T,
    sums: PendingSums,
}

/// Bytes of one operation in one frame, not entered in the books yet.
#[derive(Debug)]
struct PendingSums {
    side: Side,
    /// [`NOBODY`] if there are none.
    op: OpId,
    whose: ByteOwner,
    amounts: PayloadAmounts,
    /// The limit of bytes to sum, and how many are left. At 0, the frame ends or a deferred charge is due, and the sums must be entered.
    most: u64,
    room: u64,
}

impl PendingSums {
    /// Returns the number of bytes summed.
    #[inline]
    fn len(&self) -> u64 {
        self.most - self.room
    }
}

/// The owner of bytes in the books.
#[derive(Clone, Copy, Debug)]
pub(super) enum ByteOwner {
    /// An operation: its index among the open ones.
    Open(u32),
    /// The connection, because their operation is not open.
    Connections,
    /// Nobody, because no frame carried them.
    Nobodys,
}

/// Marks the absence of an operation: no operation has this number.
const NOBODY: OpId = OpId(u64::MAX);

impl<'a, T: Tally> LedgerReader<'a, T> {
    /// Returns a reader that posts bytes of `protocol` to `book` and closed operations to `tally`.
    #[inline]
    pub fn new(book: &'a mut ConnectionLedger, protocol: Protocol, tally: &'a mut T) -> Self {
        let (side, whose) = (Side::Request, ByteOwner::Nobodys);
        let sums = PendingSums { side, op: NOBODY, whose, amounts: PayloadAmounts::ZERO, most: 0, room: 0 };
        Self { book, protocol, tally, sums }
    }

    /// Enters the sums in the books.
    #[inline]
    fn enter_sums(&mut self) {
        let PendingSums { side, whose, ref amounts, .. } = self.sums;
        let len = self.sums.len();
        if len > 0 {
            self.book.enter(side, whose, len, amounts);
            self.sums.amounts = PayloadAmounts::ZERO;
        }
        (self.sums.op, self.sums.most, self.sums.room) = (NOBODY, 0, 0);
    }

    /// Returns the number of posted bytes of a side that are not in the books yet.
    fn ahead(&self, side: Side) -> u64 {
        if self.sums.side == side { self.sums.len() } else { 0 }
    }

    /// Posts a field of any length, across frames if necessary, and traces it.
    #[inline(never)]
    fn post_any(&mut self, op: OpId, account: Account, field: &'static str, mut len: u64) {
        self.tally.trace(Trace::Field { side: self.sums.side, field, len });
        while len > 0 {
            if self.sums.op != op {
                self.turn_to(op);
            }
            let taken = len.min(self.sums.room);
            if taken == 0 {
                // Unreachable: the decoder posts no more than was announced.
                return;
            }
            self.book.trace_posted(self.sums.side, op, (account, taken), self.tally);
            self.sums.room -= taken;
            self.sums.amounts.add(account, taken);
            len -= taken;
            if self.sums.room == 0 {
                self.reach();
            }
        }
    }

    /// Turns to the bytes of another operation or frame.
    #[inline(never)]
    fn turn_to(&mut self, op: OpId) {
        self.enter_sums();
        let (whose, room) = self.book.begin(self.sums.side, op);
        (self.sums.op, self.sums.whose) = (op, whose);
        (self.sums.most, self.sums.room) = (room, room);
    }

    /// Enters the sums when no more bytes may be added.
    #[inline(never)]
    fn reach(&mut self) {
        let PendingSums { side, op, whose, .. } = self.sums;
        self.enter_sums();
        self.book.reach(side, (op, whose), self.tally);
    }
}

impl<T: Tally> Drop for LedgerReader<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.enter_sums();
    }
}

impl<T: Tally> Reader for LedgerReader<'_, T> {
    fn open(&mut self) -> OpId {
        self.book.open(self.tally)
    }

    #[inline]
    fn turn(&mut self, side: Side) {
        if self.sums.side != side {
            self.enter_sums();
            self.sums.side = side;
        }
    }

    #[inline(always)]
    fn post(&mut self, side: Side, op: OpId, account: Account, field: &'static str, len: u64) {
        self.post_all(side, op, [(account, field, len)]);
    }

    #[inline(always)]
    fn post_all<const N: usize>(&mut self, _: Side, op: OpId, fields: [Field; N]) {
        if self.sums.op != op {
            self.turn_to(op);
        }
        let len: u64 = fields.iter().map(|(_, _, len)| len).sum();
        if len <= self.sums.room && self.tally.listener().is_none() {
            self.sums.room -= len;
            for (account, _, len) in fields {
                self.sums.amounts.add(account, len);
            }
            if self.sums.room == 0 {
                self.reach();
            }
        } else {
            for (account, field, len) in fields.into_iter().filter(|&(_, _, len)| len > 0) {
                self.post_any(op, account, field, len);
            }
        }
    }

    #[inline]
    fn free(&mut self, side: Side, op: OpId, ahead: u64, len: u64, free: Free) {
        if self.book.is_recording() {
            let ahead = ahead + self.ahead(side);
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

    #[inline]
    fn wants_inner(&mut self) -> bool {
        self.tally.listener().is_some_and(|listener| listener.wants_inner())
    }

    #[inline]
    fn inner(&mut self, side: Side, account: Account, field: &'static str, len: u64) {
        self.tally.trace(Trace::Inner { side, account, field, len });
    }

    #[inline]
    fn packed(&mut self, side: Side, wire: u64) {
        self.tally.trace(Trace::Packed { side, wire });
    }

    fn label(&mut self, op: OpId, label: Label<'_>) {
        let Label { class, name, via, statement } = label;
        self.book.label_row(op, RowKey { protocol: self.protocol, class, name, via, statement }, self.tally);
    }

    #[inline]
    fn wants_statements(&self) -> bool {
        self.tally.wants_statements()
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

    #[inline]
    fn moment(&self, side: Side) -> Moment {
        let Moment { at, received } = self.book.moment(side);
        Moment { at: at + self.ahead(side), received }
    }

    fn bare_ack(&self) -> Moment {
        self.book.proofs.as_ref().map_or_else(Moment::default, |proofs| proofs.bare)
    }

    #[inline]
    fn announced(&self, side: Side) -> u64 {
        self.book.directions[side as usize].end
    }
}

/// Returns the part of a software name that is kept.
fn cut(name: &str) -> &str {
    &name[..name.floor_char_boundary(limits::SOFTWARE)]
}
