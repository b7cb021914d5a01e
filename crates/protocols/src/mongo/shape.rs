//! What a command asks for, without the values in it: command, collection, and the shapes of filters, updates, pipelines and sort
//! orders.
//!
//! Field names stay, values become `?`. An array of values is `[…]`, however many there are; of documents in a row that are alike
//! the first is told. Documents that are data - those of an insert, and those that replace others - are not told.

use super::facts::MongoFacts;
use super::roles::DocumentRole;
use super::wire::BsonLayout;
use crate::pattern;

/// Longest shape in bytes; of one that is longer, the beginning is told.
const LONGEST: usize = 2 << 10;

/// Stands for what is not told.
const LEFT_OUT: &str = "…";

/// The shapes of one message, while it is walked through.
#[derive(Debug, Default)]
pub(super) struct CommandShape {
    text: String,
    /// One for each range that is open.
    levels: Vec<ShapeLevel>,
    /// What is opened next is told.
    is_next_told: bool,
    /// What is opened next may be a document that replaces another, which is data.
    is_next_update: bool,
    /// Nobody wants to know.
    is_off: bool,
}

/// A range that is open.
#[derive(Clone, Copy, Debug, Default)]
#[allow(clippy::struct_excessive_bools, reason = "facts that do not exclude each other")]
struct ShapeLevel {
    is_told: bool,
    is_array: bool,
    is_update: bool,
    /// It holds nothing but values so far.
    is_plain: bool,
    /// Where its text begins.
    start: usize,
    /// Elements that were told.
    count: usize,
    /// Where the element before the current one begins and ends in the text.
    before: Option<(usize, usize)>,
}

/// A range that opens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ShapeOpening {
    /// The document of an element.
    Document,
    /// The array of an element.
    Array,
    /// A document that is of no element.
    Bare,
    /// Documents or sections, one after the other.
    Several,
}

impl CommandShape {
    /// Ready for the next message; `is_wanted` where it is told at all.
    pub fn clear(&mut self, is_wanted: bool) {
        self.text.clear();
        self.levels.clear();
        self.is_off = !is_wanted;
        (self.is_next_told, self.is_next_update) = (false, false);
    }

    /// The rest of the message is not decoded.
    pub fn give_up(&mut self) {
        self.clear(false);
    }

    /// An element of the innermost range, which is of `role`: its name, what it holds, and the role of that.
    pub fn element(&mut self, role: DocumentRole, name: &[u8], value: BsonLayout, child: DocumentRole) {
        if self.is_off {
            return;
        }
        let is_nested = matches!(value, BsonLayout::Document | BsonLayout::Array);
        (self.is_next_told, self.is_next_update) = (false, false);
        let Some(level) = self.levels.last_mut().filter(|_| self.text.len() <= LONGEST) else { return };
        if !level.is_told {
            let is_part =
                matches!(role, DocumentRole::Command | DocumentRole::Statement) && is_nested && is_told(child);
            self.is_next_told = is_part;
            self.is_next_update = is_part && matches!(name, b"u" | b"update" | b"updateMods");
            if is_part {
                self.begin_part(name);
            }
            return;
        }
        if level.is_update && level.count == 0 && !level.is_array && name.first() != Some(&b'$') {
            // A document that takes the place of another.
            level.is_told = false;
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
        self.is_next_told = is_nested && is_told(child);
        match value {
            _ if self.is_next_told => {
                level.is_plain = false;
                return;
            }
            BsonLayout::Document => self.text.push_str("{…}"),
            BsonLayout::Array => self.text.push_str("[…]"),
            _ => self.text.push('?'),
        }
        self.end_element(start);
    }

    /// A filter, update, pipeline or order begins.
    fn begin_part(&mut self, name: &[u8]) {
        self.text.push(' ');
        let goes_without_saying =
            matches!(name, b"filter" | b"query" | b"q" | b"pipeline" | b"u" | b"update" | b"updateMods");
        if !goes_without_saying {
            push_name(name, &mut self.text);
            self.text.push_str(": ");
        }
    }

    /// The document that opens next takes the place of another, unless it has operators.
    pub fn expect_update(&mut self) {
        self.is_next_update = true;
    }

    /// A range opens; `role` is that of what is in it.
    pub fn open(&mut self, opens: ShapeOpening, role: DocumentRole) {
        if self.is_off {
            return;
        }
        let is_alone = opens == ShapeOpening::Bare
            && matches!(role, DocumentRole::Selector | DocumentRole::Expression | DocumentRole::Shape);
        if is_alone {
            self.text.push(' ');
        }
        let is_told = std::mem::take(&mut self.is_next_told) || is_alone;
        let is_array = opens == ShapeOpening::Array;
        let is_update = std::mem::take(&mut self.is_next_update);
        let start = self.text.len();
        if is_told {
            self.text.push(if is_array { '[' } else { '{' });
        }
        self.levels.push(ShapeLevel { is_told, is_array, is_update, is_plain: true, start, ..ShapeLevel::default() });
    }

    /// The innermost range ends.
    pub fn close(&mut self) {
        let Some(level) = self.levels.pop() else { return };
        if level.is_told {
            if level.is_array && level.is_plain && level.count > 0 {
                self.text.truncate(level.start + 1);
                self.text.push_str(LEFT_OUT);
            }
            self.text.push(if level.is_array { ']' } else { '}' });
        }
        self.end_element(level.start);
    }

    /// An element that begins at `start` ends. In a list, one that is like the one before it is left out.
    fn end_element(&mut self, start: usize) {
        let end = self.text.len();
        let is_list = |level: &&mut ShapeLevel| level.is_array || !level.is_told;
        let Some(level) = self.levels.last_mut().filter(is_list).filter(|_| start < end) else { return };
        match level.before {
            Some((from, to)) if self.text.get(from..to) == self.text.get(start..) => self.text.truncate(to),
            _ => level.before = Some((start, end)),
        }
    }

    /// Returns the statement of the message that was walked through; empty where its name says all.
    pub fn statement(&self, facts: &MongoFacts) -> String {
        let collection = if names_collection(facts.name()) { facts.collection() } else { "" };
        if self.is_off || collection.is_empty() && self.text.is_empty() {
            return String::new();
        }
        let space = if collection.is_empty() { "" } else { " " };
        [facts.name(), space, collection, &self.text].concat()
    }
}

/// Returns whether documents of this role are told.
fn is_told(role: DocumentRole) -> bool {
    matches!(role, DocumentRole::Expression | DocumentRole::Shape | DocumentRole::Stage | DocumentRole::Selector)
}

/// Adds the name of a field. Of one that looks like data, its pattern.
fn push_name(name: &[u8], text: &mut String) {
    match name {
        [b'$', letters @ ..] if letters.iter().all(u8::is_ascii_alphabetic) => {
            text.push_str(&String::from_utf8_lossy(name));
        }
        _ => pattern::push(name, text),
    }
}

/// Returns whether the first field of a command names a collection, or a later one does. That of others may name a user.
fn names_collection(command: &str) -> bool {
    matches!(
        command,
        "find"
            | "insert"
            | "update"
            | "delete"
            | "aggregate"
            | "count"
            | "distinct"
            | "findAndModify"
            | "findandmodify"
            | "getMore"
            | "killCursors"
            | "mapReduce"
            | "explain"
            | "create"
            | "drop"
            | "createIndexes"
            | "dropIndexes"
            | "listIndexes"
            | "collMod"
            | "collStats"
            | "validate"
            | "compact"
            | "convertToCapped"
    )
}
