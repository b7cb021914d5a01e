//! Compares the secrets of TLS handshakes with a process's own key log. Skips without root, BTF, `openssl` or Python.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use overhead_kernel::{Error, TlsNews, TlsOptions, TlsProbes, TlsProcesses, TlsSecrets};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// A client that writes a key log, and a server that writes none, in a fork or not. Begins at a line on standard input.
const TALK: &str = r#"
import os, socket, ssl, sys, threading
folder, version, forks = sys.argv[1], sys.argv[2], sys.argv[3] == "forks"
served = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
served.load_cert_chain(folder + "/cert.pem", folder + "/key.pem")
asked = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
asked.check_hostname, asked.verify_mode = False, ssl.CERT_NONE
asked.minimum_version = asked.maximum_version = ssl.TLSVersion[version]
asked.keylog_filename = folder + "/keys"
listener = socket.create_server(("127.0.0.1", 0))
sys.stdout.write("ready\n"); sys.stdout.flush()
sys.stdin.readline()
def serve():
    s = served.wrap_socket(listener.accept()[0], server_side=True)
    s.sendall(s.recv(1))
    s.close()
if forks:
    child = os.fork()
    if child == 0:
        serve()
        os._exit(0)
else:
    thread = threading.Thread(target=serve); thread.start()
s = asked.wrap_socket(socket.create_connection(listener.getsockname()))
s.sendall(b"x")
assert s.recv(1) == b"x"
s.close()
os.waitpid(child, 0) if forks else thread.join()
sys.stdout.write("over\n"); sys.stdout.flush()
sys.stdin.readline()
"#;

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

    /// Starts the conversation, and waits for its end.
    fn talk(&mut self) {
        self.input.write_all(b"\n").unwrap();
        assert_eq!(self.line(), "over");
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

fn start(options: &TlsOptions) -> Option<(TlsProbes, TlsSecrets)> {
    match TlsProbes::start(options) {
        Ok(started) => Some(started),
        Err(error @ (Error::NoBtf(_) | Error::PidNamespace | Error::Permission(_))) => {
            println!("skipped: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// How often each line of a key log was seen, without the random.
type Lines = BTreeMap<String, usize>;

fn line(label: &str, secret: &[u8]) -> String {
    let hex: Vec<String> = secret.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{label} {}", hex.concat())
}

fn poll(secrets: &mut TlsSecrets) -> Lines {
    let mut lines = Lines::new();
    let take = |news: TlsNews<'_>| {
        let TlsNews::Secret(secret) = news else { return };
        assert_eq!(secret.random, None, "OpenSSL does not pass it");
        *lines.entry(line(secret.label, secret.secret)).or_default() += 1;
    };
    secrets.poll(take).unwrap();
    lines
}

fn talk(version: &str, forks: bool, auto: bool) {
    let Some(folder) = certificate() else { return };
    let Some(mut talker) = Talker::new(folder.path(), version, forks) else { return };
    let processes = if auto { TlsProcesses::Auto } else { TlsProcesses::Pids(vec![talker.child.id()]) };
    let Some((probes, mut secrets)) = start(&TlsOptions::new(processes, [])) else { return };
    assert!(probes.libraries().1 > 0);
    assert_eq!(probes.unsupported(), []);
    talker.talk();
    let seen = poll(&mut secrets);
    let log = std::fs::read_to_string(folder.path().join("keys")).unwrap();
    let logged: Vec<String> = log
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| line.split(' ').step_by(2).collect::<Vec<_>>().join(" "))
        .collect();
    assert_eq!(logged.len(), if version == "TLSv1_2" { 1 } else { 5 });
    for line in &logged {
        assert_eq!(seen.get(line), Some(&2), "{version}: of both ends");
    }
    let counts = probes.counts().unwrap();
    assert_eq!((counts.lost, counts.unread), (0, 0));
    assert!(auto || counts.secrets == 2 * logged.len() as u64);
}

#[test]
fn both_ends_secrets_are_those_of_the_key_log_with_tls_1_3() {
    talk("TLSv1_3", false, false);
}

#[test]
fn both_ends_secrets_are_those_of_the_key_log_with_tls_1_2() {
    talk("TLSv1_2", false, false);
}

#[test]
fn forks_are_followed() {
    talk("TLSv1_3", true, false);
}

#[test]
fn all_processes_are_observed_on_request() {
    talk("TLSv1_3", false, true);
}

#[test]
fn processes_that_were_not_chosen_are_left_alone() {
    let Some(folder) = certificate() else { return };
    let Some(mut talker) = Talker::new(folder.path(), "TLSv1_3", false) else { return };
    let Some(idle) = Talker::new(folder.path(), "TLSv1_3", false) else { return };
    let Some((probes, mut secrets)) = start(&TlsOptions::new(TlsProcesses::Pids(vec![idle.child.id()]), [])) else {
        return;
    };
    talker.talk();
    assert_eq!(poll(&mut secrets), Lines::new());
    assert_eq!(probes.counts().unwrap().secrets, 0);
}

#[test]
fn secrets_without_room_are_counted() {
    let Some(folder) = certificate() else { return };
    let talkers: Vec<Talker> = (0..40).filter_map(|_| Talker::new(folder.path(), "TLSv1_3", false)).collect();
    let pids = talkers.iter().map(|talker| talker.child.id()).collect();
    let mut options = TlsOptions::new(TlsProcesses::Pids(pids), []);
    options.ring_bytes = 64 << 10;
    let Some((probes, mut secrets)) = start(&options).filter(|_| !talkers.is_empty()) else { return };
    for mut talker in talkers {
        talker.talk();
    }
    let kept: usize = poll(&mut secrets).values().sum();
    let counts = probes.counts().unwrap();
    assert!(counts.lost > 0, "{counts:?}");
    assert_eq!(kept as u64 + counts.lost, 40 * 10);
}

#[test]
fn a_process_without_the_library_is_named() {
    let Ok(mut child) = Command::new("sleep").arg("60").spawn() else { return };
    let started = start(&TlsOptions::new(TlsProcesses::Pids(vec![child.id()]), []));
    let pid = child.id();
    child.kill().unwrap();
    let unsupported = started.map(|(probes, _)| probes.unsupported());
    child.wait().unwrap();
    let Some(unsupported) = unsupported else { return };
    assert_eq!(unsupported.iter().map(|process| process.pid).collect::<Vec<_>>(), [pid]);
}

#[test]
fn a_process_that_is_not_there_is_named() {
    let options = TlsOptions::new(TlsProcesses::Pids(vec![u32::MAX >> 1]), []);
    match TlsProbes::start(&options) {
        Err(Error::NoSuchProcess(pid)) => assert_eq!(pid, u32::MAX >> 1),
        Err(error) => println!("skipped: {error}"),
        Ok(_) => panic!("there is such a process"),
    }
}
