use super::super::weight;
use super::*;
use overhead_model::{Account, FrameFacts, Side, TcpFlags};

const CLIENT: &str = "10.0.0.9:40000";
const SERVER: &str = "10.0.0.1:6379";
const SLOT: u32 = 3;

fn end(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

fn frame(listener: &mut WorkListener, number: u64, side: Side, seq: u32, len: u32) {
    let (source, destination) = match side {
        Side::Request => (end(CLIENT), end(SERVER)),
        Side::Response => (end(SERVER), end(CLIENT)),
    };
    listener.hear(Trace::Frame(FrameFacts {
        number,
        connection: 1,
        time_ns: 0,
        wire_len: 0,
        headers: [0; 3],
        payload_len: len,
        flags: TcpFlags::default(),
        source,
        destination,
        seq,
        window: 0,
    }));
}

fn post(listener: &mut WorkListener, op: u64, side: Side, frame: u64, len: u64) {
    listener.hear(Trace::Posted {
        side,
        op: Some(op),
        account: Account::Data,
        frame: Some(frame),
        len,
        in_order: true,
    });
}

fn label(listener: &mut WorkListener, op: u64, name: &str) {
    listener.hear(Trace::Labelled {
        op: Some(op),
        protocol: Protocol::Resp,
        class: Class::Workload,
        name,
        via: "",
        statement: "",
    });
}

fn slice(side: Side, seq: u32, len: u32, ns: f64, call: u16) -> WorkSlice {
    let (from, to) = if side == Side::Request { (end(CLIENT), end(SERVER)) } else { (end(SERVER), end(CLIENT)) };
    let kind = SliceKind::Bytes { from, to, is_send: side == Side::Response, is_empty: false, seq, len };
    WorkSlice { tid: 7, slot: SLOT, kind, work: CpuWork { ns, in_calls_ns: 0.0, calls: BTreeMap::from([(call, 1.0)]) } }
}

fn joined(hear: impl FnOnce(&mut WorkListener), slices: Vec<WorkSlice>) -> SampledWork {
    let exchange = Arc::new(SliceExchange::default());
    exchange.plan(SamplingWindow { number: 0, start_unix_ns: 10_000_000, end_unix_ns: 20_000_000 });
    exchange.lock().waiting = slices.len();
    exchange.lock().slices.insert(0, slices);
    exchange.lock().lengths.insert(0, 10_000_000);
    let mut listener = WorkListener::new(exchange);
    assert_eq!(listener.advance_to(1_000_000), (false, 5_000_000));
    assert_eq!(listener.advance_to(5_000_000), (true, 25_000_000));
    hear(&mut listener);
    listener.finish()
}

fn kind_named<'a>(work: &'a SampledWork, name: &str) -> &'a KindWork {
    let number = work.kinds.iter().position(|kind| kind.name == name).unwrap();
    &work.slots[&SLOT].kinds[&number]
}

/// Two requests, the second read in two halves. Sequence numbers wrap around.
#[test]
fn slices_go_to_the_operations_whose_bytes_they_are() {
    let start = u32::MAX - 4;
    let work = joined(
        |listener| {
            frame(listener, 1, Side::Request, start, 30);
            label(listener, 1, "GET");
            post(listener, 1, Side::Request, 1, 10);
            label(listener, 2, "SET");
            post(listener, 2, Side::Request, 1, 20);
            frame(listener, 2, Side::Response, 500, 5);
            post(listener, 1, Side::Response, 2, 5);
        },
        vec![
            slice(Side::Request, start, 10, 100.0, 0),
            slice(Side::Request, start.wrapping_add(10), 10, 40.0, 0),
            slice(Side::Request, start.wrapping_add(20), 10, 60.0, 0),
            slice(Side::Response, 500, 5, 7.0, 1),
            WorkSlice { kind: SliceKind::Loop, ..slice(Side::Request, 0, 1, 30.0, 232) },
            slice(Side::Response, 900, 5, 11.0, 1),
        ],
    );
    let (get, set) = (kind_named(&work, "GET"), kind_named(&work, "SET"));
    assert_eq!((get.operations, get.own.ns), (1.0, 107.0));
    assert_eq!((set.operations, set.own.ns, set.own.calls[&0]), (1.0, 100.0, 2.0));
    assert_eq!(get.own.calls, BTreeMap::from([(0, 1.0), (1, 1.0)]));
    let slot = &work.slots[&SLOT];
    assert_eq!((slot.threads[&7].shared.ns, slot.unattributed.ns, slot.slices), (30.0, 11.0, 6));
    assert_eq!((get.divided_ns, set.divided_ns), (0.0, 0.0));
}

/// The first round reads a GET, the second two SETs and a GET, the third nothing.
#[test]
fn the_loops_work_is_for_the_operations_of_its_round() {
    let turn = |ns| WorkSlice { kind: SliceKind::Loop, ..slice(Side::Request, 0, 1, ns, 232) };
    let work = joined(
        |listener| {
            frame(listener, 1, Side::Request, 0, 40);
            for (op, name) in [(1, "GET"), (2, "SET"), (3, "SET"), (4, "GET")] {
                label(listener, op, name);
                post(listener, op, Side::Request, 1, 10);
            }
        },
        vec![
            turn(20.0),
            slice(Side::Request, 0, 10, 1.0, 0),
            turn(90.0),
            slice(Side::Request, 10, 10, 1.0, 0),
            slice(Side::Request, 20, 10, 1.0, 0),
            slice(Side::Request, 30, 10, 1.0, 0),
            turn(7.0),
        ],
    );
    let (get, set) = (kind_named(&work, "GET"), kind_named(&work, "SET"));
    assert!((get.rounds.ns - 50.0).abs() < 1e-9 && (set.rounds.ns - 60.0).abs() < 1e-9, "{get:?} {set:?}");
    assert!((work.slots[&SLOT].threads[&7].shared.ns - 7.0).abs() < 1e-9);
}

/// One call reads two requests, which get equal shares.
#[test]
fn a_call_for_several_operations_is_divided_and_said_to_be() {
    let work = joined(
        |listener| {
            frame(listener, 1, Side::Request, 0, 110);
            label(listener, 1, "GET");
            post(listener, 1, Side::Request, 1, 10);
            label(listener, 2, "SET");
            post(listener, 2, Side::Request, 1, 100);
        },
        vec![slice(Side::Request, 0, 110, 50.0, 0)],
    );
    for name in ["GET", "SET"] {
        let sums = kind_named(&work, name);
        assert_eq!((sums.operations, sums.own.ns, sums.divided_ns, sums.own.calls[&0]), (1.0, 25.0, 25.0, 0.5));
    }
}

/// The operation started before listening did, so it has no name.
#[test]
fn what_has_no_name_is_charged_to_nothing() {
    let work = joined(
        |listener| {
            frame(listener, 1, Side::Request, 0, 10);
            post(listener, 1, Side::Request, 1, 10);
        },
        vec![slice(Side::Request, 0, 10, 50.0, 0)],
    );
    let slot = &work.slots[&SLOT];
    assert!(slot.kinds.is_empty());
    assert_eq!((slot.unattributed.ns, slot.unattributed.count()), (50.0, 1.0));
    assert_eq!((slot.moved, slot.unknown), (1.0, 1.0));
}

#[test]
fn bytes_of_no_operation_are_not_unknown() {
    let work = joined(
        |listener| {
            frame(listener, 1, Side::Request, 0, 10);
            listener.hear(Trace::Posted {
                side: Side::Request,
                op: None,
                account: Account::Data,
                frame: Some(1),
                len: 10,
                in_order: true,
            });
        },
        vec![slice(Side::Request, 0, 10, 50.0, 0)],
    );
    let slot = &work.slots[&SLOT];
    assert_eq!((slot.unattributed.ns, slot.moved, slot.unknown), (50.0, 1.0, 0.0));
}

/// With long windows, a request in one and its response in the next keep their name.
#[test]
fn operations_that_take_longer_than_a_window_keep_their_names() {
    const MS: u64 = 1_000_000;
    let exchange = Arc::new(SliceExchange::default());
    let answer = slice(Side::Response, 500, 5, 7.0, 1);
    for (number, slices) in [(0, vec![slice(Side::Request, 0, 10, 100.0, 0)]), (1, vec![answer])] {
        let start_unix_ns = (100 + 200 * u64::from(number)) * MS;
        exchange.plan(SamplingWindow { number, start_unix_ns, end_unix_ns: start_unix_ns + 100 * MS });
        exchange.lock().waiting += 1;
        exchange.lock().lengths.insert(number, 100 * MS);
        exchange.lock().slices.insert(number, slices);
    }
    let mut listener = WorkListener::new(exchange);
    assert_eq!(listener.advance_to(0), (true, 95 * MS));
    assert_eq!(listener.advance_to(100 * MS), (true, 205 * MS));
    frame(&mut listener, 1, Side::Request, 0, 10);
    label(&mut listener, 1, "SELECT");
    post(&mut listener, 1, Side::Request, 1, 10);
    assert_eq!(listener.advance_to(205 * MS), (true, 295 * MS));
    assert_eq!(listener.advance_to(300 * MS), (true, 405 * MS));
    frame(&mut listener, 2, Side::Response, 500, 5);
    post(&mut listener, 1, Side::Response, 2, 5);
    let work = listener.finish();
    let sums = kind_named(&work, "SELECT");
    assert!((sums.own.count() - 0.2).abs() < 1e-9 && (sums.operations - 0.1).abs() < 1e-9, "{sums:?}");
    assert_eq!((work.slots[&SLOT].unattributed.ns, work.slots[&SLOT].unknown), (0.0, 0.0));
}

/// A window of a quarter of the length counts four times as much, but the number of sampled operations stays.
#[test]
fn short_windows_weigh_more() {
    let (short, long) = (weight(2_500_000), weight(10_000_000));
    assert!((short - 4.0 * long).abs() < 1e-9);
    let work = slice(Side::Request, 0, 10, 50.0, 0).weighted(4.0).work;
    assert_eq!((work.ns, work.count()), (200.0, 4.0));
}

#[test]
fn windows_without_frames_are_passed_over() {
    let exchange = Arc::new(SliceExchange::default());
    for number in 0..3 {
        let start_unix_ns = 100_000_000 * (u64::from(number) + 1);
        exchange.plan(SamplingWindow { number, start_unix_ns, end_unix_ns: start_unix_ns + 1_000_000 });
    }
    let mut listener = WorkListener::new(Arc::clone(&exchange));
    assert_eq!(listener.advance_to(290_000_000), (false, 295_000_000));
    assert_eq!(listener.advance_to(300_000_000), (true, 306_000_000));
    assert_eq!(listener.advance_to(400_000_000), (false, 401_000_000));
}
