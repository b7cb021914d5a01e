//! `overhead bench`: runs `overhead-bench`, which contains the database drivers.

use crate::hand_over::become_program;
use anyhow::Result;
use clap::Args;
use std::ffi::OsString;

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
    /// Replaces this process with `overhead-bench`; on Unix, returns only if that cannot start.
    pub fn run(self) -> Result<u8> {
        let help = self.help.then(|| OsString::from("--help"));
        become_program("bench", "overhead-bench", help.into_iter().chain(self.arguments))
    }
}
