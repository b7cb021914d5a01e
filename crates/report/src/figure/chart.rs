//! The content of a chart: rows (one operation of a run each) with bars in three panels.

use super::palette;
use super::panels;
use crate::bounds::LowerBounds;
use crate::clean::{clean, shortened};
use crate::limits::{FIGURE_NAME_CHARS, FIGURE_NEGLIGIBLE, FIGURE_ROWS};
use crate::number::{bytes_label, counted, grouped, percent};
use crate::run::NamedRun;
use crate::summary::{both_sides, noteworthy, per_operation, workload};
use crate::sums::kind;
use overhead_model::record::OperationRow;
use palette::Rgb;

pub(crate) struct Chart {
    pub rows: Vec<BarRow>,
    /// Bytes, system calls and CPU work, as far as they were measured; only one in a stacked layout.
    pub panels: Vec<Panel>,
}

#[derive(Clone)]
pub(crate) struct BarRow {
    pub run: String,
    /// Operation and way of sending, or why there is none.
    pub operation: String,
    /// Count and total; empty without operations.
    pub count: String,
    pub total: String,
    /// Whether it starts a run.
    pub first: bool,
    /// Number of rows of the run, set at its first row.
    pub rows_of_run: usize,
    /// Summary of omissions, at the last row of a run.
    pub remainder: Option<String>,
    /// Whether its bytes are lower bounds.
    pub at_least: bool,
}

/// One kind of bar for every row.
#[derive(Clone)]
pub(crate) struct Panel {
    pub title: &'static str,
    /// Unit, and how it came about.
    pub unit: String,
    pub legend: Vec<(String, Rgb)>,
    pub tags: [String; 2],
    /// `None` if a row shares the bars of the row before.
    pub rows: Vec<Option<[Bar; 2]>>,
    pub print: fn(f64) -> String,
    /// Whether a bar covers all operations of its run.
    pub whole_run: bool,
}

/// Parts stacked from zero, or why there are none.
pub(crate) type Bar = Result<Vec<BarPart>, String>;

/// A part of a bar in the panel's unit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct BarPart {
    pub value: f64,
    pub color: Rgb,
}

/// An operation to draw, with its run.
pub(crate) struct Drawn<'a> {
    pub named: &'a NamedRun,
    /// `None` for a run without workload.
    pub operation: Option<&'a OperationRow>,
    pub row: BarRow,
}

impl Chart {
    #[cfg(test)]
    pub(crate) fn new(runs: &[NamedRun], operations_per_run: Option<usize>) -> Self {
        Self::choosing(runs, operations_per_run, &[])
    }

    /// Builds a chart of each run's largest operations, or of the operations with these names if there are any.
    pub(crate) fn choosing(runs: &[NamedRun], operations_per_run: Option<usize>, names: &[String]) -> Self {
        let room = (FIGURE_ROWS / runs.len().max(1)).max(1);
        // Keep comparable operations of the runs in the same order.
        let mut order: Vec<&str> = Vec::new();
        let drawn: Vec<Drawn<'_>> = runs
            .iter()
            .flat_map(|named| {
                let all = workload(&named.run);
                let mut chosen = match operations_per_run {
                    _ if !names.is_empty() => all.iter().copied().filter(|row| is_named(row, names)).collect(),
                    Some(limit) => all.iter().copied().take(limit.max(1)).collect(),
                    None => noteworthy(&all, room),
                };
                order.extend(chosen.iter().map(|row| kind(&row.name)));
                chosen.sort_by_key(|row| order.iter().position(|known| *known == kind(&row.name)));
                drawn_rows(named, &all, &chosen)
            })
            .collect();
        let mut panels = vec![panels::bytes(&drawn), panels::syscalls(&drawn, runs), panels::cpu(&drawn, runs)];
        panels.retain(Panel::is_measured);
        Self { rows: drawn.into_iter().map(|drawn| drawn.row).collect(), panels }
    }

    /// Splits the chart into one per panel, with one row per run if bars cover a whole run.
    pub(crate) fn stacked(&self) -> Vec<Self> {
        let of_panel = |panel: &Panel| {
            let whole = |row: &BarRow| BarRow {
                operation: "whole workload".to_owned(),
                count: String::new(),
                total: String::new(),
                rows_of_run: 1,
                remainder: None,
                ..row.clone()
            };
            let (rows, bars) = if panel.whole_run {
                let firsts = self.rows.iter().zip(&panel.rows).filter(|(row, _)| row.first);
                firsts.map(|(row, bars)| (whole(row), bars.clone())).unzip()
            } else {
                (self.rows.clone(), panel.rows.clone())
            };
            Self { rows, panels: vec![Panel { rows: bars, ..panel.clone() }] }
        };
        self.panels.iter().map(of_panel).collect()
    }
}

impl Panel {
    pub(crate) fn max(&self) -> f64 {
        let bars = self.rows.iter().flatten().flatten().filter_map(|bar| bar.as_ref().ok());
        bars.map(|parts| parts.iter().map(|part| part.value).sum()).fold(0.0, f64::max)
    }

    /// Returns whether it has any bar. Bytes are always available.
    fn is_measured(&self) -> bool {
        !self.whole_run || self.rows.iter().flatten().flatten().any(Result::is_ok)
    }
}

/// Returns whether an operation has one of these names, ignoring case.
pub(crate) fn is_named(row: &OperationRow, names: &[String]) -> bool {
    names.iter().any(|name| name.eq_ignore_ascii_case(&row.name))
}

fn drawn_rows<'a>(named: &'a NamedRun, all: &[&'a OperationRow], chosen: &[&'a OperationRow]) -> Vec<Drawn<'a>> {
    let last = chosen.len().saturating_sub(1);
    let drawn = |(at, operation)| {
        let bounds = LowerBounds::new(&named.run);
        let (words, count, total) = match operation {
            None => ("no workload operations".to_owned(), String::new(), String::new()),
            Some(operation) => words(operation, bounds),
        };
        let row = BarRow {
            run: shortened(&clean(&named.name), FIGURE_NAME_CHARS),
            operation: shortened(&words, FIGURE_NAME_CHARS),
            count,
            total,
            first: at == 0,
            rows_of_run: if at == 0 { chosen.len().max(1) } else { 0 },
            remainder: if at == last { remainder(all, chosen) } else { None },
            at_least: bounds.wire,
        };
        Drawn { named, operation, row }
    };
    if chosen.is_empty() {
        return vec![drawn((0, None))];
    }
    chosen.iter().map(|row| Some(*row)).enumerate().map(drawn).collect()
}

fn words(row: &OperationRow, bounds: LowerBounds) -> (String, String, String) {
    let name = clean(&row.name);
    let operation = if row.via.is_empty() { name } else { format!("{name} · {}", clean(&row.via)) };
    let count = format!("n = {}", grouped(row.samples()));
    let total = match per_operation(both_sides(row).total(), row.samples()) {
        Some(mean) => bounds.wire(format!("{} B/op", bytes_label(mean))),
        None => String::new(),
    };
    (operation, count, total)
}

/// Summarises the number and size of the omitted operations, unless they are negligible.
fn remainder(all: &[&OperationRow], chosen: &[&OperationRow]) -> Option<String> {
    let rest: Vec<&OperationRow> =
        all.iter().filter(|row| !chosen.iter().any(|drawn| std::ptr::eq(*drawn, **row))).copied().collect();
    let bytes = |rows: &[&OperationRow]| rows.iter().map(|row| both_sides(row).total()).sum::<u64>();
    let (few, all) = (bytes(&rest), bytes(all));
    (few > 0 && few >= all / FIGURE_NEGLIGIBLE).then(|| {
        let share = percent(few, all);
        format!("and {} not drawn, {share} of the bytes", counted(rest.len() as u64, "more operation"))
    })
}
