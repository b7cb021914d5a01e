//! Finds the verb of an SQL text without a grammar (`MySQL`'s manual, chapter 11, "Comments" 11.7).

use crate::verb::SqlVerb;

/// Returns the verb of the first statement of `sql`; after `WITH`, the verb of the main part. `is_unescaped`:
/// backslashes are ordinary characters.
pub(super) fn verb(sql: &[u8], is_unescaped: bool) -> SqlVerb {
    let mut words = SqlWords::new(sql, is_unescaped);
    let main = [&b"SELECT"[..], b"INSERT", b"UPDATE", b"DELETE", b"REPLACE", b"VALUES", b"TABLE"];
    SqlVerb::of_statement(|| words.next_word().map(|word| (word, words.depth)), &main)
}

/// Returns whether `sql` consists only of `SET`.
pub(super) fn is_settings(sql: &[u8], is_unescaped: bool) -> bool {
    let mut words = SqlWords::new(sql, is_unescaped);
    let mut any = false;
    while let Some(word) = words.next_word() {
        if !word.eq_ignore_ascii_case(b"SET") {
            return false;
        }
        any = true;
        words.end_statement();
    }
    any
}

/// Words outside comments and quotes. Comments that servers execute (`/*!40101 … */`) count as text.
struct SqlWords<'a> {
    rest: &'a [u8],
    depth: usize,
    /// A semicolon was skipped.
    is_ended: bool,
    /// A backslash is an ordinary character.
    is_unescaped: bool,
}

impl<'a> SqlWords<'a> {
    fn new(rest: &'a [u8], is_unescaped: bool) -> Self {
        Self { rest, depth: 0, is_ended: false, is_unescaped }
    }

    fn next_word(&mut self) -> Option<&'a [u8]> {
        loop {
            let rest = self.rest;
            let first = *rest.first()?;
            if first.is_ascii_alphabetic() || first == b'_' {
                let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$' | 128..);
                let end = rest.iter().position(|byte| !is_part(byte)).unwrap_or(rest.len());
                self.pass(end);
                return rest.get(..end);
            }
            self.pass_symbol(first);
        }
    }

    fn end_statement(&mut self) {
        self.is_ended = false;
        while let (false, Some(&first)) = (self.is_ended, self.rest.first()) {
            self.pass_symbol(first);
        }
    }

    fn pass(&mut self, n: usize) {
        self.rest = self.rest.get(n..).unwrap_or_default();
    }

    /// Skips everything up to and including the first `end`, from position `from`.
    fn pass_to(&mut self, from: usize, end: &[u8]) {
        let inside = self.rest.get(from..).unwrap_or_default();
        let found = inside.windows(end.len()).position(|window| window == end);
        self.pass(found.map_or(self.rest.len(), |at| from + at + end.len()));
    }

    /// Skips one comment, quoted text or other byte.
    fn pass_symbol(&mut self, first: u8) {
        match (first, self.rest.get(1..).unwrap_or_default()) {
            (b'#', _) => self.pass_to(1, b"\n"),
            // Two dashes begin a comment only before white space or the end.
            (b'-', [b'-', behind @ ..]) if behind.first().is_none_or(|byte| *byte <= b' ') => self.pass_to(2, b"\n"),
            (b'/', [b'*', b'!', ..]) => self.pass_version(3),
            (b'/', [b'*', b'M', b'!', ..]) => self.pass_version(4),
            (b'/', [b'*', ..]) => self.pass_to(2, b"*/"),
            (b'\'' | b'"' | b'`', _) => self.pass_quoted(first),
            _ => {
                match first {
                    b'(' => self.depth += 1,
                    b')' => self.depth = self.depth.saturating_sub(1),
                    b';' => self.is_ended = true,
                    _ => {}
                }
                self.pass(1);
            }
        }
    }

    /// Skips the mark of an executed comment, with its minimum version.
    fn pass_version(&mut self, mark: usize) {
        self.pass(mark);
        let digits = self.rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        self.pass(digits);
    }

    /// Skips a quoted text. A doubled quote is one inside it, as is a quote after a backslash, except in names.
    fn pass_quoted(&mut self, quote: u8) {
        self.pass(1);
        while let Some(&byte) = self.rest.first() {
            let doubled = byte == quote && self.rest.get(1) == Some(&quote);
            let escaped = byte == b'\\' && quote != b'`' && !self.is_unescaped;
            self.pass(if doubled || escaped { 2 } else { 1 });
            if byte == quote && !doubled {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_verb_stands_behind_comments_and_parentheses() {
        for (sql, expected) in [
            ("select 1", "SELECT"),
            (" \r\n\tINSERT INTO t VALUES (1)", "INSERT"),
            ("(SELECT 1) UNION (SELECT 2)", "SELECT"),
            ("/* mysql-connector-j */SHOW VARIABLES", "SHOW"),
            ("-- a comment\nUPDATE t SET a = 1", "UPDATE"),
            ("--1", ""),
            ("# a comment\nDELETE FROM t", "DELETE"),
            ("/*!40101 SET NAMES utf8 */", "SET"),
            ("/*M!100100 SELECT 1 */", "SELECT"),
            ("/*!SELECT 1 */", "SELECT"),
            ("WITH c AS (SELECT 1) UPDATE t, c SET a = 1", "UPDATE"),
            ("WITH RECURSIVE `select` AS (SELECT 1) SELECT 2", "SELECT"),
            ("", ""),
            ("/* never ends", ""),
            ("BEGIN", "BEGIN"),
        ] {
            assert_eq!(verb(sql.as_bytes(), false).as_str(), expected, "{sql}");
        }
    }

    #[test]
    fn settings_are_statements_of_set_alone() {
        assert!(is_settings(b"SET NAMES utf8", false));
        assert!(is_settings(b"SET a = 'x;select'; /*!40101 SET b = 1 */;", false));
        assert!(!is_settings(b"SET a = 1; SELECT 1", false));
        assert!(!is_settings(b"SHOW VARIABLES", false));
        assert!(!is_settings(b"", false));
        assert!(is_settings(b"SET a = 'it''s \\' ;', b = `;`", false));
        let path = b"SET a = 'C:\\'; SELECT ';'";
        assert!(is_settings(path, false) && !is_settings(path, true));
    }
}
