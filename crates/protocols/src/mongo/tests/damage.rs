//! The cost of damage, limits and gaps.

use super::*;

/// Damage inside a request costs only its own bytes, not the next message.
fn survives(damaged: &[u8], unknown: u64) {
    let transcript = decode(&[(Request, damaged), (Request, &command(9, &[int("ping", 1)]))]);
    assert_eq!(transcript.ops.last().unwrap().name(), "ping");
    assert_eq!(bytes_of(&transcript, Request, Unknown), unknown);
    assert!(transcript.notes.contains(&Note::UndecodedMessage));
}

#[test]
fn a_document_longer_than_its_message() {
    let mut request = command(1, &[text("find", "c")]);
    request[21] += 1;
    survives(&request, request.len() as u64 - 20);
}

#[test]
fn a_document_shorter_than_its_elements() {
    let mut request = command(1, &[text("find", "c"), int("limit", 1)]);
    request[21] -= 1;
    // Everything except the damaged `limit`.
    survives(&request, 12);
}

#[test]
fn an_element_of_an_unknown_type() {
    survives(&command(1, &[text("find", "c"), element(0x55, "x", &[1, 2])]), 6);
}

#[test]
fn a_string_of_negative_length() {
    survives(&command(1, &[text("find", "c"), element(2, "x", &[255; 4])]), 8);
}

#[test]
fn a_name_that_does_not_end() {
    let mut request = command(1, &[text("find", "c"), null("x")]);
    let len = request.len();
    request[len - 2] = b'x';
    survives(&request, 4);
}

#[test]
fn a_terminator_before_the_end() {
    survives(&command(1, &[text("find", "c"), vec![0], int("x", 1)]), 9);
}

#[test]
fn a_section_of_an_unknown_kind() {
    survives(&msg(1, 0, 0, &[body(&[text("find", "c")]), vec![9, 1, 2]]), 3);
}

#[test]
fn bytes_behind_the_last_section() {
    survives(&msg(1, 0, 0, &[body(&[text("find", "c")]), vec![0, 1]]), 2);
}

#[test]
fn a_message_of_flags_alone() {
    survives(&[20u8, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 221, 7, 0, 0, 1, 0, 0, 0], 0);
}

#[test]
fn a_nesting_bomb_is_given_up_at_the_limit() {
    let mut nested = doc(&[]);
    for _ in 0..5000 {
        nested = doc(&[element(3, "a", &nested)]);
    }
    let request = msg(1, 0, 0, &[body(&[text("insert", "c")]), sequence("documents", &[nested])]);
    let transcript = Transcript::of(Mongo::new(false), &[(Request, &request)]);
    assert_eq!(transcript.total(Request), request.len() as u64);
    assert!(bytes_of(&transcript, Request, Unknown) > 30_000);
}

#[test]
fn a_length_bomb_ends_the_direction() {
    let bomb = [255, 255, 255, 127, 1, 0, 0, 0, 0, 0, 0, 0, 221, 7, 0, 0];
    let transcript = decode(&[(Request, &bomb), (Response, &reply(1, &[ok()]))]);
    assert_eq!(outcomes(&transcript)[1].0, "(reply)");
    assert_eq!(bytes_of(&transcript, Request, Unknown), 16);
}

#[test]
fn a_client_does_not_send_replies() {
    let transcript = decode(&[(Request, &op_reply(1, 0, 0, 0, &[]))]);
    assert!(matches!(transcript.notes[..], [Note::Malformed(_)]));
}

#[test]
fn a_message_longer_than_any_buffer_is_posted_exactly() {
    let documents: Vec<_> = (0..6000).map(|id| doc(&[int("_id", id), text("v", &"x".repeat(1000))])).collect();
    let request = msg(1, 0, 0, &[body(&[text("insert", "c")]), sequence("documents", &documents)]);
    assert!(request.len() as u64 > crate::limits::MESSAGE_BUFFER);
    let pieces: Vec<_> = request.chunks(1448).map(|piece| (Request, piece)).collect();
    let transcript = Transcript::of(Mongo::new(false), &pieces);
    assert_eq!(outcomes(&transcript), [("insert", None)]);
    assert_eq!(bytes_of(&transcript, Request, Data), 6000 * 1004);
    assert_eq!(bytes_of(&transcript, Request, Unknown), 0);
}

#[test]
fn a_snapped_body_keeps_the_boundary_of_the_next_message() {
    let request =
        command(1, &[text("insert", "c"), list("documents", &[doc(&[text("v", &"x".repeat(100))])]), int("x", 1)]);
    for captured in 0..request.len() {
        let mut transcript = Transcript::default();
        let mut engine = DecoderEngine::new(Mongo::new(false), false);
        engine.bytes(Request, &request[..captured], &mut transcript);
        engine.opaque(Request, (request.len() - captured) as u64, &mut transcript);
        engine.bytes(Request, &command(2, &[int("ping", 1)]), &mut transcript);
        engine.finish(&mut transcript);
        assert_eq!(transcript.total(Request), request.len() as u64 + 36, "cut at {captured}");
        assert_eq!(transcript.ops.last().unwrap().name(), "ping", "cut at {captured}");
        if captured > 50 {
            assert_eq!(transcript.ops[0].name(), "insert", "cut at {captured}");
        }
    }
}

#[test]
fn a_gap_within_a_document_costs_that_document() {
    let documents = [doc(&[text("v", "first")]), doc(&[text("v", &"x".repeat(40)), int("w", 1)]), doc(&[int("z", 1)])];
    let request = msg(1, 0, 0, &[body(&[text("insert", "c")]), sequence("documents", &documents)]);
    // Lost: from the name of `v` in the second document to the name of `w`.
    let from = request.len() - documents[2].len() - documents[1].len() + 5;
    let mut transcript = Transcript::default();
    let mut engine = DecoderEngine::new(Mongo::new(false), false);
    engine.bytes(Request, &request[..from], &mut transcript);
    engine.opaque(Request, 50, &mut transcript);
    engine.bytes(Request, &request[from + 50..], &mut transcript);
    engine.finish(&mut transcript);
    assert_eq!(transcript.total(Request), request.len() as u64);
    assert_eq!(bytes_of(&transcript, Request, Data), 5 + 4);
    assert_eq!(bytes_of(&transcript, Request, Unknown), documents[1].len() as u64 - 4);
}
