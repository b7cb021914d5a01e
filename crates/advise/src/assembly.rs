//! Reassembles fields from posted runs of bytes.

use overhead_dissect::explain::{DecodedRun, UnpostedStream};

/// One direction of a connection.
#[derive(Debug, Default)]
pub struct FieldAssembly {
    /// Bytes that are not posted yet.
    pub stream: UnpostedStream,
    /// Groups, the outermost first. Ends with the field while its name is looked up.
    pub path: Vec<&'static str>,
    pub field: &'static str,
    field_len: u64,
    /// Posted bytes of the field.
    posted: u64,
    bytes: Vec<u8>,
    known: bool,
}

/// A completely posted field.
#[derive(Debug)]
pub struct WholeField {
    pub len: u64,
    /// Whether `bytes` holds all of it.
    pub known: bool,
}

impl FieldAssembly {
    pub fn begin(&mut self, field: &'static str, len: u64) {
        (self.field, self.field_len, self.posted, self.known) = (field, len, 0, true);
        self.bytes.clear();
    }

    /// Posts bytes of the current field, and keeps the field if it has at most `keep` bytes. Returns it once complete.
    pub fn post(&mut self, len: u64, keep: u64) -> Option<WholeField> {
        let Self { stream, bytes, known, .. } = self;
        stream.take(len, |_, DecodedRun { seen, bytes: piece, .. }| {
            if seen.is_at_hand() && bytes.len() as u64 + piece.len() as u64 <= keep {
                bytes.extend(piece);
            } else {
                *known = false;
            }
        });
        self.posted += len;
        (self.posted >= self.field_len).then_some(WholeField { len: self.field_len, known: self.known })
    }

    /// Returns the bytes of the last field.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}
