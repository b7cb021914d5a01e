//! Conversations, each named after its situation.

use super::*;
use crate::SharedContext;
use overhead_decode::{DecoderEngine, Note};
use overhead_testing::transcript::{Transcript, check};
use proptest::prelude::*;

impl Pgwire {
    /// Returns a decoder that shares nothing with other connections.
    pub fn new(mid_stream: bool) -> Self {
        Self::sharing(mid_stream, &SharedContext::default())
    }
}

mod copies;
mod hostile;
mod masks;
mod situations;
mod statements;
mod units;

const C: Side = Side::Request;
const S: Side = Side::Response;

fn msg(kind: u8, inside: &[u8]) -> Vec<u8> {
    let length = u32::try_from(inside.len()).unwrap() + 4;
    [&[kind][..], &length.to_be_bytes(), inside].concat()
}

fn packet(code: u32, inside: &[u8]) -> Vec<u8> {
    let length = u32::try_from(inside.len()).unwrap() + 8;
    [&length.to_be_bytes()[..], &code.to_be_bytes(), inside].concat()
}

fn startup() -> Vec<u8> {
    packet(3 << 16, b"user\0me\0application_name\0psql\0\0")
}

/// `AuthenticationOk`, the server's version, its key, `ReadyForQuery`.
fn welcome() -> Vec<u8> {
    [msg(b'R', &[0; 4]), msg(b'S', b"server_version\x0015.18 (Debian 15.18-0+deb12u1)\0"), msg(b'K', &[1; 8]), ready()]
        .concat()
}

fn ready() -> Vec<u8> {
    msg(b'Z', b"I")
}

fn query(sql: &str) -> Vec<u8> {
    msg(b'Q', &[sql.as_bytes(), b"\0"].concat())
}

fn parse(name: &str, sql: &str) -> Vec<u8> {
    msg(b'P', &[name.as_bytes(), b"\0", sql.as_bytes(), b"\0\0\0"].concat())
}

/// Binds the unnamed portal without parameters, with binary results.
fn bind(name: &str) -> Vec<u8> {
    msg(b'B', &[b"\0", name.as_bytes(), b"\0\0\0\0\0\0\x01\0\x01"].concat())
}

fn execute() -> Vec<u8> {
    msg(b'E', &[0; 5])
}

fn describe(what: u8, name: &str) -> Vec<u8> {
    msg(b'D', &[&[what], name.as_bytes(), b"\0"].concat())
}

fn sync() -> Vec<u8> {
    msg(b'S', b"")
}

fn flush() -> Vec<u8> {
    msg(b'H', b"")
}

fn tag(tag: &str) -> Vec<u8> {
    msg(b'C', &[tag.as_bytes(), b"\0"].concat())
}

/// Describes columns of these types with format code 0 (text).
fn columns(types: &[u32]) -> Vec<u8> {
    let mut inside = u16::try_from(types.len()).unwrap().to_be_bytes().to_vec();
    for oid in types {
        inside.extend_from_slice(b"col\0\0\0\x40\x04\0\x01");
        inside.extend_from_slice(&oid.to_be_bytes());
        inside.extend_from_slice(&[0xff; 6]);
        inside.extend_from_slice(&[0, 0]);
    }
    msg(b'T', &inside)
}

fn cells(cells: &[Option<&[u8]>]) -> Vec<u8> {
    let mut inside = u16::try_from(cells.len()).unwrap().to_be_bytes().to_vec();
    for cell in cells {
        match cell {
            None => inside.extend_from_slice(&[0xff; 4]),
            Some(cell) => {
                inside.extend_from_slice(&u32::try_from(cell.len()).unwrap().to_be_bytes());
                inside.extend_from_slice(cell);
            }
        }
    }
    inside
}

fn row(values: &[Option<&[u8]>]) -> Vec<u8> {
    msg(b'D', &cells(values))
}

fn error(severity: &str) -> Vec<u8> {
    msg(b'E', &[b"S", severity.as_bytes(), b"\0C57014\0Mno\0\0"].concat())
}

/// Runs a conversation after start-up, split at every byte, and omits the start-up from the summary.
fn talk(turns: &[(Side, Vec<Vec<u8>>)]) -> Vec<String> {
    let transcript = transcript(turns);
    transcript.summary().split_off(1)
}

fn transcript(turns: &[(Side, Vec<Vec<u8>>)]) -> Transcript {
    let mut conversation = vec![(C, startup()), (S, welcome())];
    conversation.extend(turns.iter().map(|(side, messages)| (*side, messages.concat())));
    whole(&conversation)
}

/// Runs a conversation with its start-up, split at every byte.
fn whole(conversation: &[(Side, Vec<u8>)]) -> Transcript {
    let conversation: Vec<_> = conversation.iter().map(|(side, bytes)| (*side, bytes.as_slice())).collect();
    check(|| Pgwire::new(false), &conversation)
}

fn mid_stream(turns: &[(Side, Vec<Vec<u8>>)]) -> Vec<String> {
    let mut engine = DecoderEngine::new(Pgwire::new(true), true);
    let mut transcript = Transcript::default();
    for (side, messages) in turns {
        engine.bytes(*side, &messages.concat(), &mut transcript);
    }
    engine.finish(&mut transcript);
    transcript.summary()
}
