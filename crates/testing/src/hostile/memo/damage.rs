//! Damages frames or a connection.

use super::wire::{ACK, FIN, FrameList, Planned, RST};
use super::words::Words;
use overhead_model::Side;

/// Number of kinds of damage.
pub(crate) const KINDS: u8 = 15;

/// A late repeat of acknowledged data goes back a multiple of this many frames. Odd, so that it can be from either
/// side.
const FAR: usize = 7;

/// Applies damage of a kind to a connection or to a recent frame. `place` counts frames from the end; the meaning of
/// `how` depends on the kind.
pub(crate) fn apply(wire: &mut FrameList, connection: usize, kind: u8, (place, how): (usize, u8), words: &mut Words) {
    let at = wire.frames.len().checked_sub(1 + place);
    match (kind, at) {
        (0, Some(at)) if at > 0 => wire.frames.swap(at, at - 1),
        (1, Some(at)) => cut(wire, at, how),
        (2, Some(at)) => drop(wire.frames.remove(at)),
        (3, Some(at)) => wire.add(wire.frames[at].clone()),
        (4, Some(at)) => repeat(wire, at, how, words),
        (5, Some(at)) => {
            let frame = &mut wire.frames[at];
            frame.snapped =
                (frame.payload.len() * usize::from(how)).div_ceil(16) + frame.trailer + usize::from(how == 15) * 24;
        }
        (6, Some(at)) => spoil(&mut wire.frames[at], how, words),
        (7, Some(at)) => merge(wire, at),
        (8, _) => probe(wire, connection, how),
        (9, _) => end(wire, connection, how),
        (10, _) => begin_anew(wire, connection, how, words),
        (11, _) => miss(wire, connection, how, words),
        (12, Some(at)) => odd_headers(&mut wire.frames[at], how, words),
        (13, Some(at)) => {
            const GAPS_NS: [i64; 8] =
                [0, -1_000_000, 1, 999, 1_000_000_000, 70_000_000_000, 200_000_000_000, 100_000_000_000_000];
            wire.frames[at].gap_ns = GAPS_NS[usize::from(how & 7)];
        }
        (14, _) => {
            if let Some(at) = wire.frames.len().checked_sub(FAR * (1 + place)) {
                repeat(wire, at, how, words);
            }
        }
        _ => {}
    }
}

/// Splits the payload into two frames.
fn cut(wire: &mut FrameList, at: usize, how: u8) {
    let frame = &mut wire.frames[at];
    if frame.payload.len() < 2 || frame.snapped > 0 {
        return;
    }
    let first = (frame.payload.len() * (usize::from(how) + 1) / 17).max(1);
    let mut rest = frame.clone();
    rest.payload = frame.payload.split_off(first);
    rest.headers.seq = rest.headers.seq.wrapping_add(first as u32);
    wire.frames.insert(at + 1, rest);
}

/// Sends all or part of the payload again later, possibly with additional or changed bytes.
fn repeat(wire: &mut FrameList, at: usize, how: u8, words: &mut Words) {
    let mut frame = wire.frames[at].clone();
    if how & 1 != 0 {
        let begin = frame.payload.len() / 2;
        frame.payload.drain(..begin);
        frame.headers.seq = frame.headers.seq.wrapping_add(begin as u32);
    }
    if how & 2 != 0 {
        frame.payload.truncate(frame.payload.len().div_ceil(2));
    }
    if how & 4 != 0 {
        frame.payload.extend(words.bytes(5));
    }
    if how & 8 != 0 {
        spoil(&mut frame, how, words);
    }
    wire.add(frame);
}

/// Changes one byte of the payload.
fn spoil(frame: &mut Planned, how: u8, words: &mut Words) {
    let at = if how < 8 { frame.payload.len() * usize::from(how) / 8 } else { words.below(frame.payload.len()) };
    if let Some(byte) = frame.payload.get_mut(at) {
        *byte = words.below(256) as u8;
    }
}

/// Merges the next frame of the same side into this one.
fn merge(wire: &mut FrameList, at: usize) {
    let Planned { connection, side, headers, ref payload, .. } = wire.frames[at];
    let end = headers.seq.wrapping_add(payload.len() as u32);
    let is_next = |next: &Planned| (next.connection, next.side, next.headers.seq) == (connection, side, end);
    if let Some(next) = wire.frames.iter().skip(at + 1).position(is_next) {
        let next = wire.frames.remove(at + 1 + next);
        wire.frames[at].payload.extend(next.payload);
    }
}

/// Sends a keep-alive, a zero window, a window probe or a duplicate acknowledgement.
fn probe(wire: &mut FrameList, connection: usize, how: u8) {
    let side = if how & 1 == 0 { Side::Request } else { Side::Response };
    let next = wire.links[connection].next;
    wire.send(connection, side, ACK, b"");
    let Some(frame) = wire.frames.last_mut() else { return };
    match how >> 1 & 7 {
        0 => frame.headers.seq = frame.headers.seq.wrapping_sub(1),
        1 => {
            frame.headers.seq = frame.headers.seq.wrapping_sub(1);
            frame.payload = vec![0];
        }
        2 => frame.headers.window = 0,
        3 => frame.payload = vec![b'*'],
        4 => frame.headers.ack = frame.headers.ack.wrapping_sub(10),
        5 => frame.headers.ack = frame.headers.ack.wrapping_add(10),
        6 => frame.headers.window = 1,
        _ => {}
    }
    wire.links[connection].next = next;
}

/// Ends the connection: a FIN of one side or both, or a reset.
fn end(wire: &mut FrameList, connection: usize, how: u8) {
    if how & 4 != 0 {
        let side = if how & 1 == 0 { Side::Request } else { Side::Response };
        return wire.send(connection, side, RST | ACK, b"");
    }
    for side in Side::BOTH.into_iter().filter(|&side| how & 1 << side as u8 == 0) {
        wire.send(connection, side, FIN | ACK, b"");
    }
    if how.is_multiple_of(4) {
        wire.send(connection, Side::Request, ACK, b"");
    }
}

/// Starts another connection on the same ports, with or without a handshake, or swaps client and server.
fn begin_anew(wire: &mut FrameList, connection: usize, how: u8, words: &mut Words) {
    let link = &mut wire.links[connection];
    link.next = [words.below(1 << 31) as u32, words.below(1 << 31) as u32];
    if how & 2 != 0 {
        link.headers.ports.reverse();
    }
    if how & 1 == 0 {
        wire.open(connection);
    }
}

/// Skips sequence numbers, as if frames had not been captured.
fn miss(wire: &mut FrameList, connection: usize, how: u8, words: &mut Words) {
    let side = usize::from(how & 1);
    let next = &mut wire.links[connection].next[side];
    *next = next.wrapping_add(if how & 8 == 0 { words.below(64) as u32 } else { words.below(1 << 31) as u32 });
}

/// Sets unusual headers.
fn odd_headers(frame: &mut Planned, how: u8, words: &mut Words) {
    let headers = &mut frame.headers;
    match how & 7 {
        0 => headers.tag = !headers.tag,
        1 => headers.timestamps = if headers.timestamps.is_some() { None } else { Some(7) },
        2 => headers.flags ^= 1 << words.below(8),
        3 => headers.window = words.below(1 << 16) as u16,
        4 => headers.ack = headers.ack.wrapping_sub(words.below(1 << 7) as u32),
        5 => headers.no_length = true,
        6 => headers.ipv6 = !headers.ipv6,
        _ => frame.trailer = 6,
    }
}
