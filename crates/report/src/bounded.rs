//! Size-limited reading of text files that a user names: a device or pipe must not exhaust memory.

use crate::error::ReportError;
use crate::limits::TEXT_BYTES;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

/// Reads a record, a budget or another text.
///
/// # Errors
///
/// Returns the system's error, or [`io::ErrorKind::FileTooLarge`] beyond [`TEXT_BYTES`].
pub fn read_text(path: &Path) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    File::open(path)?.take(TEXT_BYTES + 1).read_to_end(&mut text)?;
    if text.len() as u64 > TEXT_BYTES {
        let why = format!("it is longer than {} MiB, which no such file is", TEXT_BYTES >> 20);
        return Err(io::Error::new(ErrorKind::FileTooLarge, why));
    }
    Ok(text)
}

/// Reads a record of this name from a folder, or from the file itself. Also returns its path.
pub(crate) fn read_record(path: &Path, name: &str) -> Result<(PathBuf, Vec<u8>), ReportError> {
    let path = if path.is_dir() { path.join(name) } else { path.to_owned() };
    match read_text(&path) {
        Ok(text) => Ok((path, text)),
        Err(source) => Err(match source.kind() {
            ErrorKind::NotFound | ErrorKind::NotADirectory => ReportError::Missing { path },
            _ => ReportError::Unreadable { path, source },
        }),
    }
}

#[derive(Deserialize)]
struct RecordVersion {
    schema_version: Option<u64>,
}

/// Parses a record of one of these versions. Checks that first, so that a newer record is not reported as malformed.
pub(crate) fn parse_record<T: DeserializeOwned>(
    text: &[u8],
    path: &Path,
    versions: RangeInclusive<u32>,
) -> Result<T, ReportError> {
    let malformed = |source| ReportError::Malformed { path: path.to_owned(), source };
    let version = serde_json::from_slice::<RecordVersion>(text).map_err(malformed)?.schema_version;
    let (oldest, newest) = (u64::from(*versions.start()), u64::from(*versions.end()));
    if let Some(found) = version.filter(|found| !(oldest..=newest).contains(found)) {
        return Err(ReportError::Version { path: path.to_owned(), found, oldest, newest });
    }
    // Parse again for an error message with line and column.
    serde_json::from_slice(text).map_err(malformed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(unix)]
    fn a_device_is_no_text() {
        assert_eq!(read_text(Path::new("/dev/zero")).unwrap_err().kind(), ErrorKind::FileTooLarge);
        assert!(read_text(Path::new("/dev/null")).unwrap().is_empty());
    }
}
