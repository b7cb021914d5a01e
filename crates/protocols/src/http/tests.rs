//! Vectors named after their situation, each cut at every byte.

use super::{Http, sniff};
use crate::Sniff;
use overhead_decode::{DecoderEngine, Note};
use overhead_model::Side;
use overhead_testing::transcript::{Transcript, check};

mod bodies;
mod damage;
mod heads;
mod idle;
mod switches;

const C: Side = Side::Request;
const S: Side = Side::Response;

const NOTHING: &str = "HTTP/1.1 204 No Content\r\n\r\n";

fn talk(conversation: &[(Side, &str)]) -> Transcript {
    let bytes: Vec<(Side, &[u8])> = conversation.iter().map(|(side, text)| (*side, text.as_bytes())).collect();
    check(Http::default, &bytes)
}

fn single(request: &str, response: &str) -> String {
    let summary = talk(&[(C, request), (S, response)]).summary();
    assert_eq!(summary.len(), 1, "{summary:#?}");
    summary.concat()
}

fn outcomes(transcript: &Transcript) -> Vec<String> {
    transcript.summary().iter().map(|line| line.split(':').next().unwrap_or_default().to_owned()).collect()
}

fn ok(body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

/// Returns the fields posted for one direction, with their bytes.
fn posted(transcript: &Transcript, side: Side) -> Vec<String> {
    let text = |posting: &overhead_testing::transcript::Posting| {
        format!("{} {} {}", posting.path, posting.account, posting.len)
    };
    transcript.postings[side as usize].iter().map(text).collect()
}

#[test]
fn first_bytes_tell_clients_from_servers() {
    for (bytes, expected) in [
        (&b"GET / HTTP/1.1\r\n"[..], Sniff::Request),
        (b"PROPFIND /a HTTP/1.0\n", Sniff::Request),
        (b"OPTIONS * HTTP/1.1\r\n", Sniff::Request),
        (b"CONNECT a-host-with-quite-a-long-name.and-a-domain.example.com:443", Sniff::Request),
        (b"PROPFIND /0123456789012345678901234567890123456789012345678901234", Sniff::Request),
        (b"GET https://example.com/01234567890123456789012345678901234567890", Sniff::Request),
        (b"PURGE 01234567890123456789012345678901234567890123456789012345678", Sniff::No),
        (b"POST /0123456789012345678901234567890123456789012345678901234567", Sniff::Request),
        (b"POST /012345678901234567890123456789012345678901234567890123456", Sniff::More),
        (b"GET / HT", Sniff::More),
        (b"GE", Sniff::More),
        (b"HTTP/1.1 200 OK\r\n", Sniff::Response),
        (b"HTTP/1.1 200\r\n", Sniff::Response),
        (b"HTTP/1.1 20", Sniff::More),
        (b"", Sniff::More),
        // The preface of HTTP/2, a request of HTTP/0.9, lines of other protocols.
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", Sniff::No),
        (b"GET /\r\n", Sniff::No),
        (b"GET key HTTP\r\n", Sniff::No),
        (b"get / HTTP/1.1\r\n", Sniff::No),
        (b"PING\r\n", Sniff::No),
        (b"HTTP/2 200\r\n", Sniff::No),
        (b"HTTP/1.1 OK\r\n", Sniff::No),
        (b"*1\r\n$4\r\nPING\r\n", Sniff::No),
        (b"LONGERTHANANYMETHODTHATISREGISTERED / HTTP/1.1\r\n", Sniff::No),
    ] {
        assert_eq!(sniff(bytes), expected, "{}", String::from_utf8_lossy(bytes));
    }
}

#[test]
fn request_lines_of_any_length_are_recognised_within_the_window() {
    for len in 1..100 {
        let line = format!("GET /{} HTTP/1.1\r\nHost: example.com\r\nAccept: */*; and more\r\n", "a".repeat(len));
        assert_eq!(sniff(&line.as_bytes()[..line.len().min(64)]), Sniff::Request, "{line}");
    }
}

#[test]
fn what_bytes_look_like_does_not_depend_on_how_they_are_cut() {
    for line in [
        &b"GET /a?b=c HTTP/1.1\r\nHost: x\r\n"[..],
        b"HTTP/1.0 404 Not Found\r\n",
        b"GET /a b HTTP/1.1\r\n",
        b"GET /a\x1eb: HTTP/1.1\r\n",
        b"GET  / HTTP/1.1\r\n",
    ] {
        let whole = sniff(line);
        let cuts = (0..line.len()).map(|len| sniff(&line[..len]));
        assert!(cuts.into_iter().all(|cut| cut == Sniff::More || cut == whole), "{}", String::from_utf8_lossy(line));
    }
}
