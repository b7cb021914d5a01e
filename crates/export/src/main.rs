//! `overhead export`: writes one row per operation, and tables of statements, connections and runs, for use with SQL.
//!
//! A separate program, so that the capturing one does not contain the Parquet writer. `table` declares the columns,
//! `tally` collects rows, `encode` and `sink` write them, and `dataset` chooses the paths.

#![warn(clippy::print_stderr, clippy::print_stdout)]

mod agent;
mod arrow;
mod dataset;
mod encode;
mod shared;
mod sink;
mod stop;
mod table;
mod tally;

use anyhow::Result;
use clap::{CommandFactory, Parser};
use dataset::Dataset;
use encode::DatasetFormat;
use overhead_dissect::{Dissector, Totals};
use overhead_model::exit::{self, COMPLETE};
use overhead_model::record::{InputFile, Sample, SourceKind};
use overhead_model::{Frame, Measured, OutsideText, SideTotals, bail_usage, say};
use overhead_options::{DecodeArgs, SampleArgs, WindowArgs, code, generate, map_large_blocks, parsed};
use overhead_reading::{Dissect, InputPlan, KeptRun, Sampler, Warnings, windows_of};
use sink::{FilePlan, FileSink, WrittenFiles};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};
use stop::ExportStop;
use table::runs::RunRow;
use table::{ExportField, runs, statements};
use tally::{ExportTally, ExportWindows, TallyOutcome};

/// Write one row per operation, and tables of statements, connections and runs, as Parquet, CSV or JSON lines
///
/// Captures that are named together are one run, as `overhead analyze` reads them: a rotated set, in any order. Run folders are a
/// run each. Nothing that the user sent or got is written: statements are without their literals.
#[expect(clippy::struct_excessive_bools, reason = "flags of a command line")]
#[derive(Debug, Parser)]
#[command(name = "overhead export", bin_name = "overhead export", version, max_term_width = 100, after_help = EXAMPLES)]
struct ExportCli {
    /// Run folders, or pcap or pcapng files, plain or compressed; - for standard input
    #[arg(required_unless_present_any = ["schema", "generate", "windows", "agent_rows"], value_name = "RUN|FILE")]
    files: Vec<PathBuf>,
    /// Form of the files
    #[arg(long, value_enum, default_value = "parquet")]
    format: DatasetFormat,
    /// Folder of the data set: other runs may be in it
    #[arg(short, long, value_name = "DIR", required_unless_present_any = ["schema", "generate", "windows"])]
    output: Option<PathBuf>,
    /// Host that the captures are from [default: the one that a run folder names, else `unknown`]
    #[arg(long, value_name = "NAME")]
    host: Option<String>,
    /// Name of the run [default: the name of the run folder or of the first file]
    #[arg(long, value_name = "NAME")]
    run: Option<String>,
    /// Put operations into a folder per day (UTC) of their start
    #[arg(long)]
    by_day: bool,
    /// Replace what is there of the same run and host
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    decode: DecodeArgs,
    #[command(flatten)]
    window: WindowArgs,
    #[command(flatten)]
    sample: SampleArgs,
    /// Encoding threads, next to one that reads; the files are the same [default: one per processor, 4 at most]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
    threads: Option<u16>,
    /// Print the columns of all tables with their types and units, as Markdown, and do nothing else
    #[arg(long)]
    schema: bool,
    /// Say nothing but results and errors
    #[arg(short, long)]
    quiet: bool,
    /// Print in which windows each file was captured, a line for each, and do nothing else: for the fleet's job
    #[arg(long, hide = true)]
    windows: bool,
    /// Write the rows of `overhead agent`, which come as JSON on standard input, and do nothing else
    #[arg(long, hide = true, requires_all = ["output", "host", "run"])]
    agent_rows: bool,
    /// Write the man page and shell completions below this folder, and do nothing else
    #[arg(long, hide = true, value_name = "DIR")]
    generate: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  overhead export runs/get -o data/
  overhead export trace.pcap.* -o data/ --host db-3 --run 2026-11-22 --by-day
  overhead export trace.pcap -o data/ --format csv

The columns and their units, and questions to ask: docs/export.md.
Exit status: 0 complete, 1 failed, 2 usage, 3 finished but partial (the table runs says why).";

/// Default maximum of encoding threads: one reader cannot keep more busy.
const ENCODERS: usize = 4;

fn main() -> ExitCode {
    map_large_blocks();
    code(parsed::<ExportCli>().and_then(|args| args.run()))
}

/// The files of one run.
struct ExportSource {
    name: String,
    host: Option<String>,
    input: InputPlan,
    kernel_drops: Measured<u64>,
    /// Reasons why packets are missing: whole sentences without a full stop.
    gaps: Vec<String>,
    /// Number of captured frames, if recorded.
    frames: Option<u64>,
}

struct SourceReading {
    inputs: Vec<InputFile>,
    tally: ExportTally,
    totals: Totals,
    sample: Option<Sample>,
}

impl ExportCli {
    fn run(&self) -> Result<u8> {
        if let Some(folder) = &self.generate {
            return generate(&Self::command(), "overhead-export", folder);
        }
        if self.schema {
            // Ignore a closed pipe.
            let _ = std::io::stdout().write_all(table::schema().as_bytes());
            return Ok(COMPLETE);
        }
        if self.windows {
            let said: String = self.files.iter().map(|file| windows_of(file) + "\n").collect();
            let _ = std::io::stdout().write_all(said.as_bytes());
            return Ok(COMPLETE);
        }
        if self.agent_rows {
            return agent::write(&self.dataset(None, "")?, self.force);
        }
        let sources = self.sources()?;
        if self.run.is_some() && sources.len() > 1 {
            bail_usage!("--run applies to a single run, but {} are given: leave it out", sources.len());
        }
        // Report all conflicts before reading.
        let of = |source: &ExportSource| self.dataset(source.host.as_deref(), &source.name);
        let datasets = sources.iter().map(of).collect::<Result<Vec<_>>>()?;
        for (number, dataset) in datasets.iter().enumerate() {
            if datasets.iter().take(number).any(|before| before.is_same_run(dataset)) {
                bail_usage!(
                    "two runs are named {} and come from host {}: export them one by one, with --run or --host",
                    dataset.run,
                    dataset.host
                );
            }
        }
        let locks = datasets.iter().map(Dataset::lock).collect::<Result<Vec<_>>>()?;
        for dataset in &datasets {
            dataset.existing_files(self.force)?;
        }
        let stop = ExportStop::on_signals()?;
        let mut status = COMPLETE;
        for (source, dataset) in sources.iter().zip(datasets) {
            status = status.max(self.export(source, &Rc::new(dataset), &stop)?);
        }
        drop(locks);
        Ok(status)
    }

    /// Returns where a run goes, whose own host and name count unless the arguments have others.
    fn dataset(&self, host: Option<&str>, name: &str) -> Result<Dataset> {
        let host = self.host.as_deref().or(host).unwrap_or("unknown").to_owned();
        Ok(Dataset {
            root: self.output.clone().unwrap_or_default(),
            host: folder_name("--host", host)?,
            run: folder_name("--run", self.run.clone().unwrap_or_else(|| name.to_owned()))?,
            by_day: self.by_day,
            form: self.format,
        })
    }

    /// Returns the runs: one per run folder, and one for all captures together.
    fn sources(&self) -> Result<Vec<ExportSource>> {
        let (mut sources, mut captures) = (Vec::new(), Vec::new());
        for path in &self.files {
            let input = InputPlan::open(vec![path.clone()], &self.decode.plan())?;
            if input.kept.is_some() {
                sources.push(kept_source(InputPlan { window: self.window.plan(), ..input }));
            } else {
                captures.push(path.clone());
            }
        }
        captures.sort();
        if let Some(first) = captures.first() {
            let (name, kernel_drops) = (stem(first), Measured::unavailable("offline"));
            let input =
                InputPlan { window: self.window.plan(), ..InputPlan::new(captures, None, &self.decode.plan())? };
            sources.push(ExportSource { name, host: None, input, kernel_drops, gaps: Vec::new(), frames: None });
        }
        Ok(sources)
    }

    fn export(&self, source: &ExportSource, dataset: &Rc<Dataset>, stop: &ExportStop) -> Result<u8> {
        let started = Instant::now();
        let before = dataset.existing_files(self.force)?;
        let mut warnings = Warnings::default();
        if let Some(drops) = source.kernel_drops.value().filter(|drops| **drops > 0) {
            warnings.partial(format!("the kernel dropped {drops} frames while they were captured"));
        }
        source.gaps.iter().for_each(|gap| warnings.partial(gap.as_str()));
        let tally = ExportTally::new(Rc::clone(dataset), FileSink::start(self.encoders()), stop.clone())?;
        let read = self.read(source, tally, stop, &mut warnings)?;
        let totals = &read.totals;
        warnings.warn_of_totals(totals);
        let is_part = !self.window.plan().is_all() || self.sample.plan().cycle.is_some();
        if let Some(frames) = source.frames.filter(|frames| !is_part && *frames > totals.frames) {
            warnings.partial(format!(
                "rows cover {} of the run's {frames} frames; the others were not kept",
                totals.frames
            ));
        }
        let (run, written) = finish(source, dataset, read, warnings)?;
        stop.check()?;
        let places = written.publish(&dataset.root, &before)?;
        self.report(dataset, &run, &places, started.elapsed());
        Ok(run.exit)
    }

    fn encoders(&self) -> usize {
        let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        self.threads.map_or_else(|| processors.min(ENCODERS), usize::from)
    }

    fn read(
        &self,
        source: &ExportSource,
        tally: ExportTally,
        stop: &ExportStop,
        warnings: &mut Warnings,
    ) -> Result<SourceReading> {
        let input = &source.input;
        let (keys, selection) = (input.read_keys(warnings)?, input.selection.clone());
        if let Some(chosen) = self.sample.plan().chosen(&input.files)? {
            let windows = ExportWindows::new(selection, keys.log(), tally, stop.clone());
            let mut sampler = Sampler::new(chosen, windows);
            let inputs = input.read(&mut sampler, &keys, warnings)?;
            let (windows, schedule) = sampler.end(input.kept.as_ref().and_then(KeptRun::sample_end_ns));
            let (tally, totals, sample) = windows.finish(schedule.as_ref())?;
            if let Some(Sample { windows, covered_ns, span_ns, .. }) = &sample {
                let share = *covered_ns as f64 / (*span_ns).max(1) as f64 * 100.0;
                warnings.remark(format!("rows are of {windows} windows, which cover {share:.3}% of the time"));
            }
            return Ok(SourceReading { inputs, tally, totals, sample });
        }
        let dissector = Dissector::new(selection, tally).with_keys(keys.log());
        let mut feed = ExportFeed { dissector, stop: stop.clone() };
        let inputs = input.read(&mut feed, &keys, warnings)?;
        let (tally, totals) = feed.dissector.finish();
        Ok(SourceReading { inputs, tally, totals, sample: None })
    }

    fn report(&self, dataset: &Dataset, run: &RunRow, places: &[PathBuf], elapsed: Duration) {
        for warning in &run.warnings {
            say!("warning: {warning}");
        }
        let places: Vec<String> = places.iter().map(|place| format!("{}\n", OutsideText(place.display()))).collect();
        let _ = exit::print(&places.concat());
        if !self.quiet {
            let seconds = elapsed.as_secs_f64().max(1e-9);
            say!(
                "run {} of host {}: {} rows of {} frames in {seconds:.2} s, {:.0} rows/s",
                dataset.run,
                dataset.host,
                run.rows,
                run.totals.frames,
                run.rows as f64 / seconds
            );
        }
    }
}

/// Stops reading when the export cannot continue.
struct ExportFeed {
    dissector: Dissector<ExportTally>,
    stop: ExportStop,
}

impl Dissect for ExportFeed {
    #[inline]
    fn frame(&mut self, frame: &Frame<'_>) {
        self.dissector.frame(frame);
    }

    #[inline]
    fn is_over(&mut self) -> bool {
        self.stop.should_stop()
    }
}

/// Writes the tables that are only known at the end.
fn finish(
    source: &ExportSource,
    dataset: &Dataset,
    SourceReading { inputs, tally, totals, sample }: SourceReading,
    mut warnings: Warnings,
) -> Result<(RunRow, WrittenFiles)> {
    let TallyOutcome { mut sink, statements, rows } = tally.finish();
    let mut sides = [SideTotals::default(); 2];
    for statement in &statements {
        sides.iter_mut().zip(&statement.sides).for_each(|(sum, side)| sum.add_times(side, 1));
    }
    let (selection, kernel_drops) = (source.input.connections.selected.clone(), source.kernel_drops.clone());
    let (warned, exit) = (Vec::new(), COMPLETE);
    let mut run = RunRow { inputs, selection, totals, sides, rows, sample, kernel_drops, warnings: warned, exit };
    if run.difference() != 0 {
        let difference = run.difference();
        warnings.partial(format!(
            "the frames come to {difference} bytes more than the rows: this is a bug, please report it"
        ));
    }
    (run.warnings, run.exit) = warnings.settle();
    let count = statements.len();
    if count > 0 {
        let place = dataset.table("statements");
        write_table(&mut sink, dataset, ("statements", place), statements::fields(), (statements, count))?;
    }
    write_table(&mut sink, dataset, ("runs", dataset.table("runs")), runs::fields(), (vec![run.clone()], 1))?;
    Ok((run, sink.finish()?))
}

/// Writes a table with a single batch. `finish` reports errors.
fn write_table<B: Send + Sync + 'static>(
    sink: &mut FileSink,
    dataset: &Dataset,
    (table, place): (&'static str, PathBuf),
    fields: Vec<ExportField<B>>,
    (batch, rows): (B, usize),
) -> Result<()> {
    let layout = Arc::new(dataset.layout(table, fields)?);
    let file = Arc::new(FilePlan::new(&dataset.root, place, &layout));
    let _ = sink.append(&file, &layout, batch, rows) && sink.end(&file);
    Ok(())
}

fn kept_source(input: InputPlan) -> ExportSource {
    let record = input.kept.as_ref().and_then(KeptRun::kept_record);
    let live = record.filter(|run| run.source.kind == SourceKind::Live);
    let host = live.and_then(|run| run.environment.as_ref()).map(|environment| environment.host.clone());
    let kernel_drops = match live {
        Some(run) => run.source.kernel_drops.clone(),
        None => Measured::unavailable("not the record of a live capture"),
    };
    let unfinished = "the capture was aborted or is still running: rows cover the packets that were kept";
    let gaps = if record.is_none() { vec![unfinished.to_owned()] } else { Vec::new() };
    let frames = live.map(|run| run.source.frames);
    ExportSource { name: input.name(), gaps, frames, host, kernel_drops, input }
}

/// Returns the file name of a capture without extensions.
fn stem(path: &Path) -> String {
    let name = path.file_name().map_or_else(|| "stdin".to_owned(), |name| name.to_string_lossy().into_owned());
    if name == "-" {
        return "stdin".to_owned();
    }
    let mut stem = name.as_str();
    for ending in [".gz", ".zst", ".lz4", ".pcap", ".pcapng", ".cap"] {
        stem = stem.strip_suffix(ending).filter(|stem| !stem.is_empty()).unwrap_or(stem);
    }
    stem.to_owned()
}

/// Returns the name if it is valid for a folder.
fn folder_name(option: &str, name: String) -> Result<String> {
    if name.is_empty() || name == "." || name == ".." {
        bail_usage!("{option} {name:?}: folders are named after it: choose another");
    }
    Ok(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_named_after_its_first_file() {
        let names = ["a/trace.pcap", "trace.pcapng.zst", "-", ".pcap", "x.pcap0"].map(|path| stem(Path::new(path)));
        assert_eq!(names, ["trace", "trace", "stdin", ".pcap", "x.pcap0"]);
    }
}
