//! Constants and primitives of RESP, and the entries of the command table.

use super::commands::COMMANDS;
use crate::limits;
use overhead_decode::Malformed;
use overhead_decode::near;

/// Redis's default `proto-max-bulk-len`.
pub(super) const MAX_BULK: u64 = 512 << 20;

/// Most elements of an aggregate (a 31-bit count, as in Redis).
pub(super) const MAX_COUNT: u64 = 1 << 31;

/// Longest line that carries a number.
const MAX_NUMBER_LINE: usize = 64;

#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "columns of a table")]
pub(super) struct CommandSpec {
    /// `GET`, or `CLIENT|LIST` for a subcommand.
    pub name: &'static str,
    /// The command changes data: its integer replies count changes.
    pub write: bool,
    /// The first argument is a subcommand.
    pub container: bool,
    /// Where keys are among the arguments.
    pub keys: &'static [KeySpec],
    /// Positional arguments before the first possible option token.
    pub leading: u32,
    /// Positional arguments follow the tokens; the first word that is no token ends them.
    pub positional_after: bool,
    /// The first argument that is not an option token is the text of a script.
    pub script: bool,
    /// Option tokens with the number of values after each; [`REST`] if all further arguments are values.
    pub tokens: &'static [(&'static str, u8)],
}

pub(super) const REST: u8 = 255;

impl CommandSpec {
    /// Returns the entry for an upper-case name.
    pub fn named(name: &str) -> Option<&'static Self> {
        let index = COMMANDS.binary_search_by(|command| command.name.cmp(name)).ok()?;
        COMMANDS.get(index)
    }

    /// Returns whether the position of keys depends on the content of arguments, an option or a number.
    pub fn has_keys_by_content(&self) -> bool {
        self.keys.iter().any(|keys| !matches!(keys, KeySpec { begin: BeginSearch::At(_), find: FindKeys::Range(..) }))
    }

    /// Returns whether an argument states the number of keys.
    pub fn counts_keys(&self) -> bool {
        self.keys.iter().any(|keys| matches!(keys.find, FindKeys::Count(..)))
    }

    /// Returns the number of values after an option token; `None` if it is not one.
    pub fn token(&self, word: &[u8]) -> Option<u8> {
        let found = self.tokens.iter().find(|(token, _)| token.as_bytes().eq_ignore_ascii_case(word));
        found.map(|(_, values)| *values)
    }
}

/// The position of keys, as specified by servers (`COMMAND INFO`: key specifications). Indexes count from the command
/// word, which is 0; a subcommand is 1.
#[derive(Clone, Copy, Debug)]
pub(super) struct KeySpec {
    pub begin: BeginSearch,
    pub find: FindKeys,
}

/// Where the search for keys begins.
#[derive(Clone, Copy, Debug)]
pub(super) enum BeginSearch {
    At(u32),
    After(&'static str),
}

/// Which arguments are keys.
#[derive(Clone, Copy, Debug)]
pub(super) enum FindKeys {
    /// From the beginning to the last key (counted from the first, or if negative, from the end), with a step. The last
    /// number limits the range: to all arguments (0 and 1), one half, ...
    Range(i32, u32, u32),
    /// Offset of the number of keys and of the first key, from the beginning, and the step.
    Count(u32, u32, u32),
}

impl KeySpec {
    pub const fn at(place: u32, find: FindKeys) -> Self {
        Self { begin: BeginSearch::At(place), find }
    }

    pub const fn after(token: &'static str, find: FindKeys) -> Self {
        Self { begin: BeginSearch::After(token), find }
    }
}

/// A name in upper case, as compared and shown; at most [`limits::NAME`] bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct RespWord {
    bytes: [u8; limits::NAME],
    len: u8,
}

impl RespWord {
    pub const EMPTY: Self = Self { bytes: [0; limits::NAME], len: 0 };

    /// Compares with `text`, ignoring case.
    #[inline]
    pub fn is(&self, text: &[u8]) -> bool {
        let mut pairs = self.bytes.iter().zip(text);
        text.len() == usize::from(self.len) && pairs.all(|(upper, byte)| *upper == byte.to_ascii_uppercase())
    }

    /// Appends `text` after `separator`; drops bytes that do not fit.
    pub fn push(&mut self, separator: &[u8], text: &[u8]) {
        for &byte in separator.iter().chain(text) {
            if let Some(place) = self.bytes.get_mut(usize::from(self.len)) {
                *place = byte.to_ascii_uppercase();
                self.len += 1;
            }
        }
    }

    /// Returns the text; a fixed one if it is not printable ASCII.
    pub fn as_str(&self) -> &str {
        let bytes = self.bytes.get(..usize::from(self.len)).unwrap_or_default();
        match std::str::from_utf8(bytes) {
            Ok(text) if !text.is_empty() && bytes.iter().all(|byte| (b' '..0x7f).contains(byte)) => text,
            _ => "(binary)",
        }
    }
}

/// Parses a line of `kind`, digits and CRLF, and returns the number and the length of the line.
#[inline]
pub(super) fn header(bytes: &[u8], kind: u8) -> Option<(usize, usize)> {
    let (&first, rest) = bytes.split_first()?;
    if first != kind {
        return None;
    }
    let value = |digit: &u8| usize::from(digit - b'0');
    match rest {
        [a @ b'0'..=b'9', b'\r', b'\n', ..] => Some((value(a), 4)),
        [a @ b'0'..=b'9', b @ b'0'..=b'9', b'\r', b'\n', ..] => Some((10 * value(a) + value(b), 5)),
        _ => long_header(rest),
    }
}

/// Parses numbers of up to eight digits.
fn long_header(rest: &[u8]) -> Option<(usize, usize)> {
    let mut number = 0;
    for (digits, &byte) in rest.iter().take(9).enumerate() {
        match byte {
            b'0'..=b'9' if digits < 8 => number = number * 10 + usize::from(byte - b'0'),
            b'\r' if digits > 0 && rest.get(digits + 1) == Some(&b'\n') => return Some((number, digits + 3)),
            _ => return None,
        }
    }
    None
}

#[derive(Clone, Copy, Debug)]
pub(super) struct BulkString<'a> {
    /// Length of its header line.
    pub header: usize,
    pub body: &'a [u8],
    /// The bytes after its CRLF.
    pub rest: &'a [u8],
}

impl<'a> BulkString<'a> {
    /// Returns the bulk string at the start of `bytes`, if it is complete.
    #[inline]
    pub fn of(bytes: &'a [u8]) -> Option<Self> {
        let (len, header) = header(bytes, b'$')?;
        let (body, behind) = bytes.get(header..)?.split_at_checked(len)?;
        let rest = behind.strip_prefix(b"\r\n")?;
        Some(Self { header, body, rest })
    }
}

/// Returns a line without its CRLF; `None` if it is incomplete. Fails if it is too long or ends in a bare LF.
#[inline]
pub(super) fn line(bytes: &[u8], scanned: usize) -> Result<Option<&[u8]>, Malformed> {
    let from = scanned.min(bytes.len());
    let Some(end) = near::find(b'\n', bytes.get(from..).unwrap_or_default()) else {
        return if bytes.len() > limits::LINE { Err(Malformed("a line without an end")) } else { Ok(None) };
    };
    match bytes.get(..from + end) {
        Some([line @ .., b'\r']) => Ok(Some(line)),
        _ => Err(Malformed("a line that ends in LF alone")),
    }
}

/// Parses the number of a header line after its type byte.
#[inline]
pub(super) fn number(digits: &[u8]) -> Option<i64> {
    // These digits always fit.
    if (1..=18).contains(&digits.len()) && digits.iter().all(u8::is_ascii_digit) {
        return Some(digits.iter().fold(0, |number, &digit| number * 10 + i64::from(digit - b'0')));
    }
    signed(digits)
}

fn signed(digits: &[u8]) -> Option<i64> {
    if digits.len() > MAX_NUMBER_LINE {
        return None;
    }
    std::str::from_utf8(digits).ok()?.trim_ascii().parse().ok()
}
