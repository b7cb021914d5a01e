//! What one message says about its operation, gathered while its bytes are posted.

use super::roles::FieldFact;
use super::wire::{is_true, text};
use crate::limits;

/// Name of a command that is not spelt as one.
const OTHER: &str = "(other)";

/// Longest value that is read for what it says; longer ones are only posted.
pub(super) const READ: u64 = 1 << 10;

/// See the module.
#[derive(Clone, Debug, Default)]
#[allow(clippy::struct_excessive_bools, reason = "facts that do not exclude each other")]
pub(super) struct MongoFacts {
    /// Flags of the message, of whatever kind it is.
    pub(super) flags: u32,
    /// The reply is an error, or carries one.
    pub(super) failed: bool,
    /// A `hello` that waits for a change.
    pub(super) streaming: bool,
    /// The operation reads the oplog.
    pub(super) oplog: bool,
    /// `OP_QUERY` on a collection: the documents of the reply are the user's.
    pub(super) documents: bool,
    /// `cursorID` of an `OP_REPLY`.
    pub(super) cursor_open: bool,
    pub(super) wire_version: Option<i32>,
    pub(super) version: String,
    pub(super) ferret_version: String,
    pub(super) driver: String,
    pub(super) driver_version: String,
    /// Collection that the operation works on, as the first field that names one has it.
    collection: String,
    name: CommandName,
}

/// A command's name, kept without allocation.
#[derive(Clone, Copy, Debug)]
struct CommandName {
    bytes: [u8; limits::NAME],
    len: usize,
}

impl Default for CommandName {
    fn default() -> Self {
        Self { bytes: [0; limits::NAME], len: 0 }
    }
}

impl MongoFacts {
    /// Ready for the next message.
    pub(super) fn clear(&mut self) {
        let Self { flags, failed, streaming, oplog, documents, cursor_open, wire_version, name, .. } = self;
        (*flags, *wire_version, name.len) = (0, None, 0);
        for fact in [failed, streaming, oplog, documents, cursor_open] {
            *fact = false;
        }
        self.collection.clear();
        for text in [&mut self.version, &mut self.ferret_version, &mut self.driver, &mut self.driver_version] {
            text.clear();
        }
    }

    /// Name of the command; empty where none was read.
    pub(super) fn name(&self) -> &str {
        let bytes = self.name.bytes.get(..self.name.len).unwrap_or_default();
        std::str::from_utf8(bytes).unwrap_or(OTHER)
    }

    /// The command's name. The first one counts: `explain` holds another.
    pub(super) fn set_name(&mut self, name: &[u8]) {
        if self.name.len > 0 {
            return;
        }
        let spelt = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$' | b'.');
        let fits = !name.is_empty() && name.len() <= limits::NAME && name.iter().all(spelt);
        let name = if fits { name } else { OTHER.as_bytes() };
        if let Some(place) = self.name.bytes.get_mut(..name.len()) {
            place.copy_from_slice(name);
            self.name.len = name.len();
        }
    }

    /// Returns the collection that the operation works on; empty where none was read.
    pub(super) fn collection(&self) -> &str {
        &self.collection
    }

    /// Collection that the operation works on, with or without its database.
    pub(super) fn set_collection(&mut self, collection: &[u8]) {
        if self.collection.is_empty() {
            self.collection.push_str(std::str::from_utf8(collection).unwrap_or_default());
        }
        self.oplog |= collection.ends_with(b"oplog.rs") || collection.ends_with(b"oplog.$main");
    }

    /// Takes in a field: its name, the type byte of its value, and the value or, of a document or array, its length.
    pub(super) fn note(&mut self, fact: FieldFact, name: &[u8], kind: u8, value: &[u8]) {
        let text = || text(kind, value);
        match fact {
            FieldFact::Nothing => {}
            FieldFact::Command => {
                self.set_name(name);
                self.set_collection(text().unwrap_or_default().as_bytes());
            }
            FieldFact::Collection => self.set_collection(text().unwrap_or_default().as_bytes()),
            FieldFact::Streaming => self.streaming = true,
            FieldFact::Success => self.failed |= !is_true(kind, value),
            FieldFact::Failure => self.failed |= is_failure(kind, value),
            FieldFact::DriverName => set(&mut self.driver, innermost(text())),
            FieldFact::DriverVersion => set(&mut self.driver_version, innermost(text())),
            FieldFact::ServerVersion => set(&mut self.version, short(text())),
            FieldFact::WireVersion => self.wire_version = value.first_chunk().map(|bytes| i32::from_le_bytes(*bytes)),
            FieldFact::FerretVersion => set(&mut self.ferret_version, short(text())),
        }
    }
}

fn set(place: &mut String, text: &str) {
    place.clear();
    place.push_str(text);
}

/// Returns the text where it may be the name or version of software.
fn short(text: Option<&str>) -> &str {
    text.filter(|text| text.len() <= limits::NAME).unwrap_or_default()
}

/// Returns the driver's own name or version: libraries around a driver append theirs, each behind a bar.
fn innermost(text: Option<&str>) -> &str {
    short(text.and_then(|text| text.split('|').next()))
}

/// Returns whether an error field (`writeErrors`, `err`, `nErrors`) holds anything.
fn is_failure(kind: u8, value: &[u8]) -> bool {
    match kind {
        0x02 => value.len() > 5,
        0x03 | 0x04 => value.first().is_some_and(|&len| len > 5) || value.iter().skip(1).any(|&byte| byte > 0),
        _ => is_true(kind, value),
    }
}
