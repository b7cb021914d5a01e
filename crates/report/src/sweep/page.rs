//! A sweep folder: its figures and tables.

use super::figures::figures;
use super::render::{command, document, remarks, title};
use super::sections::{CELLS, sections};
use crate::document::{COMMAND, Document, Fact, Section};
use crate::error::ReportError;
use crate::figure::Plot;
use crate::page::{Conditions, Doubt, PAGE_FILE, PageFigure, PageTable, WebPage, embedded, machine_facts};
use crate::report::ReportOptions;
use crate::report_folder::{self, TABLES_FILE};
use crate::text::facts;
use crate::text::number::{bytes_label, duration, grouped, with_digits};
use overhead_files::OutputFolder;
use overhead_model::sweep::SweepPoint;
use overhead_model::{Measured, Spread, Sweep};
use std::path::PathBuf;

/// First words of every sweep page.
const HEADING: &str = "# Sweep: ";

/// Files of a sweep report: tables, page and possible figures.
pub const SWEEP_FILES: [&str; 16] = [
    TABLES_FILE,
    PAGE_FILE,
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

/// Returns the first file that [`write_sweep`] would replace and that no earlier sweep report wrote.
pub fn replaced_by_sweep(folder: &OutputFolder) -> Option<&'static str> {
    report_folder::replaced(folder, &[HEADING], &SWEEP_FILES)
}

/// Writes the page and figures into `folder`, replacing files with these names. Removes figures of an earlier report that do
/// not apply to this sweep. Returns the files, the page first.
///
/// # Errors
///
/// [`ReportError::Unwritable`] or [`ReportError::Drawing`].
pub fn write_sweep(sweep: &Sweep, folder: &OutputFolder, options: &ReportOptions) -> Result<Vec<PathBuf>, ReportError> {
    let figures = figures(sweep);
    let tables = page(sweep, figures.iter().map(|(name, figure)| (*name, &*figure.y_title)));
    let plots = figures.into_iter().map(|(name, figure)| (name, Plot::Lines(figure)));
    let (inline, images) = report_folder::drawn(plots, options.look())?;
    report_folder::write_page(folder, &SWEEP_FILES, tables, &web_page(sweep, inline, options)?, images)
}

fn page<'a>(sweep: &Sweep, figures: impl Iterator<Item = (&'a str, &'a str)>) -> String {
    let mut page = Document::default();
    page.prose(title(sweep));
    figures.for_each(|(name, shows)| page.figure(name, shows));
    page.append(document(sweep));
    if let Some(machine) = &sweep.environment {
        let interface = machine.interface.as_ref().map(|it| format!("; interface {}", it.name)).unwrap_or_default();
        page.prose(format!("Linux {}, {} CPUs ({}){interface}.", machine.kernel, machine.cpus, machine.cpu));
    }
    format!("{HEADING}`{}`\n\n{}", command(sweep).replace('`', "'"), page.markdown())
}

fn web_page(sweep: &Sweep, figures: Vec<PageFigure>, options: &ReportOptions) -> Result<WebPage, ReportError> {
    let table = |(at, section): (usize, Section)| {
        let mut table = PageTable::of_section(&format!("table-{at}"), section);
        table.notes.push(CELLS.to_owned());
        table
    };
    let tool = format!("{} {}", sweep.tool.name, sweep.tool.version);
    let mut said = vec![Fact::new("made by", &*tool)];
    said.extend(sweep.environment.iter().flat_map(machine_facts));
    Ok(WebPage {
        title: options.title.clone().unwrap_or_else(|| "Sweep".to_owned()),
        sentences: sentences(sweep),
        doubts: remarks(sweep).into_iter().map(|text| Doubt { of: String::new(), text }).collect(),
        figures,
        tables: sections(sweep).into_iter().enumerate().map(table).collect(),
        conditions: vec![Conditions {
            name: "All runs".to_owned(),
            facts: said,
            commands: vec![Fact::new(COMMAND, facts::shell(&sweep.command))],
        }],
        records: vec![embedded("sweep", "sweep", sweep)?],
        tool,
        theme: options.page_theme(),
        ..WebPage::default()
    })
}

fn sentences(sweep: &Sweep) -> Vec<String> {
    let bytes = range(sweep, |point| &point.total.wire_bytes, |bytes| format!("{} B", bytes_label(bytes)));
    let rate = range(sweep, |point| &point.total.per_second, |rate| grouped(rate.round() as u64));
    let cpu = range(sweep, |point| &point.total.server.on_cpu_ns, |ns| duration(ns.round() as u64));
    let said = [
        bytes.map(|range| format!("An operation takes {range} on the wire.")),
        rate.map(|range| format!("Operations per second: {range}; medians over the runs.")),
        cpu.map(|range| format!("The server's CPU time for an operation is {range}.")),
    ];
    let runs: usize = sweep.points.iter().map(|point| point.runs.len()).sum();
    let first = format!("{}: {} in all.", title(sweep), crate::text::counted(runs as u64, "run"));
    std::iter::once(first).chain(said.into_iter().flatten().take(2)).collect()
}

/// Returns the smallest and largest values of a figure with their parameters, such as `from 40 B (P = 50) to 274 B (P = 1),
/// 6.85 times as much`. Returns `None` unless every point has a measurement.
fn range(
    sweep: &Sweep,
    figure: impl Fn(&SweepPoint) -> &Measured<Spread>,
    shown: impl Fn(f64) -> String,
) -> Option<String> {
    let measured = sweep.points.iter().map(|point| Some((point, figure(point).value()?.median)));
    let measured: Vec<(&SweepPoint, f64)> = measured.collect::<Option<_>>()?;
    let least = measured.iter().min_by(|a, b| a.1.total_cmp(&b.1))?;
    let most = measured.iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
    let at = |point: &SweepPoint| {
        let values = sweep.parameters.iter().zip(&point.values);
        let values: Vec<String> = values.map(|(of, value)| format!("{} = {}", of.name, value)).collect();
        values.join(", ")
    };
    if shown(least.1) == shown(most.1) || sweep.parameters.is_empty() {
        return Some(shown(least.1));
    }
    let times =
        if least.1 > 0.0 { format!(", {} times as much", with_digits(most.1 / least.1, 2)) } else { String::new() };
    Some(format!("from {} ({}) to {} ({}){times}", shown(least.1), at(least.0), shown(most.1), at(most.0)))
}
