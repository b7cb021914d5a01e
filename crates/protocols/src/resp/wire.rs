//! Constants and primitives of RESP.

use crate::limits;
use overhead_decode::{DecodeStep, Malformed, near};

/// Redis's default `proto-max-bulk-len`.
pub(super) const MAX_BULK: u64 = 512 << 20;

/// Most elements of an aggregate (a 31-bit count, as in Redis).
pub(super) const MAX_COUNT: u64 = 1 << 31;

/// Longest line that carries a number.
const MAX_NUMBER_LINE: usize = 64;

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
pub fn header(bytes: &[u8], kind: u8) -> Option<(usize, usize)> {
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
    pub fn read(bytes: &'a [u8]) -> Option<Self> {
        let (len, header) = header(bytes, b'$')?;
        let (body, behind) = bytes.get(header..)?.split_at_checked(len)?;
        let rest = behind.strip_prefix(b"\r\n")?;
        Some(Self { header, body, rest })
    }
}

/// Returns a line without its CRLF; `None` if it is incomplete. Fails if it is too long or ends in a bare LF.
#[inline]
pub fn line(bytes: &[u8], scanned: usize) -> DecodeStep<Option<&[u8]>> {
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
pub fn number(digits: &[u8]) -> Option<i64> {
    // These digits always fit.
    if (1..=18).contains(&digits.len()) && digits.iter().all(u8::is_ascii_digit) {
        return Some(digits.iter().fold(0, |number, &digit| number * 10 + i64::from(digit - b'0')));
    }
    signed(digits)
}

fn signed(digits: &[u8]) -> Option<i64> {
    if digits.len() > MAX_NUMBER_LINE { None } else { std::str::from_utf8(digits).ok()?.trim_ascii().parse().ok() }
}
