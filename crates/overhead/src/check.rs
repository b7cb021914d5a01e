//! `overhead check`: compares runs with a budget.

use crate::compare::PAIR_GRAINS;
use crate::options::{Choice, choice_parser};
use crate::print;
use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use overhead_files::{FileOwner, write_named};
use overhead_model::record::By;
use overhead_model::{bail_usage, exit, say};
use overhead_options::{DecodeArgs, code};
use overhead_reading::{GroupReader, Warnings};
use overhead_report::NamedRun;
use overhead_report::bounded::read_text;
use overhead_report::gate::{self, Budget, Finding, FindingForm, Severity};
use overhead_report::text::counted;
use std::path::{Path, PathBuf};

const BUDGETS: &str = "\
Figures are per operation, and bytes are exact: the same requests and answers cost the same in every \
run. A partial run, a missing operation or a figure that was not measured is not judged: status 3.

Examples:
  overhead check --write budget.toml runs/a
  overhead check budget.toml runs/a
  overhead check budget.toml runs/a --format github

Exit status: 0 within the budget, 4 outside, 3 not judged.";

/// Arguments of `check`.
#[derive(Args, Debug)]
#[command(after_help = BUDGETS)]
#[expect(clippy::struct_excessive_bools, reason = "flags of a command line")]
pub struct CheckArgs {
    /// The budget, a TOML file
    #[arg(value_name = "BUDGET.toml")]
    budget: PathBuf,
    /// Run folders, folders of runs, records or captures
    #[arg(value_name = "RUN", required = true)]
    runs: Vec<PathBuf>,
    #[command(flatten)]
    decode: DecodeArgs,
    /// Write a budget that allows what these runs cost
    #[arg(long)]
    write: bool,
    /// Overwrite an existing budget
    #[arg(long, requires = "write")]
    force: bool,
    /// How finely a written budget distinguishes operations
    #[arg(long, value_parser = choice_parser(PAIR_GRAINS), value_name = "GRAIN", default_value = "statement", requires = "write")]
    by: By,
    /// Form of the result on standard output
    #[arg(long, value_parser = choice_parser(FORMS), default_value = "table", conflicts_with = "write")]
    format: FindingForm,
    /// Exit with 0 within the budget, 1 outside, and 125 if a run cannot be judged, for `git bisect run`
    #[arg(long, conflicts_with = "write")]
    bisect: bool,
    /// Say nothing but results and errors
    #[arg(short, long)]
    quiet: bool,
}

/// Makes `git bisect run` skip a commit.
const SKIP: u8 = 125;

/// Forms of what a gate found.
const FORMS: &[Choice<FindingForm>] = &[
    ("table", FindingForm::Lines, "For people: a line for each breach"),
    ("json", FindingForm::Json, "For programs"),
    ("csv", FindingForm::Csv, "For spreadsheets"),
    ("markdown", FindingForm::Markdown, "For documents"),
    ("github", FindingForm::Github, "Annotations of GitHub's workflows"),
];

impl CheckArgs {
    /// Checks the runs against the budget, or writes a budget for them.
    pub fn run(self) -> Result<u8> {
        let judged = self.judge();
        if !self.bisect {
            return judged;
        }
        Ok(match judged {
            Ok(exit::COMPLETE) => 0,
            Ok(exit::OUTSIDE) => 1,
            Ok(_) => SKIP,
            Err(error) => {
                let _ = code(Err(error));
                SKIP
            }
        })
    }

    fn judge(&self) -> Result<u8> {
        let mut warnings = Warnings::default();
        let reader = GroupReader::new(self.decode.plan(), &mut warnings)?;
        let paths: Vec<PathBuf> = self.runs.iter().flat_map(|path| GroupReader::paths(path)).collect();
        let status = if self.write { self.make(&reader, &paths)? } else { self.hold(&reader, &paths)? };
        Ok(status.max(print::settled(warnings)))
    }

    fn hold(&self, reader: &GroupReader, paths: &[PathBuf]) -> Result<u8> {
        let budget = self.read()?;
        let findings = paths.iter().map(|path| held(&budget, reader, path)).collect::<Result<Vec<_>>>()?.concat();
        print::findings(&findings, self.format, Some(&self.budget))?;
        let status = gate::status(&findings);
        if status == exit::COMPLETE && !self.quiet {
            say!("overhead: {} within {}", counted(paths.len() as u64, "run"), self.budget.display());
        }
        Ok(status)
    }

    fn read(&self) -> Result<Budget> {
        let is_budget = |path: &&PathBuf| path.extension().is_some_and(|end| end == "toml");
        let path = self.budget.display();
        if let (false, Some(budget)) = (is_budget(&&self.budget), self.runs.iter().find(is_budget)) {
            bail_usage!("{path} is not a budget: name the budget first: `overhead check {} {path}`", budget.display());
        }
        let remedy = format!("name another, or write one with `overhead check --write {path} RUN`");
        let text =
            read_text(&self.budget).map_err(|error| anyhow!("the budget {path} cannot be read ({error}): {remedy}"))?;
        let text = String::from_utf8(text)
            .with_context(|| format!("the budget {path} is not a text file: name a budget first, then runs"))?;
        Budget::parse(&text).map_err(|error| anyhow!("the budget {path}: {error}: correct it, {remedy}"))
    }

    fn make(&self, reader: &GroupReader, paths: &[PathBuf]) -> Result<u8> {
        let runs = paths.iter().map(|path| reader.named(path, true)).collect::<Result<Vec<NamedRun>>>()?;
        if let Some((named, reason)) = runs.iter().find_map(|named| Some((named, gate::incomplete(&named.run)?))) {
            bail!("{}: {reason}: a budget made of it could allow too little, repeat the run", named.name);
        }
        let text = gate::budget_of(&runs, self.by);
        let path = self.budget.display();
        Budget::parse(&text).with_context(|| format!("{path}: there is nothing to limit in these runs"))?;
        write_named(&self.budget, text.as_bytes(), FileOwner::sudo_caller(), self.force)
            .with_context(|| format!("{path} cannot be written: choose another name, or overwrite it with --force"))?;
        if !self.quiet {
            say!("{path}");
        }
        Ok(exit::COMPLETE)
    }
}

/// Checks one run against a budget. Reads fields only if something grew.
fn held(budget: &Budget, reader: &GroupReader, path: &Path) -> Result<Vec<Finding>> {
    let findings = gate::check(budget, &reader.named(path, false)?);
    if findings.iter().all(|finding| finding.severity != Severity::Breach) {
        return Ok(findings);
    }
    Ok(gate::check(budget, &reader.named(path, true)?))
}
