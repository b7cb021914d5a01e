//! Windows of a capture, and what they say of all of it.

use overhead_capture::{FileSource, FrameSource, PcapngWriter, WriterOptions};
use overhead_model::frame::OwnedFrame;
use overhead_model::{Frame, LinkType};
use serde_json::Value;
use std::fs::File;
use std::path::Path;
use std::process::{Command, Stdio};

const SECOND: u64 = 1_000_000_000;
/// Conversations, each of a second or more with pauses between its frames.
const CONVERSATIONS: u64 = 80;
const TRIALS: u64 = 60;
/// Of 60 trials 57 should hold what is true; fewer than this many by chance once in some thousand times.
const AT_LEAST: usize = 50;

/// A capture of some minutes: the conversation of a fixture by one client after another, at times that come in bursts.
fn long_capture(path: &Path) {
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/redis-get-set/capture.pcap");
    let (mut source, mut frames) = (FileSource::open(fixture).unwrap(), Vec::new());
    while let Some(frame) = source.next_frame().unwrap().frame() {
        frames.push(OwnedFrame::new(&frame));
    }
    let first_ns = frames[0].frame().time_ns;
    let mut all: Vec<(u64, Vec<u8>, u32)> = Vec::new();
    let (mut start_ns, mut chance, mut clients) = (SECOND, 7_u64, Vec::new());
    for conversation in 0..CONVERSATIONS {
        chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let busy = if conversation % 20 < 12 { 5 } else { 1 };
        start_ns += (chance >> 33) % (2 * SECOND) / busy;
        // Each is slower or faster than the fixture was, all of it.
        let stretch = 50 + chance % 400;
        for kept in &frames {
            let frame = kept.frame();
            let mut bytes = frame.bytes.to_vec();
            let at = if bytes[36..38] == 7379_u16.to_be_bytes() { 34 } else { 36 };
            let was = u16::from_be_bytes([bytes[at], bytes[at + 1]]);
            let which = clients.iter().position(|client| *client == was).unwrap_or(clients.len());
            if which == clients.len() {
                clients.push(was);
            }
            let client = 1_024 + conversation as u16 * 64 + which as u16;
            bytes[at..at + 2].copy_from_slice(&client.to_be_bytes());
            all.push((start_ns + (frame.time_ns - first_ns) * stretch, bytes, frame.original_len));
        }
    }
    all.sort();
    let options = WriterOptions::new(LinkType::ETHERNET);
    let mut writer = PcapngWriter::new("capture", File::create(path).unwrap(), &options).unwrap();
    for (time_ns, bytes, original_len) in &all {
        let (time_ns, original_len) = (*time_ns, *original_len);
        writer.write(&Frame { time_ns, link: LinkType::ETHERNET, original_len, interface: 0, bytes }).unwrap();
    }
    writer.finish(None).unwrap();
}

fn record(path: &Path, more: &[&str]) -> Value {
    let mut arguments = vec!["analyze", path.to_str().unwrap(), "--db", "redis", "--port", "7379", "--format", "json"];
    arguments.extend(more);
    let output = Command::new(env!("CARGO_BIN_EXE_overhead")).args(arguments).stdin(Stdio::null()).output().unwrap();
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)))
}

fn row<'r>(record: &'r Value, name: &str) -> &'r Value {
    record["operations"].as_array().unwrap().iter().find(|row| row["name"] == name).unwrap()
}

#[test]
fn what_is_true_lies_within_the_interval_as_often_as_that_says() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("long.pcapng");
    long_capture(&path);
    let whole = record(&path, &[]);
    let seconds = (whole["source"]["last_ns"].as_f64().unwrap() - whole["source"]["first_ns"].as_f64().unwrap()) / 1e9;
    let get = row(&whole, "GET");
    let truths = [
        ("per_second", get["count"].as_f64().unwrap() / seconds),
        ("response_wire_bytes", get["response"]["wire_bytes"]["mean"].as_f64().unwrap()),
        ("latency_ns", get["latency_ns"]["mean"].as_f64().unwrap()),
        ("data", get["response"]["accounts"]["data"].as_f64().unwrap() / get["count"].as_f64().unwrap()),
    ];
    let mut held = [0; 4];
    for seed in 0..TRIALS {
        let sampled = record(&path, &["--sample", "400ms/2s", "--sample-seed", &seed.to_string()]);
        assert_eq!(sampled["ledger"]["balanced"], true);
        assert_eq!(sampled["tcp"]["gap_bytes"], 0, "what lies between windows is no gap");
        assert_eq!(sampled["exit"], 0, "{}", sampled["warnings"]);
        let estimates = &row(&sampled, "GET")["sampled"];
        for (held, (figure, truth)) in held.iter_mut().zip(truths) {
            let accounts = estimates["accounts"].as_array().unwrap();
            let is_data = |account: &&Value| account["side"] == "response" && account["account"] == figure;
            let estimate = accounts.iter().find(is_data).map_or(&estimates[figure], |account| &account["bytes"]);
            let [low, high] = ["low", "high"].map(|end| estimate[end].as_f64().unwrap());
            *held += usize::from(low - 1e-9 * truth <= truth && truth <= high + 1e-9 * truth);
        }
    }
    assert!(held.iter().all(|held| *held >= AT_LEAST), "{held:?} of {TRIALS} hold {truths:?}");
}

/// 8 s with a frame each 2 ms, after 700 ms and before 300 ms of nothing: windows of 100 ms meet no end of it, or one.
#[test]
fn a_load_that_began_late_and_ended_early_lies_within_the_interval() {
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/redis-get-set/capture.pcap");
    let frame = OwnedFrame::new(&FileSource::open(fixture).unwrap().next_frame().unwrap().frame().unwrap());
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("steady.pcapng");
    let options = WriterOptions::new(LinkType::ETHERNET);
    let mut writer = PcapngWriter::new("capture", File::create(&path).unwrap(), &options).unwrap();
    let times: Vec<u64> = std::iter::once(0).chain((700..8_700).step_by(2)).chain([9_000]).collect();
    for time_ms in &times {
        writer.write(&Frame { time_ns: SECOND + time_ms * 1_000_000, ..frame.frame() }).unwrap();
    }
    writer.finish(None).unwrap();
    let holds = |seed: &u64| {
        let sampled = record(&path, &["--sample", "100ms/1s", "--sample-seed", &seed.to_string()]);
        let [low, high] = ["low", "high"].map(|end| sampled["sample"]["frames"][end].as_f64().unwrap());
        low <= times.len() as f64 && times.len() as f64 <= high
    };
    let held = (0..TRIALS).filter(holds).count();
    assert!(held >= AT_LEAST, "{held} of {TRIALS}");
}

#[test]
fn windows_are_part_of_the_capture_and_their_share_of_the_time_is_said() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("long.pcapng");
    long_capture(&path);
    let (whole, sampled) = (record(&path, &[]), record(&path, &["--sample", "1s/4s"]));
    let sample = &sampled["sample"];
    let share = sample["covered_share"].as_f64().unwrap();
    assert!((share - 0.25).abs() < 0.02, "{share}");
    assert_eq!(sample["seed"], 0);
    let (some, all) = (sampled["source"]["frames"].as_u64().unwrap(), whole["source"]["frames"].as_u64().unwrap());
    assert!(some > 0 && some < all, "{some} of {all}");
    let (count, rate) = (&row(&sampled, "GET")["sampled"]["count"], &row(&sampled, "GET")["sampled"]["per_second"]);
    let seconds = sample["span_ns"].as_f64().unwrap() / 1e9;
    for end in ["value", "low", "high"] {
        let [count, rate] = [count, rate].map(|of| of[end].as_f64().unwrap());
        assert!((count - rate * seconds).abs() < 1e-6 * count, "{count} {rate} {seconds}");
    }
    let warnings = sampled["warnings"].to_string();
    assert!(!warnings.contains("a second"), "estimates are figures, not warnings: {warnings}");
    assert!(whole.get("sample").is_none() && row(&whole, "GET").get("sampled").is_none());
    assert_eq!(
        record(&path, &["--sample", "1s/4s"])["operations"],
        sampled["operations"],
        "the same seed, the same places"
    );
}

#[test]
fn tables_have_the_error_of_each_figure() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("long.pcapng");
    long_capture(&path);
    let sampled = record(&path, &["--sample", "400ms/2s"]);
    let rate = &row(&sampled, "GET")["sampled"]["per_second"];
    let high = rate["high"].as_f64().unwrap();
    let count = &row(&sampled, "GET")["sampled"]["count"];
    let [value, most] = ["value", "high"].map(|end| count[end].as_f64().unwrap());
    let printed = |format: &str| {
        let arguments = ["analyze", path.to_str().unwrap(), "--db", "redis", "--port", "7379", "--sample", "400ms/2s"];
        let mut command = Command::new(env!("CARGO_BIN_EXE_overhead"));
        let output = command.args(arguments).args(["--format", format]).stdin(Stdio::null()).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    for format in ["table", "markdown"] {
        let text = printed(format);
        let found = text.lines().skip_while(|line| !line.contains("±")).find(|line| line.contains("GET"));
        let cells: Vec<&str> = found.unwrap().split_whitespace().collect();
        let at = cells.iter().position(|cell| cell.starts_with('±')).unwrap();
        let number = |cell: &str| cell.trim_start_matches('±').replace(',', "").parse::<f64>().unwrap();
        let (shown, error) = (number(cells[at - 1]), number(cells[at]));
        assert!((shown - value).abs() <= 0.5 && (error - (most - value)).abs() <= 0.5, "{found:?} {count}");
        assert!(text.contains("Estimates for the whole") && text.contains("one in each 2"), "{text}");
    }
    let csv = printed("csv");
    let mut lines = csv.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let header = lines.next().unwrap();
    let of = |name: &str| header.iter().position(|column| *column == name).unwrap();
    let get = lines.find(|cells| cells[of("row")] == "sampled" && cells[of("operation")] == "GET").unwrap();
    assert!((get[of("sampled_per_second_high")].parse::<f64>().unwrap() - high).abs() < 1e-6 * high, "{get:?}");
}
