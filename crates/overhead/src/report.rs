//! `overhead report`: runs side by side, or a sweep in lines.

use crate::cli::Which;
use crate::exit::StatusFault;
use crate::keys::KeyFiles;
use crate::{caller, print, runs};
use anyhow::{Result, bail};
use clap::Args;
use overhead_model::exit;
use overhead_report::{NamedRun, OutputFolder, ReportError, replaced_by_report, sweep, write_report};
use std::path::{Path, PathBuf};

/// Arguments of `report`.
#[derive(Args, Debug)]
pub struct ReportArgs {
    /// Run folders, records written by `analyze --format json`, or captures; or the folder of one sweep
    #[arg(required = true, value_name = "RUN")]
    runs: Vec<PathBuf>,
    #[command(flatten)]
    which: Which,
    #[command(flatten)]
    keys: KeyFiles,
    /// Folder for the figure and the table
    #[arg(short, long, value_name = "DIR", default_value = "report")]
    output: PathBuf,
    /// Replace files of these names that are not of an earlier report
    #[arg(long)]
    force: bool,
}

impl ReportArgs {
    /// Reads the records, draws them and says where the result lies.
    pub fn run(self) -> Result<u8> {
        if let [path] = self.runs.as_slice()
            && is_sweep(path)
        {
            return self.sweep(path);
        }
        let (runs, status) = self.load()?;
        let folder = self.folder(replaced_by_report)?;
        listed(&write_report(&runs, &folder)?)?;
        Ok(status)
    }

    /// Draws a sweep.
    fn sweep(&self, path: &Path) -> Result<u8> {
        let sweep = sweep::load_sweep(path)?;
        let folder = self.folder(sweep::replaced_by_sweep)?;
        listed(&sweep::write_sweep(&sweep, &folder)?)?;
        let remarks = sweep::remarks(&sweep);
        print::warn(&remarks);
        Ok(if remarks.is_empty() { exit::COMPLETE } else { exit::PARTIAL })
    }

    /// Loads the runs, and leaves out what is none: a shell's `runs/*` names whatever lies there.
    fn load(&self) -> Result<(Vec<NamedRun>, u8)> {
        let (mut runs, mut skipped, mut sweeps) = (Vec::new(), Vec::new(), Vec::new());
        for path in &self.runs {
            if is_sweep(path) {
                let path = path.display();
                sweeps.push(format!("{path} is a sweep, which has a report of its own: overhead report {path}"));
                continue;
            }
            match runs::load(path, &self.which, &self.keys) {
                Ok(run) => runs.push(run),
                Err(error) if path.exists() => skipped.push(error),
                Err(error) => return Err(error),
            }
        }
        if runs.is_empty() && !skipped.is_empty() {
            return Err(skipped.swap_remove(0));
        }
        if runs.is_empty() && !sweeps.is_empty() {
            return Err(StatusFault::usage(sweeps.swap_remove(0)).into());
        }
        print::warn(&sweeps.iter().map(|said| format!("skipped: {said}")).collect::<Vec<_>>());
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

    /// Opens the folder for the result, where nothing of the user's would be replaced.
    fn folder(&self, replaced: fn(&OutputFolder) -> Option<&'static str>) -> Result<OutputFolder> {
        let unwritable = |source| ReportError::Unwritable { path: self.output.clone(), source };
        let folder = OutputFolder::open_or_make(&self.output, 0o777, caller::owner()).map_err(unwritable)?;
        match replaced(&folder).filter(|_| !self.force) {
            Some(name) => bail!(
                "{} is not of an earlier report: choose another folder with -o, or overwrite it with --force",
                self.output.join(name).display()
            ),
            None => Ok(folder),
        }
    }
}

/// Returns whether this is the folder of a sweep, or its record.
fn is_sweep(path: &Path) -> bool {
    path.join(sweep::SWEEP_RECORD).is_file() || (path.ends_with(sweep::SWEEP_RECORD) && path.is_file())
}

/// Prints where files are, one in each line.
fn listed(files: &[PathBuf]) -> Result<()> {
    let lines: Vec<String> = files.iter().map(|path| format!("{}\n", path.display())).collect();
    print::verbatim(&lines.concat())
}
