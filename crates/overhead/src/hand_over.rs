//! Verbs that are separate programs, so that this one does not need their libraries.

use anyhow::{Context, Result, anyhow};
use clap::Args;
use overhead_files::find_program;
use overhead_model::exit::StatusFault;
use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::process::Command;

/// A program with a verb.
#[derive(Clone, Copy, Debug)]
pub struct ProgramBeside {
    verb: &'static str,
    about: &'static str,
    operand: &'static str,
}

/// All of them. Only those that are installed are verbs.
const PROGRAMS: [ProgramBeside; 2] = [
    ProgramBeside {
        verb: "bench",
        about: "Put the reference workload on a database, and measure it from the client's side",
        operand: "DB",
    },
    ProgramBeside {
        verb: "export",
        about: "Write one row per operation, as Parquet, CSV or JSON lines, for SQL and data frames",
        operand: "RUN|FILE",
    },
];

/// Returns the program with this verb, installed or not.
pub fn named(verb: &str) -> Option<ProgramBeside> {
    PROGRAMS.into_iter().find(|program| program.verb == verb)
}

/// Rejects the verb of a program that is not installed.
pub fn check_installed(verb: Option<&str>) -> Result<()> {
    match verb.and_then(named).filter(|program| program.place().is_none()) {
        Some(program) => Err(StatusFault::usage(program.absence()).into()),
        None => Ok(()),
    }
}

/// Returns the definitions of the verbs whose programs are installed.
pub fn verbs() -> impl Iterator<Item = clap::Command> {
    PROGRAMS.into_iter().filter(|program| program.place().is_some()).map(|program| {
        let help = format!("See `overhead {} --help`", program.verb);
        let command = PassedArgs::augment_args(clap::Command::new(program.verb)).about(program.about);
        command.disable_help_flag(true).mut_arg("arguments", |words| words.value_name(program.operand).help(help))
    })
}

/// Arguments that are passed on.
#[derive(Args, Debug)]
pub struct PassedArgs {
    /// Print help; -h for the usual options
    #[arg(long)]
    help: bool,
    #[arg(short = 'h', hide = true)]
    short_help: bool,
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

impl ProgramBeside {
    /// Replaces this process with the program. Systems without `exec` wait for it and return its status.
    pub fn run(self, args: &PassedArgs) -> Result<u8> {
        let place = self.path()?;
        let help = args.help.then_some("--help").or(args.short_help.then_some("-h"));
        let started = replaced(Command::new(&place).args(help).args(&args.arguments));
        started.with_context(|| format!("{} cannot be started: install it again", place.display()))
    }

    /// Returns what to do if the program is not installed.
    fn absence(self) -> String {
        let verb = self.verb;
        format!(
            "{verb} is a program of its own, overhead-{verb}, which is neither beside this one nor on the PATH: \
             `make install` in a checkout and the packages of `make dist` bring it"
        )
    }

    /// Returns its path.
    ///
    /// # Errors
    ///
    /// It is not installed.
    pub fn path(self) -> Result<PathBuf> {
        self.place().ok_or_else(|| anyhow!(self.absence()))
    }

    fn place(self) -> Option<PathBuf> {
        find_program(&format!("overhead-{}", self.verb))
    }
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
