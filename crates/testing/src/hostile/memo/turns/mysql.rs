//! `MySQL`'s protocol, without `EOF` packets.

use super::super::words::Words;
use super::{Pair, join};
use crate::hostile::seeds::mysql::{
    answer, column, end, error, execute, greeting, login, ok, packet, prepare, prepared, query, text,
};

pub(super) fn make(kind: u8, lengths: u8, words: &mut Words) -> Pair {
    let more = usize::from(lengths);
    match kind {
        0 => (Vec::new(), greeting()),
        1 => (login(), packet(2, &ok(0, 0, 2))),
        2 => prepares(more),
        3 => select(more, words),
        4 => executes(more, words),
        5 => (query(&format!("SELEC {}", words.digits(3))), answer(&[error(&words.text(8 + more % 4))])),
        6 => (query("BEGIN"), answer(&[ok(0, 0, 3)])),
        7 => (query("COMMIT"), answer(&[ok(0, 0, 2)])),
        8 => join((0..2 + more % 6).map(|_| select(0, words)).collect()),
        9 => (query(["SET a = 1", "USE d", "SET NAMES utf8mb4"][more % 3]), answer(&[ok(0, 0, 2)])),
        10 => several(words),
        11 => insert(more, words),
        12 => (packet(0, b"\x0e"), answer(&[ok(0, 0, 2)])),
        13 => file(more),
        14 => ending(more),
        _ => fetch(more, words),
    }
}

fn select(more: usize, words: &mut Words) -> Pair {
    let request = query(&format!("SELECT c FROM sbtest1 WHERE id={}", words.digits(4 + more % 4)));
    (request, answer(&[vec![1], column(254), text(words.text(20 + more % 5).as_bytes()), end()]))
}

/// Prepares a statement. Its parameter type depends on its id.
fn prepares(more: usize) -> Pair {
    let id = id(more);
    (
        prepare("SELECT c, d FROM sbtest1 WHERE id = ?"),
        answer(&[prepared(id, 2, 1), column(8), column(254), column(kind(more))]),
    )
}

fn id(more: usize) -> u8 {
    [1, 2, 9][more % 3]
}

fn kind(more: usize) -> u8 {
    [3, 253, 8][more % 3]
}

fn executes(more: usize, words: &mut Words) -> Pair {
    let bound = if more.is_multiple_of(2) { vec![0, 1, 8, 0] } else { vec![0, 0] };
    let request = execute(1, 0, &[bound, words.bytes(8)].concat());
    let row = [vec![0, 0], text(words.text(6 + more % 4).as_bytes()), words.bytes(4)].concat();
    (request, answer(&[vec![2], column(254), column(3), row, end()]))
}

/// Several results in one reply.
fn several(words: &mut Words) -> Pair {
    let request = query(&format!("UPDATE t SET a = {}; SELECT 1", words.digits(2)));
    (request, answer(&[ok(1, 0, 10), vec![1], column(3), text(words.digits(3).as_bytes()), end()]))
}

fn insert(more: usize, words: &mut Words) -> Pair {
    let request = query(&format!("INSERT INTO t VALUES ({}, '{}')", words.digits(3), words.text(6 + more % 5)));
    (request, answer(&[ok(1, 300 + u16::from(words.byte(200)), 2)]))
}

/// The server asks for a file of the client and gets none.
fn file(more: usize) -> Pair {
    (query("LOAD DATA LOCAL INFILE 'f' INTO TABLE t"), answer(&[[b"\xfbf".as_slice(), &vec![b'f'; more]].concat()]))
}

fn ending(more: usize) -> Pair {
    match more % 4 {
        0 => ([packet(0, b"\x19\x01\0\0\0"), packet(0, b"\x0e")].concat(), answer(&[ok(0, 0, 2)])),
        1 => (packet(0, b"\x1f"), answer(&[ok(0, 0, 2)])),
        2 => (packet(0, b"\x18\x01\0\0\0\0\0part"), Vec::new()),
        _ => (packet(0, b"\x01"), Vec::new()),
    }
}

/// Fetches rows from a cursor.
fn fetch(more: usize, words: &mut Words) -> Pair {
    let row = [vec![0, 0], text(words.text(6 + more % 4).as_bytes()), words.bytes(4)].concat();
    (packet(0, &[28, 1, 0, 0, 0, 1, 0, 0, 0]), answer(&[row, end()]))
}
