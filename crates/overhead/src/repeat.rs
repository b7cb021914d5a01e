//! Runs a command several times (`overhead sweep`, `overhead capture --runs`), and prints the result.

use crate::options::{Format, Output};
use crate::print;
use anyhow::{Result, anyhow};
use overhead_live::{FinishedSweep, SweepPlan};
use overhead_model::Run;
use overhead_report::{ChartAxes, RunGroup, Sweep, json, sweep, text};

/// Makes the missing runs, then prints the result.
pub fn run(plan: &SweepPlan, output: &Output) -> Result<u8> {
    let FinishedSweep { runs, partial, files, status } = plan.run()?;
    let group = RunGroup { name: String::new(), runs };
    let groups = std::slice::from_ref(&group);
    let mut made = Sweep::new(groups, &ChartAxes::default()).map_err(|why| anyhow!(why))?;
    made.partial = partial;
    if !output.format.is_for_screens() && !output.quiet {
        print::warn(&sweep::remarks(&made));
    }
    print::verbatim(&match output.format {
        Format::Json => json(&group.runs.iter().map(|named| &named.run).collect::<Vec<&Run>>())?,
        Format::Csv => text::csv(&group.runs),
        Format::Markdown => sweep::markdown(&made),
        Format::Table => sweep::table(&made, output.style()),
    })?;
    print::files(&files, output);
    Ok(status)
}
