//! Reads texts of statements that were prepared before the capture.

use anyhow::{Result, anyhow};
use overhead_dissect::GivenStatements;
use overhead_model::exit::StatusFault;
use overhead_model::say;
use std::path::Path;

/// Reads the file of an option or setting, and warns of names that stand for several texts.
pub fn read(option: &str, path: &Path) -> Result<GivenStatements> {
    let lines = std::fs::read_to_string(path)
        .map_err(|error| anyhow!("{option} {}: {error}: check the path", path.display()))?;
    let given = GivenStatements::parse(&lines).map_err(|line| {
        StatusFault::usage(format!(
            "{}, line {line}: a statement's line is its name or id, a tab and its text; further lines of the text begin with a tab, and comments with #",
            path.display()
        ))
    })?;
    let ambiguous = given.ambiguous();
    if !ambiguous.is_empty() {
        let (path, names) = (path.display(), ambiguous.join(", "));
        say!("overhead: warning: {path}: the texts for {names} are not used, because they differ between connections");
    }
    Ok(given)
}
