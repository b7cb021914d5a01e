//! `overhead sweep`: captures a command several times for each combination of its parameters' values.

mod args;
mod parameter;
mod place;
mod plan;
mod progress;

pub use args::SweepArgs;

use crate::capture::{Signals, runtime};
use crate::cli::Format;
use crate::exit::StatusFault;
use crate::print;
use crate::repeat::{Repetition, RunEnd};
use anyhow::{Error, Result, bail};
use overhead_model::{Sweep, exit, say};
use overhead_report::sweep;
use overhead_report::text::counted;
use place::Place;
use plan::order;
use progress::Progress;

enum Stop {
    Asked,
    Fault(Error),
}

impl SweepArgs {
    /// Makes the missing runs, writes the record after each, then prints and draws the results.
    pub fn run(mut self) -> Result<u8> {
        self.check()?;
        self.capture = self.capture.settled()?;
        runtime()?.block_on(async {
            let mut signals = Signals::new()?;
            let place = Place::open(&self)?;
            let mut progress = Progress::of(&self, &place);
            self.announce(&place, &progress);
            let stop = self.rounds(&mut progress, &place, &mut signals).await;
            if let Err(Stop::Fault(error)) = &stop
                && error.downcast_ref().is_some_and(|fault: &StatusFault| fault.status == exit::ABORTED)
            {
                say!(
                    "overhead: {}: the runs that were made are in {}",
                    exit::sentence(&**error),
                    place.path().display()
                );
                return Ok(exit::ABORTED);
            }
            self.conclude(&progress, &place, stop.err())
        })
    }

    fn announce(&self, place: &Place, progress: &Progress) {
        if self.capture.output.quiet {
            return;
        }
        let (made, all) = progress.counts();
        let there = if made > 0 { format!(", of which {made} are there already") } else { String::new() };
        let runs = counted(u64::from(self.runs()), "run");
        let what = match self.vary.as_slice() {
            [] => runs,
            _ => format!("{}, {runs} each", counted(progress.points.len() as u64, "combination")),
        };
        say!(
            "overhead: {what}{there}: {} to make, each into a folder of its own in {}; Ctrl-C ends, and the same command goes on",
            all - made,
            place.path().display()
        );
    }

    /// Runs the warm-up, then the missing runs of each round.
    async fn rounds(&self, progress: &mut Progress, place: &Place, signals: &mut Signals) -> Result<(), Stop> {
        if progress.is_whole() {
            return Ok(());
        }
        for _ in 0..self.warmup_runs {
            self.warm_up(progress, signals).await?;
        }
        for round in 0..self.runs() as usize {
            for point in order(progress.points.len(), round) {
                if progress.is_made(point, round) {
                    continue;
                }
                let Some(repetition) = progress.planned(point, round) else { continue };
                let end = self.one(&repetition, signals).await?;
                let line = progress.take(point, round, end);
                if !self.capture.output.quiet {
                    say!("overhead: {line}");
                }
                place.keep(&progress.record(self, None)).map_err(Stop::Fault)?;
            }
        }
        Ok(())
    }

    /// Runs each combination once. Gives up if the command fails for all of them.
    async fn warm_up(&self, progress: &Progress, signals: &mut Signals) -> Result<(), Stop> {
        let mut failures = Vec::new();
        for point in &progress.points {
            if let RunEnd::Failed(reason) = self.one(&point.warm_up, signals).await? {
                failures.push(format!("{}: {reason}", point.warm_up.name));
            }
        }
        if failures.len() == progress.points.len() {
            return Err(Stop::Fault(anyhow::anyhow!("{}", failures.swap_remove(0))));
        }
        print::warn(&failures);
        Ok(())
    }

    async fn one(&self, repetition: &Repetition, signals: &mut Signals) -> Result<RunEnd, Stop> {
        if signals.end.was_heard().await {
            return Err(Stop::Asked);
        }
        match repetition.make(&self.capture, signals).await {
            Ok(RunEnd::Interrupted) => Err(Stop::Asked),
            Ok(end) => Ok(end),
            Err(error) => Err(Stop::Fault(error)),
        }
    }

    fn conclude(&self, progress: &Progress, place: &Place, stop: Option<Stop>) -> Result<u8> {
        let (made, all) = progress.counts();
        let (partial, fault) = match stop {
            None => (None, None),
            Some(Stop::Asked) => {
                (Some(format!("ended after {made} of {all} runs: the same command goes on from there")), None)
            }
            Some(Stop::Fault(error)) => {
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
        for path in files.iter().filter(|_| !self.capture.output.quiet) {
            say!("{}", path.display());
        }
        Ok(if fault.is_some() || progress.counted() == 0 { exit::FAILED } else { progress.status(&record) })
    }

    fn print(&self, record: &Sweep) -> Result<()> {
        let output = &self.capture.output;
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
