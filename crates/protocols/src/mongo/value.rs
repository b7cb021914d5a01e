//! Posts the values of BSON elements. A value of known length is posted as it arrives; its lengths, and the few values
//! that matter for the operation, are waited for.

use super::element::{BsonElement, c_string, length};
use super::facts::READ;
use super::roles::FieldFact;
use super::walk::{BodyStop, BodyWalk, Walked};
use super::wire::{BsonLayout, EMPTY_DOCUMENT};
use overhead_decode::{Cursor, Free, Reader};
use overhead_model::Account::Framing;

/// The shortest text consists of its NUL.
const EMPTY_TEXT: u64 = 1;
const OBJECT_ID: u64 = 12;
/// The binary subtype that repeats the length.
const OLD_BINARY: u8 = 2;

impl BodyWalk {
    /// Posts the element, or at least the part before its content if it is long.
    pub fn post_element<R: Reader>(&mut self, cursor: &mut Cursor<'_, '_, '_, R>, element: &BsonElement<'_>) -> Walked {
        match element.value {
            BsonLayout::Fixed(len) => self.fixed_value(cursor, element, len),
            BsonLayout::Text => self.text_value(cursor, element, 0),
            BsonLayout::Pointer => self.text_value(cursor, element, OBJECT_ID),
            BsonLayout::Document | BsonLayout::Array => self.document_value(cursor, element),
            BsonLayout::Binary => self.binary_value(cursor, element),
            BsonLayout::Regex => self.regex_value(cursor, element),
            BsonLayout::Scope => self.scope_value(cursor, element),
        }
    }

    /// Notes the first `len` bytes of the value. Waits for them unless they were not captured.
    fn note(&mut self, element: &BsonElement<'_>, len: u64) -> Walked {
        let fact = element.field.fact;
        if fact == FieldFact::Nothing || len > READ {
            return Ok(());
        }
        match element.bytes.get(..len as usize) {
            Some(value) => self.facts.note(fact, element.name, element.kind, value),
            None if !element.cut => return Err(BodyStop::Wait),
            None if fact == FieldFact::Command => self.facts.set_name(element.name),
            None => {}
        }
        Ok(())
    }

    fn fixed_value<R: Reader>(
        &mut self,
        cursor: &mut Cursor<'_, '_, '_, R>,
        element: &BsonElement<'_>,
        len: u64,
    ) -> Walked {
        if len > element.room {
            return Err(BodyStop::Damaged);
        }
        self.note(element, len)?;
        let head = element.head();
        if head + len > cursor.remaining() {
            self.put_name(cursor, element)?;
            return self.put_all(cursor, (element.field.value, "value", len), element.is_free());
        }
        if element.is_free() {
            cursor.out().free(head, len, Free::Any);
        }
        let [kind, name, end] = self.name(element);
        self.put_fields(cursor, [kind, name, end, (element.field.value, "value", len)])
    }

    /// Posts a text followed by `more` bytes of value.
    fn text_value<R: Reader>(
        &mut self,
        cursor: &mut Cursor<'_, '_, '_, R>,
        element: &BsonElement<'_>,
        more: u64,
    ) -> Walked {
        let most = element.room.checked_sub(4 + more).ok_or(BodyStop::Damaged)?;
        let len = length(element.bytes, 0, EMPTY_TEXT, most)?;
        self.note(element, 4 + len)?;
        let (title, free, head) = (element.text_title(), element.is_free(), element.head());
        if cursor.remaining() > head + 4 + len {
            if free {
                cursor.out().free(head + 4, len - 1, Free::Any);
            }
            let [kind, name, end] = self.name(element);
            let (length, text) = ((Framing, "string length", 4), (element.field.text, title, len - 1));
            self.put_fields(cursor, [kind, name, end, length, text, (Framing, "terminator", 1)])?;
            return self.put_all(cursor, (element.field.value, "value", more), free);
        }
        self.put_name(cursor, element)?;
        self.put(cursor, (Framing, "string length", 4))?;
        self.push_value(more, element.field.value, "value", free);
        self.push(1, Framing, "terminator");
        self.push_value(len - 1, element.field.text, title, free);
        Ok(())
    }

    fn document_value<R: Reader>(&mut self, cursor: &mut Cursor<'_, '_, '_, R>, element: &BsonElement<'_>) -> Walked {
        let len = length(element.bytes, 0, EMPTY_DOCUMENT, element.room)?;
        self.note(element, 4)?;
        self.put_name(cursor, element)?;
        self.open_value(cursor, element, len)
    }

    fn binary_value<R: Reader>(&mut self, cursor: &mut Cursor<'_, '_, '_, R>, element: &BsonElement<'_>) -> Walked {
        let most = element.room.checked_sub(5).ok_or(BodyStop::Damaged)?;
        let len = length(element.bytes, 0, 0, most)?;
        let &subtype = element.bytes.get(4).ok_or(BodyStop::Wait)?;
        let repeated = if subtype == OLD_BINARY && len >= 4 { 4 } else { 0 };
        self.put_name(cursor, element)?;
        self.put(cursor, (Framing, "binary length", 4))?;
        self.put(cursor, (Framing, "binary subtype", 1))?;
        self.push_value(len - repeated, element.field.value, "value", element.is_free());
        self.push(repeated, Framing, "binary length");
        Ok(())
    }

    fn regex_value<R: Reader>(&mut self, cursor: &mut Cursor<'_, '_, '_, R>, element: &BsonElement<'_>) -> Walked {
        let pattern = c_string(element.bytes, 0, element.room)?.len();
        let room = element.room.checked_sub(pattern as u64 + 1).ok_or(BodyStop::Damaged)?;
        let options = c_string(element.bytes, pattern + 1, room)?.len();
        self.put_name(cursor, element)?;
        self.put(cursor, (element.field.value, "pattern", pattern as u64))?;
        self.put(cursor, (Framing, "terminator", 1))?;
        self.put(cursor, (element.field.value, "options", options as u64))?;
        self.put(cursor, (Framing, "terminator", 1))
    }

    /// Posts JavaScript code with its variables.
    fn scope_value<R: Reader>(&mut self, cursor: &mut Cursor<'_, '_, '_, R>, element: &BsonElement<'_>) -> Walked {
        let len = length(element.bytes, 0, 8 + EMPTY_TEXT + EMPTY_DOCUMENT, element.room)?;
        let code = length(element.bytes, 4, EMPTY_TEXT, len - 8 - EMPTY_DOCUMENT)?;
        self.put_name(cursor, element)?;
        self.put(cursor, (Framing, "value length", 4))?;
        self.put(cursor, (Framing, "string length", 4))?;
        self.open_scope(cursor.out(), len - 8)?;
        self.push(1, Framing, "terminator");
        self.push_value(code - 1, element.field.text, "code", element.is_free());
        Ok(())
    }
}
