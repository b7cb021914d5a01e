//! Why there are no counters.

use crate::privilege;
use overhead_model::privilege::{BPF, PERFMON, remedy};
use std::io;
use std::path::PathBuf;

/// Why counters could not be loaded or read. Each says what would help, as far as that is known.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The kernel does not describe its types.
    #[error("the kernel has no BTF ({0}): counters need a kernel built with CONFIG_DEBUG_INFO_BTF and /sys mounted")]
    NoBtf(String),
    /// Loading BPF programs is not allowed.
    #[error("no permission for BPF ({reason}): {}", remedy(&privilege::missing(&[BPF, PERFMON])), reason = .0)]
    Permission(String),
    /// Process numbers here are not those of the kernel.
    #[error(
        "this process is in a PID namespace of its own, where process numbers are not the kernel's: run on the host, or \
         in a container with the host's PID namespace (--pid=host)"
    )]
    PidNamespace,
    /// There is no file system of processes.
    #[error("the processes cannot be told ({0}): mount /proc")]
    NoProc(String),
    /// The kernel refuses a program that nothing works without.
    #[error("the kernel refuses the BPF programs: {0}")]
    Load(String),
    /// A tracepoint that nothing works without cannot be used.
    #[error("the BPF program {program} cannot be attached: {reason}")]
    Attach {
        /// The program, named after its tracepoint.
        program: String,
        /// What the kernel said.
        reason: String,
    },
    /// There is no such process.
    #[error("there is no process {0}")]
    NoSuchProcess(u32),
    /// No process has this command name.
    #[error("there is no process of the name {0:?} (the kernel keeps the first 15 bytes of a name)")]
    NoSuchCommand(String),
    /// The folder is no control group, or has no process in it.
    #[error("{} is not a control group with processes in it: {reason}", path.display())]
    Cgroup {
        /// The folder.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A table of the kernel could not be read or written.
    #[error("the BPF tables cannot be used: {0}")]
    Tables(String),
    /// `/proc` could not be read.
    #[error("/proc cannot be read: {0}")]
    Proc(#[from] procfs::ProcError),
    /// A window was to be read or finished that was never begun.
    #[error("the window was not begun")]
    NotBegun,
}

impl Error {
    /// Returns an error of the BPF library while loading.
    pub(crate) fn loading(error: &libbpf_rs::Error) -> Self {
        // EPERM is a want of privilege; EACCES, of the same kind, is what the verifier says to a program that it refuses.
        // The library keeps the number to itself, but ends with the system's words for it.
        let text = format!("{error:#}");
        if text.ends_with(&io::Error::from_raw_os_error(libc::EPERM).to_string()) {
            Self::Permission(text)
        } else {
            Self::Load(text)
        }
    }
}

impl From<libbpf_rs::Error> for Error {
    fn from(error: libbpf_rs::Error) -> Self {
        Self::Tables(format!("{error:#}"))
    }
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        Self::Tables(error.to_string())
    }
}

/// `7390`, or `7390 or 7391`.
pub(crate) fn ports_in_words(ports: &[u16]) -> String {
    ports.iter().map(u16::to_string).collect::<Vec<_>>().join(" or ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_want_of_privilege_is_told_from_a_refused_program() {
        let loading = |code| Error::loading(&libbpf_rs::Error::from_raw_os_error(code));
        assert!(matches!(loading(libc::EPERM), Error::Permission(_)));
        assert!(matches!(loading(libc::EACCES), Error::Load(_)));
    }
}
