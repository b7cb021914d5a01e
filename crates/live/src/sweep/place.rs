//! The folder of a sweep, with its index, its report and the folders of its runs.

use super::SweepPlan;
use crate::{OutputPlan, folder_by_time, redact};
use anyhow::{Context, Result, bail};
use overhead_files::OutputFolder;
use overhead_reading::check_sweep_version;
use overhead_reading::run_folder::{RECORD, folder_name};
use overhead_report::bounded::read_text;
use overhead_report::{NamedRun, PageExtras, ReportOptions, RunGroup, json, replaced_by_report, write_report_as};
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::{Path, PathBuf};

/// File that a sweep continues from.
const SWEEP_INDEX: &str = "sweep-index.json";

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
        check_sweep_version(path)?;
        if place.folder.holds(SWEEP_INDEX) {
            SweepIndex::new(plan).check(path)?;
        } else if let Some(name) = replaced_by_report(&place.folder) {
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

    /// Writes what continuing the sweep requires, atomically.
    pub fn keep(&self, plan: &SweepPlan) -> Result<()> {
        let index = SweepIndex::new(plan);
        let written = self.folder.write(SWEEP_INDEX, json(&index)?.as_bytes());
        written.with_context(|| format!("{} cannot be written", self.path().join(SWEEP_INDEX).display()))?;
        Ok(())
    }

    /// Writes the page and the charts of its runs. Returns all files.
    pub fn report(&self, runs: Vec<NamedRun>) -> Result<Vec<PathBuf>> {
        let name = folder_name(self.path());
        let group = RunGroup { name, runs };
        Ok(write_report_as(&[group], &self.folder, &ReportOptions::default(), &PageExtras::default())?)
    }

    /// Removes the folder if this sweep made it and has no results.
    pub fn discard(&self) {
        if !self.folder.is_new {
            return;
        }
        // A folder with other files in it remains.
        for entry in fs::read_dir(self.path()).into_iter().flatten().flatten() {
            let _ = fs::remove_dir(entry.path());
        }
        let _ = fs::remove_dir(self.path());
    }
}

/// What a sweep needs to continue. No reader needs it: each run's record has the rest.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct SweepIndex {
    /// The command, with parameters in braces; passwords are `***`.
    command: Vec<String>,
    /// Options that affect the measurement.
    settings: Vec<String>,
    /// Names of the parameters.
    parameters: Vec<String>,
}

impl SweepIndex {
    fn new(plan: &SweepPlan) -> Self {
        Self {
            command: redact::command_line(plan.capture.command.words.iter().cloned()),
            settings: plan.settings.clone(),
            parameters: plan.vary.iter().map(|parameter| parameter.name.clone()).collect(),
        }
    }

    /// Checks that the folder's sweep is this one. The values and the number of runs may differ.
    fn check(&self, path: &Path) -> Result<()> {
        let text = read_text(&path.join(SWEEP_INDEX))?;
        let Ok(earlier) = serde_json::from_slice::<Self>(&text) else {
            bail!("{} is damaged: start the sweep again with --force", path.join(SWEEP_INDEX).display());
        };
        let differs = [
            ("command", &earlier.command, &self.command, " "),
            ("options", &earlier.settings, &self.settings, " "),
            ("parameters", &earlier.parameters, &self.parameters, ", "),
        ];
        if let Some((what, before, _, between)) = differs.into_iter().find(|(_, before, now, _)| before != now) {
            bail!(
                "{} holds a sweep with other {what} ({}): choose another folder with -o, or start again with --force",
                path.display(),
                before.join(between)
            );
        }
        Ok(())
    }
}
