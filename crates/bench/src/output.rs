//! Prints a table line per result and writes the record.

use crate::cli::{BenchJob, ResultFormat};
use crate::fault;
use anyhow::{Context, Result};
use overhead_files::write_named;
use overhead_model::exit;
use overhead_model::load::{Load, LoadResult};
use overhead_model::outside::to_json;
use overhead_model::say;
use std::path::PathBuf;

pub struct BenchReport {
    load: Load,
    format: ResultFormat,
    output: Option<PathBuf>,
    quiet: bool,
    /// The result is incomplete, or objects are left on the server.
    pub is_partial: bool,
    measures: bool,
}

impl BenchReport {
    pub fn new(job: &BenchJob, load: Load) -> Self {
        let output = job.output.clone();
        Self { load, format: job.format, output, quiet: job.quiet, is_partial: false, measures: job.phase.measures() }
    }

    pub fn set_versions(&mut self, versions: Vec<Option<String>>) {
        self.load.servers.iter_mut().zip(versions).for_each(|(server, version)| server.version = version);
    }

    /// Adds a result, prints its line and updates the file.
    pub fn add(&mut self, result: LoadResult) -> Result<()> {
        if self.format == ResultFormat::Table {
            let mut text = String::new();
            if self.load.results.is_empty() {
                text = format!("{}\n{HEADING}\n", title(&self.load));
            }
            print(&format!("{text}{}\n", line(&result)))?;
        }
        self.warn(&result);
        self.load.results.push(result);
        // A FIFO or device gets the record only once.
        if self.output.as_ref().is_some_and(|path| path.exists() && !path.is_file()) {
            return Ok(());
        }
        self.write()
    }

    fn warn(&mut self, result: &LoadResult) {
        let errors: u64 = result.runs.iter().map(|run| run.errors).sum();
        let Some(first) = result.runs.iter().find_map(|run| run.first_error.as_deref()) else { return };
        self.is_partial = true;
        say!("overhead bench: {errors} operations were not answered as they should be, the first: {first}");
    }

    /// Keeps the results of an interrupted benchmark. Fails if there are none.
    pub fn keep_partial(&mut self, error: anyhow::Error) -> Result<()> {
        let operations =
            self.load.results.iter().flat_map(|result| &result.runs).map(|run| run.operations).sum::<u64>();
        if operations == 0 {
            return Err(error);
        }
        let reason = fault::sentence(&error);
        say!("overhead bench: {reason}");
        self.load.partial = Some(reason);
        self.write()
    }

    /// Prints JSON or CSV. Returns the exit status.
    pub fn finish(self) -> Result<u8> {
        self.write()?;
        match self.format {
            _ if !self.measures => {}
            ResultFormat::Json => print(&to_json(&self.load)?)?,
            ResultFormat::Csv => print(&self.load.csv())?,
            ResultFormat::Table => {}
        }
        if let Some(path) = self.output.as_ref().filter(|_| !self.quiet && self.measures) {
            say!("{}", path.display());
        }
        let is_partial = self.is_partial || self.load.partial.is_some();
        Ok(if is_partial { exit::PARTIAL } else { exit::COMPLETE })
    }

    /// Writes the file atomically, unless nothing is measured: the file may have the results of an earlier step.
    fn write(&self) -> Result<()> {
        let Some(path) = self.output.as_ref().filter(|_| self.measures) else { return Ok(()) };
        write_named(path, to_json(&self.load)?.as_bytes(), None, true)
            .with_context(|| format!("--output {}: cannot be written", path.display()))
    }
}

fn print(text: &str) -> Result<()> {
    exit::print(text).context("standard output")
}

fn title(load: &Load) -> String {
    let servers: Vec<String> = load
        .servers
        .iter()
        .map(|server| {
            server.version.as_ref().map_or(server.address.clone(), |version| format!("{} ({version})", server.address))
        })
        .collect();
    format!("{} by {} {}, {} rows", servers.join(", "), load.driver.name, load.driver.version, load.rows)
}

/// Fits into 80 characters; the record has all percentiles.
const HEADING: &str = "                                               latency in µs               client\n\
operation   clients pipeline       op/s spread      p50       p99        max CPU µs/op";

/// Returns a table line: the median run, and the spread of all runs.
fn line(result: &LoadResult) -> String {
    let head = format!("{:<11} {:>7} {:>8}", result.operation, result.clients, result.pipeline);
    let Some(summary) = &result.summary else { return format!("{head} nothing was answered") };
    let run = &result.runs[summary.median_run];
    let spread = if result.runs.len() > 1 {
        format!("{:.1}%", (summary.per_second_max - summary.per_second_min) / summary.per_second * 100.0)
    } else {
        "-".to_owned()
    };
    let latency = &run.latency_ns;
    let [p50, p99, max] = [latency.p50, latency.p99, latency.max].map(|nanos| nanos as f64 / 1e3);
    let times = format!("{p50:>8.1} {p99:>9.1} {max:>10.1}");
    let partial = if result.partial.is_some() { "  partial" } else { "" };
    let cpu_us = (run.cpu_ns.user + run.cpu_ns.kernel) as f64 / 1e3 / (run.operations + run.errors).max(1) as f64;
    format!("{head} {:>10.0} {spread:>6} {times} {cpu_us:>9.2}{partial}", summary.per_second)
}
