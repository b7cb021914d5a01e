//! Redis serialization protocol, versions 2 and 3.

use super::super::words::Words;
use super::{Pair, join};

pub(super) fn make(kind: u8, lengths: u8, words: &mut Words) -> Pair {
    let more = usize::from(lengths);
    match kind {
        0 => get(more, words),
        1 => set(more, words),
        2 => (command(&["INCR", "counter"]), format!(":{}\r\n", words.digits(4 + more % 6)).into()),
        3 => (command(&["GET", &key(more, words)]), b"$-1\r\n".to_vec()),
        4 => batch(more, words),
        5 => (command(&["NOSUCH", &words.text(5)]), format!("-ERR unknown command '{}'\r\n", words.text(6)).into()),
        6 => transaction(more, words),
        7 => (command(&["SUBSCRIBE", "news"]), b"*3\r\n$9\r\nsubscribe\r\n$4\r\nnews\r\n:1\r\n".to_vec()),
        8 => (Vec::new(), message(more, words)),
        9 => (command(&["HELLO", "3"]), b"%2\r\n$6\r\nserver\r\n$5\r\nredis\r\n$5\r\nproto\r\n:3\r\n".to_vec()),
        10 => reply_mode(more),
        11 => (b"PING\r\n".to_vec(), b"+PONG\r\n".to_vec()),
        12 => several(more, words),
        13 => (
            command(&["BLPOP", "list", "0"]),
            [b"*2\r\n$4\r\nlist\r\n".as_slice(), &bulk(&words.text(6 + more % 9))].concat(),
        ),
        14 => (
            command(&["HSET", &key(0, words), "field", &words.text(5 + more % 7), "other", &words.digits(3)]),
            format!(":{}\r\n", words.below(3)).into(),
        ),
        _ => mode(more, words),
    }
}

fn get(more: usize, words: &mut Words) -> Pair {
    (command(&["GET", &key(more, words)]), bulk(&words.text(length(more))))
}

fn set(more: usize, words: &mut Words) -> Pair {
    (command(&["SET", &key(more, words), &words.text(length(more))]), b"+OK\r\n".to_vec())
}

/// Returns the length of a value: usually two digits, otherwise near lengths at which digits are added or arguments are
/// no longer inspected.
fn length(more: usize) -> usize {
    let (kind, off) = (more % 16, more / 16 % 3);
    match kind {
        0 => off,
        1 => 9 + off,
        2 => 99 + off,
        3 => 511 + off,
        _ => 16 + more % 24,
    }
}

/// Several commands at once.
fn batch(more: usize, words: &mut Words) -> Pair {
    join((0..2 + more % 14).map(|at| if at % 3 == 2 { set(0, words) } else { get(0, words) }).collect())
}

fn transaction(more: usize, words: &mut Words) -> Pair {
    let (one, two) = (set(more, words).0, get(more, words).0);
    let ends = more % 5 == 4;
    let last: Pair = if ends {
        (command(&["DISCARD"]), b"+OK\r\n".to_vec())
    } else {
        (command(&["EXEC"]), [b"*2\r\n+OK\r\n".as_slice(), &bulk(&words.text(7))].concat())
    };
    let queued = || b"+QUEUED\r\n".to_vec();
    join(vec![(command(&["MULTI"]), b"+OK\r\n".to_vec()), (one, queued()), (two, queued()), last])
}

/// A message to a subscriber, as an array or a push.
fn message(more: usize, words: &mut Words) -> Vec<u8> {
    let kind = if more.is_multiple_of(2) { "*" } else { ">" };
    [format!("{kind}3\r\n$7\r\nmessage\r\n$4\r\nnews\r\n").as_bytes(), &bulk(&words.text(8 + more % 5))].concat()
}

fn reply_mode(more: usize) -> Pair {
    match more % 3 {
        0 => (command(&["CLIENT", "REPLY", "OFF"]), Vec::new()),
        1 => (command(&["CLIENT", "REPLY", "ON"]), b"+OK\r\n".to_vec()),
        _ => (command(&["CLIENT", "REPLY", "SKIP"]), Vec::new()),
    }
}

fn several(more: usize, words: &mut Words) -> Pair {
    let values = [bulk(&words.text(5)), b"$-1\r\n".to_vec(), bulk(&words.text(3 + more % 9))].concat();
    (command(&["MGET", &key(0, words), &key(0, words), &key(more, words)]), [b"*3\r\n", values.as_slice()].concat())
}

/// Commands that change how later messages are decoded, one at a time.
fn mode(more: usize, words: &mut Words) -> Pair {
    let queued = || b"+QUEUED\r\n".to_vec();
    match more % 9 {
        0 => (command(&["MULTI"]), b"+OK\r\n".to_vec()),
        1 => (command(&["EXEC"]), [b"*1\r\n".as_slice(), &bulk(&words.text(4))].concat()),
        2 => (command(&["DISCARD"]), b"+OK\r\n".to_vec()),
        3 => (command(&["UNSUBSCRIBE", "news"]), b"*3\r\n$11\r\nunsubscribe\r\n$4\r\nnews\r\n:0\r\n".to_vec()),
        4 => (command(&["PSUBSCRIBE", "n*"]), b"*3\r\n$10\r\npsubscribe\r\n$2\r\nn*\r\n:2\r\n".to_vec()),
        5 => (command(&["MONITOR"]), b"+OK\r\n+1700000000.000000 [0 127.0.0.1:1] \"GET\" \"k\"\r\n".to_vec()),
        6 => (command(&["HELLO", "2"]), b"*4\r\n$6\r\nserver\r\n$5\r\nredis\r\n$5\r\nproto\r\n:2\r\n".to_vec()),
        7 => (get(0, words).0, queued()),
        _ => (command(&["CLIENT", "SETINFO", "LIB-NAME", &words.text(5)]), b"+OK\r\n".to_vec()),
    }
}

fn key(more: usize, words: &mut Words) -> String {
    let number = words.digits(8 + more % 13);
    match more % 32 {
        0 => number,
        1 => words.text(9 + more / 32),
        2 => format!("key:{}", words.digits(more / 32)),
        3 => format!("key{number}"),
        // Near the length from which keys have no pattern.
        4 => format!("key:{}", words.digits(505 + more / 32)),
        _ => format!("key:{number}"),
    }
}

fn command(parts: &[&str]) -> Vec<u8> {
    [format!("*{}\r\n", parts.len()).into_bytes(), parts.iter().flat_map(|part| bulk(part)).collect()].concat()
}

fn bulk(text: &str) -> Vec<u8> {
    format!("${}\r\n{text}\r\n", text.len()).into()
}
