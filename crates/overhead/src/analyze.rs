//! `overhead analyze`: capture files to a run record.

use crate::anonymise::{self, AnonymiseArgs};
use crate::cli::{Output, Which};
use crate::exit::StatusFault;
use crate::inputs::{Dissect, Take};
use crate::keys::{KeyFiles, KeyReader};
use crate::project::ProjectArgs;
use crate::runs::KeptRun;
use crate::sample::{AggregateWindows, SampleArgs, Sampled, Sampler};
use crate::time::TimeWindow;
use crate::warnings::Warnings;
use crate::{fields, inputs, ledger, print, project};
use anyhow::Result;
use clap::Args;
use overhead_dissect::explain::FieldSums;
use overhead_dissect::{Dissector, KeyLog, Selection, Totals};
use overhead_model::record::{By, Input, Run, Selected, SourceKind};
use overhead_model::{Frame, Measured};
use overhead_report::{Aggregate, NamedRun};
use std::ops::{Bound, ControlFlow, RangeBounds};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Arguments of `analyze`.
#[derive(Args, Debug)]
pub struct Analyze {
    #[command(flatten)]
    reading: Reading,
    #[command(flatten)]
    output: Output,
    /// Put the record into the run folder, in place of the one there
    #[arg(long)]
    write: bool,
    #[command(flatten)]
    anonymise: AnonymiseArgs,
}

/// What is read, and how.
#[expect(clippy::struct_excessive_bools, reason = "flags of a command line")]
#[derive(Args, Clone, Debug, Default)]
pub struct Reading {
    /// pcap or pcapng files, plain or compressed, in any order; - for standard input; or a run folder
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    #[command(flatten)]
    which: Which,
    #[command(flatten)]
    keys: KeyFiles,
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
    /// Accepted for scripts that give it: one thread reads a capture
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    threads: Option<u16>,
    /// Send every frame the general way; the result is the same
    #[arg(long, hide = true)]
    no_memo: bool,
    /// Tell no statements apart, to see what that costs
    #[arg(long, hide = true)]
    no_statements: bool,
    /// What operations are added up by, beside their names
    #[arg(skip)]
    by: By,
}

/// What came of the files.
struct Dissected {
    /// The keys at the end.
    keys: KeyReader,
    /// What each file had.
    inputs: Vec<Input>,
    aggregate: Aggregate,
    totals: Totals,
    /// Where frames of windows were taken alone.
    sampled: Option<Sampled>,
}

impl Analyze {
    /// Reads the files and prints the result.
    pub fn run(mut self) -> Result<u8> {
        self.output.check()?;
        self.reading.by = self.output.rows.by();
        let kept = match self.reading.files.as_slice() {
            [path] => KeptRun::open(path)?,
            _ => None,
        };
        if self.write && kept.is_none() {
            return Err(StatusFault::usage(
                "--write puts a record into its run folder: name one, and nothing else".to_owned(),
            )
            .into());
        }
        let read = kept.as_ref().map(|kept| self.reading.of_kept(kept));
        self.anonymise.check(read.as_ref().unwrap_or(&self.reading))?;
        let run = self.reading.record(kept.as_ref())?;
        let name = kept.as_ref().map_or_else(|| name(&self.reading.files), KeptRun::name);
        let named = NamedRun::new(name, run);
        print::warnings(&named, &self.output);
        print::result(&named, &self.output)?;
        if let Some(kept) = kept {
            self.keep(&kept, &named)?;
        }
        let copied = self.anonymise.copy(read.as_ref().unwrap_or(&self.reading), &named.run)?;
        Ok(anonymise::settled(copied, named.run.exit))
    }

    /// Puts the record into the run folder: where it was asked for, and where an aborted capture has left none.
    fn keep(&self, kept: &KeptRun, named: &NamedRun) -> Result<()> {
        if self.write {
            print::path(&kept.write(&named.run)?, &self.output);
        } else if kept.is_aborted() && !self.reading.is_part() {
            match kept.write(&named.run) {
                Ok(path) => print::path(&path, &self.output),
                Err(error) => print::warn(&[format!("{error:#}: the record is not kept")]),
            }
        }
        Ok(())
    }
}

impl Reading {
    /// Returns a whole run folder or capture, as the user means it to be read.
    pub fn of(path: &Path, which: Which, keys: KeyFiles) -> Self {
        Self { files: vec![path.to_owned()], which, keys, ..Self::default() }
    }

    /// Returns whole captures that are read together, or what lies in a window of them.
    pub fn of_files(files: Vec<PathBuf>, which: Which, keys: KeyFiles, window: TimeWindow) -> Self {
        Self { files, which, keys, window, ..Self::default() }
    }

    /// Hands all frames that are asked for to `dissection`, with `keys` told of the secrets that lie among them; gives what each
    /// file had of them.
    ///
    /// # Errors
    ///
    /// Where a file cannot be read, and for a window that no frame can be in.
    pub fn feed(&self, dissection: &mut impl Dissect, keys: &KeyReader, warnings: &mut Warnings) -> Result<Vec<Input>> {
        self.read(dissection, keys, warnings)
    }

    /// Returns whether frames are left out.
    fn is_part(&self) -> bool {
        self.count.is_some() || !self.window.is_all()
    }

    /// Reads the files, or the packets of a run, into a record.
    pub fn record(&self, kept: Option<&KeptRun>) -> Result<Run> {
        let Some(kept) = kept else { return self.read_files(None) };
        self.of_kept(kept).read_files(Some(kept))
    }

    /// Returns the same of the packets of a run.
    fn of_kept(&self, kept: &KeptRun) -> Self {
        Self { files: kept.packets.clone(), which: kept.which(&self.which), ..self.clone() }
    }

    /// Returns the same with nothing decrypted, and without figures that take another reading.
    #[must_use]
    pub fn without_keys(&self) -> Self {
        let (fields, project, by) = (false, ProjectArgs::default(), By::default());
        Self { keys: KeyFiles::none(), fields, project, by, ..self.clone() }
    }

    /// Returns the same of a copy of the frames that were read.
    #[must_use]
    pub fn of_copy(&self, copy: &Path) -> Self {
        Self { files: vec![copy.to_owned()], count: None, window: TimeWindow::default(), ..self.clone() }
    }

    /// Returns the first file that can be read once only.
    pub fn pipe(&self) -> Option<&Path> {
        self.files.iter().map(PathBuf::as_path).find(|file| !inputs::can_be_read_again(file))
    }

    /// Returns which connections are wanted.
    pub fn selection(&self) -> Result<Selection> {
        self.which.selection()
    }

    /// Hands all frames that are asked for to `copier`, and returns it.
    pub fn copy<D: Dissect>(&self, mut copier: D, warnings: &mut Warnings) -> Result<D> {
        let keys = KeyReader::read(&self.keys, warnings)?;
        // What there is to say of the files was said with the record.
        self.read(&mut copier, &keys, &mut Warnings::default())?;
        Ok(copier)
    }

    /// Refuses what cannot be read twice, or would be read in two ways.
    fn check(&self) -> Result<(), StatusFault> {
        let twice = self.fields || self.project.model().is_some();
        if twice && self.sample.cycle.is_some() {
            let why = "--sample takes a part of the frames, and --fields, --project and --physical read all: leave it or them out";
            return Err(StatusFault::usage(why.to_owned()));
        }
        if let Some(file) = self.files.iter().find(|file| twice && !inputs::can_be_read_again(file)) {
            let (file, option) = (file.display(), if self.fields { "--fields" } else { "--project" });
            return Err(StatusFault::usage(format!("{file}: {option} reads twice: save a pipe to a file first")));
        }
        Ok(())
    }

    fn read_files(&self, kept: Option<&KeptRun>) -> Result<Run> {
        let started = ledger::Beginning::of_the_process();
        self.check()?;
        let mut warnings = Warnings::default();
        let end_ns = kept.and_then(KeptRun::sample_end_ns);
        let Dissected { keys, inputs, aggregate, totals, sampled } = match self.sampler()? {
            Some(sampler) => self.sample(sampler, end_ns, &mut warnings)?,
            None => self.dissect(&mut warnings)?,
        };
        let facts = ledger::Circumstances {
            kind: SourceKind::File,
            inputs,
            rotation: None,
            selection: self.which.selected(),
            kernel_drops: Measured::unavailable("offline"),
            environment: None,
            counters: Measured::unavailable("offline: counters are taken while a capture runs"),
            bpf_ns: Measured::unavailable("offline"),
            started,
        };
        let facts = match kept {
            Some(kept) => kept.facts(facts, self.is_part(), &mut warnings),
            None => facts,
        };
        warnings.of_totals(&totals);
        if facts.selection == Selected::default() {
            warnings.of_detection(aggregate.connections().iter().map(|connection| connection.protocol.as_str()));
        }
        if warnings.is_nothing() && !self.which.is_default() && self.pipe().is_none() {
            self.look_for_others(&keys, &mut warnings)?;
        }
        let interface = facts.environment.as_ref().and_then(|environment| environment.interface.as_ref());
        warnings.of_frame_sizes(&totals, interface);
        let aggregate = aggregate.with_distributions(self.distribution);
        let mut run = ledger::run(&aggregate, &totals, warnings, facts);
        if let Some(sampled) = sampled {
            sampled.report(&mut run);
        }
        if self.fields {
            let mut sums = FieldSums::default();
            let mut dissector = fields::dissector(&mut sums, self.which.selection()?, &keys);
            self.read(&mut dissector, &keys, &mut Warnings::default())?;
            dissector.finish();
            fields::add(&mut run, sums);
        }
        if let Some(model) = self.project.model() {
            let mut dissector = project::dissector(model, self.which.selection()?, &keys);
            self.read(&mut dissector, &keys, &mut Warnings::default())?;
            project::add(&mut run, model, dissector);
        }
        Ok(run)
    }

    /// Nothing that was asked for is in the files: says what else is, and how to read it.
    fn look_for_others(&self, keys: &KeyReader, warnings: &mut Warnings) -> Result<()> {
        let tally = Aggregate::new().without_statements();
        let mut dissector = Dissector::new(Selection::default(), tally).with_keys(keys.log());
        self.read(&mut dissector, keys, &mut Warnings::default())?;
        let (aggregate, _) = dissector.finish();
        warnings.of_others(&aggregate.connections());
        Ok(())
    }

    /// Reads and dissects all files.
    fn dissect(&self, warnings: &mut Warnings) -> Result<Dissected> {
        let keys = KeyReader::read(&self.keys, warnings)?;
        let mut dissector = self.dissector()?(self.tally(), keys.log());
        let inputs = self.read(&mut dissector, &keys, warnings)?;
        let (aggregate, totals) = dissector.finish();
        Ok(Dissected { keys, inputs, aggregate, totals, sampled: None })
    }

    fn tally(&self) -> Aggregate {
        let tally = Aggregate::new().with_rows_by(self.by);
        if self.no_statements { tally.without_statements() } else { tally }
    }

    fn dissector(&self) -> Result<impl Fn(Aggregate, Arc<KeyLog>) -> Dissector<Aggregate> + Send + use<>> {
        let (selection, no_memo) = (self.which.selection()?, self.no_memo);
        Ok(move |tally, keys| {
            let dissector = Dissector::new(selection.clone(), tally).with_keys(keys);
            if no_memo { dissector.without_memo() } else { dissector }
        })
    }

    /// Returns what takes the frames of windows alone: those that were asked for, or that the files were captured in.
    fn sampler(&self) -> Result<Option<impl FnOnce(&KeyReader) -> Sampler>> {
        let Some(chosen) = self.sample.chosen(&self.files)? else { return Ok(None) };
        let (dissector, tally) = (self.dissector()?, self.tally());
        Ok(Some(move |keys: &KeyReader| {
            let log = keys.log();
            chosen.sampler(AggregateWindows::new(tally, Box::new(move |tally| dissector(tally, Arc::clone(&log)))))
        }))
    }

    /// Reads all files and dissects the frames within windows, up to `end_ns` or the last frame.
    fn sample(
        &self,
        sampler: impl FnOnce(&KeyReader) -> Sampler,
        end_ns: Option<u64>,
        warnings: &mut Warnings,
    ) -> Result<Dissected> {
        let keys = KeyReader::read(&self.keys, warnings)?;
        let mut sampler = sampler(&keys);
        let inputs = self.read(&mut sampler, &keys, warnings)?;
        let (aggregate, totals, sampled) = sampler.finish(end_ns);
        Ok(Dissected { keys, inputs, aggregate, totals, sampled })
    }

    /// Feeds the frames that are asked for to the dissection; gives what each file had of them.
    fn read(&self, dissection: &mut impl Dissect, keys: &KeyReader, warnings: &mut Warnings) -> Result<Vec<Input>> {
        self.window.check()?;
        let input = |path: &PathBuf| Input { path: path.display().to_string(), frames: 0, wire_bytes: 0 };
        let mut intake = Intake {
            dissection,
            keys,
            wanted: &self.window,
            is_all: self.window.is_all(),
            window: None,
            left: self.count.unwrap_or(u64::MAX),
            outside: 0,
            inputs: self.files.iter().map(input).collect(),
        };
        let findings = inputs::read(&self.files, keys, &mut intake)?;
        findings.report(warnings);
        warnings.outside(intake.outside, self.window.options());
        Ok(intake.inputs)
    }
}

/// Hands the frames that are asked for to a dissection.
struct Intake<'a, D> {
    dissection: &'a mut D,
    keys: &'a KeyReader,
    wanted: &'a TimeWindow,
    /// Whatever their time.
    is_all: bool,
    /// What is wanted, which may be told relative to the first frame.
    window: Option<(Bound<u64>, Bound<u64>)>,
    /// Frames to come at most.
    left: u64,
    /// Frames of other times.
    outside: u64,
    /// What each file had of those that were asked for.
    inputs: Vec<Input>,
}

impl<D: Dissect> Take for &mut Intake<'_, D> {
    #[inline(always)]
    fn take(&mut self, file: usize, frame: &Frame<'_>) -> ControlFlow<()> {
        if self.left == 0 || self.dissection.is_over() {
            return ControlFlow::Break(());
        }
        if !self.is_all && !self.is_within(frame.time_ns) {
            self.outside += 1;
            return ControlFlow::Continue(());
        }
        if let Some(input) = self.inputs.get_mut(file) {
            input.frames += 1;
            input.wire_bytes += u64::from(frame.wire_len());
        }
        if self.keys.has_brought() {
            self.keys.commit();
        }
        self.dissection.frame(frame);
        self.left -= 1;
        ControlFlow::Continue(())
    }
}

impl<D: Dissect> Intake<'_, D> {
    #[inline(never)]
    fn is_within(&mut self, time_ns: u64) -> bool {
        self.window.get_or_insert_with(|| self.wanted.of(time_ns)).contains(&time_ns)
    }
}

/// Returns what a table calls the result: the file's name, or the first and how many more.
fn name(files: &[PathBuf]) -> String {
    let first = files.first().map_or_else(String::new, |path| path.display().to_string());
    match files.len() {
        0 | 1 => first,
        n => format!("{first} and {} more", n - 1),
    }
}
