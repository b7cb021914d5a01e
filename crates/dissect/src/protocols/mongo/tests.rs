//! Exchanges named after their situation, each cut at every byte; damage; properties.

mod build;

use super::{Mongo, Sniff, sniff};
use crate::decode::transcript::{Transcript, check};
use crate::decode::{Engine, Note};
use build::*;
use overhead_model::Account::{Data, Framing, Metadata, Query, Schema, Status, Unknown};
use overhead_model::Side::{Request, Response};
use overhead_model::{Account, Outcome, Side};
use proptest::prelude::*;

fn decode(conversation: &[(Side, &[u8])]) -> Transcript {
    check(|| Mongo::new(false), conversation)
}

/// The exchange of one request and its reply, on a connection of its own.
fn exchange(request: &[Vec<u8>], answer: &[Vec<u8>]) -> Transcript {
    decode(&[(Request, &command(7, request)), (Response, &reply(7, answer))])
}

/// `account: bytes` of the postings whose path ends with `field`, in order.
fn posted(transcript: &Transcript, side: Side, field: &str) -> Vec<(Account, u64)> {
    let postings = transcript.postings[side as usize].iter();
    postings.filter(|posting| posting.path.ends_with(field)).map(|posting| (posting.account, posting.len)).collect()
}

fn bytes_of(transcript: &Transcript, side: Side, account: Account) -> u64 {
    transcript.ops.iter().map(|op| op.amounts[side as usize][account]).sum()
}

fn outcomes(transcript: &Transcript) -> Vec<(&str, Option<Outcome>)> {
    transcript.ops.iter().map(|op| (op.name(), op.outcome)).collect()
}

fn session() -> Vec<u8> {
    sub("lsid", &[element(5, "id", &[&[16, 0, 0, 0, 4], [7; 16].as_slice()].concat())])
}

#[test]
fn a_find_by_id_posts_names_and_values_where_they_belong() {
    let request = [
        text("find", "vectors"),
        truth("singleBatch", true),
        long("limit", 1),
        sub("filter", &[long("_id", 5)]),
        text("$db", "lab"),
        session(),
    ];
    let found = doc(&[long("_id", 5), text("payload", "0123456789")]);
    let cursor = [list("firstBatch", &[found]), long("id", 0), text("ns", "lab.vectors")];
    let transcript = exchange(&request, &[sub("cursor", &cursor), ok()]);
    assert_eq!(
        transcript.summary(),
        ["workload find [OP_MSG] ok: framing 55, metadata 71, schema 3, query 11, data 8 | \
          framing 56, metadata 51, schema 10, data 18, status 10"]
    );
}

#[test]
fn an_insert_carries_its_documents_in_a_sequence() {
    let documents = [doc(&[long("_id", 1), text("v", "one")]), doc(&[long("_id", 2)])];
    let request = [
        body(&[text("insert", "vins"), truth("ordered", true), text("$db", "lab")]),
        sequence("documents", &documents),
    ];
    let transcript = decode(&[(Request, &msg(3, 0, 0, &request)), (Response, &reply(3, &[int("n", 2), ok()]))]);
    assert_eq!(
        transcript.summary(),
        ["workload insert [OP_MSG] ok: framing 57, metadata 35, schema 7, query 10, data 19 | \
          framing 18, metadata 12, status 15"]
    );
    assert_eq!(posted(&transcript, Request, "sequence identifier"), [(Metadata, 9)]);
}

#[test]
fn sections_may_come_in_any_order() {
    let sections = [
        sequence("updates", &[doc(&[sub("q", &[int("a", 1)]), sub("u", &[sub("$set", &[int("b", 2)])])])]),
        body(&[text("update", "c")]),
    ];
    let transcript = decode(&[(Request, &msg(1, 0, 0, &sections))]);
    assert_eq!(outcomes(&transcript), [("update", None)]);
    assert_eq!(bytes_of(&transcript, Request, Query), 4 + 6 + 1);
    assert_eq!(bytes_of(&transcript, Request, Schema), 2);
    assert_eq!(bytes_of(&transcript, Request, Data), 8);
}

#[test]
fn the_checksum_ends_the_sections() {
    let request = msg(1, 0, 1, &[body(&[int("ping", 1)]), vec![1, 2, 3, 4]]);
    let answer = msg(2, 1, 1, &[body(&[ok()]), vec![5, 6, 7, 8]]);
    let transcript = decode(&[(Request, &request), (Response, &answer)]);
    assert_eq!(outcomes(&transcript), [("ping", Some(Outcome::Ok))]);
    assert_eq!(posted(&transcript, Response, "checksum"), [(Framing, 4)]);
    assert_eq!(bytes_of(&transcript, Request, Unknown), 0);
}

#[test]
fn an_unacknowledged_write_gets_no_reply() {
    let sections = [body(&[text("insert", "c")]), sequence("documents", &[doc(&[])])];
    let transcript = decode(&[(Request, &msg(1, 0, 2, &sections))]);
    assert_eq!(outcomes(&transcript), [("insert", Some(Outcome::NoReply))]);
}

#[test]
fn a_stream_of_replies_is_one_operation() {
    let request = msg(6, 0, 1 << 16, &[body(&[long("getMore", 9), text("collection", "c")])]);
    let part = |id, to, flags| msg(id, to, flags, &[body(&[ok()])]);
    let transcript = decode(&[
        (Request, &request),
        (Response, &part(7, 6, 2)),
        (Response, &part(8, 7, 2)),
        (Response, &part(9, 8, 0)),
        (Response, &part(10, 9, 0)),
    ]);
    assert_eq!(outcomes(&transcript), [("getMore", Some(Outcome::Ok)), ("(reply)", Some(Outcome::NoReply))]);
    assert_eq!(transcript.ops[0].amounts[1].total(), 3 * 38);
}

#[test]
fn replies_out_of_order_find_their_requests() {
    let transcript = decode(&[
        (Request, &[command(1, &[text("find", "c")]), command(2, &[text("count", "c")])].concat()),
        (Response, &reply(2, &[int("n", 3), ok()])),
        (Response, &reply(1, &[double("ok", 0.0), text("errmsg", "no")])),
    ]);
    assert_eq!(outcomes(&transcript), [("find", Some(Outcome::Error)), ("count", Some(Outcome::Ok))]);
}

#[test]
fn write_errors_make_an_error_of_a_reply_that_is_ok() {
    let error = doc(&[int("index", 0), int("code", 11000), sub("keyValue", &[int("_id", 5)]), text("errmsg", "dup")]);
    let transcript = exchange(&[text("insert", "c")], &[int("n", 0), list("writeErrors", &[error]), ok()]);
    assert_eq!(outcomes(&transcript), [("insert", Some(Outcome::Error))]);
    assert_eq!(bytes_of(&transcript, Response, Data), 4);
    let none = exchange(&[text("insert", "c")], &[int("n", 1), list("writeErrors", &[]), ok()]);
    assert_eq!(outcomes(&none), [("insert", Some(Outcome::Ok))]);
}

#[test]
fn a_failed_write_concern_is_an_error() {
    let failed = [int("n", 1), sub("writeConcernError", &[int("code", 64)]), ok()];
    let transcript = exchange(&[text("delete", "c")], &failed);
    assert_eq!(outcomes(&transcript), [("delete", Some(Outcome::Error))]);
}

#[test]
fn the_outcomes_of_a_bulk_write_are_status() {
    let ops = [doc(&[int("insert", 0), sub("document", &[int("_id", 1)])])];
    let request = [
        body(&[int("bulkWrite", 1), text("$db", "admin")]),
        sequence("ops", &ops),
        sequence("nsInfo", &[doc(&[text("ns", "lab.c")])]),
    ];
    let outcome = doc(&[double("ok", 1.0), int("idx", 0), int("n", 1)]);
    let answer =
        [sub("cursor", &[long("id", 0), list("firstBatch", &[outcome])]), int("nErrors", 0), int("nInserted", 1), ok()];
    let transcript = decode(&[(Request, &msg(7, 0, 0, &request)), (Response, &reply(7, &answer))]);
    assert_eq!(
        transcript.summary(),
        ["workload bulkWrite [OP_MSG] ok: framing 63, metadata 53, schema 3, query 14, data 4 | \
          framing 50, metadata 38, status 56"]
    );
}

#[test]
fn a_pipeline_tells_operators_fields_and_collections_apart() {
    let stages = [
        doc(&[sub("$match", &[sub("a", &[int("$gt", 3)])])]),
        doc(&[sub("$lookup", &[text("from", "other"), text("localField", "b"), text("as", "x")])]),
        doc(&[sub("$sort", &[int("a", -1)])]),
        doc(&[int("$limit", 10)]),
    ];
    let request = [text("aggregate", "c"), list("pipeline", &stages), sub("cursor", &[])];
    let transcript = decode(&[(Request, &command(1, &request))]);
    let query = "aggregate".len() + 1 + "$match$gt$lookup$sort$limit".len() + "other".len();
    assert_eq!(bytes_of(&transcript, Request, Query), query as u64);
    assert_eq!(bytes_of(&transcript, Request, Schema), 1 + 1 + 1 + 1);
    assert_eq!(bytes_of(&transcript, Request, Data), 4);
}

#[test]
fn values_of_every_type_are_posted() {
    let all = [
        element(0x06, "undefined", &[]),
        element(0x07, "oid", &[1; 12]),
        element(0x09, "date", &[1; 8]),
        element(0x0b, "regex", b"^a.*\0im\0"),
        element(0x0c, "pointer", &[string("db.c"), vec![2; 12]].concat()),
        element(0x0d, "code", &string("f()")),
        element(0x0e, "symbol", &string("s")),
        element(0x0f, "scope", &{
            let value = [string("f(x)"), doc(&[int("x", 1)])].concat();
            [(value.len() as u32 + 4).to_le_bytes().to_vec(), value].concat()
        }),
        element(0x11, "timestamp", &[1; 8]),
        element(0x13, "decimal", &[1; 16]),
        element(0x05, "old", &[8, 0, 0, 0, 2, 4, 0, 0, 0, 9, 9, 9, 9]),
        element(0x05, "vector", &[3, 0, 0, 0, 9, 1, 1, 1]),
        element(0xff, "min", &[]),
        element(0x7f, "max", &[]),
        null("null"),
    ];
    let request = [body(&[text("insert", "c")]), sequence("documents", &[doc(&all)])];
    let transcript = decode(&[(Request, &msg(1, 0, 0, &request))]);
    assert_eq!(bytes_of(&transcript, Request, Unknown), 0);
    assert_eq!(bytes_of(&transcript, Request, Data), 12 + 8 + 6 + 16 + 3 + 1 + 8 + 8 + 16 + 4 + 3);
}

#[test]
fn a_connection_introduces_itself_once() {
    let driver = sub("client", &[sub("driver", &[text("name", "a-driver"), text("version", "1.2")])]);
    let hello = [int("hello", 1), driver, text("$db", "admin")];
    let answer = [truth("isWritablePrimary", true), int("maxWireVersion", 21), ok()];
    let transcript = decode(&[
        (Request, &command(0, &hello)),
        (Response, &reply(0, &answer)),
        (Request, &command(1, &hello)),
        (Response, &reply(1, &answer)),
        (Request, &command(2, &[int("buildInfo", 1)])),
        (Response, &reply(2, &[text("version", "7.0.5"), ok()])),
        (Request, &command(3, &[int("saslStart", 1)])),
        (Request, &command(4, &[text("find", "c")])),
        (Request, &command(5, &[int("buildInfo", 1)])),
        (Request, &command(6, &[list("endSessions", &[])])),
    ]);
    let classes: Vec<_> = transcript.ops.iter().map(|op| op.class().unwrap().name()).collect();
    assert_eq!(classes, ["setup", "background", "setup", "setup", "workload", "workload", "setup"]);
    let [client, server] = &transcript.software;
    assert_eq!(client.as_deref(), Some("a-driver 1.2"));
    assert_eq!(server.as_deref(), Some("MongoDB 7.0.5"));
}

#[test]
fn a_connection_that_streams_hello_is_a_monitor() {
    let version = sub("topologyVersion", &[long("counter", 0)]);
    let transcript = decode(&[
        (Request, &command(1, &[int("hello", 1)])),
        (Request, &msg(2, 0, 1 << 16, &[body(&[int("hello", 1), version, int("maxAwaitTimeMS", 10_000)])])),
        (Response, &msg(3, 2, 2, &[body(&[ok()])])),
        (Response, &msg(4, 3, 2, &[body(&[ok()])])),
        (Request, &command(5, &[int("ping", 1)])),
    ]);
    let classes: Vec<_> = transcript.ops.iter().map(|op| op.class().unwrap().name()).collect();
    assert_eq!(classes, ["setup", "background", "background"]);
    assert_eq!(transcript.ops[1].outcome, None);
}

#[test]
fn reading_the_oplog_is_replication() {
    let request = [text("find", "oplog.rs"), text("$db", "local")];
    let transcript = decode(&[(Request, &command(1, &request))]);
    assert!(transcript.summary()[0].starts_with("background find"), "{:?}", transcript.summary());
}

#[test]
fn a_transaction_is_metadata() {
    let request = [
        text("insert", "c"),
        session(),
        long("txnNumber", 1),
        truth("startTransaction", true),
        sub("$clusterTime", &[element(0x11, "clusterTime", &[1; 8]), sub("signature", &[long("keyId", 1)])]),
    ];
    let answer = [int("n", 1), ok(), element(0x11, "operationTime", &[1; 8])];
    let transcript = exchange(&request, &answer);
    assert_eq!(bytes_of(&transcript, Request, Data) + bytes_of(&transcript, Request, Schema), 0);
    assert_eq!(bytes_of(&transcript, Response, Metadata), 12 + 13 + 8);
}

#[test]
fn find_and_modify_gives_back_a_document() {
    let request = [
        text("findAndModify", "c"),
        sub("query", &[int("a", 1)]),
        sub("update", &[sub("$inc", &[int("b", 1)])]),
        sub("sort", &[int("a", 1)]),
    ];
    let answer = [
        sub("lastErrorObject", &[int("n", 1), truth("updatedExisting", true)]),
        sub("value", &[int("_id", 1), int("a", 1)]),
        ok(),
    ];
    let transcript = exchange(&request, &answer);
    assert_eq!(bytes_of(&transcript, Request, Schema), 3);
    assert_eq!(bytes_of(&transcript, Request, Data), 8);
    assert_eq!(bytes_of(&transcript, Response, Schema), 4);
    assert_eq!(bytes_of(&transcript, Response, Data), 8);
    assert_eq!(bytes_of(&transcript, Response, Status), 15 + 1 + 4 + 15 + 1 + 10);
}

#[test]
fn the_field_of_distinct_is_schema_and_its_values_are_data() {
    let request = [text("distinct", "c"), text("key", "city")];
    let values = element(4, "values", &doc(&[text("0", "Rome"), text("1", "Oslo")]));
    let transcript = exchange(&request, &[values, ok()]);
    assert_eq!(bytes_of(&transcript, Request, Schema), 4);
    assert_eq!(bytes_of(&transcript, Response, Data), 8);
}

#[test]
fn a_legacy_query_is_a_find_and_its_documents_are_the_users() {
    let selector = doc(&[sub("$query", &[int("a", 1)]), sub("$orderby", &[int("b", 1)])]);
    let transcript = decode(&[
        (Request, &query(1, 0, "lab.c.d", &[selector, doc(&[int("a", 1)])])),
        (Response, &op_reply(9, 1, 8, 77, &[doc(&[int("a", 1)]), doc(&[int("a", 2)])])),
    ]);
    assert_eq!(
        transcript.summary(),
        ["workload find [OP_QUERY] ok: framing 40, metadata 31, schema 3, query 17, data 4 | \
          framing 26, metadata 24, schema 2, data 8"]
    );
}

#[test]
fn a_legacy_query_that_fails_is_an_error() {
    let transcript = decode(&[
        (Request, &query(1, 0, "lab.c", &[doc(&[])])),
        (Response, &op_reply(9, 1, 2, 0, &[doc(&[text("$err", "no"), int("code", 13)])])),
    ]);
    assert_eq!(outcomes(&transcript), [("find", Some(Outcome::Error))]);
    assert_eq!(bytes_of(&transcript, Response, Status), 6 + 8);
}

#[test]
fn a_command_may_travel_in_a_legacy_query() {
    let wrapped = doc(&[
        sub("$query", &[text("count", "c"), sub("query", &[int("a", 1)])]),
        sub("$readPreference", &[text("mode", "nearest")]),
    ]);
    let transcript = decode(&[
        (Request, &query(1, 4, "lab.$cmd", &[wrapped])),
        (Response, &op_reply(9, 1, 8, 0, &[doc(&[int("n", 1), ok()])])),
    ]);
    assert_eq!(outcomes(&transcript), [("count", Some(Outcome::Ok))]);
    assert_eq!(bytes_of(&transcript, Request, Query), 6 + 5 + 1);
    assert_eq!(bytes_of(&transcript, Response, Status), 5 + 10);
}

#[test]
fn a_legacy_exhaust_cursor_is_one_operation() {
    let part = |id, to, cursor| op_reply(id, to, 8, cursor, &[doc(&[int("a", 1)])]);
    let transcript = decode(&[
        (Request, &query(1, 64, "lab.c", &[doc(&[])])),
        (Response, &part(5, 1, 77)),
        (Response, &part(6, 5, 77)),
        (Response, &part(7, 6, 0)),
    ]);
    assert_eq!(outcomes(&transcript), [("find", Some(Outcome::Ok))]);
}

#[test]
fn legacy_writes_get_no_reply() {
    let name = b"lab.c\0";
    let insert = message(2002, 1, 0, &[&[0; 4], name.as_slice(), &doc(&[int("a", 1)])].concat());
    let update = [&[0; 4], name.as_slice(), &[1, 0, 0, 0], &doc(&[]), &doc(&[sub("$set", &[])])].concat();
    let delete = [&[0; 4], name.as_slice(), &[1, 0, 0, 0], &doc(&[int("a", 1)])].concat();
    let more = [&[0; 4], name.as_slice(), &[10, 0, 0, 0], &[7; 8]].concat();
    let kill = [&[0, 0, 0, 0, 2, 0, 0, 0], [7; 16].as_slice()].concat();
    let requests = [
        insert,
        message(2001, 2, 0, &update),
        message(2006, 3, 0, &delete),
        message(2005, 4, 0, &more),
        message(2007, 5, 0, &kill),
    ];
    let transcript = decode(&[(Request, &requests.concat())]);
    let none = Some(Outcome::NoReply);
    assert_eq!(
        outcomes(&transcript),
        [("insert", none), ("update", none), ("delete", none), ("getMore", None), ("killCursors", none)]
    );
    assert_eq!(bytes_of(&transcript, Request, Unknown), 0);
}

#[test]
fn an_op_command_and_its_reply() {
    let request = [b"lab\0count\0".as_slice(), &doc(&[]), &doc(&[text("count", "c")])].concat();
    let answer = [doc(&[]), doc(&[int("n", 1), ok()])].concat();
    let transcript = decode(&[(Request, &message(2010, 1, 0, &request)), (Response, &message(2011, 2, 1, &answer))]);
    assert_eq!(outcomes(&transcript), [("count", Some(Outcome::Ok))]);
    assert_eq!(bytes_of(&transcript, Request, Query), 5 + 5 + 1);
}

/// A request that compresses, by the compressor with this number.
fn squeezed(compressor: u8) -> Vec<u8> {
    let document = doc(&[text("v", &"x".repeat(400))]);
    let plain = msg_body(0, &[body(&[text("insert", "c")]), sequence("documents", &[document])]);
    let packed = match compressor {
        0 => plain.clone(),
        1 => snap::raw::Encoder::new().compress_vec(&plain).unwrap(),
        2 => {
            let mut packed = Vec::with_capacity(1000);
            let mut zlib = flate2::Compress::new(flate2::Compression::default(), true);
            zlib.compress_vec(&plain, &mut packed, flate2::FlushCompress::Finish).unwrap();
            packed
        }
        _ => zstd::bulk::compress(&plain, 3).unwrap(),
    };
    compressed(1, 0, 2013, plain.len(), compressor, &packed)
}

#[test]
fn a_compressed_body_is_posted_pro_rata() {
    for compressor in 1..=3 {
        let request = squeezed(compressor);
        let transcript = decode(&[(Request, &request), (Response, &reply(1, &[ok()]))]);
        assert_eq!(outcomes(&transcript), [("insert", Some(Outcome::Ok))], "compressor {compressor}");
        assert_eq!(transcript.ops[0].via(), "OP_COMPRESSED");
        let amounts = &transcript.ops[0].amounts[0];
        assert_eq!(amounts[Unknown], 0);
        assert!(amounts[Data] > (request.len() as u64 - 25) * 3 / 4, "{}", amounts[Data]);
        assert!(transcript.notes.contains(&Note::ProRata));
    }
}

#[test]
fn a_body_that_only_claims_to_be_compressed_is_posted_exactly() {
    let transcript = decode(&[(Request, &squeezed(0))]);
    assert_eq!(outcomes(&transcript), [("insert", None)]);
    assert_eq!(bytes_of(&transcript, Request, Data), 400);
}

#[test]
fn a_compressed_body_that_lies_about_its_length_is_unknown() {
    let mut request = squeezed(2);
    request[20] += 1;
    let transcript = decode(&[(Request, &request), (Request, &command(2, &[int("ping", 1)]))]);
    assert_eq!(outcomes(&transcript), [("(no command)", None), ("ping", None)]);
    assert_eq!(bytes_of(&transcript, Request, Unknown), request.len() as u64 - 25);
}

#[test]
fn a_decompression_bomb_is_not_lit() {
    let request = compressed(1, 0, 2013, 60 << 20, 3, &[0; 40]);
    let transcript = decode(&[(Request, &request)]);
    assert_eq!(bytes_of(&transcript, Request, Unknown), 40);
}

#[test]
fn a_compressed_message_within_a_compressed_one_is_unknown() {
    let transcript = decode(&[(Request, &compressed(1, 0, 2012, 100, 2, &[1; 30]))]);
    assert_eq!(bytes_of(&transcript, Request, Unknown), 30);
}

/// Damage inside a request costs its own bytes, not the next message.
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
    // All but the `limit` that does not fit.
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
        let mut engine = Engine::new(Mongo::new(false), false);
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
    let mut engine = Engine::new(Mongo::new(false), false);
    engine.bytes(Request, &request[..from], &mut transcript);
    engine.opaque(Request, 50, &mut transcript);
    engine.bytes(Request, &request[from + 50..], &mut transcript);
    engine.finish(&mut transcript);
    assert_eq!(transcript.total(Request), request.len() as u64);
    assert_eq!(bytes_of(&transcript, Request, Data), 5 + 4);
    assert_eq!(bytes_of(&transcript, Request, Unknown), documents[1].len() as u64 - 4);
}

#[test]
fn decoding_begins_within_a_connection() {
    let tail = [&[1, 2, 3, 0, 255, 16, 0, 0, 0], command(5, &[text("find", "c")]).as_slice()].concat();
    let mut transcript = Transcript::default();
    let mut engine = Engine::new(Mongo::new(true), true);
    engine.bytes(Request, &tail, &mut transcript);
    engine.bytes(Response, &reply(5, &[ok()]), &mut transcript);
    engine.finish(&mut transcript);
    assert_eq!(outcomes(&transcript)[1], ("find", Some(Outcome::Ok)));
    assert_eq!(bytes_of(&transcript, Request, Unknown), 9);
}

#[test]
fn tls_from_the_first_byte() {
    let hello = [22, 3, 1, 0, 8, 1, 0, 0, 4, 3, 3, 0, 0];
    let transcript = Transcript::of(Mongo::new(false), &[(Request, &hello)]);
    assert_eq!(transcript.ops[0].name(), "TLS");
}

#[test]
fn the_first_bytes_tell_which_end_sends() {
    assert_eq!(sniff(&command(0, &[int("hello", 1)])), Sniff::Request);
    assert_eq!(sniff(&reply(0, &[truth("helloOk", true), ok()])), Sniff::Response);
    assert_eq!(sniff(&reply(4, &[ok()])), Sniff::Response);
    assert_eq!(sniff(&query(1, 0, "a.$cmd", &[doc(&[])])), Sniff::Request);
    assert_eq!(sniff(&op_reply(1, 1, 8, 0, &[doc(&[])])), Sniff::Response);
    assert_eq!(sniff(&squeezed(2)), Sniff::Request);
    assert_eq!(sniff(&[57, 0, 0, 0, 1]), Sniff::More);
    assert_eq!(sniff(b"*1\r\n$4\r\nPING\r\n*1\r\n$4\r\nPING\r\n"), Sniff::No);
    assert_eq!(sniff(b"GET / HTTP/1.1\r\nHost: example\r\n\r\n"), Sniff::No);
}

/// Bytes that are messages but for a few changes.
fn damaged() -> impl Strategy<Value = Vec<u8>> {
    let whole = prop_oneof![
        Just(command(1, &[text("find", "c"), sub("filter", &[int("a", 1)]), session()])),
        Just(reply(1, &[sub("cursor", &[list("firstBatch", &[doc(&[int("a", 1)])])]), ok()])),
        Just(squeezed(1)),
        Just(squeezed(2)),
        Just(squeezed(3)),
        Just(query(1, 0, "a.b", &[doc(&[int("a", 1)])])),
        Just(op_reply(2, 1, 0, 9, &[doc(&[int("a", 1)])])),
    ];
    let changes = prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4);
    (whole, changes).prop_map(|(mut bytes, changes)| {
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        bytes
    })
}

proptest! {
    #[test]
    fn arbitrary_bytes_are_all_posted(
        request in prop::collection::vec(any::<u8>(), 0..300),
        response in prop::collection::vec(any::<u8>(), 0..300),
        mid_stream: bool,
    ) {
        let mut transcript = Transcript::default();
        let mut engine = Engine::new(Mongo::new(mid_stream), mid_stream);
        engine.bytes(Request, &request, &mut transcript);
        engine.bytes(Response, &response, &mut transcript);
        engine.finish(&mut transcript);
        prop_assert_eq!(transcript.total(Request), request.len() as u64);
        prop_assert_eq!(transcript.total(Response), response.len() as u64);
    }

    #[test]
    fn damaged_messages_are_all_posted_however_they_are_cut(
        turns in prop::collection::vec((any::<bool>(), damaged()), 1..8),
        cut in 1usize..200,
    ) {
        let side = |is_request: &bool| if *is_request { Request } else { Response };
        let conversation: Vec<_> = turns.iter().map(|(is_request, bytes)| (side(is_request), bytes.as_slice())).collect();
        let whole = Transcript::of(Mongo::new(false), &conversation);
        for of in Side::BOTH {
            let sent: usize = conversation.iter().filter(|(side, _)| *side == of).map(|(_, bytes)| bytes.len()).sum();
            prop_assert_eq!(whole.total(of), sent as u64);
        }
        let pieces: Vec<_> = conversation.iter().flat_map(|(side, bytes)| bytes.chunks(cut).map(|piece| (*side, piece))).collect();
        prop_assert_eq!(Transcript::of(Mongo::new(false), &pieces), whole);
    }

    #[test]
    fn gaps_anywhere_keep_the_account(
        turns in prop::collection::vec((any::<bool>(), damaged(), 0u64..80), 1..6),
    ) {
        let mut transcript = Transcript::default();
        let mut engine = Engine::new(Mongo::new(false), false);
        let mut sent = 0;
        for (is_request, bytes, gap) in &turns {
            let side = if *is_request { Request } else { Response };
            engine.bytes(side, bytes, &mut transcript);
            engine.opaque(side, *gap, &mut transcript);
            sent += bytes.len() as u64 + gap;
        }
        engine.finish(&mut transcript);
        prop_assert_eq!(transcript.total(Request) + transcript.total(Response), sent);
    }
}
