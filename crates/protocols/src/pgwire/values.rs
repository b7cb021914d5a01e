//! Separates structure from data in parameters and columns.
//!
//! Binary formats (the server's `*_recv` functions):
//!
//! ```text
//! array       dimensions i32 | flags i32 | element type u32 | (size i32, lower bound i32)* | elements: (length i32, value)*
//! composite   fields i32 | (type u32, length i32, value)*
//! range       flags u8 | (length i32, bound){0,2}
//! multirange  ranges i32 | (length i32, range)*
//! ```
//!
//! Text formats: PostgreSQL manual, chapters 8.15.6 (arrays), 8.16.6 (composites), 8.17.5 (ranges).

use super::hidden::{self, DIMENSIONS};
use super::types;
use crate::limits;
use overhead_decode::{Cursor, FieldRead, Free, Note, Reader, Short, near};
use overhead_model::Account;

/// OIDs below this are the same on every server (`FirstGenbkiObjectId` of the server).
const BUILT_IN: u32 = 10_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PgTypeShape {
    /// The type was not captured, or belongs to a user or an extension.
    Unknown,
    Leaf,
    /// The byte separates elements in text.
    Array(u8),
    Composite,
    Range,
    Multirange,
}

impl PgTypeShape {
    /// Looks up a type's OID; 0 means unspecified.
    pub fn from_oid(oid: u32) -> Self {
        let among = |types: &[u32]| types.binary_search(&oid).is_ok();
        match oid {
            0 | BUILT_IN.. => Self::Unknown,
            _ if among(types::ARRAYS) => Self::Array(b','),
            _ if among(types::VECTORS) => Self::Array(b' '),
            _ if among(types::BOX_ARRAYS) => Self::Array(b';'),
            _ if among(types::COMPOSITES) => Self::Composite,
            _ if among(types::RANGES) => Self::Range,
            _ if among(types::MULTIRANGES) => Self::Multirange,
            _ => Self::Leaf,
        }
    }

    /// Returns whether `byte` is punctuation in the text form.
    fn is_punctuation(self, byte: u8) -> bool {
        match self {
            Self::Unknown | Self::Leaf => false,
            Self::Array(delimiter) => byte == delimiter || matches!(byte, b'{' | b'}'),
            Self::Composite => matches!(byte, b'(' | b')' | b','),
            Self::Range => matches!(byte, b'(' | b')' | b',' | b'[' | b']'),
            Self::Multirange => matches!(byte, b'(' | b')' | b',' | b'[' | b']' | b'{' | b'}'),
        }
    }
}

/// Reads a length (-1 is null) and a value.
pub fn cell<R: Reader>(c: &mut Cursor<'_, '_, '_, R>, shape: PgTypeShape, binary: bool) -> FieldRead {
    let len = c.peek().first_chunk().map(|len| u64::try_from(i32::from_be_bytes(*len))).ok_or(Short)?;
    let length = (Account::Framing, "value length", 4);
    if let (Ok(len), PgTypeShape::Leaf) = (len, shape) {
        return c.skip_and_free(length, (Account::Data, "value", len), Free::Any);
    }
    c.skip_all([length])?;
    let Ok(len) = len else { return Ok(()) };
    if len > c.remaining() {
        return Err(Short);
    }
    if shape == PgTypeShape::Unknown {
        return unknown(c, len, binary);
    }
    let end = c.position() + len;
    c.out().enter("value");
    let read = if binary { PgBinaryValue { end, depth: 0 }.value(c, shape) } else { text(c, len, shape) };
    if read.is_err() {
        c.out().note(Note::UndecodedMessage);
    }
    let left = end - c.position();
    c.skip(left, Account::Unknown, "undecoded")?;
    c.out().leave();
    Ok(())
}

fn unknown<R: Reader>(c: &mut Cursor<'_, '_, '_, R>, len: u64, binary: bool) -> FieldRead {
    let value = c.peek();
    if hidden::may_be_structured(value, len, binary) {
        c.out().note(Note::UntypedValue);
    } else if c.out().wants_free() {
        hidden::free_plain(value, len, binary, c.out());
    }
    c.skip(len, Account::Data, "value")
}

/// Reads a binary value that ends at `end`.
#[derive(Clone, Copy)]
struct PgBinaryValue {
    end: u64,
    depth: usize,
}

impl PgBinaryValue {
    fn left<R: Reader>(self, c: &Cursor<'_, '_, '_, R>) -> u64 {
        self.end.saturating_sub(c.position())
    }

    /// Reads four bytes of structure.
    fn word<R: Reader>(self, c: &mut Cursor<'_, '_, '_, R>, account: Account, field: &'static str) -> FieldRead<u32> {
        if self.left(c) < 4 { Err(Short) } else { c.u32_be(account, field) }
    }

    fn value<R: Reader>(self, c: &mut Cursor<'_, '_, '_, R>, shape: PgTypeShape) -> FieldRead {
        match shape {
            _ if self.depth > limits::NESTING => c.skip(self.left(c), Account::Data, "value"),
            PgTypeShape::Unknown => unknown(c, self.left(c), true),
            PgTypeShape::Leaf => c.skip_free(self.left(c), Account::Data, "value", Free::Any),
            PgTypeShape::Array(_) => self.array(c),
            PgTypeShape::Composite => self.composite(c),
            PgTypeShape::Range => self.range(c),
            PgTypeShape::Multirange => {
                self.word(c, Account::Framing, "range count")?;
                self.parts(c, PgTypeShape::Range, "range length")
            }
        }
    }

    fn array<R: Reader>(self, c: &mut Cursor<'_, '_, '_, R>) -> FieldRead {
        let dimensions = self.word(c, Account::Framing, "dimensions")?;
        self.word(c, Account::Framing, "array flags")?;
        let element = PgTypeShape::from_oid(self.word(c, Account::Schema, "element type")?);
        if dimensions > DIMENSIONS {
            return Err(Short);
        }
        for _ in 0..dimensions {
            self.word(c, Account::Framing, "dimension size")?;
            self.word(c, Account::Framing, "lower bound")?;
        }
        self.parts(c, element, "element length")
    }

    fn composite<R: Reader>(self, c: &mut Cursor<'_, '_, '_, R>) -> FieldRead {
        self.word(c, Account::Framing, "field count")?;
        while self.left(c) > 0 {
            let field = PgTypeShape::from_oid(self.word(c, Account::Schema, "field type")?);
            self.part(c, field, "field length")?;
        }
        Ok(())
    }

    /// The value does not state the type of its bounds, but no bound has a structure.
    fn range<R: Reader>(self, c: &mut Cursor<'_, '_, '_, R>) -> FieldRead {
        if self.left(c) < 1 {
            return Err(Short);
        }
        c.skip(1, Account::Framing, "range flags")?;
        self.parts(c, PgTypeShape::Leaf, "bound length")
    }

    /// Reads lengths and values to the end.
    fn parts<R: Reader>(self, c: &mut Cursor<'_, '_, '_, R>, shape: PgTypeShape, length: &'static str) -> FieldRead {
        while self.left(c) > 0 {
            self.part(c, shape, length)?;
        }
        Ok(())
    }

    fn part<R: Reader>(self, c: &mut Cursor<'_, '_, '_, R>, shape: PgTypeShape, length: &'static str) -> FieldRead {
        let len = self.word(c, Account::Framing, length)?;
        if len == u32::MAX {
            return Ok(());
        }
        if u64::from(len) > self.left(c) {
            return Err(Short);
        }
        let inner = Self { end: c.position() + u64::from(len), depth: self.depth + 1 };
        inner.value(c, shape)
    }
}

fn text<R: Reader>(c: &mut Cursor<'_, '_, '_, R>, len: u64, shape: PgTypeShape) -> FieldRead {
    let here = c.peek();
    let mut rest = usize::try_from(len).ok().and_then(|len| here.get(..len)).unwrap_or(here);
    if let (PgTypeShape::Array(_), Some(b'[')) = (shape, rest.first()) {
        let bounds = near::find(b'=', rest).ok_or(Short)?;
        c.skip(bounds as u64 + 1, Account::Framing, "dimensions")?;
        rest = rest.get(bounds + 1..).unwrap_or_default();
    }
    let mut tokens = PgTextLexer { shape, quoted: false, escaped: false };
    while !rest.is_empty() {
        let (used, account) = tokens.next(rest);
        let field = if account == Account::Data { "value" } else { "punctuation" };
        c.skip(used as u64, account, field)?;
        rest = rest.get(used..).unwrap_or_default();
    }
    Ok(())
}

/// Splits the text form of a structured value.
struct PgTextLexer {
    shape: PgTypeShape,
    /// Within double quotes.
    quoted: bool,
    /// The next byte is literal.
    escaped: bool,
}

impl PgTextLexer {
    /// Returns the length and account of the next run of bytes.
    fn next(&mut self, rest: &[u8]) -> (usize, Account) {
        if std::mem::take(&mut self.escaped) {
            return (self.run(rest), Account::Data);
        }
        match rest {
            [b'\\', _, ..] => self.escaped = true,
            [b'"', b'"', ..] if self.quoted && !matches!(self.shape, PgTypeShape::Array(_)) => self.escaped = true,
            [b'"', ..] => self.quoted = !self.quoted,
            [byte, ..] if !self.quoted && self.shape.is_punctuation(*byte) => {}
            _ => {
                let run = self.run(rest);
                let null =
                    !self.quoted && matches!(self.shape, PgTypeShape::Array(_)) && rest.get(..run) == Some(b"NULL");
                return (run, if null { Account::Framing } else { Account::Data });
            }
        }
        (1, Account::Framing)
    }

    /// Returns the length of the data at the start of `rest`; its first byte is data.
    fn run(&self, rest: &[u8]) -> usize {
        let is_end = |byte: &u8| matches!(byte, b'"' | b'\\') || (!self.quoted && self.shape.is_punctuation(*byte));
        rest.iter().skip(1).position(is_end).map_or(rest.len(), |at| at + 1)
    }
}
