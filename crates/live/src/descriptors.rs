//! Decides which open files the captured command inherits.

use nix::libc;
use std::fs;
use std::os::fd::RawFd;
use std::sync::OnceLock;
use tokio::process::Command;

/// Files, other than the standard ones, that were open when this process started. They come from the caller (a shell's
/// `<(…)`, make's job server), so the command inherits them. It does not inherit what this process opens itself.
pub struct InheritedFiles(Vec<RawFd>);

static INHERITED: OnceLock<InheritedFiles> = OnceLock::new();

impl InheritedFiles {
    /// Records them. Call this before anything is opened.
    pub fn note() {
        INHERITED.get_or_init(|| {
            let open = fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
            let mut open: Vec<RawFd> = open.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
            // Drops the descriptor used to read the folder, which is closed again.
            open.retain(|fd| *fd > libc::STDERR_FILENO && fs::exists(format!("/proc/self/fd/{fd}")).unwrap_or(false));
            open.sort_unstable();
            Self(open)
        });
    }

    /// Makes the command inherit only these files and the standard ones.
    pub fn alone_pass_to(command: &mut Command) {
        let others = INHERITED.get().map_or_else(|| Self(Vec::new()).others(), Self::others);
        let close = move || {
            for (first, last) in &others {
                // SAFETY: the call only sets a flag of descriptors. Each is created with that flag already, so a kernel
                // without the call (before 5.11) loses nothing.
                unsafe { libc::syscall(libc::SYS_close_range, *first, *last, libc::CLOSE_RANGE_CLOEXEC) };
            }
            Ok(())
        };
        // SAFETY: between fork and exec there is one thread, and it makes system calls only: nothing is allocated or locked.
        unsafe { command.pre_exec(close) };
    }

    /// Returns the ranges of descriptors between the inherited ones, both ends included.
    fn others(&self) -> Vec<(libc::c_uint, libc::c_uint)> {
        let mut first = libc::STDERR_FILENO.cast_unsigned() + 1;
        let mut ranges = Vec::new();
        for fd in self.0.iter().map(|fd| fd.cast_unsigned()) {
            if first < fd {
                ranges.push((first, fd - 1));
            }
            first = fd + 1;
        }
        ranges.push((first, libc::c_uint::MAX));
        ranges
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::os::fd::AsRawFd;

    #[test]
    fn ranges_leave_out_what_was_inherited() {
        assert_eq!(InheritedFiles(vec![]).others(), [(3, u32::MAX)]);
        assert_eq!(InheritedFiles(vec![3, 4, 63]).others(), [(5, 62), (64, u32::MAX)]);
    }

    #[tokio::test]
    async fn a_command_has_no_file_of_ours() {
        // A number that no other test had open when it noted the caller's files.
        let leaky = rustix::io::fcntl_dupfd_cloexec(File::open("/dev/null").unwrap(), 700).unwrap();
        rustix::io::fcntl_setfd(&leaky, rustix::io::FdFlags::empty()).unwrap();
        let mut command = Command::new("readlink");
        command.arg(format!("/proc/self/fd/{}", leaky.as_raw_fd()));
        assert!(command.status().await.unwrap().success(), "it leaks unless something is done");
        InheritedFiles::alone_pass_to(&mut command);
        assert!(!command.status().await.unwrap().success());
    }
}
