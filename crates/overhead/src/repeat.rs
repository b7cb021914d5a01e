//! Runs a command several times (`overhead sweep`, `overhead capture --runs`), and prints the result.

use crate::options::{Format, Output};
use crate::print;
use anyhow::Result;
use overhead_live::{FinishedSweep, SweepPlan};
use overhead_report::sweep;

/// Makes the missing runs, then prints the result.
pub fn run(plan: &SweepPlan, output: &Output) -> Result<u8> {
    let FinishedSweep { record, files, status } = plan.run()?;
    if !output.format.is_for_screens() && !output.quiet {
        print::warn(&sweep::remarks(&record));
    }
    print::verbatim(&match output.format {
        Format::Json => sweep::json(&record)?,
        Format::Csv => sweep::csv(&record),
        Format::Markdown => sweep::markdown(&record),
        Format::Table => sweep::table(&record, output.style()),
    })?;
    print::files(&files, output);
    Ok(status)
}
