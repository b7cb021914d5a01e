//! What only the packets say, for the page of a report: what could be saved, and operations byte by byte.

use crate::cli::Which;
use crate::keys::{KeyFiles, KeyReader};
use crate::report::LoadedRun;
use crate::runs::KeptRun;
use crate::warnings::Warnings;
use crate::{advise, explain, print};
use anyhow::Result;
use overhead_model::{Class, record::OperationRow};
use overhead_report::text::{clean, counted};
use overhead_report::{PageExample, PageExtras, PageFinding};
use std::path::{Path, PathBuf};

/// Bytes of packets that a report reads again of its own accord: some seconds.
const PACKETS: u64 = 256 << 20;

/// Operations of a run that are shown byte by byte, the largest: each is looked for in the packets.
const EXAMPLES: usize = 6;

/// Returns what the packets of these runs say, of those whose packets are there; examples only where they are asked for.
pub fn extras(runs: &[LoadedRun], which: &Which, keys: &KeyFiles, examples: bool) -> Result<PageExtras> {
    let mut extras = PageExtras::default();
    let mut shown = false;
    for loaded in runs {
        let Some(capture) = packets(&loaded.path, which) else { continue };
        let size: u64 = capture.files.iter().filter_map(|file| Some(file.metadata().ok()?.len())).sum();
        if size > PACKETS {
            let path = loaded.path.display();
            print::warn(&[format!(
                "{path}: its packets are too many to look for savings in a report: overhead advise {path}"
            )]);
        } else {
            let run = if runs.len() > 1 { clean(&loaded.run.name) } else { String::new() };
            extras.findings.extend(findings(&run, &capture, keys)?);
        }
        if examples {
            shown = true;
            extras.examples.extend(of_run(loaded, runs.len() > 1, &capture, keys)?);
        }
    }
    if examples && !shown {
        print::warn(&["--bytes: of no run are the packets there".to_owned()]);
    }
    Ok(extras)
}

/// Packets, and how they are read.
struct Packets {
    files: Vec<PathBuf>,
    which: Which,
}

/// Returns the packets of a run; `None` where they are not kept.
fn packets(path: &Path, which: &Which) -> Option<Packets> {
    match KeptRun::open(path) {
        Ok(Some(kept)) => Some(Packets { which: kept.which(which), files: kept.packets }),
        Ok(None) if path.is_file() => Some(Packets { which: which.clone(), files: vec![path.to_owned()] }),
        Ok(None) | Err(_) => None,
    }
}

fn findings(run: &str, capture: &Packets, keys: &KeyFiles) -> Result<Vec<PageFinding>> {
    // What there is to say of the packets, the record says.
    let mut warnings = Warnings::default();
    let keys = KeyReader::read(keys, &mut warnings)?;
    let advice = advise::read(&capture.files, &capture.which, &keys, &mut warnings)?;
    let told = advice.findings.iter().map(|finding| PageFinding {
        run: run.to_owned(),
        subject: advise::subject(finding),
        title: clean(&finding.title),
        saves: advise::saving(finding),
        remedies: finding.remedies.iter().map(|remedy| format!("{}: {}", remedy.at, remedy.setting)).collect(),
    });
    Ok(told.collect())
}

/// Returns the first operation of each of the largest kinds of a run.
fn of_run(loaded: &LoadedRun, several: bool, capture: &Packets, keys: &KeyFiles) -> Result<Vec<PageExample>> {
    let mut rows: Vec<&OperationRow> =
        loaded.run.run.operations.iter().filter(|row| row.class == Class::Workload).collect();
    rows.sort_by_key(|row| std::cmp::Reverse(row.request.accounts.total() + row.response.accounts.total()));
    let mut names: Vec<&str> = Vec::new();
    for row in &rows {
        if !names.contains(&&*row.name) {
            names.push(&row.name);
        }
    }
    if names.len() > EXAMPLES {
        let more = counted((names.len() - EXAMPLES) as u64, "more operation");
        print::warn(&[format!("--bytes: {}: {more} not shown byte by byte", loaded.path.display())]);
    }
    let mut warnings = Warnings::default();
    let keys = KeyReader::read(keys, &mut warnings)?;
    let mut examples = Vec::new();
    for name in names.into_iter().take(EXAMPLES) {
        if let Some(mut example) = explain::example(&capture.files, &capture.which, &keys, name)? {
            if several {
                example.title = format!("{}: {}", clean(&loaded.run.name), example.title);
            }
            examples.push(example);
        }
    }
    Ok(examples)
}
