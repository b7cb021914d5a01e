//! Secrets of TLS handshakes, as processes derive them, for the dissection of a capture.

use anyhow::Result;
use overhead_dissect::KeyLog;
use overhead_kernel::{TlsCounts, TlsOptions, TlsProcesses, TlsSecrets, TlsUnsupported, raised};
use overhead_reading::Warnings;
use overhead_report::text::counted;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// How long records wait for their secret, after their capture: processes may derive it long after its packets came.
pub const PATIENCE: Duration = Duration::from_secs(1);
/// Interval between two polls.
const INTERVAL: Duration = Duration::from_millis(5);

/// A thread that adds secrets to a key log until it is finished.
pub struct TlsKeys {
    thread: JoinHandle<TlsSecrets>,
    is_over: Arc<AtomicBool>,
    log: Arc<KeyLog>,
    /// For the start of the capture.
    pub announcement: String,
}

impl TlsKeys {
    /// Starts to observe these processes. `command` is about to be started as our child.
    pub fn start(whose: &TlsProcesses, ports: &[u16], command: Option<&str>, log: Arc<KeyLog>) -> Result<Self> {
        let mut options = TlsOptions::new(whose.clone(), ports);
        options.program = command.and_then(executable);
        let mut secrets = raised(|| TlsSecrets::start(&options))?;
        let announcement = announcement(&secrets);
        let is_over = Arc::<AtomicBool>::default();
        let (ending, adding) = (Arc::clone(&is_over), Arc::clone(&log));
        let poll = move || {
            // Secrets that were derived before the end are read after it.
            let mut is_last = false;
            while !is_last {
                is_last = ending.load(Ordering::Acquire);
                let add = |it: &overhead_kernel::SeenSecret<'_>| {
                    adding.add_secret(it.label, it.random, it.secret, it.time_ns)
                };
                if raised(|| secrets.poll(add)).is_err() {
                    break;
                }
                std::thread::sleep(INTERVAL);
            }
            secrets
        };
        let thread = std::thread::Builder::new().name("tls-keys".to_owned()).spawn(poll)?;
        Ok(Self { thread, is_over, log, announcement })
    }

    /// Ends the observation, and describes what it missed if content stayed encrypted.
    pub fn finish(self, is_encrypted: bool, warnings: &mut Warnings) {
        self.is_over.store(true, Ordering::Release);
        let Ok(secrets) = self.thread.join() else { return };
        let TlsCounts { secrets: seen, lost, unread } = secrets.counts().unwrap_or_default();
        if lost > 0 {
            warnings.partial(format!(
                "{} of TLS handshakes found no room in the ring buffer: their connections stay encrypted",
                counted(lost, "secret")
            ));
        }
        if !is_encrypted {
            return;
        }
        secrets.unsupported().iter().for_each(|process| warnings.remark(describe_unsupported(process)));
        if unread > 0 {
            warnings.remark(format!(
                "{} of TLS handshakes could not be read from the processes",
                counted(unread, "secret")
            ));
        }
        let unmatched = self.log.unmatched();
        if unmatched > 0 {
            warnings.remark(format!(
                "{} of TLS handshakes opened no captured connection: they are of connections elsewhere, or of more than {} handshakes at once",
                counted(unmatched, "secret"),
                overhead_dissect::limits::TRIED_SECRETS
            ));
        }
        if let (0, (libraries, files @ 1..)) = (seen, secrets.libraries()) {
            warnings.remark(format!(
                "no handshake used the key log function of {}: the connections began before the capture, or another library encrypts them",
                describe(&libraries, files)
            ));
        }
    }
}

fn announcement(secrets: &TlsSecrets) -> String {
    let (libraries, files) = secrets.libraries();
    if files == 0 {
        let unsupported: Vec<String> = secrets.unsupported().iter().map(describe_unsupported).collect();
        return format!("no TLS library is observed so far; {}", unsupported.join("; "));
    }
    format!("takes the secrets of TLS handshakes from {}", describe(&libraries, files))
}

/// Names the observed files that the captured ports' processes use, and counts the others.
fn describe(libraries: &BTreeSet<String>, files: usize) -> String {
    let mut parts: Vec<String> = libraries.iter().cloned().collect();
    let others = files.saturating_sub(parts.len());
    if others > 0 {
        parts.push(counted(others as u64, if parts.is_empty() { "library" } else { "other library" }));
    }
    parts.join(", ")
}

/// Describes a process whose secrets cannot be taken, and what helps.
fn describe_unsupported(process: &TlsUnsupported) -> String {
    let TlsUnsupported { pid, comm, libraries } = process;
    let with = match libraries.as_slice() {
        [] => "maps no known TLS library".to_owned(),
        libraries => format!("encrypts with {}, whose secrets cannot be taken", libraries.join(" and ")),
    };
    format!("process {pid} ({comm}) {with}: have it write a key log, and name that with --keylog")
}

/// Finds the program of a command.
fn executable(command: &str) -> Option<PathBuf> {
    if command.contains('/') {
        return Some(command.into());
    }
    let folders = std::env::var_os("PATH")?;
    std::env::split_paths(&folders).map(|folder| folder.join(command)).find(|path| path.is_file())
}
