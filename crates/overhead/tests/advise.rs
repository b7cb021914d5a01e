//! `overhead advise`: its forms, its refusals, and that its ledger matches `analyze`.

use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

fn overhead(args: &[&str]) -> Output {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures");
    Command::new(env!("CARGO_BIN_EXE_overhead")).current_dir(fixtures).args(args).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn json(args: &[&str]) -> Value {
    let output = overhead(&[args, &["--format", "json"]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

const CQL: [&str; 5] = ["cassandra-rust/capture.pcap", "--db", "cassandra", "--port", "7042"];
const REDIS: [&str; 5] = ["redis-get-set/capture.pcap", "--db", "redis", "--port", "7379"];

fn with<'a>(verb: &'a str, input: &[&'a str], more: &[&'a str]) -> Vec<&'a str> {
    [&[verb], input, more].concat()
}

/// Bytes of a ledger or of a row's side.
fn sum(accounts: &Value) -> u64 {
    accounts.as_object().unwrap().values().map(|bytes| bytes.as_u64().unwrap()).sum()
}

#[test]
fn its_bytes_are_those_of_the_ledger() {
    let run = json(&with("analyze", &CQL, &[]));
    let advice = json(&with("advise", &CQL, &[]));
    let ledger = sum(&run["ledger"]["request"]) + sum(&run["ledger"]["response"]);
    assert_eq!(advice["wire_bytes"], ledger);
}

#[test]
fn what_if_starts_from_the_rows_of_the_record_and_takes_what_the_fields_come_to() {
    let what_if = json(&with("advise", &CQL, &["--what-if", "column-metadata"]));
    let run = json(&with("analyze", &CQL, &["--fields"]));
    let is_row = |row: &&Value| row["name"] == "SELECT" && row["class"] == "workload";
    let row = run["operations"].as_array().unwrap().iter().find(is_row).unwrap();
    let changed = |when: &str| {
        let rows = what_if["rows"].as_array().unwrap().iter();
        rows.map(|row| sum(&row[when][1])).sum::<u64>()
    };
    assert_eq!(changed("before"), sum(&row["response"]["accounts"]));
    let is_metadata = |field: &&Value| {
        let name = field["field"].as_str().unwrap();
        name.starts_with("RESULT.metadata.") && !name.ends_with("flags") && !name.ends_with("column count")
    };
    let fields = row["fields"].as_array().unwrap().iter().filter(is_metadata);
    let bytes: u64 = fields.map(|field| field["bytes"].as_u64().unwrap()).sum();
    assert!(bytes > 0);
    assert_eq!(what_if["before"].as_u64().unwrap() - what_if["after"].as_u64().unwrap(), bytes);
    assert_eq!(changed("before") - changed("after"), bytes);
}

#[test]
fn findings_are_of_statements_and_cost_money() {
    let dear = ["--price", "2/GB", "--per", "month"];
    let by_day = json(&with("advise", &CQL, &["--price", "2/GB"]));
    let by_month = json(&with("advise", &CQL, &dear));
    let first = |advice: &Value| advice["findings"][0]["saving"]["cost"].as_f64().unwrap();
    assert!((first(&by_month) / first(&by_day) - 730.0 / 24.0).abs() < 1e-6);
    let said = text(&overhead(&with("advise", &CQL, &dear)).stdout);
    assert!(said.contains("· #3 cql SELECT ohb.vempty (prepared)") && said.contains(" per month at 2/GB"), "{said}");
    assert!(said.contains("Not shown: 3 below 2%. --all shows them."), "{said}");
    let all = text(&overhead(&with("advise", &CQL, &["--all"])).stdout);
    assert!(all.contains("\n5. ") && !all.contains("Not shown"), "{all}");
    let one = json(&with("advise", &[CQL[0], "#3", "--db", "cassandra", "--port", "7042"], &[]));
    let statements = one["findings"].as_array().unwrap().iter().map(|finding| &finding["subject"]["statement"]);
    assert!(
        statements.clone().count() > 0 && statements.into_iter().all(|text| text.as_str().unwrap().contains("vempty"))
    );
}

#[test]
fn a_depth_that_is_asked_for_takes_more_the_larger_it_is() {
    let after = |depth: &str| json(&with("advise", &REDIS, &["--what-if", depth]))["after"].as_u64().unwrap();
    let depths = ["pipelining=1", "pipelining=2", "pipelining=16", "pipelining=1000"].map(after);
    assert!(depths.is_sorted_by(|a, b| a > b), "{depths:?}");
    assert_eq!(depths[0], json(&with("advise", &REDIS, &[]))["wire_bytes"]);
}

#[test]
fn findings_are_said_in_words_and_in_markdown() {
    for (form, heading) in [("table", "1. repeated-reads"), ("markdown", "### 1. repeated-reads")] {
        let output = overhead(&with("advise", &REDIS, &["--format", form]));
        let said = text(&output.stdout);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        assert!(said.contains(heading) && said.replace('\\', "").contains("redis-py cache_config"), "{said}");
        assert!(said.contains("overhead explain FILE --op "), "{said}");
    }
}

#[test]
fn the_ledger_is_not_computed_for_what_is_not_known() {
    for (rule, reason) in [
        ("repeated-reads", "how old an answer may be"),
        ("compression", "name the compressor"),
        ("pipelining=0", "the depth is a number"),
        ("describe=1", "describe takes no value"),
        ("magic", "no such rule"),
    ] {
        let output = overhead(&with("advise", &REDIS, &["--what-if", rule]));
        assert_eq!(output.status.code(), Some(2), "{rule}");
        assert!(text(&output.stderr).contains(reason), "{rule}: {}", text(&output.stderr));
    }
    let stalls = ["memcached-nagle/capture.pcap", "--db", "memcached", "--port", "7211", "--what-if", "nagle"];
    assert!(text(&overhead(&with("advise", &stalls, &[])).stderr).contains("it saves time, not bytes"));
    let nothing = overhead(&with("advise", &REDIS, &["--what-if", "describe"]));
    assert_eq!(nothing.status.code(), Some(0));
    assert!(text(&nothing.stdout).contains("nothing would change"));
}

#[test]
fn a_capture_that_is_cut_gives_partial_advice() {
    let folder = tempfile::tempdir().unwrap();
    let whole = std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures").join(REDIS[0])).unwrap();
    let cut = folder.path().join("cut.pcap");
    std::fs::write(&cut, &whole[..whole.len() - 7]).unwrap();
    let output = overhead(&with("advise", &[cut.to_str().unwrap()], &REDIS[1..]));
    assert_eq!(output.status.code(), Some(3), "{}", text(&output.stderr));
    assert!(!output.stdout.is_empty());
}

#[test]
fn a_pipe_is_read_once() {
    let input = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures").join(REDIS[0]);
    let piped = |more: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_overhead"));
        command.args(["advise", "-"]).args(more).args(&REDIS[1..]).stdin(std::fs::File::open(&input).unwrap());
        command.output().unwrap()
    };
    let price = ["--price", "2/GB", "--format", "json"];
    let advice: Value = serde_json::from_slice(&piped(&price).stdout).unwrap();
    assert_eq!(advice, json(&with("advise", &REDIS, &price[..2])));
    let said = text(&piped(&[]).stdout);
    assert!(said.contains("1. repeated-reads · resp GET"), "{said}");
    let refused = piped(&["#1"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(text(&refused.stderr).contains("save it to a file first"), "{}", text(&refused.stderr));
}

/// A capture in which a client of memcached sends `mn` so often, and is never answered.
fn unanswered(times: usize) -> Vec<u8> {
    let mut capture = [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 65_535, 1].map(u32::to_le_bytes).concat();
    let stream = b"mn\r\n".repeat(times);
    // Ports 40000 and 11211, in either direction; both ends open the connection.
    let (client, server) = ([0x9c, 0x40, 0x2b, 0xcb], [0x2b, 0xcb, 0x9c, 0x40]);
    let opening = [(client, 2_u8, 0_u32, &stream[..0]), (server, 18, 7, &stream[..0])];
    let requests = (0..).zip(stream.chunks(1_400)).map(|(at, segment)| (client, 16, 1 + at * 1_400, segment));
    for (ports, flags, seq, payload) in opening.into_iter().chain(requests) {
        let len = 40 + payload.len() as u16;
        let ends = if ports == client { [10, 0, 0, 2, 10, 0, 0, 1] } else { [10, 0, 0, 1, 10, 0, 0, 2] };
        let ip = [&[0x45, 0], &len.to_be_bytes()[..], &[0, 0, 0x40, 0, 64, 6, 0, 0], &ends].concat();
        let tcp = [&ports, &seq.to_be_bytes()[..], &[0, 0, 0, 8, 0x50, flags, 255, 255, 0, 0, 0, 0]].concat();
        let frame = [&[2; 12][..], &[8, 0], &ip, &tcp, payload].concat();
        capture.extend([0, seq, frame.len() as u32, frame.len() as u32].map(u32::to_le_bytes).concat());
        capture.extend(frame);
    }
    capture
}

#[test]
fn operations_that_wait_for_answers_are_bounded() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("unanswered.pcap");
    std::fs::write(&path, unanswered(140_000)).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_overhead")).arg("advise").arg(&path).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("123616 operations were not looked at: they are of too many kinds"), "{said}");
    assert_eq!(output.status.code(), Some(3));
}
