//! Missing bytes, and bytes of other protocols.

use super::{C, DecoderEngine, Http, NOTHING, Note, S, Side, Transcript, ok, outcomes, talk};
use proptest::prelude::*;

/// Captured bytes, or the number of bytes that were not captured.
enum StreamPiece<'a> {
    Bytes(Side, &'a str),
    Opaque(Side, u64),
}
use StreamPiece::{Bytes, Opaque};

fn play(mid_stream: bool, pieces: &[StreamPiece<'_>]) -> Transcript {
    let mut engine = DecoderEngine::new(Http::default(), mid_stream);
    let mut transcript = Transcript::default();
    for piece in pieces {
        match piece {
            Bytes(side, text) => engine.bytes(*side, text.as_bytes(), &mut transcript),
            Opaque(side, len) => engine.opaque(*side, *len, &mut transcript),
        }
    }
    engine.finish(&mut transcript);
    transcript
}

const GET: &str = "GET /a HTTP/1.1\r\n\r\n";

#[test]
fn a_body_of_known_length_may_be_missing() {
    let transcript = play(
        false,
        &[
            Bytes(C, GET),
            Bytes(S, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nabc"),
            Opaque(S, 97),
            Bytes(C, GET),
            Bytes(S, NOTHING),
        ],
    );
    assert_eq!(outcomes(&transcript), ["workload GET /a [] ok"; 2]);
    assert!(transcript.summary()[0].contains("data 100"));
    assert_eq!(transcript.notes, []);
}

#[test]
fn so_may_be_what_lies_within_a_chunk_and_at_its_end() {
    let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\na\r\n01234";
    let transcript = play(
        false,
        &[Bytes(C, GET), Bytes(S, head), Opaque(S, 7), Bytes(S, "0\r\n\r\n"), Bytes(C, GET), Bytes(S, NOTHING)],
    );
    assert_eq!(outcomes(&transcript), ["workload GET /a [] ok"; 2]);
    assert_eq!(transcript.notes, []);
}

#[test]
fn after_a_loss_of_chunks_the_next_response_is_found() {
    let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n";
    let transcript = play(
        false,
        &[
            Bytes(C, GET),
            Bytes(S, head),
            Opaque(S, 500),
            Bytes(S, "lost\r\n0\r\n\r\n"),
            Bytes(C, GET),
            Bytes(S, NOTHING),
        ],
    );
    assert!(transcript.notes.contains(&Note::LostBoundary));
    let workload: Vec<_> = outcomes(&transcript).into_iter().filter(|line| line.starts_with("workload")).collect();
    assert_eq!(workload, ["workload GET /a [] unanswered", "workload GET /a [] ok"]);
}

#[test]
fn snapped_heads_say_what_was_asked_and_what_came_of_it() {
    let request = "GET /a HTTP/1.1\r\nHost: x\r\nUser-Ag";
    let response = "HTTP/1.1 200 OK\r\nDate: Sun, 2";
    let once = || [Bytes(C, request), Opaque(C, 60), Bytes(S, response), Opaque(S, 400)];
    let pieces: Vec<StreamPiece<'_>> = once().into_iter().chain(once()).collect();
    let transcript = play(false, &pieces);
    let workload: Vec<_> = transcript.summary().into_iter().filter(|line| line.starts_with("workload")).collect();
    let line = "workload GET /a [] unanswered: framing 16, metadata 5, query 5 | framing 12, status 5";
    assert_eq!(workload, [line, line]);
}

#[test]
fn an_interim_response_that_was_cut_ends_once() {
    for request in ["", GET] {
        let pieces = [Bytes(C, request), Bytes(S, "HTTP/1.1 100 Continue\r\nA: b"), Opaque(S, 9), Bytes(S, NOTHING)];
        let transcript = play(false, &pieces);
        assert!(transcript.ops.iter().all(|op| op.outcome.is_some()), "{:?}", transcript.summary());
    }
}

#[test]
fn a_response_that_cannot_be_read_ends_what_it_answers() {
    let transcript = talk(&[(C, GET), (S, "HTTP/1.1 200 OK\r\nA: \0\r\n\r\n")]);
    assert_eq!(outcomes(&transcript)[0], "workload GET /a [] unanswered");
    let transcript = talk(&[(S, "HTTP/1.1 200 OK\r\nA: \0\r\n\r\n")]);
    assert_eq!(outcomes(&transcript)[0], "unmatched RESPONSE [] noreply");
}

#[test]
fn the_rest_of_a_request_may_be_lost_and_its_response_still_come() {
    let transcript = play(
        false,
        &[
            Bytes(C, "POST /a HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhe"),
            Opaque(C, 1000),
            Bytes(S, NOTHING),
            Bytes(C, GET),
            Bytes(S, NOTHING),
        ],
    );
    let workload: Vec<_> = outcomes(&transcript).into_iter().filter(|line| line.starts_with("workload")).collect();
    assert_eq!(workload, ["workload POST /a [] ok", "workload GET /a [] ok"]);
}

#[test]
fn a_capture_may_begin_in_the_midst() {
    let transcript = play(
        true,
        &[
            Bytes(S, "rest of a body\r\n"),
            Bytes(C, "k=v"),
            Bytes(C, GET),
            Bytes(S, &ok("x")),
            Bytes(C, GET),
            Bytes(S, NOTHING),
        ],
    );
    let workload: Vec<_> = outcomes(&transcript).into_iter().filter(|line| line.starts_with("workload")).collect();
    assert_eq!(workload, ["workload GET /a [] ok"; 2]);
}

#[test]
fn what_is_not_of_this_protocol_ends_the_direction() {
    for other in [
        "GET /\r\n\r\n",
        "EHLO me\r\n",
        "\x16\x03\x01\0\0",
        "{}\r\n\r\n",
        "LONGERTHANANYMETHODTHATTHEREIS / HTTP/1.1\r\n",
    ] {
        let transcript = talk(&[(C, other), (S, NOTHING)]);
        assert_eq!(transcript.notes, [Note::Malformed("not a request line")], "{other:?}");
        let transcript = talk(&[(C, GET), (S, other)]);
        assert_eq!(transcript.notes, [Note::Malformed("not a status line")], "{other:?}");
    }
}

#[test]
fn empty_lines_without_end_are_no_request() {
    let empty = "\r\n".repeat(1000);
    let transcript = Transcript::of(Http::default(), &[(C, empty.as_bytes())]);
    assert_eq!(transcript.notes, [Note::Malformed("not a request line")]);
    let few = format!("\r\n\r\n{GET}\r\n{GET}");
    assert_eq!(outcomes(&talk(&[(C, &few), (S, NOTHING), (S, NOTHING)])), ["workload GET /a [] ok"; 2]);
}

#[test]
fn a_head_has_to_end() {
    let endless = format!("GET / HTTP/1.1\r\n{}", "A: b\r\n".repeat(200_000));
    let transcript = Transcript::of(Http::default(), &[(C, endless.as_bytes())]);
    assert_eq!(transcript.notes, [Note::Malformed("a head without an end")]);
    assert_eq!(transcript.total(C), endless.len() as u64);
}

#[test]
fn a_head_that_comes_byte_by_byte_is_looked_at_once() {
    let begun = std::time::Instant::now();
    let long = "a".repeat(100_000);
    for head in [format!("GET / HTTP/1.1\r\nCookie: {long}\r\n\r\n"), format!("GET /?{long} HTTP/1.1\r\n\r\n")] {
        let pieces: Vec<(Side, &[u8])> = head.as_bytes().chunks(1).map(|byte| (C, byte)).collect();
        let transcript = Transcript::of(Http::default(), &pieces);
        assert_eq!(outcomes(&transcript), ["workload GET / [] open"]);
    }
    assert!(begun.elapsed().as_secs() < 60, "{:?}", begun.elapsed());
}

proptest! {
    #[test]
    fn arbitrary_bytes_are_posted_once(pieces in prop::collection::vec((any::<bool>(), prop::collection::vec(any::<u8>(), 0..40)), 0..12)) {
        conserve(&pieces)?;
    }

    #[test]
    fn near_misses_are_posted_once(
        pieces in prop::collection::vec((any::<bool>(), prop::collection::vec(0..WORDS.len(), 0..12)), 0..8),
    ) {
        let text = |words: Vec<usize>| words.into_iter().map(|at| WORDS[at]).collect::<String>().into_bytes();
        let pieces: Vec<_> = pieces.into_iter().map(|(side, words)| (side, text(words))).collect();
        conserve(&pieces)?;
    }
}

/// The parts that random messages are made of.
const WORDS: [&str; 24] = [
    "GET /a HTTP/1.1\r\n",
    "POST /b?c=d HTTP/1.0\r\n",
    "HEAD / HTTP/1.1\r\n\r\n",
    "CONNECT h:1 HTTP/1.1\r\n\r\n",
    "HTTP/1.1 200 OK\r\n",
    "HTTP/1.1 100 C\r\n\r\n",
    "HTTP/1.1 101 S\r\n",
    "HTTP/1.0 304 N\r\n",
    "Content-Length: 5\r\n",
    "Content-Length: 0\r\n",
    "Transfer-Encoding: chunked\r\n",
    "Upgrade: websocket\r\n",
    "Server: a/1\r\n",
    "\r\n",
    "\n",
    "hello",
    "5\r\nhello\r\n",
    "0\r\n\r\n",
    "ffff\r\n",
    " folded\r\n",
    ":",
    "\0",
    "PRI * HTTP/2.0\r\n\r\n",
    "a",
];

/// Checks that every byte is posted once, however the pieces are cut, and that bytes declared free are.
fn conserve(pieces: &[(bool, Vec<u8>)]) -> Result<(), TestCaseError> {
    let conversation: Vec<(Side, &[u8])> =
        pieces.iter().map(|(response, bytes)| (if *response { S } else { C }, bytes.as_slice())).collect();
    let transcript = Transcript::of(Http::default(), &conversation);
    for side in Side::BOTH {
        let sent: usize = conversation.iter().filter(|(of, _)| *of == side).map(|(_, bytes)| bytes.len()).sum();
        prop_assert_eq!(transcript.total(side), sent as u64);
    }
    let bytewise: Vec<_> =
        conversation.iter().flat_map(|(side, bytes)| bytes.chunks(1).map(|byte| (*side, byte))).collect();
    prop_assert_eq!(Transcript::of(Http::default(), &bytewise).summary(), transcript.summary());
    overhead_testing::free::check(Http::default, &conversation);
    Ok(())
}
