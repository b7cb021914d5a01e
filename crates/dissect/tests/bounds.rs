//! Bounds of a run that are counted and said when they are reached.

use crate::common::{Captured, Talk, dissect, dissect_within};
use overhead_decode::limits::PACKED_OPERATIONS;
use overhead_decode::{ApparentProtocol, ForeignTraffic, Note};
use overhead_dissect::{Selection, limits};
use overhead_model::{Account, Class, Protocol, Side};

fn selection(protocol: Protocol) -> Selection {
    Selection { ports: vec![(6379, vec![protocol])], ..Selection::default() }
}

/// An `OP_MSG` of one long string, compressed by zstd: 40 MB out of 64 kB.
fn bomb(id: u32) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let noise = std::iter::repeat_with(|| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    });
    let mut text: Vec<u8> = noise.take(60_000).collect();
    text.resize(40 << 20, b'x');
    let mut document = Vec::new();
    document.extend((4 + 1 + 2 + 4 + text.len() as u32 + 1 + 1).to_le_bytes());
    document.extend(b"\x02a\0");
    document.extend((text.len() as u32 + 1).to_le_bytes());
    document.extend(text);
    document.extend([0, 0]);
    let mut plain = vec![0; 5];
    plain.extend(document);
    let packed = zstd::bulk::compress(&plain, 1).unwrap();
    let mut message = Vec::new();
    let words = [25 + packed.len() as u32, id, 0, 2012, 2013, plain.len() as u32];
    for word in words {
        message.extend(word.to_le_bytes());
    }
    message.push(3);
    message.extend(packed);
    message
}

#[test]
fn compressed_messages_of_a_run_have_one_budget() {
    let mut bomb = bomb(1);
    let excess = (40 << 20) - overhead_decode::limits::EXPANSION_FREE * bomb.len();
    assert!(excess > 30 << 20, "{} bytes are no bomb", bomb.len());
    let fit = overhead_decode::limits::EXPANDED / excess as u64;
    let mut talk = Talk::new().handshake();
    for id in 1..=fit as u32 + 3 {
        bomb[4..8].copy_from_slice(&id.to_le_bytes());
        for part in bomb.chunks(1_400) {
            talk = talk.send(Side::Request, part);
        }
    }
    let book = dissect(&talk.frames, &selection(Protocol::Mongo));
    assert_eq!(book.totals.notes.get(&Note::Expansion), Some(&3));
    let unknown: u64 = book.list.rows.iter().map(|row| row.amounts(Side::Request)[Account::Unknown]).sum();
    assert_eq!(unknown, 3 * (bomb.len() as u64 - 25));
}

#[test]
fn what_a_filled_hole_releases_counts_against_the_limit_at_once() {
    let pings = b"*1\r\n$4\r\nPING\r\n".repeat(20_000);
    let mut talk = Talk::new().handshake().miss(Side::Request, 1);
    for part in pings[1..].chunks(14_000) {
        talk = talk.send(Side::Request, part);
    }
    // A frame of one byte completes all of them.
    let talk = talk.again(Side::Request, pings.len() as u32, &pings[..1]).ack(Side::Response);
    let given_up = |bytes| {
        let book = dissect_within(&talk.frames, &selection(Protocol::Resp), Some(bytes));
        assert_eq!(book.row("PING").operations.len(), 20_000);
        book.totals.tcp.given_up
    };
    assert_eq!((given_up(64 << 20), given_up(4 << 20)), (0, 1));
}

/// A greeting and a login of `MySQL` that both allow compression, and the answer.
fn mysql_login() -> [(Side, Vec<u8>); 3] {
    let packet = |number: u8, body: &[u8]| [&(body.len() as u32).to_le_bytes()[..3], &[number], body].concat();
    let greeting = b"\x0a8.0.36\0\x09\0\0\0abcdefgh\0\xff\xff\x21\x02\0\xff\xc1\x15\0\0\0\0\0\0\0\0\0\0ijklmnopqrst\0mysql_native_password\0";
    let flags = 0x0008_aaad_u32.to_le_bytes();
    let login = [&flags, &[0, 0, 0, 1, 33][..], &[0; 23], b"me\0\0mysql_native_password\0"].concat();
    let ok = packet(2, b"\0\0\0\x02\0\0\0");
    [(Side::Response, packet(0, greeting)), (Side::Request, packet(1, &login)), (Side::Response, ok)]
}

#[test]
fn operations_of_a_compressed_packet_are_bounded_and_every_byte_is_posted() {
    let plain = b"\x07\0\0\x01\0\0\0\x02\0\0\0".repeat(100_000);
    let packed = zstd::bulk::compress(&plain, 3).unwrap();
    let header = |length: usize| (length as u32).to_le_bytes()[..3].to_vec();
    let answers = [&header(packed.len()), &[1][..], &header(plain.len()), &packed].concat();
    let mut talk = Talk::new().handshake();
    for (side, bytes) in mysql_login().iter().chain(&vec![(Side::Response, answers.clone()); 3]) {
        for part in bytes.chunks(1_400) {
            talk = talk.send(*side, part);
        }
    }
    let book = dissect(&talk.frames, &selection(Protocol::Mysql));
    assert_eq!(book.totals.notes.get(&Note::ManyOperations), Some(&3));
    let answers = &book.row("(response)").operations;
    assert!(answers.len().abs_diff(3 * PACKED_OPERATIONS as usize) < 8, "{} operations", answers.len());
}

#[test]
fn a_capture_of_one_direction_says_so() {
    let mut talk = Talk::new().handshake();
    for _ in 0..limits::ONE_WAY_FRAMES {
        talk = talk.send(Side::Request, b"*1\r\n$4\r\nPING\r\n").send(Side::Response, b"+PONG\r\n");
    }
    let both = talk.clone().dissect();
    assert_eq!((both.totals.tcp.request_only, both.totals.tcp.response_only), (0, 0));
    assert!(!both.totals.notes.contains_key(&Note::OneWay));
    let asked = talk.clone().without(Side::Response).dissect();
    assert_eq!((asked.totals.tcp.request_only, asked.totals.tcp.response_only), (1, 0));
    assert_eq!(asked.totals.notes.get(&Note::OneWay), Some(&1));
    let answered = talk.without(Side::Request).dissect();
    assert_eq!((answered.totals.tcp.request_only, answered.totals.tcp.response_only), (0, 1));
    assert_eq!(answered.totals.notes.get(&Note::OneWay), Some(&1));
    assert!(answered.list.rows.iter().all(|row| row.class != Some(Class::Workload)));
}

#[test]
fn a_capture_that_ends_behind_a_request_is_not_of_one_direction() {
    let book = Talk::new().send(Side::Request, b"*1\r\n$4\r\nPING\r\n").dissect();
    assert!(!book.totals.notes.contains_key(&Note::OneWay));
}

#[test]
fn kinds_of_foreign_traffic_that_are_counted_apart_do_not_depend_on_their_order() {
    let frames = |ports: &mut dyn Iterator<Item = u16>| -> Vec<Captured> {
        let talk = |port: u16| {
            let question = b"\0\0\0\x23\0\x12\0\x03\0\0\0\x01\0\x07rdkafka\x0blibrdkafka\x062.3.0\0";
            let mut frames = Talk::new().handshake().send(Side::Request, question).close().frames;
            for frame in &mut frames {
                let at = if frame.bytes[29] == 1 { 36 } else { 34 };
                frame.bytes[at..at + 2].copy_from_slice(&port.to_be_bytes());
            }
            frames
        };
        ports.flat_map(talk).collect()
    };
    let selection = Selection::default();
    let rising = dissect(&frames(&mut (10_000..10_100)), &selection);
    let falling = dissect(&frames(&mut (10_000..10_100).rev()), &selection);
    assert_eq!(rising.totals.notes, falling.totals.notes);
    let first = Note::Foreign(ForeignTraffic { port: 10_000, look: ApparentProtocol::Kafka, expected: None });
    assert_eq!(rising.totals.notes.get(&first), Some(&1));
    let further = rising.totals.notes.get(&Note::Foreign(ForeignTraffic::FURTHER)).copied();
    assert_eq!(further, Some(100 - limits::FOREIGN as u64));
}
