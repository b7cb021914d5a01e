//! Protocol violations, each named after the defect.

use super::*;

fn notes(conversation: &[(Side, &[u8])]) -> Vec<Note> {
    check(|| Pgwire::new(false), conversation).notes
}

#[test]
fn start_up_packet_of_three_bytes() {
    let notes = notes(&[(C, &[0, 0, 0, 3, 0, 3, 0, 0])]);
    assert_eq!(notes, [Note::Malformed("impossible length of a PostgreSQL start-up packet")]);
}

#[test]
fn start_up_packet_of_an_unknown_version() {
    let notes = notes(&[(C, &packet(0x00ff_00ff, b"")), (S, b"N")]);
    assert_eq!(notes, [Note::Malformed("unknown code of a PostgreSQL start-up packet")]);
}

#[test]
fn another_protocol_on_the_port() {
    let notes = notes(&[(C, b"GET / HTTP/1.1\r\n\r\n"), (S, b"HTTP/1.1 200 OK\r\n\r\n")]);
    assert_eq!(notes.len(), 2);
}

#[test]
fn messages_whose_inside_ends_too_early() {
    for kind in *b"BCDEFHPQSXcdfp" {
        for inside in [&b""[..], b"\0", b"a", b"\0\0\0", b"S", b"\0\0\xff\xff"] {
            let transcript = transcript(&[(C, vec![msg(kind, inside), query("SELECT 1")])]);
            let last = transcript.ops.last().unwrap();
            assert_eq!((last.name(), last.outcome), ("SELECT", None), "{} {inside:?}", kind as char);
        }
    }
    for kind in *b"123ACDEGHIKNRSTVWcdnstv" {
        for inside in [&b""[..], b"\0", b"a", b"\0\x09", b"\0\x01\0\0\0\x09", b"Sa"] {
            let asked = [parse("", "SELECT 1"), describe(b'S', ""), bind(""), execute(), query("SELECT 2"), sync()];
            transcript(&[(C, asked.to_vec()), (S, vec![msg(kind, inside), ready()])]);
        }
    }
}

#[test]
fn array_whose_elements_are_longer_than_it() {
    let array = [0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 23, 0, 0, 0, 1, 0, 0, 0, 1, 0x7f, 0xff, 0xff, 0xff, 1];
    let binary = msg(b'B', b"\0\0\0\0\0\0\0\x01\0\x01");
    let transcript = transcript(&[
        (C, vec![parse("", "SELECT"), describe(b'S', ""), binary, execute(), sync()]),
        (S, vec![msg(b'1', b""), columns(&[1007, 25]), msg(b'2', b"")]),
        (S, vec![row(&[Some(&array), Some(b"next")]), tag("SELECT 1"), ready()]),
    ]);
    assert_eq!(transcript.notes, [Note::UndecodedMessage]);
    let posted = transcript.ops[1].posted(S);
    assert_eq!(posted, "framing 65, metadata 4, schema 42, data 4, status 9, unknown 1");
}

#[test]
fn records_nested_like_a_bomb() {
    let mut value = Vec::new();
    for _ in 0..100_000 {
        let left = u32::try_from(value.len()).unwrap();
        value = [&[0, 0, 0, 1, 0, 0, 8, 201][..], &left.to_be_bytes(), &value].concat();
        if value.len() > 60_000 {
            break;
        }
    }
    let conversation = [
        (C, [startup(), parse("", "SELECT"), bind(""), describe(b'P', ""), execute(), sync()].concat()),
        (S, [welcome(), msg(b'1', b""), msg(b'2', b""), columns(&[2249]), row(&[Some(&value)])].concat()),
    ];
    let conversation: Vec<_> = conversation.iter().map(|(side, bytes)| (*side, bytes.as_slice())).collect();
    let transcript = Transcript::of(Pgwire::new(false), &conversation);
    assert_eq!(transcript.total(S), conversation[1].1.len() as u64);
}

#[test]
fn row_that_was_snapped_keeps_its_lengths() {
    let mut engine = DecoderEngine::new(Pgwire::new(false), false);
    let mut transcript = Transcript::default();
    let asked = [startup(), query("SELECT 1")].concat();
    engine.bytes(C, &asked, &mut transcript);
    let row = row(&[Some(&[7; 100])]);
    engine.bytes(S, &[welcome(), columns(&[25]), row[..20].to_vec()].concat(), &mut transcript);
    engine.opaque(S, row.len() as u64 - 20, &mut transcript);
    engine.bytes(S, &[tag("SELECT 1"), ready()].concat(), &mut transcript);
    engine.finish(&mut transcript);
    assert_eq!(transcript.ops[1].posted(S), "framing 30, metadata 2, schema 19, data 100, status 9");
}

#[test]
fn statement_that_was_snapped_is_named_by_its_tag() {
    let mut engine = DecoderEngine::new(Pgwire::new(false), false);
    let mut transcript = Transcript::default();
    engine.bytes(C, &[startup(), query("INSERT INTO t VALUES (1)")[..5].to_vec()].concat(), &mut transcript);
    engine.opaque(C, 25, &mut transcript);
    engine.bytes(S, &[welcome(), tag("INSERT 0 1"), ready()].concat(), &mut transcript);
    engine.finish(&mut transcript);
    assert_eq!(transcript.summary()[1], "workload INSERT [simple] ok: framing 6, query 24 | framing 11, status 11");
}

#[test]
fn answers_nobody_asked_for() {
    let strays = [msg(b'1', b""), msg(b'D', &[0, 0]), tag("SELECT 1"), ready(), msg(b'V', &[0xff; 4])].concat();
    let summary = talk(&[(S, vec![strays]), (C, vec![query("SELECT 1")]), (S, vec![tag("SELECT 0"), ready()])]);
    assert_eq!(
        summary,
        [
            "unmatched (response) [] noreply:  | framing 23, status 9",
            "unmatched (response) [] noreply:  | framing 9",
            "workload SELECT [simple] ok: framing 6, query 8 | framing 11, status 9",
        ]
    );
}

#[test]
fn ends_of_copies_without_number() {
    let ends = msg(b'c', b"").repeat(200_000);
    let conversation =
        [(C, [startup(), query("SELECT 1"), ends].concat()), (S, [welcome(), tag("SELECT 1"), ready()].concat())];
    let conversation: Vec<_> = conversation.iter().map(|(side, bytes)| (*side, bytes.as_slice())).collect();
    let transcript = Transcript::of(Pgwire::new(false), &conversation);
    assert_eq!(transcript.ops[1].outcome, Some(overhead_model::Outcome::Ok));
}

#[test]
fn false_boundary_behind_a_loss_is_not_the_last() {
    let mut engine = DecoderEngine::new(Pgwire::new(false), false);
    let mut transcript = Transcript::default();
    engine.bytes(C, &[startup(), query("SELECT 1")].concat(), &mut transcript);
    engine.bytes(S, &welcome(), &mut transcript);
    engine.opaque(S, 9, &mut transcript);
    engine.bytes(
        S,
        &[tag("LIE"), b"!!!!".to_vec(), row(&[Some(b"1")]), tag("SELECT 1"), ready()].concat(),
        &mut transcript,
    );
    engine.finish(&mut transcript);
    assert!(!transcript.notes.iter().any(|note| matches!(note, Note::Malformed(_))), "{:?}", transcript.notes);
    assert_eq!(transcript.ops[1].posted(S), "framing 28, data 1, status 12");
}

/// Messages of known kinds with short bodies, mostly invalid.
fn messages(kinds: &'static [u8]) -> impl Strategy<Value = Vec<u8>> {
    let inside = proptest::collection::vec(prop_oneof![Just(0_u8), Just(1), Just(b'S'), any::<u8>()], 0..24);
    let message = (proptest::sample::select(kinds), inside).prop_map(|(kind, inside)| msg(kind, &inside));
    proptest::collection::vec(message, 1..6).prop_map(|messages| messages.concat())
}

fn turn() -> impl Strategy<Value = (Side, Vec<u8>)> {
    prop_oneof![
        messages(b"BCDEFHPQSXcdfp").prop_map(|bytes| (C, bytes)),
        messages(b"123ACDEGHIKNRSTVWZcdnstv").prop_map(|bytes| (S, bytes)),
        proptest::collection::vec(any::<u8>(), 1..40).prop_map(|bytes| (S, bytes)),
        proptest::collection::vec(any::<u8>(), 1..40).prop_map(|bytes| (C, bytes)),
    ]
}

fn posts_everything(turns: &[(Side, Vec<u8>)], is_mid_stream: bool, gap: u64) {
    let mut engine = DecoderEngine::new(Pgwire::new(is_mid_stream), is_mid_stream);
    let mut transcript = Transcript::default();
    for (index, (side, bytes)) in turns.iter().enumerate() {
        engine.bytes(*side, bytes, &mut transcript);
        if gap > 0 && index % 3 == 1 {
            engine.opaque(*side, gap, &mut transcript);
        }
    }
    engine.finish(&mut transcript);
    for side in Side::BOTH {
        let sent = turns.iter().enumerate().filter(|(_, turn)| turn.0 == side);
        let sent = sent.map(|(index, turn)| turn.1.len() as u64 + if index % 3 == 1 { gap } else { 0 });
        assert_eq!(transcript.total(side), sent.sum::<u64>(), "{side:?}");
    }
}

proptest! {
    #[test]
    fn any_bytes_are_posted(turns in proptest::collection::vec(turn(), 1..12), mid in any::<bool>(), gap in 0..30_u64) {
        posts_everything(&turns, mid, gap);
    }

    #[test]
    fn any_messages_behind_a_start_up_are_posted(turns in proptest::collection::vec(turn(), 1..12), gap in 0..30_u64) {
        let mut all = vec![(C, startup()), (S, welcome())];
        all.extend(turns);
        posts_everything(&all, false, gap);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn cuts_change_nothing(client in messages(b"BCDEFHPQSXcdfp"), server in messages(b"123ACDEGHIKNRSTVWZcdnstv")) {
        transcript(&[(C, vec![client.clone()]), (S, vec![server]), (C, vec![client])]);
    }
}
