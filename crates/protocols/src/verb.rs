//! The verb of an SQL statement, whichever dialect it is in.

/// Longest verb that is told apart; no command's first word is longer.
const LENGTH: usize = 23;

/// The first word of a statement in upper case; empty where it is not known or the statement is empty. Aligned, it is copied
/// as words.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(align(8))]
pub(crate) struct SqlVerb {
    len: u8,
    text: [u8; LENGTH],
}

impl SqlVerb {
    /// From the first word of `text`.
    pub fn of_word(text: &[u8]) -> Self {
        Self::in_capitals(text.iter().take_while(|byte| byte.is_ascii_alphabetic() || **byte == b'_'))
    }

    /// From several words with a space between any two.
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

    /// Of a statement whose words come with the number of parentheses that are open there: its first word, or, of one that begins
    /// with `WITH`, the first that is `main` and stands no deeper. None where there are no words.
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

    /// Returns the word.
    pub fn as_str(&self) -> &str {
        let word = self.text.get(..usize::from(self.len)).unwrap_or_default();
        std::str::from_utf8(word).unwrap_or_default()
    }

    /// Returns whether it is this word, which is in upper case.
    #[inline]
    pub fn is(&self, word: &[u8]) -> bool {
        self.text.get(..usize::from(self.len)) == Some(word)
    }

    /// Returns whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}
