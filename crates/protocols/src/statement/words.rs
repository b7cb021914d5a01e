//! Recognises reserved words, and values without quotes.

use super::dialect::{StatementToken, TokenKind};
use crate::words_by_length::WordsByLength;
use std::collections::HashSet;
use std::sync::LazyLock;

/// Returns whether a word gives the character set of the following text: `_utf8mb4'text'`.
pub(super) fn is_introducer(token: &StatementToken<'_>, behind: &[StatementToken<'_>]) -> bool {
    let mut behind = behind.iter().filter(|token| !matches!(token.kind, TokenKind::Space | TokenKind::Comment));
    token.kind == TokenKind::Word
        && token.text.starts_with('_')
        && behind.next().is_some_and(|token| matches!(token.kind, TokenKind::Text | TokenKind::Hexadecimal))
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

/// Words printed in capitals: they are rarely used as names.
const RESERVED: WordsByLength = WordsByLength(
    2,
    &[
        "AS BY DO IF IN IS ON OR TO",
        "ALL AND ANY ASC END FOR NOT SET USE",
        "CALL CASE CAST COPY DESC DROP ELSE FROM FULL INTO JOIN LEFT LIKE LOCK NULL OVER SHOW SOME THEN TRUE VIEW WHEN WITH",
        "ALTER APPLY ARRAY BEGIN CHECK CROSS FALSE FETCH GRANT GROUP ILIKE INDEX INNER LIMIT MERGE ORDER OUTER RIGHT START \
     TABLE UNION USING WHERE",
        "COMMIT CREATE DELETE EXCEPT EXISTS HAVING INSERT OFFSET REVOKE SELECT UNIQUE UPDATE VACUUM VALUES",
        "ANALYZE BETWEEN COLLATE DECLARE DEFAULT EXECUTE EXPLAIN FOREIGN LATERAL NATURAL PREPARE PRIMARY RELEASE REPLACE",
        "CONFLICT DESCRIBE DISTINCT ROLLBACK TRUNCATE",
        "DUPLICATE INTERSECT PARTITION RECURSIVE RETURNING SAVEPOINT",
        "CONSTRAINT DEALLOCATE REFERENCES",
        "TRANSACTION",
    ],
);

pub(super) fn is_reserved(word: &str) -> bool {
    RESERVED.contains_in_any_case(word.as_bytes())
}

/// Returns whether a word is a keyword of any dialect.
pub fn is_keyword(word: &[u8]) -> bool {
    static KEYWORDS: LazyLock<HashSet<&[u8]>> =
        LazyLock::new(|| include_str!("keywords.txt").split_ascii_whitespace().map(str::as_bytes).collect());
    KEYWORDS.contains(word.to_ascii_uppercase().as_slice())
}
