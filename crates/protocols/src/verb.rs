//! The verb of an SQL statement, in any dialect.

/// Longest verb; no command's first word is longer.
const LENGTH: usize = 23;

/// The first word of a statement in upper case; empty if unknown. Aligned so that copies use whole words.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(align(8))]
pub(crate) struct SqlVerb {
    len: u8,
    text: [u8; LENGTH],
}

impl SqlVerb {
    /// The first half of a two-phase commit; prepares a transaction, not a statement.
    pub const TWO_PHASE: &[u8] = b"PREPARE TRANSACTION";

    pub fn from_word(text: &[u8]) -> Self {
        Self::in_capitals(text.iter().take_while(|byte| byte.is_ascii_alphabetic() || **byte == b'_'))
    }

    /// Returns the verb of a command tag of PostgreSQL.
    pub fn from_tag(tag: &[u8]) -> Self {
        let tag = tag.strip_suffix(b"\0").unwrap_or(tag);
        if tag == Self::TWO_PHASE { Self::in_capitals(tag) } else { Self::from_word(tag) }
    }

    pub fn in_capitals<'a>(text: impl IntoIterator<Item = &'a u8>) -> Self {
        let mut verb = Self::default();
        for (slot, byte) in verb.text.iter_mut().zip(text) {
            *slot = byte.to_ascii_uppercase();
            verb.len += 1;
        }
        verb
    }

    pub fn as_str(&self) -> &str {
        let word = self.text.get(..usize::from(self.len)).unwrap_or_default();
        std::str::from_utf8(word).unwrap_or_default()
    }

    /// Returns whether the verb is `word`, which must be in upper case.
    #[inline]
    pub fn is(&self, word: &[u8]) -> bool {
        self.text.get(..usize::from(self.len)) == Some(word)
    }

    /// Returns the verb, or `unknown` if it is empty.
    pub fn or<'v>(&'v self, unknown: &'v str) -> &'v str {
        if self.is_empty() { unknown } else { self.as_str() }
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}
