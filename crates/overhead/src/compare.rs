//! `overhead compare`: one run against another.

use crate::cli::{Color, Which};
use crate::keys::{KeyFiles, KeyReader};
use crate::warnings::Warnings;
use crate::{fields, print, runs};
use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use overhead_report::{NamedRun, compare};
use std::path::{Path, PathBuf};

const PAIRING: &str = "\
Operations are paired by protocol, name and way of sending; between protocols, a GET stands against
a SELECT or a find, and a SET against an INSERT or an UPDATE. All figures are per operation, and a difference is
the second run's minus the first's.

Fields come from the records (analyze --fields, capture --fields), or else from the packets in the
run folders.

Examples:
  overhead compare runs/redis runs/postgres
  overhead compare runs/metadata runs/skipped --format markdown";

/// Arguments of `compare`.
#[derive(Args, Debug)]
#[command(after_help = PAIRING)]
pub struct Compare {
    /// Run folder, record written by `analyze --format json`, or capture
    #[arg(value_name = "RUN")]
    first: PathBuf,
    /// The run to set against it
    #[arg(value_name = "RUN")]
    second: PathBuf,
    #[command(flatten)]
    which: Which,
    #[command(flatten)]
    keys: KeyFiles,
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
}

impl Compare {
    /// Reads both runs and prints what sets them apart.
    pub fn run(self) -> Result<u8> {
        let mut warnings = Warnings::default();
        let keys = KeyReader::read(&self.keys, &mut warnings)?;
        let (first, second) =
            (load(&self.first, &self.which, &self.keys, &keys)?, load(&self.second, &self.which, &self.keys, &keys)?);
        let comparison = compare::compare(&first, &second);
        let text = match self.format {
            ComparisonForm::Json => compare::json(&comparison)?,
            ComparisonForm::Csv => compare::csv(&comparison),
            ComparisonForm::Markdown => compare::markdown(&comparison),
            ComparisonForm::Table => compare::table(&comparison, print::style(self.color.wanted())),
        };
        print::verbatim(&text)?;
        print::settled(warnings);
        // A comparison with a partial run is partial.
        Ok(first.run.exit.max(second.run.exit))
    }
}

/// A record, with fields where there is anything to read them from.
fn load(path: &Path, which: &Which, files: &KeyFiles, keys: &KeyReader) -> Result<NamedRun> {
    let mut named = runs::load(path, which, files)?;
    let packets = runs::packets(path, &named.run);
    if named.run.operations.iter().all(|row| row.fields.is_none()) && !packets.is_empty() {
        let selection = Which::of(&runs::selected(&named.run)).selection()?;
        fields::read(&mut named.run, &packets, selection, keys)
            .with_context(|| format!("{}: its packets cannot be read for their fields", path.display()))?;
    }
    Ok(named)
}
