//! Recognises reserved words, and values without quotes.

use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::Token;

/// Returns whether a token is a quoted text of any kind. The dialect decides which of them are names.
#[inline]
pub(super) fn is_text(token: &Token) -> bool {
    matches!(
        token,
        Token::SingleQuotedString(_)
            | Token::DoubleQuotedString(_)
            | Token::TripleSingleQuotedString(_)
            | Token::TripleDoubleQuotedString(_)
            | Token::DollarQuotedString(_)
            | Token::SingleQuotedByteStringLiteral(_)
            | Token::DoubleQuotedByteStringLiteral(_)
            | Token::TripleSingleQuotedByteStringLiteral(_)
            | Token::TripleDoubleQuotedByteStringLiteral(_)
            | Token::SingleQuotedRawStringLiteral(_)
            | Token::DoubleQuotedRawStringLiteral(_)
            | Token::TripleSingleQuotedRawStringLiteral(_)
            | Token::TripleDoubleQuotedRawStringLiteral(_)
            | Token::NationalStringLiteral(_)
            | Token::QuoteDelimitedStringLiteral(_)
            | Token::NationalQuoteDelimitedStringLiteral(_)
            | Token::EscapedStringLiteral(_)
            | Token::UnicodeStringLiteral(_)
    )
}

/// Returns whether a word gives the character set of the following text: `_utf8mb4'text'`.
pub(super) fn is_introducer(token: &Token, behind: &[Token]) -> bool {
    let Token::Word(word) = token else { return false };
    let mut behind = behind.iter().filter(|token| !matches!(token, Token::Whitespace(_)));
    let is_value = |token: &Token| {
        matches!(
            token,
            Token::SingleQuotedString(_)
                | Token::DoubleQuotedString(_)
                | Token::HexStringLiteral(_)
                | Token::SingleQuotedByteStringLiteral(_)
        )
    };
    word.quote_style.is_none() && word.value.starts_with('_') && behind.next().is_some_and(is_value)
}

/// Returns whether these are the parts of a duration: numbers with units.
pub(super) fn is_duration(mut inside: &[u8]) -> bool {
    let mut parts = 0;
    loop {
        if let [b'T' | b't', behind @ ..] = inside {
            inside = behind;
        }
        let digits = inside.iter().take_while(|byte| byte.is_ascii_digit()).count();
        match inside.get(digits..).unwrap_or_default() {
            [unit, behind @ ..] if digits > 0 && b"YMWDHSymwdhs".contains(unit) => inside = behind,
            // The alternative form `P0001-02-03T04:05:06`, which continues after the year.
            left => return left.is_empty() && (parts > 0 && digits == 0 || digits == 4),
        }
        parts += 1;
    }
}

/// Returns how many tokens after `first` belong to the same UUID; `None` if there is none.
pub(super) fn uuid(first: &Token, behind: &[Token]) -> Option<usize> {
    const LENGTH: usize = 36;
    let mut text = [0_u8; LENGTH];
    let mut at = 0;
    let mut count = 0;
    for token in std::iter::once(first).chain(behind) {
        let part = match token {
            Token::Number(digits, false) => digits.as_str(),
            Token::Word(word) if word.quote_style.is_none() => word.value.as_str(),
            Token::Minus => "-",
            _ => break,
        };
        let Some(place) = text.get_mut(at..at + part.len()) else { break };
        place.copy_from_slice(part.as_bytes());
        at += part.len();
        count += 1;
    }
    let is_uuid = at == LENGTH
        && text.iter().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => *byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        });
    is_uuid.then(|| count - 1)
}

/// Words printed in capitals: they are rarely used as names.
const RESERVED: [Keyword; 107] = {
    use Keyword as K;
    [
        K::ALL,
        K::ALTER,
        K::ANALYZE,
        K::AND,
        K::ANY,
        K::APPLY,
        K::ARRAY,
        K::AS,
        K::ASC,
        K::BEGIN,
        K::BETWEEN,
        K::BY,
        K::CALL,
        K::CASE,
        K::CAST,
        K::CHECK,
        K::COLLATE,
        K::COMMIT,
        K::CONFLICT,
        K::CONSTRAINT,
        K::COPY,
        K::CREATE,
        K::CROSS,
        K::DEALLOCATE,
        K::DECLARE,
        K::DEFAULT,
        K::DELETE,
        K::DESC,
        K::DESCRIBE,
        K::DISTINCT,
        K::DO,
        K::DROP,
        K::DUPLICATE,
        K::ELSE,
        K::END,
        K::EXCEPT,
        K::EXECUTE,
        K::EXISTS,
        K::EXPLAIN,
        K::FALSE,
        K::FETCH,
        K::FOR,
        K::FOREIGN,
        K::FROM,
        K::FULL,
        K::GRANT,
        K::GROUP,
        K::HAVING,
        K::IF,
        K::ILIKE,
        K::IN,
        K::INDEX,
        K::INNER,
        K::INSERT,
        K::INTERSECT,
        K::INTO,
        K::IS,
        K::JOIN,
        K::LATERAL,
        K::LEFT,
        K::LIKE,
        K::LIMIT,
        K::LOCK,
        K::MERGE,
        K::NATURAL,
        K::NOT,
        K::NULL,
        K::OFFSET,
        K::ON,
        K::OR,
        K::ORDER,
        K::OUTER,
        K::OVER,
        K::PARTITION,
        K::PREPARE,
        K::PRIMARY,
        K::RECURSIVE,
        K::REFERENCES,
        K::RELEASE,
        K::REPLACE,
        K::RETURNING,
        K::REVOKE,
        K::RIGHT,
        K::ROLLBACK,
        K::SAVEPOINT,
        K::SELECT,
        K::SET,
        K::SHOW,
        K::SOME,
        K::START,
        K::TABLE,
        K::THEN,
        K::TO,
        K::TRANSACTION,
        K::TRUE,
        K::TRUNCATE,
        K::UNION,
        K::UNIQUE,
        K::UPDATE,
        K::USE,
        K::USING,
        K::VACUUM,
        K::VALUES,
        K::VIEW,
        K::WHEN,
        K::WHERE,
        K::WITH,
    ]
};

/// [`RESERVED`] as a table indexed by keyword.
const IS_RESERVED: [bool; 2048] = {
    let mut is_reserved = [false; 2048];
    let mut at = 0;
    while at < RESERVED.len() {
        is_reserved[RESERVED[at] as usize] = true;
        at += 1;
    }
    is_reserved
};

pub(super) fn is_reserved(keyword: Keyword) -> bool {
    IS_RESERVED.get(keyword as usize).is_some_and(|is_reserved| *is_reserved)
}
