//! Round trips: the client's waits for its server, counted from what it acknowledges.

use crate::common::{Book, Talk, dissect};
use overhead_decode::Note;
use overhead_dissect::Selection;
use overhead_model::Protocol;
use overhead_model::Side::{Request, Response};

const GET: &[u8] = b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n";
const VALUE: &[u8] = b"$3\r\nabc\r\n";

/// The round trips of a row's operations, and of the connection with its handshake.
fn counted(book: &Book, name: &str) -> (Vec<u32>, u64) {
    let each = book.row(name).operations.iter().map(|operation| operation.round_trips).collect();
    let sum: u64 = book.list.rows.iter().flat_map(|row| &row.operations).map(|of| u64::from(of.round_trips)).sum();
    assert_eq!(sum, book.list.connections[0].round_trips, "rows and connections come to the same");
    (each, sum)
}

fn at_port(talk: &Talk, protocol: Protocol) -> Book {
    dissect(&talk.frames, &Selection { ports: vec![(6379, vec![protocol])], ..Selection::default() })
}

#[test]
fn a_serial_client_waits_for_each_answer() {
    let mut talk = Talk::new().handshake();
    // Enough for the memo to take over.
    for _ in 0..40 {
        talk = talk.send(Request, GET).send(Response, VALUE);
    }
    let book = talk.close().dissect();
    assert_eq!(counted(&book, "GET"), (vec![1; 40], 41));
    assert_eq!(book.row("CONNECT").operations[0].round_trips, 1);
    assert_eq!(book.list.connections[0].round_trips_to_answer, Some(2));
}

#[test]
fn a_pipeline_is_one_wait_of_its_first_operation() {
    let mut talk = Talk::new().handshake();
    for _ in 0..20 {
        talk = talk.send(Request, &[GET, GET].concat()).send(Request, GET).send(Response, &VALUE.repeat(3));
    }
    let (mut each, sum) = counted(&talk.dissect(), "GET");
    // The memo reports equal operations together.
    each.sort_unstable();
    assert_eq!((each, sum), ([vec![0; 40], vec![1; 20]].concat(), 21));
}

/// The second request was under way when the first answer passed the tap: it did not wait, wherever the tap is.
#[test]
fn what_was_sent_before_the_answer_came_joins_its_round_trip() {
    let sent = Talk::new().handshake().send(Request, GET).send(Request, GET).send(Response, VALUE);
    for talk in [sent.clone(), sent.swap(4, 5)] {
        let talk = talk.send(Response, VALUE).send(Request, GET).send(Response, VALUE);
        assert_eq!(counted(&talk.dissect(), "GET"), (vec![1, 0, 1], 3));
    }
}

/// Two requests in flight at all times: the third waits for the first, the fourth for nothing that was sent since.
#[test]
fn a_window_of_two_waits_every_second_time() {
    let mut talk = Talk::new().handshake().send(Request, &GET.repeat(2));
    for _ in 0..6 {
        talk = talk.send(Response, VALUE).send(Request, GET);
    }
    let book = talk.send(Response, &VALUE.repeat(2)).dissect();
    assert_eq!(counted(&book, "GET").0, [1, 0, 1, 0, 1, 0, 1, 0]);
}

#[test]
fn a_request_without_an_answer_starts_none() {
    const QUIET: &[u8] = b"set k 0 0 1 noreply\r\nv\r\n";
    let talk = Talk::new().handshake().send(Request, QUIET).send(Request, QUIET);
    let talk = talk.send(Request, b"get k\r\n").send(Response, b"VALUE k 0 1\r\nv\r\nEND\r\n");
    let book = at_port(&talk.send(Request, QUIET).close(), Protocol::Memcache);
    assert_eq!(counted(&book, "set"), (vec![0; 3], 2));
    assert_eq!(counted(&book, "get").0, [1]);
}

#[test]
fn a_step_inside_an_operation_is_a_wait() {
    let message = |kind: u8, body: &[u8]| [&[kind][..], &(body.len() as u32 + 4).to_be_bytes(), body].concat();
    let startup = [&16_u32.to_be_bytes()[..], &[0, 3, 0, 0], b"user\0u\0\0"].concat();
    let ready = [message(b'R', &[0; 4]), message(b'Z', b"I")].concat();
    let copy = message(b'Q', b"COPY t FROM STDIN\0");
    let copy_in = message(b'G', &[0, 0, 1, 0, 0]);
    let rows = message(b'd', b"a\n");
    let done = message(b'c', b"");
    let complete = [message(b'C', b"COPY 2\0"), message(b'Z', b"I")].concat();
    let talk = Talk::new().handshake().send(Request, &startup).send(Response, &ready);
    let talk = talk.send(Request, &copy).send(Response, &copy_in);
    let talk = talk.send(Request, &rows).ack(Response).send(Request, &rows).send(Request, &done);
    let book = at_port(&talk.send(Response, &complete), Protocol::Pgwire);
    assert_eq!(counted(&book, "COPY"), (vec![2], 4));
}

/// RFC 7413: the server takes the data of a SYN, so nobody waits for the handshake.
#[test]
fn data_in_the_syn_saves_the_wait_for_the_handshake() {
    let talk = Talk::new().segment(Request, "S", GET).segment(Response, "SA", b"").ack(Request).send(Response, VALUE);
    let book = talk.dissect();
    assert_eq!(counted(&book, "GET"), (vec![1], 1));
    assert_eq!(book.row("CONNECT").operations[0].round_trips, 0);
}

/// Requests by the clock, while the server takes turns at being slow: nothing shows a wait.
#[test]
fn a_client_that_sends_by_a_clock_is_noted_and_one_with_a_window_is_not() {
    let is_noted = |book: &Book| book.totals.notes.contains_key(&Note::Overlapping);
    let mut by_clock = Talk::new().handshake().send(Request, &GET.repeat(2));
    let mut window = Talk::new().handshake().send(Request, &GET.repeat(2));
    for round in 0..60 {
        window = window.send(Response, VALUE).send(Request, GET);
        by_clock = match round % 6 {
            0..3 => by_clock.send(Request, GET).send(Request, GET).send(Response, VALUE),
            _ => by_clock.send(Response, VALUE).send(Response, VALUE).send(Request, GET),
        };
    }
    assert!(is_noted(&by_clock.dissect()));
    assert!(!is_noted(&window.dissect()));
}

/// Flights of TLS without keys: each ends with a wait, whether or not the client reads the tickets before it asks.
#[test]
fn flights_of_tls_are_counted_without_keys() {
    const CHANGE: &[u8] = &[20, 3, 3, 0, 1, 1];
    let record = |kind: u8, body: &[u8]| [&[kind, 3, 3][..], &(body.len() as u16).to_be_bytes(), body].concat();
    let hello = |kind: u8, rest: &[u8]| {
        let body = [&[3, 3][..], &[7; 32], rest].concat();
        record(22, &[&[kind][..], &(body.len() as u32).to_be_bytes()[1..], &body].concat())
    };
    let (client, server) = (hello(1, &[0, 0, 2, 0x13, 1, 1, 0, 0, 0]), hello(2, &[0, 0x13, 1, 0]));
    let (handshake, data) = (record(22, &[9; 40]), record(23, &[9; 53]));
    let finished = [CHANGE, &handshake].concat();
    let tls13 = Talk::new().handshake().send(Request, &client).send(Response, &[&server, CHANGE, &data].concat());
    let tls13 = tls13.send(Request, &[CHANGE, &data].concat());
    let tls12 = Talk::new().handshake().send(Request, &client);
    let full = tls12.clone().send(Response, &server).send(Request, &[&handshake[..], &finished].concat());
    let resumed = tls12.send(Response, &[&server[..], &finished].concat()).send(Request, &finished);
    for (talk, round_trips) in [
        (tls13.clone().send(Response, &data).send(Request, &data), 3),
        (tls13.send(Request, &data).send(Response, &data), 3),
        (full.send(Response, &finished).send(Request, &data), 4),
        (resumed.send(Request, &data), 3),
    ] {
        let talk = talk.send(Response, &data).send(Request, &data).send(Response, &data).close();
        let book = at_port(&talk, Protocol::Resp);
        assert_eq!(counted(&book, "(encrypted)").1, round_trips + 1);
    }
}
