//! Compares captured TLS calls with what a process says it sent. Skips without root, BTF, `openssl` or Python.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use overhead_kernel::{Error, TlsCalls, TlsOptions, TlsProcesses};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// A client and a server, in a fork or not. Begins at a line on standard input and prints its ports.
const TALK: &str = r#"
import os, socket, ssl, sys, threading
folder, version, forks = sys.argv[1], sys.argv[2], sys.argv[3] == "forks"
sizes = [1, 100, 300, 2048, 5000, 16384, 16385, 100_000]
served = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
served.load_cert_chain(folder + "/cert.pem", folder + "/key.pem")
asked = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
asked.check_hostname, asked.verify_mode = False, ssl.CERT_NONE
asked.minimum_version = asked.maximum_version = ssl.TLSVersion[version]
listener = socket.create_server(("127.0.0.1", 0))
sys.stdout.write("ready\n"); sys.stdout.flush()
sys.stdin.readline()
def whole(s, n):
    got = b""
    while len(got) < n:
        got += s.recv(n - len(got))
    return got
def serve():
    s = served.wrap_socket(listener.accept()[0], server_side=True)
    for n in sizes:
        s.sendall(whole(s, n)[::-1])
    s.close()
if forks:
    child = os.fork()
    if child == 0:
        serve()
        os._exit(0)
else:
    thread = threading.Thread(target=serve); thread.start()
s = asked.wrap_socket(socket.create_connection(listener.getsockname()))
for n in sizes:
    sent = bytes((i * 7 + n) % 251 for i in range(n))
    s.sendall(sent)
    assert whole(s, n) == sent[::-1]
port = s.getsockname()[1]
s.close()
os.waitpid(child, 0) if forks else thread.join()
sys.stdout.write("%d %d\n" % (listener.getsockname()[1], port)); sys.stdout.flush()
sys.stdin.readline()
"#;

const SIZES: [usize; 8] = [1, 100, 300, 2048, 5000, 16_384, 16_385, 100_000];

struct Talker {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Talker {
    /// `None` without a Python with `ssl`.
    fn new(folder: &Path, version: &str, forks: bool) -> Option<Self> {
        let child = Command::new("python3")
            .args(["-c", TALK, folder.to_str().unwrap(), version, if forks { "forks" } else { "threads" }])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn();
        let Ok(mut child) = child else {
            println!("skipped: there is no python3");
            return None;
        };
        let (input, output) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        let mut talker = Self { child, input, output };
        if talker.line() != "ready" {
            println!("skipped: this python3 has no ssl");
            return None;
        }
        Some(talker)
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    /// Starts the conversation. Returns the ports of server and client.
    fn talk(&mut self) -> [u16; 2] {
        self.input.write_all(b"\n").unwrap();
        let line = self.line();
        let ports: Vec<u16> = line.split(' ').map(|port| port.parse().expect("two ports")).collect();
        ports.try_into().unwrap()
    }
}

impl Drop for Talker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn certificate() -> Option<tempfile::TempDir> {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name).display().to_string();
    let made = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"])
        .args(["-subj", "/CN=localhost"])
        .args(["-keyout", &file("key.pem"), "-out", &file("cert.pem")])
        .stderr(Stdio::null())
        .status();
    if !made.is_ok_and(|status| status.success()) {
        println!("skipped: there is no openssl");
        return None;
    }
    Some(folder)
}

fn start(options: &TlsOptions) -> Option<TlsCalls> {
    match TlsCalls::start(options) {
        Ok(calls) => Some(calls),
        Err(error @ (Error::NoBtf(_) | Error::PidNamespace | Error::Permission(_))) => {
            println!("skipped: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

#[derive(Debug, Default)]
struct Moved {
    bytes: Vec<u8>,
    /// TCP sequence numbers at the beginning and end of each call.
    sequences: Vec<[u32; 2]>,
}

/// By the process's end of the connection, and whether it sent.
type Transfers = BTreeMap<(SocketAddr, bool), Moved>;

fn collect(calls: &mut TlsCalls) -> Transfers {
    let mut streams = Transfers::new();
    calls
        .poll(|call| {
            let connection = call.connection.expect("its socket is known");
            let moved = streams.entry((connection.local, call.sent)).or_default();
            assert_eq!(call.offset, moved.bytes.len() as u64, "nothing is missing");
            assert_eq!(call.bytes.len(), call.len as usize);
            if call.call_before == 0 {
                moved.sequences.push(connection.sequence);
            }
            moved.bytes.extend_from_slice(call.bytes);
        })
        .unwrap();
    streams
}

fn expected() -> (Vec<u8>, Vec<u8>) {
    let (mut asked, mut answered) = (Vec::new(), Vec::new());
    for n in SIZES {
        let sent: Vec<u8> = (0..n).map(|i| ((i * 7 + n) % 251) as u8).collect();
        asked.extend_from_slice(&sent);
        answered.extend(sent.iter().rev());
    }
    (asked, answered)
}

/// Runs with tracepoints and with functions; without tracepoints both are the same.
fn talk(version: &str, forks: bool) {
    for by_functions in [false, true] {
        talk_once(version, forks, by_functions);
    }
}

fn talk_once(version: &str, forks: bool, by_functions: bool) {
    let Some(folder) = certificate() else { return };
    let Some(mut talker) = Talker::new(folder.path(), version, forks) else { return };
    let mut options = TlsOptions::new(TlsProcesses::Pids(vec![talker.child.id()]), []);
    options.by_functions = by_functions;
    let Some(mut calls) = start(&options) else { return };
    assert!(!calls.libraries().is_empty());
    assert_eq!(calls.unsupported(), []);
    let ports = talker.talk();
    let streams = collect(&mut calls);
    let (asked, answered) = expected();
    let [server, client] = ports.map(|port| SocketAddr::from(([127, 0, 0, 1], port)));
    for (end, sent, bytes) in
        [(client, true, &asked), (server, false, &asked), (server, true, &answered), (client, false, &answered)]
    {
        let moved = &streams[&(end, sent)];
        assert!(moved.bytes == *bytes, "{version} {end} {sent}: {} of {} bytes", moved.bytes.len(), bytes.len());
        for pair in moved.sequences.windows(2) {
            assert!(pair[1][0].wrapping_sub(pair[0][1]) < 1 << 30, "{version} {end} {sent}: {pair:?}");
        }
    }
    // One Python call is one library call, whose bytes the other end may receive in several.
    let of = |end, sent| streams[&(end, sent)].sequences.iter();
    assert_eq!(of(client, true).count(), SIZES.len());
    assert_eq!(of(client, true).next_back().map(|call| call[1]), of(server, false).next_back().map(|call| call[1]));
    assert_eq!(of(server, true).next_back().map(|call| call[1]), of(client, false).next_back().map(|call| call[1]));
    let counts = calls.counts().unwrap();
    assert_eq!(counts.bytes, 2 * (asked.len() + answered.len()) as u64);
    assert_eq!((counts.lost_bytes, counts.unread_bytes, counts.elsewhere_bytes, counts.unjoined_bytes), (0, 0, 0, 0));
}

#[test]
fn what_both_ends_have_moved_is_taken_with_tls_1_3() {
    talk("TLSv1_3", false);
}

#[test]
fn what_both_ends_have_moved_is_taken_with_tls_1_2() {
    talk("TLSv1_2", false);
}

#[test]
fn forks_are_followed() {
    talk("TLSv1_3", true);
}

#[test]
fn connections_of_other_ports_are_counted_and_no_more() {
    let Some(folder) = certificate() else { return };
    let Some(mut talker) = Talker::new(folder.path(), "TLSv1_3", false) else { return };
    let Some(mut calls) = start(&TlsOptions::new(TlsProcesses::Pids(vec![talker.child.id()]), [1])) else { return };
    talker.talk();
    assert_eq!(calls.poll(|_| ()).unwrap(), 0);
    let counts = calls.counts().unwrap();
    assert_eq!((counts.calls, counts.elsewhere_bytes), (0, 4 * SIZES.iter().sum::<usize>() as u64));
}

#[test]
fn what_finds_no_room_is_counted_and_its_place_is_known() {
    let Some(folder) = certificate() else { return };
    let Some(mut talker) = Talker::new(folder.path(), "TLSv1_3", false) else { return };
    let mut options = TlsOptions::new(TlsProcesses::Pids(vec![talker.child.id()]), []);
    options.ring_bytes = 64 << 10;
    let Some(mut calls) = start(&options) else { return };
    talker.talk();
    let mut kept = 0;
    calls.poll(|call| kept += u64::from(call.len)).unwrap();
    let counts = calls.counts().unwrap();
    assert!(counts.lost_bytes > 0);
    assert_eq!(kept + counts.lost_bytes, counts.bytes);
}

#[test]
fn a_process_without_the_library_is_named() {
    let Ok(mut child) = Command::new("sleep").arg("60").spawn() else { return };
    let calls = start(&TlsOptions::new(TlsProcesses::Pids(vec![child.id()]), []));
    let pid = child.id();
    child.kill().unwrap();
    let unsupported = calls.map(|calls| calls.unsupported());
    child.wait().unwrap();
    let Some(unsupported) = unsupported else { return };
    assert_eq!(unsupported.iter().map(|process| process.pid).collect::<Vec<_>>(), [pid]);
}

#[test]
fn a_process_that_is_not_there_is_named() {
    let options = TlsOptions::new(TlsProcesses::Pids(vec![u32::MAX >> 1]), []);
    match TlsCalls::start(&options) {
        Err(Error::NoSuchProcess(pid)) => assert_eq!(pid, u32::MAX >> 1),
        Err(error) => println!("skipped: {error}"),
        Ok(_) => panic!("there is such a process"),
    }
}
