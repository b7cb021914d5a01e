//! Hostile and incomplete input: no panics, no lost bytes, no excessive memory.

use super::super::sniff;
use super::super::wire::opcode;
use super::build::*;
use super::*;
use crate::Sniff;
use overhead_decode::{Codec, Decoder, DecoderEngine, MessageBoundary, Note};
use proptest::prelude::*;

#[test]
fn rows_without_columns_do_not_spin() {
    let body = [int(2), int(4), int(0), int(u32::MAX)].concat();
    let transcript = exchange(&query(1, "SELECT"), &answer(1, opcode::RESULT, &body));
    assert_eq!(transcript.ops[0].posted(Response), "framing 18, metadata 7");
}

#[test]
fn counts_that_the_message_cannot_hold_go_to_unknown() {
    let columns = [int(2), int(1), int(u32::MAX)].concat();
    let transcript = exchange(&query(1, "SELECT"), &answer(1, opcode::RESULT, &[columns, vec![0; 50]].concat()));
    assert_eq!(transcript.ops[0].posted(Response), "framing 14, metadata 7, unknown 50");
    assert_eq!(transcript.notes, [Note::UndecodedMessage]);
    let rows = [int(2), int(4), int(1), int(u32::MAX)].concat();
    let cells = [rows, value(b"one")].concat();
    let transcript = exchange(&query(1, "SELECT"), &answer(1, opcode::RESULT, &cells));
    assert_eq!(transcript.ops[0].posted(Response), "framing 22, metadata 7, data 3");
}

#[test]
fn a_string_longer_than_its_message_goes_to_unknown() {
    let body = [&int(0x2200)[..], &short(60_000), b"no"].concat();
    let transcript = exchange(&query(1, "SELECT"), &answer(1, opcode::ERROR, &body));
    assert_eq!(transcript.summary()[0].split(": ").next(), Some("workload SELECT [query] error"));
    assert_eq!(transcript.ops[0].posted(Response), "framing 8, metadata 3, status 4, unknown 2");
}

#[test]
fn types_nested_without_end_are_given_up() {
    let deep = native(0x20).repeat(5000);
    let transcript = exchange(&query(1, "SELECT"), &rows(1, "k", &[("a", deep)], &[value(&[1; 4])]));
    assert_eq!(bytes_of(&transcript, Response, Account::Schema), 3 + 1 + 1 + 2 * 128);
    let class = class_of(&"ListType(".repeat(6000));
    let transcript = exchange(&query(1, "SELECT"), &rows(1, "k", &[("a", class)], &[value(&[1; 4])]));
    assert_eq!(bytes_of(&transcript, Response, Account::Data), 4);
    let tuples = [&short(0x31)[..], &short(u16::MAX)].concat().repeat(100);
    let transcript = exchange(&query(1, "SELECT"), &rows(1, "k", &[("a", tuples)], &[value(&[1; 4])]));
    assert!(bytes_of(&transcript, Response, Account::Unknown) > 0);
}

#[test]
fn a_decompressed_length_out_of_proportion_is_not_believed() {
    let body = [int(u32::MAX).to_vec(), vec![0; 20]].concat();
    let transcript = decode(&[
        (Request, &ask(0, opcode::STARTUP, &map(&[("COMPRESSION", "lz4")]))),
        (Request, &message(4, 1, 1, opcode::QUERY, &body)),
    ]);
    assert_eq!(transcript.ops[1].posted(Request), "framing 6, metadata 3, unknown 24");
    assert_eq!(transcript.notes, [Note::Implausible(Codec::Lz4), Note::UndecodedMessage]);
}

#[test]
fn a_message_in_crumbs_is_gathered_in_linear_time() {
    let response = message(0x85, 0, 1, opcode::RESULT, &vec![b'x'; 200_000]);
    let (start, rest) = response.split_at(50);
    let mut crumbs = segment(false, start);
    crumbs.extend(rest.chunks(1).flat_map(|crumb| segment(false, crumb)));
    let mut engine = DecoderEngine::new(Cql::new(true), true);
    let mut transcript = Transcript::default();
    for bytes in crumbs.chunks(11) {
        engine.bytes(Response, bytes, &mut transcript);
    }
    engine.finish(&mut transcript);
    assert_eq!(transcript.total(Response), crumbs.len() as u64);
    assert_eq!(bytes_of(&transcript, Response, Account::Framing), (1 + rest.len() as u64) * 10 + 6 + 4);
}

#[test]
fn what_is_not_a_header_ends_the_direction() {
    for (bytes, reason) in [
        (&b"GET / HTTP/1.1\r\n"[..], "not a protocol version of this direction"),
        (&[4, 0, 0, 0, 0x33, 0, 0, 0, 0][..], "not an opcode of this direction"),
        (&[4, 0, 0, 0, opcode::READY, 0, 0, 0, 0][..], "not an opcode of this direction"),
        (&[4, 0, 0, 0, 7, 0x7F, 0, 0, 0][..], "a body longer than the protocol allows"),
    ] {
        let transcript = decode(&[(Request, bytes)]);
        assert_eq!(transcript.notes, [Note::Malformed(reason)]);
        assert_eq!(bytes_of(&transcript, Request, Account::Unknown), bytes.len() as u64);
    }
}

#[test]
fn a_body_longer_than_its_contents_is_unknown_at_its_end() {
    let transcript = exchange(&query(1, "SELECT"), &answer(1, opcode::READY, &[1, 2, 3]));
    assert_eq!(transcript.ops[0].posted(Response), "framing 6, metadata 3, unknown 3");
}

#[test]
fn a_snapped_message_keeps_what_its_lengths_say() {
    let mut engine = DecoderEngine::new(Cql::new(false), false);
    let mut transcript = Transcript::default();
    let long = query(1, &format!("SELECT a FROM t WHERE b = '{}'", "x".repeat(500)));
    engine.bytes(Request, &long[..60], &mut transcript);
    engine.opaque(Request, long.len() as u64 - 60, &mut transcript);
    engine.bytes(Request, &query(2, "DELETE FROM t"), &mut transcript);
    engine.finish(&mut transcript);
    assert_eq!(transcript.ops[0].posted(Request), "framing 10, metadata 5, query 528, unknown 1");
    let names: Vec<_> = transcript.ops.iter().map(overhead_testing::transcript::Entry::name).collect();
    assert_eq!(names, ["SELECT", "DELETE"]);
}

#[test]
fn a_statement_is_known_although_its_description_was_snapped_behind_its_markers() {
    let columns = [("ids", list_of(&native(INT)))];
    let response = prepared(1, &[7; 16], "lab", &columns, &columns);
    let mut engine = DecoderEngine::new(Cql::new(false), false);
    let mut transcript = Transcript::default();
    engine.bytes(Request, &prepare(1, "DELETE FROM t WHERE ids = ?"), &mut transcript);
    engine.bytes(Response, &response[..65], &mut transcript);
    engine.opaque(Response, response.len() as u64 - 65, &mut transcript);
    let values = [value(&elements(1, &[value(&[0; 4])]))];
    engine.bytes(Request, &execute(2, &[7; 16], 0, &values), &mut transcript);
    engine.finish(&mut transcript);
    assert_eq!(transcript.ops[1].name(), "DELETE");
    assert_eq!(transcript.ops[1].posted(Request), "framing 22, metadata 22, data 4");
}

#[test]
fn the_next_message_is_found_after_a_gap() {
    let mut engine = DecoderEngine::new(Cql::new(false), false);
    let mut transcript = Transcript::default();
    let text = "SELECT a FROM t WHERE b = 'some long text'";
    engine.bytes(Request, &query(1, text), &mut transcript);
    engine.opaque(Request, 1000, &mut transcript);
    engine.bytes(Request, &query(2, text)[20..], &mut transcript);
    engine.bytes(Request, &query(3, text), &mut transcript);
    engine.finish(&mut transcript);
    assert_eq!(bytes_of(&transcript, Request, Account::Query), 2 * text.len() as u64);
    assert_eq!(bytes_of(&transcript, Request, Account::Unknown), 1000 + query(2, text).len() as u64 - 20);
}

#[test]
fn every_message_of_these_tests_begins_one() {
    let decoder = Cql::new(true);
    let requests = [
        query(1, "SELECT"),
        prepare(1, "SELECT"),
        execute(1, &[1; 16], 0, &[]),
        ask(1, opcode::OPTIONS, &[]),
        ask(1, opcode::STARTUP, &map(&[("CQL_VERSION", "3.0.0")])),
        ask(1, opcode::REGISTER, &[&short(1)[..], &string("STATUS_CHANGE")].concat()),
        ask(1, opcode::AUTH_RESPONSE, &value(b"token")),
    ];
    for message in requests {
        assert_eq!(decoder.boundary(Request, &message), MessageBoundary::Yes, "{message:02x?}");
        assert_eq!(decoder.boundary(Response, &message), MessageBoundary::No, "{message:02x?}");
        assert_eq!(sniff(&message), Sniff::Request);
    }
    let responses = [
        void(1),
        answer(1, opcode::READY, &[]),
        answer(1, opcode::ERROR, &[&int(0)[..], &string("no")].concat()),
        answer(1, opcode::AUTH_SUCCESS, &null()),
        message(0x84, 2, 1, opcode::RESULT, &[&[0; 16][..], &int(1)].concat()),
    ];
    for message in responses {
        assert_eq!(decoder.boundary(Response, &message), MessageBoundary::Yes, "{message:02x?}");
        assert_eq!(sniff(&message), Sniff::Response);
        assert_eq!(sniff(&message[..5]), Sniff::More);
    }
    assert_eq!(sniff(b"*1\r\n$4\r\nPING\r\n"), Sniff::No);
    assert_eq!(sniff(b"\0\0\0\x08\x04\xd2\x16\x2f"), Sniff::No);
}

/// A conversation with all features, to be damaged.
fn rich() -> Vec<(Side, Vec<u8>)> {
    let columns = [
        ("a", map_of(&native(TEXT), &tuple_of(&[native(INT), list_of(&native(INT))]))),
        ("b", class_of("VectorType(UTF8Type, 2)")),
    ];
    let cells = [
        value(&elements(1, &[value(b"k"), value(&[value(&[0; 4]), value(&elements(1, &[value(&[0; 4])]))].concat())])),
        value(&[1, b'x', 1, b'y']),
    ];
    let mut batch = vec![0, 0, 1, 1];
    batch.extend([short(4).to_vec(), vec![9; 4], short(1).to_vec(), null(), vec![0, 1, 0]].concat());
    let mut conversation = vec![
        (Request, ask(0, opcode::STARTUP, &map(&[("CQL_VERSION", "3.0.0"), ("COMPRESSION", "lz4")]))),
        (Response, answer(0, opcode::READY, &[])),
        (Request, prepare(1, "SELECT a, b FROM lab.tab WHERE a = ? AND b = ?")),
        (Response, prepared(1, &[9; 4], "lab", &columns, &columns)),
        (Request, execute(2, &[9; 4], 2, &cells)),
        (Response, bare_rows(2, 2, &cells)),
        (Request, ask(3, opcode::BATCH, &batch)),
        (Response, answer(3, opcode::ERROR, &[&int(0x2500)[..], &string("no"), &short(4), &[9; 4]].concat())),
    ];
    let packed = lz4_flex::block::compress(&rows(4, "lab", &columns, &cells)[9..]);
    let length = rows(4, "lab", &columns, &cells).len() as u32 - 9;
    conversation.push((Request, query(4, "SELECT a, b FROM lab.tab")));
    conversation.push((Response, message(0x84, 1, 4, opcode::RESULT, &[&int(length)[..], &packed].concat())));
    conversation
}

fn rich_segments() -> Vec<(Side, Vec<u8>)> {
    let mut conversation = vec![
        (Request, message(5, 0, 0, opcode::STARTUP, &map(&[("COMPRESSION", "lz4")]))),
        (Response, message(0x85, 0, 0, opcode::READY, &[])),
    ];
    for (side, mut bytes) in rich().into_iter().skip(2) {
        bytes[0] += 1;
        let packed = lz4_flex::block::compress(&bytes);
        let wrapped = match bytes.len() % 3 {
            0 => packed_segment(true, 0, &bytes),
            1 => packed_segment(true, bytes.len(), &packed),
            _ => bytes.chunks(20).flat_map(|piece| packed_segment(false, 0, piece)).collect(),
        };
        conversation.push((side, wrapped));
    }
    conversation
}

#[test]
fn a_rich_conversation_is_decoded_without_a_doubt() {
    let conversation = rich();
    let conversation: Vec<_> = conversation.iter().map(|(side, bytes)| (*side, bytes.as_slice())).collect();
    let transcript = decode(&conversation);
    assert_eq!(transcript.notes, [Note::ProRata]);
    let names: Vec<_> = transcript.ops.iter().map(overhead_testing::transcript::Entry::name).collect();
    assert_eq!(names, ["STARTUP", "PREPARE", "SELECT", "BATCH", "SELECT"]);
}

/// Asserts that all bytes are posted, however they are split or lost.
fn assert_conserved(conversation: &[(Side, Vec<u8>)], mid_stream: bool, cut: usize, lost: Option<(usize, u64)>) {
    let mut engine = DecoderEngine::new(Cql::new(mid_stream), mid_stream);
    let mut transcript = Transcript::default();
    let mut sent = [0; 2];
    for (turn, (side, bytes)) in conversation.iter().enumerate() {
        for piece in bytes.chunks(cut.max(1)) {
            engine.bytes(*side, piece, &mut transcript);
        }
        sent[*side as usize] += bytes.len() as u64;
        if let Some((at, opaque)) = lost
            && at % conversation.len() == turn
        {
            engine.opaque(*side, opaque, &mut transcript);
            sent[*side as usize] += opaque;
        }
    }
    engine.finish(&mut transcript);
    assert_eq!(Side::BOTH.map(|side| transcript.total(side)), sent);
}

fn anything() -> impl Strategy<Value = Vec<(Side, Vec<u8>)>> {
    let side = prop_oneof![Just(Request), Just(Response)];
    let header = (1_u8..7, any::<u8>(), 0_i16..4, 0_u8..17, prop::collection::vec(any::<u8>(), 0..80));
    let bytes = prop_oneof![
        prop::collection::vec(any::<u8>(), 0..120),
        header.prop_map(|(version, flags, stream, opcode, body)| message(version, flags, stream, opcode, &body)),
        prop::collection::vec(any::<u8>(), 0..80).prop_map(|payload| segment(true, &payload)),
        prop::collection::vec(any::<u8>(), 0..80).prop_map(|payload| packed_segment(false, 300, &payload)),
    ];
    let answered = |(side, mut bytes): (Side, Vec<u8>)| {
        if let (Response, Some(first)) = (side, bytes.first_mut()) {
            *first |= 0x80;
        }
        (side, bytes)
    };
    prop::collection::vec((side, bytes).prop_map(answered), 0..12)
}

proptest! {
    #[test]
    fn any_bytes_are_posted(conversation in anything(), mid_stream: bool, cut in 1_usize..64, lost in any::<Option<(usize, u16)>>()) {
        let lost = lost.map(|(at, bytes)| (at, u64::from(bytes)));
        assert_conserved(&conversation, mid_stream, cut, lost);
    }

    #[test]
    fn damaged_conversations_are_posted(
        segments: bool,
        damage in prop::collection::vec((any::<usize>(), any::<usize>(), any::<u8>()), 1..6),
        cut in 1_usize..200,
        lost in any::<Option<(usize, u8)>>(),
    ) {
        let mut conversation = if segments { rich_segments() } else { rich() };
        for (turn, at, bits) in damage {
            let turns = conversation.len();
            let bytes = &mut conversation[turn % turns].1;
            let length = bytes.len();
            bytes[at % length] ^= bits;
        }
        assert_conserved(&conversation, false, cut, lost.map(|(at, bytes)| (at, u64::from(bytes))));
    }

    #[test]
    fn segments_change_nothing_but_framing(cuts in prop::collection::vec(10_usize..120, 1..20), contained: bool) {
        let plain = |side: Side| {
            let messages = rich().into_iter().filter(|(of, _)| *of == side).map(|(_, bytes)| bytes);
            messages.skip(1).take(3).map(|mut bytes| { bytes[0] += 1; bytes }).collect::<Vec<_>>()
        };
        let startup = message(5, 0, 0, opcode::STARTUP, &map(&[]));
        let ready = message(0x85, 0, 0, opcode::READY, &[]);
        let mut bare = vec![(Request, startup.clone()), (Response, ready.clone())];
        let mut wrapped = bare.clone();
        for (turn, (request, response)) in plain(Request).into_iter().zip(plain(Response)).enumerate() {
            for (side, bytes) in [(Request, request), (Response, response)] {
                let cut = cuts[turn % cuts.len()];
                let segments = if contained { segment(true, &bytes) } else {
                    bytes.chunks(cut).flat_map(|piece| segment(false, piece)).collect()
                };
                bare.push((side, bytes));
                wrapped.push((side, segments));
            }
        }
        let run = |conversation: &[(Side, Vec<u8>)]| {
            let conversation: Vec<_> = conversation.iter().map(|(side, bytes)| (*side, bytes.as_slice())).collect();
            let transcript = Transcript::of(Cql::new(false), &conversation);
            let accounts = [Account::Metadata, Account::Schema, Account::Query, Account::Data, Account::Status, Account::Unknown];
            let amounts: Vec<_> = transcript.ops.iter().map(|op| Side::BOTH.map(|side| accounts.map(|account| op.amounts[side as usize][account]))).collect();
            let labels: Vec<_> = transcript.ops.iter().map(|op| (op.label.clone(), op.outcome)).collect();
            (amounts, labels, transcript.notes)
        };
        prop_assert_eq!(run(&bare), run(&wrapped));
    }
}
