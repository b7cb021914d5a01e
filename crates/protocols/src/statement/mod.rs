//! Statements: what a text in SQL or CQL asks for, without the values in it.
//!
//! Texts that differ in nothing but their literals, comments, white space and the case of reserved words are one statement. A
//! literal becomes `?`; a marker (`$1`, `?`, `:name`) stays as it is, so that one sees how values were sent. Lists of values become
//! `IN (…)`, `VALUES (…)`, `[…]` and `{…}`, however long they are. What cannot be cut into tokens for sure is never shown: its
//! verb is, and `(not parsed)`.
//!
//! ```text
//! text ──▶ tokens (sqlparser's) ──▶ pieces, literals without their text ──▶ lists folded ──▶ one line of text
//! ```
//!
//! The parts: `dialect` (how tokens are told in each language), `pieces` (tokens to what is kept of them), `lists` (folding),
//! `words` (which of them are values or reserved), `print` (pieces to text), `cache` (texts that repeat cost a look-up).

mod cache;
mod dialect;
mod lists;
mod pieces;
mod print;
pub mod spans;
#[cfg(test)]
mod tests;
mod words;

pub(crate) use cache::of;
pub(crate) use dialect::StatementDialect;

use std::sync::Arc;

/// Of a text, the bytes that are looked at. A text that goes on beyond them is the statement that it begins with.
const LOOKED_AT: usize = 16 << 10;

/// Stands for what was left out.
const LEFT_OUT: &str = "…";

/// A statement without the values in it. Cheap to copy.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum StatementText {
    /// Nothing was asked for, or nobody wants to know what.
    #[default]
    None,
    /// It was prepared before the capture began.
    PreparedBefore,
    /// It has this text.
    Text(Arc<str>),
}

impl StatementText {
    /// From its text, which is empty where there is none.
    fn new(text: &str) -> Self {
        if text.is_empty() { Self::None } else { Self::Text(Arc::from(text)) }
    }

    /// Returns its text; empty where there is none.
    #[inline]
    pub fn as_str(&self) -> &str {
        match self {
            Self::None => "",
            Self::PreparedBefore => "(prepared before the capture)",
            Self::Text(text) => text,
        }
    }

    /// Returns how many bytes of memory it holds, shared or not.
    pub fn held(&self) -> usize {
        if let Self::Text(text) = self { text.len() } else { 0 }
    }

    /// Returns what several statements in one message come to.
    pub fn joined(several: &[Self]) -> Self {
        let texts: Vec<&str> = several.iter().map(Self::as_str).collect();
        Self::new(&print::cut(texts.join("; ")))
    }
}

/// What a text came to.
#[derive(Clone, Debug)]
pub(crate) struct NormalisedStatement {
    pub statement: StatementText,
    /// The digits of the numbers in the text may be others without any change to the statement: see
    /// [`overhead_decode::numbers`].
    pub has_free_numbers: bool,
}

/// Nobody wants to know.
impl Default for NormalisedStatement {
    fn default() -> Self {
        Self { statement: StatementText::None, has_free_numbers: true }
    }
}

/// Returns the statement of a text. `is_whole` where nothing of it is missing; `verb` is asked for where it cannot be cut into
/// tokens.
fn normalise(
    text: &[u8],
    is_whole: bool,
    dialect: StatementDialect,
    verb: impl FnOnce() -> String,
) -> NormalisedStatement {
    let seen = text.get(..LOOKED_AT).unwrap_or(text);
    let is_whole = is_whole && seen.len() == text.len();
    let text = String::from_utf8_lossy(seen);
    // A byte of another character set may look like a backslash, which would hide the end of a literal.
    let is_doubtful = text.contains(char::REPLACEMENT_CHARACTER) && text.contains('\\');
    let read = if is_doubtful {
        None
    } else {
        dialect.with_tokens(&text, |tokens, is_read| {
            if !is_read && is_whole {
                return None;
            }
            let mut pieces = pieces::SqlPieces::of(tokens, dialect, is_whole)?;
            pieces.end(is_whole);
            Some((print::line(&pieces.all), pieces.has_free_numbers))
        })
    };
    match read {
        Some((line, has_free_numbers)) if !line.is_empty() => {
            NormalisedStatement { statement: StatementText::new(&print::cut(line)), has_free_numbers }
        }
        read => NormalisedStatement { statement: not_parsed(&verb(), read.is_some()), has_free_numbers: false },
    }
}

/// Returns the statement of a text of which nothing else is said than its verb; none where it is empty and `is_read`.
fn not_parsed(verb: &str, is_read: bool) -> StatementText {
    match verb {
        "" if is_read => StatementText::default(),
        "" => StatementText::new("(not parsed)"),
        verb => StatementText::new(&format!("{verb} (not parsed)")),
    }
}
