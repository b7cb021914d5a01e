//! Advice in words, for a terminal or a document.

use super::is_about;
use overhead_advise::{Advice, AdviceFinding, ByteEvidence, Certainty, ChangedRow, FindingSubject, Saving, WhatIf};
use overhead_model::Amounts;
use overhead_model::record::{Price, ViewRow};
use overhead_report::text::{counted, grouped, money, statement_name, with_digits};
use overhead_report::{Document, Fact};

/// Maximum lines of evidence per finding; the JSON has the rest.
const EVIDENCE: usize = 6;

/// Findings shown unless all are.
const SHOWN: usize = 5;

/// Percentage of the wire or of the waiting that a finding must save to be shown, unless all are.
const LEAST: f64 = 2.0;

/// Facts that findings of a rule often have in common. They are shown once.
const OF_RULE: [&str; 3] = ["remedy", "computed", "not known"];

/// What to show of advice, and how.
pub struct AdviceView<'a> {
    /// The largest first, as numbered.
    pub statements: &'a [ViewRow],
    pub price: Option<&'a Price>,
    /// Shows all findings.
    pub is_whole: bool,
}

impl AdviceView<'_> {
    pub fn document(&self, advice: &Advice) -> Document {
        let mut document = Document::default();
        let head = format!(
            "{} in {} of the application, {} on the wire, {} ms of waiting",
            counted(advice.findings.len() as u64, "finding"),
            counted(advice.operations, "operation"),
            counted(advice.wire_bytes, "byte"),
            grouped(advice.waited_ns / 1_000_000)
        );
        document.heading(2, head);
        let large = advice.findings.iter().take_while(|finding| self.is_whole || finding.weight() >= LEAST);
        let large: Vec<&AdviceFinding> = large.collect();
        let most = if self.is_whole { large.len() } else { SHOWN };
        let mut told: Vec<(usize, &str, Vec<Fact>)> = Vec::new();
        for (at, finding) in large.iter().take(most).enumerate() {
            let number = self.number(&finding.subject).map_or_else(String::new, |number| format!("#{number} "));
            document.heading(3, format!("{}. {} · {number}{}", at + 1, finding.rule, label(&finding.subject)));
            let mut facts =
                [vec![Fact::new("", &*finding.title)], facts(finding, self.price), known_by(finding)].concat();
            let is_of_rule = |fact: &Fact| OF_RULE.contains(&&*fact.term);
            let of_rule: Vec<Fact> = facts.iter().filter(|fact| is_of_rule(fact)).cloned().collect();
            let before = told.iter().find(|(_, rule, facts)| *rule == finding.rule && *facts == of_rule);
            if let Some((first, ..)) = before {
                facts.retain(|fact| !is_of_rule(fact));
                facts.push(Fact::new("remedy and method", format!("see {first}")));
            } else {
                told.push((at + 1, finding.rule, of_rule));
            }
            document.facts(facts);
        }
        let (further, small) = (large.len().saturating_sub(most), advice.findings.len() - large.len());
        let further = (further > 0).then(|| format!("{further} more"));
        let small = (small > 0).then(|| format!("{small} below {LEAST}%"));
        let rest: Vec<String> = further.into_iter().chain(small).collect();
        if !rest.is_empty() {
            document.facts(vec![Fact::new("", format!("Not shown: {}. --all shows them.", rest.join(", ")))]);
        }
        document
    }

    /// Returns the number of a statement; `None` if the finding is about others or about several.
    fn number(&self, subject: &FindingSubject) -> Option<usize> {
        let is_one = |row: &&ViewRow| is_about(subject, row);
        let mut numbers = self.statements.iter().zip(1..).filter(|(row, _)| is_one(row)).map(|(_, number)| number);
        let number = numbers.next()?;
        numbers.next().is_none().then_some(number)
    }
}

/// Returns what a finding saves, and the settings that fix it.
pub fn facts(finding: &AdviceFinding, price: Option<&Price>) -> Vec<Fact> {
    let remedies = finding.remedies.iter().map(|of| Fact::new("remedy", format!("{}: {}", of.at, of.setting)));
    let cost = price.zip(finding.saving.cost).filter(|(_, cost)| *cost > 0.0).map(|(price, cost)| {
        Fact::new("money", format!("{} per {} at {}, at the rate seen", money(cost), price.per.name(), price.text))
    });
    [Fact::new("saves", saving(finding))].into_iter().chain(cost).chain(remedies).collect()
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
    format!("{} {}{via}", subject.protocol, statement_name(subject.protocol, &subject.name, &subject.statement))
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
    let Saving { bytes, bytes_per_operation, percent_of_wire, ns, ms_per_operation, percent_of_waiting, .. } =
        finding.saving;
    let certainty = match finding.certainty {
        Certainty::Exact => "exactly",
        Certainty::Modelled => "about",
        Certainty::AtMost => "at most",
    };
    let mut parts = Vec::new();
    if bytes != 0 {
        let sign = if bytes < 0 { "−" } else { "" };
        let all = grouped(bytes.unsigned_abs());
        parts.push(format!(
            "{sign}{} B per operation, {sign}{all} B in all, {percent_of_wire:.1}% of the wire",
            with_digits(bytes_per_operation.abs(), 1)
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
