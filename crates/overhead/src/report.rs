//! `overhead report`: runs side by side.

use anyhow::Result;
use clap::Args;
use overhead_model::exit;
use overhead_report::{load_named_run, write_report};
use std::path::PathBuf;

/// Arguments of `report`.
#[derive(Args, Debug)]
pub struct Report {
    /// Run folders, or records written by `analyze --format json`
    #[arg(required = true, value_name = "RUN")]
    runs: Vec<PathBuf>,
    /// Folder for the figure and the table
    #[arg(short, long, value_name = "DIR", default_value = "report")]
    output: PathBuf,
}

impl Report {
    /// Reads the records, draws them and says where the result lies.
    pub fn run(self) -> Result<u8> {
        let runs = self.runs.iter().map(load_named_run).collect::<Result<Vec<_>, _>>()?;
        for path in write_report(&runs, &self.output)? {
            println!("{}", path.display());
        }
        Ok(exit::COMPLETE)
    }
}
