//! Writes packets of `MySQL`'s protocol ("Client/Server Protocol" in its manual), and exchanges that were not recorded.

use super::spelt::Exchange;
use overhead_model::Side::{Request, Response};

/// Capabilities: version 4.1, plugins, no `EOF` packets, session states.
const CAPABILITIES: u32 = 0x0188_a201;
/// The same with compressed packets.
const COMPRESSED: u32 = CAPABILITIES | 0x20;

pub(crate) fn packet(sequence: u8, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u32).to_le_bytes();
    [length.get(..3).unwrap_or_default(), &[sequence], payload].concat()
}

/// Consecutive packets, numbered from 1.
pub(crate) fn answer(payloads: &[Vec<u8>]) -> Vec<u8> {
    payloads.iter().zip(1..).flat_map(|(payload, number)| packet(number, payload)).collect()
}

pub(crate) fn greeting() -> Vec<u8> {
    greeting_of(COMPRESSED)
}

fn greeting_of(capabilities: u32) -> Vec<u8> {
    let [a, b, c, d] = capabilities.to_le_bytes();
    let flags = [0, a, b, 0xff, 2, 0, c, d, 21];
    let parts = [b"\x0a8.0.36\0\x09\0\0\0abcdefgh", &flags[..], &[0; 10], b"ijklmnopqrst\0mysql_native_password\0"];
    packet(0, &parts.concat())
}

pub(crate) fn login() -> Vec<u8> {
    login_of(CAPABILITIES)
}

fn login_of(capabilities: u32) -> Vec<u8> {
    let parts =
        [&capabilities.to_le_bytes()[..], &[0, 0, 0, 1, 0xff], &[0; 23], b"root\0\x04abcdmysql_native_password\0"];
    packet(1, &parts.concat())
}

pub(crate) fn ok(rows: u8, id: u16, flags: u8) -> Vec<u8> {
    let [low, high] = id.to_le_bytes();
    vec![0, rows, 0xfc, low, high, flags, 0, 0, 0]
}

pub(crate) fn end() -> Vec<u8> {
    vec![0xfe, 0, 0, 2, 0, 0, 0]
}

pub(crate) fn error(text: &str) -> Vec<u8> {
    [b"\xff\x28\x04#42000", text.as_bytes()].concat()
}

/// A text of less than 251 bytes, with its length.
pub(crate) fn text(text: &[u8]) -> Vec<u8> {
    [&[text.len() as u8], text].concat()
}

pub(crate) fn column(kind: u8) -> Vec<u8> {
    [b"\x03def\x01d\x01t\x01t\x01a\x01a\x0c\x3f\0\x0b\0\0\0", &[kind, 0, 0, 0, 0, 0][..]].concat()
}

pub(crate) fn query(sql: &str) -> Vec<u8> {
    packet(0, &[b"\x03", sql.as_bytes()].concat())
}

pub(crate) fn prepare(sql: &str) -> Vec<u8> {
    packet(0, &[b"\x16", sql.as_bytes()].concat())
}

pub(crate) fn prepared(id: u8, columns: u8, parameters: u8) -> Vec<u8> {
    vec![0, id, 0, 0, 0, columns, 0, parameters, 0, 0, 0, 0]
}

pub(crate) fn execute(id: u8, flags: u8, rest: &[u8]) -> Vec<u8> {
    packet(0, &[&[23, id, 0, 0, 0, flags, 1, 0, 0, 0], rest].concat())
}

/// A compressed packet with stored content, or with the given content for this length.
fn laid(sequence: u8, length: usize, content: &[u8]) -> Vec<u8> {
    let (wire, length) = ((content.len() as u32).to_le_bytes(), (length as u32).to_le_bytes());
    let part = |bytes: [u8; 4]| [bytes[0], bytes[1], bytes[2]];
    [&part(wire)[..], &[sequence], &part(length), content].concat()
}

/// A zlib stream of one stored block (RFC 1950).
fn zlib(content: &[u8]) -> Vec<u8> {
    let (a, b) = content.iter().fold((1_u32, 0_u32), |(a, b), &byte| {
        let a = (a + u32::from(byte)) % 65_521;
        (a, (b + a) % 65_521)
    });
    [&[0x78, 1], super::stored_block(content).as_slice(), &(b << 16 | a).to_be_bytes()].concat()
}

/// Exchanges that each start with the handshake.
pub(super) fn exchanges() -> Vec<Exchange> {
    let begun = |capabilities: u32| -> Exchange {
        vec![
            (Response, greeting_of(capabilities)),
            (Request, login_of(capabilities)),
            (Response, packet(2, &ok(0, 0, 2))),
        ]
    };
    let with = |capabilities: u32, more: Exchange| [begun(capabilities), more].concat();
    let rows = answer(&[vec![1], column(3), text(b"1"), vec![0xfb], end()]);
    let old_rows = answer(&[vec![1], column(3), b"\xfe\0\0\x02\0".to_vec(), text(b"1"), b"\xfe\0\0\x02\0".to_vec()]);
    vec![
        with(CAPABILITIES, vec![(Request, query("SELECT 1")), (Response, rows.clone())]),
        with(CAPABILITIES & !0x0100_0000, vec![(Request, query("SELECT 1")), (Response, old_rows)]),
        with(CAPABILITIES, statements()),
        with(CAPABILITIES, asides()),
        with(
            COMPRESSED,
            vec![
                (Request, laid(0, 0, &query("SELECT 1"))),
                (Response, laid(1, rows.len(), &zlib(&rows))),
                (Request, laid(0, 0, &query("SELECT 2"))),
                (Response, laid(1, rows.len(), &super::raw_frame(&rows))),
            ],
        ),
        vec![
            (Response, greeting()),
            (Request, login()),
            (Response, packet(2, b"\xfecaching_sha2_password\0abcdefghijklmnopqrst\0")),
            (Request, packet(3, &[7; 32])),
            (Response, packet(4, b"\x01\x03")),
            (Response, packet(5, &ok(0, 0, 2))),
        ],
        vec![(Response, packet(0, b"\xff\x10\x04Too many connections"))],
    ]
}

/// All operations on prepared statements.
fn statements() -> Exchange {
    let row = [&[0, 0][..], &[7, 0, 0, 0, 0, 0, 0, 0], b"\x02xy"].concat();
    vec![
        (Request, prepare("SELECT a, b FROM t WHERE a = ?")),
        (Response, answer(&[prepared(1, 2, 1), column(8), column(8), column(253)])),
        (Request, execute(1, 0, b"\0\x01\x08\0\x07\0\0\0\0\0\0\0")),
        (Response, answer(&[vec![2], column(8), column(253), row.clone(), end()])),
        (Request, packet(0, b"\x18\x01\0\0\0\0\0part")),
        (Request, execute(1, 1, b"\0\x01\xfd\0")),
        (Response, answer(&[vec![2], column(8), column(253), b"\xfe\0\0\x42\0\0\0".to_vec()])),
        (Request, packet(0, b"\x1c\x01\0\0\0\x02\0\0\0")),
        (Response, answer(&[row, b"\xfe\0\0\x82\0\0\0".to_vec()])),
        (Request, packet(0, b"\xfa\x01\0\0\0\x80\0\x08\0\0\x07\0\0\0\0\0\0\0\x01")),
        (Response, answer(&[ok(2, 0, 2)])),
        (Request, packet(0, b"\x1a\x01\0\0\0")),
        (Response, answer(&[ok(0, 0, 2)])),
        (Request, packet(0, b"\x19\x01\0\0\0")),
        (Request, packet(0, b"\x1f")),
        (Response, answer(&[ok(0, 0, 2)])),
    ]
}

/// A file sent by the client, several results, attributes, and commands that are not statements.
fn asides() -> Exchange {
    vec![
        (Request, query("LOAD DATA LOCAL INFILE 'x' INTO TABLE t")),
        (Response, answer(&[b"\xfbx".to_vec()])),
        (Request, [packet(2, b"1\t2\n"), packet(3, b"")].concat()),
        (Response, packet(4, &ok(1, 0, 2))),
        (Request, query("UPDATE t SET a = 1; DO 1")),
        (Response, answer(&[ok(1, 0, 10), ok(0, 0, 2)])),
        (Request, packet(0, b"\x03\x01\x01\0\x01\xfd\0\x01n\x01vSELECT 1")),
        (Response, answer(&[error("syntax")])),
        (Request, packet(0, b"\x04t\0")),
        (Response, answer(&[[column(3), text(b"0")].concat(), end()])),
        (Request, [packet(0, b"\x0e"), packet(0, b"\x09"), packet(0, b"\x02d")].concat()),
        (Response, [answer(&[ok(0, 0, 2)]), answer(&[b"Uptime: 7".to_vec()]), answer(&[ok(0, 0, 2)])].concat()),
        (Request, packet(0, b"\x12\x04\0\0\0\0\0\x02\0\0\0binlog.000001")),
        (Response, packet(1, &[&[0][..], &[1; 19], b"event"].concat())),
        (Request, packet(0, b"\x01")),
    ]
}
