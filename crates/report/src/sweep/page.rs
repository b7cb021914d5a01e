//! A sweep folder: its figures and tables.

use super::figures::{NAMES, figures};
use super::render::{command, markdown, remarks, title};
use super::sections::{CELLS, Section, sections};
use crate::error::ReportError;
use crate::figure::Plot;
use crate::page::{
    Conditions, Doubt, Fact, PAGE_FILE, PageExtras, PageFigure, PageTable, WebPage, embedded, machine_facts, replaced,
};
use crate::report::ReportOptions;
use crate::text::grid::Grid;
use crate::text::number::{bytes_label, duration, grouped, with_digits};
use crate::text::{facts, markdown_cell};
use overhead_files::OutputFolder;
use overhead_model::sweep::SweepPoint;
use overhead_model::{Measured, Spread, Sweep};
use std::path::PathBuf;

/// First words of every sweep page.
const HEADING: &str = "# Sweep: ";
const PAGE: &str = "report.md";

/// Files of a sweep report: tables, page and possible figures.
pub const SWEEP_FILES: [&str; 16] = [
    PAGE,
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
    replaced(folder, PAGE, &[HEADING], &SWEEP_FILES)
}

/// Writes the page and figures into `folder`, replacing files with these names. Removes figures of an earlier report that do
/// not apply to this sweep. Returns the files, the page first.
///
/// # Errors
///
/// [`ReportError::Unwritable`] or [`ReportError::Drawing`].
pub fn write_sweep(sweep: &Sweep, folder: &OutputFolder) -> Result<Vec<PathBuf>, ReportError> {
    write_sweep_as(sweep, folder, &ReportOptions::default())
}

/// Like [`write_sweep`], with a choice of title, theme and width.
///
/// # Errors
///
/// Returns the errors of [`write_sweep`].
pub fn write_sweep_as(
    sweep: &Sweep,
    folder: &OutputFolder,
    options: &ReportOptions,
) -> Result<Vec<PathBuf>, ReportError> {
    let mut contents: Vec<(String, Vec<u8>)> = Vec::new();
    let (mut drawn, mut inline) = (Vec::new(), Vec::new());
    for (name, figure) in figures(sweep) {
        drawn.push((name, figure.y_title.clone()));
        let plot = Plot::Lines(figure).looking(options.look());
        inline.push(PageFigure::of(name, &plot)?);
        contents.extend(plot.files(name)?);
    }
    contents.insert(
        0,
        (
            PAGE_FILE.to_owned(),
            WebPage { theme: options.page_theme(), ..web_page(sweep, inline, options)? }.render()?.into_bytes(),
        ),
    );
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
        out.extend(["\n", &markdown_cell(&said), "\n"]);
    }
    out
}

fn web_page(sweep: &Sweep, figures: Vec<PageFigure>, options: &ReportOptions) -> Result<WebPage, ReportError> {
    let table = |(at, Section { title, note, columns, rows, keys }): (usize, Section)| {
        let grid = Grid { columns, rows, keys };
        PageTable::of_grid(&format!("table-{at}"), title, grid).with_notes([note, CELLS.to_owned()])
    };
    let tool = format!("{} {}", sweep.tool.name, sweep.tool.version);
    let mut said = vec![Fact::new("made by", &*tool)];
    said.extend(sweep.environment.iter().flat_map(machine_facts));
    let words = sweep.command.iter().map(|word| facts::quoted(word)).collect::<Vec<_>>().join(" ");
    Ok(WebPage {
        title: options.title.clone().unwrap_or_else(|| "Sweep".to_owned()),
        sentences: sentences(sweep),
        doubts: remarks(sweep).into_iter().map(|text| Doubt { of: String::new(), text }).collect(),
        figures,
        tables: sections(sweep).into_iter().enumerate().map(table).collect(),
        conditions: vec![Conditions {
            name: "All runs".to_owned(),
            facts: said,
            commands: vec![Fact::new("command", words)],
        }],
        records: vec![embedded("sweep", "sweep", sweep)?],
        tool,
        theme: None,
        found: None,
        extras: PageExtras::default(),
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
