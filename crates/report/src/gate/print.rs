//! Formats findings for people and programs.

use super::{Finding, Severity, status};
use crate::clean::clean;
use crate::document::json;
use crate::error::ReportError;
use crate::grid::Grid;
use overhead_model::csv::{CsvCell, CsvColumn, csv};
use serde::Serialize;
use std::path::Path;

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

impl Severity {
    const fn word(self) -> &'static str {
        match self {
            Self::Note => "note",
            Self::Unjudged => "not judged",
            Self::Breach => "outside",
        }
    }
}

/// Formats `runs/a: SELECT …: response.payload 198 B per operation, allowed 155 B (+43 B, +27.7%): schema +33, framing +10`.
fn line(finding: &Finding) -> String {
    let word = match finding.severity {
        Severity::Breach => "",
        Severity::Unjudged => "not judged: ",
        Severity::Note => "note: ",
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
