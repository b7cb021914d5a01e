//! Where the bytes of frames go: headers shared, acknowledgments and repeats charged, gaps left out.

use crate::common::{Book, HEADERS, Talk, dissect};
use overhead_dissect::Selection;
use overhead_model::Account::{Control, Data, Ip, Link, Metadata, Retransmission, Tcp, Unknown};
use overhead_model::Side::{Request, Response};
use overhead_model::{Class, DecidedBy, Outcome, Protocol};
use proptest::prelude::*;

const GET: &[u8] = b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n";
const SET: &[u8] = b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$2\r\nvv\r\n";
const VALUE: &[u8] = b"$3\r\nabc\r\n";
const OK: &[u8] = b"+OK\r\n";

#[test]
fn an_exchange_between_handshake_and_teardown() {
    let book = Talk::new().handshake().send(Request, GET).send(Response, VALUE).close().dissect();
    let connect = book.row("CONNECT");
    assert_eq!(connect.class, Some(Class::Setup));
    assert_eq!([Request, Response].map(|side| connect.amounts(side)[Control]), [4 * HEADERS, 2 * HEADERS]);
    let [get] = &book.row("GET").operations[..] else { panic!("one GET") };
    assert_eq!([Link, Ip, Tcp].map(|account| get.sides[0].amounts[account]), [14, 20, 20]);
    assert_eq!(get.sides[1].amounts.total(), HEADERS + VALUE.len() as u64);
    assert_eq!(get.latency_ns, Some(1_000));
    assert_eq!([get.sides[0].frames, get.sides[1].frames], [1, 1]);
    assert_eq!(book.totals.tcp.connections, 1);
    assert_eq!(book.totals.tcp.control_frames, 6);
    assert_eq!(book.list.connections[0].server_decided_by, DecidedBy::Syn);
}

#[test]
fn headers_of_a_shared_frame_are_split_by_payload() {
    let both = [GET, SET].concat();
    let book = Talk::new().handshake().send(Request, &both).send(Response, &[VALUE, OK].concat()).dissect();
    let (get, set) = (book.row("GET").amounts(Request), book.row("SET").amounts(Request));
    // 20 and 28 of 48 bytes of payload: 14, 20 and 20 bytes by largest remainder.
    assert_eq!([Link, Ip, Tcp].map(|account| get[account]), [6, 8, 8]);
    assert_eq!([Link, Ip, Tcp].map(|account| set[account]), [8, 12, 12]);
    assert_eq!([&book.row("GET").operations[0], &book.row("SET").operations[0]].map(|op| op.sides[0].frames), [1, 1]);
}

#[test]
fn a_message_over_many_frames_has_all_their_headers() {
    let mut talk = Talk::new().handshake();
    for byte in GET {
        talk = talk.send(Request, &[*byte]);
    }
    let book = talk.send(Response, VALUE).dissect();
    let get = &book.row("GET").operations[0];
    assert_eq!(get.sides[0].frames, GET.len() as u64);
    assert_eq!(get.sides[0].amounts.total(), GET.len() as u64 * (HEADERS + 1));
    assert_eq!(get.latency_ns, Some(1_000 * GET.len() as u64));
}

#[test]
fn an_ack_goes_to_the_operation_it_acknowledges() {
    let talk = Talk::new().handshake().send(Request, GET).ack(Response).send(Response, VALUE).ack(Request);
    let book = talk.clone().dissect();
    let get = book.row("GET");
    assert_eq!(get.amounts(Response)[Control], HEADERS);
    // The client's ACK came after the operation had closed: in the totals, not in the operation.
    assert_eq!(get.late[0].amounts[Control], HEADERS);
    assert_eq!(get.operations[0].sides[0].amounts[Control], 0);
    // One more that acknowledges nothing new goes to the latest operation.
    let book = talk.send(Request, SET).ack(Request).dissect();
    assert_eq!(book.row("SET").amounts(Request)[Control], HEADERS);
}

#[test]
fn an_ack_of_a_message_that_is_not_whole_waits_for_its_owner() {
    let (head, tail) = GET.split_at(9);
    let book =
        Talk::new().handshake().send(Request, head).ack(Response).send(Request, tail).send(Response, VALUE).dissect();
    assert_eq!(book.row("GET").amounts(Response)[Control], HEADERS);
}

#[test]
fn repeats_are_charged_to_what_they_repeat() {
    let len = GET.len() as u32;
    let talk = Talk::new().handshake().send(Request, GET).again(Request, len, GET).send(Response, VALUE);
    let book = talk.send(Request, SET).dissect();
    assert_eq!(book.row("GET").amounts(Request)[Retransmission], HEADERS + u64::from(len));
    assert_eq!(book.totals.tcp.retransmitted_bytes, u64::from(len));
    assert_eq!(book.find("SET").map(|row| row.amounts(Request)[Retransmission]), Some(0));
}

#[test]
fn only_repeated_bytes_of_an_overlap_are_a_retransmission() {
    let (head, tail) = GET.split_at(10);
    let overlap = [&head[4..], tail].concat();
    let mut talk = Talk::new().handshake().send(Request, head);
    talk = talk.again(Request, 6, &overlap).miss(Request, tail.len() as u32);
    let book = talk.send(Response, VALUE).dissect();
    let get = book.row("GET").amounts(Request);
    assert_eq!(get[Retransmission], 6);
    assert_eq!(get[Tcp], 40);
    assert_eq!(get.payload(), GET.len() as u64);
}

#[test]
fn a_keep_alive_is_control_with_its_byte() {
    let talk = Talk::new().handshake().send(Request, GET).send(Response, VALUE).ack(Request);
    let book = talk.again(Request, 1, b"\n").ack(Response).dissect();
    assert_eq!(book.row("GET").amounts(Request)[Control], 2 * HEADERS + 1);
    assert_eq!(book.totals.tcp.retransmitted_bytes, 1);
}

#[test]
fn swapped_frames_give_the_same_operations() {
    let talk = Talk::new().handshake().send(Request, &GET[..7]).send(Request, &GET[7..]).send(Response, VALUE).close();
    let (straight, swapped) = (talk.clone().dissect(), talk.swap(3, 4).dissect());
    assert_eq!(swapped.totals.tcp.out_of_order_frames, 1);
    assert_eq!(swapped.row("GET").amounts(Request), straight.row("GET").amounts(Request));
    assert_eq!(swapped.totals.tcp.gap_bytes, 0);
}

#[test]
fn a_lost_request_is_a_gap_and_the_next_is_paired() {
    let talk = Talk::new().handshake().send(Request, GET).send(Response, VALUE);
    let talk = talk.miss(Request, GET.len() as u32).send(Response, VALUE);
    let book = talk.send(Request, SET).send(Response, OK).send(Request, GET).send(Response, VALUE).close().dissect();
    assert_eq!(book.totals.tcp.gap_bytes, GET.len() as u64);
    assert_eq!(book.row("RESPONSE").class, Some(Class::Unmatched));
    let set = &book.row("SET").operations[..];
    assert_eq!(set.iter().map(|op| op.outcome).collect::<Vec<_>>(), [Outcome::Ok]);
    assert_eq!(book.row("GET").operations.len(), 2);
}

#[test]
fn a_late_filler_of_a_given_up_gap_is_new_payload() {
    let talk = Talk::new().handshake().miss(Request, GET.len() as u32).send(Request, SET).send(Response, OK);
    let book = talk.again(Request, (GET.len() + SET.len()) as u32, GET).dissect();
    assert_eq!(book.totals.tcp.gap_bytes, 0);
    assert_eq!(book.totals.tcp.retransmitted_bytes, 0);
    assert_eq!(book.row("(stray)").amounts(Request)[Unknown], GET.len() as u64);
}

#[test]
fn snapped_bodies_keep_their_accounts() {
    let value = [b"$1000\r\n".as_slice(), &[b'x'; 1000], b"\r\n"].concat();
    let talk = Talk::new().handshake().send(Request, GET).send(Response, &value).send(Request, SET).send(Response, OK);
    let book = talk.snapped(100).dissect();
    assert_eq!(book.row("GET").amounts(Response)[Data], 1000);
    assert_eq!(book.row("SET").operations.len(), 1);
    assert_eq!(book.totals.tcp.snapped_bytes, value.len() as u64 - 46);
}

#[test]
fn sequence_numbers_wrap() {
    let talk = Talk::starting_at(u32::MAX - 5, u32::MAX - 2).handshake();
    let book = talk.send(Request, GET).send(Response, VALUE).send(Request, SET).send(Response, OK).close().dissect();
    assert_eq!(book.row("SET").operations.len(), 1);
    assert_eq!(book.totals.tcp.gap_bytes, 0);
}

#[test]
fn a_port_used_again_is_a_new_connection() {
    let mut talk = Talk::new().handshake().send(Request, GET).send(Response, VALUE).close();
    talk.frames
        .extend(Talk::starting_at(90_000, 70_000).handshake().send(Request, SET).send(Response, OK).close().frames);
    let book = talk.dissect();
    assert_eq!(book.totals.tcp.connections, 2);
    assert_eq!(book.row("CONNECT").operations.len(), 2);
}

#[test]
fn a_connection_that_was_open_before_is_decided_by_port_or_content() {
    let talk = Talk::new().send(Response, b"+PONG\r\n").send(Request, GET).send(Response, VALUE);
    let book = talk.dissect();
    assert_eq!(book.list.connections[0].server_decided_by, DecidedBy::Port);
    assert_eq!(book.row("GET").operations.len(), 1);
    let book = elsewhere(talk);
    let connection = &book.list.connections[0];
    assert_eq!((connection.server_decided_by, connection.protocol), (DecidedBy::Content, Protocol::Resp));
    assert_eq!(connection.server.port(), 50_000);
    assert_eq!(book.row("GET").operations.len(), 1);
}

#[test]
fn content_contradicts_a_server_port_that_a_client_has_by_chance() {
    // The end with port 6379 asks, and the other one answers.
    let asking = Talk::new().send(Response, GET).send(Request, VALUE).send(Response, GET).send(Request, VALUE);
    let answering = Talk::new().send(Request, b"+PONG\r\n").send(Response, GET).send(Request, VALUE);
    let redis = Selection { ports: vec![(6379, vec![Protocol::Resp])], ..Selection::default() };
    for (talk, count) in [(asking, 2), (answering, 1)] {
        for selection in [&redis, &Selection::default()] {
            let book = dissect(&talk.frames, selection);
            let connection = &book.list.connections[0];
            assert_eq!((connection.server_decided_by, connection.client.port()), (DecidedBy::Content, 6379));
            let gets = &book.row("GET").operations;
            assert_eq!(gets.len(), count);
            assert!(gets.iter().all(|get| get.outcome == Outcome::Ok), "{gets:?}");
        }
    }
    // One side alone contradicts nothing.
    let book = dissect(&Talk::new().send(Response, GET).send(Response, GET).frames, &redis);
    assert_eq!(book.list.connections[0].server_decided_by, DecidedBy::Port);
}

/// The same on ports that say nothing.
fn elsewhere(mut talk: Talk) -> Book {
    for frame in &mut talk.frames {
        for at in [34, 36] {
            if frame.bytes[at..at + 2] == 6379u16.to_be_bytes() {
                frame.bytes[at..at + 2].copy_from_slice(&50_000u16.to_be_bytes());
            }
        }
    }
    dissect(&talk.frames, &Selection::default())
}

#[test]
fn text_that_may_be_of_another_protocol_is_told_by_both_directions() {
    let inline = Talk::new().handshake().send(Request, b"PING\r\n").send(Response, b"+PONG\r\n");
    assert_eq!(elsewhere(inline).row("PING").operations.len(), 1);
    let later = Talk::new().send(Response, b"+PONG\r\n").send(Request, b"GET key\r\n").send(Response, VALUE);
    assert_eq!(elsewhere(later).row("GET").operations.len(), 1);
    let pop3 = Talk::new().handshake().send(Response, b"+OK ready\r\n").send(Request, b"USER me\r\n");
    let pop3_auth = Talk::new().handshake().send(Response, b"+OK ready\r\n").send(Request, b"AUTH PLAIN\r\n");
    let http2 = Talk::new().handshake().send(Request, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    for talk in [pop3, pop3_auth, http2] {
        let book = elsewhere(talk);
        assert_eq!(book.totals.other, book.totals.wire_bytes, "{:?}", book.list.connections);
    }
}

#[test]
fn frames_of_other_ports_are_counted_once_and_whole() {
    let talk = Talk::new().handshake().send(Request, GET);
    let book =
        dissect(&talk.frames, &Selection { ports: vec![(5432, vec![Protocol::Pgwire])], ..Selection::default() });
    assert_eq!(book.totals.other, book.totals.wire_bytes);
    assert_eq!(book.totals.tcp.connections, 0);
    assert!(book.list.connections.is_empty());
}

#[test]
fn a_request_without_an_answer_and_one_cut_off() {
    let book = Talk::new().handshake().send(Request, GET).send(Request, &SET[..9]).dissect();
    assert_eq!(book.row("GET").operations[0].outcome, Outcome::Unanswered);
    assert_eq!(book.row("(cut off)").class, Some(Class::Unmatched));
}

proptest! {
    /// Any bytes, in any order, on any offsets: nothing panics and everything balances (`dissect` checks).
    #[test]
    fn the_ledger_balances_for_arbitrary_segments(
        handshake in any::<bool>(),
        segments in prop::collection::vec((any::<bool>(), 0u32..60, prop::collection::vec(any::<u8>(), 0..30), 0u32..40), 0..40),
        snap in prop::option::of(54usize..80),
    ) {
        let mut talk = if handshake { Talk::new().handshake() } else { Talk::new() };
        for (response, back, payload, missed) in segments {
            let side = if response { Response } else { Request };
            talk = match back {
                0..20 => talk.send(side, &payload),
                20..30 => talk.miss(side, missed).send(side, &payload),
                30..40 => talk.ack(side),
                _ => talk.again(side, back, &payload),
            };
        }
        if let Some(snap) = snap {
            talk = talk.snapped(snap);
        }
        talk.dissect();
    }

    /// Well-formed traffic gives the same operations however its segments are cut.
    #[test]
    fn segmentation_does_not_change_payload(cuts in prop::collection::vec(1usize..40, 1..8)) {
        let stream = [GET, SET, GET, SET].concat();
        let mut talk = Talk::new().handshake();
        let mut rest = stream.as_slice();
        for cut in cuts {
            let (head, tail) = rest.split_at(cut.min(rest.len()));
            talk = talk.send(Request, head);
            rest = tail;
        }
        let book = talk.send(Request, rest).send(Response, &[VALUE, OK, VALUE, OK].concat()).dissect();
        prop_assert_eq!(book.row("GET").operations.len(), 2);
        prop_assert_eq!(book.row("SET").amounts(Request).payload(), 2 * SET.len() as u64);
        prop_assert!(book.list.rows.iter().all(|row| row.class != Some(Class::Unmatched)));
    }
}

#[test]
fn a_proxys_header_is_an_operation_of_its_own() {
    let header = &b"PROXY TCP4 192.168.0.1 192.168.0.11 56324 6379\r\n"[..];
    let binary = [&b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c"[..], &[1; 12]].concat();
    for header in [header, &binary] {
        for cut in [1, 5, 20, header.len()] {
            let (first, rest) = header.split_at(cut);
            let rest = [rest, GET].concat();
            let book =
                Talk::new().handshake().send(Request, first).send(Request, &rest).send(Response, VALUE).dissect();
            let proxy = book.row("PROXY");
            assert_eq!(proxy.class, Some(Class::Setup));
            assert_eq!(proxy.amounts(Request)[Metadata], header.len() as u64, "{cut}");
            assert_eq!(book.row("GET").operations[0].sides[1].amounts.total(), HEADERS + VALUE.len() as u64);
        }
    }
}
