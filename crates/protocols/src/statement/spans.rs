//! Locates the tokens of a text, for callers that replace some of them.

use super::dialect::{StatementDialect, TokenKind};
pub use super::words::is_keyword;
use overhead_model::Protocol;
use std::ops::Range;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpanKind {
    /// An unquoted word that is not a keyword of any dialect.
    Name,
    /// A quoted name, including its quotes.
    Quoted,
    /// A text literal, including its quotes and prefix.
    Text,
    Number,
    /// Hexadecimal digits with their prefix.
    Hexadecimal,
    /// A comment with its delimiters.
    Comment,
    /// A placeholder.
    Marker,
    /// A keyword, white space, or another symbol.
    Other,
}

/// Returns the tokens of a text in the protocol's statement language, with their positions. Stops at the first invalid
/// token; empty for a protocol without such a language.
pub fn spans(protocol: Protocol, text: &str) -> Vec<(Range<usize>, SpanKind)> {
    let dialect = match protocol {
        Protocol::Pgwire => StatementDialect::Postgres,
        Protocol::Mysql => StatementDialect::Mysql,
        Protocol::Cql => StatementDialect::Cql,
        _ => return Vec::new(),
    };
    let (tokens, _) = dialect.tokens(text);
    tokens.iter().map(|token| (token.range(), kind(token.kind, token.text))).collect()
}

fn kind(kind: TokenKind, text: &str) -> SpanKind {
    match kind {
        TokenKind::Word if is_keyword(text.as_bytes()) => SpanKind::Other,
        TokenKind::Word => SpanKind::Name,
        TokenKind::Quoted => SpanKind::Quoted,
        TokenKind::Text => SpanKind::Text,
        TokenKind::Number => SpanKind::Number,
        TokenKind::Hexadecimal => SpanKind::Hexadecimal,
        TokenKind::Comment => SpanKind::Comment,
        TokenKind::Marker => SpanKind::Marker,
        TokenKind::Space | TokenKind::Symbol => SpanKind::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_token_lies_where_it_is_written() {
        let text = "SELECT größe, \"a b\" -- é\nFROM tt WHERE x = 'it''s' AND y > 1.5e3 /* c */ AND z = $1";
        let spans = spans(Protocol::Pgwire, text);
        let of = |kind| spans.iter().filter(|(_, of)| *of == kind).map(|(at, _)| &text[at.clone()]).collect::<Vec<_>>();
        assert_eq!(of(SpanKind::Name), ["größe", "tt", "x", "y", "z"]);
        assert_eq!(of(SpanKind::Quoted), ["\"a b\""]);
        assert_eq!(of(SpanKind::Text), ["'it''s'"]);
        assert_eq!(of(SpanKind::Number), ["1.5e3"]);
        assert_eq!(of(SpanKind::Marker), ["$1"]);
        assert_eq!(of(SpanKind::Comment).len(), 2);
        assert_eq!(spans.iter().map(|(at, _)| at.len()).sum::<usize>(), text.len());
    }

    #[test]
    fn what_is_not_read_has_no_spans() {
        let text = "SELECT 1 FROM t WHERE a = 'never ends";
        assert_eq!(spans(Protocol::Mysql, text).last().map(|(at, _)| &text[at.clone()]), Some(" "));
        assert!(spans(Protocol::Resp, "GET a").is_empty());
        assert!(is_keyword(b"select") && !is_keyword(b"sbtest1"));
    }
}
