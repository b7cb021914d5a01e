//! The folder of a sweep, with its record, its report and the folders of its runs.

use super::SweepPlan;
use crate::{OutputPlan, folder_by_time, redact};
use anyhow::{Context, Result, bail};
use overhead_files::OutputFolder;
use overhead_model::Sweep;
use overhead_reading::run_folder::RECORD;
use overhead_report::ReportOptions;
use overhead_report::sweep::{NamedSweep, SWEEP_RECORD, json, load_sweep, replaced_by_sweep, write_sweeps};
use std::fs;
use std::path::{Path, PathBuf};

/// An open folder that contains only this sweep.
#[derive(Debug)]
pub struct SweepFolder {
    folder: OutputFolder,
}

impl SweepFolder {
    /// Opens or creates the folder. Never changes files of another sweep or of the user.
    pub fn open(plan: &SweepPlan) -> Result<Self> {
        let OutputPlan { folder, force, owner } = &plan.capture.output;
        let Some(path) = folder else {
            return Self::locked(folder_by_time(&format!("{}-sweep", plan.capture.db_name()), *owner)?);
        };
        let folder = OutputFolder::open_or_make(path, 0o700, *owner)
            .with_context(|| format!("the folder {} cannot be written: choose another with -o", path.display()))?;
        let place = Self::locked(folder)?;
        if place.folder.holds(RECORD) {
            bail!("{} holds a run: choose another folder for the sweep with -o", path.display());
        }
        if *force {
            return Ok(place);
        }
        if place.folder.holds(SWEEP_RECORD) {
            same_sweep(plan, &load_sweep(path)?, path)?;
        } else if let Some(name) = replaced_by_sweep(&place.folder) {
            bail!(
                "{} holds a file {name} already: choose another folder with -o, or overwrite it with --force",
                path.display()
            );
        }
        Ok(place)
    }

    fn locked(folder: OutputFolder) -> Result<Self> {
        if !folder.lock() {
            bail!("{} is another sweep's, which is running: choose another folder with -o", folder.path().display());
        }
        Ok(Self { folder })
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Writes the record atomically.
    pub fn keep(&self, sweep: &Sweep) -> Result<PathBuf> {
        let text = json(sweep)?;
        let written = self.folder.write(SWEEP_RECORD, text.as_bytes());
        written.with_context(|| format!("{} cannot be written", self.path().join(SWEEP_RECORD).display()))
    }

    /// Writes the page and the charts. Returns all files, the record first.
    pub fn report(&self, sweep: &Sweep) -> Result<Vec<PathBuf>> {
        let record = self.path().join(SWEEP_RECORD);
        let named = NamedSweep { name: String::new(), sweep: sweep.clone() };
        let files = write_sweeps(&[named], &self.folder, &ReportOptions::default())?;
        Ok(std::iter::once(record).chain(files).collect())
    }

    /// Removes the folder if this sweep made it and has no results.
    pub fn discard(&self) {
        if !self.folder.is_new() {
            return;
        }
        // A folder with other files in it remains.
        for entry in fs::read_dir(self.path()).into_iter().flatten().flatten() {
            let _ = fs::remove_dir(entry.path());
        }
        let _ = fs::remove_dir(self.path());
    }
}

/// Checks that an existing sweep has the same settings. The values and the number of runs may differ.
fn same_sweep(plan: &SweepPlan, earlier: &Sweep, path: &Path) -> Result<()> {
    let names = |parameters: &[overhead_model::sweep::SweepParameter]| {
        parameters.iter().map(|parameter| parameter.name.clone()).collect::<Vec<_>>()
    };
    let command = redact::command_line(plan.capture.command.words.iter().cloned());
    let differs = [
        ("command", earlier.command == command, earlier.command.join(" ")),
        ("options", earlier.settings == plan.settings, earlier.settings.join(" ")),
        ("parameters", names(&earlier.parameters) == names(&plan.vary), names(&earlier.parameters).join(", ")),
    ];
    if let Some((what, _, before)) = differs.into_iter().find(|(_, is_same, _)| !is_same) {
        bail!(
            "{} holds a sweep with other {what} ({before}): choose another folder with -o, or start again with --force",
            path.display()
        );
    }
    Ok(())
}
