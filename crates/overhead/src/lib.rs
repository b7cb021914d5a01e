//! `overhead`: what a database protocol costs, in bytes on the wire, system calls and CPU cycles per operation.

// Errors are sentences for whoever typed the command.
#![allow(clippy::missing_errors_doc)]
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
#[cfg(feature = "live")]
mod doctor;
mod examples;
mod exit;
mod explain;
mod export;
mod fields;
mod generate;
mod groups;
mod hand_over;
mod inputs;
mod keys;
mod ledger;
mod print;
mod privileges;
mod project;
#[cfg(feature = "live")]
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

/// What other programs need that read captures as this one does: [`overhead-export`](../overhead_export/index.html) is one.
pub mod reading {
    pub use crate::analyze::Reading;
    pub use crate::cli::Which;
    pub use crate::exit::{StatusFault, code};
    pub use crate::generate::generate;
    pub use crate::inputs::Dissect;
    pub use crate::keys::{KeyFiles, KeyReader};
    pub use crate::runs::KeptRun;
    pub use crate::sample::{Chosen, DissectWindows, EndedWindows, SampleArgs, Sampler, Schedule, windows_of};
    pub use crate::time::TimeWindow;
    pub use crate::warnings::Warnings;
}

/// Makes the allocator map blocks of a megabyte or more, so that they grow in place and go back when they are freed. glibc raises
/// this limit as a program runs, and tables that grow next to each other then leave holes three times their own size. A fixed limit
/// would also fix the size from which glibc trims the heap, at 128 KiB: a compressor that is made and freed would fault in its pages
/// each time.
pub fn map_large_blocks() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: it sets parameters of the allocator, and no other thread runs yet.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, 1 << 20);
        libc::mallopt(libc::M_TRIM_THRESHOLD, 2 << 20);
    }
}

/// Does what the command line says; gives the exit status.
pub fn main() -> ExitCode {
    map_large_blocks();
    let command = cli::parse();
    privileges::lower(command.as_ref().is_ok_and(cli::CliCommand::is_live));
    exit::code(command.and_then(cli::CliCommand::run))
}
