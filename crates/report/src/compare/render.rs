//! A comparison in words and numbers.

use super::{AccountDifference, Comparison, FieldDifference, KindPair, Subject, WorkDifference};
use crate::bounds::LowerBounds;
use crate::error::ReportError;
use crate::text::grid::{Column, Grid, bold, wrapped};
use crate::text::markdown::github_table;
use crate::text::number::{DASH, decimal, grouped, microseconds, significant};
use crate::text::{Style, clean, markdown_cell};
use overhead_model::Account;
use overhead_model::record::Measured;

/// Bytes per operation below which a difference is not worth a line: it rounds to nothing.
const VISIBLE: f64 = 0.05;

/// How tables are laid out.
enum TableForm {
    Text(Style),
    Markdown,
}

/// For a terminal.
pub fn table(comparison: &Comparison, style: Style) -> String {
    render(comparison, &TableForm::Text(style))
}

/// For a document.
pub fn markdown(comparison: &Comparison) -> String {
    render(comparison, &TableForm::Markdown)
}

/// As indented JSON, with a newline at the end.
///
/// # Errors
///
/// [`ReportError::Json`] when a number is not finite.
pub fn json(comparison: &Comparison) -> Result<String, ReportError> {
    Ok(serde_json::to_string_pretty(comparison)? + "\n")
}

fn render(comparison: &Comparison, form: &TableForm) -> String {
    let runs = comparison.runs.each_ref().map(|name| clean(name));
    let mut out = form.heading(1, &format!("{} and {}", runs[0], runs[1]));
    for pair in &comparison.pairs {
        out.push_str(&form.heading(2, &title(pair)));
        out.push_str(&form.paragraph(&pair.summary()));
        out.push_str(&form.table(
            &columns(&["account", "side"], &runs),
            pair.accounts.iter().map(|a| account_cells(a, pair)).collect(),
        ));
        out.push_str(&fields(pair, &runs, form));
    }
    for (name, alone) in runs.iter().zip(&comparison.alone).filter(|(_, alone)| !alone.is_empty()) {
        let subjects: Vec<String> = alone.iter().map(|subject| clean(&subject.label())).collect();
        out.push_str(&form.paragraph(&format!("In {name} alone: {}.", subjects.join(", "))));
    }
    let work: Vec<_> =
        comparison.work.iter().filter(|work| work.per_operation.iter().any(is_measured)).map(work_cells).collect();
    if !work.is_empty() {
        out.push_str(&form.heading(2, "Work per operation, all workload operations together"));
        out.push_str(&form.table(&columns(&["role", "figure"], &runs), work));
    }
    for remark in work_reasons(comparison).chain(comparison.remarks.iter().map(|remark| clean(remark))) {
        out.push_str(&form.paragraph(&remark));
    }
    out
}

impl TableForm {
    fn heading(&self, level: usize, text: &str) -> String {
        match self {
            Self::Text(style) if style.color => format!("{}\n\n", bold(text)),
            Self::Text(_) => format!("{text}\n\n"),
            Self::Markdown => format!("{} {}\n\n", "#".repeat(level + 1), markdown_cell(text)),
        }
    }

    fn paragraph(&self, text: &str) -> String {
        match self {
            Self::Text(style) => format!("{}\n\n", wrapped(text, style.prose)),
            Self::Markdown => format!("{}\n\n", markdown_cell(text)),
        }
    }

    fn table(&self, columns: &[&str], rows: Vec<Vec<String>>) -> String {
        let column = |(at, name): (usize, &&str)| if at < KEYS { Column::left(name) } else { Column::right(name) };
        let columns: Vec<Column> = columns.iter().enumerate().map(column).collect();
        let text = match self {
            Self::Text(style) => Grid { columns, rows, keys: KEYS }.render(*style),
            Self::Markdown => github_table(&columns, &rows),
        };
        format!("{text}\n")
    }
}

/// Columns that say what a row is.
const KEYS: usize = 2;

fn columns<'a>(keys: &[&'a str; KEYS], runs: &'a [String; 2]) -> [&'a str; KEYS + 3] {
    [keys[0], keys[1], &runs[0], &runs[1], "difference"]
}

fn title(pair: &KindPair) -> String {
    let [first, second] = pair.operations.each_ref().map(|subject| clean(&subject.label()));
    if first == second { first } else { format!("{first} and {second}") }
}

impl KindPair {
    /// Returns how far apart the two are, and what most of it is.
    pub fn summary(&self) -> String {
        let [first, second] = [0, 1].map(|at| subject(&self.operations[at], self.bounds[at]));
        let shown: Vec<String> = self
            .causes()
            .map(|cause| format!("{} {} {}", cause.side.name(), cause.account, signed(cause.difference)))
            .collect();
        let causes = if shown.is_empty() { String::new() } else { format!(": {}", shown.join(", ")) };
        format!("{first} and {second}. In B/op on the wire, a difference of {}{causes}.", signed(self.difference()))
    }

    /// Returns the accounts that make nearly all of the difference, largest first.
    pub fn causes(&self) -> impl Iterator<Item = &AccountDifference> {
        let all: f64 = self.accounts.iter().map(|account| account.difference.abs()).sum();
        let mut sum = 0.0;
        self.accounts.iter().filter(|account| account.difference.abs() >= VISIBLE).take_while(move |account| {
            let more = sum < all * 0.95;
            sum += account.difference.abs();
            more
        })
    }

    /// Returns the fields of an account, largest difference first; none where they were not recorded.
    pub fn fields_of(&self, account: &AccountDifference) -> impl Iterator<Item = &FieldDifference> {
        let key = (account.side, account.account);
        self.fields.iter().flatten().filter(move |field| (field.side, field.account) == key)
    }
}

/// `1,000 × SELECT (prepared): request 155.0, response 249.0 B/op, p50 770.6 µs`.
fn subject(subject: &Subject, bounds: LowerBounds) -> String {
    let [request, response] = subject.wire.map(|bytes| bounds.wire(decimal(bytes)));
    let latency = subject.p50_ns.map_or_else(String::new, |ns| format!(", p50 {} µs", microseconds(ns)));
    let label = clean(&subject.label());
    format!("{} × {label}: request {request}, response {response} B/op{latency}", grouped(subject.count))
}

/// Returns the figures of an account, marked where they are lower bounds.
fn account_cells(account: &AccountDifference, pair: &KindPair) -> Vec<String> {
    let payload = account.account.is_payload() && account.account != Account::Unknown;
    let figure = |at: usize| {
        let (bounds, text) = (pair.bounds[at], decimal(account.bytes[at]));
        if payload { bounds.payload(text) } else { bounds.wire(text) }
    };
    let [first, second] = [0, 1].map(figure);
    vec![account.account.to_string(), account.side.name().to_owned(), first, second, signed(account.difference)]
}

fn fields(pair: &KindPair, runs: &[String; 2], form: &TableForm) -> String {
    let Some(fields) = &pair.fields else {
        return form.paragraph("Fields: not recorded, and no packets in a run folder to read them from.");
    };
    let (apart, alike): (Vec<_>, Vec<_>) = fields.iter().partition(|field| field.difference.abs() >= VISIBLE);
    let cells = |field: &&FieldDifference| {
        let figure = |at: usize| pair.bounds[at].payload(field.bytes[at].map_or_else(|| DASH.to_owned(), decimal));
        let [first, second] = [0, 1].map(figure);
        vec![
            format!("{} {}", field.side.name(), field.account),
            clean(&field.field),
            first,
            second,
            signed(field.difference),
        ]
    };
    let mut out = String::new();
    if !apart.is_empty() {
        out = form.table(&columns(&["posted to", "field"], runs), apart.iter().map(cells).collect());
    }
    let bytes: f64 = alike.iter().filter_map(|field| field.bytes[0]).sum();
    if !alike.is_empty() {
        out.push_str(&form.paragraph(&format!("The other fields are alike in both: {} B/op.", decimal(bytes))));
    }
    out
}

fn work_cells(work: &WorkDifference) -> Vec<String> {
    let figure = |figure: &Measured<f64>| figure.value().map_or_else(|| DASH.to_owned(), |value| significant(*value));
    let [first, second] = work.per_operation.each_ref().map(figure);
    let difference = work.difference.map_or_else(|| DASH.to_owned(), |difference| with_sign(difference, significant));
    vec![work.role.to_owned(), work.figure.clone(), first, second, difference]
}

fn is_measured(figure: &Measured<f64>) -> bool {
    figure.value().is_some()
}

/// Why figures of the work are absent, each reason once.
fn work_reasons(comparison: &Comparison) -> impl Iterator<Item = String> {
    let mut said: Vec<String> = Vec::new();
    for work in &comparison.work {
        for (name, figure) in comparison.runs.iter().zip(&work.per_operation) {
            if let Some(reason) = figure.reason() {
                let line = format!("{}: work of the {} not measured: {}.", clean(name), work.role, clean(reason));
                if !said.contains(&line) {
                    said.push(line);
                }
            }
        }
    }
    said.into_iter()
}

/// `+12.0`, `−3.5`, `0.0`.
fn signed(value: f64) -> String {
    with_sign(value, decimal)
}

fn with_sign(value: f64, number: fn(f64) -> String) -> String {
    let mut text = number(value.abs());
    if text.bytes().any(|byte| byte.is_ascii_digit() && byte != b'0') {
        text.insert(0, if value < 0.0 { '−' } else { '+' });
    }
    text
}
