//! Finds the copies that an SQL text starts (PostgreSQL manual, COPY, including older syntaxes).
//!
//! ```text
//! COPY [BINARY] table [(columns)] | (query)  FROM | TO  STDIN | STDOUT
//!     [[USING] DELIMITERS 'c'] [[WITH] (option [value], …) | [WITH] option [[AS] value] …] [WHERE …]
//! ```

use super::super::sql::{PgSqlLexer, PgSqlToken, SqlVerb};
use crate::limits;
use overhead_decode::near;
use overhead_model::Side;
use std::sync::Arc;

/// Longest NULL or DEFAULT string recognised; longer ones are read as values.
const MARKER: usize = 64;

pub(in super::super) type CopyTransfers = Arc<[CopyTransfer]>;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) struct CopyTransfer {
    pub sender: Side,
    pub format: CopyFormat,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) enum CopyFormat {
    /// Text or CSV.
    Rows(CopyDialect),
    Binary,
    /// Streaming replication.
    Replication,
    /// Contents not specified by the protocol: a base backup.
    Opaque,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) struct CopyDialect {
    pub csv: bool,
    pub delimiter: u8,
    /// CSV only.
    pub quote: u8,
    /// CSV only, within quotes.
    pub escape: u8,
    pub null: Arc<[u8]>,
    /// Marks a column's default; empty if unset.
    pub default: Arc<[u8]>,
}

impl CopyDialect {
    pub fn text() -> Self {
        CopyOptions::default().dialect()
    }
}

/// Returns whether `sql` may start copies, judging by its words. With `several`, it may hold more than one statement.
#[inline]
pub(in super::super) fn may_copy(sql: &[u8], verb: &SqlVerb, several: bool) -> bool {
    let first = [&b"COPY"[..], b"START_REPLICATION", b"BASE_BACKUP"].iter().any(|word| verb.is(word));
    first || (several && may_copy_later(sql))
}

#[cold]
pub(in super::super) fn copies(sql: &[u8]) -> Option<CopyTransfers> {
    let mut tokens = PgSqlLexer::new(sql);
    let mut copies = Vec::new();
    while copies.len() < limits::STATEMENT_COPIES {
        match tokens.token() {
            None => break,
            Some(PgSqlToken::End) => {}
            Some(PgSqlToken::Word(verb)) => statement(verb, &mut tokens, &mut copies),
            Some(_) => tokens.end_statement(),
        }
    }
    (!copies.is_empty()).then(|| copies.into())
}

/// Returns false if no statement after the first can be a copy.
fn may_copy_later(sql: &[u8]) -> bool {
    // Nothing follows the semicolon of a single statement.
    let later = near::find(b';', sql).and_then(|end| sql.get(end + 1..)).unwrap_or_default();
    later.len() > 3 && has_copy(later)
}

#[cold]
fn has_copy(later: &[u8]) -> bool {
    memchr::memchr2_iter(b'y', b'Y', later).any(|at| {
        let word = at.checked_sub(3).and_then(|from| later.get(from..at));
        word.is_some_and(|word| word.eq_ignore_ascii_case(b"cop"))
    })
}

fn statement(verb: &[u8], tokens: &mut PgSqlLexer<'_>, copies: &mut Vec<CopyTransfer>) {
    if verb.eq_ignore_ascii_case(b"COPY") {
        copies.extend(copy(tokens));
        return;
    }
    if verb.eq_ignore_ascii_case(b"START_REPLICATION") {
        let both = Side::BOTH.map(|sender| CopyTransfer { sender, format: CopyFormat::Replication });
        copies.extend(both);
    } else if verb.eq_ignore_ascii_case(b"BASE_BACKUP") {
        copies.push(CopyTransfer { sender: Side::Response, format: CopyFormat::Opaque });
    }
    tokens.end_statement();
}

/// Reads a statement after `COPY`; `None` if the connection carries no data for it.
fn copy(tokens: &mut PgSqlLexer<'_>) -> Option<CopyTransfer> {
    let mut options = CopyOptions::default();
    let depth = tokens.depth();
    let sender = loop {
        match tokens.token()? {
            PgSqlToken::End => return None,
            PgSqlToken::Word(word) if tokens.depth() == depth => match () {
                () if word.eq_ignore_ascii_case(b"BINARY") => options.binary = true,
                () if word.eq_ignore_ascii_case(b"FROM") => break Side::Request,
                () if word.eq_ignore_ascii_case(b"TO") => break Side::Response,
                () => {}
            },
            _ => {}
        }
    };
    let here = match tokens.token()? {
        PgSqlToken::Word(word) => word.eq_ignore_ascii_case(b"STDIN") || word.eq_ignore_ascii_case(b"STDOUT"),
        PgSqlToken::End => return None,
        _ => false,
    };
    options.read(tokens);
    let format = if options.binary { CopyFormat::Binary } else { CopyFormat::Rows(options.dialect()) };
    here.then_some(CopyTransfer { sender, format })
}

/// Options as written. Defaults can depend on other options.
#[derive(Debug, Default)]
struct CopyOptions {
    binary: bool,
    csv: bool,
    delimiter: Option<u8>,
    quote: Option<u8>,
    escape: Option<u8>,
    null: Option<Vec<u8>>,
    default: Option<Vec<u8>>,
}

impl CopyOptions {
    fn read(&mut self, tokens: &mut PgSqlLexer<'_>) {
        let mut name: &[u8] = b"";
        let depth = tokens.depth();
        while let Some(token) = tokens.token() {
            match token {
                PgSqlToken::End => return,
                // Column names in parentheses.
                PgSqlToken::Word(_) if tokens.depth() > depth + 1 => {}
                PgSqlToken::Word(word) if word.eq_ignore_ascii_case(b"WHERE") => return tokens.end_statement(),
                PgSqlToken::Word(word) if word.eq_ignore_ascii_case(b"AS") => {}
                PgSqlToken::Word(word) if name.eq_ignore_ascii_case(b"FORMAT") => {
                    self.format(word);
                    name = b"";
                }
                PgSqlToken::Word(word) => {
                    // Older syntaxes name the format without `FORMAT`.
                    self.format(word);
                    name = word;
                }
                PgSqlToken::Constant(value) => {
                    self.set(name, value);
                    name = b"";
                }
                PgSqlToken::Symbol => name = b"",
            }
        }
    }

    fn format(&mut self, name: &[u8]) {
        self.csv |= name.eq_ignore_ascii_case(b"CSV");
        self.binary |= name.eq_ignore_ascii_case(b"BINARY");
    }

    fn set(&mut self, name: &[u8], value: Vec<u8>) {
        let is = |option: &str| name.eq_ignore_ascii_case(option.as_bytes());
        let byte = value.first().copied();
        match () {
            () if is("FORMAT") => self.format(&value),
            () if is("DELIMITER") || is("DELIMITERS") => self.delimiter = byte,
            () if is("QUOTE") => self.quote = byte,
            () if is("ESCAPE") => self.escape = byte,
            () if is("NULL") => self.null = Some(value),
            () if is("DEFAULT") => self.default = Some(value),
            () => {}
        }
    }

    fn dialect(&self) -> CopyDialect {
        let quote = self.quote.unwrap_or(b'"');
        let marker =
            |text: &[u8]| text.get(..text.len().min(MARKER)).filter(|kept| kept.len() == text.len()).map(Arc::from);
        let null = self.null.as_deref().unwrap_or(if self.csv { b"" } else { b"\\N" });
        CopyDialect {
            csv: self.csv,
            delimiter: self.delimiter.unwrap_or(if self.csv { b',' } else { b'\t' }),
            quote,
            escape: self.escape.unwrap_or(quote),
            null: marker(null).unwrap_or_default(),
            default: self.default.as_deref().and_then(marker).unwrap_or_default(),
        }
    }
}
