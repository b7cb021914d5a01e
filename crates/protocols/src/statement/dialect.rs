//! How the texts of each language are cut into tokens.

use sqlparser::dialect::{Dialect as Rules, MySqlDialect, PostgreSqlDialect, SnowflakeDialect};
use sqlparser::tokenizer::{Token, Tokenizer};
use std::any::TypeId;

/// A language of statements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    Postgres,
    /// What stands in double quotes is a literal, as it is unless the server is told otherwise (`ANSI_QUOTES`).
    Mysql,
    Cql,
}

impl Dialect {
    /// Cuts a text into tokens. Where that fails, there are those before the place.
    pub fn with_tokens<T>(self, text: &str, read: impl FnOnce(&[Token], bool) -> T) -> T {
        let rules: &dyn Rules = match self {
            Self::Postgres => &PostgreSqlDialect {},
            Self::Mysql => &MySqlDialect {},
            Self::Cql => &CqlRules,
        };
        let mut spanned = Vec::new();
        let is_read =
            Tokenizer::new(rules, text).with_unescape(false).tokenize_with_location_into_buf(&mut spanned).is_ok();
        let tokens: Vec<Token> = spanned.into_iter().map(|spanned| spanned.token).collect();
        read(&tokens, is_read)
    }
}

/// The lexical structure of CQL (Cassandra's documentation, "Definitions"; `Lexer.g` of its source).
#[derive(Debug)]
struct CqlRules;

impl Rules for CqlRules {
    /// Of the dialects that the tokenizer knows itself, the one in which two slashes begin a comment.
    fn dialect(&self) -> TypeId {
        TypeId::of::<SnowflakeDialect>()
    }

    fn is_identifier_start(&self, ch: char) -> bool {
        ch.is_alphabetic() || ch == '_'
    }

    fn is_identifier_part(&self, ch: char) -> bool {
        ch.is_alphanumeric() || ch == '_'
    }

    fn is_delimited_identifier_start(&self, ch: char) -> bool {
        ch == '"'
    }
}
