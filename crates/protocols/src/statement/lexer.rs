//! Reads a statement token by token, for callers that need a few of its words.

use super::dialect::{StatementDialect, TokenKind};

pub(crate) struct StatementLexer<'t> {
    rest: &'t [u8],
    dialect: StatementDialect,
    /// Open parentheses.
    pub depth: usize,
}

impl<'t> StatementLexer<'t> {
    pub fn new(text: &'t [u8], dialect: StatementDialect) -> Self {
        Self { rest: text, dialect, depth: 0 }
    }

    /// Returns the next token other than white space and comments; `None` at the end, or if the token does not end.
    pub fn token(&mut self) -> Option<(TokenKind, &'t [u8])> {
        loop {
            self.skip_execution_mark();
            let (kind, len) = self.dialect.token(self.rest, None).filter(|_| !self.rest.is_empty())?;
            let (token, rest) = self.rest.split_at_checked(len)?;
            self.rest = rest;
            match token {
                b"(" => self.depth += 1,
                b")" => self.depth = self.depth.saturating_sub(1),
                _ => {}
            }
            if !matches!(kind, TokenKind::Space | TokenKind::Comment) {
                return Some((kind, token));
            }
        }
    }

    /// Skips the start of a comment whose content is executed: `/*!80000`, `/*M!100100`.
    fn skip_execution_mark(&mut self) {
        if !self.dialect.is_mysql() {
            return;
        }
        if let Some(behind) = self.rest.strip_prefix(b"/*!").or_else(|| self.rest.strip_prefix(b"/*M!")) {
            let digits = behind.iter().take_while(|byte| byte.is_ascii_digit()).count();
            self.rest = behind.get(digits..).unwrap_or_default();
        }
    }

    /// Returns the next word that is not quoted.
    pub fn word(&mut self) -> Option<&'t [u8]> {
        loop {
            if let (TokenKind::Word, word) = self.token()? {
                return Some(word);
            }
        }
    }

    /// Skips the rest of a statement and its semicolon.
    pub fn end_statement(&mut self) {
        while self.token().is_some_and(|(_, token)| token != b";") {}
    }

    /// Returns whether there are statements and all start with one of these verbs.
    pub fn consists_of(mut self, verbs: &[&[u8]]) -> bool {
        let mut any = false;
        while let Some(word) = self.word() {
            if !verbs.iter().any(|verb| word.eq_ignore_ascii_case(verb)) {
                return false;
            }
            any = true;
            self.end_statement();
        }
        any
    }
}
