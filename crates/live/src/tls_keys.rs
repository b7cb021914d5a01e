//! Secrets of TLS handshakes, as processes derive them, for the dissection of a capture.

use anyhow::Result;
use overhead_dissect::{KeyLog, SecretOrigin};
use overhead_kernel::{TlsCounts, TlsNews, TlsOptions, TlsProbes, TlsProcesses, TlsUnsupported, raised};
use overhead_reading::Warnings;
use overhead_report::text::counted;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::thread::JoinHandle;
use std::time::Duration;

/// How long records wait for their secret, after their capture: processes may derive it long after its packets came.
pub const PATIENCE: Duration = Duration::from_secs(1);
/// Interval between two polls.
const INTERVAL: Duration = Duration::from_millis(5);
/// Interval between two searches for new libraries.
const SEARCH: Duration = Duration::from_millis(20);

/// Threads that add secrets to a key log until they are finished. Searching files may take long, and secrets must not wait.
pub struct TlsKeys {
    polling: JoinHandle<()>,
    searching: JoinHandle<TlsProbes>,
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
        let (probes, mut secrets) = raised(|| TlsProbes::start(&options))?;
        let announcement = announcement(&probes);
        let is_over = Arc::<AtomicBool>::default();
        let (started, starts) = channel();
        let (ending, adding) = (Arc::clone(&is_over), Arc::clone(&log));
        let polling = repeat("tls-keys", INTERVAL, ending, (), move |()| {
            let take = |news: TlsNews<'_>| match news {
                TlsNews::Secret(it) => {
                    let object = (u64::from(it.pid) << 32).rotate_left(16) ^ it.object;
                    adding.add_secret(it.label, it.random, it.secret, SecretOrigin { time_ns: it.time_ns, object });
                }
                TlsNews::Started(pid) => started.send(pid).unwrap_or_default(),
                TlsNews::Socket { .. } | TlsNews::Closed(_) => {}
            };
            // Without secrets, connections stay encrypted, which is said.
            let _ = secrets.poll(take);
        })?;
        let search = move |probes: &mut TlsProbes| raised(|| probes.search(starts.try_iter()));
        let searching = repeat("tls-probes", SEARCH, Arc::clone(&is_over), probes, search)?;
        Ok(Self { polling, searching, is_over, log, announcement })
    }

    /// Ends the observation, and describes what it missed if content stayed encrypted.
    pub fn finish(self, is_encrypted: bool, warnings: &mut Warnings) {
        self.is_over.store(true, Ordering::Release);
        let (Ok(()), Ok(probes)) = (self.polling.join(), self.searching.join()) else { return };
        let TlsCounts { secrets: seen, lost, unread } = probes.counts().unwrap_or_default();
        if lost > 0 {
            warnings.partial(format!(
                "{} of TLS handshakes found no room in the ring buffer: their connections stay encrypted",
                counted(lost, "secret")
            ));
        }
        if !is_encrypted {
            return;
        }
        // A process may leave TLS to its children.
        let unsupported = probes.unsupported().into_iter().filter(|process| seen == 0 || !process.libraries.is_empty());
        unsupported.for_each(|process| warnings.remark(describe_unsupported(&process)));
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
        if let (0, (libraries, files @ 1..)) = (seen, probes.libraries()) {
            warnings.remark(format!(
                "no handshake used the key log function of {}: the connections began before the capture, or another library encrypts them",
                describe(&libraries, files)
            ));
        }
    }
}

/// Repeats `work` in a thread of its own, and once more when it is over. Returns the state at the end.
fn repeat<T: Send + 'static>(
    name: &str,
    interval: Duration,
    is_over: Arc<AtomicBool>,
    mut state: T,
    mut work: impl FnMut(&mut T) + Send + 'static,
) -> Result<JoinHandle<T>> {
    let repeat = move || {
        while !is_over.load(Ordering::Acquire) {
            work(&mut state);
            std::thread::sleep(interval);
        }
        work(&mut state);
        state
    };
    Ok(std::thread::Builder::new().name(name.to_owned()).spawn(repeat)?)
}

fn announcement(probes: &TlsProbes) -> String {
    let (libraries, files) = probes.libraries();
    if files == 0 {
        let unsupported: Vec<String> = probes.unsupported().iter().map(describe_unsupported).collect();
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
