//! Builds statements: the command, its collection, and the shapes of filters, updates, pipelines and sort orders,
//! without values.
//!
//! Field names are kept, values become `?`, and an array of values becomes `[…]` whatever its length. Of consecutive
//! documents with the same shape only the first is shown. Inserted and replacement documents are data and not shown.

use super::facts::MongoFacts;
use super::roles::DocumentRole;
use super::wire::BsonLayout;
use crate::pattern;
use crate::words_by_length::WordsByLength;

/// Longest shape in bytes; the rest is left out.
const LONGEST: usize = 2 << 10;

/// Replaces omitted parts.
const LEFT_OUT: &str = "…";

#[derive(Debug, Default)]
pub(super) struct CommandShape {
    text: String,
    /// One level per open range.
    levels: Vec<ShapeLevel>,
    /// The next range to open is shown.
    is_next_shown: bool,
    /// The next range to open may be a replacement document, which is data.
    pub is_next_update: bool,
    /// Statements are not wanted.
    is_off: bool,
}

#[derive(Clone, Copy, Debug, Default)]
#[allow(clippy::struct_excessive_bools, reason = "facts that do not exclude each other")]
struct ShapeLevel {
    is_shown: bool,
    is_array: bool,
    is_update: bool,
    /// Contains only values so far.
    is_plain: bool,
    start: usize,
    count: usize,
    /// Start and end of the previous element's text.
    before: Option<(usize, usize)>,
}

impl CommandShape {
    /// Resets for the next message; `is_wanted` if its statement is wanted.
    pub fn clear(&mut self, is_wanted: bool) {
        self.text.clear();
        self.levels.clear();
        self.is_off = !is_wanted;
        (self.is_next_shown, self.is_next_update) = (false, false);
    }

    pub fn give_up(&mut self) {
        self.clear(false);
    }

    /// Adds an element of the innermost range, which has `role`; `child` is the role of the element's value.
    pub fn element(&mut self, role: DocumentRole, name: &[u8], value: BsonLayout, child: DocumentRole) {
        if self.is_off {
            return;
        }
        let is_nested = matches!(value, BsonLayout::Document | BsonLayout::Array);
        (self.is_next_shown, self.is_next_update) = (false, false);
        let Some(level) = self.levels.last_mut().filter(|_| self.text.len() <= LONGEST) else { return };
        if !level.is_shown {
            let is_part =
                matches!(role, DocumentRole::Command | DocumentRole::Statement) && is_nested && is_shown(child);
            self.is_next_shown = is_part;
            self.is_next_update = is_part && matches!(name, b"u" | b"update" | b"updateMods");
            if is_part {
                self.begin_part(name);
            }
            return;
        }
        if level.is_update && level.count == 0 && !level.is_array && name.first() != Some(&b'$') {
            // This document replaces another.
            level.is_shown = false;
            self.text.truncate(level.start);
            self.text.push_str("{…}");
            return;
        }
        if level.count > 0 {
            self.text.push_str(", ");
        }
        level.count += 1;
        if !level.is_array {
            push_name(name, &mut self.text);
            self.text.push_str(": ");
        }
        let start = self.text.len();
        self.is_next_shown = is_nested && is_shown(child);
        match value {
            _ if self.is_next_shown => {
                level.is_plain = false;
                return;
            }
            BsonLayout::Document => self.text.push_str("{…}"),
            BsonLayout::Array => self.text.push_str("[…]"),
            _ => self.text.push('?'),
        }
        self.end_element(start);
    }

    /// Starts a filter, update, pipeline or sort order.
    fn begin_part(&mut self, name: &[u8]) {
        self.text.push(' ');
        let goes_without_saying =
            matches!(name, b"filter" | b"query" | b"q" | b"pipeline" | b"u" | b"update" | b"updateMods");
        if !goes_without_saying {
            push_name(name, &mut self.text);
            self.text.push_str(": ");
        }
    }

    /// Opens a range whose content has `role`; `is_bare` if it is a document outside any element.
    pub fn open(&mut self, is_array: bool, is_bare: bool, role: DocumentRole) {
        if self.is_off {
            return;
        }
        let is_alone =
            is_bare && matches!(role, DocumentRole::Selector | DocumentRole::Expression | DocumentRole::Shape);
        if is_alone {
            self.text.push(' ');
        }
        let is_shown = std::mem::take(&mut self.is_next_shown) || is_alone;
        let is_update = std::mem::take(&mut self.is_next_update);
        let start = self.text.len();
        if is_shown {
            self.text.push(if is_array { '[' } else { '{' });
        }
        self.levels.push(ShapeLevel { is_shown, is_array, is_update, is_plain: true, start, ..ShapeLevel::default() });
    }

    pub fn close(&mut self) {
        let Some(level) = self.levels.pop() else { return };
        if level.is_shown {
            if level.is_array && level.is_plain && level.count > 0 {
                self.text.truncate(level.start + 1);
                self.text.push_str(LEFT_OUT);
            }
            self.text.push(if level.is_array { ']' } else { '}' });
        }
        self.end_element(level.start);
    }

    /// Ends an element that started at `start`. In a list, drops it if it equals the previous one.
    fn end_element(&mut self, start: usize) {
        let end = self.text.len();
        let is_list = |level: &&mut ShapeLevel| level.is_array || !level.is_shown;
        let Some(level) = self.levels.last_mut().filter(is_list).filter(|_| start < end) else { return };
        match level.before {
            Some((from, to)) if self.text.get(from..to) == self.text.get(start..) => self.text.truncate(to),
            _ => level.before = Some((start, end)),
        }
    }

    /// Returns the statement; empty if the command's name is enough.
    pub fn statement(&self, facts: &MongoFacts) -> String {
        let collection = if OF_COLLECTION.contains(facts.name.as_bytes()) { facts.collection.as_str() } else { "" };
        if self.is_off || collection.is_empty() && self.text.is_empty() {
            return String::new();
        }
        let space = if collection.is_empty() { "" } else { " " };
        [&facts.name, space, collection, &self.text].concat()
    }
}

/// Returns whether documents of this role are shown.
fn is_shown(role: DocumentRole) -> bool {
    matches!(role, DocumentRole::Expression | DocumentRole::Shape | DocumentRole::Stage | DocumentRole::Selector)
}

/// Adds a field name, or its pattern if it looks like data.
fn push_name(name: &[u8], text: &mut String) {
    match name {
        [b'$', letters @ ..] if letters.iter().all(u8::is_ascii_alphabetic) => {
            text.push_str(&String::from_utf8_lossy(name));
        }
        _ => pattern::push(name, text),
    }
}

/// Commands that name a collection. Others may name a user instead.
const OF_COLLECTION: WordsByLength = WordsByLength(
    4,
    &[
        "find drop",
        "count",
        "insert update delete create",
        "getMore explain collMod compact",
        "distinct validate",
        "aggregate mapReduce collStats",
        "",
        "killCursors dropIndexes listIndexes",
        "",
        "findAndModify findandmodify createIndexes",
        "",
        "convertToCapped",
    ],
);
