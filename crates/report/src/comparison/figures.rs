//! The figures of the write-up: costs per operation, rates and latencies, pipelines, settings.

use super::load::{clients, median, on_cpu_us};
use super::study::{OPERATIONS, Study, title};
use crate::error::ReportError;
use crate::figure::{FigureOptions, ImageFormat, PairFigure, PairPanel, PairRow, draw, draw_pairs};
use crate::run::NamedRun;
use crate::summary::{RoleName, both_sides};
use crate::text::number::{grouped, significant};
use overhead_model::load::LoadResult;

/// A figure's file, and its contents.
pub(super) type File = (String, Vec<u8>);

const fn suffix(format: ImageFormat) -> &'static str {
    match format {
        ImageFormat::Svg => "svg",
        ImageFormat::Png => "png",
    }
}

/// All figures, each in both formats.
pub(super) fn figures(study: &Study) -> Result<Vec<File>, ReportError> {
    let mut files = Vec::new();
    for operation in OPERATIONS {
        let cells = study.systems().into_iter().filter_map(|db| study.cell(db, operation, 1));
        let runs: Vec<NamedRun> = cells.map(|cell| cell.named(title(&cell.load.db))).collect();
        costs(&mut files, operation, &format!("One operation: {operation}"), &runs)?;
    }
    for operation in OPERATIONS {
        let cells = study.pipeline("redis", operation);
        let runs: Vec<NamedRun> =
            cells.iter().map(|cell| cell.named(&format!("pipeline of {}", cell.pipeline()))).collect();
        if runs.len() > 1 {
            costs(&mut files, &format!("pipeline-{operation}"), &format!("Redis, pipelines of {operation}"), &runs)?;
        }
    }
    pairs(&mut files, "settings", settings(study))?;
    pairs(&mut files, "load", load(study))?;
    Ok(files)
}

fn costs(files: &mut Vec<File>, name: &str, title: &str, runs: &[NamedRun]) -> Result<(), ReportError> {
    if runs.is_empty() {
        return Ok(());
    }
    let options = FigureOptions { title: title.to_owned(), operations_per_run: Some(1) };
    for format in [ImageFormat::Svg, ImageFormat::Png] {
        files.push((format!("{name}.{}", suffix(format)), draw(runs, format, &options)?));
    }
    Ok(())
}

fn pairs(files: &mut Vec<File>, name: &str, figure: PairFigure) -> Result<(), ReportError> {
    if figure.rows.is_empty() {
        return Ok(());
    }
    for (format, bytes) in draw_pairs(figure)? {
        files.push((format!("{name}.{}", suffix(format)), bytes));
    }
    Ok(())
}

fn load(study: &Study) -> PairFigure {
    let clients = clients(study);
    let ends = [clients.first(), clients.last()].map(|clients| clients.copied().unwrap_or(1));
    let mut rows = Vec::new();
    let mut results = Vec::new();
    for db in study.systems() {
        for (at, operation) in OPERATIONS.into_iter().enumerate() {
            rows.push(PairRow { group: title(db).to_owned(), first: at == 0, label: operation.to_owned() });
            results.push(ends.map(|clients| study.result(db, operation, clients)));
        }
    }
    let figures = |of: fn(&LoadResult) -> Option<f64>| {
        results.iter().map(|pair| pair.map(|result| result.and_then(of))).collect::<Vec<_>>()
    };
    let whole = |value: f64| grouped(value.round() as u64);
    let runs = results.iter().flatten().flatten().map(|result| result.runs.len()).max().unwrap_or(0);
    let tag = |clients| if clients == 1 { "1 client".to_owned() } else { format!("{clients} clients") };
    PairFigure {
        title: "Rates and latencies".to_owned(),
        description: "Bar charts with a row per system and operation: requests per second, median latency and 99th \
                      percentile of the latency, each with few clients and with many.",
        tags: ends.map(tag),
        rows,
        panels: [
            PairPanel::of_figures(
                "Requests per second",
                "more is better",
                whole,
                figures(|result| Some(result.summary?.per_second)),
            ),
            PairPanel::of_figures(
                "Latency, median",
                "µs, less is better",
                significant,
                figures(|result| Some(median(result)?.latency_ns.p50 as f64 / 1e3)),
            ),
            PairPanel::of_figures(
                "Latency, 99th percentile",
                "µs, less is better",
                significant,
                figures(|result| Some(median(result)?.latency_ns.p99 as f64 / 1e3)),
            ),
        ],
        notes: vec![(
            "How to read:",
            format!(
                "the client's side, without a capture: the run with the median rate of {runs}. Each client has a connection \
                 of its own and waits for an answer before it sends again. Client and server share the CPUs of one machine."
            ),
        )],
    }
}

fn settings(study: &Study) -> PairFigure {
    let settings = study.settings();
    let mut rows: Vec<PairRow> = Vec::new();
    for setting in &settings {
        let group = title(&setting.with.load.db).to_owned();
        let first = rows.last().is_none_or(|row| row.group != group);
        rows.push(PairRow { group, first, label: format!("{}, {}", setting.with.operation(), setting.label) });
    }
    let amounts: Vec<_> = settings
        .iter()
        .map(|setting| {
            [setting.default, setting.with]
                .map(|cell| cell.row().map(|row| (both_sides(row), row.samples())).unwrap_or_default())
        })
        .collect();
    let cpu = |role| {
        settings.iter().map(|setting| [setting.default, setting.with].map(|cell| on_cpu_us(cell, role))).collect()
    };
    PairFigure {
        title: "What settings of the drivers change".to_owned(),
        description: "Bar charts with a row per setting: bytes per operation by account, CPU time of server and client per \
                      operation, each by default and with the setting.",
        tags: ["default", "with it"].map(str::to_owned),
        rows,
        panels: [
            PairPanel::of_accounts("Bytes per operation", "B on the wire, both directions, by account", &amounts),
            PairPanel::of_figures("Server CPU", "µs per operation", significant, cpu(RoleName::Server)),
            PairPanel::of_figures("Client CPU", "µs per operation", significant, cpu(RoleName::Client)),
        ],
        notes: vec![(
            "How to read:",
            "one client. Greys are frame headers, reds frames without payload and repeats, blue to green the protocol, amber \
             the user's own data; what is compressed is shared between them in proportion to what it decompresses to."
                .to_owned(),
        )],
    }
}
