//! Every recorded session in `fixtures/` gives the record that stands beside it. With `OVERHEAD_BLESS=1` the records are
//! written instead of compared: see `fixtures/README.md`.

use serde_json::Value;
use std::collections::BTreeMap;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

type Outcome<T> = Result<T, Box<dyn Error>>;

/// The folders that have a capture, in order.
fn cases() -> Outcome<Vec<PathBuf>> {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures");
    let mut cases = Vec::new();
    for entry in fs::read_dir(fixtures)? {
        let case = entry?.path();
        if capture(&case).is_some() {
            cases.push(case);
        }
    }
    cases.sort();
    Ok(cases)
}

/// The capture of a case.
fn capture(case: &Path) -> Option<&'static str> {
    ["capture.pcap", "capture.pcapng"].into_iter().find(|name| case.join(name).is_file())
}

/// Returns the output of `analyze` for a case, without anything that differs between builds and places.
fn record(case: &Path, options: &[&str]) -> Outcome<String> {
    let args = fs::read_to_string(case.join("args"))?;
    let output = Command::new(env!("CARGO_BIN_EXE_overhead"))
        .args(["analyze", capture(case).ok_or("no capture")?, "--format", "json"])
        .args(args.split_whitespace())
        .args(options)
        .env_remove("SSLKEYLOGFILE")
        .current_dir(case)
        .output()?;
    if !output.status.success() {
        return Err(format!("{}: {}", output.status, String::from_utf8_lossy(&output.stderr)).into());
    }
    let mut record: Value = serde_json::from_slice(&output.stdout)?;
    let members = record.as_object_mut().ok_or("the record is not an object")?;
    members.remove("tool");
    members.remove("observer");
    for input in record["source"]["inputs"].as_array_mut().into_iter().flatten() {
        input.as_object_mut().ok_or("an input is not an object")?.remove("path");
    }
    Ok(serde_json::to_string_pretty(&record)? + "\n")
}

/// The first lines that differ, for a reader who wants to know where to look.
fn difference(expected: &str, found: &str) -> String {
    let pairs = expected.lines().zip(found.lines()).enumerate();
    let differing = pairs.filter(|(_, (wanted, got))| wanted != got);
    let mut shown: Vec<String> = differing
        .take(10)
        .map(|(line, (wanted, got))| format!("  line {}:\n    - {}\n    + {}", line + 1, wanted.trim(), got.trim()))
        .collect();
    shown.push(format!("  {} lines expected, {} found", expected.lines().count(), found.lines().count()));
    shown.join("\n")
}

/// Compares or blesses one case; an error says what is wrong with it.
fn check(case: &Path, options: &[&str], bless: bool) -> Outcome<()> {
    let found = record(case, options)?;
    let path = case.join("expected.json");
    if bless {
        return Ok(fs::write(path, found)?);
    }
    let expected = fs::read_to_string(&path).map_err(|_| "no expected.json: make bless, and read what it wrote")?;
    if expected == found { Ok(()) } else { Err(difference(&expected, &found).into()) }
}

/// Returns the cases that differ, and how; empty if all are as expected.
fn differing(options: &[&str], bless: bool) -> Outcome<String> {
    let cases = cases()?;
    if cases.is_empty() {
        return Err("no fixtures were found".into());
    }
    let failures = cases.iter().filter_map(|case| {
        let error = check(case, options, bless).err()?;
        Some(format!("{} {options:?}:\n{error}\n", case.file_name().unwrap_or_default().display()))
    });
    Ok(failures.collect())
}

fn is_to_bless() -> bool {
    std::env::var_os("OVERHEAD_BLESS").is_some()
}

#[test]
fn recorded_sessions_give_the_expected_records() {
    let differing = differing(&[], is_to_bless()).unwrap();
    assert!(differing.is_empty(), "{differing}");
}

#[test]
fn the_record_does_not_depend_on_the_memo() {
    if is_to_bless() {
        return;
    }
    let differing = differing(&["--no-memo"], false).unwrap();
    assert!(differing.is_empty(), "{differing}");
}

/// Operations of a case by row, with counts, outcomes and payload accounts, as far as TLS does not add them.
fn within_tls(case: &str) -> Outcome<BTreeMap<String, String>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures").join(case);
    let record: Value = serde_json::from_str(&record(&path, &[])?)?;
    let mut rows = BTreeMap::new();
    for row in record["operations"].as_array().ok_or("no operations")? {
        if ["CONNECT", "TLS", "SSLREQUEST"].iter().any(|name| row["name"] == *name) {
            continue;
        }
        let mut said: Vec<String> = ["count", "errors", "unanswered"].map(|name| row[name].to_string()).into();
        for side in ["request", "response"] {
            for account in ["framing", "metadata", "schema", "query", "data", "status", "unknown"] {
                said.push(row[side]["accounts"][account].to_string());
            }
        }
        rows.insert(format!("{} {} {}", row["class"], row["name"], row["via"]), said.join(" "));
    }
    Ok(rows)
}

#[test]
fn decrypted_sessions_come_to_what_they_come_to_in_the_clear() {
    for (clear, encrypted) in [
        ("redis-session", "redis-tls13"),
        ("redis-session", "redis-tls12-embedded"),
        ("postgres-session", "postgres-tls12"),
    ] {
        let (expected, found) = (within_tls(clear).unwrap(), within_tls(encrypted).unwrap());
        assert!(!expected.is_empty());
        assert_eq!(found, expected, "{encrypted}");
    }
}
