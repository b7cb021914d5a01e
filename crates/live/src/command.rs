//! The command that runs under a capture: the files that it inherits, and its descendants.

use crate::User;
use crate::plan::CapturePlan;
use anyhow::{Result, anyhow, bail};
use nix::libc;
use overhead_host::{CaptureSignals, EndRequest, EndSignals};
use overhead_model::say;
use rustix::process::{Pid, Signal, WaitOptions, getpgrp, getpid, kill_process, set_child_subreaper, waitpid};
use rustix::termios::tcgetpgrp;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::os::fd::{AsFd, RawFd};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};
use tokio::process::{Child, Command};

/// Time for processes to exit after a signal.
const GRACE: Duration = Duration::from_secs(5);
/// Interval between checks whether they have exited.
const LOOK: Duration = Duration::from_millis(20);

/// Options by which `overhead bench` makes its rows, measures with them, and removes them.
const BENCH_STEPS: [&str; 3] = ["--setup-only", "--no-setup", "--cleanup-only"];

/// Destination of the command's output.
#[derive(Debug)]
pub enum CommandOutput {
    /// Everything goes to our standard error, because our standard output carries the result.
    Shown,
    /// Standard output and standard error go to separate files.
    Kept([File; 2]),
}

impl CommandOutput {
    /// Discards the output.
    pub fn unseen() -> Result<Self> {
        let null = File::options().write(true).open("/dev/null")?;
        Ok(Self::Kept([null.try_clone()?, null]))
    }

    fn redirect(self, command: &mut Command) -> std::io::Result<()> {
        match self {
            Self::Shown => command.stdout(Stdio::from(std::io::stderr().as_fd().try_clone_to_owned()?)),
            Self::Kept([stdout, stderr]) => command.stdout(stdout).stderr(stderr),
        };
        Ok(())
    }
}

impl CapturePlan {
    /// Does `work` while the rows of a benchmark exist, so that it measures neither their making nor their removal.
    pub async fn with_rows<T>(
        &self,
        signals: &mut CaptureSignals,
        work: impl AsyncFnOnce(&mut CaptureSignals) -> Result<T>,
    ) -> Result<T> {
        let [Some(make), _, Some(remove)] = BENCH_STEPS.map(|step| bench_step(&self.command.words, step)) else {
            return work(signals).await;
        };
        self.say("the benchmark makes its rows before the capture starts, and removes them after it ends");
        if self.complete(&make, CommandOutput::Shown, &mut signals.end).await? != Some(0) {
            self.complete(&remove, CommandOutput::unseen()?, &mut signals.end).await?;
            bail!("the benchmark could not make its rows: nothing was captured");
        }
        let done = work(signals).await;
        // If it fails, the benchmark itself prints what is left.
        let removed = self.complete(&remove, CommandOutput::Shown, &mut signals.end).await;
        done.and_then(|done| removed.map(|_| done))
    }

    /// Runs a command to its end, which the user may ask for. Returns its status.
    async fn complete(
        &self,
        command: &[String],
        output: CommandOutput,
        signals: &mut EndSignals,
    ) -> Result<Option<i32>> {
        let mut child = start(command, self.command.user.clone(), output)?;
        tokio::select! {
            biased;
            asked = signals.recv() => end(&mut child, Some(asked), signals).await,
            status = child.wait() => Ok(Some(code(status?))),
        }
    }

    /// Starts the command to measure.
    pub fn start_command(&self, output: CommandOutput) -> Result<Option<Child>> {
        let step = bench_step(&self.command.words, BENCH_STEPS[1]);
        let command = step.as_ref().unwrap_or(&self.command.words);
        (!command.is_empty()).then(|| start(command, self.command.user.clone(), output)).transpose()
    }
}

/// Returns the command for one step of a benchmark; `None` if it is no benchmark, or chooses its step itself.
fn bench_step(command: &[String], step: &str) -> Option<Vec<String>> {
    let is_program = |word: &str, name: &str| Path::new(word).file_name().is_some_and(|file| file == name);
    let is_bench = |pair: &[String]| {
        is_program(&pair[0], "overhead-bench") || is_program(&pair[0], "overhead") && pair[1] == "bench"
    };
    let others = ["--list-statements", "--help", "-h"];
    let chooses = command.iter().any(|word| BENCH_STEPS.iter().chain(&others).any(|option| option == word));
    (command.windows(2).any(is_bench) && !chooses).then(|| [command, &[step.to_owned()]].concat())
}

fn start(command: &[String], user: Option<User>, output: CommandOutput) -> Result<Child> {
    let (program, arguments) = command.split_first().ok_or_else(|| anyhow!("no command was given"))?;
    // Makes the command's orphans our children, so that we can end them.
    adopt();
    let mut command = Command::new(program);
    command.args(arguments);
    output.redirect(&mut command)?;
    InheritedFiles::alone_pass_to(&mut command);
    if let Some(user) = user {
        user.runs(&mut command);
    }
    command.spawn().map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => anyhow!("{program}: no such command: check its name, or install it"),
        std::io::ErrorKind::PermissionDenied => {
            anyhow!(
                "{program} may not be run: check its permissions (under sudo it runs as you, or with --as-root as root)"
            )
        }
        _ => anyhow!("{program} cannot be started: {error}"),
    })
}

/// Ends the command and its descendants, first by request, then by force. Returns its status; `None` if the user does
/// not want to wait.
pub async fn end(child: &mut Child, asked: Option<EndRequest>, signals: &mut EndSignals) -> Result<Option<i32>> {
    // The command has already received a Ctrl-C typed at the terminal. A second one could interrupt its clean-up.
    let has_received = asked == Some(EndRequest::Interrupt) && shares_the_terminal();
    let phases = if has_received {
        &[None, Some(Signal::TERM), Some(Signal::KILL)][..]
    } else {
        &[Some(Signal::TERM), Some(Signal::KILL)]
    };
    for signal in phases {
        let patience = Instant::now() + GRACE;
        let mut signalled = Vec::new();
        while Instant::now() < patience {
            reap_orphans(child.id());
            let left = running();
            if left.is_empty() {
                return Ok(Some(code(child.wait().await?)));
            }
            if let Some(signal) = signal {
                signal_each(&left, &mut signalled, *signal);
            }
            tokio::select! {
                _ = signals.recv() => {
                    signal_each(&running(), &mut Vec::new(), Signal::KILL);
                    return Ok(None);
                }
                () = tokio::time::sleep(LOOK) => {}
            }
        }
    }
    let left: Vec<String> = running().iter().map(ToString::to_string).collect();
    say!("overhead: warning: these processes of the command do not end: {}", left.join(", "));
    Ok(Some(child.try_wait()?.map_or(128 + Signal::KILL.as_raw(), code)))
}

/// Returns whether the command receives the terminal's signals, as we do.
fn shares_the_terminal() -> bool {
    File::open("/dev/tty").ok().and_then(|terminal| tcgetpgrp(terminal).ok()) == Some(getpgrp())
}

/// Returns the status a shell would give: the exit code, or 128 + n for signal n.
pub fn code(status: ExitStatus) -> i32 {
    status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(1)
}

/// A process as the kernel describes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FamilyProcess {
    pid: i32,
    parent: i32,
    /// Whether it is a zombie.
    dead: bool,
}

/// Makes this process the parent of orphaned descendants.
pub fn adopt() {
    // Kernels before 3.4 cannot do this, so orphans are lost there.
    let _ = set_child_subreaper(Some(getpid()));
}

/// Reaps adopted children that have ended, except `child`, which another part of the program waits for.
pub fn reap_orphans(child: Option<u32>) {
    let own = getpid().as_raw_pid();
    let is_ours =
        |process: &FamilyProcess| process.dead && process.parent == own && Some(process.pid.cast_unsigned()) != child;
    for pid in processes().into_iter().filter(is_ours).filter_map(|process| Pid::from_raw(process.pid)) {
        let _ = waitpid(Some(pid), WaitOptions::NOHANG);
    }
}

/// Returns the running descendants.
pub fn running() -> Vec<i32> {
    descendants(getpid().as_raw_pid(), &processes())
}

/// Sends a signal to each process that is not in `signalled`, and adds it there.
pub fn signal_each(pids: &[i32], signalled: &mut Vec<i32>, signal: Signal) {
    for pid in pids {
        if signalled.contains(pid) {
            continue;
        }
        signalled.push(*pid);
        // The process may have ended, which is the goal anyway.
        if let Some(pid) = Pid::from_raw(*pid) {
            let _ = kill_process(pid, signal);
            // A stopped process would not receive the signal.
            let _ = kill_process(pid, Signal::CONT);
        }
    }
}

fn descendants(root: i32, processes: &[FamilyProcess]) -> Vec<i32> {
    let mut family = BTreeSet::from([root]);
    loop {
        let before = family.len();
        family.extend(processes.iter().filter(|it| family.contains(&it.parent)).map(|it| it.pid).collect::<Vec<_>>());
        if family.len() == before {
            break;
        }
    }
    processes.iter().filter(|it| !it.dead && it.pid != root && family.contains(&it.pid)).map(|it| it.pid).collect()
}

fn processes() -> Vec<FamilyProcess> {
    let Ok(list) = fs::read_dir("/proc") else { return Vec::new() };
    list.flatten()
        .filter_map(|entry| {
            let pid = entry.file_name().to_str()?.parse().ok()?;
            parse(pid, &fs::read(entry.path().join("stat")).ok()?)
        })
        .collect()
}

/// `pid (name) state parent …`; the name may hold any byte (`proc_pid_stat(5)`).
fn parse(pid: i32, stat: &[u8]) -> Option<FamilyProcess> {
    let name_ends = stat.iter().rposition(|byte| *byte == b')')?;
    let rest = std::str::from_utf8(stat.get(name_ends + 1..)?).ok()?;
    let mut fields = rest.split_ascii_whitespace();
    let state = fields.next()?;
    Some(FamilyProcess { pid, parent: fields.next()?.parse().ok()?, dead: matches!(state, "Z" | "X") })
}

/// Files, other than the standard ones, that were open when this process started. They come from the caller (a shell's
/// `<(…)`, make's job server), so the command inherits them. It does not inherit what this process opens itself.
pub struct InheritedFiles(Vec<RawFd>);

static INHERITED: OnceLock<InheritedFiles> = OnceLock::new();

impl InheritedFiles {
    /// Records them. Call this before anything is opened.
    pub fn note() {
        INHERITED.get_or_init(|| {
            let open = fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
            let mut open: Vec<RawFd> = open.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
            // Drops the descriptor used to read the folder, which is closed again.
            open.retain(|fd| *fd > libc::STDERR_FILENO && fs::exists(format!("/proc/self/fd/{fd}")).unwrap_or(false));
            open.sort_unstable();
            Self(open)
        });
    }

    /// Makes the command inherit only these files and the standard ones.
    pub fn alone_pass_to(command: &mut Command) {
        let others = INHERITED.get().map_or_else(|| Self(Vec::new()).others(), Self::others);
        let close = move || {
            for (first, last) in &others {
                // SAFETY: the call only sets a flag of descriptors. Each is created with that flag already, so a kernel
                // without the call (before 5.11) loses nothing.
                unsafe { libc::syscall(libc::SYS_close_range, *first, *last, libc::CLOSE_RANGE_CLOEXEC) };
            }
            Ok(())
        };
        // SAFETY: between fork and exec there is one thread, and it makes system calls only: nothing is allocated or locked.
        unsafe { command.pre_exec(close) };
    }

    /// Returns the ranges of descriptors between the inherited ones, both ends included.
    fn others(&self) -> Vec<(libc::c_uint, libc::c_uint)> {
        let mut first = libc::STDERR_FILENO.cast_unsigned() + 1;
        let mut ranges = Vec::new();
        for fd in self.0.iter().map(|fd| fd.cast_unsigned()) {
            if first < fd {
                ranges.push((first, fd - 1));
            }
            first = fd + 1;
        }
        ranges.push((first, libc::c_uint::MAX));
        ranges
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::os::fd::AsRawFd;

    #[test]
    fn a_benchmark_measures_apart_from_its_other_steps() {
        let measures = |line: &str| {
            let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            bench_step(&words, "--no-setup").map(|words| words.join(" "))
        };
        for line in ["overhead bench redis --ops 9", "taskset -c 1 /opt/overhead-bench redis"] {
            assert_eq!(measures(line), Some(format!("{line} --no-setup")));
        }
        let others =
            ["overhead bench redis --no-setup", "overhead bench -h", "redis-benchmark -n 9", "overhead top bench"];
        assert_eq!(others.map(measures), [const { None }; 4]);
    }

    #[test]
    fn a_name_may_look_like_anything() {
        let expected = FamilyProcess { pid: 7, parent: 3, dead: true };
        assert_eq!(parse(7, b"7 (a) S 1 (b) Z 3 7 7 0"), Some(expected));
        assert_eq!(parse(7, b"7 (cut"), None);
    }

    #[test]
    fn a_family_has_all_generations_and_no_dead() {
        let process = |pid, parent, dead| FamilyProcess { pid, parent, dead };
        let all = [
            process(5, 4, false),
            process(4, 2, false),
            process(3, 2, true),
            process(9, 1, false),
            process(6, 3, false),
        ];
        assert_eq!(descendants(2, &all), [5, 4, 6]);
    }

    #[test]
    fn ranges_leave_out_what_was_inherited() {
        assert_eq!(InheritedFiles(vec![]).others(), [(3, u32::MAX)]);
        assert_eq!(InheritedFiles(vec![3, 4, 63]).others(), [(5, 62), (64, u32::MAX)]);
    }

    #[tokio::test]
    async fn a_command_has_no_file_of_ours() {
        // A number that no other test had open when it noted the caller's files.
        let leaky = rustix::io::fcntl_dupfd_cloexec(File::open("/dev/null").unwrap(), 700).unwrap();
        rustix::io::fcntl_setfd(&leaky, rustix::io::FdFlags::empty()).unwrap();
        let mut command = Command::new("readlink");
        command.arg(format!("/proc/self/fd/{}", leaky.as_raw_fd()));
        assert!(command.status().await.unwrap().success(), "it leaks unless something is done");
        InheritedFiles::alone_pass_to(&mut command);
        assert!(!command.status().await.unwrap().success());
    }
}
