//! The figures of the write-up: costs per operation, rates and latencies, pipelines, settings.

use super::load::{clients, median};
use super::study::{OPERATIONS, Study, title};
use crate::error::ReportError;
use crate::figure::{FigureOptions, ImageFormat, LoadFigure, LoadRow, draw, draw_load};
use crate::run::NamedRun;
use overhead_model::load::LoadResult;

/// A figure's file, and its contents.
pub(super) type File = (String, Vec<u8>);

const FORMATS: [(&str, ImageFormat); 2] = [("svg", ImageFormat::Svg), ("png", ImageFormat::Png)];

/// All figures, each in both formats.
pub(super) fn figures(study: &Study) -> Result<Vec<File>, ReportError> {
    let mut files = Vec::new();
    for operation in OPERATIONS {
        let cells = study.systems().into_iter().filter_map(|db| study.cell(db, operation, 1));
        let runs: Vec<NamedRun> = cells.map(|cell| cell.named(title(&cell.load.db))).collect();
        costs(&mut files, operation, &format!("One operation: {operation}"), &runs)?;
    }
    let settings: Vec<NamedRun> = study
        .settings()
        .iter()
        .flat_map(|setting| {
            let name = |label: &str| format!("{}, {}, {label}", title(&setting.with.load.db), setting.with.operation());
            [setting.default.named(&name("default")), setting.with.named(&name(&setting.label))]
        })
        .collect();
    costs(&mut files, "settings", "What settings of the drivers change", &unique(settings))?;
    for operation in OPERATIONS {
        let cells = study.pipeline("redis", operation);
        let runs: Vec<NamedRun> =
            cells.iter().map(|cell| cell.named(&format!("Redis, pipeline of {}", cell.pipeline()))).collect();
        if runs.len() > 1 {
            costs(&mut files, &format!("pipeline-{operation}"), &format!("Redis, pipelines of {operation}"), &runs)?;
        }
    }
    let load = load(study);
    for (suffix, format) in FORMATS {
        files.push((format!("load.{suffix}"), draw_load(&load, format)?));
    }
    Ok(files)
}

/// A default stands once before all that differ from it.
fn unique(runs: Vec<NamedRun>) -> Vec<NamedRun> {
    let mut kept: Vec<NamedRun> = Vec::new();
    for run in runs {
        if !kept.iter().any(|other| other.name == run.name) {
            kept.push(run);
        }
    }
    kept
}

fn costs(files: &mut Vec<File>, name: &str, title: &str, runs: &[NamedRun]) -> Result<(), ReportError> {
    if runs.is_empty() {
        return Ok(());
    }
    let options = FigureOptions { title: title.to_owned(), operations_per_run: Some(1) };
    for (suffix, format) in FORMATS {
        files.push((format!("{name}.{suffix}"), draw(runs, format, &options)?));
    }
    Ok(())
}

fn load(study: &Study) -> LoadFigure {
    let clients = clients(study);
    let (few, many) = (clients.first().copied().unwrap_or(1), clients.last().copied().unwrap_or(1));
    let mut rows = Vec::new();
    for db in study.systems() {
        for (at, operation) in OPERATIONS.into_iter().enumerate() {
            let results = [few, many].map(|clients| study.result(db, operation, clients));
            let figure = |of: fn(&LoadResult) -> Option<f64>| results.map(|result| result.and_then(of));
            rows.push(LoadRow {
                system: title(db).to_owned(),
                first: at == 0,
                operation: operation.to_owned(),
                per_second: figure(|result| Some(result.summary?.per_second)),
                latency_us: [
                    figure(|result| Some(median(result)?.latency_ns.p50 as f64 / 1e3)),
                    figure(|result| Some(median(result)?.latency_ns.p99 as f64 / 1e3)),
                ],
            });
        }
    }
    let tag = |clients| if clients == 1 { "1 client".to_owned() } else { format!("{clients} clients") };
    let runs = study.loads.iter().flat_map(|load| &load.results).map(|result| result.runs.len()).max().unwrap_or(0);
    LoadFigure {
        title: "Rates and latencies".to_owned(),
        tags: [tag(few), tag(many)],
        rows,
        notes: vec![(
            "How to read:",
            format!(
                "the client's side, without a capture: the run with the median rate of {runs}. Each client has a connection of its own \
                 and waits for an answer before it sends again. Client and server share the CPUs of one machine."
            ),
        )],
    }
}
