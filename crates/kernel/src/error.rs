use crate::privilege;
use overhead_model::privilege::{BPF, PERFMON, remedy};
use std::io;
use std::path::PathBuf;

/// Why counters could not be loaded or read, and what to do if that is known.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// With the message of libbpf.
    #[error("the kernel has no BTF ({0}): counters need a kernel built with CONFIG_DEBUG_INFO_BTF and /sys mounted")]
    NoBtf(String),
    /// The kernel refused a BPF system call with `EPERM`.
    #[error("no permission for BPF ({reason}): {}", remedy(&privilege::missing(&[BPF, PERFMON])), reason = .0)]
    Permission(String),
    /// Process numbers of the kernel and of `/proc` differ.
    #[error(
        "this process is in a PID namespace of its own, where process numbers are not the kernel's: run on the host, or \
         in a container with the host's PID namespace (--pid=host)"
    )]
    PidNamespace,
    /// `/proc/self/ns/pid` cannot be inspected.
    #[error("processes cannot be listed ({0}): mount /proc")]
    NoProc(String),
    /// The verifier, or the kernel for lack of a feature.
    #[error("the kernel refuses the BPF programs: {0}")]
    Load(String),
    /// A required program has no tracepoint here, or may not use it.
    #[error("the BPF program {program} cannot be attached: {reason}")]
    Attach {
        /// Named after its tracepoint.
        program: String,
        reason: String,
    },
    /// Also if the process ended meanwhile.
    #[error("process {0} does not exist: `pgrep -a NAME` lists processes with their numbers")]
    NoSuchProcess(u32),
    /// The name of the selection [`crate::ProcessSelection::Comm`].
    #[error("no process is named {0:?} (the kernel keeps the first 15 bytes of a name)")]
    NoSuchCommand(String),
    /// The folder of [`crate::ProcessSelection::Cgroup`] cannot be read, or has no processes.
    #[error("{} is not a control group with processes in it: {reason}", path.display())]
    Cgroup { path: PathBuf, reason: String },
    /// An operation on a map failed, or the object lacks it.
    #[error("the BPF tables cannot be used: {0}")]
    Tables(String),
    /// Programs cannot outlive this process.
    #[error("{0}")]
    Pins(String),
    /// The list of processes cannot be read.
    #[error("/proc cannot be read: {0}")]
    Proc(#[from] procfs::ProcError),
    /// [`crate::KernelCounters::begin`] was not called.
    #[error("the window was not started")]
    NotBegun,
}

impl Error {
    /// Converts an error of libbpf while loading.
    pub(crate) fn loading(error: &libbpf_rs::Error) -> Self {
        // EPERM means missing privileges; EACCES means that the verifier refused the program. libbpf keeps the number
        // private, but its text ends with the system's message.
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
