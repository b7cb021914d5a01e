//! The command that runs under a capture, and its descendants.

use super::descriptors::InheritedFiles;
use super::family;
use super::plan::CapturePlan;
use crate::User;
use anyhow::{Result, anyhow, bail};
use overhead_host::{CaptureSignals, EndRequest, EndSignals};
use overhead_model::say;
use rustix::process::{Signal, getpgrp};
use rustix::termios::tcgetpgrp;
use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
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
    let (program, arguments) = command.split_first().ok_or_else(|| anyhow!("there is no command"))?;
    // Makes the command's orphans our children, so that we can end them.
    family::adopt();
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
            family::reap_orphans(child.id());
            let running = family::running();
            if running.is_empty() {
                return Ok(Some(code(child.wait().await?)));
            }
            if let Some(signal) = signal {
                family::signal_each(&running, &mut signalled, *signal);
            }
            tokio::select! {
                _ = signals.recv() => {
                    family::signal_each(&family::running(), &mut Vec::new(), Signal::KILL);
                    return Ok(None);
                }
                () = tokio::time::sleep(LOOK) => {}
            }
        }
    }
    let left: Vec<String> = family::running().iter().map(ToString::to_string).collect();
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

#[cfg(test)]
mod tests {
    use super::*;

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
}
