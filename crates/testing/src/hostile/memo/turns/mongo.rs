//! MongoDB's wire protocol.

use super::super::words::Words;
use super::Pair;
use crate::hostile::seeds::bson::{doc, int, long, opcode, string, sub};

pub(super) fn make(kind: u8, lengths: u8, words: &mut Words) -> Pair {
    let more = usize::from(lengths);
    let ids = [words.below(1 << 31) as u32, words.below(1 << 31) as u32];
    let exchange = |command: &[Vec<u8>], answer: &[Vec<u8>]| {
        (msg(ids[0], 0, 0, &database(command)), msg(ids[1], ids[0], 0, &doc(answer)))
    };
    match kind {
        0 => legacy(ids),
        1 => exchange(&find(more, words), &[cursor("firstBatch", more, words), ok()]),
        2 => insert(ids, more, words),
        3 => exchange(&update(more, words), &[int("n", 1), int("nModified", words.int(2)), ok()]),
        4 => exchange(&find(0, words), &[failed(), string("errmsg", &words.text(5 + more % 6)), int("code", 13)]),
        5 => crossed(more, words),
        6 => (msg(ids[0], 0, 2, &database(&[string("insert", "c"), sub(4, "documents", &[])])), Vec::new()),
        7 => exchange(
            &[long("getMore", i64::from(words.int(u16::MAX))), string("collection", "c")],
            &[cursor("nextBatch", more, words), ok()],
        ),
        8 => exchange(&[int("ping", 1)], &[ok()]),
        9 => exhaust(ids, words),
        10 => exchange(
            &[
                string("delete", "c"),
                sub(4, "deletes", &[sub(3, "0", &[sub(3, "q", &[name(more, words)]), int("limit", 1)])]),
            ],
            &[int("n", words.int(3)), ok()],
        ),
        11 => exchange(
            &[int("hello", 1), sub(3, "client", &[sub(3, "driver", &[string("name", "d"), string("version", "1")])])],
            &[ok(), int("maxWireVersion", 21)],
        ),
        12 => exchange(&nested(words), &[cursor("firstBatch", more, words), time(words), ok()]),
        13 => compressed(ids, more, words),
        14 => exchange(
            &update(0, words),
            &[
                int("n", 0),
                sub(
                    4,
                    "writeErrors",
                    &[sub(
                        3,
                        "0",
                        &[int("index", 0), int("code", 11_000), string("errmsg", &words.text(4 + more % 3))],
                    )],
                ),
                ok(),
            ],
        ),
        _ => sums(ids, more, words),
    }
}

fn legacy(ids: [u32; 2]) -> Pair {
    let ask =
        [&[0; 4], b"admin.$cmd\0".as_slice(), &[0, 0, 0, 0, 255, 255, 255, 255], &doc(&[int("isMaster", 1)])].concat();
    let answer = [&[8, 0, 0, 0], &[0; 12][..], &[1, 0, 0, 0], &doc(&[ok()])].concat();
    (opcode(2004, ids[0], 0, &ask), opcode(1, ids[1], ids[0], &answer))
}

fn find(more: usize, words: &mut Words) -> Vec<Vec<u8>> {
    vec![string("find", "c"), sub(3, "filter", &[name(more, words)]), int("limit", 1)]
}

/// The session id, which each command has.
fn database(command: &[Vec<u8>]) -> Vec<u8> {
    let session = sub(3, "lsid", &[b"\x05id\0\x10\0\0\0\x040123456789abcdef".to_vec()]);
    doc(&[command, &[session, string("$db", "lab")]].concat())
}

fn insert(ids: [u32; 2], more: usize, words: &mut Words) -> Pair {
    let documents: Vec<u8> = (0..=more % 3).flat_map(|_| user(more, words)).collect();
    let section = [&[1], &(14 + documents.len() as u32).to_le_bytes()[..], b"documents\0", &documents].concat();
    let command = [database(&[string("insert", "c"), b"\x08ordered\0\x01".to_vec()]), section].concat();
    (msg(ids[0], 0, 0, &command), msg(ids[1], ids[0], 0, &doc(&[int("n", i32::from(more as u8 % 3) + 1), ok()])))
}

fn update(more: usize, words: &mut Words) -> Vec<Vec<u8>> {
    let change = sub(3, "u", &[sub(3, "$set", &[int("n", words.int(u16::MAX))])]);
    vec![string("update", "c"), sub(4, "updates", &[sub(3, "0", &[sub(3, "q", &[name(more, words)]), change])])]
}

/// Two requests, answered in reverse order.
fn crossed(more: usize, words: &mut Words) -> Pair {
    let (one, two) = (make(1, more as u8, words), make(8, 0, words));
    ([one.0, two.0].concat(), [two.1, one.1].concat())
}

/// One request with several replies.
fn exhaust(ids: [u32; 2], words: &mut Words) -> Pair {
    let next = words.below(1 << 31) as u32;
    let request = msg(ids[0], 0, 0x1_0000, &database(&[long("getMore", 5), string("collection", "c")]));
    let answer = |id, to, flags, words: &mut Words| msg(id, to, flags, &doc(&[cursor("nextBatch", 0, words), ok()]));
    (request, [answer(ids[1], ids[0], 2, words), answer(next, ids[1], 0, words)].concat())
}

/// A value of each type.
fn nested(words: &mut Words) -> Vec<Vec<u8>> {
    let list = sub(4, "$in", &[int("0", words.int(99)), string("1", &words.text(3))]);
    let binary = [b"\x05bin\0\x04\0\0\0\0".as_slice(), &words.bytes(4)].concat();
    let number = [b"\x01x\0".as_slice(), &words.bytes(8)].concat();
    let flag = vec![8, b'y', 0, words.below(2) as u8];
    vec![string("find", "c"), sub(3, "filter", &[sub(3, "a", &[list]), binary, number, flag, b"\x0anull\0".to_vec()])]
}

/// `OP_COMPRESSED` with an uncompressed body.
fn compressed(ids: [u32; 2], more: usize, words: &mut Words) -> Pair {
    let wrap = |id, to, body: &[u8]| {
        let plain = [&[0; 5], body].concat();
        opcode(2012, id, to, &[&2013_u32.to_le_bytes()[..], &(plain.len() as u32).to_le_bytes(), &[0], &plain].concat())
    };
    let (ask, answer) = (database(&find(more, words)), doc(&[cursor("firstBatch", more, words), ok()]));
    (wrap(ids[0], 0, &ask), wrap(ids[1], ids[0], &answer))
}

/// A message with a checksum and the flag for it.
fn sums(ids: [u32; 2], more: usize, words: &mut Words) -> Pair {
    let summed = |body: Vec<u8>, words: &mut Words| [body, words.bytes(4)].concat();
    let ask = summed(database(&find(more, words)), words);
    let answer = summed(doc(&[cursor("firstBatch", more, words), ok()]), words);
    (msg(ids[0], 0, 1, &ask), msg(ids[1], ids[0], 1, &answer))
}

fn cursor(batch: &str, more: usize, words: &mut Words) -> Vec<u8> {
    let found: Vec<_> =
        (0..=more % 3).map(|at| [format!("\x03{at}\0").as_bytes(), &user(more, words)].concat()).collect();
    sub(3, "cursor", &[sub(4, batch, &found), long("id", 0), string("ns", "lab.c")])
}

fn user(more: usize, words: &mut Words) -> Vec<u8> {
    let id = [b"\x07_id\0".as_slice(), &words.bytes(12)].concat();
    doc(&[id, name(more, words), int("n", words.int(u16::MAX))])
}

fn name(more: usize, words: &mut Words) -> Vec<u8> {
    string("name", &words.text(8 + more % 6))
}

fn time(words: &mut Words) -> Vec<u8> {
    [b"\x11operationTime\0".as_slice(), &words.bytes(8)].concat()
}

fn ok() -> Vec<u8> {
    b"\x01ok\0\0\0\0\0\0\0\xf0\x3f".to_vec()
}

fn failed() -> Vec<u8> {
    b"\x01ok\0\0\0\0\0\0\0\0\0".to_vec()
}

/// An `OP_MSG` whose first section is of kind 0.
fn msg(id: u32, to: u32, flags: u32, body: &[u8]) -> Vec<u8> {
    opcode(2013, id, to, &[&flags.to_le_bytes()[..], &[0], body].concat())
}
