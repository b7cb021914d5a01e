//! Header, opcodes, flags and primitives.

use overhead_decode::{Cursor, DecodeStep, FieldRead, Free, Malformed, Reader, Short};
use overhead_model::{Account, Side};
use std::ops::RangeInclusive;

/// Longest body (`native_protocol_v4.spec`, section 2.5: 256 MB).
pub(super) const MAX_BODY: u32 = 256 << 20;

/// Header flags (section 2.2).
pub(super) mod flag {
    pub const COMPRESSED: u8 = 0x01;
    pub const TRACING: u8 = 0x02;
    pub const CUSTOM_PAYLOAD: u8 = 0x04;
    pub const WARNING: u8 = 0x08;
}

/// Defines the kinds of messages by name, number and sender.
macro_rules! opcodes {
    ($($NAME:ident = $number:literal, $side:ident;)+) => {
        /// Message kinds (section 2.4).
        pub(super) mod opcode {
            $(pub const $NAME: u8 = $number;)+
        }

        /// Returns a message kind's name and sender.
        pub const fn kind(opcode: u8) -> Option<(&'static str, Side)> {
            match opcode {
                $(opcode::$NAME => Some((stringify!($NAME), Side::$side)),)+
                _ => None,
            }
        }
    };
}

opcodes! {
    ERROR = 0x00, Response;
    STARTUP = 0x01, Request;
    READY = 0x02, Response;
    AUTHENTICATE = 0x03, Response;
    // Version 1 only.
    CREDENTIALS = 0x04, Request;
    OPTIONS = 0x05, Request;
    SUPPORTED = 0x06, Response;
    QUERY = 0x07, Request;
    RESULT = 0x08, Response;
    PREPARE = 0x09, Request;
    EXECUTE = 0x0A, Request;
    REGISTER = 0x0B, Request;
    EVENT = 0x0C, Response;
    BATCH = 0x0D, Request;
    AUTH_CHALLENGE = 0x0E, Response;
    AUTH_RESPONSE = 0x0F, Request;
    AUTH_SUCCESS = 0x10, Response;
}

/// `DataStax` Enterprise versions, which its drivers try first. Headers are like version 4; other servers reject them
/// in a version they support.
const DATASTAX: RangeInclusive<u8> = 65..=66;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub side: Side,
    pub version: u8,
    pub flags: u8,
    pub stream: i16,
    pub opcode: u8,
    /// The opcode's name.
    pub name: &'static str,
    /// Bytes of the body.
    pub length: u32,
}

impl Header {
    /// Reads the header at the start of `bytes`; `None` if more are needed.
    pub fn read(bytes: &[u8], side: Side) -> DecodeStep<Option<Self>> {
        let &[first, flags, ref rest @ ..] = bytes else { return Ok(None) };
        let version = first & 0x7F;
        let known = (1..=6).contains(&version) || DATASTAX.contains(&version);
        if !known || (first & 0x80 != 0) != (side == Side::Response) {
            return Err(Malformed("not a protocol version of this direction"));
        }
        let (stream, opcode, length) = match *rest {
            [high, low, opcode, a, b, c, d, ..] if version > 2 => {
                (i16::from_be_bytes([high, low]), opcode, u32::from_be_bytes([a, b, c, d]))
            }
            [stream, opcode, a, b, c, d, ..] if version <= 2 => {
                (i16::from(i8::from_be_bytes([stream])), opcode, u32::from_be_bytes([a, b, c, d]))
            }
            _ => return Ok(None),
        };
        match kind(opcode) {
            _ if length > MAX_BODY => Err(Malformed("a body longer than the protocol allows")),
            Some(_) if DATASTAX.contains(&version) && ![opcode::OPTIONS, opcode::STARTUP].contains(&opcode) => {
                Err(Malformed("a version of DataStax Enterprise"))
            }
            Some((name, of)) if of == side => Ok(Some(Self { side, version, flags, stream, opcode, name, length })),
            _ => Err(Malformed("not an opcode of this direction")),
        }
    }

    /// Returns what links a response to its request: the stream id, and its length, which differs between versions.
    pub fn pairing_id(&self) -> u32 {
        u32::from(self.stream.cast_unsigned()) | u32::from(self.version > 2) << 16
    }

    /// Bytes of the header.
    pub const fn size(&self) -> u64 {
        if self.version > 2 { 9 } else { 8 }
    }

    /// Bytes of header and body.
    pub const fn total(&self) -> u64 {
        self.size() + self.length as u64
    }

    pub const fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// Posts the header. With `is_paired`, the stream id only links a request to its response, so any other
    /// non-negative id would do.
    pub fn post<R: Reader>(&self, is_paired: bool, cursor: &mut Cursor<'_, '_, '_, R>) -> FieldRead {
        let id = self.size() - 7;
        if is_paired && cursor.remaining() >= 2 {
            cursor.out().free(2, id, Free::Id(0x7F));
        }
        cursor.skip_all([
            (Account::Framing, "version", 1),
            (Account::Metadata, "flags", 1),
            (Account::Metadata, "stream id", id),
            (Account::Framing, "opcode", 1),
            (Account::Framing, "body length", 4),
        ])
    }
}

/// `[string]` or `[short bytes]`: a two-byte length and as many bytes.
pub fn string<'a, R: Reader>(
    cursor: &mut Cursor<'a, '_, '_, R>,
    account: Account,
    field: &'static str,
) -> FieldRead<&'a [u8]> {
    let here = cursor.peek();
    let (length, behind) = here.split_first_chunk().ok_or(Short)?;
    let length = u16::from_be_bytes(*length);
    cursor.skip_all([(Account::Framing, "string length", 2), (account, field, u64::from(length))])?;
    Ok(behind.get(..usize::from(length)).unwrap_or(behind))
}

/// `[bytes]`: a four-byte length and as many bytes; negative means null.
pub fn bytes<R: Reader>(cursor: &mut Cursor<'_, '_, '_, R>, account: Account, field: &'static str) -> FieldRead {
    let length = cursor.i32_be(Account::Framing, "bytes length")?;
    cursor.skip(u64::try_from(length).unwrap_or(0), account, field)
}

/// Like [`bytes`], with contents that decoding ignores.
pub fn free_bytes<R: Reader>(cursor: &mut Cursor<'_, '_, '_, R>, account: Account, field: &'static str) -> FieldRead {
    let length = cursor.i32_be(Account::Framing, "bytes length")?;
    cursor.skip_free(u64::try_from(length).unwrap_or(0), account, field, Free::Any)
}

pub fn string_list<R: Reader>(cursor: &mut Cursor<'_, '_, '_, R>, account: Account, field: &'static str) -> FieldRead {
    let count = cursor.u16_be(Account::Framing, "list length")?;
    for _ in 0..count {
        string(cursor, account, field)?;
    }
    Ok(())
}
