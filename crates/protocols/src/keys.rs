//! Statements of commands with keys: the command's name and the patterns of its keys.

use crate::pattern;

/// Most patterns shown per command.
const SHOWN: usize = 4;

/// The keys of the current command. Kept small because every connection has one.
#[derive(Debug, Default)]
pub(crate) struct KeyPatterns {
    /// The distinct patterns so far, each preceded by a space.
    text: String,
    /// Their ends in the text.
    ends: [u16; SHOWN],
    shown: u8,
    is_more: bool,
    /// The start of a key that arrives in pieces.
    piece: Option<Box<PartialKey>>,
}

#[derive(Debug, Default)]
struct PartialKey {
    bytes: Vec<u8>,
    /// Not completely captured, or too long.
    is_lost: bool,
}

// Patterns are no longer than the inspected part of a key.
const _: () = assert!(SHOWN * (pattern::LONGEST + 2) <= u16::MAX as usize);

impl KeyPatterns {
    #[inline]
    pub fn clear(&mut self) {
        self.text.clear();
        (self.shown, self.is_more) = (0, false);
        // Drops an incomplete key.
        self.piece = None;
    }

    pub fn push(&mut self, key: &[u8]) {
        let start = self.text.len();
        // At once, for most commands with one key.
        self.text.reserve(32);
        self.text.push(' ');
        if key.is_empty() {
            self.text.push_str("\"\"");
        }
        pattern::push(key, &mut self.text);
        let (before, new) = self.text.split_at(start);
        let shown = usize::from(self.shown);
        let mut from = 0;
        let is_known = self.ends.iter().take(shown).any(|&end| {
            let known = before.get(from..usize::from(end));
            from = end.into();
            known == Some(new)
        });
        match self.ends.get_mut(shown) {
            Some(end) if !is_known => (*end, self.shown) = (self.text.len() as u16, self.shown + 1),
            _ => {
                self.text.truncate(start);
                self.is_more = true;
            }
        }
    }

    pub fn push_unknown(&mut self) {
        self.push(b"\0");
    }

    /// Adds `len` bytes of a key, of which only `bytes` were captured.
    pub fn push_piece(&mut self, bytes: &[u8], len: u64) {
        let piece = self.piece.get_or_insert_default();
        piece.is_lost |= (bytes.len() as u64) < len || piece.bytes.len() + bytes.len() > pattern::LONGEST;
        if !piece.is_lost {
            piece.bytes.extend_from_slice(bytes);
        }
    }

    /// Ends a key that arrived in pieces.
    pub fn end_pieces(&mut self) {
        match self.piece.take() {
            Some(piece) if piece.is_lost => self.push_unknown(),
            Some(piece) => self.push(&piece.bytes),
            None => self.push(b""),
        }
    }

    /// Returns the statement of the finished command called `name`; empty without keys.
    pub fn statement(&mut self, name: &str) -> &str {
        if self.shown > 0 {
            self.text.insert_str(0, name);
            if self.is_more {
                self.text.push_str(" …");
            }
            (self.shown, self.is_more) = (0, false);
        }
        &self.text
    }

    pub fn held(&self) -> usize {
        self.text.capacity() + self.piece.as_ref().map_or(0, |piece| piece.bytes.capacity() + size_of::<PartialKey>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn statement(keys: &[&str]) -> String {
        let mut all = KeyPatterns::default();
        all.push(b"of another command");
        all.clear();
        for key in keys {
            all.push(key.as_bytes());
        }
        all.statement("MGET").to_owned()
    }

    #[test]
    fn different_patterns_stand_in_order_and_further_keys_are_an_ellipsis() {
        assert_eq!(statement(&[]), "");
        assert_eq!(statement(&["key:1"]), "MGET key:#");
        assert_eq!(statement(&["key:1", "key:2"]), "MGET key:# …");
        assert_eq!(statement(&["a:1", "b:2"]), "MGET a:# b:#");
        assert_eq!(statement(&[""]), "MGET \"\"");
        assert_eq!(statement(&["a", "b", "c", "d", "e"]), "MGET a b c d …");
    }

    #[test]
    fn a_key_in_pieces_is_that_in_one() {
        let mut keys = KeyPatterns::default();
        keys.push_piece(b"user", 4);
        keys.push_piece(b":17", 3);
        keys.end_pieces();
        assert_eq!(keys.statement("GET"), "GET user:#");
        keys.push_piece(b"cut o", 5);
        keys.clear();
        keys.push_piece(b"us", 4);
        keys.push_piece(b":17", 3);
        keys.end_pieces();
        assert_eq!(keys.statement("GET"), "GET #");
        keys.clear();
        for _ in 0..=pattern::LONGEST {
            keys.push_piece(b"a", 1);
        }
        keys.end_pieces();
        assert_eq!(keys.statement("GET"), "GET #");
    }
}
