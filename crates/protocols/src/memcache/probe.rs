//! Recognises the first bytes of a connection, and the start of a message.

use super::wire::{self, Command};
use crate::Sniff;
use crate::limits::SNIFF;
use overhead_decode::MessageBoundary;
use overhead_model::Side;

/// Commands shared with Redis and words used by other servers are certain only with both directions.
pub fn sniff(bytes: &[u8]) -> Sniff {
    match bytes {
        [] => Sniff::More,
        [wire::REQUEST | wire::RESPONSE, ..] => match header(bytes) {
            Some(true) if bytes[0] == wire::REQUEST => Sniff::Request,
            Some(true) => Sniff::Response,
            Some(false) => Sniff::No,
            None => Sniff::More,
        },
        _ => text(bytes),
    }
}

fn text(bytes: &[u8]) -> Sniff {
    if let Some(certain) = begins_reply(bytes) {
        return if certain { Sniff::Response } else { Sniff::Perhaps(Side::Response) };
    }
    let Some(line) = line(bytes) else {
        let is_long = bytes.len() >= SNIFF;
        return match bytes.split(|&byte| byte == b' ').next() {
            _ if !wire::is_text(bytes.strip_suffix(b"\r").unwrap_or(bytes)) => Sniff::No,
            Some(word) if is_long && Command::named(word).is_some() => Sniff::Perhaps(Side::Request),
            _ if is_long => Sniff::No,
            _ => Sniff::More,
        };
    };
    let words = wire::LineWords::new(line);
    match Command::named(words.get(0)) {
        Some(_) if !wire::is_text(line) => Sniff::No,
        Some(command) if is_certain(command, &words) => Sniff::Request,
        Some(_) => Sniff::Perhaps(Side::Request),
        None => Sniff::No,
    }
}

/// Returns whether no other known protocol has such a line: storage with all its numbers, and commands that Redis
/// lacks.
fn is_certain(command: &Command, words: &wire::LineWords<'_>) -> bool {
    match command.name {
        "set" | "add" | "replace" | "append" | "prepend" | "cas" => {
            let has_rest = words.count == if command.name == "cas" { 6 } else { 5 } || command.is_silent(words);
            command.value(words).is_some() && has_rest
        }
        "ms" => command.value(words).is_some(),
        "mn" => words.count == 1,
        "mg" | "md" | "ma" | "me" | "gets" | "gat" | "gats" => words.count > 1,
        _ => false,
    }
}

/// Returns whether bytes start a reply, and whether that is certain; `None` if they do not.
fn begins_reply(bytes: &[u8]) -> Option<bool> {
    const PREFIXES: [&[u8]; 7] =
        [b"VALUE ", b"STAT ", b"VERSION ", b"CLIENT_ERROR ", b"SERVER_ERROR ", b"VA ", b"CONFIG "];
    // Replies to meta commands with flags, and to administration commands.
    const WITH_MORE: &str = "HD EN NF NS EX ME ITEM PREFIX BUSY BADCLASS NOSPARE NOTFULL UNSAFE SAME NOTSTARTED";
    const BEGINNINGS: [&[u8]; 5] = [b"key=", b"ts=", b"RESET", b"MEMLIMIT_", b"ERROR"];
    const ALONE: &str = "STORED NOT_STORED EXISTS NOT_FOUND END DELETED TOUCHED HD EN NF NS MN";
    let is_one_of = |words: &str, word: &[u8]| words.split(' ').any(|known| known.as_bytes() == word);
    if PREFIXES.iter().any(|prefix| bytes.starts_with(prefix)) {
        return Some(true);
    }
    // Bytes that are not text are rejected before the line is complete.
    let line = line(bytes).filter(|line| wire::is_text(line))?;
    let first = line.split(|&byte| byte == b' ').next().unwrap_or_default();
    let may_be = BEGINNINGS.iter().any(|start| line.starts_with(start))
        || (first.len() < line.len() && is_one_of(WITH_MORE, first));
    let is_number = (1..=20).contains(&line.len()) && line.iter().all(u8::is_ascii_digit);
    if is_one_of(ALONE, line) {
        Some(true)
    } else {
        (may_be || is_number || matches!(line, b"OK" | b"EX")).then_some(false)
    }
}

/// Returns whether bytes can be a binary header; `None` if there are too few. Magic, opcode, length of the key, of the
/// extras, data type, vbucket or status, length of the body.
fn header(bytes: &[u8]) -> Option<bool> {
    let &[_, opcode, key_high, key_low, extras, kind, _, _, a, b, c, d] = bytes.first_chunk()?;
    let key = u32::from(u16::from_be_bytes([key_high, key_low]));
    let body = u32::from_be_bytes([a, b, c, d]);
    let fits = body >= key + u32::from(extras) && body <= 64 << 20;
    Some(opcode <= 0x57 && kind == 0 && extras <= 32 && key <= 250 && fits)
}

fn line(bytes: &[u8]) -> Option<&[u8]> {
    let end = bytes.iter().position(|&byte| byte == b'\n')?;
    let line = bytes.get(..end)?;
    Some(line.strip_suffix(b"\r").unwrap_or(line))
}

/// Returns whether bytes within a stream start a message.
pub(super) fn boundary(side: Side, bytes: &[u8]) -> MessageBoundary {
    // Asked at every byte once there are enough: bytes further ahead must not change the result.
    let bytes = bytes.get(..SNIFF).unwrap_or(bytes);
    let begins = match (side, sniff(bytes)) {
        (_, Sniff::More) => return MessageBoundary::More,
        (Side::Request, Sniff::Request | Sniff::Perhaps(Side::Request)) | (Side::Response, Sniff::Response) => true,
        // Any value may contain a number.
        (Side::Response, Sniff::Perhaps(Side::Response)) => !bytes.first().is_some_and(u8::is_ascii_digit),
        _ => false,
    };
    MessageBoundary::yes_if(begins)
}
