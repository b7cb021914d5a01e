//! Packet files that one capture wrote one after the other, read as one.

use overhead_capture::{FileSource, FrameSource, PcapngWriter, WriterOptions};
use overhead_model::LinkType;
use serde_json::Value;
use std::fs::File;
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

/// Cuts the fixture into files of so many frames, as a capture with `-C` into a run folder leaves them.
fn rotated(folder: &Path, frames: u64) -> Vec<PathBuf> {
    let mut source = FileSource::open(fixture()).unwrap();
    let mut writer: Option<PcapngWriter<File>> = None;
    let mut files: Vec<PathBuf> = Vec::new();
    while let Some(frame) = source.next_frame().unwrap().frame() {
        if writer.as_ref().is_none_or(|writer| writer.frames() == frames) {
            let number = files.len() + 1;
            let path = folder.join(format!("packets-{number:06}.pcapng"));
            let comment = format!("overhead capture --db redis --port 7379 --set 17-4711 --part {number}");
            let options = WriterOptions { comment, ..WriterOptions::new(LinkType::ETHERNET) };
            let next = PcapngWriter::new("part", File::create(&path).unwrap(), &options).unwrap();
            writer.replace(next).into_iter().for_each(|full| drop(full.finish(None).unwrap()));
            files.push(path);
        }
        writer.as_mut().unwrap().write(&frame).unwrap();
    }
    writer.unwrap().finish(None).unwrap();
    files
}

/// The record but for what names the files and the run.
fn record(output: &Output) -> Value {
    let mut record: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", said(output)));
    record.as_object_mut().unwrap().remove("observer");
    record["source"].as_object_mut().unwrap().remove("inputs");
    record
}

#[test]
fn a_set_is_the_capture_that_was_cut_in_whatever_order_it_is_given() {
    let dir = tempfile::tempdir().unwrap();
    let files = rotated(dir.path(), 7);
    assert!(files.len() > 5);
    let options = ["--db", "redis", "--port", "7379", "--format", "json"];
    let fixture = fixture();
    let whole = record(&overhead(&[&["analyze", fixture.to_str().unwrap()], options.as_slice()].concat()));
    let mut names: Vec<&str> = files.iter().map(|file| file.to_str().unwrap()).collect();
    for _ in 0..2 {
        let output = overhead(&[&["analyze"], names.as_slice(), options.as_slice()].concat());
        assert_eq!(record(&output), whole);
        names.reverse();
    }
}

#[test]
fn an_aborted_run_of_several_files_is_read_as_one() {
    let dir = tempfile::tempdir().unwrap();
    rotated(dir.path(), 7);
    let output = overhead(&["analyze", dir.path().to_str().unwrap(), "--format", "json"]);
    assert!(said(&output).contains("the capture was aborted"), "{}", said(&output));
    let found = record(&output);
    assert_eq!(found["source"]["selection"], serde_json::json!({"db": ["redis"], "ports": [7379]}));
    assert_eq!(found["tcp"]["gap_bytes"], 0);
    assert_eq!(found["ledger"]["balanced"], true);
    assert!(dir.path().join("run.json").is_file());
}

#[test]
fn what_is_missing_of_a_set_is_said_and_makes_it_partial() {
    let dir = tempfile::tempdir().unwrap();
    let files = rotated(dir.path(), 7);
    std::fs::remove_file(&files[0]).unwrap();
    std::fs::remove_file(&files[1]).unwrap();
    std::fs::remove_file(&files[3]).unwrap();
    let names: Vec<&str> = files.iter().filter(|file| file.exists()).map(|file| file.to_str().unwrap()).collect();
    let output = overhead(&[&["analyze"], names.as_slice(), &["--db", "redis", "--port", "7379"]].concat());
    let shown = String::from_utf8_lossy(&output.stdout).into_owned() + &said(&output);
    let shown = shown.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(shown.contains("the first 2 packet files of this capture are not here"), "{shown}");
    assert!(shown.contains("1 packet file of this capture is missing between"), "{shown}");
    assert_eq!(output.status.code(), Some(3));
    let one = overhead(&["analyze", files[4].to_str().unwrap(), "--db", "redis", "--port", "7379", "--format", "json"]);
    assert!(said(&one).contains("the first 4 packet files"), "{}", said(&one));
}

#[test]
fn flags_that_contradict_one_another_are_refused_with_a_remedy() {
    if !cfg!(feature = "live") {
        return;
    }
    let cases: [(&[&str], &str); 5] = [
        (&["-W", "3"], "add -C SIZE or -G SECONDS"),
        (&["-C", "1", "-w", "-"], "standard output"),
        (&["-G", "1", "-w", "p-%!"], "strftime"),
        (&["-C", "1", "-W", "2", "--fields"], "-W deletes some"),
        (&["--sample", "5m/10s"], "leaves nothing out"),
    ];
    for (arguments, wanted) in cases {
        let output = overhead(&[&["capture", "--duration", "1ms"], arguments].concat());
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}", said(&output));
        assert!(said(&output).contains(wanted), "{arguments:?}: {}", said(&output));
    }
}
