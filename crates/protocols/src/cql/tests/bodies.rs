//! Bodies of every kind, and the fields around them.

use super::super::super::SharedContext;
use super::super::wire::opcode;
use super::build::*;
use super::*;
use overhead_decode::{DecoderEngine, Note};

#[test]
fn query_parameters_are_each_posted() {
    // Named values, page size, paging state, serial consistency, timestamp.
    let parameters = [
        &[0, 1, 0x7D][..],
        &short(2),
        &string("a"),
        &value(b"one"),
        &string("b"),
        &null(),
        &int(5000),
        &value(&[7; 20]),
        &[0, 9],
        &[0; 8],
    ];
    let request = ask(1, opcode::QUERY, &[long_string("SELECT ?"), parameters.concat()].concat());
    let transcript = exchange(&request, &void(1));
    assert_eq!(transcript.ops[0].posted(Request), "framing 28, metadata 40, schema 2, query 8, data 3");
}

#[test]
fn parameters_of_version_5_have_wide_flags_a_keyspace_and_a_clock() {
    let parameters = [&[0, 1][..], &int(0x180), &string("lab"), &int(1_700_000_000)];
    let body = [long_string("SELECT a FROM t"), parameters.concat()].concat();
    let response = message(0x85, 0, 1, opcode::RESULT, &int(1));
    let transcript = exchange(&message(5, 0, 1, opcode::QUERY, &body), &response);
    assert_eq!(transcript.ops[0].posted(Request), "framing 12, metadata 13, schema 3, query 15");
}

#[test]
fn a_batch_mixes_texts_and_prepared_statements() {
    let statements = [
        &[0, 0, 2][..],
        &[0],
        &long_string("INSERT INTO t (a) VALUES (?)"),
        &short(1),
        &value(b"one"),
        &[1],
        &short(4),
        &[9; 4],
        &short(2),
        &value(b"two"),
        &unset(),
        &[0, 6, 0x20],
        &[0; 8],
    ];
    let transcript = exchange(&ask(2, opcode::BATCH, &statements.concat()), &void(2));
    assert_eq!(
        transcript.summary(),
        ["workload BATCH [batch] ok: framing 32, metadata 19, query 28, data 6 | framing 6, metadata 3, status 4"]
    );
    assert_eq!(transcript.notes, [], "no structure could be hidden in these");
}

#[test]
fn tracing_warnings_and_a_custom_payload_come_before_the_body() {
    let body = [
        &[0xEE; 16][..],
        &short(1),
        &string("too many tombstones"),
        &short(1),
        &string("tablets-routing-v1"),
        &value(&[1; 30]),
        &int(1),
    ];
    let response = message(0x84, 0x0E, 1, opcode::RESULT, &body.concat());
    let request = message(4, 0x06, 1, opcode::QUERY, &[&[0, 0][..], &long_string("SELECT a"), &[0, 1, 0]].concat());
    let transcript = exchange(&request, &response);
    assert_eq!(
        transcript.summary(),
        ["workload SELECT [query] ok: framing 12, metadata 6, query 8 | framing 18, metadata 67, status 23"]
    );
    assert_eq!(posted(&transcript, Response, "warnings.warning"), [(Account::Status, 19)]);
}

#[test]
fn a_page_of_rows_carries_the_state_for_the_next() {
    let body = [
        &int(2)[..],
        &int(3),
        &int(1),
        &value(&[5; 12]),
        &string("lab"),
        &string("tab"),
        &string("a"),
        &native(INT),
        &int(2),
        &value(&[1; 4]),
        &null(),
    ];
    let transcript = exchange(&query(1, "SELECT a FROM lab.tab"), &answer(1, opcode::RESULT, &body.concat()));
    assert_eq!(transcript.ops[0].posted(Response), "framing 36, metadata 19, schema 9, data 4");
}

#[test]
fn columns_of_several_tables_name_theirs() {
    let body = [
        &int(2)[..],
        &int(0),
        &int(2),
        &string("k1"),
        &string("t1"),
        &string("a"),
        &native(INT),
        &string("k2"),
        &string("t2"),
        &string("b"),
        &native(TEXT),
        &int(0),
    ];
    let transcript = exchange(&query(1, "SELECT a FROM x"), &answer(1, opcode::RESULT, &body.concat()));
    assert_eq!(transcript.ops[0].posted(Response), "framing 30, metadata 7, schema 14");
}

#[test]
fn changed_metadata_replaces_that_of_the_prepared_statement() {
    let id = [3; 16];
    let v5 = |mut bytes: Vec<u8>| {
        bytes[0] += 1;
        bytes
    };
    let long_id = [&short(16)[..], &id].concat();
    let meta_id = [&short(2)[..], &[1, 1]].concat();
    let spec = |of: &[u8]| [&string("lab")[..], &string("tab"), &string("a"), of].concat();
    let prepared = [&int(4)[..], &long_id, &meta_id, &int(4), &int(0), &int(0), &int(1), &int(1), &spec(&native(TEXT))];
    let execute = [&long_id[..], &meta_id, &[0, 1], &int(2)].concat();
    let list = list_of(&native(INT));
    let cell = value(&elements(1, &[value(&[1; 4])]));
    let changed = [&int(2)[..], &int(9), &int(1), &meta_id, &spec(&list), &int(1), &cell].concat();
    let bare = [&int(2)[..], &int(4), &int(1), &int(1), &cell].concat();
    let transcript = decode(&[
        (Request, &v5(ask(0, opcode::PREPARE, &[long_string("SELECT a FROM lab.tab"), int(0).to_vec()].concat()))),
        (Response, &v5(answer(0, opcode::RESULT, &prepared.concat()))),
        (Request, &v5(ask(0, opcode::EXECUTE, &execute))),
        (Response, &v5(answer(0, opcode::RESULT, &changed))),
        (Request, &v5(ask(0, opcode::EXECUTE, &execute))),
        (Response, &v5(answer(0, opcode::RESULT, &bare))),
    ]);
    assert_eq!(transcript.ops[1].posted(Response), "framing 38, metadata 9, schema 11, data 4");
    assert_eq!(transcript.ops[2].posted(Response), "framing 30, metadata 7, data 4");
    assert!(transcript.notes.is_empty());
}

#[test]
fn metadata_that_changed_on_one_connection_is_that_of_others() {
    let id = [3; 16];
    let v5 = |mut bytes: Vec<u8>| {
        bytes[0] += 1;
        bytes
    };
    let long_id = [&short(16)[..], &id].concat();
    let [before, after] = [[1, 1], [2, 2]].map(|id: [u8; 2]| [&short(2)[..], &id].concat());
    let spec = |of: &[u8]| [&string("lab")[..], &string("tab"), &string("a"), of].concat();
    let prepared = [&int(4)[..], &long_id, &before, &int(4), &int(0), &int(0), &int(1), &int(1), &spec(&native(TEXT))];
    let prepares = [
        (Request, v5(ask(0, opcode::PREPARE, &[long_string("SELECT a FROM lab.tab"), int(0).to_vec()].concat()))),
        (Response, v5(answer(0, opcode::RESULT, &prepared.concat()))),
    ];
    let cell = value(&elements(1, &[value(&[1; 4])]));
    let changed = [&int(2)[..], &int(9), &int(1), &after, &spec(&list_of(&native(INT))), &int(1), &cell].concat();
    let bare = [&int(2)[..], &int(4), &int(1), &int(1), &cell].concat();
    let executed = |metadata: &[u8], rows: &[u8]| {
        let execute = [&long_id[..], metadata, &[0, 1], &int(2)].concat();
        [(Request, v5(ask(0, opcode::EXECUTE, &execute))), (Response, v5(answer(0, opcode::RESULT, rows)))]
    };
    let told = |shared: &SharedContext, turns: &[(Side, Vec<u8>)]| {
        let mut engine = DecoderEngine::new(Cql::sharing(false, shared.clone()), false);
        let mut transcript = Transcript::default();
        for (side, bytes) in turns {
            engine.bytes(*side, bytes, &mut transcript);
        }
        engine.finish(&mut transcript);
        transcript.ops.last().map(|op| op.posted(Response)).unwrap_or_default()
    };
    let later = [&prepares[..], &executed(&after, &bare)].concat();
    let shared = SharedContext::default();
    assert_eq!(told(&shared, &later), "framing 22, metadata 7, data 12", "nobody knows what is in the cell");
    told(&shared, &[&prepares[..], &executed(&before, &changed)].concat());
    assert_eq!(told(&shared, &later[2..]), "framing 30, metadata 7, data 4", "as the other has learnt");
    let known = [&prepares[..], &executed(&before, &changed), &executed(&after, &bare)].concat();
    assert_eq!(told(&shared, &known), "framing 30, metadata 7, data 4");
}

/// Decodes an error; the result omits its header and message.
fn error(code: u32, version: u8, extra: &[u8]) -> String {
    let body = [&int(code)[..], &string("no"), extra].concat();
    let request = [long_string("SELECT a"), vec![0, 1, 0, 0, 0, 0]].concat();
    let request = message(version, 0, 1, opcode::QUERY, &request[..if version < 5 { 15 } else { 18 }]);
    let transcript = exchange(&request, &message(version | 0x80, 0, 1, opcode::ERROR, &body));
    assert!(transcript.notes.is_empty(), "{:?}", transcript.notes);
    transcript.ops[0].posted(Response)
}

#[test]
fn errors_bring_details_of_their_own() {
    let replicas = [&[0, 1][..], &int(2), &int(1)].concat();
    assert_eq!(error(0x2200, 4, &[]), "framing 8, metadata 3, status 6");
    assert_eq!(error(0x1000, 4, &replicas), "framing 8, metadata 3, status 16");
    let write = |kind: &str| [replicas.clone(), string(kind)].concat();
    assert_eq!(error(0x1100, 4, &write("SIMPLE")), "framing 10, metadata 3, status 22");
    let contended = [write("CAS"), vec![0, 7]].concat();
    assert_eq!(error(0x1100, 5, &contended), "framing 10, metadata 3, status 21");
    assert_eq!(error(0x1200, 4, &[replicas.clone(), vec![1]].concat()), "framing 8, metadata 3, status 17");
    let failures = [replicas.clone(), int(1).to_vec(), vec![1]].concat();
    assert_eq!(error(0x1300, 4, &failures), "framing 8, metadata 3, status 21");
    let reasons = [replicas.clone(), int(1).to_vec(), vec![4, 127, 0, 0, 1, 0, 2], vec![1]].concat();
    assert_eq!(error(0x1300, 5, &reasons), "framing 13, metadata 3, status 23");
    let reasons = [&reasons[..reasons.len() - 1], &string("BATCH")].concat();
    assert_eq!(error(0x1500, 5, &reasons), "framing 15, metadata 3, status 27");
    let function = [string("lab"), string("f"), short(2).to_vec(), string("int"), string("text")].concat();
    assert_eq!(error(0x1400, 4, &function), "framing 18, metadata 3, schema 11, status 6");
    assert_eq!(
        error(0x2400, 4, &[string("lab"), string("tab")].concat()),
        "framing 12, metadata 3, schema 6, status 6"
    );
    assert_eq!(error(0x2500, 4, &string("0123456789abcdef")), "framing 10, metadata 19, status 6");
    assert_eq!(error(0x1700, 5, &replicas), "framing 8, metadata 3, status 16");
}

#[test]
fn the_rate_limit_error_has_the_code_that_the_server_said() {
    let options = [&short(1)[..], &string("SCYLLA_RATE_LIMIT_ERROR"), &short(1), &string("ERROR_CODE=61440")];
    let body = [&int(61440)[..], &string("slow down"), &[1, 0]].concat();
    let transcript = decode(&[
        (Request, &ask(0, opcode::OPTIONS, &[])),
        (Response, &answer(0, opcode::SUPPORTED, &options.concat())),
        (Request, &query(0, "INSERT INTO t")),
        (Response, &answer(0, opcode::ERROR, &body)),
    ]);
    assert_eq!(transcript.ops[1].posted(Response), "framing 8, metadata 3, status 15");
    assert!(transcript.notes.is_empty());
}

#[test]
fn scylla_negotiates_metadata_ids_and_tablet_versions_below_version_5() {
    let options = [("SCYLLA_USE_METADATA_ID", ""), ("TABLETS_ROUTING_V2_EXPERIMENTAL_V2", "")];
    let id = [&short(4)[..], &[9; 4]].concat();
    let prepared = [&int(4)[..], &id, &id, &int(4), &int(0), &int(0), &int(4), &int(0)].concat();
    let execute = [&id[..], &id, &[0, 1, 0], &[0xA3]].concat();
    let transcript = decode(&[
        (Request, &ask(0, opcode::STARTUP, &map(&options))),
        (Response, &answer(0, opcode::READY, &[])),
        (Request, &prepare(0, "UPDATE t SET a = 1")),
        (Response, &answer(0, opcode::RESULT, &prepared)),
        (Request, &ask(0, opcode::EXECUTE, &execute)),
        (Response, &void(0)),
    ]);
    assert_eq!(transcript.ops[1].posted(Response), "framing 26, metadata 19");
    assert_eq!(
        transcript.summary()[2],
        "workload UPDATE [prepared] ok: framing 10, metadata 15 | framing 6, metadata 3, status 4"
    );
    assert!(transcript.notes.is_empty());
}

#[test]
fn schema_changes_name_what_changed() {
    let change = |target: &str, names: &[Vec<u8>]| {
        let body = [&int(5)[..], &string("CREATED"), &string(target), &names.concat()].concat();
        exchange(&query(1, "CREATE"), &answer(1, opcode::RESULT, &body)).ops[0].posted(Response)
    };
    assert_eq!(change("KEYSPACE", &[string("lab")]), "framing 16, metadata 3, schema 3, status 15");
    assert_eq!(change("TABLE", &[string("lab"), string("t")]), "framing 18, metadata 3, schema 4, status 12");
    let function = [string("lab"), string("f"), short(1).to_vec(), string("int")];
    assert_eq!(change("FUNCTION", &function), "framing 22, metadata 3, schema 7, status 15");
}

#[test]
fn prepared_statements_of_version_3_have_no_partition_key() {
    let id = [&short(4)[..], &[9; 4]].concat();
    let body = [&int(4)[..], &id, &int(0), &int(0), &int(4), &int(0)].concat();
    let request = message(3, 0, 0, opcode::PREPARE, &long_string("UPDATE t SET a = 1"));
    let transcript = exchange(&request, &message(0x83, 0, 0, opcode::RESULT, &body));
    assert_eq!(transcript.ops[0].posted(Response), "framing 20, metadata 15");
    assert!(transcript.notes.is_empty());
}

#[test]
fn headers_of_versions_1_and_2_have_a_short_stream_id() {
    let text = long_string("SELECT a");
    let request = [&[1, 0, 5, opcode::QUERY][..], &int(14), &text, &[0, 1]].concat();
    let response = [&[0x81, 0, 5, opcode::RESULT][..], &int(4), &int(1)].concat();
    assert_eq!(
        exchange(&request, &response).summary(),
        ["workload SELECT [query] ok: framing 10, metadata 4, query 8 | framing 6, metadata 2, status 4"]
    );
}

/// A conversation with bodies compressed by `compress`.
fn compressed(algorithm: &str, compress: impl Fn(&[u8]) -> Vec<u8>) -> Transcript {
    let text = "SELECT id FROM lab.tab WHERE id IN (1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1)";
    let request = [long_string(text), vec![0, 1, 0]].concat();
    let cells: Vec<Vec<u8>> = (0..20).map(|_| value(b"the same text again and again")).collect();
    let response = rows(0, "lab", &[("id", native(TEXT))], &cells);
    decode(&[
        (Request, &ask(0, opcode::STARTUP, &map(&[("CQL_VERSION", "3.0.0"), ("COMPRESSION", algorithm)]))),
        (Response, &message(0x84, 1, 0, opcode::READY, &compress(&[]))),
        (Request, &message(4, 1, 0, opcode::QUERY, &compress(&request))),
        (Response, &message(0x84, 1, 0, opcode::RESULT, &compress(&response[9..]))),
    ])
}

/// Asserts that `wire` bytes are shared in proportion to `decompressed`, give or take one.
fn assert_pro_rata(transcript: &Transcript, op: usize, side: Side, decompressed: &[(Account, u64)]) {
    let shares = || {
        let postings = transcript.postings[side as usize].iter();
        postings.filter(|posting| posting.op.0 == op as u64 && posting.path.ends_with("compressed"))
    };
    let wire: u64 = shares().map(|posting| posting.len).sum();
    let whole: u64 = decompressed.iter().map(|(_, bytes)| bytes).sum();
    assert!(wire < whole, "{wire} bytes compressed, {whole} decompressed");
    for &(account, bytes) in decompressed {
        let shared = shares().filter(|posting| posting.account == account);
        let shared: u64 = shared.map(|posting| posting.len).sum();
        let exact = bytes as f64 * wire as f64 / whole as f64;
        assert!((shared as f64 - exact).abs() < 1.0, "{account}: {shared}, exactly {exact}");
    }
    assert_eq!(transcript.ops[op].name(), "SELECT");
}

#[test]
fn compressed_bodies_are_shared_in_proportion_to_what_they_decompress_to() {
    let lz4 = |body: &[u8]| [&int(body.len() as u32)[..], &lz4_flex::block::compress(body)].concat();
    let snappy = |body: &[u8]| snap::raw::Encoder::new().compress_vec(body).unwrap();
    let request = [(Account::Framing, 4), (Account::Metadata, 3), (Account::Query, 85)];
    let response = [
        (Account::Framing, 4 + 4 + 4 + 3 * 2 + 20 * 4),
        (Account::Metadata, 4),
        (Account::Schema, 10),
        (Account::Data, 20 * 29),
    ];
    for transcript in [compressed("lz4", lz4), compressed("snappy", snappy)] {
        assert_pro_rata(&transcript, 1, Request, &request);
        assert_pro_rata(&transcript, 1, Response, &response);
        assert!(transcript.notes.iter().all(|note| *note == Note::ProRata));
        assert_eq!(posted(&transcript, Response, "RESULT.decompressed length").len(), 1);
    }
}

#[test]
fn what_nothing_is_compressed_to_is_framing() {
    let lz4 = |body: &[u8]| [&int(body.len() as u32)[..], &lz4_flex::block::compress(body)].concat();
    let snappy = |body: &[u8]| snap::raw::Encoder::new().compress_vec(body).unwrap();
    assert_eq!(compressed("lz4", lz4).ops[0].posted(Response), "framing 11, metadata 3");
    assert_eq!(compressed("snappy", snappy).ops[0].posted(Response), "framing 7, metadata 3");
}

#[test]
fn a_body_that_does_not_decompress_is_unknown() {
    let transcript = compressed("lz4", |body| [&int(body.len() as u32)[..], &[0xF0; 7]].concat());
    assert_eq!(transcript.ops[0].posted(Response), "framing 6, metadata 3, unknown 11");
    assert_eq!(transcript.ops[1].posted(Request), "framing 6, metadata 3, unknown 11");
    assert_eq!(transcript.ops[1].posted(Response), "framing 6, metadata 3, unknown 11");
}

#[test]
fn compression_is_told_from_the_bytes_where_the_handshake_was_not_seen() {
    let body = [long_string("SELECT a FROM lab.tab"), vec![0, 1, 0]].concat();
    let lz4 = [&int(body.len() as u32)[..], &lz4_flex::block::compress(&body)].concat();
    let snappy = snap::raw::Encoder::new().compress_vec(&body).unwrap();
    for body in [lz4, snappy] {
        let transcript = decode_later(&[(Request, &message(4, 1, 0, opcode::QUERY, &body))]);
        assert_eq!(transcript.ops[0].name(), "SELECT");
        assert_eq!(transcript.notes, [Note::ProRata]);
    }
}
