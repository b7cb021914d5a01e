//! Pairing, names and classes.

use super::super::wire::opcode;
use super::build::*;
use super::*;
use overhead_decode::{DecoderEngine, Note};

const ID: [u8; 16] = [0xA5; 16];

fn handshake() -> [(Side, Vec<u8>); 4] {
    let options = [("CQL_VERSION", "3.0.0"), ("DRIVER_NAME", "Some Driver"), ("DRIVER_VERSION", "4.19")];
    [
        (Request, ask(0, opcode::OPTIONS, &[])),
        (
            Response,
            answer(
                0,
                opcode::SUPPORTED,
                &[&short(1)[..], &string("CQL_VERSION"), &short(1), &string("3.4.7")].concat(),
            ),
        ),
        (Request, ask(0, opcode::STARTUP, &map(&options))),
        (Response, answer(0, opcode::READY, &[])),
    ]
}

fn summary(conversation: &[(Side, Vec<u8>)]) -> Vec<String> {
    let conversation: Vec<_> = conversation.iter().map(|(side, bytes)| (*side, bytes.as_slice())).collect();
    decode(&conversation).summary()
}

/// `class name via outcome`.
fn named(conversation: &[(Side, Vec<u8>)]) -> Vec<String> {
    let line = |line: &String| line.split(':').next().unwrap().to_owned();
    summary(conversation).iter().map(line).collect()
}

#[test]
fn options_are_setup_before_startup_and_a_heartbeat_after_it() {
    let heartbeat = [(Request, ask(1, opcode::OPTIONS, &[])), (Response, answer(1, opcode::SUPPORTED, &[0, 0]))];
    let conversation = [handshake().to_vec(), heartbeat.to_vec()].concat();
    assert_eq!(
        summary(&conversation),
        [
            "setup OPTIONS [] ok: framing 6, metadata 3 | framing 14, metadata 19",
            "setup STARTUP [] ok: framing 20, metadata 59 | framing 6, metadata 3",
            "background OPTIONS [] ok: framing 6, metadata 3 | framing 8, metadata 3",
        ]
    );
}

/// The Python driver with Cassandra 5.
#[test]
fn a_version_of_datastax_is_tried_first_and_refused() {
    let text = [&int(0x0A)[..], &string("Invalid or unsupported protocol version (66)")].concat();
    let refused =
        [(Request, message(66, 0, 0, opcode::OPTIONS, &[])), (Response, message(0x85, 0, 0, opcode::ERROR, &text))];
    assert_eq!(named(&refused), ["setup OPTIONS [] error"]);
    let foreign = [(Request, message(66, 0, 0, opcode::QUERY, &[0; 9]))];
    assert_eq!(named(&foreign), ["unmatched (undecoded) [] open"]);
}

#[test]
fn the_driver_names_itself_and_scylla_shows_itself_by_its_options() {
    let options = [&short(1)[..], &string("SCYLLA_SHARD"), &short(1), &string("3")].concat();
    let [_, _, (_, startup), (_, ready)] = handshake();
    let transcript = decode(&[
        (Request, &ask(0, opcode::OPTIONS, &[])),
        (Response, &answer(0, opcode::SUPPORTED, &options)),
        (Request, &startup),
        (Response, &ready),
    ]);
    assert_eq!(transcript.software[0].as_deref(), Some("Some Driver 4.19"));
    assert_eq!(transcript.software[1].as_deref(), Some("ScyllaDB"));
}

#[test]
fn the_release_in_the_local_table_names_the_server() {
    let columns = |name: &str| {
        let body = [
            &int(2)[..],
            &int(1),
            &int(2),
            &string("system"),
            &string("local"),
            &string("key"),
            &native(TEXT),
            &string(name),
            &native(TEXT),
            &int(1),
            &value(b"local"),
            &value(b"5.0.5"),
        ];
        answer(0, opcode::RESULT, &body.concat())
    };
    let request = query(0, "SELECT * FROM system.local WHERE key='local'");
    let transcript = exchange(&request, &columns("release_version"));
    assert_eq!(transcript.software[1].as_deref(), Some("Cassandra 5.0.5"));
    assert_eq!(exchange(&request, &columns("cql_version")).software[1], None);
}

#[test]
fn a_prepared_select_is_named_after_its_text_and_typed_by_its_markers() {
    let list = [("id", native(BIGINT)), ("vector", list_of(&native(INT))), ("payload", native(TEXT))];
    let vector = elements(3, &[value(&[1; 4]), value(&[2; 4]), null()]);
    let cells = [value(&[0; 8]), value(&vector), value(b"some text")];
    let transcript = decode(&[
        (Request, &prepare(0, "select id, vector, payload from lab.tab where id = ?")),
        (Response, &prepared(0, &ID, "lab", &[("id", native(BIGINT))], &list)),
        (Request, &execute(0, &ID, 0x10, &[[value(&[0; 8]), vec![0, 9]].concat()])),
        (Response, &rows(0, "lab", &list, &cells)),
    ]);
    assert_eq!(
        transcript.summary(),
        [
            "setup PREPARE [] ok: framing 10, metadata 3, query 52 | framing 40, metadata 27, schema 41",
            "workload SELECT [prepared] ok: framing 14, metadata 24, data 8 | framing 56, metadata 7, schema 29, data 25",
        ]
    );
    assert!(transcript.notes.is_empty());
}

#[test]
fn rows_without_metadata_take_the_types_of_the_prepared_statement() {
    let list = [("ints", list_of(&native(INT)))];
    let transcript = decode(&[
        (Request, &prepare(0, "SELECT ints FROM lab.tab WHERE id = ?")),
        (Response, &prepared(0, &ID, "lab", &[("id", native(BIGINT))], &list)),
        (Request, &execute(0, &ID, 0x02, &[value(&[0; 8])])),
        (Response, &bare_rows(0, 1, &[value(&elements(2, &[value(&[1; 4]), value(&[2; 4])]))])),
    ]);
    assert_eq!(bytes_of(&transcript, Response, Account::Data), 8);
    assert_eq!(posted(&transcript, Response, "rows.element"), [(Account::Data, 4), (Account::Data, 4)]);
    assert!(transcript.notes.is_empty());
}

#[test]
fn an_insert_is_answered_by_a_kind_that_is_the_whole_answer() {
    let transcript = exchange(&query(3, "INSERT INTO t (a) VALUES (1)"), &void(3));
    assert_eq!(
        transcript.summary(),
        ["workload INSERT [query] ok: framing 10, metadata 6, query 28 | framing 6, metadata 3, status 4"]
    );
}

#[test]
fn a_statement_prepared_elsewhere_is_an_execute_with_untyped_values() {
    let pair = [value(b"123"), null()].concat();
    let transcript = exchange(&execute(0, &ID, 0, &[value(b"12345678"), value(&pair)]), &void(0));
    assert_eq!(
        transcript.summary(),
        ["workload EXECUTE [prepared] ok: framing 18, metadata 22, data 19 | framing 6, metadata 3, status 4"]
    );
    assert_eq!(transcript.notes, [Note::UntypedValue], "of what could be a tuple alone");
}

#[test]
fn rows_tell_what_a_statement_prepared_elsewhere_is() {
    let row = |keyspace, column| {
        let response = rows(0, keyspace, &[(column, native(INT))], &[value(&[0; 4])]);
        named(&[(Request, execute(0, &ID, 0, &[])), (Response, response)])
    };
    assert_eq!(row("lab", "id"), ["workload SELECT [prepared] ok"]);
    assert_eq!(row("system", "id"), ["background SELECT [prepared] ok"]);
    assert_eq!(row("lab", "[applied]"), ["workload EXECUTE [prepared] ok"]);
}

#[test]
fn responses_come_in_any_order() {
    let conversation = [
        (Request, [query(1, "SELECT a FROM t"), query(2, "INSERT INTO t"), query(3, "DELETE FROM t")].concat()),
        (Response, [void(2), answer(3, opcode::ERROR, &[&int(0x2200)[..], &string("no")].concat()), void(1)].concat()),
    ];
    assert_eq!(
        named(&conversation),
        ["workload SELECT [query] ok", "workload INSERT [query] ok", "workload DELETE [query] error"]
    );
}

#[test]
fn an_id_in_use_again_before_its_response_is_answered_in_order() {
    let conversation = [
        (Request, [query(7, "SELECT a FROM t"), query(7, "INSERT INTO t")].concat()),
        (Response, [void(7), answer(7, opcode::ERROR, &[&int(0)[..], &string("no")].concat())].concat()),
    ];
    assert_eq!(named(&conversation), ["workload SELECT [query] ok", "workload INSERT [query] error"]);
}

#[test]
fn an_id_in_use_again_after_a_lost_response_is_a_new_exchange() {
    let mut engine = DecoderEngine::new(Cql::new(false), false);
    let mut transcript = Transcript::default();
    engine.bytes(Request, &query(7, "SELECT a FROM t"), &mut transcript);
    engine.opaque(Response, 500, &mut transcript);
    engine.bytes(Request, &query(7, "INSERT INTO t"), &mut transcript);
    engine.bytes(Response, &void(7), &mut transcript);
    engine.finish(&mut transcript);
    let outcomes: Vec<_> = transcript.ops.iter().map(|op| (op.name(), op.outcome.is_some())).collect();
    assert_eq!(outcomes, [("SELECT", false), ("(undecoded)", true), ("INSERT", true)]);
}

#[test]
fn a_response_without_a_request_is_unmatched() {
    assert_eq!(named(&[(Response, void(5))]), ["unmatched RESULT [] ok"]);
}

fn event() -> Vec<u8> {
    let body = [&string("STATUS_CHANGE")[..], &string("UP"), &[4, 127, 0, 0, 1], &int(9042)];
    answer(-1, opcode::EVENT, &body.concat())
}

#[test]
fn an_event_is_of_no_request_and_no_operation() {
    let register = [&short(1)[..], &string("STATUS_CHANGE")].concat();
    let conversation =
        [(Request, ask(4, opcode::REGISTER, &register)), (Response, [answer(4, opcode::READY, &[]), event()].concat())];
    assert_eq!(
        summary(&conversation),
        [
            "background REGISTER [] ok: framing 10, metadata 16 | framing 6, metadata 3",
            "background EVENT [] unsolicited:  | framing 11, metadata 3, status 23",
        ]
    );
    assert_eq!(named(&[(Response, event())]), ["background EVENT [] unsolicited"]);
}

#[test]
fn authentication_is_setup() {
    let conversation = [
        (Request, ask(0, opcode::STARTUP, &map(&[("CQL_VERSION", "3.0.0")]))),
        (Response, answer(0, opcode::AUTHENTICATE, &string("o.a.c.auth.PasswordAuthenticator"))),
        (Request, ask(0, opcode::AUTH_RESPONSE, &value(b"\0user\0secret"))),
        (Response, answer(0, opcode::AUTH_SUCCESS, &null())),
    ];
    assert_eq!(
        summary(&conversation),
        [
            "setup STARTUP [] ok: framing 12, metadata 19 | framing 8, metadata 35",
            "setup AUTH_RESPONSE [] ok: framing 10, metadata 15 | framing 10, metadata 3",
        ]
    );
}

#[test]
fn use_is_setup_until_the_application_has_asked_for_something() {
    let set = |stream| answer(stream, opcode::RESULT, &[&int(3)[..], &string("lab")].concat());
    let conversation = [
        (Request, query(0, "USE lab")),
        (Response, set(0)),
        (Request, query(0, "SELECT a FROM system.peers")),
        (Response, void(0)),
        (Request, query(0, "use lab")),
        (Response, set(0)),
        (Request, query(0, "SELECT a FROM t")),
        (Response, void(0)),
        (Request, query(0, "USE lab")),
        (Response, set(0)),
    ];
    assert_eq!(
        named(&conversation),
        [
            "setup USE [query] ok",
            "background SELECT [query] ok",
            "setup USE [query] ok",
            "workload SELECT [query] ok",
            "workload USE [query] ok",
        ]
    );
}

#[test]
fn unqualified_tables_are_those_of_the_keyspace_in_use() {
    let set = answer(0, opcode::RESULT, &[&int(3)[..], &string("system")].concat());
    let conversation = [
        (Request, query(0, "USE system")),
        (Response, set),
        (Request, query(0, "SELECT * FROM peers")),
        (Response, void(0)),
        (Request, query(0, "SELECT * FROM lab.t")),
        (Response, void(0)),
    ];
    assert_eq!(
        named(&conversation),
        ["setup USE [query] ok", "background SELECT [query] ok", "workload SELECT [query] ok"]
    );
}

#[test]
fn the_server_answers_in_the_version_it_knows() {
    let refusal = [&int(0x0A)[..], &string("Invalid or unsupported protocol version (6)")].concat();
    let conversation = [
        (Request, message(6, 0x10, 0, opcode::OPTIONS, &[])),
        (Response, message(0x84, 0, 0, opcode::ERROR, &refusal)),
    ];
    assert_eq!(named(&conversation), ["setup OPTIONS [] error"]);
}
