//! Conversations of real clients and servers.

use super::*;

#[test]
fn start_up_with_trust_names_both_ends() {
    let conversation = [(C, startup()), (S, welcome()), (C, msg(b'X', b""))];
    let transcript = whole(&conversation);
    assert_eq!(
        transcript.summary(),
        [
            "setup STARTUP [] ok: framing 13, metadata 26 | framing 22, metadata 52, status 5",
            "setup TERMINATE [] noreply: framing 5 | ",
        ]
    );
    assert_eq!(transcript.software, [Some("psql".into()), Some("PostgreSQL 15.18".into())]);
}

#[test]
fn encryption_refused_then_scram() {
    let sasl = |code: u8, rest: &[u8]| msg(b'R', &[&[0, 0, 0, code], rest].concat());
    let conversation = [
        (C, packet(80_877_104, b"")),
        (S, b"N".to_vec()),
        (C, packet(80_877_103, b"")),
        (S, b"N".to_vec()),
        (C, startup()),
        (S, sasl(10, b"SCRAM-SHA-256-PLUS\0SCRAM-SHA-256\0\0")),
        (C, msg(b'p', b"SCRAM-SHA-256\0\0\0\0\x0bn,,n=,r=abc")),
        (S, sasl(11, b"r=abcd,s=c2FsdA==,i=4096")),
        (C, msg(b'p', b"c=biws,r=abcd,p=cHJvb2Y=")),
        (S, [sasl(12, b"v=c2lnbmF0dXJl"), welcome()].concat()),
    ];
    assert_eq!(
        whole(&conversation).summary(),
        [
            "setup GSSENCREQUEST [] ok: framing 8 | status 1",
            "setup SSLREQUEST [] ok: framing 8 | status 1",
            "setup STARTUP [] ok: framing 28, metadata 74 | framing 52, metadata 121, status 5",
        ]
    );
}

#[test]
fn md5_password_that_is_wrong() {
    let conversation = [
        (C, startup()),
        (S, msg(b'R', b"\0\0\0\x05salt")),
        (C, msg(b'p', b"md50123456789abcdef\0")),
        (S, error("FATAL")),
    ];
    assert_eq!(
        whole(&conversation).summary(),
        ["setup STARTUP [] error: framing 19, metadata 45 | framing 21, metadata 4, status 12"]
    );
}

#[test]
fn newest_minor_version_negotiated() {
    let conversation = [
        (C, packet((3 << 16) | 2, b"user\0me\0_pq_.x\0on\0\0")),
        (S, [msg(b'v', b"\0\x03\0\0\0\0\0\x01_pq_.x\0"), welcome()].concat()),
    ];
    let summary = whole(&conversation).summary();
    assert_eq!(summary, ["setup STARTUP [] ok: framing 13, metadata 14 | framing 36, metadata 58, status 5"]);
}

#[test]
fn encryption_answered_by_an_error() {
    let conversation = [(C, packet(80_877_103, b"")), (S, error("FATAL"))];
    assert_eq!(whole(&conversation).summary(), ["setup SSLREQUEST [] error: framing 8 | framing 12, status 12"]);
}

#[test]
fn gssapi_accepted() {
    let wrapped = [0, 0, 0, 4, 5, 4, 7, 7];
    let conversation = [
        (C, packet(80_877_104, b"")),
        (S, b"G".to_vec()),
        (C, vec![0, 0, 0, 3, 0x60, 1, 2]),
        (S, vec![0, 0, 0, 2, 0x60, 1]),
        (C, wrapped.to_vec()),
        (S, wrapped.to_vec()),
    ];
    assert_eq!(
        whole(&conversation).summary(),
        [
            "setup GSSENCREQUEST [] ok: framing 8 | status 1",
            "setup GSSENCREQUEST [handshake] ok: tls 7 | tls 6",
            "unmatched (encrypted) [] open: tls 4, unknown 4 | tls 4, unknown 4",
        ]
    );
}

#[test]
fn a_query_is_cancelled() {
    let cancel = packet(80_877_102, &[7; 8]);
    let transcript = check(|| Pgwire::new(false), &[(C, &cancel)]);
    assert_eq!(transcript.summary(), ["setup CANCEL [] noreply: framing 8, metadata 8 | "]);
}

#[test]
fn a_server_older_than_protocol_3_answers_with_text() {
    let conversation = [(C, startup()), (S, b"EFATAL 1: unsupported frontend protocol\0".to_vec())];
    assert_eq!(
        whole(&conversation).summary(),
        ["setup STARTUP [] error: framing 13, metadata 26 | framing 2, status 38"]
    );
}

#[test]
fn simple_query_with_text_array_and_null() {
    let summary = talk(&[
        (C, vec![query("/* hint */ select a, b from t")]),
        (
            S,
            vec![
                columns(&[1007, 25]),
                row(&[Some(br#"{1,NULL,"a,b"}"#), None]),
                row(&[Some(b"[2:3]={7,8}"), Some(b"{x}")]),
                tag("SELECT 2"),
                ready(),
            ],
        ),
    ]);
    // Rows: headers 2 × 7, lengths 4 × 4, punctuation 10 with NULL, and 9.
    assert_eq!(
        summary,
        ["workload SELECT [simple] ok: framing 6, query 29 | framing 69, metadata 4, schema 38, data 9, status 9"]
    );
}

#[test]
fn several_statements_in_one_query() {
    let summary = talk(&[
        (C, vec![query("BEGIN; SELECT 1; COMMIT")]),
        (S, vec![tag("BEGIN"), columns(&[23]), row(&[Some(b"1")]), tag("SELECT 1"), tag("COMMIT"), ready()]),
    ]);
    assert_eq!(
        summary,
        ["workload BEGIN [simple] ok: framing 6, query 23 | framing 42, metadata 2, schema 19, data 1, status 20"]
    );
}

#[test]
fn empty_query() {
    let summary = talk(&[(C, vec![query(";")]), (S, vec![msg(b'I', b""), ready()])]);
    assert_eq!(summary, ["workload EMPTY [simple] ok: framing 6, query 1 | framing 10, status 1"]);
    let summary = talk(&[
        (C, vec![parse("", ""), bind(""), execute(), sync()]),
        (S, vec![msg(b'1', b""), msg(b'2', b""), msg(b'I', b""), ready()]),
    ]);
    assert_eq!(summary, ["workload EMPTY [extended] ok: framing 33, metadata 6 | framing 20, status 1"]);
}

#[test]
fn settings_before_the_first_statement_are_setup() {
    let ok = |name: &str| (S, vec![tag(name), ready()]);
    let summary = talk(&[
        (C, vec![query("SET a = 1; SHOW b")]),
        ok("SHOW"),
        (C, vec![parse("", "SET x TO y"), bind(""), execute(), sync()]),
        (S, vec![msg(b'1', b""), msg(b'2', b""), tag("SET"), ready()]),
        (C, vec![query("SELECT 1")]),
        ok("SELECT 1"),
        (C, vec![query("SET a = 2")]),
        ok("SET"),
    ]);
    let names: Vec<_> = summary.iter().map(|line| line.split(" [").next().unwrap()).collect();
    assert_eq!(names, ["setup SET", "setup SET", "workload SELECT", "workload SET"]);
}

#[test]
fn prepared_once_and_executed_with_a_binary_array() {
    let array = [
        &[0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 23, 0, 0, 0, 2, 0, 0, 0, 1][..],
        &[0, 0, 0, 4, 9, 9, 9, 9, 0xff, 0xff, 0xff, 0xff],
    ]
    .concat();
    let parameters = [b"\0s1\0\0\x01\0\x01".to_vec(), cells(&[Some(&array)]), b"\0\x01\0\x01".to_vec()].concat();
    let summary = talk(&[
        (C, vec![parse("s1", "INSERT INTO t VALUES ($1) RETURNING a"), describe(b'S', "s1"), sync()]),
        (S, vec![msg(b'1', b""), msg(b't', b"\0\x01\0\0\x03\xef"), columns(&[1007]), ready()]),
        (C, vec![msg(b'B', &parameters), execute(), sync()]),
        (S, vec![msg(b'2', b""), row(&[Some(&array)]), tag("INSERT 0 1"), ready()]),
    ]);
    assert_eq!(
        summary,
        [
            "setup PREPARE [extended] ok: framing 21, metadata 4, query 37 | framing 25, metadata 2, schema 23, status 1",
            "workload INSERT [prepared] ok: framing 52, metadata 10, schema 4, data 4 | framing 51, schema 4, data 4, status 11",
        ]
    );
}

#[test]
fn pipeline_of_two_with_one_sync() {
    let unit = |sql| [parse("", sql), bind(""), execute()].concat();
    let summary = talk(&[
        (C, vec![unit("DELETE FROM a"), unit("UPDATE b SET c = 1"), sync()]),
        (S, vec![msg(b'1', b""), msg(b'2', b""), tag("DELETE 1")]),
        (S, vec![msg(b'1', b""), msg(b'2', b""), tag("UPDATE 1"), ready()]),
    ]);
    assert_eq!(
        summary,
        [
            "workload DELETE [extended] ok: framing 28, metadata 6, query 13 | framing 16, status 8",
            "workload UPDATE [extended] ok: framing 33, metadata 6, query 18 | framing 21, status 9",
        ]
    );
}

#[test]
fn answer_before_the_sync() {
    let summary = talk(&[
        (C, vec![parse("", "SELECT 1"), bind(""), execute()]),
        (S, vec![msg(b'1', b""), msg(b'2', b""), tag("SELECT 0")]),
        (C, vec![sync()]),
        (S, vec![ready()]),
    ]);
    assert_eq!(summary, ["workload SELECT [extended] ok: framing 33, metadata 6, query 8 | framing 21, status 9"]);
}

#[test]
fn error_in_a_pipeline_skips_up_to_sync() {
    let unit = |sql| [parse("", sql), bind(""), execute()].concat();
    let summary = talk(&[
        (C, vec![unit("DELETE FROM a"), unit("UPDATE b SET c = 1")]),
        (S, vec![msg(b'1', b""), error("ERROR")]),
        (C, vec![unit("SELECT 1"), unit("SELECT 2"), sync()]),
        (S, vec![ready()]),
        (C, vec![query("ROLLBACK")]),
        (S, vec![tag("ROLLBACK"), ready()]),
    ]);
    assert_eq!(
        summary,
        [
            "workload DELETE [extended] error: framing 28, metadata 6, query 13 | framing 17, status 12",
            "workload UPDATE [extended] noreply: framing 28, metadata 6, query 18 | ",
            "workload SELECT [extended] noreply: framing 28, metadata 6, query 8 | ",
            "workload SELECT [extended] noreply: framing 33, metadata 6, query 8 | framing 5, status 1",
            "workload ROLLBACK [simple] ok: framing 6, query 8 | framing 11, status 9",
        ]
    );
}

#[test]
fn error_of_a_simple_query() {
    let summary = talk(&[(C, vec![query("SELECT 1/0")]), (S, vec![error("ERROR"), ready()])]);
    assert_eq!(summary, ["workload SELECT [simple] error: framing 6, query 10 | framing 17, status 13"]);
}

#[test]
fn an_error_before_the_server_closes_is_the_answer() {
    let summary = talk(&[(C, vec![query("SELECT 1/0")]), (S, vec![error("ERROR")])]);
    assert_eq!(summary, ["workload SELECT [simple] error: framing 6, query 10 | framing 12, status 12"]);
}

#[test]
fn units_without_execute_are_setup() {
    let summary = talk(&[
        (C, vec![parse("s", "SELECT 1"), describe(b'S', "s"), flush()]),
        (S, vec![msg(b'1', b""), msg(b't', b"\0\0"), columns(&[23])]),
        (C, vec![bind("s"), execute(), sync()]),
        (S, vec![msg(b'2', b""), row(&[Some(&[0, 0, 0, 1])]), tag("SELECT 1"), ready()]),
        (C, vec![msg(b'C', b"Ss\0"), sync()]),
        (S, vec![msg(b'3', b""), ready()]),
        (C, vec![sync(), flush()]),
        (S, vec![ready()]),
        (C, vec![describe(b'P', "p"), sync()]),
        (S, vec![msg(b'n', b""), ready()]),
    ]);
    assert_eq!(
        summary,
        [
            "setup PREPARE [extended] ok: framing 21, metadata 2, query 8 | framing 20, metadata 2, schema 19",
            "workload SELECT [prepared] ok: framing 24, metadata 7 | framing 27, data 4, status 9",
            "setup CLOSE [extended] ok: framing 12, metadata 1 | framing 10, status 1",
            "setup SYNC [extended] ok: framing 5 | framing 5, status 1",
            "setup FLUSH [extended] noreply: framing 5 | ",
            "setup DESCRIBE [extended] ok: framing 12, metadata 1 | framing 10, status 1",
        ]
    );
}

#[test]
fn every_message_with_its_own_flush() {
    let summary = talk(&[
        (C, vec![parse("s", "SELECT 1"), flush()]),
        (S, vec![msg(b'1', b"")]),
        (C, vec![describe(b'S', "s"), flush(), sync()]),
        (S, vec![msg(b't', b"\0\0"), msg(b'n', b""), ready()]),
        (C, vec![bind("s"), flush()]),
        (S, vec![msg(b'2', b"")]),
        (C, vec![execute(), flush()]),
        (S, vec![tag("SELECT 0")]),
        (C, vec![sync()]),
        (S, vec![ready()]),
    ]);
    assert_eq!(
        summary,
        [
            "setup PREPARE [extended] ok: framing 14, metadata 1, query 8 | framing 5",
            "setup DESCRIBE [extended] ok: framing 17, metadata 1 | framing 17, status 1",
            "workload SELECT [prepared] ok: framing 34, metadata 7 | framing 16, status 9",
        ]
    );
}

#[test]
fn a_portal_is_fetched_in_two_parts() {
    let execute = || msg(b'E', b"c1\0\0\0\0\x01");
    let summary = talk(&[
        (C, vec![parse("", "TABLE t"), msg(b'B', b"c1\0\0\0\0\0\0\0\0"), describe(b'P', "c1"), execute(), sync()]),
        (S, vec![msg(b'1', b""), msg(b'2', b""), columns(&[25]), row(&[Some(b"a")]), msg(b's', b""), ready()]),
        (C, vec![execute(), sync()]),
        (S, vec![row(&[Some(b"b")]), tag("SELECT 1"), ready()]),
    ]);
    assert_eq!(
        summary,
        [
            "workload TABLE [extended] ok: framing 40, metadata 10, query 7 | framing 39, metadata 2, schema 19, data 1, status 1",
            "workload TABLE [extended] ok: framing 11, metadata 6 | framing 22, data 1, status 9",
        ]
    );
}

#[test]
fn copy_in_by_a_simple_query() {
    let summary = talk(&[
        (C, vec![query("COPY t FROM STDIN")]),
        (S, vec![msg(b'G', b"\0\0\x02\0\0\0\0")]),
        (C, vec![msg(b'd', b"1\ta\n"), msg(b'd', b"2\tb\n"), msg(b'c', b"")]),
        (S, vec![tag("COPY 2"), ready()]),
    ]);
    assert_eq!(summary, ["workload COPY [simple] ok: framing 25, query 17, data 4 | framing 18, metadata 5, status 7"]);
}

#[test]
fn copy_in_by_the_extended_protocol_ignores_the_first_sync() {
    let summary = talk(&[
        (C, vec![parse("", "COPY t FROM STDIN"), bind(""), execute(), sync()]),
        (S, vec![msg(b'1', b""), msg(b'2', b""), msg(b'G', b"\0\0\0")]),
        (C, vec![msg(b'd', b"1\n"), sync(), msg(b'c', b""), sync()]),
        (S, vec![tag("COPY 1"), ready()]),
        (C, vec![query("SELECT 1")]),
        (S, vec![tag("SELECT 1"), ready()]),
    ]);
    assert_eq!(
        summary,
        [
            "workload COPY [extended] ok: framing 54, metadata 6, query 17, data 1 | framing 28, metadata 1, status 7",
            "workload SELECT [simple] ok: framing 6, query 8 | framing 11, status 9",
        ]
    );
}

#[test]
fn copy_in_that_the_client_gives_up() {
    let summary = talk(&[
        (C, vec![query("COPY t FROM STDIN")]),
        (S, vec![msg(b'G', b"\0\0\0")]),
        (C, vec![msg(b'f', b"no more\0")]),
        (S, vec![error("ERROR"), ready()]),
    ]);
    assert_eq!(
        summary,
        ["workload COPY [simple] error: framing 12, query 17, status 7 | framing 24, metadata 1, status 13"]
    );
}

#[test]
fn copy_data_sent_before_it_was_asked_for() {
    let summary = talk(&[
        (C, vec![parse("", "COPY t FROM STDIN"), bind(""), execute(), msg(b'd', b"1\n"), msg(b'c', b""), sync()]),
        (S, vec![msg(b'1', b""), msg(b'2', b""), msg(b'G', b"\0\0\0"), tag("COPY 1"), ready()]),
    ]);
    assert_eq!(
        summary,
        ["workload COPY [extended] ok: framing 44, metadata 6, query 17, data 1 | framing 28, metadata 1, status 7"]
    );
}

#[test]
fn copy_data_behind_a_failure_belong_to_what_failed() {
    let summary = talk(&[
        (C, vec![query("COPY t FROM STDIN")]),
        (S, vec![msg(b'G', b"\0\0\0")]),
        (C, vec![msg(b'd', b"x\n")]),
        (S, vec![error("ERROR"), ready()]),
        (C, vec![msg(b'd', b"y\n"), msg(b'c', b"")]),
        (C, vec![query("SELECT 1")]),
        (S, vec![tag("SELECT 1"), ready()]),
    ]);
    assert_eq!(
        summary,
        [
            "workload COPY [simple] error: framing 23, query 17, data 2 | framing 24, metadata 1, status 13",
            "workload SELECT [simple] ok: framing 6, query 8 | framing 11, status 9",
        ]
    );
}

#[test]
fn copy_that_is_refused_behind_its_answer_leaves_the_server_ready() {
    // A copy into a view: the server fails after `CopyInResponse`, before reading the `Sync` of the request.
    let summary = talk(&[
        (C, vec![parse("", "COPY v FROM STDIN"), bind(""), execute(), sync()]),
        (S, vec![msg(b'1', b""), msg(b'2', b""), msg(b'G', b"\0\0\0"), error("ERROR"), ready()]),
        (C, vec![query("ROLLBACK")]),
        (S, vec![tag("ROLLBACK"), ready()]),
        (C, vec![parse("", "DELETE FROM t"), bind(""), execute(), sync()]),
        (S, vec![msg(b'1', b""), msg(b'2', b""), tag("DELETE 1"), ready()]),
    ]);
    assert_eq!(
        summary,
        [
            "workload COPY [extended] error: framing 33, metadata 6, query 17 | framing 34, metadata 1, status 13",
            "workload ROLLBACK [simple] ok: framing 6, query 8 | framing 11, status 9",
            "workload DELETE [extended] ok: framing 33, metadata 6, query 13 | framing 21, status 9",
        ]
    );
}

#[test]
fn base_backup_is_a_copy_for_each_table_space_and_one_for_the_manifest() {
    let conversation = [
        (C, packet(3 << 16, b"user\0me\0replication\0true\0\0")),
        (S, welcome()),
        (C, query("BASE_BACKUP LABEL 'x' MANIFEST 'yes'")),
        (S, [columns(&[25]), row(&[Some(b"0/2")]), tag("SELECT"), msg(b'H', b"\0\0\0")].concat()),
        (S, [msg(b'd', b"file\n\t\\\n"), msg(b'c', b""), msg(b'H', b"\0\0\0")].concat()),
        (S, [msg(b'd', b"{\n\t\\\n"), msg(b'c', b""), tag("SELECT"), ready()].concat()),
    ];
    let summary = whole(&conversation).summary().split_off(1);
    assert_eq!(summary.len(), 1, "{summary:?}");
    assert!(summary[0].contains("data 16"), "8 and 5 of the copies, to the last byte, and a cell of 3: {summary:?}");
}

#[test]
fn two_phase_commit_is_work() {
    let summary = talk(&[
        (C, vec![query("PREPARE TRANSACTION 'a'")]),
        (S, vec![tag("PREPARE TRANSACTION"), ready()]),
        (C, vec![query("prepare p as select 1")]),
        (S, vec![tag("PREPARE"), ready()]),
        (C, vec![bind("unseen"), execute(), sync()]),
        (S, vec![msg(b'2', b""), tag("PREPARE TRANSACTION"), ready()]),
    ]);
    let names: Vec<_> = summary.iter().filter_map(|line| line.split(" [").next()).collect();
    assert_eq!(names, ["workload PREPARE TRANSACTION", "setup PREPARE", "workload PREPARE TRANSACTION"]);
}

#[test]
fn copy_out_in_binary_cut_within_a_length() {
    let stream = [
        b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0".to_vec(),
        b"\0\x02\0\0\0\x04abcd\xff\xff\xff\xff".to_vec(),
        b"\xff\xff".to_vec(),
    ]
    .concat();
    let (head, tail) = stream.split_at(23);
    let summary = talk(&[
        (C, vec![query("COPY t TO STDOUT (FORMAT binary)")]),
        (S, vec![msg(b'H', b"\x01\0\x02\0\x01\0\x01"), msg(b'd', head), msg(b'd', tail), msg(b'c', b"")]),
        (S, vec![tag("COPY 1"), ready()]),
    ]);
    // Signature 11, extension length 4, counts 2 × 2, lengths 2 × 4; flags 4 and format codes 5.
    assert_eq!(summary, ["workload COPY [simple] ok: framing 6, query 32 | framing 60, metadata 9, data 4, status 7"]);
}

#[test]
fn what_the_server_says_on_its_own_account() {
    let notify = || msg(b'A', b"\0\0\0\x07ch\0hello\0");
    let status = || msg(b'S', b"TimeZone\0UTC\0");
    let notice = || msg(b'N', b"SNOTICE\0Mhi\0\0");
    let summary = talk(&[
        (C, vec![query("LISTEN ch")]),
        (S, vec![notice(), status(), tag("LISTEN"), notify(), ready()]),
        (S, vec![notify(), status(), notice()]),
    ]);
    assert_eq!(
        summary,
        [
            "workload LISTEN [simple] ok: framing 6, query 9 | framing 28, metadata 11, status 15",
            "background NOTIFICATION [] unsolicited:  | framing 7, metadata 6, data 5",
            "background NOTIFICATION [] unsolicited:  | framing 7, metadata 6, data 5",
            "background PARAMETER STATUS [] unsolicited:  | framing 7, metadata 11",
            "background NOTICE [] unsolicited:  | framing 10, status 8",
        ]
    );
}

#[test]
fn function_call() {
    let call = [b"\0\0\x03\xe9\0\x01\0\x01".to_vec(), cells(&[Some(b"abc"), None]), b"\0\x01".to_vec()].concat();
    let summary = talk(&[(C, vec![msg(b'F', &call)]), (S, vec![msg(b'V', b"\0\0\0\x02ok"), ready()])]);
    assert_eq!(
        summary,
        [
            "workload FUNCTION [function call] ok: framing 17, metadata 4, query 4, data 3 | framing 14, data 2, status 1"
        ]
    );
}

#[test]
fn replication_is_background() {
    let wal = [b"w".to_vec(), vec![0; 24], b"change".to_vec()].concat();
    let conversation = [
        (C, packet(3 << 16, b"user\0me\0replication\0database\0\0")),
        (S, welcome()),
        (C, query("START_REPLICATION SLOT s LOGICAL 0/0")),
        (S, [msg(b'W', b"\0\0\0"), msg(b'd', &wal), msg(b'd', &[b"k".to_vec(), vec![0; 17]].concat())].concat()),
        (C, [msg(b'd', &[b"r".to_vec(), vec![0; 33]].concat()), msg(b'c', b"")].concat()),
        (S, [msg(b'c', b""), tag("COPY 0"), ready()].concat()),
    ];
    assert_eq!(
        whole(&conversation).summary().split_off(1),
        ["background START_REPLICATION [simple] ok: framing 17, metadata 33, query 36 | \
          framing 35, metadata 42, data 6, status 7"]
    );
}

#[test]
fn the_server_shuts_down() {
    let summary = talk(&[(C, vec![query("SELECT pg_sleep(9)")]), (S, vec![error("FATAL")]), (C, vec![msg(b'X', b"")])]);
    assert_eq!(
        summary,
        [
            "workload SELECT [simple] error: framing 6, query 18 | framing 12, status 12",
            "setup TERMINATE [] noreply: framing 5 | ",
        ]
    );
    let idle = talk(&[(S, vec![error("FATAL")])]);
    assert_eq!(idle, ["unmatched (response) [] noreply:  | framing 12, status 12"]);
}

#[test]
fn statement_prepared_out_of_sight_is_named_by_its_tag() {
    let summary =
        mid_stream(&[(C, vec![bind("s7"), execute(), sync()]), (S, vec![msg(b'2', b""), tag("UPDATE 1"), ready()])]);
    assert_eq!(summary, ["workload UPDATE [prepared] ok: framing 24, metadata 8 | framing 16, status 9"]);
}

#[test]
fn capture_that_misses_just_the_handshake_of_tcp() {
    let summary = mid_stream(&[
        (C, vec![startup()]),
        (S, vec![welcome()]),
        (C, vec![query("SET a = 1")]),
        (S, vec![tag("SET"), ready()]),
    ]);
    assert_eq!(
        summary,
        [
            "setup STARTUP [] ok: framing 13, metadata 26 | framing 22, metadata 52, status 5",
            "setup SET [simple] ok: framing 6, query 9 | framing 11, status 4",
        ]
    );
}

#[test]
fn capture_that_starts_within_an_answer() {
    let summary = mid_stream(&[
        (S, vec![b"garbage\0".to_vec(), row(&[Some(b"1")]), tag("SELECT 1"), ready()]),
        (C, vec![query("COMMIT")]),
        (S, vec![tag("COMMIT"), ready()]),
    ]);
    assert_eq!(
        summary,
        [
            "unmatched (undecoded) [] noreply:  | unknown 8",
            "unmatched (response) [] noreply:  | framing 22, data 1, status 9",
            "workload COMMIT [simple] ok: framing 6, query 6 | framing 11, status 7",
        ]
    );
}

#[test]
fn answers_lost_in_a_gap_do_not_shift_the_next() {
    let mut engine = DecoderEngine::new(Pgwire::new(false), false);
    let mut transcript = Transcript::default();
    engine.bytes(C, &startup(), &mut transcript);
    engine.bytes(S, &welcome(), &mut transcript);
    let ask = |n: u8| query(&format!("SELECT {n}"));
    engine.bytes(C, &ask(1), &mut transcript);
    engine.opaque(S, 40, &mut transcript);
    engine.bytes(C, &ask(2), &mut transcript);
    engine.bytes(S, &[columns(&[23]), row(&[Some(b"2")]), tag("SELECT 1"), ready()].concat(), &mut transcript);
    engine.finish(&mut transcript);
    assert_eq!(
        transcript.summary().split_off(1),
        [
            "workload SELECT [simple] unanswered: framing 6, query 8 | ",
            "unmatched (undecoded) [] noreply:  | unknown 40",
            "workload SELECT [simple] ok: framing 6, query 8 | framing 30, metadata 2, schema 19, data 1, status 9",
        ]
    );
}
