//! `overhead report`: runs side by side.

use crate::cli::Which;
use crate::keys::KeyFiles;
use crate::{print, runs};
use anyhow::Result;
use clap::Args;
use overhead_model::exit;
use overhead_report::{NamedRun, ReportError, write_report};
use std::path::PathBuf;

/// Arguments of `report`.
#[derive(Args, Debug)]
pub struct Report {
    /// Run folders, records written by `analyze --format json`, or captures
    #[arg(required = true, value_name = "RUN")]
    runs: Vec<PathBuf>,
    #[command(flatten)]
    which: Which,
    #[command(flatten)]
    keys: KeyFiles,
    /// Folder for the figure and the table
    #[arg(short, long, value_name = "DIR", default_value = "report")]
    output: PathBuf,
}

impl Report {
    /// Reads the records, draws them and says where the result lies.
    pub fn run(self) -> Result<u8> {
        let (runs, status) = self.load()?;
        for path in write_report(&runs, &self.output)? {
            println!("{}", path.display());
        }
        Ok(status)
    }

    /// Loads the runs, and leaves out what is none: a shell's `runs/*` names whatever lies there.
    fn load(&self) -> Result<(Vec<NamedRun>, u8)> {
        let (mut runs, mut skipped) = (Vec::new(), Vec::new());
        for path in &self.runs {
            match runs::load(path, &self.which, &self.keys) {
                Ok(run) => runs.push(run),
                Err(error) if path.exists() => skipped.push(error),
                Err(error) => return Err(error),
            }
        }
        if runs.is_empty() && !skipped.is_empty() {
            return Err(skipped.swap_remove(0));
        }
        let mut status = exit::COMPLETE;
        for error in &skipped {
            print::warn(&[format!("skipped: {}", exit::sentence(&**error))]);
            // What was never a run is not missing from the report.
            if !matches!(error.downcast_ref(), Some(ReportError::Missing { .. })) {
                status = exit::PARTIAL;
            }
        }
        Ok((runs, status))
    }
}
