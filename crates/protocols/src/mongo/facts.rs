//! Facts about an operation, collected while a message is posted.

use super::roles::FieldFact;
use super::wire::{is_true, text};
use crate::limits;

/// Shown for a name that is not spelt like a command.
const OTHER: &str = "(other)";

/// Longest value that is read; longer ones are only posted.
pub(super) const READ: u64 = 1 << 10;

#[derive(Clone, Debug, Default)]
#[allow(clippy::struct_excessive_bools, reason = "facts that do not exclude each other")]
pub(super) struct MongoFacts {
    /// Flags of the message, whatever its opcode.
    pub flags: u32,
    /// The reply is or contains an error.
    pub failed: bool,
    /// A `hello` that waits for a topology change.
    pub streaming: bool,
    pub oplog: bool,
    /// `OP_QUERY` on a collection: the documents of the reply are the user's.
    pub documents: bool,
    /// The cursor of an `OP_REPLY` is open.
    pub cursor_open: bool,
    pub wire_version: Option<i32>,
    pub version: String,
    pub ferret_version: String,
    pub driver: String,
    pub driver_version: String,
    /// The first collection named in the message.
    pub collection: String,
    /// The command's name; empty if none was read.
    pub name: String,
}

impl MongoFacts {
    pub fn clear(&mut self) {
        let [mut collection, mut name] = [&mut self.collection, &mut self.name].map(std::mem::take);
        collection.clear();
        name.clear();
        *self = Self { collection, name, ..Self::default() };
    }

    /// Sets the command's name once: the command inside `explain` does not replace it.
    pub fn set_name(&mut self, name: &[u8]) {
        if !self.name.is_empty() {
            return;
        }
        let spelt = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$' | b'.');
        let fits = !name.is_empty() && name.len() <= limits::NAME && name.iter().all(spelt);
        self.name.push_str(std::str::from_utf8(name).ok().filter(|_| fits).unwrap_or(OTHER));
    }

    /// Sets the collection, with or without its database.
    pub fn set_collection(&mut self, collection: &[u8]) {
        if self.collection.is_empty() {
            self.collection.push_str(std::str::from_utf8(collection).unwrap_or_default());
        }
        self.oplog |= collection.ends_with(b"oplog.rs") || collection.ends_with(b"oplog.$main");
    }

    /// Notes a field. `value` is its value or, for a document or array, the length.
    pub fn note(&mut self, fact: FieldFact, name: &[u8], kind: u8, value: &[u8]) {
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

/// Returns the text if it is short enough for the name or version of software.
fn short(text: Option<&str>) -> &str {
    text.filter(|text| text.len() <= limits::NAME).unwrap_or_default()
}

/// Returns the driver's own name or version: wrapping libraries append theirs, separated by bars.
fn innermost(text: Option<&str>) -> &str {
    short(text.and_then(|text| text.split('|').next()))
}

/// Returns whether an error field (`writeErrors`, `err`, `nErrors`) is not empty.
fn is_failure(kind: u8, value: &[u8]) -> bool {
    match kind {
        0x02 => value.len() > 5,
        0x03 | 0x04 => value.first().is_some_and(|&len| len > 5) || value.iter().skip(1).any(|&byte| byte > 0),
        _ => is_true(kind, value),
    }
}
