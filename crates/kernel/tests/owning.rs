//! Checks whose counters are attributed to captured connections. Skips without root or a kernel with BTF.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[allow(dead_code)]
mod child;

use child::{Child, calls, counters, named};
use overhead_kernel::{CapturedConnection, CounterOptions, KernelCounters, ProcessRole, ProcessSelection};
use overhead_model::Protocol;
use overhead_model::record::{self, Measured};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};

/// Returns false if sockets cannot be observed.
fn sees_sockets(record: &record::Counters) -> bool {
    let reason = record.server.value().and_then(|server| server.socket.reason());
    if let Some(reason) = reason {
        println!("skipped: {reason}");
    }
    reason.is_none()
}

/// A server that calls `getppid` and answers, for each message of 100 bytes on one connection.
#[expect(clippy::needless_pass_by_value, reason = "it is what a child works with")]
fn echo(listener: TcpListener) {
    let (mut stream, _) = listener.accept().unwrap();
    let mut buffer = [0; 100];
    while stream.read_exact(&mut buffer).is_ok() {
        child::getppid(1);
        stream.write_all(&buffer).unwrap();
    }
}

/// A server process that waits to [`echo`].
fn echoing(port: u16) -> Child {
    Child::waiting_after(move || TcpListener::bind(("127.0.0.1", port)).unwrap(), echo)
}

fn ask(stream: &mut TcpStream, times: usize) {
    let mut buffer = [0; 100];
    for _ in 0..times {
        stream.write_all(&buffer).unwrap();
        stream.read_exact(&mut buffer).unwrap();
    }
}

/// A client process with a fixed port, which the tests name as captured.
fn asking(from: u16, to: u16, times: usize) -> Child {
    let local: SocketAddr = ([127, 0, 0, 1], from).into();
    Child::waiting(move || {
        let socket = child::bound(local);
        ask(&mut child::connected(socket, ([127, 0, 0, 1], to).into()), times);
    })
}

/// Counts while a client talks to a server, until both have ended.
fn exchange(counters: &mut KernelCounters, server: Child, client: Child) {
    counters.begin().unwrap();
    let server = server.let_go();
    client.run();
    server.join();
    counters.mark_end().unwrap();
}

fn captured(from: u16, to: u16, payload_bytes: u64) -> CapturedConnection {
    let end = |port| SocketAddr::from(([127, 0, 0, 1], port));
    CapturedConnection { client: end(from), server: end(to), protocol: Protocol::Resp, payload_bytes }
}

#[test]
fn a_server_on_the_same_port_in_another_namespace_is_not_counted() {
    if !child::is_root() {
        return println!("skipped: a network namespace needs root");
    }
    let (port, from) = (child::free_port(), child::free_port());
    let ours = echoing(port);
    let other = Child::waiting_after(
        move || {
            assert!(child::leave_network_namespace());
            child::raise_loopback();
            TcpListener::bind(("127.0.0.1", port)).unwrap()
        },
        |listener| {
            child::getppid(5_000);
            child::talk_to_itself(&listener, 50_000);
        },
    );
    let Some(mut counters) = counters(&CounterOptions::for_ports([port])) else { return };
    counters.begin().unwrap();
    let client = asking(from, port, 50);
    let pids = (ours.pid, client.pid, other.pid);
    let ours = ours.let_go();
    client.run();
    other.run();
    ours.join();
    counters.mark_end().unwrap();
    let record = counters.attribute(&[captured(from, port, 10_000)]).unwrap();
    if !sees_sockets(&record) {
        return;
    }
    let (server, client) = (record.server.value().unwrap(), record.client.value().unwrap());
    assert_eq!((server.pids.as_slice(), client.pids.as_slice()), ([pids.0].as_slice(), [pids.1].as_slice()));
    assert_eq!((calls(server, "getppid"), calls(client, "connect")), (50, 1));
    for role in [server, client] {
        assert_eq!((role.coverage.value(), role.captured_share.value()), (Some(&1.0), Some(&1.0)), "{role:?}");
        assert_eq!(role.withheld, None);
    }
    let warnings = counters.warnings();
    let named = format!("(process {}, in another network namespace)", pids.2);
    assert!(warnings.iter().any(|warning| warning.contains(&named)), "{warnings:?}");
}

#[test]
fn the_share_that_the_capture_saw_is_said_and_figures_are_withheld_where_it_is_small() {
    let (port, from) = (child::free_port(), child::free_port());
    let server = echoing(port);
    let Some(mut counters) = counters(&CounterOptions::for_ports([port])) else { return };
    exchange(&mut counters, server, asking(from, port, 100));
    let whole = counters.attribute(&[captured(from, port, 20_000)]).unwrap();
    if !sees_sockets(&whole) {
        return;
    }
    assert_eq!(whole.server.value().unwrap().coverage, Measured::Value(1.0));
    assert_eq!(counters.warnings(), Vec::<String>::new());
    let most = counters.attribute(&[captured(from, port, 19_000)]).unwrap();
    assert_eq!(most.server.value().unwrap().withheld, None);
    assert!(counters.warnings().iter().any(|warning| warning.contains("about 5%")), "{:?}", counters.warnings());
    let part = counters.attribute(&[captured(from, port, 3_000)]).unwrap();
    for role in [part.server.value().unwrap(), part.client.value().unwrap()] {
        assert_eq!(role.coverage, Measured::Value(0.15));
        assert!(role.withheld.as_ref().unwrap().contains("15.0% of the bytes"), "{:?}", role.withheld);
    }
    let others = [captured(from, port, 20_000), captured(1, port, 20_000)];
    let shared = counters.attribute(&others).unwrap();
    assert!(shared.client.value().unwrap().withheld.as_ref().unwrap().contains("50.0% of the captured bytes"));
}

#[test]
fn two_protocols_are_counted_apart() {
    let ports = [child::free_port(), child::free_port()];
    let from = [child::free_port(), child::free_port()];
    let servers = ports.map(echoing);
    let Some(mut counters) = counters(&CounterOptions::for_ports(ports)) else { return };
    counters.begin().unwrap();
    let clients = [asking(from[0], ports[0], 10), asking(from[1], ports[1], 30)];
    let pids = [servers[0].pid, servers[1].pid];
    let servers = servers.map(Child::let_go);
    let _ = clients.map(Child::run);
    let _ = servers.map(Child::join);
    counters.mark_end().unwrap();
    let second = CapturedConnection { protocol: Protocol::Pgwire, ..captured(from[1], ports[1], 6_000) };
    let record = counters.attribute(&[captured(from[0], ports[0], 2_000), second]).unwrap();
    if !sees_sockets(&record) {
        return;
    }
    assert!(record.server.value().unwrap().withheld.as_ref().unwrap().contains("resp and pgwire"), "{record:?}");
    assert_eq!(counters.warnings(), Vec::<String>::new());
    let [resp, pgwire] = record.protocols.as_slice() else { panic!("{:?}", record.protocols) };
    let counted =
        |role: &Measured<record::Role>| (role.value().unwrap().pids.clone(), calls(role.value().unwrap(), "getppid"));
    assert_eq!((resp.protocol.as_str(), counted(&resp.server)), ("resp", (vec![pids[0]], 10)));
    assert_eq!((pgwire.protocol.as_str(), counted(&pgwire.server)), ("pgwire", (vec![pids[1]], 30)));
    assert_eq!(pgwire.client.value().unwrap().coverage, Measured::Value(1.0));
}

#[test]
fn a_server_that_is_busy_on_other_sockets_is_said_to_be() {
    let (port, from) = (child::free_port(), child::free_port());
    let server = Child::waiting_after(
        move || TcpListener::bind(("127.0.0.1", port)).unwrap(),
        |listener| {
            let (mut one, mut other) = std::os::unix::net::UnixStream::pair().unwrap();
            one.write_all(&[7; 10_000]).unwrap();
            other.read_exact(&mut [0; 10_000]).unwrap();
            echo(listener);
        },
    );
    let Some(mut counters) = counters(&CounterOptions::for_ports([port])) else { return };
    exchange(&mut counters, server, asking(from, port, 100));
    let record = counters.attribute(&[captured(from, port, 20_000)]).unwrap();
    if !sees_sockets(&record) {
        return;
    }
    assert_eq!(record.server.value().unwrap().coverage, Measured::Value(1.0));
    let warnings = counters.warnings();
    assert!(
        warnings.iter().any(|warning| warning.contains("50.0% of the bytes") && warning.contains("UNIX")),
        "{warnings:?}"
    );
}

#[test]
fn a_named_process_that_never_touches_the_port_is_said_to() {
    let port = child::free_port();
    let idle = Child::waiting(|| child::getppid(10));
    let pid = idle.pid;
    let mut options = CounterOptions::for_ports([port]);
    options.server = ProcessSelection::Pids(vec![pid]);
    let Some(mut counters) = counters(&options) else { return };
    counters.begin().unwrap();
    idle.run();
    let record = counters.record_so_far().unwrap();
    if !sees_sockets(&record) {
        return;
    }
    let said = format!("(process {pid}), which was named, sent and received nothing on port {port}");
    assert!(record.server.value().unwrap().withheld.as_ref().unwrap().contains(&said), "{record:?}");
    assert!(counters.warnings().iter().any(|warning| warning.contains(&said)), "{:?}", counters.warnings());
}

#[test]
fn a_command_of_ours_is_a_client_from_its_exec_on() {
    let mut options = CounterOptions::for_ports([child::free_port()]);
    options.adopt_children = true;
    let Some(mut counters) = counters(&options) else { return };
    assert!(counters.awaiting);
    counters.begin().unwrap();
    let mut command = std::process::Command::new("/bin/sh").args(["-c", "/bin/true; exec /bin/true"]).spawn().unwrap();
    let pid = command.id();
    command.wait().unwrap();
    let record = counters.record_so_far().unwrap();
    let client = record.client.value().unwrap();
    // Concurrent tests have children, too.
    assert!(client.pids.contains(&pid), "{client:?}");
    assert!(calls(client, "execve") >= 3 && calls(client, "exit_group") >= 2, "{:?}", client.syscalls);
}

#[test]
fn programs_that_a_command_starts_are_clients_apart_from_it() {
    let (port, from) = (child::free_port(), child::free_port());
    let server = echoing(port);
    let mut options = CounterOptions::for_ports([port]);
    options.adopt_children = true;
    let Some(mut counters) = counters(&options) else { return };
    counters.begin().unwrap();
    let server = server.let_go();
    // The shell is the command. Its child sends 100 bytes and reads them back; the shell sends nothing.
    let talk = format!(
        "import socket; s = socket.socket(); s.bind(('127.0.0.1', {from})); s.connect(('127.0.0.1', {port})); s.send(b'x' * 100); s.recv(100)"
    );
    let script = format!("/bin/true; python3 -c \"{talk}\" || exit 1; /bin/true");
    let status = std::process::Command::new("/bin/sh").args(["-c", &script]).status().unwrap();
    if !status.success() {
        return println!("skipped: no python3");
    }
    server.join();
    counters.mark_end().unwrap();
    let record = counters.attribute(&[captured(from, port, 200)]).unwrap();
    if !sees_sockets(&record) {
        return;
    }
    let client = record.client.value().unwrap();
    let strangers = client.comms.iter().filter(|comm| ["sh", "true"].contains(&comm.as_str())).count();
    assert_eq!((strangers, client.coverage.value()), (0, Some(&1.0)), "{client:?}");
}

#[test]
fn a_command_that_starts_a_server_is_not_the_client_of_it() {
    let port = child::free_port();
    let Some(mut counters) = counters(&CounterOptions::for_ports([port])) else { return };
    assert!(counters.awaiting);
    let command = Child::waiting(move || {
        child::fork_and_wait(|| {
            let _listener = TcpListener::bind(("127.0.0.1", port)).unwrap();
            child::getppid(123);
        });
        child::getppid(7);
    });
    counters.add_process(ProcessRole::Client, command.pid).unwrap();
    counters.begin().unwrap();
    let pid = command.pid;
    command.run();
    let record = counters.record_so_far().unwrap();
    let (server, client) = (record.server.value().unwrap(), record.client.value().unwrap());
    assert_eq!((calls(server, "getppid"), calls(client, "getppid")), (123, 7));
    assert_eq!(client.pids, [pid]);
    assert_eq!(server.pids.len(), 1);
}

#[test]
fn what_a_client_does_before_its_first_connect_is_apart() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let Some(mut counters) = counters(&CounterOptions::for_ports([address.port()])) else { return };
    let command = Child::waiting(move || {
        child::getppid(1_000);
        let first = TcpStream::connect(address).unwrap();
        child::getppid(7);
        let second = TcpStream::connect(address).unwrap();
        child::getppid(70);
        child::fork_and_wait(|| {
            TcpStream::connect(address).unwrap();
            child::getppid(700);
        });
        drop((first, second));
    });
    counters.add_process(ProcessRole::Client, command.pid).unwrap();
    counters.begin().unwrap();
    command.run();
    let record = counters.record_so_far().unwrap();
    let client = record.client.value().unwrap();
    assert_eq!(calls(client, "getppid"), 1_777);
    let since = client.since_connect.as_ref().unwrap().value().unwrap();
    assert_eq!((calls(since, "getppid"), calls(since, "connect")), (777, 3));
    assert_eq!((&client.pids, client.pids.len()), (&since.pids, 2));
    assert_eq!((client.threads, since.threads), (2, 2));
    assert!(since.on_cpu_ns.value().unwrap().user <= client.on_cpu_ns.value().unwrap().user);
    assert!(std::ptr::eq(client.at_work(), since.as_ref()));
}

#[test]
fn of_a_client_that_does_not_connect_the_start_is_not_apart() {
    let Some(mut counters) = counters(&CounterOptions::for_ports([child::free_port()])) else { return };
    let command = Child::waiting(|| child::getppid(5));
    counters.add_process(ProcessRole::Client, command.pid).unwrap();
    counters.begin().unwrap();
    command.run();
    let record = counters.record_so_far().unwrap();
    let client = record.client.value().unwrap();
    assert_eq!(calls(client.at_work(), "getppid"), 5);
    assert!(client.since_connect.as_ref().unwrap().reason().unwrap().contains("connect"));
}

#[cfg(target_arch = "x86_64")]
#[test]
fn calls_of_32_bit_programs_have_their_own_names() {
    let Some(mut counters) = counters(&named()) else { return };
    if !std::path::Path::new("/proc/sys/abi/vsyscall32").exists() {
        return println!("skipped: this kernel runs no 32-bit programs");
    }
    let child = Child::waiting(|| {
        child::getppid(30);
        child::getppid_32(1_000);
    });
    counters.add_process(ProcessRole::Server, child.pid).unwrap();
    counters.begin().unwrap();
    child.run();
    let record = counters.record_so_far().unwrap();
    let server = record.server.value().unwrap();
    assert_eq!((calls(server, "getppid"), calls(server, "semget")), (1_030, 0), "{:?}", server.syscalls);
}
