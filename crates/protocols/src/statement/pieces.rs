//! Reduces tokens to the pieces that are shown.

use super::dialect::{StatementDialect, StatementToken, TokenKind};
use super::lists::ValueLists;
use super::words::{is_duration, is_introducer, is_reserved};
use overhead_decode::numbers;

/// Longest name of a table, column or user that a server accepts (`MySQL`: 64 characters, PostgreSQL: 63 bytes).
const NAME: usize = 64;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum SqlPiece<'t> {
    Literal,
    /// A placeholder: `$1`, `?`.
    Marker(&'t str),
    /// A named placeholder: `:name`.
    Named(&'t str),
    /// A reserved word, printed in capitals.
    Reserved(&'t str),
    Word(&'t str),
    /// A name with its quotes.
    Quoted(&'t str),
    /// A word too long for a name.
    TooLong,
    Open(&'t str),
    Close(&'t str),
    /// An operator or other punctuation.
    Symbol(&'t str),
    /// A list of values whose length is not shown, or the rest of a text.
    LeftOut,
}

impl SqlPiece<'_> {
    /// Returns whether a value may end with it, so that a following sign is binary.
    pub fn is_operand(self) -> bool {
        !matches!(self, Self::Reserved(_) | Self::Open(_) | Self::Symbol(_))
    }

    pub fn is_sign(self) -> bool {
        matches!(self, Self::Symbol("-" | "+"))
    }
}

pub(super) struct SqlPieces<'t> {
    pub all: Vec<SqlPiece<'t>>,
    lists: ValueLists,
    dialect: StatementDialect,
    /// No digit of a number is shown or could change the result.
    pub has_free_numbers: bool,
    /// The origin of the last piece; `None` after white space.
    last: Option<PieceOrigin>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PieceOrigin {
    Word,
    Number,
    Text,
    Other,
}

impl<'t> SqlPieces<'t> {
    /// Returns the pieces of a text, without an incomplete token at a cut end. `None` if literals cannot be identified
    /// reliably.
    pub fn new(tokens: &[StatementToken<'t>], dialect: StatementDialect, is_whole: bool) -> Option<Self> {
        let tokens = if is_whole { tokens } else { without_end(tokens) };
        let mut pieces = Self {
            all: Vec::with_capacity(tokens.len()),
            lists: ValueLists::default(),
            dialect,
            has_free_numbers: true,
            last: None,
        };
        for (index, token) in tokens.iter().enumerate() {
            if !dialect.is_mysql() || !is_introducer(token, tokens.get(index + 1..).unwrap_or_default()) {
                pieces.take(token)?;
            }
        }
        Some(pieces)
    }

    /// Ends the text, and marks what was cut off.
    pub fn end(&mut self, is_whole: bool) {
        if !is_whole {
            self.push(SqlPiece::LeftOut);
        }
        while self.all.last() == Some(&SqlPiece::Symbol(";")) {
            self.all.pop();
        }
    }

    fn push(&mut self, piece: SqlPiece<'t>) {
        self.all.push(piece);
        self.lists.pushed(&mut self.all);
    }

    /// Adds one token. `None` if literals cannot be identified reliably.
    fn take(&mut self, token: &StatementToken<'t>) -> Option<()> {
        let text = token.text;
        match token.kind {
            TokenKind::Space | TokenKind::Comment => {
                self.last = None;
                return Some(());
            }
            TokenKind::Word | TokenKind::Quoted => return self.word(text, token.kind),
            TokenKind::Number | TokenKind::Hexadecimal => return self.literal(PieceOrigin::Number),
            TokenKind::Text => return self.literal(PieceOrigin::Text),
            TokenKind::Marker if text.starts_with('?') => self.push(SqlPiece::Marker("?")),
            TokenKind::Marker => self.marker(text),
            TokenKind::Symbol => match text {
                "(" | "[" | "{" => self.push(SqlPiece::Open(text)),
                ")" | "]" | "}" => self.push(SqlPiece::Close(text)),
                ";" if self.all.last().is_none_or(|last| *last == SqlPiece::Symbol(text)) => {}
                "!=" => self.push(SqlPiece::Symbol("<>")),
                symbol => self.push(SqlPiece::Symbol(symbol)),
            },
        }
        self.last = Some(PieceOrigin::Other);
        Some(())
    }

    /// Adds a value, merged with its sign and with adjacent values.
    fn literal(&mut self, origin: PieceOrigin) -> Option<()> {
        if self.last == Some(PieceOrigin::Word) && origin == PieceOrigin::Text && !self.is_introduced() {
            return None;
        }
        self.last = Some(origin);
        if self.all.last() == Some(&SqlPiece::Literal) {
            return Some(());
        }
        self.drop_sign();
        self.push(SqlPiece::Literal);
        Some(())
    }

    /// Returns whether the text directly after a word is a literal introduced by it. Otherwise quotes were read
    /// differently than in the server.
    fn is_introduced(&self) -> bool {
        const KINDS: [&str; 9] =
            ["date", "time", "timestamp", "timestamptz", "interval", "json", "jsonb", "point", "bytea"];
        match self.all.last() {
            Some(SqlPiece::Word(word)) => KINDS.iter().any(|kind| word.eq_ignore_ascii_case(kind)),
            Some(SqlPiece::Reserved(_)) => true,
            _ => false,
        }
    }

    fn drop_sign(&mut self) {
        if let [before @ .., sign] = self.all.as_slice()
            && sign.is_sign()
            && !before.last().is_some_and(|before| before.is_operand())
        {
            self.all.pop();
        }
    }

    fn marker(&mut self, text: &'t str) {
        // `$1` is a marker; no supported server accepts `$name`.
        let is_number = text.get(1..).is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()));
        self.drop_sign();
        self.push(if is_number { SqlPiece::Marker(text) } else { SqlPiece::Literal });
    }

    fn word(&mut self, text: &'t str, kind: TokenKind) -> Option<()> {
        let is_quoted = kind == TokenKind::Quoted;
        match self.last {
            // `1h30m` and `0b01` are one value.
            Some(PieceOrigin::Number) if !is_quoted => return Some(()),
            Some(PieceOrigin::Text) if !is_quoted => return None,
            _ => {}
        }
        self.last = Some(PieceOrigin::Word);
        let longest = if is_quoted { NAME + 2 } else { NAME };
        let piece = match text {
            _ if text.len() > longest && text.chars().count() > longest => SqlPiece::TooLong,
            _ if is_quoted => SqlPiece::Quoted(text),
            _ if self.is_value(text) => return self.literal(PieceOrigin::Number),
            _ if self.is_reserved(text) => SqlPiece::Reserved(text),
            _ => SqlPiece::Word(text),
        };
        if let SqlPiece::Word(name) = piece
            && let [before @ .., SqlPiece::Symbol(":")] = self.all.as_slice()
            && !before.last().is_some_and(|before| before.is_operand())
        {
            self.all.pop();
            self.push(SqlPiece::Named(name));
        } else {
            self.push(piece);
        }
        self.has_free_numbers &= numbers(text.as_bytes()).next().is_none() || piece == SqlPiece::TooLong;
        Some(())
    }

    /// Returns whether a word is a value: a number in another base (`0b01` in `MySQL`), or an ISO 8601 duration in CQL.
    fn is_value(&self, word: &str) -> bool {
        match word.as_bytes() {
            [b'0', b'b' | b'B' | b'x' | b'X', digits @ ..] if self.dialect.is_mysql() => {
                digits.iter().all(u8::is_ascii_hexdigit)
            }
            digits if self.dialect.is_mysql() => digits.iter().all(u8::is_ascii_digit),
            [b'P' | b'p', inside @ ..] => self.dialect == StatementDialect::Cql && is_duration(inside),
            _ => false,
        }
    }

    fn is_reserved(&self, word: &str) -> bool {
        let others = ["BATCH", "ALLOW", "FILTERING", "KEYSPACE", "UNLOGGED"];
        is_reserved(word)
            || self.dialect == StatementDialect::Cql && others.iter().any(|other| word.eq_ignore_ascii_case(other))
    }
}

/// Removes the last token, and the tokens that may belong to it, as in a UUID.
fn without_end<'a, 't>(tokens: &'a [StatementToken<'t>]) -> &'a [StatementToken<'t>] {
    let [tokens @ .., last] = tokens else { return tokens };
    // The token before several blanks is complete.
    if last.kind == TokenKind::Space && last.text.len() > 1 {
        return tokens;
    }
    let is_part = |token: &StatementToken<'_>| {
        matches!(token.kind, TokenKind::Word | TokenKind::Quoted | TokenKind::Number) || token.text == "-"
    };
    let end = tokens.iter().rposition(|token| !is_part(token)).map_or(0, |last| last + 1);
    tokens.get(..end).unwrap_or_default()
}
