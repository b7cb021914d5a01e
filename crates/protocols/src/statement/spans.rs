//! Where the tokens of a text lie, for those who replace what is in it.

use super::dialect::StatementDialect;
use super::words::is_text;
use overhead_model::Protocol;
use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Location, Token, Whitespace};
use std::ops::Range;

/// What a token is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpanKind {
    /// A word that is not quoted and no keyword of any dialect.
    Name,
    /// A name in quotes; these are in the span.
    Quoted,
    /// A text, with its quotes and what introduces it.
    Text,
    /// A number.
    Number,
    /// Hexadecimal digits, with what introduces them.
    Hexadecimal,
    /// A comment, with what begins and ends it.
    Comment,
    /// What stands for a value.
    Marker,
    /// A keyword, white space, or another symbol.
    Other,
}

/// Returns whether a word is a keyword of any dialect.
pub fn is_keyword(word: &[u8]) -> bool {
    std::str::from_utf8(word).is_ok_and(|word| match Token::make_word(word, None) {
        Token::Word(word) => word.keyword != Keyword::NoKeyword,
        _ => false,
    })
}

/// Returns the tokens of a text in the language of a protocol's statements, in order, and where in it each lies. Where it cannot be
/// cut into tokens further on, there are those before the place; none for a protocol without such a language.
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

/// A place in a text, by its line and column as the tokenizer counts them.
struct TextPosition<'t> {
    text: &'t str,
    at: usize,
    line: u64,
    column: u64,
}

impl TextPosition<'_> {
    /// Moves on to a location and returns its offset.
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
