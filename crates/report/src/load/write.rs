//! A load folder: its charts, tables and page.

use super::tables::{label, repetitions, results};
use crate::clean::clean;
use crate::document::{COMMAND, Document, Fact, Section};
use crate::error::ReportError;
use crate::figure::{DotFigure, DotRow, Line, LineFigure, Plot, ReportOptions, left_out, only_in_table};
use crate::limits::RANGE_ROWS;
use crate::number::{duration, grouped, with_digits};
use crate::page::{Conditions, PAGE_FILE, PageFigure, PageTable, PageWarning, WebPage, embedded};
use crate::report_folder::{self, TABLES_FILE};
use crate::summary::{distinct, listed};
use crate::text::facts;
use overhead_files::OutputFolder;
use overhead_model::Spread;
use overhead_model::load::{Load, LoadResult, LoadSettings};
use std::collections::BTreeSet;
use std::path::PathBuf;

/// First words of every load's tables.
const HEADING: &str = "# Load: ";

/// Files of a load report: tables, page and possible charts.
pub const LOAD_FILES: [&str; 6] = [TABLES_FILE, PAGE_FILE, "rate.svg", "rate.png", "latency.svg", "latency.png"];

/// Returns the first file that [`write_load`] would replace and that no earlier load report wrote.
pub fn replaced_by_load(folder: &OutputFolder) -> Option<&'static str> {
    report_folder::replaced(folder, &[HEADING], &LOAD_FILES)
}

/// Writes tables, page and charts into `folder`, replacing files with these names. Removes charts of an earlier report that
/// do not apply to this load. Returns the files, tables first.
///
/// # Errors
///
/// [`ReportError::Unwritable`], [`ReportError::Json`], [`ReportError::Page`] or [`ReportError::Drawing`].
pub fn write_load(load: &Load, folder: &OutputFolder, options: &ReportOptions) -> Result<Vec<PathBuf>, ReportError> {
    let (inline, images) = report_folder::drawn(&system(load), figures(load), options.style())?;
    let tables = document(load, &inline).markdown();
    report_folder::write_page(folder, &LOAD_FILES, tables, &page(load, inline, options)?, images)
}

fn document(load: &Load, figures: &[PageFigure]) -> Document {
    let mut document = Document::default();
    document.heading(1, format!("Load: {}", subject(load)));
    for figure in figures {
        document.figure(&figure.name, &figure.title);
    }
    document.warnings(warnings(load).into_iter().map(|warning| warning.text));
    for (title, table) in [("Results", results(load)), ("Repetitions", repetitions(load))] {
        document.section(2, Section { title: title.to_owned(), table, notes: Vec::new() });
    }
    document.prose(NOTE);
    document
}

const NOTE: &str = "Rates and latencies are those of the client, from sending an operation to its complete answer, and those of the median \
run where one figure stands for several. Latency with a pipeline is that of the whole pipeline.";

/// Returns the servers' versions, or the name of the database.
fn system(load: &Load) -> String {
    let versions: Vec<String> = load.servers.iter().filter_map(|server| server.version.clone()).collect();
    if versions.is_empty() { load.db.clone() } else { listed(&versions) }
}

/// Returns text such as `redis at 127.0.0.1:6379 (Redis 7.0.15) by redis 1.0.2`.
fn subject(load: &Load) -> String {
    let servers = load.servers.iter().map(|server| {
        let version = server.version.as_ref().map(|version| format!(" ({version})")).unwrap_or_default();
        format!("{}{version}", server.address)
    });
    let servers: Vec<String> = servers.collect();
    format!("{} at {} by {} {}", load.db, servers.join(", "), load.driver.name, load.driver.version)
}

fn page(load: &Load, figures: Vec<PageFigure>, options: &ReportOptions) -> Result<WebPage, ReportError> {
    let tool = format!("{} {}", load.tool.name, load.tool.version);
    let settings = settings(&load.settings);
    let said = vec![
        Fact::new("protocol", load.protocol.clone()),
        Fact::new("rows", format!("{}, text of {} B", grouped(load.rows), grouped(load.payload_bytes))),
        Fact::new("settings", settings),
        Fact::new("made by", &*tool),
    ];
    let mut repeated = PageTable::from_grid("repetitions", "Repetitions", repetitions(load));
    repeated.folded = true;
    Ok(WebPage {
        title: options.title.clone().unwrap_or_else(|| format!("{}: rates and latencies", system(load))),
        sentences: sentences(load),
        warnings: warnings(load),
        charts: figures,
        tables: vec![PageTable::from_grid("results", "Results", results(load)).with_notes([NOTE.to_owned()]), repeated],
        conditions: vec![Conditions {
            name: subject(load),
            facts: said,
            commands: vec![Fact::new(COMMAND, facts::shell(&load.command_line))],
        }],
        records: vec![embedded("bench", "bench", load)?],
        tool,
        theme: options.page_theme(),
        ..WebPage::default()
    })
}

fn settings(settings: &LoadSettings) -> String {
    let yes = |name: &str, value: Option<bool>| {
        value.map(|value| if value { name.to_owned() } else { format!("not {name}") })
    };
    let said = [
        yes("prepared", settings.prepared),
        yes("without column metadata", settings.skip_metadata),
        yes("binary", settings.binary),
        settings.resp.map(|version| format!("RESP {version}")),
        yes("one command for several keys", settings.multi_key),
        settings.compression.as_ref().map(|name| format!("compression {name}")),
        settings.tls.then(|| "TLS".to_owned()),
        Some(if settings.threads == 1 { "1 thread".to_owned() } else { format!("{} threads", settings.threads) }),
    ];
    said.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

fn sentences(load: &Load) -> Vec<String> {
    let mut said = vec![format!("A load on {}.", subject(load))];
    let with: Vec<(&LoadResult, f64)> =
        load.results.iter().filter_map(|result| Some((result, result.summary?.per_second))).collect();
    let slowest = with.iter().min_by(|a, b| a.1.total_cmp(&b.1));
    let fastest = with.iter().max_by(|a, b| a.1.total_cmp(&b.1));
    let Some((slowest, fastest)) = slowest.zip(fastest) else { return said };
    let rate = |(result, rate): &(&LoadResult, f64)| {
        format!("{} operations a second ({})", grouped(rate.round() as u64), label(load, result))
    };
    said.push(if with.len() == 1 {
        format!("It came to {}.", rate(fastest))
    } else {
        let times = with_digits(fastest.1 / slowest.1.max(f64::MIN_POSITIVE), 2);
        format!("It came from {} to {}, {times} times as many.", rate(slowest), rate(fastest))
    });
    let median = fastest.0.summary.and_then(|summary| fastest.0.runs.get(summary.median_run));
    said.extend(median.filter(|run| run.latency_ns.count > 0).map(|run| {
        let latency = &run.latency_ns;
        let at = if with.len() == 1 { "" } else { "At the highest rate, " };
        let (half, most) = (duration(latency.p50), duration(latency.p99));
        format!(
            "{at}{} of all operations were answered within {half}, 99% within {most}.",
            if at.is_empty() { "Half" } else { "half" }
        )
    }));
    said
}

fn warnings(load: &Load) -> Vec<PageWarning> {
    let of_result = |result: &LoadResult| {
        let errors: u64 = result.runs.iter().map(|run| run.errors).sum();
        let first = result.runs.iter().find_map(|run| run.first_error.as_deref()).map(clean);
        let failed = (errors > 0).then(|| {
            let first = first.map(|first| format!(", the first: {first}")).unwrap_or_default();
            format!("{} operations were not answered as they should be{first}", grouped(errors))
        });
        let alone = (result.runs.len() == 1).then(|| "one run: how far others would be apart is not known".to_owned());
        let partial = result.partial.as_deref().map(|reason| format!("partial: {reason}"));
        let name = label(load, result);
        [failed, partial, alone].into_iter().flatten().map(move |text| (name.clone(), text)).collect::<Vec<_>>()
    };
    let named = |names: Vec<String>| if names.len() == load.results.len() { String::new() } else { names.join("; ") };
    let partial = load.partial.iter().map(|reason| PageWarning { of: String::new(), text: reason.clone() });
    partial.chain(PageWarning::listed(load.results.iter().flat_map(of_result), named)).collect()
}

/// Names of all possible charts of a load.
const NAMES: [&str; 2] = ["rate", "latency"];

/// Returns the charts of a load that have measurements.
pub(super) fn figures(load: &Load) -> Vec<(&'static str, Plot)> {
    let latency = Some(latency(load)).filter(|figure| !figure.lines.is_empty()).map(Plot::Lines);
    NAMES.into_iter().zip([rate(load), latency]).filter_map(|(name, plot)| Some((name, plot?))).collect()
}

/// Draws operations per second: lines if one setting varies, otherwise ranges.
fn rate(load: &Load) -> Option<Plot> {
    let places: BTreeSet<Setting> = load.results.iter().map(setting).collect();
    let pipelines: BTreeSet<u32> = places.iter().map(|(_, pipeline)| *pipeline).collect();
    let varies = |result: &LoadResult| result.rate.is_some();
    if places.len() > 1 && pipelines.len() == 1 && !load.results.iter().any(varies) {
        return Some(rate_by_clients(load, &places)).filter(|figure| !figure.lines.is_empty()).map(Plot::Lines);
    }
    Some(rate_ranges(load)).filter(|figure| !figure.rows.is_empty()).map(Plot::Dots)
}

/// Returns the rates of a result's complete runs, in order.
fn rates(result: &LoadResult) -> Vec<f64> {
    result.runs.iter().filter(|run| run.partial.is_none() && run.operations > 0).map(|run| run.per_second).collect()
}

/// Draws a row for each result, with a point for each run.
fn rate_ranges(load: &Load) -> DotFigure {
    let row = |result: &LoadResult| {
        let rates = rates(result);
        let spread = Spread::from_values(&rates)?;
        let whole = |rate: f64| grouped(rate.round() as u64);
        let figures = match rates.len() {
            1 => format!("{}, of one run", whole(spread.median)),
            _ => format!("{}, from {} to {}", whole(spread.median), whole(spread.min), whole(spread.max)),
        };
        Some(DotRow {
            group: String::new(),
            name: label(load, result),
            figures,
            mark: spread.median,
            bar: (spread.q1, spread.q3),
            line: (spread.min, spread.max),
            points: rates,
        })
    };
    let mut rows: Vec<DotRow> = load.results.iter().filter_map(row).collect();
    let left_out = rows.len().saturating_sub(RANGE_ROWS);
    rows.truncate(RANGE_ROWS);
    let ends = |row: &DotRow| [row.line.0, row.line.1];
    let least = rows.iter().flat_map(ends).fold(f64::INFINITY, f64::min);
    let most = rows.iter().flat_map(ends).fold(0.0, f64::max);
    let logarithmic = least > 0.0 && most / least > 20.0;
    DotFigure {
        title: "Operations per second".to_owned(),
        description: "A row for each combination: the rate of each of its runs, their median, and how far they go."
            .to_owned(),
        x_title: if logarithmic { "operations per second, logarithmic" } else { "operations per second" }.to_owned(),
        logarithmic,
        legend: ["median of the runs", "the half in the middle", "slowest to quickest"].map(str::to_owned),
        rows,
        method: method(load),
        note: format!(
            "A point is a run; where lines of two rows overlap, these have no order. {}",
            only_in_table(left_out, "line")
        ),
        ..DotFigure::default()
    }
}

fn method(load: &Load) -> String {
    format!("Measured by {} {}, as the client saw it.", load.driver.name, load.driver.version)
}

/// Settings of a result apart from its operation.
type Setting = (u32, u32);

fn setting(result: &LoadResult) -> Setting {
    (result.clients, result.pipeline)
}

/// Draws operations per second by number of clients, one line per operation.
fn rate_by_clients(load: &Load, places: &BTreeSet<Setting>) -> LineFigure {
    let operations = distinct(load.results.iter().map(|result| &*result.operation));
    let spread = |operation: &str, place: &Setting| {
        let result = load.results.iter().find(|result| result.operation == operation && setting(result) == *place)?;
        Spread::from_values(&rates(result))
    };
    let line = |operation: &str| (operation.to_owned(), places.iter().map(|place| spread(operation, place)).collect());
    let mut lines: Vec<Line> = operations.into_iter().map(line).collect();
    lines.retain(|(_, spreads)| spreads.iter().any(Option::is_some));
    let left_out = left_out(&mut lines, "line");
    LineFigure {
        title: "Operations per second".to_owned(),
        description: "Lines: the median rate of each operation, with its spread over the runs, by clients.".to_owned(),
        x_title: "clients".to_owned(),
        y_title: "operations per second".to_owned(),
        places: places.iter().map(|(clients, _)| clients.to_string()).collect(),
        lines,
        method: method(load),
        note: format!("Points are medians over the runs, thick bars the middle half, thin ones the range. {left_out}"),
        ..LineFigure::default()
    }
}

/// Draws the latencies of each result's median run by percentile.
fn latency(load: &Load) -> LineFigure {
    let mut lines: Vec<Line> = load
        .results
        .iter()
        .filter_map(|result| {
            let latency = &result.runs.get(result.summary?.median_run)?.latency_ns;
            let of = [latency.p50, latency.p90, latency.p99, latency.p999, latency.p9999, latency.max];
            Some((label(load, result), of.map(|ns| (ns > 0).then(|| (ns as f64 / 1e3).into())).to_vec()))
        })
        .collect();
    let left_out = left_out(&mut lines, "line");
    LineFigure {
        title: "Latency by percentile".to_owned(),
        description: "Lines: how long the slowest operations took, from the median to the slowest of all.".to_owned(),
        x_title: "of the operations took no longer".to_owned(),
        y_title: "µs, logarithmic".to_owned(),
        logarithmic: true,
        places: ["50%", "90%", "99%", "99.9%", "99.99%", "all"].map(str::to_owned).to_vec(),
        lines,
        method: method(load),
        note: format!("Latencies of the median run of each combination. {left_out}"),
        ..LineFigure::default()
    }
}
