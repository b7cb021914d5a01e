//! First lines and fields.

use super::{C, NOTHING, S, ok, outcomes, posted, single, talk};
use overhead_decode::Note;

#[test]
fn a_get_with_a_query() {
    assert_eq!(
        single("GET /get?key=k1 HTTP/1.1\r\nHost: a\r\n\r\n", &ok("value")),
        "workload GET /get [] ok: framing 20, metadata 5, query 7, data 5 | framing 19, metadata 14, data 5, status 5"
    );
}

#[test]
fn each_part_of_a_head_has_its_account() {
    let request = "POST /a/b?k=1&&x HTTP/1.1\r\nHost:  h \r\nContent-Length: 3\r\nEmpty:\r\n\r\nabc";
    let transcript =
        talk(&[(C, request), (S, "HTTP/1.1 200 All right\r\nServer: x/1.2 (y)\r\ncontent-length: 0\r\n\r\n")]);
    assert_eq!(
        posted(&transcript, C),
        [
            "method query 4",
            "delimiter framing 1",
            "path query 4",
            "query delimiter framing 1",
            "query data 1",
            "query delimiter framing 1",
            "query data 1",
            "query delimiter framing 2",
            "query data 1",
            "delimiter framing 1",
            "version framing 8",
            "delimiter framing 2",
            "header name metadata 4",
            "delimiter framing 3",
            "header value metadata 1",
            "delimiter framing 3",
            "header name metadata 14",
            "delimiter framing 2",
            "content length framing 1",
            "delimiter framing 2",
            "header name metadata 5",
            "delimiter framing 5",
            "body data 3",
        ]
    );
    assert_eq!(
        posted(&transcript, S),
        [
            "version framing 8",
            "delimiter framing 1",
            "status code status 3",
            "delimiter framing 1",
            "reason status 9",
            "delimiter framing 2",
            "header name metadata 6",
            "delimiter framing 2",
            "header value metadata 9",
            "delimiter framing 2",
            "header name metadata 14",
            "delimiter framing 2",
            "content length framing 1",
            "delimiter framing 4",
        ]
    );
    assert_eq!(transcript.software, [None, Some("x 1.2".to_owned())]);
}

#[test]
fn names_are_methods_and_first_segments() {
    for (line, name) in [
        ("GET / HTTP/1.1", "GET /"),
        ("GET /mget?k1&k2&k3 HTTP/1.1", "GET /mget"),
        ("DELETE /db/doc/1 HTTP/1.1", "DELETE /db"),
        ("GET /db/?q=/x HTTP/1.1", "GET /db"),
        ("GET //x HTTP/1.1", "GET /"),
        ("GET http://host:80/path/x?q HTTP/1.1", "GET /path"),
        ("GET http://host HTTP/1.1", "GET /"),
        ("GET http://host?q HTTP/1.1", "GET /"),
        ("GET ?q HTTP/1.1", "GET /"),
        ("OPTIONS * HTTP/1.1", "OPTIONS *"),
        ("M-SEARCH * HTTP/1.1", "M-SEARCH *"),
        ("GET /%41 HTTP/1.0", "GET /#"),
        ("GET /v2/17 HTTP/1.1", "GET /v2"),
        ("GET /q7XzP2vN9sKd8LwTb4Rm HTTP/1.1", "GET /#"),
    ] {
        let transcript = talk(&[(C, &format!("{line}\r\n\r\n")), (S, NOTHING)]);
        assert_eq!(outcomes(&transcript), [format!("workload {name} [] ok")], "{line}");
    }
}

#[test]
fn the_name_of_a_host_in_a_target_is_metadata() {
    let line = single("GET http://host:80/path?q HTTP/1.1\r\n\r\n", NOTHING);
    assert!(line.contains("ok: framing 15, metadata 14, query 8, data 1 |"), "{line}");
}

#[test]
fn statuses_from_400_on_are_errors() {
    for (status, outcome) in [(200, "ok"), (302, "ok"), (399, "ok"), (400, "error"), (404, "error"), (503, "error")] {
        let line = single("GET / HTTP/1.1\r\n\r\n", &format!("HTTP/1.1 {status} X\r\nContent-Length: 0\r\n\r\n"));
        assert!(line.starts_with(&format!("workload GET / [] {outcome}:")), "{line}");
    }
}

#[test]
fn a_status_line_needs_no_reason() {
    for line in ["HTTP/1.1 204", "HTTP/1.1 204 "] {
        let line = single("GET / HTTP/1.1\r\n\r\n", &format!("{line}\r\n\r\n"));
        assert!(line.ends_with("status 3"), "{line}");
    }
    let line = single("GET / HTTP/1.1\r\n\r\n", "HTTP/1.1 204 d\u{e9}j\u{e0}\r\n\r\n");
    assert!(line.ends_with("status 9"), "{line}");
}

#[test]
fn lines_may_end_in_a_line_feed_alone_and_empty_ones_come_first() {
    let line = single("\r\n\nPUT /a HTTP/1.1\nContent-Length: 2\n\nab", "\r\nHTTP/1.1 204 X\nA: b\n\n");
    assert_eq!(
        line,
        "workload PUT /a [] ok: framing 19, metadata 14, query 5, data 2 | framing 17, metadata 2, status 4"
    );
}

#[test]
fn a_field_that_goes_on_in_the_next_line() {
    let folded = "HTTP/1.1 200 OK\r\nA: b\r\n  c\r\nContent-Length: 1\r\n\r\nx";
    assert!(single("GET / HTTP/1.1\r\n\r\n", folded).ends_with("metadata 21, data 1, status 5"));
    // A server may refuse this line or accept it as a field.
    let line = single("GET / HTTP/1.1\r\nA: b\r\n  c d\r\nHost: x\r\n\r\n", NOTHING);
    assert_eq!(line, "workload GET / [] ok: framing 26, metadata 10, query 4 | framing 14, status 13");
}

#[test]
fn requests_that_a_server_refuses_are_operations() {
    let refusal = "HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n<html>";
    for request in [
        "GET /a b HTTP/1.1\r\n\r\n",
        "GET / HTTP/1.1\r\nA: \0\r\n\r\n",
        "GET / HTTP/3.0\r\n\r\n",
        "(x) / HTTP/1.1\r\n\r\n",
    ] {
        let transcript = talk(&[(C, request), (S, refusal)]);
        let bad = if request.starts_with('(') { "unmatched RESPONSE" } else { "workload (bad request)" };
        assert!(transcript.summary().iter().any(|line| line.starts_with(bad)), "{request:?} {transcript:?}");
        assert_eq!(transcript.notes.contains(&Note::UndecodedMessage), bad.starts_with("workload"), "{request:?}");
    }
}

#[test]
fn more_fields_than_most_heads_have() {
    let fields = "X-Field: 1\r\n".repeat(300);
    let transcript = super::Transcript::of(
        super::Http::default(),
        &[
            (C, format!("GET / HTTP/1.1\r\n{fields}\r\n").as_bytes()),
            (S, format!("HTTP/1.1 204 X\r\n{fields}\r\n").as_bytes()),
        ],
    );
    assert_eq!(outcomes(&transcript), ["workload GET / [] ok"]);
    assert_eq!(transcript.notes, []);
}

#[test]
fn software_is_told_once() {
    let request = "GET / HTTP/1.1\r\nUser-Agent: curl/8.5.0\r\n\r\n";
    let again = "GET / HTTP/1.1\r\nUser-Agent: other\r\n\r\n";
    let response = "HTTP/1.1 204 X\r\nServer: CouchDB/3.3.3 (Erlang OTP/25)\r\n\r\n";
    let transcript = talk(&[(C, request), (S, response), (C, again), (S, response)]);
    assert_eq!(transcript.software, [Some("curl 8.5.0".to_owned()), Some("CouchDB 3.3.3".to_owned())]);
}

#[test]
fn a_statement_is_the_method_with_the_pattern_of_the_path_and_nothing_of_the_query() {
    let statement = |target: &str| {
        let request = format!("GET {target} HTTP/1.1\r\nHost: a\r\nCookie: session=secret\r\n\r\n");
        talk(&[(C, &request), (S, NOTHING)]).ops.into_iter().map(|op| op.statement).collect::<String>()
    };
    assert_eq!(statement("/"), "GET /");
    assert_eq!(statement("/users/17/orders?token=secret"), "GET /users/#/orders");
    assert_eq!(statement("http://example.org/items/3f2504e0-4f89-11d3-9a0c-0305e82c3301"), "GET /items/#");
    assert_eq!(statement("/files/a%20b/report.pdf"), "GET /files/#/report.pdf");
    assert_eq!(statement("*"), "GET *");
}

/// Servers read them as Latin-1.
#[test]
fn targets_may_have_bytes_beyond_ascii() {
    for (target, name) in [(&b"/idx/_doc?q=Z\xfcrich"[..], "POST /idx"), (b"/\xfc/x", "POST /_")] {
        let head = [b"POST ", target, b" HTTP/1.1\r\nContent-Length: 14\r\n\r\n"].concat();
        let request = [&head[..], b"GET / HTTP/1.1\n"].concat();
        let request = &request[..head.len() + 14];
        let transcript = super::Transcript::of(super::Http::default(), &[(C, request), (S, NOTHING.as_bytes())]);
        assert_eq!(transcript.notes, []);
        let [said] = &transcript.summary()[..] else { panic!("{target:?}") };
        assert!(said.starts_with(&format!("workload {name} [] ok: ")), "{said}");
        assert_eq!(transcript.total(C), request.len() as u64);
    }
}
