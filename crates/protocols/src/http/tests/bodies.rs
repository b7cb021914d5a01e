//! The length of bodies.

use super::{C, NOTHING, S, ok, outcomes, posted, single, talk};
use overhead_decode::Note;
use overhead_testing::transcript::Transcript;

const GET: &str = "GET /a HTTP/1.1\r\n\r\n";

fn answers(conversation: &[(super::Side, &str)]) -> Vec<String> {
    let answer = |line: &String| line.split(" | ").nth(1).unwrap_or_default().to_owned();
    talk(conversation).summary().iter().map(answer).collect()
}

#[test]
fn chunks_with_extensions_and_trailers() {
    let response = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\
        5\r\nhello\r\nA;n=v \r\n0123456789\r\n00\r\nDigest: x\r\nB: y\r\n\r\n";
    let transcript = talk(&[(C, GET), (S, response), (C, GET), (S, NOTHING)]);
    assert_eq!(outcomes(&transcript), ["workload GET /a [] ok"; 2]);
    let chunks: Vec<String> = posted(&transcript, S).into_iter().skip(10).take(17).collect();
    assert_eq!(
        chunks,
        [
            "chunk size framing 1",
            "line end framing 2",
            "body data 5",
            "line end framing 2",
            "chunk size framing 1",
            "chunk extension metadata 4",
            "line end framing 3",
            "body data 10",
            "line end framing 2",
            "chunk size framing 2",
            "line end framing 2",
            "header name metadata 6",
            "delimiter framing 2",
            "header value metadata 1",
            "delimiter framing 2",
            "header name metadata 1",
            "delimiter framing 2",
        ]
    );
}

#[test]
fn chunks_of_a_request_and_line_feeds_alone() {
    let request = "POST /a HTTP/1.1\r\nTransfer-Encoding: gzip, Chunked\r\n\r\n3\nabc\n0\n\n";
    let line = single(request, NOTHING);
    assert!(line.contains("query 6, data 3 |"), "{line}");
}

#[test]
fn chunks_come_before_a_length() {
    for fields in [
        "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n",
        "Transfer-Encoding: chunked\r\nContent-Length: 1\r\nContent-Length: 2\r\n",
    ] {
        let smuggled = format!("POST / HTTP/1.1\r\n{fields}\r\n2\r\nab\r\n0\r\n\r\n{GET}");
        let transcript = talk(&[(C, &smuggled), (S, NOTHING), (S, NOTHING)]);
        assert_eq!(outcomes(&transcript), ["workload POST / [] ok", "workload GET /a [] ok"], "{fields:?}");
        let answered = format!("HTTP/1.1 200 OK\r\n{fields}\r\n2\r\nab\r\n0\r\n\r\n");
        let transcript = talk(&[(C, GET), (S, &answered), (C, GET), (S, NOTHING)]);
        assert_eq!(outcomes(&transcript), ["workload GET /a [] ok"; 2], "{fields:?}");
    }
}

#[test]
fn a_length_that_is_said_twice_has_to_be_the_same() {
    for length in ["Content-Length: 2\r\nContent-Length: 2", "Content-Length: 2, 2", "Content-Length: 02"] {
        let transcript =
            talk(&[(C, &format!("POST / HTTP/1.1\r\n{length}\r\n\r\nab{GET}")), (S, NOTHING), (S, NOTHING)]);
        assert_eq!(outcomes(&transcript).len(), 2, "{length}");
        assert_eq!(transcript.notes, [], "{length}");
    }
    for length in
        ["Content-Length: 2\r\nContent-Length: 3", "Content-Length: 2, 3", "Content-Length: -2", "Content-Length: 2x"]
    {
        let refusal = "HTTP/1.1 400 X\r\nContent-Length: 0\r\n\r\n";
        let transcript = talk(&[(C, &format!("POST / HTTP/1.1\r\n{length}\r\n\r\nab{GET}")), (S, refusal)]);
        assert_eq!(outcomes(&transcript)[0], "workload POST / [] error", "{length}");
        assert!(matches!(transcript.notes[..], [Note::Malformed(_)]), "{length}");
        let transcript = talk(&[(C, GET), (S, &format!("HTTP/1.1 200 OK\r\n{length}\r\n\r\nab"))]);
        assert!(matches!(transcript.notes[..], [Note::Malformed(_)]), "{length}");
    }
}

#[test]
fn a_response_without_a_length_goes_on_to_the_end() {
    assert_eq!(
        answers(&[(C, GET), (S, "HTTP/1.0 200 OK\r\n\r\nabc"), (S, NOTHING)]),
        ["framing 14, data 30, status 5"]
    );
    let coded = "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\nContent-Length: 1\r\n\r\nabc";
    assert!(answers(&[(C, GET), (S, coded)])[0].contains("data 3"));
    let transcript = talk(&[(C, GET), (S, "HTTP/1.0 500 No\r\n\r\nabc")]);
    assert_eq!(outcomes(&transcript), ["workload GET /a [] error"]);
}

#[test]
fn a_request_whose_coding_is_unknown_is_refused() {
    let request = "POST / HTTP/1.1\r\nTransfer-Encoding: gzip\r\n\r\nabc";
    let transcript = talk(&[(C, request), (S, "HTTP/1.1 501 X\r\nContent-Length: 0\r\n\r\n")]);
    assert_eq!(outcomes(&transcript)[0], "workload POST / [] error");
    assert!(matches!(transcript.notes[..], [Note::Malformed(_)]));
}

#[test]
fn some_responses_have_no_body_whatever_they_say() {
    let head = "HEAD /a HTTP/1.1\r\n\r\n";
    let long = "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n";
    let not_modified = "HTTP/1.1 304 Not Modified\r\nContent-Length: 1000\r\n\r\n";
    let chunked = "HTTP/1.1 204 X\r\nTransfer-Encoding: chunked\r\n\r\n";
    let talked = talk(&[(C, &[head, GET, GET, GET].concat()), (S, &[long, not_modified, chunked, NOTHING].concat())]);
    assert_eq!(
        outcomes(&talked),
        ["workload HEAD /a [] ok", "workload GET /a [] ok", "workload GET /a [] ok", "workload GET /a [] ok"]
    );
}

#[test]
fn interim_responses_belong_to_the_operation() {
    let post = "POST / HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n";
    let transcript = talk(&[
        (C, post),
        (S, "HTTP/1.1 100 Continue\r\n\r\n"),
        (C, "abc"),
        (S, "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"),
        (S, &ok("x")),
    ]);
    assert_eq!(outcomes(&transcript), ["workload POST / [] ok"]);
    let line = &transcript.summary()[0];
    assert!(line.contains("query 5, data 3 | ") && line.ends_with("data 1, status 30"), "{line}");
}

#[test]
fn a_response_may_come_before_the_request_is_complete() {
    let begun = "PUT /a HTTP/1.1\r\nContent-Length: 10\r\n\r\nabc";
    let refusal = "HTTP/1.1 413 X\r\nContent-Length: 0\r\n\r\n";
    let transcript = talk(&[(C, begun), (S, refusal), (C, "defghij"), (C, GET), (S, NOTHING)]);
    assert_eq!(outcomes(&transcript), ["workload PUT /a [] error", "workload GET /a [] ok"]);
    assert!(transcript.summary()[0].contains("data 10"));
    let given_up = talk(&[(C, begun), (S, refusal)]);
    assert_eq!(outcomes(&given_up), ["workload PUT /a [] error"]);
}

#[test]
fn a_pipeline_is_answered_in_order() {
    let requests = [GET, "POST /b HTTP/1.1\r\nContent-Length: 1\r\n\r\nx", "GET /c HTTP/1.1\r\n\r\n"].concat();
    let responses = [ok("a").as_str(), "HTTP/1.1 404 X\r\nContent-Length: 0\r\n\r\n", &ok("")].concat();
    let transcript = talk(&[(C, &requests), (S, &responses)]);
    assert_eq!(outcomes(&transcript), ["workload GET /a [] ok", "workload POST /b [] error", "workload GET /c [] ok"]);
}

#[test]
fn what_is_cut_off_by_the_end() {
    let transcript = Transcript::of(super::Http::default(), &[(C, b"POST / HTTP/1.1\r\nContent-Length: 3\r\n\r\na")]);
    assert_eq!(outcomes(&transcript), ["unmatched (cut off) [] open"]);
    let transcript = Transcript::of(
        super::Http::default(),
        &[(C, GET.as_bytes()), (S, b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\na")],
    );
    assert_eq!(outcomes(&transcript), ["workload GET /a [] open"]);
}

#[test]
fn no_request_is_known_of_a_response() {
    let transcript = talk(&[(S, "HTTP/1.1 408 Request Timeout\r\nContent-Length: 2\r\n\r\nno")]);
    assert_eq!(outcomes(&transcript), ["unmatched RESPONSE [] noreply"]);
    let transcript = talk(&[(S, "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 X\r\n\r\n")]);
    assert_eq!(outcomes(&transcript), ["unmatched RESPONSE [] noreply"; 2]);
}

#[test]
fn what_is_no_chunk_ends_the_direction() {
    for chunk in ["x\r\n", "-1\r\n", "1x\r\n", "\r\n", "1\r\nab", "10000000000000000\r\n", "2\r\nabc\r\n"] {
        let response = format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{chunk}{}", "0".repeat(40));
        let transcript = talk(&[(C, GET), (S, &response)]);
        assert!(matches!(transcript.notes[..], [Note::Malformed(_)]), "{chunk:?} {:?}", transcript.summary());
    }
}

#[test]
fn a_body_that_was_refused_may_not_come() {
    let asks = "POST /a HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n";
    let refusal = "HTTP/1.1 417 X\r\nContent-Length: 0\r\n\r\n";
    let again = "POST /a HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc";
    let transcript = talk(&[(C, asks), (S, refusal), (C, again), (S, NOTHING), (C, GET), (S, NOTHING)]);
    assert_eq!(outcomes(&transcript), ["workload POST /a [] error", "workload POST /a [] ok", "workload GET /a [] ok"]);
    let all_the_same = talk(&[(C, asks), (S, refusal), (C, "abc"), (C, GET), (S, NOTHING)]);
    assert_eq!(outcomes(&all_the_same), ["workload POST /a [] error", "workload GET /a [] ok"]);
}
