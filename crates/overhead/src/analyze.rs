//! `overhead analyze`: capture files to a run record.

use crate::anonymise::AnonymiseArgs;
use crate::cli::{DecodeArgs, Output};
use crate::exit::bail_usage;
use crate::inputs::InputPlan;
use crate::keys::{KeyFiles, KeyReader};
use crate::project::ProjectArgs;
use crate::runs::KeptRun;
use crate::sample::{DissectArgs, SampleArgs};
use crate::time::TimeWindow;
use crate::warnings::Warnings;
use crate::{fields, ledger, print, project};
use anyhow::Result;
use clap::Args;
use overhead_dissect::{Dissector, LinkModel, Selection};
use overhead_model::Measured;
use overhead_model::record::{By, Run, Selected, SourceKind};
use overhead_report::text::quoted;
use overhead_report::{Aggregate, NamedRun};
use std::path::{Path, PathBuf};

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
    window: TimeWindow,
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
    /// Accepted and ignored: one thread reads a capture
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    threads: Option<u16>,
    #[command(flatten)]
    dissect: DissectArgs,
    #[command(flatten)]
    output: Output,
    /// Replace the record in the run folder
    #[arg(long)]
    write: bool,
    #[command(flatten)]
    anonymise: AnonymiseArgs,
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
        Ok(print::settled(copied).max(named.run.exit))
    }

    /// Returns the words that name the same packets for another command, if it is a single input.
    fn again(&self) -> Option<String> {
        let [file] = self.files.as_slice() else { return None };
        let file = quoted(&file.display().to_string());
        Some([file].into_iter().chain(self.decode.which.words()).collect::<Vec<_>>().join(" "))
    }

    /// Checks the options before any packet is read.
    fn plan(&self) -> Result<RecordPlan> {
        self.output.check()?;
        let input = InputPlan::open(self.files.clone(), &self.decode)?;
        let input = InputPlan { window: self.window, count: self.count, ..input };
        if self.write && input.kept.is_none() {
            bail_usage!("--write puts a record into its run folder: name one, and nothing else");
        }
        self.anonymise.check(&input)?;
        let model = self.project.model();
        if self.fields || model.is_some() {
            if self.sample.cycle.is_some() {
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
            sample: self.sample,
            dissect: self.dissect,
            by: self.output.rows.by(),
            fields: self.fields,
            model,
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

/// The checked arguments of a reading: how captures become a record.
#[derive(Clone, Debug)]
pub struct RecordPlan {
    pub input: InputPlan,
    sample: SampleArgs,
    dissect: DissectArgs,
    /// Further grouping of operations, in addition to their names.
    by: By,
    fields: bool,
    model: Option<LinkModel>,
    distribution: bool,
}

impl RecordPlan {
    /// Returns the plan of a record without further figures.
    pub fn of(input: InputPlan) -> Self {
        let (sample, dissect, by) = (SampleArgs::default(), DissectArgs::default(), By::default());
        Self { input, sample, dissect, by, fields: false, model: None, distribution: false }
    }

    /// Returns a plan that ignores keys and run folder, and computes no figures that need another reading.
    #[must_use]
    pub fn without_keys(&self) -> Self {
        let input = InputPlan { keys: KeyFiles::none(), kept: None, ..self.input.clone() };
        Self { input, by: By::default(), fields: false, model: None, ..self.clone() }
    }

    /// Returns the plan for a copy of the frames that this one reads.
    #[must_use]
    pub fn of_copy(&self, copy: &Path) -> Self {
        let (files, window) = (vec![copy.to_owned()], TimeWindow::default());
        let input = InputPlan { files, window, count: None, ..self.input.clone() };
        Self { input, ..self.clone() }
    }

    /// Reads the captures into a record.
    pub fn record(&self) -> Result<Run> {
        let Self { input, .. } = self;
        let started = ledger::Beginning::of_the_process();
        let mut warnings = Warnings::default();
        let windows = self.sample.chosen(&input.files)?;
        let keys = input.read_keys(&mut warnings)?;
        let tally = Aggregate::new().with_rows_by(self.by);
        let mut dissection = self.dissect.dissection(&input.selection, keys.log(), tally, windows);
        let inputs = input.read(&mut dissection, &keys, &mut warnings)?;
        let end_ns = input.kept.as_ref().and_then(KeptRun::sample_end_ns);
        let (aggregate, totals, sampled) = dissection.finish(end_ns);
        let mut facts = ledger::Circumstances {
            kind: SourceKind::File,
            inputs,
            rotation: None,
            selection: input.which.selected(),
            only_command: None,
            kernel_drops: Measured::unavailable("offline"),
            environment: None,
            counters: Measured::unavailable("offline: counters are taken while a capture runs"),
            bpf_ns: Measured::unavailable("offline"),
            started,
        };
        if let Some(kept) = &input.kept {
            facts = kept.facts(facts, input.is_part(), &mut warnings);
        }
        warnings.of_totals(&totals);
        if facts.selection == Selected::default() {
            warnings.of_detection(aggregate.connections().iter().map(|connection| connection.protocol.as_str()));
        }
        if warnings.is_nothing() && !input.which.is_default() && input.pipe().is_none() {
            self.look_for_others(&keys, &mut warnings)?;
        }
        let interface = facts.environment.as_ref().and_then(|environment| environment.interface.as_ref());
        warnings.of_frame_sizes(&totals, interface);
        let aggregate = aggregate.with_distributions(self.distribution);
        let mut run = ledger::run(&aggregate, &totals, warnings, facts);
        input.kept.iter().for_each(|kept| kept.copy_tcp_counters(&mut run));
        if let Some(sampled) = sampled {
            sampled.report(&mut run);
        }
        if self.fields {
            fields::read(&mut run, input, &keys)?;
        }
        if let Some(model) = self.model {
            project::read(&mut run, model, input, &keys)?;
        }
        Ok(run)
    }

    /// Warns of other traffic in files without the requested connections, and says how to read it.
    fn look_for_others(&self, keys: &KeyReader, warnings: &mut Warnings) -> Result<()> {
        let tally = Aggregate::new().without_statements();
        let mut dissector = Dissector::new(Selection::default(), tally).with_keys(keys.log());
        self.input.read(&mut dissector, keys, &mut Warnings::default())?;
        let (aggregate, _) = dissector.finish();
        warnings.of_others(&aggregate.connections());
        Ok(())
    }
}
