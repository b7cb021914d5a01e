//! `overhead compare`: compares runs with one of them.

use crate::options::{Choice, Color, choice_parser};
use crate::{print, terminal};
use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use overhead_model::record::By;
use overhead_model::{bail_usage, exit, say};
use overhead_options::DecodeArgs;
use overhead_reading::{GroupReader, Warnings};
use overhead_report::gate::{self, ChangeLimit, Finding, FindingForm};
use overhead_report::{RunGroup, compare};
use std::path::PathBuf;

const PAIRING: &str = "\
Operations are paired by protocol, name and statement, however they were sent; between protocols, a \
GET is compared with a get, a SELECT or a find, and a SET with a set, an INSERT or an UPDATE. Figures are per \
operation, and differences are to the first run. Bytes are exact. Times, calls and cycles vary: in a \
folder of runs (capture --runs 5), each run is one measurement, and intervals are 95%.

Fields come from the records (analyze --fields, capture --fields), otherwise from the packets in the \
run folders.

Examples:
  overhead compare runs/redis runs/postgres
  overhead compare runs/metadata runs/skipped --format markdown
  overhead compare runs/a runs/b --fail-on 'response.payload>+1%' --fail-on 'syscalls>+10%'";

/// Arguments of `compare`.
#[derive(Args, Debug)]
#[command(after_help = PAIRING)]
pub struct CompareArgs {
    /// Run folders, folders of runs, records or captures; the first is the reference
    #[arg(value_name = "RUN", required = true)]
    runs: Vec<PathBuf>,
    #[command(flatten)]
    decode: DecodeArgs,
    /// How finely operations are distinguished
    #[arg(long, value_parser = choice_parser(PAIR_GRAINS), value_name = "GRAIN", default_value = "statement")]
    by: By,
    /// End with 4 if a figure exceeds the reference by more than this; repeatable. Figures are request and response with
    /// .wire, .payload, .headers, .frames or an account, latency.p50 to latency.p999, syscalls, cycles, client.syscalls and
    /// client.cycles
    #[arg(long, value_name = "FIGURE>+N[%]")]
    fail_on: Vec<ChangeLimit>,
    /// Form of the result on standard output
    #[arg(long, value_enum, default_value = "table")]
    format: ComparisonForm,
    /// Colours in tables
    #[arg(long, value_enum, value_name = "WHEN", default_value = "auto")]
    color: Color,
}

/// Form of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ComparisonForm {
    /// For people
    Table,
    /// For programs
    Json,
    /// For spreadsheets: a line for each figure
    Csv,
    /// For documents
    Markdown,
    /// Annotations of GitHub's workflows, for what --fail-on finds
    Github,
}

/// How finely operations are paired, as help describes it.
pub const PAIR_GRAINS: &[Choice<By>] = &[
    ("name", By::Name, "By name alone"),
    ("statement", By::Statement, "By statement, where both runs have some in common"),
];

impl CompareArgs {
    /// Reads the runs, compares them and prints the result.
    pub fn run(self) -> Result<u8> {
        if let [only] = self.runs.as_slice() {
            let only = only.display();
            bail_usage!(
                "a comparison takes two runs: name another one after {only}, or look at it alone with `overhead report {only}`"
            );
        }
        let mut warnings = Warnings::default();
        let reader = GroupReader::new(self.decode.plan(), &mut warnings)?;
        let groups = self.runs.iter().map(|path| reader.group(path)).collect::<Result<Vec<RunGroup>>>()?;
        let comparisons = compare::compare_all(&groups, self.by).context("name two runs at least")?;
        let findings: Vec<Finding> = match groups.split_first() {
            Some((reference, others)) => {
                let against = |group| gate::exceeded(&self.fail_on, reference, group, self.by);
                others.iter().filter(|_| !self.fail_on.is_empty()).flat_map(against).collect()
            }
            None => Vec::new(),
        };
        match self.format {
            ComparisonForm::Json => print::verbatim(&compare::json(&comparisons)?),
            ComparisonForm::Csv => print::verbatim(&compare::csv(&comparisons)),
            ComparisonForm::Markdown => print::verbatim(&compare::markdown(&comparisons)),
            ComparisonForm::Github => print::findings(&findings, FindingForm::Github, None),
            ComparisonForm::Table => {
                print::verbatim(&compare::table(&comparisons, terminal::style(self.color.wanted())))
            }
        }?;
        print::settled(warnings);
        if self.format != ComparisonForm::Github {
            for line in gate::findings(&findings, FindingForm::Lines, None)?.lines() {
                say!("overhead: {line}");
            }
        }
        // A comparison with a partial run is partial.
        let partial = groups.iter().map(RunGroup::exit).max().unwrap_or(exit::COMPLETE);
        Ok(partial.max(gate::status(&findings)))
    }
}
