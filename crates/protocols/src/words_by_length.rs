//! Sets of words that are looked up by content.

/// Words by length: the shortest length, then all words of each length from it on, separated by spaces.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WordsByLength(pub usize, pub &'static [&'static str]);

impl WordsByLength {
    pub fn contains(self, word: &[u8]) -> bool {
        self.with_length(word.len()).any(|other| other == word)
    }

    /// Like [`WordsByLength::contains`] for a word in upper or lower case.
    pub fn contains_in_any_case(self, word: &[u8]) -> bool {
        self.with_length(word.len()).any(|other| other.eq_ignore_ascii_case(word))
    }

    fn with_length(self, len: usize) -> impl Iterator<Item = &'static [u8]> {
        let words = len.checked_sub(self.0).and_then(|index| self.1.get(index)).copied().unwrap_or_default();
        words.as_bytes().chunks(len + 1).map(<[u8]>::trim_ascii_end)
    }
}
