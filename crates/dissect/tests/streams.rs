//! Byte streams that no frame carried come to the same operations and payload accounts as the same bytes in frames.

use crate::common::{Book, Captured, List, Talk, dissect};
use overhead_dissect::{Dissector, Selection};
use overhead_model::stream::unix_ends;
use overhead_model::{Account, Class, DecidedBy, Frame, LinkType, Protocol, Side, StreamPiece, Transport};

const PATH: &str = "unix:/run/redis.sock";

/// Pieces of one connection, 1 µs apart.
#[derive(Clone)]
struct Calls {
    id: u64,
    begins: bool,
    offsets: [u64; 2],
    frames: Vec<Captured>,
}

impl Calls {
    fn new(id: u64, begins: bool) -> Self {
        Self { id, begins, offsets: [0; 2], frames: Vec::new() }
    }

    fn piece(&mut self, side: Side, bytes: &[u8], captured: usize, ends: bool) {
        let piece = StreamPiece {
            transport: Transport::Unix,
            id: self.id,
            to_server: side == Side::Request,
            offset: self.offsets[side as usize],
            begins: self.begins,
            ends,
            client: "pid:4711",
            server: PATH,
            addresses: unix_ends(4_711, PATH, self.id, 6_379),
        };
        let mut packet = Vec::new();
        piece.write(&mut packet);
        let original_len = (packet.len() + bytes.len()) as u32;
        packet.extend(&bytes[..captured]);
        let time_ns = 1_000 * (self.frames.len() as u64 + 1);
        let link = LinkType::UPPER_PDU;
        self.frames.push(Captured { time_ns, link, interface: 0, bytes: packet, original_len });
        self.offsets[side as usize] += bytes.len() as u64;
    }

    fn send(mut self, side: Side, bytes: &[u8]) -> Self {
        self.piece(side, bytes, bytes.len(), false);
        self
    }

    fn snapped(mut self, side: Side, bytes: &[u8], captured: usize) -> Self {
        self.piece(side, bytes, captured, false);
        self
    }

    fn miss(mut self, side: Side, len: u64) -> Self {
        self.offsets[side as usize] += len;
        self
    }

    fn end(mut self) -> Self {
        self.piece(Side::Request, b"", 0, true);
        self
    }

    fn dissect(&self) -> Book {
        dissect(&self.frames, &redis())
    }
}

fn redis() -> Selection {
    Selection { ports: vec![(6379, vec![Protocol::Resp])], ..Selection::default() }
}

const SET: &[u8] = b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$5\r\nvalue\r\n";
const GET: &[u8] = b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n";
const VALUE: &[u8] = b"$5\r\nvalue\r\n";

/// Amounts of payload by row, side and account.
fn payload(book: &Book) -> Vec<(String, Side, Account, u64)> {
    let rows = book.list.rows.iter().filter(|row| row.name != "CONNECT");
    let amounts = rows.flat_map(|row| Side::BOTH.map(|side| (row.name.clone(), side, row.amounts(side))));
    let mut amounts: Vec<_> = amounts
        .flat_map(|(name, side, amounts)| {
            let found = amounts.iter().filter(|(account, bytes)| account.is_payload() && *bytes > 0);
            found.map(|(account, bytes)| (name.clone(), side, account, bytes)).collect::<Vec<_>>()
        })
        .collect();
    amounts.sort();
    amounts
}

#[test]
fn a_stream_comes_to_what_the_same_bytes_in_frames_come_to() {
    let calls = [
        (Side::Request, SET),
        (Side::Response, &b"+OK\r\n"[..]),
        (Side::Request, GET),
        (Side::Response, &VALUE[..3]),
        (Side::Response, &VALUE[3..]),
    ];
    let stream = calls.iter().fold(Calls::new(1, true), |stream, (side, bytes)| stream.send(*side, bytes)).dissect();
    let talk = calls.iter().fold(Talk::new().handshake(), |talk, (side, bytes)| talk.send(*side, bytes)).dissect();
    assert_eq!(payload(&stream), payload(&talk));
    assert_eq!(stream.totals.transport(), Transport::Unix);
    let bytes: usize = calls.iter().map(|(_, bytes)| bytes.len()).sum();
    assert_eq!(stream.totals.wire_bytes, bytes as u64, "wire bytes are the payload");
    for side in Side::BOTH {
        let amounts = stream.row("GET").amounts(side);
        assert_eq!(amounts.total(), amounts.payload(), "there are no headers");
    }
    let connection = &stream.list.connections[0];
    assert_eq!((connection.client_name().as_str(), connection.server_name().as_str()), ("pid:4711", PATH));
    assert_eq!(connection.server_decided_by, DecidedBy::Socket);
}

#[test]
fn what_was_lost_is_known_by_its_offset_and_posted_nowhere() {
    let lost = GET.len() as u64;
    let calls = Calls::new(1, true).send(Side::Request, SET).send(Side::Response, b"+OK\r\n");
    let calls = calls.miss(Side::Request, lost).miss(Side::Response, VALUE.len() as u64);
    let book = calls.send(Side::Request, SET).send(Side::Response, b"+OK\r\n").dissect();
    assert_eq!(book.totals.tcp.gap_bytes, lost + VALUE.len() as u64);
    assert_eq!(book.row("SET").operations.len(), 2);
}

#[test]
fn what_was_lost_at_the_start_is_missing_too() {
    let book =
        Calls::new(1, true).miss(Side::Request, 7).send(Side::Request, GET).send(Side::Response, VALUE).dissect();
    assert_eq!(book.totals.tcp.gap_bytes, 7);
    let book =
        Calls::new(1, false).miss(Side::Request, 7).send(Side::Request, GET).send(Side::Response, VALUE).dissect();
    assert_eq!(book.totals.tcp.gap_bytes, 0, "before a stream was seen, nothing is missing");
    assert_eq!(book.row("GET").operations.len(), 1);
}

#[test]
fn gaps_beyond_four_gibibytes_are_exact() {
    let calls =
        Calls::new(1, true).send(Side::Request, SET).send(Side::Response, b"+OK\r\n").miss(Side::Request, 5 << 32);
    let book = calls.send(Side::Request, SET).send(Side::Response, b"+OK\r\n").dissect();
    assert_eq!(book.totals.tcp.gap_bytes, 5 << 32);
}

#[test]
fn calls_of_which_a_part_was_kept_have_their_lengths() {
    let value = vec![b'x'; 70_000];
    let mut set = b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$70000\r\n".to_vec();
    set.extend(value);
    set.extend(b"\r\n");
    let calls = Calls::new(1, true).snapped(Side::Request, &set, 64).send(Side::Response, b"+OK\r\n");
    let book = calls.dissect();
    assert_eq!(book.totals.tcp.snapped_bytes, set.len() as u64 - 64);
    assert_eq!(book.totals.truncated_frames, 1);
    assert_eq!(book.row("SET").amounts(Side::Request).payload(), set.len() as u64);
}

#[test]
fn a_number_that_is_used_again_is_another_connection() {
    let ended = Calls::new(1, true).send(Side::Request, GET).send(Side::Response, VALUE).end();
    // The same port and process, 65,536 × 65,536 connections later.
    let mut later = Calls::new(1 + (1 << 48), true);
    later = later.send(Side::Request, GET).send(Side::Response, VALUE);
    let frames = [ended.frames, later.frames].concat();
    let book = dissect(&frames, &redis());
    assert_eq!(book.list.connections.len(), 2);
    assert_eq!(book.row("GET").operations.len(), 2);
}

#[test]
fn the_protocol_is_told_by_content_where_nobody_says() {
    let mut calls = Calls::new(1, true);
    calls = calls.send(Side::Request, GET).send(Side::Response, VALUE);
    for frame in &mut calls.frames {
        // As if no system was named: no port is noted.
        let (piece, at) = StreamPiece::read(&frame.bytes).unwrap();
        let mut packet = Vec::new();
        StreamPiece { addresses: unix_ends(4_711, PATH, 1, 0), ..piece }.write(&mut packet);
        frame.original_len = frame.original_len - at as u32 + packet.len() as u32;
        packet.extend(&frame.bytes[at..]);
        frame.bytes = packet;
    }
    let book = dissect(&calls.frames, &Selection::default());
    assert_eq!(book.row("GET").class, Some(Class::Workload));
}

#[test]
fn packets_of_other_programs_count_as_other() {
    let mut calls = Calls::new(1, true).send(Side::Request, GET);
    calls.frames[0].bytes = b"\0\x0c\0\x03sip\0\0\0\0INVITE".to_vec();
    calls.frames[0].original_len = calls.frames[0].bytes.len() as u32;
    let book = calls.dissect();
    assert_eq!((book.totals.foreign_pdus, book.totals.other), (1, 17));
}

#[test]
fn turns_of_a_stream_are_recalled_and_come_to_the_same() {
    let mut calls = Calls::new(1, true);
    for round in 0..300 {
        calls = calls.send(Side::Request, GET).send(Side::Response, VALUE);
        if round == 200 {
            calls = calls.miss(Side::Response, 7);
        }
    }
    let frames = |dissector: &mut Dissector<List>| {
        for frame in &calls.frames {
            let Captured { time_ns, link, interface, bytes, original_len } = frame;
            let (time_ns, link, interface, original_len) = (*time_ns, *link, *interface, *original_len);
            dissector.frame(&Frame { time_ns, link, original_len, interface, bytes });
        }
    };
    let mut with = Dissector::new(redis(), List::default());
    frames(&mut with);
    assert!(with.memo_hits() > 300, "{} hits", with.memo_hits());
    let mut without = Dissector::new(redis(), List::default()).without_memo();
    frames(&mut without);
    let ((with, totals), (without, plain)) = (with.finish(), without.finish());
    assert_eq!(totals, plain);
    assert_eq!(totals.tcp.gap_bytes, 7);
    let sums = |list: &List| {
        let rows = list
            .rows
            .iter()
            .map(|row| (row.name.clone(), row.operations.len(), Side::BOTH.map(|side| row.amounts(side))));
        rows.collect::<Vec<_>>()
    };
    assert_eq!(sums(&with), sums(&without));
}
