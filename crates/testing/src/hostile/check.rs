//! Checks conversations: every byte is posted once, to an open operation, and the cuts between TCP segments make no
//! difference.

use crate::free;
use crate::hostile::checksum::mix;
use crate::hostile::conversation::{Conversation, Cut, Segments, Turn};
use overhead_decode::{Expansion, Label, Note, OpId, Reader, limits};
use overhead_dissect::ConnectionEngine;
use overhead_model::{Account, Amounts, Class, Outcome, Protocol, Side};
use overhead_protocols::{AnyDecoder, SharedContext};
use std::ops::Range;

/// Operations allowed beyond one for each byte, in place of the many of a run, so that short inputs reach the limit.
const MORE_OPERATIONS: u64 = 16;

/// STARTUP and READY of CQL version 5, after which both sides send segments; without and with `COMPRESSION` lz4.
const STARTUP: &[u8] = b"\x05\0\0\0\x01\0\0\0\x16\0\x01\0\x0bCQL_VERSION\0\x053.0.0";
const STARTUP_LZ4: &[u8] = b"\x05\0\0\0\x01\0\0\0\x28\0\x02\0\x0bCQL_VERSION\0\x053.0.0\0\x0bCOMPRESSION\0\x03lz4";
const READY: &[u8] = b"\x85\0\0\0\x02\0\0\0\0";

/// Plays `input` as a conversation: a second time with other cuts, if it asks for that, and then with other free bytes,
/// in all rounds or in those that it names.
pub(crate) fn run(protocol: Protocol, input: &[u8], thorough: bool) {
    let mut conversation = Conversation::decode(input);
    if let Some(segments) = conversation.segments.filter(|_| protocol == Protocol::Cql) {
        wrap(&mut conversation.turns, segments);
    }
    let whole = read(protocol, conversation.mid_stream, &conversation.turns, Cut::Never);
    for side in Side::BOTH {
        let sent: u64 = conversation.turns.iter().filter(|turn| turn.side() == side).map(Turn::len).sum();
        assert_eq!(whole.posted(side), sent, "{side:?}: bytes posted and bytes sent");
    }
    let bytes: u64 = conversation.turns.iter().map(Turn::len).sum();
    let most = bytes + MORE_OPERATIONS;
    assert!(whole.ops.len() as u64 <= most, "{} operations of {bytes} bytes", whole.ops.len());
    assert!(whole.notes.len() as u64 <= most, "{} notes on {bytes} bytes", whole.notes.len());
    if conversation.cut != Cut::Never {
        let cut = read(protocol, conversation.mid_stream, &conversation.turns, conversation.cut);
        assert_eq!(cut.ops, whole.ops, "operations by how the stream is cut");
        assert_eq!(cut.notes, whole.notes, "notes by how the stream is cut");
        assert_eq!(cut.software, whole.software, "software by how the stream is cut");
        assert!(cut.fields == whole.fields, "fields by how the stream is cut");
    }
    let rounds = if thorough { 0..free::ROUNDS } else { conversation.rounds() };
    differ(protocol, &conversation, rounds);
}

/// Plays the conversation with other free bytes, up to the first gap.
fn differ(protocol: Protocol, conversation: &Conversation, rounds: Range<u64>) {
    let said = conversation.turns.iter().map_while(|turn| match turn {
        Turn::Bytes(side, bytes) => Some((*side, bytes.as_slice())),
        Turn::Opaque(..) => None,
    });
    let new = || AnyDecoder::new(protocol, conversation.mid_stream, &SharedContext::default());
    free::check_rounds(new, &said.collect::<Vec<_>>(), rounds);
}

fn wrap(turns: &mut Vec<Turn>, segments: Segments) {
    for turn in turns.iter_mut() {
        if let Turn::Bytes(_, bytes) = turn {
            *bytes = segments.wrap(bytes);
        }
    }
    let startup = if segments.compression { STARTUP_LZ4 } else { STARTUP };
    let opening = [Turn::Bytes(Side::Request, startup.to_vec()), Turn::Bytes(Side::Response, READY.to_vec())];
    turns.splice(..0, opening);
}

fn read(protocol: Protocol, mid_stream: bool, turns: &[Turn], cut: Cut) -> DecoderOutput {
    let budget = Expansion::limited(limits::EXPANDED, MORE_OPERATIONS);
    let shared = SharedContext::default().with_expansion(budget);
    let mut engine = ConnectionEngine::new(AnyDecoder::new(protocol, mid_stream, &shared), mid_stream);
    let mut output = DecoderOutput::default();
    for turn in turns {
        match turn {
            Turn::Bytes(side, bytes) => {
                let size = match cut {
                    Cut::Never => bytes.len(),
                    Cut::Half => bytes.len().div_ceil(2),
                    Cut::Seven => 7,
                    Cut::Bytewise => 1,
                };
                bytes.chunks(size).for_each(|piece| engine.bytes(*side, piece, &mut output));
            }
            Turn::Opaque(side, n) if cut == Cut::Seven && *n > 7 => {
                engine.opaque(*side, 7, &mut output);
                engine.opaque(*side, n - 7, &mut output);
            }
            Turn::Opaque(side, n) => engine.opaque(*side, *n, &mut output),
        }
    }
    engine.finish(&mut output);
    output.fields.iter_mut().for_each(Fields::end_run);
    output
}

/// A decoder's output, without what may depend on the cuts.
#[derive(Debug, Default)]
struct DecoderOutput {
    ops: Vec<Op>,
    fields: [Fields; 2],
    notes: Vec<Note>,
    software: [String; 2],
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Op {
    label: Option<(Class, String, &'static str, String)>,
    outcome: Option<Outcome>,
    amounts: [Amounts; 2],
}

/// The fields of one direction: a checksum over the sequence of runs. Neighbouring fields with the same name, account
/// and operation are one run.
#[derive(Debug, Default, PartialEq, Eq)]
struct Fields {
    groups: Vec<u64>,
    run: Option<(u64, u64)>,
    sum: u64,
}

impl Fields {
    fn end_run(&mut self) {
        if let Some((key, len)) = self.run.take() {
            self.sum = mix(mix(self.sum, key), len);
        }
    }

    fn post(&mut self, key: u64, len: u64) {
        match &mut self.run {
            Some((of, sum)) if *of == key => *sum += len,
            _ => {
                self.end_run();
                self.run = Some((key, len));
            }
        }
    }
}

fn mix_name(sum: u64, name: &str) -> u64 {
    name.bytes().fold(sum, |sum, byte| mix(sum, u64::from(byte)))
}

impl DecoderOutput {
    fn op(&mut self, op: OpId) -> &mut Op {
        &mut self.ops[op.0 as usize]
    }

    fn posted(&self, side: Side) -> u64 {
        self.ops.iter().map(|op| op.amounts[side as usize].total()).sum()
    }
}

impl Reader for DecoderOutput {
    fn open(&mut self) -> OpId {
        self.ops.push(Op::default());
        OpId(self.ops.len() as u64 - 1)
    }

    fn post(&mut self, side: Side, op: OpId, account: Account, field: &'static str, len: u64) {
        assert!(len > 0, "nothing posted as {field}");
        assert_eq!(self.op(op).outcome, None, "{field} posted to an operation that is over");
        self.op(op).amounts[side as usize][account] += len;
        let fields = &mut self.fields[side as usize];
        let group = fields.groups.last().copied().unwrap_or(0);
        fields.post(mix(mix(mix_name(group, field), op.0), account as u64), len);
    }

    fn enter(&mut self, side: Side, group: &'static str) {
        let groups = &mut self.fields[side as usize].groups;
        let outer = groups.last().copied().unwrap_or(0);
        groups.push(mix_name(mix(outer, 1), group));
    }

    fn leave(&mut self, side: Side) {
        assert!(self.fields[side as usize].groups.pop().is_some(), "a group ends that never began");
    }

    fn label(&mut self, op: OpId, label: Label<'_>) {
        let Label { class, name, via, statement } = label;
        assert_eq!(self.op(op).outcome, None, "an operation that is over becomes {name}");
        assert!(statement.len() <= limits::STATEMENT, "a statement of {} bytes", statement.len());
        self.op(op).label = Some((class, name.to_owned(), via, statement.to_owned()));
    }

    fn close(&mut self, op: OpId, outcome: Outcome) {
        assert_eq!(self.op(op).outcome, None, "an operation ends twice");
        self.op(op).outcome = Some(outcome);
    }

    fn software(&mut self, side: Side, name: &str) {
        name.clone_into(&mut self.software[side as usize]);
    }

    fn software_version(&mut self, side: Side, version: &str) {
        self.software[side as usize] += version;
    }

    fn note(&mut self, note: Note) {
        self.notes.push(note);
    }
}
