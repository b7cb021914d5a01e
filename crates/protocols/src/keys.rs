//! The statement of a command with keys: its name, and the patterns of its keys.

use crate::pattern;

/// Patterns that are shown of a command's keys.
const SHOWN: usize = 4;

/// The keys of a command that is being read.
#[derive(Debug, Default)]
pub(crate) struct Keys {
    /// The different patterns so far, each behind a space.
    text: String,
    /// Where they end.
    ends: Vec<usize>,
    /// Keys so far.
    count: u32,
    /// The beginning of a key that comes in pieces.
    piece: Vec<u8>,
    /// Some of it was not captured, or it is too long.
    is_lost: bool,
    /// Kept for its memory.
    statement: String,
}

impl Keys {
    /// A new command.
    #[inline]
    pub fn clear(&mut self) {
        if self.count > 0 {
            self.text.clear();
            self.ends.clear();
            self.count = 0;
        }
        // Of a key that did not come to its end.
        self.piece.clear();
        self.is_lost = false;
    }

    /// Takes in a whole key.
    pub fn push(&mut self, key: &[u8]) {
        self.count = self.count.saturating_add(1);
        let start = self.text.len();
        self.text.push(' ');
        if key.is_empty() {
            self.text.push_str("\"\"");
        }
        pattern::push(key, &mut self.text);
        let (before, new) = self.text.split_at(start);
        let mut from = 0;
        let is_known = self.ends.iter().any(|&end| {
            let known = before.get(from..end);
            from = end;
            known == Some(new)
        });
        if is_known || self.ends.len() >= SHOWN {
            self.text.truncate(start);
        } else {
            self.ends.push(self.text.len());
        }
    }

    /// Takes in a key that is not there to be looked at.
    pub fn push_unknown(&mut self) {
        self.push(b"\0");
    }

    /// Takes in `len` bytes of a key, of which these were captured.
    pub fn push_piece(&mut self, bytes: &[u8], len: u64) {
        self.is_lost |= (bytes.len() as u64) < len || self.piece.len() + bytes.len() > pattern::LONGEST;
        if !self.is_lost {
            self.piece.extend_from_slice(bytes);
        }
    }

    /// The key that came in pieces is whole.
    pub fn end_pieces(&mut self) {
        let piece = std::mem::take(&mut self.piece);
        if std::mem::take(&mut self.is_lost) {
            self.push_unknown();
        } else {
            self.push(&piece);
        }
        self.piece = piece;
        self.piece.clear();
    }

    /// Returns the statement of the command with this name; empty without keys.
    pub fn statement(&mut self, name: &str) -> &str {
        self.statement.clear();
        if self.count > 0 {
            self.statement.push_str(name);
            self.statement.push_str(&self.text);
            if self.count as usize > self.ends.len() {
                self.statement.push_str(" …");
            }
        }
        &self.statement
    }

    /// Returns how many bytes of memory it holds.
    pub fn held(&self) -> usize {
        let ends = self.ends.capacity() * size_of::<usize>();
        self.text.capacity() + self.piece.capacity() + self.statement.capacity() + ends
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn statement(keys: &[&str]) -> String {
        let mut all = Keys::default();
        all.push(b"of another command");
        all.clear();
        keys.iter().for_each(|key| all.push(key.as_bytes()));
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
        let mut keys = Keys::default();
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
        (0..=pattern::LONGEST).for_each(|_| keys.push_piece(b"a", 1));
        keys.end_pieces();
        assert_eq!(keys.statement("GET"), "GET #");
    }
}
