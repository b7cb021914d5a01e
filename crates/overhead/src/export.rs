//! `overhead export`: hands over to `overhead-export`, which has the writer of Parquet.

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
    /// Becomes that program; comes back only where it cannot be started.
    pub fn run(self) -> Result<u8> {
        let help = self.help.then(|| OsString::from("--help"));
        become_program("export", "overhead-export", help.into_iter().chain(self.arguments))
    }
}
