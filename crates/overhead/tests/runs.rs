//! Run folders, records and captures, as verbs take them alike.

use overhead_capture::{FileSource, FrameSource, PcapngWriter, WriterOptions};
use overhead_model::LinkType;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

fn overhead(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_overhead")).args(arguments).stdin(Stdio::null()).output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn fixture() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/redis-get-set/capture.pcap")
}

fn path(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// The record on standard output.
#[track_caller]
fn record(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", said(output)))
}

/// A run folder whose packets are on a port that nothing but its record knows the meaning of.
fn run_folder(dir: &Path, with_record: bool) -> PathBuf {
    let folder = dir.join("run");
    std::fs::create_dir(&folder).unwrap();
    std::fs::copy(fixture(), folder.join("packets.pcapng")).unwrap();
    if with_record {
        let packets = folder.join("packets.pcapng");
        let output = overhead(&["analyze", path(&packets), "--db", "redis", "--port", "7379", "--format", "json"]);
        let mut live = record(&output);
        live["source"]["kind"] = "live".into();
        live["source"]["inputs"][0]["path"] = "packets.pcapng".into();
        live["source"]["kernel_drops"] = 0.into();
        live["environment"] = serde_json::json!({
            "command_line": ["overhead", "capture"], "kernel": "6.1", "cpu": "x", "cpus": 2, "host": "lab"
        });
        std::fs::write(folder.join("run.json"), live.to_string()).unwrap();
    }
    folder
}

#[test]
fn a_run_folder_is_read_again_as_it_was_captured() {
    let dir = tempfile::tempdir().unwrap();
    let folder = run_folder(dir.path(), true);
    let before: Value = serde_json::from_slice(&std::fs::read(folder.join("run.json")).unwrap()).unwrap();
    for named in [folder.clone(), folder.join("run.json")] {
        let output = overhead(&["analyze", path(&named), "--format", "json"]);
        assert_eq!(output.status.code(), Some(0), "{}", said(&output));
        let found = record(&output);
        for part in ["operations", "source", "environment", "ledger", "counters"] {
            assert_eq!(found[part], before[part], "{part}");
        }
        assert_eq!(found["source"]["selection"], serde_json::json!({"db": ["redis"], "ports": [7379]}));
    }
    // The record stays what it is until it is asked for.
    assert_eq!(std::fs::read(folder.join("run.json")).unwrap(), before.to_string().as_bytes());
    let output = overhead(&["analyze", path(&folder), "--write", "--db", "mongodb", "--quiet"]);
    assert_eq!(said(&output), "");
    let after: Value = serde_json::from_slice(&std::fs::read(folder.join("run.json")).unwrap()).unwrap();
    assert_eq!(after["source"]["selection"]["db"], serde_json::json!(["mongodb"]));
    let names: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names.len(), 2, "{names:?}");
}

#[test]
fn verbose_says_what_was_read_and_how() {
    let capture = fixture();
    let output = overhead(&["analyze", path(&capture), "--db", "redis", "--port", "7379", "-v"]);
    let (text, read) = (said(&output), format!("overhead: {}: ", capture.display()));
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert!(text.contains(&read) && text.contains("connections chosen: --db redis --port 7379"), "{text}");
    let output = overhead(&["analyze", path(&capture), "-v", "-q"]);
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn the_record_of_an_aborted_run_is_rebuilt() {
    let dir = tempfile::tempdir().unwrap();
    let folder = run_folder(dir.path(), false);
    let output = overhead(&["analyze", path(&folder), "--db", "redis", "--port", "7379", "-c", "10"]);
    assert_eq!(output.status.code(), Some(3));
    assert!(!folder.join("run.json").exists(), "a part of a run is not its record");
    let output = overhead(&["analyze", path(&folder), "--db", "redis", "--port", "7379", "--format", "json"]);
    assert_eq!(output.status.code(), Some(3), "{}", said(&output));
    assert!(
        said(&output).contains("the capture was aborted") && said(&output).contains("run.json"),
        "{}",
        said(&output)
    );
    let kept: Value = serde_json::from_slice(&std::fs::read(folder.join("run.json")).unwrap()).unwrap();
    assert_eq!(kept, record(&output));
    assert_eq!(kept["source"]["kind"], "live");
    assert_eq!(kept["source"]["inputs"][0]["path"], "packets.pcapng");
    for absent in ["counters", "kernel_drops"] {
        let absent = if absent == "counters" { &kept["counters"] } else { &kept["source"]["kernel_drops"] };
        assert!(absent["unavailable"].as_str().unwrap().contains("aborted"), "{absent}");
    }
    // And it is a run as any other from there on.
    let out = dir.path().join("report");
    let output = overhead(&["report", path(&folder), "-o", path(&out)]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
}

/// The packets contain the request, so nobody has to remember it.
#[test]
fn packets_of_an_aborted_run_say_what_was_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let mut source = FileSource::open(fixture()).unwrap();
    let mut about = WriterOptions::new(LinkType::ETHERNET);
    about.comment = "overhead capture --db valkey --port 7379".to_owned();
    let mut writer =
        PcapngWriter::new("packets.pcapng", std::fs::File::create(dir.path().join("packets.pcapng")).unwrap(), &about)
            .unwrap();
    while let Some(frame) = source.next_frame().unwrap().frame() {
        writer.write(&frame).unwrap();
    }
    writer.finish(None).unwrap();
    let found = record(&overhead(&["analyze", path(dir.path()), "--format", "json"]));
    assert_eq!(found["source"]["selection"], serde_json::json!({"db": ["valkey"], "ports": [7379]}));
    // The current options take precedence over it.
    let found = record(&overhead(&["analyze", path(dir.path()), "--db", "redis", "--format", "json"]));
    assert_eq!(found["source"]["selection"], serde_json::json!({"db": ["redis"], "ports": []}));
}

#[test]
fn a_capture_that_is_under_way_is_given_no_record() {
    let dir = tempfile::tempdir().unwrap();
    let folder = run_folder(dir.path(), false);
    let held = std::fs::File::open(&folder).unwrap();
    held.try_lock().unwrap();
    overhead(&["analyze", path(&folder), "--port", "7379"]);
    assert!(!folder.join("run.json").exists());
    held.unlock().unwrap();
    overhead(&["analyze", path(&folder), "--port", "7379"]);
    assert!(folder.join("run.json").exists());
}

#[test]
fn captures_and_runs_stand_side_by_side() {
    let dir = tempfile::tempdir().unwrap();
    let (folder, capture, out) = (run_folder(dir.path(), true), fixture(), dir.path().join("report"));
    let output = overhead(&["compare", path(&folder), path(&capture), "--port", "7379", "--format", "json"]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let compared = record(&output);
    assert!(!compared["pairs"].as_array().unwrap().is_empty());
    let output = overhead(&["report", path(&folder), path(&capture), "--port", "7379", "-o", path(&out)]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let report = std::fs::read_to_string(out.join("report.md")).unwrap();
    assert!(report.contains("## run") && report.contains("## capture"), "{report}");
    let explained = |named: &Path| overhead(&["explain", path(named), "--name", "GET", "--format", "json"]);
    let output = explained(&folder);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
}

#[test]
fn a_report_leaves_out_what_is_no_run() {
    let dir = tempfile::tempdir().unwrap();
    let folder = run_folder(dir.path(), true);
    let (empty, broken, out) = (dir.path().join("empty"), dir.path().join("broken.json"), dir.path().join("report"));
    std::fs::create_dir(&empty).unwrap();
    let output = overhead(&["report", path(&empty), path(&folder), "-o", path(&out)]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    assert!(
        said(&output).contains("skipped: ") && said(&output).contains("empty/run.json: no run record"),
        "{}",
        said(&output)
    );
    // A record that cannot be read is one run less than was meant.
    std::fs::write(&broken, "{]").unwrap();
    let output = overhead(&["report", path(&broken), path(&folder), "-o", path(&out)]);
    assert_eq!(output.status.code(), Some(3), "{}", said(&output));
    // A path that leads nowhere is a slip of the pen, and nothing at all is no report.
    assert_eq!(overhead(&["report", "/no/such/run", path(&folder), "-o", path(&out)]).status.code(), Some(1));
    assert_eq!(overhead(&["report", path(&empty), "-o", path(&out)]).status.code(), Some(1));
}

#[cfg(feature = "live")]
#[test]
fn a_command_without_dashes_is_told_where_they_go() {
    let output = overhead(&["capture", "-i", "lo", "--db", "redis", "redis-benchmark", "-t", "get"]);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(
        said(&output),
        "overhead: put -- before the command: overhead capture -i lo --db redis -- redis-benchmark -t get\n"
    );
}
