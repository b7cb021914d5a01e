//! Writes results: completely or not at all, with the right owner, and never through a planted link.
//!
//! - [`OutputFolder`] holds the results of a run; [`ReservedFile`] is disk space reserved in it.
//! - [`add_sections`] completes man pages.
//! - [`write_named`], [`open_named`] and [`open_lock`] are for single files that the user named.

#![forbid(unsafe_code)]

mod manual;
#[cfg(not(unix))]
mod portable;
#[cfg(unix)]
mod unix;

pub use manual::add_sections;
#[cfg(not(unix))]
pub use portable::{PortableFolder as OutputFolder, open_lock, open_named, write_named};
use std::io::{self, Seek, Write};
#[cfg(unix)]
pub use unix::{OutputFolder, open_lock, open_named, write_named};

/// Disk space for a file that is yet to be written.
#[derive(Debug)]
pub struct ReservedFile {
    file: std::fs::File,
    name: std::ffi::OsString,
}

impl ReservedFile {
    /// Replaces the content, and waits until it is on the disk.
    fn fill(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.rewind()?;
        self.file.write_all(bytes)?;
        self.file.set_len(bytes.len() as u64)?;
        self.file.sync_all()
    }
}

/// Owner of written files, on systems that have owners.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileOwner {
    pub uid: u32,
    pub gid: u32,
}
