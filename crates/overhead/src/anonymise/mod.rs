//! `overhead analyze --anonymise`: copies captures without user data and checks the copy against the original.

mod compare;

use crate::copy::{CopyWriter, unwritable};
use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use overhead_anonymise::{Anonymiser, CopiedFrames, FillerKey};
use overhead_files::open_scratch;
use overhead_model::{Frame, Run, bail_usage, say};
use overhead_reading::{Dissect, InputPlan, RecordPlan, Warnings};
use overhead_report::text::counted;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

/// Maximum differences to name; the rest are counted.
const NAMED: usize = 5;

/// Arguments for an anonymised copy.
#[derive(Args, Clone, Debug, Default)]
pub struct AnonymiseArgs {
    /// Also write a copy without user data, with the same figures
    #[arg(long, value_name = "OUT.pcapng", conflicts_with = "write")]
    anonymise: Option<PathBuf>,
    /// The secret that the filler depends on, 32 hex digits: for tests; it is random otherwise
    #[arg(long, value_name = "HEX", hide = true, requires = "anonymise", value_parser = key)]
    anonymise_key: Option<FillerKey>,
}

fn key(hex: &str) -> Result<FillerKey> {
    let number = u128::from_str_radix(hex, 16).with_context(|| "32 hexadecimal digits are needed")?;
    Ok(FillerKey(number.to_be_bytes()))
}

impl AnonymiseArgs {
    /// Refuses a copy that cannot be made, before anything is read.
    pub fn check(&self, input: &InputPlan) -> Result<()> {
        let Some(out) = &self.anonymise else { return Ok(()) };
        if out.exists() {
            bail_usage!("--anonymise {}: the file exists: choose another name, or remove it", out.display());
        }
        if let Some(file) = input.pipe() {
            bail_usage!("{}: --anonymise reads twice: save a pipe to a file first", file.display());
        }
        Ok(())
    }

    /// Writes the copy, and returns the warnings about it. `run` is the record of the original.
    pub fn copy(&self, plan: &RecordPlan, run: &Run) -> Result<Warnings> {
        let mut warnings = Warnings::default();
        let Some(out) = &self.anonymise else { return Ok(warnings) };
        let plan = plan.without_keys();
        let key = match self.anonymise_key {
            Some(key) => key,
            None => random_key()?,
        };
        let input = &plan.input;
        let mut copier = Copier { copy: Anonymiser::new(&input.selection, key, scratch(out)?), failed: None };
        // The record has the warnings about the files.
        input.read(&mut copier, &input.read_keys(&mut warnings)?, &mut Warnings::default())?;
        let written = write(out, copier.finish(out)?)?;
        let original = plan.record()?;
        if run.ledger != original.ledger {
            warnings.partial(
                "what was decrypted is encrypted in the copy, which has no keys: its figures are those without a key log",
            );
        }
        let copied = plan.for_copy(out).record()?;
        warn_of_differences(out, &compare::differences(&original, &copied), &mut warnings);
        say!("{}: {}, without user data", out.display(), counted(written, "frame"));
        Ok(warnings)
    }
}

/// Adds warnings for figures that differ between the copy and its original.
fn warn_of_differences(out: &Path, differences: &[String], warnings: &mut Warnings) {
    let more = differences.len().saturating_sub(NAMED);
    for difference in differences.iter().take(NAMED) {
        warnings.partial(format!("{} differs from its original: {difference}", out.display()));
    }
    if more > 0 {
        warnings.partial(format!(
            "{} differs from its original in {} more",
            out.display(),
            counted(more as u64, "figure")
        ));
    }
}

/// Passes frames to the copy until that fails.
struct Copier {
    copy: Anonymiser,
    failed: Option<io::Error>,
}

impl Copier {
    fn finish(self, out: &Path) -> Result<CopiedFrames> {
        let frames = match self.failed {
            Some(error) => Err(error),
            None => self.copy.finish(),
        };
        frames.with_context(|| unwritable(out))
    }
}

impl Dissect for Copier {
    fn frame(&mut self, frame: &Frame<'_>) {
        if self.failed.is_none() {
            self.failed = self.copy.frame(frame).err();
        }
    }

    fn is_over(&mut self) -> bool {
        self.failed.is_some()
    }
}

/// Returns a temporary file in the copy's folder, deleted on close.
fn scratch(out: &Path) -> Result<File> {
    if out.file_name().is_none() {
        bail!("{}: --anonymise needs the name of a file", out.display());
    }
    open_scratch(out).with_context(|| unwritable(out))
}

fn random_key() -> Result<FillerKey> {
    let mut key = [0; 16];
    getrandom::fill(&mut key)
        .map_err(|error| anyhow!("no key can be made: the system has no random bytes: {error}"))?;
    Ok(FillerKey(key))
}

/// Writes the copy as pcapng.
fn write(out: &Path, mut frames: CopiedFrames) -> Result<u64> {
    let mut copy = CopyWriter::new(out);
    while let Some(frame) = frames.next_frame().with_context(|| unwritable(out))? {
        copy.write(&frame, &[])?;
    }
    copy.finish()
}
