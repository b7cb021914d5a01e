//! Posts the values of BSON elements. A value of known length is posted as it arrives; its lengths, and the few values
//! that matter for the operation, are waited for.

use super::facts::READ;
use super::roles::FieldFact;
use super::walk::{BodyStop, BodyWalk, BsonElement, c_string, length};
use super::wire::{BsonLayout, EMPTY_DOCUMENT};
use overhead_decode::{Cursor, Free, Reader};
use overhead_model::Account::Framing;

/// The shortest text consists of its NUL.
const EMPTY_TEXT: u64 = 1;
const OBJECT_ID: u64 = 12;
/// The binary subtype that repeats the length.
const OLD_BINARY: u8 = 2;

/// Posts the element, or at least the part before its content if it is long.
pub(super) fn post<R: Reader>(
    walk: &mut BodyWalk,
    cursor: &mut Cursor<'_, '_, '_, R>,
    element: &BsonElement<'_>,
) -> Result<(), BodyStop> {
    match element.value {
        BsonLayout::Fixed(len) => fixed(walk, cursor, element, len),
        BsonLayout::Text => text(walk, cursor, element, 0),
        BsonLayout::Pointer => text(walk, cursor, element, OBJECT_ID),
        BsonLayout::Document | BsonLayout::Array => document(walk, cursor, element),
        BsonLayout::Binary => binary(walk, cursor, element),
        BsonLayout::Regex => regex(walk, cursor, element),
        BsonLayout::Scope => scope(walk, cursor, element),
    }
}

/// Notes the first `len` bytes of the value. Waits for them unless they were not captured.
fn note(walk: &mut BodyWalk, element: &BsonElement<'_>, len: u64) -> Result<(), BodyStop> {
    let fact = element.field.fact;
    if fact == FieldFact::Nothing || len > READ {
        return Ok(());
    }
    match element.bytes.get(..len as usize) {
        Some(value) => walk.facts.note(fact, element.name, element.kind, value),
        None if !element.cut => return Err(BodyStop::Wait),
        None if fact == FieldFact::Command => walk.facts.set_name(element.name),
        None => {}
    }
    Ok(())
}

fn fixed<R: Reader>(
    walk: &mut BodyWalk,
    cursor: &mut Cursor<'_, '_, '_, R>,
    element: &BsonElement<'_>,
    len: u64,
) -> Result<(), BodyStop> {
    if len > element.room {
        return Err(BodyStop::Damaged);
    }
    note(walk, element, len)?;
    let head = element.head();
    if head + len > cursor.remaining() {
        walk.put_name(cursor, element)?;
        return walk.put_all(cursor, len, element.field.value, "value", element.is_free());
    }
    if element.is_free() {
        cursor.out().free(head, len, Free::Any);
    }
    let [kind, name, end] = walk.name(element);
    walk.put_fields(cursor, [kind, name, end, (element.field.value, "value", len)])
}

/// Posts a text followed by `more` bytes of value.
fn text<R: Reader>(
    walk: &mut BodyWalk,
    cursor: &mut Cursor<'_, '_, '_, R>,
    element: &BsonElement<'_>,
    more: u64,
) -> Result<(), BodyStop> {
    let most = element.room.checked_sub(4 + more).ok_or(BodyStop::Damaged)?;
    let len = length(element.bytes, 0, EMPTY_TEXT, most)?;
    note(walk, element, 4 + len)?;
    let (title, free, head) = (element.text_title(), element.is_free(), element.head());
    if cursor.remaining() > head + 4 + len {
        if free {
            cursor.out().free(head + 4, len - 1, Free::Any);
        }
        let [kind, name, end] = walk.name(element);
        let (length, text) = ((Framing, "string length", 4), (element.field.text, title, len - 1));
        walk.put_fields(cursor, [kind, name, end, length, text, (Framing, "terminator", 1)])?;
        return walk.put_all(cursor, more, element.field.value, "value", free);
    }
    walk.put_name(cursor, element)?;
    walk.put(cursor, 4, Framing, "string length")?;
    walk.push_value(more, element.field.value, "value", free);
    walk.push(1, Framing, "terminator");
    walk.push_value(len - 1, element.field.text, title, free);
    Ok(())
}

fn document<R: Reader>(
    walk: &mut BodyWalk,
    cursor: &mut Cursor<'_, '_, '_, R>,
    element: &BsonElement<'_>,
) -> Result<(), BodyStop> {
    let len = length(element.bytes, 0, EMPTY_DOCUMENT, element.room)?;
    note(walk, element, 4)?;
    walk.put_name(cursor, element)?;
    walk.open_value(cursor, element, len)
}

fn binary<R: Reader>(
    walk: &mut BodyWalk,
    cursor: &mut Cursor<'_, '_, '_, R>,
    element: &BsonElement<'_>,
) -> Result<(), BodyStop> {
    let most = element.room.checked_sub(5).ok_or(BodyStop::Damaged)?;
    let len = length(element.bytes, 0, 0, most)?;
    let &subtype = element.bytes.get(4).ok_or(BodyStop::Wait)?;
    let repeated = if subtype == OLD_BINARY && len >= 4 { 4 } else { 0 };
    walk.put_name(cursor, element)?;
    walk.put(cursor, 4, Framing, "binary length")?;
    walk.put(cursor, 1, Framing, "binary subtype")?;
    walk.push_value(len - repeated, element.field.value, "value", element.is_free());
    walk.push(repeated, Framing, "binary length");
    Ok(())
}

fn regex<R: Reader>(
    walk: &mut BodyWalk,
    cursor: &mut Cursor<'_, '_, '_, R>,
    element: &BsonElement<'_>,
) -> Result<(), BodyStop> {
    let pattern = c_string(element.bytes, 0, element.room)?.len();
    let room = element.room.checked_sub(pattern as u64 + 1).ok_or(BodyStop::Damaged)?;
    let options = c_string(element.bytes, pattern + 1, room)?.len();
    walk.put_name(cursor, element)?;
    walk.put(cursor, pattern as u64, element.field.value, "pattern")?;
    walk.put(cursor, 1, Framing, "terminator")?;
    walk.put(cursor, options as u64, element.field.value, "options")?;
    walk.put(cursor, 1, Framing, "terminator")
}

/// Posts JavaScript code with its variables.
fn scope<R: Reader>(
    walk: &mut BodyWalk,
    cursor: &mut Cursor<'_, '_, '_, R>,
    element: &BsonElement<'_>,
) -> Result<(), BodyStop> {
    let len = length(element.bytes, 0, 8 + EMPTY_TEXT + EMPTY_DOCUMENT, element.room)?;
    let code = length(element.bytes, 4, EMPTY_TEXT, len - 8 - EMPTY_DOCUMENT)?;
    walk.put_name(cursor, element)?;
    walk.put(cursor, 4, Framing, "value length")?;
    walk.put(cursor, 4, Framing, "string length")?;
    walk.open_scope(cursor.out(), len - 8)?;
    walk.push(1, Framing, "terminator");
    walk.push_value(code - 1, element.field.text, "code", element.is_free());
    Ok(())
}
