//! Renders a comparison as text, Markdown and JSON.

use super::sentence::VISIBLE;
use super::{
    AccountDifference, Comparison, Comparisons, FieldDifference, KindPair, LatencyDifference, OperationChange, PART,
    Repeated, Subject, WorkDifference, whole,
};
use crate::bounds::LowerBounds;
use crate::clean::{capitalised, clean, shortened};
use crate::document::Document;
use crate::grid::{Grid, Style};
use crate::limits;
use crate::number::{DASH, counted, decimal, grouped, microseconds, significant};
use crate::summary::distinct;
use crate::sums::is_one_statement;
use overhead_model::record::{Measured, Price};
use overhead_model::{Account, Class};

/// What a comparison shows to people.
#[derive(Clone, Debug, Default)]
pub struct ComparisonOptions {
    /// Price of a byte.
    pub price: Option<Price>,
    /// Shows the accounts and fields of each pair, and the work of both subjects.
    pub has_details: bool,
    /// Most characters of an operation's name; `None` for all.
    pub name_chars: Option<usize>,
}

/// Returns comparisons for a terminal.
pub fn table(comparisons: &Comparisons, options: &ComparisonOptions, style: Style) -> String {
    let name_chars = options.name_chars.or(Some(limits::OVERVIEW_CHARS));
    document(comparisons, &ComparisonOptions { name_chars, ..options.clone() }).terminal(style) + "\n"
}

/// Returns comparisons as GitHub Markdown.
pub fn markdown(comparisons: &Comparisons, options: &ComparisonOptions) -> String {
    document(comparisons, options).markdown() + "\n"
}

fn document(comparisons: &Comparisons, options: &ComparisonOptions) -> Document {
    let mut document = Document::default();
    comparisons.each().for_each(|comparison| add(&mut document, comparison, options));
    document
}

fn add(document: &mut Document, comparison: &Comparison, options: &ComparisonOptions) {
    let runs = comparison.runs.each_ref().map(|name| clean(name));
    document.heading(2, format!("{} and {}", runs[0], runs[1]));
    let chars = options.name_chars;
    whole::add(document, (&comparison.whole, &comparison.changes), &runs, options.price.as_ref(), |change| {
        change_title(change, chars)
    });
    if !options.has_details {
        for pair in comparison.pairs.iter().filter(|pair| pair.differs()).take(limits::SENTENCES_TOLD) {
            let title = clean(&title(pair));
            let title = chars.map_or_else(|| title.clone(), |most| shortened(&title, most));
            document.prose(format!("{title}: {}.", pair.sentence));
        }
        document.prose("--details shows the accounts and fields of each pair, and the work of both.");
        comparison.remarks.iter().for_each(|remark| document.prose(remark.as_str()));
        return;
    }
    let is_told = |pair: &&KindPair| comparison.pairs.len() == 1 || pair.differs();
    for pair in comparison.pairs.iter().take(limits::PAIRS_TOLD).filter(is_told) {
        details(document, pair, &runs);
    }
    if let Some(more) = comparison.pairs.len().checked_sub(limits::PAIRS_TOLD).filter(|more| *more > 0) {
        let more = counted(more as u64, "further pair");
        document.prose(format!("{more}: --format json and csv have the accounts and fields of all."));
    }
    for (name, alone) in runs.iter().zip(&comparison.alone).filter(|(_, alone)| !alone.is_empty()) {
        let subject = |subject: &Subject| {
            let way = subject.statement.as_ref().filter(|_| !subject.via.is_empty());
            let way = way.map_or_else(String::new, |_| format!(" ({})", subject.via));
            format!("{} × {}{way}", grouped(subject.count), described(subject))
        };
        let mut subjects: Vec<String> = alone.iter().take(limits::PAIRS_TOLD).map(subject).collect();
        subjects
            .extend((alone.len() > limits::PAIRS_TOLD).then(|| format!("{} more", alone.len() - limits::PAIRS_TOLD)));
        document.prose(format!("In {name} alone: {}.", subjects.join("; ")));
    }
    work(document, comparison, &runs);
    for remark in work_reasons(comparison).iter().chain(&comparison.remarks) {
        document.prose(remark.as_str());
    }
}

fn details(document: &mut Document, pair: &KindPair, runs: &[String; 2]) {
    document.heading(3, title(pair));
    document.prose(capitalised(&pair.summary()));
    let is_apart = |account: &&AccountDifference| account.difference.abs() >= VISIBLE;
    let accounts: Vec<_> = pair.accounts.iter().filter(is_apart).map(|account| account_cells(account, pair)).collect();
    if !accounts.is_empty() {
        document.table(both(["account", "side"], runs, false, accounts));
    }
    fields(document, pair, runs);
    let latency: Vec<_> =
        pair.latency.iter().filter_map(|figure| Some(latency_cells(figure, figure.repeated.as_ref()?))).collect();
    if !latency.is_empty() {
        document.table(both(["latency", "unit"], runs, true, latency));
    }
}

fn work(document: &mut Document, comparison: &Comparison, runs: &[String; 2]) {
    let is_told = |work: &&WorkDifference| {
        let is_measured = work.per_operation.iter().any(|figure| figure.value().is_some());
        let is_part = work.figure.starts_with(PART) && work.difference.is_some_and(|calls| calls.abs() < VISIBLE);
        is_measured && !is_part
    };
    let measured = comparison.work.iter().filter(is_told);
    let is_repeated = comparison.work.iter().any(|work| work.repeated.is_some());
    let rows: Vec<_> = measured.map(|work| work_cells(work, is_repeated)).collect();
    if rows.is_empty() {
        return;
    }
    document.heading(3, "Work per operation, all workload operations together");
    document.table(both(["role", "figure"], runs, is_repeated, rows));
}

/// Returns a table of the values of both runs, with the evidence from repeated runs if `has_interval`.
fn both(keys: [&str; 2], runs: &[String; 2], has_interval: bool, rows: Vec<Vec<String>>) -> Grid {
    let interval = has_interval.then_some("95% interval");
    let figures: Vec<&str> = [&*runs[0], &*runs[1], "difference"].into_iter().chain(interval).collect();
    Grid::new(&keys, &figures, rows)
}

/// Returns a title such as `SELECT c FROM t WHERE id = ?` or `GET (array) and SELECT (prepared)`.
fn title(pair: &KindPair) -> String {
    pair_title(pair.operations.each_ref())
}

fn pair_title(operations: [&Subject; 2]) -> String {
    let [first, second] = operations.map(described);
    if first == second {
        return first;
    }
    let [ways, others] = operations.map(|subject| subject.via.clone());
    match &operations[0].statement {
        Some(statement) if ways != others => format!("{statement} ({ways} and {others})"),
        Some(statement) => statement.clone(),
        None => format!("{first} and {second}"),
    }
}

/// Returns the class, unless that is workload, and what changed.
fn change_title(change: &OperationChange, chars: Option<usize>) -> String {
    let Some(subject) = change.operations.iter().flatten().next() else { return String::new() };
    let class = if subject.class == Class::Workload { String::new() } else { format!("{}: ", subject.class.name()) };
    let name = match &change.operations {
        [Some(first), Some(second)] => pair_title([first, second]),
        _ => described(subject),
    };
    let verb = if subject.class == Class::Setup && subject.statement.as_deref().is_some_and(is_one_statement) {
        format!("{} ", subject.name)
    } else {
        String::new()
    };
    let name = class + &verb + &clean(&name);
    chars.map_or_else(|| name.clone(), |chars| shortened(&name, chars))
}

/// Returns the statement or a label such as `SELECT (prepared)`.
fn described(subject: &Subject) -> String {
    match &subject.statement {
        Some(statement) if is_one_statement(statement) => statement.clone(),
        Some(placeholder) => format!("{} {placeholder}", subject.name),
        None => subject.label(),
    }
}

impl KindPair {
    /// Returns whether bytes differ visibly, or repeated runs show a difference in latency.
    fn differs(&self) -> bool {
        let is_apart = |difference: f64| difference.abs() >= VISIBLE;
        is_apart(self.difference())
            || self.accounts.iter().any(|account| is_apart(account.difference))
            || self.latency.iter().filter_map(|figure| figure.repeated.as_ref()).any(|repeated| repeated.shown)
    }

    /// Describes the difference and each subject's values.
    pub fn summary(&self) -> String {
        let [first, second] = [0, 1].map(|at| subject(&self.operations[at], self.bounds[at]));
        format!("{}. {first} and {second}.", self.sentence)
    }
}

/// Returns text such as `1,000 × SELECT (prepared): request 155.0, response 249.0 B/op, p50 770.6 µs`.
fn subject(subject: &Subject, bounds: LowerBounds) -> String {
    let [request, response] = subject.wire.map(|bytes| bounds.wire(decimal(bytes)));
    let latency = subject.p50_ns.map_or_else(String::new, |ns| format!(", p50 {} µs", microseconds(ns)));
    let label = subject.label();
    let range = subject.wire_range.map_or_else(String::new, range);
    format!("{} × {label}: request {request}, response {response} B/op{range}{latency}", grouped(subject.count))
}

/// Describes the range of the runs' bytes.
fn range(ranges: [[f64; 2]; 2]) -> String {
    if ranges.iter().all(|[least, most]| most - least < f64::EPSILON) {
        return " in each run".to_owned();
    }
    let [request, response] = ranges.map(|[least, most]| format!("{} to {}", decimal(least), decimal(most)));
    format!(" (by run {request}, {response})")
}

/// Returns the bytes of an account; marks lower bounds.
fn account_cells(account: &AccountDifference, pair: &KindPair) -> Vec<String> {
    let payload = account.account.is_payload() && account.account != Account::Unknown;
    let figure = |at: usize| {
        let (bounds, text) = (pair.bounds[at], decimal(account.bytes[at]));
        if payload { bounds.payload(text) } else { bounds.wire(text) }
    };
    let [first, second] = [0, 1].map(figure);
    vec![account.account.to_string(), account.side.name().to_owned(), first, second, signed(account.difference)]
}

fn fields(document: &mut Document, pair: &KindPair, runs: &[String; 2]) {
    let Some(fields) = &pair.fields else {
        return document.prose("Fields: not recorded, and no packets in a run folder to read them from.");
    };
    let (apart, alike): (Vec<_>, Vec<_>) = fields.iter().partition(|field| field.difference.abs() >= VISIBLE);
    let cells = |field: &&FieldDifference| {
        let figure = |at: usize| pair.bounds[at].payload(field.bytes[at].map_or_else(|| DASH.to_owned(), decimal));
        let [first, second] = [0, 1].map(figure);
        vec![
            format!("{} {}", field.side.name(), field.account),
            field.field.clone(),
            first,
            second,
            signed(field.difference),
        ]
    };
    if !apart.is_empty() {
        let cells = apart.iter().map(cells).collect();
        document.table(both(["posted to", "field"], runs, false, cells));
    }
    let bytes: f64 = alike.iter().filter_map(|field| field.bytes[0]).sum();
    if !alike.is_empty() {
        document.prose(format!("The other fields are alike in both: {} B/op.", decimal(bytes)));
    }
}

fn work_cells(work: &WorkDifference, is_repeated: bool) -> Vec<String> {
    let figure = |figure: &Measured<f64>| figure.value().map_or_else(|| DASH.to_owned(), |value| significant(*value));
    let [first, second] = work.per_operation.each_ref().map(figure);
    let difference = work.difference.map_or_else(|| DASH.to_owned(), |difference| with_sign(difference, significant));
    let mut cells = vec![work.role.to_owned(), work.figure.clone(), first, second, difference];
    if is_repeated {
        cells.push(work.repeated.as_ref().map_or_else(|| DASH.to_owned(), |it| shown(it, significant)));
    }
    cells
}

fn latency_cells(latency: &LatencyDifference, repeated: &Repeated) -> Vec<String> {
    let us = |ns: f64| decimal(ns / 1e3);
    let [first, second] = latency.ns.map(|ns| ns.map_or_else(|| DASH.to_owned(), us));
    let difference = latency.difference.map_or_else(|| DASH.to_owned(), |ns| with_sign(ns, us));
    vec![latency.figure.to_owned(), "µs".to_owned(), first, second, difference, shown(repeated, us)]
}

/// Returns an interval such as `+1.2 to +3.4`, or states that the runs show no difference.
fn shown(repeated: &Repeated, number: fn(f64) -> String) -> String {
    if !repeated.shown {
        return "no difference shown".to_owned();
    }
    let [low, high] = repeated.interval.map(|end| with_sign(end, number));
    format!("{low} to {high}")
}

/// Returns the reasons for missing work, without duplicates.
fn work_reasons(comparison: &Comparison) -> Vec<String> {
    let reasons = |work: &WorkDifference| {
        let figures = comparison.runs.iter().zip(&work.per_operation);
        let reasons = figures.filter_map(|(name, figure)| {
            Some(format!("{name}: work of the {} not measured: {}.", work.role, figure.reason()?))
        });
        reasons.collect::<Vec<_>>()
    };
    distinct(comparison.work.iter().flat_map(reasons))
}

/// Formats a signed number, such as `+12.0`, `−3.5` or `0.0`.
fn signed(value: f64) -> String {
    with_sign(value, decimal)
}

pub(super) fn with_sign(value: f64, number: impl Fn(f64) -> String) -> String {
    let mut text = number(value.abs());
    if text.bytes().any(|byte| byte.is_ascii_digit() && byte != b'0') {
        text.insert(0, if value < 0.0 { '−' } else { '+' });
    }
    text
}
