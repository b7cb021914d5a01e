//! Prepared statements.

use super::*;

/// Prepares and executes a statement with two parameters and two columns.
fn session(behind_definitions: &[Vec<u8>], end_of_rows: Vec<u8>) -> Vec<(Side, Vec<u8>)> {
    let more = behind_definitions.to_vec();
    let definitions =
        [vec![prepared(1, 2, 2), column(8), column(253)], more.clone(), vec![column(8), column(253)], more.clone()];
    let values = [&[0, 1, 8, 0, 253, 0][..], &7_u64.to_le_bytes(), b"\x02ab"].concat();
    let row = [&[0, 0][..], &1_u64.to_le_bytes(), b"\x03xyz"].concat();
    let nulls = vec![0, 0b1100];
    let result = [vec![vec![2], column(8), column(253)], more, vec![row, nulls, end_of_rows]];
    vec![
        (C, prepare("SELECT a, b FROM t WHERE a = ? AND b = ?")),
        (S, packets(1, &definitions.concat())),
        (C, execute(1, 0, &values)),
        (S, packets(1, &result.concat())),
    ]
}

fn borrowed(talk: &[(Side, Vec<u8>)]) -> Vec<(Side, &[u8])> {
    talk.iter().map(|(side, bytes)| (*side, bytes.as_slice())).collect()
}

#[test]
fn an_execution_goes_by_the_verb_and_the_types_of_what_was_prepared() {
    let talk = session(&[eof(2)], eof(2));
    assert_eq!(
        summary(USUAL, &borrowed(&talk)),
        [
            "setup PREPARE [prepared] ok: framing 5, query 40 | framing 69, metadata 4, schema 72, status 13",
            "workload SELECT [prepared] ok: framing 7, metadata 10, schema 4, data 10 \
             | framing 52, schema 36, data 11, status 10"
        ]
    );
}

#[test]
fn an_execution_where_ok_ends_rows() {
    let talk = session(&[], end(2));
    assert_eq!(
        summary(MODERN, &borrowed(&talk)),
        [
            "setup PREPARE [prepared] ok: framing 5, query 40 | framing 61, metadata 4, schema 72, status 3",
            "workload SELECT [prepared] ok: framing 7, metadata 10, schema 4, data 10 \
             | framing 48, schema 36, data 11, status 7"
        ]
    );
}

#[test]
fn without_a_login_a_prepared_statement_is_the_same() {
    for talk in [session(&[eof(2)], eof(2)), session(&[], end(2))] {
        let transcript = mid_stream(&borrowed(&talk));
        let names: Vec<_> = transcript.ops.iter().map(|op| (op.name(), op.outcome)).collect();
        let ok = Some(overhead_model::Outcome::Ok);
        assert_eq!(names, [("PREPARE", ok), ("SELECT", ok)]);
        assert_eq!(transcript.notes, []);
    }
}

#[test]
fn a_statement_without_columns_may_or_may_not_be_followed_by_eof() {
    for eofs in [&[eof(2)][..], &[]] {
        let definitions = [&[prepared(1, 0, 1), column(8)][..], eofs].concat();
        let values = [&[0, 1, 8, 0][..], &7_u64.to_le_bytes()].concat();
        let talk = [
            (C, prepare("INSERT INTO t VALUES (?)")),
            (S, packets(1, &definitions)),
            (C, execute(1, 0, &values)),
            (S, packet(1, &ok(1, 0, 2))),
        ];
        let transcript = mid_stream(&borrowed(&talk));
        let outcomes: Vec<_> = transcript.ops.iter().map(|op| (op.name(), op.outcome)).collect();
        let ok = Some(overhead_model::Outcome::Ok);
        assert_eq!(outcomes, [("PREPARE", ok), ("INSERT", ok)]);
        assert_eq!(transcript.notes, []);
    }
}

#[test]
fn parameters_that_were_sent_ahead_are_not_sent_again() {
    let definitions = packets(1, &[prepared(1, 0, 2), column(252), column(3)]);
    let ahead = packet(0, b"\x18\x01\0\0\0\0\0a long text");
    let values = [&[0, 1, 252, 0, 3, 0][..], &7_u32.to_le_bytes()].concat();
    let close = packet(0, b"\x19\x01\0\0\0");
    let talk = [
        (C, prepare("UPDATE t SET a = ? WHERE b = ?")),
        (S, definitions),
        (C, ahead),
        (C, execute(1, 0, &values)),
        (S, packet(1, &ok(1, 0, 2))),
        (C, execute(1, 0, &[&[0, 0][..], b"\x01x", &[8, 0, 0, 0]].concat())),
        (S, packet(1, &ok(1, 0, 2))),
        (C, close),
        (C, execute(1, 0, b"")),
    ];
    assert_eq!(
        summary(MODERN, &borrowed(&talk)).split_off(1),
        [
            "workload LONG DATA [prepared] noreply: framing 5, metadata 6, data 11 | ",
            "workload UPDATE [prepared] ok: framing 6, metadata 10, schema 4, data 4 | framing 4, status 7",
            "workload UPDATE [prepared] ok: framing 7, metadata 10, data 5 | framing 4, status 7",
            "setup CLOSE [prepared] noreply: framing 5, metadata 4 | ",
            "workload EXECUTE [prepared] open: framing 5, metadata 9 | "
        ]
    );
}

#[test]
fn rows_of_a_cursor_are_fetched_with_the_types_of_the_execution() {
    let row = [&[0, 0][..], &1_u64.to_le_bytes(), b"\x03xyz"].concat();
    let fetch = packet(0, b"\x1c\x01\0\0\0\x02\0\0\0");
    let talk = |behind: Vec<u8>, last: Vec<u8>| {
        let opened = packets(1, &[vec![2], column(8), column(253), behind]);
        vec![
            (C, prepare("SELECT a, b FROM t")),
            (S, packets(1, &[prepared(1, 0, 0)])),
            (C, execute(1, 1, b"")),
            (S, opened),
            (C, fetch.clone()),
            (S, packets(1, &[row.clone(), last])),
        ]
    };
    for (capabilities, talk) in [(USUAL, talk(eof(0x42), eof(0x82))), (MODERN, talk(end(0x42), end(0x82)))] {
        let transcript = said(capabilities, &borrowed(&talk));
        assert_eq!(transcript.notes, []);
        let fetched = transcript.summary().pop().unwrap();
        assert!(
            fetched.starts_with("workload FETCH [prepared] ok: framing 5, metadata 8 | framing 11, data 11"),
            "{fetched}"
        );
    }
}

#[test]
fn rows_without_definitions_have_the_types_of_the_statement() {
    let row = [&[0, 0][..], &1_u64.to_le_bytes(), b"\x03xyz"].concat();
    let maria = MODERN & !capability::LONG_PASSWORD | 1 << 36;
    let talk = [
        (C, prepare("SELECT a, b FROM t")),
        (S, packets(1, &[prepared(1, 2, 0), column(8), column(253)])),
        (C, execute(1, 0, b"")),
        (S, packets(1, &[vec![2, 0], row, end(2)])),
    ];
    let transcript = said(maria, &borrowed(&talk));
    assert_eq!(transcript.notes, []);
    assert_eq!(
        transcript.summary().pop().unwrap(),
        "workload SELECT [prepared] ok: framing 5, metadata 9 | framing 16, schema 1, data 11, status 7"
    );
}

#[test]
fn a_statement_of_which_nothing_is_known_is_counted_and_named_so() {
    let row = [&[0, 0][..], &1_u64.to_le_bytes()].concat();
    let talk = [
        (C, execute(9, 0, b"\0\0\x07\0\0\0")),
        (S, packets(1, &[vec![1], column(8), row.clone(), end(2)])),
        (C, packet(0, b"\x1c\x09\0\0\0\x02\0\0\0")),
        (S, packets(1, &[row, end(2)])),
    ];
    let transcript = mid_stream(&borrowed(&talk));
    assert_eq!(
        transcript.summary(),
        [
            "workload EXECUTE [prepared] ok: framing 5, metadata 9, unknown 6 | framing 28, schema 18, data 8, status 7",
            "workload FETCH [prepared] ok: framing 5, metadata 8 | framing 9, status 7, unknown 9"
        ]
    );
    assert_eq!(transcript.notes, [Note::UndecodedMessage, Note::UndecodedMessage]);
}

#[test]
fn parameters_of_a_statement_that_is_not_known_are_told_by_their_types() {
    let values = [&[0b10, 1, 8, 0, 10, 0, 253, 0x80][..], &7_u64.to_le_bytes(), b"\x02ab"].concat();
    let transcript = mid_stream(&[(C, &execute(9, 0, &values)), (S, &packet(1, &ok(1, 0, 2)))]);
    assert_eq!(
        transcript.summary(),
        ["workload EXECUTE [prepared] ok: framing 7, metadata 10, schema 6, data 10 | framing 4, status 7"]
    );
    assert_eq!(transcript.notes, []);
}

#[test]
fn mariadb_executes_what_it_prepares_in_one_go_and_rows_of_parameters() {
    let maria = MODERN & !capability::LONG_PASSWORD | 1 << 34;
    let bulk = packet(0, b"\xfa\x01\0\0\0\x80\0\x03\0\xfd\0\0\x07\0\0\0\0\x01x\0\x08\0\0\0\x01");
    let requests = [prepare("INSERT INTO t VALUES (?, ?)"), execute(0xff, 0, b"")].concat();
    let last = packet(0, b"\x17\xff\xff\xff\xff\0\x01\0\0\0");
    assert_eq!(requests.len(), 32 + 14);
    let talk = [
        (C, [prepare("INSERT INTO t VALUES (?, ?)"), last].concat()),
        (S, [packets(1, &[prepared(1, 0, 2), column(3), column(253)]), packet(1, &err())].concat()),
        (C, bulk),
        (S, packet(1, &ok(2, 0, 2))),
    ];
    assert_eq!(
        summary(maria, &borrowed(&talk)).split_off(1),
        [
            "workload INSERT [prepared] error: framing 5, metadata 9 | framing 4, status 15",
            "workload INSERT [bulk] ok: framing 10, metadata 6, schema 4, data 9 | framing 4, status 7"
        ]
    );
}

#[test]
fn a_reset_forgets_statements() {
    let talk = [
        (C, prepare("SELECT 1")),
        (S, packets(1, &[prepared(1, 0, 0)])),
        (C, packet(0, b"\x1f")),
        (S, packet(1, &ok(0, 0, 2))),
        (C, execute(1, 0, b"")),
    ];
    let summary = summary(MODERN, &borrowed(&talk));
    assert!(summary[1].starts_with("setup RESET [] ok"), "{summary:?}");
    assert!(summary[2].starts_with("workload EXECUTE [prepared]"), "{summary:?}");
}

#[test]
fn what_is_prepared_and_executed_in_one_go_keeps_the_types_of_its_parameters() {
    let maria = MODERN & !capability::LONG_PASSWORD | 1 << 34;
    let first = packet(0, b"\x17\xff\xff\xff\xff\0\x01\0\0\0\0\x01\xfd\0\x02ab");
    let talk = [
        (C, [prepare("INSERT INTO t VALUES (?)"), first].concat()),
        (S, [packets(1, &[prepared(1, 0, 1), column(253)]), packet(1, &ok(1, 0, 2))].concat()),
        (C, execute(1, 0, b"\0\0\x02cd")),
        (S, packet(1, &ok(1, 0, 2))),
    ];
    let transcript = said(maria, &borrowed(&talk));
    assert_eq!(transcript.notes, []);
    assert_eq!(
        transcript.summary().split_off(3),
        ["workload INSERT [prepared] ok: framing 7, metadata 10, data 2 | framing 4, status 7"]
    );
}
