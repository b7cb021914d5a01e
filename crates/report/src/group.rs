//! A subject of a comparison: one or more runs of the same thing.

use crate::run::NamedRun;

/// Runs of the same thing under one name. Bytes are summed; times, calls and cycles stay separate for each run.
#[derive(Clone, Debug, PartialEq)]
pub struct RunGroup {
    /// Name of the subject.
    pub name: String,
    /// The runs, in order; at least one.
    pub runs: Vec<NamedRun>,
}

impl RunGroup {
    /// Makes a group of one run, under its name.
    pub fn single(run: NamedRun) -> Self {
        Self { name: run.name.clone(), runs: vec![run] }
    }

    /// Returns the joint exit status: a partial run makes the group partial.
    pub fn exit(&self) -> u8 {
        self.runs.iter().map(|named| named.run.exit).max().unwrap_or_default()
    }
}
