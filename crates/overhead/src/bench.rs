//! `overhead bench`: hands over to `overhead-bench`, a program of its own, so that this one does without the databases' drivers.

use anyhow::{Result, anyhow};
use clap::Args;
use std::env;
use std::ffi::OsString;
use std::io::{self, ErrorKind};
use std::path::PathBuf;
use std::process::Command;

const PROGRAM: &str = "overhead-bench";

/// What is passed on.
#[derive(Args, Debug)]
pub struct BenchArgs {
    /// Print help
    #[arg(short, long)]
    help: bool,
    /// As `overhead bench --help` tells
    #[arg(value_name = "DB", trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

impl BenchArgs {
    /// Becomes that program; comes back only where it cannot be started.
    pub fn run(self) -> Result<u8> {
        let help = self.help.then(|| OsString::from("--help"));
        let error = match replaced(Command::new(program()).args(help).args(self.arguments)) {
            Ok(status) => return Ok(status),
            Err(error) => error,
        };
        Err(match error.kind() {
            ErrorKind::NotFound => anyhow!(
                "bench is a program of its own, {PROGRAM}, which is neither beside this one nor on the PATH: make it with \
                 'make bench', or with 'cargo build --release -p {PROGRAM}'"
            ),
            _ => anyhow!("{PROGRAM} cannot be started: {error}"),
        })
    }
}

/// Becomes the command, where a process can; else waits for it, and returns its status.
#[cfg(unix)]
fn replaced(command: &mut Command) -> io::Result<u8> {
    Err(std::os::unix::process::CommandExt::exec(command))
}

#[cfg(not(unix))]
fn replaced(command: &mut Command) -> io::Result<u8> {
    let status = command.status()?;
    Ok(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(overhead_model::exit::FAILED))
}

/// Returns the one beside this program, which is of the same version; else the first on the PATH.
fn program() -> PathBuf {
    let beside = env::current_exe().map(|own| own.with_file_name(format!("{PROGRAM}{}", env::consts::EXE_SUFFIX)));
    beside.ok().filter(|path| path.is_file()).unwrap_or_else(|| PathBuf::from(PROGRAM))
}
