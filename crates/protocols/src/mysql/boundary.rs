//! Recognises the start of a packet in either direction.
//!
//! A packet header proves little; a layout with agreeing lengths, or a text, does.

use super::command;
use super::pair::ExpectedResponse;
use super::wire::{self, FULL, HEADER, capability, header, lenenc_at, u16_at};
use crate::Sniff;
use crate::limits::{BOUNDARY_WINDOW, SNIFF};
use overhead_decode::MessageBoundary;
use overhead_model::Side;

/// Longest payload accepted as a greeting.
const GREETING: u64 = 512;
/// Error numbers of servers: their own start at 1000; plugins and routers stay below 16,384.
const ERRORS: std::ops::Range<u16> = 1000..16_384;
/// Longest payload of an `OK` packet accepted as the reply to a login.
const LOGGED_IN: u64 = 5120;
/// Bytes of text enough for recognition.
const TEXT: usize = 24;

pub fn sniff(bytes: &[u8]) -> Sniff {
    if is_greeting(bytes) || response_boundary(bytes, None) == MessageBoundary::Yes {
        return Sniff::Response;
    }
    match request_boundary(bytes) {
        // Proves nothing about the bytes before it: clients of MySQL's X Protocol also start this way.
        MessageBoundary::Yes if bytes.starts_with(&[1, 0, 0, 0, command::QUIT]) => Sniff::Perhaps(Side::Request),
        MessageBoundary::Yes => Sniff::Request,
        MessageBoundary::No if response_boundary(bytes, None) == MessageBoundary::No => Sniff::No,
        _ if bytes.len() >= SNIFF => Sniff::No,
        _ => Sniff::More,
    }
}

/// Returns whether a packet with this first byte and length is a greeting.
pub(super) fn is_greeting_of(first: Option<u8>, len: u64) -> bool {
    matches!(first, Some(9 | 10)) && (20..GREETING).contains(&len)
}

/// Returns whether a server starts with these bytes: its greeting, or an error instead.
pub fn is_greeting(bytes: &[u8]) -> bool {
    greets(bytes) == MessageBoundary::Yes
}

/// Checks a packet against the layout of a greeting.
fn greets(bytes: &[u8]) -> MessageBoundary {
    let Some((len, sequence)) = header(bytes) else { return MessageBoundary::More };
    // Bytes after the packet, or further ahead, must not change an earlier result.
    let looked_at = BOUNDARY_WINDOW.min(usize::try_from(HEADER + len).unwrap_or(BOUNDARY_WINDOW));
    let bytes = bytes.get(..looked_at).unwrap_or(bytes);
    if sequence != 0 {
        return MessageBoundary::No;
    }
    match bytes.get(HEADER as usize..).unwrap_or_default() {
        [] => MessageBoundary::more_if((10..512).contains(&len)),
        [first @ (9 | 10), version @ ..] if is_greeting_of(Some(*first), len) => {
            let end = version.iter().position(|&byte| byte == 0);
            let text = version.get(..end.unwrap_or(version.len())).unwrap_or_default();
            let is_text = text.iter().all(|byte| (b' '..0x7f).contains(byte));
            // Of any other version, the zero after the id and the first part of the challenge proves more.
            let filler = |end: usize| version.get(end + 1 + 4 + 8);
            match (is_text, end) {
                (true, Some(5..)) if text.first().is_some_and(u8::is_ascii_digit) => MessageBoundary::Yes,
                (true, Some(end @ 1..)) if *first == 10 => match filler(end) {
                    Some(byte) => MessageBoundary::yes_if(*byte == 0),
                    None => MessageBoundary::more_if(bytes.len() < looked_at),
                },
                (true, None) => MessageBoundary::more_if(bytes.len() < looked_at),
                _ => MessageBoundary::No,
            }
        }
        // Too many connections, host blocked, host not allowed.
        [wire::ERR, inside @ ..] if (10..512).contains(&len) => match inside.split_first_chunk() {
            None => MessageBoundary::More,
            Some((code, text)) if matches!(u16::from_le_bytes(*code), 1040 | 1129 | 1130) => {
                let is_text = text.iter().take(7).all(u8::is_ascii);
                let is_short = text.len() < 7 && bytes.len() < looked_at;
                if is_text && is_short { MessageBoundary::More } else { MessageBoundary::yes_if(is_text) }
            }
            Some(_) => MessageBoundary::No,
        },
        _ => MessageBoundary::No,
    }
}

/// Returns whether a login starts here: capabilities of version 4.1, and zeros in the reserved places.
pub(super) fn is_login(bytes: &[u8]) -> bool {
    let (Some((len, 1 | 2)), Some(payload)) = (header(bytes), bytes.get(HEADER as usize..)) else { return false };
    let has_41 = u16_at(payload, 0).is_some_and(|flags| u64::from(flags) & capability::PROTOCOL_41 != 0);
    let zeros = payload.get(9..28).unwrap_or_default();
    has_41 && len >= super::handshake::LOGIN && zeros.len() == 19 && zeros.iter().all(|&byte| byte == 0)
}

/// Returns whether `bytes` start a packet of a client.
pub(super) fn request_boundary(bytes: &[u8]) -> MessageBoundary {
    if is_login(bytes) {
        return MessageBoundary::Yes;
    }
    let Some((len, sequence)) = header(bytes) else { return MessageBoundary::more_if(true) };
    let payload = bytes.get(HEADER as usize..).unwrap_or_default();
    match (sequence, payload) {
        (1 | 2, _) => MessageBoundary::more_if(bytes.len() < 32 && len >= super::handshake::LOGIN),
        (0, []) => MessageBoundary::more_if(len > 0),
        (0, [code, inside @ ..]) if command::fits(*code, len) => inside_of(*code, len, inside),
        _ => MessageBoundary::No,
    }
}

/// Checks a command by the bytes after its code.
fn inside_of(code: u8, len: u64, inside: &[u8]) -> MessageBoundary {
    match code {
        // The attribute count is 0.
        command::QUERY if inside.first() == Some(&0) => match inside {
            [_, 1, behind @ ..] => text(len.saturating_sub(3), behind),
            _ => MessageBoundary::more_if(inside.len() < 2),
        },
        command::QUERY | command::STMT_PREPARE | command::INIT_DB | command::CREATE_DB | command::DROP_DB => {
            text(len - 1, inside)
        }
        command::FIELD_LIST | command::CHANGE_USER => {
            // Bytes after the packet do not count.
            let len = len - 1;
            let inside = usize::try_from(len).ok().and_then(|len| inside.get(..len)).unwrap_or(inside);
            let end = inside.iter().position(|&byte| byte == 0);
            text(end.map_or(len, |end| end as u64), inside)
        }
        command::STMT_EXECUTE => starts(inside, |start: &[u8; 9]| matches!(start, [_, _, _, _, 0..16, 1, 0, 0, 0])),
        // A small row count, and a small statement id.
        command::STMT_FETCH => starts(inside, |start: &[u8; 8]| matches!(start, [_, _, _, 0, _, _, _, 0])),
        // A small statement id.
        command::STMT_CLOSE | command::STMT_RESET => starts(inside, |start: &[u8; 4]| start[3] == 0),
        27 => starts(inside, |start: &[u8; 2]| matches!(start, [0 | 1, 0])),
        command::STMT_SEND_LONG_DATA | command::STMT_BULK_EXECUTE => {
            starts(inside, |start: &[u8; 6]| matches!(start, [_, _, 0, 0, _, 0]) && len < FULL)
        }
        _ => MessageBoundary::yes_if(len == 1),
    }
}

/// Checks the first bytes.
fn starts<const N: usize>(bytes: &[u8], is_right: impl Fn(&[u8; N]) -> bool) -> MessageBoundary {
    bytes.first_chunk().map(is_right).into()
}

/// Returns whether `len` bytes are text, judging by the available ones.
fn text(len: u64, bytes: &[u8]) -> MessageBoundary {
    let enough = usize::try_from(len).unwrap_or(TEXT).min(TEXT);
    let seen = bytes.get(..enough.min(bytes.len())).unwrap_or_default();
    if len == 0 || !seen.iter().all(|&byte| byte >= b' ' || byte.is_ascii_whitespace()) {
        return MessageBoundary::No;
    }
    if seen.len() == enough { MessageBoundary::Yes } else { MessageBoundary::More }
}

/// Returns whether `bytes` start a reply of a server; `awaited` is the kind of reply that is due.
pub(super) fn response_boundary(bytes: &[u8], awaited: Option<ExpectedResponse>) -> MessageBoundary {
    let Some((len, sequence)) = header(bytes) else { return MessageBoundary::more_if(true) };
    let payload = bytes.get(HEADER as usize..).unwrap_or_default();
    let is_login = matches!(awaited, Some(ExpectedResponse::Login | ExpectedResponse::ChangeUser));
    match (sequence, payload.first()) {
        (0, None | Some(9 | 10)) => greets(bytes),
        (1, None) => MessageBoundary::more_if(len > 0),
        (1, Some(_)) if len > 0 => begins_answer(len, payload, awaited),
        (2..=8, None) if is_login => MessageBoundary::more_if((1..LOGGED_IN).contains(&len)),
        (2..=8, Some(&wire::OK)) if is_login && len < LOGGED_IN => ok_boundary(len, payload, true),
        (2..=8, Some(&(wire::ERR | wire::EOF | 1))) if is_login => MessageBoundary::yes_if((1..1024).contains(&len)),
        _ => MessageBoundary::No,
    }
}

fn begins_answer(len: u64, payload: &[u8], awaited: Option<ExpectedResponse>) -> MessageBoundary {
    match payload {
        // A single row proves nothing; the next packet's header does.
        [wire::OK, ..] if awaited == Some(ExpectedResponse::Fetch) => {
            match usize::try_from(len).ok().and_then(|len| payload.get(len..)).and_then(header) {
                Some((_, sequence)) => MessageBoundary::yes_if(len >= 2 && sequence == 2),
                None => MessageBoundary::more_if(len >= 2),
            }
        }
        [wire::OK, ..] if awaited == Some(ExpectedResponse::Prepare) => match payload.get(9) {
            _ if !matches!(len, 12 | 13) => MessageBoundary::No,
            None => MessageBoundary::More,
            Some(byte) => MessageBoundary::yes_if(*byte == 0),
        },
        // May also be a reply to `COM_STMT_PREPARE`.
        [wire::OK, ..] if awaited.is_none() && matches!(len, 12 | 13) => MessageBoundary::No,
        [wire::OK, ..] => ok_boundary(len, payload, awaited.is_some()),
        [wire::ERR, low, high, behind @ ..] => {
            let inside = usize::try_from(len.saturating_sub(3)).unwrap_or(usize::MAX);
            let behind = behind.get(..inside).unwrap_or(behind);
            let is_known = ERRORS.contains(&u16::from_le_bytes([*low, *high]));
            let (state, text) = match behind {
                [b'#', state @ ..] => (state.get(..5.min(state.len())).unwrap_or_default(), state.get(5..)),
                _ => (&b""[..], Some(behind)),
            };
            let is_text = text.unwrap_or_default().iter().take(8).all(|byte| *byte >= b' ');
            let is_code = is_known && (4..4096).contains(&len);
            let is_sound = is_code && state.iter().all(u8::is_ascii_alphanumeric) && is_text;
            let is_enough = behind.len() as u64 >= len.saturating_sub(3).min(14);
            if is_sound && !is_enough { MessageBoundary::More } else { MessageBoundary::yes_if(is_sound) }
        }
        [wire::ERR, ..] => MessageBoundary::More,
        [wire::EOF, ..] => MessageBoundary::yes_if(len == 5 || len == 1),
        _ if awaited == Some(ExpectedResponse::Text) => text(len, payload),
        [1..=250 | 0xfc, ..] => column_count_boundary(len, payload),
        [wire::LOCAL_INFILE, name @ ..] => text(len - 1, name),
        _ => MessageBoundary::No,
    }
}

/// Checks an `OK` packet: rows, id, status, warnings and a text with or without its length. Unless one is awaited,
/// zeros are not enough.
fn ok_boundary(len: u64, payload: &[u8], is_awaited: bool) -> MessageBoundary {
    let behind = |from: usize| {
        let (_, used) = lenenc_at(payload.get(from..)?)?;
        Some(from + used)
    };
    let Some(status) = behind(1).and_then(behind) else {
        return MessageBoundary::more_if(payload.len() < 19 && len >= 7);
    };
    let Some(flags) = u16_at(payload, status) else { return MessageBoundary::more_if(len >= status as u64 + 4) };
    let left = len.checked_sub(status as u64 + 4);
    let Some(warnings) = u16_at(payload, status + 2) else { return MessageBoundary::more_if(len >= status as u64 + 4) };
    let info = payload.get(status + 4..).unwrap_or_default();
    // Bytes after the packet do not count.
    let inside = usize::try_from(left.unwrap_or_default()).unwrap_or(usize::MAX).min(9);
    let is_text = info.iter().take(inside).skip(1).all(|byte| *byte >= b' ');
    // More warnings are implausible.
    let is_tracked = flags & wire::status::SESSION_STATE_CHANGED != 0;
    match left.filter(|_| warnings < 0x1000) {
        Some(0) => MessageBoundary::yes_if(
            is_awaited || flags & (wire::status::IN_TRANSACTION | wire::status::AUTOCOMMIT) != 0,
        ),
        Some(1..4096) if is_tracked && is_awaited => MessageBoundary::Yes,
        Some(left @ 1..4096) if is_tracked => tracks(left, info),
        Some(left @ 1..1024) if is_text && (info.len() as u64) < left.min(9) => MessageBoundary::More,
        Some(1..1024) => MessageBoundary::yes_if(is_text),
        _ => MessageBoundary::No,
    }
}

/// Checks a text and session state changes, each with its length, that take `len` bytes together.
fn tracks(len: u64, info: &[u8]) -> MessageBoundary {
    let end = |from: u64| {
        let (text, used) = lenenc_at(info.get(usize::try_from(from).ok()?..)?)?;
        from.checked_add(used as u64)?.checked_add(text)
    };
    let Some(text) = end(0) else { return MessageBoundary::more_if(info.len() < wire::LENGTH) };
    match end(text) {
        Some(state) => MessageBoundary::yes_if(state == len),
        None => MessageBoundary::more_if(text < len && info.len() as u64 <= text.saturating_add(wire::LENGTH as u64)),
    }
}

/// Checks a column count followed by the first definition, or a row.
fn column_count_boundary(len: u64, payload: &[u8]) -> MessageBoundary {
    let Some((count, used)) = lenenc_at(payload) else { return MessageBoundary::More };
    let extra = len.checked_sub(used as u64);
    if !matches!(extra, Some(0 | 1)) || count == 0 {
        return MessageBoundary::No;
    }
    let next = usize::try_from(len).ok().and_then(|len| payload.get(len..)).unwrap_or_default();
    let is_undefined = extra == Some(1) && payload.get(used) == Some(&0);
    match (header(next), next.get(HEADER as usize..).unwrap_or_default()) {
        (None, _) => MessageBoundary::More,
        (Some((1.., 2)), _) if is_undefined => MessageBoundary::Yes,
        (Some((4.., 2)), [3, b'd', b'e', b'f', ..]) => MessageBoundary::Yes,
        (Some((4.., 2)), inside) => MessageBoundary::more_if(inside.len() < 4 && b"\x03def".starts_with(inside)),
        _ => MessageBoundary::No,
    }
}
