//! Files, signals and privileges of a capture, from outside: whose the run folder is, how the command ends, what is kept.

#![cfg(feature = "live")]

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

fn overhead() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_overhead"));
    command.stdin(Stdio::null()).env_remove("SUDO_UID").env_remove("SUDO_GID");
    command
}

/// `capture` without counters, on a port where nobody is unless a test says so.
fn capture(run: &Path) -> Command {
    let mut command = overhead();
    command.args(["capture", "--no-bpf", "--db", "redis", "--port", "21650", "-o"]).arg(run);
    command
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn record(run: &Path) -> serde_json::Value {
    serde_json::from_slice(&fs::read(run.join("run.json")).unwrap()).unwrap()
}

/// Live tests need the right to capture. Without it, the test prints so and shows nothing.
fn may_capture() -> bool {
    let dir = tempfile::tempdir().unwrap();
    let output = capture(&dir.path().join("run")).args(["--duration", "50ms"]).output().unwrap();
    let may = output.status.code() != Some(1);
    if !may {
        println!("skipped: {}", said(&output).trim());
    }
    may
}

#[track_caller]
fn wait_for(what: &str, mut done: impl FnMut() -> bool) {
    let began = Instant::now();
    while !done() {
        assert!(began.elapsed() < Duration::from_mins(1), "in vain: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn kill(signal: &str, pid: u32) {
    assert!(Command::new("sh").args(["-c", &format!("kill -{signal} {pid}")]).status().unwrap().success());
}

/// Whether a process is there and has not ended.
fn lives(pid: &str) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
}

/// Starts a capture of a command, and waits until the command has written the file that it is given as `$READY`.
fn started(run: &Path, ready: &Path, script: &str) -> Child {
    let child =
        capture(run).args(["--", "sh", "-c", script]).env("READY", ready).stderr(Stdio::piped()).spawn().unwrap();
    wait_for("the command starts", || fs::read_to_string(ready).is_ok_and(|text| text.ends_with('\n')));
    child
}

#[test]
fn two_captures_never_share_a_folder() {
    if !may_capture() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let begin = |arguments: &[&str]| {
        let mut command = overhead();
        command.args(["capture", "--no-bpf", "--duration", "1s", "-q"]).args(arguments).current_dir(dir.path());
        command.stderr(Stdio::piped()).spawn().unwrap()
    };
    let both = [begin(&[]), begin(&[])].map(|child| child.wait_with_output().unwrap());
    assert!(both.iter().all(|output| output.status.code() == Some(0)), "{both:?}");
    assert_eq!(fs::read_dir(dir.path().join("runs")).unwrap().count(), 2, "each has one of its own");

    let one = [begin(&["-o", "one"]), begin(&["-o", "one", "--force"])].map(|child| child.wait_with_output().unwrap());
    let mut codes = one.each_ref().map(|output| output.status.code().unwrap());
    codes.sort_unstable();
    assert_eq!(codes, [0, 1], "{one:?}");
}

#[test]
fn nothing_of_the_users_is_replaced_unless_forced() {
    if !may_capture() {
        return;
    }
    for name in ["run.json", "packets.pcapng", "report.md", "overhead.svg", "overhead.png"] {
        let dir = tempfile::tempdir().unwrap();
        let (run, mine) = (dir.path().join("run"), dir.path().join("run").join(name));
        fs::create_dir(&run).unwrap();
        fs::write(&mine, "mine").unwrap();
        let output = capture(&run).args(["--", "true"]).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{name}: {}", said(&output));
        assert!(said(&output).contains("--force"), "{}", said(&output));
        assert_eq!(fs::read_to_string(&mine).unwrap(), "mine");
        let output = capture(&run).args(["--force", "-q", "--", "true"]).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{name}: {}", said(&output));
        assert_ne!(fs::read(&mine).unwrap(), b"mine");
    }
}

#[test]
fn a_planted_link_is_not_followed() {
    if !may_capture() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let (run, victim) = (dir.path().join("run"), dir.path().join("victim"));
    fs::create_dir(&run).unwrap();
    fs::write(&victim, "precious").unwrap();
    for name in ["run.json", "packets.pcapng", "report.md", "overhead.svg", "overhead.png"] {
        symlink(&victim, run.join(name)).unwrap();
    }
    let output = capture(&run).args(["--force", "-q", "--", "true"]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
    // The victim is there; the link to it was planted while the capture ran.
    let (run, ready) = (dir.path().join("late"), dir.path().join("ready"));
    let script = format!("ln -sf {} {}/report.md; echo >$READY", victim.display(), run.display());
    let child = capture(&run).args(["-q", "--", "sh", "-c", &script]).env("READY", &ready).status().unwrap();
    assert_eq!(child.code(), Some(0));
    assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
    // And by `report`, which only replaces files of an earlier report.
    let out = dir.path().join("out");
    fs::create_dir(&out).unwrap();
    fs::write(out.join("report.md"), "# Mine\n").unwrap();
    let report = |more: &[&str]| overhead().arg("report").arg(&run).arg("-o").arg(&out).args(more).output().unwrap();
    assert_eq!(report(&[]).status.code(), Some(1));
    assert_eq!(fs::read_to_string(out.join("report.md")).unwrap(), "# Mine\n");
    assert_eq!(report(&["--force"]).status.code(), Some(0));
    assert_eq!(report(&[]).status.code(), Some(0), "its own it may replace");
}

#[test]
fn folder_and_packets_are_private() {
    if !may_capture() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let run = dir.path().join("run");
    assert!(capture(&run).args(["-q", "--", "true"]).status().unwrap().success());
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!([mode(&run), mode(&run.join("packets.pcapng"))], [0o700, 0o600]);
    let alone = dir.path().join("alone.pcapng");
    let status =
        overhead().args(["capture", "-q", "--no-bpf", "-w"]).arg(&alone).args(["--", "true"]).status().unwrap();
    assert!(status.success());
    assert_eq!(mode(&alone), 0o600);
}

#[test]
fn passwords_do_not_get_into_the_record() {
    if !may_capture() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let run = dir.path().join("run");
    let words = ["env", "PGPASSWORD=hunter2", "true", "postgres://u:hunter2@h/d", "--password", "hunter2"];
    assert!(capture(&run).args(["-q", "--"]).args(words).status().unwrap().success());
    for file in fs::read_dir(&run).unwrap().flatten() {
        let text = fs::read(file.path()).unwrap();
        assert!(!String::from_utf8_lossy(&text).contains("hunter2"), "{:?}", file.path());
    }
    let command = record(&run)["environment"]["workload"]["command"].clone();
    assert_eq!(
        command,
        serde_json::json!(["env", "PGPASSWORD=***", "true", "postgres://u:***@h/d", "--password", "***"])
    );
}

#[test]
fn where_we_end_the_command_the_status_is_ours_and_nothing_of_it_is_left() {
    if !may_capture() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let (run, ready) = (dir.path().join("run"), dir.path().join("ready"));
    // A grandchild in a session of its own, one without a parent, and one that does not mind being asked.
    let script = "setsid sleep 7777 & a=$!; (sleep 7778 & echo $! >$READY.orphan); sh -c 'trap \"\" TERM; sleep 7779; sleep 7780' & \
                  echo $a $(cat $READY.orphan) $! >$READY; wait; exit 9";
    let mut child = started(&run, &ready, script);
    kill("TERM", child.id());
    assert_eq!(child.wait().unwrap().code(), Some(0));
    let pids = fs::read_to_string(&ready).unwrap();
    for pid in pids.split_whitespace() {
        assert!(!lives(pid), "process {pid} of {pids} is left");
    }
    let workload = record(&run)["environment"]["workload"].clone();
    assert_eq!(workload["was_ended"], true);
    assert_ne!(workload["exit_code"], 0);

    let run = dir.path().join("limit");
    let output =
        capture(&run).args(["--duration", "300ms", "-q", "--", "sh", "-c", "sleep 60; exit 5"]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let run = dir.path().join("itself");
    let output = capture(&run).args(["-q", "--", "sh", "-c", "exit 5"]).output().unwrap();
    assert_eq!(output.status.code(), Some(5), "{}", said(&output));
    assert_eq!(record(&run)["environment"]["workload"]["was_ended"], false);
}

/// Pings a server of this test, over one connection, until `over`.
fn ping_until(listener: &TcpListener, mut over: impl FnMut() -> bool) {
    let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let mut server = listener.accept().unwrap().0;
    wait_for("the capture ends", || {
        client.write_all(b"*1\r\n$4\r\nPING\r\n").unwrap();
        server.read_exact(&mut [0; 14]).unwrap();
        server.write_all(b"+PONG\r\n").unwrap();
        client.read_exact(&mut [0; 7]).unwrap();
        over()
    });
}

#[test]
fn a_limit_and_a_reader_that_goes_away_end_the_command_with_our_status() {
    if !may_capture() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    let run = dir.path().join("run");
    let run = run.to_str().unwrap();
    let ends: [&[&str]; 3] = [&["-c", "5", "-o", run], &["--ops", "3", "--force", "-o", run], &["-w", "-"]];
    for (number, end) in ends.into_iter().enumerate() {
        let ready = dir.path().join(format!("ready{number}"));
        let script = "setsid sleep 7781 & a=$!; sleep 7782 & echo $$ $a $! >$READY; wait; exit 9";
        let mut child = overhead()
            .args(["capture", "--no-bpf", "--db", "redis", "--port", &port, "-q"])
            .args(end)
            .args(["--", "sh", "-c", script])
            .env("READY", &ready)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        wait_for("the command starts", || fs::read_to_string(&ready).is_ok_and(|text| text.ends_with('\n')));
        let mut stdout = child.stdout.take().unwrap();
        if end.contains(&"-w") {
            stdout.read_exact(&mut [0; 4]).unwrap();
            drop(stdout);
            ping_until(&listener, || child.try_wait().unwrap().is_some());
        } else {
            ping_until(&listener, || child.try_wait().unwrap().is_some());
            stdout.read_to_end(&mut Vec::new()).unwrap();
        }
        assert_eq!(child.wait().unwrap().code(), Some(0), "{end:?}");
        let pids = fs::read_to_string(&ready).unwrap();
        for pid in pids.split_whitespace() {
            assert!(!lives(pid), "{end:?}: process {pid} of {pids} is left");
        }
    }
}

#[test]
fn a_hangup_finishes_and_reports() {
    if !may_capture() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let (run, ready) = (dir.path().join("run"), dir.path().join("ready"));
    let mut child = started(&run, &ready, "echo >$READY; sleep 60");
    kill("HUP", child.id());
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert_eq!(record(&run)["ledger"]["balanced"], true);
    // nohup's word holds.
    let (run, ready) = (dir.path().join("nohup"), dir.path().join("ready2"));
    let script = format!(
        "trap '' HUP; exec {} capture --no-bpf -q -o {} -- sh -c 'echo >{}; sleep 0.5'",
        env!("CARGO_BIN_EXE_overhead"),
        run.display(),
        ready.display()
    );
    let mut child = Command::new("sh").args(["-c", &script]).spawn().unwrap();
    wait_for("the command starts", || ready.exists());
    kill("HUP", child.id());
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert_eq!(record(&run)["environment"]["workload"]["was_ended"], false);
}

#[test]
fn an_abort_names_what_makes_the_record() {
    if !may_capture() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let (run, ready) = (dir.path().join("run"), dir.path().join("ready"));
    let child = started(&run, &ready, "trap '' TERM; echo >$READY; while :; do sleep 0.1; done");
    kill("TERM", child.id());
    std::thread::sleep(Duration::from_millis(300));
    let asked = Instant::now();
    kill("TERM", child.id());
    let output = child.wait_with_output().unwrap();
    assert!(asked.elapsed() < Duration::from_secs(3), "{:?}", asked.elapsed());
    assert_eq!(output.status.code(), Some(130), "{}", said(&output));
    assert!(said(&output).contains(&format!("overhead analyze {}", run.display())), "{}", said(&output));
    assert!(run.join("packets.pcapng").exists() && !run.join("run.json").exists());
}

/// `analyze` leaves the folder of a running capture alone, and gives a killed one its record as the capture would have.
#[test]
fn a_running_capture_writes_its_record_itself_and_a_killed_one_has_it_from_analyze() {
    if !may_capture() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let (run, ready) = (dir.path().join("run"), dir.path().join("ready"));
    let analyze = |more: &[&str]| overhead().arg("analyze").arg(&run).args(more).output().unwrap();
    let mut child = started(&run, &ready, "echo >$READY; sleep 60");
    wait_for("the file begins", || fs::metadata(run.join("packets.pcapng")).is_ok_and(|file| file.len() > 0));
    let output = analyze(&["--format", "json"]);
    assert_eq!(output.status.code(), Some(3), "{}", said(&output));
    assert!(said(&output).contains("the capture is still running"), "{}", said(&output));
    let output = analyze(&["--write"]);
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert!(said(&output).contains("is running") && said(&output).contains("end it first"), "{}", said(&output));
    assert!(!run.join("run.json").exists() && run.join(".run.json.part").exists());
    kill("TERM", child.id());
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert_eq!(record(&run)["environment"]["workload"]["was_ended"], true, "the capture's own");

    fs::remove_dir_all(&run).unwrap();
    let ready = dir.path().join("ready2");
    let mut child = started(&run, &ready, "echo $$ >$READY; exec sleep 60");
    wait_for("the file begins", || fs::metadata(run.join("packets.pcapng")).is_ok_and(|file| file.len() > 0));
    kill("KILL", child.id());
    child.wait().unwrap();
    kill("KILL", fs::read_to_string(&ready).unwrap().trim().parse().unwrap());
    let victim = dir.path().join("victim");
    fs::write(&victim, "precious").unwrap();
    let is_root = fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0);
    let mut command = overhead();
    if is_root {
        command.env("SUDO_UID", "65534").env("SUDO_GID", "65534");
    }
    let output = command.arg("analyze").arg(&run).output().unwrap();
    assert_eq!(output.status.code(), Some(3), "{}", said(&output));
    let written = fs::metadata(run.join("run.json")).unwrap();
    assert!(!is_root || written.uid() == 65534, "{}", written.uid());
    assert!(!run.join(".run.json.part").exists());
    // A link that somebody has put in the record's place is replaced, not followed.
    fs::remove_file(run.join("run.json")).unwrap();
    symlink(&victim, run.join("run.json")).unwrap();
    assert_ne!(analyze(&["--write"]).status.code(), Some(0));
    assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
}

#[test]
fn figures_of_now_are_printed_when_asked_for() {
    if !may_capture() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let server = std::thread::spawn(move || {
        let mut peer = listener.accept().unwrap().0;
        let mut command = [0; 14];
        while peer.read_exact(&mut command).is_ok() {
            peer.write_all(b"+PONG\r\n").unwrap();
        }
    });
    let ready = dir.path().join("ready");
    let mut child = overhead()
        .args(["capture", "--no-bpf", "-q", "--db", "redis", "--port", &port.to_string(), "-o"])
        .arg(dir.path().join("run"))
        .args(["--", "sh", "-c", "echo >$READY; sleep 60"])
        .env("READY", &ready)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    wait_for("the command starts", || ready.exists());
    let mut client = TcpStream::connect(("127.0.0.1", port)).unwrap();
    let mut ping = |count: u32| {
        for _ in 0..count {
            client.write_all(b"*1\r\n$4\r\nPING\r\n").unwrap();
            client.read_exact(&mut [0; 7]).unwrap();
        }
    };
    // The second burst comes before the next regular look, and nothing comes after it.
    ping(3);
    std::thread::sleep(Duration::from_millis(50));
    ping(4);
    // A frame is in the capture within a twentieth of a second.
    std::thread::sleep(Duration::from_millis(50));
    kill("USR1", child.id());
    let mut stderr = child.stderr.take().unwrap();
    let mut text = String::new();
    wait_for("the figures", || {
        let mut piece = [0; 4096];
        let length = stderr.read(&mut piece).unwrap();
        text.push_str(&String::from_utf8_lossy(&piece[..length]));
        text.contains("counters:")
    });
    assert!(text.contains("PING: 7 operations"), "{text}");
    kill("TERM", child.id());
    assert_eq!(child.wait().unwrap().code(), Some(0));
    drop(client);
    server.join().unwrap();
}

#[test]
fn a_broken_standard_error_is_not_a_crash() {
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/redis-get-set/capture.pcap");
    for broken in ["2>/dev/full", "2>&-", "2>&1 >/dev/null | exec true"] {
        let script = format!(
            "set -o pipefail 2>/dev/null; {0} analyze {1} -c 3 --format json {broken} >/dev/null; echo $?; {0} analyze /no/such {broken}; echo $?",
            env!("CARGO_BIN_EXE_overhead"),
            fixture.display()
        );
        let output = Command::new("bash").args(["-c", &script]).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(!text.contains("101") && !said(&output).contains("panicked"), "{broken}: {text} {}", said(&output));
        assert!(text.ends_with("1\n"), "{broken}: {text}");
    }
    if !may_capture() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let full = fs::File::options().write(true).open("/dev/full").unwrap();
    let status = capture(&dir.path().join("run")).args(["--", "true"]).stderr(full).status().unwrap();
    assert_eq!(status.code(), Some(0), "the run is written, and there is where its files are said to be");
}

#[test]
fn the_output_belongs_to_who_called_sudo() {
    let is_root = fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0);
    if !is_root || !may_capture() {
        println!("skipped: only root can give files to another user");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let run = dir.path().join("deep/run");
    let script = "id -u; id -g; id -G; echo $HOME $USER ${SUDO_UID:-none}";
    let capture = |run: &Path, more: &[&str]| {
        let mut command = capture(run);
        command.args(more).args(["-q", "--", "sh", "-c", script]).env("SUDO_UID", "65534").env("SUDO_GID", "65534");
        command.output().unwrap()
    };
    let output = capture(&run, &[]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    assert!(said(&output).starts_with("65534\n65534\n65534\n/nonexistent nobody none\n"), "{}", said(&output));
    let owner = |path: &Path| fs::metadata(path).unwrap().uid();
    assert_eq!(owner(&dir.path().join("deep")), 65534);
    for file in fs::read_dir(&run).unwrap().flatten() {
        assert_eq!(owner(&file.path()), 65534, "{:?}", file.path());
    }
    let output = capture(&dir.path().join("root"), &["--as-root"]);
    assert!(said(&output).starts_with("0\n0\n"), "{}", said(&output));
    assert_eq!(owner(&dir.path().join("root/run.json")), 0);
    let output = capture(&dir.path().join("daemon"), &["--user", "daemon"]);
    assert!(said(&output).contains(" daemon none\n") && said(&output).starts_with("1\n1\n"), "{}", said(&output));
    let output = capture(&dir.path().join("nobody"), &["--user", "no-such-user"]);
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    let report = dir.path().join("report");
    let status = overhead()
        .arg("report")
        .arg(&run)
        .arg("-o")
        .arg(&report)
        .env("SUDO_UID", "65534")
        .env("SUDO_GID", "65534")
        .output()
        .unwrap()
        .status;
    assert_eq!((status.code(), owner(&report), owner(&report.join("report.md"))), (Some(0), 65534, 65534));
}
