//! The progress of a sweep, and its record.

use super::SweepPlan;
use super::place::SweepFolder;
use super::plan::{self, PlannedPoint};
use super::repetition::{CountedRun, Repetition};
use crate::redact;
use overhead_model::record::Tool;
use overhead_model::sweep::SWEEP_VERSION;
use overhead_model::{Run, Sweep, exit};
use overhead_report::sweep::{PointRun, point};
use overhead_report::text::{counted, grouped};
use overhead_report::{reported, systems};

/// The runs of a sweep, finished and missing.
#[derive(Debug)]
pub struct SweepProgress {
    /// The planned runs.
    pub points: Vec<PlannedPoint>,
    /// Finished runs by point and round.
    made: Vec<Vec<Option<PointRun>>>,
}

impl SweepProgress {
    /// Returns the plan, with the runs that already exist.
    pub fn new(sweep: &SweepPlan, place: &SweepFolder) -> Self {
        let points = plan::points(place.path(), &sweep.vary, &sweep.capture.command.words, sweep.runs);
        let before = |repetition: &Repetition, point: &PlannedPoint| {
            let run = if sweep.capture.output.force { None } else { repetition.made_before() };
            run.map(|run| made(repetition, point, Ok(run)))
        };
        let made = points.iter().map(|point| point.runs.iter().map(|run| before(run, point)).collect()).collect();
        Self { points, made }
    }

    /// Returns the number of finished runs and the number of planned runs.
    pub fn counts(&self) -> (usize, usize) {
        let all = self.made.iter().flatten();
        (all.clone().filter(|run| run.is_some()).count(), all.count())
    }

    /// Returns the number of finished runs that have a record.
    pub fn counted(&self) -> usize {
        self.records().count()
    }

    /// Returns whether every run is finished.
    pub fn is_whole(&self) -> bool {
        let (made, all) = self.counts();
        made == all
    }

    /// Returns the run of a point and round; `None` if it is finished.
    pub fn missing(&self, point: usize, round: usize) -> Option<Repetition> {
        let is_missing = self.made.get(point)?.get(round)?.is_none();
        self.points.get(point)?.runs.get(round).filter(|_| is_missing).cloned()
    }

    /// Adds a run and returns a message about it.
    pub fn add(&mut self, point: usize, round: usize, repetition: &Repetition, end: CountedRun) -> String {
        let summary = match &end {
            Ok(run) => summary(run),
            Err(reason) => format!("does not count: {reason}"),
        };
        if let (Some(of), Some(runs)) = (self.points.get(point), self.made.get_mut(point)) {
            runs[round] = Some(made(repetition, of, end));
        }
        let (made, all) = self.counts();
        format!("{made} of {all}: {}: {summary}", repetition.name)
    }

    fn records(&self) -> impl Iterator<Item = &Run> {
        self.made.iter().flatten().flatten().filter_map(|run| run.record.as_ref().ok())
    }

    /// Returns the record of the finished runs.
    pub fn record(&self, sweep: &SweepPlan, partial: Option<String>) -> Sweep {
        let (made, all) = self.counts();
        let missing = || format!("{made} of {all} runs were made so far");
        let points = self.points.iter().zip(&self.made).map(|(planned, runs)| {
            let runs: Vec<PointRun> = runs.iter().flatten().cloned().collect();
            point(planned.values.clone(), planned.folder.clone(), &runs)
        });
        let environment = self.records().find_map(|run| run.environment.clone());
        Sweep {
            schema_version: SWEEP_VERSION,
            tool: Tool { name: "overhead".to_owned(), version: env!("CARGO_PKG_VERSION").to_owned() },
            command: redact::command_line(sweep.capture.command.words.iter().cloned()),
            settings: sweep.settings.clone(),
            selection: sweep.capture.connections.selected.clone(),
            environment: environment
                .map(|environment| overhead_model::record::Environment { workload: None, ..environment }),
            servers: systems(self.records()),
            parameters: sweep.vary.clone(),
            runs: sweep.runs,
            points: points.collect(),
            partial: partial.or_else(|| (made < all).then(missing)),
        }
    }

    /// Returns the exit status: partial if runs are missing or do not count, or if a run is partial.
    pub fn status(&self, record: &Sweep) -> u8 {
        let (_, all) = self.counts();
        let of_runs = self.records().map(|run| run.exit).max().unwrap_or(exit::COMPLETE);
        if record.partial.is_some() || self.counted() < all { of_runs.max(exit::PARTIAL) } else { of_runs }
    }
}

/// Returns a finished run with one connection, which names the server: all may be many, and are in the run's own record.
fn made(repetition: &Repetition, point: &PlannedPoint, record: CountedRun) -> PointRun {
    let folder = repetition.folder.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let reported = if record.is_ok() { reported::read(&repetition.command, &repetition.printed()) } else { Vec::new() };
    let record = record.map(|mut run| {
        run.connections.truncate(1);
        run
    });
    let folder = if point.folder.is_empty() { folder } else { format!("{}/{folder}", point.folder) };
    PointRun { folder, record, reported }
}

fn summary(run: &Run) -> String {
    let operations: u64 = overhead_report::workload_operations(run);
    let seconds = run.source.last_ns.saturating_sub(run.source.first_ns) as f64 / 1e9;
    let rate = if seconds > 0.0 {
        format!(", {} per second", grouped((operations as f64 / seconds) as u64))
    } else {
        String::new()
    };
    let partial = if run.exit == exit::COMPLETE { "" } else { ", partial: see the warnings of its record" };
    format!("{}{rate}{partial}", counted(operations, "operation"))
}
