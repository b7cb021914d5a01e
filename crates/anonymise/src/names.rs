//! Replaces identifiers and the texts of statements.

use crate::fill::Filler;
use overhead_model::Protocol;
use overhead_protocols::statement::spans::{TokenKind, is_keyword, spans};

/// Longest text that is split into tokens. The rest is replaced word by word.
const LONGEST: usize = 1 << 20;
/// Public words, which a decoder looks for or every server uses.
const PUBLIC: &str = "admin config local _id def information_schema performance_schema mysql postgres public oplog rs \
    dse_system dse_perf";

/// Returns whether an identifier stays: a keyword, or a name that comes with the server.
pub fn stays(name: &[u8]) -> bool {
    let begins = |start: &[u8]| name.get(..start.len()).is_some_and(|has| has.eq_ignore_ascii_case(start));
    begins(b"system")
        || begins(b"pg_")
        || PUBLIC.split(' ').any(|public| name.eq_ignore_ascii_case(public.as_bytes()))
        || is_keyword(name)
}

impl Filler {
    /// Replaces an identifier, or several joined by dots.
    pub fn identifier(&self, bytes: &mut [u8]) {
        for name in bytes.chunk_by_mut(|before, byte| (*before == b'.') == (*byte == b'.')) {
            self.name(name, stays);
        }
    }

    /// Replaces names and values in a statement.
    pub fn statement(&self, protocol: Protocol, bytes: &mut [u8]) {
        let mut read = readable(bytes.get(..LONGEST).unwrap_or(bytes));
        if protocol == Protocol::Mysql {
            read = without_hints(read);
        }
        let tokens = spans(protocol, &read);
        let end = tokens.last().map_or(0, |(at, _)| at.end);
        let is_copy = first_word(&read).eq_ignore_ascii_case("COPY");
        for (at, kind) in tokens {
            // `E'…'`, `_utf8'…'`
            let introduces = matches!(read.as_bytes().get(at.end), Some(b'\'' | b'"')) && at.len() <= 2;
            let Some(token) = bytes.get_mut(at.clone()) else { continue };
            match kind {
                TokenKind::Word if introduces || is_keyword(token) => {}
                TokenKind::Word if is_duration(token) => self.digits(token),
                TokenKind::Word => self.identifier(token),
                TokenKind::Quoted => self.identifier(inside(token)),
                // Options of COPY that give the format of the data.
                TokenKind::Text if is_copy && token.len() <= 7 => {}
                TokenKind::Text => {
                    self.tag(token);
                    self.literal(inside_text(token));
                }
                TokenKind::Number => self.digits(token),
                TokenKind::Hexadecimal => {
                    let from = token.iter().position(|byte| matches!(byte, b'x' | b'X')).map_or(0, |at| at + 1);
                    self.hexadecimal(token.get_mut(from..).unwrap_or_default());
                }
                TokenKind::Comment => self.text(token),
                TokenKind::Marker if token.iter().skip(1).all(u8::is_ascii_digit) => {}
                TokenKind::Marker => self.identifier(token.get_mut(1..).unwrap_or_default()),
                TokenKind::Space | TokenKind::Symbol => {}
            }
        }
        self.text(bytes.get_mut(end..).unwrap_or_default());
    }

    /// Replaces the tag at both ends of a dollar-quoted text.
    fn tag(&self, token: &mut [u8]) {
        let Some(len) = token.iter().skip(1).position(|byte| *byte == b'$').filter(|_| token.first() == Some(&b'$'))
        else {
            return;
        };
        let end = token.len().saturating_sub(1);
        let places = [1..1 + len, end.saturating_sub(len)..end];
        if len == 0 || token.len() < 2 * len + 4 {
            return;
        }
        for place in places {
            self.identifier(token.get_mut(place).unwrap_or_default());
        }
    }

    /// Replaces a literal, except for the character after a backslash, which gives the meaning of the escape.
    fn literal(&self, bytes: &mut [u8]) {
        let escapes = bytes.windows(2).filter(|pair| matches!(pair, [b'\\', _])).count();
        if escapes == 0 {
            return self.data(bytes);
        }
        let mut escaped = false;
        let stays = |byte: &u8| {
            let stays = escaped || *byte == b'\\';
            escaped = !escaped && *byte == b'\\';
            stays
        };
        let kept: Vec<bool> = bytes.iter().map(stays).collect();
        let original = bytes.to_vec();
        self.data(bytes);
        for ((byte, was), kept) in bytes.iter_mut().zip(original).zip(kept) {
            if kept {
                *byte = was;
            }
        }
    }
}

fn first_word(text: &str) -> &str {
    text.split(|character: char| !character.is_ascii_alphabetic()).find(|word| !word.is_empty()).unwrap_or_default()
}

/// Returns everything but the first and last byte.
fn inside(token: &mut [u8]) -> &mut [u8] {
    if let [_, inside @ .., _] = token { inside } else { token }
}

/// Returns the text between quotes, without a prefix.
fn inside_text(token: &mut [u8]) -> &mut [u8] {
    let Some(first) = token.iter().position(|byte| matches!(byte, b'\'' | b'"' | b'$')) else { return token };
    let Some(rest) = token.get_mut(first..) else { return &mut [] };
    if rest.first() == Some(&b'$') {
        // `$tag$ … $tag$`
        let tag = rest.iter().skip(1).position(|byte| *byte == b'$').map_or(1, |at| at + 2);
        let end = rest.len().saturating_sub(tag);
        return rest.get_mut(tag..end.max(tag)).unwrap_or_default();
    }
    inside(rest)
}

/// Returns whether a word is a CQL duration: `P1Y2M`, `1h30m`.
fn is_duration(word: &[u8]) -> bool {
    let units = |units: &[u8]| units.len() <= 2 && units.iter().all(|unit| b"pytmowdhsunPYTMOWDHSUN".contains(unit));
    let begins = matches!(word, [b'P' | b'p' | b'0'..=b'9', ..]);
    begins && word.iter().any(u8::is_ascii_digit) && word.split(u8::is_ascii_digit).all(units)
}

/// Returns the text with a placeholder for each invalid byte, so that positions stay.
fn readable(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        text.extend(chunk.invalid().iter().map(|_| 'x'));
    }
    text
}

/// Blanks out the delimiters of comments that `MySQL` servers execute (`/*!40101 SET … */`).
fn without_hints(text: String) -> String {
    let mut bytes = text.into_bytes();
    let mut at = 0;
    while let Some(begun) = find(&bytes, at, b"/*!") {
        let digits = bytes.iter().skip(begun + 3).take_while(|byte| byte.is_ascii_digit()).count();
        at = begun + 3 + digits;
        let end = find(&bytes, at, b"*/");
        for blank in std::iter::once(begun..at).chain(end.map(|end| end..end + 2)) {
            bytes.get_mut(blank).unwrap_or_default().fill(b' ');
        }
    }
    String::from_utf8(bytes).unwrap_or_default()
}

fn find(bytes: &[u8], from: usize, wanted: &[u8]) -> Option<usize> {
    bytes.get(from..)?.windows(wanted.len()).position(|window| window == wanted).map(|at| from + at)
}
#[cfg(test)]
mod tests {
    use super::*;
    use crate::fill::FillerKey;

    fn filled(protocol: Protocol, text: &str) -> String {
        let mut bytes = text.as_bytes().to_vec();
        Filler::new(FillerKey(*b"a key for tests.")).statement(protocol, &mut bytes);
        String::from_utf8(bytes).unwrap()
    }

    /// Asserts that only characters shown in `stays` remain; `_` stands for a replaced one.
    fn check(protocol: Protocol, text: &str, stays: &str) {
        let filled = filled(protocol, text);
        let same = |((was, is), stays): ((char, char), char)| stays == '_' || (was == is && was == stays);
        assert!(text.chars().zip(filled.chars()).zip(stays.chars()).all(same), "{text}\n{stays}\n{filled}");
        // A letter may return if its filler was a keyword.
        let replaced = text.chars().zip(filled.chars()).filter(|(was, is)| was != is).count();
        assert!(replaced + 4 >= stays.matches('_').count(), "{text}\n{filled}");
    }

    #[test]
    fn names_and_values_are_replaced_and_what_is_asked_for_stays() {
        for (text, stays) in [
            (
                "SELECT abalance FROM pgbench_accounts WHERE aid = 1234 -- look",
                "SELECT ________ FROM ________________ WHERE ___ = ____ -- ____",
            ),
            ("INSERT INTO tt VALUES ('it''s SELECT', 1.5e3, $1)", "INSERT INTO __ VALUES ('__''_ ______', _._e_, $1)"),
            ("SELEC 1", "_____ _"),
            ("SELECT E'a\\nb', date'2024-01-02', '\\x0a'", "SELECT E'_\\n_', date'____-__-__', '\\x__'"),
            ("SELECT * FROM pg_class WHERE \"Zq\" = $$its$$", "SELECT * FROM pg_class WHERE \"__\" = $$___$$"),
            ("SELECT $Zq$Xy$Zq$", "SELECT $__$__$__$"),
            ("COPY tt FROM STDIN (DELIMITER E'\\t')", "COPY __ FROM STDIN (DELIMITER E'\\t')"),
        ] {
            check(Protocol::Pgwire, text, stays);
        }
        let text = "SELECT vv FROM system.local WHERE id = 3f2504e0-4f89-11d3-9a0c-0305e82c3301 AND b = 0x0aff";
        let stays = "SELECT __ FROM system.local WHERE id = ________-____-____-____-____________ AND _ = 0x____";
        check(Protocol::Cql, text, stays);
        let text = "/*!40101 SET zq = 1 */ SELECT \"literal\", `qq`";
        check(Protocol::Mysql, text, "/*!40101 SET __ = _ */ SELECT \"_______\", `__`");
    }

    #[test]
    fn a_text_that_cannot_be_read_has_no_word_left() {
        let text = "SELECT a FROM b WHERE c = 'never ends SELECT";
        check(Protocol::Mysql, text, "SELECT _ FROM _ WHERE _ = '_____ ____ ______");
    }
}
