//! Filler: other bytes of the same length and class, the same for the same word.
//!
//! Bytes fall into classes: decimal digits, small letters, capital letters and, beyond ASCII, the bytes that are
//! interchangeable in UTF-8. A byte becomes another one of its class, so text stays text, valid UTF-8 stays valid, and no
//! word survives. The shift depends on a secret key and on the word.
//!
//! A word is moved in one of two ways:
//!
//! - *apart*: each byte depends on the filler before it, so different words get different fillers. For everything that the
//!   record identifies by name: identifiers, words of keys and paths.
//! - *whole*: each byte depends on the whole word. A known word reveals nothing about others.

use overhead_protocols::pattern;
use siphasher::sip::SipHasher24;
use std::hash::Hasher;

/// Longest word that is moved apart, in bytes.
const LONGEST_NAME: usize = 128;
/// Attempts to find a filler of the same shape. After that the last attempt is used; comparing the records shows whether it
/// matters.
const MOVES: usize = 4096;

/// The secret that fillers depend on.
#[derive(Clone, Copy, Debug)]
pub struct FillerKey(pub [u8; 16]);

/// Replaces words by others, which depend on the key and the word only.
#[derive(Clone, Copy, Debug)]
pub struct Filler {
    key: FillerKey,
}

/// Interchangeable bytes: the first one, and their number.
pub type CharacterClass = (u8, u8);

/// Returns the class of a byte of text; it has one member if the byte must stay.
pub fn class(byte: u8) -> CharacterClass {
    match byte {
        b'0'..=b'9' => (b'0', 10),
        b'a'..=b'z' => (b'a', 26),
        b'A'..=b'Z' => (b'A', 26),
        _ => beyond_ascii(byte),
    }
}

/// Returns the class of a hexadecimal digit.
fn hexadecimal(byte: u8) -> CharacterClass {
    match byte {
        b'0'..=b'9' => (b'0', 10),
        b'a'..=b'f' => (b'a', 6),
        b'A'..=b'F' => (b'A', 6),
        _ => (byte, 1),
    }
}

/// Groups bytes of UTF-8 (RFC 3629 section 4) so that valid text stays valid: the range of the byte after E0, ED, F0 and F4
/// is restricted, so these stay, and continuation bytes stay within the narrowest range. Latin, Cyrillic and Chinese
/// letters stay letters.
fn beyond_ascii(byte: u8) -> CharacterClass {
    match byte {
        0x80..=0x8f => (0x80, 16),
        0x90..=0x9f => (0x90, 16),
        0xa0..=0xbf => (0xa0, 32),
        0xc0..=0xc1 => (0xc0, 2),
        0xc4..=0xc6 => (0xc4, 3),
        0xd0..=0xd1 => (0xd0, 2),
        0xd8..=0xdb => (0xd8, 4),
        0xe4..=0xe9 => (0xe4, 6),
        0xeb..=0xec => (0xeb, 2),
        0xf1..=0xf3 => (0xf1, 3),
        0xf5..=0xff => (0xf5, 11),
        _ => (byte, 1),
    }
}

/// Moves a byte within its class, by at least 1 and less than the size of the class.
fn moved(byte: u8, (first, count): CharacterClass, by: u64) -> u8 {
    match u64::from(count) {
        0 | 1 => byte,
        count => first + ((u64::from(byte - first) + 1 + by % (count - 1)) % count) as u8,
    }
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte >= 0x80
}

fn is_control(byte: u8) -> bool {
    byte.is_ascii_control() && !matches!(byte, b'\t' | b'\n' | b'\r')
}

/// Returns whether the bytes are valid UTF-8, except for a cut character at either end, without control characters other
/// than white space.
pub fn is_text(bytes: &[u8]) -> bool {
    if bytes.iter().copied().any(is_control) {
        return false;
    }
    let cut = bytes.iter().take(3).take_while(|byte| matches!(byte, 0x80..=0xbf)).count();
    match std::str::from_utf8(bytes.get(cut..).unwrap_or_default()) {
        Ok(_) => cut < bytes.len() || bytes.is_empty(),
        Err(error) => error.error_len().is_none() && error.valid_up_to() > 0,
    }
}

impl Filler {
    /// Returns a filler for one copy; copies with the same key have the same fillers.
    pub const fn new(key: FillerKey) -> Self {
        Self { key }
    }

    fn hasher(&self, kind: u8) -> SipHasher24 {
        let mut hasher = SipHasher24::new_with_key(&self.key.0);
        hasher.write_u8(kind);
        hasher
    }

    /// Returns a number that depends on the key, the kind and the bytes.
    pub fn number(&self, kind: u8, bytes: &[u8]) -> u64 {
        let mut hasher = self.hasher(kind);
        hasher.write(bytes);
        hasher.finish()
    }

    /// Replaces user data: words of a text, or all bytes of anything else.
    pub fn data(&self, bytes: &mut [u8]) {
        if is_text(bytes) { self.text(bytes) } else { self.binary(bytes) }
    }

    /// Replaces the bytes that differ from `filled` with a repetitive filler that compresses well.
    pub fn plain(bytes: &mut [u8], filled: &[u8]) {
        let is_text = is_text(bytes);
        for (byte, _) in bytes.iter_mut().zip(filled).filter(|(was, is)| was != is) {
            let (first, count) = class(*byte);
            *byte = match (is_text, count) {
                // The whole list, so that the positions of zeros are not revealed.
                (false, _) => 0,
                (true, ..3) => *byte,
                // The last but two of the class, or the last but one.
                (true, _) => first + count - if *byte == first + count - 3 { 2 } else { 3 },
            };
        }
    }

    /// Replaces the words of a text and keeps what separates them.
    pub fn text(&self, bytes: &mut [u8]) {
        self.words(bytes, Self::word);
    }

    /// Replaces all bytes. The result is text only if the original is.
    pub fn binary(&self, bytes: &mut [u8]) {
        let seed = self.number(b'b', bytes);
        let control = bytes.iter().copied().position(is_control);
        for (at, byte) in bytes.iter_mut().enumerate() {
            let by = self.step(seed, at as u64);
            *byte = if Some(at) == control {
                let other = 1 + (by % 8) as u8;
                if other == *byte { 1 + other % 8 } else { other }
            } else if control.is_none() {
                moved(*byte, class(*byte), by)
            } else if *byte == 0 {
                // Zero ends many fields, so none may appear.
                1 + (by % 255) as u8
            } else {
                moved(*byte, (1, 255), by)
            };
        }
    }

    /// Replaces hexadecimal digits; other bytes stay.
    pub fn hexadecimal(&self, bytes: &mut [u8]) {
        let seed = self.number(b'x', bytes);
        for (at, byte) in bytes.iter_mut().enumerate() {
            *byte = moved(*byte, hexadecimal(*byte), self.step(seed, at as u64));
        }
    }

    /// Replaces decimal digits; other bytes stay.
    pub fn digits(&self, bytes: &mut [u8]) {
        let seed = self.number(b'd', bytes);
        for (at, byte) in bytes.iter_mut().enumerate().filter(|(_, byte)| byte.is_ascii_digit()) {
            *byte = moved(*byte, class(*byte), self.step(seed, at as u64));
        }
    }

    /// Replaces an identifier with a unique one. An identifier that `keeps` accepts stays, and none is created.
    pub fn name(&self, bytes: &mut [u8], keeps: impl Fn(&[u8]) -> bool) {
        if keeps(bytes) {
            return;
        }
        for _ in 0..MOVES {
            self.words(bytes, Self::apart);
            if !keeps(bytes) {
                return;
            }
        }
    }

    fn words(&self, bytes: &mut [u8], replace: impl Fn(&Self, &mut [u8])) {
        for word in bytes.chunk_by_mut(|before, byte| is_word(*before) == is_word(*byte)) {
            if word.first().is_some_and(|first| is_word(*first)) {
                replace(self, word);
            }
        }
    }

    /// Replaces a word: apart if it is a name in a key, whose pattern shows it, otherwise as a whole.
    fn word(&self, word: &mut [u8]) {
        if word.is_ascii()
            && word.len() <= pattern::LONGEST
            && pattern::key_pattern(word).bytes().any(|byte| byte != b'#')
        {
            self.apart(word);
        } else {
            self.whole(word);
        }
    }

    /// Replaces a word so that different words stay different.
    fn apart(&self, word: &mut [u8]) {
        if word.len() > LONGEST_NAME {
            return self.whole(word);
        }
        let looks = NumberForm::new(word);
        for _ in 0..MOVES {
            // Letters depend on earlier letters only: names that differ in a number keep the same letters.
            let state = self.chained(word, looks.class(), 0, |byte| !byte.is_ascii_digit());
            self.chained(word, looks.class(), state, u8::is_ascii_digit);
            // Moving until the result is in the set again permutes the set.
            if looks.has(word) {
                return;
            }
        }
    }

    /// Moves the `wanted` bytes, each depending on the bytes before it. Returns a state that depends on the whole run.
    fn chained(&self, word: &mut [u8], of_class: fn(u8) -> CharacterClass, state: u64, wanted: fn(&u8) -> bool) -> u64 {
        let mut hasher = self.hasher(b'n');
        hasher.write_u64(state);
        word.iter().filter(|byte| wanted(byte)).for_each(|byte| hasher.write_u8(of_class(*byte).0));
        let mut state = hasher.finish();
        for byte in word.iter_mut().filter(|byte| wanted(byte)) {
            *byte = moved(*byte, of_class(*byte), state);
            state = self.step(state, u64::from(*byte));
        }
        state
    }

    /// Replaces a word with one that depends on the whole word.
    fn whole(&self, word: &mut [u8]) {
        let looks = NumberForm::new(word);
        let (original, seed) = (word.to_vec(), self.number(b'w', word));
        for salt in 0..MOVES as u64 {
            let seed = self.step(seed, salt);
            for (at, (byte, was)) in word.iter_mut().zip(&original).enumerate() {
                *byte = moved(*was, looks.class()(*was), self.step(seed, at as u64));
            }
            if looks.has(word) {
                return;
            }
        }
    }

    fn step(&self, state: u64, value: u64) -> u64 {
        let mut hasher = self.hasher(b's');
        hasher.write_u64(state);
        hasher.write_u64(value);
        hasher.finish()
    }
}

/// Properties of a word that its filler keeps.
struct NumberForm {
    is_hexadecimal: bool,
    /// The pattern of an ASCII word.
    pattern: Option<String>,
}

impl NumberForm {
    fn new(word: &[u8]) -> Self {
        let is_hexadecimal = word.iter().all(u8::is_ascii_hexdigit);
        Self { is_hexadecimal, pattern: word.is_ascii().then(|| pattern::key_pattern(word)) }
    }

    fn class(&self) -> fn(u8) -> CharacterClass {
        if self.is_hexadecimal { hexadecimal } else { class }
    }

    fn has(&self, word: &[u8]) -> bool {
        if !self.is_hexadecimal && word.iter().all(u8::is_ascii_hexdigit) {
            return false;
        }
        let Some(shown) = &self.pattern else { return true };
        let pattern = pattern::key_pattern(word);
        let is_any = |text: &str| text.chars().map(|shown| shown == pattern::ANY).collect::<Vec<_>>();
        is_any(shown) == is_any(&pattern)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    const FILLER: Filler = Filler::new(FillerKey(*b"a key for tests."));

    fn text(of: &str) -> String {
        let mut bytes = of.as_bytes().to_vec();
        FILLER.data(&mut bytes);
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn text_keeps_its_shape_and_none_of_its_letters() {
        for original in
            ["user:1042:name", "Ann Smith, 12 High St.", "3f2504e0-4f89-11d3-9a0c-0305e82c3301", "größer 日本語 ёж"]
        {
            let filler = text(original);
            assert_eq!(filler, text(original));
            assert_eq!(
                pattern::key_pattern(filler.as_bytes()).len(),
                pattern::key_pattern(original.as_bytes()).len(),
                "{filler}"
            );
            for (a, b) in original.chars().zip(filler.chars()) {
                assert_eq!(a == b, !a.is_alphanumeric(), "{original}: {filler}");
                assert_eq!((a.is_ascii_digit(), a.is_ascii_lowercase()), (b.is_ascii_digit(), b.is_ascii_lowercase()));
            }
        }
    }

    #[test]
    fn names_that_differ_stay_apart() {
        let names: Vec<String> = ('a'..='z').flat_map(|a| ('a'..='z').map(move |b| format!("{a}{b}"))).collect();
        let keeps = |name: &[u8]| matches!(name, b"in" | b"as" | b"or" | b"to" | b"by");
        let fillers = names.iter().map(|name| {
            let mut bytes = name.as_bytes().to_vec();
            FILLER.name(&mut bytes, keeps);
            assert_eq!(keeps(name.as_bytes()), keeps(&bytes));
            bytes
        });
        assert_eq!(fillers.collect::<BTreeSet<_>>().len(), names.len());
    }

    #[test]
    fn a_key_has_a_say() {
        let mut other = b"somebody's name".to_vec();
        Filler::new(FillerKey(*b"another of these")).data(&mut other);
        assert_ne!(text("somebody's name").as_bytes(), other);
    }

    #[test]
    fn names_that_differ_in_a_number_have_the_same_letters() {
        let letters = |of: &str| text(of).trim_matches(|character: char| character.is_ascii_digit()).to_owned();
        assert!(["key10", "key999", "7key", "key"].iter().all(|key| letters(key) == letters("key1")));
        assert_ne!(text("key1"), text("key2"));
    }

    proptest! {
        #[test]
        fn no_letter_or_digit_of_a_text_stays(original in "\\PC{0,60}") {
            let mut bytes = original.as_bytes().to_vec();
            FILLER.text(&mut bytes);
            prop_assert!(std::str::from_utf8(&bytes).is_ok());
            let stays = original.bytes().zip(&bytes).filter(|(was, _)| was.is_ascii_alphanumeric()).filter(|(was, is)| was == *is);
            // A word that would change shape is moved again, and a letter may return.
            prop_assert!(stays.count() <= original.len() / 6 + 2, "{}", String::from_utf8_lossy(&bytes));
        }

        #[test]
        fn nothing_of_binary_data_stays_and_it_never_reads_as_text(original in prop::collection::vec(any::<u8>(), 1..40)) {
            let mut bytes = original.clone();
            FILLER.data(&mut bytes);
            prop_assert_eq!(is_text(&original), is_text(&bytes));
            if original.iter().copied().any(is_control) {
                let stays = original.iter().zip(&bytes).filter(|(was, is)| was == is).count();
                prop_assert!(stays <= 1, "{:?} {:?}", original, bytes);
                prop_assert!(!bytes.contains(&0));
            }
        }

        #[test]
        fn the_pattern_of_a_key_is_as_long_and_others_differ(a in "[a-zA-Z0-9:_.@-]{0,30}", b in "[a-zA-Z0-9:_.@-]{0,30}") {
            let of = |key: &str| pattern::key_pattern(text(key).as_bytes());
            prop_assert_eq!(of(&a).len(), pattern::key_pattern(a.as_bytes()).len());
            prop_assert_eq!(of(&a) == of(&b), pattern::key_pattern(a.as_bytes()) == pattern::key_pattern(b.as_bytes()));
        }
    }
}
