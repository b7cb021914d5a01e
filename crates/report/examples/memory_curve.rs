//! Draws the memory of a process over time, as `lab/measure/soak.py` samples it. The argument is a CSV file with `seconds`, `rss_kb` and
//! `anonymous_kb`, after a first line with the note below the chart. Writes SVG and PNG next to the file.

#![allow(clippy::unwrap_used, reason = "a tool of the lab: what cannot be read is shown by the panic")]

use overhead_report::figure::{Band, TimeAxis};
use overhead_report::{LineFigure, Plot};
use std::path::PathBuf;

/// Seconds that are left out of the verdict.
const WARM_UP: f64 = 60.0;

fn main() {
    let record = PathBuf::from(std::env::args_os().nth(1).unwrap());
    let text = std::fs::read_to_string(&record).unwrap();
    let row = |line: &str| -> [f64; 3] {
        let fields: Vec<f64> = line.split(',').take(3).map(|field| field.parse().unwrap()).collect();
        fields.try_into().unwrap()
    };
    let rows: Vec<[f64; 3]> = text.lines().skip(2).map(row).collect();
    let megabytes = |column: usize| rows.iter().map(|row| Some((row[column] * 1024.0 / 1e6).into())).collect();
    let figure = LineFigure {
        title: "overhead capture: memory at full rate".to_owned(),
        description: "Resident and anonymous memory of overhead capture over the time of a soak".to_owned(),
        x_title: "seconds since the start of the capture".to_owned(),
        y_title: "memory, MB".to_owned(),
        places: vec![String::new(); rows.len()],
        positions: rows.iter().map(|row| row[0]).collect(),
        time: Some(TimeAxis {
            from: 0.0,
            to: rows.last().unwrap()[0],
            bands: vec![Band { from: 0.0, to: WARM_UP, name: "warm-up".to_owned() }],
        }),
        lines: vec![("resident".to_owned(), megabytes(1)), ("heap and stacks".to_owned(), megabytes(2))],
        note: text.lines().next().unwrap().trim_start_matches("# ").to_owned(),
        ..LineFigure::default()
    };
    for (name, bytes) in Plot::Lines(figure).files("soak").unwrap() {
        std::fs::write(record.with_file_name(name), bytes).unwrap();
    }
}
