//! A record in words and numbers: for a terminal, for programs, for a README.

pub(crate) mod absolute;
pub(crate) mod columns;
mod csv;
pub(crate) mod distance;
pub(crate) mod distribution;
pub(crate) mod facts;
mod idle;
pub(crate) mod kernel;
pub(crate) mod projection;
pub(crate) mod sampled;
pub(crate) mod table;

pub use crate::number::{self, counted, grouped, money, with_digits};
pub use columns::OperationColumn;
pub use csv::csv;
pub use table::statement_name;
pub use table::{markdown, table};

pub use crate::clean::{clean, markdown_cell, middle_cut};
pub use crate::grid::wrapped;
pub(crate) use facts::{beside_the_workload, command, integrity};
pub use facts::{interface_line, quoted};

pub use crate::document::json;

/// Which columns of the operations table to show.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Columns {
    /// The most important ones that fit into [`crate::Style::width`].
    #[default]
    Fitting,
    /// All columns that belong to the table.
    All,
    /// These columns, in this order.
    Listed(Vec<OperationColumn>),
}

#[cfg(test)]
mod tests;
