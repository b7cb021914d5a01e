//! Rows of text and of CSV: what delimits them is `framing`, the fields are `data` (PostgreSQL manual, COPY, "Text Format"
//! and "CSV Format").
//!
//! The stream is cut into messages anywhere, within a field, an escape or a quote too. What a byte is follows from those
//! before it, but for a NULL marker at a cut: its part before the cut is read as a value, save its backslash, and what ends
//! there and could be one is one.

use super::super::hidden::PgLiteralProbe;
use super::statement::CopyDialect;
use overhead_decode::{Cursor, Note, Reader, Short};
use overhead_model::Account;

/// Where in a stream of rows we are.
#[derive(Debug)]
pub(in super::super) struct CopyRowReader {
    dialect: CopyDialect,
    place: CopyRowPlace,
    /// As many bytes as were passed of what may become a marker.
    matched: usize,
    /// Of CSV: within quotes.
    quoted: bool,
    /// The byte before begins an escape. In quotes that end with the same byte as begins an escape, it may also have
    /// ended them.
    escaped: bool,
    /// What the current field looks like.
    literal: PgLiteralProbe,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CopyRowPlace {
    /// A row begins, and its first field.
    Row,
    /// Another field begins.
    Field,
    Within,
}

/// Bytes of one account.
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

    /// Bytes were lost: the next line end of text begins a row. False for CSV, where quotes could be open or not.
    pub fn resume_after_loss(&mut self) -> bool {
        (self.place, self.matched, self.escaped) = (CopyRowPlace::Within, 0, false);
        self.literal = PgLiteralProbe::default();
        !self.dialect.csv
    }

    /// The inside of one message.
    pub fn data<R: Reader>(&mut self, c: &mut Cursor<'_, '_, '_, R>) -> Result<(), Short> {
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
        // What was not captured could be anything.
        if c.remaining() > 0 { Err(Short) } else { Ok(()) }
    }

    /// Returns the next bytes of one account.
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
            // With a byte of their own, escapes are told from values by what follows.
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

    /// The end of a field or of a row.
    fn delimiter(&mut self, byte: u8) -> Option<CopyRun> {
        let line_end = matches!(byte, b'\n' | b'\r');
        if !line_end && byte != self.dialect.delimiter {
            return None;
        }
        self.place = if line_end { CopyRowPlace::Row } else { CopyRowPlace::Field };
        Some(CopyRun::framing(1, if line_end { "line end" } else { "delimiter" }))
    }

    /// Data up to the next byte that may mean something, whatever the first one is.
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

    /// False for what most fields begin with.
    #[inline]
    fn may_be_marker(&self, first: u8) -> bool {
        let begins = |marker: &[u8]| marker.first() == Some(&first);
        first == b'\\' || begins(&self.dialect.null) || begins(&self.dialect.default)
    }

    /// Returns what stands for a null, for a default or for the end of the data, where that is the whole field.
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
        // A cut within a marker: the next message tells, too late for this one's bytes.
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

    /// Returns whether `byte` ends a field, or a whole row.
    fn ends_field(&self, byte: Option<&u8>, row: bool) -> bool {
        byte.is_none_or(|&byte| matches!(byte, b'\n' | b'\r') || (!row && byte == self.dialect.delimiter))
    }
}
