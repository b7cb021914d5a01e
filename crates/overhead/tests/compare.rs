//! `overhead compare` and the fields it reads: from records, from run folders, for every recorded session.

use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const PAYLOAD: [&str; 8] = ["tls", "framing", "metadata", "schema", "query", "data", "status", "unknown"];

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures")
}

fn overhead(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_overhead"));
    command.args(arguments).env_remove("SSLKEYLOGFILE").current_dir(folder).output().unwrap()
}

/// The capture of a case, and how it is to be read.
fn case(folder: &Path) -> Option<(&'static str, Vec<String>)> {
    let capture = ["capture.pcap", "capture.pcapng"].into_iter().find(|name| folder.join(name).is_file())?;
    let args = fs::read_to_string(folder.join("args")).unwrap();
    Some((capture, args.split_whitespace().map(str::to_owned).collect()))
}

fn analyzed(folder: &Path, more: &[&str]) -> Vec<u8> {
    let (capture, args) = case(folder).unwrap();
    let mut arguments = vec!["analyze", capture, "--format", "json"];
    arguments.extend(args.iter().map(String::as_str));
    arguments.extend(more);
    let output = overhead(folder, &arguments);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

/// Bytes of the fields of one side and account.
fn fields(row: &Value, side: &str, account: &str) -> u64 {
    let fields = row["fields"].as_array().unwrap().iter();
    let of = fields.filter(|field| field["side"] == side && field["account"] == account);
    of.map(|field| field["bytes"].as_u64().unwrap()).sum()
}

#[test]
fn the_fields_of_every_recorded_session_add_up_to_its_accounts() {
    let (mut rows, mut with_fields) = (0, 0);
    for entry in fs::read_dir(fixtures()).unwrap() {
        let folder = entry.unwrap().path();
        if case(&folder).is_none() {
            continue;
        }
        let record: Value = serde_json::from_slice(&analyzed(&folder, &["--fields"])).unwrap();
        for row in record["operations"].as_array().unwrap() {
            for side in ["request", "response"] {
                for account in PAYLOAD {
                    let amount = row[side]["accounts"][account].as_u64().unwrap();
                    assert_eq!(fields(row, side, account), amount, "{} {} {account}", folder.display(), row["name"]);
                }
            }
            let statements = row["statements"].as_array().unwrap();
            for statement in statements.iter().filter(|statement| statement["text"] != "(none)" && statements.len() > 1)
            {
                for side in ["request", "response"] {
                    for account in PAYLOAD {
                        let amount = statement[side]["accounts"][account].as_u64().unwrap();
                        assert_eq!(
                            fields(statement, side, account),
                            amount,
                            "{} {statement} {account}",
                            folder.display()
                        );
                    }
                }
                with_fields += 1;
            }
            rows += 1;
        }
    }
    assert!(rows > 50 && with_fields > 5, "{rows} rows, {with_fields} statements");
}

#[test]
fn a_record_has_no_fields_unless_asked() {
    let record: Value = serde_json::from_slice(&analyzed(&fixtures().join("redis-get-set"), &[])).unwrap();
    assert!(record["operations"].as_array().unwrap().iter().all(|row| row.get("fields").is_none()));
}

/// A folder as `capture` leaves it: the record, and beside it the packets it was made of.
fn run_folder(at: &Path, name: &str) -> PathBuf {
    let from = fixtures().join(name);
    let folder = at.join(name);
    fs::create_dir(&folder).unwrap();
    fs::copy(from.join("capture.pcap"), folder.join("capture.pcap")).unwrap();
    fs::write(folder.join("run.json"), analyzed(&from, &[])).unwrap();
    folder
}

#[test]
fn packets_in_a_run_folder_tell_the_fields_that_a_record_has_not() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["redis-get-set", "postgres-extended-prepared"] {
        run_folder(dir.path(), name);
        fs::write(dir.path().join(format!("{name}.json")), analyzed(&fixtures().join(name), &["--fields"])).unwrap();
    }
    let compared = |suffix: &str| {
        let runs = ["redis-get-set", "postgres-extended-prepared"].map(|name| format!("{name}{suffix}"));
        let output = overhead(dir.path(), &["compare", &runs[0], &runs[1], "--format", "json"]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice::<Value>(&output.stdout).unwrap()
    };
    let (folders, records) = (compared(""), compared(".json"));
    assert_eq!(folders, records);
    let get = folders["pairs"].as_array().unwrap().iter().find(|pair| pair["operations"][0]["name"] == "GET").unwrap();
    assert_eq!(get["operations"][1]["name"], "SELECT");
    let names: Vec<&str> =
        get["fields"].as_array().unwrap().iter().map(|field| field["field"].as_str().unwrap()).collect();
    assert!(names.contains(&"row description.column.name") && names.contains(&"argument length"), "{names:?}");
}

#[test]
fn without_packets_a_comparison_goes_as_far_as_the_accounts() {
    let dir = tempfile::tempdir().unwrap();
    let folder = run_folder(dir.path(), "redis-get-set");
    fs::remove_file(folder.join("capture.pcap")).unwrap();
    run_folder(dir.path(), "redis-session");
    let output =
        overhead(dir.path(), &["compare", "redis-get-set", "redis-session", "--format", "markdown", "--details"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("Fields: not recorded") && text.contains("| account | side |"), "{text}");
}

#[test]
fn a_folder_without_a_run_is_named_with_a_remedy() {
    let dir = tempfile::tempdir().unwrap();
    let output = overhead(dir.path(), &["compare", "nothing", "nothing"]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(said.contains("nothing") && said.contains("run.json"), "{said}");
}

#[test]
fn fields_of_a_pipe_are_refused_because_it_cannot_be_read_twice() {
    let output = overhead(Path::new("."), &["analyze", "-", "--fields"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8(output.stderr).unwrap().contains("save a pipe to a file first"));
}

#[test]
fn a_folder_of_runs_is_one_subject_and_more_runs_stand_against_the_first() {
    let dir = tempfile::tempdir().unwrap();
    run_folder(dir.path(), "redis-get-set");
    let group = dir.path().join("group");
    fs::create_dir(&group).unwrap();
    for name in ["run-1", "run-2"] {
        fs::rename(run_folder(&group, "redis-get-set"), group.join(name)).unwrap();
    }
    let output = overhead(dir.path(), &["compare", "redis-get-set", "group", "group/run-1", "--format", "json"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let compared: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(compared["runs"], serde_json::json!(["redis-get-set", "group"]));
    assert_eq!(compared["repetitions"], serde_json::json!([1, 2]));
    assert_eq!(compared["further"][0]["runs"], serde_json::json!(["redis-get-set", "run-1"]));
    for pair in compared["pairs"].as_array().unwrap() {
        let [once, twice] = [&pair["operations"][0], &pair["operations"][1]];
        assert_eq!(twice["count"].as_u64().unwrap(), 2 * once["count"].as_u64().unwrap());
        assert_eq!(once["wire"], twice["wire"]);
        assert_eq!(pair["effect_bytes"], 0.0);
    }
    let one = overhead(dir.path(), &["compare", "redis-get-set"]);
    assert_eq!(one.status.code(), Some(2));
}
