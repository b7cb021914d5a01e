//! Unit tests of the modules.

use super::*;
use crate::pgwire::hidden::may_be_structured;
use crate::pgwire::values::PgTypeShape;
use crate::statement::{StatementDialect, StatementSummary};
use std::fmt::Write;

#[test]
fn verbs() {
    let cases = [
        ("select 1", "SELECT"),
        ("  \n-- first\n/* a /* nested */ b */ (((Values (1))))", "VALUES"),
        ("with x as (select 1), y (a) as materialized (delete from t) insert into z select * from x", "INSERT"),
        ("WITH RECURSIVE \"select\" AS (SELECT '(') UPDATE t SET a = 1", "UPDATE"),
        ("with", "WITH"),
        ("", ""),
        (";", ""),
        ("é", ""),
        ("START_REPLICATION SLOT s", "START_REPLICATION"),
        ("$tag$ select $tag$ table t", "TABLE"),
        ("a_word_that_is_longer_than_any_verb", "A_WORD_THAT_IS_LONGER_T"),
    ];
    for (sql, want) in cases {
        assert_eq!(StatementDialect::Postgres.verb(sql.as_bytes()).as_str(), want, "{sql}");
    }
}

#[test]
fn settings() {
    assert!(StatementDialect::Postgres.is_settings(b"set a = 'x; select 1'; SHOW b;"));
    assert!(!StatementDialect::Postgres.is_settings(b"set a = 1; select 1"));
    assert!(!StatementDialect::Postgres.is_settings(b""));
}

#[test]
fn shapes() {
    assert_eq!(PgTypeShape::from_oid(1007), PgTypeShape::Array(b','));
    assert_eq!(PgTypeShape::from_oid(1020), PgTypeShape::Array(b';'));
    assert_eq!(PgTypeShape::from_oid(30), PgTypeShape::Array(b' '));
    assert_eq!(PgTypeShape::from_oid(2249), PgTypeShape::Composite);
    assert_eq!(PgTypeShape::from_oid(3904), PgTypeShape::Range);
    assert_eq!(PgTypeShape::from_oid(4451), PgTypeShape::Multirange);
    assert_eq!(PgTypeShape::from_oid(25), PgTypeShape::Leaf);
    assert_eq!((PgTypeShape::from_oid(0), PgTypeShape::from_oid(16_384)), (PgTypeShape::Unknown, PgTypeShape::Unknown));
}

/// Posts a row with one cell of this type; returns the postings within the cell.
fn cell(oid: u32, binary: bool, value: &[u8]) -> String {
    let transcript = transcript(&[
        (C, vec![parse("", "SELECT"), msg(b'B', &[b"\0\0\0\0\0\0\0\x01\0", &[u8::from(binary)][..]].concat())]),
        (C, vec![describe(b'P', ""), execute(), sync()]),
        (S, vec![msg(b'1', b""), msg(b'2', b""), columns(&[oid]), row(&[Some(value)]), tag("SELECT 1"), ready()]),
    ]);
    let within = transcript.postings[1].iter().filter(|posting| posting.path.starts_with("row.value"));
    within.filter(|posting| posting.path != "row.value length").fold(String::new(), |mut text, posting| {
        let _ = write!(text, "{}{} ", posting.account.name().chars().next().unwrap(), posting.len);
        text
    })
}

#[test]
fn text_forms() {
    assert_eq!(cell(1009, false, br#"{a,"b\"c",NULL,"NULL",""}"#), "f1 d1 f2 d1 f1 d2 f8 d4 f5 ");
    assert_eq!(cell(1007, false, b"{{1,2},{3,4}}"), "f2 d1 f1 d1 f3 d1 f1 d1 f2 ");
    assert_eq!(cell(1020, false, b"{(1,1),(0,0);(2,2),(1,1)}"), "f1 d11 f1 d11 f1 ");
    assert_eq!(cell(30, false, b"23 25"), "d2 f1 d2 ");
    assert_eq!(cell(2249, false, br#"(1,"a ""b"" \\",,)"#), "f1 d1 f2 d2 f1 d2 f1 d2 f1 d1 f4 ");
    assert_eq!(cell(3904, false, b"[1,10)"), "f1 d1 f1 d2 f1 ");
    assert_eq!(cell(4451, false, b"{[1,2),[5,6)}"), "f2 d1 f1 d1 f3 d1 f1 d1 f2 ");
    assert_eq!(cell(25, false, b"{1,2}"), "d5 ");
    assert_eq!(cell(1007, false, b"{}"), "f2 ");
}

#[test]
fn binary_forms() {
    let int = [0, 0, 0, 4, 0, 0, 0, 9];
    let record = [&[0, 0, 0, 2, 0, 0, 0, 23][..], &int, &[0, 0, 0, 25, 0xff, 0xff, 0xff, 0xff]].concat();
    assert_eq!(cell(2249, true, &record), "f4 s4 f4 d4 s4 f4 ");
    let range = [&[2][..], &int, &int].concat();
    assert_eq!(cell(3904, true, &range), "f1 f4 d4 f4 d4 ");
    let length = u8::try_from(range.len()).unwrap();
    let multirange = [&[0, 0, 0, 1, 0, 0, 0, length][..], &range].concat();
    assert_eq!(cell(4451, true, &multirange), "f4 f4 f1 f4 d4 f4 d4 ");
    let empty = [0; 12];
    assert_eq!(cell(1007, true, &empty), "f4 f4 s4 ");
    let length = u8::try_from(record.len()).unwrap();
    let records =
        [&[0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 8, 201, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, length][..], &record].concat();
    assert_eq!(cell(2287, true, &records), "f4 f4 s4 f4 f4 f4 f4 s4 f4 d4 s4 f4 ");
}

#[test]
fn structure_could_hide_in_what_looks_like_it() {
    let text = |value: &str| may_be_structured(value.as_bytes(), value.len() as u64, false);
    for literal in ["{1,2}", "{}", "{\"a\",b}", "[0:1]={1,2}", "(1,\"b c\")", "[1,10)", "(,5]", "{[1,2),[5,6)}"] {
        assert!(text(literal), "{literal}");
    }
    for scalar in
        ["", "1", "{", "2026-11-22 10:00:00+00", "{\"a\": [1,2]}", "{ \"a\\\"\": 1}", "[1,2,3]", "a{1,2}", "{1,2} "]
    {
        assert!(!text(scalar), "{scalar}");
    }
    let int = [0, 0, 0, 4, 0, 0, 0, 9];
    let array = [&[0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 23, 0, 0, 0, 2, 0, 0, 0, 1][..], &int, &int].concat();
    let record = [&[0, 0, 0, 1, 0, 0, 0, 23][..], &int].concat();
    let range = [&[2][..], &int, &int].concat();
    let multirange = [&[0, 0, 0, 1, 0, 0, 0, 17][..], &range].concat();
    let binary = |value: &[u8]| may_be_structured(value, value.len() as u64, true);
    for value in [&array, &record, &range, &multirange] {
        assert!(binary(value), "{value:?}");
        assert!(!binary(&value[..value.len() - 1]), "cut: {value:?}");
        assert!(may_be_structured(&value[..9], value.len() as u64, true), "snapped: {value:?}");
    }
    let scalars: [&[u8]; 8] = [b"", &[1], &[0; 4], &[0; 8], &[0; 12], &[0; 16], b"a text", &[0, 0, 0, 1, 0, 0, 0, 0]];
    for value in scalars {
        assert!(!binary(value), "{value:?}");
    }
}

#[test]
fn sniffed_by_the_first_bytes() {
    assert_eq!(sniff(&startup()), Sniff::Request);
    assert_eq!(sniff(&packet(80_877_103, b"")), Sniff::Request);
    assert_eq!(sniff(&query("SELECT 1")), Sniff::Request);
    assert_eq!(sniff(&welcome()), Sniff::Response);
    assert_eq!(sniff(&columns(&[23])), Sniff::Response);
    assert_eq!(sniff(&ready()), Sniff::Response);
    assert_eq!(sniff(b"Q\0"), Sniff::More);
    for other in
        [&b"GET / HTTP/1.1\r\nHost: a\r\n"[..], b"*1\r\n$4\r\nPING\r\n", b"+OK\r\n", &[4, 0, 0, 1, 5, 0, 0, 0, 0]]
    {
        assert_eq!(sniff(other), Sniff::No, "{other:?}");
    }
}

#[test]
fn products_that_speak_the_protocol_name_themselves() {
    let statuses =
        [msg(b'S', b"crdb_version\0CockroachDB CCL v23.1.4 (x86_64)\0"), msg(b'S', b"server_version\x0013.0.0\0")];
    let conversation = [(C, startup()), (S, [msg(b'R', &[0; 4]), statuses.concat(), ready()].concat())];
    let transcript = whole(&conversation);
    assert_eq!(transcript.software[1].as_deref(), Some("CockroachDB 23.1.4"));
    let status = msg(b'S', b"server_version\x0011.2-YB-2.14.0.0-b0\0");
    let answer = [msg(b'R', &[0; 4]), status, ready()].concat();
    let transcript = check(|| Pgwire::new(false), &[(C, &startup()), (S, &answer)]);
    assert_eq!(transcript.software[1].as_deref(), Some("YugabyteDB 2.14.0.0-b0"));
}

#[test]
fn old_statements_are_forgotten_first() {
    let mut session = session::Session::default();
    for n in 0..3 * crate::limits::STATEMENTS {
        let id = session.parse(format!("s{n}").as_bytes());
        let verb = StatementDialect::Postgres.verb(b"SELECT");
        session.set_text(id, StatementSummary { verb, ..StatementSummary::default() }, None);
    }
    let known = |session: &mut session::Session, name: &str| {
        let id = session.statement_named(name.as_bytes());
        session.statement(id).is_some_and(|statement| !statement.summary.verb.is_empty())
    };
    let last = 3 * crate::limits::STATEMENTS - 1;
    assert!(known(&mut session, &format!("s{last}")));
    assert!(known(&mut session, &format!("s{}", last + 1 - crate::limits::STATEMENTS / 2)));
    assert!(!known(&mut session, "s0"));
}
