//! Postings and the statements about operations that go with them.

use overhead_model::{Account, Class, Outcome, Side};

/// An operation of one connection. Numbers rise from 0 in order of opening and are never used twice on a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OpId(pub u64);

/// A doubt or fact about a connection that is counted and reported.
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
    /// A cell or value whose type was not seen went wholly to `data`.
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
}

/// Bytes of one field.
#[derive(Clone, Copy, Debug)]
pub struct Posting {
    /// Where they go.
    pub account: Account,
    /// Its name.
    pub field: &'static str,
    /// How many they are.
    pub len: u64,
}

/// What is made of postings. Implemented by the ledger, by the explanation and by tests.
pub trait Reader {
    /// Opens a new operation.
    fn open(&mut self) -> OpId;

    /// The next `len` bytes of `side` belong to `account` of `op`. `field` is a short static name for people
    /// (`"stream id"`), and `len` is never 0.
    fn post(&mut self, side: Side, op: OpId, account: Account, field: &'static str, len: u64);

    /// The next `len` bytes of `side` are these fields of `op`. The same as posting each; faster where it can be.
    #[inline]
    fn post_all(&mut self, side: Side, op: OpId, postings: &[Posting], len: u64) {
        let _ = len;
        for &Posting { account, field, len } in postings {
            self.post(side, op, account, field, len);
        }
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
    fn label(&mut self, op: OpId, class: Class, name: &str, via: &'static str);

    /// `op` is over. Nothing can be posted to it any more.
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

    /// A doubt or fact to be counted.
    fn note(&mut self, note: Note);
}

/// What a decoder writes to: one direction of one connection during one step.
///
/// Keeps count of what was posted, which is what the engine advances by.
pub struct Out<'r, R> {
    reader: &'r mut R,
    side: Side,
    current: &'r mut Option<OpId>,
    posted: u64,
    depth: u32,
}

impl<'r, R: Reader> Out<'r, R> {
    pub(crate) fn new(reader: &'r mut R, side: Side, current: &'r mut Option<OpId>) -> Self {
        Self { reader, side, current, posted: 0, depth: 0 }
    }

    /// Bytes posted through this value.
    pub(super) fn posted(&self) -> u64 {
        self.posted
    }

    /// Counts `len` bytes as posted that are held back, and will be posted through [`Out::aside`].
    pub(super) fn pass(&mut self, len: u64) {
        self.posted += len;
    }

    /// An output for postings that were held back, which this one does not count. `depth` groups are open in it.
    pub(super) fn aside<'s>(&'s mut self, current: &'s mut Option<OpId>, depth: u32) -> Out<'s, R> {
        Out { reader: self.reader, side: self.side, current, posted: 0, depth }
    }

    /// Groups that are open.
    pub(super) fn depth(&self) -> u32 {
        self.depth
    }

    /// Opens an operation. Does not charge it: see [`Out::charge`].
    pub fn open(&mut self) -> OpId {
        self.reader.open()
    }

    /// Following postings of this direction go to `op`, in later steps too.
    pub fn charge(&mut self, op: OpId) {
        *self.current = Some(op);
    }

    /// The message at hand is whole: what follows belongs to no operation until the next [`Out::charge`].
    pub fn release(&mut self) {
        *self.current = None;
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
    #[inline]
    pub fn post(&mut self, account: Account, field: &'static str, len: u64) {
        if len == 0 {
            return;
        }
        let op = match *self.current {
            Some(op) => op,
            None => self.orphan("(undecoded)"),
        };
        self.posted += len;
        self.reader.post(self.side, op, account, field, len);
    }

    /// Posts fields that follow one another, none of them empty, to the operation being charged.
    #[inline]
    pub fn post_all(&mut self, postings: &[Posting]) {
        let op = match *self.current {
            Some(op) => op,
            None => self.orphan("(undecoded)"),
        };
        let len = postings.iter().map(|posting| posting.len).sum();
        self.posted += len;
        self.reader.post_all(self.side, op, postings, len);
    }

    /// Opens a named group of fields.
    pub fn enter(&mut self, group: &'static str) {
        self.depth += 1;
        self.reader.enter(self.side, group);
    }

    /// Closes the innermost group. Groups still open at the end of a step are closed by the engine.
    pub fn leave(&mut self) {
        if self.depth > 0 {
            self.depth -= 1;
            self.reader.leave(self.side);
        }
    }

    /// Closes all groups.
    pub(super) fn leave_all(&mut self) {
        while self.depth > 0 {
            self.leave();
        }
    }

    /// See [`Reader::label`]. The name is cut to [`crate::limits::NAME`] bytes.
    pub fn label(&mut self, op: OpId, class: Class, name: &str, via: &'static str) {
        let mut end = name.len().min(crate::limits::NAME);
        while !name.is_char_boundary(end) {
            end -= 1;
        }
        self.reader.label(op, class, &name[..end], via);
    }

    /// See [`Reader::close`].
    pub fn close(&mut self, op: OpId, outcome: Outcome) {
        if *self.current == Some(op) {
            *self.current = None;
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
    pub(super) fn decrypted(&mut self, ahead: u64, bytes: &[u8]) {
        self.reader.decrypted(self.side, ahead, bytes);
    }

    /// See [`Reader::note`].
    pub fn note(&mut self, note: Note) {
        self.reader.note(note);
    }
}
