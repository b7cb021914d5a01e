//! Constants, packet headers, and length-encoded integers and texts.

use overhead_decode::{Cursor, FieldRead, Free, Reader, Short};
use overhead_model::Account;

/// Packet header: length u24, sequence number u8.
pub(super) const HEADER: u64 = 4;
/// Length of a packet that continues in another one.
pub(super) const FULL: u64 = 0xff_ffff;

/// Most bytes of a length-encoded integer.
pub(super) const LENGTH: usize = 9;

/// First byte of an `OK` packet, and of a binary row.
pub(super) const OK: u8 = 0;
/// First byte of a request for a local file, and a null in a text row.
pub(super) const LOCAL_INFILE: u8 = 0xfb;
/// First byte of an `EOF` packet, and of the `OK` packet that replaced it.
pub(super) const EOF: u8 = 0xfe;
pub(super) const ERR: u8 = 0xff;

/// Longest `EOF` packet: 5 bytes, 1 before version 4.1.
pub(super) const EOF_LENGTH: u64 = 5;

/// `MariaDB` reports progress as an error with this number.
pub(super) const PROGRESS: u16 = 0xffff;

/// Capability flags, `MariaDB`'s own from bit 32 on ("Capabilities Flags" in `MySQL`'s manual, "Connecting" in `MariaDB`'s).
pub(super) mod capability {
    /// Sent by `MySQL` only: without it, the flags from bit 32 on are `MariaDB`'s.
    pub const LONG_PASSWORD: u64 = 1;
    pub const CONNECT_WITH_DB: u64 = 1 << 3;
    pub const COMPRESS: u64 = 1 << 5;
    pub const PROTOCOL_41: u64 = 1 << 9;
    pub const SSL: u64 = 1 << 11;
    pub const TRANSACTIONS: u64 = 1 << 13;
    pub const SECURE_CONNECTION: u64 = 1 << 15;
    pub const PLUGIN_AUTH: u64 = 1 << 19;
    pub const CONNECT_ATTRS: u64 = 1 << 20;
    pub const LENENC_AUTH: u64 = 1 << 21;
    pub const SESSION_TRACK: u64 = 1 << 23;
    pub const DEPRECATE_EOF: u64 = 1 << 24;
    pub const ZSTD: u64 = 1 << 26;
    pub const QUERY_ATTRIBUTES: u64 = 1 << 27;
    pub const EXTENDED_METADATA: u64 = 1 << 35;
}

/// Status flags of `OK` and `EOF` packets.
pub(super) mod status {
    pub const IN_TRANSACTION: u16 = 0x0001;
    pub const AUTOCOMMIT: u16 = 0x0002;
    pub const MORE_RESULTS: u16 = 0x0008;
    pub const CURSOR_EXISTS: u16 = 0x0040;
    pub const NO_BACKSLASH_ESCAPES: u16 = 0x0200;
    pub const SESSION_STATE_CHANGED: u16 = 0x4000;
}

/// Returns length and sequence number of the packet at the start of `bytes`; `None` if more are needed.
pub fn header(bytes: &[u8]) -> Option<(u64, u8)> {
    let [a, b, c, sequence] = *bytes.first_chunk()?;
    Some((u64::from(u32::from_le_bytes([a, b, c, 0])), sequence))
}

pub fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().map(|two| u16::from_le_bytes(*two))
}

pub fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|four| u32::from_le_bytes(*four))
}

/// Returns the length-encoded integer ("`Protocol::LengthEncodedInteger`") at the start of `bytes` and its size; `None`
/// if it is invalid or incomplete.
pub fn lenenc_at(bytes: &[u8]) -> Option<(u64, usize)> {
    let behind = |n: usize| {
        let mut eight = [0; 8];
        eight.get_mut(..n)?.copy_from_slice(bytes.get(1..1 + n)?);
        Some((u64::from_le_bytes(eight), 1 + n))
    };
    match *bytes.first()? {
        short @ 0..=0xfa => Some((u64::from(short), 1)),
        0xfc => behind(2),
        0xfd => behind(3),
        0xfe => behind(8),
        _ => None,
    }
}

/// Posts a length-encoded integer and returns it. Fails if it is invalid or was not captured.
pub fn lenenc<R: Reader>(c: &mut Cursor<'_, '_, '_, R>, account: Account, field: &'static str) -> FieldRead<u64> {
    let (value, len) = lenenc_at(c.peek()).ok_or(Short)?;
    c.skip(len as u64, account, field)?;
    Ok(value)
}

/// Posts a length-encoded integer whose value does not matter, so that equally long ones are equivalent.
pub fn lenenc_free<R: Reader>(c: &mut Cursor<'_, '_, '_, R>, account: Account, field: &'static str) -> FieldRead {
    let (_, len) = lenenc_at(c.peek()).ok_or(Short)?;
    if len > 1 {
        c.out().free(1, len as u64 - 1, Free::Any);
    }
    c.skip(len as u64, account, field)
}

/// Posts a length to `framing` and the bytes to `account`, and returns the captured ones. Fails if the packet is
/// shorter.
pub fn lenenc_text<'a, R: Reader>(
    c: &mut Cursor<'a, '_, '_, R>,
    account: Account,
    field: &'static str,
) -> FieldRead<&'a [u8]> {
    let len = lenenc(c, Account::Framing, "length")?;
    c.text(len, account, field)
}

/// Posts a text with its NUL, or the whole rest without one. Fails if the rest was not captured completely.
pub fn nul_text<'a, R: Reader>(
    c: &mut Cursor<'a, '_, '_, R>,
    account: Account,
    field: &'static str,
) -> FieldRead<&'a [u8]> {
    let here = c.peek();
    match c.c_string(account, field) {
        Err(Short) if here.len() as u64 == c.remaining() => c.text(here.len() as u64, account, field),
        text => text,
    }
}
