//! Runs that differ by a parameter: medians and spreads over repeated runs, as charts, tables and sentences.

mod axes;
mod figures;
mod page;
mod render;
mod sections;
mod sentences;
mod summary;

pub use axes::is_sweep;
pub(crate) use page::{HEADING, contents};
pub use render::{markdown, remarks, table};
pub use sentences::sentences;
pub use summary::Sweep;

#[cfg(test)]
mod tests;
