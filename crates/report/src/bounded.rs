//! Size-limited reading of text files that a user names: a device or pipe must not exhaust memory.

use crate::limits::TEXT_BYTES;
use serde::Deserialize;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

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
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, why));
    }
    Ok(text)
}

/// The version of a record, read first so that a newer record is not reported as malformed.
#[derive(Deserialize)]
pub(crate) struct RecordVersion {
    pub schema_version: Option<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(unix)]
    fn a_device_is_no_text() {
        assert_eq!(read_text(Path::new("/dev/zero")).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
        assert!(read_text(Path::new("/dev/null")).unwrap().is_empty());
    }
}
