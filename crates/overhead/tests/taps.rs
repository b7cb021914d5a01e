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

/// Writes a fixture with its frames changed, in the order of their new times, to a file of two interfaces.
fn edited(name: &str, to: &Path, change: impl Fn(&Frame<'_>) -> OwnedFrame) {
    let mut source = FileSource::open(fixture(name)).unwrap();
    let mut frames = Vec::new();
    while let NextFrame::Frame(frame) = source.next_frame().unwrap() {
        frames.push(change(&frame));
    }
    frames.sort_by_key(|frame| frame.frame().time_ns);
    let options = WriterOptions::new(LinkType::ETHERNET);
    let mut writer = PcapngWriter::new("capture", std::fs::File::create(to).unwrap(), &options).unwrap();
    writer.add_interface(&options).unwrap();
    for frame in frames {
        writer.write(&frame.frame()).unwrap();
    }
    writer.finish(None).unwrap();
}

#[test]
fn interfaces_with_clocks_far_apart_are_named() {
    let path = std::env::temp_dir().join(format!("overhead-taps-{}-interfaces.pcapng", std::process::id()));
    let by_interface = |later_ns| {
        edited("two-ends", &path, |frame| {
            // The router has counted the hop.
            let is_routed = frame.bytes[14 + 8] == 63;
            let interface = u32::from(is_routed == (frame.bytes[36..38] == 6379_u16.to_be_bytes()));
            OwnedFrame::new(&Frame { time_ns: frame.time_ns + u64::from(interface) * later_ns, interface, ..*frame })
        });
        record_of(&path)
    };
    // A router in the same machine: its way takes microseconds.
    let (record, status) = by_interface(0);
    assert_eq!((status, &record["warnings"]), (0, &Value::Array(Vec::new())));
    let (record, status) = by_interface(3_000_000_000);
    let warnings = record["warnings"].to_string();
    assert!(status == 3 && warnings.contains("interfaces 0 and 1 hold the same segments"), "{status}: {warnings}");
    std::fs::remove_file(path).unwrap();
}

#[test]
fn a_translation_that_one_interface_sees_twice_is_named() {
    let path = std::env::temp_dir().join(format!("overhead-taps-{}-one-leg.pcapng", std::process::id()));
    edited("nat", &path, |frame| {
        let bytes = [&[2; 12][..], &[8, 0], &frame.bytes[20..]].concat();
        let original_len = frame.original_len - 6;
        OwnedFrame::new(&Frame { link: LinkType::ETHERNET, original_len, bytes: &bytes, ..*frame })
    });
    let (record, status) = record_of(&path);
    let warnings = record["warnings"].to_string();
    assert!(status == 3 && warnings.contains("two sides of an address translation"), "{status}: {warnings}");
    std::fs::remove_file(path).unwrap();
}
