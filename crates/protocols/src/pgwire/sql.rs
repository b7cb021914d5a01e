//! Finds the verb of an SQL text without a grammar (lexical structure: PostgreSQL manual, chapter 4.1).

use super::copy::CopyTransfers;
use crate::statement::StatementText;
pub(super) use crate::verb::SqlVerb;

#[derive(Debug, Default)]
pub(super) struct SqlSummary {
    pub verb: SqlVerb,
    /// Contains only `SET` and `SHOW`.
    pub settings: bool,
    pub copies: Option<CopyTransfers>,
    /// Without literals.
    pub statement: StatementText,
}

/// The first half of a two-phase commit; prepares a transaction, not a statement.
const TWO_PHASE: &[u8] = b"PREPARE TRANSACTION";

/// Returns the verb of the first statement of `sql`; after `WITH`, the verb of its main part.
pub(super) fn verb(sql: &[u8]) -> SqlVerb {
    let mut tokens = PgSqlLexer::new(sql);
    let main = [&b"SELECT"[..], b"INSERT", b"UPDATE", b"DELETE", b"MERGE", b"VALUES", b"TABLE"];
    let verb = SqlVerb::of_statement(|| tokens.word().map(|word| (word, tokens.depth)), &main);
    if verb.is(b"PREPARE") && tokens.word().is_some_and(|word| word.eq_ignore_ascii_case(b"TRANSACTION")) {
        return SqlVerb::of_words(TWO_PHASE);
    }
    verb
}

/// Returns the verb of a command tag in the form of [`verb`].
pub(super) fn verb_of_tag(tag: &[u8]) -> SqlVerb {
    if tag.strip_suffix(b"\0").unwrap_or(tag) == TWO_PHASE {
        SqlVerb::of_words(TWO_PHASE)
    } else {
        SqlVerb::of_word(tag)
    }
}

/// Returns whether `sql` contains only `SET` and `SHOW`.
pub(super) fn is_settings(sql: &[u8]) -> bool {
    let mut tokens = PgSqlLexer::new(sql);
    let mut any = false;
    while let Some(word) = tokens.word() {
        if !word.eq_ignore_ascii_case(b"SET") && !word.eq_ignore_ascii_case(b"SHOW") {
            return false;
        }
        any = true;
        tokens.end_statement();
    }
    any
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum PgSqlToken<'a> {
    /// An unquoted word.
    Word(&'a [u8]),
    Constant(Vec<u8>),
    /// The end of a statement.
    End,
    Symbol,
}

pub(super) struct PgSqlLexer<'a> {
    rest: &'a [u8],
    /// Open parentheses.
    depth: usize,
}

impl<'a> PgSqlLexer<'a> {
    pub fn new(rest: &'a [u8]) -> Self {
        Self { rest, depth: 0 }
    }

    pub fn depth(&self) -> usize {
        self.depth
    }

    /// Returns the next token, skipping white space and comments.
    pub fn token(&mut self) -> Option<PgSqlToken<'a>> {
        loop {
            match *self.rest {
                [] => return None,
                [b'E' | b'e', b'\'', ..] => {
                    self.pass(1);
                    return Some(PgSqlToken::Constant(self.constant(true)));
                }
                [b'a'..=b'z' | b'A'..=b'Z' | b'_', ..] => return self.word().map(PgSqlToken::Word),
                [b'\'', ..] => return Some(PgSqlToken::Constant(self.constant(false))),
                [b'$', ..] => return Some(self.dollar()),
                [b';', ..] => {
                    self.pass(1);
                    return Some(PgSqlToken::End);
                }
                [first, ..] => {
                    let blank = first.is_ascii_whitespace() || matches!(self.rest, [b'-', b'-', ..] | [b'/', b'*', ..]);
                    self.pass_symbol(first);
                    if !blank {
                        return Some(PgSqlToken::Symbol);
                    }
                }
            }
        }
    }

    /// Reads a string constant from its quote on; `escapes` enables backslashes.
    fn constant(&mut self, escapes: bool) -> Vec<u8> {
        let mut value = Vec::new();
        self.pass(1);
        loop {
            let (byte, used) = match *self.rest {
                [] => return value,
                [b'\'', b'\'', ..] => (b'\'', 2),
                [b'\'', ..] => {
                    self.pass(1);
                    return value;
                }
                [b'\\', ..] if escapes => escape(self.rest),
                [byte, ..] => (byte, 1),
            };
            value.push(byte);
            self.pass(used);
        }
    }

    /// Reads a dollar-quoted constant or a parameter.
    fn dollar(&mut self) -> PgSqlToken<'a> {
        let before = self.rest;
        self.pass_dollar();
        let quoted = before.get(..before.len() - self.rest.len()).unwrap_or_default();
        let tag = quoted.iter().skip(1).position(|&byte| byte == b'$').map(|at| at + 2);
        let inside = tag.and_then(|tag| quoted.get(tag..quoted.len().checked_sub(tag)?));
        inside.map_or(PgSqlToken::Symbol, |inside| PgSqlToken::Constant(inside.to_vec()))
    }

    fn pass(&mut self, n: usize) {
        self.rest = self.rest.get(n..).unwrap_or_default();
    }

    /// Skips past the first `end` at or after position `from`.
    fn pass_to(&mut self, from: usize, end: &[u8]) {
        let inside = self.rest.get(from..).unwrap_or_default();
        let found = inside.windows(end.len()).position(|window| window == end);
        self.pass(found.map_or(self.rest.len(), |at| from + at + end.len()));
    }

    /// Returns the next word outside comments and quotes.
    pub fn word(&mut self) -> Option<&'a [u8]> {
        loop {
            let rest = self.rest;
            let first = *rest.first()?;
            if first.is_ascii_alphabetic() || first == b'_' {
                let part = |byte: &u8| !byte.is_ascii_alphanumeric() && *byte != b'_' && *byte < 128;
                let end = rest.iter().position(part).unwrap_or(rest.len());
                self.pass(end);
                return rest.get(..end);
            }
            self.pass_symbol(first);
        }
    }

    /// Skips a comment, a quoted text or one byte.
    fn pass_symbol(&mut self, first: u8) {
        match (first, self.rest.get(1)) {
            (b'-', Some(b'-')) => self.pass_to(2, b"\n"),
            (b'/', Some(b'*')) => self.pass_comment(),
            (b'\'', _) => self.pass_to(1, b"'"),
            (b'"', _) => self.pass_to(1, b"\""),
            (b'$', _) => self.pass_dollar(),
            (b'(', _) => {
                self.depth += 1;
                self.pass(1);
            }
            (b')', _) => {
                self.depth = self.depth.saturating_sub(1);
                self.pass(1);
            }
            _ => self.pass(1),
        }
    }

    /// Skips a `/* … */` comment, which may be nested.
    fn pass_comment(&mut self) {
        let mut depth = 0_usize;
        loop {
            match self.rest {
                [b'/', b'*', ..] => {
                    depth += 1;
                    self.pass(2);
                }
                [b'*', b'/', ..] => {
                    depth -= 1;
                    self.pass(2);
                    if depth == 0 {
                        return;
                    }
                }
                [_, ..] => self.pass(1),
                [] => return,
            }
        }
    }

    /// Skips a parameter (`$1`) or a dollar-quoted text (`$tag$ … $tag$`).
    fn pass_dollar(&mut self) {
        let inside = self.rest.get(1..).unwrap_or_default();
        let tag = inside.iter().position(|byte| !byte.is_ascii_alphanumeric() && *byte != b'_');
        match tag {
            Some(len) if inside.get(len) == Some(&b'$') && !inside.first().is_some_and(u8::is_ascii_digit) => {
                let quote = self.rest.get(..len + 2).unwrap_or_default();
                self.pass_to(len + 2, quote);
            }
            _ => self.pass(1),
        }
    }

    pub fn end_statement(&mut self) {
        while let Some(&first) = self.rest.first() {
            if first == b';' {
                return self.pass(1);
            }
            self.pass_symbol(first);
        }
    }
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
