//! What a figure shows: rows (an operation of a run each) and, for each row, the bars of three panels.

use super::palette;
use super::panels;
use crate::limits::{FIGURE_NEGLIGIBLE, FIGURE_OPERATIONS, FIGURE_ROWS};
use crate::run::NamedRun;
use crate::summary::{both_sides, workload};
use crate::text::clean;
use crate::text::number::{counted, percent};
use overhead_model::record::OperationRow;
use palette::Rgb;

/// A figure's content.
pub(crate) struct Chart {
    pub rows: Vec<Row>,
    pub panels: [Panel; 3],
}

/// A line of bars.
pub(crate) struct Row {
    pub run: String,
    /// Operation and way of sending, or why there is none.
    pub operation: String,
    /// How many there were, and what they come to; empty without operations.
    pub count: String,
    pub total: String,
    /// Begins a run.
    pub first: bool,
    /// Rows of the same run, at its first row.
    pub rows_of_run: usize,
    /// What was left out, at the last row of a run.
    pub remainder: Option<String>,
}

/// One kind of bar for every row.
pub(crate) struct Panel {
    pub title: &'static str,
    /// Unit, and how it came about.
    pub unit: String,
    pub legend: Vec<(String, Rgb)>,
    /// Tags of the two bars of a row.
    pub tags: [String; 2],
    /// `None` where a row shares the bars of the row before.
    pub rows: Vec<Option<[Bar; 2]>>,
    /// Prints a bar's total.
    pub print: fn(f64) -> String,
    /// Bars of a run are those of all its operations.
    pub whole_run: bool,
}

/// A stack of parts from zero, or why there is none.
pub(crate) type Bar = Result<Vec<Part>, String>;

/// A part of a bar in the panel's unit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Part {
    pub value: f64,
    pub color: Rgb,
}

/// An operation to be drawn, with its run.
pub(crate) struct Drawn<'a> {
    pub named: &'a NamedRun,
    /// `None` for a run without workload.
    pub operation: Option<&'a OperationRow>,
    pub first: bool,
}

impl Chart {
    pub(crate) fn of(runs: &[NamedRun], operations_per_run: Option<usize>) -> Self {
        let room = (FIGURE_ROWS / runs.len().max(1)).min(FIGURE_OPERATIONS);
        let limit = |named: &NamedRun| operations_per_run.unwrap_or_else(|| room.min(noteworthy(named))).max(1);
        let drawn: Vec<Drawn<'_>> = runs.iter().flat_map(|named| largest(named, limit(named))).collect();
        let panels = [panels::bytes(&drawn), panels::syscalls(&drawn, runs), panels::cpu(&drawn, runs)];
        let rows = drawn.iter().map(|drawn| row(drawn, limit(drawn.named))).collect();
        Self { rows, panels }
    }
}

impl Panel {
    /// The longest bar.
    pub(crate) fn max(&self) -> f64 {
        let bars = self.rows.iter().flatten().flatten().filter_map(|bar| bar.as_ref().ok());
        bars.map(|parts| parts.iter().map(|part| part.value).sum()).fold(0.0, f64::max)
    }

    /// Why a panel of counters has not a single bar; `None` where there is one. Bytes are always there to be counted.
    pub(crate) fn absence(&self) -> Option<String> {
        if !self.whole_run {
            return None;
        }
        let bars: Vec<&Bar> = self.rows.iter().flatten().flatten().collect();
        let mut reasons: Vec<&str> = bars.iter().filter_map(|bar| bar.as_ref().err().map(String::as_str)).collect();
        reasons.dedup();
        (!reasons.is_empty() && bars.iter().all(|bar| bar.is_err())).then(|| {
            reasons.sort_unstable();
            reasons.dedup();
            reasons.join("; ")
        })
    }
}

/// Operations that matter to the run's bytes; they come first.
fn noteworthy(named: &NamedRun) -> usize {
    let bytes: Vec<u64> = workload(&named.run).iter().map(|row| both_sides(row).total()).collect();
    let floor = bytes.iter().sum::<u64>() / FIGURE_NEGLIGIBLE;
    bytes.iter().filter(|bytes| **bytes >= floor).count()
}

fn largest(named: &NamedRun, limit: usize) -> Vec<Drawn<'_>> {
    let operations: Vec<_> = workload(&named.run).into_iter().take(limit).collect();
    if operations.is_empty() {
        return vec![Drawn { named, operation: None, first: true }];
    }
    let drawn = |(at, operation)| Drawn { named, operation: Some(operation), first: at == 0 };
    operations.into_iter().enumerate().map(drawn).collect()
}

fn row(drawn: &Drawn<'_>, limit: usize) -> Row {
    let all = workload(&drawn.named.run);
    let is_last = match (drawn.operation, all.iter().take(limit).next_back()) {
        (Some(operation), Some(last)) => std::ptr::eq(operation, *last),
        _ => false,
    };
    let run = clean(&drawn.named.name);
    let rows_of_run = if drawn.first { all.len().clamp(1, limit) } else { 0 };
    let remainder = if is_last { remainder(&all, limit) } else { None };
    let (operation, count, total) = match drawn.operation {
        None => ("no workload operations".to_owned(), String::new(), String::new()),
        Some(operation) => words(operation),
    };
    Row { run, operation, count, total, first: drawn.first, rows_of_run, remainder }
}

fn words(row: &OperationRow) -> (String, String, String) {
    let name = clean(&row.name);
    let operation = if row.via.is_empty() { name } else { format!("{name} · {}", clean(&row.via)) };
    let count = format!("n = {}", crate::text::number::grouped(row.count));
    let total = both_sides(row).total();
    let total = match crate::summary::per_operation(total, row.count) {
        Some(mean) => format!("{} B/op", crate::text::number::bytes_label(mean)),
        None => String::new(),
    };
    (operation, count, total)
}

fn remainder(all: &[&OperationRow], limit: usize) -> Option<String> {
    let rest = all.get(limit..).filter(|rest| !rest.is_empty())?;
    let bytes = |rows: &[&OperationRow]| rows.iter().map(|row| both_sides(row).total()).sum();
    let share = match (bytes(rest), bytes(all)) {
        (few, all) if few < all / FIGURE_NEGLIGIBLE => "under 0.1%".to_owned(),
        (some, all) => percent(some, all),
    };
    Some(format!("and {} not drawn, {share} of the bytes", counted(rest.len() as u64, "smaller operation")))
}
