//! Compressed packets.

use super::*;
use overhead_decode::Expansion;
use overhead_decode::limits::PACKED_OPERATIONS;
use overhead_model::{Account, Outcome};
use overhead_testing::transcript::Entry;
use std::io::Write as _;

fn zlib(sequence: u8, content: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(content).unwrap();
    laid(sequence, content.len(), &encoder.finish().unwrap())
}

fn zstd(sequence: u8, content: &[u8]) -> Vec<u8> {
    laid(sequence, content.len(), &::zstd::bulk::compress(content, 3).unwrap())
}

fn stored(sequence: u8, content: &[u8]) -> Vec<u8> {
    laid(sequence, 0, content)
}

fn laid(sequence: u8, content: usize, wire: &[u8]) -> Vec<u8> {
    let (wire_length, length) = ((wire.len() as u32).to_le_bytes(), (content as u32).to_le_bytes());
    [&wire_length[..3], &[sequence], &length[..3], wire].concat()
}

fn rows() -> Vec<u8> {
    let cell = text(&[b'x'; 200]);
    let rows: Vec<Vec<u8>> = (0..40).map(|_| cell.clone()).collect();
    packets(1, &[vec![vec![1], column(253)], rows, vec![end(2)]].concat())
}

const COMPRESSED: u64 = MODERN | capability::COMPRESS;

#[test]
fn content_is_posted_in_proportion() {
    for compress in [zlib, zstd] {
        let (request, response) = (stored(0, &query("SELECT a FROM t")), compress(1, &rows()));
        let transcript = said(COMPRESSED, &[(C, &request), (S, &response)]);
        let op = &transcript.ops[1];
        assert_eq!(op.posted(C), "framing 12, query 15");
        assert_eq!(op.outcome, Some(Outcome::Ok));
        assert_eq!(op.amounts[1].total(), response.len() as u64);
        assert!(op.amounts[1][Account::Data] > 20, "{}", op.posted(S));
        assert_eq!(transcript.notes, [Note::ProRata]);
    }
}

#[test]
fn packets_end_anywhere_in_the_content() {
    let rows = rows();
    let pieces: Vec<Vec<u8>> = rows.chunks(1000).zip(1..).map(|(piece, number)| zlib(number, piece)).collect();
    let mut talk: Vec<(Side, Vec<u8>)> = vec![(C, stored(0, &query("SELECT a FROM t")))];
    talk.extend(pieces.into_iter().map(|piece| (S, piece)));
    talk.push((C, stored(0, &packet(0, b"\x0e"))));
    talk.push((S, stored(1, &packet(1, &ok(0, 0, 2)))));
    let talk: Vec<(Side, &[u8])> = talk.iter().map(|(side, bytes)| (*side, bytes.as_slice())).collect();
    let transcript = said(COMPRESSED, &talk);
    let outcomes: Vec<_> = transcript.ops.iter().map(|op| (op.name(), op.outcome)).collect();
    let ok = Some(Outcome::Ok);
    assert_eq!(outcomes, [("STARTUP", ok), ("SELECT", ok), ("PING", ok)]);
}

#[test]
fn commands_share_a_packet() {
    let requests = [query("SELECT 1"), packet(0, b"\x19\x01\0\0\0"), packet(0, b"\x0e")].concat();
    let answers = [packet(1, &err()), packet(1, &ok(0, 0, 2))].concat();
    let summary = summary(COMPRESSED, &[(C, &stored(0, &requests)), (S, &stored(1, &answers))]);
    assert_eq!(
        summary,
        [
            "workload SELECT [text] error: framing 9, query 8 | framing 8, status 15",
            "setup CLOSE [prepared] noreply: framing 7, metadata 4 | ",
            "workload PING [] ok: framing 6 | framing 7, status 7"
        ]
    );
}

#[test]
fn without_a_login_the_first_packet_tells() {
    let rows = zlib(1, &rows());
    for talk in [
        vec![(C, stored(0, &query("SELECT a FROM t"))), (S, rows.clone())],
        vec![(S, rows.clone()), (C, stored(0, &query("SELECT a FROM t"))), (S, rows)],
    ] {
        let talk: Vec<(Side, &[u8])> = talk.iter().map(|(side, bytes)| (*side, bytes.as_slice())).collect();
        let transcript = mid_stream(&talk);
        let select = transcript.ops.iter().find(|op| op.name() == "SELECT").unwrap();
        assert_eq!(select.outcome, Some(Outcome::Ok), "{:?}", transcript.summary());
        assert!(transcript.notes.iter().all(|note| *note == Note::ProRata), "{:?}", transcript.notes);
    }
}

#[test]
fn what_does_not_decompress_is_unknown_and_the_next_packet_is_found() {
    let mut broken = zlib(1, &rows());
    let middle = broken.len() / 2;
    broken[middle] ^= 0xff;
    let talk = [
        (C, stored(0, &query("SELECT a FROM t"))),
        (S, broken),
        (C, stored(0, &query("SELECT 1"))),
        (S, stored(1, &packet(1, &err()))),
    ];
    let talk: Vec<(Side, &[u8])> = talk.iter().map(|(side, bytes)| (*side, bytes.as_slice())).collect();
    let transcript = said(COMPRESSED, &talk);
    let outcomes: Vec<_> = transcript.ops.iter().map(|op| (op.name(), op.outcome)).collect();
    let (un, error) = (Some(Outcome::Unanswered), Some(Outcome::Error));
    assert_eq!(outcomes[1], ("SELECT", un), "{:?}", transcript.summary());
    assert_eq!(outcomes.last(), Some(&("SELECT", error)), "{:?}", transcript.summary());
    assert!(transcript.notes.contains(&Note::UndecodedMessage));
}

/// Plays a conversation once, after a login with compression. Returns the transcript, and the decoder's memory before its end.
fn once(shared: &SharedContext, talk: &[(Side, Vec<u8>)]) -> (Transcript, usize) {
    let mut engine = DecoderEngine::new(Mysql::sharing(false, shared), false);
    let mut transcript = Transcript::default();
    let whole = [login(COMPRESSED).as_slice(), talk].concat();
    for (side, bytes) in &whole {
        engine.bytes(*side, bytes, &mut transcript);
    }
    let held = engine.held();
    engine.finish(&mut transcript);
    for side in Side::BOTH {
        let sent = whole.iter().filter(|(of, _)| *of == side).map(|(_, bytes)| bytes.len() as u64);
        assert_eq!(transcript.ops.iter().map(|op| op.amounts[side as usize].total()).sum::<u64>(), sent.sum::<u64>());
    }
    (transcript, held)
}

#[test]
fn what_follows_the_most_operations_of_a_packet_is_unknown() {
    let last = [(C, stored(0, &query("SELECT 1"))), (S, stored(1, &packet(1, &err())))];
    let many = PACKED_OPERATIONS as usize * 3;
    for (first, content) in [(S, packet(1, &ok(0, 0, 2)).repeat(many)), (C, packet(0, b"\x0e").repeat(many))] {
        for compress in [zlib, stored] {
            let talk = [&[(first, compress(u8::from(first == S), &content))], last.as_slice()].concat();
            let (transcript, _) = once(&SharedContext::default(), &talk);
            assert!(transcript.notes.contains(&Note::ManyOperations), "{:?}", transcript.notes);
            assert!(
                (transcript.ops.len() as u64).abs_diff(PACKED_OPERATIONS) < 8,
                "{} operations",
                transcript.ops.len()
            );
            let unknown = |op: &Entry| op.amounts[first as usize][Account::Unknown];
            let unknown: u64 = transcript.ops.iter().map(unknown).sum();
            assert!(unknown * 2 > talk[0].1.len() as u64, "{unknown} of {}", talk[0].1.len());
            let next = transcript.ops.iter().rfind(|op| op.name() == "SELECT").unwrap();
            // The answer to one of many that wait goes to the first.
            assert!(first == C || next.outcome == Some(Outcome::Error), "{:?}", next.outcome);
        }
    }
}

#[test]
fn operations_beyond_one_for_each_byte_have_one_budget() {
    let shared = SharedContext::default().with_expansion(Expansion::limited(1 << 20, 1_000));
    let pings = zlib(0, &packet(0, b"\x0e").repeat(500));
    let (transcript, _) = once(&shared, &vec![(C, pings.clone()); 4]);
    let decoded = 1_000 + 4 * pings.len();
    let pings = transcript.ops.iter().filter(|op| op.name() == "PING").count();
    assert!(pings.abs_diff(decoded) < 8, "{pings} operations, not {decoded}");
    assert_eq!(transcript.notes.iter().filter(|note| **note == Note::ManyOperations).count(), 2);
}

#[test]
fn a_pipeline_of_ten_thousand_commands_in_a_packet_is_exact() {
    let asked = zlib(0, &packet(0, b"\x0e").repeat(10_000));
    let answered = zlib(1, &packet(1, &ok(0, 0, 2)).repeat(10_000));
    let (transcript, _) = once(&SharedContext::default(), &[(C, asked), (S, answered)]);
    let pings: Vec<_> = transcript.ops.iter().filter(|op| op.name() == "PING").collect();
    assert_eq!((pings.len(), transcript.ops.len()), (10_000, 10_001));
    assert!(pings.iter().all(|op| op.outcome == Some(Outcome::Ok)));
    assert!(transcript.notes.iter().all(|note| *note == Note::ProRata), "{:?}", transcript.notes);
}

#[test]
fn rows_of_a_packet_take_no_memory_of_their_own() {
    let definition = packets(1, &[vec![1], column(253)]);
    let content = [definition, packet(3, &text(b"")).repeat(300_000), packet(4, &end(2))].concat();
    let talk = [(C, stored(0, &query("SELECT a FROM t"))), (S, zlib(1, &content))];
    let (transcript, held) = once(&SharedContext::default(), &talk);
    assert_eq!(transcript.ops[1].outcome, Some(Outcome::Ok), "{:?}", transcript.summary());
    assert!(held < 1 << 20, "{held} bytes held");
}
