//! Cuts the texts of each language into tokens.

use crate::pattern;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StatementDialect {
    Postgres,
    /// Double quotes enclose literals, the default without `ANSI_QUOTES`.
    Mysql,
    /// Without backslash escapes (`NO_BACKSLASH_ESCAPES`).
    MysqlUnescaped,
    Cql,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenKind {
    Space,
    Comment,
    Word,
    /// A quoted name.
    Quoted,
    /// A text literal with its quotes and prefix.
    Text,
    Number,
    /// Hexadecimal digits with their prefix, or a UUID.
    Hexadecimal,
    /// A placeholder: `$1`, `?`.
    Marker,
    /// An operator or punctuation.
    Symbol,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StatementToken<'t> {
    pub kind: TokenKind,
    pub text: &'t str,
    /// Offset in the statement.
    pub at: usize,
}

/// Operators of `MySQL` and CQL with several characters.
const OPERATORS: [&str; 11] = ["<=>", "->>", "->", "||", "!=", "<=", ">=", "<>", "<<", ">>", "&&"];

impl StatementDialect {
    pub fn mysql(is_unescaped: bool) -> Self {
        if is_unescaped { Self::MysqlUnescaped } else { Self::Mysql }
    }

    pub fn is_mysql(self) -> bool {
        matches!(self, Self::Mysql | Self::MysqlUnescaped)
    }

    /// Returns the tokens of a text, and whether it could be read to its end.
    pub(super) fn tokens(self, text: &str) -> (Vec<StatementToken<'_>>, bool) {
        let mut tokens = Vec::new();
        let is_read = self.read(text, 0, &mut tokens).is_some();
        (tokens, is_read)
    }

    /// Adds the tokens of a text that starts at `at` of the statement. `None` if one does not end.
    fn read<'t>(self, text: &'t str, mut at: usize, tokens: &mut Vec<StatementToken<'t>>) -> Option<()> {
        let mut rest = text;
        while !rest.is_empty() {
            let before = tokens.last().map(|token| token.kind);
            let (kind, len) = self.token(rest.as_bytes(), before)?;
            let (text, behind) = rest.split_at_checked(len)?;
            // MySQL executes the content of `/*!80000 … */`.
            let executed =
                text.strip_prefix("/*!").filter(|_| self.is_mysql()).and_then(|text| text.strip_suffix("*/"));
            if let Some(executed) = executed {
                let executed = executed.trim_start_matches(|digit: char| digit.is_ascii_digit());
                self.read(executed, at + len - "*/".len() - executed.len(), tokens)?;
            } else {
                tokens.push(StatementToken { kind, text, at });
            }
            (rest, at) = (behind, at + len);
        }
        Some(())
    }

    /// Returns the kind and length of the first token of a text that is not empty; `before` is the kind of the token
    /// before it. `None` if it does not end.
    pub(super) fn token(self, text: &[u8], before: Option<TokenKind>) -> Option<(TokenKind, usize)> {
        let (is_mysql, is_postgres) = (self.is_mysql(), self == Self::Postgres);
        Some(match text {
            _ if self == Self::Cql && text.get(8) == Some(&b'-') && pattern::uuid(text) > 0 => {
                (TokenKind::Hexadecimal, pattern::uuid(text))
            }
            [b'\'', ..] => (TokenKind::Text, quoted(text, 0, self == Self::Mysql)?),
            [b'"', ..] if is_mysql => (TokenKind::Text, quoted(text, 0, self == Self::Mysql)?),
            [b'"', ..] => (TokenKind::Quoted, quoted(text, 0, false)?),
            [b'`', ..] if is_mysql => (TokenKind::Quoted, quoted(text, 0, false)?),
            [b'N' | b'n', b'\'', ..] => (TokenKind::Text, quoted(text, 1, self == Self::Mysql)?),
            [b'E' | b'e', b'\'', ..] if is_postgres => (TokenKind::Text, quoted(text, 1, true)?),
            [b'U' | b'u', b'&', b'\'', ..] if is_postgres => (TokenKind::Text, quoted(text, 2, false)?),
            [b'B' | b'b', b'\'' | b'"', ..] if self != Self::Cql => (TokenKind::Text, quoted(text, 1, false)?),
            [b'X' | b'x', b'\'', ..] => (TokenKind::Hexadecimal, quoted(text, 1, false)?),
            [b'-', b'-', behind @ ..] if !is_mysql || behind.first().copied().is_some_and(is_space) => {
                (TokenKind::Comment, self.line(text))
            }
            [b'#', ..] if !is_postgres => (TokenKind::Comment, self.line(text)),
            [b'/', b'/', ..] if self == Self::Cql => (TokenKind::Comment, self.line(text)),
            [b'/', b'*', ..] => (TokenKind::Comment, comment(text, is_postgres)?),
            // In MySQL, `t.1a` is a column.
            [b'.', b'0'..=b'9', ..] if is_mysql && matches!(before, Some(TokenKind::Word | TokenKind::Quoted)) => {
                (TokenKind::Symbol, 1)
            }
            [b'0'..=b'9', ..] | [b'.', b'0'..=b'9', ..] => self.number(text),
            [b'?', ..] if !is_postgres => (TokenKind::Marker, 1 + run(text, 1, |byte| byte.is_ascii_digit())),
            [b'$', ..] if !is_mysql => dollar(text)?,
            [b'@', behind @ ..] if is_mysql && !behind.first().is_some_and(|&byte| self.is_part_of_word(byte)) => {
                (TokenKind::Symbol, 1)
            }
            [first, ..] if self.is_part_of_word(*first) => {
                (TokenKind::Word, run(text, 0, |part| self.is_part_of_word(part)))
            }
            [first, ..] if is_space(*first) => (TokenKind::Space, run(text, 0, is_space)),
            [b':', b':' | b'=', ..] => (TokenKind::Symbol, 2),
            _ if is_postgres => (TokenKind::Symbol, operator(text).max(1)),
            _ => {
                let operator = OPERATORS.iter().find(|operator| text.starts_with(operator.as_bytes()));
                (TokenKind::Symbol, operator.map_or(1, |operator| operator.len()))
            }
        })
    }

    /// Returns the length of a comment that ends with its line.
    fn line(self, text: &[u8]) -> usize {
        run(text, 0, |byte| byte != b'\n' && (byte != b'\r' || self != Self::Postgres))
    }

    fn number(self, text: &[u8]) -> (TokenKind, usize) {
        if text.starts_with(b"0x") {
            return (TokenKind::Hexadecimal, 2 + self.digits(text, 2, u8::is_ascii_hexdigit));
        }
        let digits = |at| self.digits(text, at, u8::is_ascii_digit);
        let mut len = digits(0);
        if text.get(len) == Some(&b'.') {
            len += 1 + digits(len + 1);
        }
        let exponent = match text.get(len..).unwrap_or_default() {
            [b'e' | b'E', b'+' | b'-', b'0'..=b'9', ..] => 2,
            [b'e' | b'E', b'0'..=b'9', ..] => 1,
            // A name of MySQL may start with digits.
            [first, ..] if self.is_mysql() && self.is_part_of_word(*first) => {
                return (TokenKind::Word, len + run(text, len, |part| self.is_part_of_word(part)));
            }
            _ => return (TokenKind::Number, len),
        };
        (TokenKind::Number, len + exponent + digits(len + exponent))
    }

    /// Returns the length of the digits at `at`, which PostgreSQL may separate by underscores.
    fn digits(self, text: &[u8], at: usize, is_digit: impl Fn(&u8) -> bool) -> usize {
        let digits = text.get(at..).unwrap_or_default();
        let is_digit = |at: usize| digits.get(at).is_some_and(&is_digit);
        let is_separator = |at: usize| self == Self::Postgres && at > 0 && digits.get(at) == Some(&b'_');
        (0..digits.len()).take_while(|&at| is_digit(at) || is_separator(at) && is_digit(at + 1)).count()
    }

    fn is_part_of_word(self, byte: u8) -> bool {
        match byte {
            b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' | b'_' | 128.. => true,
            b'$' => self != Self::Cql,
            b'@' => self.is_mysql(),
            _ => false,
        }
    }
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}

/// Returns the length of the bytes at `at` that fulfil a condition.
fn run(text: &[u8], at: usize, is_part: impl Fn(u8) -> bool) -> usize {
    text.iter().skip(at).take_while(|byte| is_part(**byte)).count()
}

/// Returns the length of a text whose opening quote is at `at`; inside, quotes are doubled or escaped.
fn quoted(text: &[u8], at: usize, has_escapes: bool) -> Option<usize> {
    let quote = *text.get(at)?;
    let mut at = at + 1;
    loop {
        match *text.get(at)? {
            b'\\' if has_escapes => at += 2,
            byte if byte != quote => at += 1,
            _ if text.get(at + 1) == Some(&quote) => at += 2,
            _ => return Some(at + 1),
        }
    }
}

/// Returns the length of a comment in `/*` and `*/`, which may contain others if `is_nested`.
fn comment(text: &[u8], is_nested: bool) -> Option<usize> {
    let (mut at, mut depth) = (2, 1);
    while depth > 0 {
        match text.get(at..)? {
            [b'/', b'*', ..] if is_nested => (at, depth) = (at + 2, depth + 1),
            [b'*', b'/', ..] => (at, depth) = (at + 2, depth - 1),
            [_, ..] => at += 1,
            [] => return None,
        }
    }
    Some(at)
}

/// Returns a text in dollar quotes (`$$…$$`, `$tag$…$tag$`), or a placeholder (`$1`).
fn dollar(text: &[u8]) -> Option<(TokenKind, usize)> {
    let len = 1 + run(text, 1, |byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 128);
    if text.get(len) != Some(&b'$') {
        return Some((TokenKind::Marker, len));
    }
    let (quote, content) = text.split_at_checked(len + 1)?;
    Some((TokenKind::Text, memchr::memmem::find(content, quote)? + 2 * quote.len()))
}

/// Returns the length of an operator of PostgreSQL (manual, chapter 4.1.3); 0 if there is none.
fn operator(text: &[u8]) -> usize {
    let len = run(text, 0, |byte| b"+-*/<>=~!@#%^&|`?".contains(&byte));
    let operator = text.get(..len).unwrap_or_default();
    // A comment ends it.
    let end = operator.windows(2).position(|pair| matches!(pair, b"--" | b"/*")).unwrap_or(len);
    let operator = operator.get(..end).unwrap_or_default();
    if operator.iter().any(|byte| b"~!@#%^&|`?".contains(byte)) {
        return operator.len();
    }
    // Signs at the end belong to the operand.
    let signs = operator.iter().skip(1).rev().take_while(|byte| matches!(byte, b'+' | b'-')).count();
    operator.len() - signs
}
