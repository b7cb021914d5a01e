//! Finds message boundaries, to resynchronise after a loss and to recognise the protocol.

use super::wire::{Header, flag, opcode};
use overhead_decode::MessageBoundary;
use overhead_model::Side;

/// Returns whether `bytes` start a message of `side`: a valid header, then a body whose start fits its opcode.
pub fn message_begins(bytes: &[u8], side: Side) -> MessageBoundary {
    let header = match Header::read(bytes, side) {
        Ok(Some(header)) => header,
        Ok(None) => return MessageBoundary::More,
        Err(_) => return MessageBoundary::No,
    };
    let event = header.opcode == opcode::EVENT;
    if header.flags >= 0x20 || header.version < 3 || (header.stream < 0) != event {
        return MessageBoundary::No;
    }
    // These bodies cannot be checked within a few bytes.
    if header.has(flag::COMPRESSED | flag::CUSTOM_PAYLOAD | flag::WARNING) {
        return MessageBoundary::Yes;
    }
    let tracing = side == Side::Response && header.has(flag::TRACING);
    let prelude = if tracing { 16 } else { 0 };
    let at = (header.size() + prelude) as usize;
    let Some(length) = u64::from(header.length).checked_sub(prelude) else { return MessageBoundary::No };
    let behind = bytes.get(at..).unwrap_or_default();
    let bytes_of_body = usize::try_from(length).ok().and_then(|length| behind.get(..length)).unwrap_or(behind);
    let body = CqlBodyPrefix { bytes: bytes_of_body, length };
    let fits = match side {
        Side::Request => body.is_request(header.opcode),
        Side::Response => body.is_response(header.opcode),
    };
    // A body may end too early for its opcode.
    let is_whole = header.total() <= bytes.len() as u64;
    fits.or(is_whole.then_some(false)).into()
}

/// The first bytes of a body, and its total length.
struct CqlBodyPrefix<'a> {
    bytes: &'a [u8],
    length: u64,
}

/// Checks return `None` if more bytes are needed.
impl CqlBodyPrefix<'_> {
    fn byte(&self, at: usize) -> Option<u8> {
        self.bytes.get(at).copied()
    }

    fn short(&self, at: usize) -> Option<u64> {
        let bytes = self.bytes.get(at..)?.first_chunk()?;
        Some(u64::from(u16::from_be_bytes(*bytes)))
    }

    fn int(&self, at: usize) -> Option<u64> {
        let bytes = self.bytes.get(at..)?.first_chunk()?;
        Some(u64::from(u32::from_be_bytes(*bytes)))
    }

    /// Checks for a single `[bytes]`.
    fn is_token(&self) -> Option<bool> {
        let size = self.int(0)?;
        Some(size + 4 == self.length || (size == u64::from(u32::MAX) && self.length == 4))
    }

    fn is_request(&self, opcode: u8) -> Option<bool> {
        Some(match opcode {
            opcode::OPTIONS => self.length == 0,
            opcode::STARTUP => {
                let (count, key, first) = (self.short(0)?, self.short(2)?, self.byte(4)?);
                (1..64).contains(&count)
                    && (1..64).contains(&key)
                    && key + 4 < self.length
                    && first.is_ascii_uppercase()
            }
            opcode::QUERY | opcode::PREPARE => {
                let (size, first) = (self.int(0)?, self.byte(4)?);
                size > 0 && size + 4 <= self.length && (first.is_ascii_graphic() || first.is_ascii_whitespace())
            }
            opcode::EXECUTE => {
                let id = self.short(0)?;
                (1..=64).contains(&id) && id + 5 <= self.length
            }
            opcode::BATCH => self.byte(0)? < 3 && self.byte(3)? < 2 && self.length > 8,
            opcode::REGISTER => (1..16).contains(&self.short(0)?) && (1..40).contains(&self.short(2)?),
            opcode::AUTH_RESPONSE => self.is_token()?,
            _ => false,
        })
    }

    fn is_response(&self, opcode: u8) -> Option<bool> {
        Some(match opcode {
            opcode::READY => self.length == 0,
            opcode::RESULT => (1..=5).contains(&self.int(0)?),
            opcode::ERROR => self.int(0)? < 0x1_0000 && self.short(4)? + 6 <= self.length,
            opcode::SUPPORTED => self.short(0)? < 64 && self.length >= 2,
            opcode::AUTHENTICATE => self.short(0)? + 2 == self.length,
            opcode::EVENT => (8..40).contains(&self.short(0)?) && self.short(0)? < self.length,
            opcode::AUTH_CHALLENGE | opcode::AUTH_SUCCESS => self.is_token()?,
            _ => false,
        })
    }
}
