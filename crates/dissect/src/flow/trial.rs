//! Decodes the start of a connection joined midway as each candidate protocol, with either end as the client, and compares the results.

use crate::engine::ConnectionEngine;
use crate::ledger::Arrival;
use crate::limits;
use overhead_decode::{Decoder, Label, MessageBoundary, Note, OpId, Reader};
use overhead_model::{Account, Class, Outcome, Protocol, Side};
use overhead_protocols::{AnyDecoder, SharedContext, Sniff, facts, is_known_request, sniff};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// A protocol, and the side that turned out to be its client.
pub type Roles = (Protocol, Side);

/// A piece of payload that waits for the verdict on the protocol.
#[derive(Debug)]
pub enum HeldPayload {
    /// With how much of the other stream their sender had received.
    Bytes(Vec<u8>, u64),
    Opaque(u64),
    /// Bytes outside the stream: `len` of them, as far as captured.
    Stray {
        bytes: Vec<u8>,
        frame: Arrival,
        len: u64,
    },
}

impl HeldPayload {
    /// Returns the bytes in stream order, as far as captured.
    pub fn bytes(&self) -> &[u8] {
        if let Self::Bytes(bytes, _) = self { bytes } else { &[] }
    }

    /// Returns the first of these bytes, as many as recognition takes.
    pub fn start(&self) -> &[u8] {
        self.bytes().get(..limits::SNIFF).unwrap_or(self.bytes())
    }
}

/// How well bytes fit a protocol. The greater fits better.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Fit {
    /// Sides with a message.
    sides: usize,
    /// Messages that no end of the protocol sends.
    impossible: Reverse<u64>,
    /// Bytes of messages, without those of requests that the protocol does not know.
    known: u64,
    /// Pieces that start as messages of the other side do.
    contrary: Reverse<usize>,
}

/// The result of decoding pieces of a connection as one protocol.
#[derive(Clone, Copy, Debug)]
struct Trial {
    roles: Roles,
    fit: Fit,
    /// Messages of the side with fewer.
    messages: u64,
    /// Bytes of messages.
    decoded: u64,
    /// Whether a request is none that the protocol knows.
    is_strange: bool,
    /// Whether both ends turn to TLS.
    has_tls: bool,
}

/// The comparison of all candidates.
#[derive(Clone, Copy, Debug)]
pub struct TrialVerdict {
    best: Option<Trial>,
    /// Whether another candidate fits as well.
    is_tied: bool,
    /// Bytes of each side.
    held: [u64; 2],
    /// The best one is what is known of the ports.
    is_expected: bool,
}

impl TrialVerdict {
    /// Compares `candidates`. Of those that fit equally well, `expected` is preferred. `may_swap`: either end may be the client.
    pub fn new(
        candidates: &[Protocol],
        pieces: &[(Side, HeldPayload)],
        expected: Option<Roles>,
        may_swap: bool,
    ) -> Self {
        let roles = candidates.iter().flat_map(|&of| Side::BOTH.map(|client| (of, client)));
        let roles = roles.filter(|(_, client)| may_swap || *client == Side::Request);
        let trials: Vec<Trial> = roles.filter_map(|roles| Trial::new(roles, pieces)).collect();
        let best = trials.iter().max_by_key(|trial| (trial.fit, Some(trial.roles) == expected)).copied();
        let is_expected = best.is_some_and(|best| Some(best.roles) == expected);
        let is_as_good = |trial: &&Trial| best.is_some_and(|best| best.fit == trial.fit);
        let held = Side::BOTH
            .map(|side| pieces.iter().filter(|(of, _)| *of == side).map(|(_, piece)| piece.bytes().len() as u64).sum());
        Self { best, is_tied: !is_expected && trials.iter().filter(is_as_good).count() > 1, held, is_expected }
    }

    /// Returns the roles if more bytes would hardly change them, or the likely ones if no more will come.
    pub fn roles(&self, is_last: bool) -> Option<Roles> {
        let best = self.best.filter(|best| !self.is_tied && best.fit.sides > 0)?;
        let Fit { sides, impossible: Reverse(impossible), .. } = best.fit;
        let enough = if self.is_expected { 1 } else { limits::SNIFF_MESSAGES };
        let is_sure = sides == 2 && best.messages >= enough && impossible == 0 && !best.is_strange;
        // Behind a hole, messages may be impossible, and those of a side unknown. Lines of text alone prove less.
        let fits_all = sides == self.held.iter().filter(|held| **held > 0).count() && impossible == 0;
        let fits_most = 3 * best.decoded >= self.held.iter().sum() && !facts(best.roles.0).is_text;
        let is_likely = fits_all || fits_most || ((best.has_tls || self.is_expected) && impossible == 0);
        (is_sure || (is_last && is_likely)).then_some(best.roles)
    }

    /// Returns whether the bytes may be of a candidate.
    pub fn is_possible(&self) -> bool {
        let is_enough = |best: Trial| !facts(best.roles.0).is_text || 2 * best.decoded >= self.held.iter().sum();
        self.best.is_some_and(|best| best.fit.sides > 0 && is_enough(best))
    }
}

impl Trial {
    /// Tries one protocol with `client` as the client; `None` if no piece starts like its messages.
    fn new((protocol, client): Roles, pieces: &[(Side, HeldPayload)]) -> Option<Self> {
        let decoder = AnyDecoder::new(protocol, true, &SharedContext::for_trial());
        let role = |sender: Side| if sender == client { Side::Request } else { Side::Response };
        let begins = |(sender, piece): &&(Side, HeldPayload)| {
            let start = piece.start();
            !start.is_empty() && decoder.boundary(role(*sender), start) != MessageBoundary::No
        };
        // Enough to decode all of them.
        if pieces.iter().filter(|piece| begins(piece)).count() * limits::SNIFF_STARTS < pieces.len().max(1) {
            return None;
        }
        let mut engine = ConnectionEngine::new(decoder, true);
        let mut reader = TrialReader::new(protocol);
        let mut contrary = 0;
        for (sender, piece) in pieces {
            let side = role(*sender);
            if reader.impossible > limits::SNIFF_IMPOSSIBLE {
                break;
            }
            match piece {
                HeldPayload::Bytes(bytes, _) => engine.bytes(side, bytes, &mut reader),
                HeldPayload::Opaque(len) => engine.opaque(side, *len, &mut reader),
                HeldPayload::Stray { .. } => {}
            }
            contrary += usize::from(match sniff(protocol, piece.start()) {
                Sniff::Request => side == Side::Response,
                Sniff::Response => side == Side::Request,
                _ => false,
            });
        }
        let sides = reader.messages.iter().filter(|messages| **messages > 0).count();
        let sum = |bytes: fn(&TrialOperation) -> u64| reader.operations.values().map(bytes).sum();
        let fit = Fit {
            sides,
            impossible: Reverse(reader.impossible),
            known: sum(|of| if of.is_strange { 0 } else { of.bytes }),
            contrary: Reverse(contrary),
        };
        let is_strange = reader.operations.values().any(|of| of.is_strange);
        let messages = reader.messages[0].min(reader.messages[1]);
        Some(Self {
            roles: (protocol, client),
            fit,
            messages,
            decoded: sum(|of| of.bytes),
            is_strange,
            has_tls: reader.has_tls,
        })
    }
}

#[derive(Debug, Default)]
struct TrialOperation {
    bytes: u64,
    /// Its request is none that the protocol knows.
    is_strange: bool,
}

/// Counts what a decoder recognizes.
#[derive(Debug)]
struct TrialReader {
    protocol: Protocol,
    opened: u64,
    /// By side, the operation of its latest message.
    latest: [Option<OpId>; 2],
    messages: [u64; 2],
    operations: BTreeMap<OpId, TrialOperation>,
    impossible: u64,
    has_tls: bool,
}

impl TrialReader {
    fn new(protocol: Protocol) -> Self {
        let operations = BTreeMap::new();
        Self { protocol, opened: 0, latest: [None; 2], messages: [0; 2], operations, impossible: 0, has_tls: false }
    }
}

impl Reader for TrialReader {
    fn open(&mut self) -> OpId {
        self.opened += 1;
        OpId(self.opened)
    }

    fn post(&mut self, side: Side, op: OpId, account: Account, _: &'static str, len: u64) {
        if matches!(account, Account::Unknown | Account::Tls) {
            return;
        }
        self.operations.entry(op).or_default().bytes += len;
        self.messages[side as usize] += u64::from(self.latest[side as usize].replace(op) != Some(op));
    }

    fn label(&mut self, op: OpId, label: Label<'_>) {
        if matches!(label.class, Class::Workload | Class::Setup) && !is_known_request(self.protocol, label.name) {
            self.operations.entry(op).or_default().is_strange = true;
            // Names in parentheses stand for requests without a word.
            self.impossible += u64::from(label.name.starts_with('('));
        }
    }

    fn wants_free(&self) -> bool {
        false
    }

    fn wants_statements(&self) -> bool {
        false
    }

    fn close(&mut self, op: OpId, outcome: Outcome) {
        // Servers refuse requests that they do not know.
        if outcome == Outcome::Error {
            self.operations.entry(op).or_default().is_strange = false;
        }
    }

    fn software(&mut self, _: Side, _: &str) {}

    fn note(&mut self, note: Note) {
        self.impossible += u64::from(matches!(note, Note::Malformed(_) | Note::LostBoundary));
        self.has_tls |= note == Note::Tls;
    }
}
