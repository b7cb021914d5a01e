//! Queries in text.

use super::*;

#[test]
fn a_query_with_rows_and_eof_packets() {
    let rows = packets(1, &[vec![1], column(3), eof(2), text(b"42"), vec![0xfb], eof(2)]);
    let summary = summary(USUAL, &[(C, &query("SELECT a FROM t")), (S, &rows)]);
    assert_eq!(summary, ["workload SELECT [text] ok: framing 5, query 15 | framing 36, schema 18, data 2, status 10"]);
}

#[test]
fn a_query_with_rows_that_ok_ends() {
    let rows = packets(1, &[vec![1], column(3), text(b"42"), vec![0xfb], end(2)]);
    let summary = summary(MODERN, &[(C, &query("SELECT a FROM t")), (S, &rows)]);
    assert_eq!(summary, ["workload SELECT [text] ok: framing 5, query 15 | framing 32, schema 18, data 2, status 7"]);
}

#[test]
fn without_a_login_the_packets_tell_what_stands_behind_definitions() {
    let old = packets(1, &[vec![1], column(3), eof(2), text(b"42"), eof(2)]);
    let new = packets(1, &[vec![1], column(3), text(b"42"), end(2)]);
    let empty = packets(1, &[vec![1], column(3), end(2)]);
    for answer in [old, new, empty] {
        let transcript = mid_stream(&[(C, &query("SELECT a FROM t")), (S, &answer), (C, &query("SELECT 1"))]);
        let outcomes: Vec<_> = transcript.ops.iter().map(|op| op.outcome).collect();
        assert_eq!(outcomes, [Some(overhead_model::Outcome::Ok), None], "{:?}", transcript.summary());
        assert_eq!(transcript.notes, []);
    }
}

#[test]
fn several_results_are_one_operation() {
    let first = packets(1, &[vec![1], column(3), text(b"1"), end(10), ok(3, 0, 10), ok(0, 0, 2)]);
    let summary = summary(MODERN, &[(C, &query("SELECT 1; UPDATE t SET a = 2; DO 1")), (S, &first)]);
    assert_eq!(summary.len(), 1, "{summary:?}");
    assert!(summary[0].starts_with("workload SELECT [text] ok"), "{summary:?}");
}

#[test]
fn an_error_amid_rows_ends_them() {
    let rows = packets(1, &[vec![1], column(3), text(b"1"), err()]);
    let summary = summary(MODERN, &[(C, &query("SELECT a FROM t")), (S, &rows), (C, &query("DO 1"))]);
    assert!(summary[0].contains("SELECT [text] error"), "{summary:?}");
    assert!(summary[1].contains("DO [text] open"), "{summary:?}");
}

#[test]
fn a_file_of_the_client_is_data() {
    let asked = packet(1, b"\xfb/tmp/rows");
    let file = packets(2, &[b"1\t2\n3\t4\n".to_vec(), vec![]]);
    let summary = summary(
        MODERN,
        &[
            (C, &query("LOAD DATA LOCAL INFILE 'x' INTO TABLE t")),
            (S, &asked),
            (C, &file),
            (S, &packet(4, &ok(2, 0, 2))),
        ],
    );
    assert_eq!(summary, ["workload LOAD [text] ok: framing 13, query 39, data 8 | framing 9, metadata 9, status 7"]);
}

#[test]
fn attributes_stand_before_the_text() {
    let attributes = b"\x03\x01\x01\0\x01\xfd\0\x04name\x05value";
    let request = packet(0, &[&attributes[..], b"SELECT 1"].concat());
    let none = packet(0, b"\x03\0\x01SELECT 1");
    let said = summary(MODERN | capability::QUERY_ATTRIBUTES, &[(C, &request), (S, &packet(1, &err())), (C, &none)]);
    assert_eq!(
        said,
        [
            "workload SELECT [text] error: framing 10, metadata 1, schema 6, query 8, data 5 | framing 4, status 15",
            "workload SELECT [text] open: framing 7, query 8 | "
        ]
    );
    let transcript = mid_stream(&[(C, &none), (S, &packet(1, &err()))]);
    assert_eq!(transcript.ops[0].name(), "SELECT");
}

#[test]
fn definitions_may_be_left_out() {
    let rows = packets(1, &[vec![2, 0], [text(b"1"), text(b"xy")].concat(), end(2)]);
    let summary = summary(MODERN, &[(C, &query("SELECT 1, 'xy'")), (S, &rows)]);
    assert_eq!(summary, ["workload SELECT [text] ok: framing 5, query 14 | framing 15, schema 1, data 3, status 7"]);
}

#[test]
fn a_session_state_is_metadata() {
    let tracked = b"\0\0\0\x02\x40\0\0\0\x04\x05\x02\x011";
    let summary = summary(MODERN, &[(C, &query("SET autocommit = 1")), (S, &packet(1, tracked))]);
    assert_eq!(summary, ["setup SET [text] ok: framing 5, query 18 | framing 5, metadata 4, status 8"]);
}

#[test]
fn settings_are_setup_before_the_first_other_statement_only() {
    let answer = packet(1, &ok(0, 0, 2));
    let talk = ["SET a = 1", "USE d", "SET b = 1"].map(query);
    let talk: Vec<(Side, &[u8])> =
        talk.iter().flat_map(|request| [(C, request.as_slice()), (S, answer.as_slice())]).collect();
    let summary = summary(MODERN, &talk);
    let classes: Vec<_> = summary.iter().filter_map(|line| line.split(' ').next()).collect();
    assert_eq!(classes, ["setup", "workload", "workload"]);
}

#[test]
fn a_pipeline_is_answered_in_order() {
    let requests = [query("INSERT INTO t VALUES (1)"), query("SELEC"), packet(0, b"\x0e")].concat();
    let answers = [packet(1, &ok(1, 300, 2)), packet(1, &err()), packet(1, &ok(0, 0, 2))].concat();
    let summary = summary(MODERN, &[(C, &requests), (S, &answers)]);
    assert_eq!(
        summary,
        [
            "workload INSERT [text] ok: framing 5, query 24 | framing 4, status 9",
            "workload SELEC [text] error: framing 5, query 5 | framing 4, status 15",
            "workload PING [] ok: framing 5 | framing 4, status 7"
        ]
    );
}

#[test]
fn a_report_of_progress_ends_nothing() {
    let progress = b"\xff\xff\xff\x01\x01\x02\0\0\0\x06stages";
    let answer = packets(1, &[progress.to_vec(), ok(0, 0, 2)]);
    let summary = summary(MODERN, &[(C, &query("ALTER TABLE t ADD b INT")), (S, &answer)]);
    assert_eq!(summary, ["workload ALTER [text] ok: framing 5, query 23 | framing 8, status 23"]);
}

#[test]
fn before_version_4_1_packets_are_shorter() {
    let old = capability::LONG_PASSWORD;
    let greeting = packet(0, b"\x0a4.0.30\0\x01\0\0\0abcdefgh\0\x2c\0\x08\x02\0\0\0\0\0\0\0\0\0\0\0\0\0\0");
    let login = packet(1, b"\x01\0\xff\xff\xffroot\0abcdefgh");
    let accepted = packet(2, b"\0\0\0");
    let column = [text(b"t"), text(b"a"), text(b"\x0b\0\0"), text(b"\x03"), text(b"\0\0")].concat();
    let rows = packets(1, &[vec![1], column, vec![0xfe], text(b"42"), vec![0xfe]]);
    assert_eq!(old, 1);
    let talk: [(Side, &[u8]); 7] = [
        (S, &greeting),
        (C, &login),
        (S, &accepted),
        (C, &query("select a from t")),
        (S, &rows),
        (C, &query("update t set a = 1")),
        (S, &packet(1, b"\0\x03\0Rows: 3")),
    ];
    let transcript = check(|| Mysql::new(false), &talk);
    assert_eq!(transcript.notes, []);
    assert_eq!(
        transcript.summary().split_off(1),
        [
            "workload SELECT [text] ok: framing 5, query 15 | framing 27, schema 8, data 2, status 2",
            "workload UPDATE [text] ok: framing 5, query 18 | framing 4, status 10"
        ]
    );
}

/// Packet numbers restart at 0 after 255, and the content may start like any command.
#[test]
fn a_long_file_of_the_client_has_no_commands() {
    for first in [b'\n', b'\t', b' ', b'7', 3, 1] {
        let piece = [&[first][..], b"23"].concat();
        let file = [vec![&piece[..]; 600], vec![&b""[..]]].concat();
        let file: Vec<u8> = (2_usize..).zip(file).flat_map(|(number, piece)| packet(number as u8, piece)).collect();
        let asked = packet(1, b"\xfb/tmp/rows");
        let last = packet((602_u16 % 256) as u8 + 1, &ok(2, 0, 2));
        let talk: [(Side, &[u8]); 6] = [
            (C, &query("LOAD DATA LOCAL INFILE 'x' INTO TABLE t")),
            (S, &asked),
            (C, &file),
            (S, &last),
            (C, &query("DO 1")),
            (S, &packet(1, &ok(0, 0, 2))),
        ];
        let mut engine = DecoderEngine::new(Mysql::new(false), false);
        let mut transcript = Transcript::default();
        for (side, bytes) in login(MODERN).iter().map(|(side, bytes)| (*side, bytes.as_slice())).chain(talk) {
            engine.bytes(side, bytes, &mut transcript);
        }
        engine.finish(&mut transcript);
        assert_eq!(
            transcript.summary().split_off(1),
            [
                "workload LOAD [text] ok: framing 2409, query 39, data 1800 | framing 9, metadata 9, status 7",
                "workload DO [text] ok: framing 5, query 4 | framing 4, status 7"
            ],
            "{first}"
        );
    }
}

#[test]
fn a_clone_has_commands_of_its_own() {
    let donor = |code: u8| packet(1, &[&[code][..], b"abc"].concat());
    let command = |code: u8| packet(0, &[code, 1, 2]);
    let talk = [
        (C, packet(0, b"\x20")),
        (S, packet(1, &ok(0, 0, 2))),
        (C, command(1)),
        (S, donor(2)),
        (C, command(4)),
        (S, donor(6)),
        (C, packet(0, b"\x06")),
        (S, packet(1, b"\x63")),
        (C, query("DO 1")),
        (S, packet(1, &ok(0, 0, 2))),
    ];
    let talk: Vec<(Side, &[u8])> = talk.iter().map(|(side, bytes)| (*side, bytes.as_slice())).collect();
    let said = summary(MODERN, &talk);
    assert_eq!(said.len(), 2, "{said:?}");
    assert!(said[0].starts_with("background CLONE [] ok: framing 17, metadata 7 | "), "{said:?}");
    assert!(said[1].starts_with("workload DO [text] ok"), "{said:?}");
}
