//! A folder of the BPF file system, whose programs and tables outlive the process that loaded them.

use crate::error::Error;
use overhead_files::OutputFolder;
use rustix::fs::statfs;
use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::path::{Path, PathBuf};

/// `BPF_FS_MAGIC` in linux/magic.h.
const BPF_FILE_SYSTEM: u64 = 0xcafe_4a11;

/// A folder of pins that only root and this process's user can change, locked until it is dropped.
#[derive(Debug)]
pub struct PinFolder(OutputFolder);

impl PinFolder {
    /// Opens the folder, or makes it.
    ///
    /// # Errors
    ///
    /// [`Error::Pins`] if it is not in a BPF file system, if another user could have planted pins, or if another process uses it.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let parent = path.parent().unwrap_or(Path::new("/"));
        let shown = parent.display();
        let is_bpf = statfs(parent).is_ok_and(|about| u64::try_from(about.f_type) == Ok(BPF_FILE_SYSTEM));
        if !is_bpf {
            return Err(Error::Pins(format!("{shown} is not a BPF file system: run mount -t bpf bpf {shown}")));
        }
        let failed = |error: io::Error| Error::Pins(format!("{} cannot be used: {error}", path.display()));
        let folder = OutputFolder::open_or_make(path, 0o700, None).map_err(failed)?;
        if let Some(reason) = folder.intruder().map_err(failed)? {
            return Err(Error::Pins(reason));
        }
        if !folder.lock() {
            return Err(Error::Pins(format!("another agent uses {}: stop one of them", path.display())));
        }
        Ok(Self(folder))
    }

    /// Opens a subfolder, or makes it.
    pub(crate) fn subfolder(&self, name: &str) -> io::Result<Self> {
        OutputFolder::open_or_make(&self.entry(name), 0o700, None).map(Self)
    }

    /// Gives an entry another name, and replaces what has it.
    pub(crate) fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.0.rename(from, to)
    }

    /// Returns the path of an entry, whatever happens to the folder's own.
    pub(crate) fn entry(&self, name: &str) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}/{name}", self.0.as_fd().as_raw_fd()))
    }

    /// Returns the names of all entries.
    pub(crate) fn names(&self) -> io::Result<Vec<String>> {
        fs::read_dir(self.entry(""))?.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect()
    }

    /// Removes all entries, and so detaches and frees what only they keep.
    pub(crate) fn clear(&self) -> io::Result<()> {
        self.names()?.iter().try_for_each(|name| fs::remove_dir_all(self.entry(name)))
    }
}
