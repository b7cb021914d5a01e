//! Postings and the statements about operations that go with them.

#![expect(clippy::inline_always, reason = "posting a field is a few instructions, and every field is posted")]

use super::{Codec, Foreign, numbers};
use crate::limits;
use overhead_model::{Account, Class, Outcome, Side};

/// An operation of one connection. Numbers rise from 0 in order of opening and are never used twice on a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OpId(pub u64);

/// A warning or fact about a connection that is counted and reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Note {
    /// TLS records were seen.
    Tls,
    /// TLS records of a connection were not decrypted.
    Encrypted,
    /// The decryption of one direction ended; the reason.
    Undecryptable(&'static str),
    /// A message, or the rest of one, could not be decoded and went to `unknown`.
    UndecodedMessage,
    /// A cell or value whose type was not seen went wholly to `data`, and by its bytes it could have an inner structure.
    UntypedValue,
    /// A compressed body was posted pro rata of its decompressed accounts.
    ProRata,
    /// The rest of one direction was given up as not being of this protocol; the reason.
    Malformed(&'static str),
    /// A message boundary was lost to a gap or to snapping.
    LostBoundary,
    /// A retransmission had other bytes than were seen first. The first hold.
    Conflict,
    /// A message was longer than [`crate::limits::MESSAGE_BUFFER`].
    LongMessage,
    /// A compressed body claims to decompress to more than its compression can.
    Implausible(Codec),
    /// A compressed body decompresses to more than [`crate::limits::DECOMPRESSED`].
    LongBody,
    /// A compressed message was not decompressed, for want of what [`crate::limits::EXPANDED`] allows.
    Expansion,
    /// A connection has payload in one direction, and no frame at all of the other was captured.
    OneWay,
    /// Requests of a connection were closed as unanswered since nothing of its server was captured:
    /// there is no end to those that wait.
    Abandoned,
    /// An answer went to the first of several requests that could have it, where nothing tells which of them has it.
    Ambiguous,
    /// A frame of a client was captured behind what acknowledges it: the answer to its request may have been taken for another's.
    CapturedLate,
    /// Requests of a connection that was met in its midst were answered before its server had answered those that were not seen:
    /// answers may have gone to others than their own.
    Shifted,
    /// A connection went on with another protocol, as both ends agreed: what people call it.
    Switched(&'static str),
    /// Datagrams of UDP may be of a protocol that is decoded over TCP alone.
    Datagrams {
        /// The server's port.
        port: u16,
        /// It was named, not taken for known.
        is_selected: bool,
    },
    /// A selected connection is not decoded: its bytes are not of the protocol that is expected there.
    Foreign(Foreign),
}

/// What an operation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Label<'a> {
    /// What it is for.
    pub class: Class,
    /// Command word, verb, or one of the fixed names.
    pub name: &'a str,
    /// How it was sent; empty where there is only one way.
    pub via: &'static str,
    /// What it does, without user data: see [`overhead_model::RowKey`]. Empty where it has none.
    pub statement: &'a str,
}

/// A field to be posted: its account, what people call it (`"stream id"`), and how many bytes it has.
pub type Field = (Account, &'static str, u64);

/// How far the bytes of a field may differ without any difference to what is posted, labelled, noted and remembered, now or
/// later. See [`Decoder::quiet`](super::Decoder::quiet).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Free {
    /// They may be any bytes.
    Any,
    /// Each may be any of the digits `0` to `9`, where it is one.
    Digits,
    /// They are an id by which the answer finds its request. Both may be any bytes as long as they are equal, and no other
    /// request waits under the same id. Of the first byte, these bits may differ.
    Id(u8),
}

/// A text whose length is a decimal number before it. Text and number may be others, as long as the number counts the text:
/// what is posted differs by the lengths of both, and by nothing else. See [`Out::free_counted`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CountedText {
    /// Bytes before the number, of those that are posted next.
    pub ahead: u64,
    /// Digits of the number, without zeros before them, and where they are posted.
    pub digits: u64,
    /// Account of the number.
    pub number_account: Account,
    /// Bytes between the number and the text, which stay as they are.
    pub between: u64,
    /// Bytes of the text.
    pub len: u64,
    /// Account of the text.
    pub account: Account,
    /// How many of its first bytes stay as they are.
    pub kept: u64,
    /// How those behind them may differ: in any way, or they are one digit or more.
    pub free: Free,
    /// Bytes that it may have at most.
    pub most: u64,
}

impl CountedText {
    /// Digits of the longest number, with eight of which there is no more to say of any text in a frame.
    pub const DIGITS: usize = 8;
}

/// What is made of postings. Implemented by the ledger, by the explanation and by tests.
pub trait Reader {
    /// Opens a new operation.
    fn open(&mut self) -> OpId;

    /// Opens an operation that began before some that are open already.
    fn open_earlier(&mut self) -> OpId {
        self.open()
    }

    /// What is posted from here on is of `side`, until this is said of the other one.
    #[inline]
    fn turn(&mut self, side: Side) {
        let _ = side;
    }

    /// Posts the next `len` bytes of `side` to `account` of `op`, which is one of payload. `field` is a short static name for people
    /// (`"stream id"`), and `len` is never 0.
    fn post(&mut self, side: Side, op: OpId, account: Account, field: &'static str, len: u64);

    /// Posts fields one after the other, as [`Reader::post`] would, those of 0 bytes left out.
    #[inline]
    fn post_all<const N: usize>(&mut self, side: Side, op: OpId, fields: [Field; N]) {
        for (account, field, len) in fields.into_iter().filter(|&(_, _, len)| len > 0) {
            self.post(side, op, account, field, len);
        }
    }

    /// The content of `len` bytes of `side` is free to differ. They begin `ahead` bytes behind the last one that was posted
    /// on that side, and are posted to `op` next.
    #[inline]
    fn free(&mut self, side: Side, op: OpId, ahead: u64, len: u64, free: Free) {
        let _ = (side, op, ahead, len, free);
    }

    /// The length of a text is free to differ, too, and the number that tells it. Both are posted to `op` next, behind what was
    /// posted last on `side`. Said besides [`Reader::free`].
    #[inline]
    fn free_counted(&mut self, side: Side, op: OpId, text: &CountedText) {
        let _ = (side, op, text);
    }

    /// Returns whether anything is made of [`Reader::free`] now. Decoders that would have to search for what is free do not,
    /// where this is false.
    #[inline]
    fn wants_free(&self) -> bool {
        true
    }

    /// Postings from here to the matching [`Reader::leave`] lie in the named group (`"rows metadata"`).
    fn enter(&mut self, side: Side, group: &'static str) {
        let _ = (side, group);
    }

    /// Ends the innermost group.
    fn leave(&mut self, side: Side) {
        let _ = side;
    }

    /// Says what `op` is. Its request is complete by then. May be said again until the operation closes; the last word holds.
    /// An operation that is never labelled becomes `unmatched`.
    fn label(&mut self, op: OpId, label: Label<'_>);

    /// Returns whether anything is made of the statement in a label. Decoders that would have to find it out do not, where
    /// this is false. It is the same from the beginning to the end of a connection.
    #[inline]
    fn wants_statements(&self) -> bool {
        true
    }

    /// Closes `op`: it is over, and nothing can be posted to it any more.
    fn close(&mut self, op: OpId, outcome: Outcome);

    /// The software at the end that *sends* on `side` named itself in the handshake (`"Redis 7.0.15"`).
    fn software(&mut self, side: Side, name: &str);

    /// The version of that software, where it comes apart from the name.
    fn software_version(&mut self, side: Side, version: &str) {
        let _ = (side, version);
    }

    /// What lies `ahead` bytes beyond the next byte to be posted on `side` is encrypted; in clear it is `bytes`.
    fn decrypted(&mut self, side: Side, ahead: u64, bytes: &[u8]) {
        let _ = (side, ahead, bytes);
    }

    /// Returns whether anything is made of [`Reader::inner`]. Where that takes looking for, nobody looks where this is false.
    #[inline]
    fn wants_inner(&mut self) -> bool {
        false
    }

    /// The next `len` bytes of what is being decompressed on `side` are a field that would be posted to `account`.
    #[inline]
    fn inner(&mut self, side: Side, account: Account, field: &'static str, len: u64) {
        let _ = (side, account, field, len);
    }

    /// The next `wire` bytes that are posted on `side` are compressed, and come to the fields that [`Reader::inner`] has told of
    /// since this was called last.
    #[inline]
    fn packed(&mut self, side: Side, wire: u64) {
        let _ = (side, wire);
    }

    /// Counts a warning or fact.
    fn note(&mut self, note: Note);
}

/// What a decoder writes to: one direction of one connection, while what came in one piece is decoded.
///
/// Keeps count of what was posted, which is what the engine advances by, and whom it charges.
pub struct Out<'r, R: Reader> {
    reader: &'r mut R,
    side: Side,
    current: Option<OpId>,
    posted: u64,
    depth: u32,
    /// Nothing that is posted is free to differ, or nothing is made of it: see [`Out::set_read`].
    is_read: bool,
}

impl<'r, R: Reader> Out<'r, R> {
    /// Charges `current` to begin with.
    pub fn new(reader: &'r mut R, side: Side, current: Option<OpId>) -> Self {
        reader.turn(side);
        let is_read = !reader.wants_free();
        Self { reader, side, current, posted: 0, depth: 0, is_read }
    }

    /// Returns the operation being charged.
    pub fn current(&self) -> Option<OpId> {
        self.current
    }

    /// Returns how many bytes were posted through this value.
    pub fn posted(&self) -> u64 {
        self.posted
    }

    /// Counts `len` bytes as posted that are held back, and will be posted through [`Out::aside`].
    pub fn pass(&mut self, len: u64) {
        self.posted += len;
    }

    /// Returns an output for postings that were held back, which this one does not count. `depth` groups are open in it.
    pub fn aside(&mut self, current: Option<OpId>, depth: u32) -> Out<'_, R> {
        let mut aside = Out::new(self.reader, self.side, current);
        aside.depth = depth;
        aside
    }

    /// Lets `post` have an output for `side`, which this one does not count. It charges nobody to begin with.
    pub fn of_side<T>(&mut self, side: Side, post: impl FnOnce(&mut Out<'_, R>) -> T) -> T {
        let result = post(&mut Out::new(self.reader, side, None));
        self.reader.turn(self.side);
        result
    }

    /// Returns how many groups are open.
    pub fn depth(&self) -> u32 {
        self.depth
    }

    /// Opens an operation. Does not charge it: see [`Out::charge`].
    pub fn open(&mut self) -> OpId {
        self.reader.open()
    }

    /// Opens an operation that began before some that are open already, and is known of only now.
    pub fn open_earlier(&mut self) -> OpId {
        self.reader.open_earlier()
    }

    /// Charges `op`: the postings that follow in this direction go to it, in later steps too.
    #[inline]
    pub fn charge(&mut self, op: OpId) {
        self.current = Some(op);
    }

    /// The current message is whole: what follows belongs to no operation until the next [`Out::charge`].
    #[inline]
    pub fn release(&mut self) {
        self.current = None;
    }

    /// Opens an operation for bytes that no request or response goes with, labels it `unmatched` and charges it. The
    /// caller closes it.
    pub fn orphan(&mut self, name: &str) -> OpId {
        let op = self.open();
        self.label(op, Class::Unmatched, name, "");
        self.charge(op);
        op
    }

    /// Posts the next `len` bytes to the operation being charged (0 bytes are not posted).
    #[inline(always)]
    pub fn post(&mut self, account: Account, field: &'static str, len: u64) {
        if len == 0 {
            return;
        }
        let op = match self.current {
            Some(op) => op,
            None => self.orphan("(undecoded)"),
        };
        self.posted += len;
        self.reader.post(self.side, op, account, field, len);
    }

    /// Posts fields one after the other. Where their lengths are known at once, that takes less than posting each by itself.
    #[inline(always)]
    pub fn post_all<const N: usize>(&mut self, fields: [Field; N]) {
        let len: u64 = fields.iter().map(|(_, _, len)| len).sum();
        if len == 0 {
            return;
        }
        let op = match self.current {
            Some(op) => op,
            None => self.orphan("(undecoded)"),
        };
        self.posted += len;
        self.reader.post_all(self.side, op, fields);
    }

    /// As [`Out::post`], for bytes that the decoder does not look at, or only at what `free` keeps as it is.
    #[inline(always)]
    pub fn post_free(&mut self, account: Account, field: &'static str, len: u64, free: Free) {
        self.free(0, len, free);
        self.post(account, field, len);
    }

    /// Says of a part of what is posted next what [`Out::post_free`] says of the whole: of `len` bytes, behind the first
    /// `ahead` that are posted from here on.
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

    /// Says that a text which is posted next, and was said to be free, may be of any other length.
    pub fn free_counted(&mut self, text: &CountedText) {
        if let Some(op) = self.current.filter(|_| !self.is_read) {
            self.reader.free_counted(self.side, op, text);
        }
    }

    /// What is posted while this is `true` was read: nothing of it is free to differ, whatever else is said.
    pub fn set_read(&mut self, is_read: bool) {
        self.is_read = is_read;
    }

    /// Says that the digits of the [`numbers`] in `text`, which is posted next, may differ.
    pub fn free_numbers(&mut self, text: &[u8]) {
        if !self.wants_free() {
            return;
        }
        for number in numbers(text) {
            self.free(number.start as u64, number.len() as u64, Free::Digits);
        }
    }

    /// See [`Reader::wants_free`].
    #[inline]
    pub fn wants_free(&self) -> bool {
        self.reader.wants_free()
    }

    /// Opens a named group of fields.
    pub fn enter(&mut self, group: &'static str) {
        self.depth += 1;
        self.reader.enter(self.side, group);
    }

    /// Returns whether anything is made of [`Out::inner`].
    #[inline]
    pub fn wants_inner(&mut self) -> bool {
        self.reader.wants_inner()
    }

    /// Tells of a field of what is being decompressed: see [`Reader::inner`].
    #[inline]
    pub fn inner(&mut self, account: Account, field: &'static str, len: u64) {
        self.reader.inner(self.side, account, field, len);
    }

    /// Says that the next `wire` bytes come to these fields: see [`Reader::packed`].
    #[inline]
    pub fn packed(&mut self, wire: u64) {
        self.reader.packed(self.side, wire);
    }

    /// Closes the innermost group. Groups still open at the end of a step are closed by the engine.
    pub fn leave(&mut self) {
        if self.depth > 0 {
            self.depth -= 1;
            self.reader.leave(self.side);
        }
    }

    /// Closes all groups.
    pub fn leave_all(&mut self) {
        while self.depth > 0 {
            self.leave();
        }
    }

    /// Labels an operation that has no statement: see [`Reader::label`]. The name is cut to [`limits::NAME`] bytes.
    pub fn label(&mut self, op: OpId, class: Class, name: &str, via: &'static str) {
        self.label_statement(op, Label { class, name, via, statement: "" });
    }

    /// Labels an operation: see [`Reader::label`]. The name is cut to [`limits::NAME`] bytes, the statement in the middle to
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

    /// See [`Reader::wants_statements`].
    #[inline]
    pub fn wants_statements(&self) -> bool {
        self.reader.wants_statements()
    }

    /// See [`Reader::close`].
    pub fn close(&mut self, op: OpId, outcome: Outcome) {
        if self.current == Some(op) {
            self.current = None;
        }
        self.reader.close(op, outcome);
    }

    /// See [`Reader::software`].
    pub fn software(&mut self, side: Side, name: &str) {
        self.reader.software(side, name);
    }

    /// See [`Reader::software_version`].
    pub fn software_version(&mut self, side: Side, version: &str) {
        self.reader.software_version(side, version);
    }

    /// See [`Reader::decrypted`].
    pub fn decrypted(&mut self, ahead: u64, bytes: &[u8]) {
        self.reader.decrypted(self.side, ahead, bytes);
    }

    /// See [`Reader::note`].
    pub fn note(&mut self, note: Note) {
        self.reader.note(note);
    }
}

/// Returns the beginning and the end of a text, with an ellipsis between, in at most so many bytes.
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
