//! Common mistakes on the command line: each gets one line that says what is wrong, then what to do.

use std::path::Path;
use std::process::{Command, Output, Stdio};

/// Status, arguments as typed, and what is said after `overhead: `; `…` stands for anything.
type Mistake = (i32, &'static str, &'static str);

const ARGUMENTS: &[Mistake] = &[
    (2, "frobnicate", "unknown command frobnicate: `overhead --help` lists the commands"),
    (2, "analyse a.pcap", "unknown command analyse: did you mean `overhead analyze`?"),
    (2, "a.pcap", "unknown command a.pcap: to read it, write `overhead analyze a.pcap`"),
    (2, "analyze", "FILE is missing: write overhead analyze <FILE>..."),
    (2, "analyze a.pcap --formt json", "`overhead analyze` has no option --formt: did you mean --format?"),
    (
        2,
        "analyze a.pcap --what-if x",
        "`overhead analyze` has no option --what-if: it belongs to `overhead advise`; `overhead analyze -h` lists others",
    ),
    (2, "report a.json --zebra", "`overhead report` has no option --zebra: `overhead report -h` lists the options"),
    (2, "analyze a.pcap --format xml", "--format: unknown value xml: choose one of table, json, csv, markdown"),
    (2, "analyze a.pcap --port abc", "--port abc: invalid port: use 1 to 65535, or name a database with --db"),
    (2, "analyze a.pcap --port 0", "--port 0: invalid port: use 1 to 65535, or name a database with --db"),
    (2, "analyze a.pcap --db reids", "--db: unknown value reids: did you mean redis?"),
    (2, "analyze a.pcap --db oracle", "--db: unknown value oracle: choose one of auto, redis, …, postgres, …"),
    (2, "analyze a.pcap --db redis,postgres", "--db takes one value: write --db redis --db postgres"),
    (2, "analyze a.pcap -c 1e6", "--count takes digits: write --count 1000000"),
    (2, "analyze a.pcap -c many", "--count many: not a whole number: write digits, such as 1000"),
    (2, "analyze a.pcap -c 0", "--count 0 is not in 1..18446744073709551615"),
    (
        2,
        "analyze a.pcap --from yesterday",
        "--from yesterday is not a time: give +2s, 1.5s, 2026-01-31T12:00:00Z or Unix seconds",
    ),
    (2, "analyze a.pcap --from +5 --to +2", "--from is not before --to: nothing would be left"),
    (
        2,
        "analyze a.pcap --price 0.02",
        "--price 0.02 is not a price: write an amount and a unit, such as 0.02/GB or 0.02/GiB",
    ),
    (2, "analyze a.pcap --quiet --verbose", "--quiet and --verbose exclude each other: leave one out"),
    (2, "analyze a.pcap --columns colour", "--columns colour: no such column; choose from number, …, schema, …"),
    (2, "analyze a.pcap --columns total --format csv", "--columns is for --format table and markdown; …"),
    (2, "explain a.pcap --statement", "--statement needs a value: write --statement <TEXT>"),
    (2, "compare a.json", "a comparison takes two runs: name another one after a.json, or …"),
    (
        2,
        "compare a.json a.json --fail-on foo>+1%",
        "--fail-on foo>+1%: foo: unknown metric; use wire, payload, frames, round-trips or setup for the whole cost, request or response with .wire, …",
    ),
    (
        2,
        "compare a.json a.json --fail-on response.payload",
        "--fail-on response.payload is not a limit: write FIGURE>+N% or FIGURE>+N, such as response.payload>+1%",
    ),
    (2, "check budget.toml", "RUN is missing: write overhead check <BUDGET.toml> <RUN>..."),
];

const FILES: &[Mistake] = &[
    (
        2,
        "check a.json budget.toml",
        "a.json is not a budget: name the budget first: `overhead check budget.toml a.json`",
    ),
    (
        2,
        "check runs/run-1 budget.toml",
        "runs/run-1 is not a budget: name the budget first: `overhead check budget.toml runs/run-1`",
    ),
    (
        1,
        "check none.toml a.json",
        "the budget none.toml cannot be read (…): name another, or write one with `overhead check --write none.toml RUN`",
    ),
    (
        1,
        "check broken.toml a.json",
        "the budget broken.toml: line 1: unclosed array, …: correct it, name another, or write one with …",
    ),
    (1, "analyze none.pcap", "none.pcap does not exist: check the path, or give `-` to read standard input"),
    (1, "analyze empty.pcap", "empty.pcap is empty (0 bytes): whatever captured it wrote nothing, so capture again"),
    (1, "analyze text.pcap", "text.pcap is not a capture (it starts with 68 65 6c 6c): give a pcap or pcapng file, …"),
    (1, "analyze header.pcap", "header.pcap ends inside its header, after 6 bytes: it was cut, so …"),
    (1, "analyze folder", "folder is a directory: name the capture files in it, as in `folder/*.pcap`"),
    (1, "analyze a.pcap --keylog none.txt", "--keylog none.txt: …: check the path"),
    (1, "analyze a.pcap --statements none.txt", "--statements none.txt: …: check the path"),
    (
        1,
        "report folder",
        "folder/run.json: no run record here; name a folder that holds a run.json, or the file itself",
    ),
    (1, "report broken.json", "broken.json…"),
    (2, "analyze runs", "runs is a folder of 2 runs: name one of them, such as runs/run-1, or …"),
    (2, "explain runs", "runs is a folder of 2 runs: name one of them, such as runs/run-1, or …"),
    (2, "advise runs", "runs is a folder of 2 runs: name one of them, such as runs/run-1, or …"),
    (1, "explain a.pcap --port 7379 --name NOPE", "a.pcap: no operation named NOPE: there are GET (50), …"),
    (
        1,
        "explain a.pcap --port 7379 --statement nothing",
        "a.pcap: no operation with the statement `nothing`: choose one of these, by its number or text: #1 …",
    ),
];

#[cfg(feature = "live")]
const CAPTURES: &[Mistake] = &[
    (2, "capture redis-benchmark -n 10", "put -- before the command: overhead capture -- redis-benchmark -n 10"),
    (2, "capture --duration 10 s --no-bpf", "--duration takes one word: write --duration 10s"),
    (2, "capture --duration 10x", "--duration 10x: invalid unit of time x: use us, ms, s, m or h"),
    (2, "capture --duration 0", "--duration 0: nothing would be captured in no time: give more than 0"),
    (2, "capture --ops 0", "--ops 0 is not in 1..18446744073709551615"),
    (2, "capture -i", "--iface needs a value: write --iface <IF>"),
    (2, "capture --runs 3", "COMMAND is missing: write overhead capture --runs <N> -- <COMMAND>..."),
    (2, "capture -w x --runs 3 -- true", "-w and --runs exclude each other: leave one out"),
    (2, "capture -s 64q", "--snaplen 64q is not a size: give bytes, or a number such as 64k or 128M"),
    (2, "capture --metrics 9474", "--metrics 9474: not an address with a port: write one like 127.0.0.1:9474"),
    (
        2,
        "sweep --db redis -- true",
        "--vary is missing: write overhead sweep --vary <P=V1,V2,…> --db <NAME> -- <COMMAND>...",
    ),
    (2, "sweep --vary P=1,2", "sweep runs a command: give it after --, with the parameters in braces ({P})"),
    (2, "sweep --vary P=1,2 -- true", "--vary P: the command has no {P}: put it where the value belongs"),
    (2, "sweep --vary P -- true {P}", "--vary P: give a name and its values, such as P=1,10,25,50"),
    #[cfg(feature = "top")]
    (2, "top a.pcap", "standard output is not a terminal: --once prints one screen as text"),
];

fn overhead(folder: &Path, arguments: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_overhead"));
    command.args(arguments.split(' ')).current_dir(folder).env_remove("SSLKEYLOGFILE");
    command.stdin(Stdio::null()).output().unwrap()
}

/// Makes a folder with files of all sorts.
fn folder() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, bytes: &[u8]| std::fs::write(dir.path().join(name), bytes).unwrap();
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/redis-get-set/capture.pcap");
    write("a.pcap", &std::fs::read(fixture).unwrap());
    let record = overhead(dir.path(), "analyze a.pcap --port 7379 --format json").stdout;
    write("a.json", &record);
    for name in ["runs/run-1", "runs/run-2", "folder"] {
        std::fs::create_dir_all(dir.path().join(name)).unwrap();
    }
    write("runs/run-1/run.json", &record);
    write("runs/run-2/run.json", &record);
    write("empty.pcap", b"");
    write("text.pcap", b"hello, world, this is text");
    write("header.pcap", b"\xd4\xc3\xb2\xa1\x02\0");
    write("broken.toml", b"x = [");
    write("broken.json", b"{]");
    assert_eq!(overhead(dir.path(), "check --write budget.toml a.json").status.code(), Some(0));
    dir
}

/// Whether `text` is `pattern`, in which `…` stands for anything.
fn is_like(text: &str, pattern: &str) -> bool {
    let mut parts = pattern.split('…');
    let Some(mut rest) = parts.next().and_then(|first| text.strip_prefix(first)) else { return false };
    for part in parts.by_ref() {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.is_empty() || pattern.ends_with('…')
}

/// Fails with all mistakes that are answered otherwise.
fn check(mistakes: &[Mistake]) {
    let dir = folder();
    let wrong = mistakes.iter().filter_map(|&(status, arguments, sentence)| {
        let output = overhead(dir.path(), arguments);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let line = said.strip_prefix("overhead: ").unwrap_or_default().trim_end();
        let is_right = output.status.code() == Some(status) && output.stdout.is_empty() && !line.contains('\n');
        (!is_right || !is_like(line, sentence)).then(|| format!("{arguments}: {:?}\n{said}", output.status.code()))
    });
    let wrong: Vec<String> = wrong.collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn wrong_arguments_are_usage_errors_with_a_remedy() {
    check(ARGUMENTS);
}

#[test]
fn inputs_that_cannot_be_read_are_named_with_a_remedy() {
    check(FILES);
}

#[cfg(feature = "live")]
#[test]
fn captures_that_cannot_begin_say_why() {
    check(CAPTURES);
}
