//! Statements by their numbers in a table, such as `#3`.

use crate::analyze::RecordPlan;
use crate::exit::bail_usage;
use crate::inputs::InputPlan;
use crate::runs::KeptRun;
use anyhow::Result;
use overhead_model::Run;
use overhead_model::record::ViewRow;
use overhead_report::numbered;
use overhead_report::text::counted;

/// Returns the number in `#3`.
pub fn number(text: &str) -> Option<usize> {
    text.strip_prefix('#')?.parse().ok()
}

/// Returns the record of the input: the kept one, or a new one.
pub fn record(input: &InputPlan) -> Result<Run> {
    match input.kept.as_ref().and_then(KeptRun::kept_record) {
        Some(run) => Ok(run.clone()),
        None => RecordPlan::of(input.clone()).record(),
    }
}

/// Returns the statement with this number among those of a run.
pub fn statement(run: &Run, text: &str) -> Result<ViewRow> {
    let Some(number) = number(text) else { bail_usage!("{text} is not the number of a statement: write '#3'") };
    let statements = numbered(run);
    match statements.get(number.wrapping_sub(1)) {
        Some(row) => Ok(row.clone()),
        None => bail_usage!("{text}: there are {}", counted(statements.len() as u64, "statement")),
    }
}
