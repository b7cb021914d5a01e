//! SSDB's own protocol.

use super::super::words::Words;
use super::{Pair, join};

pub(super) fn make(kind: u8, lengths: u8, words: &mut Words) -> Pair {
    let more = usize::from(lengths);
    match kind {
        0..=2 => get(more, words),
        3..=5 => set(more, words),
        6 | 7 => join((0..2 + more % 14).map(|at| if at % 3 == 2 { set(0, words) } else { get(0, words) }).collect()),
        8 => (packet(&["get", &key(more, words)]), packet(&["not_found"])),
        9 => (packet(&["incr", "counter", &words.digits(2)]), packet(&["ok", &words.digits(4 + more % 6)])),
        10 => {
            let found = ["ok", "k1", &words.text(3 + more % 5), "k2", &words.text(4)];
            (packet(&["multi_get", "k1", "k2", &key(0, words)]), packet(&found))
        }
        11 => (packet(&["nosuch", &words.text(5)]), packet(&["client_error", "Unknown Command: nosuch"])),
        12 => (packet(&["auth", &words.text(8)]), packet(&["ok", "1"])),
        13 => (packet(&["info"]), packet(&["ok", "ssdb-server", "version", "1.9.9"])),
        14 => dump(more, words),
        _ => rare(more, words),
    }
}

fn key(more: usize, words: &mut Words) -> String {
    format!("key:{}", words.digits(4 + more % 9))
}

fn get(more: usize, words: &mut Words) -> Pair {
    (packet(&["get", &key(more, words)]), packet(&["ok", &words.text(16 + more % 24)]))
}

fn set(more: usize, words: &mut Words) -> Pair {
    (packet(&["set", &key(more, words), &words.text(16 + more % 24)]), packet(&["ok", "1"]))
}

fn dump(more: usize, words: &mut Words) -> Pair {
    let sets = (0..more % 4).flat_map(|_| packet(&["set", "k", &words.text(5)]));
    let answer = [packet(&["begin"]), sets.collect(), packet(&["end", "1"])].concat();
    (packet(&["dump", "", "", "10"]), answer)
}

fn rare(more: usize, words: &mut Words) -> Pair {
    match more % 3 {
        0 => (packet(&["sync140", "0", "", "sync"]), packet(&["noop"])),
        1 => (b"4\r\nping\r\n\r\n".to_vec(), b"2\r\nok\r\n\r\n".to_vec()),
        _ => (b"4\nping\n\n".to_vec(), packet(&["error", &words.text(12)])),
    }
}

/// A packet of these blocks.
fn packet(blocks: &[&str]) -> Vec<u8> {
    let blocks = blocks.iter().flat_map(|block| format!("{}\n{block}\n", block.len()).into_bytes());
    blocks.chain([b'\n']).collect()
}
