//! A load folder: its charts, tables and page.

use super::figures::figures;
use super::tables::{label, repetitions, results};
use crate::clean::clean;
use crate::document::{COMMAND, Document, Fact, Section};
use crate::error::ReportError;
use crate::figure::ReportOptions;
use crate::number::{duration, grouped, with_digits};
use crate::page::{Conditions, PAGE_FILE, PageFigure, PageTable, PageWarning, WebPage, embedded};
use crate::report_folder::{self, TABLES_FILE};
use crate::summary::listed;
use crate::text::facts;
use overhead_files::OutputFolder;
use overhead_model::load::{Load, LoadResult, LoadSettings};
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
