//! A sweep folder: its figures and tables.

use super::NamedSweep;
use super::figures::{at, figures, has_one_mix, operations, parameter};
use super::render::{command, document, remarks, title};
use super::sections::{CELLS, sections};
use crate::document::{COMMAND, Document, Fact, Section};
use crate::error::ReportError;
use crate::figure::{Plot, ReportOptions};
use crate::number::{bytes_label, duration, grouped, with_digits};
use crate::page::{Conditions, PAGE_FILE, PageFigure, PageTable, PageWarning, WebPage, embedded, machine_facts};
use crate::report_folder::{self, TABLES_FILE};
use crate::summary::listed;
use crate::text::facts;
use overhead_files::OutputFolder;
use overhead_model::sweep::{SweepPoint, SweepTotal};
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

/// Returns the first file that [`write_sweeps`] would replace and that no earlier sweep report wrote.
pub fn replaced_by_sweep(folder: &OutputFolder) -> Option<&'static str> {
    report_folder::replaced(folder, &[HEADING], &SWEEP_FILES)
}

/// Writes the page and figures into `folder`, replacing files with these names. Removes figures of an earlier report that do
/// not apply to these sweeps. Returns the files, the page first. Several sweeps vary the same parameter first, and have a line each.
///
/// # Errors
///
/// [`ReportError::NoRuns`], [`ReportError::Unwritable`] or [`ReportError::Drawing`].
pub fn write_sweeps(
    sweeps: &[NamedSweep],
    folder: &OutputFolder,
    options: &ReportOptions,
) -> Result<Vec<PathBuf>, ReportError> {
    if sweeps.is_empty() {
        return Err(ReportError::NoRuns);
    }
    let figures = figures(sweeps);
    let tables = tables(sweeps, figures.iter().map(|(name, figure)| (*name, &*figure.y_title)));
    let plots = figures.into_iter().map(|(name, figure)| (name, Plot::Lines(figure)));
    let (inline, images) = report_folder::drawn(&system(sweeps), plots, options.style())?;
    report_folder::write_page(folder, &SWEEP_FILES, tables, &web_page(sweeps, inline, options)?, images)
}

/// Returns the names of the systems: those that several sweeps were given, or the server's own.
fn system(sweeps: &[NamedSweep]) -> String {
    match sweeps {
        [one] => one.system(),
        several => listed(&several.iter().map(|of| of.name.clone()).collect::<Vec<_>>()),
    }
}

fn named(sweeps: &[NamedSweep]) -> Vec<(&str, &Sweep)> {
    sweeps.iter().map(|of| (&*of.name, &of.sweep)).collect()
}

fn tables<'a>(sweeps: &[NamedSweep], figures: impl Iterator<Item = (&'a str, &'a str)>) -> String {
    let mut page = Document::default();
    page.prose(titles(sweeps));
    figures.for_each(|(name, shows)| page.figure(name, shows));
    page.append(document(&named(sweeps)));
    for NamedSweep { sweep, .. } in &sweeps[..1] {
        let Some(machine) = &sweep.environment else { continue };
        let interface = machine.interface.as_ref().map(|it| format!("; interface {}", it.name)).unwrap_or_default();
        page.prose(format!("Linux {}, {} CPUs ({}){interface}.", machine.kernel, machine.cpus, machine.cpu));
    }
    let commands: Vec<String> = sweeps.iter().map(|of| format!("`{}`", command(&of.sweep).replace('`', "'"))).collect();
    format!("{HEADING}{}\n\n{}", commands.join(", "), page.markdown())
}

/// Returns the commands with their values, and whose they are.
fn titles(sweeps: &[NamedSweep]) -> String {
    match sweeps {
        [one] => title(&one.sweep),
        several => several.iter().map(|of| format!("{}: {}", of.name, title(&of.sweep))).collect::<Vec<_>>().join(". "),
    }
}

fn web_page(sweeps: &[NamedSweep], figures: Vec<PageFigure>, options: &ReportOptions) -> Result<WebPage, ReportError> {
    let table = |(at, section): (usize, Section)| {
        let mut table = PageTable::from_section(&format!("table-{at}"), section);
        table.notes.push(CELLS.to_owned());
        table
    };
    let tool = |sweep: &Sweep| format!("{} {}", sweep.tool.name, sweep.tool.version);
    let is_one = sweeps.len() == 1;
    let conditions = |NamedSweep { name, sweep }: &NamedSweep| {
        let made_by = std::iter::once(Fact::new("made by", tool(sweep)));
        Conditions {
            name: if is_one { "All runs".to_owned() } else { name.clone() },
            facts: made_by.chain(sweep.environment.iter().flat_map(machine_facts)).collect(),
            commands: vec![Fact::new(COMMAND, facts::shell(&sweep.command))],
        }
    };
    let warnings = |NamedSweep { name, sweep }: &NamedSweep| {
        let of = if is_one { String::new() } else { name.clone() };
        remarks(sweep).into_iter().map(|text| PageWarning { of: of.clone(), text }).collect::<Vec<_>>()
    };
    let record = |of: &NamedSweep| embedded(if is_one { "sweep" } else { &of.name }, "sweep", &of.sweep);
    let title = || match (system(sweeps), parameter(sweeps)) {
        (system, parameter) if system.is_empty() || parameter.is_empty() => format!("Sweep {system}"),
        (system, parameter) => format!("{system}: sweep of {parameter}"),
    };
    Ok(WebPage {
        title: options.title.clone().unwrap_or_else(title),
        sentences: sentences(sweeps),
        warnings: sweeps.iter().flat_map(warnings).collect(),
        charts: figures,
        tables: sections(&named(sweeps)).into_iter().enumerate().map(table).collect(),
        conditions: sweeps.iter().map(conditions).collect(),
        records: sweeps.iter().map(record).collect::<Result<_, _>>()?,
        tool: sweeps.first().map_or_else(String::new, |of| tool(&of.sweep)),
        theme: options.page_theme(),
        ..WebPage::default()
    })
}

/// Describes the measurement, and for one sweep the ranges of values that compare like with like.
fn sentences(sweeps: &[NamedSweep]) -> Vec<String> {
    let runs: usize = sweeps.iter().flat_map(|of| &of.sweep.points).map(|point| point.runs.len()).sum();
    let first = format!("{}: {} in all.", titles(sweeps), crate::number::counted(runs as u64, "run"));
    let [NamedSweep { sweep, .. }] = sweeps else { return vec![first] };
    let largest = operations(sweep).into_iter().next();
    let bytes = largest.and_then(|kind| {
        let shown = |bytes| format!("{} B", bytes_label(bytes));
        let range = range(sweep, |point| at(point, kind).map(|of| of.wire_bytes.median), shown)?;
        Some(format!("{} takes {range} on the wire.", kind.name))
    });
    let of_all = |figure: fn(&SweepTotal) -> &Measured<Spread>, shown: fn(f64) -> String| {
        let median = |point: &SweepPoint| figure(&point.total).value().map(|of| of.median);
        range(sweep, median, shown).filter(|_| has_one_mix(sweeps))
    };
    let rate = of_all(|total| &total.per_second, |rate| grouped(rate.round() as u64));
    let rate = rate.map(|range| format!("Operations per second: {range}; medians over the runs."));
    let cpu = of_all(|total| &total.server.on_cpu_ns, |ns| duration(ns.round() as u64));
    let cpu = cpu.map(|range| format!("The server's CPU time for an operation is {range}."));
    std::iter::once(first).chain([bytes, rate, cpu].into_iter().flatten().take(2)).collect()
}

/// Returns the smallest and largest values of a figure with their parameters, such as `from 40 B (P = 50) to 274 B (P = 1),
/// 6.85 times as much`. Returns `None` unless every point has a measurement.
fn range(sweep: &Sweep, figure: impl Fn(&SweepPoint) -> Option<f64>, shown: impl Fn(f64) -> String) -> Option<String> {
    let measured = sweep.points.iter().map(|point| Some((point, figure(point)?)));
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
