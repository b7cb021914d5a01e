//! memcached, text and binary. A connection uses one of them; turns of the other are nonsense to it.

use super::super::words::Words;
use super::{Pair, join};

pub(super) fn make(kind: u8, lengths: u8, words: &mut Words) -> Pair {
    let more = usize::from(lengths);
    match kind {
        0 => get(more, words),
        1 => set(more, words),
        2 => line(&format!("incr counter {}", words.digits(2)), &words.digits(4 + more % 6)),
        3 => line(&format!("get {}", key(more, words)), "END"),
        4 => join((0..2 + more % 14).map(|at| if at % 3 == 2 { set(0, words) } else { get(0, words) }).collect()),
        5 => (format!("set {} 0 0 7 noreply\r\n{}\r\n", key(more, words), words.text(7)).into(), Vec::new()),
        6 => several(more, words),
        7 => meta_get(more, words),
        8 => meta_set(more, words),
        9 => quiet(more, words),
        10 => odd(more, words),
        11 => binary_get(more, words),
        12 => binary_set(more, words),
        13 => binary_batch(more, words),
        14 => join(vec![line("version", "VERSION 1.6.18"), get(0, words)]),
        _ => rare(more, words),
    }
}

fn line(request: &str, response: &str) -> Pair {
    (format!("{request}\r\n").into(), format!("{response}\r\n").into())
}

fn key(more: usize, words: &mut Words) -> String {
    format!("key:{}", words.digits(4 + more % 9))
}

fn value(key: &str, more: usize, words: &mut Words) -> String {
    let len = 16 + more % 24;
    format!("VALUE {key} {} {len}\r\n{}\r\n", words.digits(1), words.text(len))
}

fn get(more: usize, words: &mut Words) -> Pair {
    let key = key(more, words);
    line(&format!("get {key}"), &format!("{}END", value(&key, more, words)))
}

fn set(more: usize, words: &mut Words) -> Pair {
    let len = 16 + more % 24;
    line(&format!("set {} {} 60 {len}\r\n{}", key(more, words), words.digits(1), words.text(len)), "STORED")
}

fn several(more: usize, words: &mut Words) -> Pair {
    let keys = [key(0, words), key(0, words), key(more, words)];
    line(&format!("gets {}", keys.join(" ")), &format!("{}END", value(&keys[1], more, words)))
}

fn meta_get(more: usize, words: &mut Words) -> Pair {
    let (key, opaque, len) = (key(0, words), words.digits(3), 5 + more % 9);
    line(&format!("mg {key} v t O{opaque}"), &format!("VA {len} t{} O{opaque}\r\n{}", words.digits(2), words.text(len)))
}

fn meta_set(more: usize, words: &mut Words) -> Pair {
    let len = 5 + more % 9;
    let answer = if more % 4 == 3 { "NS" } else { "HD" };
    line(&format!("ms {} {len} T{}\r\n{}", key(0, words), words.digits(2), words.text(len)), answer)
}

/// Quiet requests, and the request that ends them.
fn quiet(more: usize, words: &mut Words) -> Pair {
    let asks: Vec<_> = (0..2 + more % 3).map(|at| format!("mg {} v q O{at}\r\n", key(0, words))).collect();
    let hit = format!("VA 3 O{}\r\n{}\r\n", more % 3, words.text(3));
    line(&format!("{}mn", asks.concat()), &format!("{}MN", if more.is_multiple_of(2) { hit } else { String::new() }))
}

/// Requests that servers refuse.
fn odd(more: usize, words: &mut Words) -> Pair {
    match more % 4 {
        0 => line(&format!("set k 0 0 3\r\n{}", words.text(3)), "SERVER_ERROR out of memory storing object"),
        1 => line("nosuch command", "ERROR"),
        2 => line("set k 0 0 3\r\nabcd", "CLIENT_ERROR bad data chunk\r\nERROR"),
        _ => line(&format!("incr k {}", words.digits(3)), "NOT_FOUND"),
    }
}

fn rare(more: usize, words: &mut Words) -> Pair {
    match more % 6 {
        0 => line("watch fetchers", &format!("OK\r\nts=1.{} gid=1 type=item_get", words.digits(3))),
        1 => (b"quit\r\n".to_vec(), Vec::new()),
        2 => line("stats items", &format!("STAT items:1:number {}\r\nEND", words.digits(2))),
        3 => (b"shutdown\r\n".to_vec(), Vec::new()),
        4 => line("lru_crawler metadump all", "key=a exp=-1\r\nEND"),
        _ => line("stats", "STAT version 1.6.18\r\nEND"),
    }
}

/// A message: magic, opcode, opaque; extras, key, value.
fn message(magic: u8, opcode: u8, opaque: &[u8], [extras, key, value]: [&[u8]; 3]) -> Vec<u8> {
    let body = (extras.len() + key.len() + value.len()) as u32;
    let head = [magic, opcode, 0, key.len() as u8, extras.len() as u8, 0, 0, 0];
    [&head, &body.to_be_bytes()[..], opaque, &[0; 8], extras, key, value].concat()
}

/// A request and its answer.
fn exchange(opcode: u8, opaque: &[u8], asked: [&[u8]; 3], answered: [&[u8]; 3]) -> Pair {
    (message(0x80, opcode, opaque, asked), message(0x81, opcode, opaque, answered))
}

fn binary_get(more: usize, words: &mut Words) -> Pair {
    let (key, value, opaque) = (key(more, words), words.text(16 + more % 24), words.bytes(4));
    exchange(0, &opaque, [b"", key.as_bytes(), b""], [&words.bytes(4), b"", value.as_bytes()])
}

fn binary_set(more: usize, words: &mut Words) -> Pair {
    let (key, value, opaque) = (key(more, words), words.text(16 + more % 24), words.bytes(4));
    exchange(1, &opaque, [&words.bytes(8), key.as_bytes(), value.as_bytes()], [b"", b"", b""])
}

/// Quiet requests with distinct or equal opaques, and the request that ends them.
fn binary_batch(more: usize, words: &mut Words) -> Pair {
    let opaque = |at: usize| [0, 0, 0, if more.is_multiple_of(2) { 0 } else { at as u8 }];
    let get = |at: usize, words: &mut Words| {
        let key = key(0, words);
        let pair = exchange(0x0d, &opaque(at), [b"", key.as_bytes(), b""], [&[0; 4], key.as_bytes(), b"value"]);
        if at == more % 3 { (pair.0, Vec::new()) } else { pair }
    };
    let mut pairs: Vec<Pair> = (0..3).map(|at| get(at, words)).collect();
    pairs.push(exchange(0x0a, &opaque(9), [b"", b"", b""], [b"", b"", b""]));
    join(pairs)
}
