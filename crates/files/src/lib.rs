//! Writes results: completely or not at all, with the right owner, and never through a planted link. Reads files of
//! other users, without being blocked or misled by them.
//!
//! - [`OutputFolder`] holds the results of a run; [`ReservedFile`] is disk space reserved in it.
//! - [`add_sections`] completes man pages.
//! - [`write_named`], [`open_named`] and [`open_scratch`] are for single files that the user named.
//! - [`ForeignFiles`] reads what other users control.

#![forbid(unsafe_code)]

#[cfg(unix)]
mod foreign;
mod manual;
#[cfg(not(unix))]
mod portable;
#[cfg(unix)]
mod unix;

#[cfg(unix)]
pub use foreign::{ForeignFiles, ForeignLimits};
pub use manual::add_sections;
#[cfg(not(unix))]
pub use portable::{PortableFolder as OutputFolder, open_named, open_scratch, write_named};
use std::env;
use std::io::{self, Seek, Write};
use std::path::{Path, PathBuf};
#[cfg(unix)]
pub use unix::{OutputFolder, open_named, open_scratch, write_named};

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

impl FileOwner {
    /// Returns the user who ran the program with sudo; `None` for everyone else, and on systems without owners.
    pub fn sudo_caller() -> Option<Self> {
        let number = |name: &str| env::var(name).ok()?.parse::<u32>().ok();
        let (uid, gid) = (number("SUDO_UID")?, number("SUDO_GID")?);
        (is_root() && uid != 0).then_some(Self { uid, gid })
    }
}

/// Returns the path of a program of ours: next to the running one, which has the same version, or else the first on the PATH.
pub fn find_program(name: &str) -> Option<PathBuf> {
    let file = format!("{name}{}", env::consts::EXE_SUFFIX);
    let beside = env::current_exe().ok().map(|own| own.with_file_name(&file));
    let path = env::var_os("PATH").unwrap_or_default();
    beside.into_iter().chain(env::split_paths(&path).map(|folder| folder.join(&file))).find(|file| file.is_file())
}

/// Opens a file that the user named, standard output for `-`, and returns its name for messages with it.
pub fn open_named_or_stdout(
    path: &Path,
    mode: u32,
    owner: Option<FileOwner>,
) -> io::Result<(String, Box<dyn Write + Send>)> {
    if path == Path::new("-") {
        return Ok(("standard output".to_owned(), Box::new(io::stdout())));
    }
    Ok((path.display().to_string(), Box::new(open_named(path, mode, owner)?)))
}

/// Returns whether the program runs as root; never on systems without owners.
pub fn is_root() -> bool {
    #[cfg(unix)]
    return rustix::process::geteuid().is_root();
    #[cfg(not(unix))]
    false
}
