//! Sweeps from the outside: what is refused, what is kept, and what is not done twice.

#![cfg(feature = "live")]

use overhead_model::Run;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Outside of the range from which the system gives ports to the other tests, whose frames would be seen here.
const FREE: &str = "21652";

fn sweep() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_overhead"));
    command.args(["sweep", "--no-bpf", "--db", "redis", "--port", FREE, "--runs", "2"]);
    command
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Live tests need the right to capture. Without it, the test prints so and shows nothing.
fn may_capture() -> bool {
    let dir = tempfile::tempdir().unwrap();
    let mut probe = Command::new(env!("CARGO_BIN_EXE_overhead"));
    let probe = probe.args(["capture", "--no-bpf", "--duration", "50ms", "-o"]).arg(dir.path().join("run"));
    let output = probe.output().unwrap();
    let may = output.status.code() != Some(1);
    if !may {
        println!("skipped: {}", said(&output).trim());
    }
    may
}

/// Returns the values of the runs that a sweep has made.
fn made(folder: &Path) -> Vec<Vec<String>> {
    let folders = |path: &Path| -> Vec<_> {
        let mut all: Vec<_> = fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()).collect();
        all.retain(|path| path.is_dir());
        all.sort();
        all
    };
    let records = folders(folder).into_iter().flat_map(|point| folders(&point)).map(|run| run.join("run.json"));
    let run = |path| -> Run { serde_json::from_slice(&fs::read(path).unwrap()).unwrap() };
    records.map(|path| run(path).parameters.into_values().collect()).collect()
}

/// Returns the lines of the file that each run of a command adds one to.
fn log(path: &Path) -> Vec<String> {
    fs::read_to_string(path).unwrap_or_default().lines().map(str::to_owned).collect()
}

#[test]
fn parameters_and_command_must_fit() {
    let refused = |arguments: &[&str], words: &[&str]| {
        let output = sweep().args(arguments).output().unwrap();
        let text = said(&output);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {text}");
        assert!(words.iter().all(|word| text.contains(word)), "{text}");
    };
    refused(&["--vary", "P=1,2", "--", "echo", "{P}{X}"], &["{X}", "--vary X=", "{{X}}"]);
    refused(&["--vary", "P=1,1", "--", "echo", "{P}"], &["twice"]);
    refused(&["--vary", "P=1", "--vary", "P=2", "--", "echo", "{P}"], &["--vary P is there twice"]);
    refused(&["--vary", "P=1", "-w", "x.pcap", "--", "echo", "{P}"], &["-w"]);
}

#[test]
fn rounds_are_interleaved_and_a_sweep_goes_on_where_it_ended() {
    if !may_capture() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let (folder, ran) = (dir.path().join("sweep"), dir.path().join("ran"));
    let script = format!("echo {{P}}{{c}} | tee -a {}; echo aside >&2", ran.display());
    let run = |values: &str| {
        let mut command = sweep();
        command.args(["--vary", values, "--vary", "c=x,y", "-o"]).arg(&folder).args(["--", "sh", "-c", &script]);
        command.output().unwrap()
    };
    let output = run("P=1,2");
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let rounds = ["1x 1y 2x 2y", "1x 1y 2x 2y", "1y 2x 2y 1x"].join(" ");
    assert_eq!(log(&ran).join(" "), rounds, "one to warm up, and two that begin elsewhere");
    let printed = |name: &str| fs::read_to_string(folder.join("P=2,c=y/run-2").join(name)).unwrap();
    assert_eq!((printed("command.out"), printed("command.err")), ("2y\n".to_owned(), "aside\n".to_owned()));
    assert!(folder.join("P=1,c=x/run-1/run.json").is_file() && !folder.join("P=1,c=x/warm-up").exists());
    assert_eq!(made(&folder).len(), 8);
    assert_eq!(made(&folder)[0], ["1", "x"], "each record has its parameters");

    fs::remove_dir_all(folder.join("P=2,c=x/run-2")).unwrap();
    assert_eq!(run("P=1,2").status.code(), Some(0));
    assert_eq!(log(&ran).len(), 12 + 4 + 1, "a round to warm up, and the run that was missing");
    assert_eq!(run("P=1,2").status.code(), Some(0));
    assert_eq!(log(&ran).len(), 17, "nothing was missing");
    assert_eq!(run("P=1,2,3").status.code(), Some(0));
    assert_eq!((log(&ran).len(), made(&folder).len()), (17 + 6 + 4, 12), "more values");

    let report = |paths: &[&str]| {
        let mut report = Command::new(env!("CARGO_BIN_EXE_overhead"));
        report.arg("report").args(paths.iter().map(|path| folder.join(path)));
        report.arg("-o").arg(dir.path().join(format!("report-{}", paths.len()))).output().unwrap()
    };
    let printed = |output: &Output| String::from_utf8_lossy(&output.stdout).into_owned();
    let whole = report(&["."]);
    assert!(whole.status.code() == Some(0) && printed(&whole).starts_with("12 runs"), "{}", printed(&whole));
    let mixed = report(&[".", "P=1,c=x/run-1"]);
    assert!(printed(&mixed).starts_with("12 runs"), "a run that is named twice counts once: {}", printed(&mixed));
    let some = report(&["P=1,c=x/run-1", "P=2,c=x/run-1", "P=2,c=x/run-2"]);
    assert!(printed(&some).starts_with("3 runs"), "any runs that differ by a parameter: {}", printed(&some));

    let mut other = sweep();
    other.args(["--vary", "P=1", "-o"]).arg(&folder).args(["--", "echo", "{P}"]);
    let refused = other.output().unwrap();
    assert!(refused.status.code() == Some(1) && said(&refused).contains("other command"), "{}", said(&refused));
}

#[test]
fn a_run_that_fails_is_named_and_made_again() {
    if !may_capture() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let (folder, good) = (dir.path().join("sweep"), dir.path().join("good"));
    let script = format!("[ {{P}} = 1 ] || [ -e {} ] || {{ echo so bad >&2; exit 7; }}", good.display());
    let run = || {
        let mut command = sweep();
        command.args(["--vary", "P=1,2", "-o"]).arg(&folder).args(["--", "sh", "-c", &script]).output().unwrap()
    };
    let output = run();
    assert_eq!(output.status.code(), Some(3), "{}", said(&output));
    let faults = said(&output).matches("does not count: the command ended with status 7: so bad").count();
    assert_eq!(faults, 2, "{}", said(&output));
    assert!(String::from_utf8_lossy(&output.stdout).contains("P=2/run-1 does not count"));
    fs::write(&good, "").unwrap();
    let again = run();
    assert!(again.status.code() == Some(0) && !String::from_utf8_lossy(&again.stdout).contains("does not count"));
}

#[test]
fn what_fails_for_every_value_ends_at_once_and_leaves_nothing() {
    if !may_capture() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("sweep");
    for (command, words) in [("no-such-command", "install it"), ("false", "status 1")] {
        let mut sweep = sweep();
        let output = sweep.args(["--vary", "P=1,2", "-o"]).arg(&folder).args(["--", command, "{P}"]).output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        assert!(said(&output).contains(words) && !folder.exists(), "{}", said(&output));
    }
}

#[test]
fn an_interrupt_keeps_what_is_done_and_drops_what_is_not() {
    if !may_capture() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("sweep");
    let script = "[ {P} = 1 ] || exec sleep 60";
    let mut command = sweep();
    command.args(["--warmup-runs", "0", "--vary", "P=1,2", "-o"]).arg(&folder).args(["--", "sh", "-c", script]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    assert!(lines.by_ref().map_while(Result::ok).any(|line| line.contains("1 of 4: P=1/run-1")));
    let under_way = folder.join("P=2/run-1/packets.pcapng");
    let patience = Instant::now() + Duration::from_secs(20);
    while !under_way.exists() && Instant::now() < patience {
        std::thread::sleep(Duration::from_millis(10));
    }
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    for _ in lines.map_while(Result::ok) {}
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(3));
    let table = String::from_utf8_lossy(&output.stdout).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(table.contains("ended after 1 of 4 runs: the same command continues from there"), "{table}");
    assert_eq!(made(&folder), [["1"]]);
    assert!(folder.join("P=1/run-1/run.json").is_file() && !folder.join("P=2/run-1").exists());
    assert!(folder.join("report.md").is_file());
}

#[test]
fn a_sweep_of_an_earlier_version_is_refused_with_what_to_do() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("sweep.json"), r#"{"schema_version": 1}"#).unwrap();
    for arguments in [&["report"][..], &["sweep", "--db", "redis", "--port", FREE, "--vary", "P=1", "-o"]] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_overhead"));
        command.args(arguments).arg(dir.path());
        if arguments[0] == "sweep" {
            command.args(["--", "echo", "{P}"]);
        }
        let output = command.output().unwrap();
        assert_eq!((output.status.code(), said(&output).lines().count()), (Some(1), 1), "{}", said(&output));
        assert!(said(&output).contains("repeat its `overhead sweep` command with another -o"), "{}", said(&output));
    }
}
