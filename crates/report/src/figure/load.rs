//! A figure of rates and latencies: for each system and operation two bars, of few clients and of many.

use super::caption::{self, Paragraph};
use super::chart::{Bar, Chart, Panel, Part, Row};
use super::palette::{KERNEL, USER};
use super::{ImageFormat, layout, paint};
use crate::error::ReportError;
use crate::text::number::{grouped, significant};

/// What is drawn.
pub(crate) struct LoadFigure {
    /// Heading.
    pub title: String,
    /// What the two bars of a row are.
    pub tags: [String; 2],
    /// In order.
    pub rows: Vec<LoadRow>,
    /// Paragraphs below, each with its first words.
    pub notes: Vec<(&'static str, String)>,
}

/// A pair of bars in each panel.
pub(crate) struct LoadRow {
    /// The system.
    pub system: String,
    /// It begins here.
    pub first: bool,
    /// What was asked for.
    pub operation: String,
    /// Requests per second, of both bars.
    pub per_second: [Option<f64>; 2],
    /// Median and 99th percentile of the latency in microseconds, of both bars.
    pub latency_us: [[Option<f64>; 2]; 2],
}

const DESCRIPTION: &str = "Bar charts with a row per system and operation: requests per second, median latency and 99th percentile of \
the latency, each with few clients and with many.";

/// The figure as the bytes of an image file.
pub(crate) fn draw_load(figure: &LoadFigure, format: ImageFormat) -> Result<Vec<u8>, ReportError> {
    let chart = Chart { rows: figure.rows.iter().map(row).collect(), panels: panels(figure) };
    let notes: Vec<Paragraph> = figure.notes.iter().map(|(lead, text)| caption::note(lead, text)).collect();
    let scene = layout::scene(&chart, &figure.title, &notes);
    match format {
        ImageFormat::Svg => paint::svg(&scene, &figure.title, DESCRIPTION),
        ImageFormat::Png => paint::png(&scene),
    }
}

fn row(row: &LoadRow) -> Row {
    Row {
        run: row.system.clone(),
        operation: row.operation.clone(),
        count: String::new(),
        total: String::new(),
        first: row.first,
        rows_of_run: 1,
        remainder: None,
    }
}

fn panels(figure: &LoadFigure) -> [Panel; 3] {
    let panel = |title, unit: &str, print, values: &dyn Fn(&LoadRow) -> [Option<f64>; 2]| Panel {
        title,
        unit: unit.to_owned(),
        legend: figure.tags.iter().cloned().zip([USER, KERNEL]).collect(),
        tags: figure.tags.clone(),
        rows: figure.rows.iter().map(|row| Some(bars(values(row)))).collect(),
        print,
        whole_run: false,
    };
    [
        panel("Requests per second", "more is better", |value| grouped(value.round() as u64), &|row| row.per_second),
        panel("Latency, median", "µs, less is better", significant, &|row| row.latency_us[0]),
        panel("Latency, 99th percentile", "µs, less is better", significant, &|row| row.latency_us[1]),
    ]
}

fn bars(values: [Option<f64>; 2]) -> [Bar; 2] {
    let bar = |value: Option<f64>, color| match value {
        Some(value) => Ok(vec![Part { value, color }]),
        None => Err("no run".to_owned()),
    };
    [bar(values[0], USER), bar(values[1], KERNEL)]
}
