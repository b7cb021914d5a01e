//! The secrets of TLS connections while these are open, so that windows can decrypt those that they meet open.

use anyhow::Result;
use overhead_dissect::{ConnectionPlace, HandshakeId, KeptSessions};
use overhead_kernel::{
    HandshakeSocket, SeenSecret, TlsNews, TlsOptions, TlsProbes, TlsProcesses, TlsUnsupported, raised,
};
use overhead_model::say;
use overhead_report::text::{clean, counted};
use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, OnceLock};
use std::thread::{Builder, sleep};
use std::time::Duration;

/// Interval between two polls for secrets.
const POLL: Duration = Duration::from_millis(10);
/// Interval between two searches for new libraries. A search does nothing unless a program has started.
const SEARCH: Duration = Duration::from_millis(250);
/// Size of the ring buffer: 2,000 handshakes.
const RING_BYTES: u32 = 2 << 20;
/// Threads whose latest handshake is known.
const THREADS: usize = 1 << 14;

/// Threads that keep the secrets of handshakes until this is dropped.
pub struct TlsSecretKeeper {
    is_over: Arc<AtomicBool>,
    placed: Arc<OnceLock<Result<String, String>>>,
}

impl TlsSecretKeeper {
    /// Starts to place the probes, which takes a while because all libraries are read. Looks at processes with sockets on these ports if
    /// their libraries are unknown.
    pub fn start(ports: Vec<u16>, sessions: &Arc<KeptSessions>) -> Result<Self> {
        let (is_over, placed) = (Arc::<AtomicBool>::default(), Arc::<OnceLock<_>>::default());
        let keeper = Self { is_over: Arc::clone(&is_over), placed: Arc::clone(&placed) };
        let sessions = Arc::clone(sessions);
        let keep = move || {
            let found = place(&ports, &sessions, &is_over);
            let described = found.as_ref().map(|(probes, _)| describe(probes)).map_err(|error| format!("{error:#}"));
            let _ = placed.set(described);
            if let Ok((probes, started)) = found {
                say!("overhead: windows decrypt TLS whose handshakes come from now on");
                search(probes, &started, &sessions, &is_over);
            }
        };
        Builder::new().name("tls-probes".to_owned()).spawn(keep)?;
        Ok(keeper)
    }

    /// Returns the libraries with probes and the processes whose secrets cannot be taken, or why no probe could be placed; `None` before
    /// the probes are placed.
    pub fn placed(&self) -> Option<&Result<String, String>> {
        self.placed.get()
    }

    /// Waits until the probes are placed.
    pub fn wait(&self) -> &Result<String, String> {
        loop {
            match self.placed() {
                Some(placed) => return placed,
                None => sleep(POLL),
            }
        }
    }
}

impl Drop for TlsSecretKeeper {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Release);
    }
}

/// Places the probes, and starts to keep secrets. Returns the processes that start a program, too.
fn place(ports: &[u16], sessions: &Arc<KeptSessions>, is_over: &Arc<AtomicBool>) -> Result<(TlsProbes, Receiver<u32>)> {
    let mut options = TlsOptions::new(TlsProcesses::Auto, ports);
    (options.sockets, options.ring_bytes) = (true, RING_BYTES);
    let (probes, mut secrets) = raised(|| TlsProbes::start(&options))?;
    let (started, starts) = channel();
    let mut sorter = SecretSorter { sessions: Arc::clone(sessions), latest: HashMap::new() };
    let is_over = Arc::clone(is_over);
    let poll = move || {
        while !is_over.load(Ordering::Acquire) {
            // Without secrets, connections stay encrypted, which is counted.
            let _ = secrets.poll(|news| match news {
                TlsNews::Started(pid) => started.send(pid).unwrap_or_default(),
                news => sorter.take(news),
            });
            sleep(POLL);
        }
    };
    Builder::new().name("tls-keys".to_owned()).spawn(poll)?;
    Ok((probes, starts))
}

/// Searches for new libraries. Erases all secrets if events were lost: one may have been the end of a connection.
fn search(mut probes: TlsProbes, started: &Receiver<u32>, sessions: &KeptSessions, is_over: &AtomicBool) {
    let mut lost = 0;
    while !is_over.load(Ordering::Acquire) {
        raised(|| probes.search(started.try_iter()));
        let now = probes.counts().unwrap_or_default().lost;
        if std::mem::replace(&mut lost, now) < now {
            sessions.erase_all();
        }
        sleep(SEARCH);
    }
}

/// Joins secrets and sockets to handshakes.
struct SecretSorter {
    sessions: Arc<KeptSessions>,
    /// By thread.
    latest: HashMap<u32, HandshakeId>,
}

impl SecretSorter {
    fn take(&mut self, news: TlsNews<'_>) {
        match news {
            TlsNews::Secret(secret @ SeenSecret { pid, tid, object, .. }) => {
                let random = secret.random.copied().unwrap_or_default();
                // A random identifies the handshake better than an object, which several connections may share.
                let object = if secret.random.is_some() { 0 } else { *object };
                let id = HandshakeId { pid: *pid, object, random };
                self.sessions.add_secret(id, secret.label, secret.secret, secret.time_ns);
                if self.latest.len() >= THREADS {
                    self.latest.clear();
                }
                self.latest.insert(*tid, id);
            }
            TlsNews::Socket { tid, socket } => {
                self.latest.get(&tid).into_iter().for_each(|id| self.sessions.add_connection(id, place_of(&socket)));
            }
            TlsNews::Closed(socket) => self.sessions.erase(place_of(&socket)),
            TlsNews::Started(_) => {}
        }
    }
}

fn place_of(socket: &HandshakeSocket) -> ConnectionPlace {
    let HandshakeSocket { network_namespace, local, remote, next_sent, next_read } = *socket;
    ConnectionPlace { network_namespace, ends: [local, remote], next: [next_sent, next_read] }
}

fn describe(probes: &TlsProbes) -> String {
    let (libraries, files) = probes.libraries();
    let mut names: Vec<String> = libraries.iter().map(|name| clean(name)).collect();
    let others = files.saturating_sub(names.len());
    if others > 0 || names.is_empty() {
        names.push(counted(others as u64, if names.is_empty() { "library" } else { "other library" }));
    }
    let mut out = format!("probes at TLS handshakes: {}\n", names.join(", "));
    for TlsUnsupported { pid, comm, libraries } in probes.unsupported() {
        // A process without TLS has none.
        if !libraries.is_empty() {
            let libraries = clean(&libraries.join(" and "));
            let _ =
                writeln!(out, "TLS of process {pid} ({}) stays encrypted: its library is {libraries}", clean(&comm));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_and_sockets_of_a_thread_belong_together() {
        let sessions = Arc::<KeptSessions>::default();
        let mut sorter = SecretSorter { sessions: Arc::clone(&sessions), latest: HashMap::new() };
        let secret = |tid, object, secret: &'static [u8]| SeenSecret {
            time_ns: 1,
            pid: 7,
            tid,
            object,
            label: "CLIENT_TRAFFIC_SECRET_0",
            random: None,
            secret,
        };
        let [one, other] = [secret(1, 10, &[1; 32]), secret(2, 20, &[2; 32])];
        let socket = |port: u16| HandshakeSocket {
            network_namespace: 9,
            local: ([10, 0, 0, 9], port).into(),
            remote: ([10, 0, 0, 1], 5432).into(),
            next_sent: 1,
            next_read: 1,
        };
        sorter.take(TlsNews::Socket { tid: 1, socket: socket(1) });
        assert_eq!(sessions.counts().kept, 0, "of no handshake");
        sorter.take(TlsNews::Secret(&one));
        sorter.take(TlsNews::Secret(&other));
        sorter.take(TlsNews::Socket { tid: 1, socket: socket(1) });
        sorter.take(TlsNews::Socket { tid: 2, socket: socket(2) });
        assert_eq!(sessions.counts().kept, 2);
        sorter.take(TlsNews::Closed(HandshakeSocket { local: socket(1).remote, remote: socket(1).local, ..socket(1) }));
        assert_eq!(sessions.counts().kept, 1);
        assert!(!format!("{sorter:?}", sorter = sorter.sessions).contains("[1, 1"), "secrets are not shown");
    }
}
