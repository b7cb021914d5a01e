//! Tokenises the texts of each language.

use sqlparser::dialect::{Dialect as Rules, MySqlDialect, PostgreSqlDialect, SnowflakeDialect};
use sqlparser::tokenizer::{Token, TokenWithSpan, Tokenizer};
use std::any::TypeId;
use std::iter::Peekable;
use std::str::Chars;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StatementDialect {
    Postgres,
    /// Double quotes enclose literals, the default without `ANSI_QUOTES`.
    Mysql,
    /// Without backslash escapes (`NO_BACKSLASH_ESCAPES`).
    MysqlUnescaped,
    Cql,
}

impl StatementDialect {
    pub fn is_mysql(self) -> bool {
        matches!(self, Self::Mysql | Self::MysqlUnescaped)
    }

    /// Tokenises a text; after an error, passes the tokens before it.
    pub fn with_tokens<T>(self, text: &str, read: impl FnOnce(&[Token], bool) -> T) -> T {
        let (spanned, is_read) = self.tokens(text);
        let tokens: Vec<Token> = spanned.into_iter().map(|spanned| spanned.token).collect();
        read(&tokens, is_read)
    }

    /// Returns the tokens of a text with their positions; after an error, the tokens before it.
    pub fn with_spans(self, text: &str) -> Vec<TokenWithSpan> {
        self.tokens(text).0
    }

    fn tokens(self, text: &str) -> (Vec<TokenWithSpan>, bool) {
        let rules: &dyn Rules = match self {
            Self::Postgres => &LexicalRules::of(PostgreSqlDialect {}),
            Self::Mysql => &LexicalRules::of(MySqlDialect {}),
            Self::MysqlUnescaped => &LexicalRules { dialect: MySqlDialect {}, is_unescaped: true },
            Self::Cql => &CqlRules,
        };
        let mut spanned = Vec::new();
        let is_read =
            Tokenizer::new(rules, text).with_unescape(false).tokenize_with_location_into_buf(&mut spanned).is_ok();
        (spanned, is_read)
    }
}

/// The part of a dialect that the tokenizer needs. Implementing only this keeps the parser and its syntax tree out of
/// the binary.
#[derive(Debug)]
struct LexicalRules<D> {
    dialect: D,
    /// A backslash is an ordinary character, whatever the dialect says.
    is_unescaped: bool,
}

impl<D> LexicalRules<D> {
    fn of(dialect: D) -> Self {
        Self { dialect, is_unescaped: false }
    }
}

/// Delegates methods to the dialect.
macro_rules! pass_on {
    ($($name:ident($($argument:ident: $kind:ty)?) -> $result:ty;)*) => {
        $(fn $name(&self $(, $argument: $kind)?) -> $result {
            self.dialect.$name($($argument)?)
        })*
    };
}

impl<D: Rules> Rules for LexicalRules<D> {
    fn dialect(&self) -> TypeId {
        TypeId::of::<D>()
    }

    fn supports_string_literal_backslash_escape(&self) -> bool {
        !self.is_unescaped && self.dialect.supports_string_literal_backslash_escape()
    }

    pass_on! {
        is_identifier_start(ch: char) -> bool;
        is_identifier_part(ch: char) -> bool;
        is_delimited_identifier_start(ch: char) -> bool;
        is_nested_delimited_identifier_start(ch: char) -> bool;
        peek_nested_delimited_identifier_quotes(chars: Peekable<Chars<'_>>) -> Option<(char, Option<char>)>;
        is_custom_operator_part(ch: char) -> bool;
        ignores_wildcard_escapes() -> bool;
        requires_single_line_comment_whitespace() -> bool;
        supports_dollar_as_money_prefix() -> bool;
        supports_dollar_placeholder() -> bool;
        supports_geometric_types() -> bool;
        supports_multiline_comment_hints() -> bool;
        supports_nested_comments() -> bool;
        supports_numeric_literal_underscores() -> bool;
        supports_numeric_prefix() -> bool;
        supports_pipe_operator() -> bool;
        supports_quote_delimited_string() -> bool;
        supports_string_escape_constant() -> bool;
        supports_triple_quoted_string() -> bool;
        supports_unicode_string_literal() -> bool;
    }
}

/// The lexical structure of CQL (Cassandra's documentation, "Definitions"; `Lexer.g` of its source).
#[derive(Debug)]
struct CqlRules;

impl Rules for CqlRules {
    /// Of the dialects known to the tokenizer, this one has comments that begin with two slashes.
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Texts that the dialects read differently.
    const PIECES: [&str; 32] = [
        "select ",
        "$t$",
        "$1",
        "E'",
        "U&'",
        "N'x'",
        "b'01'",
        "'''",
        "'",
        "\"",
        "`",
        "q'[",
        "/*!50000 ",
        "/*+ ",
        "/*",
        "*/",
        "--",
        "-- ",
        "#",
        "\r",
        "\n",
        "1_000",
        "1e5a",
        "1.a",
        "|>",
        "<->",
        "?|",
        "@>",
        "\\'",
        "\\%",
        "a",
        " ",
    ];

    fn tokens(rules: &dyn Rules, text: &str) -> Result<Vec<Token>, String> {
        Tokenizer::new(rules, text).with_unescape(false).tokenize().map_err(|error| error.to_string())
    }

    proptest! {
        #[test]
        fn tokens_are_those_of_the_whole_dialect(pieces in proptest::collection::vec(proptest::sample::select(&PIECES[..]), 0..12)) {
            let text = pieces.concat();
            prop_assert_eq!(tokens(&LexicalRules::of(PostgreSqlDialect {}), &text), tokens(&PostgreSqlDialect {}, &text), "{}", text);
            prop_assert_eq!(tokens(&LexicalRules::of(MySqlDialect {}), &text), tokens(&MySqlDialect {}, &text), "{}", text);
        }
    }
}
