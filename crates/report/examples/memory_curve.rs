//! Draws the memory of a process over time, as `lab/measure/soak` samples it: CSV with `seconds`, `rss_kb` and `anonymous_kb` on
//! standard input; the first argument names an SVG and a PNG, the second is the note below the figure.

#![allow(clippy::unwrap_used, reason = "a tool of the lab: what cannot be read is shown by the panic")]

use overhead_model::Spread;
use overhead_report::{LineFigure, Plot};
use std::io::Read;

/// Places on the axis of time.
const PLACES: usize = 20;

fn main() {
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text).unwrap();
    let arguments: Vec<String> = std::env::args().collect();
    let row = |line: &str| -> [f64; 3] {
        let fields: Vec<f64> = line.split(',').take(3).map(|field| field.parse().unwrap()).collect();
        fields.try_into().unwrap()
    };
    let rows: Vec<[f64; 3]> = text.lines().skip(1).map(row).collect();
    let parts: Vec<&[[f64; 3]]> = rows.chunks(rows.len().div_ceil(PLACES)).collect();
    let spreads = |column: usize| -> Vec<Option<Spread>> {
        let megabytes = |row: &[f64; 3]| row[column] * 1024.0 / 1e6;
        parts.iter().map(|part| Spread::of(&part.iter().map(megabytes).collect::<Vec<_>>())).collect()
    };
    let columns = [("resident", spreads(1)), ("of it anonymous: heap and stacks", spreads(2))];
    let medians = |spreads: &[Option<Spread>]| spreads.iter().map(|spread| spread.map(|of| of.median)).collect();
    let figure = LineFigure {
        title: "Memory of a capture at full rate".to_owned(),
        description: "Resident and anonymous memory of overhead capture over the time of a soak".to_owned(),
        x_title: "seconds since the capture began, at the end of each interval".to_owned(),
        y_title: "MB: median, quartiles and extremes of each interval".to_owned(),
        places: parts.iter().map(|part| format!("{:.0}", part.last().unwrap()[0])).collect(),
        lines: columns.iter().map(|(name, spreads)| ((*name).to_owned(), medians(spreads))).collect(),
        spreads: columns.iter().map(|(_, spreads)| spreads.clone()).collect(),
        note: arguments.get(2).cloned().unwrap_or_default(),
        ..LineFigure::default()
    };
    for (name, bytes) in Plot::Lines(figure).files(&arguments[1]).unwrap() {
        std::fs::write(name, bytes).unwrap();
    }
}
