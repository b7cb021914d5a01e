use crate::SourceError;
use overhead_model::privilege::{SYS_ADMIN, SYS_PTRACE};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

/// A network namespace (`network_namespaces(7)`), kept open even if its processes end.
///
/// A socket belongs to the namespace its thread was in when it was opened. So only the calls that open sockets or
/// list interfaces run in a thread that has moved there.
#[derive(Clone, Debug)]
pub struct NetworkNamespace {
    file: Arc<File>,
    /// The inode of `/proc/PID/ns/net`.
    pub number: u64,
    /// This process is in it.
    pub is_own: bool,
}

impl NetworkNamespace {
    /// Opens the namespace of a process.
    ///
    /// # Errors
    ///
    /// [`SourceError::Namespace`] if there is no such process, or it may not be inspected.
    pub fn from_process(pid: u32) -> Result<Self, SourceError> {
        let opened = Self::open(Path::new(&format!("/proc/{pid}/ns/net")));
        opened.map_err(|error| fault(format!("of process {pid}"), &error, SYS_PTRACE))
    }

    /// Opens the namespace that a file is, such as those that `ip netns add` makes.
    ///
    /// # Errors
    ///
    /// Those of opening the file.
    pub fn open(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        let number = file.metadata()?.ino();
        let is_own = fs::metadata("/proc/self/ns/net").is_ok_and(|own| own.ino() == number);
        Ok(Self { file: Arc::new(file), number, is_own })
    }

    /// Runs `work` in a thread that has moved to this namespace. If this process is in it already, starts no thread.
    pub fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T, SourceError> {
        if self.is_own {
            return Ok(work());
        }
        let moved = || {
            move_into_link_name_space(self.file.as_fd(), Some(LinkNameSpaceType::Network))?;
            Ok(work())
        };
        let done = std::thread::scope(|scope| scope.spawn(moved).join());
        match done {
            Ok(done) => done.map_err(|error: rustix::io::Errno| {
                fault(format!("number {}", self.number), &io::Error::from(error), SYS_ADMIN)
            }),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
}

impl PartialEq for NetworkNamespace {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}

impl Eq for NetworkNamespace {}

fn fault(namespace: String, error: &io::Error, privilege: overhead_model::privilege::Privilege) -> SourceError {
    SourceError::Namespace { namespace, reason: error.to_string(), missing: vec![privilege] }
}

/// Runs `work` in a namespace, or directly if there is none.
pub(super) fn inside<T: Send>(
    namespace: Option<&NetworkNamespace>,
    work: impl FnOnce() -> T + Send,
) -> Result<T, SourceError> {
    match namespace {
        Some(namespace) => namespace.run(work),
        None => Ok(work()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn in_its_own_namespace_a_process_stays_in_its_thread() {
        let own = NetworkNamespace::from_process(std::process::id()).unwrap();
        assert!(own.is_own && own.number > 0);
        let here = std::thread::current().id();
        assert_eq!(own.run(|| std::thread::current().id()).unwrap(), here);
    }

    #[test]
    fn a_process_that_is_not_there_is_named() {
        let error = NetworkNamespace::from_process(u32::MAX).unwrap_err().to_string();
        assert!(error.starts_with("the network namespace of process 4294967295 cannot be entered"), "{error}");
    }
}
