//! Captures a command several times for each combination of its parameters' values. [`args`] is the command line of
//! `overhead sweep`: nothing else here uses it.

mod args;
mod parameter;
mod place;
mod plan;
mod progress;
mod repetition;

pub use args::SweepArgs;
pub use parameter::check as check_parameters;

use crate::capture::{CapturePlan, CaptureSignals, runtime};
use crate::exit::StatusFault;
use anyhow::{Error, Result, bail};
use overhead_model::sweep::SweepParameter;
use overhead_model::{Sweep, exit, say};
use overhead_report::text::counted;
use place::SweepFolder;
use plan::order;
use progress::SweepProgress;
use repetition::{Repetition, RunEnd};
use std::path::PathBuf;

/// The runs of a command.
#[derive(Debug)]
pub struct SweepPlan {
    /// Parameters of the command and their values; empty to repeat it as it is.
    pub vary: Vec<SweepParameter>,
    /// Warm-up runs of each combination, which do not count.
    pub warmup_runs: u32,
    /// Runs of each combination.
    pub runs: u32,
    /// The options that affect the measurement, as on a command line.
    pub settings: Vec<String>,
    /// The capture of each run. Its command has the parameters in braces, and its folder is the sweep's.
    pub capture: CapturePlan,
}

/// The result of a sweep.
pub struct FinishedSweep {
    pub record: Sweep,
    /// The written files, the record first.
    pub files: Vec<PathBuf>,
    /// The exit status.
    pub status: u8,
}

/// Why a sweep ends before its last run.
enum SweepStop {
    /// The user asked.
    Asked,
    Fault(Error),
}

impl SweepPlan {
    /// Makes the missing runs, writes the record after each one, and finally draws the result.
    ///
    /// # Errors
    ///
    /// No run was made, the folder cannot be written or is another sweep's, or the user gives a run up.
    pub fn run(&self) -> Result<FinishedSweep> {
        runtime()?.block_on(async {
            let mut signals = CaptureSignals::new()?;
            let place = SweepFolder::open(self)?;
            let mut progress = SweepProgress::new(self, &place);
            self.announce(&place, &progress);
            match self.rounds(&mut progress, &place, &mut signals).await {
                Err(SweepStop::Fault(error))
                    if error.downcast_ref().is_some_and(|fault: &StatusFault| fault.status == exit::ABORTED) =>
                {
                    let reason = exit::sentence(&*error);
                    let path = place.path().display();
                    Err(error.context(format!("{reason}: the runs that were made are in {path}")))
                }
                stop => self.conclude(&progress, &place, stop.err()),
            }
        })
    }

    fn announce(&self, place: &SweepFolder, progress: &SweepProgress) {
        let (made, all) = progress.counts();
        let there = if made > 0 { format!(", of which {made} are there already") } else { String::new() };
        let runs = counted(u64::from(self.runs), "run");
        let what = match self.vary.as_slice() {
            [] => runs,
            _ => format!("{}, {runs} each", counted(progress.points.len() as u64, "combination")),
        };
        self.capture.say(&format!(
            "{what}{there}: {} to make, each into a separate folder in {}; Ctrl-C stops, and the same command continues",
            all - made,
            place.path().display()
        ));
    }

    /// Warms up, and makes the missing runs of each round.
    async fn rounds(
        &self,
        progress: &mut SweepProgress,
        place: &SweepFolder,
        signals: &mut CaptureSignals,
    ) -> Result<(), SweepStop> {
        if progress.is_whole() {
            return Ok(());
        }
        for _ in 0..self.warmup_runs {
            self.warm_up(progress, signals).await?;
        }
        for round in 0..self.runs as usize {
            for point in order(progress.points.len(), round) {
                if progress.is_made(point, round) {
                    continue;
                }
                let Some(repetition) = progress.planned(point, round) else { continue };
                let end = self.one(&repetition, signals).await?;
                let line = progress.take(point, round, end);
                self.capture.say(&line);
                place.keep(&progress.record(self, None)).map_err(SweepStop::Fault)?;
            }
        }
        Ok(())
    }

    /// Runs each combination once. If the command fails for all of them, the sweep ends.
    async fn warm_up(&self, progress: &SweepProgress, signals: &mut CaptureSignals) -> Result<(), SweepStop> {
        let mut failures = Vec::new();
        for point in &progress.points {
            if let RunEnd::Failed(reason) = self.one(&point.warm_up, signals).await? {
                failures.push(format!("{}: {reason}", point.warm_up.name));
            }
        }
        if failures.len() == progress.points.len() {
            return Err(SweepStop::Fault(anyhow::anyhow!("{}", failures.swap_remove(0))));
        }
        failures.iter().for_each(|failure| say!("overhead: warning: {failure}"));
        Ok(())
    }

    async fn one(&self, repetition: &Repetition, signals: &mut CaptureSignals) -> Result<RunEnd, SweepStop> {
        if signals.end.was_heard().await {
            return Err(SweepStop::Asked);
        }
        match repetition.make(&self.capture, signals).await {
            Ok(RunEnd::Interrupted) => Err(SweepStop::Asked),
            Ok(end) => Ok(end),
            Err(error) => Err(SweepStop::Fault(error)),
        }
    }

    /// Writes and draws the finished runs.
    fn conclude(
        &self,
        progress: &SweepProgress,
        place: &SweepFolder,
        stop: Option<SweepStop>,
    ) -> Result<FinishedSweep> {
        let (made, all) = progress.counts();
        let (partial, fault) = match stop {
            None => (None, None),
            Some(SweepStop::Asked) => {
                (Some(format!("ended after {made} of {all} runs: the same command continues from there")), None)
            }
            Some(SweepStop::Fault(error)) => {
                let said = exit::sentence(&*error);
                (Some(format!("ended after {made} of {all} runs: {said}")), Some(error))
            }
        };
        if made == 0 {
            place.discard();
            match fault {
                Some(error) => return Err(error),
                None => bail!("no run was made"),
            }
        }
        let record = progress.record(self, partial);
        place.keep(&record)?;
        let files = place.report(&record)?;
        let has_failed = fault.is_some() || progress.counted() == 0;
        let status = if has_failed { exit::FAILED } else { progress.status(&record) };
        Ok(FinishedSweep { record, files, status })
    }
}
