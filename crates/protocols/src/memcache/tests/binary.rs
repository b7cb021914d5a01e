//! The binary protocol.

use super::super::Memcache;
use super::{Answered, C, Error, NoReply, S, answers};
use overhead_decode::{DecoderEngine, Note};
use overhead_model::{Outcome, Side};
use overhead_testing::transcript::{Entry, Transcript, check};

/// Builds a message: magic, opcode, status, opaque; extras, key, value.
fn message(magic: u8, opcode: u8, status: u8, opaque: u8, [extras, key, value]: [&[u8]; 3]) -> Vec<u8> {
    let body = (extras.len() + key.len() + value.len()) as u32;
    let head = [magic, opcode, 0, key.len() as u8, extras.len() as u8, 0, 0, status];
    [&head, &body.to_be_bytes()[..], &[0, 0, 0, opaque], &[0; 8], extras, key, value].concat()
}

fn ask(opcode: u8, opaque: u8, parts: [&[u8]; 3]) -> Vec<u8> {
    message(0x80, opcode, 0, opaque, parts)
}

fn answer(opcode: u8, status: u8, opaque: u8, parts: [&[u8]; 3]) -> Vec<u8> {
    message(0x81, opcode, status, opaque, parts)
}

fn talk(conversation: &[(Side, Vec<u8>)]) -> Transcript {
    let bytes: Vec<(Side, &[u8])> = conversation.iter().map(|(side, bytes)| (*side, bytes.as_slice())).collect();
    check(Memcache::default, &bytes)
}

const NOTHING: [&[u8]; 3] = [b"", b"", b""];

#[test]
fn a_set_and_a_get() {
    let set = ask(1, 7, [&[0, 0, 0, 1, 0, 0, 0, 60], b"key", b"hello"]);
    let get = ask(0, 8, [b"", b"key", b""]);
    let value = answer(0, 0, 8, [&[0, 0, 0, 1], b"", b"hello"]);
    let summary = talk(&[(C, set), (S, answer(1, 0, 7, NOTHING)), (C, get), (S, value)]).summary();
    assert_eq!(
        summary,
        [
            "workload bin set [binary] ok: framing 9, metadata 18, query 1, data 12 | framing 9, metadata 12, query 1, status 2",
            "workload bin get [binary] ok: framing 9, metadata 14, query 1, data 3 | framing 9, metadata 16, query 1, data 5, status 2"
        ]
    );
}

#[test]
fn a_miss_is_an_answer_and_a_refusal_an_error() {
    let get = |opaque| ask(0, opaque, [b"", b"k", b""]);
    let requests = [get(1), get(2), ask(5, 3, [&[0; 20], b"n", b""])].concat();
    let responses = [
        answer(0, 1, 1, [b"", b"", b"Not found"]),
        answer(0, 0x82, 2, [b"", b"", b"Out of memory"]),
        answer(5, 6, 3, [b"", b"", b"Non-numeric"]),
    ];
    let transcript = talk(&[(C, requests), (S, responses.concat())]);
    let outcomes: Vec<_> = answers(&transcript).into_iter().map(|(_, outcome, _)| outcome).collect();
    assert_eq!(outcomes, [Answered, Error, Error]);
    assert!(transcript.summary()[0].ends_with("| framing 9, metadata 12, query 1, status 11"));
}

#[test]
fn the_number_of_an_increment_is_status() {
    let request = ask(5, 0, [&[0; 20], b"n", b""]);
    let summary = talk(&[(C, request), (S, answer(5, 0, 0, [b"", b"", &[0, 0, 0, 0, 0, 0, 0, 5]]))]).summary();
    assert!(summary[0].ends_with("| framing 9, metadata 12, query 1, status 10"), "{summary:?}");
}

#[test]
fn quiet_gets_end_with_a_noop() {
    let getkq = |opaque, key: &'static [u8]| ask(0x0d, opaque, [b"", key, b""]);
    for opaques in [[1, 2, 3, 4], [0; 4]] {
        let [a, b, c, d] = opaques;
        let requests = [getkq(a, b"a"), getkq(b, b"b"), getkq(c, b"c"), ask(0x0a, d, NOTHING)].concat();
        let responses = [answer(0x0d, 0, b, [&[0; 4], b"b", b"x"]), answer(0x0a, 0, d, NOTHING)].concat();
        let transcript = talk(&[(C, requests), (S, responses)]);
        let outcomes: Vec<_> = answers(&transcript).into_iter().map(|(_, outcome, _)| outcome).collect();
        assert_eq!(outcomes, [NoReply, Answered, NoReply, Answered], "{opaques:?}");
        assert!(transcript.notes.is_empty(), "{opaques:?}");
        let of = |outcome| answers(&transcript).iter().filter(|(_, is, _)| *is == outcome).count();
        assert_eq!((of(Answered), of(NoReply)), (2, 2), "{opaques:?}");
    }
}

#[test]
fn an_answer_to_nothing_leaves_all_of_the_next_batch_within_reach() {
    let batch: Vec<_> =
        (0..100).map(|opaque| ask(0x0d, opaque, [b"", b"k", b""])).chain([ask(0x0a, 200, NOTHING)]).collect();
    let answers_to_it = [answer(0x0d, 0, 90, [&[0; 4], b"k", b"x"]), answer(0x0a, 0, 200, NOTHING)].concat();
    let before = [(C, ask(0x0a, 1, NOTHING)), (S, answer(0x0a, 0, 1, NOTHING)), (S, answer(0x0a, 0, 9, NOTHING))];
    let talked = talk(&[&before[..], &[(C, batch.concat()), (S, answers_to_it)]].concat());
    let outcomes: Vec<_> = answers(&talked).into_iter().map(|(_, outcome, _)| outcome).collect();
    assert_eq!(outcomes.iter().filter(|it| **it == Answered).count(), 3, "{outcomes:?}");
}

#[test]
fn a_quiet_set_answers_what_went_wrong() {
    let setq = |opaque| ask(0x11, opaque, [&[0; 8], b"k", b"v"]);
    let requests = [setq(1), setq(2), setq(3), ask(7, 4, NOTHING)].concat();
    let responses = [answer(0x11, 3, 2, [b"", b"", b"Too large."]), answer(7, 0, 4, NOTHING)].concat();
    let outcomes: Vec<_> = answers(&talk(&[(C, requests), (S, responses)])).into_iter().map(|(_, it, _)| it).collect();
    assert_eq!(outcomes, [NoReply, Error, NoReply, Answered]);
}

#[test]
fn quiet_ones_under_one_opaque_cannot_be_told_apart() {
    let setq = |key: &'static [u8]| ask(0x11, 0, [&[0; 8], key, b"v"]);
    let requests = [setq(b"a"), setq(b"b"), ask(0x0a, 0, NOTHING)].concat();
    let responses = [answer(0x11, 3, 0, [b"", b"", b"Too large."]), answer(0x0a, 0, 0, NOTHING)].concat();
    let transcript = talk(&[(C, requests), (S, responses)]);
    assert_eq!(transcript.notes, [Note::Ambiguous]);
}

#[test]
fn answers_out_of_order_find_their_requests() {
    let get = |opaque| ask(0, opaque, [b"", b"k", b""]);
    let hit = |opaque| answer(0, 0, opaque, [&[0; 4], b"", b"v"]);
    let transcript = talk(&[(C, [get(1), get(2)].concat()), (S, hit(2)), (S, hit(1)), (S, hit(9))]);
    let outcomes: Vec<_> = transcript.ops.iter().map(|op| (op.name(), op.outcome)).collect();
    let ok = Some(Outcome::Ok);
    assert_eq!(outcomes, [("bin get", ok), ("bin get", ok), ("RESPONSE", Some(NoReply))]);
}

#[test]
fn statistics_end_with_an_empty_message() {
    let stat = |key: &'static [u8], value: &'static [u8]| answer(0x10, 0, 5, [b"", key, value]);
    let responses = [stat(b"pid", b"1"), stat(b"empty", b""), stat(b"", b"")].concat();
    let noop = [ask(0x0a, 6, NOTHING), answer(0x0a, 0, 6, NOTHING)];
    let [noop, done] = noop;
    let transcript = talk(&[(C, [ask(0x10, 5, NOTHING), noop].concat()), (S, [responses, done].concat())]);
    assert_eq!(
        answers(&transcript),
        [("bin stats".to_owned(), Answered, 72 + 9), ("bin noop".to_owned(), Answered, 24)]
    );
}

#[test]
fn authentication_is_set_up() {
    let auth = ask(0x21, 0, [b"", b"PLAIN", b"\0me\0secret"]);
    let transcript = talk(&[
        (C, ask(0x20, 0, NOTHING)),
        (S, answer(0x20, 0, 0, [b"", b"", b"PLAIN"])),
        (C, auth),
        (S, answer(0x21, 0x20, 0, [b"", b"", b"Auth failure."])),
    ]);
    let summary = transcript.summary();
    assert!(summary[0].starts_with("setup bin sasl_list_mechs [binary] ok"), "{summary:#?}");
    assert_eq!(
        summary[1],
        "setup bin sasl_auth [binary] error: framing 9, metadata 29, query 1 | framing 9, metadata 25, query 1, status 2"
    );
}

#[test]
fn the_server_says_its_version() {
    let transcript = talk(&[(C, ask(0x0b, 0, NOTHING)), (S, answer(0x0b, 0, 0, [b"", b"", b"1.6.18"]))]);
    assert_eq!(transcript.software, [None, Some("memcached 1.6.18".to_owned())]);
}

#[test]
fn a_set_is_refused_while_it_is_sent() {
    let set = ask(1, 7, [&[0; 8], b"key", &[b'x'; 64]]);
    let (head, tail) = set.split_at(50);
    let refusal = answer(1, 3, 7, [b"", b"", b"Too large."]);
    let transcript = talk(&[(C, head.to_vec()), (S, refusal), (C, tail.to_vec())]);
    assert_eq!(answers(&transcript), [("bin set".to_owned(), Error, 34)]);
}

#[test]
fn defects_end_the_direction_and_nothing_else() {
    let mut short = ask(0, 0, [b"", b"key", b""]);
    short[11] = 1;
    let mut magic = ask(0, 0, [b"", b"key", b""]);
    magic[0] = 0x82;
    for defect in [short, magic] {
        let good = ask(0, 0, [b"", b"key", b""]);
        let conversation = [good, defect].concat();
        let transcript = talk(&[(C, conversation)]);
        assert!(transcript.notes.iter().any(|note| matches!(note, Note::Malformed(_))));
    }
}

#[test]
fn a_snapped_value_keeps_its_length_and_a_snapped_header_does_not() {
    let mut engine = DecoderEngine::new(Memcache::default(), false);
    let mut transcript = Transcript::default();
    let set = ask(1, 7, [&[0; 8], b"key", &[b'x'; 64]]);
    engine.bytes(C, &set[..40], &mut transcript);
    engine.opaque(C, set.len() as u64 - 40, &mut transcript);
    engine.bytes(C, &ask(0, 8, [b"", b"key", b""]), &mut transcript);
    engine.finish(&mut transcript);
    let names: Vec<_> = transcript.ops.iter().map(Entry::name).collect();
    assert_eq!(names, ["bin set", "bin get"]);
    assert_eq!(transcript.notes, []);
    let mut engine = DecoderEngine::new(Memcache::default(), false);
    let mut transcript = Transcript::default();
    engine.bytes(C, &set[..10], &mut transcript);
    engine.opaque(C, set.len() as u64 - 10, &mut transcript);
    engine.bytes(C, &ask(0, 8, [b"", b"key", b""]), &mut transcript);
    engine.finish(&mut transcript);
    assert_eq!(transcript.notes, [Note::LostBoundary]);
    assert_eq!(transcript.ops.last().map(|op| op.name().to_owned()), Some("bin get".to_owned()));
}
