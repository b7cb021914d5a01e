//! Recognises the start of a message and the side that sends it.

use super::wire::{EMPTY_DOCUMENT, HEADER, Header, KNOWN_FLAGS, MongoOpcode, i32_at, u32_at};
use crate::Sniff;
use crate::limits;
use overhead_decode::MessageBoundary;
use overhead_model::Side;

pub fn sniff(bytes: &[u8]) -> Sniff {
    let [request, response] = Side::BOTH.map(|side| begins(side, bytes));
    match (request, response) {
        (MessageBoundary::More, _) | (_, MessageBoundary::More) => Sniff::More,
        (MessageBoundary::Yes, MessageBoundary::Yes) if is_reply(bytes) => Sniff::Response,
        (MessageBoundary::Yes, _) => Sniff::Request,
        (_, MessageBoundary::Yes) => Sniff::Response,
        _ => Sniff::No,
    }
}

/// Returns whether a message that both sides may send is the server's.
fn is_reply(message: &[u8]) -> bool {
    // The first request of a connection may have the id 0; its reply then has `responseTo` 0, like a request.
    const FIRST_FIELDS: [&[u8]; 4] = [b"\x08helloOk\0", b"\x08ismaster\0", b"\x03topologyVersion\0", b"\x01ok\0"];
    let body = message.get(25..).unwrap_or_default();
    i32_at(message, 8).is_some_and(|response_to| response_to > 0)
        || FIRST_FIELDS.iter().any(|field| body.starts_with(field))
}

/// Returns whether a message of `side` starts here: the lengths in it must agree.
pub fn begins(side: Side, bytes: &[u8]) -> MessageBoundary {
    if (bytes.len() as u64) < HEADER {
        return MessageBoundary::More;
    }
    let Some(header) = Header::read(side, bytes) else { return MessageBoundary::No };
    holds(&header, bytes).into()
}

/// Returns whether the bytes after the header agree with it; `None` if more are needed.
fn holds(header: &Header, bytes: &[u8]) -> Option<bool> {
    let word = |at| u32_at(bytes, at);
    // The document or section with its length at `at` ends within the message.
    let fits = |at: usize| {
        let len = i32_at(bytes, at)?;
        let room = header.len.saturating_sub(at as u64);
        Some(u64::try_from(len).is_ok_and(|len| (EMPTY_DOCUMENT..=room).contains(&len)))
    };
    Some(match header.opcode {
        MongoOpcode::Msg => {
            let known = word(16)? & !KNOWN_FLAGS == 0;
            known && *bytes.get(20)? <= 1 && fits(21)?
        }
        MongoOpcode::Compressed => {
            let inner =
                MongoOpcode::from_code(i32_at(bytes, 16)?).is_some_and(|inner| inner != MongoOpcode::Compressed);
            inner && word(20)? as usize <= limits::DECOMPRESSED && *bytes.get(24)? <= 3
        }
        MongoOpcode::Reply => word(16)? < 16 && i32_at(bytes, 28)? >= 0 && i32_at(bytes, 32)? >= 0,
        MongoOpcode::Query => word(16)? < 256 && bytes.get(20)?.is_ascii_graphic(),
        MongoOpcode::Insert => word(16)? < 2 && bytes.get(20)?.is_ascii_graphic(),
        MongoOpcode::Update | MongoOpcode::Delete | MongoOpcode::GetMore => {
            word(16)? == 0 && bytes.get(20)?.is_ascii_graphic()
        }
        MongoOpcode::KillCursors => word(16)? == 0 && u64::from(word(20)?) * 8 + 24 == header.len,
        MongoOpcode::Command => bytes.get(16)?.is_ascii_graphic(),
        MongoOpcode::CommandReply => fits(16)?,
        MongoOpcode::OldMsg => bytes.get(16)?.is_ascii(),
    })
}
