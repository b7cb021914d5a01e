//! A sweep in a folder: its figures, and the tables beside them.

use super::figures::{NAMES, figures};
use super::render::{command, markdown, title};
use crate::error::ReportError;
use crate::figure::{ImageFormat, draw_lines};
use crate::folder::OutputFolder;
use crate::text::{clean, markdown_cell};
use overhead_model::Sweep;
use std::path::PathBuf;

/// Begins the page of every sweep.
const HEADING: &str = "# Sweep: ";
/// The page.
const PAGE: &str = "report.md";

/// The files of a sweep's report: the page, and figures that it may have.
pub const SWEEP_FILES: [&str; 15] = [
    PAGE,
    "bytes.svg",
    "bytes.png",
    "frames.svg",
    "frames.png",
    "calls.svg",
    "calls.png",
    "cpu.svg",
    "cpu.png",
    "rate.svg",
    "rate.png",
    "latency.svg",
    "latency.png",
    "distribution.svg",
    "distribution.png",
];

/// Returns the first file that [`write_sweep`] would replace and that no earlier report of a sweep has left there.
pub fn replaced_by_sweep(folder: &OutputFolder) -> Option<&'static str> {
    if folder.holds_start(PAGE, HEADING.as_bytes()) {
        return None;
    }
    SWEEP_FILES.into_iter().find(|name| folder.holds(name))
}

/// Writes the page and the figures into `folder`, over what is there of these names; a figure of an earlier report that this
/// sweep has not is removed. Returns the files, the page first.
///
/// # Errors
///
/// [`ReportError::Unwritable`] or [`ReportError::Drawing`].
pub fn write_sweep(sweep: &Sweep, folder: &OutputFolder) -> Result<Vec<PathBuf>, ReportError> {
    let mut contents: Vec<(String, Vec<u8>)> = Vec::new();
    let mut drawn = Vec::new();
    for (name, figure) in figures(sweep) {
        drawn.push((name, figure.y_title.clone()));
        for (format, bytes) in draw_lines(&figure)? {
            let suffix = if format == ImageFormat::Svg { "svg" } else { "png" };
            contents.push((format!("{name}.{suffix}"), bytes));
        }
    }
    contents.insert(0, (PAGE.to_owned(), page(sweep, &drawn).into_bytes()));
    let unwritable = |name: &str, source| ReportError::Unwritable { path: folder.path().join(name), source };
    for name in NAMES.into_iter().filter(|name| !drawn.iter().any(|(drawn, _)| drawn == name)) {
        for file in ["svg", "png"].map(|suffix| format!("{name}.{suffix}")) {
            folder.remove(&file).map_err(|source| unwritable(&file, source))?;
        }
    }
    let write =
        |(name, bytes): (String, Vec<u8>)| folder.write(&name, &bytes).map_err(|source| unwritable(&name, source));
    contents.into_iter().map(write).collect()
}

fn page(sweep: &Sweep, figures: &[(&str, String)]) -> String {
    let mut out = format!("{HEADING}`{}`\n\n{}\n\n", command(sweep).replace('`', "'"), markdown_cell(&title(sweep)));
    for (name, shows) in figures {
        out.extend(["![", &markdown_cell(shows), "](", name, ".svg)\n\n"]);
    }
    out.push_str(&markdown(sweep));
    if let Some(machine) = &sweep.environment {
        let interface = machine.interface.as_ref().map(|it| format!("; interface {}", it.name)).unwrap_or_default();
        let said = format!("Linux {}, {} CPUs ({}){interface}.", machine.kernel, machine.cpus, machine.cpu);
        out.extend(["\n", &markdown_cell(&clean(&said)), "\n"]);
    }
    out
}
