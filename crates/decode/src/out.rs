//! Postings, and the facts about operations that go with them.

#![expect(clippy::inline_always, reason = "posting a field is a few instructions, and every field is posted")]

use super::{Moment, Note, numbers};
use crate::limits;
use overhead_model::{Account, Class, Outcome, Side};

/// An operation of one connection, numbered from 0 in order of opening.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OpId(pub u64);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Label<'a> {
    pub class: Class,
    /// Command word, verb, or one of the fixed names.
    pub name: &'a str,
    /// How it was sent; empty if there is only one way.
    pub via: &'static str,
    /// The statement, without user data: see [`overhead_model::RowKey`]. Empty if there is none.
    pub statement: &'a str,
}

/// A field to post: account, readable name (`"stream id"`), length in bytes.
pub type Field = (Account, &'static str, u64);

/// How far the bytes of a field may vary without any effect on postings, labels, notes or decoder state, now or later. See
/// [`Decoder::idle_state`](super::Decoder::idle_state).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Free {
    Any,
    /// Each digit `0` to `9` may be any other digit.
    Digits,
    /// An id that pairs an answer with its request. Both may change together, as long as no other pending request has the
    /// same id. The mask gives the bits of the first byte that may vary.
    Id(u8),
}

/// Receives postings. The ledger, the explanation and tests implement it.
pub trait Reader {
    fn open(&mut self) -> OpId;

    /// The postings that follow are of `side`, until the next call.
    #[inline]
    fn turn(&mut self, _side: Side) {}

    /// Posts the next `len` bytes of `side` to a payload `account` of `op`. `field` is a short readable name (`"stream
    /// id"`). `len` is never 0.
    fn post(&mut self, side: Side, op: OpId, account: Account, field: &'static str, len: u64);

    /// Posts fields in order, like [`Reader::post`]; skips empty ones.
    #[inline]
    fn post_all<const N: usize>(&mut self, side: Side, op: OpId, fields: [Field; N]) {
        for (account, field, len) in fields.into_iter().filter(|&(_, _, len)| len > 0) {
            self.post(side, op, account, field, len);
        }
    }

    /// Marks `len` bytes of `side` whose content may vary. They start `ahead` bytes after the last posting of that side and
    /// will be posted to `op`.
    #[inline]
    fn free(&mut self, _side: Side, _op: OpId, _ahead: u64, _len: u64, _free: Free) {}

    /// Returns whether [`Reader::free`] has any effect now. If not, decoders need not search for such bytes.
    #[inline]
    fn wants_free(&self) -> bool {
        true
    }

    /// Opens a named group (`"rows metadata"`) that contains the postings up to the matching [`Reader::leave`].
    fn enter(&mut self, _side: Side, _group: &'static str) {}

    fn leave(&mut self, _side: Side) {}

    /// Labels `op`, whose request is complete. The last label before it closes counts; an operation without one becomes
    /// `unmatched`.
    fn label(&mut self, op: OpId, label: Label<'_>);

    /// Returns whether statements in labels are used. If not, decoders need not extract them. Constant for a connection.
    #[inline]
    fn wants_statements(&self) -> bool {
        true
    }

    /// Closes `op`. Nothing can be posted to it afterwards.
    fn close(&mut self, op: OpId, outcome: Outcome);

    /// Names the software that *sends* on `side`, from the handshake (`"Redis 7.0.15"`).
    fn software(&mut self, side: Side, name: &str);

    /// Gives the version of that software if it is sent separately.
    fn software_version(&mut self, _side: Side, _version: &str) {}

    /// Gives the plain text `bytes` of encrypted bytes that start `ahead` bytes after the next byte to be posted on `side`.
    fn decrypted(&mut self, _side: Side, _ahead: u64, _bytes: &[u8]) {}

    /// Returns whether [`Reader::inner`] is used. If not, decoders need not look for inner fields.
    #[inline]
    fn wants_inner(&mut self) -> bool {
        false
    }

    /// Reports the next `len` decompressed bytes of `side` as a field that would go to `account`.
    #[inline]
    fn inner(&mut self, _side: Side, _account: Account, _field: &'static str, _len: u64) {}

    /// The next `wire` bytes posted on `side` are the compressed form of the fields reported by [`Reader::inner`] since the
    /// last call.
    #[inline]
    fn packed(&mut self, _side: Side, _wire: u64) {}

    fn note(&mut self, note: Note);

    /// Returns the position of the next byte to be posted on `side`, and what its sender had received of the other side.
    #[inline]
    fn moment(&self, _side: Side) -> Moment {
        Moment::default()
    }

    /// Returns the server's last segment without payload since bytes are missing.
    fn bare_ack(&self) -> Moment {
        Moment::default()
    }

    /// Returns the end of what is known of the stream of `side`: captured, or given up as lost.
    #[inline]
    fn announced(&self, _side: Side) -> u64 {
        u64::MAX
    }
}

/// A decoder's output for one direction of a connection, during one piece of input.
///
/// Counts the posted bytes, so that the engine can advance, and holds the operation being charged.
pub struct Out<'r, R: Reader> {
    reader: &'r mut R,
    side: Side,
    current: Option<OpId>,
    posted: u64,
    depth: u32,
    /// Nothing posted now may vary, or the reader ignores what may: see [`Out::set_read`].
    is_read: bool,
}

impl<'r, R: Reader> Out<'r, R> {
    pub fn new(reader: &'r mut R, side: Side, current: Option<OpId>) -> Self {
        reader.turn(side);
        let is_read = !reader.wants_free();
        Self { reader, side, current, posted: 0, depth: 0, is_read }
    }

    /// Returns the direction whose bytes are posted.
    #[inline]
    pub fn side(&self) -> Side {
        self.side
    }

    /// Returns the operation being charged.
    pub fn current(&self) -> Option<OpId> {
        self.current
    }

    /// Returns how many bytes were posted through this value.
    pub fn posted(&self) -> u64 {
        self.posted
    }

    /// Counts `len` bytes as posted that are held back and will be posted through [`Out::aside`].
    pub fn pass(&mut self, len: u64) {
        self.posted += len;
    }

    /// Returns an output for postings that were held back; they are not counted again. It starts with `depth` open groups.
    pub fn aside(&mut self, current: Option<OpId>, depth: u32) -> Out<'_, R> {
        let mut aside = Out::new(self.reader, self.side, current);
        aside.depth = depth;
        aside
    }

    /// Returns how many groups are open.
    pub fn depth(&self) -> u32 {
        self.depth
    }

    /// Opens an operation without charging it: see [`Out::charge`].
    pub fn open(&mut self) -> OpId {
        self.reader.open()
    }

    /// Charges `op` with the postings that follow in this direction, also in later steps.
    #[inline]
    pub fn charge(&mut self, op: OpId) {
        self.current = Some(op);
    }

    /// Labels the operation being charged, if there is one.
    pub fn label_current(&mut self, label: Label<'_>) {
        if let Some(op) = self.current {
            self.label_statement(op, label);
        }
    }

    /// Ends a message: what follows belongs to no operation until the next [`Out::charge`].
    #[inline]
    pub fn release(&mut self) {
        self.current = None;
    }

    /// Opens, labels and charges an operation.
    pub fn begin(&mut self, class: Class, name: &str, via: &'static str) -> OpId {
        let op = self.open();
        self.label(op, class, name, via);
        self.charge(op);
        op
    }

    /// Opens, labels as `unmatched` and charges an operation for bytes without a request or response. The caller closes it.
    pub fn orphan(&mut self, name: &str) -> OpId {
        self.begin(Class::Unmatched, name, "")
    }

    /// Posts a field without a request or response to an operation of its own.
    pub fn post_alone(&mut self, name: &str, (account, field, len): Field) {
        let op = self.orphan(name);
        self.post(account, field, len);
        self.close(op, Outcome::NoReply);
    }

    #[inline(always)]
    fn charged(&mut self) -> OpId {
        self.current.unwrap_or_else(|| self.orphan("(undecoded)"))
    }

    /// Posts the next `len` bytes to the operation being charged, unless `len` is 0.
    #[inline(always)]
    pub fn post(&mut self, account: Account, field: &'static str, len: u64) {
        if len == 0 {
            return;
        }
        let op = self.charged();
        self.posted += len;
        self.reader.post(self.side, op, account, field, len);
    }

    /// Posts several fields at once, which is faster than one call for each.
    #[inline(always)]
    pub fn post_all<const N: usize>(&mut self, fields: [Field; N]) {
        let len: u64 = fields.iter().map(|(_, _, len)| len).sum();
        if len == 0 {
            return;
        }
        let op = self.charged();
        self.posted += len;
        self.reader.post_all(self.side, op, fields);
    }

    /// Like [`Out::post`], for bytes that the decoder ignores except for what `free` keeps.
    #[inline(always)]
    pub fn post_free(&mut self, account: Account, field: &'static str, len: u64, free: Free) {
        self.free(0, len, free);
        self.post(account, field, len);
    }

    /// Like [`Out::post`], or [`Out::post_free`] if there is a `free`.
    #[inline]
    pub fn post_maybe_free(&mut self, account: Account, field: &'static str, len: u64, free: Option<Free>) {
        if let Some(free) = free {
            self.free(0, len, free);
        }
        self.post(account, field, len);
    }

    /// Marks `len` bytes, `ahead` bytes after the next posting, as [`Out::post_free`] does.
    #[inline]
    pub fn free(&mut self, ahead: u64, len: u64, free: Free) {
        if !self.is_read {
            self.tell_free(ahead, len, free);
        }
    }

    #[inline(never)]
    fn tell_free(&mut self, ahead: u64, len: u64, free: Free) {
        if let Some(op) = self.current.filter(|_| len > 0) {
            self.reader.free(self.side, op, ahead, len, free);
        }
    }

    /// While `true`, the decoder reads what it posts: nothing may vary, whatever else is marked.
    pub fn set_read(&mut self, is_read: bool) {
        self.is_read = is_read;
    }

    /// Marks the digits of the [`numbers`] in `text`, which is posted next.
    pub fn free_numbers(&mut self, text: &[u8]) {
        if !self.wants_free() {
            return;
        }
        for number in numbers(text) {
            self.free(number.start as u64, number.len() as u64, Free::Digits);
        }
    }

    /// See [`Reader::moment`].
    #[inline]
    pub fn moment_of(&self, side: Side) -> Moment {
        self.reader.moment(side)
    }

    /// See [`Reader::bare_ack`].
    pub fn bare_ack(&self) -> Moment {
        self.reader.bare_ack()
    }

    /// See [`Reader::announced`].
    pub fn announced(&self, side: Side) -> u64 {
        self.reader.announced(side)
    }

    /// Returns whether the sender of `side` had received bytes of the other side that were not captured yet.
    pub fn has_unseen(&self, side: Side) -> bool {
        self.moment_of(side).received > self.announced(side.other())
    }

    /// See [`Reader::wants_free`].
    #[inline]
    pub fn wants_free(&self) -> bool {
        self.reader.wants_free()
    }

    /// Opens a group: the fields up to its end belong to it.
    pub fn enter(&mut self, group: &'static str) {
        self.depth += 1;
        self.reader.enter(self.side, group);
    }

    #[inline]
    pub fn wants_inner(&mut self) -> bool {
        self.reader.wants_inner()
    }

    /// See [`Reader::inner`].
    #[inline]
    pub fn inner(&mut self, account: Account, field: &'static str, len: u64) {
        self.reader.inner(self.side, account, field, len);
    }

    /// See [`Reader::packed`].
    #[inline]
    pub fn packed(&mut self, wire: u64) {
        self.reader.packed(self.side, wire);
    }

    /// Closes the innermost group. The engine closes groups that are still open after a step.
    pub fn leave(&mut self) {
        if self.depth > 0 {
            self.depth -= 1;
            self.reader.leave(self.side);
        }
    }

    pub fn leave_all(&mut self) {
        while self.depth > 0 {
            self.leave();
        }
    }

    /// Labels an operation without a statement. Cuts the name to [`limits::NAME`] bytes.
    pub fn label(&mut self, op: OpId, class: Class, name: &str, via: &'static str) {
        self.label_statement(op, Label { class, name, via, statement: "" });
    }

    /// Labels an operation. Cuts the name to [`limits::NAME`] bytes and the statement, in the middle, to
    /// [`limits::STATEMENT`].
    pub fn label_statement(&mut self, op: OpId, label: Label<'_>) {
        let name = &label.name[..label.name.floor_char_boundary(limits::NAME)];
        if label.statement.len() > limits::STATEMENT {
            let statement = &cut_in_the_middle(label.statement, limits::STATEMENT);
            self.reader.label(op, Label { name, statement, ..label });
        } else {
            self.reader.label(op, Label { name, ..label });
        }
    }

    /// Returns whether statements are kept separate. If not, labels need none.
    #[inline]
    pub fn wants_statements(&self) -> bool {
        self.reader.wants_statements()
    }

    /// Closes an operation: its outcome is final, and nothing more may be posted to it.
    pub fn close(&mut self, op: OpId, outcome: Outcome) {
        if self.current == Some(op) {
            self.current = None;
        }
        self.reader.close(op, outcome);
    }

    /// Reports the name of the software at the sending end of `side`.
    pub fn software(&mut self, side: Side, name: &str) {
        self.reader.software(side, name);
    }

    /// Reports the version of the software at the sending end of `side`.
    pub fn software_version(&mut self, side: Side, version: &str) {
        self.reader.software_version(side, version);
    }

    pub fn decrypted(&mut self, ahead: u64, bytes: &[u8]) {
        self.reader.decrypted(self.side, ahead, bytes);
    }

    /// Reports a limit of the result on this connection.
    pub fn note(&mut self, note: Note) {
        self.reader.note(note);
    }
}

/// Passes facts about operations on to the field `out` of a [`Reader`] that keeps postings, none of which may vary.
macro_rules! pass_facts_on {
    () => {
        fn wants_free(&self) -> bool {
            false
        }

        fn label(&mut self, op: OpId, label: Label<'_>) {
            self.out.label_statement(op, label);
        }

        fn wants_statements(&self) -> bool {
            self.out.wants_statements()
        }

        fn software(&mut self, side: Side, name: &str) {
            self.out.software(side, name);
        }

        fn software_version(&mut self, side: Side, version: &str) {
            self.out.software_version(side, version);
        }

        fn note(&mut self, note: Note) {
            self.out.note(note);
        }

        fn moment(&self, side: Side) -> Moment {
            self.out.moment_of(side)
        }

        fn bare_ack(&self) -> Moment {
            self.out.bare_ack()
        }

        fn announced(&self, side: Side) -> u64 {
            self.out.announced(side)
        }
    };
}

pub(crate) use pass_facts_on;

/// Returns the start and end of a text with an ellipsis between, in at most `most` bytes.
pub fn cut_in_the_middle(text: &str, most: usize) -> String {
    const ELLIPSIS: &str = "…";
    let room = most.saturating_sub(ELLIPSIS.len());
    let head = &text[..text.floor_char_boundary(room - room / 2)];
    let tail = &text[text.ceil_char_boundary(text.len() - room / 2)..];
    [head, ELLIPSIS, tail].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_cut_in_the_middle_keeps_its_ends_and_whole_characters() {
        assert_eq!(cut_in_the_middle("abcdefghijklmnop", 9), "abc…nop");
        let long = "é".repeat(2_000);
        let cut = cut_in_the_middle(&long, limits::STATEMENT);
        assert!(cut.len() <= limits::STATEMENT && cut.len() > limits::STATEMENT - 4, "{}", cut.len());
        assert_eq!(cut.matches('…').count(), 1);
    }
}
