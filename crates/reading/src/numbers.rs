//! Statements by their numbers in a table, such as `#3`.

use crate::inputs::InputPlan;
use crate::kept::KeptRun;
use crate::record::RecordPlan;
use anyhow::Result;
use overhead_model::bail_usage;
use overhead_model::record::ViewRow;
use overhead_report::numbered;
use overhead_report::text::counted;

/// Returns the number in `#3`.
pub fn number(text: &str) -> Option<usize> {
    text.strip_prefix('#')?.parse().ok()
}

/// Returns the statements in the order of their numbers. Reads the files unless the input is a run with its record.
pub fn statements(input: &InputPlan) -> Result<Vec<ViewRow>> {
    match input.kept.as_ref().and_then(KeptRun::kept_record) {
        Some(run) => Ok(numbered(run)),
        None => Ok(numbered(&RecordPlan::new(input.clone()).record()?)),
    }
}

/// Returns the statement with this number.
pub fn statement(statements: &[ViewRow], text: &str) -> Result<ViewRow> {
    let Some(number) = number(text) else { bail_usage!("invalid number of a statement {text}: write '#3'") };
    match statements.get(number.wrapping_sub(1)) {
        Some(row) => Ok(row.clone()),
        None => bail_usage!("{text}: there are {}", counted(statements.len() as u64, "statement")),
    }
}
