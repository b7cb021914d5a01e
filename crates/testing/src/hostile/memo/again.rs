//! Repeats the previous turn with a small change.

use super::turns::Turn;
use super::words::Words;
use overhead_model::Protocol;
use std::collections::BTreeMap;

/// How a repeated turn differs from the original.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    None,
    /// Other ids, the same in request and response.
    Ids,
    /// Another byte in the request.
    RequestByte,
    /// Another byte in the response.
    ResponseByte,
    /// Other digits for some digits, other letters for some letters.
    InKind,
    /// Other bytes for some bytes.
    Bytes,
}

impl Change {
    /// Returns the change with a number.
    pub fn of(number: u8) -> Self {
        match number & 7 {
            0 => Self::None,
            1 | 2 => Self::Ids,
            3 => Self::RequestByte,
            4 => Self::ResponseByte,
            5 | 6 => Self::InKind,
            _ => Self::Bytes,
        }
    }

    /// Applies the change to a turn.
    pub fn apply(self, protocol: Protocol, turn: &mut Turn, words: &mut Words) {
        let Turn { request, response } = turn;
        match self {
            Self::None => {}
            Self::Ids => renumber(protocol, request, response, words),
            Self::RequestByte => any(request, words),
            Self::ResponseByte => any(response, words),
            Self::InKind => [request, response].into_iter().for_each(|bytes| in_kind(bytes, words)),
            Self::Bytes => {
                for bytes in [request, response] {
                    (0..words.below(4)).for_each(|_| any(bytes, words));
                }
            }
        }
    }
}

/// Writes new ids if the protocol has ids. Sometimes all of them are equal.
fn renumber(protocol: Protocol, request: &mut [u8], response: &mut [u8], words: &mut Words) {
    let is_binary = request.first() == Some(&0x80);
    let places: &[(usize, usize)] = match protocol {
        // The stream id, which a client never makes negative.
        Protocol::Cql => &[(2, 2)],
        // The message's own id, and the id that it answers.
        Protocol::Mongo => &[(4, 4), (8, 4)],
        // The opaque of binary messages.
        Protocol::Memcache if is_binary => &[(12, 4)],
        _ => return,
    };
    let (only, mut ids) = (words.below(4) == 0, BTreeMap::<Vec<u8>, Vec<u8>>::new());
    for bytes in [request, response] {
        for start in starts(protocol, bytes) {
            for &(at, len) in places {
                let Some(place) = bytes.get_mut(start + at..start + at + len) else { return };
                // Skips ids without a counterpart: those of MongoDB requests and CQL events.
                if place.iter().all(|byte| *byte == 0) || place == [0xff; 2] {
                    continue;
                }
                let first = ids.values().next().filter(|_| only).cloned();
                let id = ids.entry(place.to_vec()).or_insert_with(|| first.unwrap_or_else(|| fresh(len, words)));
                place.copy_from_slice(id);
            }
        }
    }
}

fn fresh(len: usize, words: &mut Words) -> Vec<u8> {
    let mut id = words.bytes(len);
    id.iter_mut().take(1).for_each(|first| *first &= 0x7f);
    id
}

/// Returns the start of each message, as far as the lengths are plausible.
fn starts(protocol: Protocol, bytes: &[u8]) -> Vec<usize> {
    let mut starts = Vec::new();
    let mut at = 0;
    while let Some(rest) = bytes.get(at..).filter(|rest| !rest.is_empty()) {
        starts.push(at);
        let len = match protocol {
            Protocol::Cql => rest.get(5..9).map_or(0, |len| 9 + number(len.iter())),
            Protocol::Memcache => rest.get(8..12).map_or(0, |len| 24 + number(len.iter())),
            _ => rest.get(..4).map_or(0, |len| number(len.iter().rev())),
        };
        at += len.max(9);
    }
    starts
}

fn number<'a>(bytes: impl Iterator<Item = &'a u8>) -> usize {
    bytes.fold(0, |sum, byte| sum << 8 | usize::from(*byte))
}

fn any(bytes: &mut [u8], words: &mut Words) {
    let at = words.below(bytes.len());
    if let Some(byte) = bytes.get_mut(at) {
        *byte = words.below(256) as u8;
    }
}

fn in_kind(bytes: &mut [u8], words: &mut Words) {
    for byte in bytes {
        *byte = match *byte {
            byte if words.below(4) > 0 => byte,
            b'0'..=b'9' => b'0' + words.below(10) as u8,
            b'a'..=b'z' => b'a' + words.below(26) as u8,
            byte => byte,
        };
    }
}
