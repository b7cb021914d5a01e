//! Rows by connection, client and server come to what operations come to, with the memo and without.

use etherparse::PacketBuilder;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The captures of the fixtures, each with its arguments.
fn cases() -> Vec<(PathBuf, String)> {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures");
    let folders = fs::read_dir(fixtures).unwrap().map(|entry| entry.unwrap().path());
    let mut cases: Vec<(PathBuf, String)> = folders
        .filter_map(|folder| {
            let captures = ["capture.pcap", "capture.pcapng"].map(|name| folder.join(name));
            let capture = captures.into_iter().find(|capture| capture.is_file())?;
            Some((capture, fs::read_to_string(folder.join("args")).unwrap()))
        })
        .collect();
    cases.sort();
    cases
}

fn record(capture: &Path, args: &str, more: &[&str]) -> Value {
    let output = Command::new(env!("CARGO_BIN_EXE_overhead"))
        .args(["analyze", "--quiet", "--format", "json"])
        .arg(capture)
        .args(args.split_whitespace())
        .args(more)
        .env_remove("SSLKEYLOGFILE")
        .current_dir(capture.parent().unwrap())
        .output()
        .unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}: {error}", capture.display()))
}

/// Sums by class, side and figure: `peers` and `operations` have them in the same places, but for totals of bytes.
fn sums(rows: &Value) -> BTreeMap<String, u64> {
    let mut sums = BTreeMap::new();
    for row in rows.as_array().unwrap() {
        let class = row["class"].as_str().unwrap();
        let mut add = |name: String, value: &Value| *sums.entry(name).or_default() += value.as_u64().unwrap();
        for count in ["count", "unsolicited", "errors", "unanswered", "no_reply"] {
            add(format!("{class} {count}"), &row[count]);
        }
        add(format!("{class} latencies"), &row["latency_ns"]["count"]);
        for side in ["request", "response"] {
            add(format!("{class} {side} frames"), &row[side]["frames"]);
            for (account, bytes) in row[side]["accounts"].as_object().unwrap() {
                add(format!("{class} {side} {account}"), bytes);
            }
        }
    }
    sums
}

#[test]
fn rows_of_any_kind_add_up_to_the_operations() {
    for (capture, args) in cases() {
        for by in ["connection", "client", "server"] {
            let whole = record(&capture, &args, &["--by", by]);
            assert_eq!(sums(&whole["peers"]["rows"]), sums(&whole["operations"]), "{} {by}", capture.display());
            let other = record(&capture, &args, &["--by", by, "--no-memo"]);
            assert_eq!(other["peers"], whole["peers"], "{} {by}", capture.display());
        }
    }
}

#[test]
fn a_connections_row_has_the_bytes_that_its_entry_has() {
    for (capture, args) in cases() {
        let whole = record(&capture, &args, &["--by", "connection"]);
        let mut rows: BTreeMap<(String, String), u64> = BTreeMap::new();
        for row in whole["peers"]["rows"].as_array().unwrap() {
            let ends = ["client", "server"].map(|end| row[end].as_str().unwrap().to_owned());
            let bytes = ["request", "response"].map(|side| row[side]["wire_bytes"].as_u64().unwrap());
            *rows.entry(ends.into()).or_default() += bytes[0] + bytes[1];
        }
        let mut entries: BTreeMap<(String, String), u64> = BTreeMap::new();
        for entry in whole["connections"].as_array().unwrap() {
            let ends = ["client", "server"].map(|end| entry[end].as_str().unwrap().to_owned());
            *entries.entry(ends.into()).or_default() += entry["wire_bytes"].as_u64().unwrap();
        }
        assert_eq!(rows, entries, "{}", capture.display());
    }
}

/// A capture of so many connections of one `PING` each, which end.
fn many(connections: u32) -> Vec<u8> {
    let mut file = Vec::new();
    for word in [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 65_535, 1] {
        file.extend(word.to_le_bytes());
    }
    let mut micros = 0_u32;
    for number in 0..connections {
        let client = [10, 1, (number >> 8) as u8, number as u8];
        let server = [10, 9, 9, 9];
        let mut send = |from_client: bool, flags: &str, (seq, ack): (u32, u32), payload: &[u8]| {
            let ends = if from_client { (client, server, 40_000, 6_379) } else { (server, client, 6_379, 40_000) };
            let builder = PacketBuilder::ethernet2([0; 6], [0; 6]).ipv4(ends.0, ends.1, 64);
            let mut builder = builder.tcp(ends.2, ends.3, seq, 512);
            for flag in flags.chars() {
                builder = match flag {
                    'S' => builder.syn(),
                    'F' => builder.fin(),
                    _ => builder.ack(ack),
                };
            }
            let mut frame = Vec::new();
            builder.write(&mut frame, payload).unwrap();
            micros += 10;
            for word in [1_700_000_000, micros, frame.len() as u32, frame.len() as u32] {
                file.extend(word.to_le_bytes());
            }
            file.extend(frame);
        };
        send(true, "S", (99, 0), b"");
        send(false, "SA", (499, 100), b"");
        send(true, "A", (100, 500), b"*1\r\n$4\r\nPING\r\n");
        send(false, "A", (500, 114), b"+PONG\r\n");
        send(true, "FA", (114, 507), b"");
        send(false, "FA", (507, 115), b"");
        send(true, "A", (115, 508), b"");
    }
    file
}

#[test]
fn beyond_the_bound_the_rows_add_up_too() {
    let folder = tempfile::tempdir().unwrap();
    let capture = folder.path().join("many.pcap");
    fs::write(&capture, many(6_000)).unwrap();
    for by in ["connection", "client"] {
        let whole = record(&capture, "--db redis", &["--by", by]);
        assert_eq!(sums(&whole["peers"]["rows"]), sums(&whole["operations"]), "{by}");
        assert_eq!(whole["peers"]["left_out"], 5_000);
        let view = &record(&capture, "--db redis", &["--by", by, "--top", "3"])["view"]["rows"];
        let total: u64 = sums(&whole["operations"]).values().sum();
        let of_view = view.as_array().unwrap().iter().flat_map(|row| ["request", "response"].map(|side| &row[side]));
        let bytes: u64 = of_view.map(|side| side["wire_bytes"].as_u64().unwrap()).sum();
        let ledger = ["request", "response"].map(|side| whole["ledger"][side].as_object().unwrap().clone());
        let posted: u64 = ledger.iter().flat_map(|side| side.values()).map(|bytes| bytes.as_u64().unwrap()).sum();
        assert!(total > 0 && bytes == posted, "{by}: {bytes} of {posted}");
    }
}
