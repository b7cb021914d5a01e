//! `overhead compare`: compares runs with one of them.

use crate::options::{Choice, Color, choice_parser, work_units};
use crate::{print, terminal};
use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use overhead_model::record::{By, Price, WorkUnits};
use overhead_model::{bail_usage, exit, say};
use overhead_options::DecodeArgs;
use overhead_reading::{GroupReader, Warnings, distinguish};
use overhead_report::gate::{self, ChangeLimit, Finding, FindingForm};
use overhead_report::{RunGroup, compare, compare::ComparisonOptions};
use std::path::PathBuf;

const PAIRING: &str = "\
The comparison starts with the whole cost: all bytes on the wire, with connecting, preparing and acknowledging, \
per operation or per --work. Then come the operations that change it. They are paired by protocol, name and statement, \
however they were sent; between protocols, a GET is compared with a get, a SELECT or a find, and a SET with a set, an INSERT \
or an UPDATE. Differences are to the first run. Bytes are exact. Times, calls and cycles vary: in a \
folder of runs (capture --runs 5), each run is one measurement, and intervals are 95%.

Fields come from the records (analyze --fields, capture --fields), otherwise from the packets in the \
run folders.

Examples:
  overhead compare runs/redis runs/postgres
  overhead compare runs/metadata runs/skipped --format markdown
  overhead compare runs/before runs/after --work 400=page
  overhead compare runs/a runs/b --fail-on 'wire>+1%' --fail-on 'syscalls>+10%'";

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
    /// Divide the whole cost by your own unit of work, such as 400=page
    #[arg(long, value_name = "N=NAME", value_parser = work_units)]
    work: Option<WorkUnits>,
    /// Price of a byte, such as 0.02/GB: adds what the work costs
    #[arg(hide_short_help = true, long, value_name = "PRICE", value_parser = overhead_report::price)]
    price: Option<Price>,
    /// Show the accounts and fields of each pair of operations, and the work of clients and servers
    #[arg(hide_short_help = true, long)]
    details: bool,
    /// End with 4 if a value exceeds the reference by more than this; repeatable. Values are wire, payload, frames, round-trips
    /// and setup for the whole cost; of single operations, request and response with
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
        let mut groups = self.runs.iter().map(|path| reader.group(path)).collect::<Result<Vec<RunGroup>>>()?;
        let mut names: Vec<&mut String> = groups.iter_mut().map(|group| &mut group.name).collect();
        distinguish(&mut names, &self.runs);
        for named in groups.iter_mut().flat_map(|group| &mut group.runs) {
            named.run.whole.work = self.work.clone().or(named.run.whole.work.take());
        }
        let options = ComparisonOptions { price: self.price, has_details: self.details, name_chars: None };
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
            ComparisonForm::Markdown => print::verbatim(&compare::markdown(&comparisons, &options)),
            ComparisonForm::Github => print::findings(&findings, FindingForm::Github, None),
            ComparisonForm::Table => {
                print::verbatim(&compare::table(&comparisons, &options, terminal::style(self.color.wanted())))
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
