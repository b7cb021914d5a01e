//! Patterns of keys and paths: the part that stays the same between keys built alike.
//!
//! ```text
//! user:1042:name                                  user:#:name
//! session:9f86d081884c7d65                        session:#
//! cart/3f2504e0-4f89-11d3-9a0c-0305e82c3301/items cart/#/items
//! mail:ann@example.org:unread                     mail:#:unread
//! ```
//!
//! A pattern holds no user data: numbers, hexadecimal digits and anything that looks like a token become `#`. It does
//! not depend on the value of digits, nor on the length of a number that is the whole last part; the memo relies on
//! that (`Free::Digits`).

/// Replaces the part that differs between keys.
pub const ANY: char = '#';

/// Shortest run of hexadecimal digits that is not a name, if it contains a decimal one.
const HEXADECIMAL: usize = 8;

/// Letters of the longest name.
const LETTERS: usize = 24;

/// Longest run of consonants in a name.
const CONSONANTS: usize = 6;

/// Longest pattern, and longest inspected key, in bytes; longer ones become `#`.
pub const LONGEST: usize = 512;

/// Lengths of the groups of a UUID (RFC 9562 section 4).
const UUID: [usize; 5] = [8, 4, 4, 4, 12];

/// Byte classes, as bits that combine.
const DIGIT: u8 = 1;
const LETTER: u8 = 2;
/// Separates the words of a part.
const BETWEEN: u8 = 4;
/// Part of an address or an escape sequence.
const ESCAPE: u8 = 8;
/// Separates the parts of a key; each is a name, a value or both.
const SEPARATOR: u8 = 16;
const UNPRINTABLE: u8 = 32;

const KINDS: [u8; 256] = {
    let (mut kinds, mut byte) = ([UNPRINTABLE; 256], 0x20_u8);
    while byte < 0x7f {
        kinds[byte as usize] = match byte {
            b'0'..=b'9' => DIGIT,
            b'a'..=b'z' | b'A'..=b'Z' => LETTER,
            b'@' | b'%' | b'\\' | b'"' | b'+' => ESCAPE,
            b':' | b'/' | b'|' | b',' | b';' | b'{' | b'}' | b'(' | b')' | b'[' | b']' | b'<' | b'>' | b'&' | b'?'
            | b'=' | b'#' | b' ' => SEPARATOR,
            _ => BETWEEN,
        };
        byte += 1;
    }
    kinds
};

/// Appends the pattern of a key or path; it is no longer than the key, or is [`ANY`].
pub fn push(key: &[u8], out: &mut String) {
    let start = out.len();
    if key.len() > LONGEST || !push_parts(key, out) {
        out.truncate(start);
        out.push(ANY);
    }
}

/// Appends the patterns of a key's parts; returns false if the key is not printable.
fn push_parts(mut rest: &[u8], out: &mut String) -> bool {
    loop {
        // Most parts are one number or one name.
        let number = leading_digits(rest);
        let mut kinds = if number > 0 { DIGIT } else { 0 };
        let (mut len, mut last) = (number, 0);
        for &byte in &rest[number..] {
            last = KINDS[usize::from(byte)];
            if last >= SEPARATOR {
                break;
            }
            kinds |= last;
            len += 1;
        }
        let (part, after) = rest.split_at(len);
        push_part(part, kinds, out);
        let Some((&separator, after)) = after.split_first() else { return true };
        if last == UNPRINTABLE {
            return false;
        }
        out.push(char::from(separator));
        rest = after;
    }
}

fn leading_digits(text: &[u8]) -> usize {
    // The high half of a digit is 3, and stays 3 when 6 is added.
    const HIGH: u64 = 0xf0f0_f0f0_f0f0_f0f0;
    let are_digits = |word: &&[u8; 8]| {
        let word = u64::from_le_bytes(**word);
        word & HIGH | (word.wrapping_add(0x0606_0606_0606_0606) & HIGH) >> 4 == 0x3333_3333_3333_3333
    };
    let len = 8 * text.as_chunks().0.iter().take_while(are_digits).count();
    len + text[len..].iter().take_while(|byte| byte.is_ascii_digit()).count()
}

pub fn key_pattern(key: &[u8]) -> String {
    let mut pattern = String::new();
    push(key, &mut pattern);
    pattern
}

/// Longest possible command name.
const COMMAND: usize = 40;

/// Returns whether an unknown word in the place of a command name looks like one and not like private data.
pub fn is_command(word: &str) -> bool {
    let is_plain = word.bytes().all(|byte| byte.is_ascii_alphabetic() || b"._-".contains(&byte));
    !word.is_empty() && word.len() <= COMMAND && is_plain && word.split(['.', '_', '-']).all(has_vowels)
}

/// Returns the pattern of a path's first segment for use in a name. Words with one or two digits (`/v2`) and hosts with
/// a port are kept.
pub fn segment_pattern(segment: &[u8]) -> String {
    let text = String::from_utf8_lossy(segment);
    let digits = text.bytes().rev().take_while(u8::is_ascii_digit).count();
    let word = text.get(..text.len() - digits).unwrap_or_default();
    let most = match word.bytes().last() {
        Some(b':') => 5,
        Some(last) if last.is_ascii_alphabetic() => 2,
        _ => 0,
    };
    if digits <= most && key_pattern(word.as_bytes()) == word { text.into_owned() } else { key_pattern(segment) }
}

/// Appends the pattern of a part with bytes of these classes. If a word looks like a token, the whole part becomes `#`.
fn push_part(part: &[u8], kinds: u8, out: &mut String) {
    let start = out.len();
    let is_named = match kinds {
        0 => true,
        DIGIT => false,
        _ if kinds & ESCAPE != 0 => false,
        _ => {
            let text = std::str::from_utf8(part).unwrap_or_default();
            match kinds {
                LETTER => push_name(text, out),
                _ if kinds & BETWEEN == 0 => push_word(text, out),
                _ => push_words(text, out),
            }
        }
    };
    if !is_named {
        out.truncate(start);
        out.push(ANY);
    }
}

/// Appends the patterns of a part's words; returns false if one looks like a token.
fn push_words(part: &str, out: &mut String) -> bool {
    let mut rest = part;
    while !rest.is_empty() {
        let is_at_start = rest.len() == part.len()
            || !part[..part.len() - rest.len()].ends_with(|last: char| last.is_ascii_alphanumeric());
        let len = if is_at_start { uuid(rest.as_bytes()) } else { 0 };
        if len > 0 {
            out.push(ANY);
            rest = &rest[len..];
            continue;
        }
        let len = rest.find(|character: char| !character.is_ascii_alphanumeric()).unwrap_or(rest.len());
        let (word, after) = rest.split_at(len);
        if !push_word(word, out) {
            return false;
        }
        let len = after.find(|character: char| character.is_ascii_alphanumeric()).unwrap_or(after.len());
        let (between, after) = after.split_at(len);
        out.push_str(between);
        rest = after;
    }
    true
}

/// Returns the length of the UUID at the start of a text, or 0.
pub(crate) fn uuid(text: &[u8]) -> usize {
    let mut groups = text.splitn(UUID.len(), |byte| *byte == b'-');
    let mut len = 0;
    for (index, expected) in UUID.into_iter().enumerate() {
        let Some(group) = groups.next() else { return 0 };
        let digits = group.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
        let is_last = index + 1 == UUID.len();
        let ends = is_last && !group.get(digits).is_some_and(u8::is_ascii_alphanumeric);
        if digits != expected || !ends && (is_last || digits != group.len()) {
            return 0;
        }
        len += expected + usize::from(!is_last);
    }
    len
}

/// Appends the pattern of an alphanumeric word; returns false if it looks like a token.
fn push_word(word: &str, out: &mut String) -> bool {
    let is_digit = |character: char| character.is_ascii_digit();
    let (behind, before) = (word.trim_start_matches(is_digit), word.trim_end_matches(is_digit));
    let is_hexadecimal = || word.len() >= HEXADECIMAL && word.bytes().all(|byte| byte.is_ascii_hexdigit());
    let has_number = word.bytes().any(|byte| byte.is_ascii_digit());
    if has_number && (behind.is_empty() || is_hexadecimal()) {
        out.push(ANY);
        return true;
    }
    // One name, or a name and a number.
    let is_number_first = behind.len() < word.len();
    let letters = if is_number_first { behind } else { before };
    out.extend(is_number_first.then_some(ANY));
    let is_name = push_name(letters, out);
    out.extend((before.len() < word.len()).then_some(ANY));
    is_name && !letters.bytes().any(|byte| byte.is_ascii_digit())
}

/// Appends a word of letters; returns false if it looks like a token.
fn push_name(letters: &str, out: &mut String) -> bool {
    out.push_str(letters);
    is_name(letters)
}

/// Returns whether a word has enough vowels to be a name.
fn has_vowels(letters: &str) -> bool {
    let is_vowel = |byte: &u8| b"aeiouy".contains(&byte.to_ascii_lowercase());
    letters.as_bytes().split(is_vowel).all(|run| run.len() <= CONSONANTS)
}

/// Returns whether letters form a name rather than a token.
fn is_name(letters: &str) -> bool {
    let (mut consonants, mut humps, mut before) = (0, 0, b' ');
    for byte in letters.bytes() {
        let is_vowel = matches!(byte.to_ascii_lowercase(), b'a' | b'e' | b'i' | b'o' | b'u' | b'y');
        consonants = if is_vowel { 0 } else { consonants + 1 };
        if consonants > CONSONANTS {
            return false;
        }
        // In camelCase, a word changes from lower to upper case once; in base64, repeatedly.
        humps += usize::from(before.is_ascii_lowercase() && byte.is_ascii_uppercase());
        before = byte;
    }
    letters.len() <= LETTERS && letters.len() >= 5 * humps
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_differs_becomes_a_hash_and_names_stay() {
        for (key, pattern) in [
            ("user:1042:name", "user:#:name"),
            ("key:000000012345", "key:#"),
            ("key000000012345", "key#"),
            ("2nd", "#nd"),
            ("session:9f86d081884c7d65", "session:#"),
            ("a1b2c3d4", "#"),
            ("deadbeef", "deadbeef"),
            ("cart/3f2504e0-4f89-11d3-9a0c-0305e82c3301/items", "cart/#/items"),
            ("urn-3f2504e0-4f89-11d3-9a0c-0305e82c3301.x", "urn-#.x"),
            ("mail:ann@example.org:unread", "mail:#:unread"),
            ("shop:userProfile:getUserName", "shop:userProfile:getUserName"),
            ("user_sessions.by_day.2024-01-31", "user_sessions.by_day.#-#-#"),
            ("/api/v2/users/17/orders", "/api/v#/users/#/orders"),
            ("{user1000}.following", "{user#}.following"),
            ("counter:__rand_int__", "counter:__rand_int__"),
            ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.dBjftJeZ4CVP", "#"),
            ("reset:q_ZpXh-WvbNt_rs", "reset:#"),
            ("token:s3cr3tPassw0rd", "token:#"),
            ("token:QzpXhWvbNtRs", "token:#"),
            ("abcdefghijklmnopqrstuvwxyz", "#"),
            ("caf\u{e9}:1", "#"),
            ("100%", "#"),
            ("", ""),
            ("a", "a"),
        ] {
            assert_eq!(key_pattern(key.as_bytes()), pattern, "{key}");
        }
        assert_eq!(key_pattern(b"\x00\xff:1"), "#");
        assert_eq!(key_pattern(&[b'a'; LONGEST + 1]), "#");
    }

    #[test]
    fn a_word_that_looks_like_a_name_may_be_a_command() {
        for name in [
            "GRAPH.RO_QUERY",
            "MAINT_NOTIFICATIONS",
            "getCmdLineOpts",
            "whatsmyuri",
            "_configsvrUpdateZoneKeyRange",
            "M-SEARCH",
        ] {
            assert!(is_command(name), "{name}");
        }
        for word in
            ["", "q7XzP2vN9sKd8LwTb4Rm", "QzpXhWvbNtRs", "ann@example.org", "a b", "caf\u{e9}", &"word-".repeat(9)]
        {
            assert!(!is_command(word), "{word}");
        }
    }

    #[test]
    fn a_segment_of_a_name_keeps_its_version_and_no_token() {
        for (segment, told) in [
            ("/api", "/api"),
            ("/v2", "/v2"),
            ("/", "/"),
            ("/17", "/#"),
            ("/user1042", "/user#"),
            ("/q7XzP2vN9sKd8LwTb4Rm", "/#"),
            ("/a%20b", "/#"),
            ("host:443", "host:443"),
            ("*", "*"),
        ] {
            assert_eq!(segment_pattern(segment.as_bytes()), told);
        }
    }

    proptest! {
        /// Keys that the memo treats as equal have equal patterns.
        #[test]
        fn other_digits_have_the_same_pattern(key in "[a-f0-9A-Zxyz:@/._ -]{0,60}", other in "[0-9]{60}") {
            let changed: String =
                key.chars().zip(other.chars()).map(|(was, digit)| if was.is_ascii_digit() { digit } else { was }).collect();
            prop_assert_eq!(key_pattern(key.as_bytes()), key_pattern(changed.as_bytes()));
        }

        #[test]
        fn a_pattern_is_short_printable_and_has_no_digit(key in proptest::collection::vec(any::<u8>(), 0..600)) {
            let pattern = key_pattern(&key);
            prop_assert!(pattern.len() <= LONGEST && pattern.bytes().all(|byte| (b' '..0x7f).contains(&byte)));
            prop_assert!(!pattern.bytes().any(|byte| byte.is_ascii_digit()), "{}", pattern);
        }

        #[test]
        fn random_tokens_do_not_show(token in "[A-Za-z0-9]{32,64}", prefix in "[a-z]{0,8}") {
            let pattern = key_pattern(format!("{prefix}:{token}").as_bytes());
            prop_assert_eq!(pattern.split_once(':').unwrap().1, "#");
        }
    }
}
