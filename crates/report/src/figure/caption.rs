//! The caption: the conditions of each run, so that the image needs no other text.

use super::font::Weight;
use super::palette::{INK, LINES, MUTED, WARNING};
use super::scene::{Face, words};
use crate::bounds::lower_bounds;
use crate::clean::{clean, shortened};
use crate::limits::{CAPTION_CHARS, CAPTION_WARNINGS};
use crate::number::{counted, duration};
use crate::run::NamedRun;
use crate::summary::{RoleName, data_difference, whole_run_counters, window_ns, workload_count};
use crate::text::{beside_the_workload, command, integrity};
use overhead_model::Run;
use overhead_model::record::SourceKind;

const SIZE: f64 = 11.0;

/// Characters of a word of a command.
const COMMAND_WORD: usize = 20;

const PLAIN: Face = Face::new(SIZE, Weight::Regular, MUTED);
const STRONG: Face = Face::new(SIZE, Weight::Bold, INK);
const ALARM: Face = Face::new(SIZE, Weight::Bold, WARNING);
const WARNED: Face = Face::new(SIZE, Weight::Regular, WARNING);

pub(crate) type Paragraph = Vec<(String, Face)>;

/// Returns the paragraphs of a caption: comparison warnings, reading instructions, facts common to all runs, and each run. A bare
/// chart has warnings only.
pub(crate) fn paragraphs(runs: &[NamedRun], is_bare: bool) -> Vec<Paragraph> {
    let facts: Vec<Vec<String>> = runs.iter().map(|named| facts(&named.run)).collect();
    let common = common(&facts);
    let mut paragraphs: Vec<Paragraph> = Vec::new();
    paragraphs.extend(data_difference(runs).map(|note| led("Note:", ALARM, &note, WARNED)));
    if !is_bare {
        let is_repeated = runs.windows(2).any(|pair| pair[0].name == pair[1].name);
        let how = if is_repeated { format!("{HOW_TO_READ} {REPEATED}") } else { HOW_TO_READ.to_owned() };
        paragraphs.push(led("How to read:", STRONG, &how, PLAIN));
        if !common.is_empty() {
            paragraphs.push(led("All runs:", STRONG, &sentence(&common), PLAIN));
        }
    }
    for (named, facts) in runs.iter().zip(&facts) {
        let warnings = run_warnings(named);
        if !is_bare || !warnings.is_empty() {
            let own = if is_bare { String::new() } else { own_facts(facts, &common) };
            paragraphs
                .push(led(&format!("{}:", named.name), STRONG, &own, PLAIN).into_iter().chain(warnings).collect());
        }
    }
    paragraphs
}

const REPEATED: &str = "Of repeated runs, each bar is that of the median; the thin line below it reaches from the smallest to the \
largest.";

pub(crate) const HOW_TO_READ: &str = "Grey is frame headers, red frames without payload and repeats, blue to green (violet for TLS) \
the protocol, amber your own data. System calls and CPU are those of all processes of a role, over all operations of the run.";

/// Returns the caption of a chart: how to read it, and a note; either may be empty.
pub(crate) fn notes(method: &str, note: &str) -> Vec<Paragraph> {
    match (method, note) {
        ("", "") => Vec::new(),
        ("", note) => vec![words(note, PLAIN).collect()],
        (method, note) => {
            vec![led("How to read:", STRONG, method, PLAIN).into_iter().chain(words(note, PLAIN)).collect()]
        }
    }
}

/// Returns a sentence about what a chart leaves out, or nothing.
pub(crate) fn only_in_table(left_out: usize, noun: &str) -> String {
    let are = if left_out == 1 { "is" } else { "are" };
    match left_out {
        0 => String::new(),
        more => format!("{} {are} only in the table.", counted(more as u64, &format!("more {noun}"))),
    }
}

/// Drops the lines that a chart has no colours for. Returns a sentence about them, or nothing.
pub(crate) fn left_out<T>(lines: &mut Vec<T>, noun: &str) -> String {
    let more = lines.len().saturating_sub(LINES.len());
    lines.truncate(LINES.len());
    only_in_table(more, noun)
}

fn led(lead: &str, lead_face: Face, text: &str, face: Face) -> Paragraph {
    words(lead, lead_face).chain(words(text, face)).collect()
}

fn sentence(facts: &[String]) -> String {
    format!("{}.", facts.join("; "))
}

fn own_facts(facts: &[String], common: &[String]) -> String {
    let own: Vec<String> = facts.iter().filter(|fact| !common.contains(fact)).cloned().collect();
    if own.is_empty() { "as all runs.".to_owned() } else { sentence(&own) }
}

fn run_warnings(named: &NamedRun) -> Paragraph {
    let mut paragraph = Paragraph::new();
    let ledger = named.run.ledger;
    if !ledger.balanced {
        paragraph.extend(words(&format!("The ledger is off by {} bytes.", ledger.difference), ALARM));
    }
    if let Some(bound) = lower_bounds(&named.run) {
        paragraph.extend(words(&format!("{bound}."), ALARM));
    }
    let warnings = &named.run.warnings;
    for warning in warnings.iter().take(CAPTION_WARNINGS) {
        paragraph
            .extend(words(&format!("Warning: {}.", shortened(warning, CAPTION_CHARS).trim_end_matches('.')), WARNED));
    }
    if warnings.len() > CAPTION_WARNINGS {
        let more = counted((warnings.len() - CAPTION_WARNINGS) as u64, "more warning");
        paragraph.extend(words(&format!("And {more} in the record."), WARNED));
    }
    paragraph
}

/// Returns the source files of a run, used instead of a capture command.
fn from_files(run: &Run) -> Option<String> {
    let names: Vec<String> = run.source.inputs.iter().take(2).map(|input| input.path.clone()).collect();
    let more = run.source.inputs.len().saturating_sub(names.len());
    let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
    (run.source.kind == SourceKind::File && !names.is_empty()).then(|| format!("from {}{rest}", names.join(", ")))
}

/// Returns statements about a run, in order.
fn facts(run: &Run) -> Vec<String> {
    let size = format!("window {}, {}", duration(window_ns(run)), counted(workload_count(run), "operation"));
    let mut facts = vec![size];
    facts.extend(from_files(run));
    facts.push(integrity(run));
    facts.extend(beside_the_workload(run).map(|beside| format!("{beside} not drawn")));
    let absent = RoleName::ALL.map(|role| whole_run_counters(run, role).err().map(|reason| (role, reason)));
    match absent {
        [Some((_, server)), Some((_, client))] if server == client => {
            facts.push(format!("syscalls and CPU not measured ({server})"));
        }
        absent => {
            facts.extend(
                absent.into_iter().flatten().map(|(role, why)| format!("{} not measured ({})", role.name(), why)),
            );
        }
    }
    // A value of a hundred bytes on the command line is not a condition worth two lines.
    let words = |text: &str| text.split(' ').map(|word| shortened(word, COMMAND_WORD)).collect::<Vec<_>>().join(" ");
    facts.extend(command(run).map(|command| format!("command: {}", words(&clean(&command.text)))));
    facts.into_iter().map(|fact| shortened(&fact, CAPTION_CHARS)).collect()
}

/// Returns the facts common to all runs, if there are several.
fn common(all: &[Vec<String>]) -> Vec<String> {
    match all {
        [first, rest @ ..] if !rest.is_empty() => {
            first.iter().filter(|fact| rest.iter().all(|facts| facts.contains(fact))).cloned().collect()
        }
        _ => Vec::new(),
    }
}
