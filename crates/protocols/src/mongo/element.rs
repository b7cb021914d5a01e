//! A BSON element up to its value, and the readers of its lengths and names.

use super::roles::{BsonField, FieldFact};
use super::walk::BodyStop;
use super::wire::{self, BsonLayout};
use crate::limits;
use overhead_decode::near;
use overhead_model::Account;

/// An element up to its value.
#[derive(Clone, Copy, Debug)]
pub(super) struct BsonElement<'a> {
    /// Type byte, and the layout it stands for.
    pub kind: u8,
    pub value: BsonLayout,
    pub name: &'a [u8],
    pub array: bool,
    pub field: BsonField,
    /// The captured bytes from the value on.
    pub bytes: &'a [u8],
    /// The bytes after them were not captured.
    pub cut: bool,
    /// Most bytes of the value.
    pub room: u64,
}

impl BsonElement<'_> {
    pub fn head(&self) -> u64 {
        self.name.len() as u64 + 2
    }

    pub fn name_title(&self) -> &'static str {
        match (self.field.fact, self.field.name) {
            (FieldFact::Command, _) => "command name",
            _ if self.array => "array index",
            (_, Account::Query) => "operator",
            (_, Account::Schema) => "field name",
            _ => "name",
        }
    }

    /// Returns whether the content of the value does not matter.
    pub fn is_free(&self) -> bool {
        match self.field.fact {
            FieldFact::Nothing => true,
            // Only texts matter here.
            FieldFact::Command | FieldFact::Collection => matches!(self.value, BsonLayout::Fixed(_)),
            _ => false,
        }
    }

    pub fn text_title(&self) -> &'static str {
        match self.field.fact {
            FieldFact::Command | FieldFact::Collection => "collection",
            _ => "value",
        }
    }
}

/// Returns the length at `at` of `here`, which must lie between `least` and `most`.
pub fn length(here: &[u8], at: usize, least: u64, most: u64) -> Result<u64, BodyStop> {
    if most < least {
        return Err(BodyStop::Damaged);
    }
    let length = wire::i32_at(here, at).ok_or(BodyStop::Wait)?;
    u64::try_from(length).ok().filter(|length| (least..=most).contains(length)).ok_or(BodyStop::Damaged)
}

/// Returns the text at `at` of `here` without its NUL, which must lie within `most` bytes.
pub fn c_string(here: &[u8], at: usize, most: u64) -> Result<&[u8], BodyStop> {
    let most = usize::try_from(most).unwrap_or(usize::MAX).min(limits::LINE);
    let here = here.get(at..).unwrap_or_default();
    let window = here.get(..most).unwrap_or(here);
    match near::find(0, window) {
        Some(len) => Ok(window.get(..len).unwrap_or_default()),
        None if window.len() == most => Err(BodyStop::Damaged),
        None => Err(BodyStop::Wait),
    }
}
