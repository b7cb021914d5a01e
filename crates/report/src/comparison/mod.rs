//! The write-up of `lab/comparison`: several databases under one workload, what sets them apart and why.
//!
//! Figures and amounts come from the records; the only things written by hand are the causes, in `words`. The same
//! records give the same document.

mod bytes;
mod figures;
mod load;
mod page;
mod questions;
mod reference;
mod study;
mod topics;
mod words;
mod writeup;

use crate::error::ReportError;
use std::fs;
use std::path::{Path, PathBuf};
use study::Study;

/// Reads what was measured from `folder`, and writes `README.md` and `figures/` beside it. Gives the files written.
///
/// The folder holds `runs/NAME/{run.json,bench.json}` for each captured combination, `load/NAME/…` for each that was counted
/// only, `conditions.json` for what the servers are, `peers.json` for other tools, and `reference.csv`, an earlier
/// measurement to compare with.
///
/// # Errors
///
/// [`ReportError::Unreadable`] and its like where records are missing, [`ReportError::NoRuns`] without any cell, and
/// those of drawing and writing.
pub fn write_comparison(folder: impl AsRef<Path>) -> Result<Vec<PathBuf>, ReportError> {
    let folder = folder.as_ref();
    let study = Study::read(folder)?;
    let figures = folder.join("figures");
    let unwritable = |path: &Path, source| ReportError::Unwritable { path: path.to_owned(), source };
    fs::create_dir_all(&figures).map_err(|source| unwritable(&figures, source))?;
    let mut files = vec![(folder.join("README.md"), writeup::writeup(&study).into_bytes())];
    files.extend(figures::figures(&study)?.into_iter().map(|(name, bytes)| (figures_path(folder, &name), bytes)));
    for (path, bytes) in &files {
        fs::write(path, bytes).map_err(|source| unwritable(path, source))?;
    }
    Ok(files.into_iter().map(|(path, _)| path).collect())
}

fn figures_path(folder: &Path, name: &str) -> PathBuf {
    folder.join("figures").join(name)
}

#[cfg(test)]
mod tests;
