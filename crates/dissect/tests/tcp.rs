//! TCP behavior: opening, closing, probing and repeating, in captures that miss a part of it.

use crate::common::{HEADERS, Talk, dissect};
use overhead_decode::Note;
use overhead_dissect::{Dissector, Selection};
use overhead_model::Account::{Control, Data, Retransmission, Unknown};
use overhead_model::Side::{Request, Response};
use overhead_model::{Class, ConnectionSummary, DecidedBy, Frame, Operation, Outcome, Protocol, RowId, RowKey, Tally};

const GET: &[u8] = b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n";
const SET: &[u8] = b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$2\r\nvv\r\n";
const VALUE: &[u8] = b"$3\r\nabc\r\n";
const OK: &[u8] = b"+OK\r\n";

/// A connection with one `SET` behind it.
fn talking() -> Talk {
    Talk::new().handshake().send(Request, SET).send(Response, OK).ack(Request)
}

#[test]
fn a_probe_of_a_window_of_0_is_control_with_its_byte() {
    let talk = talking().ack(Response).window(0).again(Request, 0, &GET[..1]).ack(Response).window(0);
    let talk = talk.again(Request, 0, &GET[..1]).ack(Response).window(0).ack(Response);
    let book = talk.send(Request, GET).send(Response, VALUE).dissect();
    assert_eq!(book.row("SET").amounts(Request)[Control], HEADERS + 2 * (HEADERS + 1));
    assert_eq!(book.totals.tcp.retransmitted_bytes, 2);
    let get = &book.row("GET").operations[0];
    assert_eq!((get.sides[0].frames, get.sides[0].amounts.total()), (1, HEADERS + GET.len() as u64));
}

#[test]
fn a_probe_that_was_taken_is_payload() {
    let talk = talking().ack(Response).window(0).send(Request, &GET[..1]);
    for talk in [talk.clone().ack(Response), talk] {
        let book = talk.send(Request, &GET[1..]).send(Response, VALUE).dissect();
        let get = &book.row("GET").operations[0];
        assert_eq!((get.sides[0].frames, get.sides[0].amounts.payload()), (2, GET.len() as u64));
        assert_eq!((book.totals.tcp.retransmitted_bytes, book.totals.tcp.gap_bytes), (0, 0));
    }
}

#[test]
fn a_probe_at_the_end_was_not_taken() {
    let book = talking().ack(Response).window(0).send(Request, &GET[..1]).dissect();
    assert_eq!(book.row("SET").amounts(Request)[Control], HEADERS + HEADERS + 1);
    assert!(book.find("(cut off)").is_none());
}

#[test]
fn answers_that_may_be_those_of_others_are_told_of() {
    let noted = |talk: Talk| talk.dissect().totals.notes.get(&Note::Shifted).copied();
    let met = || Talk::new().send(Request, GET);
    // Two requests were under way unseen: their answers come first.
    let shifted = met().send(Request, SET).send(Response, OK).send(Response, VALUE).send(Response, VALUE);
    assert_eq!(noted(shifted.clone().send(Response, OK).send(Request, GET).send(Response, VALUE)), Some(1));
    // The client never waits for all.
    assert_eq!(noted(met().send(Request, SET).send(Response, OK).send(Request, GET).send(Response, VALUE)), Some(1));
    // None was, or the first answers came before the first request.
    assert_eq!(noted(met().send(Request, SET).send(Response, VALUE).send(Response, OK)), None);
    assert_eq!(noted(Talk::new().send(Response, OK).send(Request, GET).send(Response, VALUE)), None);
    // The whole connection was captured, or a part of it was lost.
    let whole = Talk::new().handshake().send(Request, GET).send(Request, SET).send(Response, OK);
    assert_eq!(noted(whole), None);
    let lost = met().miss(Request, 20).send(Request, SET).send(Response, VALUE).send(Response, VALUE);
    assert_eq!(noted(lost.send(Response, OK).ack(Response).ack(Request)), None);
}

#[test]
fn requests_that_are_captured_behind_their_answers_are_told_of() {
    let noted = |talk: Talk| talk.dissect().totals.notes.get(&Note::CapturedLate).copied();
    // Frames 0 to 2 are the handshake; SET and its answer change places, and GET and its own do.
    let talk =
        || Talk::new().handshake().send(Request, SET).send(Response, OK).send(Request, GET).send(Response, VALUE);
    assert_eq!(noted(talk()), None);
    assert_eq!(noted(talk().swap(3, 4)), Some(1));
    assert_eq!(noted(talk().swap(3, 4).swap(5, 6)), Some(2));
    // The request was lost, and not captured late.
    assert_eq!(noted(talking().miss(Request, 20).send(Response, VALUE).send(Request, GET).send(Response, VALUE)), None);
    // Often enough that turns are known.
    let often = (0..50).fold(talking(), |talk, _| talk.send(Request, GET).send(Response, VALUE));
    let len = 5 + 2 * 50;
    assert_eq!(noted(often.ack(Request).swap(len - 1, len)), Some(1));
}

#[test]
fn frames_without_payload_tell_nothing_of_the_protocol() {
    let talk = (0..100).fold(Talk::new().handshake(), |talk, _| talk.ack(Request));
    let talk = talk.send(Request, GET).send(Response, VALUE);
    let among = Selection { ports: vec![(6379, vec![Protocol::Memcache, Protocol::Resp])], ..Selection::default() };
    let book = dissect(&talk.frames, &among);
    assert_eq!(book.row("GET").operations.len(), 1);
}

#[test]
fn a_stream_goes_on_behind_a_hole_of_any_size() {
    // Of sequence numbers, 3 GiB ahead is 1 GiB behind, and what came before may be 1 GiB behind.
    for missing in [(1_u32 << 30) + 1, 1 << 31, (3 << 30) - 60] {
        let talk = talking().ack(Response).miss(Request, missing).miss(Response, missing);
        let talk = talk.send(Request, GET).send(Response, VALUE).send(Request, GET).send(Response, VALUE);
        let book = talk.send(Request, SET).send(Response, OK).dissect();
        assert_eq!(book.totals.tcp.retransmitted_bytes, 0, "{missing}");
        assert_eq!(book.totals.tcp.gap_bytes, 2 * u64::from(missing), "{missing}");
        let outcomes = |name| book.row(name).operations.iter().map(|op| op.outcome).collect::<Vec<_>>();
        assert_eq!(outcomes("GET"), [Outcome::Ok; 2], "{missing}");
        assert_eq!(outcomes("SET"), [Outcome::Ok; 2], "{missing}");
    }
}

#[test]
fn a_probe_of_a_window_of_0_before_a_hole_of_any_size_was_taken() {
    let talk = talking().ack(Response).window(0).send(Request, &GET[..1]);
    let talk = talk.miss(Request, 3 << 29).send(Request, GET).send(Request, GET).send(Response, VALUE);
    let book = talk.dissect();
    assert_eq!(book.totals.tcp.retransmitted_bytes, 0);
    assert_eq!(book.totals.tcp.gap_bytes, 3 << 29);
    assert_eq!(book.row("GET").operations.len(), 2);
}

#[test]
fn a_message_is_not_taken_to_go_on_behind_a_hole_of_any_size() {
    let talk = talking().send(Request, &SET[..24]).miss(Request, (1 << 31) - 24);
    let talk = talk.send(Request, GET).send(Request, GET).send(Response, OK).send(Response, VALUE);
    let book = talk.send(Request, SET).send(Response, OK).dissect();
    let sent = |name| book.row(name).operations.iter().map(|op| op.sides[0].amounts.payload()).collect::<Vec<_>>();
    assert_eq!(sent("SET"), [SET.len() as u64, 24, SET.len() as u64]);
    assert_eq!(sent("GET"), [GET.len() as u64; 2]);
}

#[test]
fn a_byte_into_an_open_window_is_payload() {
    let book = talking().send(Request, &GET[..1]).dissect();
    assert_eq!(book.row("(cut off)").amounts(Request)[Unknown], 1);
}

#[test]
fn keep_alives_are_control_whatever_their_byte() {
    let talk = talking().again(Request, 1, b"").ack(Response).again(Request, 1, b"\0").ack(Response);
    let book = talk.again(Response, 1, b"?").send(Request, GET).send(Response, VALUE).dissect();
    let set = book.row("SET");
    assert_eq!(set.amounts(Request)[Control], HEADERS + 2 * HEADERS + 1);
    // The keep-alive of a server whose last byte was acknowledged.
    assert_eq!(set.amounts(Response)[Control], 2 * HEADERS + HEADERS + 1);
    assert_eq!(book.totals.tcp.retransmitted_bytes, 2);
    assert!(book.totals.notes.is_empty(), "{:?}", book.totals.notes);
}

#[test]
fn a_keep_alive_before_all_else_is_control_if_the_reply_says_so() {
    let talk = Talk::new().send(Request, b"\0").ack(Response);
    let go_on = |talk: Talk| talk.send(Request, GET).send(Response, VALUE).dissect();
    let book = go_on(talk.clone().duplicate(1));
    assert_eq!(book.row("GET").amounts(Request).payload(), GET.len() as u64);
    assert_eq!((book.totals.tcp.retransmitted_bytes, book.names().contains(&"(undecoded)")), (1, false));
    // A byte that the receiver did not have yet, or did not report, is payload.
    for talk in [talk.clone(), talk.duplicate(2)] {
        assert_eq!(go_on(talk).row("(undecoded)").amounts(Request)[Unknown], 1);
    }
}

#[test]
fn repeats_in_frames_out_of_time_order_are_told_of() {
    let noted = |talk: &Talk| talk.dissect().totals.notes.get(&Note::RepeatedBackInTime).copied();
    let mut talk = talking();
    let copies: Vec<_> = talk
        .frames
        .iter()
        .cloned()
        .map(|mut frame| {
            frame.time_ns += 100;
            frame
        })
        .collect();
    talk.frames.extend(copies);
    assert_eq!(noted(&talk), Some(2));
    talk.frames.sort_by_key(|frame| frame.time_ns);
    assert_eq!(noted(&talk), None);
    assert_eq!(noted(&talking().again(Request, 4, &SET[SET.len() - 4..])), None);
}

#[test]
fn both_ends_open_at_once() {
    let open = |first, second| {
        Talk::new().segment(first, "S", b"").segment(second, "S", b"").again(first, 1, b"").again(second, 1, b"")
    };
    for (first, second) in [(Request, Response), (Response, Request)] {
        let mut talk = open(first, second);
        // The last two are SYN-ACKs.
        talk.frames[2..].iter_mut().for_each(|frame| frame.bytes[47] |= 2);
        let book = talk.send(Request, GET).send(Response, VALUE).close().dissect();
        let connection = &book.list.connections[..];
        assert_eq!((connection.len(), connection[0].server.port()), (1, 6379));
        assert_eq!(book.row("GET").operations.len(), 1);
        assert_eq!(book.row("CONNECT").amounts(first)[Control] % HEADERS, 0);
        assert_eq!(book.totals.tcp.control_frames, 7);
    }
}

#[test]
fn half_open_connections_are_decoded() {
    // Neither the SYN-ACK nor the last step of the handshake was captured.
    let mut talk = Talk::new().handshake().send(Request, GET).send(Response, VALUE);
    talk.frames.drain(1..3);
    let book = talk.dissect();
    assert_eq!(book.row("GET").operations[0].outcome, Outcome::Ok);
    assert_eq!(book.list.connections[0].server_decided_by, DecidedBy::Syn);
    // Nobody answered at all.
    let book = Talk::new().segment(Request, "S", b"").send(Request, GET).dissect();
    assert_eq!(book.row("GET").operations[0].outcome, Outcome::Unanswered);
}

#[test]
fn a_syn_sent_again_is_the_same_connection() {
    let mut talk = talking();
    let syn = talk.frames[0].clone();
    talk.frames.insert(1, syn);
    let late = talk.frames[2].clone();
    talk.frames.push(late);
    let book = talk.dissect();
    assert_eq!((book.totals.tcp.connections, book.row("SET").operations.len()), (1, 1));
    assert_eq!(book.row("CONNECT").amounts(Request)[Control], 3 * HEADERS);
}

#[test]
fn a_reset_ends_and_the_port_is_used_again() {
    let talk = talking().segment(Response, "RA", b"").seek(Request, 900_000).seek(Response, 800_000);
    let book = talk.handshake().send(Request, GET).send(Response, VALUE).dissect();
    assert_eq!((book.totals.tcp.connections, book.totals.tcp.gap_bytes), (2, 0));
    assert_eq!((book.row("SET").operations.len(), book.row("GET").operations.len()), (1, 1));
}

#[test]
fn a_syn_ack_with_another_number_is_another_connection() {
    // The SYN of the second connection was not captured.
    let mut talk = talking().seek(Request, 900_000).seek(Response, 800_000).handshake();
    talk.frames.remove(6);
    let book = talk.send(Request, GET).send(Response, VALUE).dissect();
    assert_eq!((book.totals.tcp.connections, book.totals.tcp.gap_bytes), (2, 0));
    assert_eq!(book.row("GET").operations[0].outcome, Outcome::Ok);
    assert!(book.find("(stray)").is_none());
}

#[test]
fn data_in_a_syn_is_payload() {
    let talk = Talk::new().segment(Request, "S", GET).segment(Response, "SA", b"").ack(Request);
    let book = talk.send(Response, VALUE).close().dissect();
    let get = &book.row("GET").operations[0];
    assert_eq!((get.outcome, get.sides[0].amounts.total()), (Outcome::Ok, HEADERS + GET.len() as u64));
    // The data was not taken and is sent again after the handshake.
    let talk = Talk::new().segment(Request, "S", GET).seek(Request, 1001).segment(Response, "SA", b"");
    let book = talk.ack(Request).send(Request, GET).send(Response, VALUE).dissect();
    assert_eq!(book.totals.tcp.retransmitted_bytes, GET.len() as u64);
    assert_eq!(book.row("GET").operations.len(), 1);
}

#[test]
fn data_with_a_fin_is_payload() {
    let talk = talking().segment(Request, "FA", GET).segment(Response, "FA", VALUE).ack(Request);
    let book = talk.dissect();
    let get = &book.row("GET").operations[0];
    assert_eq!((get.outcome, get.sides[1].amounts.total()), (Outcome::Ok, HEADERS + VALUE.len() as u64));
    assert_eq!(book.totals.tcp.gap_bytes, 0);
}

#[test]
fn sequence_numbers_wrap_again_and_again() {
    // 300 MB a frame, of which the header alone was captured: 9 GB, so that numbers wrap twice.
    let start = b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$300000000\r\n";
    let len = start.len() as u32 + 300_000_000 + 2;
    let mut seq = 2_000_000_000u32;
    let mut talk = Talk::starting_at(seq.wrapping_sub(1), 5_000).handshake();
    for _ in 0..30 {
        talk = talk.seek(Request, seq).send(Request, start);
        let frame = talk.frames.last_mut().unwrap();
        frame.original_len = HEADERS as u32 + len;
        frame.bytes[16..18].copy_from_slice(&[0, 0]);
        seq = seq.wrapping_add(len);
        talk = talk.seek(Request, seq).send(Response, OK).ack(Request);
    }
    let book = talk.dissect();
    let set = book.row("SET");
    assert_eq!((set.operations.len(), set.amounts(Request)[Data]), (30, 30 * 300_000_001));
    assert!(set.operations.iter().all(|set| set.outcome == Outcome::Ok));
    assert_eq!((book.totals.tcp.gap_bytes, book.totals.tcp.retransmitted_bytes), (0, 0));
}

#[test]
fn bytes_before_the_first_that_was_seen() {
    // The capture starts with the second of two requests; the first comes late.
    let talk = Talk::new().miss(Request, GET.len() as u32).send(Request, SET);
    let book = talk.again(Request, (GET.len() + SET.len()) as u32, GET).send(Response, OK).dissect();
    assert_eq!(book.row("(stray)").amounts(Request)[Unknown], GET.len() as u64);
    assert_eq!(book.row("(stray)").class, Some(Class::Unmatched));
    assert_eq!((book.totals.tcp.retransmitted_bytes, book.row("SET").operations.len()), (0, 1));
    // Once more is a retransmission.
    let both = [GET, SET].concat();
    let talk = Talk::new().miss(Request, GET.len() as u32).send(Request, SET).again(Request, both.len() as u32, &both);
    let book = talk.again(Request, both.len() as u32, GET).dissect();
    assert_eq!(book.totals.tcp.retransmitted_bytes, both.len() as u64);
}

#[test]
fn one_direction_alone() {
    let talk = talking().send(Request, GET).send(Response, VALUE).close();
    let book = talk.clone().without(Response).dissect();
    assert!([book.row("GET"), book.row("SET")].iter().all(|row| row.operations[0].outcome == Outcome::Unanswered));
    let book = talk.without(Request).dissect();
    assert_eq!(book.row("RESPONSE").amounts(Response).payload(), (OK.len() + VALUE.len()) as u64);
    assert_eq!(book.row("RESPONSE").class, Some(Class::Unmatched));
    assert_eq!(book.list.connections[0].server.port(), 6379);
}

#[test]
fn a_retransmission_with_other_bytes_is_reported_and_the_first_holds() {
    let other: Vec<u8> = GET.iter().map(|byte| if *byte == b'k' { b'x' } else { *byte }).collect();
    let conflicts = |talk: Talk| {
        let book = talk.send(Response, VALUE).dissect();
        assert_eq!(book.row("GET").amounts(Request).payload(), GET.len() as u64);
        book.totals.notes.get(&Note::Conflict).copied().unwrap_or(0)
    };
    let len = GET.len() as u32;
    let sent = Talk::new().handshake().send(Request, GET);
    assert_eq!(conflicts(sent.clone().again(Request, len, GET)), 0);
    assert_eq!(conflicts(sent.clone().again(Request, len, &other)), 1);
    // A longer one that holds it.
    let longer = Talk::new().handshake().send(Request, &GET[..9]).send(Request, &GET[9..]);
    assert_eq!(conflicts(longer.clone().again(Request, len, GET)), 0);
    assert_eq!(conflicts(longer.again(Request, len, &other)), 1);
    // One that waits for what is before it.
    let early = Talk::new().handshake().miss(Request, 9).send(Request, &GET[9..]);
    assert_eq!(conflicts(early.clone().again(Request, 4, &other[16..]).again(Request, len, &GET[..9])), 1);
    assert_eq!(conflicts(early.clone().again(Request, 4, &GET[16..]).again(Request, len, &GET[..9])), 0);
    let book = early.again(Request, len, &other).send(Response, VALUE).dissect();
    assert_eq!(book.totals.notes.get(&Note::Conflict), Some(&1));
    assert_eq!(book.row("GET").amounts(Request)[Retransmission], len as u64 - 9);
}

#[test]
fn many_repeats_of_a_message_that_is_never_whole_are_bounded() {
    let mut talk = talking().send(Request, &GET[..9]);
    for _ in 0..70_000 {
        talk = talk.again(Request, 9, &GET[..9]);
    }
    let book = talk.dissect();
    assert_eq!(book.totals.tcp.retransmitted_bytes, 9 * 70_000);
}

/// Four commands in two frames, and their replies in two.
const BATCH: [&[u8]; 2] = [GET, SET];

#[test]
fn pairing_recovers_from_lost_replies_while_idle() {
    let (half, replies) = (BATCH.concat(), [VALUE, OK].concat());
    let talk = Talk::new().handshake().send(Request, &half).send(Request, &half);
    let talk = talk.miss(Response, replies.len() as u32).send(Response, &replies).ack(Request);
    let book = talk.send(Request, GET).send(Response, VALUE).send(Request, SET).send(Response, OK).close().dissect();
    assert_eq!(book.totals.tcp.gap_bytes, replies.len() as u64);
    // Which of the four commands were answered in the gap cannot be told; what follows is paired again.
    for name in ["GET", "SET"] {
        let outcomes: Vec<Outcome> = book.row(name).operations.iter().map(|operation| operation.outcome).collect();
        assert_eq!(outcomes, [Outcome::Unanswered, Outcome::Unanswered, Outcome::Ok], "{name}");
    }
    assert_eq!(book.row("RESPONSE").operations.len(), 2);
    assert!(book.row("GET").operations[2].latency_ns.is_some_and(|latency| latency == 1_000));
}

#[test]
fn pairing_recovers_from_lost_commands_while_idle() {
    let (half, replies) = (BATCH.concat(), [VALUE, OK, VALUE, OK].concat());
    let talk = Talk::new().handshake().miss(Request, half.len() as u32).send(Request, &half);
    let talk = talk.send(Response, &replies).ack(Request);
    let book = talk.send(Request, GET).send(Response, VALUE).send(Request, SET).send(Response, OK).close().dissect();
    assert_eq!(book.totals.tcp.gap_bytes, half.len() as u64);
    // Two of the replies answer lost commands, and nothing tells which.
    assert_eq!(book.row("RESPONSE").operations.len(), 4);
    for name in ["GET", "SET"] {
        let last = book.row(name).operations.last().unwrap();
        assert_eq!((last.outcome, last.latency_ns), (Outcome::Ok, Some(1_000)), "{name}");
    }
}

#[test]
fn a_lost_reply_moves_no_other() {
    let talk = talking().send(Request, SET).miss(Response, OK.len() as u32);
    let talk = talk.send(Request, GET).send(Response, VALUE).send(Request, GET).send(Response, VALUE).ack(Request);
    let book = talk.close().dissect();
    let outcomes = |name| book.row(name).operations.iter().map(|operation| operation.outcome).collect::<Vec<_>>();
    assert_eq!(outcomes("SET"), [Outcome::Ok, Outcome::Unanswered]);
    assert_eq!(outcomes("GET"), [Outcome::Ok; 2]);
    assert_eq!(book.totals.tcp.gap_bytes, OK.len() as u64);
    assert!(book.find("RESPONSE").is_none());
    assert!(!book.totals.notes.contains_key(&Note::LostBoundary), "{:?}", book.totals.notes);
}

#[test]
fn the_exchange_behind_a_lost_one_is_whole() {
    let talk = talking().miss(Request, SET.len() as u32).miss(Response, OK.len() as u32);
    let talk = talk.send(Request, GET).send(Response, VALUE).send(Request, SET).send(Response, OK).ack(Request);
    let book = talk.close().dissect();
    let answered = |name| book.row(name).operations.iter().all(|operation| operation.outcome == Outcome::Ok);
    assert!(answered("GET") && answered("SET"));
    assert_eq!(book.totals.tcp.gap_bytes, (SET.len() + OK.len()) as u64);
    assert!(!book.totals.notes.contains_key(&Note::LostBoundary), "{:?}", book.totals.notes);
}

#[test]
fn what_is_missing_before_the_end_is_a_gap() {
    let talk = || talking().miss(Request, SET.len() as u32).miss(Response, OK.len() as u32);
    let lost = (SET.len() + OK.len()) as u64;
    assert_eq!(talk().close().dissect().totals.tcp.gap_bytes, lost);
    assert_eq!(talk().segment(Request, "R", b"").dissect().totals.tcp.gap_bytes, SET.len() as u64);
    // A RST counts the FIN before it.
    let twice = talking().close().segment(Request, "R", b"").dissect();
    assert_eq!(twice.totals.tcp.gap_bytes, 0);
}

#[test]
fn an_end_that_only_other_numbers_show_is_told_of() {
    let noted = |talk: Talk| {
        let book = talk.dissect();
        (book.totals.tcp.gap_bytes, book.totals.notes.get(&Note::EndNotCaptured).copied())
    };
    // Acknowledged by the reply, and shown by an acknowledgment of the same end.
    let half = || talking().send(Request, &SET[..9]).miss(Request, SET.len() as u32 - 9);
    assert_eq!(noted(half().send(Response, OK)), (0, Some(1)));
    assert_eq!(noted(talking().miss(Response, 9).ack(Response)), (0, Some(1)));
    assert_eq!(noted(talking().send(Request, SET).send(Response, OK).ack(Request)), (0, None));
}

/// Operations of the workload, and their latencies if known.
#[derive(Default)]
struct Latencies {
    operations: u64,
    latencies_ns: Vec<u64>,
}

impl Tally for Latencies {
    fn row(&mut self, key: RowKey<'_>) -> RowId {
        RowId(u64::from(key.class == Class::Workload))
    }

    fn operation(&mut self, row: RowId, operation: &Operation) {
        self.operations += row.0;
        self.latencies_ns.extend(operation.latency_ns.filter(|_| row.0 > 0));
    }

    fn latency(&mut self, row: RowId, latency_ns: u64, times: u64) {
        self.latencies_ns.extend((0..times * row.0).map(|_| latency_ns));
    }

    fn connection(&mut self, _: ConnectionSummary) {}
}

#[test]
fn a_clock_that_is_set_back_changes_no_count_and_invents_no_latency() {
    const HOUR_NS: u64 = 3_600_000_000_000;
    let mut talk = talking();
    for _ in 0..50 {
        talk = talk.send(Request, GET).send(Response, VALUE);
    }
    let mut talk = talk.close().ack(Response);
    talk.frames.iter_mut().for_each(|frame| frame.time_ns += HOUR_NS);
    // Between a request and its response, between two operations, and within the end of the connection.
    for (from, without_latency) in [(45, 1), (46, 0), (7, 1), (106, 0), (107, 0), (108, 0), (109, 0)] {
        for has_memo in [true, false] {
            let dissector = Dissector::new(Selection::default(), Latencies::default());
            let mut dissector = if has_memo { dissector } else { dissector.without_memo() };
            for (at, frame) in talk.frames.iter().enumerate() {
                let time_ns = if at < from { frame.time_ns } else { frame.time_ns - HOUR_NS };
                let (link, original_len) = (frame.link, frame.original_len);
                dissector.frame(&Frame { time_ns, link, original_len, interface: 0, bytes: &frame.bytes });
            }
            let (found, totals) = dissector.finish();
            assert_eq!((totals.tcp.connections, found.operations), (1, 51), "from frame {from}, memo: {has_memo}");
            assert_eq!(found.latencies_ns, vec![1_000; 51 - without_latency], "from frame {from}, memo: {has_memo}");
        }
    }
}
