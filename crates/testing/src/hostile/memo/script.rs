//! A script of turns and damage, as bytes.
//!
//! ```text
//! options  seed  step  step  …
//! options: bits 0-1 protocol, bits 2-3 connections, bits 4-5 acknowledgements, bit 6 selection, bit 7 more options
//! more:    bit 0 mid-stream, bit 1 timestamps, bit 2 IPv6, bit 3 short segments, bit 4 tag, bit 5 unknown port
//! step:    what argument [bytes]
//! what:    bits 0-4 see below, bits 5-6 connection, bit 7 the response waits for the next turn
//!   0-15   a turn of that kind; argument: its lengths
//!   16     the turn before again; argument: bits 0-3 how often (see [`times`]), bits 4-6 how it is changed, bit 7 made anew,
//!          with other lengths if bit 6 is set, too
//!   17     a further turn of the request in the bytes that follow, so many as the argument says
//!   18     likewise the response of the turn before
//!   from 19 damage; argument: bits 0-3 which frame, from the end, bits 4-7 how. With bit 7, the further kinds of it
//! ```

use super::again::Change;
use super::turns::{self, Turn};
use super::wire::{Acknowledge, FrameList, ScriptedLink};
use super::words::Words;
use super::{ScriptedCapture, damage};
use crate::hostile::packet::FrameHeaders;
use overhead_dissect::Selection;
use overhead_model::{Protocol, Side};

const AGAIN: u8 = 16;
const REQUEST: u8 = 17;
const RESPONSE: u8 = 18;
const DAMAGE: u8 = 19;
/// Number of kinds of damage that fit into five bits.
const FIRST_DAMAGES: u8 = 32 - DAMAGE;

/// A step of a script to write, for seeds.
#[derive(Clone, Debug)]
pub(crate) enum ScriptStep {
    /// A turn: connection, kind and lengths.
    Turn(u8, u8, u8),
    /// The latest turn of a connection again: connection, number of times and change.
    Again(u8, u8, u8),
    /// A turn given byte by byte: request and response.
    Spelt(Vec<u8>, Vec<u8>),
    /// Damage to a recent frame: kind, frame and details.
    Damage(u8, u8, u8),
}

impl ScriptStep {
    /// Number of kinds of damage.
    pub const DAMAGES: u8 = damage::KINDS;

    /// Writes a script.
    pub fn encode(protocol: Protocol, options: [u8; 2], steps: &[Self]) -> Vec<u8> {
        let mut script = vec![protocol as u8, options[0] << 2 | 0x80, 1, options[1]];
        for step in steps {
            step.write(&mut script);
        }
        script
    }

    fn write(&self, script: &mut Vec<u8>) {
        match self {
            Self::Turn(kind, connection, lengths) => script.extend([kind & 15 | connection << 5, *lengths]),
            Self::Again(connection, times, change) => {
                script.extend([AGAIN | connection << 5, times & 15 | change << 4]);
            }
            Self::Spelt(request, response) => {
                for (what, bytes) in [(REQUEST, request), (RESPONSE, response)] {
                    let bytes = &bytes[..bytes.len().min(255)];
                    script.extend([what, bytes.len() as u8]);
                    script.extend(bytes);
                }
            }
            Self::Damage(kind, place, how) => {
                let further = if *kind < FIRST_DAMAGES { 0 } else { 0x80 };
                script.extend([further | (DAMAGE + kind % FIRST_DAMAGES), place & 15 | how << 4]);
            }
        }
    }
}

/// The state of a running script.
pub(crate) struct Script {
    protocol: Protocol,
    words: Words,
    wire: FrameList,
    talks: Vec<LatestTurn>,
}

/// The latest turn of a connection.
#[derive(Clone, Debug, Default)]
struct LatestTurn {
    turn: Turn,
    /// Kind and lengths; absent if the turn was given byte by byte.
    made: Option<(u8, u8)>,
    /// A delayed response.
    held: Vec<u8>,
}

impl Script {
    /// Runs a script.
    pub fn run(input: &[u8]) -> ScriptedCapture {
        let mut rest = input;
        let [number, options, seed] = [(); 3].map(|()| take(&mut rest).unwrap_or(0));
        let more = if options & 0x80 == 0 { 0 } else { take(&mut rest).unwrap_or(0) };
        let protocol =
            Protocol::ALL.into_iter().find(|protocol| *protocol as usize == usize::from(number) % Protocol::COUNT);
        let protocol = protocol.unwrap_or(Protocol::ALL[0]);
        let count = usize::from(options >> 2 & 3).clamp(1, 3);
        let wire = FrameList::new((0..count).map(|number| link(protocol, number, options, more)).collect());
        let mut script =
            Self { protocol, words: Words::new(u64::from(seed)), wire, talks: vec![LatestTurn::default(); count] };
        if more & 1 == 0 {
            (0..count).for_each(|connection| script.wire.open(connection));
        }
        while let (Some(what), false) = (take(&mut rest), script.wire.is_full()) {
            let argument = take(&mut rest).unwrap_or(0);
            script.step(what, argument, &mut rest);
        }
        script.finish(options, more)
    }

    fn step(&mut self, what: u8, argument: u8, rest: &mut &[u8]) {
        let connection = usize::from(what >> 5 & 3) % self.talks.len();
        let is_held = what & 0x80 != 0;
        match what & 31 {
            kind @ 0..AGAIN => {
                self.make(connection, kind, argument);
                self.say(connection, is_held);
            }
            AGAIN => {
                for _ in 0..times(argument & 15) {
                    self.change(connection, argument >> 4);
                    self.say(connection, is_held);
                }
            }
            REQUEST => {
                let request = take_some(rest, argument);
                self.talks[connection].turn = Turn { request, response: Vec::new() };
                self.talks[connection].made = None;
                self.say(connection, is_held);
            }
            RESPONSE => {
                let response = take_some(rest, argument);
                self.wire.say(connection, Side::Response, &response);
                self.talks[connection].turn.response.extend(response);
            }
            kind => {
                let kind = kind - DAMAGE + if is_held { FIRST_DAMAGES } else { 0 };
                let how = (usize::from(argument & 15), argument >> 4);
                damage::apply(&mut self.wire, connection, kind % damage::KINDS, how, &mut self.words);
            }
        }
    }

    /// Builds a turn of a kind.
    fn make(&mut self, connection: usize, kind: u8, lengths: u8) {
        let talk = &mut self.talks[connection];
        talk.turn = turns::make(self.protocol, kind, lengths, &mut self.words);
        talk.made = Some((kind, lengths));
    }

    /// Changes the latest turn, or builds it again with the same or other lengths.
    fn change(&mut self, connection: usize, how: u8) {
        match self.talks[connection].made {
            Some((kind, lengths)) if how & 8 != 0 => {
                let lengths = if how & 4 == 0 { lengths } else { self.words.byte(u8::MAX) };
                self.make(connection, kind, lengths);
            }
            _ => Change::of(how).apply(self.protocol, &mut self.talks[connection].turn, &mut self.words),
        }
    }

    /// Sends the latest turn, after a delayed response.
    fn say(&mut self, connection: usize, is_held: bool) {
        let LatestTurn { turn: Turn { request, response }, held, .. } = &mut self.talks[connection];
        self.wire.say(connection, Side::Request, request);
        held.extend_from_slice(response);
        if !is_held {
            self.wire.say(connection, Side::Response, held);
            held.clear();
        }
    }

    fn finish(self, options: u8, more: u8) -> ScriptedCapture {
        let port = self.wire.links.first().map_or(0, |link| link.headers.ports[1]);
        let ports = match (options & 0x40 != 0, more & 0x20 != 0) {
            (false, false) => Vec::new(),
            (true, false) => vec![(port, vec![self.protocol])],
            (_, true) => vec![(port, Protocol::ALL.to_vec())],
        };
        ScriptedCapture {
            protocol: self.protocol,
            selection: Selection { ports, ..Selection::default() },
            packets: self.wire.into_packets(),
        }
    }
}

/// Sets up a connection as the options describe.
fn link(protocol: Protocol, number: usize, options: u8, more: u8) -> ScriptedLink {
    let usual = protocol.ports().first().copied().unwrap_or(0);
    let server = if more & 0x20 == 0 { usual } else { 7_777 };
    let headers = FrameHeaders {
        connection: number as u8,
        ports: [40_000 + number as u16, server],
        ipv6: more & 4 != 0,
        timestamps: (more & 2 != 0).then_some(9),
        tag: more & 16 != 0,
        window: 512,
        ..FrameHeaders::default()
    };
    let acknowledge = match options >> 4 & 3 {
        0 | 1 => Acknowledge::Never,
        2 => Acknowledge::Responses,
        _ => Acknowledge::Both,
    };
    // The sequence numbers of one connection soon wrap around.
    let next = if number == 1 { [100, u32::MAX - 300] } else { [1 << 20, 1 << 21] };
    let segment = if more & 8 == 0 { 1_448 } else { 40 };
    ScriptedLink { headers, next, acknowledge, segment }
}

/// Returns how often a turn repeats: a few times, or until a connection remembers it.
fn times(argument: u8) -> u8 {
    if argument < 8 { 1 + argument } else { 4 * (argument - 6) }
}

fn take(rest: &mut &[u8]) -> Option<u8> {
    let (&first, after) = rest.split_first()?;
    *rest = after;
    Some(first)
}

fn take_some(rest: &mut &[u8], count: u8) -> Vec<u8> {
    let (some, after) = rest.split_at(usize::from(count).min(rest.len()));
    *rest = after;
    some.to_vec()
}
