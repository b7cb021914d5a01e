//! Values: cells of rows in text and binary, and parameters.
//!
//! In text, a length precedes each cell, and a null is one byte. In binary, a bitmap marks nulls, and numbers have the
//! length of their type ("Binary Protocol Value" in `MySQL`'s manual).

use super::wire::{LENGTH, LOCAL_INFILE, lenenc, lenenc_at};
use overhead_decode::{Cursor, FieldRead, Free, Note, Reader, Short};
use overhead_model::Account;

/// The layout of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ValueLayout {
    /// This many bytes.
    Fixed(u8),
    /// Bytes preceded by their length; the length of dates and times is one byte.
    Counted,
    /// A text cell: like [`ValueLayout::Counted`], or a null.
    Text,
}

impl ValueLayout {
    /// Returns the binary layout of a type; `None` if the type is unknown.
    pub fn from_kind(kind: u8) -> Option<Self> {
        Some(match kind {
            // NULL.
            6 => Self::Fixed(0),
            // TINY, BOOL.
            1 | 244 => Self::Fixed(1),
            // SHORT, YEAR.
            2 | 13 => Self::Fixed(2),
            // LONG, FLOAT, INT24.
            3 | 4 | 9 => Self::Fixed(4),
            // DOUBLE, LONGLONG.
            5 | 8 => Self::Fixed(8),
            // DECIMAL, TIMESTAMP, DATE, TIME, DATETIME, NEWDATE, VARCHAR, BIT; VECTOR, JSON, NEWDECIMAL, ENUM, SET, BLOBs,
            // VAR_STRING, STRING, GEOMETRY.
            0 | 7 | 10..=12 | 14..=19 | 242 | 245..=255 => Self::Counted,
            _ => return None,
        })
    }
}

/// How far values were read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ValuesRead {
    All,
    /// The packet ended and another one continues it: it contains this many bytes of the last value.
    Partly(u64),
    /// The packet ended inside the length of a value with this layout.
    Before(ValueLayout),
}

/// Posts one value per layout. `is_continued` if another packet continues this one. Fails if the packet ends early, or
/// a length was not captured.
#[inline]
pub(super) fn values<R: Reader>(
    c: &mut Cursor<'_, '_, '_, R>,
    layouts: &mut impl Iterator<Item = ValueLayout>,
    is_continued: bool,
) -> FieldRead<ValuesRead> {
    for layout in layouts {
        let len = match layout {
            ValueLayout::Fixed(len) => u64::from(len),
            ValueLayout::Text if c.peek().first() == Some(&LOCAL_INFILE) => {
                c.skip(1, Account::Framing, "null")?;
                continue;
            }
            ValueLayout::Text | ValueLayout::Counted if is_continued && is_cut(c) => {
                return Ok(ValuesRead::Before(layout));
            }
            ValueLayout::Text | ValueLayout::Counted => lenenc(c, Account::Framing, "length")?,
        };
        if let Some(left) = value(c, len, is_continued)? {
            return Ok(ValuesRead::Partly(left));
        }
    }
    Ok(ValuesRead::All)
}

/// Rows of parameters with indicator bytes, and the reading position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct BulkRows {
    layouts: Vec<ValueLayout>,
    at: usize,
    /// Its indicator was read: it is not null.
    is_present: bool,
    /// Bytes of the current value left to read.
    left: u64,
}

impl BulkRows {
    /// Returns the start of rows with these parameters, of which there is at least one.
    pub fn new(layouts: Vec<ValueLayout>) -> Self {
        Self { layouts, at: 0, is_present: false, left: 0 }
    }

    /// Posts rows up to the end of the packet, and returns the position if `is_continued`. Fails if the packet ends
    /// inside a value, or a length was not captured.
    pub fn rows<R: Reader>(mut self, c: &mut Cursor<'_, '_, '_, R>, is_continued: bool) -> FieldRead<Option<Self>> {
        loop {
            self.left = value(c, self.left, is_continued)?.unwrap_or_default();
            let Some(&layout) = self.layouts.get(self.at) else { return Err(Short) };
            if c.remaining() == 0 {
                let is_whole = self.at == 0 && !self.is_present;
                return if is_continued || is_whole { Ok(is_continued.then_some(self)) } else { Err(Short) };
            }
            if self.is_present {
                self.left = match layout {
                    ValueLayout::Fixed(len) => u64::from(len),
                    ValueLayout::Text | ValueLayout::Counted if is_continued && is_cut(c) => return Ok(Some(self)),
                    ValueLayout::Text | ValueLayout::Counted => lenenc(c, Account::Framing, "length")?,
                };
                self.is_present = false;
            } else {
                self.is_present = c.u8(Account::Framing, "indicator")? == 0;
                if self.is_present {
                    continue;
                }
            }
            self.at = (self.at + 1) % self.layouts.len();
        }
    }
}

/// Returns whether the rest is the start of a length.
fn is_cut<R: Reader>(c: &mut Cursor<'_, '_, '_, R>) -> bool {
    let here = c.peek();
    here.len() < LENGTH && here.len() as u64 == c.remaining() && lenenc_at(here).is_none()
}

/// Posts a value, or the packet's part of it, and returns the bytes left. Fails if the packet ends before it.
#[inline]
pub(super) fn value<R: Reader>(c: &mut Cursor<'_, '_, '_, R>, len: u64, is_continued: bool) -> FieldRead<Option<u64>> {
    let here = len.min(c.remaining());
    if here < len && !is_continued {
        return Err(Short);
    }
    c.skip_free(here, Account::Data, "value", Free::Any)?;
    Ok((is_continued && c.remaining() == 0).then_some(len - here))
}

/// Returns the layouts of binary values that are not null. The first `offset` bits of the bitmap are unused. Ends
/// before an unknown type.
pub(super) fn present<'t>(types: &'t [u8], nulls: &'t [u8], offset: usize) -> impl Iterator<Item = ValueLayout> + 't {
    let is_null = move |index: usize| {
        let bit = index + offset;
        nulls.get(bit / 8).is_some_and(|byte| byte & 1 << (bit % 8) != 0)
    };
    types
        .iter()
        .enumerate()
        .filter(move |(index, _)| !is_null(*index))
        .map_while(|(_, &kind)| ValueLayout::from_kind(kind))
}

/// Posts the rest as values of unknown types.
pub(super) fn untyped<R: Reader>(c: &mut Cursor<'_, '_, '_, R>) {
    if c.remaining() > 0 {
        c.out().note(Note::UntypedValue);
        c.rest(Account::Data, "value");
    }
}

/// Returns whether `row` is a text row with this many cells.
pub(super) fn is_text_row(mut row: &[u8], cells: usize) -> bool {
    for _ in 0..cells {
        let len = match row.first() {
            Some(&LOCAL_INFILE) => Some((0, 1)),
            _ => lenenc_at(row),
        };
        let behind = len.and_then(|(len, used)| row.get(used..)?.get(usize::try_from(len).ok()?..));
        let Some(behind) = behind else { return false };
        row = behind;
    }
    row.is_empty()
}
