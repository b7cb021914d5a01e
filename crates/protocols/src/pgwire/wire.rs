//! Protocol constants and message headers.

use overhead_decode::{Cursor, DecodeStep, FieldRead, Malformed, Reader, Short};
use overhead_model::Account;

/// Codes sent in place of the version in a `StartupMessage`.
pub(super) const CANCEL_REQUEST: u32 = 80_877_102;
pub(super) const SSL_REQUEST: u32 = 80_877_103;
pub(super) const GSSENC_REQUEST: u32 = 80_877_104;

/// Longest packet without a type byte (`MAX_STARTUP_PACKET_LENGTH` of the server).
const STARTUP_LENGTH: u32 = 10_000;
/// Longest message (`PQ_LARGE_MESSAGE_LIMIT` of the server).
const MESSAGE_LENGTH: u32 = (1 << 30) - 1;
/// Longest error before authentication; clients recognise servers older than protocol 3 by a length above it.
const EARLY_ERROR_LENGTH: u32 = 30_000;
/// Longest token of a connection encrypted by GSSAPI (`PQ_GSS_AUTH_BUFFER_SIZE` of the server).
const GSS_LENGTH: u32 = 65_536;

/// Bytes of a type and a length.
pub(super) const HEADER: u64 = 5;

/// Returns the type and total length of the message that starts with `bytes`; `None` if more bytes are needed.
#[inline]
fn header(bytes: &[u8], is_known: impl Fn(u8) -> bool) -> DecodeStep<Option<(u8, u64)>> {
    let Some(&kind) = bytes.first() else { return Ok(None) };
    if !is_known(kind) {
        return Err(Malformed("not a PostgreSQL message type"));
    }
    let Some(length) = u32_at(bytes, 1) else { return Ok(None) };
    if !(4..=MESSAGE_LENGTH).contains(&length) {
        return Err(Malformed("impossible length of a PostgreSQL message"));
    }
    Ok(Some((kind, 1 + u64::from(length))))
}

pub fn request_header(bytes: &[u8]) -> DecodeStep<Option<(u8, u64)>> {
    header(bytes, |kind| matches!(kind, b'B'..=b'F' | b'H' | b'P' | b'Q' | b'S' | b'X' | b'c' | b'd' | b'f' | b'p'))
}

pub fn response_header(bytes: &[u8]) -> DecodeStep<Option<(u8, u64)>> {
    header(bytes, |kind| {
        matches!(kind, b'1'..=b'3' | b'A' | b'C'..=b'E' | b'G'..=b'I' | b'K' | b'N' | b'R'..=b'T' | b'V' | b'W' | b'Z')
            || matches!(kind, b'c' | b'd' | b'n' | b's' | b't' | b'v')
    })
}

/// Returns the code and total length of the packet without a type byte that starts with `bytes`; `None` if more are
/// needed.
pub fn startup_header(bytes: &[u8]) -> DecodeStep<Option<(u32, u64)>> {
    let Some(length) = u32_at(bytes, 0) else {
        return match bytes {
            [] | [0, ..] => Ok(None),
            _ => Err(Malformed("impossible length of a PostgreSQL start-up packet")),
        };
    };
    if !(8..=STARTUP_LENGTH).contains(&length) {
        return Err(Malformed("impossible length of a PostgreSQL start-up packet"));
    }
    let Some(code) = u32_at(bytes, 4) else { return Ok(None) };
    let known = matches!(code, CANCEL_REQUEST | SSL_REQUEST | GSSENC_REQUEST) || matches!(code >> 16, 2 | 3);
    if !known {
        return Err(Malformed("unknown code of a PostgreSQL start-up packet"));
    }
    Ok(Some((code, u64::from(length))))
}

/// Returns the total length of the GSSAPI packet that starts with `bytes`; `None` if more are needed.
pub fn gss_header(bytes: &[u8]) -> DecodeStep<Option<u64>> {
    match u32_at(bytes, 0) {
        None => Ok(None),
        Some(length @ 1..=GSS_LENGTH) => Ok(Some(4 + u64::from(length))),
        Some(_) => Err(Malformed("impossible length of a GSSAPI packet")),
    }
}

/// Returns whether `bytes` start the error of a server older than protocol 3: `E` and a text without a length.
pub fn is_old_error(bytes: &[u8]) -> bool {
    bytes.first() == Some(&b'E') && u32_at(bytes, 1).is_some_and(|length| !(8..=EARLY_ERROR_LENGTH).contains(&length))
}

pub fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    let four = bytes.get(at..at.checked_add(4)?)?;
    four.try_into().ok().map(u32::from_be_bytes)
}

pub fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    let two = bytes.get(at..at.checked_add(2)?)?;
    two.try_into().ok().map(u16::from_be_bytes)
}

/// Format codes of a list of values: none means all text, one applies to all values, otherwise there is one per value.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PgFormatCodes<'a>(pub &'a [u8]);

impl PgFormatCodes<'_> {
    pub fn is_binary(self, index: usize) -> bool {
        let at = if self.0.len() == 2 { 0 } else { 2 * index };
        u16_at(self.0, at) == Some(1)
    }
}

pub fn formats<'a, R: Reader>(c: &mut Cursor<'a, '_, '_, R>) -> FieldRead<PgFormatCodes<'a>> {
    let count = c.u16_be(Account::Framing, "format count")?;
    c.text(2 * u64::from(count), Account::Metadata, "format code").map(PgFormatCodes)
}

/// Reads text up to a NUL like [`Cursor::c_string`], but posts the captured part if the NUL was not captured.
pub fn c_text<'a, R: Reader>(
    c: &mut Cursor<'a, '_, '_, R>,
    account: Account,
    field: &'static str,
) -> FieldRead<&'a [u8]> {
    let here = c.peek();
    if here.contains(&0) {
        return c.c_string(account, field);
    }
    if here.len() as u64 == c.remaining() { Err(Short) } else { c.text(here.len() as u64, account, field) }
}
