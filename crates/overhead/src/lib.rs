//! `overhead`: what a database protocol costs, in bytes on the wire, system calls and CPU cycles per operation.

// Errors are sentences for the user of the command.
#![allow(clippy::missing_errors_doc)]
// A closed standard error or reader must not cause a panic: see `say!` and `print::verbatim`.
#![warn(clippy::print_stderr, clippy::print_stdout)]

mod advise;
#[cfg(feature = "live")]
mod agent;
mod analyze;
mod anonymise;
mod caller;
#[cfg(feature = "live")]
mod capture;
mod check;
mod cli;
mod compare;
#[cfg(feature = "live")]
mod databases;
#[cfg(feature = "live")]
mod doctor;
mod examples;
mod exit;
mod explain;
mod fields;
mod generate;
mod given;
mod groups;
mod hand_over;
mod inputs;
mod keys;
mod ledger;
mod manual;
mod numbers;
mod pricing;
mod print;
mod privileges;
mod project;
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
mod usage;
mod warnings;

use std::process::ExitCode;

/// The parts shared by other programs that read captures, such as [`overhead-export`](../overhead_export/index.html).
pub mod reading {
    pub use crate::cli::{DecodeArgs, parsed};
    pub use crate::exit::{StatusFault, code};
    pub use crate::generate::generate;
    pub use crate::inputs::{Dissect, InputPlan};
    pub use crate::runs::KeptRun;
    pub use crate::sample::{Chosen, DissectWindows, SampleArgs, Sampler, Schedule, add_window, windows_of};
    pub use crate::time::TimeWindow;
    pub use crate::warnings::Warnings;
}

/// Makes the allocator map blocks of a megabyte or more, so that they grow in place and return to the system when freed. By
/// default, glibc raises this limit while a program runs, and tables that grow next to each other then leave holes three times
/// their own size. A fixed limit would also fix the heap's trim size at 128 KiB: every compressor, made and freed, would fault
/// in its pages again.
pub fn map_large_blocks() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: The call only sets allocator parameters, and no other thread is running yet.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, 1 << 20);
        libc::mallopt(libc::M_TRIM_THRESHOLD, 2 << 20);
    }
}

/// Runs the command line and returns the exit status.
pub fn main() -> ExitCode {
    map_large_blocks();
    if std::env::args_os().len() <= 1 {
        return exit::code(
            overhead_model::exit::print(cli::STARTING_POINTS)
                .map(|()| overhead_model::exit::COMPLETE)
                .map_err(Into::into),
        );
    }
    let command = cli::parse();
    privileges::lower(command.as_ref().is_ok_and(cli::CliCommand::is_live));
    exit::code(command.and_then(cli::CliCommand::run))
}
