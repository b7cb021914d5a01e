//! The opcodes before `OP_MSG`.

use super::*;

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
