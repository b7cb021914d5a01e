//! `overhead check` and `compare --fail-on`: what is within, what is outside, and what cannot be judged.

use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn capture(name: &str) -> String {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures").join(name);
    let names = ["capture.pcap", "capture.pcapng"].map(|name| fixtures.join(name));
    names.iter().find(|path| path.is_file()).unwrap().display().to_string()
}

fn overhead(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_overhead"));
    command.args(arguments).env_remove("SSLKEYLOGFILE").current_dir(folder).output().unwrap()
}

fn status(output: &Output) -> i32 {
    output.status.code().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// A folder with a budget of this capture, read with these options.
fn budget(capture: &str, options: &[&str]) -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let mut arguments = vec!["check", "--write", "budget.toml", capture];
    arguments.extend(options);
    let output = overhead(dir.path(), &arguments);
    assert_eq!(status(&output), 0, "{}", said(&output));
    let path = dir.path().join("budget.toml");
    (dir, path)
}

const POSTGRES: [&str; 4] = ["--db", "postgres", "--port", "7432"];

#[test]
fn a_capture_is_within_its_own_budget_and_outside_of_a_smaller_one() {
    let capture = capture("postgres-rust");
    let (dir, path) = budget(&capture, &POSTGRES);
    let check = |more: &[&str]| {
        let mut arguments = vec!["check", "budget.toml", &capture];
        arguments.extend(POSTGRES);
        arguments.extend(more);
        overhead(dir.path(), &arguments)
    };
    let output = check(&[]);
    assert_eq!((status(&output), &*output.stdout), (0, &b""[..]), "{}", said(&output));
    assert!(said(&output).contains("1 run within budget.toml"));
    assert_eq!(status(&check(&["--bisect"])), 0);

    // A budget of a time when these fields had other names.
    let text = fs::read_to_string(&path).unwrap();
    let (run, operations) = text.split_once("[[operation]]").unwrap();
    let smaller = |line: &str| {
        if line.starts_with("\"response.payload\" =") {
            "\"response.payload\" = { budget = 1.0, tolerance = 0 }".to_owned()
        } else {
            line.replace("\"response.data ", "\"response.data old.")
        }
    };
    let operations: Vec<String> = operations.lines().map(smaller).collect();
    fs::write(&path, format!("{run}[[operation]]{}", operations.join("\n"))).unwrap();
    let output = check(&[]);
    assert_eq!(status(&output), 4, "{}", said(&output));
    assert_eq!(status(&check(&["--bisect"])), 1);
    assert_eq!(status(&check(&["--bisect", "missing.pcap"])), 125);
    let swapped = overhead(dir.path(), &["check", ".", "budget.toml"]);
    assert!(said(&swapped).contains("`overhead check budget.toml .`"), "{}", said(&swapped));
    let lines: Vec<String> = String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect();
    assert!(!lines.is_empty() && lines.iter().all(|line| line.contains("response.payload")), "{lines:?}");
    assert!(lines[0].contains("allowed 1 B") && lines[0].contains(" data old."), "{lines:?}");

    let github = check(&["--format", "github"]);
    assert_eq!(status(&github), 4);
    let text = String::from_utf8(github.stdout).unwrap();
    assert!(text.lines().all(|line| line.starts_with("::error file=budget.toml,title=")), "{text}");
    let json: Value = serde_json::from_slice(&check(&["--format", "json"]).stdout).unwrap();
    assert_eq!(json["status"], 4);
    assert_eq!(json["findings"][0]["figure"], "response.payload");
    for format in ["csv", "markdown"] {
        assert_eq!(status(&check(&["--format", format])), 4, "{format}");
    }
}

#[test]
fn records_run_folders_and_folders_of_runs_are_checked_alike() {
    let capture = capture("redis-get-set");
    let (dir, _) = budget(&capture, &["--db", "redis", "--port", "7379"]);
    let record = overhead(dir.path(), &["analyze", &capture, "--db", "redis", "--port", "7379", "--format", "json"]);
    for folder in ["a", "all/run-1", "all/run-2"] {
        fs::create_dir_all(dir.path().join(folder)).unwrap();
        fs::write(dir.path().join(folder).join("run.json"), &record.stdout).unwrap();
    }
    let output = overhead(dir.path(), &["check", "budget.toml", "a", "a/run.json", "all"]);
    assert_eq!(status(&output), 0, "{}", said(&output));
    assert!(said(&output).contains("4 runs within"), "{}", said(&output));
}

#[test]
fn what_cannot_be_judged_ends_with_three_and_never_passes() {
    let redis = capture("redis-get-set");
    let (dir, path) = budget(&redis, &["--db", "redis", "--port", "7379"]);
    let text = fs::read_to_string(&path).unwrap();
    let check = |text: &str| {
        fs::write(&path, text).unwrap();
        overhead(dir.path(), &["check", "budget.toml", &redis, "--db", "redis", "--port", "7379"])
    };
    let output = check(&text.replace("[run]", "[run]\nsyscalls = 1000"));
    assert_eq!(status(&output), 3, "{}", said(&output));
    assert!(said(&output).contains("syscalls: offline"), "{}", said(&output));
    assert!(said(&output).contains("or delete this limit from the budget"), "{}", said(&output));
    let missing =
        "\n[[operation]]\nprotocol = \"resp\"\nname = \"HGETALL\"\n[operation.budget]\n\"request.wire\" = 9\n";
    let output = check(&(text.clone() + missing));
    assert_eq!(status(&output), 3, "{}", said(&output));
    assert!(said(&output).contains("HGETALL"), "{}", said(&output));
    for broken in ["", "version = 1", "version = 1\n[runs]"] {
        let output = check(broken);
        assert_eq!(status(&output), 1, "{}", said(&output));
    }
    let output = overhead(dir.path(), &["check", "nowhere.toml", &redis]);
    assert_eq!(status(&output), 1);
    assert!(said(&output).contains("--write"), "{}", said(&output));
}

#[test]
fn a_partial_run_is_no_budget_and_within_none() {
    let dir = tempfile::tempdir().unwrap();
    let whole = fs::read(capture("redis-get-set")).unwrap();
    fs::write(dir.path().join("cut.pcap"), &whole[..whole.len() - 20]).unwrap();
    let redis = ["--db", "redis", "--port", "7379"];
    let output = overhead(dir.path(), &[&["check", "--write", "budget.toml", "cut.pcap"], &redis[..]].concat());
    assert_eq!(status(&output), 1, "{}", said(&output));
    assert!(!dir.path().join("budget.toml").exists());
    fs::write(dir.path().join("whole.pcap"), &whole).unwrap();
    let write = [&["check", "--write", "budget.toml", "whole.pcap"], &redis[..]].concat();
    assert_eq!(status(&overhead(dir.path(), &write)), 0);
    let again = overhead(dir.path(), &write);
    assert_eq!(status(&again), 1);
    assert!(said(&again).contains("--force"), "{}", said(&again));
    let output = overhead(dir.path(), &[&["check", "budget.toml", "cut.pcap"], &redis[..]].concat());
    assert!([3, 4].contains(&status(&output)), "{}", said(&output));
    assert!(said(&output).contains("partial"), "{}", said(&output));
}

#[test]
fn a_comparison_fails_on_what_it_was_told_to() {
    let dir = tempfile::tempdir().unwrap();
    for (name, fixture) in [("simple", "postgres-simple"), ("prepared", "postgres-extended-prepared")] {
        let arguments = ["analyze", &capture(fixture), "--db", "postgres", "--port", "7432", "--format", "json"];
        fs::write(dir.path().join(format!("{name}.json")), overhead(dir.path(), &arguments).stdout).unwrap();
    }
    let compare = |limits: &[&str]| {
        let mut arguments = vec!["compare", "simple.json", "simple.json", "--by", "name"];
        for limit in limits {
            arguments.extend(["--fail-on", limit]);
        }
        overhead(dir.path(), &arguments)
    };
    assert_eq!(status(&compare(&["response.payload>+0%", "request.wire>+0"])), 0);
    let output = compare(&["latency.p50>+1%"]);
    assert_eq!(status(&output), 3, "{}", said(&output));
    let output = compare(&["response.payload"]);
    assert_eq!(status(&output), 2, "{}", said(&output));
    let arguments = ["compare", "simple.json", "prepared.json", "--fail-on", "request.payload>+0"];
    let output = overhead(dir.path(), &[&arguments[..], &["--format", "github"]].concat());
    assert!([3, 4].contains(&status(&output)), "{}", said(&output));
    assert!(String::from_utf8_lossy(&output.stdout).starts_with("::error title="), "{}", said(&output));
}
