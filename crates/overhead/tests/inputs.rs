//! Several capture files as one, and windows of time.

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

fn overhead(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_overhead")).args(arguments).stdin(Stdio::null()).output().unwrap()
}

/// The record of these files, without what differs by their names and by the run.
fn record(files: &[&Path], more: &[&str]) -> (Value, Value) {
    let mut arguments = vec!["analyze", "--db", "redis", "--port", "7379", "--format", "json"];
    arguments.extend(files.iter().map(|file| file.to_str().unwrap()));
    arguments.extend(more);
    let output = overhead(&arguments);
    let mut record: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)));
    assert_eq!(record["ledger"]["balanced"], true);
    record.as_object_mut().unwrap().remove("observer");
    let inputs = record["source"]["inputs"].take();
    (record, inputs)
}

/// A pcap file taken apart: its header and its records.
struct Pcap {
    header: Vec<u8>,
    records: Vec<Vec<u8>>,
}

impl Pcap {
    fn fixture(name: &str) -> Self {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures").join(name).join("capture.pcap");
        let bytes = std::fs::read(path).unwrap();
        let (header, mut rest) = bytes.split_at(24);
        let mut records = Vec::new();
        while !rest.is_empty() {
            let len = u32::from_le_bytes(rest[8..12].try_into().unwrap()) as usize;
            let (record, after) = rest.split_at(16 + len);
            records.push(record.to_vec());
            rest = after;
        }
        Self { header: header.to_vec(), records }
    }

    fn write<'r>(&self, path: &Path, records: impl Iterator<Item = &'r Vec<u8>>) {
        let mut bytes = self.header.clone();
        records.for_each(|record| bytes.extend(record));
        std::fs::write(path, bytes).unwrap();
    }

    /// Time of a record in seconds and the unit of the file.
    fn time(&self, index: usize) -> (u32, u32) {
        let field = |at: usize| u32::from_le_bytes(self.records[index][at..at + 4].try_into().unwrap());
        (field(0), field(4))
    }

    /// Nanoseconds per unit of the time stamps.
    fn unit_ns(&self) -> u64 {
        if self.header[0] == 0x4d { 1 } else { 1_000 }
    }

    fn time_ns(&self, index: usize) -> u64 {
        let (seconds, rest) = self.time(index);
        u64::from(seconds) * 1_000_000_000 + u64::from(rest) * self.unit_ns()
    }
}

fn paths(dir: &Path, names: &[&str]) -> Vec<PathBuf> {
    names.iter().map(|name| dir.join(name)).collect()
}

#[test]
fn a_rotated_set_in_any_order_is_the_one_file() {
    let dir = tempfile::tempdir().unwrap();
    let pcap = Pcap::fixture("redis-pipeline");
    let [whole, a, b, c] = &paths(dir.path(), &["whole", "a", "b", "c"])[..] else { panic!() };
    let (third, n) = (pcap.records.len() / 3, pcap.records.len());
    pcap.write(whole, pcap.records.iter());
    // Names tell nothing of the order.
    pcap.write(c, pcap.records[..third].iter());
    pcap.write(a, pcap.records[third..2 * third].iter());
    pcap.write(b, pcap.records[2 * third..].iter());
    let (expected, _) = record(&[whole], &[]);
    for order in [[c, a, b], [b, a, c], [a, b, c]] {
        let (found, inputs) = record(&order.map(PathBuf::as_path), &[]);
        assert_eq!(found, expected);
        let named: Vec<&str> = inputs.as_array().unwrap().iter().map(|input| input["path"].as_str().unwrap()).collect();
        assert_eq!(named, order.map(|path| path.to_str().unwrap()));
        let frames: u64 = inputs.as_array().unwrap().iter().map(|input| input["frames"].as_u64().unwrap()).sum();
        assert_eq!(frames, n as u64);
    }
}

#[test]
fn a_set_cut_where_times_fall_back_is_the_one_file() {
    let dir = tempfile::tempdir().unwrap();
    let mut pcap = Pcap::fixture("redis-get-set");
    let at = pcap.records.len() / 2;
    // The second half begins with a frame that is stamped before the last three of the first.
    let early = pcap.records[at - 4][..8].to_vec();
    pcap.records[at][..8].copy_from_slice(&early);
    let [whole, first, second] = &paths(dir.path(), &["whole", "first", "second"])[..] else { panic!() };
    pcap.write(whole, pcap.records.iter());
    pcap.write(first, pcap.records[..at].iter());
    pcap.write(second, pcap.records[at..].iter());
    assert_eq!(record(&[second, first], &[]).0, record(&[whole], &[]).0);
}

#[test]
fn files_captured_side_by_side_are_merged() {
    let dir = tempfile::tempdir().unwrap();
    let mut pcap = Pcap::fixture("redis-get-set");
    // Stretched to 10 ms a frame, so that the files overlap by more than a rotated set could.
    for (index, record) in pcap.records.iter_mut().enumerate() {
        record[..4].copy_from_slice(&(index as u32 / 100).to_le_bytes());
        let unit_ns = if pcap.header[0] == 0x4d { 1 } else { 1_000 };
        record[4..8].copy_from_slice(&((index as u32 % 100) * (10_000_000 / unit_ns)).to_le_bytes());
    }
    let [whole, even, odd] = &paths(dir.path(), &["whole", "even", "odd"])[..] else { panic!() };
    pcap.write(whole, pcap.records.iter());
    pcap.write(even, pcap.records.iter().step_by(2));
    pcap.write(odd, pcap.records.iter().skip(1).step_by(2));
    let (expected, _) = record(&[whole], &[]);
    assert_eq!(record(&[even, odd], &[]).0, expected);
    assert_eq!(record(&[odd, even], &[]).0, expected);
    // And so is a third that begins within.
    let (head, tail) = pcap.records.split_at(pcap.records.len() / 2);
    let late = dir.path().join("late");
    pcap.write(odd, head.iter().skip(1).step_by(2));
    pcap.write(&late, tail.iter().skip(1 - head.len() % 2).step_by(2));
    assert_eq!(record(&[&late, odd, even], &[]).0, expected);
}

impl Pcap {
    /// The same frames, cut off behind `len` bytes.
    fn snapped(&self, len: usize) -> Self {
        let snap = |record: &Vec<u8>| {
            let mut record = record[..record.len().min(16 + len)].to_vec();
            let captured = (record.len() as u32 - 16).to_le_bytes();
            record[8..12].copy_from_slice(&captured);
            record
        };
        Self { header: self.header.clone(), records: self.records.iter().map(snap).collect() }
    }
}

fn warnings(record: &Value) -> Vec<&str> {
    record["warnings"].as_array().unwrap().iter().map(|warning| warning.as_str().unwrap()).collect()
}

#[test]
fn headers_that_were_not_captured_are_not_called_broken() {
    let dir = tempfile::tempdir().unwrap();
    let pcap = Pcap::fixture("redis-get-set");
    let [snapped] = &paths(dir.path(), &["snapped"])[..] else { panic!() };
    // 14 of Ethernet, 20 of IP, 32 of TCP: its options are cut off, or part of the IP header is.
    for len in [60, 40, 30] {
        pcap.snapped(len).write(snapped, pcap.snapped(len).records.iter());
        let (found, _) = record(&[snapped], &[]);
        assert_eq!(found["exit"], 3, "{len}");
        assert_eq!(found["source"]["malformed_frames"], 0);
        assert_eq!(found["source"]["header_snapped_frames"], pcap.records.len());
        let said = warnings(&found).join("\n");
        assert!(said.contains(&format!("snap length of {len} bytes")) && said.contains("-s 0"), "{said}");
        assert!(!said.contains("--port") && !said.contains("broken"), "{said}");
        let lost = found["lower_bounds"].to_string();
        assert!(lost.contains("captured without all headers"), "{lost}");
        // As much as it says is enough for the headers.
        let enough = said.split("-s ").find_map(|rest| rest.split_once(" keeps")?.0.parse().ok());
        let kept = pcap.snapped(enough.unwrap());
        kept.write(snapped, kept.records.iter());
        assert_eq!(record(&[snapped], &[]).0["source"]["header_snapped_frames"], 0);
    }
}

#[test]
fn without_any_payload_the_snap_length_is_named_and_not_the_port() {
    let dir = tempfile::tempdir().unwrap();
    let pcap = Pcap::fixture("redis-get-set").snapped(66);
    let snapped = dir.path().join("snapped");
    pcap.write(&snapped, pcap.records.iter());
    let output = overhead(&["analyze", snapped.to_str().unwrap(), "--format", "json"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains("66 bytes of each frame") && said.contains("-s 0") && !said.contains("--port"), "{said}");
}

/// A file that is given twice, in whatever way, yields the same figures as the file given once.
#[test]
fn a_file_given_twice_is_counted_once() {
    let dir = tempfile::tempdir().unwrap();
    let pcap = Pcap::fixture("redis-get-set");
    let [whole, link, copy, early, late] = &paths(dir.path(), &["whole", "link", "copy", "early", "late"])[..] else {
        panic!()
    };
    pcap.write(whole, pcap.records.iter());
    std::fs::hard_link(whole, link).unwrap();
    std::fs::copy(whole, copy).unwrap();
    let n = pcap.records.len();
    pcap.write(early, pcap.records[..2 * n / 3].iter());
    pcap.write(late, pcap.records[n / 3..].iter());
    let without_warnings = |mut record: Value| {
        record.as_object_mut().unwrap().remove("warnings");
        record
    };
    let expected = without_warnings(record(&[whole], &[]).0);
    for (files, repeats) in [
        (&[whole, whole][..], vec![n]),
        (&[whole, link], vec![n]),
        (&[copy, whole, link], vec![n, n]),
        (&[late, early], vec![2 * n / 3 - n / 3]),
        (&[early, whole], vec![2 * n / 3]),
    ] {
        let files: Vec<&Path> = files.iter().map(|file| file.as_path()).collect();
        let (found, inputs) = record(&files, &[]);
        for repeat in repeats {
            let expected = format!("{repeat} frames of ");
            let said = warnings(&found);
            assert!(said.iter().any(|said| said.starts_with(&expected) && said.ends_with("counted once")), "{said:?}");
        }
        let is_same = files.len() == 2 && files[0] == files[1];
        assert_eq!(warnings(&found).join(" ").contains("given twice"), is_same);
        let frames: u64 = inputs.as_array().unwrap().iter().map(|input| input["frames"].as_u64().unwrap()).sum();
        assert_eq!(frames, n as u64);
        assert_eq!(without_warnings(found), expected, "{files:?}");
    }
}

#[test]
fn captures_of_both_ends_are_not_added_up_in_silence() {
    let dir = tempfile::tempdir().unwrap();
    let pcap = Pcap::fixture("redis-get-set");
    let [here, there] = &paths(dir.path(), &["here", "there"])[..] else { panic!() };
    pcap.write(here, pcap.records.iter());
    // The clock of the other end is two seconds ahead, its link-layer addresses are others, and a router lies between.
    let mut far = Pcap::fixture("redis-get-set");
    for record in &mut far.records {
        let seconds = u32::from_le_bytes(record[..4].try_into().unwrap()) + 2;
        record[..4].copy_from_slice(&seconds.to_le_bytes());
        record[16] = 2;
        record[16 + 14 + 8] -= 1;
    }
    far.write(there, far.records.iter());
    let (found, _) = record(&[here, there], &[]);
    let said = warnings(&found).join("\n");
    assert_eq!(found["exit"], 3, "{said}");
    assert!(said.contains("hold the same segments") && said.contains("analyze one of them"), "{said}");
    assert_eq!(record(&[here], &[]).0["exit"], 0);
}

#[test]
fn a_pipe_can_be_one_of_several() {
    let dir = tempfile::tempdir().unwrap();
    let pcap = Pcap::fixture("redis-get-set");
    let [whole, first, second] = &paths(dir.path(), &["whole", "first", "second"])[..] else { panic!() };
    let half = pcap.records.len() / 2;
    pcap.write(whole, pcap.records.iter());
    pcap.write(first, pcap.records[..half].iter());
    pcap.write(second, pcap.records[half..].iter());
    let program = env!("CARGO_BIN_EXE_overhead");
    let script = format!(
        "cat {} | {program} analyze {} - --db redis --port 7379 --format json",
        first.display(),
        second.display()
    );
    let output = Command::new("sh").args(["-c", &script]).output().unwrap();
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    let (expected, _) = record(&[whole], &[]);
    assert_eq!(found["operations"], expected["operations"]);
    assert_eq!(found["source"]["inputs"][1]["path"], "-");
}

#[test]
fn frames_outside_of_a_window_are_not_counted() {
    let dir = tempfile::tempdir().unwrap();
    let pcap = Pcap::fixture("redis-get-set");
    let [whole, part] = &paths(dir.path(), &["whole", "part"])[..] else { panic!() };
    let (from, to) = (10, pcap.records.len() - 10);
    pcap.write(whole, pcap.records.iter());
    let (from_ns, to_ns) = (pcap.time_ns(from), pcap.time_ns(to));
    let inside = |index: &usize| (from_ns..to_ns).contains(&pcap.time_ns(*index));
    let indices: Vec<usize> = (0..pcap.records.len()).filter(inside).collect();
    pcap.write(part, indices.iter().map(|index| &pcap.records[*index]));
    let without_warnings = |(mut record, inputs): (Value, Value)| {
        record.as_object_mut().unwrap().remove("warnings");
        (record, inputs[0]["frames"].clone())
    };
    let expected = without_warnings(record(&[part], &[]));
    let seconds = |ns: u64| format!("{}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000);
    let after = |ns: u64| format!("+{}s", seconds(ns - pcap.time_ns(0)));
    for (from, to) in
        [(seconds(from_ns), seconds(to_ns)), (after(from_ns), after(to_ns)), (after(from_ns), seconds(to_ns))]
    {
        let found = record(&[whole], &["--from", &from, "--to", &to]);
        let outside = format!("{} frames outside --from and --to are not counted", pcap.records.len() - indices.len());
        assert!(
            found.0["warnings"].as_array().unwrap().iter().any(|warning| *warning == *outside),
            "{}",
            found.0["warnings"]
        );
        assert_eq!(without_warnings(found), expected);
    }
}

#[test]
fn a_warm_up_is_what_comes_first() {
    let dir = tempfile::tempdir().unwrap();
    let pcap = Pcap::fixture("redis-get-set");
    let whole = dir.path().join("whole");
    pcap.write(&whole, pcap.records.iter());
    let after = pcap.time_ns(10) - pcap.time_ns(0);
    let time = format!("{}.{:09}s", after / 1_000_000_000, after % 1_000_000_000);
    let (mut found, _) = record(&[&whole], &["--warmup", &time]);
    let (mut expected, _) = record(&[&whole], &["--from", &format!("+{time}")]);
    assert!(warnings(&found).iter().any(|said| said.ends_with("frames outside --warmup are not counted")));
    for record in [&mut found, &mut expected] {
        record.as_object_mut().unwrap().remove("warnings");
    }
    assert_eq!(found, expected);
    assert!(found["source"]["frames"].as_u64().unwrap() < pcap.records.len() as u64);
}
