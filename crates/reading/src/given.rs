//! Reads texts of statements that were prepared before the capture.

use anyhow::{Result, anyhow};
use overhead_dissect::GivenStatements;
use overhead_model::exit::StatusFault;
use overhead_model::say;
use overhead_report::bounded::read_text;
use std::io;
use std::path::Path;

/// Reads the file of an option or setting, and warns of names that stand for several texts.
pub fn read(option: &str, path: &Path) -> Result<GivenStatements> {
    let text = read_text(path).and_then(|text| String::from_utf8(text).map_err(io::Error::other));
    let lines = text.map_err(|error| anyhow!("{option} {}: {error}: check the path", path.display()))?;
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

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_an_end_is_an_error() {
        let error = read("statements-file", Path::new("/dev/zero")).unwrap_err().to_string();
        assert!(error.starts_with("statements-file /dev/zero: it is longer than 32 MiB"), "{error}");
    }
}
