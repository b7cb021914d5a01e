//! Samples work by operation on one connection. Skips without root or a kernel with BTF.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[allow(dead_code)]
mod child;

use child::Child;
use overhead_kernel::{CounterOptions, Error, KernelCounters, ProcessSelection};
use overhead_model::{Account, Class, FrameFacts, Listener, Measured, Protocol, Side, TcpFlags, Trace};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

const BYTES: usize = 100;
/// The server's calls per message, by kind.
const CALLS: [u64; 2] = [1, 5];
const NAMES: [&str; 2] = ["SMALL", "LARGE"];

fn answer(listener: &TcpListener) {
    let (mut stream, _) = listener.accept().unwrap();
    let mut buffer = [0; BYTES];
    while stream.read_exact(&mut buffer).is_ok() {
        child::getppid(CALLS[usize::from(buffer[0])]);
        stream.write_all(&buffer).unwrap();
    }
}

/// Returns the sequence number of the next byte in a socket's queue (2: to send, 1: received), by TCP repair mode.
fn sequence(stream: &TcpStream, queue: i32) -> u32 {
    let fd = stream.as_raw_fd();
    let set = |name: i32, value: i32| {
        // SAFETY: the value outlives the call, which gets its size.
        let done = unsafe { libc::setsockopt(fd, libc::IPPROTO_TCP, name, (&raw const value).cast(), 4) };
        assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
    };
    set(libc::TCP_REPAIR, 1);
    set(libc::TCP_REPAIR_QUEUE, queue);
    let (mut value, mut len) = (0_u32, 4);
    // SAFETY: both places outlive the call and are large enough.
    let done =
        unsafe { libc::getsockopt(fd, libc::IPPROTO_TCP, libc::TCP_QUEUE_SEQ, (&raw mut value).cast(), &raw mut len) };
    assert_eq!(done, 0);
    // Ends repair mode without the window probe that 0 would send.
    set(libc::TCP_REPAIR, -1);
    value
}

fn now_ns() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64
}

/// Reports both frames of an operation as the dissector does.
fn add_exchange(listener: &mut dyn Listener, number: u64, kind: usize, ends: [SocketAddr; 2], starts: [u32; 2]) {
    for side in Side::BOTH {
        let at = side as usize;
        let frame = 2 * number + at as u64 + 1;
        listener.hear(Trace::Frame(FrameFacts {
            number: frame,
            connection: 1,
            time_ns: 0,
            wire_len: 0,
            headers: [0; 3],
            payload_len: BYTES as u32,
            flags: TcpFlags::default(),
            source: ends[at],
            destination: ends[1 - at],
            seq: starts[at].wrapping_add(number as u32 * BYTES as u32),
            window: 0,
        }));
        let (op, name) = (Some(number), NAMES[kind]);
        let class = Class::Workload;
        listener.hear(Trace::Labelled { op, protocol: Protocol::Resp, class, name, via: "", statement: "" });
        let (account, len) = (Account::Data, BYTES as u64);
        listener.hear(Trace::Posted { side, op, account, frame: Some(frame), len, in_order: true });
    }
}

#[test]
fn each_kind_of_operation_has_its_own_calls() {
    if !child::is_root() {
        println!("skipped: not root");
        return;
    }
    let socket = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = socket.local_addr().unwrap().port();
    let server = Child::waiting(move || answer(&socket));
    let mut options = CounterOptions::for_ports([port]);
    options.server = ProcessSelection::Pids(vec![server.pid]);
    options.by_operation = true;
    let mut counters = match KernelCounters::load(&options) {
        Ok(counters) => counters,
        Err(error @ (Error::NoBtf(_) | Error::PidNamespace | Error::Permission(_))) => {
            println!("skipped: {error}");
            return;
        }
        Err(error) => panic!("{error}"),
    };
    let Measured::Value(mut listener) = counters.sampling() else {
        println!("skipped: {:?}", counters.sampling());
        return;
    };
    let server = server.let_go();
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_nodelay(true).unwrap();
    let ends = [stream.local_addr().unwrap(), stream.peer_addr().unwrap()];
    let starts = [sequence(&stream, 2), sequence(&stream, 1)];
    counters.begin().unwrap();
    let mut sent = Vec::new();
    let end = Instant::now() + Duration::from_millis(1_500);
    while Instant::now() < end {
        let kind = usize::from(sent.len() % 4 == 3);
        sent.push((now_ns(), kind));
        let mut buffer = [kind as u8; BYTES];
        stream.write_all(&buffer).unwrap();
        stream.read_exact(&mut buffer).unwrap();
    }
    counters.stop_sampling();
    counters.mark_end().unwrap();
    for (number, (time_ns, kind)) in sent.iter().enumerate() {
        if listener.advance_to(*time_ns).0 {
            add_exchange(&mut listener, number as u64, *kind, ends, starts);
        }
    }
    let works = listener.finish().server_work();
    println!("{} operations, {works:#?}", sent.len());
    drop(stream);
    drop(server);
    for (kind, name) in NAMES.into_iter().enumerate() {
        let work = &works[name];
        assert!(work.sampled >= 10, "{name}: {}", work.sampled);
        let calls = |name: &str| work.syscalls.get(name).copied().unwrap_or(0.0);
        // A window may end between a read and its write.
        let is_about = |found: f64, wanted: f64| (found / wanted - 1.0).abs() < 0.02;
        assert!(is_about(calls("getppid"), CALLS[kind] as f64), "{name}: {work:?}");
        assert!(is_about(calls("recvfrom"), 1.0) && is_about(calls("sendto"), 1.0), "{name}: {work:?}");
    }
}
