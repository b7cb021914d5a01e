//! Locates the tokens of a text, for callers that replace some of them.

use super::dialect::StatementDialect;
use super::words::is_text;
use overhead_model::Protocol;
use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Location, Token, Whitespace};
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

pub fn is_keyword(word: &[u8]) -> bool {
    std::str::from_utf8(word).is_ok_and(|word| match Token::make_word(word, None) {
        Token::Word(word) => word.keyword != Keyword::NoKeyword,
        _ => false,
    })
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
    let mut place = TextPosition { text, at: 0, line: 1, column: 1 };
    let mut spans = Vec::new();
    for spanned in dialect.with_spans(text) {
        let start = place.go_to(spanned.span.start);
        let end = place.go_to(spanned.span.end);
        if start < end {
            spans.push((start..end, kind(&spanned.token, dialect)));
        }
    }
    spans
}

fn kind(token: &Token, dialect: StatementDialect) -> SpanKind {
    match token {
        Token::Word(word) if word.quote_style.is_some() => SpanKind::Quoted,
        Token::Word(word) if word.keyword == Keyword::NoKeyword => SpanKind::Name,
        Token::Number(..) => SpanKind::Number,
        Token::HexStringLiteral(_) => SpanKind::Hexadecimal,
        Token::Placeholder(_) => SpanKind::Marker,
        Token::DoubleQuotedString(_) if dialect != StatementDialect::Mysql => SpanKind::Quoted,
        token if is_text(token) => SpanKind::Text,
        Token::Whitespace(Whitespace::SingleLineComment { .. } | Whitespace::MultiLineComment(_)) => SpanKind::Comment,
        _ => SpanKind::Other,
    }
}

/// A position in a text, by the tokenizer's line and column.
struct TextPosition<'t> {
    text: &'t str,
    at: usize,
    line: u64,
    column: u64,
}

impl TextPosition<'_> {
    /// Moves forward to a location and returns its offset.
    fn go_to(&mut self, to: Location) -> usize {
        for character in self.text.get(self.at..).unwrap_or_default().chars() {
            if (self.line, self.column) >= (to.line, to.column) {
                break;
            }
            self.at += character.len_utf8();
            (self.line, self.column) =
                if character == '\n' { (self.line + 1, 1) } else { (self.line, self.column + 1) };
        }
        self.at
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
