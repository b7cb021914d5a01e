//! Where results are written: whole files or none, of the right owner, and never through a link that somebody has put there.

#![forbid(unsafe_code)]

#[cfg(not(unix))]
mod portable;
#[cfg(unix)]
mod unix;

#[cfg(not(unix))]
pub use portable::{PortableFolder as OutputFolder, open_lock, open_named, write_named};
#[cfg(unix)]
pub use unix::{OutputFolder, open_lock, open_named, write_named};

/// Disk space reserved for a file that is yet to be written.
#[derive(Debug)]
pub struct ReservedFile {
    file: std::fs::File,
    name: std::ffi::OsString,
}

/// To whom files are given, where there are owners to give them to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileOwner {
    /// User number.
    pub uid: u32,
    /// Group number.
    pub gid: u32,
}
