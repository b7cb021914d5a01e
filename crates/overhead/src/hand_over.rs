//! Verbs that are separate programs, so that this one does not need their libraries.

use anyhow::{Result, anyhow};
use clap::Args;
use std::env;
use std::ffi::OsString;
use std::io::{self, ErrorKind};
use std::path::PathBuf;
use std::process::Command;

/// Arguments that are passed on.
#[derive(Args, Debug)]
pub struct PassedArgs {
    /// Print help
    #[arg(short, long)]
    help: bool,
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

/// Replaces this process with the program for `verb`. Systems without `exec` wait for it and return its status.
pub fn become_program(verb: &str, args: &PassedArgs) -> Result<u8> {
    let program = format!("overhead-{verb}");
    let help = args.help.then_some("--help");
    let mut command = Command::new(place(&program));
    replaced(command.args(help).args(&args.arguments)).map_err(|error| match error.kind() {
        ErrorKind::NotFound => anyhow!(
            "{verb} is a program of its own, {program}, which is neither beside this one nor on the PATH: 'make {verb}' \
             builds it, in a checkout of {}",
            env!("CARGO_PKG_REPOSITORY")
        ),
        _ => anyhow!("{program} cannot be started: {error}"),
    })
}

#[cfg(unix)]
fn replaced(command: &mut Command) -> io::Result<u8> {
    Err(std::os::unix::process::CommandExt::exec(command))
}

#[cfg(not(unix))]
fn replaced(command: &mut Command) -> io::Result<u8> {
    let status = command.status()?;
    Ok(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(overhead_model::exit::FAILED))
}

/// Returns the program next to this one, which has the same version, or else the first on the PATH.
fn place(program: &str) -> PathBuf {
    let beside = env::current_exe().map(|own| own.with_file_name(format!("{program}{}", env::consts::EXE_SUFFIX)));
    beside.ok().filter(|path| path.is_file()).unwrap_or_else(|| PathBuf::from(program))
}
