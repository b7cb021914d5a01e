//! `overhead explain`: one operation of a capture, byte by byte.

mod json;
mod text;

pub use json::schema;

use crate::options::{Choice, Color, choice_parser};
use crate::print;
use anyhow::{Error, Result, anyhow};
use clap::{Args, ValueEnum};
use overhead_dissect::explain::{
    ExplainedOperation, Finder, FoundOperation, FrameFinder, OperationQuery, OperationRecorder, QueryKind,
    SizedOperation,
};
use overhead_model::record::ViewRow;
use overhead_model::{Class, FrameFacts, bail_usage};
use overhead_options::DecodeArgs;
use overhead_reading::{InputPlan, KeyReader, Warnings, can_be_read_again};
use overhead_report::PageExample;
use overhead_report::text::{clean, counted, grouped};
use std::collections::BTreeMap;
use std::path::PathBuf;

const NUMBERING: &str = "\
Operations are numbered from 1 by their first bytes in the capture, including CONNECT (handshake and \
teardown) and undecoded stretches. A number depends only on the capture, --db, --port and --keylog. \
Without --op, --name, --statement and --first, you get the first operation of the workload. With the \
number of a statement, you get its operation of median size and its largest one.

Examples:
  overhead explain trace.pcap
  overhead explain trace.pcap 3
  overhead explain trace.pcap --op 12
  overhead explain trace.pcap --name GET --nth 3
  overhead explain trace.pcap --statement 'GET key:…'
  overhead explain trace.pcap --name SELECT --first error --format json";

/// Arguments of `explain`.
#[derive(Args, Debug)]
#[command(after_help = NUMBERING)]
pub struct ExplainArgs {
    /// A pcap or pcapng file, plain or compressed, or a run folder; it is read three times
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The median and the largest operation of the statement with this number in the table of `analyze`: 3 or '#3'
    #[arg(value_name = "N", conflicts_with_all = ["op", "name", "statement"])]
    row: Option<String>,
    /// The operation with this number
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..), conflicts_with_all = ["name", "statement", "first", "nth"])]
    op: Option<u64>,
    /// The first operation of this name, in any letter case
    #[arg(long, value_name = "GET")]
    name: Option<String>,
    /// The first operation of this statement, as a table by statement has it; … stands for what was cut out. Or its number: '#3'
    #[arg(long, value_name = "TEXT")]
    statement: Option<String>,
    /// The first operation of this kind; with --name, of both
    #[arg(long, value_parser = choice_parser(KINDS), value_name = "KIND")]
    first: Option<QueryKind>,
    /// Of the matching operations, the one with this position
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    nth: Option<u64>,
    #[command(flatten)]
    decode: DecodeArgs,
    /// Show every byte of long fields, and every line
    #[arg(long)]
    full: bool,
    /// Form of the result on standard output
    #[arg(long, value_enum, default_value = "table")]
    format: ExplanationForm,
    /// Colours of the accounts
    #[arg(long, value_enum, value_name = "WHEN", default_value = "auto")]
    color: Color,
}

/// Kinds of operations.
const KINDS: &[Choice<QueryKind>] = &[
    ("error", QueryKind::Error, "Answered by an error"),
    ("unanswered", QueryKind::Unanswered, "Not answered, though an answer was due"),
    ("workload", QueryKind::Class(Class::Workload), "What the application asked for"),
    ("setup", QueryKind::Class(Class::Setup), "Connecting, authenticating, preparing"),
    ("background", QueryKind::Class(Class::Background), "Heartbeats, events, topology queries"),
    ("unmatched", QueryKind::Class(Class::Unmatched), "Without its other half, or undecoded"),
];

/// Form of an explanation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ExplanationForm {
    /// For people
    Table,
    /// For programs
    Json,
}

struct Explanation {
    found: FoundOperation,
    count: u64,
    explained: ExplainedOperation,
    frames: BTreeMap<u64, FrameFacts>,
}

impl ExplainArgs {
    /// Finds the operation, reads it and prints it.
    pub fn run(mut self) -> Result<u8> {
        let file = self.file.display();
        if !can_be_read_again(&self.file) {
            bail_usage!("{file}: explain reads its file three times: save a pipe to a file first");
        }
        let input = InputPlan::open(vec![self.file.clone()], &self.decode.plan())?;
        let is_numbered = self.find_row(&input)?;
        let mut warnings = Warnings::default();
        let keys = input.read_keys(&mut warnings)?;
        let mut finder = Finder::new(self.wanted());
        input.explore(&mut finder, &keys, &mut warnings)?;
        let both = finder.median_and_largest().filter(|_| is_numbered && self.nth.is_none());
        let (text, explanations) = if let Some(both) = both {
            self.both(&input, &keys, &finder, both)?
        } else {
            let Some(found) = finder.found() else { return Err(self.not_found(&input, &finder)) };
            let explanation = explain(&input, &keys, found, finder.numbering.count)?;
            (self.rendered(&explanation)?, vec![explanation])
        };
        print::verbatim(&text)?;
        for explanation in &explanations {
            check(&explanation.explained, &mut warnings);
        }
        Ok(print::settled(warnings))
    }

    fn rendered(&self, explanation: &Explanation) -> Result<String> {
        Ok(match self.format {
            ExplanationForm::Json => json::render(explanation)?,
            ExplanationForm::Table => {
                text::render(explanation, text::TextStyle { color: self.color.wanted(), full: self.full })
            }
        })
    }

    /// Explains the median and the largest operation of a statement, or one of them if they have the same size.
    fn both(
        &self,
        input: &InputPlan,
        keys: &KeyReader,
        finder: &Finder,
        [median, largest]: [SizedOperation; 2],
    ) -> Result<(String, Vec<Explanation>)> {
        let of = |sized: SizedOperation| explain(input, keys, sized.found, finder.numbering.count);
        let mut explanations = vec![of(median)?];
        if largest.found != median.found {
            explanations.push(of(largest)?);
        }
        let texts = explanations.iter().map(|explanation| self.rendered(explanation)).collect::<Result<Vec<_>>>()?;
        let all = finder.fitting_count();
        let title = |what: &str, sized: SizedOperation| {
            format!("{what} of {}, {} on the wire\n", counted(all, "operation"), counted(sized.bytes, "byte"))
        };
        let text = match (self.format, texts.as_slice()) {
            (ExplanationForm::Json, texts) => json::several(texts),
            (_, [median_text, largest_text]) => [
                title("median", median),
                median_text.clone(),
                "\n".to_owned(),
                title("largest", largest),
                largest_text.clone(),
            ]
            .concat(),
            (_, texts) => [title("median and largest", median), texts.concat()].concat(),
        };
        Ok((text, explanations))
    }

    /// Replaces the number of a statement by its name and text. Returns whether there was one.
    fn find_row(&mut self, input: &InputPlan) -> Result<bool> {
        let numbered = self.statement.take_if(|text| overhead_reading::number(text).is_some());
        // A shell takes an unquoted # as the start of a comment, so that the number alone is accepted.
        let row = self.row.take().map(|row| if row.starts_with('#') { row } else { format!("#{row}") });
        let number = row.or(numbered);
        let is_numbered = number.is_some();
        if let Some(number) = number {
            let row = overhead_reading::statement(&overhead_reading::statements(input)?, &number)?;
            // A placeholder stands for several statements, or for none.
            self.statement = row.statement.filter(|text| !text.starts_with('('));
            self.name = Some(row.name);
            self.first.get_or_insert(QueryKind::Class(Class::Workload));
        }
        Ok(is_numbered)
    }

    fn wanted(&self) -> OperationQuery {
        if let Some(number) = self.op {
            return OperationQuery::Number(number);
        }
        let is_any = self.name.is_none() && self.statement.is_none();
        let kind = self.first.or(is_any.then_some(QueryKind::Class(Class::Workload)));
        OperationQuery::Fitting {
            name: self.name.clone(),
            statement: self.statement.clone(),
            kind,
            nth: self.nth.unwrap_or(1),
        }
    }

    /// Returns an error that lists what the capture has instead.
    fn not_found(&self, input: &InputPlan, finder: &Finder) -> Error {
        let file = self.file.display();
        let count = finder.numbering.count;
        if count == 0 {
            let remedy = "if the server listens on another port, name it with --port, and its system with --db";
            return anyhow!("{file}: no operation was decoded: {remedy}");
        }
        if let Some(number) = self.op {
            return anyhow!("{file}: no operation {number}: there are {}, numbered from 1", grouped(count));
        }
        let kind = |first: QueryKind| {
            let named = KINDS.iter().find(|(_, kind, _)| *kind == first);
            format!(" of kind {}", named.map_or("", |(name, ..)| name))
        };
        let what = match (&self.name, self.first) {
            (Some(name), first) => format!("operation named {name}{}", first.map_or_else(String::new, kind)),
            (None, None) if self.statement.is_some() => "operation".to_owned(),
            (None, first) => format!("operation{}", kind(first.unwrap_or(QueryKind::Class(Class::Workload)))),
        };
        let stated = |statement: &String| format!(" with the statement `{statement}`");
        let what = what + &self.statement.as_ref().map_or_else(String::new, stated);
        let fit = finder.fitting().count() as u64;
        if fit > 0 {
            return anyhow!("{file}: --nth {} of an {what}: there are {}", self.nth.unwrap_or(1), grouped(fit));
        }
        let statements = self
            .statement
            .as_ref()
            .and_then(|_| overhead_reading::statements(input).ok())
            .map(|rows| statements(&rows));
        match statements.filter(|statements| !statements.is_empty()) {
            Some(statements) => anyhow!("{file}: no {what}: choose one of these, by its number or text: {statements}"),
            None => anyhow!("{file}: no {what}: there are {}", names(finder)),
        }
    }
}

/// Returns the first operation of a name, for a page.
pub fn example(input: &InputPlan, keys: &KeyReader, name: &str) -> Result<Option<PageExample>> {
    let kind = Some(QueryKind::Class(Class::Workload));
    let mut finder =
        Finder::new(OperationQuery::Fitting { name: Some(name.to_owned()), statement: None, kind, nth: 1 });
    input.explore(&mut finder, keys, &mut Warnings::default())?;
    let Some(found) = finder.found() else { return Ok(None) };
    Ok(Some(text::example(&explain(input, keys, found, finder.numbering.count)?)))
}

/// Records the operation, then the headers of its frames.
fn explain(input: &InputPlan, keys: &KeyReader, found: FoundOperation, count: u64) -> Result<Explanation> {
    // The search for the operation has the warnings about the files.
    let mut unsaid = Warnings::default();
    let mut recorder = OperationRecorder::new(found.connection, found.op);
    input.explore(&mut recorder, keys, &mut unsaid)?;
    let explained = recorder.explained;
    let mut frames = FrameFinder::new(explained.frames());
    input.explore(&mut frames, keys, &mut unsaid)?;
    Ok(Explanation { found, count, explained, frames: frames.found })
}

/// Reports missing parts.
fn check(explained: &ExplainedOperation, warnings: &mut Warnings) {
    let missing = explained.missing();
    if missing > 0 {
        warnings.partial(format!("{} of the operation were not captured", counted(missing, "byte")));
    }
    if !explained.is_balanced() {
        warnings.partial("what is shown differs from the ledger: this is a defect");
    }
}

const NAMES_SHOWN: usize = 20;

/// Returns the largest statements: number, and text or name.
fn statements(rows: &[ViewRow]) -> String {
    let text =
        |row: &ViewRow| row.statement.as_ref().filter(|text| !text.starts_with('(')).unwrap_or(&row.name).clone();
    let lines = rows.iter().take(NAMES_SHOWN).zip(1..).map(|(row, number)| format!("#{number} {}", clean(&text(row))));
    lines.collect::<Vec<_>>().join("; ")
}

/// Returns the most frequent operation names with their counts.
fn names(finder: &Finder) -> String {
    let mut names: Vec<_> = finder.names.iter().collect();
    names.sort_by_key(|&(name, times)| (std::cmp::Reverse(*times), name));
    let rest = names.len().saturating_sub(NAMES_SHOWN);
    let named = names.iter().take(NAMES_SHOWN).map(|(name, times)| format!("{name} ({})", grouped(**times)));
    let more = (rest > 0).then(|| format!("{} more", grouped(rest as u64)));
    named.chain(more).collect::<Vec<_>>().join(", ")
}
