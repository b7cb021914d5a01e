use overhead_files::{ForeignFiles, ForeignLimits};
use serde_json::Value;
use std::cell::RefCell;
use std::io;
use std::path::{Path, PathBuf};

/// Engines' files have about 10 kB, or 100 kB with hundreds of environment variables. A container has two or three.
const LIMITS: ForeignLimits = ForeignLimits { file_bytes: 4 << 20, files: 2_000, bytes: 4 << 20 };

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
    pub(crate) files: ForeignFiles,
    pub(crate) unreadable: RefCell<Vec<PathBuf>>,
}

/// A file or folder, and the user who controls it: 0 for root.
#[derive(Clone, Debug)]
pub(crate) struct UserPath {
    pub(crate) path: PathBuf,
    /// `None` before it is opened: it may be any one user's.
    pub(crate) user: Option<u32>,
}

impl UserPath {
    pub(crate) fn any(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), user: None }
    }

    pub(crate) fn of_root(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), user: Some(0) }
    }

    pub(crate) fn join(&self, path: impl AsRef<Path>) -> Self {
        Self { path: self.path.join(path), user: self.user }
    }

    pub(crate) fn name(&self) -> Option<&str> {
        self.path.file_name()?.to_str()
    }
}

impl<'host> RootFiles<'host> {
    pub(crate) fn below(root: &'host Path) -> Self {
        Self { root, files: ForeignFiles::new(LIMITS), unreadable: RefCell::default() }
    }

    /// Returns the sorted paths in a folder; none if it does not exist.
    pub(crate) fn list(&self, folder: &UserPath) -> Vec<UserPath> {
        let Ok((names, user)) = self.files.list(self.root, &folder.path, folder.user).inspect_err(|error| {
            let is_unreadable = error.kind() == io::ErrorKind::PermissionDenied;
            self.unreadable.borrow_mut().extend(is_unreadable.then(|| folder.path.clone()));
        }) else {
            return Vec::new();
        };
        let user = folder.user.or((user != 0).then_some(user));
        names.into_iter().map(|name| UserPath { path: folder.path.join(name), user }).collect()
    }

    /// Returns a file's text, with bytes that are not UTF-8 replaced, and its user; `None` if it is unreadable or too
    /// long, or of another user than the given one.
    pub(crate) fn text(&self, file: &UserPath) -> Option<(String, u32)> {
        let (bytes, user) = self.files.read(self.root, &file.path, file.user).ok()?;
        Some((String::from_utf8_lossy(&bytes).into_owned(), user))
    }

    /// Returns a file's JSON and its user; `None` if it is unreadable or invalid.
    pub(crate) fn json(&self, file: &UserPath) -> Option<(Value, u32)> {
        let (text, user) = self.text(file)?;
        Some((serde_json::from_str(&text).ok()?, user))
    }

    /// Returns a process number in a file.
    pub(crate) fn number(&self, file: &UserPath) -> Option<u32> {
        self.text(file)?.0.trim().parse().ok()
    }
}
