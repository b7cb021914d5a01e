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
pub mod number;
pub(crate) mod projection;
pub(crate) mod rows;
pub(crate) mod sampled;
pub(crate) mod table;

pub use columns::OperationColumn;
pub use csv::csv;
pub use number::{counted, grouped, money, with_digits};
pub use rows::statement_name;
pub use table::{markdown, table};

pub use clean::markdown_cell;
pub(crate) use clean::{capitalised, code_span, shortened};
pub use clean::{clean, middle_cut};
pub(crate) use facts::{beside_the_workload, command, integrity};
pub use facts::{interface_line, quoted};
pub use grid::wrapped;

pub use crate::document::json;

/// Terminal formatting. The caller decides on colour (`NO_COLOR`, `--color`, not a terminal).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Style {
    pub color: bool,
    /// Characters in a line. Tables show the columns that fit, or split into blocks if the names leave no room. `None` for no
    /// limit.
    pub width: Option<usize>,
    /// Characters in a line of prose; `None` to keep lines searchable for programs.
    pub prose: Option<usize>,
    /// Explains the columns of operations.
    pub legend: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Columns {
    /// The most important ones that fit into [`Style::width`].
    #[default]
    Fitting,
    All,
    Listed(Vec<OperationColumn>),
}

#[cfg(test)]
mod tests;
