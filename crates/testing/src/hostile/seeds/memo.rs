//! Scripts for the memo: repeated turns of each kind, each kind of damage between them, and recorded turns.

use super::{LONGEST, recorded};
use crate::hostile::conversation::Turn;
use crate::hostile::memo::ScriptStep::{self, Again, Damage, Spelt};
use crate::hostile::memo::{Words, turns};
use overhead_model::{Protocol, Side};
use std::path::Path;

/// Options for three connections on a selected port: separate acknowledgements, timestamps, IPv6, no handshake, an
/// unknown port.
const OPTIONS: [[u8; 2]; 6] = [[0x13, 0], [0x1b, 2], [0x1f, 0], [0x13, 4], [0x13, 1], [0x13, 0x20]];
/// Number of repeats after which a connection remembers further turns.
const MANY: u8 = 10;
/// Changes to a turn: built again, or the given number.
const ANEW: u8 = 8;
const CHANGES: [u8; 4] = [0, 1, 5, ANEW];

pub(super) fn scripts(fixtures: &Path) -> Result<Vec<Vec<u8>>, String> {
    let mut found = Vec::new();
    for protocol in Protocol::ALL {
        let start: Vec<ScriptStep> = turns::start(protocol).iter().map(|&kind| ScriptStep::Turn(kind, 0, 0)).collect();
        let scripts = [kinds(&start), shared(&start), damaged(&start), recorded(fixtures, protocol)?].concat();
        let encode = |(steps, options): (&Vec<ScriptStep>, &[u8; 2])| ScriptStep::encode(protocol, *options, steps);
        found.extend(scripts.iter().zip(OPTIONS.iter().cycle()).map(encode));
    }
    Ok(found)
}

/// Returns a numbered pseudorandom script of turns and damage, in which some turns repeat.
pub fn random(number: u64) -> Vec<u8> {
    let mut words = Words::new(number);
    let protocol = Protocol::ALL[words.below(Protocol::COUNT)];
    let mut steps: Vec<ScriptStep> = turns::start(protocol).iter().map(|&kind| ScriptStep::Turn(kind, 0, 0)).collect();
    let usual = words.byte(16);
    steps.extend([ScriptStep::Turn(usual, 0, 0), Again(0, MANY, ANEW)]);
    for _ in 0..words.below(24) {
        let connection = u8::from(words.below(4) == 0);
        steps.push(match words.below(10) {
            0..4 => Again(connection, words.byte(12), words.byte(16)),
            4..6 => ScriptStep::Turn(usual, connection, if words.below(2) == 0 { 0 } else { words.byte(16) }),
            6 => ScriptStep::Turn(words.byte(16), connection, words.byte(16)),
            _ => Damage(words.byte(ScriptStep::DAMAGES), words.byte(8), words.byte(16)),
        });
    }
    let more = if words.below(2) == 0 { 0 } else { words.byte(64) };
    ScriptStep::encode(protocol, [0x10 | words.byte(16), more], &steps)
}

/// Repeats each kind of turn, and then all in sequence.
fn kinds(start: &[ScriptStep]) -> Vec<Vec<ScriptStep>> {
    let again =
        |kind: u8| [ScriptStep::Turn(kind, 0, 0), Again(0, 7, ANEW), Again(0, 3, CHANGES[usize::from(kind) % 4])];
    let many = [ScriptStep::Turn(1, 0, 0), Again(0, MANY, ANEW)];
    let alone = (0..16).map(|kind| [start, &again(kind), &[Again(0, MANY, ANEW)], &again(kind)].concat());
    let pairs = (0..16).map(|kind| [start, &many, &again(kind), &again(1), &again(kind)].concat());
    alone.chain(pairs).collect()
}

/// Prepares a statement on one connection and uses it on another, then repeats the turn after the first connection has
/// changed it.
fn shared(start: &[ScriptStep]) -> Vec<Vec<ScriptStep>> {
    let script = |own: u8, other: u8| {
        let prepare = [
            ScriptStep::Turn(2, 0, own),
            Again(0, MANY, ANEW),
            ScriptStep::Turn(2, 1, other),
            ScriptStep::Turn(2, 0, own),
        ];
        let ask = [ScriptStep::Turn(3, 2, own), Again(2, MANY, ANEW), ScriptStep::Turn(2, 1, other), Again(2, 3, ANEW)];
        [start, &prepare, &ask, &[ScriptStep::Turn(2, 0, own), Again(2, 3, ANEW)]].concat()
    };
    vec![script(0, 3), script(3, 0), script(1, 0), script(2, 5)]
}

/// Applies each kind of damage between repeated turns on two connections.
fn damaged(start: &[ScriptStep]) -> Vec<Vec<ScriptStep>> {
    let script = |kind: u8, how: u8| {
        let turns = [
            ScriptStep::Turn(1, 0, 0),
            Again(0, MANY, ANEW),
            ScriptStep::Turn(1, 1, 0),
            Again(1, MANY, ANEW),
            Again(0, 3, ANEW),
        ];
        let damage = [Damage(kind, how % 4, how), Again(0, 5, ANEW), Damage(kind, 2, how + 1), Again(0, 5, ANEW)];
        [start, &turns, &damage].concat()
    };
    (0..ScriptStep::DAMAGES).flat_map(|kind| [0, 3, 6, 11].map(|how| script(kind, how))).collect()
}

/// Repeats each recorded turn, once with other ids and once with other content.
fn recorded(fixtures: &Path, protocol: Protocol) -> Result<Vec<Vec<ScriptStep>>, String> {
    let mut found = Vec::new();
    for talk in recorded::talks(fixtures, protocol)? {
        let mut steps = Vec::new();
        let mut left = LONGEST;
        for (request, response) in exchanges(talk) {
            let len = request.len() + response.len();
            let fits = request.len() <= 255 && response.len() <= 255 && len <= left;
            if fits {
                left -= len;
                let times = if steps.is_empty() { MANY } else { 1 };
                steps.extend([Spelt(request, response), Again(0, times, CHANGES[1]), Again(0, 2, CHANGES[2])]);
            } else if left < LONGEST {
                left = LONGEST;
                found.push(std::mem::take(&mut steps));
            }
        }
        found.push(steps);
    }
    found.retain(|steps| !steps.is_empty());
    found.truncate(60);
    Ok(found)
}

/// Pairs requests with their replies, as long as the sides alternate.
fn exchanges(talk: Vec<Turn>) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut found: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
    for turn in talk {
        match (turn, found.last_mut()) {
            (Turn::Bytes(Side::Response, bytes), Some((_, response))) => response.extend(bytes),
            (Turn::Bytes(Side::Request, bytes), Some((request, response))) if response.is_empty() => {
                request.extend(bytes);
            }
            (Turn::Bytes(Side::Request, bytes), _) => found.push((bytes, Vec::new())),
            (Turn::Bytes(Side::Response, bytes), None) => found.push((Vec::new(), bytes)),
            (Turn::Opaque(..), _) => {}
        }
    }
    found
}
