//! Folders of reports: drawing, replacing and writing their files.

use crate::error::ReportError;
use crate::figure::{Plot, PlotStyle};
use crate::page::{PAGE_FILE, PAGE_START, PageFigure, WebPage};
use overhead_files::OutputFolder;
use std::path::PathBuf;

/// The tables of every kind of report.
pub(crate) const TABLES_FILE: &str = "report.md";

pub(crate) type ReportFile = (String, Vec<u8>);

/// Draws the plots for the page, and as files whose titles name the system.
pub(crate) fn drawn<'name>(
    system: &str,
    plots: impl IntoIterator<Item = (&'name str, Plot)>,
    style: PlotStyle,
) -> Result<(Vec<PageFigure>, Vec<ReportFile>), ReportError> {
    let (mut inline, mut files) = (Vec::new(), Vec::new());
    for (name, plot) in plots {
        let plot = plot.with_style(style);
        inline.push(PageFigure::new(name, &plot)?);
        files.extend(plot.with_system(system).files(name)?);
    }
    Ok((inline, files))
}

/// Returns the first of a report's `names` that would be replaced and that no earlier report wrote. Our reports have tables
/// that start with one of `starts`, and a page that names its origin.
pub(crate) fn replaced(folder: &OutputFolder, starts: &[&str], names: &[&'static str]) -> Option<&'static str> {
    if folder.holds(PAGE_FILE) && !folder.holds_start(PAGE_FILE, PAGE_START) {
        return Some(PAGE_FILE);
    }
    if starts.iter().any(|start| folder.holds_start(TABLES_FILE, start.as_bytes())) {
        return None;
    }
    names.iter().copied().find(|name| folder.holds(name))
}

/// Writes tables, page and charts, in this order.
pub(crate) fn write_page(
    folder: &OutputFolder,
    names: &[&str],
    tables: String,
    page: &WebPage,
    images: Vec<ReportFile>,
) -> Result<Vec<PathBuf>, ReportError> {
    let page = (PAGE_FILE.to_owned(), page.render()?.into_bytes());
    let files = [(TABLES_FILE.to_owned(), tables.into_bytes()), page].into_iter().chain(images);
    write(folder, names, files.collect())
}

/// Writes the files and removes the others of these `names`, which an earlier report may have left. Returns the paths written.
pub(crate) fn write(
    folder: &OutputFolder,
    names: &[&str],
    files: Vec<ReportFile>,
) -> Result<Vec<PathBuf>, ReportError> {
    let unwritable = |name: &str, source| ReportError::Unwritable { path: folder.path().join(name), source };
    for name in names.iter().filter(|name| !files.iter().any(|(written, _)| written == *name)) {
        folder.remove(name).map_err(|source| unwritable(name, source))?;
    }
    let write = |(name, bytes): ReportFile| folder.write(&name, &bytes).map_err(|source| unwritable(&name, source));
    files.into_iter().map(write).collect()
}
