//! Sweeps: one command with several values of its parameters, each run several times. [`point`] computes medians and spreads of
//! the runs; the other functions print and draw them.

mod figures;
mod page;
mod render;
mod sections;
mod summary;

pub use page::{SWEEP_FILES, replaced_by_sweep, write_sweep};
pub use render::{csv, json, markdown, remarks, table};
pub use summary::{PointRun, point};

use crate::bounded::{parse_record, read_record};
use crate::error::ReportError;
use overhead_model::sweep::{SWEEP_VERSION, Sweep};
use std::path::Path;

pub const SWEEP_RECORD: &str = "sweep.json";

/// Reads the record of a sweep from its folder, or from the file itself.
///
/// # Errors
///
/// [`ReportError::Missing`], [`ReportError::Unreadable`], [`ReportError::Malformed`] or [`ReportError::Version`].
pub fn load_sweep(path: &Path) -> Result<Sweep, ReportError> {
    let (path, text) = read_record(path, SWEEP_RECORD)?;
    Ok(parse_record(&text, &path, SWEEP_VERSION..=SWEEP_VERSION)?.0)
}

#[cfg(test)]
mod tests;
