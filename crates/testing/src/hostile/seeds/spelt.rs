//! Exchanges of protocols without sessions in `fixtures`, written by their specifications.

use super::bson::{doc, int, opcode, string, sub};
use crate::hostile::conversation::Segments;
use overhead_model::Side::{self, Request, Response};

/// The pieces of one exchange.
pub(super) type Exchange = Vec<(Side, Vec<u8>)>;

/// Returns exchanges of CQL in one version, for turns with or without segments (`native_protocol_v4.spec`,
/// `native_protocol_v5.spec`).
pub(super) fn cql(version: u8, segments: Option<Segments>) -> Vec<Exchange> {
    let cql = CqlVersion { version, segments };
    [cql.start_up(), vec![cql.rows(), cql.prepared()], cql.statements(), vec![cql.events(), cql.keyspace()]].concat()
}

/// Writes messages of CQL.
#[derive(Clone, Copy)]
struct CqlVersion {
    version: u8,
    segments: Option<Segments>,
}

/// Id of the prepared statement.
const STATEMENT: &[u8] = b"\0\x04\x01\x02\x03\x04";

impl CqlVersion {
    fn ask(self, stream: i16, opcode: u8, body: &[u8]) -> (Side, Vec<u8>) {
        (Request, message(self.version, 0, stream, opcode, body, self.segments))
    }

    fn answer(self, stream: i16, opcode: u8, body: &[u8]) -> (Side, Vec<u8>) {
        self.flagged(0, stream, opcode, body)
    }

    fn flagged(self, flags: u8, stream: i16, opcode: u8, body: &[u8]) -> (Side, Vec<u8>) {
        (Response, message(self.version | 0x80, flags, stream, opcode, body, self.segments))
    }

    /// Flags of a query: a byte, and from version 5 on an int.
    fn flags(self, flags: u8) -> Vec<u8> {
        let wide = if self.version < 5 { 0 } else { 3 };
        [&[0; 3][..wide], &[flags]].concat()
    }

    /// Returns `bytes`, which only version 5 has; empty before it.
    fn since_5(self, bytes: &'static [u8]) -> &'static [u8] {
        if self.version < 5 { b"" } else { bytes }
    }

    fn start_up(self) -> Vec<Exchange> {
        let options = b"\0\x02\0\x0bCOMPRESSION\0\x01\0\x03lz4\0\x0bSCYLLA_SHARD\0\x01\0\x011";
        vec![
            vec![self.ask(0, 5, b""), self.answer(0, 6, options)],
            vec![
                self.ask(1, 1, b"\0\x01\0\x0bCQL_VERSION\0\x053.0.0"),
                self.answer(1, 3, b"\0\x05Plain"),
                self.ask(1, 15, b"\0\0\0\x06\0ab\0cd"),
                self.answer(1, 16, b"\xff\xff\xff\xff"),
            ],
        ]
    }

    fn rows(self) -> Exchange {
        let query = [
            text("SELECT a FROM lab.t WHERE k = ?"),
            vec![0, 1],
            self.flags(0x35),
            b"\0\x01\0\0\0\x01k\0\0\0\x64\0\x09\0\0\0\0\0\0\0\x01".to_vec(),
        ];
        let specs: &[u8] = b"\0\x03lab\0\x01t\0\x01a\0\x09\0\x01b\0\x20\0\x0d\0\x01c\0\x21\0\x0d\0\x03\0\x01d\0\x31\0\x02\0\x09\0\x0d\0\x01e\0\x30\0\x03lab\0\x01u\0\x01\0\x01f\0\x09";
        let cells: &[u8] = b"\0\0\0\x04\0\0\0\x07\0\0\0\x0d\0\0\0\x01\0\0\0\x05value\xff\xff\xff\xff\0\0\0\x08\0\0\0\x04\0\0\0\x01\0\0\0\x08\0\0\0\x04\0\0\0\x02";
        let rows = [b"\0\0\0\x02\0\0\0\x03\0\0\0\x05\0\0\0\x02pg", specs, b"\0\0\0\x01", cells].concat();
        vec![self.ask(2, 7, &query.concat()), self.answer(2, 8, &rows)]
    }

    fn prepared(self) -> Exchange {
        let metadata_id = self.since_5(b"\0\x02mi");
        let prepared = [
            b"\0\0\0\x04",
            STATEMENT,
            metadata_id,
            b"\0\0\0\x01\0\0\0\x01\0\0\0\x01\0\0\0\x03lab\0\x01t\0\x01k\0\x0d\0\0\0\x01\0\0\0\x01",
            b"\0\x03lab\0\x01t\0\x01a\0\x09",
        ];
        let execute = [STATEMENT, metadata_id, &[0, 4], &self.flags(3), b"\0\x01\0\0\0\x03key"].concat();
        let bare = [b"\0\0\0\x02\0\0\0\x04\0\0\0\x01\0\0\0\x01", b"\0\0\0\x04\0\0\0\x07".as_slice()];
        vec![
            self.ask(3, 9, &[text("SELECT a FROM t WHERE k = ?").as_slice(), self.since_5(&[0; 4])].concat()),
            self.answer(3, 8, &prepared.concat()),
            self.ask(4, 10, &execute),
            self.answer(4, 8, &bare.concat()),
        ]
    }

    /// A batch, and a query that fails.
    fn statements(self) -> Vec<Exchange> {
        let batch = [
            b"\0\0\x02\0",
            text("INSERT INTO t (a) VALUES (1)").as_slice(),
            b"\0\0\x01",
            STATEMENT,
            b"\0\x01\xff\xff\xff\xfe\0\x06",
            &self.flags(0),
        ]
        .concat();
        let failure = b"\0\0\x11\0\0\x05limit\0\x01\0\0\0\x01\0\0\0\x02\0\0\0\x01\0\x04\x7f\0\0\x01\0\0\0\x08SIMPLE";
        vec![
            vec![self.ask(5, 13, &batch), self.answer(5, 8, b"\0\0\0\x01")],
            vec![self.query(6, "SELECT x"), self.answer(6, 0, failure)],
        ]
    }

    fn query(self, stream: i16, statement: &str) -> (Side, Vec<u8>) {
        self.ask(stream, 7, &[text(statement).as_slice(), &[0, 1], &self.flags(0)].concat())
    }

    fn events(self) -> Exchange {
        vec![
            self.ask(7, 11, b"\0\x01\0\x0dSCHEMA_CHANGE"),
            self.answer(7, 2, b""),
            self.answer(-1, 12, b"\0\x0dSCHEMA_CHANGE\0\x07CREATED\0\x05TABLE\0\x03lab\0\x01t"),
        ]
    }

    /// An exchange with a tracing id, warnings and a custom payload.
    fn keyspace(self) -> Exchange {
        let body = b"0123456789abcdef\0\x01\0\x04warn\0\x01\0\x01k\0\0\0\x01v\0\0\0\x03\0\x03lab";
        vec![self.query(8, "USE lab"), self.flagged(0x0e, 8, 8, body)]
    }
}

/// A long string.
fn text(text: &str) -> Vec<u8> {
    [&(text.len() as u32).to_be_bytes(), text.as_bytes()].concat()
}

/// A message; if its segment gives the length before compression, packed as the literals of one LZ4 block.
fn message(version: u8, flags: u8, stream: i16, opcode: u8, body: &[u8], segments: Option<Segments>) -> Vec<u8> {
    let header = [&[version, flags], &stream.to_be_bytes()[..], &[opcode], &(body.len() as u32).to_be_bytes()].concat();
    let plain = [header.as_slice(), body].concat();
    match segments.filter(|segments| segments.compression) {
        None => plain,
        Some(_) if stream % 2 == 0 => [&[0, 0], plain.as_slice()].concat(),
        Some(_) => {
            let long = plain.len().saturating_sub(15);
            let token = vec![(plain.len().min(15) << 4) as u8];
            let more =
                if plain.len() < 15 { Vec::new() } else { [vec![255; long / 255], vec![(long % 255) as u8]].concat() };
            [&(plain.len() as u16).to_le_bytes()[..], &token, &more, &plain].concat()
        }
    }
}

/// Exchanges of MongoDB's protocol (MongoDB's wire protocol reference; bsonspec.org).
pub(super) fn mongo() -> Vec<Exchange> {
    [messages(), compressed(), vec![legacy()]].concat()
}

fn ok() -> Vec<u8> {
    b"\x01ok\0\0\0\0\0\0\0\xf0\x3f".to_vec()
}

fn user() -> Vec<u8> {
    doc(&[
        string("name", "value"),
        int("n", 1),
        b"\x07_id\0aaaaaaaaaaaa\x0aempty\0\x08yes\0\x01".to_vec(),
        sub(4, "list", &[int("0", 1), int("1", 2)]),
    ])
}

fn find() -> Vec<u8> {
    doc(&[
        string("find", "c"),
        sub(3, "filter", &[int("a", 1), sub(3, "b", &[int("$gt", 2)])]),
        int("limit", 5),
        sub(3, "lsid", &[b"\x05id\0\x10\0\0\0\x040123456789abcdef".to_vec()]),
        string("$db", "lab"),
    ])
}

fn found() -> Vec<u8> {
    let batch = doc(&[[&[3, b'0', 0], user().as_slice()].concat()]);
    let cursor = doc(&[
        [b"\x04firstBatch\0", batch.as_slice()].concat(),
        b"\x12id\0\0\0\0\0\0\0\0\0".to_vec(),
        string("ns", "lab.c"),
    ]);
    doc(&[[b"\x03cursor\0", cursor.as_slice()].concat(), ok(), b"\x11operationTime\0\x01\0\0\0\x02\0\0\0".to_vec()])
}

/// Commands and replies with all flags.
fn messages() -> Vec<Exchange> {
    let insert = doc(&[string("insert", "c"), b"\x08ordered\0\x01".to_vec(), string("$db", "lab")]);
    let documents = [&[1], &(14 + user().len() as u32).to_le_bytes()[..], b"documents\0", &user()].concat();
    let hello = doc(&[
        int("hello", 1),
        sub(3, "client", &[sub(3, "driver", &[string("name", "d"), string("version", "1")])]),
        string("$db", "admin"),
    ]);
    let failed = doc(&[b"\x01ok\0\0\0\0\0\0\0\0\0".to_vec(), string("errmsg", "no"), int("code", 13)]);
    let done = doc(&[int("n", 1), ok()]);
    vec![
        vec![msg(1, 0, 0, &hello, &[]), msg(2, 1, 0, &done, &[])],
        vec![msg(3, 0, 0, &find(), &[]), msg(4, 3, 0, &found(), &[])],
        vec![msg(5, 0, 0, &insert, &documents), msg(6, 5, 0, &done, &[])],
        vec![msg(7, 0, 2, &insert, &documents), msg(8, 0, 1, &find(), &[1, 2, 3, 4]), msg(9, 8, 0, &failed, &[])],
        vec![msg(10, 0, 0x1_0000, &hello, &[]), msg(11, 10, 2, &done, &[]), msg(12, 11, 2, &done, &[])],
    ]
}

/// Replies with each compression.
fn compressed() -> Vec<Exchange> {
    let aggregate = doc(&[
        string("aggregate", "c"),
        sub(4, "pipeline", &[sub(3, "0", &[sub(3, "$match", &[int("a", 1)])])]),
        sub(3, "cursor", &[]),
        string("$db", "lab"),
    ]);
    let plain = [&[0; 5], found().as_slice()].concat();
    vec![
        vec![
            msg(13, 0, 0, &aggregate, &[]),
            wrapped(14, 13, 0, plain.len(), &plain),
            msg(15, 0, 0, &find(), &[]),
            wrapped(16, 15, 1, plain.len(), &snappy(&plain)),
        ],
        vec![
            msg(17, 0, 0, &find(), &[]),
            wrapped(18, 17, 2, plain.len(), &stored(&plain)),
            msg(19, 0, 0, &find(), &[]),
            wrapped(20, 19, 3, plain.len(), &super::raw_frame(&plain)),
        ],
    ]
}

/// `OP_QUERY` and `OP_REPLY`.
fn legacy() -> Exchange {
    let ask =
        [&[0; 4], b"lab.$cmd\0".as_slice(), &[0, 0, 0, 0, 255, 255, 255, 255], &doc(&[int("ismaster", 1)])].concat();
    let answer = [&[8, 0, 0, 0], &[0; 12][..], &[1, 0, 0, 0], &doc(&[ok()])].concat();
    vec![(Request, opcode(2004, 21, 0, &ask)), (Response, opcode(1, 22, 21, &answer))]
}

/// An `OP_MSG`; a request if it answers no other message.
fn msg(id: u32, to: u32, flags: u32, body: &[u8], more: &[u8]) -> (Side, Vec<u8>) {
    let side = if to == 0 { Request } else { Response };
    (side, opcode(2013, id, to, &[&flags.to_le_bytes(), &[0][..], body, more].concat()))
}

/// An `OP_COMPRESSED` response around `packed`, which was an `OP_MSG` of `size` bytes.
fn wrapped(id: u32, to: u32, compressor: u8, size: usize, packed: &[u8]) -> (Side, Vec<u8>) {
    let body = [&2013_u32.to_le_bytes(), &(size as u32).to_le_bytes()[..], &[compressor], packed].concat();
    (Response, opcode(2012, id, to, &body))
}

/// One literal (`format_description.txt` of snappy).
fn snappy(bytes: &[u8]) -> Vec<u8> {
    let len = bytes.len();
    let size = [0x80 | (len & 0x7f) as u8, (len >> 7) as u8];
    let literal = (len - 1) as u16;
    [&size[..], &[61 << 2], &literal.to_le_bytes(), bytes].concat()
}

/// A zlib stream of one stored block (RFC 1950, RFC 1951).
fn stored(bytes: &[u8]) -> Vec<u8> {
    let (a, b) = bytes.iter().fold((1, 0), |(a, b), &byte| {
        let a: u32 = (a + u32::from(byte)) % 65521;
        (a, (a + b) % 65521)
    });
    [&[0x78, 1][..], &super::stored_block(bytes), &(b << 16 | a).to_be_bytes()].concat()
}

/// Exchanges of SSDB's own protocol (<http://ssdb.io/docs/protocol.html>).
pub(super) fn ssdb() -> Vec<Exchange> {
    let packet = |blocks: &[&str]| -> Vec<u8> {
        let blocks = blocks.iter().flat_map(|block| format!("{}\n{block}\n", block.len()).into_bytes());
        blocks.chain([b'\n']).collect()
    };
    let ask = |blocks: &[&str]| (Request, packet(blocks));
    let answer = |blocks: &[&str]| (Response, packet(blocks));
    vec![
        vec![ask(&["auth", "secret"]), answer(&["ok", "1"])],
        vec![
            ask(&["set", "key", "a value\n\n"]),
            answer(&["ok", "1"]),
            ask(&["get", "key"]),
            answer(&["ok", "a value\n\n"]),
        ],
        vec![
            ask(&["get", "none"]),
            answer(&["not_found"]),
            ask(&["nosuch"]),
            answer(&["client_error", "Unknown Command"]),
        ],
        vec![ask(&["scan", "", "", "10"]), answer(&["ok", "a", "1", "b", "2"])],
        vec![ask(&["info"]), answer(&["ok", "ssdb-server", "version", "1.9.9", "links", "1"])],
        vec![ask(&["dump", "", "", "10"]), answer(&["begin"]), answer(&["set", "k", "v"]), answer(&["end", "1"])],
        vec![ask(&["sync140", "0", "", "sync"]), answer(&["noop"]), answer(&["copy", "k", "v"])],
        vec![(Request, b"\r\n3\r\nget\r\n1\r\nk\r\n\r\n".to_vec()), (Response, b"2\nok\n0\n\n\n".to_vec())],
    ]
}
