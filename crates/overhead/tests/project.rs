//! The modelled link balances, keeps the payload as measured, and adds the link's own bytes.

use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn cases() -> Vec<(PathBuf, String)> {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures");
    let folders = fs::read_dir(fixtures).unwrap().map(|entry| entry.unwrap().path());
    let captures = folders.filter_map(|folder| {
        let captures = ["capture.pcap", "capture.pcapng"].map(|name| folder.join(name));
        let capture = captures.into_iter().find(|capture| capture.is_file())?;
        Some((capture, fs::read_to_string(folder.join("args")).unwrap()))
    });
    captures.filter(|(capture, _)| !is_unix(capture)).collect()
}

/// Returns whether a fixture is of UNIX sockets, which have no link.
fn is_unix(capture: &Path) -> bool {
    capture.parent().is_some_and(|folder| folder.to_string_lossy().ends_with("-unix"))
}

#[test]
fn what_has_no_link_is_not_modelled_and_that_is_said() {
    let capture = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/redis-unix/capture.pcapng");
    let args = fs::read_to_string(capture.with_file_name("args")).unwrap();
    for option in [&["--physical"][..], &["--project", "mtu=200"]] {
        let output = analyze(&capture, &args, &[&["--format", "json"][..], option].concat());
        let record: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!((output.status.code(), record.get("projection")), (Some(3), None), "{option:?}");
        let warnings = record["warnings"].as_array().unwrap();
        assert!(warnings.iter().any(|warning| warning.as_str().unwrap().contains("have no link")), "{warnings:?}");
    }
}

fn analyze(capture: &Path, args: &str, more: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_overhead"))
        .args(["analyze", "--quiet"])
        .arg(capture)
        .args(args.split_whitespace())
        .args(more)
        .env_remove("SSLKEYLOGFILE")
        .current_dir(capture.parent().unwrap())
        .output()
        .unwrap()
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap()
}

/// Accounts that a link does not change, by direction.
fn payload(ledger: &Value) -> Vec<u64> {
    let accounts = ["tls", "framing", "metadata", "schema", "query", "data", "status", "unknown"];
    ["request", "response"].iter().flat_map(|side| accounts.map(|account| number(&ledger[*side][account]))).collect()
}

#[test]
fn a_small_mtu_adds_headers_and_nothing_else() {
    let mut cut = 0;
    for (capture, args) in cases() {
        let name = capture.display();
        let output = analyze(&capture, &args, &["--format", "json", "--project", "mtu=200"]);
        let record: Value = serde_json::from_slice(&output.stdout).unwrap();
        let projection = &record["projection"];
        assert_eq!(projection["ledger"]["balanced"], true, "{name}");
        assert_eq!(payload(&projection["ledger"]), payload(&record["ledger"]), "{name}");
        let added = number(&projection["wire_bytes"]) - number(&record["source"]["wire_bytes"]);
        assert_eq!(added, number(&projection["added_header_bytes"]), "{name}");
        let frames = number(&projection["frames"]) - number(&record["source"]["frames"]);
        assert_eq!(frames, number(&projection["added_frames"]), "{name}");
        let counts = |rows: &Value, count: &str| -> Vec<u64> {
            rows.as_array().unwrap().iter().map(|row| number(&row[count])).collect()
        };
        let mut measured = counts(&record["operations"], "count");
        let unsolicited = counts(&record["operations"], "unsolicited");
        measured.iter_mut().zip(unsolicited).for_each(|(count, more)| *count += more);
        assert_eq!(counts(&projection["operations"], "count"), measured, "{name}");
        cut += number(&projection["cut_frames"]);
    }
    assert!(cut > 100, "{cut}");
}

#[test]
fn a_cable_adds_24_bytes_to_each_frame_and_pads_short_ones() {
    for (capture, args) in cases() {
        let name = capture.display();
        let output = analyze(&capture, &args, &["--format", "json", "--physical"]);
        let record: Value = serde_json::from_slice(&output.stdout).unwrap();
        let (projection, source) = (&record["projection"], &record["source"]);
        let added = number(&projection["wire_bytes"]) - number(&source["wire_bytes"]);
        assert_eq!(added, 24 * number(&source["frames"]) + number(&projection["padding_bytes"]), "{name}");
        assert_eq!(projection["ledger"]["balanced"], true, "{name}");
        assert_eq!(payload(&projection["ledger"]), payload(&record["ledger"]), "{name}");
        let parts = ["preamble_bytes", "check_sequence_bytes", "gap_bytes", "padding_bytes"];
        assert_eq!(parts.iter().map(|part| number(&projection[*part])).sum::<u64>(), added, "{name}");
    }
}

#[test]
fn what_is_modelled_is_named_so() {
    let (capture, args) =
        cases().into_iter().find(|(capture, _)| capture.ends_with("redis-get-set/capture.pcap")).unwrap();
    let output = analyze(&capture, &args, &["--project", "mtu=120", "--physical"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("Modelled, not measured: a link of MTU 120, Ethernet on the cable"), "{text}");
    let wrong = analyze(&capture, &args, &["--project", "1500"]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&wrong.stderr).contains("such as mtu=1500"));
}
