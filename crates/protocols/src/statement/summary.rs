//! What is known of an SQL text: its verb, its kind and its statement.

use super::{NormalisedStatement, StatementDialect, StatementLexer, StatementText};
use crate::verb::SqlVerb;
use std::fmt::Display;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct StatementSummary {
    /// Empty if unknown.
    pub verb: SqlVerb,
    /// All its statements only set or show variables of the session.
    pub is_settings: bool,
    pub text: StatementText,
}

impl StatementSummary {
    /// Summarises a text, and returns whether the digits of its numbers may change without changing the summary. `is_whole`
    /// if the text is complete; `is_wanted` if its statement is.
    pub fn new(text: &[u8], is_whole: bool, dialect: StatementDialect, is_wanted: bool) -> (Self, bool) {
        let verb = dialect.verb(text);
        let normalised =
            is_wanted.then(|| super::normalise_cached(text, is_whole, dialect, || verb.as_str().to_owned()));
        let NormalisedStatement { statement, has_free_numbers } = normalised.unwrap_or_default();
        (Self { verb, is_settings: dialect.is_settings(text), text: statement }, has_free_numbers)
    }

    /// Returns the summary of a statement with this name or id, which was prepared before the capture started.
    pub fn prepared_before(name: &str, rest: impl Display) -> Self {
        Self { text: StatementText::prepared_before(name, rest), ..Self::default() }
    }
}

impl StatementDialect {
    /// Returns the verb of the first statement of a text; after `WITH`, the verb of its main part.
    pub fn verb(self, text: &[u8]) -> SqlVerb {
        let mut words = StatementLexer::new(text, self);
        let main = [&b"SELECT"[..], b"INSERT", b"UPDATE", b"DELETE", b"VALUES", b"TABLE"];
        let own = if self.is_mysql() { &b"REPLACE"[..] } else { b"MERGE" };
        let is_main = |word: &[u8]| main.iter().chain([&own]).any(|verb| word.eq_ignore_ascii_case(verb));
        let verb = words.verb(is_main);
        let is_two_phase = self == Self::Postgres
            && verb.is(b"PREPARE")
            && words.word().is_some_and(|word| word.eq_ignore_ascii_case(b"TRANSACTION"));
        if is_two_phase { SqlVerb::in_capitals(SqlVerb::TWO_PHASE) } else { verb }
    }

    /// Returns whether a text consists of statements that only set or show variables of the session.
    pub fn is_settings(self, text: &[u8]) -> bool {
        let verbs: &[&[u8]] = if self.is_mysql() { &[b"SET"] } else { &[b"SET", b"SHOW"] };
        StatementLexer::new(text, self).consists_of(verbs)
    }
}

impl StatementLexer<'_> {
    /// Returns the first word of a statement, or, after `WITH`, the first word at the same depth that `is_main`.
    fn verb(&mut self, is_main: impl Fn(&[u8]) -> bool) -> SqlVerb {
        let Some(first) = self.word() else { return SqlVerb::default() };
        let depth = self.depth;
        if first.eq_ignore_ascii_case(b"WITH") {
            while let Some(word) = self.word() {
                if self.depth <= depth && is_main(word) {
                    return SqlVerb::from_word(word);
                }
            }
        }
        SqlVerb::from_word(first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verb(sql: &str) -> SqlVerb {
        StatementDialect::Mysql.verb(sql.as_bytes())
    }

    fn is_settings(sql: &[u8], is_unescaped: bool) -> bool {
        StatementDialect::mysql(is_unescaped).is_settings(sql)
    }

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
            assert_eq!(verb(sql).as_str(), expected, "{sql}");
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
