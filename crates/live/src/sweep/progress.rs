//! The progress of a sweep.

use super::SweepPlan;
use super::place::SweepFolder;
use super::plan::{self, PlannedPoint};
use super::repetition::{MadeRun, Repetition};
use overhead_model::{Run, exit};
use overhead_report::NamedRun;
use overhead_report::text::{counted, grouped};

/// The runs of a sweep, finished and missing.
#[derive(Debug)]
pub struct SweepProgress {
    /// The planned runs.
    pub points: Vec<PlannedPoint>,
    /// Finished runs by point and round.
    made: Vec<Vec<Option<MadeRun>>>,
}

impl SweepProgress {
    /// Returns the plan, with the runs that already exist.
    pub fn new(sweep: &SweepPlan, place: &SweepFolder) -> Self {
        let points = plan::points(place.path(), &sweep.vary, &sweep.capture.command.words, sweep.runs);
        let before = |repetition: &Repetition| {
            let run = if sweep.capture.output.force { None } else { repetition.made_before() };
            run.map(|run| MadeRun { run, failure: None })
        };
        let made = points.iter().map(|point| point.runs.iter().map(before).collect()).collect();
        Self { points, made }
    }

    /// Returns the number of finished runs and the number of planned runs.
    pub fn counts(&self) -> (usize, usize) {
        let all = self.made.iter().flatten();
        (all.clone().filter(|run| run.is_some()).count(), all.count())
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
    pub fn add(&mut self, point: usize, round: usize, repetition: &Repetition, end: MadeRun) -> String {
        let summary = match &end.failure {
            None => summary(&end.run),
            Some(reason) => format!("does not count: {reason}"),
        };
        if let Some(runs) = self.made.get_mut(point) {
            runs[round] = Some(end);
        }
        let (made, all) = self.counts();
        format!("{made} of {all}: {}: {summary}", repetition.name)
    }

    /// Returns the finished runs with their names, in the order of the plan.
    pub fn runs(&self) -> Vec<NamedRun> {
        let planned = self.points.iter().flat_map(|point| &point.runs).zip(self.made.iter().flatten());
        planned.filter_map(|(of, made)| Some(NamedRun::new(&*of.name, made.as_ref()?.run.clone()))).collect()
    }

    /// Returns the exit status: failed without a run that counts; partial if runs are missing or do not count, or if one is
    /// partial.
    pub fn status(&self) -> u8 {
        let counting = self.made.iter().flatten().flatten().filter(|made| made.failure.is_none());
        let Some(of_runs) = counting.clone().map(|made| made.run.exit).max() else { return exit::FAILED };
        let (_, all) = self.counts();
        if counting.count() < all { of_runs.max(exit::PARTIAL) } else { of_runs }
    }
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
