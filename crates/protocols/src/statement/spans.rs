//! Locates the tokens of a text, for callers that replace some of them.

use super::dialect::StatementDialect;
pub use super::dialect::TokenKind;
pub use super::words::is_keyword;
use overhead_model::Protocol;
use std::ops::Range;

/// Returns the tokens of a text in the protocol's statement language, with their positions. Stops at the first invalid
/// token; empty for a protocol without such a language.
pub fn spans(protocol: Protocol, text: &str) -> Vec<(Range<usize>, TokenKind)> {
    let dialect = match protocol {
        Protocol::Pgwire => StatementDialect::Postgres,
        Protocol::Mysql => StatementDialect::Mysql,
        Protocol::Cql => StatementDialect::Cql,
        _ => return Vec::new(),
    };
    let (tokens, _) = dialect.tokens(text);
    tokens.iter().map(|token| (token.at..token.at + token.text.len(), token.kind)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_token_lies_where_it_is_written() {
        let text = "SELECT größe, \"a b\" -- é\nFROM tt WHERE x = 'it''s' AND y > 1.5e3 /* c */ AND z = $1";
        let spans = spans(Protocol::Pgwire, text);
        let of = |kind| spans.iter().filter(|(_, of)| *of == kind).map(|(at, _)| &text[at.clone()]).collect::<Vec<_>>();
        let is_name = |word: &&str| !is_keyword(word.as_bytes());
        assert_eq!(of(TokenKind::Word).into_iter().filter(is_name).collect::<Vec<_>>(), ["größe", "tt", "x", "y", "z"]);
        assert_eq!(of(TokenKind::Quoted), ["\"a b\""]);
        assert_eq!(of(TokenKind::Text), ["'it''s'"]);
        assert_eq!(of(TokenKind::Number), ["1.5e3"]);
        assert_eq!(of(TokenKind::Marker), ["$1"]);
        assert_eq!(of(TokenKind::Comment).len(), 2);
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
