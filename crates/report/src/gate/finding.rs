//! Findings of a gate.

use super::BudgetMetric;
use crate::clean::clean;
use crate::document::json;
use crate::error::ReportError;
use crate::grid::Grid;
use crate::sums::OperationSum;
use overhead_model::csv::{CsvCell, CsvColumn, csv};
use overhead_model::{Account, enum_with, exit};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::Path;

/// Number of account and field changes that a finding names in its text; JSON has all.
const NAMED: usize = 4;
/// Bytes per operation below which a change rounds to nothing and gets no mention.
const VISIBLE: f64 = 0.05;

enum_with! {
    /// How a finding affects the exit status, worst last.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
    #[serde(rename_all = "lowercase")]
    pub enum Severity, word: &'static str {
        /// Informational; the run passes.
        Note = "note",
        /// No verdict was possible: the result is partial.
        Unjudged = "not judged",
        /// Over a limit.
        Breach = "outside",
    }
}

/// A result of a check: a breach, a note, or something that could not be judged.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Finding {
    /// Effect on the exit status.
    pub severity: Severity,
    /// Name of the run, or of both subjects.
    pub run: String,
    /// The operation, by its statement if it has one; empty for the whole run.
    pub operation: String,
    /// The metric; absent if the finding concerns the whole operation or run.
    #[serde(rename = "figure", skip_serializing_if = "Option::is_none")]
    pub metric: Option<BudgetMetric>,
    /// Absent without a verdict.
    #[serde(flatten)]
    pub judged: Option<Judged>,
    /// Causes of a breach; empty otherwise.
    #[serde(flatten)]
    pub changes: Changes,
    /// One line without the run's name or a full stop.
    pub message: String,
}

/// A part of a difference.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Change {
    /// The account, or the field prefixed with its account.
    pub name: String,
    /// Bytes per operation, measured minus reference.
    pub by: f64,
}

/// Returns the exit status for these findings: over a limit, partial, or complete.
pub fn status(findings: &[Finding]) -> u8 {
    match findings.iter().map(|finding| finding.severity).max() {
        Some(Severity::Breach) => exit::OUTSIDE,
        Some(Severity::Unjudged) => exit::PARTIAL,
        Some(Severity::Note) | None => exit::COMPLETE,
    }
}

impl Finding {
    pub(super) fn plain(severity: Severity, run: &str, operation: &str, message: String) -> Self {
        Self {
            severity,
            run: run.to_owned(),
            operation: operation.to_owned(),
            metric: None,
            judged: None,
            changes: Changes::default(),
            message: if operation.is_empty() { message } else { format!("{operation}: {message}") },
        }
    }

    /// Reports a metric without a verdict.
    pub(super) fn unjudged(run: &str, operation: &str, metric: BudgetMetric, why: &str) -> Self {
        let finding = Self::plain(Severity::Unjudged, run, operation, format!("{metric}: {why}"));
        Self { metric: Some(metric), ..finding }
    }

    /// Reports a metric above its limit.
    pub(super) fn breach(run: &str, operation: &str, metric: BudgetMetric, judged: Judged, changes: Changes) -> Self {
        let Judged { measured, allowed, .. } = judged;
        let by = metric.printed(measured) - metric.printed(allowed);
        let percent = by / allowed * 100.0;
        let percent = if percent.is_finite() { format!(", {percent:+.1}%") } else { String::new() };
        let mut message = format!(
            "{metric} {} per operation, allowed {} (+{}{percent})",
            metric.with_unit(measured),
            metric.with_unit(allowed),
            metric.with_unit(by),
        );
        for (word, changes) in [(": ", &changes.accounts), ("; ", &changes.fields), ("; ", &changes.operations)] {
            let named = changes.iter().take(NAMED).map(Change::text).collect::<Vec<_>>().join(", ");
            if !named.is_empty() {
                message.extend([word, &named]);
                message.push_str(if changes.len() > NAMED { ", …" } else { "" });
            }
        }
        let finding = Self::plain(Severity::Breach, run, operation, message);
        Self { metric: Some(metric), judged: Some(judged), changes, ..finding }
    }
}

/// A measured value and its reference.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Judged {
    /// The measured value, per operation.
    pub measured: f64,
    /// The reference, without the tolerance.
    pub reference: f64,
    pub allowed: f64,
}

impl Judged {
    /// Returns whether the value exceeds the limit, and is printed as another number.
    pub(super) fn is_above(self, metric: BudgetMetric) -> bool {
        self.measured > self.allowed && metric.with_unit(self.measured) != metric.with_unit(self.allowed)
    }
}

/// The changes beneath a metric.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Changes {
    /// Accounts that changed against the reference, in bytes per operation, largest first.
    pub accounts: Vec<Change>,
    /// Fields that changed, in the same form.
    pub fields: Vec<Change>,
    /// Operations whose share of the run changed, with their class if it is not workload.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub operations: Vec<Change>,
}

impl Changes {
    /// Returns the accounts and fields of a metric that differ from the reference, largest first. `account` and `field` give
    /// the reference's bytes per operation; `None` if it has no fields.
    pub(super) fn new(
        metric: BudgetMetric,
        sum: &OperationSum,
        account: impl Fn(Account) -> Option<f64>,
        field: Option<Vec<(Account, String, f64)>>,
    ) -> Self {
        let Some(side) = metric.side() else { return Self::default() };
        let held = || Account::ALL.into_iter().filter(|account| metric.holds(*account));
        let by_account = held().filter_map(|of| {
            let by = sum.bytes(side, of) - account(of)?;
            Some(Change { name: of.name().to_owned(), by })
        });
        let (accounts, fields) = (sorted(by_account.collect()), field_changes(metric, sum, field));
        Self { accounts, fields: fields.unwrap_or_default(), operations: Vec::new() }
    }

    /// Adds the differences by operation.
    pub(super) fn with_operations(self, parts: BTreeMap<String, f64>) -> Self {
        let operations = parts.into_iter().map(|(name, by)| Change { name, by });
        Self { operations: sorted(operations.collect()), ..self }
    }
}

fn field_changes(
    metric: BudgetMetric,
    sum: &OperationSum,
    reference: Option<Vec<(Account, String, f64)>>,
) -> Option<Vec<Change>> {
    let (side, mut reference) = (metric.side()?, reference?);
    let name = |account: Account, field: &str| format!("{account} {field}");
    let mut changes = Vec::new();
    for row in sum.fields.as_ref()?.iter().filter(|row| row.side == side && metric.holds(row.account)) {
        let before = reference.iter().position(|(account, field, _)| (*account, field) == (row.account, &row.field));
        let before = before.map_or(0.0, |at| reference.swap_remove(at).2);
        changes.push(Change { name: name(row.account, &row.field), by: sum.per_operation(row.bytes) - before });
    }
    let gone = reference.into_iter().filter(|(account, ..)| metric.holds(*account));
    changes.extend(gone.map(|(account, field, bytes)| Change { name: name(account, &field), by: -bytes }));
    Some(sorted(changes))
}

fn sorted(mut changes: Vec<Change>) -> Vec<Change> {
    changes.retain(|change| change.by.abs() >= VISIBLE);
    changes.sort_by(|a, b| b.by.abs().total_cmp(&a.by.abs()).then_with(|| a.name.cmp(&b.name)));
    changes
}

impl Change {
    /// Formats a change, such as `schema +33`.
    fn text(&self) -> String {
        let sign = if self.by < 0.0 { '−' } else { '+' };
        format!("{} {sign}{}", self.name, crate::number::bytes_label(self.by.abs()))
    }
}

/// Output format of findings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FindingForm {
    /// One line per finding.
    Lines,
    /// An object with the findings and the status.
    Json,
    /// RFC 4180 text with a header line.
    Csv,
    /// A table for documents.
    Markdown,
    /// GitHub workflow annotations, one per line.
    Github,
}

/// Formats findings; annotations point to `file`, if given.
///
/// # Errors
///
/// Returns [`ReportError::Json`] if a number is not finite.
pub fn findings(findings: &[Finding], form: FindingForm, file: Option<&Path>) -> Result<String, ReportError> {
    Ok(match form {
        FindingForm::Lines => findings.iter().map(line).collect(),
        FindingForm::Json => report(findings)?,
        FindingForm::Csv => csv(&COLUMNS, findings),
        FindingForm::Markdown => markdown(findings),
        FindingForm::Github => findings.iter().map(|finding| annotation(finding, file)).collect(),
    })
}

/// Formats `runs/a: SELECT …: response.payload 198 B per operation, allowed 155 B (+43 B, +27.7%): schema +33, framing +10`.
fn line(finding: &Finding) -> String {
    let word = match finding.severity {
        Severity::Breach => String::new(),
        milder => format!("{}: ", milder.word()),
    };
    format!("{}\n", clean(&format!("{word}{}: {}", finding.run, finding.message)))
}

fn report(findings: &[Finding]) -> Result<String, ReportError> {
    #[derive(Serialize)]
    struct Report<'a> {
        status: u8,
        findings: &'a [Finding],
    }
    json(&Report { status: status(findings), findings })
}

const COLUMNS: [CsvColumn<Finding>; 8] = [
    ("severity", |of| CsvCell::text(of.severity.word())),
    ("run", |of| CsvCell::text(&of.run)),
    ("operation", |of| CsvCell::text(&of.operation)),
    ("figure", |of| CsvCell::maybe(of.metric)),
    ("measured", |of| CsvCell::maybe(of.judged.map(|judged| judged.measured))),
    ("reference", |of| CsvCell::maybe(of.judged.map(|judged| judged.reference))),
    ("allowed", |of| CsvCell::maybe(of.judged.map(|judged| judged.allowed))),
    ("message", |of| CsvCell::text(&of.message)),
];

fn markdown(findings: &[Finding]) -> String {
    let row =
        |finding: &Finding| vec![finding.severity.word().to_owned(), finding.run.clone(), finding.message.clone()];
    if findings.is_empty() {
        return String::new();
    }
    Grid { keys: 1, ..Grid::new(&["", "run", "what"], &[], findings.iter().map(row).collect()) }.markdown()
}

/// Formats `::error file=budget.toml,title=SELECT response.payload::…`.
fn annotation(finding: &Finding, file: Option<&Path>) -> String {
    let command = match finding.severity {
        Severity::Breach | Severity::Unjudged => "error",
        Severity::Note => "notice",
    };
    let metric = finding.metric.map(|metric| metric.to_string());
    let operation = if finding.operation.is_empty() { &finding.run } else { &finding.operation };
    let title = [Some(operation.clone()), metric].into_iter().flatten().collect::<Vec<_>>().join(" ");
    let file = file.map_or_else(String::new, |file| format!("file={},", property(&file.display().to_string())));
    format!("::{command} {file}title={}::{}\n", property(&title), data(line(finding).trim_end()))
}

/// Escapes special characters in a workflow command's message; line ends are already escaped.
fn data(text: &str) -> String {
    clean(text).replace('%', "%25")
}

/// Also escapes the characters that end a property.
fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_a_name_ends_an_annotation_or_begins_another() {
        let statement = "SELECT a::int, 100% FROM t\r\n::set-output name=x::y";
        let finding = Finding::plain(Severity::Breach, "runs/a", statement, "99% more".to_owned());
        let text = annotation(&finding, Some(Path::new("a,b:c.toml")));
        assert_eq!(text.lines().count(), 1);
        assert!(text.starts_with(
            "::error file=a%2Cb%3Ac.toml,title=SELECT a%3A%3Aint%2C 100%25 FROM t\\r\\n%3A%3Aset-output name=x%3A%3Ay::runs/a: "
        ), "{text}");
        assert!(text.ends_with("99%25 more\n"), "{text}");
        assert_eq!(data("a\nb\r%"), "a\\nb\\r%25");
    }
}
