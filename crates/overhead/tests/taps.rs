//! Captures that saw frames twice: behind an address translation, at a mirror port, at both ends of a path. Each has 60 `SET` and 60
//! `GET` on five connections, by the server's own count.

use overhead_capture::{FileSource, FrameSource, NextFrame, PcapngWriter, WriterOptions};
use overhead_model::frame::OwnedFrame;
use overhead_model::{Frame, LinkType};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn analyze(capture: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_overhead"));
    command.arg("analyze").arg(capture).args(["--db", "redis", "--port", "6379"]).args(arguments);
    command.env_remove("SSLKEYLOGFILE").output().unwrap()
}

fn record_of(capture: &Path) -> (Value, i32) {
    let output = analyze(capture, &["--format", "json"]);
    (serde_json::from_slice(&output.stdout).unwrap(), output.status.code().unwrap())
}

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/taps").join(name).join("capture.pcap")
}

/// Checks the counts, here and in an anonymised copy, and returns the warnings.
fn counted_once(name: &str, status: i32) -> String {
    let capture = fixture(name);
    let copy = std::env::temp_dir().join(format!("overhead-taps-{}-{name}.pcapng", std::process::id()));
    let made = analyze(&capture, &["--anonymise", copy.to_str().unwrap(), "-q"]);
    assert_eq!(made.status.code(), Some(status), "{}", String::from_utf8_lossy(&made.stderr));
    let mut warnings = String::new();
    for capture in [&copy, &capture] {
        let (record, found) = record_of(capture);
        assert_eq!(found, status, "{}", record["warnings"]);
        let count = |name: &str| -> u64 {
            let rows = record["operations"].as_array().unwrap().iter().filter(|row| row["name"] == name);
            rows.map(|row| row["count"].as_u64().unwrap()).sum()
        };
        assert_eq!(["SET", "GET", "CONNECT"].map(count), [60, 60, 5]);
        let frames = record["source"]["frames"].as_u64().unwrap();
        assert_eq!(record["source"]["duplicate_frames"].as_u64(), Some(frames / 2));
        assert_eq!(record["tcp"]["retransmitted_bytes"].as_u64(), Some(0));
        warnings = record["warnings"].to_string();
    }
    std::fs::remove_file(copy).unwrap();
    warnings
}

#[test]
fn a_translated_connection_counts_once_under_the_servers_own_address() {
    let warnings = counted_once("nat", 0);
    assert!(warnings.contains("5 connections to 10.77.1.1:6379"), "{warnings}");
    assert!(warnings.contains("own address 10.77.2.2:6379"), "{warnings}");
}

#[test]
fn what_a_mirror_port_repeats_counts_once() {
    let warnings = counted_once("mirror", 0);
    assert!(!warnings.contains("tap"), "{warnings}");
}

#[test]
fn both_ends_of_a_path_in_one_file_are_named() {
    let warnings = counted_once("two-ends", 3);
    assert!(warnings.contains("both ends of a path"), "{warnings}");
}

/// Writes the frames of both ends with an interface for each end. The times of the server's end are `later_ns`.
fn by_interface(path: &Path, later_ns: u64) {
    let mut source = FileSource::open(fixture("two-ends")).unwrap();
    let mut frames = Vec::new();
    while let NextFrame::Frame(frame) = source.next_frame().unwrap() {
        // The router has counted the hop.
        let is_routed = frame.bytes[14 + 8] == 63;
        let is_to_server = frame.bytes[36..38] == 6379_u16.to_be_bytes();
        let interface = u32::from(is_routed == is_to_server);
        let time_ns = frame.time_ns + u64::from(interface) * later_ns;
        frames.push(OwnedFrame::of(&Frame { time_ns, interface, ..frame }));
    }
    frames.sort_by_key(|frame| frame.frame().time_ns);
    let options = WriterOptions::new(LinkType::ETHERNET);
    let mut writer = PcapngWriter::new("capture", std::fs::File::create(path).unwrap(), &options).unwrap();
    writer.add_interface(&options).unwrap();
    frames.iter().for_each(|frame| writer.write(&frame.frame()).unwrap());
    writer.finish(None).unwrap();
}

#[test]
fn interfaces_with_clocks_far_apart_are_named() {
    let path = std::env::temp_dir().join(format!("overhead-taps-{}-interfaces.pcapng", std::process::id()));
    by_interface(&path, 0);
    let (record, status) = record_of(&path);
    // A router in the same machine: its way takes microseconds.
    assert_eq!((status, &record["warnings"]), (0, &Value::Array(Vec::new())));
    by_interface(&path, 3_000_000_000);
    let (record, status) = record_of(&path);
    let warnings = record["warnings"].to_string();
    assert!(status == 3 && warnings.contains("interfaces 0 and 1 hold the same segments"), "{status}: {warnings}");
    std::fs::remove_file(path).unwrap();
}
