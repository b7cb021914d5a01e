//! `overhead report`: what may be chosen, what goes on the page, and what stays out of it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

const REDIS: [&str; 2] = ["--port", "7379"];

fn root(path: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path).to_str().unwrap().to_owned()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A folder for reports.
struct Reports(tempfile::TempDir);

impl Reports {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn run(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_overhead"));
        command.current_dir(self.0.path()).arg("report").args(arguments).stdin(Stdio::null());
        command.output().unwrap()
    }

    /// Makes a report and returns its page.
    #[track_caller]
    fn page(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert_eq!(output.status.code(), Some(0), "{}", said(&output));
        self.read("index.html")
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.file(name)).unwrap()
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.path().join("report").join(name)
    }
}

#[test]
fn what_was_chosen_is_in_the_figure_the_page_and_the_tables() {
    let reports = Reports::new();
    let (get, session) = (root("fixtures/redis-get-set/capture.pcap"), root("fixtures/redis-session/capture.pcap"));
    let label = format!("{session}=a whole session");
    let arguments = [
        &*get,
        &*session,
        REDIS[0],
        REDIS[1],
        "--title",
        "Two <sessions>",
        "--label",
        &label,
        "--label",
        "redis-get-set=gets and sets",
        "--operations",
        "get,SET",
        "--order",
        "name",
        "--theme",
        "dark",
        "--width",
        "1000",
    ];
    let page = reports.page(&arguments);
    assert!(page.contains("<title>Two &lt;sessions&gt;</title>") && page.contains("data-theme=\"dark\""));
    let figure = reports.read("overhead.svg");
    assert!(figure.contains("Two &lt;sessions&gt;") && figure.contains("width=\"1000\""), "{}", &figure[..400]);
    assert!(!figure.contains("#ffffff"), "the figure is dark");
    // `SELECT`, `PING` and the like are in the tables, and counted in the figure.
    assert!(figure.contains("more operations not drawn") && !figure.contains("CLIENT"));
    let tables = reports.read("report.md");
    let at = |text: &str| tables.find(text).unwrap_or_else(|| panic!("{text} in {tables}"));
    assert!(tables.starts_with("<!-- made by overhead report -->\n# Two"));
    assert!(at("## a whole session") < at("## gets and sets"), "by name");
    // The next one takes its place, though it has another title.
    reports.page(&[&get, REDIS[0], REDIS[1]]);
    assert!(!reports.read("index.html").contains("data-theme=\"dark\""));
}

#[test]
fn names_lose_what_all_of_them_begin_with() {
    let reports = Reports::new();
    for name in ["demo-redis", "demo-postgres"] {
        let folder = reports.0.path().join(name);
        fs::create_dir(&folder).unwrap();
        fs::copy(root("crates/report/tests/records/redis-resp-read-1/run.json"), folder.join("run.json")).unwrap();
    }
    let page = reports.page(&["demo-redis", "demo-postgres"]);
    assert!(page.contains("<h3>redis</h3>") && page.contains("<h3>postgres</h3>") && !page.contains("demo-"));
}

#[test]
fn what_does_not_fit_is_told_before_anything_is_written() {
    let reports = Reports::new();
    let get = root("fixtures/redis-get-set/capture.pcap");
    let load = root("crates/report/tests/records/redis-resp-read-1-load/bench.json");
    for (arguments, reason) in [
        (vec![&*get, "--port", "7379", "--operations", "GTE"], "no run has a workload operation of this name"),
        (vec![&*get, "--port", "7379", "--label", "other=x"], "RUN is one of capture"),
        (vec![&*get, "--port", "7379", "--label", "x"], "write RUN=NAME"),
        (vec![&*get, "--width", "100"], "--width 100 is not in 320..=4000"),
        (vec![&*load, "--bytes"], "--bytes is for runs: this is a load"),
    ] {
        let output = reports.run(&arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}", said(&output));
        assert!(said(&output).contains(reason), "{arguments:?}: {}", said(&output));
        assert!(!reports.file("index.html").exists());
    }
}

/// Statements have the pattern of a key, and never a value.
#[test]
fn bytes_of_operations_are_on_the_page_only_where_they_are_asked_for() {
    let reports = Reports::new();
    let get = root("fixtures/redis-get-set/capture.pcap");
    let page = reports.page(&[&get, REDIS[0], REDIS[1]]);
    assert!(!page.contains("Byte by byte") && !page.contains("title=\"data: value"));
    let page = reports.page(&[&get, REDIS[0], REDIS[1], "--bytes"]);
    assert!(page.contains("Byte by byte") && page.contains("title=\"data: value"));
    assert!(page.contains("title=\"query: command, 3 B\""), "a field has its account");
    // A record alone has no packets.
    let output = reports.run(&[&root("crates/report/tests/records/redis-resp-read-1"), "--bytes"]);
    assert!(said(&output).contains("--bytes: of no run are the packets there"), "{}", said(&output));
}

#[test]
fn what_could_be_saved_is_on_the_page_of_a_run_with_packets() {
    let reports = Reports::new();
    let long = root("fixtures/ferretdb-long-names/capture.pcap");
    let arguments = ["--port", "7017", "--db", "ferretdb"];
    let page = reports.page(&[&[&*long], &arguments[..]].concat());
    let advice = Command::new(env!("CARGO_BIN_EXE_overhead"))
        .args(["advise", &long, "--format", "json"])
        .args(arguments)
        .output()
        .unwrap();
    let advice: serde_json::Value = serde_json::from_slice(&advice.stdout).unwrap();
    let findings = advice["findings"].as_array().unwrap();
    assert!(!findings.is_empty() && page.contains("What could be saved"));
    for finding in findings {
        let setting = finding["remedies"][0]["at"].as_str().unwrap();
        assert!(page.contains(&format!("<dd>{setting}: ")), "{setting}");
    }
}

#[test]
fn a_load_has_a_report_and_stands_beside_no_run() {
    let reports = Reports::new();
    let load = root("crates/report/tests/records/redis-resp-read-1-load/bench.json");
    let page = reports.page(&[&load, "--title", "How fast", "--theme", "light"]);
    assert!(page.contains("<title>How fast</title>") && page.contains("data-kind=\"bench\""));
    assert!(reports.file("rate.svg").exists() && reports.file("latency.png").exists());
    let run = root("crates/report/tests/records/redis-resp-read-1");
    let output = reports.run(&[&run, &load, "-o", "beside"]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    assert!(said(&output).contains("is the record of a load: report it separately"), "{}", said(&output));
}

#[test]
fn a_page_of_the_users_is_not_replaced() {
    let reports = Reports::new();
    let get = root("fixtures/redis-get-set/capture.pcap");
    reports.page(&[&get, REDIS[0], REDIS[1]]);
    fs::write(reports.file("index.html"), "<p>mine</p>").unwrap();
    let output = reports.run(&[&get, REDIS[0], REDIS[1]]);
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert_eq!(reports.read("index.html"), "<p>mine</p>");
    reports.page(&[&get, REDIS[0], REDIS[1], "--force"]);
}
