//! The command that runs under a capture, and its descendants.

use super::descriptors::InheritedFiles;
use super::family;
use super::signals::{EndRequest, EndSignals};
use crate::caller::User;
use anyhow::{Result, anyhow};
use overhead_model::say;
use rustix::process::{Signal, getpgrp};
use rustix::termios::tcgetpgrp;
use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitStatus, Stdio};
use std::time::{Duration, Instant};
use tokio::process::{Child, Command};

/// Time for processes to exit after a signal.
const GRACE: Duration = Duration::from_secs(5);
/// Interval between checks whether they have exited.
const LOOK: Duration = Duration::from_millis(20);

/// Destination of the command's output.
#[derive(Debug)]
pub enum CommandOutput {
    /// Everything goes to our standard error, because our standard output carries the result.
    Shown,
    /// Standard output and standard error go to separate files.
    Kept([File; 2]),
}

impl CommandOutput {
    fn of(self, command: &mut Command) -> std::io::Result<()> {
        match self {
            Self::Shown => command.stdout(Stdio::from(std::io::stderr().as_fd().try_clone_to_owned()?)),
            Self::Kept([stdout, stderr]) => command.stdout(stdout).stderr(stderr),
        };
        Ok(())
    }
}

pub fn start(command: &[String], user: Option<User>, output: CommandOutput) -> Result<Option<Child>> {
    let Some((program, arguments)) = command.split_first() else { return Ok(None) };
    // Makes the command's orphans our children, so that we can end them.
    family::adopt();
    let mut command = Command::new(program);
    command.args(arguments);
    output.of(&mut command)?;
    InheritedFiles::alone_pass_to(&mut command);
    if let Some(user) = user {
        user.runs(&mut command);
    }
    command.spawn().map(Some).map_err(|error| match error.kind() {
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
    let knows = asked == Some(EndRequest::Interrupt) && shares_the_terminal();
    let phases = if knows {
        &[None, Some(Signal::TERM), Some(Signal::KILL)][..]
    } else {
        &[Some(Signal::TERM), Some(Signal::KILL)]
    };
    for signal in phases {
        let patience = Instant::now() + GRACE;
        let mut told = Vec::new();
        while Instant::now() < patience {
            family::bury(child.id());
            let living = family::living();
            if living.is_empty() {
                return Ok(Some(code(child.wait().await?)));
            }
            if let Some(signal) = signal {
                family::tell(&living, &mut told, *signal);
            }
            tokio::select! {
                _ = signals.recv() => {
                    family::tell(&family::living(), &mut Vec::new(), Signal::KILL);
                    return Ok(None);
                }
                () = tokio::time::sleep(LOOK) => {}
            }
        }
    }
    let left: Vec<String> = family::living().iter().map(ToString::to_string).collect();
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
