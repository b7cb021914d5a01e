//! Captures of another protocol than the one that was named: named themselves, and never made into operations.

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The record of a capture, read as `db` on these ports, and the exit status.
fn analyze(capture: &Path, db: &str, ports: &[u16]) -> (Value, i32) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_overhead"));
    command.arg("analyze").arg(capture).args(["--db", db, "--format", "json"]).stdin(Stdio::null());
    for port in ports {
        command.args(["--port", &port.to_string()]);
    }
    let output = command.output().unwrap();
    let record: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{}: {error}: {}", capture.display(), String::from_utf8_lossy(&output.stderr)));
    assert_eq!(record["ledger"]["balanced"], true, "{}", capture.display());
    (record, output.status.code().unwrap())
}

/// Operations that a reader would take for the application's, or for its handshakes.
fn operations(record: &Value) -> Vec<String> {
    let rows = record["operations"].as_array().unwrap().iter();
    let named = rows.filter(|row| row["class"] != "unmatched" && row["name"] != "CONNECT");
    named.map(|row| format!("{} {}", row["protocol"], row["name"])).collect()
}

fn warnings(record: &Value) -> String {
    record["warnings"].as_array().unwrap().iter().filter_map(Value::as_str).collect::<Vec<_>>().join("\n")
}

fn fixture(case: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures").join(case).join("capture.pcap")
}

/// The server's port of a fixture.
fn port(case: &str) -> u16 {
    let args = std::fs::read_to_string(fixture(case).with_file_name("args")).unwrap();
    let named = args.split_whitespace().skip_while(|word| *word != "--port").nth(1);
    named.unwrap().parse().unwrap()
}

/// A capture of one Ethernet frame with a datagram between these ports (RFC 768).
fn datagram(name: &str, ports: [u16; 2], payload: &[u8]) -> PathBuf {
    let udp =
        [&ports[0].to_be_bytes()[..], &ports[1].to_be_bytes(), &(8 + payload.len() as u16).to_be_bytes(), &[0; 2]];
    let len = (28 + payload.len()) as u16;
    let ip = [&[0x45, 0], &len.to_be_bytes()[..], &[0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]].concat();
    let frame = [&[2; 12][..], &[8, 0], ip.as_slice(), &udp.concat(), payload].concat();
    let head = [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 65_535, 1, 1, 0, frame.len() as u32, frame.len() as u32];
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&path, [head.map(u32::to_le_bytes).concat(), frame].concat()).unwrap();
    path
}

#[test]
fn finding_nothing_is_a_failure_that_says_what_there_is() {
    // Another system was asked for, and its ports have nothing.
    let (record, status) = analyze(&fixture("postgres-simple"), "redis", &[]);
    assert_eq!(status, 1);
    assert_eq!(record["exit"], 1);
    let said = warnings(&record);
    let port = port("postgres-simple");
    assert!(said.contains(&format!("speaks pgwire: read with --db postgres --port {port}")), "{said}");
    // No frame at all.
    let empty = Path::new(env!("CARGO_TARGET_TMPDIR")).join("empty.pcap");
    std::fs::write(&empty, [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 65_535, 1].map(u32::to_le_bytes).concat()).unwrap();
    assert_eq!(analyze(&empty, "auto", &[]).1, 1);
    // The requested protocol is there.
    assert_eq!(analyze(&fixture("postgres-simple"), "postgres", &[port]).1, 0);
}

#[test]
fn memcached_over_udp_is_named() {
    let request = b"\0\x01\0\0\0\x01\0\0get k\r\n";
    let capture = datagram("memcached-udp.pcap", [40_000, 11_211], request);
    let (record, status) = analyze(&capture, "memcached", &[]);
    assert_eq!((status, record["ledger"]["other"].as_u64()), (3, Some(57)));
    assert!(warnings(&record).contains("1 datagram on port 11211 is of UDP, which is not decoded"), "{record}");
    let (record, _) = analyze(&datagram("redis-udp.pcap", [40_000, 6379], request), "redis", &[]);
    assert!(!warnings(&record).contains("UDP"), "{record}");
}

#[test]
fn what_a_server_of_ssdb_is_asked_in_resp_is_resp() {
    let (record, status) = analyze(&fixture("redis-get-set"), "ssdb", &[port("redis-get-set")]);
    assert_eq!(status, 0, "{}", warnings(&record));
    assert!(operations(&record).contains(&"\"resp\" \"GET\"".to_owned()), "{:?}", operations(&record));
    let (record, status) = analyze(&fixture("memcached-binary"), "ssdb", &[port("memcached-binary")]);
    assert_eq!((operations(&record), status), (Vec::new(), 3), "{}", warnings(&record));
}

#[test]
fn a_wrong_db_is_told_which_one_is_right() {
    let cases = [
        ("redis-get-set", "Redis (RESP)", "redis"),
        ("postgres-simple", "PostgreSQL", "postgres"),
        ("cassandra-rust", "Cassandra (CQL)", "cassandra"),
        ("ferretdb-rust", "MongoDB", "mongodb"),
        ("memcached-pymemcache", "memcached", "memcached"),
        ("memcached-binary", "memcached", "memcached"),
    ];
    for (case, look, right) in cases {
        let port = port(case);
        for wrong in ["redis", "postgres", "cassandra", "mongodb", "memcached"].into_iter().filter(|db| *db != right) {
            let (record, status) = analyze(&fixture(case), wrong, &[port]);
            assert_eq!(operations(&record), [""; 0], "{case} as {wrong}");
            assert_eq!(status, 3, "{case} as {wrong}");
            let said = warnings(&record);
            assert!(said.contains(&format!("on port {port} look")), "{case} as {wrong}: {said}");
            assert!(said.contains(look) && said.contains("--db "), "{case} as {wrong}: {said}");
        }
    }
}

#[test]
fn inline_commands_are_still_commands() {
    let (record, _) = analyze(&fixture("redis-errors-inline"), "redis", &[port("redis-errors-inline")]);
    let rows = record["operations"].as_array().unwrap();
    assert!(rows.iter().any(|row| row["via"] == "inline" && row["class"] == "workload"));
    assert!(!warnings(&record).contains("look"), "{}", warnings(&record));
}

/// Folders of the corpus, the ports that their servers have, and the name that they are to be called by.
const FOLDERS: [(&str, &[u16], &str, &str); 7] = [
    ("mysql", &[3306, 3307, 13306, 65020], "mysql", "MySQL"),
    ("memcache", &[11211], "memcached", "memcached"),
    ("generic", &[8000], "http", "HTTP"),
    ("resp", &[6379, 6380, 6381], "redis", ""),
    ("cql", &[9042], "cassandra", ""),
    ("mongo", &[27017], "mongodb", ""),
    ("pgsql", &[5432, 15432], "postgres", ""),
];

#[test]
fn no_capture_of_another_protocol_becomes_operations() {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/corpus");
    let corpus = std::env::var_os("OVERHEAD_CORPUS").map_or(beside, PathBuf::from);
    if !corpus.is_dir() {
        eprintln!("skipped: there is no corpus beside the repository, nor in OVERHEAD_CORPUS");
        return;
    }
    let mut captures = 0;
    let mut named = Vec::new();
    for (folder, ports, own, look) in FOLDERS {
        let Ok(files) = std::fs::read_dir(corpus.join(folder)) else { continue };
        for file in files.map(|file| file.unwrap().path()) {
            captures += 1;
            for db in ["redis", "cassandra", "mongodb", "postgres", "auto"] {
                if db == own || (db == "auto" && !own.is_empty()) {
                    continue;
                }
                let (record, status) = analyze(&file, db, if db == "auto" { &[] } else { ports });
                assert_eq!(operations(&record), [""; 0], "{} as {db}", file.display());
                let has_payload = record["tcp"]["payload_bytes"].as_u64().unwrap() > 100;
                assert!(!has_payload || status == 3, "{} as {db}: status {status}", file.display());
                if !look.is_empty() && warnings(&record).contains(look) {
                    named.push(look);
                }
            }
        }
    }
    assert!(captures > 0);
    for look in ["MySQL", "memcached", "HTTP"] {
        assert!(named.contains(&look), "{look} was not named");
    }
}
