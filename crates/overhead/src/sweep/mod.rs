//! `overhead sweep`: captures a command several times for each combination of its parameters' values.

mod args;
mod parameter;
mod place;
mod plan;
mod progress;

pub use args::{SweepArgs, SweepPlan};

use crate::capture::{CaptureSignals, runtime};
use crate::cli::Format;
use crate::exit::StatusFault;
use crate::print;
use crate::repeat::{Repetition, RunEnd};
use anyhow::{Error, Result, bail};
use overhead_model::{Sweep, exit, say};
use overhead_report::sweep;
use overhead_report::text::counted;
use place::SweepFolder;
use plan::order;
use progress::SweepProgress;

/// Why a sweep ends before its last run.
enum SweepStop {
    /// The user asked.
    Asked,
    Fault(Error),
}

impl SweepArgs {
    /// Makes the missing runs, writes the record after each one, and finally prints and draws the result.
    pub fn run(self) -> Result<u8> {
        let plan = self.plan()?;
        runtime()?.block_on(async {
            let mut signals = CaptureSignals::new()?;
            let place = SweepFolder::open(&plan)?;
            let mut progress = SweepProgress::of(&plan, &place);
            plan.announce(&place, &progress);
            let stop = plan.rounds(&mut progress, &place, &mut signals).await;
            if let Err(SweepStop::Fault(error)) = &stop
                && error.downcast_ref().is_some_and(|fault: &StatusFault| fault.status == exit::ABORTED)
            {
                say!(
                    "overhead: {}: the runs that were made are in {}",
                    exit::sentence(&**error),
                    place.path().display()
                );
                return Ok(exit::ABORTED);
            }
            plan.conclude(&progress, &place, stop.err())
        })
    }
}

impl SweepPlan {
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
        print::warn(&failures);
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

    /// Prints and draws the finished runs.
    fn conclude(&self, progress: &SweepProgress, place: &SweepFolder, stop: Option<SweepStop>) -> Result<u8> {
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
        self.print(&record)?;
        print::files(&files, &self.capture.args.output);
        Ok(if fault.is_some() || progress.counted() == 0 { exit::FAILED } else { progress.status(&record) })
    }

    fn print(&self, record: &Sweep) -> Result<()> {
        let output = &self.capture.args.output;
        if output.format != Format::Table && !output.quiet {
            print::warn(&sweep::remarks(record));
        }
        print::verbatim(&match output.format {
            Format::Json => sweep::json(record)?,
            Format::Csv => sweep::csv(record),
            Format::Markdown => sweep::markdown(record),
            Format::Table => sweep::table(record, output.style()),
        })
    }
}
