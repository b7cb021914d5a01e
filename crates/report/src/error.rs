//! Errors when reading records and writing reports, with remedies.

use std::io;
use std::path::PathBuf;

/// Why reading a record or writing a report failed. Every message names the path and a remedy.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// There is no record at the given path.
    #[error("{}: no run record here; name a folder that holds a run.json, or the file itself", path.display())]
    Missing { path: PathBuf },
    /// The record exists but the system refuses to read it.
    #[error("{}: cannot read the run record: {source}; check the permissions", path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    /// The file is not JSON, or not a run record.
    #[error("{}: not a run record: {source}; make one with `overhead analyze --format json`", path.display())]
    Malformed {
        path: PathBuf,
        /// The parse error, with line and column.
        source: serde_json::Error,
    },
    /// The record has an unsupported version.
    #[error(
        "{}: schema_version is {found}, this version reads {}; use the version that wrote it, or analyze the capture again",
        path.display(),
        if oldest == newest { newest.to_string() } else { format!("{oldest} to {newest}") }
    )]
    Version {
        path: PathBuf,
        found: u64,
        /// The supported versions.
        oldest: u64,
        newest: u64,
    },
    /// The runs do not have the requested axes.
    #[error("{0}")]
    Axes(String),
    /// A report needs at least one run.
    #[error("no run to report on; name at least one run folder")]
    NoRuns,
    /// A file of the report cannot be written.
    #[error("{}: cannot write: {source}; check that the folder exists, is writable and has space, or choose another with -o", path.display())]
    Unwritable { path: PathBuf, source: io::Error },
    /// A number of the record is not finite.
    #[error("cannot print the run record as JSON: {0}; this is a bug, please report it")]
    Json(#[from] serde_json::Error),
    /// The chart cannot be drawn or encoded.
    #[error("cannot draw the chart: {0}; try fewer runs or operations")]
    Drawing(String),
    /// The template failed.
    #[error("cannot make the page: {0}; this is a bug, please report it")]
    Page(#[from] minijinja::Error),
}
