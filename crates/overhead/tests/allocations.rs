//! In the steady state nothing is allocated: neither for a frame nor for an operation.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

use etherparse::PacketBuilder;
use overhead_dissect::{Dissector, Selection};
use overhead_model::{Class, Frame, LinkType};
use overhead_report::Aggregate;
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// The system's allocator, which counts what each thread asks it for.
struct Counting;

thread_local! {
    static ASKED: Cell<u64> = const { Cell::new(0) };
}

fn ask() {
    // A thread that is ending asks for nothing that counts here.
    let _ = ASKED.try_with(|asked| asked.set(asked.get() + 1));
}

// SAFETY: every call is handed on as it came, and counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ask();
        // SAFETY: the caller keeps to the contract of this very function.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: as above; the memory is of the same allocator.
        unsafe { System.dealloc(memory, layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ask();
        // SAFETY: as above.
        unsafe { System.realloc(memory, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// A connection on which the same exchange is had again and again.
struct Talk {
    port: u16,
    request: Vec<u8>,
    response: Vec<u8>,
    sent: [u32; 2],
    time_ns: u64,
}

impl Talk {
    fn frame(&mut self, to_server: bool) -> Vec<u8> {
        let (from, to) = if to_server { (40_000, self.port) } else { (self.port, 40_000) };
        let payload = if to_server { &self.request } else { &self.response };
        let [mine, theirs] = if to_server { self.sent } else { [self.sent[1], self.sent[0]] };
        let builder = PacketBuilder::ethernet2([0; 6], [0; 6]).ipv4([127, 0, 0, 1], [127, 0, 0, 1], 64);
        let mut frame = Vec::new();
        builder.tcp(from, to, mine, 512).ack(theirs).write(&mut frame, payload).unwrap();
        self.sent[usize::from(!to_server)] = mine.wrapping_add(payload.len() as u32);
        frame
    }

    fn exchanges(&mut self, count: usize) -> Vec<(u64, Vec<u8>)> {
        let mut frames = Vec::with_capacity(2 * count);
        for _ in 0..count {
            for to_server in [true, false] {
                self.time_ns += 20_000;
                frames.push((self.time_ns, self.frame(to_server)));
            }
        }
        frames
    }
}

/// Calls to the allocator while 2,000 further exchanges are taken in, and the workload operations in all.
fn asked(port: u16, request: &[u8], response: &[u8], per_exchange: u64) -> u64 {
    let (request, response) = (request.to_vec(), response.to_vec());
    let mut talk = Talk { port, request, response, sent: [1_000, 9_000], time_ns: 1_700_000_000_000_000_000 };
    let mut dissector = Dissector::new(Selection::default(), Aggregate::new());
    let mut take = |frames: &[(u64, Vec<u8>)]| {
        let before = ASKED.get();
        for (time_ns, bytes) in frames {
            let (link, original_len) = (LinkType::ETHERNET, bytes.len() as u32);
            dissector.frame(&Frame { time_ns: *time_ns, link, original_len, interface: 0, bytes });
        }
        ASKED.get() - before
    };
    let (first, then) = (talk.exchanges(200), talk.exchanges(2_000));
    take(&first);
    let asked = take(&then);
    let (aggregate, _) = dissector.finish();
    assert_eq!(aggregate.class_totals(Class::Workload).0, 2_200 * per_exchange, "operations on port {port}");
    asked
}

#[test]
fn redis_get_and_set() {
    let get = b"*2\r\n$3\r\nGET\r\n$3\r\nkey\r\n";
    let set = b"*3\r\n$3\r\nSET\r\n$3\r\nkey\r\n$5\r\nvalue\r\n";
    assert_eq!(asked(6379, get, b"$5\r\nvalue\r\n", 1), 0);
    assert_eq!(asked(6379, set, b"+OK\r\n", 1), 0);
}

#[test]
fn redis_pipelined() {
    let (get, set) = ("*2\r\n$3\r\nGET\r\n$3\r\nkey\r\n", "*3\r\n$3\r\nSET\r\n$3\r\nkey\r\n$5\r\nvalue\r\n");
    let requests = [get, set].repeat(8).concat();
    assert_eq!(asked(6379, requests.as_bytes(), "$5\r\nvalue\r\n+OK\r\n".repeat(8).as_bytes(), 16), 0);
}

#[test]
fn postgres_simple_query() {
    let query = b"Q\0\0\0\x0dSELECT 1\0";
    let answer = b"T\0\0\0\x1a\0\x01?\0\0\0\0\0\0\0\0\0\0\x17\0\x04\xff\xff\xff\xff\0\0\
                   D\0\0\0\x0b\0\x01\0\0\0\x011C\0\0\0\x0dSELECT 1\0Z\0\0\0\x05I";
    assert_eq!(asked(5432, query, answer, 1), 0);
}

#[test]
fn cql_query() {
    let query = b"\x04\0\0\x01\x07\0\0\0\x1f\0\0\0\x18INSERT INTO k.t VALUES 1\0\x01\0";
    assert_eq!(asked(9042, query, b"\x84\0\0\x01\x08\0\0\0\x04\0\0\0\x01", 1), 0);
}

/// An `OP_MSG` with this document: elements, each a type, a name and a value.
fn op_msg(id: u32, answers: u32, elements: &[(u8, &str, &[u8])]) -> Vec<u8> {
    let mut document = Vec::new();
    for (kind, name, value) in elements {
        document.extend([&[*kind], name.as_bytes(), &[0], value].concat());
    }
    let len = 5 + document.len() as u32;
    let header = [16 + 4 + 1 + len, id, answers, 2013, 0];
    let mut message: Vec<u8> = header.iter().flat_map(|word| word.to_le_bytes()).collect();
    message.push(0);
    message.extend(len.to_le_bytes());
    message.extend(document);
    message.push(0);
    message
}

#[test]
fn mongodb_insert() {
    let insert = op_msg(7, 0, &[(2, "insert", b"\x02\0\0\0t\0"), (2, "$db", b"\x02\0\0\0d\0")]);
    let answer = op_msg(8, 7, &[(16, "n", b"\x01\0\0\0"), (1, "ok", &1_f64.to_le_bytes())]);
    assert_eq!(asked(27017, &insert, &answer, 1), 0);
}
