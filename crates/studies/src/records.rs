//! What a study leaves in its folder: a folder for each cell, and the conditions.

use crate::cell::Cell;
use anyhow::{Context, Result, ensure};
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};

/// Everything that a study measured.
#[derive(Debug)]
pub(crate) struct Study {
    /// In order of their folders' names.
    pub cells: Vec<Cell>,
    /// `conditions.json`: servers, and what else the machine did.
    pub conditions: Value,
}

/// Reads `runs/*/{cell.json,run.json}` with `bench.json` and `tool.json` where they are, and `conditions.json`.
///
/// # Errors
///
/// A record that is missing or cannot be read, and a run whose ledger does not balance or that lost frames: no page is made
/// of it.
pub(crate) fn read(folder: &Path) -> Result<Study> {
    let conditions = parsed(&folder.join("conditions.json"))?;
    let runs = folder.join("runs");
    let entries = fs::read_dir(&runs).with_context(|| runs.display().to_string())?;
    let mut folders: Vec<PathBuf> = entries.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
    folders.retain(|path| path.is_dir());
    folders.sort();
    let cells = folders.iter().map(|folder| cell(folder)).collect::<Result<Vec<_>>>()?;
    ensure!(!cells.is_empty(), "{}: no cell was measured", runs.display());
    Ok(Study { cells, conditions })
}

fn cell(folder: &Path) -> Result<Cell> {
    let run = overhead_report::load_run(folder)?;
    let name = folder.display();
    ensure!(run.ledger.balanced, "{name}: the ledger does not balance");
    ensure!(run.tcp.gap_bytes == 0, "{name}: {} bytes were not captured", run.tcp.gap_bytes);
    Ok(Cell {
        labels: parsed(&folder.join("cell.json"))?,
        bench: optional(&folder.join("bench.json"))?,
        tool: optional(&folder.join("tool.json"))?,
        run,
    })
}

fn parsed<T: DeserializeOwned>(path: &Path) -> Result<T> {
    let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
    serde_json::from_str(&text).with_context(|| path.display().to_string())
}

fn optional<T: DeserializeOwned>(path: &Path) -> Result<Option<T>> {
    path.exists().then(|| parsed(path)).transpose()
}
