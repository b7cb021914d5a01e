//! Tests of the program that need no server.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::fs;
use std::net::TcpListener;
use std::process::{Command, Output};

fn bench(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_overhead-bench")).args(arguments).output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn help_fits_a_screen() {
    let output = bench(&["--help"]);
    assert_eq!(output.status.code(), Some(0));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.lines().count() <= 60 && text.lines().all(|line| line.chars().count() <= 120), "{text}");
}

/// Returns the long options in a text.
fn options(text: &str) -> BTreeSet<&str> {
    text.split(|c: char| !(c.is_ascii_lowercase() || c == '-'))
        .filter(|word| word.len() > 2 && word.starts_with("--"))
        .collect()
}

#[test]
fn pages_and_completions_have_all_options() {
    let made = tempfile::tempdir().unwrap();
    let output = bench(&["--generate", made.path().to_str().unwrap()]);
    assert!(output.status.success(), "{}", said(&output));
    let help = String::from_utf8(bench(&["--help"]).stdout).unwrap();
    let listed: String = help.lines().filter(|line| line.trim_start().starts_with('-')).collect::<Vec<_>>().join("\n");
    let mut wanted = options(&listed);
    // Alias of --database.
    wanted.remove("--keyspace");
    assert!(wanted.len() > 20 && wanted.contains("--setup-only"), "{wanted:?}");
    for place in
        ["man1/overhead-bench.1", "bash/overhead-bench.bash", "zsh/_overhead-bench", "fish/overhead-bench.fish"]
    {
        let text = fs::read_to_string(made.path().join(place)).unwrap();
        // Man pages contain fonts and escapes; fish puts names of long options after -l.
        let text = text.replace("\\fB", " ").replace("\\fR", " ").replace('\\', "").replace("-l ", "--");
        let missing: Vec<_> = wanted.difference(&options(&text)).copied().collect();
        assert!(missing.is_empty(), "{place} has no {missing:?}");
    }
}

#[test]
fn wrong_words_are_a_matter_of_usage() {
    for (arguments, word) in [
        (&["oracle"][..], "postgres"),
        (&["redis", "--operation", "delete"], "delete"),
        (&["redis", "--skip-metadata", "on"], "--skip-metadata"),
        (&["redis", "--compression", "lz4"], "--compression"),
        (&["scylla", "--compression", "zstd"], "lz4"),
        (&["redis", "--database", "things"], "--database"),
        (&["postgres", "--server", "a", "--server", "b"], "--server"),
        (&["redis", "--mix", "read=1,read=2"], "twice"),
        (&["redis", "--operation", "oltp-point"], "oltp-point"),
        (&["postgres", "--multi-key", "on"], "--multi-key"),
        (&["mysql", "--compression", "zstd"], "zlib"),
        (&["mysql", "--server", "unix:/run/mysqld.sock"], "unix:"),
        (&["redis", "--server", "unix:/run/redis.sock", "--tls"], "--tls"),
    ] {
        let output = bench(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}", said(&output));
        assert!(said(&output).contains(word), "{arguments:?}: {}", said(&output));
    }
}

#[test]
fn where_nobody_listens_one_sentence_says_so() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    for db in ["redis", "postgres", "cassandra", "mongodb", "http", "memcached", "mysql"] {
        let output = bench(&[db, "--server", &format!("127.0.0.1:{port}"), "--timeout", "1s"]);
        let text = said(&output);
        assert_eq!(output.status.code(), Some(1), "{db}: {text}");
        assert!(text.contains(&format!("127.0.0.1:{port}: connection refused")), "{db}: {text}");
        assert_eq!(text.lines().count(), 1, "{db}: {text}");
    }
}

#[test]
fn who_never_answers_is_not_waited_for() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    for db in ["redis", "postgres", "cassandra", "mongodb", "http", "memcached", "mysql"] {
        let output = bench(&[db, "--server", &format!("127.0.0.1:{port}"), "--timeout", "300ms"]);
        let text = said(&output);
        assert_eq!(output.status.code(), Some(1), "{db}: {text}");
        assert!(text.contains(&format!("127.0.0.1:{port}")), "{db}: {text}");
    }
}

/// One request for several rows is one operation of a capture, so a pipeline of a driver that has none would divide by too few.
#[test]
fn a_pipeline_of_a_driver_without_one_is_refused_unless_it_is_one_request() {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = server.local_addr().unwrap().to_string();
    drop(server);
    for system in ["memcached", "mysql", "mongodb", "http"] {
        let run = |more: &[&str]| {
            bench(&[&[system, "--server", &address, "--pipeline", "1,64", "--ops", "64"], more].concat())
        };
        let refused = run(&[]);
        let told = said(&refused);
        assert!(
            refused.status.code() == Some(2) && told.contains("--pipeline") && told.contains("--multi-key on"),
            "{told}"
        );
        assert_eq!(run(&["--multi-key", "on"]).status.code(), Some(1), "{system}: no server answers");
    }
}
