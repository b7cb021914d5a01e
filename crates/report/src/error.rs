//! What can go wrong when records are read and reports are written, and what to do about it.

use std::io;
use std::path::PathBuf;

/// Why a record could not be read or a report not be written. Every message names the path and a remedy.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// There is no record where the user pointed.
    #[error("{}: no run record here; name a folder that holds a run.json, or the file itself", path.display())]
    Missing {
        /// Where it was looked for.
        path: PathBuf,
    },
    /// The record cannot be read.
    #[error("{}: cannot read the run record: {source}; check the permissions", path.display())]
    Unreadable {
        /// The record.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The file is not JSON, or not a run record.
    #[error("{}: not a run record: {source}; make one with `overhead analyze --format json`", path.display())]
    Malformed {
        /// The record.
        path: PathBuf,
        /// What does not parse, with line and column.
        source: serde_json::Error,
    },
    /// The record is of a version that this code does not know.
    #[error(
        "{}: schema_version is {found}, this version reads {expected}; use the version that wrote it, or analyze the capture again",
        path.display()
    )]
    Version {
        /// The record.
        path: PathBuf,
        /// Its version.
        found: u64,
        /// The version that is read.
        expected: u32,
    },
    /// A report was asked for without any run.
    #[error("there is no run to report on; name at least one run folder")]
    NoRuns,
    /// A file or folder of the report cannot be written.
    #[error("{}: cannot write: {source}; check that the folder exists, is writable and has space, or choose another with -o", path.display())]
    Unwritable {
        /// What was to be written.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The record cannot be printed as JSON.
    #[error("cannot print the run record as JSON: {0}; this is a bug, please report it")]
    Json(#[from] serde_json::Error),
    /// The figure cannot be drawn or encoded.
    #[error("cannot draw the figure: {0}; try fewer runs or operations")]
    Drawing(String),
    /// The page cannot be made of its template.
    #[error("cannot make the page: {0}; this is a bug, please report it")]
    Page(#[from] minijinja::Error),
}
