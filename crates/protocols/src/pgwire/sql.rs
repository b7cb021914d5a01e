//! The verb of an SQL text, found without a grammar (lexical structure: PostgreSQL manual, chapter 4.1).

use super::copy::CopyTransfers;
use crate::statement::Statement;
pub(super) use crate::verb::Verb;

/// What a text says.
#[derive(Debug, Default)]
pub(super) struct SqlSummary {
    /// See [`verb`].
    pub verb: Verb,
    /// See [`is_settings`].
    pub settings: bool,
    pub copies: Option<CopyTransfers>,
    /// It without the values in it.
    pub statement: Statement,
}

/// The first half of a two-phase commit, which prepares no statement.
const TWO_PHASE: &[u8] = b"PREPARE TRANSACTION";

/// Returns the verb of the first statement of `sql`; of a statement that begins with `WITH`, the verb of its main part. The first
/// half of a two-phase commit is `PREPARE TRANSACTION`.
pub(super) fn verb(sql: &[u8]) -> Verb {
    let mut tokens = PgSqlLexer::new(sql);
    let main = [&b"SELECT"[..], b"INSERT", b"UPDATE", b"DELETE", b"MERGE", b"VALUES", b"TABLE"];
    let verb = Verb::of_statement(|| tokens.word().map(|word| (word, tokens.depth)), &main);
    if verb.is(b"PREPARE") && tokens.word().is_some_and(|word| word.eq_ignore_ascii_case(b"TRANSACTION")) {
        // No statement is prepared, but a transaction to be committed.
        return Verb::of_words(TWO_PHASE);
    }
    verb
}

/// Returns the verb that the tag of a complete command names, as [`verb`] has it.
pub(super) fn verb_of_tag(tag: &[u8]) -> Verb {
    if tag.strip_suffix(b"\0").unwrap_or(tag) == TWO_PHASE { Verb::of_words(TWO_PHASE) } else { Verb::of_word(tag) }
}

/// Returns whether `sql` does nothing but `SET` and `SHOW`.
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

/// A part of an SQL text, as far as it is told apart.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum PgSqlToken<'a> {
    /// A word that is not quoted.
    Word(&'a [u8]),
    /// The value of a string constant.
    Constant(Vec<u8>),
    /// The end of a statement.
    End,
    /// Anything else.
    Symbol,
}

/// Words of an SQL text outside of comments and quotes.
pub(super) struct PgSqlLexer<'a> {
    rest: &'a [u8],
    /// Parentheses that are open.
    depth: usize,
}

impl<'a> PgSqlLexer<'a> {
    pub fn new(rest: &'a [u8]) -> Self {
        Self { rest, depth: 0 }
    }

    /// Returns how many parentheses are open.
    pub fn depth(&self) -> usize {
        self.depth
    }

    /// Returns the next part that is neither white space nor a comment; `None` at the end.
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

    /// Reads a string constant from its quote on; `escapes` where backslashes mean something in it.
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

    /// Reads a constant in dollar quotes, or a parameter.
    fn dollar(&mut self) -> PgSqlToken<'a> {
        let before = self.rest;
        self.pass_dollar();
        let quoted = before.get(..before.len() - self.rest.len()).unwrap_or_default();
        let tag = quoted.iter().skip(1).position(|&byte| byte == b'$').map(|at| at + 2);
        let inside = tag.and_then(|tag| quoted.get(tag..quoted.len().checked_sub(tag)?));
        inside.map_or(PgSqlToken::Symbol, |inside| PgSqlToken::Constant(inside.to_vec()))
    }

    /// Passes over `n` bytes.
    fn pass(&mut self, n: usize) {
        self.rest = self.rest.get(n..).unwrap_or_default();
    }

    /// Passes over everything up to and with the first `end`, from position `from`.
    fn pass_to(&mut self, from: usize, end: &[u8]) {
        let inside = self.rest.get(from..).unwrap_or_default();
        let found = inside.windows(end.len()).position(|window| window == end);
        self.pass(found.map_or(self.rest.len(), |at| from + at + end.len()));
    }

    /// Returns the next word; `None` at the end.
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

    /// Passes over one comment, quoted text or other byte.
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

    /// Passes over a comment in slashes and asterisks, which may be nested.
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

    /// Passes over a parameter (`$1`) or a text in dollar quotes (`$tag$ … $tag$`).
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

    /// Passes over the rest of the statement.
    pub fn end_statement(&mut self) {
        while let Some(&first) = self.rest.first() {
            if first == b';' {
                return self.pass(1);
            }
            self.pass_symbol(first);
        }
    }
}

/// Returns the byte that an escape at the start of `text` stands for, and the escape's length (chapter 4.1.2.2).
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
