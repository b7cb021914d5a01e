//! Rows of text and CSV: delimiters count as `framing`, fields as `data` (PostgreSQL manual, COPY, "Text Format" and
//! "CSV Format").
//!
//! Messages split the stream anywhere, even within a field, an escape or a quote. Each byte is classified by the bytes
//! before it. The exception is a NULL marker at a split: its first part counts as a value, except for its backslash,
//! and a complete marker that ends a message counts as one even if the field continues.

use super::super::hidden::PgLiteralProbe;
use super::statement::CopyDialect;
use overhead_decode::{Cursor, FieldRead, Note, Reader, Short};
use overhead_model::Account;

/// Position in a stream of rows.
#[derive(Debug)]
pub(in super::super) struct CopyRowReader {
    dialect: CopyDialect,
    place: CopyRowPlace,
    /// Bytes read of a possible marker.
    matched: usize,
    /// Within quotes of CSV.
    quoted: bool,
    /// The previous byte starts an escape. In CSV, it may have closed the quotes if both use the same byte.
    escaped: bool,
    literal: PgLiteralProbe,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CopyRowPlace {
    /// Start of a row and of its first field.
    Row,
    /// Start of another field.
    Field,
    Within,
}

/// Consecutive bytes of one account.
struct CopyRun {
    len: usize,
    account: Account,
    field: &'static str,
}

impl CopyRun {
    fn framing(len: usize, field: &'static str) -> Self {
        Self { len, account: Account::Framing, field }
    }
}

impl CopyRowReader {
    pub fn new(dialect: CopyDialect) -> Self {
        let literal = PgLiteralProbe::default();
        Self { dialect, place: CopyRowPlace::Row, matched: 0, quoted: false, escaped: false, literal }
    }

    /// After a loss, the next line end of text starts a row. Returns false for CSV, which may be within quotes.
    pub fn resume_after_loss(&mut self) -> bool {
        (self.place, self.matched, self.escaped) = (CopyRowPlace::Within, 0, false);
        self.literal = PgLiteralProbe::default();
        !self.dialect.csv
    }

    pub fn data<R: Reader>(&mut self, c: &mut Cursor<'_, '_, '_, R>) -> FieldRead {
        let mut rest = c.peek();
        while let Some(run) = self.next(rest) {
            let bytes = rest.get(..run.len).unwrap_or_default();
            if run.account == Account::Data {
                self.literal.read(bytes);
            } else if self.place != CopyRowPlace::Within && std::mem::take(&mut self.literal).is_structured() {
                c.out().note(Note::UntypedValue);
            }
            c.skip(run.len as u64, run.account, run.field)?;
            rest = rest.get(run.len..).unwrap_or_default();
        }
        // Bytes that were not captured are unknown.
        if c.remaining() > 0 { Err(Short) } else { Ok(()) }
    }

    fn next(&mut self, rest: &[u8]) -> Option<CopyRun> {
        let &first = rest.first()?;
        if self.place != CopyRowPlace::Within
            && (self.matched > 0 || self.may_be_marker(first))
            && let Some(run) = self.marker(rest)
        {
            return Some(run);
        }
        (self.place, self.matched) = (CopyRowPlace::Within, 0);
        Some(if self.dialect.csv { self.csv(first, rest) } else { self.text(first, rest) })
    }

    fn text(&mut self, first: u8, rest: &[u8]) -> CopyRun {
        if std::mem::take(&mut self.escaped) {
            return self.value(rest);
        }
        match first {
            b'\\' => {
                self.escaped = true;
                CopyRun::framing(1, "escape")
            }
            _ => self.delimiter(first).unwrap_or_else(|| self.value(rest)),
        }
    }

    fn csv(&mut self, first: u8, rest: &[u8]) -> CopyRun {
        let CopyDialect { quote, escape, .. } = self.dialect;
        if std::mem::take(&mut self.escaped) {
            if first == quote || first == escape {
                return self.value(rest);
            }
            // A separate escape byte only escapes if a quote or an escape follows.
            self.quoted = quote != escape;
        }
        match (self.quoted, first) {
            (true, byte) if byte == escape => {
                let next = rest.get(1).copied();
                if quote == escape || next.is_none_or(|next| next == quote || next == escape) {
                    self.escaped = true;
                    return CopyRun::framing(1, if next == Some(quote) { "escape" } else { "quote" });
                }
                self.value(rest)
            }
            (_, byte) if byte == quote => {
                self.quoted = !self.quoted;
                CopyRun::framing(1, "quote")
            }
            (false, byte) => self.delimiter(byte).unwrap_or_else(|| self.value(rest)),
            (true, _) => self.value(rest),
        }
    }

    /// Reads the end of a field or of a row.
    fn delimiter(&mut self, byte: u8) -> Option<CopyRun> {
        let line_end = matches!(byte, b'\n' | b'\r');
        if !line_end && byte != self.dialect.delimiter {
            return None;
        }
        self.place = if line_end { CopyRowPlace::Row } else { CopyRowPlace::Field };
        Some(CopyRun::framing(1, if line_end { "line end" } else { "delimiter" }))
    }

    /// Returns the data up to the next special byte; the first byte is data.
    fn value(&self, rest: &[u8]) -> CopyRun {
        let CopyDialect { csv, delimiter, quote, escape, .. } = self.dialect;
        let mut behind = rest.iter().skip(1);
        let end = if !csv {
            behind.position(|&byte| byte == delimiter || matches!(byte, b'\\' | b'\n' | b'\r'))
        } else if self.quoted {
            behind.position(|&byte| byte == quote || byte == escape)
        } else {
            behind.position(|&byte| byte == delimiter || byte == quote || matches!(byte, b'\n' | b'\r'))
        };
        CopyRun { len: end.map_or(rest.len(), |at| at + 1), account: Account::Data, field: "value" }
    }

    /// Fast check that is false for most fields.
    #[inline]
    fn may_be_marker(&self, first: u8) -> bool {
        let begins = |marker: &[u8]| marker.first() == Some(&first);
        first == b'\\' || begins(&self.dialect.null) || begins(&self.dialect.default)
    }

    /// Returns a null marker, a default marker or the end of data if it is the whole field.
    fn marker(&mut self, rest: &[u8]) -> Option<CopyRun> {
        let end_of_data = (&b"\\."[..], "end of data");
        let markers = [(&*self.dialect.null, "null marker"), (&*self.dialect.default, "default marker"), end_of_data];
        let mut cut = None;
        for (marker, field) in markers {
            let left = marker.get(self.matched..).filter(|left| !left.is_empty());
            let Some(left) = left.filter(|_| field != end_of_data.1 || self.place == CopyRowPlace::Row) else {
                continue;
            };
            if rest.starts_with(left) {
                if self.ends_field(rest.get(left.len()), field == end_of_data.1) {
                    let run = CopyRun::framing(left.len(), field);
                    (self.place, self.matched, self.escaped) = (CopyRowPlace::Within, 0, false);
                    return Some(run);
                }
            } else if left.starts_with(rest) {
                cut = Some(left);
            }
        }
        // A message ends within a possible marker. Only the next message can tell, so these bytes count as a value.
        let _ = cut?;
        self.matched += rest.len();
        let framing = !self.dialect.csv && rest == b"\\";
        self.escaped = framing;
        Some(if framing {
            CopyRun::framing(1, "escape")
        } else {
            CopyRun { len: rest.len(), account: Account::Data, field: "value" }
        })
    }

    /// Returns whether `byte` ends a field, or with `row` a row.
    fn ends_field(&self, byte: Option<&u8>, row: bool) -> bool {
        byte.is_none_or(|&byte| matches!(byte, b'\n' | b'\r') || (!row && byte == self.dialect.delimiter))
    }
}
