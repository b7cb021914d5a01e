//! `overhead analyze`: capture files to a run record.

use crate::annotate::AnnotateArgs;
use crate::anonymise::AnonymiseArgs;
use crate::options::{DissectArgs, Output, ProjectArgs};
use crate::print;
use anyhow::Result;
use clap::Args;
use overhead_model::bail_usage;
use overhead_options::{DecodeArgs, SampleArgs, WindowArgs};
use overhead_reading::{InputPlan, KeptRun, RecordPlan};
use overhead_report::NamedRun;
use overhead_report::text::quoted;
use std::path::PathBuf;

/// Arguments of `analyze`.
#[derive(Args, Debug)]
pub struct AnalyzeArgs {
    /// pcap or pcapng files, plain or compressed, in any order; - for standard input; or a run folder
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    #[command(flatten)]
    decode: DecodeArgs,
    /// Stop after this many frames
    #[arg(short = 'c', long = "count", value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    #[command(flatten)]
    window: WindowArgs,
    #[command(flatten)]
    sample: SampleArgs,
    /// Also sum up the fields of the messages, in a second reading
    #[arg(long)]
    fields: bool,
    #[command(flatten)]
    project: ProjectArgs,
    /// Also say how many operations took no longer than 1 ms, 2 ms, …
    #[arg(long)]
    distribution: bool,
    #[command(flatten)]
    dissect: DissectArgs,
    #[command(flatten)]
    output: Output,
    /// Replace the record in the run folder
    #[arg(long)]
    write: bool,
    #[command(flatten)]
    anonymise: AnonymiseArgs,
    #[command(flatten)]
    annotate: AnnotateArgs,
}

impl AnalyzeArgs {
    /// Reads the files and prints the result.
    pub fn run(self) -> Result<u8> {
        let plan = self.plan()?;
        let named = NamedRun::new(plan.input.name(), plan.record()?);
        print::warnings(&named, &self.output);
        print::result(&named, &self.output, self.again().as_deref())?;
        if let Some(kept) = &plan.input.kept {
            self.keep(kept, &named, plan.input.is_part())?;
        }
        let copied = self.anonymise.copy(&plan, &named.run)?;
        let annotated = self.annotate.copy(&plan.input)?;
        Ok(print::settled(copied).max(print::settled(annotated)).max(named.run.exit))
    }

    /// Returns the words that name the same packets for another command, if it is a single input.
    fn again(&self) -> Option<String> {
        let [file] = self.files.as_slice() else { return None };
        let file = quoted(&file.display().to_string());
        Some([file].into_iter().chain(self.decode.plan().connections.words()).collect::<Vec<_>>().join(" "))
    }

    /// Checks the options before any packet is read.
    fn plan(&self) -> Result<RecordPlan> {
        self.output.check()?;
        let input = InputPlan::open(self.files.clone(), &self.decode.plan())?;
        let input = InputPlan { window: self.window.plan(), count: self.count, ..input };
        if self.write && input.kept.is_none() {
            bail_usage!("--write puts a record into its run folder: name one, and nothing else");
        }
        self.anonymise.check(&input)?;
        self.annotate.check(&input)?;
        let (model, sample) = (self.project.model(), self.sample.plan());
        if self.fields || model.is_some() {
            if sample.cycle.is_some() {
                bail_usage!(
                    "--sample takes a part of the frames, and --fields, --project and --physical read all: leave it or them out"
                );
            }
            if let Some(file) = input.pipe() {
                let (file, option) = (file.display(), if self.fields { "--fields" } else { "--project" });
                bail_usage!("{file}: {option} reads twice: save a pipe to a file first");
            }
        }
        Ok(RecordPlan {
            input,
            sample,
            dissect: self.dissect.plan(),
            by: self.output.rows.by(),
            fields: self.fields,
            model,
            round_trip_times: self.project.round_trip_times(),
            work: self.project.work.clone(),
            distribution: self.distribution,
        })
    }

    /// Writes the record into the run folder, if the user asked for that or if an aborted capture left none.
    fn keep(&self, kept: &KeptRun, named: &NamedRun, is_part: bool) -> Result<()> {
        if self.write {
            print::path(&kept.write(&named.run)?, &self.output);
        } else if kept.is_aborted() && !is_part {
            match kept.write(&named.run) {
                Ok(path) => print::path(&path, &self.output),
                Err(error) => print::warn(&[format!("{error:#}: the record is not kept")]),
            }
        }
        Ok(())
    }
}
