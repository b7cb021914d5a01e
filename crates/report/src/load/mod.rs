//! A load recorded by `overhead bench`: client-side rates and latencies in charts, tables and a page.

mod tables;
mod write;

pub use write::{LOAD_FILES, replaced_by_load, write_load};

use crate::bounded::{parse_record, read_text};
use crate::error::ReportError;
use overhead_model::load::{LOAD_VERSION, Load};
use std::path::Path;

/// Reads the record of a load; returns `None` for other JSON.
///
/// # Errors
///
/// [`ReportError::Unreadable`], [`ReportError::Malformed`] or [`ReportError::Version`].
pub fn read_load(path: &Path) -> Result<Option<Load>, ReportError> {
    let text = read_text(path).map_err(|source| ReportError::Unreadable { path: path.to_owned(), source })?;
    let Ok(value) = serde_json::from_slice::<serde_json::Value>(&text) else { return Ok(None) };
    if ["driver", "results", "db"].iter().any(|member| value.get(member).is_none()) {
        return Ok(None);
    }
    parse_record(&text, path, LOAD_VERSION..=LOAD_VERSION).map(Some)
}

#[cfg(test)]
mod tests;
