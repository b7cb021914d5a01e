//! Statements: texts in SQL or CQL without their values.
//!
//! Texts that differ only in literals, comments, white space and the case of reserved words are one statement. A
//! literal becomes `?`; a marker (`$1`, `?`, `:name`) is kept, which shows how values were sent. Lists of values become
//! `IN (…)`, `VALUES (…)`, `[…]` and `{…}`, whatever their length. Text that cannot be tokenised reliably is never
//! shown: only its verb, and `(not parsed)`.
//!
//! ```text
//! text ──▶ tokens ──▶ pieces, literals without their text ──▶ lists folded ──▶ one line of text
//! ```
//!
//! The parts: `dialect` (tokens), `pieces` (what is kept of them), `lists` (folding), `words` (values and reserved
//! words), `print` (text), `cache` (repeated texts), `lexer` (single words), `spans` (positions of tokens).

mod cache;
mod dialect;
mod lexer;
mod lists;
mod pieces;
mod print;
pub mod spans;
mod summary;
#[cfg(test)]
mod tests;
mod words;

pub(crate) use cache::normalise_cached;
pub(crate) use dialect::{StatementDialect, TokenKind};
pub(crate) use lexer::StatementLexer;
pub(crate) use summary::StatementSummary;

use std::fmt::Display;
use std::sync::Arc;

/// Bytes of a text that are read; a longer text is identified by its start.
const LOOKED_AT: usize = 16 << 10;

/// Starts the statement of an operation that was prepared before the capture.
pub const PREPARED_BEFORE: &str = "(prepared before the capture: ";

/// Characters shown of a prepared statement's name.
const LONGEST_NAME: usize = 64;

/// Bytes of column names by which a statement is named that was prepared before the capture.
const NAMED_COLUMNS: usize = 120;

/// Replaces omitted parts.
const LEFT_OUT: &str = "…";

/// A statement without its values. Cheap to clone.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum StatementText {
    /// There is no text, or statements are not wanted.
    #[default]
    None,
    /// Prepared before the capture started: what is on the wire instead of its text.
    PreparedBefore {
        text: Arc<str>,
        /// Bytes of the text before the columns of its answer.
        named: u16,
    },
    Text(Arc<str>),
}

impl StatementText {
    fn new(text: &str) -> Self {
        if text.is_empty() { Self::None } else { Self::Text(Arc::from(text)) }
    }

    /// Returns the text; empty if there is none.
    #[inline]
    pub fn as_str(&self) -> &str {
        match self {
            Self::None => "",
            Self::PreparedBefore { text, .. } | Self::Text(text) => text,
        }
    }

    /// Returns whether it was prepared before the capture, and its text is not known.
    pub fn is_unseen(&self) -> bool {
        matches!(self, Self::PreparedBefore { .. })
    }

    /// Returns the allocated bytes, shared or not.
    pub fn held(&self) -> usize {
        self.as_str().len()
    }

    /// Returns the statement with this name or id, which was prepared before the capture started.
    pub fn prepared_before(name: &str, rest: impl Display) -> Self {
        let name: String = name.chars().take(LONGEST_NAME).collect();
        let text = format!("{PREPARED_BEFORE}{name}{rest})");
        Self::PreparedBefore { named: text.len() as u16 - 1, text: Arc::from(text) }
    }

    /// Returns the columns by which it is named in addition, as added by [`add_column`].
    pub fn columns(&self) -> &str {
        let Self::PreparedBefore { text, named } = self else { return "" };
        text.get(usize::from(*named)..).and_then(|columns| columns.strip_suffix(')')).unwrap_or_default()
    }

    /// Returns it named by these columns in addition, and not by others, unless its text is known.
    pub fn described(&self, columns: &str) -> Self {
        let Self::PreparedBefore { text, named } = self else { return self.clone() };
        let own = text.get(..usize::from(*named)).unwrap_or_default();
        Self::PreparedBefore { text: Arc::from(format!("{own}{columns})")), named: *named }
    }

    /// Returns the statement of a message that contains several.
    pub fn joined(several: &[Self]) -> Self {
        let texts: Vec<&str> = several.iter().map(Self::as_str).collect();
        Self::new(&print::cut(texts.join("; ")))
    }
}

/// Adds a column of an answer, by its path, unless there are many. Only names of a schema may be added: those of expressions may contain
/// values.
pub(crate) fn add_column(columns: &mut String, path: &[&[u8]]) {
    if columns.len() < NAMED_COLUMNS {
        columns.push_str(", ");
        columns.push_str(&String::from_utf8_lossy(&path.join(&b'.')));
    }
}

/// The result of normalising a text.
#[derive(Clone, Debug)]
pub(crate) struct NormalisedStatement {
    pub statement: StatementText,
    /// Digits of numbers in the text may change without changing the statement; see [`overhead_decode::numbers`].
    pub has_free_numbers: bool,
}

/// Statements are not wanted.
impl Default for NormalisedStatement {
    fn default() -> Self {
        Self { statement: StatementText::None, has_free_numbers: true }
    }
}

/// Returns the statement of a text. `is_whole` if the text is complete; `verb` is called if it cannot be tokenised.
fn normalise(
    text: &[u8],
    is_whole: bool,
    dialect: StatementDialect,
    verb: impl FnOnce() -> String,
) -> NormalisedStatement {
    let seen = text.get(..LOOKED_AT).unwrap_or(text);
    let is_whole = is_whole && seen.len() == text.len();
    let text = String::from_utf8_lossy(seen);
    // A byte of another character set may look like a backslash and hide the end of a literal.
    let is_doubtful = text.contains(char::REPLACEMENT_CHARACTER) && text.contains('\\');
    let read = if is_doubtful { None } else { read(&text, is_whole, dialect) };
    match read {
        Some((line, has_free_numbers)) if !line.is_empty() => {
            NormalisedStatement { statement: StatementText::new(&print::cut(line)), has_free_numbers }
        }
        read => NormalisedStatement { statement: not_parsed(&verb(), read.is_some()), has_free_numbers: false },
    }
}

/// Returns the line of a text, and whether its numbers are free. `None` if literals cannot be identified reliably.
fn read(text: &str, is_whole: bool, dialect: StatementDialect) -> Option<(String, bool)> {
    let (tokens, is_read) = dialect.tokens(text);
    if !is_read && is_whole {
        return None;
    }
    let mut pieces = pieces::SqlPieces::new(&tokens, dialect, is_whole)?;
    pieces.end(is_whole);
    Some((print::line(&pieces.all), pieces.has_free_numbers))
}

/// Returns a statement that shows only the verb; none if the text was empty (`is_read`).
fn not_parsed(verb: &str, is_read: bool) -> StatementText {
    match verb {
        "" if is_read => StatementText::default(),
        "" => StatementText::new("(not parsed)"),
        verb => StatementText::new(&format!("{verb} (not parsed)")),
    }
}
