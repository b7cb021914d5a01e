//! Damage, long packets, losses, and properties of arbitrary bytes.

use super::super::pair::ExpectedResponse;
use super::*;
use overhead_model::{Account, Outcome};
use proptest::prelude::*;

fn with_opaque(pieces: &[(Side, &[u8], u64)]) -> Transcript {
    let mut engine = DecoderEngine::new(Mysql::new(false), false);
    let mut transcript = Transcript::default();
    for (side, bytes) in login(MODERN) {
        engine.bytes(side, &bytes, &mut transcript);
    }
    for (side, bytes, opaque) in pieces {
        engine.bytes(*side, bytes, &mut transcript);
        engine.opaque(*side, *opaque, &mut transcript);
    }
    engine.finish(&mut transcript);
    transcript
}

#[test]
fn a_text_that_was_cut_off_is_a_query_all_the_same() {
    let request = query("SELECT a FROM t WHERE b = 'something that is long'");
    let (head, tail) = request.split_at(20);
    let transcript = with_opaque(&[(C, head, tail.len() as u64), (S, &packet(1, &err()), 0)]);
    let line = transcript.summary().pop().unwrap();
    assert_eq!(line, "workload SELECT [text] error: framing 5, query 50 | framing 4, status 15");
}

#[test]
fn a_row_that_was_cut_off_costs_nothing_but_itself() {
    let head = packets(1, &[vec![1], column(253)]);
    let row = packet(3, &text(&[b'x'; 100]));
    let (seen, lost) = row.split_at(10);
    let rest = packet(4, &end(2));
    let transcript =
        with_opaque(&[(C, &query("SELECT a FROM t"), 0), (S, &head, 0), (S, seen, lost.len() as u64), (S, &rest, 0)]);
    let line = transcript.summary().pop().unwrap();
    assert!(line.contains("SELECT [text] ok"), "{line}");
    assert!(line.contains("data 100"), "{line}");
}

#[test]
fn after_a_loss_the_next_answer_is_found() {
    let head = packets(1, &[vec![1], column(253)]);
    let talk = [
        (C, query("SELECT a FROM t"), 0),
        (S, head, 5000),
        (S, packets(77, &[text(b"a row amid others"), end(2)]), 0),
        (C, query("SELECT 1"), 0),
        (S, packet(1, &err()), 0),
        (C, packet(0, b"\x0e"), 0),
        (S, packet(1, &ok(0, 0, 2)), 0),
    ];
    let talk: Vec<(Side, &[u8], u64)> =
        talk.iter().map(|(side, bytes, opaque)| (*side, bytes.as_slice(), *opaque)).collect();
    let transcript = with_opaque(&talk);
    let outcomes: Vec<_> = transcript.ops.iter().map(|op| (op.name(), op.outcome)).collect();
    assert!(outcomes.contains(&("SELECT", Some(Outcome::Error))), "{:?}", transcript.summary());
    assert!(outcomes.contains(&("PING", Some(Outcome::Ok))), "{:?}", transcript.summary());
    assert!(transcript.notes.contains(&Note::LostBoundary));
}

#[test]
fn after_a_lost_request_the_next_one_has_its_own_answer() {
    let talk = [
        (C, query("SELECT 1"), 0),
        (S, packet(1, &err()), 0),
        (C, b"\x10".to_vec(), 30),
        (S, packet(1, &ok(0, 0, 2)), 0),
        (C, packet(0, b"\x0e"), 0),
        (S, packet(1, &ok(0, 0, 2)), 0),
    ];
    let talk: Vec<(Side, &[u8], u64)> =
        talk.iter().map(|(side, bytes, opaque)| (*side, bytes.as_slice(), *opaque)).collect();
    let transcript = with_opaque(&talk);
    let outcomes: Vec<_> = transcript.ops.iter().map(|op| (op.name(), op.outcome)).collect();
    assert_eq!(outcomes.last(), Some(&("PING", Some(Outcome::Ok))), "{:?}", transcript.summary());
    assert!(outcomes.contains(&("(response)", Some(Outcome::NoReply))), "{outcomes:?}");
}

/// Plays a conversation without its start, in pieces of `size` bytes.
fn amid(talk: &[(Side, Vec<u8>)], size: usize) -> Transcript {
    let mut engine = DecoderEngine::new(Mysql::new(true), true);
    let mut transcript = Transcript::default();
    for (side, bytes) in talk {
        bytes.chunks(size).for_each(|piece| engine.bytes(*side, piece, &mut transcript));
    }
    engine.finish(&mut transcript);
    transcript
}

#[test]
fn what_looks_like_packets_in_a_value_that_began_out_of_sight_is_none() {
    let value = [&[0; 40][..], &packet(1, &[0; 249]), &packet(1, &ok(0, 0, 2)), &packet(0, b"\x0e"), &[1; 90]].concat();
    let rows = packets(1, &[vec![1], column(3), eof(2), text(b"1"), eof(2)]);
    for side in [C, S] {
        let talk =
            [(side, value.clone()), (S, packet(7, &eof(2))), (C, query("SELECT 1 FROM some_table")), (S, rows.clone())];
        for size in [1, 7, 64, usize::MAX] {
            let transcript = amid(&talk, size);
            let unknown: u64 = transcript.ops.iter().flat_map(|op| op.amounts).map(|of| of[Account::Unknown]).sum();
            assert_eq!(unknown, value.len() as u64 + 9, "{:?}", transcript.summary());
            let line = transcript.summary().pop().unwrap();
            assert!(line.starts_with("workload SELECT [text] ok: framing 5, query 24 | "), "{line}");
        }
    }
}

#[test]
fn an_answer_that_does_not_go_on_by_number_is_given_up() {
    let rows = packets(1, &[vec![1], column(3), eof(2), text(b"1")]);
    let talk = [
        (C, query("SELECT 1 FROM some_table")),
        (S, [rows, packet(77, &text(b"1")), packet(78, &eof(2))].concat()),
        (C, query("SELECT 2 FROM some_table")),
        (S, packet(1, &err())),
    ];
    for size in [1, 7, 64, usize::MAX] {
        let transcript = amid(&talk, size);
        let outcomes: Vec<_> = transcript.ops.iter().map(|op| (op.name(), op.outcome)).collect();
        assert!(outcomes.contains(&("SELECT", Some(Outcome::Unanswered))), "{outcomes:?}");
        assert_eq!(outcomes.last(), Some(&("SELECT", Some(Outcome::Error))), "{:?}", transcript.summary());
        assert_eq!(transcript.notes, [Note::LostBoundary]);
    }
}

#[test]
fn a_statement_and_a_cell_go_on_in_further_packets() {
    let long = [&b"\x03INSERT INTO t VALUES ('"[..], &vec![b'x'; 0xff_ffff], b"')"].concat();
    let (first, second) = long.split_at(0xff_ffff);
    let cells = [lenenc(0x100_0010), vec![b'y'; 0x100_0010], text(&vec![b'z'; 300])].concat();
    let (start, rest) = cells.split_at(0xff_ffff);
    let rows = packets(2, &[vec![2], column(253), column(253), start.to_vec(), rest.to_vec(), end(2)]);
    let talk: [(Side, &[u8]); 4] = [
        (C, &packets(0, &[first.to_vec(), second.to_vec()])),
        (S, &packet(2, &ok(1, 0, 2))),
        (C, &query("SELECT a, b FROM t")),
        (S, &rows),
    ];
    let mut engine = DecoderEngine::new(Mysql::new(false), false);
    let mut transcript = Transcript::default();
    for (side, bytes) in login(MODERN) {
        engine.bytes(side, &bytes, &mut transcript);
    }
    for (side, bytes) in talk {
        engine.bytes(side, bytes, &mut transcript);
    }
    engine.finish(&mut transcript);
    let (insert, select) = (&transcript.ops[1], &transcript.ops[2]);
    assert_eq!(insert.outcome, Some(Outcome::Ok));
    assert_eq!(insert.amounts[0][Account::Query], long.len() as u64 - 1);
    assert_eq!(select.outcome, Some(Outcome::Ok));
    assert_eq!(select.amounts[1][Account::Data], 0x100_0010 + 300);
    assert_eq!(transcript.notes, []);
    assert_eq!(select.amounts[1][Account::Unknown], 0);
}

#[test]
fn long_rows_and_parameters_flow_by_however_they_are_cut() {
    let (long, short) = ([lenenc(300_000), vec![b'x'; 300_000]].concat(), text(b"ab"));
    let row = [long.clone(), short.clone(), long.clone(), vec![0xfb]].concat();
    let values = [&[0, 1, 253, 0, 253, 0, 253, 0][..], &long, &long, &short].concat();
    let columns = [column(253), column(253), column(253), column(253)];
    let rows = packets(1, &[vec![vec![4]], columns.to_vec(), vec![row, end(2)]].concat());
    let definitions = packets(1, &[vec![prepared(1, 0, 3)], columns[..3].to_vec()].concat());
    let talk: [(Side, Vec<u8>); 6] = [
        (C, prepare("INSERT INTO t VALUES (?, ?, ?)")),
        (S, definitions),
        (C, execute(1, 0, &values)),
        (S, packet(1, &ok(1, 0, 2))),
        (C, query("SELECT a, b, c, d FROM t")),
        (S, rows),
    ];
    let mut expected = None;
    for size in [7, 1000, 4093, 262_141, 262_150, 562_200, usize::MAX] {
        let mut engine = DecoderEngine::new(Mysql::new(false), false);
        let mut transcript = Transcript::default();
        for (side, bytes) in login(MODERN).iter().chain(&talk) {
            bytes.chunks(size).for_each(|piece| engine.bytes(*side, piece, &mut transcript));
        }
        engine.finish(&mut transcript);
        assert_eq!(transcript.notes, [], "{size}");
        assert_eq!(transcript.ops[2].amounts[0][Account::Data], 600_002, "{size}");
        assert_eq!(transcript.ops[3].amounts[1][Account::Data], 600_002, "{size}");
        assert_eq!(*expected.get_or_insert_with(|| transcript.summary()), transcript.summary(), "{size}");
    }
}

#[test]
fn sniffing_knows_both_sides() {
    assert_eq!(sniff(&greeting(MODERN)), crate::Sniff::Response);
    let odd = b"\x40\0\0\0\x0anode.js rocks\0\x01\0\0\0abcdefgh\0\xff\xf7\x21\x02\0\x08\0\x15";
    assert_eq!(sniff(odd), crate::Sniff::Response);
    assert_eq!(sniff(&login_packet(MODERN)), crate::Sniff::Request);
    assert_eq!(sniff(&query("SELECT 1")), crate::Sniff::Request);
    assert_eq!(sniff(&packet(1, &ok(0, 0, 2))), crate::Sniff::Response);
    assert_eq!(sniff(&packets(1, &[vec![1], column(3)])), crate::Sniff::Response);
    // Clients of the X Protocol also start this way.
    assert_eq!(sniff(&packet(0, &[1])), crate::Sniff::Perhaps(C));
    assert_eq!(sniff(b"GET / HTTP/1.1\r\n"), crate::Sniff::No);
    assert_eq!(sniff(b"*1\r\n$4\r\nPING\r\n"), crate::Sniff::No);
    assert_eq!(sniff(b"\0\0\0\x08\x04\xd2\x16\x2f"), crate::Sniff::No);
}

/// Pieces of conversations, in any order.
fn piece() -> impl Strategy<Value = (Side, Vec<u8>)> {
    let pieces = [
        (C, query("SELECT 1")),
        (C, prepare("SELECT ?")),
        (C, execute(1, 0, b"\0\x01\x03\0\x01\0\0\0")),
        (C, packet(0, b"\x1c\x01\0\0\0\x02\0\0\0")),
        (C, packet(0, b"\x18\x01\0\0\0\0\0x")),
        (C, packet(0, b"\x19\x01\0\0\0")),
        (C, packet(0, b"\x1f")),
        (C, packet(0, b"\xfa\x01\0\0\0\x80\0\x03\0\0\x07\0\0\0")),
        (C, packet(3, b"stray")),
        (S, greeting(MODERN)),
        (C, login_packet(MODERN)),
        (S, packet(2, &ok(0, 0, 2))),
        (S, packets(1, &[prepared(1, 1, 1), column(3), eof(2), column(3), eof(2)])),
        (S, packets(1, &[vec![1], column(3), text(b"1"), end(2)])),
        (S, packets(1, &[vec![1], column(3), eof(2), vec![0, 0, 1, 0, 0, 0], eof(2)])),
        (S, packet(1, &ok(0, 0, 2))),
        (S, packet(1, &ok(0, 0, 10))),
        (S, packet(1, &err())),
        (S, packet(1, b"\xfbfile")),
        (S, packet(1, &eof(0x42))),
    ];
    let damaged = (any::<bool>(), prop::collection::vec(any::<u8>(), 0..40))
        .prop_map(|(of_client, bytes)| (if of_client { C } else { S }, bytes));
    prop_oneof![9 => prop::sample::select(pieces.to_vec()), 1 => damaged]
}

proptest! {
    #[test]
    fn what_few_bytes_tell_more_bytes_do_not_take_back(
        (side, mut bytes) in piece(),
        (at, with) in (0..64_usize, any::<u8>()),
        awaited in prop::sample::select(vec![
            None,
            Some(ExpectedResponse::Login),
            Some(ExpectedResponse::Prepare),
            Some(ExpectedResponse::Fetch),
            Some(ExpectedResponse::Text),
        ]),
    ) {
        if let Some(byte) = bytes.get_mut(at) {
            *byte = with;
        }
        let of = |bytes: &[u8]| match side {
            Side::Request => boundary::request_boundary(bytes),
            Side::Response => boundary::response_boundary(bytes, awaited),
        };
        let (mut told, mut compressed) = (MessageBoundary::More, MessageBoundary::More);
        for end in 0..=bytes.len() {
            let (now, now_compressed) = (of(&bytes[..end]), compressed::begins(side, &bytes[..end]));
            prop_assert!(told == MessageBoundary::More || told == now, "{told:?}, then {now:?} of {:?}", &bytes[..end]);
            prop_assert!(compressed == MessageBoundary::More || compressed == now_compressed, "{:?}", &bytes[..end]);
            (told, compressed) = (now, now_compressed);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn any_order_of_packets_is_posted_alike_however_it_is_cut(
        pieces in prop::collection::vec(piece(), 0..8),
        mid_stream in any::<bool>(),
        capabilities in prop::sample::select(vec![USUAL, MODERN, MODERN | capability::COMPRESS]),
    ) {
        let login = login(capabilities);
        let login = login.iter().filter(|_| !mid_stream);
        let talk: Vec<(Side, &[u8])> =
            login.chain(&pieces).map(|(side, bytes)| (*side, bytes.as_slice())).collect();
        check(|| Mysql::new(mid_stream), &talk);
    }

    #[test]
    fn no_bytes_are_too_strange(bytes in prop::collection::vec(any::<u8>(), 0..200), side in any::<bool>()) {
        let side = if side { C } else { S };
        check(|| Mysql::new(false), &[(side, &bytes)]);
        sniff(&bytes);
    }
}

/// The rows fill a whole packet, and pieces end anywhere in them.
#[test]
fn many_rows_of_parameters_flow_by_however_they_are_cut() {
    let maria = MODERN & !capability::LONG_PASSWORD | 1 << 34;
    let row = [&[0, 7, 0, 0, 0, 0][..], &text(&[b'x'; 60]), &[1, 0], &text(b"")].concat();
    let bulk = packet(0, &[&b"\xfa\x01\0\0\0\x80\0\x03\0\xfd\0"[..], &row.repeat(5000)].concat());
    let talk: [(Side, Vec<u8>); 4] = [
        (C, prepare("INSERT INTO t VALUES (?, ?)")),
        (S, packets(1, &[prepared(1, 0, 2), column(3), column(253)])),
        (C, bulk),
        (S, packet(1, &ok(2, 0, 2))),
    ];
    for size in [7, 1000, 4093, 262_141, 262_150, usize::MAX] {
        let mut engine = DecoderEngine::new(Mysql::new(false), false);
        let mut transcript = Transcript::default();
        for (side, bytes) in login(maria).iter().chain(&talk) {
            bytes.chunks(size).for_each(|piece| engine.bytes(*side, piece, &mut transcript));
        }
        engine.finish(&mut transcript);
        assert_eq!(transcript.notes, [], "{size}");
        assert_eq!(
            transcript.summary().pop().unwrap(),
            "workload INSERT [bulk] ok: framing 30005, metadata 6, schema 4, data 320000 | framing 4, status 7",
            "{size}"
        );
    }
}
