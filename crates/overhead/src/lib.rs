//! `overhead`: what a database protocol costs, in bytes on the wire, system calls and CPU cycles per operation.

// Errors are sentences for the user of the command.
#![allow(clippy::missing_errors_doc)]
// A closed standard error or reader must not cause a panic: see `say!` and `print::verbatim`.
#![warn(clippy::print_stderr, clippy::print_stdout)]

mod advise;
#[cfg(feature = "live")]
mod agent;
mod analyze;
mod annotate;
mod anonymise;
#[cfg(feature = "live")]
mod capture;
mod check;
mod cli;
mod compare;
mod copy;
#[cfg(feature = "live")]
mod doctor;
mod examples;
mod explain;
mod generate;
mod hand_over;
mod manual;
mod options;
mod print;
mod privileges;
#[cfg(feature = "live")]
mod repeat;
mod report;
#[cfg(feature = "live")]
mod sweep;
mod terminal;
#[cfg(feature = "top")]
mod top;

#[doc(hidden)]
pub use explain::schema as explanation_schema;

use overhead_options::{code, map_large_blocks};
use std::process::ExitCode;

/// Runs the command line and returns the exit status.
pub fn main() -> ExitCode {
    map_large_blocks();
    if std::env::args_os().len() <= 1 {
        return code(
            overhead_model::exit::print(cli::STARTING_POINTS)
                .map(|()| overhead_model::exit::COMPLETE)
                .map_err(Into::into),
        );
    }
    let command = cli::parse();
    privileges::lower(command.as_ref().is_ok_and(cli::CliCommand::is_live));
    code(command.and_then(cli::CliCommand::run))
}
