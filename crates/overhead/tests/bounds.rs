//! Memory bounds under hostile or lopsided traffic, checked with an allocator that counts live bytes.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

use etherparse::PacketBuilder;
use overhead_dissect::{Dissector, Selection, Totals};
use overhead_model::record::OperationRow;
use overhead_model::{Class, Frame, LinkType, Protocol, Side};
use overhead_report::Aggregate;
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// The system's allocator, which knows how many bytes of it each thread has, and how many it had at most.
struct Counting;

thread_local! {
    static LIVE: Cell<isize> = const { Cell::new(0) };
    static MOST: Cell<isize> = const { Cell::new(0) };
}

fn count(bytes: isize) {
    let live = LIVE.try_with(|live| {
        live.set(live.get() + bytes);
        live.get()
    });
    // A thread that is ending asks for nothing that counts here.
    let _ = live.map(|live| MOST.try_with(|most| most.set(most.get().max(live))));
}

// SAFETY: every call is handed on as it came, and counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size().cast_signed());
        // SAFETY: the caller keeps to the contract of this very function.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        count(-layout.size().cast_signed());
        // SAFETY: as above; the memory is of the same allocator.
        unsafe { System.dealloc(memory, layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size.cast_signed() - layout.size().cast_signed());
        // SAFETY: as above.
        unsafe { System.realloc(memory, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// A capture that is made up as it is dissected.
struct Traffic {
    dissector: Dissector<Aggregate>,
    time_ns: u64,
    frame: Vec<u8>,
    live: isize,
}

/// One end of a connection: its address, as the number of a client or none for the server, and its port.
type End = (Option<u32>, u16);

const SERVER: End = (None, 6379);

fn address(end: End) -> [u8; 4] {
    end.0.map_or([10, 255, 255, 254], |number| (0x0a00_0000 + number).to_be_bytes())
}

impl Traffic {
    fn new() -> Self {
        let dissector = Dissector::new(Selection::default(), Aggregate::new());
        let traffic = Self { dissector, time_ns: 1_700_000_000_000_000_000, frame: Vec::new(), live: LIVE.get() };
        MOST.set(LIVE.get());
        traffic
    }

    /// A segment 10 µs after the last one.
    fn send(&mut self, from: End, to: End, (seq, ack): (u32, u32), flags: &str, payload: &[u8]) {
        self.time_ns += 10_000;
        self.frame.clear();
        let builder = PacketBuilder::ethernet2([0; 6], [0; 6]).ipv4(address(from), address(to), 64);
        let mut builder = builder.tcp(from.1, to.1, seq, 512);
        for flag in flags.chars() {
            builder = match flag {
                'S' => builder.syn(),
                'F' => builder.fin(),
                _ => builder.ack(ack),
            };
        }
        builder.write(&mut self.frame, payload).unwrap();
        let (original_len, bytes) = (self.frame.len() as u32, self.frame.as_slice());
        let frame = Frame { time_ns: self.time_ns, link: LinkType::ETHERNET, original_len, interface: 0, bytes };
        self.dissector.frame(&frame);
    }

    /// The rows and totals, once it is checked that everything adds up, and the most live bytes in MiB at any time.
    fn end(self) -> (Vec<OperationRow>, Totals, isize) {
        let most = (MOST.get() - self.live) >> 20;
        let (aggregate, totals) = self.dissector.finish();
        let posted: u64 = Side::BOTH.iter().map(|&side| aggregate.ledger(side).total()).sum();
        assert_eq!(posted + totals.other, totals.wire_bytes, "the ledger balances");
        (aggregate.operations(), totals, most)
    }
}

#[test]
fn a_million_syns_take_no_more_than_the_connections_that_are_kept() {
    let mut traffic = Traffic::new();
    for number in 0..1_000_000 {
        traffic.send((Some(number), 40_000), SERVER, (number, 0), "S", &[]);
    }
    let (rows, totals, most) = traffic.end();
    assert_eq!(totals.tcp.connections, 1_000_000);
    assert_eq!(totals.tcp.given_up, 1_000_000 - overhead_dissect::limits::BARE as u64);
    assert_eq!((rows.len(), rows[0].count), (1, 1_000_000));
    assert!(most < 100, "{most} MiB for {} half-open connections", overhead_dissect::limits::BARE);
}

#[test]
fn a_flood_spares_connections_that_the_server_has_answered() {
    let mut traffic = Traffic::new();
    let client = (Some(9_999_999), 40_000);
    traffic.send(client, SERVER, (999, 0), "S", &[]);
    traffic.send(SERVER, client, (4_999, 1_000), "SA", &[]);
    for number in 0..100_000 {
        traffic.send((Some(number), 40_000), SERVER, (number, 0), "S", &[]);
    }
    traffic.send(client, SERVER, (1_000, 5_000), "A", b"*1\r\n$4\r\nPING\r\n");
    traffic.send(SERVER, client, (5_000, 1_014), "A", b"+PONG\r\n");
    let (rows, totals, _) = traffic.end();
    assert_eq!(totals.tcp.connections, 100_001, "the connection is still the one that began before the flood");
    assert!(rows.iter().any(|row| row.name == "PING" && row.count == 1 && row.unanswered == 0));
}

#[test]
fn connections_on_ports_used_again_take_a_bounded_table() {
    let mut traffic = Traffic::new();
    let (get, value) = (b"*2\r\n$3\r\nGET\r\n$3\r\nkey\r\n", b"$5\r\nvalue\r\n");
    for number in 0..250_000_u32 {
        let client = (Some(number / 20_000 % 4), 20_000 + (number % 20_000) as u16);
        let (seq, ack) = (number.wrapping_mul(1_000), number.wrapping_mul(777));
        let (asked, answered) = (seq.wrapping_add(23), ack.wrapping_add(12));
        traffic.send(client, SERVER, (seq, 0), "S", &[]);
        traffic.send(client, SERVER, (seq.wrapping_add(1), ack.wrapping_add(1)), "A", get);
        traffic.send(SERVER, client, (ack.wrapping_add(1), asked), "A", value);
        traffic.send(client, SERVER, (asked, answered), "FA", &[]);
        traffic.send(SERVER, client, (answered, asked.wrapping_add(1)), "FA", &[]);
    }
    let (rows, totals, most) = traffic.end();
    assert_eq!((totals.tcp.connections, totals.tcp.given_up), (250_000, 0));
    assert!(rows.iter().any(|row| row.name == "GET" && row.count == 250_000 && row.unanswered == 0));
    assert!(most < 400, "{most} MiB");
}

#[test]
fn a_million_command_names_take_a_bounded_number_of_rows() {
    let mut traffic = Traffic::new();
    let client = (Some(1), 40_000);
    let (mut seq, mut ack) = (1_000_u32, 5_000_u32);
    // In descending order, so that each one precedes all that are kept.
    for batch in (0..20_000).rev() {
        let names = (0..50).rev().map(|name| format!("*1\r\n$9\r\nN{:08}\r\n", batch * 50 + name));
        let (asked, answered) = (names.collect::<String>(), "+OK\r\n".repeat(50));
        traffic.send(client, SERVER, (seq, ack), "A", asked.as_bytes());
        seq = seq.wrapping_add(asked.len() as u32);
        traffic.send(SERVER, client, (ack, seq), "A", answered.as_bytes());
        ack = ack.wrapping_add(answered.len() as u32);
    }
    let (rows, _, most) = traffic.end();
    assert_eq!(rows.iter().filter(|row| row.class == Class::Workload).map(|row| row.count).sum::<u64>(), 1_000_000);
    assert!(rows.len() < 1_100, "{} rows", rows.len());
    assert!(most < 20, "{most} MiB");
}

#[test]
fn requests_of_a_capture_of_one_direction_do_not_pile_up() {
    for (protocol, port, request) in [
        (Protocol::Resp, 6379, b"*2\r\n$3\r\nGET\r\n$3\r\nkey\r\n".to_vec()),
        (Protocol::Pgwire, 5432, b"Q\0\0\0\x0dSELECT 1\0".to_vec()),
        (Protocol::Cql, 9042, b"\x04\0\0\x01\x07\0\0\0\x1f\0\0\0\x18INSERT INTO k.t VALUES 1\0\x01\0".to_vec()),
        (
            Protocol::Mongo,
            27017,
            b"\x24\0\0\0\x07\0\0\0\0\0\0\0\xdd\x07\0\0\0\0\0\0\0\x0f\0\0\0\x10ping\0\x01\0\0\0\0".to_vec(),
        ),
    ] {
        let mut traffic = Traffic::new();
        let (client, server) = ((Some(1), 40_000), (None, port));
        let mut seq = 1_000_u32;
        let mut sent = 0_u64;
        for _ in 0..5_000 {
            let mut requests = Vec::new();
            for _ in 0..20 {
                let mut request = request.clone();
                sent += 1;
                if protocol == Protocol::Mongo {
                    request[4..8].copy_from_slice(&(sent as u32).to_le_bytes());
                } else if protocol == Protocol::Cql {
                    request[2..4].copy_from_slice(&(sent as u16 & 0x7fff).to_be_bytes());
                }
                requests.extend(request);
            }
            traffic.send(client, server, (seq, 5_000), "A", &requests);
            seq = seq.wrapping_add(requests.len() as u32);
        }
        let (rows, totals, most) = traffic.end();
        assert_eq!((totals.tcp.request_only, totals.tcp.response_only), (1, 0), "{protocol}");
        let workload: Vec<_> = rows.iter().filter(|row| row.class == Class::Workload).collect();
        assert_eq!(workload.iter().map(|row| row.count).sum::<u64>(), sent, "{protocol}");
        assert_eq!(workload.iter().map(|row| row.unanswered).sum::<u64>(), sent, "{protocol}");
        assert!(
            workload.iter().all(|row| row.response.unseen.is_some() && row.latency_ns.or_empty().count == 0),
            "{protocol}"
        );
        assert!(most < 4, "{protocol}: {most} MiB for {sent} requests");
    }
}

/// A packet of `MySQL`, compressed or not.
fn mysql_packet(number: u8, plain: Option<usize>, body: &[u8]) -> Vec<u8> {
    let length = |length: usize| (length as u32).to_le_bytes()[..3].to_vec();
    [length(body.len()), vec![number], plain.map(length).unwrap_or_default(), body.to_vec()].concat()
}

#[test]
fn a_small_packet_of_a_million_answers_takes_little_more_than_its_content() {
    let greeting = b"\x0a8.0.36\0\x09\0\0\0abcdefgh\0\xff\xff\x21\x02\0\xff\xc1\x15\0\0\0\0\0\0\0\0\0\0ijklmnopqrst\0mysql_native_password\0";
    let flags = 0x0008_aaad_u32.to_le_bytes();
    let login = [&flags, &[0, 0, 0, 1, 33][..], &[0; 23], b"me\0\0mysql_native_password\0"].concat();
    let ok = b"\0\0\0\x02\0\0\0";
    let answers = mysql_packet(1, None, ok).repeat(1_400_000);
    let packed = zstd::bulk::compress(&answers, 3).unwrap();
    // The start of a long packet keeps its content until the end.
    let start = [vec![0, 0, 0x7e, 1], vec![0; 0x7d_0000]].concat();
    let (start, length) = (zstd::bulk::compress(&start, 3).unwrap(), start.len());
    for (held, name) in [(false, "answers"), (true, "answers behind a long packet")] {
        let mut traffic = Traffic::new();
        traffic.dissector = Dissector::new(Selection::default(), Aggregate::new()).within(32 << 20);
        let (client, server) = ((Some(1), 40_000), (None, 3306));
        let mut next = [1_000_u32, 5_000];
        let mut turns = vec![
            (1, mysql_packet(0, None, greeting)),
            (0, mysql_packet(1, None, &login)),
            (1, mysql_packet(2, None, ok)),
        ];
        turns.extend(held.then(|| (1, mysql_packet(1, Some(length), &start))));
        turns.push((1, mysql_packet(1, Some(answers.len()), &packed)));
        for (side, bytes) in turns {
            let (from, to) = if side == 0 { (client, server) } else { (server, client) };
            for part in bytes.chunks(1_400) {
                traffic.send(from, to, (next[side], next[1 - side]), "A", part);
                next[side] += part.len() as u32;
            }
        }
        let content = (answers.len() + if held { length } else { 0 }) >> 20;
        let (rows, totals, most) = traffic.end();
        let notes = format!("{:?}", totals.notes);
        assert!(notes.contains("ManyOperations") || held, "{name}: {notes}");
        assert!(most < content.cast_signed() + 12, "{name}: {most} MiB for {content} MiB, {} rows", rows.len());
    }
}

#[test]
fn a_flood_says_how_many_connections_were_given_up() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("flood.pcap");
    let mut file = vec![0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 1, 0, 0, 0];
    for number in 0..overhead_dissect::limits::BARE as u32 + 5_000 {
        let builder = PacketBuilder::ethernet2([0; 6], [0; 6]);
        let builder = builder.ipv4(address((Some(number), 0)), address(SERVER), 64);
        let mut frame = Vec::new();
        builder.tcp(40_000, 6379, number, 512).syn().write(&mut frame, &[]).unwrap();
        let header = [1_700_000_000, number % 1_000_000, frame.len() as u32, frame.len() as u32];
        for word in header {
            file.extend(word.to_le_bytes());
        }
        file.extend(frame);
    }
    std::fs::write(&path, file).unwrap();
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_overhead"));
    let output = command.args(["analyze", "--format", "json"]).arg(&path).output().unwrap();
    assert_eq!(output.status.code(), Some(3), "{}", String::from_utf8_lossy(&output.stderr));
    let record: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(record["tcp"]["given_up"], 5_000);
}
