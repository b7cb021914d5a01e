//! Patterns of keys and paths: what is the same in those that an application builds alike.
//!
//! ```text
//! user:1042:name                                  user:#:name
//! session:9f86d081884c7d65                        session:#
//! cart/3f2504e0-4f89-11d3-9a0c-0305e82c3301/items cart/#/items
//! mail:ann@example.org:unread                     mail:#:unread
//! ```
//!
//! A pattern holds no user data: numbers, hexadecimal, and what looks like a token rather than a name, become `#`. It does not
//! change when a digit becomes another digit, which the memo relies on (`Free::Digits`).

/// Stands for what differs from key to key.
pub const ANY: char = '#';

/// Hexadecimal digits from which on a run of them is no name, if one of them is a decimal one.
const HEXADECIMAL: usize = 8;

/// Letters of the longest name.
const LETTERS: usize = 24;

/// Letters in a row without a vowel that no name has.
const CONSONANTS: usize = 6;

/// Bytes of a pattern, and of a key that is looked at: what is longer is `#`.
pub const LONGEST: usize = 512;

/// Lengths of the groups of a UUID (RFC 9562 section 4).
const UUID: [usize; 5] = [8, 4, 4, 4, 12];

/// Appends the pattern of a key, or of a path, which is no longer than the key, or [`ANY`].
pub fn push(key: &[u8], out: &mut String) {
    let Some(text) = std::str::from_utf8(key).ok().filter(|_| key.iter().all(|byte| (b' '..0x7f).contains(byte)))
    else {
        return out.push(ANY);
    };
    if text.len() > LONGEST {
        return out.push(ANY);
    }
    let mut start = 0;
    for (at, &byte) in key.iter().enumerate() {
        if SEPARATES_PARTS[usize::from(byte)] {
            push_part(&text[start..at], out);
            out.push(char::from(byte));
            start = at + 1;
        }
    }
    push_part(&text[start..], out);
}

/// Returns the pattern of a key, or of a path.
pub fn of(key: &[u8]) -> String {
    let mut pattern = String::new();
    push(key, &mut pattern);
    pattern
}

/// Bytes that stand between the parts of a key, each of which is a name, a value or both.
const SEPARATES_PARTS: [bool; 256] = {
    let (mut table, separators, mut at) = ([false; 256], b":/|,;{}()[]<>&?=# ", 0);
    while at < separators.len() {
        table[separators[at] as usize] = true;
        at += 1;
    }
    table
};

/// Appends the pattern of a part. Where a word of it looks like a token, all of it may be one.
fn push_part(part: &str, out: &mut String) {
    let start = out.len();
    // Most are one number or one name.
    if !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()) {
        return out.push(ANY);
    }
    // An address, or what is written in escapes.
    if part.contains(['@', '%', '\\', '"', '+']) || !push_words(part, out) {
        out.truncate(start);
        out.push(ANY);
    }
}

/// Appends the patterns of the words of a part; false where one of them looks like a token.
fn push_words(part: &str, out: &mut String) -> bool {
    let mut rest = part;
    while !rest.is_empty() {
        let is_at_start = rest.len() == part.len()
            || !part[..part.len() - rest.len()].ends_with(|last: char| last.is_ascii_alphanumeric());
        let len = if is_at_start { uuid(rest) } else { 0 };
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

/// Returns the length of the UUID that a text begins with; 0 where it does not.
fn uuid(text: &str) -> usize {
    let mut groups = text.splitn(UUID.len(), '-');
    let mut len = 0;
    for (index, expected) in UUID.into_iter().enumerate() {
        let Some(group) = groups.next() else { return 0 };
        let digits = group.bytes().take_while(u8::is_ascii_hexdigit).count();
        let is_last = index + 1 == UUID.len();
        let ends = is_last && !group.as_bytes().get(digits).is_some_and(u8::is_ascii_alphanumeric);
        if digits != expected || !ends && (is_last || digits != group.len()) {
            return 0;
        }
        len += expected + usize::from(!is_last);
    }
    len
}

/// Appends the pattern of a word of letters and digits; false where it looks like a token.
fn push_word(word: &str, out: &mut String) -> bool {
    let digits = word.bytes().filter(u8::is_ascii_digit).count();
    if digits == 0 {
        out.push_str(word);
        return is_name(word);
    }
    let is_hexadecimal = word.len() >= HEXADECIMAL && word.bytes().all(|byte| byte.is_ascii_hexdigit());
    let changes =
        word.as_bytes().windows(2).filter(|pair| pair[0].is_ascii_digit() != pair[1].is_ascii_digit()).count();
    let letters = word.trim_matches(|character: char| character.is_ascii_digit());
    if is_hexadecimal || letters.is_empty() {
        out.push(ANY);
        return true;
    }
    // One name and one number.
    let is_number_first = word.starts_with(|first: char| first.is_ascii_digit());
    out.extend(is_number_first.then_some(ANY));
    out.push_str(letters);
    out.extend((!is_number_first).then_some(ANY));
    changes <= 1 && is_name(letters)
}

/// Returns whether letters look like a name, and not like a token.
fn is_name(letters: &str) -> bool {
    let is_vowel = |byte: &u8| b"aeiouy".contains(&byte.to_ascii_lowercase());
    let mut consonants = letters.as_bytes().split(is_vowel).map(<[u8]>::len);
    if letters.len() > LETTERS || consonants.any(|run| run > CONSONANTS) {
        return false;
    }
    // In camelCase, a capital letter follows a small one once in a word; in base64 again and again.
    let humps =
        letters.as_bytes().windows(2).filter(|pair| pair[0].is_ascii_lowercase() && pair[1].is_ascii_uppercase());
    match humps.count() {
        0 => true,
        1 => letters.len() >= 5,
        humps => letters.len() >= 5 * humps,
    }
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
            assert_eq!(of(key.as_bytes()), pattern, "{key}");
        }
        assert_eq!(of(b"\x00\xff:1"), "#");
        assert_eq!(of(&[b'a'; LONGEST + 1]), "#");
    }

    proptest! {
        /// What the memo takes for the same key has the same pattern.
        #[test]
        fn other_digits_have_the_same_pattern(key in "[a-f0-9A-Zxyz:@/._ -]{0,60}", other in "[0-9]{60}") {
            let changed: String =
                key.chars().zip(other.chars()).map(|(was, digit)| if was.is_ascii_digit() { digit } else { was }).collect();
            prop_assert_eq!(of(key.as_bytes()), of(changed.as_bytes()));
        }

        #[test]
        fn a_pattern_is_short_printable_and_has_no_digit(key in proptest::collection::vec(any::<u8>(), 0..600)) {
            let pattern = of(&key);
            prop_assert!(pattern.len() <= LONGEST && pattern.bytes().all(|byte| (b' '..0x7f).contains(&byte)));
            prop_assert!(!pattern.bytes().any(|byte| byte.is_ascii_digit()), "{}", pattern);
        }

        #[test]
        fn random_tokens_do_not_show(token in "[A-Za-z0-9]{32,64}", prefix in "[a-z]{0,8}") {
            let pattern = of(format!("{prefix}:{token}").as_bytes());
            prop_assert_eq!(pattern.split_once(':').unwrap().1, "#");
        }
    }
}
