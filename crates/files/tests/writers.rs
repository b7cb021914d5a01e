//! Only this crate opens files for writing, so that no planted link is followed.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::fs;
use std::path::{Path, PathBuf};

/// Calls that create, replace or rename files or folders.
const CALLS: [&str; 12] = [
    "File::create",
    "create_new(",
    "OpenOptions::new",
    "fs::write(",
    "fs::rename(",
    "fs::copy(",
    "fs::hard_link(",
    "fs::symlink(",
    "fs::create_dir",
    "DirBuilder",
    ".write(true)",
    ".append(true)",
];

/// Files that may do so, and why.
const EXCEPTIONS: [(&str, &str); 8] = [
    ("files/src/", "this crate"),
    ("options/src/generate.rs", "makes manual pages and completions at build time, in a folder that the builder names"),
    ("overhead/src/generate.rs", "the same"),
    ("bench/src/main.rs", "the same"),
    ("studies/src/", "a program of the lab, which never runs as root"),
    ("testing/", "only for tests"),
    ("report/examples/", "only for measurements of the lab"),
    ("live/src/command.rs", "opens /dev/null"),
];

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        if entry.is_dir() && !entry.ends_with("tests") {
            sources(&entry, found);
        } else if entry.extension().is_some_and(|extension| extension == "rs") && !entry.ends_with("tests.rs") {
            found.push(entry);
        }
    }
}

/// Returns whether a line has a call, and not one of a type whose name ends alike.
fn calls(line: &str, call: &str) -> bool {
    line.match_indices(call).any(|(at, _)| !line[..at].ends_with(char::is_alphanumeric))
}

#[test]
fn files_are_written_by_this_crate_alone() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let (mut files, mut used) = (Vec::new(), Vec::new());
    sources(crates, &mut files);
    assert!(files.len() > 300, "{}", files.len());
    for path in files {
        let text = fs::read_to_string(&path).unwrap();
        let production = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
        let lines = production.lines().enumerate().filter(|(_, line)| CALLS.iter().any(|call| calls(line, call)));
        let name = path.strip_prefix(crates).unwrap().to_string_lossy().into_owned();
        for (number, line) in lines {
            match EXCEPTIONS.iter().find(|(start, _)| name.starts_with(start)) {
                Some((start, _)) => used.push(*start),
                None => panic!("{name}, line {}: write with overhead-files instead: {}", number + 1, line.trim()),
            }
        }
    }
    for (start, why) in EXCEPTIONS {
        assert!(used.contains(&start), "{start} ({why}) is no exception any more");
    }
}
