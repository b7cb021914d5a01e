//! HTTP/1.1, and 1.0.

use super::super::words::Words;
use super::{Pair, join};

pub(super) fn make(kind: u8, lengths: u8, words: &mut Words) -> Pair {
    let more = usize::from(lengths);
    match kind {
        0 => get(more, words),
        1 => set(more, words),
        2 => (request("GET", "/stats", ""), chunked(more, words)),
        3 => (request("GET", &format!("/get?key={}", words.digits(8)), ""), response("404 Not Found", "")),
        4 => batch(more, words),
        5 => (b"GET /no/host HTTP/1.1\r\n\r\n".to_vec(), response("400 Bad Request", &words.text(9))),
        6 => multi_get(more, words),
        7 => (posted_in_chunks(more, words), response("200 OK", "")),
        8 => (request("HEAD", "/get", ""), head("200 OK", "Content-Length: 1000\r\n")),
        9 => (request("GET", &format!("/{}", words.text(6)), ""), response("200 OK", &words.text(4))),
        10 => expecting(more, words),
        11 => (b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n".to_vec(), response("200 OK", &words.text(5))),
        12 => (request("GET", "/get", ""), head("304 Not Modified", &format!("ETag: \"{}\"\r\n", words.digits(6)))),
        13 => (request("PUT", "/set/1", &words.text(1 + more)), head("204 No Content", "Server: lab/1\r\n")),
        14 => {
            let agent = format!("DELETE /set HTTP/1.1\r\nUser-Agent: lab/{}\r\n\r\n", words.digits(2));
            (agent.into(), response("200 OK", ""))
        }
        _ => {
            (request("GET", "/", ""), head("200 OK", &format!("X: {}\r\nContent-Length: 0\r\n", words.text(1 + more))))
        }
    }
}

fn get(more: usize, words: &mut Words) -> Pair {
    let key = words.digits(8 + more % 13);
    (request("GET", &format!("/get?key={key}"), ""), response("200 OK", &words.text(16 + more % 24)))
}

fn set(more: usize, words: &mut Words) -> Pair {
    let key = words.digits(8);
    (request("POST", &format!("/set?key={key}"), &words.text(16 + more % 24)), response("200 OK", ""))
}

/// Several requests at once.
fn batch(more: usize, words: &mut Words) -> Pair {
    join((0..2 + more % 14).map(|at| if at % 3 == 2 { set(0, words) } else { get(0, words) }).collect())
}

fn multi_get(more: usize, words: &mut Words) -> Pair {
    let keys: Vec<String> = (0..=more).map(|_| words.digits(8)).collect();
    (request("GET", &format!("/mget?{}", keys.join("&")), ""), response("200 OK", &words.text(12 * keys.len())))
}

/// A request that asks for permission to send its body, and gets it.
fn expecting(more: usize, words: &mut Words) -> Pair {
    let body = words.text(3 + more);
    let asked = format!("POST /set HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    let answer = [b"HTTP/1.1 100 Continue\r\n\r\n".to_vec(), response("201 Created", &words.text(2))].concat();
    (asked.into(), answer)
}

fn chunks(more: usize, words: &mut Words) -> String {
    let lines: String = (0..=more % 3).fold(String::new(), |lines, at| {
        let chunk = words.text(4 + at + more % 20);
        lines + &format!("{:x}\r\n{chunk}\r\n", chunk.len())
    });
    lines + if more.is_multiple_of(2) { "0\r\n\r\n" } else { "0\r\nDigest: x\r\n\r\n" }
}

fn chunked(more: usize, words: &mut Words) -> Vec<u8> {
    format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{}", chunks(more, words)).into()
}

fn posted_in_chunks(more: usize, words: &mut Words) -> Vec<u8> {
    format!("POST /set HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n{}", chunks(more, words)).into()
}

fn request(method: &str, target: &str, body: &str) -> Vec<u8> {
    let length = if body.is_empty() { String::new() } else { format!("Content-Length: {}\r\n", body.len()) };
    format!("{method} {target} HTTP/1.1\r\nHost: lab\r\n{length}\r\n{body}").into()
}

fn response(status: &str, body: &str) -> Vec<u8> {
    format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n{body}", body.len()).into()
}

fn head(status: &str, fields: &str) -> Vec<u8> {
    format!("HTTP/1.1 {status}\r\n{fields}\r\n").into()
}
