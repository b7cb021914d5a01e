//! Seeds for fuzzing: recorded sessions, written messages if none was recorded, and a few frames.

pub(crate) mod bson;
mod http;
mod memo;
pub(crate) mod mysql;
mod recorded;
mod spelt;

use crate::hostile::Target;
use crate::hostile::conversation::{Conversation, Cut, Segments, Turn};
use overhead_model::{Protocol, Side};
use overhead_protocols::{ProtocolFacts, facts};
use std::path::Path;

pub use memo::random as random_script;
pub(crate) use recorded::talks;

/// Longest seed. Longer sessions are split, so that a fuzzer can try many per second.
const LONGEST: usize = 1500;

/// Returns the seeds of a target. `fixtures` is the folder of recorded sessions.
///
/// # Errors
///
/// A recorded session cannot be read; the error names its path.
pub fn seeds(target: Target, fixtures: &Path) -> Result<Vec<Vec<u8>>, String> {
    match target {
        Target::Conversation(protocol) => {
            Ok([spelt_out(protocol), recorded::conversations(fixtures, protocol)?].concat())
        }
        Target::Reassembler => Ok(segments()),
        Target::CaptureFile => recorded::files(fixtures),
        Target::Memo => memo::scripts(fixtures),
    }
}

/// Returns messages that were not recorded, and the smallest exchange.
fn spelt_out(protocol: Protocol) -> Vec<Vec<u8>> {
    let ProtocolFacts { greeting, reply, .. } = facts(protocol);
    let greeting = [(Side::Request, greeting.to_vec()), (Side::Response, reply.to_vec())];
    let greeting = encode(&[greeting.to_vec()], None);
    let more = match protocol {
        Protocol::Cql => cql(),
        Protocol::Http => encode(&http::exchanges(), None),
        Protocol::Mongo => encode(&spelt::mongo(), None),
        Protocol::Mysql => encode(&mysql::exchanges(), None),
        Protocol::Ssdb => encode(&spelt::ssdb(), None),
        _ => Vec::new(),
    };
    [greeting, more].concat()
}

fn cql() -> Vec<Vec<u8>> {
    let mut all = encode(&spelt::cql(4, None), None);
    for compression in [false, true] {
        for self_contained in [false, true] {
            let segments = Some(Segments { compression, self_contained });
            all.extend(encode(&spelt::cql(5, segments), segments));
        }
    }
    all
}

/// A last block of DEFLATE that is stored (RFC 1951 section 3.2.4).
fn stored_block(bytes: &[u8]) -> Vec<u8> {
    let len = bytes.len() as u16;
    [&[1], &len.to_le_bytes()[..], &(!len).to_le_bytes(), bytes].concat()
}

/// A zstd frame of one raw block (RFC 8878 section 3.1.1).
fn raw_frame(bytes: &[u8]) -> Vec<u8> {
    let len = bytes.len() as u32;
    let block = (len << 3 | 1).to_le_bytes();
    [&[0x28, 0xb5, 0x2f, 0xfd, 0xa0], &len.to_le_bytes()[..], block.get(..3).unwrap_or_default(), bytes].concat()
}

/// Encodes each exchange as a conversation, and all exchanges as one.
fn encode(exchanges: &[Vec<(Side, Vec<u8>)>], segments: Option<Segments>) -> Vec<Vec<u8>> {
    let all = exchanges.concat();
    let cuts = [Cut::Half, Cut::Seven, Cut::Bytewise, Cut::Never];
    exchanges
        .iter()
        .chain([&all])
        .zip(cuts.iter().cycle())
        .map(|(turns, &cut)| {
            let turns = turns.iter().map(|(side, bytes)| Turn::Bytes(*side, bytes.clone())).collect();
            Conversation { mid_stream: false, cut, segments, other_content: 0, turns }.encode()
        })
        .collect()
}

/// Frames for the reassembler: a whole connection; swapped, repeated, lost and overlapping segments; one without SYN.
fn segments() -> Vec<Vec<u8>> {
    const SYN: [[u8; 6]; 3] = [[0, 2, 0, 0, 0, 1], [1, 0x12, 0, 0, 0, 1], [0, 0x10, 0, 0, 0, 1]];
    const EXCHANGE: [[u8; 6]; 4] =
        [[0, 0x18, 0, 0, 22, 1], [1, 0x18, 0, 0, 11, 1], [0, 0x10, 0, 0, 0, 1], [0, 0x10, 255, 0, 1, 9]];
    const AHEAD: [[u8; 6]; 3] = [[0, 0x18, 22, 0, 22, 1], [0, 0x18, 0, 0, 44, 1], [1, 0x18, 0, 0, 22, 1]];
    const REPEAT: [[u8; 6]; 3] = [[0, 0x18, 234, 0, 22, 1], [0, 0x18, 245, 0, 33, 1], [2 | 8, 0x18, 90, 0, 22, 1]];
    const ODD: [[u8; 6]; 4] =
        [[0x10, 0x18, 0, 0, 60, 1], [0x21, 0x18, 0, 0, 11, 1], [0x40, 0x18, 0, 0, 22, 1], [0x80, 0x18, 0, 0, 22, 1]];
    const FIN: [[u8; 6]; 3] = [[0, 0x11, 0, 0, 0, 1], [1, 0x11, 0, 0, 0, 1], [0, 0x10, 0, 0, 0, 251]];
    let scripts: [&[&[[u8; 6]]]; 6] = [
        &[&SYN, &EXCHANGE, &FIN],
        &[&SYN, &AHEAD, &REPEAT],
        &[&EXCHANGE, &REPEAT, &AHEAD],
        &[&SYN, &ODD, &EXCHANGE, &FIN, &SYN, &EXCHANGE],
        &[&ODD, &ODD, &FIN, &SYN],
        &[&SYN, &EXCHANGE, &AHEAD, &REPEAT, &ODD, &FIN, &SYN, &AHEAD],
    ];
    let one = |options: u8, script: &[&[[u8; 6]]]| [&[options], script.concat().concat().as_slice()].concat();
    scripts.iter().flat_map(|script| (0..16).map(move |options| one(options, script))).collect()
}
