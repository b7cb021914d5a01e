//! Exchanges named after their situation, each cut at every byte; damage; properties.

mod build;
mod compressed;
mod damage;
mod idle;
mod legacy;
mod properties;
mod statements;

use super::{Mongo, sniff};
use crate::{SharedContext, Sniff};
use build::*;
use compressed::squeezed;
use overhead_decode::{Codec, DecoderEngine, Note};
use overhead_model::Account::{Data, Framing, Metadata, Query, Schema, Status, Unknown};
use overhead_model::Side::{Request, Response};
use overhead_model::{Account, Outcome, Side};
use overhead_testing::transcript::{Transcript, check};
use proptest::prelude::*;

impl Mongo {
    /// Returns a decoder that shares nothing with other connections.
    pub fn new(mid_stream: bool) -> Self {
        Self::sharing(mid_stream, &SharedContext::default())
    }
}

fn decode(conversation: &[(Side, &[u8])]) -> Transcript {
    check(|| Mongo::new(false), conversation)
}

/// Plays one request and its reply on a new connection.
fn exchange(request: &[Vec<u8>], answer: &[Vec<u8>]) -> Transcript {
    decode(&[(Request, &command(7, request)), (Response, &reply(7, answer))])
}

/// Returns account and bytes of the postings whose path ends with `field`, in order.
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

/// Request and reply of a find by id.
fn find_by_id() -> ([Vec<u8>; 6], [Vec<u8>; 2]) {
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
    (request, [sub("cursor", &cursor), ok()])
}

#[test]
fn a_find_by_id_posts_names_and_values_where_they_belong() {
    let (request, answer) = find_by_id();
    let transcript = exchange(&request, &answer);
    assert_eq!(
        transcript.summary(),
        ["workload find [OP_MSG] ok: framing 55, metadata 71, schema 3, query 11, data 8 | \
          framing 56, metadata 51, schema 10, data 18, status 10"]
    );
}

#[test]
fn every_field_has_a_name_for_people() {
    let request = [text("find", "c"), sub("filter", &[sub("a", &[int("$gt", 3)])]), text("$db", "lab")];
    let transcript = decode(&[(Request, &command(7, &request))]);
    let paths = transcript.postings[0].iter();
    let told = paths.filter(|posting| posting.account != Framing);
    let told: Vec<_> = told.map(|posting| format!("{} {}", posting.path, posting.account)).collect();
    assert_eq!(
        told,
        [
            "OP_MSG.header.request id metadata",
            "OP_MSG.header.response to metadata",
            "OP_MSG.flags metadata",
            "OP_MSG.sections.command.command name query",
            "OP_MSG.sections.command.collection query",
            "OP_MSG.sections.command.name metadata",
            "OP_MSG.sections.command.expression.field name schema",
            "OP_MSG.sections.command.expression.expression.operator query",
            "OP_MSG.sections.command.expression.expression.value data",
            "OP_MSG.sections.command.name metadata",
            "OP_MSG.sections.command.value metadata",
        ]
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
fn a_request_id_used_again_leaves_the_first_request_unanswered() {
    let transcript = decode(&[
        (Request, &command(1, &[text("find", "c")])),
        (Request, &command(1, &[text("count", "c")])),
        (Response, &reply(1, &[ok()])),
    ]);
    assert_eq!(outcomes(&transcript), [("find", Some(Outcome::Unanswered)), ("count", Some(Outcome::Ok))]);
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
    let request = [body(&[text("insert", "c")]), sequence("documents", &[every_type()])];
    let transcript = decode(&[(Request, &msg(1, 0, 0, &request))]);
    assert_eq!(bytes_of(&transcript, Request, Unknown), 0);
    assert_eq!(bytes_of(&transcript, Request, Data), 12 + 8 + 6 + 16 + 3 + 1 + 8 + 8 + 16 + 4 + 3);
}

#[test]
fn a_connection_introduces_itself_once() {
    let driver = sub("client", &[sub("driver", &[text("name", "a-driver|c"), text("version", "1.2|")])]);
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
fn a_server_that_stands_in_for_another_is_named() {
    let old = [text("version", "7.0.42"), text("ferretdbVersion", "v1.24.2"), ok()];
    let new = [text("version", "7.0.77"), sub("ferretdb", &[text("version", "v2.1.0")]), ok()];
    for (answer, name) in [(old.as_slice(), "FerretDB v1.24.2"), (&new, "FerretDB v2.1.0")] {
        let transcript = exchange(&[int("buildInfo", 1)], answer);
        assert_eq!(transcript.software[1].as_deref(), Some(name));
    }
}

#[test]
fn commands_of_a_sharded_cluster_have_their_names() {
    for name in
        ["_shardsvrReshardCollection", "_shardsvrCommitReshardCollection", "_configsvrEnsureChunkVersionIsGreaterThan"]
    {
        let transcript = exchange(&[int(name, 1)], &[ok()]);
        assert_eq!(outcomes(&transcript), [(name, Some(Outcome::Ok))]);
    }
    assert_eq!(outcomes(&exchange(&[int("_shardsvrq7XzP2vN9sKd8LwTb4Rm", 1)], &[ok()]))[0].0, "(unknown)");
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
fn decoding_begins_within_a_connection() {
    let tail = [&[1, 2, 3, 0, 255, 16, 0, 0, 0], command(5, &[text("find", "c")]).as_slice()].concat();
    let mut transcript = Transcript::default();
    let mut engine = DecoderEngine::new(Mongo::new(true), true);
    engine.bytes(Request, &tail, &mut transcript);
    engine.bytes(Response, &reply(5, &[ok()]), &mut transcript);
    engine.finish(&mut transcript);
    assert_eq!(outcomes(&transcript)[1], ("find", Some(Outcome::Ok)));
    assert_eq!(bytes_of(&transcript, Request, Unknown), 9);
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
