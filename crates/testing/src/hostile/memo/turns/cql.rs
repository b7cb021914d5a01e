//! Cassandra's native protocol, version 4.

use super::super::words::Words;
use super::{Pair, join};

/// Column specifications with a global table: a bigint and a text.
const COLUMNS: &[u8] = b"\0\0\0\x01\0\0\0\x02\0\x03lab\0\x01t\0\x01a\0\x02\0\x01b\0\x0d";

pub(super) fn make(kind: u8, lengths: u8, words: &mut Words) -> Pair {
    let more = usize::from(lengths);
    let stream = words.int(1 << 15) as i16;
    let exchange = |opcode, body: &[u8], answer, answered: &[u8]| {
        (frame(4, 0, stream, opcode, body), frame(0x84, 0, stream, answer, answered))
    };
    match kind {
        0 => exchange(1, b"\0\x01\0\x0bCQL_VERSION\0\x053.0.0", 2, b""),
        1 => {
            let text = format!("SELECT a, b FROM lab.t WHERE k = {}", words.digits(4 + more % 4));
            exchange(7, &query(&text), 8, &rows(COLUMNS, more, words))
        }
        2 => exchange(9, &long(statement(more)), 8, &prepared(more)),
        3 => exchange(10, &execute(id(more), more, words), 8, &rows(b"\0\0\0\x04\0\0\0\x02", more, words)),
        4 => exchange(7, &query(&format!("INSERT INTO lab.t (k) VALUES ({})", words.digits(3))), 8, &[0, 0, 0, 1]),
        5 => {
            let text = words.text(6 + more % 5);
            let failure = [&[0, 0, 0x22, 0, 0, text.len() as u8], text.as_bytes()].concat();
            exchange(7, &query("SELECT nosuch"), 0, &failure)
        }
        6 => exchange(13, &batch(more, words), 8, &[0, 0, 0, 1]),
        7 => crossed(more, words),
        8 => (Vec::new(), frame(0x84, 0, -1, 12, b"\0\x0dSTATUS_CHANGE\0\x02UP\x04\x7f\0\0\x01\0\0\x1b\x82")),
        9 => exchange(7, &query("USE lab"), 8, b"\0\0\0\x03\0\x03lab"),
        10 => exchange(5, b"", 6, b"\0\x01\0\x0bCOMPRESSION\0\x01\0\x03lz4"),
        11 => exchange(10, &execute(b"unknown!", more, words), 8, &rows(b"\0\0\0\x04\0\0\0\x02", more, words)),
        12 => paged(stream, more, words),
        13 => collections(stream, more, words),
        14 => exchange(7, &query("DROP TABLE lab.t"), 8, b"\0\0\0\x05\0\x07DROPPED\0\x05TABLE\0\x03lab\0\x01t"),
        _ => odd(stream, more, words),
    }
}

/// Returns the id of one of a few statements.
fn id(more: usize) -> &'static [u8] {
    [b"stmt-one".as_slice(), b"stmt-two", b"st"][more % 3]
}

/// Returns the text of a statement. Another connection may have prepared another text under the same id.
fn statement(more: usize) -> &'static str {
    if (more / 3).is_multiple_of(2) { "SELECT a, b FROM lab.t WHERE k = ?" } else { "DELETE FROM lab.t WHERE k = ?" }
}

fn prepared(more: usize) -> Vec<u8> {
    let parameters = b"\0\0\0\x01\0\0\0\x01\0\0\0\x01\0\0\0\x03lab\0\x01t\0\x01k\0\x02";
    [&[0, 0, 0, 4, 0, id(more).len() as u8], id(more), parameters, COLUMNS].concat()
}

/// EXECUTE of a statement with a bigint, consistency ONE, without metadata.
fn execute(id: &[u8], more: usize, words: &mut Words) -> Vec<u8> {
    let value = words.bytes(if more % 4 == 3 { 5 } else { 8 });
    [&[0, id.len() as u8], id, &[0, 1, 3, 0, 1], &cell(&value)].concat()
}

/// Rows of a bigint and a text behind their metadata.
fn rows(metadata: &[u8], more: usize, words: &mut Words) -> Vec<u8> {
    let count = 1 + more % 3;
    let mut body = [&[0, 0, 0, 2], metadata, &[0, 0, 0, count as u8]].concat();
    for _ in 0..count {
        body.extend(cell(&words.bytes(8)));
        body.extend(cell(words.text(10 + more % 7).as_bytes()));
    }
    body
}

fn batch(more: usize, words: &mut Words) -> Vec<u8> {
    let count = 1 + more % 3;
    let mut body = vec![0, 0, count as u8];
    for _ in 0..count {
        body.extend([&[1, 0, 8], id(0), &[0, 1], &cell(&words.bytes(8))].concat());
    }
    [body.as_slice(), &[0, 1, 0]].concat()
}

/// Two requests, answered in reverse order.
fn crossed(more: usize, words: &mut Words) -> Pair {
    let (one, two) = (make(3, more as u8, words), make(1, 0, words));
    let (requests, _) = join(vec![one.clone(), two.clone()]);
    (requests, [two.1, one.1].concat())
}

/// A page of a result: its paging state, which the next request repeats, and a tracing id.
fn paged(stream: i16, more: usize, words: &mut Words) -> Pair {
    let state = words.bytes(4);
    let request =
        [&[0, 8], id(0), &[0, 1, 0x0f, 0, 1], &cell(&words.bytes(8)), &[0, 0, 0, 100], &cell(&state)].concat();
    let metadata = [b"\0\0\0\x06\0\0\0\x02".as_slice(), &cell(&words.bytes(4))].concat();
    let answer = [words.bytes(16), rows(&metadata, more, words)].concat();
    (frame(4, 2, stream, 10, &request), frame(0x84, 2, stream, 8, &answer))
}

/// A list and a map.
fn collections(stream: i16, more: usize, words: &mut Words) -> Pair {
    let specs = b"\0\0\0\x01\0\0\0\x02\0\x03lab\0\x01t\0\x01l\0\x20\0\x09\0\x01m\0\x21\0\x0d\0\x09";
    let number = |words: &mut Words| cell(&words.bytes(4));
    let list = [&[0, 0, 0, 2][..], &number(words), &number(words)].concat();
    let map = [&[0, 0, 0, 1][..], &cell(words.text(4 + more % 3).as_bytes()), &number(words)].concat();
    let answer = [&[0, 0, 0, 2][..], specs, &[0, 0, 0, 1], &cell(&list), &cell(&map)].concat();
    (frame(4, 0, stream, 7, &query("SELECT l, m FROM lab.t")), frame(0x84, 0, stream, 8, &answer))
}

fn odd(stream: i16, more: usize, words: &mut Words) -> Pair {
    let options = b"\0\x02\0\x0bCQL_VERSION\0\x053.0.0\0\x0bCOMPRESSION\0\x03lz4";
    match more % 4 {
        // A compressed message of an unknown algorithm.
        0 => (frame(4, 1, stream, 7, &words.bytes(20)), frame(0x84, 1, stream, 8, &words.bytes(20))),
        1 => (frame(4, 0, stream, 1, options), frame(0x84, 0, stream, 2, b"")),
        // Version 5, after which there are segments.
        2 => (frame(5, 0, stream, 1, b"\0\x01\0\x0bCQL_VERSION\0\x053.0.0"), frame(0x85, 0, stream, 2, b"")),
        _ => (frame(4, 0, stream, 11, b"\0\x01\0\x0dSCHEMA_CHANGE"), frame(0x84, 8, stream, 2, b"\0\x01\0\x04warn")),
    }
}

fn frame(version: u8, flags: u8, stream: i16, opcode: u8, body: &[u8]) -> Vec<u8> {
    [&[version, flags], &stream.to_be_bytes()[..], &[opcode], &(body.len() as u32).to_be_bytes(), body].concat()
}

/// A long string, consistency ONE and no flags.
fn query(text: &str) -> Vec<u8> {
    [long(text), vec![0, 1, 0]].concat()
}

fn long(text: &str) -> Vec<u8> {
    cell(text.as_bytes())
}

fn cell(value: &[u8]) -> Vec<u8> {
    [&(value.len() as u32).to_be_bytes(), value].concat()
}
