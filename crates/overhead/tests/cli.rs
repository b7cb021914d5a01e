//! The command line from outside: exit statuses, one clear sentence per fault, nothing left behind.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

fn overhead(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_overhead")).args(arguments).stdin(Stdio::null()).output().unwrap()
}

fn status(output: &Output) -> i32 {
    output.status.code().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures").join(name).join("capture.pcap")
}

/// Fails with `code` and exactly one line on standard error that has all the `words`.
#[track_caller]
fn refuses(arguments: &[&str], code: i32, words: &[&str]) {
    let output = overhead(arguments);
    let text = said(&output);
    assert_eq!(status(&output), code, "{arguments:?}: {text}");
    assert_eq!(text.lines().count(), 1, "{text}");
    for word in words {
        assert!(text.contains(word), "{arguments:?}: `{word}` is not in: {text}");
    }
    assert!(output.stdout.is_empty());
}

/// Standard output of `analyze` of a fixture as a table, with `COLUMNS` set.
fn table(name: &str, columns: Option<&str>, more: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_overhead"));
    command.args(["analyze", fixture(name).to_str().unwrap(), "--port", "7379"]).args(more).env_remove("COLUMNS");
    if let Some(columns) = columns {
        command.env("COLUMNS", columns);
    }
    String::from_utf8(command.output().unwrap().stdout).unwrap()
}

#[test]
fn tables_fit_80_columns_unless_asked_otherwise() {
    let longest = |text: &str| text.lines().map(|line| line.chars().count()).max().unwrap();
    let narrow = table("redis-get-set", Some("80"), &["--legend"]);
    // The first lines are the name of the run and its path, and the last are commands: all are to be copied.
    let lines = narrow.lines().skip(3).filter(|line| !line.starts_with("next: "));
    assert!(lines.clone().all(|line| line.chars().count() <= 80), "{narrow}");
    assert!(
        narrow.contains("latency: from the frame with the first byte") && narrow.contains("not shown: "),
        "{narrow}"
    );
    let piped = table("redis-get-set", None, &[]);
    assert!(piped.lines().count() <= 25 && !piped.contains("latency: "), "{piped}");
    assert!(piped.lines().last().unwrap().starts_with("next: overhead explain "), "{piped}");
    let tables = piped.lines().filter(|line| line.contains('─'));
    assert!(tables.clone().count() >= 1 && tables.clone().all(|line| line.chars().count() <= 80), "{piped}");
    let wide = table("redis-get-set", Some("80"), &["--wide"]);
    assert!(longest(&wide) > 120 && wide.contains("retrans") && !wide.contains("not shown"), "{wide}");
    let chosen = table("redis-get-set", Some("80"), &["--columns", "operation,total,p999"]);
    let header = chosen.lines().find(|line| line.starts_with("statement")).unwrap();
    assert_eq!(header.split_whitespace().collect::<Vec<_>>(), ["statement", "B/op", "µs"], "{chosen}");
    let names = table("redis-get-set", Some("80"), &["--by", "name"]);
    assert!(names.contains("\nOperations\n") && names.contains("\nsetup:\n"), "{names}");
}

#[test]
fn short_help_fits_a_screen() {
    let verbs = ["analyze", "explain", "advise", "report", "compare", "check"];
    let live = if cfg!(feature = "live") { &["capture", "sweep", "doctor", "top", "agent"][..] } else { &[] };
    for verb in verbs.iter().chain(live) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_overhead"));
        let help = String::from_utf8(command.args([verb, "-h"]).env("COLUMNS", "80").output().unwrap().stdout).unwrap();
        assert!(help.lines().count() <= 50, "{help}");
        assert!(help.lines().all(|line| line.chars().count() <= 80), "{help}");
        let help = String::from_utf8(overhead(&[verb, "--help"]).stdout).unwrap();
        assert!(help.contains("Examples:\n  ") && help.contains("\nExit status: "), "{help}");
    }
    assert!(overhead(&["-h"]).stdout.split(|&byte| byte == b'\n').count() <= 50);
    assert_eq!(status(&overhead(&["--version"])), 0);
    let start = overhead(&[]);
    assert_eq!(status(&start), 0);
    let start = String::from_utf8(start.stdout).unwrap();
    assert!(["overhead analyze", "overhead advise", "overhead explain"].iter().all(|verb| start.contains(verb)));
}

#[test]
fn a_cut_file_gives_what_is_in_it_and_says_so() {
    let whole = std::fs::read(fixture("redis-get-set")).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("cut.pcap");
    std::fs::write(&path, &whole[..whole.len() / 2]).unwrap();
    let output = overhead(&["analyze", path.to_str().unwrap(), "--db", "redis", "--port", "7379", "--format", "json"]);
    assert_eq!(status(&output), 3, "{}", said(&output));
    assert!(said(&output).contains("is cut"), "{}", said(&output));
    let record: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(record["ledger"]["balanced"], true);
    assert_eq!(record["exit"], 3);
    assert!(record["source"]["frames"].as_u64().unwrap() > 50);
}

/// A block of pcapng.
fn block(kind: u32, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len() + 12).unwrap().to_le_bytes();
    [&kind.to_le_bytes()[..], &length, body, &length].concat()
}

#[test]
fn frames_that_a_file_says_were_dropped_are_missing() {
    let section = [&0x1a2b_3c4d_u32.to_le_bytes()[..], &[1, 0, 0, 0], &[0xff; 8]].concat();
    // `isb_ifdrop` and `isb_osdrop`, each of eight bytes.
    let option = |code: u8, value: u64| [&[code, 0, 8, 0][..], &value.to_le_bytes()].concat();
    let statistics = [&[0; 12][..], &option(5, 40), &option(7, 2)].concat();
    let file = [block(0x0a0d_0d0a, &section), block(1, &[1, 0, 0, 0, 0, 0, 0, 0]), block(5, &statistics)].concat();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("drops.pcapng");
    std::fs::write(&path, file).unwrap();
    let output = overhead(&["analyze", path.to_str().unwrap(), "--db", "redis", "--format", "json"]);
    assert_eq!(status(&output), 3, "{}", said(&output));
    assert!(said(&output).contains("dropped 42 frames while they were captured"), "{}", said(&output));
}

#[test]
fn an_unknown_link_type_is_named_and_still_balances() {
    let mut bytes = std::fs::read(fixture("redis-get-set")).unwrap();
    bytes[20..22].copy_from_slice(&[147, 0]);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("user0.pcap");
    std::fs::write(&path, bytes).unwrap();
    let output = overhead(&["analyze", path.to_str().unwrap(), "--format", "json"]);
    assert_eq!(status(&output), 3);
    assert!(said(&output).contains("LINKTYPE_147"), "{}", said(&output));
    let record: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(record["ledger"]["other"], record["source"]["wire_bytes"]);
}

#[test]
fn a_reader_that_goes_away_is_not_an_error() {
    let script = format!("{} analyze {} | head -1", env!("CARGO_BIN_EXE_overhead"), fixture("redis-get-set").display());
    let output = Command::new("sh").args(["-c", &script]).output().unwrap();
    assert!(output.status.success());
    assert!(said(&output).is_empty(), "{}", said(&output));
}

#[test]
fn every_format_is_printed() {
    let path = fixture("postgres-simple");
    for (format, start) in [("json", "{"), ("csv", "run,"), ("markdown", "#")] {
        let output = overhead(&["analyze", path.to_str().unwrap(), "--port", "7432", "--format", format]);
        assert_eq!(status(&output), 0, "{}", said(&output));
        assert!(output.stdout.starts_with(start.as_bytes()), "{format}");
    }
}

#[test]
fn a_report_is_drawn_from_records() {
    let dir = tempfile::tempdir().unwrap();
    let record = dir.path().join("redis.json");
    let output =
        overhead(&["analyze", fixture("redis-get-set").to_str().unwrap(), "--port", "7379", "--format", "json"]);
    std::fs::write(&record, output.stdout).unwrap();
    let out = dir.path().join("report");
    let output = overhead(&["report", record.to_str().unwrap(), "-o", out.to_str().unwrap()]);
    assert_eq!(status(&output), 0, "{}", said(&output));
    let png = std::fs::read(out.join("overhead.png")).unwrap();
    assert!(png.starts_with(b"\x89PNG"));
    refuses(&["report", record.to_str().unwrap(), "-o", "/proc/report"], 1, &["/proc/report", "-o"]);
}

#[cfg(feature = "live")]
mod live {
    use super::*;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::time::{Duration, Instant};

    /// Live tests need the right to capture. Without it, the test prints so and shows nothing.
    fn may_capture() -> bool {
        let dir = tempfile::tempdir().unwrap();
        let run = dir.path().join("run");
        let output = overhead(&["capture", "--no-bpf", "--duration", "50ms", "-o", run.to_str().unwrap()]);
        let may = status(&output) != 1;
        if !may {
            println!("skipped: {}", said(&output).trim());
        }
        may
    }

    #[test]
    fn what_cannot_be_started_leaves_nothing_behind() {
        if !may_capture() {
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let run = dir.path().join("run");
        let out = run.to_str().unwrap();
        refuses(&["capture", "-i", "nope0", "--no-bpf", "-o", out], 1, &["nope0", "choose one of"]);
        refuses(&["capture", "--no-bpf", "-o", out, "--", "no-such-command"], 1, &["no-such-command", "install it"]);
        refuses(&["capture", "--no-bpf", "-f", "port and", "-o", out], 1, &["port and", "pcap-filter"]);
        refuses(&["capture", "--no-bpf", "-o", "/proc/run", "--", "true"], 1, &["/proc/run", "-o"]);
        assert!(!run.exists());
    }

    #[test]
    fn a_port_that_nobody_listens_on_is_named() {
        if !may_capture() {
            return;
        }
        // Outside of the range from which the system gives ports to the other tests, whose frames would be seen here.
        let free = "21651";
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path().join("run");
        let output = overhead(&["capture", "--db", "redis", "--port", free, "-o", out.to_str().unwrap(), "--", "true"]);
        let text = said(&output);
        if text.contains("no permission for BPF") || text.contains("BTF") {
            println!("skipped: {}", text.trim());
            return;
        }
        // A server may come yet: its system calls are counted from then on.
        assert_eq!(status(&output), 0, "{text}");
        assert!(text.contains(&format!("listens on port {free} yet")), "{text}");
    }

    #[test]
    fn the_status_of_the_command_is_passed_on_and_the_run_is_kept() {
        if !may_capture() {
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let run = dir.path().join("run");
        let out = run.to_str().unwrap();
        let output =
            overhead(&["capture", "--no-bpf", "-o", out, "--format", "json", "--", "sh", "-c", "echo noise; exit 7"]);
        assert_eq!(status(&output), 7);
        let text = said(&output);
        assert!(
            text.contains("overhead: capturing on lo, TCP ports ") && text.contains("; until sh ends; Ctrl-C"),
            "{text}"
        );
        let printed: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(printed["environment"]["workload"]["exit_code"], 7);
        let record = std::fs::read_to_string(run.join("run.json")).unwrap();
        assert_eq!(serde_json::from_str::<serde_json::Value>(&record).unwrap(), printed);
        refuses(&["capture", "--no-bpf", "-o", out, "--", "true"], 1, &["holds a run already", "--force"]);
        assert_eq!(record, std::fs::read_to_string(run.join("run.json")).unwrap());
    }

    /// Writes 300 kB over a connection on loopback and reads them, again and again until `over`.
    fn load(listener: &TcpListener, over: impl Fn() -> bool) {
        let (mut client, mut server) =
            (TcpStream::connect(listener.local_addr().unwrap()).unwrap(), listener.accept().unwrap().0);
        let (request, mut answer) = (vec![b'x'; 300_000], vec![0; 300_000]);
        while !over() {
            std::thread::scope(|scope| {
                scope.spawn(|| server.write_all(&request).unwrap());
                client.read_exact(&mut answer).unwrap();
            });
        }
    }

    /// Captures what is done with a listener; gives the record.
    fn captured(arguments: &[&str]) -> Option<serde_json::Value> {
        if !may_capture() {
            return None;
        }
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port().to_string();
        let fixed = ["capture", "--no-bpf", "--no-packets", "--db", "redis", "--port", &port, "--format", "json"];
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path().join("run");
        let child = Command::new(env!("CARGO_BIN_EXE_overhead"))
            .args(fixed)
            .args(["-o", out.to_str().unwrap()])
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let thread = std::thread::spawn(move || child.wait_with_output().unwrap());
        load(&listener, || thread.is_finished());
        Some(serde_json::from_slice(&thread.join().unwrap().stdout).unwrap())
    }

    #[test]
    fn frames_larger_than_ethernet_carries_are_told_with_their_cause() {
        let Some(record) = captured(&["--duration", "500ms"]) else { return };
        assert!(record["tcp"]["oversize_frames"].as_u64().unwrap() > 0, "{}", record["tcp"]);
        let said = record["warnings"].to_string();
        assert!(said.contains("larger than Ethernet carries") && said.contains("lo has "), "{said}");
    }

    #[test]
    fn a_warm_up_is_left_out() {
        let Some(record) = captured(&["--warmup", "300ms", "--duration", "300ms"]) else { return };
        let said = record["warnings"].to_string();
        assert!(said.contains("of the warm-up are not counted"), "{said}");
        let source = &record["source"];
        let window_ns = source["last_ns"].as_u64().unwrap() - source["first_ns"].as_u64().unwrap();
        assert!(source["frames"].as_u64().unwrap() > 0 && window_ns < 590_000_000, "{source}");
        // One that outlasts the capture leaves nothing, and says so.
        let Some(record) = captured(&["--warmup", "60s", "--", "sleep", "0.3"]) else { return };
        assert_eq!((&record["source"]["frames"], &record["exit"]), (&0.into(), &3.into()));
        assert!(record["warnings"].to_string().contains("shorten --warmup"));
    }

    /// Waits until the child has ended, for at most as long; gives its status.
    fn ends_within(child: &mut std::process::Child, limit: Duration) -> Option<i32> {
        let since = Instant::now();
        while since.elapsed() < limit {
            if let Some(status) = child.try_wait().unwrap() {
                return Some(status.code().unwrap_or(-1));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        None
    }

    fn signal(child: &std::process::Child, name: &str) {
        let sent = Command::new("kill").args([format!("-{name}"), child.id().to_string()]).status().unwrap();
        assert!(sent.success());
    }

    /// The capture cannot finish: nobody reads the pipe that its packets go to.
    #[test]
    fn a_second_interrupt_ends_what_is_still_finishing() {
        if !may_capture() {
            return;
        }
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port().to_string();
        let mut child = Command::new(env!("CARGO_BIN_EXE_overhead"))
            .args(["capture", "--no-bpf", "--db", "redis", "--port", &port, "-w", "-"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdout = child.stdout.take().unwrap();
        stdout.read_exact(&mut [0; 4]).unwrap();
        let rounds = std::sync::atomic::AtomicU32::new(0);
        load(&listener, || rounds.fetch_add(1, std::sync::atomic::Ordering::Relaxed) == 10);
        signal(&child, "INT");
        assert_eq!(ends_within(&mut child, Duration::from_millis(1500)), None, "it waits for the reader");
        signal(&child, "INT");
        assert_eq!(ends_within(&mut child, Duration::from_secs(1)), Some(130));
        let mut said = String::new();
        child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        assert!(said.contains("aborted: what was captured is not reported"), "{said}");
    }

    #[test]
    fn an_interrupt_ends_an_analysis_at_once() {
        // Who starts the tests in the background has interrupts ignored, which a child inherits.
        let mut child = Command::new("env")
            .args(["--default-signal=INT", env!("CARGO_BIN_EXE_overhead"), "analyze", "-"])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let capture = std::fs::read(fixture("redis-get-set")).unwrap();
        child.stdin.as_mut().unwrap().write_all(&capture).unwrap();
        assert_eq!(ends_within(&mut child, Duration::from_millis(300)), None, "there may be more to read");
        signal(&child, "INT");
        assert!(ends_within(&mut child, Duration::from_secs(1)).is_some());
    }

    #[test]
    fn an_interrupt_finishes_and_reports() {
        if !may_capture() {
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let run = dir.path().join("run");
        let mut child = Command::new(env!("CARGO_BIN_EXE_overhead"))
            .args(["capture", "--no-bpf", "--db", "redis", "--port", "6391", "-w", "-", "-q"])
            .current_dir(dir.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let listener = TcpListener::bind("127.0.0.1:6391").unwrap();
        let mut stdout = child.stdout.take().unwrap();
        // The file's header is handed on once the capture has begun.
        let mut packets = vec![0; 4];
        stdout.read_exact(&mut packets).unwrap();
        drop((TcpStream::connect("127.0.0.1:6391").unwrap(), listener.accept().unwrap()));
        let interrupted = Command::new("sh").args(["-c", &format!("kill -INT {}", child.id())]).status().unwrap();
        assert!(interrupted.success());
        stdout.read_to_end(&mut packets).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(0));
        assert!(packets.starts_with(b"\x0a\x0d\x0d\x0a"), "a pcapng file");
        let file = dir.path().join("piped.pcapng");
        std::fs::write(&file, packets).unwrap();
        let output =
            overhead(&["analyze", file.to_str().unwrap(), "--db", "redis", "--port", "6391", "--format", "json"]);
        let record: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(record["tcp"]["connections"], 1, "{}", said(&output));
        assert!(!run.exists());
    }
}

/// Lists what bash completes in a folder of completions. `at` is the place of the word under the cursor.
#[cfg(unix)]
fn completed(bash: &Path, words: &str, at: u8) -> String {
    let script = format!(
        ". ./overhead; COMP_WORDS=({words}); COMP_CWORD={at}; $(complete -p overhead | sed 's/.*-F \\([^ ]*\\) .*/\\1/') overhead \"${{COMP_WORDS[{at}]}}\" \"${{COMP_WORDS[{at}-1]}}\"; echo \"${{COMPREPLY[*]}}\""
    );
    let output = Command::new("bash").args(["-c", &script]).current_dir(bash).output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// A build with one of the programs that are verbs, and without the other.
#[cfg(unix)]
#[test]
fn verbs_are_listed_if_their_programs_are_installed() {
    let dir = tempfile::tempdir().unwrap();
    let own = dir.path().join("overhead");
    std::fs::copy(env!("CARGO_BIN_EXE_overhead"), &own).unwrap();
    std::fs::copy("/bin/true", dir.path().join("overhead-export")).unwrap();
    let run = |words: &[&str]| Command::new(&own).args(words).env("PATH", dir.path()).output().unwrap();
    let help = String::from_utf8(run(&["--help"]).stdout).unwrap();
    assert!(help.contains("\n  export ") && !help.contains("\n  bench "), "{help}");
    assert_eq!(status(&run(&["export", "a.pcap", "--force"])), 0);
    let missing = run(&["bench", "redis"]);
    assert_eq!(status(&missing), 2);
    assert!(said(&missing).contains("overhead-bench, which is neither beside this one"), "{}", said(&missing));
    assert_eq!(status(&run(&["generate", dir.path().to_str().unwrap()])), 0);
    assert!(dir.path().join("man1/overhead-export.1").exists() && !dir.path().join("man1/overhead-bench.1").exists());
    let bash = dir.path().join("bash");
    // As lab/release/dist and lab/release/place name them; the program's own completion, cut to what is asked here.
    std::fs::rename(bash.join("overhead.bash"), bash.join("overhead")).unwrap();
    let own = r#"_overhead__export() { COMPREPLY=($(compgen -W "--by-day --force" -- "$2")); }"#;
    std::fs::write(bash.join("overhead-export"), own).unwrap();
    assert_eq!(completed(&bash, "overhead export --by", 2), "--by-day");
    assert_eq!(completed(&bash, "overhead export trace.pcap --fo", 3), "--force");
    assert_eq!(completed(&bash, "overhead ana", 1), "analyze");
    assert_eq!(completed(&bash, "overhead ben", 1), "");
    let zsh = std::fs::read_to_string(dir.path().join("zsh/_overhead")).unwrap();
    let fish = std::fs::read_to_string(dir.path().join("fish/overhead.fish")).unwrap();
    assert_eq!(zsh.matches("_overhead-export && return").count(), 1);
    assert!(!zsh.contains("(bench)") && fish.contains("-a \"(__fish_overhead_beside)\""));
}

#[cfg(all(unix, feature = "live"))]
#[test]
fn values_that_are_known_are_completed() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(status(&overhead(&["generate", dir.path().to_str().unwrap()])), 0);
    let bash = dir.path().join("bash");
    std::fs::rename(bash.join("overhead.bash"), bash.join("overhead")).unwrap();
    assert_eq!(completed(&bash, "overhead analyze --db postg", 3), "postgres postgresql");
    assert_eq!(completed(&bash, "overhead capture --db cq", 3), "cql");
    for option in ["-i", "--iface"] {
        assert_eq!(completed(&bash, &format!("overhead capture {option} l"), 3), "lo");
        assert_eq!(completed(&bash, &format!("overhead top {option} a"), 3), "any");
    }
}

#[test]
fn man_pages_and_completions_name_every_verb_and_its_options() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(status(&overhead(&["generate", dir.path().to_str().unwrap()])), 0);
    let text = |file: &str| std::fs::read_to_string(dir.path().join(file)).unwrap();
    let main = text("man1/overhead.1");
    for verb in ["analyze", "explain", "advise", "report", "compare", "check"] {
        assert!(main.contains(verb), "{verb}");
        let page = text(&format!("man1/overhead-{verb}.1"));
        for section in ["SYNOPSIS", "OPTIONS", "EXAMPLES", "\"EXIT STATUS\""] {
            assert!(page.contains(&format!(".SH {section}\n")), "{verb}: {section}");
        }
        for file in ["bash/overhead.bash", "zsh/_overhead", "fish/overhead.fish"] {
            assert!(text(file).contains(verb), "{file}: {verb}");
        }
    }
    let analyze = text("man1/overhead-analyze.1");
    assert!(
        analyze.contains("\\-\\-distribution") && analyze.contains("All columns, even if your terminal is too narrow")
    );
    assert!(text("bash/overhead.bash").contains("--distribution"));
    assert!(!main.contains("generate"), "what is hidden is not in the manual");
    refuses(&["generate", "/proc/nowhere"], 1, &["/proc/nowhere", "another folder"]);
}
