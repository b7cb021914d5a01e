//! Version 5: messages within segments.

use super::super::segment::{CqlSegment, SegmentFormat};
use super::super::sniff;
use super::super::wire::opcode;
use super::build::*;
use super::*;
use crate::Sniff;
use overhead_decode::{DecoderEngine, Expansion, Note};

fn v5(mut bytes: Vec<u8>) -> Vec<u8> {
    bytes[0] += 1;
    bytes
}

fn handshake(options: &[(&str, &str)]) -> [(Side, Vec<u8>); 2] {
    [(Request, v5(ask(0, opcode::STARTUP, &map(options)))), (Response, v5(answer(0, opcode::READY, &[])))]
}

fn select(stream: i16) -> Vec<u8> {
    let body = [long_string("SELECT a FROM lab.t"), vec![0, 1, 0, 0, 0, 0]].concat();
    v5(ask(stream, opcode::QUERY, &body))
}

fn text_rows(stream: i16, length: usize) -> Vec<u8> {
    v5(rows(stream, "lab", &[("a", native(TEXT))], &[value(&vec![b'x'; length])]))
}

/// Runs a conversation and omits the handshake.
fn converse(options: &[(&str, &str)], rest: &[(Side, Vec<u8>)]) -> Transcript {
    let all = [&handshake(options), rest].concat();
    let all: Vec<_> = all.iter().map(|(side, bytes)| (*side, bytes.as_slice())).collect();
    decode(&all)
}

const PLAIN: [(&str, &str); 1] = [("CQL_VERSION", "3.0.0")];
const LZ4: [(&str, &str); 2] = [("CQL_VERSION", "3.0.0"), ("COMPRESSION", "lz4")];

#[test]
fn the_header_carries_length_flag_and_checksum() {
    let bytes = segment(true, &[7; 300]);
    // Checksums computed independently.
    assert_eq!(bytes[..6], [0x2C, 0x01, 0x02, 0xDB, 0xF5, 0x1C]);
    assert_eq!(bytes[306..], 0x4FE7_344E_u32.to_le_bytes());
    let read = CqlSegment::read(&bytes, SegmentFormat::Plain).unwrap();
    assert_eq!((read.wire, read.length, read.packed, read.self_contained), (300, 300, false, true));
    assert_eq!(read.total(), bytes.len() as u64);
    let bytes = packed_segment(false, 131_071, &[7; 9]);
    let read = CqlSegment::read(&bytes, SegmentFormat::Compressed).unwrap();
    assert_eq!((read.wire, read.length, read.packed, read.self_contained), (9, 131_071, true, false));
    assert_eq!(CqlSegment::read(&bytes, SegmentFormat::Plain), None);
}

#[test]
fn one_message_in_a_segment_has_all_of_its_overhead() {
    let transcript =
        converse(&PLAIN, &[(Request, segment(true, &select(1))), (Response, segment(true, &text_rows(1, 9)))]);
    assert_eq!(
        transcript.summary()[1],
        "workload SELECT [query] ok: framing 20, metadata 9, query 19 | framing 38, metadata 7, schema 9, data 9"
    );
    assert_eq!(posted(&transcript, Request, "segment header"), [(Account::Framing, 6)]);
    assert_eq!(posted(&transcript, Request, "segment checksum"), [(Account::Framing, 4)]);
}

#[test]
fn messages_share_the_overhead_of_their_segment_by_their_bytes() {
    let requests = [select(1), select(2), select(3)].concat();
    let responses = [text_rows(3, 0), v5(void(1))].concat();
    let rest = [(Request, segment(true, &requests)), (Response, segment(true, &responses))];
    let transcript = converse(&PLAIN, &rest);
    let overhead = |op: usize, side: Side| {
        let postings = transcript.postings[side as usize].iter().filter(|posting| posting.op.0 == op as u64);
        postings.filter(|posting| posting.path.starts_with("segment")).map(|posting| posting.len).sum::<u64>()
    };
    // 10 bytes over three messages of 38 bytes each; over 44 and 13 bytes.
    assert_eq!([1, 2, 3].map(|op| overhead(op, Request)), [4, 3, 3]);
    assert_eq!([1, 2, 3].map(|op| overhead(op, Response)), [2, 0, 8]);
    let outcomes: Vec<_> = transcript.ops.iter().map(|op| op.outcome.is_some()).collect();
    assert_eq!(outcomes, [true, true, false, true]);
}

#[test]
fn a_message_over_several_segments_is_decoded_as_one() {
    let response = text_rows(1, 500);
    let pieces: Vec<u8> = response.chunks(200).flat_map(|piece| segment(false, piece)).collect();
    let transcript = converse(&PLAIN, &[(Request, segment(true, &select(1))), (Response, pieces)]);
    assert_eq!(transcript.ops[1].posted(Response), "framing 58, metadata 7, schema 9, data 500");
    // In wire order: the text continues after the second and third header.
    let fields: Vec<_> = transcript.postings[1].iter().map(|posting| (posting.path.as_str(), posting.len)).collect();
    assert_eq!(
        fields[fields.len() - 9..],
        [
            ("RESULT.rows.value length", 4),
            ("RESULT.rows.value", 156),
            ("RESULT.rows.segment checksum", 4),
            ("RESULT.rows.segment header", 6),
            ("RESULT.rows.value", 200),
            ("RESULT.rows.segment checksum", 4),
            ("RESULT.rows.segment header", 6),
            ("RESULT.rows.value", 144),
            ("segment checksum", 4),
        ]
    );
    assert!(transcript.notes.is_empty());
}

#[test]
fn compressed_segments_are_shared_in_proportion() {
    let responses = [text_rows(2, 1000), v5(void(1))].concat();
    let packed = lz4_flex::block::compress(&responses);
    let rest = [
        (Request, packed_segment(true, 0, &[select(1), select(2)].concat())),
        (Response, packed_segment(true, responses.len(), &packed)),
    ];
    let transcript = converse(&LZ4, &rest);
    assert_eq!(transcript.ops[1].posted(Request), "framing 16, metadata 9, query 19");
    let wire = packed.len() as f64;
    let data = bytes_of(&transcript, Response, Account::Data) as f64;
    assert!((data - 1000.0 * wire / responses.len() as f64).abs() < 1.0, "{data} of {wire}");
    let status = bytes_of(&transcript, Response, Account::Status) as f64;
    assert!((status - 4.0 * wire / responses.len() as f64).abs() < 1.0, "{status} of {wire}");
    assert_eq!(transcript.notes, [Note::ProRata]);
}

#[test]
fn a_long_message_may_be_compressed_segment_by_segment() {
    let response = text_rows(1, 700);
    let pieces = response.chunks(300).flat_map(|piece| {
        let packed = lz4_flex::block::compress(piece);
        packed_segment(false, piece.len(), &packed)
    });
    let pieces: Vec<u8> = pieces.collect();
    let transcript = converse(&LZ4, &[(Request, packed_segment(true, 0, &select(1))), (Response, pieces)]);
    assert_eq!(transcript.ops[1].name(), "SELECT");
    assert!(transcript.ops[1].outcome.is_some());
    assert_eq!(bytes_of(&transcript, Response, Account::Unknown), 0);
}

#[test]
fn a_message_longer_than_what_is_gathered_keeps_the_boundary_of_the_next() {
    let response = text_rows(1, 6 << 20);
    let pieces: Vec<u8> = response.chunks(131_071).flat_map(|piece| segment(false, piece)).collect();
    let mut engine = DecoderEngine::new(Cql::new(false), false);
    let mut transcript = Transcript::default();
    for (side, bytes) in handshake(&PLAIN) {
        engine.bytes(side, &bytes, &mut transcript);
    }
    engine.bytes(Request, &segment(true, &[select(1), select(2)].concat()), &mut transcript);
    for bytes in pieces.chunks(60_000) {
        engine.bytes(Response, bytes, &mut transcript);
    }
    engine.bytes(Response, &segment(true, &v5(void(2))), &mut transcript);
    engine.finish(&mut transcript);
    assert!(transcript.ops.iter().all(|op| op.outcome.is_some()));
    assert_eq!(bytes_of(&transcript, Response, Account::Status), 4);
    assert_eq!(transcript.total(Response), 9 + pieces.len() as u64 + 23);
    assert_eq!(transcript.ops.len(), 3);
}

#[test]
fn a_damaged_payload_is_unknown_and_costs_nothing_else() {
    let mut damaged = segment(true, &v5(void(1)));
    damaged[10] ^= 1;
    let rest = [
        (Request, segment(true, &[select(1), select(2)].concat())),
        (Response, [damaged, segment(true, &v5(void(2)))].concat()),
    ];
    let transcript = converse(&PLAIN, &rest);
    assert_eq!(transcript.ops[1].outcome, None);
    assert!(transcript.ops[2].outcome.is_some());
    assert_eq!(bytes_of(&transcript, Response, Account::Unknown), 13);
    assert_eq!(transcript.notes, [Note::UndecodedMessage]);
}

#[test]
fn a_damaged_header_ends_the_direction() {
    let mut damaged = segment(true, &v5(void(1)));
    damaged[1] ^= 1;
    let requests = segment(true, &[select(1), select(2)].concat());
    let responses = [segment(true, &v5(void(2))), damaged].concat();
    let transcript = converse(&PLAIN, &[(Request, requests), (Response, responses)]);
    assert_eq!(transcript.notes, [Note::Malformed("a segment header with a wrong checksum")]);
}

#[test]
fn a_segment_is_recognised_by_its_checksum_and_its_first_message() {
    type Pack = fn(&[u8]) -> Vec<u8>;
    let packs: [Pack; 3] = [
        |message| segment(true, message),
        |message| packed_segment(true, 0, message),
        |message| packed_segment(true, message.len(), &lz4_flex::block::compress(message)),
    ];
    for pack in packs {
        let sniffed = [select(1), v5(void(1))].map(|message| sniff(&pack(&message)));
        assert_eq!(sniffed, [Sniff::Request, Sniff::Response]);
    }
    assert_eq!(sniff(&segment(false, b"the rest of a message")), Sniff::No);
}

#[test]
fn segments_are_found_in_the_midst_of_a_connection() {
    let half = &segment(false, &text_rows(9, 400))[100..];
    for wrap in [segment, |whole, payload: &[u8]| packed_segment(whole, 0, payload)] {
        let mut engine = DecoderEngine::new(Cql::new(true), true);
        let mut transcript = Transcript::default();
        engine.bytes(Request, &wrap(true, &select(1)), &mut transcript);
        engine.bytes(Response, half, &mut transcript);
        engine.bytes(Response, &wrap(true, &v5(void(1))), &mut transcript);
        engine.finish(&mut transcript);
        let ok = transcript.ops.iter().find(|op| op.name() == "SELECT").unwrap();
        assert!(ok.outcome.is_some());
        assert_eq!(bytes_of(&transcript, Response, Account::Unknown), half.len() as u64);
    }
}

#[test]
fn a_piece_of_a_message_whose_start_was_lost_is_unknown() {
    let response = text_rows(9, 400);
    let transcript =
        decode_later(&[(Response, &segment(false, &response[200..])), (Response, &segment(true, &v5(void(1))))]);
    assert_eq!(
        transcript.summary(),
        [
            "unmatched (undecoded) [] noreply:  | framing 10, unknown 244",
            "unmatched RESULT [] ok:  | framing 16, metadata 3, status 4",
        ]
    );
}

#[test]
fn a_refused_version_leaves_the_connection_to_the_next() {
    let refusal = [&int(0x0A)[..], &string("unsupported")].concat();
    let transcript = decode(&[
        (Request, &v5(ask(0, opcode::STARTUP, &map(&PLAIN)))),
        (Response, &answer(0, opcode::ERROR, &refusal)),
        (Request, &ask(0, opcode::STARTUP, &map(&PLAIN))),
        (Response, &answer(0, opcode::READY, &[])),
        (Request, &query(1, "SELECT a FROM t")),
        (Response, &void(1)),
    ]);
    let outcomes: Vec<_> = transcript.ops.iter().map(|op| (op.name(), op.outcome.is_some())).collect();
    assert_eq!(outcomes, [("STARTUP", true), ("STARTUP", true), ("SELECT", true)]);
}

#[test]
fn a_request_captured_before_the_ready_that_it_follows_changes_nothing() {
    let [startup, ready] = handshake(&PLAIN);
    let request = (Request, segment(true, &select(1)));
    let response = (Response, segment(true, &v5(void(1))));
    let run = |order: [&(Side, Vec<u8>); 4]| decode(&order.map(|(side, bytes)| (*side, bytes.as_slice()))).summary();
    assert_eq!(run([&startup, &ready, &request, &response]), run([&startup, &request, &ready, &response]));
}

#[test]
fn a_snapped_segment_is_counted_by_its_lengths() {
    let response = segment(true, &text_rows(1, 300));
    let mut engine = DecoderEngine::new(Cql::new(false), false);
    let mut transcript = Transcript::default();
    for (side, bytes) in handshake(&PLAIN) {
        engine.bytes(side, &bytes, &mut transcript);
    }
    engine.bytes(Request, &segment(true, &[select(1), select(2)].concat()), &mut transcript);
    engine.bytes(Response, &response[..80], &mut transcript);
    engine.opaque(Response, response.len() as u64 - 80, &mut transcript);
    engine.bytes(Response, &segment(true, &v5(void(2))), &mut transcript);
    engine.finish(&mut transcript);
    assert_eq!(transcript.ops[1].posted(Response), "framing 38, metadata 7, schema 9, data 300");
    assert!(transcript.ops.iter().all(|op| op.outcome.is_some()));
}

#[test]
fn messages_beyond_one_for_each_byte_of_a_segment_have_one_budget() {
    let shared = SharedContext::default().with_expansion(Expansion::limited(1 << 20, 1_000));
    let mut engine = DecoderEngine::new(Cql::sharing(false, shared), false);
    let mut transcript = Transcript::default();
    let events = v5(answer(-1, opcode::EVENT, &[])).repeat(500);
    let events = packed_segment(true, events.len(), &lz4_flex::block::compress(&events));
    let talk = [&handshake(&LZ4), vec![(Response, events.clone()); 4].as_slice()].concat();
    for (side, bytes) in &talk {
        engine.bytes(*side, bytes, &mut transcript);
    }
    engine.finish(&mut transcript);
    let decoded = 1_000 + 4 * events.len();
    let found = transcript.ops.iter().filter(|op| op.name() == "EVENT").count();
    assert!(found.abs_diff(decoded) < 8, "{found} events, not {decoded}");
    assert_eq!(transcript.notes.iter().filter(|note| **note == Note::ManyOperations).count(), 2);
    let posted: u64 = transcript.ops.iter().map(|op| op.amounts[1].total()).sum();
    assert_eq!(
        posted,
        talk.iter().filter(|(side, _)| *side == Response).map(|(_, bytes)| bytes.len() as u64).sum::<u64>()
    );
}
