//! Finds the copies that an SQL text starts (PostgreSQL manual, COPY, including older syntaxes).
//!
//! ```text
//! COPY [BINARY] table [(columns)] | (query)  FROM | TO  STDIN | STDOUT
//!     [[USING] DELIMITERS 'c'] [[WITH] (option [value], …) | [WITH] option [[AS] value] …] [WHERE …]
//! ```

use crate::limits;
use crate::statement::{StatementDialect, StatementLexer, TokenKind};
use crate::verb::SqlVerb;
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
    let mut tokens = StatementLexer::new(sql, StatementDialect::Postgres);
    let mut copies = Vec::new();
    while copies.len() < limits::STATEMENT_COPIES {
        match tokens.token() {
            None => break,
            Some((_, b";")) => {}
            Some((TokenKind::Word, verb)) => statement(verb, &mut tokens, &mut copies),
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

fn statement(verb: &[u8], tokens: &mut StatementLexer<'_>, copies: &mut Vec<CopyTransfer>) {
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
fn copy(tokens: &mut StatementLexer<'_>) -> Option<CopyTransfer> {
    let mut options = CopyOptions::default();
    let depth = tokens.depth;
    let sender = loop {
        match tokens.token()? {
            (_, b";") => return None,
            (TokenKind::Word, word) if tokens.depth == depth => match () {
                () if word.eq_ignore_ascii_case(b"BINARY") => options.binary = true,
                () if word.eq_ignore_ascii_case(b"FROM") => break Side::Request,
                () if word.eq_ignore_ascii_case(b"TO") => break Side::Response,
                () => {}
            },
            _ => {}
        }
    };
    let here = match tokens.token()? {
        (TokenKind::Word, word) => word.eq_ignore_ascii_case(b"STDIN") || word.eq_ignore_ascii_case(b"STDOUT"),
        (_, b";") => return None,
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
    fn read(&mut self, tokens: &mut StatementLexer<'_>) {
        let mut name: &[u8] = b"";
        let depth = tokens.depth;
        while let Some(token) = tokens.token() {
            match token {
                (_, b";") => return,
                // Column names in parentheses.
                (TokenKind::Word, _) if tokens.depth > depth + 1 => {}
                (TokenKind::Word, word) if word.eq_ignore_ascii_case(b"WHERE") => return tokens.end_statement(),
                (TokenKind::Word, word) if word.eq_ignore_ascii_case(b"AS") => {}
                (TokenKind::Word, word) if name.eq_ignore_ascii_case(b"FORMAT") => {
                    self.format(word);
                    name = b"";
                }
                (TokenKind::Word, word) => {
                    // Older syntaxes name the format without `FORMAT`.
                    self.format(word);
                    name = word;
                }
                (TokenKind::Text, literal) => {
                    self.set(name, value_of(literal));
                    name = b"";
                }
                _ => name = b"",
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

/// Returns the value of a text literal (PostgreSQL manual, chapter 4.1.2).
fn value_of(literal: &[u8]) -> Vec<u8> {
    let has_escapes = matches!(literal, [b'E' | b'e', ..]);
    let (quote, mut rest) = match literal {
        [b'$', inside @ ..] => {
            let tag = inside.iter().position(|&byte| byte == b'$').map_or(0, |at| at + 2);
            return literal.get(tag..literal.len() - tag).unwrap_or_default().to_vec();
        }
        [.., b'\''] => literal.split_at(literal.iter().position(|&byte| byte == b'\'').unwrap_or_default() + 1),
        _ => return Vec::new(),
    };
    let mut value = Vec::with_capacity(literal.len() - quote.len());
    while let [byte, behind @ ..] = rest
        && !behind.is_empty()
    {
        let (byte, used) = match rest {
            [b'\'', b'\'', ..] => (b'\'', 2),
            [b'\\', ..] if has_escapes => escape(rest),
            _ => (*byte, 1),
        };
        value.push(byte);
        rest = rest.get(used..).unwrap_or_default();
    }
    value
}

/// Returns the byte that an escape at the start of `text` stands for, and the length of the escape (chapter 4.1.2.2).
fn escape(text: &[u8]) -> (u8, usize) {
    let digits = |from: usize, most: usize, radix: u32| {
        let digits = text.iter().skip(from).take(most).map_while(|byte| char::from(*byte).to_digit(radix));
        digits.fold((0, from), |(value, used), digit| (value * radix + digit, used + 1))
    };
    let (value, used) = match text.get(1) {
        Some(b'b') => (8, 2),
        Some(b'f') => (12, 2),
        Some(b'n') => (10, 2),
        Some(b'r') => (13, 2),
        Some(b't') => (9, 2),
        Some(b'x') => digits(2, 2, 16),
        Some(b'0'..=b'7') => digits(1, 3, 8),
        Some(&other) => (u32::from(other), 2),
        None => (u32::from(b'\\'), 1),
    };
    (value as u8, used)
}
