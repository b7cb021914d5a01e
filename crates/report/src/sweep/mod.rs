//! Sweeps: one command with several values of its parameters, each run several times. [`point`] computes medians and spreads of
//! the runs; the other functions print and draw them.

mod figures;
mod page;
mod render;
mod sections;
mod summary;

pub use crate::document::json;
pub use page::{SWEEP_FILES, replaced_by_sweep, write_sweeps};
pub use render::{csv, markdown, remarks, table};
pub use summary::{PointRun, point};

use crate::bounded::{parse_record, read_record};
use crate::error::ReportError;
use crate::run::NamedRun;
use crate::summary::{listed, systems};
use overhead_model::sweep::{SWEEP_VERSION, Sweep};
use std::path::Path;

/// A sweep and its name beside others.
#[derive(Clone, Debug, PartialEq)]
pub struct NamedSweep {
    pub name: String,
    pub sweep: Sweep,
}

impl NamedSweep {
    /// Makes a sweep of one combination out of a run, to draw it as a level line beside the lines of sweeps.
    pub fn from_run(named: NamedRun) -> Self {
        let NamedRun { name, run } = named;
        let machine = run.environment.clone();
        let command =
            machine.iter().filter_map(|machine| machine.workload.as_ref()).map(|workload| workload.command.clone());
        let sweep = Sweep {
            schema_version: SWEEP_VERSION,
            tool: run.tool.clone(),
            command: command.flatten().collect(),
            settings: Vec::new(),
            selection: run.source.selection.clone(),
            environment: machine,
            servers: systems([&run]),
            parameters: Vec::new(),
            runs: 1,
            partial: None,
            points: vec![point(
                Vec::new(),
                name.clone(),
                &[PointRun { folder: name.clone(), record: Ok(run), reported: Vec::new() }],
            )],
        };
        Self { name, sweep }
    }

    /// Returns the servers as they name themselves, or the databases that were asked for.
    fn system(&self) -> String {
        let Sweep { servers, selection, .. } = &self.sweep;
        listed(if servers.is_empty() { &selection.db } else { servers })
    }
}

pub const SWEEP_RECORD: &str = "sweep.json";

/// Reads the record of a sweep from its folder, or from the file itself.
///
/// # Errors
///
/// [`ReportError::Missing`], [`ReportError::Unreadable`], [`ReportError::Malformed`] or [`ReportError::Version`].
pub fn load_sweep(path: &Path) -> Result<Sweep, ReportError> {
    let (path, text) = read_record(path, SWEEP_RECORD)?;
    parse_record(&text, &path, SWEEP_VERSION..=SWEEP_VERSION)
}

/// Returns the name of a sweep's folder.
pub fn name_of(path: &Path) -> String {
    crate::run::name_of(path, SWEEP_RECORD)
}

#[cfg(test)]
mod tests;
