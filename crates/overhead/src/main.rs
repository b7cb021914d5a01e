//! `overhead`: what a database protocol costs, in bytes on the wire, system calls and CPU cycles per operation.

// A standard error that is closed, or a reader that went away, is no reason to panic: see `say!` and `print::verbatim`.
#![warn(clippy::print_stderr, clippy::print_stdout)]

mod advise;
mod analyze;
mod anonymise;
mod bench;
mod caller;
#[cfg(feature = "live")]
mod capture;
mod check;
mod cli;
mod compare;
#[cfg(feature = "live")]
mod databases;
mod divide;
#[cfg(feature = "live")]
mod doctor;
mod exit;
mod explain;
mod fields;
mod frames;
mod generate;
mod groups;
mod inputs;
mod keys;
mod ledger;
mod print;
mod project;
mod queue;
#[cfg(feature = "live")]
mod redact;
#[cfg(feature = "live")]
mod repeat;
mod report;
mod runs;
mod sample;
#[cfg(feature = "live")]
mod sweep;
mod time;
#[cfg(feature = "top")]
mod top;
mod warnings;

use std::process::ExitCode;

fn main() -> ExitCode {
    exit::code(cli::parse().and_then(cli::CliCommand::run))
}
