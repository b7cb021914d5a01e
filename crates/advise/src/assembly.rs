//! Puts the pieces of fields together again.

use overhead_dissect::explain::{DecodedRun, UnpostedStream};

/// One direction of a connection between arrival and posting.
#[derive(Debug, Default)]
pub struct Assembly {
    /// The bytes that are not posted yet.
    pub stream: UnpostedStream,
    /// Groups, the field last.
    pub path: Vec<&'static str>,
    /// The current field.
    pub field: &'static str,
    /// Its length.
    field_len: u64,
    /// How much of it was posted.
    posted: u64,
    bytes: Vec<u8>,
    known: bool,
}

/// A field all of whose bytes were posted.
#[derive(Debug)]
pub struct Whole {
    /// Its length.
    pub len: u64,
    /// Its bytes are all in `bytes`.
    pub known: bool,
}

impl Assembly {
    /// A field begins.
    pub fn begin(&mut self, field: &'static str, len: u64) {
        (self.field, self.field_len, self.posted, self.known) = (field, len, 0, true);
        self.bytes.clear();
    }

    /// Bytes of the current field were posted; `keep` says whether they are kept, up to so many.
    pub fn post(&mut self, len: u64, keep: u64) -> Option<Whole> {
        let Self { stream, bytes, known, .. } = self;
        stream.take(len, |_, DecodedRun { seen, bytes: piece, .. }| {
            if seen.is_at_hand() && bytes.len() as u64 + piece.len() as u64 <= keep {
                bytes.extend(piece);
            } else {
                *known = false;
            }
        });
        self.posted += len;
        (self.posted >= self.field_len).then_some(Whole { len: self.field_len, known: self.known })
    }

    /// Returns the bytes of the field that was put together.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}
