//! Outside text in every form of output: it steers no terminal, is no command to GitHub's runner, and leaves no cell or document.

#![cfg(unix)]

mod conversations;
mod rules;

use rules::Form;
use serde_json::{Value, json};
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Hostile outside text. Each is tried wherever text from outside may stand.
const HOSTILE: [&str; 18] = [
    "\x1b[2J\x1b]0;owned\x07",
    "\u{9b}31mC1\u{85}\u{90}q\u{9c}",
    "del\u{7f}\u{8}\u{8}\u{8}back",
    "rlo\u{202e}fdp\u{2066}x\u{2069}\u{200f}\u{61c}",
    "soft\u{ad}hyphen\u{200b}zero\u{2060}width\u{feff}",
    "line\u{2028}separator\u{2029}and\u{e0041}tags\u{e007f}\u{3164}",
    "\n::error::owned",
    "::error file=x::owned",
    "\r\n::add-mask::owned",
    "##[error]owned",
    "=HYPERLINK(\"http://evil.example\")",
    "+1|'@SUM(A1)'!A1",
    "</script><script>alert(1)</script><img src=x onerror=alert(1)>",
    "a|b`c``d [x](http://evil.example) ![y](//evil.example/z)",
    "@octocat https://evil.example/x www.evil.example mail@evil.example",
    "$x^2$ $$y$$ #12 owner/repository#7 GH-9 :tada: ~~z~~ <!-- q",
    "\"},{\"name\":\"owned\"} \\u001b \\",
    "%0A::error::owned %1B[31m",
];

fn texts() -> Vec<String> {
    HOSTILE.map(str::to_owned).to_vec()
}

fn overhead<A: AsRef<OsStr>>(folder: &Path, arguments: &[A]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_overhead"));
    command.args(arguments).current_dir(folder).env_remove("SSLKEYLOGFILE").output().unwrap()
}

/// Runs it, and holds both outputs against the rules of their forms.
#[track_caller]
fn holds<A: AsRef<OsStr> + std::fmt::Debug>(folder: &Path, arguments: &[A], form: Form) -> Output {
    let output = overhead(folder, arguments);
    rules::check(&format!("{arguments:?}"), &output.stdout, form);
    rules::check(&format!("{arguments:?} on standard error"), &output.stderr, Form::Terminal);
    assert!(output.status.code().is_some_and(|code| code != 101), "{arguments:?}: {output:?}");
    output
}

const FORMS: [(&str, Form); 4] =
    [("table", Form::Terminal), ("json", Form::Json), ("csv", Form::Csv), ("markdown", Form::Markdown)];

#[test]
fn text_of_every_protocol_is_harmless_in_every_form() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    for (protocol, capture) in conversations::of_all_protocols(&texts()) {
        let file = capture.write(folder, &format!("{protocol}.pcap"));
        let file = file.to_str().unwrap();
        let which = ["--db", protocol];
        let record =
            holds(folder, &[&["analyze", file, "--fields", "--format", "json"], &which[..]].concat(), Form::Json);
        let record: Value = serde_json::from_slice(&record.stdout).unwrap();
        let operations = record["operations"].as_array().unwrap();
        assert!(operations.len() > 2, "{protocol}: {operations:?}");
        // The text is in the record as it was on the wire, for programs.
        println!(
            "{protocol}: {} of {} texts are in the record",
            HOSTILE.iter().filter(|text| found(&record, text)).count(),
            HOSTILE.len()
        );
        for (name, form) in FORMS {
            for by in ["name", "statement", "connection", "client"] {
                holds(folder, &[&["analyze", file, "--by", by, "--format", name, "-v"], &which[..]].concat(), form);
            }
        }
        for (name, form) in [FORMS[0], FORMS[1], FORMS[3]] {
            holds(folder, &[&["advise", file, "--format", name], &which[..]].concat(), form);
        }
        for number in ["1", "3", "5", "9"] {
            holds(folder, &[&["explain", file, "--op", number], &which[..]].concat(), Form::Terminal);
            holds(folder, &[&["explain", file, "--op", number, "--format", "json"], &which[..]].concat(), Form::Json);
        }
        holds(folder, &[&["top", file, "--once"], &which[..]].concat(), Form::Terminal);
        for (at, text) in HOSTILE.iter().enumerate().filter(|(at, _)| at % 4 == 0) {
            holds(folder, &[&["explain", file, "--name", text], &which[..]].concat(), Form::Terminal);
            let copy = format!("{protocol}-{at}.copy");
            holds(folder, &[&["analyze", file, "--anonymise", &copy], &which[..]].concat(), Form::Terminal);
        }
    }
}

/// Returns whether a text of a record has this in it.
fn found(value: &Value, text: &str) -> bool {
    match value {
        Value::String(of) => of.contains(text),
        Value::Array(of) => of.iter().any(|value| found(value, text)),
        Value::Object(of) => of.iter().any(|(key, value)| key.contains(text) || found(value, text)),
        _ => false,
    }
}

/// A run whose record says this wherever somebody else chooses what it says.
fn run(folder: &Path, name: &str, text: &str) -> PathBuf {
    let file = conversations::of_all_protocols(&[text.to_owned()]).swap_remove(0).1.write(folder, "redis.pcap");
    let output = overhead(folder, &["analyze", file.to_str().unwrap(), "--fields", "--format", "json"]);
    let mut record: Value = serde_json::from_slice(&output.stdout).unwrap();
    let container = json!({"name": text, "id": text, "engine": text, "pod": text, "namespace": text});
    let absent = json!({"unavailable": text});
    let role = json!({
        "pids": [1], "comms": [text], "containers": [container.clone()], "syscalls": {text: {"count": 9, "errors": 0, "ns": absent.clone()}},
        "cycles": absent.clone(), "on_cpu_ns": absent.clone(), "context_switches": absent.clone(), "socket": absent.clone(), "migrations": absent.clone(), "wakeups": absent.clone(),
        "retransmissions": absent.clone(), "coverage": absent.clone(), "captured_share": absent.clone(), "withheld": text
    });
    record["counters"] = json!({"window_ns": 9, "server": role, "client": absent.clone(), "softirq": absent.clone(), "by_operation": absent.clone()});
    record["environment"] = json!({
        "command_line": ["overhead", text], "workload": {"command": [text, text], "exit_code": 0, "was_ended": false}, "kernel": text, "cpu": text, "cpus": 2, "host": text,
        "interface": {"name": text, "mtu": 1500, "offloads": {text: true}}, "container": container
    });
    record["source"]["kind"] = json!("live");
    record["source"]["kernel_drops"] = absent.clone();
    record["observer"] = json!({"cpu_ns": absent.clone(), "bpf_ns": absent.clone(), "frames_per_second": absent});
    record["warnings"] = json!([text, format!("{text} {text}")]);
    for row in record["operations"].as_array_mut().unwrap() {
        (row["name"], row["via"]) = (json!(text), json!(text));
        for statement in row["statements"].as_array_mut().unwrap() {
            statement["text"] = json!(text);
        }
    }
    for connection in record["connections"].as_array_mut().unwrap() {
        (connection["server_software"], connection["client_software"]) = (json!(text), json!(text));
    }
    let run = folder.join(name.replace('/', "∕"));
    fs::create_dir(&run).unwrap();
    fs::write(run.join("run.json"), record.to_string()).unwrap();
    run
}

#[test]
fn text_of_records_and_names_of_runs_are_harmless_in_every_form() {
    for text in HOSTILE {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let paths = [text, &format!("other {text}")].map(|name| run(folder, name, text));
        // Names as somebody in this folder types them.
        let runs = paths.each_ref().map(|path| Path::new(".").join(path.file_name().unwrap()));
        let [first, second] = runs.each_ref().map(|run| run.as_os_str());
        let record: Value = serde_json::from_slice(&fs::read(paths[0].join("run.json")).unwrap()).unwrap();
        for (name, form) in FORMS {
            let output = holds(folder, &[OsStr::new("analyze"), first, OsStr::new("--format"), OsStr::new(name)], form);
            assert!(!output.stdout.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
            if form == Form::Json {
                let printed: Value = serde_json::from_slice(&output.stdout).unwrap();
                assert_eq!(printed["environment"], record["environment"]);
            }
        }
        for (name, form) in FORMS.into_iter().chain([("github", Form::Github)]) {
            let words = ["compare", "--fail-on", "response.payload>-99%", "--format", name].map(OsStr::new);
            holds(folder, &[&words[..], &[first, second]].concat(), form);
        }
        // A name with a `=` cannot be told apart in a label; the runs are drawn all the same then.
        let label = format!("{}={text}", first.to_str().unwrap());
        let title = [OsStr::new("--title"), OsStr::new(text), first, second];
        let label = [OsStr::new("--label"), OsStr::new(&label)];
        let label = if text.contains('=') { &[][..] } else { &label };
        holds(folder, &[&["report", "-o", "report"].map(OsStr::new)[..], label, &title].concat(), Form::Terminal);
        let written = rules::check_files(&folder.join("report"));
        assert!(written > 3, "{written} files");
    }
}

#[test]
fn budgets_made_of_outside_text_read_back_and_say_nothing_harmful() {
    for text in HOSTILE {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let path = run(folder, "run", text);
        let name = format!("{}.toml", text.replace('/', "∕"));
        let name = format!("./{name}");
        let made = holds(folder, &["check", "--write", &name, "run"], Form::Terminal);
        if made.status.success() {
            rules::check(&name, &fs::read(folder.join(&name)).unwrap(), Form::Document);
            // Against less than it takes, every row is a finding.
            let budget = fs::read_to_string(folder.join(&name)).unwrap();
            fs::write(folder.join("less.toml"), budget.replace("payload = ", "payload = 0.1 # ")).unwrap();
        }
        for (form_name, form) in FORMS.into_iter().chain([("github", Form::Github)]) {
            for budget in [&*name, "less.toml"] {
                holds(folder, &["check", budget, path.to_str().unwrap(), "--format", form_name], form);
            }
        }
        let key = json!(text).to_string().replace('\u{7f}', "\\u007f");
        for unknown in [
            format!("version = 1\n{key} = 1\n"),
            format!("version = 1\n[[operation]]\n{key} = {key}\n"),
            text.to_owned(),
        ] {
            fs::write(folder.join("unknown.toml"), &unknown).unwrap();
            let output = holds(folder, &["check", "unknown.toml", "run"], Form::Terminal);
            assert_eq!(String::from_utf8(output.stderr).unwrap().lines().count(), 1, "{unknown}");
        }
    }
}

#[test]
fn messages_quote_paths_and_arguments_without_harm() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fs::write(folder.join("budget.toml"), "version = 1\n").unwrap();
    for text in HOSTILE {
        let path = &text.replace('/', "∕");
        fs::write(folder.join(path), "no capture").unwrap();
        let (path, missing) = (&format!("./{path}"), &format!("./missing {path}"));
        for of in [path, missing] {
            for words in [
                &["analyze", of][..],
                &["explain", of],
                &["advise", of],
                &["compare", of, of],
                &["check", of, of],
                &["report", of],
                &["export", of, "-o", of],
                &["top", of, "--once"],
                &["analyze", of, "--anonymise", of],
                &["check", "budget.toml", of],
                &["analyze", "budget.toml", "--keylog", of],
                &["sweep", "-o", of, "--vary", of, "--", of],
                &["capture", "-r", of],
                &["generate", of],
            ] {
                holds(folder, words, Form::Terminal);
            }
        }
        let argument = &format!("--{text}");
        for verb in [
            "analyze", "explain", "advise", "compare", "check", "report", "capture", "sweep", "top", "doctor", "export",
        ] {
            for words in [
                &[verb, argument][..],
                &[verb, "x", "--db", text],
                &[verb, "x", "--port", text],
                &[verb, "x", "--format", text],
                &[verb, "-i", text],
                &[verb, "--duration", text],
                &[verb, "--by", text],
                &[verb, "--color", text],
            ] {
                holds(folder, words, Form::Terminal);
            }
        }
        holds(folder, &[text], Form::Terminal);
        holds(folder, &[text, text], Form::Terminal);
    }
}
