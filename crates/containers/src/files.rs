use serde_json::Value;
use std::cell::RefCell;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// Longest file that is read. Engines' files have about 10 kB, or 100 kB with hundreds of environment variables.
const MAX_BYTES: u64 = 4 << 20;

/// Where to find a host's processes and files.
#[derive(Clone, Debug)]
pub struct HostPaths {
    pub(crate) proc: PathBuf,
    /// Prefixes of engines' paths. For each container the first root that has it counts.
    pub(crate) roots: Vec<PathBuf>,
}

impl Default for HostPaths {
    /// This host. Inside a container with the host's PID namespace, engines' files are found through process 1.
    fn default() -> Self {
        Self { proc: "/proc".into(), roots: vec!["/".into(), "/proc/1/root".into()] }
    }
}

impl HostPaths {
    /// Returns a host below other folders, for tests or for files of another host.
    pub fn at(proc: impl Into<PathBuf>, root: impl Into<PathBuf>) -> Self {
        Self { proc: proc.into(), roots: vec![root.into()] }
    }
}

/// Reads files below one root and remembers the unreadable ones.
#[derive(Debug)]
pub(crate) struct RootFiles<'host> {
    root: &'host Path,
    unreadable: RefCell<Vec<PathBuf>>,
}

impl<'host> RootFiles<'host> {
    pub(crate) fn below(root: &'host Path) -> Self {
        Self { root, unreadable: RefCell::default() }
    }

    /// Returns the sorted paths in a folder; none if it does not exist.
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

    /// Returns a file's text, with bytes that are not UTF-8 replaced; `None` if it is unreadable or too long.
    pub(crate) fn text(&self, file: &Path) -> Option<String> {
        let mut bytes = Vec::new();
        let length = fs::File::open(self.path(file)).ok()?.take(MAX_BYTES + 1).read_to_end(&mut bytes).ok()?;
        (length as u64 <= MAX_BYTES).then(|| String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Returns a file's JSON; `None` if it is unreadable or invalid.
    pub(crate) fn json(&self, file: &Path) -> Option<Value> {
        serde_json::from_str(&self.text(file)?).ok()
    }

    pub(crate) fn unreadable(self) -> Vec<PathBuf> {
        self.unreadable.into_inner()
    }

    fn path(&self, path: &Path) -> PathBuf {
        self.root.join(path.strip_prefix("/").unwrap_or(path))
    }
}
