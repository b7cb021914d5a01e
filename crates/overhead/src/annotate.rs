//! `overhead analyze --annotate`: copies captures with a comment at the first frame of each operation, for Wireshark.

use crate::copy::CopyWriter;
use anyhow::{Error, Result};
use clap::Args;
use overhead_advise::{AdviceFinding, AdviceObserver, WhatIfOptions, all};
use overhead_dissect::explain::{Findings, OperationNotes};
use overhead_model::{Class, Frame, bail_usage, say};
use overhead_reading::{Dissect, InputPlan, Warnings};
use overhead_report::text::counted;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Arguments for an annotated copy.
#[derive(Args, Clone, Debug, Default)]
pub struct AnnotateArgs {
    /// Also write a copy with a comment on each operation, for Wireshark
    #[arg(long, value_name = "OUT.pcapng", conflicts_with_all = ["write", "anonymise"], hide_short_help = true)]
    annotate: Option<PathBuf>,
}

/// Findings of `advise`.
#[derive(Debug)]
struct AdvisedRules(Vec<AdviceFinding>);

impl Findings for AdvisedRules {
    fn about(&self, class: Class, name: &str, statement: &str) -> String {
        let is_about = |found: &&AdviceFinding| {
            let subject = &found.subject;
            (subject.class, &*subject.name) == (class.name(), name)
                && (subject.statement.is_empty() || subject.statement == statement)
        };
        let mut rules: Vec<&str> = self.0.iter().filter(is_about).map(|found| found.rule).collect();
        rules.dedup();
        rules.join(", ")
    }
}

/// Copies frames with their notes until that fails.
struct AnnotatedCopy<'a> {
    copy: CopyWriter<'a>,
    notes: BTreeMap<u64, Vec<String>>,
    number: u64,
    failed: Option<Error>,
}

impl Dissect for AnnotatedCopy<'_> {
    fn frame(&mut self, frame: &Frame<'_>) {
        self.number += 1;
        let notes = self.notes.remove(&self.number).unwrap_or_default();
        self.failed = self.failed.take().or_else(|| self.copy.write(frame, &notes).err());
    }

    fn is_over(&mut self) -> bool {
        self.failed.is_some()
    }
}

impl AnnotateArgs {
    /// Refuses a copy that cannot be made, before anything is read.
    pub fn check(&self, input: &InputPlan) -> Result<()> {
        let Some(out) = &self.annotate else { return Ok(()) };
        if out.exists() {
            bail_usage!("--annotate {}: the file exists: choose another name, or remove it", out.display());
        }
        if let Some(file) = input.pipe() {
            bail_usage!("{}: --annotate reads three times: save a pipe to a file first", file.display());
        }
        Ok(())
    }

    /// Writes the copy, and returns the warnings about it.
    pub fn copy(&self, input: &InputPlan) -> Result<Warnings> {
        let mut warnings = Warnings::default();
        let Some(out) = &self.annotate else { return Ok(warnings) };
        // The record has the warnings about the files.
        let mut told = Warnings::default();
        let keys = input.read_keys(&mut told)?;
        let mut observer = AdviceObserver::new(all(WhatIfOptions::default()));
        input.explore(&mut observer, &keys, &mut told)?;
        let rules = AdvisedRules(observer.into_advice().0.findings);
        let mut reading = OperationNotes::new(&rules);
        input.explore(&mut reading, &keys, &mut told)?;
        let OperationNotes { notes, omitted, .. } = reading;
        if omitted > 0 {
            warnings.partial(format!(
                "{}: {} have no comment, because those of the others take up the memory: choose a part with --from and --to",
                out.display(),
                counted(omitted, "operation")
            ));
        }
        let mut copying = AnnotatedCopy { copy: CopyWriter::new(out), notes, number: 0, failed: None };
        input.read(&mut copying, &keys, &mut told)?;
        if let Some(error) = copying.failed {
            return Err(error);
        }
        let written = copying.copy.finish()?;
        say!("{}: {} with comments: find them by frame.comment", out.display(), counted(written, "frame"));
        Ok(warnings)
    }
}
