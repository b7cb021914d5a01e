//! The turn before once more, changed a little.

use super::turns::Turn;
use super::words::Words;
use overhead_model::Protocol;

/// How a repeated turn differs from the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// Not at all.
    None,
    /// Its ids are other ones, the same in request and response.
    Ids,
    /// One byte of the request is any other.
    RequestByte,
    /// One byte of the response is any other.
    ResponseByte,
    /// Some digits are other digits, some letters other letters.
    InKind,
    /// Some bytes are any others.
    Bytes,
}

impl Change {
    /// Returns the change of a number.
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

    /// Changes a turn.
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

/// Writes ids anew where the protocol has them, of the first message each way.
fn renumber(protocol: Protocol, request: &mut [u8], response: &mut [u8], words: &mut Words) {
    match protocol {
        Protocol::Cql => {
            // The stream, which is not negative in what a client sends.
            let stream = [words.below(128) as u8, words.below(256) as u8];
            put(request, 2, &stream);
            put(response, 2, &stream);
        }
        Protocol::Mongo => {
            let (id, own) = (words.bytes(4), words.bytes(4));
            put(request, 4, &id);
            put(response, 4, &own);
            put(response, 8, &id);
        }
        Protocol::Resp | Protocol::Pgwire => {}
    }
}

fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    if let Some(place) = bytes.get_mut(at..at + value.len()) {
        place.copy_from_slice(value);
    }
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
