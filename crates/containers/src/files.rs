//! The file systems that processes and engines' files are looked for in.

use serde_json::Value;
use std::cell::RefCell;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// Longer files are not read: those of engines have some 10 kB, with hundreds of environment variables some 100 kB.
const MOST_BYTES: u64 = 4 << 20;

/// Where a host's processes and files are.
#[derive(Clone, Debug)]
pub struct HostPaths {
    /// The file system of processes.
    pub(crate) proc: PathBuf,
    /// What the paths of engines begin with: the first one that has a container tells of it.
    pub(crate) roots: Vec<PathBuf>,
}

impl Default for HostPaths {
    /// This host. From within a container with the host's process numbers, files of the engines are found through process 1.
    fn default() -> Self {
        Self { proc: "/proc".into(), roots: vec!["/".into(), "/proc/1/root".into()] }
    }
}

impl HostPaths {
    /// Returns a host whose files lie in folders of this one: for tests, and for the files of another host.
    pub fn at(proc: impl Into<PathBuf>, root: impl Into<PathBuf>) -> Self {
        Self { proc: proc.into(), roots: vec![root.into()] }
    }
}

/// Reads below one root, and notes what may not be read.
#[derive(Debug)]
pub(crate) struct RootFiles<'host> {
    root: &'host Path,
    unreadable: RefCell<Vec<PathBuf>>,
}

impl<'host> RootFiles<'host> {
    pub(crate) fn below(root: &'host Path) -> Self {
        Self { root, unreadable: RefCell::default() }
    }

    /// Returns the paths of what is in a folder, in order; none where there is no such folder.
    pub(crate) fn list(&self, folder: &Path) -> Vec<PathBuf> {
        let path = self.path(folder);
        match fs::read_dir(&path) {
            Ok(entries) => {
                let mut names: Vec<_> = entries.flatten().map(|entry| folder.join(entry.file_name())).collect();
                names.sort();
                names
            }
            Err(error) => {
                if error.kind() == io::ErrorKind::PermissionDenied {
                    self.unreadable.borrow_mut().push(path);
                }
                Vec::new()
            }
        }
    }

    /// Returns the text of a file, a mark in place of what is no UTF-8; `None` where it cannot be read or is too long.
    pub(crate) fn text(&self, file: &Path) -> Option<String> {
        let mut bytes = Vec::new();
        let length = fs::File::open(self.path(file)).ok()?.take(MOST_BYTES + 1).read_to_end(&mut bytes).ok()?;
        (length as u64 <= MOST_BYTES).then(|| String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Returns what is in a file; `None` where it cannot be read or is no JSON.
    pub(crate) fn json(&self, file: &Path) -> Option<Value> {
        serde_json::from_str(&self.text(file)?).ok()
    }

    /// Returns what could not be read for want of rights.
    pub(crate) fn unreadable(self) -> Vec<PathBuf> {
        self.unreadable.into_inner()
    }

    fn path(&self, path: &Path) -> PathBuf {
        self.root.join(path.strip_prefix("/").unwrap_or(path))
    }
}
