//! `overhead export`: runs `overhead-export`, which contains the Parquet writer.

use crate::hand_over::become_program;
use anyhow::Result;
use clap::Args;
use std::ffi::OsString;

/// What is passed on.
#[derive(Args, Debug)]
pub struct ExportArgs {
    /// Print help
    #[arg(short, long)]
    help: bool,
    /// As `overhead export --help` tells
    #[arg(value_name = "RUN|FILE", trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

impl ExportArgs {
    /// Replaces this process with `overhead-export`; on Unix, returns only if that cannot start.
    pub fn run(self) -> Result<u8> {
        let help = self.help.then(|| OsString::from("--help"));
        become_program("export", "overhead-export", help.into_iter().chain(self.arguments))
    }
}
