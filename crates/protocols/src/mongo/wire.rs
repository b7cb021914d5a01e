//! Constants and primitives: message headers, opcodes, BSON element types.

use overhead_model::{Side, enum_with};

pub(super) const HEADER: u64 = 16;

/// Longest message: servers accept 48,000,000 bytes (`maxMessageSizeBytes` of `hello`), rounded up.
pub(super) const MAX_MESSAGE: u64 = 48 << 20;

/// `OP_MSG`: the last four bytes of the message are its CRC-32C.
pub(super) const CHECKSUM_PRESENT: u32 = 1;
/// `OP_MSG`: another reply follows without a request, or (in requests) no reply is due.
pub(super) const MORE_TO_COME: u32 = 1 << 1;
/// `OP_MSG`: the client accepts a stream of replies.
pub(super) const EXHAUST_ALLOWED: u32 = 1 << 16;
/// `OP_MSG`: receivers refuse other bits in the lower half.
pub(super) const KNOWN_FLAGS: u32 = CHECKSUM_PRESENT | MORE_TO_COME | EXHAUST_ALLOWED;

/// `OP_QUERY`: the server streams all batches without `OP_GET_MORE`.
pub(super) const QUERY_EXHAUST: u32 = 1 << 6;
/// `OP_REPLY`: cursor not found, or query failure.
pub(super) const REPLY_FAILED: u32 = 3;

/// Shortest BSON document: its length and its terminator.
pub(super) const EMPTY_DOCUMENT: u64 = 5;

enum_with! {
    /// Opcodes with their numbers, the most frequent first.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub(super) enum MongoOpcode, wire: (i32, &'static str) {
        #[default]
        Msg = (2013, "OP_MSG"),
        Compressed = (2012, "OP_COMPRESSED"),
        Reply = (1, "OP_REPLY"),
        Query = (2004, "OP_QUERY"),
        OldMsg = (1000, "OP_MSG_OLD"),
        Update = (2001, "OP_UPDATE"),
        Insert = (2002, "OP_INSERT"),
        GetMore = (2005, "OP_GET_MORE"),
        Delete = (2006, "OP_DELETE"),
        KillCursors = (2007, "OP_KILL_CURSORS"),
        Command = (2010, "OP_COMMAND"),
        CommandReply = (2011, "OP_COMMANDREPLY"),
    }
}

impl MongoOpcode {
    pub fn from_code(code: i32) -> Option<Self> {
        Self::ALL.into_iter().find(|opcode| opcode.wire().0 == code)
    }

    pub fn name(self) -> &'static str {
        self.wire().1
    }

    pub fn is_sent_by(self, side: Side) -> bool {
        match self {
            Self::Msg | Self::Compressed => true,
            Self::Reply | Self::CommandReply => side == Side::Response,
            _ => side == Side::Request,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    /// Length of the message, including this header.
    pub len: u64,
    pub request_id: i32,
    /// `requestID` of the message being answered.
    pub response_to: i32,
    pub opcode: MongoOpcode,
}

impl Header {
    /// Parses the header at the start of `bytes`; `None` if no message of `side` can start this way.
    pub fn read(side: Side, bytes: &[u8]) -> Option<Self> {
        let len = u64::try_from(i32_at(bytes, 0)?).ok()?;
        let opcode = MongoOpcode::from_code(i32_at(bytes, 12)?)?;
        let fits = (HEADER + 4..=MAX_MESSAGE).contains(&len);
        (fits && opcode.is_sent_by(side)).then_some(Self {
            len,
            request_id: i32_at(bytes, 4)?,
            response_to: i32_at(bytes, 8)?,
            opcode,
        })
    }
}

pub fn i32_at(bytes: &[u8], at: usize) -> Option<i32> {
    let bytes = bytes.get(at..)?.first_chunk()?;
    Some(i32::from_le_bytes(*bytes))
}

pub fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    i32_at(bytes, at).map(i32::cast_unsigned)
}

/// The layout of a BSON value, given by its type byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BsonLayout {
    /// This many bytes.
    Fixed(u64),
    /// Length, text, NUL.
    Text,
    Document,
    Array,
    /// Length, subtype, bytes.
    Binary,
    /// Two NUL-terminated texts.
    Regex,
    /// As [`BsonLayout::Text`], then an object id.
    Pointer,
    /// Length of the value, a [`BsonLayout::Text`], a document.
    Scope,
}

impl BsonLayout {
    /// Returns the layout of a type; `None` if it is not in the specification.
    pub fn from_kind(kind: u8) -> Option<Self> {
        Some(match kind {
            0x01 | 0x09 | 0x11 | 0x12 => Self::Fixed(8),
            0x02 | 0x0d | 0x0e => Self::Text,
            0x03 => Self::Document,
            0x04 => Self::Array,
            0x05 => Self::Binary,
            0x06 | 0x0a | 0x7f | 0xff => Self::Fixed(0),
            0x07 => Self::Fixed(12),
            0x08 => Self::Fixed(1),
            0x0b => Self::Regex,
            0x0c => Self::Pointer,
            0x0f => Self::Scope,
            0x10 => Self::Fixed(4),
            0x13 => Self::Fixed(16),
            _ => return None,
        })
    }
}

/// Returns whether a number or boolean is present and not zero.
pub fn is_true(kind: u8, value: &[u8]) -> bool {
    match (kind, value) {
        (0x01, value) => value.first_chunk().is_some_and(|bytes| f64::from_le_bytes(*bytes) != 0.0),
        (0x08 | 0x10 | 0x12, value) => value.iter().any(|&byte| byte != 0),
        _ => false,
    }
}

/// Returns a string value without length and NUL; `None` for other types and invalid UTF-8.
pub fn text(kind: u8, value: &[u8]) -> Option<&str> {
    let text = value.get(4..)?.strip_suffix(&[0])?;
    (kind == 0x02).then(|| std::str::from_utf8(text).ok()).flatten()
}
