//! The constants and primitives of RESP, and what is known of a command.

use super::commands::COMMANDS;
use crate::limits;
use overhead_decode::near;
use overhead_decode::{CountedText, Free, Malformed};
use overhead_model::Account;

/// `proto-max-bulk-len`, the largest string that Redis takes by default.
pub(super) const MAX_BULK: u64 = 512 << 20;

/// Largest number of elements an aggregate may announce (a 31-bit count, as in Redis).
pub(super) const MAX_COUNT: u64 = 1 << 31;

/// Longest line that carries a number.
const MAX_NUMBER_LINE: usize = 64;

/// What the command table says of a command.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "columns of a table")]
pub(super) struct CommandSpec {
    /// `GET`, or `CLIENT|LIST` for a subcommand.
    pub name: &'static str,
    /// The command changes the dataset: its integer replies are counts of what was done.
    pub write: bool,
    /// The first argument is a subcommand.
    pub container: bool,
    /// Where its keys stand.
    pub keys: &'static [KeySpec],
    /// Positional arguments before the first place where an option token may stand.
    pub leading: u32,
    /// Positional arguments come after the tokens, so that the first non-token ends them.
    pub positional_after: bool,
    /// The first argument that is no option token is the text of a script.
    pub script: bool,
    /// Option tokens, and how many values follow each; [`REST`] where all that follows is values.
    pub tokens: &'static [(&'static str, u8)],
}

/// All further arguments are values.
pub(super) const REST: u8 = 255;

impl CommandSpec {
    /// Returns the entry for this upper-case name.
    pub fn named(name: &str) -> Option<&'static Self> {
        let index = COMMANDS.binary_search_by(|command| command.name.cmp(name)).ok()?;
        COMMANDS.get(index)
    }

    /// Returns whether it takes what arguments say, an option or a number, to know where keys stand.
    pub fn has_keys_by_content(&self) -> bool {
        self.keys.iter().any(|keys| !matches!(keys, KeySpec { begin: BeginSearch::At(_), find: FindKeys::Range(..) }))
    }

    /// Returns whether there is an argument that says how many keys there are.
    pub fn counts_keys(&self) -> bool {
        self.keys.iter().any(|keys| matches!(keys.find, FindKeys::Count(..)))
    }

    /// Returns how many values follow this option token; `None` where it is not one.
    pub fn token(&self, word: &[u8]) -> Option<u8> {
        let found = self.tokens.iter().find(|(token, _)| token.as_bytes().eq_ignore_ascii_case(word));
        found.map(|(_, values)| *values)
    }
}

/// Where keys stand among the arguments, as servers specify it (`COMMAND INFO`: key specifications). Places are counted from the
/// command word, which is 0; a subcommand is 1.
#[derive(Clone, Copy, Debug)]
pub(super) struct KeySpec {
    pub begin: BeginSearch,
    pub find: FindKeys,
}

/// Where to begin to look for keys.
#[derive(Clone, Copy, Debug)]
pub(super) enum BeginSearch {
    /// At this place.
    At(u32),
    /// Behind this option token.
    After(&'static str),
}

/// Which arguments are keys.
#[derive(Clone, Copy, Debug)]
pub(super) enum FindKeys {
    /// From the beginning to the last key (counted from the first, or negative: from the end), by this step. The last number says
    /// of what part of the arguments that is: all of them (0 and 1), one half, ...
    Range(i32, u32, u32),
    /// Where the number of keys stands, and the first key, both counted from the beginning, and the step.
    Count(u32, u32, u32),
}

impl KeySpec {
    /// Keys from a place on.
    pub const fn at(place: u32, find: FindKeys) -> Self {
        Self { begin: BeginSearch::At(place), find }
    }

    /// Keys behind an option token.
    pub const fn after(token: &'static str, find: FindKeys) -> Self {
        Self { begin: BeginSearch::After(token), find }
    }
}

/// A name made upper-case, as it is compared and shown; at most [`limits::NAME`] bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct RespWord {
    bytes: [u8; limits::NAME],
    len: u8,
}

impl RespWord {
    pub const EMPTY: Self = Self { bytes: [0; limits::NAME], len: 0 };

    /// Returns whether `text` is this word, in whichever case.
    #[inline]
    pub fn is(&self, text: &[u8]) -> bool {
        let mut pairs = self.bytes.iter().zip(text);
        text.len() == usize::from(self.len) && pairs.all(|(upper, byte)| *upper == byte.to_ascii_uppercase())
    }

    /// Appends `text` after `separator`, what does not fit is left out.
    pub fn push(&mut self, separator: &[u8], text: &[u8]) {
        for &byte in separator.iter().chain(text) {
            if let Some(place) = self.bytes.get_mut(usize::from(self.len)) {
                *place = byte.to_ascii_uppercase();
                self.len += 1;
            }
        }
    }

    /// Returns the text; a fixed one for words that are not printable ASCII.
    pub fn as_str(&self) -> &str {
        let bytes = self.bytes.get(..usize::from(self.len)).unwrap_or_default();
        match std::str::from_utf8(bytes) {
            Ok(text) if !text.is_empty() && bytes.iter().all(|byte| (b' '..0x7f).contains(byte)) => text,
            _ => "(binary)",
        }
    }
}

/// Returns the number behind a type byte and the length of the line with both, where `bytes` begin with such a line as servers and
/// drivers write it: `kind`, digits, CRLF.
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

/// Returns the same for numbers of more digits, up to eight.
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

/// A bulk string that is there as a whole.
#[derive(Clone, Copy, Debug)]
pub(super) struct BulkString<'a> {
    /// Length of the line before it.
    pub header: usize,
    pub body: &'a [u8],
    /// What follows its CRLF.
    pub rest: &'a [u8],
}

impl<'a> BulkString<'a> {
    /// Returns the bulk string that `bytes` begin with; `None` where they do not, or not with the whole of one.
    #[inline]
    pub fn of(bytes: &'a [u8]) -> Option<Self> {
        let (len, header) = header(bytes, b'$')?;
        let (body, behind) = bytes.get(header..)?.split_at_checked(len)?;
        let rest = behind.strip_prefix(b"\r\n")?;
        Some(Self { header, body, rest })
    }

    /// Returns how it may differ where its length is not looked at, nor what it says, which goes to this account.
    pub fn counted(&self, account: Account) -> CountedText {
        CountedText {
            ahead: 1,
            digits: self.header as u64 - 3,
            number_account: Account::Framing,
            between: 2,
            len: self.body.len() as u64,
            account,
            kept: 0,
            free: Free::Any,
            most: MAX_BULK,
        }
    }
}

/// A line that ends in CRLF, without its end; `None` where the end is not there yet.
///
/// # Errors
///
/// [`Malformed`] where it is too long, or ends in a bare LF.
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

/// Returns the number that a header line carries after its type byte.
#[inline]
pub(super) fn number(digits: &[u8]) -> Option<i64> {
    // As many digits as fit, whatever they are.
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
