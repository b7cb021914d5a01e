//! The command that runs under a capture.

use anyhow::{Result, anyhow};
use rustix::process::{Pid, Signal, kill_process};
use std::os::fd::AsFd;
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitStatus, Stdio};
use tokio::process::{Child, Command};

/// Starts the command. Its standard output goes to our standard error: ours carries the result.
pub fn start(command: &[String]) -> Result<Option<Child>> {
    let Some((program, arguments)) = command.split_first() else { return Ok(None) };
    let stderr = std::io::stderr().as_fd().try_clone_to_owned()?;
    let child = Command::new(program).args(arguments).stdout(Stdio::from(stderr)).spawn();
    child.map(Some).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => anyhow!("{program}: no such command: check its name, or install it"),
        std::io::ErrorKind::PermissionDenied => anyhow!("{program} may not be run: check its permissions"),
        _ => anyhow!("{program} cannot be started: {error}"),
    })
}

/// Asks the command to end, where it has not.
pub fn terminate(child: &Child) {
    let pid = child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
    if let Some(pid) = pid {
        // It may have ended just now, which is what was wanted.
        let _ = kill_process(pid, Signal::TERM);
    }
}

/// The status a shell would give: the exit code, or 128 + n for signal n.
pub fn code(status: ExitStatus) -> i32 {
    status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(1)
}
