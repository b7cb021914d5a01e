//! Advice in words, for a terminal or a document.

use overhead_advise::{Advice, AdviceFinding, ByteEvidence, Certainty, ChangedRow, FindingSubject, Saving, WhatIf};
use overhead_model::Amounts;
use overhead_report::Style;
use overhead_report::text::{clean, counted, grouped, markdown_cell, wrapped};
use std::fmt::Write as _;

#[derive(Clone, Copy, Debug)]
pub struct AdviceStyle {
    pub style: Style,
    pub markdown: bool,
}

/// Maximum lines of evidence per finding; the JSON has the rest.
const EVIDENCE: usize = 6;
const BOLD: &str = "1";

pub fn advice(advice: &Advice, style: AdviceStyle) -> String {
    let mut out = String::new();
    let head = format!(
        "{} in {} of the application, {} on the wire, {} ms of waiting",
        counted(advice.findings.len() as u64, "finding"),
        counted(advice.operations, "operation"),
        counted(advice.wire_bytes, "byte"),
        grouped(advice.waited_ns / 1_000_000)
    );
    out.push_str(&style.heading(2, &head));
    for (at, finding) in advice.findings.iter().enumerate() {
        out.push('\n');
        self::finding(&mut out, at + 1, finding, style);
    }
    out
}

fn finding(out: &mut String, number: usize, finding: &AdviceFinding, style: AdviceStyle) {
    let subject = label(&finding.subject);
    let title = format!("{number}. {} · {subject}", finding.rule);
    out.push_str(&style.heading(3, &title));
    if style.markdown {
        out.push('\n');
    }
    style.line(out, "", &finding.title);
    style.line(out, "saves", &saving(finding));
    let [evidence, example] = shown_by(finding);
    for (name, text) in [("example", example), ("evidence", evidence)].iter().filter(|(_, text)| !text.is_empty()) {
        style.line(out, name, text);
    }
    for remedy in &finding.remedies {
        style.line(out, "remedy", &format!("{}: {}", remedy.at, remedy.setting));
    }
    style.line(out, "computed", &finding.computed);
    style.line(out, "unknown", finding.unknown);
}

pub fn label(subject: &FindingSubject) -> String {
    let via = if subject.via.is_empty() { String::new() } else { format!(" ({})", subject.via) };
    format!("{} {}{via}", subject.protocol, subject.name)
}

fn evidence(evidence: &ByteEvidence) -> String {
    let ByteEvidence { side, account, field, bytes } = evidence;
    format!("{} {account} {field} {} B", side.name(), grouped(*bytes))
}

/// Returns the evidence for a finding and how to look at one of its operations; both may be empty.
pub fn shown_by(finding: &AdviceFinding) -> [String; 2] {
    let evidence = finding.evidence.iter().take(EVIDENCE).map(evidence);
    let rest = finding.evidence.len().saturating_sub(EVIDENCE);
    let evidence: Vec<String> = evidence.chain((rest > 0).then(|| format!("{rest} more"))).collect();
    let example = finding.example.map(|example| {
        format!(
            "operation {} (overhead explain FILE --op {}), frame {}",
            grouped(example.operation),
            example.operation,
            grouped(example.frame)
        )
    });
    [evidence.join("; "), example.unwrap_or_default()]
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
pub fn what_if(what_if: &WhatIf, style: AdviceStyle) -> String {
    let WhatIf { rule, certainty, before, after, rows, computed } = what_if;
    let mut out = String::new();
    let percent = if *before == 0 { 0.0 } else { 100.0 * (*after as f64 - *before as f64) / *before as f64 };
    let how = if *certainty == Certainty::Exact { "exact" } else { "modelled" };
    let head =
        format!("{rule}: {} B on the wire instead of {}, {percent:+.1}% ({how})", grouped(*after), grouped(*before));
    out.push_str(&style.heading(2, &head));
    out.push('\n');
    if rows.is_empty() {
        style.line(&mut out, "", "the rule finds nothing here, so nothing would change");
    }
    for row in rows {
        changed(&mut out, row, style);
    }
    for computed in computed {
        style.line(&mut out, "computed", computed);
    }
    out
}

fn changed(out: &mut String, row: &ChangedRow, style: AdviceStyle) {
    let total = |sides: &[Amounts; 2]| sides.iter().map(Amounts::total).sum::<u64>();
    let each = |bytes: u64| bytes as f64 / row.count.max(1) as f64;
    let (before, after) = (total(&row.before), total(&row.after));
    let subject = label(&row.subject);
    let operations = counted(row.count, "operation");
    style.line(out, &subject, &format!("{operations}, {:.1} B each instead of {:.1}", each(after), each(before)));
    for (side, account, before, after) in row.differences() {
        let what = format!("{} {account}", side.name());
        let indent = if style.markdown { "  - " } else { "    " };
        let _ = writeln!(out, "{indent}{what:<24} {:>14} B instead of {}", grouped(after), grouped(before));
    }
}

impl AdviceStyle {
    fn heading(self, level: usize, text: &str) -> String {
        if self.markdown {
            return format!("{} {}\n", "#".repeat(level), markdown_cell(text));
        }
        let text = clean(text);
        if self.style.color { format!("\x1b[{BOLD}m{text}\x1b[0m\n") } else { format!("{text}\n") }
    }

    /// Adds a line that starts with a label.
    fn line(self, out: &mut String, what: &str, text: &str) {
        if self.markdown {
            let what = if what.is_empty() { String::new() } else { format!("**{}:** ", markdown_cell(what)) };
            let _ = writeln!(out, "- {what}{}", markdown_cell(text));
            return;
        }
        let what = if what.is_empty() { String::new() } else { format!("{what}: ") };
        let _ = writeln!(
            out,
            "  {}",
            wrapped(&format!("{what}{text}"), self.style.prose.map(|width| width.saturating_sub(2)))
                .replace('\n', "\n  ")
        );
    }
}
