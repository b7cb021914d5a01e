//! Explanations of conversations that are hard to explain: shared, lost, repeated, cut and compressed bytes.

use crate::common::{HEADERS, Talk};
use crate::explained::{Stored, check, pieces};
use overhead_dissect::Selection;
use overhead_dissect::explain::{ByteVisibility, ExplainedOperation, FoundOperation, FrameItem};
use overhead_model::Side::{self, Request, Response};
use overhead_model::{Account, LinkType, Protocol};
use proptest::prelude::*;
use std::sync::Arc;

fn explain_as(talk: &Talk, protocol: Protocol) -> Vec<(FoundOperation, ExplainedOperation)> {
    check(&stored(talk), &Selection { ports: vec![(6379, vec![protocol])], ..Selection::default() }, &Arc::default())
}

fn explain(talk: &Talk) -> Vec<(FoundOperation, ExplainedOperation)> {
    explain_as(talk, Protocol::Resp)
}

fn stored(talk: &Talk) -> Vec<Stored> {
    let frames = talk.frames.iter();
    let store = |frame: &crate::common::Captured| Stored {
        time_ns: frame.time_ns,
        link: LinkType::ETHERNET,
        original_len: frame.original_len,
        bytes: frame.bytes.clone(),
    };
    frames.map(store).collect()
}

fn named<'a>(all: &'a [(FoundOperation, ExplainedOperation)], name: &str) -> &'a ExplainedOperation {
    let name_of = |explained: &ExplainedOperation| explained.label.as_ref().map(|(_, name, _)| name.clone());
    let found = all.iter().find(|(_, explained)| name_of(explained).as_deref() == Some(name));
    &found.unwrap_or_else(|| panic!("no {name} in {:?}", all.iter().map(|(_, e)| name_of(e)).collect::<Vec<_>>())).1
}

/// `path account length` of every piece.
fn fields(explained: &ExplainedOperation, side: Side) -> Vec<String> {
    pieces(explained, side).map(|piece| format!("{} {} {}", piece.path, piece.account, piece.len)).collect()
}

const GET: &[u8] = b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n";
const SET: &[u8] = b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\nv\r\n";

#[test]
fn operations_are_numbered_in_the_order_of_the_capture() {
    let talk =
        Talk::new().handshake().send(Request, GET).send(Request, SET).send(Response, b"$1\r\nv\r\n+OK\r\n").close();
    let all = explain(&talk);
    let name = |(found, explained): &(FoundOperation, ExplainedOperation)| {
        format!("{} {}", found.number, explained.label.as_ref().unwrap().1)
    };
    assert_eq!(all.iter().map(name).collect::<Vec<_>>(), ["1 CONNECT", "2 GET", "3 SET"]);
}

#[test]
fn a_shared_frame_shows_how_much_is_of_others() {
    let pipeline = [GET, SET, GET].concat();
    let talk = Talk::new().handshake().send(Request, &pipeline).send(Response, b"$1\r\nv\r\n+OK\r\n$-1\r\n");
    let all = explain(&talk);
    let set = named(&all, "SET");
    let parts: Vec<_> = set.parts.iter().map(|part| (part.frame, part.items.first(), part.items.last())).collect();
    let around = |n: usize| Some(FrameItem::Others(n as u64));
    assert_eq!(parts[0].0, Some(4));
    assert_eq!((parts[0].1.cloned(), parts[0].2.cloned()), (around(GET.len()), around(GET.len())));
    assert_eq!((parts[1].1.cloned(), parts[1].2.cloned()), (around(7), around(5)));
    assert_eq!(fields(set, Response), ["type framing 1", "text status 2", "CRLF framing 2"]);
}

#[test]
fn a_field_in_two_frames_is_one_field() {
    let (head, tail) = SET.split_at(6);
    let talk = Talk::new().handshake().send(Request, head).send(Request, tail).send(Response, b"+OK\r\n");
    let all = explain(&talk);
    let set = named(&all, "SET");
    let cut: Vec<_> = pieces(set, Request).filter(|piece| piece.len < piece.field_len).collect();
    assert_eq!(cut.len(), 2, "{cut:?}");
    assert_eq!((cut[0].field_at, cut[0].len, cut[1].field_at, cut[1].len), (0, 2, 2, 2));
    assert_eq!(set.views().iter().map(|view| view.frame).collect::<Vec<_>>(), [Some(4), Some(5), Some(6)]);
}

#[test]
fn acknowledgments_and_repeats_stand_between_the_frames_with_payload() {
    let talk = Talk::new().handshake().send(Request, GET).ack(Response).again(Request, GET.len() as u32, GET);
    let talk = talk.send(Response, b"$1\r\nv\r\n").ack(Request);
    let all = explain(&talk);
    let get = named(&all, "GET");
    let account = |frame: u64| get.charges[&frame].1.iter().find(|(_, bytes)| *bytes > 0).unwrap();
    assert_eq!(get.views().iter().map(|view| view.frame.unwrap()).collect::<Vec<_>>(), [4, 5, 6, 7, 8]);
    assert_eq!(account(5), (Account::Control, HEADERS));
    assert_eq!(account(6), (Account::Retransmission, HEADERS + GET.len() as u64));
    // The last acknowledgment came after the answer: in the sum, and not in what the operation closed with.
    assert_eq!(get.amounts[0].total() - get.at_close[0].total(), HEADERS);
}

#[test]
fn bytes_that_were_not_captured_are_marked() {
    let value = [b"$40\r\n".as_slice(), &[b'x'; 40], b"\r\n"].concat();
    let talk = Talk::new().handshake().send(Request, GET).send(Response, &value).snapped(80);
    let all = explain(&talk);
    let get = named(&all, "GET");
    let snapped: u64 =
        pieces(get, Response).filter(|piece| piece.seen == ByteVisibility::Snapped).map(|piece| piece.len).sum();
    assert_eq!(snapped, HEADERS + value.len() as u64 - 80);
    assert_eq!(get.missing(), snapped);

    let (head, tail) = value.split_at(20);
    let talk = Talk::new().handshake().send(Request, GET).send(Response, head).miss(Response, 10);
    let all = explain(&talk.send(Response, &tail[10..]).ack(Request));
    let gap = all
        .iter()
        .flat_map(|(_, explained)| pieces(explained, Response))
        .filter(|piece| piece.seen == ByteVisibility::Gap);
    assert_eq!(gap.map(|piece| piece.len).sum::<u64>(), 10);
}

#[test]
fn reordered_frames_are_shown_in_stream_order() {
    let (head, tail) = SET.split_at(9);
    let talk = Talk::new().handshake().send(Request, head).send(Request, tail).swap(3, 4).send(Response, b"+OK\r\n");
    let all = explain(&talk);
    let order: Vec<_> = named(&all, "SET").views().iter().map(|view| view.frame.unwrap()).collect();
    assert_eq!(order, [5, 4, 6]);
}

#[test]
fn bytes_before_a_guessed_start_are_shown_too() {
    let talk =
        Talk::new().send(Request, GET).again(Request, GET.len() as u32 + 9, b"+earlier\n").send(Response, b"$-1\r\n");
    let all = explain(&talk);
    let stray = named(&all, "(stray)");
    assert_eq!(fields(stray, Request), ["outside the stream unknown 9"]);
    assert_eq!(pieces(stray, Request).next().unwrap().bytes, b"+earlier\n");
}

#[test]
fn sides_that_were_guessed_wrongly_are_exchanged() {
    let talk =
        Talk::new().ack(Request).send(Response, b"+OK\r\n").ack(Request).send(Request, GET).send(Response, b"$-1\r\n");
    let selection =
        Selection { ports: vec![(6379, vec![Protocol::Resp]), (40_000, vec![Protocol::Resp])], ..Selection::default() };
    let all = check(&stored(&talk), &selection, &Arc::default());
    assert!(named(&all, "CONNECT").amounts[0].total() > 0);
}

/// CQL v5, section 2.2 of its specification.
fn segment(payload: &[u8], packed: bool) -> Vec<u8> {
    let body = if packed { lz4_flex::block::compress(payload) } else { payload.to_vec() };
    let (bits, len) = if packed {
        (body.len() as u64 | (payload.len() as u64) << 17 | 1 << 34, 5)
    } else {
        (body.len() as u64 | 1 << 17, 3)
    };
    let mut bytes = bits.to_le_bytes()[..len].to_vec();
    let crc = bytes.iter().fold(0x0087_5060_u32, |crc, &byte| {
        (0..8).fold(
            crc ^ u32::from(byte) << 16,
            |crc, _| if crc & 0x80_0000 != 0 { crc << 1 ^ 0x0197_4F0B } else { crc << 1 },
        )
    });
    bytes.extend_from_slice(&crc.to_le_bytes()[..3]);
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&[0xFA, 0x2D, 0x55, 0xCA]);
    hasher.update(&body);
    bytes.extend(body);
    bytes.extend(hasher.finalize().to_le_bytes());
    bytes
}

fn cql(version: u8, stream: i16, opcode: u8, body: &[u8]) -> Vec<u8> {
    let len = (body.len() as u32).to_be_bytes();
    [&[version, 0], stream.to_be_bytes().as_slice(), &[opcode], &len, body].concat()
}

#[test]
fn segments_lose_no_byte() {
    for packed in [false, true] {
        let startup: &[u8] = if packed {
            b"\0\x02\0\x0bCQL_VERSION\0\x053.0.0\0\x0bCOMPRESSION\0\x03lz4"
        } else {
            b"\0\x01\0\x0bCQL_VERSION\0\x053.0.0"
        };
        let text = b"SELECT v FROM lab.t WHERE k = 'kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk'";
        let query = [&(text.len() as u32).to_be_bytes(), text.as_slice(), &[0, 1, 0, 0, 0, 0]].concat();
        let two = [cql(5, 1, 7, &query), cql(5, 2, 7, &query)].concat();
        let void = [cql(0x85, 2, 8, &[0, 0, 0, 1]), cql(0x85, 1, 8, &[0, 0, 0, 1])].concat();
        let talk = Talk::new().handshake().send(Request, &cql(5, 0, 1, startup)).send(Response, &cql(0x85, 0, 2, &[]));
        let request = segment(&two, packed);
        let (head, tail) = request.split_at(20);
        let talk = talk.send(Request, head).send(Request, tail).send(Response, &segment(&void, packed)).close();
        let all = explain_as(&talk, Protocol::Cql);
        let select = named(&all, "SELECT");
        assert!(select.amounts[0][Account::Query] > 20, "{select:#?}");
        assert_eq!(all.iter().map(|(_, explained)| explained.amounts[0][Account::Unknown]).sum::<u64>(), 0);
    }
}

#[test]
fn compressed_messages_lose_no_byte() {
    let elements = b"\x02insert\0\x02\0\0\0c\0\x02$db\0\x04\0\0\0lab\0\x02z\0\x08\0\0\0xxxxxxx\0\0";
    let len = (elements.len() as u32 + 4).to_le_bytes();
    let plain = [&[0, 0, 0, 0, 0], len.as_slice(), elements].concat();
    let packed = snap::raw::Encoder::new().compress_vec(&plain).unwrap();
    let head = [2013_u32, plain.len() as u32].map(u32::to_le_bytes).concat();
    let body = [head.as_slice(), &[1], &packed].concat();
    let header =
        |id: u32, to: u32, opcode: u32, len: usize| [len as u32 + 16, id, to, opcode].map(u32::to_le_bytes).concat();
    let request = [header(1, 0, 2012, body.len()), body].concat();
    let answer = b"\0\0\0\0\0\x11\0\0\0\x01ok\0\0\0\0\0\0\0\xf0\x3f\0";
    let response = [header(7, 1, 2013, answer.len()), answer.to_vec()].concat();
    let talk = Talk::new().handshake().send(Request, &request).send(Response, &response).close();
    let all = explain_as(&talk, Protocol::Mongo);
    let insert = named(&all, "insert");
    assert_eq!(insert.amounts[0].payload(), request.len() as u64);
    assert_eq!(insert.amounts[0][Account::Unknown], 0, "{:?}", fields(insert, Request));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// Whatever is cut, lost, repeated or exchanged: everything is explained once.
    #[test]
    fn everything_is_explained_once(
        steps in prop::collection::vec((0u8..6, 1usize..60, any::<bool>()), 1..40),
        swaps in prop::collection::vec((0usize..40, 0usize..3), 0..4),
        snap in prop::option::of(60usize..120),
    ) {
        let requests = [GET, SET, b"PING\r\n", GET].concat().repeat(12);
        let responses = b"$5\r\nhello\r\n+OK\r\n+PONG\r\n$-1\r\n".repeat(12);
        let mut left = [requests.as_slice(), responses.as_slice()];
        let mut talk = Talk::new().handshake();
        for (kind, len, client) in steps {
            let side = if client { Request } else { Response };
            let (now, later) = left[side as usize].split_at(len.min(left[side as usize].len()));
            talk = match kind {
                0 => talk.ack(side),
                1 => talk.again(side, len as u32, &vec![b'x'; len]),
                2 if now.len() < 20 => talk.miss(side, now.len() as u32),
                _ if now.is_empty() => talk,
                _ => talk.send(side, now),
            };
            if kind > 1 {
                left[side as usize] = later;
            }
        }
        for (at, by) in swaps {
            let at = at % talk.frames.len();
            let other = (at + by) % talk.frames.len();
            talk = talk.swap(at, other);
        }
        if let Some(len) = snap {
            talk = talk.snapped(len);
        }
        explain(&talk);
    }
}
