//! A record in words and numbers: for a terminal, for programs, for a README.

pub(crate) mod absolute;
mod clean;
pub(crate) mod columns;
mod csv;
pub(crate) mod distribution;
pub(crate) mod facts;
pub(crate) mod grid;
pub(crate) mod kernel;
pub(crate) mod legend;
pub(crate) mod markdown;
pub mod number;
pub(crate) mod projection;
pub(crate) mod rows;
mod sampled;
pub(crate) mod table;

pub use columns::{LatencyFigure, OperationColumn};
pub use csv::csv;
pub use markdown::markdown;
pub use number::{counted, grouped};
pub use table::table;

pub use clean::markdown_cell;
pub use clean::{clean, middle_cut};
pub(crate) use clean::{code_span, shortened};
pub use facts::quoted;
pub(crate) use facts::{beside_the_workload, command, cycle_label, integrity};
pub use grid::wrapped;

use crate::error::ReportError;
use overhead_model::Run;
use overhead_model::outside::to_json;

/// How the terminal wants its text. Whether colour is due (`NO_COLOR`, `--color`, not a terminal) is the caller's to decide.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Style {
    /// Use ANSI escape sequences.
    pub color: bool,
    /// Characters in a line: tables have the columns that fit, and are cut into blocks where the names alone do not leave
    /// room. `None`: as wide as it takes.
    pub width: Option<usize>,
    /// Characters in a line of prose; `None` where lines are for programs to search.
    pub prose: Option<usize>,
}

/// The columns of the operations table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Columns {
    /// Those that matter most, as many as fit into [`Style::width`].
    #[default]
    Fitting,
    /// The whole table.
    All,
    /// These, in this order.
    Listed(Vec<OperationColumn>),
}

/// Returns columns that say what a row is, and those beside them.
pub(crate) fn beside_columns(keys: &[&str], figures: Vec<grid::Column>) -> Vec<grid::Column> {
    keys.iter().map(|key| grid::Column::left(key)).chain(figures).collect()
}

/// The record as indented JSON, with a newline at the end.
///
/// # Errors
///
/// [`ReportError::Json`] when a number of the record is not finite.
pub fn json(run: &Run) -> Result<String, ReportError> {
    Ok(to_json(run)?)
}

#[cfg(test)]
mod tests;
