//! The records of a study. While it is measured they are files: `conditions.json`, and a folder in `runs` for each cell. Then they
//! are packed into one file with a line of JSON for each, `{"path":…,"record":…}`, which `zstd -dc` prints.

use crate::cell::Cell;
use anyhow::{Context, Result, ensure};
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::fs;
use std::path::{Component, Path};

/// Name of the packed records in a study's folder.
const PACKED: &str = "records.jsonl.zst";

/// Servers, and what else the machine did.
const CONDITIONS: &str = "conditions.json";

/// The folder with a folder for each cell.
const RUNS: &str = "runs";

/// Records that a cell's folder may hold.
const CELL_RECORDS: [&str; 4] = ["bench.json", "cell.json", "run.json", "tool.json"];

/// A file is packed once and read for years.
const ZSTD_LEVEL: i32 = 22;

/// Everything that a study measured.
#[derive(Debug)]
pub(crate) struct Study {
    /// In order of their folders' names.
    pub cells: Vec<Cell>,
    /// `conditions.json`: servers, and what else the machine did.
    pub conditions: Value,
}

/// Returns the lines of the packed records.
pub(crate) fn packed(folder: &Path) -> Result<String> {
    let path = folder.join(PACKED);
    let read = || -> Result<_> { Ok(String::from_utf8(zstd::decode_all(fs::File::open(&path)?)?)?) };
    read().with_context(|| path.display().to_string())
}

/// Returns the lines of records that are not packed yet, if there are any.
pub(crate) fn measured(folder: &Path) -> Result<Option<String>> {
    if !folder.join(CONDITIONS).exists() {
        return Ok(None);
    }
    let mut paths = vec![CONDITIONS.to_owned()];
    for cell in fs::read_dir(folder.join(RUNS)).context(RUNS)? {
        let cell = cell?.file_name();
        paths.extend(CELL_RECORDS.map(|record| format!("{RUNS}/{}/{record}", cell.display())));
    }
    paths.sort();
    let mut lines = String::new();
    for path in paths {
        let file = folder.join(&path);
        if file.exists() {
            let text = fs::read_to_string(&file).with_context(|| file.display().to_string())?;
            // JSON has line breaks between its tokens and never in them.
            let record: String = text.lines().map(str::trim).collect();
            writeln!(lines, r#"{{"path":"{path}","record":{record}}}"#)?;
        }
    }
    Ok(Some(lines))
}

/// Packs the lines, and removes the files that they come from.
pub(crate) fn pack(folder: &Path, lines: &str) -> Result<()> {
    let path = folder.join(PACKED);
    fs::write(&path, zstd::bulk::compress(lines.as_bytes(), ZSTD_LEVEL)?)
        .with_context(|| path.display().to_string())?;
    println!("{}", path.display());
    fs::remove_dir_all(folder.join(RUNS))?;
    Ok(fs::remove_file(folder.join(CONDITIONS))?)
}

/// Writes the packed records as the files that they were.
pub(crate) fn unpack(folder: &Path, into: &Path) -> Result<()> {
    for line in packed(folder)?.lines() {
        let (path, record) = split(line)?;
        let is_inside = Path::new(path).components().all(|part| matches!(part, Component::Normal(_)));
        ensure!(is_inside, "{path} is not in the folder");
        let path = into.join(path);
        fs::create_dir_all(path.parent().unwrap_or(into)).with_context(|| path.display().to_string())?;
        fs::write(&path, format!("{record}\n")).with_context(|| path.display().to_string())?;
    }
    Ok(())
}

/// Reads `cell.json` and `run.json` of each cell, with `bench.json` and `tool.json` if it has them, and `conditions.json`.
///
/// # Errors
///
/// A record that is missing or cannot be read, and a run whose ledger does not balance or that lost frames: no page is made
/// of it.
pub(crate) fn study(lines: &str) -> Result<Study> {
    let records = lines.lines().map(split).collect::<Result<Records<'_>>>()?;
    let folders: BTreeSet<&str> = records.keys().filter_map(|path| Some(path.rsplit_once('/')?.0)).collect();
    ensure!(!folders.is_empty(), "no cell was measured");
    let cells = folders.into_iter().map(|folder| cell(&records, folder)).collect::<Result<_>>()?;
    Ok(Study { cells, conditions: required(&records, CONDITIONS)? })
}

/// Records by path.
type Records<'lines> = BTreeMap<&'lines str, &'lines str>;

/// The path of a line, and its record as it was written.
fn split(line: &str) -> Result<(&str, &str)> {
    let inner = line.strip_prefix(r#"{"path":""#).and_then(|line| line.strip_suffix('}'));
    inner.and_then(|line| line.split_once(r#"","record":"#)).context(r#"a line is not {"path":…,"record":…}"#)
}

fn cell(records: &Records<'_>, folder: &str) -> Result<Cell> {
    let path = format!("{folder}/run.json");
    let text = records.get(&*path).with_context(|| format!("{path} is missing"))?;
    let run = overhead_report::parse_run(text.as_bytes(), Path::new(&path))?;
    ensure!(run.ledger.balanced, "{folder}: the ledger does not balance");
    ensure!(run.tcp.gap_bytes == 0, "{folder}: {} bytes were not captured", run.tcp.gap_bytes);
    Ok(Cell {
        labels: required(records, &format!("{folder}/cell.json"))?,
        bench: optional(records, &format!("{folder}/bench.json"))?,
        tool: optional(records, &format!("{folder}/tool.json"))?,
        run,
    })
}

fn required<T: DeserializeOwned>(records: &Records<'_>, path: &str) -> Result<T> {
    optional(records, path)?.with_context(|| format!("{path} is missing"))
}

fn optional<T: DeserializeOwned>(records: &Records<'_>, path: &str) -> Result<Option<T>> {
    records.get(path).map(|text| serde_json::from_str(text)).transpose().with_context(|| path.to_owned())
}

#[cfg(test)]
mod tests;
