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
    pub fn of_word(text: &[u8]) -> Self {
        Self::in_capitals(text.iter().take_while(|byte| byte.is_ascii_alphabetic() || **byte == b'_'))
    }

    pub fn of_words(text: &[u8]) -> Self {
        Self::in_capitals(text)
    }

    fn in_capitals<'a>(text: impl IntoIterator<Item = &'a u8>) -> Self {
        let mut verb = Self::default();
        for (slot, byte) in verb.text.iter_mut().zip(text) {
            *slot = byte.to_ascii_uppercase();
            verb.len += 1;
        }
        verb
    }

    /// Returns the first word of a statement, or, after `WITH`, the first word in `main` at the same depth. `next`
    /// yields words with the number of open parentheses.
    pub fn of_statement<'a>(mut next: impl FnMut() -> Option<(&'a [u8], usize)>, main: &[&[u8]]) -> Self {
        let Some((first, depth)) = next() else { return Self::default() };
        if !first.eq_ignore_ascii_case(b"WITH") {
            return Self::of_word(first);
        }
        while let Some((word, here)) = next() {
            if here <= depth && main.iter().any(|verb| word.eq_ignore_ascii_case(verb)) {
                return Self::of_word(word);
            }
        }
        Self::of_word(first)
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

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}
