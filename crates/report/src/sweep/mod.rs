//! Sweeps: one command with several values of its parameters, each run several times. [`point`] computes medians and spreads of
//! the runs; the other functions print and draw them.

mod figures;
mod page;
mod render;
mod sections;
mod summary;

pub use page::{SWEEP_FILES, replaced_by_sweep, write_sweep, write_sweep_as};
pub use render::{csv, json, markdown, remarks, table};
pub use summary::{PointRun, point};

use crate::bounded::{RecordVersion, read_text};
use crate::error::ReportError;
use overhead_model::sweep::{SWEEP_VERSION, Sweep};
use std::io::ErrorKind;
use std::path::Path;

pub const SWEEP_RECORD: &str = "sweep.json";

/// Reads the record of a sweep from its folder, or from the file itself.
///
/// # Errors
///
/// [`ReportError::Missing`], [`ReportError::Unreadable`], [`ReportError::Malformed`] or [`ReportError::Version`].
pub fn load_sweep(path: &Path) -> Result<Sweep, ReportError> {
    let path = if path.is_dir() { path.join(SWEEP_RECORD) } else { path.to_owned() };
    let text = read_text(&path).map_err(|source| match source.kind() {
        ErrorKind::NotFound | ErrorKind::NotADirectory => ReportError::Missing { path: path.clone() },
        _ => ReportError::Unreadable { path: path.clone(), source },
    })?;
    let malformed = |source| ReportError::Malformed { path: path.clone(), source };
    let version: RecordVersion = serde_json::from_slice(&text).map_err(malformed)?;
    match version.schema_version {
        Some(found) if found != u64::from(SWEEP_VERSION) => {
            Err(ReportError::Version { path: path.clone(), found, expected: SWEEP_VERSION })
        }
        _ => serde_json::from_slice(&text).map_err(malformed),
    }
}

#[cfg(test)]
mod tests;
