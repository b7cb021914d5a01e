//! Advice in words, for a terminal or a document.

use overhead_advise::{Advice, AdviceFinding, ByteEvidence, Certainty, ChangedRow, FindingSubject, Saving, WhatIf};
use overhead_model::Amounts;
use overhead_report::text::{counted, grouped};
use overhead_report::{Document, Fact};

/// Maximum lines of evidence per finding; the JSON has the rest.
const EVIDENCE: usize = 6;

pub fn advice(advice: &Advice) -> Document {
    let mut document = Document::default();
    let head = format!(
        "{} in {} of the application, {} on the wire, {} ms of waiting",
        counted(advice.findings.len() as u64, "finding"),
        counted(advice.operations, "operation"),
        counted(advice.wire_bytes, "byte"),
        grouped(advice.waited_ns / 1_000_000)
    );
    document.heading(2, head);
    for (at, finding) in advice.findings.iter().enumerate() {
        document.heading(3, format!("{}. {} · {}", at + 1, finding.rule, label(&finding.subject)));
        document.facts([vec![Fact::new("", &*finding.title)], facts(finding), known_by(finding)].concat());
    }
    document
}

/// Returns what a finding saves, and the settings that fix it.
pub fn facts(finding: &AdviceFinding) -> Vec<Fact> {
    let remedies = finding.remedies.iter().map(|of| Fact::new("remedy", format!("{}: {}", of.at, of.setting)));
    [Fact::new("saves", saving(finding))].into_iter().chain(remedies).collect()
}

/// Returns how a finding is known, and how to look at one of its operations.
pub fn known_by(finding: &AdviceFinding) -> Vec<Fact> {
    let mut evidence: Vec<String> = finding.evidence.iter().take(EVIDENCE).map(evidence).collect();
    let rest = finding.evidence.len().saturating_sub(EVIDENCE);
    evidence.extend((rest > 0).then(|| format!("{rest} more")));
    let example = finding.example.map(|example| {
        format!(
            "operation {} (overhead explain FILE --op {}), frame {}",
            grouped(example.operation),
            example.operation,
            grouped(example.frame)
        )
    });
    let facts = [
        ("evidence", evidence.join("; ")),
        ("example", example.unwrap_or_default()),
        ("computed", finding.computed.clone()),
        ("not known", finding.unknown.to_owned()),
    ];
    facts.into_iter().filter(|(_, text)| !text.is_empty()).map(|(term, text)| Fact::new(term, text)).collect()
}

pub fn label(subject: &FindingSubject) -> String {
    let via = if subject.via.is_empty() { String::new() } else { format!(" ({})", subject.via) };
    format!("{} {}{via}", subject.protocol, subject.name)
}

fn evidence(evidence: &ByteEvidence) -> String {
    let ByteEvidence { side, account, field, bytes } = evidence;
    format!("{} {account} {field} {} B", side.name(), grouped(*bytes))
}

pub fn certainty(finding: &AdviceFinding) -> &'static str {
    match finding.certainty {
        Certainty::Exact => "exactly",
        Certainty::Modelled => "by a model",
        Certainty::AtMost => "at most",
    }
}

/// Returns what a finding would save, as a sentence.
pub fn saving(finding: &AdviceFinding) -> String {
    let Saving { bytes, bytes_per_operation, percent_of_wire, ns, ms_per_operation, percent_of_waiting } =
        finding.saving;
    let certainty = match finding.certainty {
        Certainty::Exact => "exactly",
        Certainty::Modelled => "by the model below",
        Certainty::AtMost => "at most",
    };
    let mut parts = Vec::new();
    if bytes != 0 {
        let sign = if bytes < 0 { "−" } else { "" };
        let all = grouped(bytes.unsigned_abs());
        parts.push(format!(
            "{bytes_per_operation:.1} B per operation, {sign}{all} B in all, {percent_of_wire:.1}% of the wire"
        ));
    }
    if let (Some(ns), Some(each), Some(percent)) = (ns, ms_per_operation, percent_of_waiting) {
        parts.push(format!(
            "{each:.3} ms per operation, {:.1} ms in all, {percent:.1}% of the waiting",
            ns as f64 / 1e6
        ));
    }
    let operations = counted(finding.operations, "operation");
    format!("{certainty} {} ({operations})", parts.join("; "))
}

/// Returns the ledger before and after a change.
pub fn what_if(what_if: &WhatIf) -> Document {
    let WhatIf { rule, certainty, before, after, rows, computed } = what_if;
    let mut document = Document::default();
    let percent = if *before == 0 { 0.0 } else { 100.0 * (*after as f64 - *before as f64) / *before as f64 };
    let how = if *certainty == Certainty::Exact { "exact" } else { "modelled" };
    let (now, then) = (grouped(*before), grouped(*after));
    document.heading(2, format!("{rule}: {then} B on the wire instead of {now}, {percent:+.1}% ({how})"));
    if rows.is_empty() {
        document.facts(vec![Fact::new("", "the rule finds nothing here, so nothing would change")]);
    } else {
        let figures = ["operations", "B", "B then", "B/op", "B/op then"];
        document.figures(&["operation", "account"], &figures, rows.iter().flat_map(changed).collect());
    }
    document.facts(computed.iter().map(|computed| Fact::new("computed", computed)).collect());
    document
}

/// Returns the cells of a row and of its accounts that differ.
fn changed(row: &ChangedRow) -> Vec<Vec<String>> {
    let total = |sides: &[Amounts; 2]| sides.iter().map(Amounts::total).sum::<u64>();
    let each = |bytes: u64| format!("{:.1}", bytes as f64 / row.count.max(1) as f64);
    let cells = |of: String, before: u64, after: u64| {
        let figures = [row.count, before, after].map(grouped).into_iter().chain([before, after].map(each));
        [label(&row.subject), of].into_iter().chain(figures).collect()
    };
    let differences = row.differences();
    let parts = differences.map(|(side, of, before, after)| cells(format!("{} {of}", side.name()), before, after));
    [cells("all".to_owned(), total(&row.before), total(&row.after))].into_iter().chain(parts).collect()
}
