//! A subject of a comparison: one run, or the same thing run several times.

use crate::run::NamedRun;

/// Runs of the same thing under one name. Bytes are added up over them; times, calls and cycles are figures of each run.
#[derive(Clone, Debug, PartialEq)]
pub struct RunGroup {
    /// What the runs are called together.
    pub name: String,
    /// The runs, in order; at least one.
    pub runs: Vec<NamedRun>,
}

impl RunGroup {
    /// Returns one run as a group.
    pub fn single(run: NamedRun) -> Self {
        Self { name: run.name.clone(), runs: vec![run] }
    }

    /// Returns whether there are several runs, so that chance can be told from change.
    pub fn is_repeated(&self) -> bool {
        self.runs.len() > 1
    }

    /// Returns the exit status of the runs together: that of a group with a partial run is partial.
    pub fn exit(&self) -> u8 {
        self.runs.iter().map(|named| named.run.exit).max().unwrap_or_default()
    }
}
