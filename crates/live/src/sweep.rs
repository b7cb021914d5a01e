//! Captures a command several times for each combination of its parameters' values.

mod parameter;
mod place;
mod plan;
mod progress;
mod repetition;

pub use parameter::{SweepParameter, check as check_parameters, parse as parse_parameter};

use crate::CapturePlan;
use anyhow::{Result, bail};
use overhead_host::{CaptureSignals, runtime};
use overhead_model::exit::{self, StatusFault};
use overhead_model::say;
use overhead_report::NamedRun;
use overhead_report::text::counted;
use place::SweepFolder;
use plan::order;
use progress::SweepProgress;
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
    /// The finished runs, named after their folders.
    pub runs: Vec<NamedRun>,
    /// Why the sweep is incomplete.
    pub partial: Option<String>,
    /// The written files.
    pub files: Vec<PathBuf>,
    /// The exit status.
    pub status: u8,
}

impl SweepPlan {
    /// Makes the missing runs, and finally draws the result.
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
                Err(error) if error.downcast_ref().is_some_and(|fault: &StatusFault| fault.status == exit::ABORTED) => {
                    let (reason, path) = (exit::sentence(&*error), place.path().display());
                    Err(error.context(format!("{reason}: the runs that were made are in {path}")))
                }
                ended => Self::conclude(&progress, &place, ended),
            }
        })
    }

    fn announce(&self, place: &SweepFolder, progress: &SweepProgress) {
        let (made, all) = progress.counts();
        let there = if made > 0 { format!(", of which {made} exist already") } else { String::new() };
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

    /// Warms up, and makes the missing runs of each round. Returns false if the user asked for the end.
    async fn rounds(
        &self,
        progress: &mut SweepProgress,
        place: &SweepFolder,
        signals: &mut CaptureSignals,
    ) -> Result<bool> {
        if progress.is_whole() {
            return Ok(true);
        }
        for _ in 0..self.warmup_runs {
            if !self.warm_up(progress, signals).await? {
                return Ok(false);
            }
        }
        for round in 0..self.runs as usize {
            for point in order(progress.points.len(), round) {
                let Some(repetition) = progress.missing(point, round) else { continue };
                let Some(end) = repetition.make(&self.capture, signals).await? else { return Ok(false) };
                self.capture.say(&progress.add(point, round, &repetition, end));
                place.keep(self)?;
            }
        }
        Ok(true)
    }

    /// Runs each combination once. If the command fails for all of them, the sweep ends. Returns false if the user asked
    /// for the end.
    async fn warm_up(&self, progress: &SweepProgress, signals: &mut CaptureSignals) -> Result<bool> {
        let mut failures = Vec::new();
        for point in &progress.points {
            match point.warm_up.make(&self.capture, signals).await? {
                None => return Ok(false),
                Some(made) => failures.extend(made.failure.map(|reason| format!("{}: {reason}", point.warm_up.name))),
            }
        }
        if failures.len() == progress.points.len() {
            bail!(failures.swap_remove(0));
        }
        for failure in failures {
            say!("overhead: warning: {failure}");
        }
        Ok(true)
    }

    /// Writes and draws the finished runs.
    fn conclude(progress: &SweepProgress, place: &SweepFolder, ended: Result<bool>) -> Result<FinishedSweep> {
        let (made, all) = progress.counts();
        let reason = match &ended {
            Ok(true) => None,
            Ok(false) => Some("the same command continues from there".to_owned()),
            Err(error) => Some(exit::sentence(&**error)),
        };
        if made == 0 {
            place.discard();
            ended?;
            bail!("no run was made");
        }
        let partial = reason.map(|reason| format!("ended after {made} of {all} runs: {reason}"));
        let runs = progress.runs();
        let files = place.report(runs.clone())?;
        let status = if ended.is_err() { exit::FAILED } else { progress.status() };
        Ok(FinishedSweep { runs, partial, files, status })
    }
}
