//! `analyze --annotate`: comments for Wireshark, and the same totals.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

type Outcome = Result<(), Box<dyn Error>>;

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures").join(name)
}

fn analyze(file: &Path, args: &[&str]) -> Result<Output, Box<dyn Error>> {
    let overhead = env!("CARGO_BIN_EXE_overhead");
    Ok(Command::new(overhead).arg("analyze").arg(file).args(args).env_remove("SSLKEYLOGFILE").output()?)
}

/// Returns what a record has of a capture apart from its name.
fn figures(output: &Output) -> Result<[serde_json::Value; 4], Box<dyn Error>> {
    let mut record: serde_json::Value = serde_json::from_slice(&output.stdout)?;
    Ok(["ledger", "operations", "connections", "tcp"].map(|name| record[name].take()))
}

#[test]
fn a_copy_has_a_comment_for_each_operation_and_the_same_totals_in_each_protocol() -> Outcome {
    let folder = tempfile::tempdir()?;
    for (name, db, port, text) in [
        ("redis-pipeline", "redis", "7379", "GET key:"),
        ("postgres-rust", "postgres", "7432", "SELECT id, vector, payload FROM"),
        ("cassandra-rust", "cassandra", "9042", "SELECT"),
        ("ferretdb-rust", "mongodb", "7017", "find"),
        ("mariadb-session", "mysql", "7306", "SELECT"),
        ("memcached-session", "memcached", "7211", "delete q (text)"),
        ("http-keyvalue", "http", "7080", "PUT /set"),
    ] {
        let args = std::fs::read_to_string(fixture(name).join("args"))?;
        let port = args.split_whitespace().skip_while(|word| *word != "--port").nth(1).unwrap_or(port).to_owned();
        let copy = folder.path().join(format!("{name}.pcapng"));
        let copied = copy.to_string_lossy();
        let selection = ["--db", db, "--port", &port, "--format", "json"];
        let made = analyze(&fixture(name).join("capture.pcap"), &[&selection[..], &["--annotate", &copied]].concat())?;
        let said = String::from_utf8_lossy(&made.stderr).into_owned();
        assert!(said.contains("frames with comments"), "{name}: {said}");
        let of_copy = analyze(&copy, &selection)?;
        assert_eq!((made.status.code(), figures(&made)?), (of_copy.status.code(), figures(&of_copy)?), "{name}");
        let bytes = std::fs::read(&copy)?;
        let count = figures(&made)?[1]
            .as_array()
            .map_or(0, |rows| rows.iter().filter_map(|row| row["count"].as_u64()).sum::<u64>());
        let has = |text: &str| bytes.windows(text.len()).any(|bytes| bytes == text.as_bytes());
        assert!(has(text), "{name}: no comment has {text:?}");
        assert!(has("#1 ") && has(&format!("#{count} ")), "{name}: {count} operations");
    }
    Ok(())
}

#[test]
fn comments_name_findings_and_a_file_is_not_written_over() -> Outcome {
    let folder = tempfile::tempdir()?;
    let copy = folder.path().join("copy.pcapng");
    let copied = copy.to_string_lossy();
    let capture = fixture("postgres-by-the-row").join("capture.pcap");
    let args = ["--db", "postgres", "--port", "7432", "--annotate", &copied];
    assert_eq!(analyze(&capture, &args)?.status.code(), Some(0));
    let bytes = std::fs::read(&copy)?;
    let finding = b"finding: ";
    assert!(bytes.windows(finding.len()).any(|bytes| bytes == finding));
    let again = analyze(&capture, &args)?;
    let said = String::from_utf8_lossy(&again.stderr).into_owned();
    assert_eq!((again.status.code(), said.contains("choose another name")), (Some(2), true), "{said}");
    Ok(())
}
