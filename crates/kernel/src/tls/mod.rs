//! Takes the secrets of TLS handshakes from the processes that derive them.
//!
//! Most TLS libraries call a function with each secret, for a key log. The programs in `bpf/tls.bpf.c` read its arguments;
//! [`finder`] finds the function, [`libraries`] the files that processes map. Nothing is observed between handshakes.

mod finder;
mod libraries;

use crate::clock::ClockStamp;
use crate::discover::{self, check_pid_namespace, families, owners};
use crate::error::Error;
use crate::object::{self, bytes_of, kernel_types, lookup, map, plain, plain_types, ring_size};
use crate::options::ProcessSelection;
use crate::ownership::end;
use crate::skeleton::tls_types;
use finder::CallingConvention;
use libbpf_rs::{Link, MapCore, MapFlags, Object, ProgramMut, RingBuffer, UprobeOpts};
use libraries::{FileId, LibraryFinder, ProcessEncryption, TlsLibrary};
use overhead_model::add_fields;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/tls.bpf.o"));

plain_types!(tls_types::tls_event, tls_types::tls_socket, tls_types::tls_counts, tls_types::tls_settings);

/// Default size of the ring buffer: 8,000 handshakes.
const RING_BYTES: u32 = 8 << 20;
/// How long a new process is searched for libraries at each poll. Interpreters load them late.
const YOUNG: Duration = Duration::from_secs(3);
/// New processes searched at a time.
const MOST_YOUNG: usize = 256;
/// Interval between searches of known processes for newly loaded libraries.
const LOOK: Duration = Duration::from_millis(500);

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TlsProcesses {
    /// All processes, also those that start later.
    Auto,
    /// These processes and their forks.
    Pids(Vec<u32>),
}

#[derive(Clone, Debug)]
pub struct TlsOptions {
    pub processes: TlsProcesses,
    /// Owners of sockets on these ports are named if their secrets cannot be taken.
    pub ports: Vec<u16>,
    /// The program about to be started as a child, if any.
    pub program: Option<PathBuf>,
    /// Whether to report the sockets of handshakes, and when they close.
    pub sockets: bool,
    /// Size of the ring buffer, rounded up to a power of two.
    pub ring_bytes: u32,
}

impl TlsOptions {
    pub fn new(processes: TlsProcesses, ports: impl Into<Vec<u16>>) -> Self {
        Self { processes, ports: ports.into(), program: None, sockets: false, ring_bytes: RING_BYTES }
    }
}

/// A secret that a process has derived.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct SeenSecret<'a> {
    /// When it was derived, Unix nanoseconds.
    pub time_ns: u64,
    pub pid: u32,
    pub tid: u32,
    /// Address of the library's object for the connection; 0 if unknown. Others may have had it before.
    pub object: u64,
    /// The key log's name for it.
    pub label: &'a str,
    /// The random of the `ClientHello`, if the function gets it.
    pub random: Option<&'a [u8; 32]>,
    pub secret: &'a [u8],
}

impl fmt::Debug for SeenSecret<'_> {
    /// Keeps secrets out of logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of process {}", self.label, self.pid)
    }
}

/// A TCP socket of a process that finishes a handshake, perhaps the handshake's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HandshakeSocket {
    /// Inode number.
    pub network_namespace: u32,
    pub local: SocketAddr,
    pub remote: SocketAddr,
    /// Sequence numbers of the next bytes to send and to read.
    pub next_sent: u32,
    pub next_read: u32,
}

/// What the probes have seen.
#[derive(Clone, Copy, Debug)]
pub enum TlsNews<'a> {
    Secret(&'a SeenSecret<'a>),
    /// A socket of the process whose thread derived the latest secret.
    Socket {
        tid: u32,
        socket: HandshakeSocket,
    },
    /// A reported socket has closed.
    Closed(HandshakeSocket),
    /// A process has started a program.
    Started(u32),
}

/// Seen and missed secrets since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TlsCounts {
    pub secrets: u64,
    /// No room in the ring buffer.
    pub lost: u64,
    /// Not readable in the process, or too long.
    pub unread: u64,
}

/// Ways in which a process may encrypt.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProcessTls {
    /// Files whose secrets can be taken, by the process's names for them.
    pub readable: Vec<String>,
    /// Other TLS libraries, and refused files with the reason.
    pub others: Vec<String>,
}

/// Returns the encryption libraries that a process has loaded or was linked with. It may not use them.
///
/// # Errors
///
/// The process is gone, or another user's.
pub fn process_tls(pid: u32) -> std::io::Result<ProcessTls> {
    let ProcessEncryption { libraries, others } = LibraryFinder::default().of_process(pid)?;
    Ok(ProcessTls {
        readable: libraries.into_iter().map(|library| library.name).collect(),
        others: others.into_iter().collect(),
    })
}

/// A process whose secrets cannot be taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsUnsupported {
    pub pid: u32,
    pub comm: String,
    /// Its other TLS libraries, and refused files with the reason; empty if none is known.
    pub libraries: Vec<String>,
}

/// The secrets that probes have seen.
pub struct TlsSecrets {
    ring: RingBuffer<'static>,
    /// From the ring buffer, not yet polled.
    taken: Arc<Mutex<Vec<TlsRecord>>>,
    clock: ClockStamp,
}

enum TlsRecord {
    Event(tls_types::tls_event),
    Socket(tls_types::tls_socket),
}

impl TlsRecord {
    fn read(bytes: &[u8]) -> Option<Self> {
        plain(bytes).map(Self::Event).or_else(|| plain(bytes).map(Self::Socket))
    }
}

/// Observes the TLS libraries of processes. Dropping it detaches the programs.
pub struct TlsProbes {
    object: Object,
    finder: LibraryFinder,
    /// The observed files; one that could not be observed, with the reason.
    libraries: BTreeMap<FileId, (String, Option<String>)>,
    /// Processes to name, as of the last search: those chosen, or the owners of sockets on the ports.
    processes: BTreeMap<u32, ProcessEncryption>,
    /// Processes that started a program within [`YOUNG`].
    young: BTreeMap<u32, Instant>,
    looked: Instant,
    links: Vec<Link>,
}

impl TlsProbes {
    /// Loads the programs, finds the processes and their libraries, and begins to observe.
    ///
    /// # Errors
    ///
    /// [`Error::NoBtf`], [`Error::Permission`], [`Error::PidNamespace`], [`Error::NoProc`], [`Error::Load`] or
    /// [`Error::Attach`] if this machine cannot do it; [`Error::NoSuchProcess`].
    pub fn start(options: &TlsOptions) -> Result<(Self, TlsSecrets), Error> {
        libbpf_rs::set_print(None);
        check_pid_namespace()?;
        kernel_types()?;
        let is_auto = options.processes == TlsProcesses::Auto;
        let named = match &options.processes {
            TlsProcesses::Auto => {
                let owners = owners(&options.ports)?;
                owners.servers.union(&owners.clients).copied().collect()
            }
            TlsProcesses::Pids(pids) => ProcessSelection::Pids(pids.clone()).resolve()?,
        };
        let object = object::load(OBJECT, |_| false, &[("events", ring_size(options.ring_bytes))])?;
        let settings = tls_types::tls_settings { all: is_auto.into(), sockets: options.sockets.into() };
        map(&object, "settings")?.update(&0_u32.to_ne_bytes(), bytes_of(&settings), MapFlags::ANY)?;
        let is_wanted = |program: &ProgramMut<'_>| options.sockets || program.name() != "socket_closed";
        let in_kernel = object.progs_mut().filter(is_in_kernel).filter(is_wanted);
        let in_kernel = in_kernel.map(|program| object::attach(&program));
        let links = in_kernel.collect::<Result<_, _>>()?;
        let taken = Arc::<Mutex<Vec<_>>>::default();
        let waiting = Arc::clone(&taken);
        let keep = move |event: &[u8]| {
            waiting.lock().unwrap_or_else(PoisonError::into_inner).extend(TlsRecord::read(event));
        };
        let ring = object::ring(&map(&object, "events")?, keep)?;
        let processes = named.iter().map(|pid| (*pid, ProcessEncryption::default())).collect();
        let (finder, libraries, young) = (LibraryFinder::default(), BTreeMap::new(), BTreeMap::new());
        let mut probes = Self { object, finder, libraries, processes, young, looked: Instant::now(), links };
        let found = probes.finder.of_system(options.program.as_deref());
        probes.attach(&found.libraries);
        let pids = if is_auto { &named | &discover::tcp_processes()? } else { probes.follow(&named)? };
        for pid in pids {
            probes.search_process(pid);
        }
        Ok((probes, TlsSecrets { ring, taken, clock: ClockStamp::now() }))
    }

    /// Looks for the libraries of processes that `started` a program, and for libraries that were loaded meanwhile.
    /// May take long, as it reads whole files.
    pub fn search(&mut self, started: impl Iterator<Item = u32>) {
        let room = MOST_YOUNG.saturating_sub(self.young.len());
        self.young.extend(started.take(room).map(|pid| (pid, Instant::now())));
        self.young.retain(|_, since| since.elapsed() < YOUNG);
        let mut pids: Vec<u32> = self.young.keys().copied().collect();
        if self.looked.elapsed() >= LOOK {
            self.looked = Instant::now();
            pids.extend(self.processes.keys());
        }
        for pid in pids {
            self.search_process(pid);
        }
    }

    pub fn counts(&self) -> Result<TlsCounts, Error> {
        let now: tls_types::tls_counts =
            lookup(&map(&self.object, "counts")?, &0_u32.to_ne_bytes())?.unwrap_or_default();
        let mut counts = TlsCounts::default();
        add_fields!(counts, now => secrets, lost, unread);
        Ok(counts)
    }

    /// Returns the names of the observed files that the named processes use, and the number of all observed files.
    pub fn libraries(&self) -> (BTreeSet<String>, usize) {
        let of_named = self.processes.values().flat_map(|found| &found.libraries);
        let of_named = of_named.filter(|library| self.is_observed(library)).map(|library| library.name.clone());
        (of_named.collect(), self.libraries.values().filter(|(_, refused)| refused.is_none()).count())
    }

    /// Returns the named processes without a library that can be observed, as of the last search.
    pub fn unsupported(&self) -> Vec<TlsUnsupported> {
        let is_observed = |library: &TlsLibrary| self.is_observed(library);
        let without = self.processes.iter().filter(|(_, found)| !found.libraries.iter().any(is_observed));
        // Others have ended.
        let describe = |(pid, found): (&u32, &ProcessEncryption)| {
            let comm = discover::comm(*pid)?;
            let refused = found.libraries.iter().filter_map(|library| self.libraries.get(&library.id));
            let refused = refused.filter_map(|(name, reason)| Some(format!("{name} ({})", reason.as_ref()?)));
            let libraries = found.others.iter().cloned().chain(refused).collect();
            Some(TlsUnsupported { pid: *pid, comm, libraries })
        };
        without.filter_map(describe).collect()
    }

    fn is_observed(&self, library: &TlsLibrary) -> bool {
        self.libraries.get(&library.id).is_some_and(|(_, refused)| refused.is_none())
    }

    /// Takes the secrets of these processes, their descendants and their future forks. Returns the present ones.
    fn follow(&self, roots: &BTreeSet<u32>) -> Result<BTreeSet<u32>, Error> {
        let (pids, followed) =
            (families(roots)?.into_iter().flat_map(|(_, family)| family), map(&self.object, "followed")?);
        let follow = |pid: u32| followed.update(&pid.to_ne_bytes(), &1_u32.to_ne_bytes(), MapFlags::ANY).map(|()| pid);
        Ok(pids.map(follow).collect::<Result<_, _>>()?)
    }

    /// Observes the libraries of a process, unless it has ended.
    fn search_process(&mut self, pid: u32) {
        if pid == std::process::id() {
            return;
        }
        let Ok(found) = self.finder.of_process(pid) else { return };
        self.attach(&found.libraries);
        if let Some(last) = self.processes.get_mut(&pid) {
            *last = found;
        }
    }

    fn attach(&mut self, libraries: &[TlsLibrary]) {
        for library in libraries {
            if self.libraries.contains_key(&library.id) {
                continue;
            }
            let attached = attach_to_function(&self.object, library);
            let refused = attached.map(|link| self.links.push(link)).err();
            self.libraries.insert(library.id, (library.name.clone(), refused));
        }
    }
}

impl TlsSecrets {
    /// Hands what is new to `take`. What one thread does comes in order.
    pub fn poll(&mut self, mut take: impl FnMut(TlsNews<'_>)) -> Result<(), Error> {
        self.ring.consume()?;
        let taken = std::mem::take(&mut *self.taken.lock().unwrap_or_else(PoisonError::into_inner));
        for record in taken {
            let mut event = match record {
                TlsRecord::Event(event) => event,
                TlsRecord::Socket(socket) => {
                    take(news_of(&socket));
                    continue;
                }
            };
            if event.secret_len == 0 {
                take(TlsNews::Started(event.tgid));
            } else if let Some(secret) = secret_of(&event, &self.clock) {
                take(TlsNews::Secret(&secret));
            }
            event.secret.fill(0);
            std::hint::black_box(&event);
        }
        Ok(())
    }
}

/// Attaches a program for all processes; it ignores those that are not wanted.
fn attach_to_function(object: &Object, library: &TlsLibrary) -> Result<Link, String> {
    let program = match library.function.convention {
        CallingConvention::C => "key_log_c",
        CallingConvention::Go => "key_log_go",
    };
    let found = object.progs_mut().find(|found| found.name() == program);
    let found = found.ok_or_else(|| format!("{program} is not among the programs"))?;
    let attached =
        found.attach_uprobe_with_opts(-1, &library.path, library.function.offset as usize, UprobeOpts::default());
    attached.map_err(|error| format!("{error:#}"))
}

fn is_in_kernel(program: &ProgramMut<'_>) -> bool {
    program.section().to_string_lossy().starts_with("tp_btf/")
}

fn news_of(found: &tls_types::tls_socket) -> TlsNews<'static> {
    let ends = found.ends;
    let [local, remote] = [end(ends.local, ends.local_port), end(ends.remote, ends.remote_port)];
    let (next_sent, next_read) = (found.write_seq, found.copied_seq);
    let socket = HandshakeSocket { network_namespace: ends.netns, local, remote, next_sent, next_read };
    if found.is_closed != 0 { TlsNews::Closed(socket) } else { TlsNews::Socket { tid: found.tid, socket } }
}

fn secret_of<'a>(event: &'a tls_types::tls_event, clock: &ClockStamp) -> Option<SeenSecret<'a>> {
    let label = event.label.split(|byte| *byte == 0).next()?;
    Some(SeenSecret {
        time_ns: clock.unix_ns_at(event.time_ns),
        pid: event.tgid,
        tid: event.tid,
        object: event.object,
        label: std::str::from_utf8(label).ok()?,
        random: (event.random_len > 0).then_some(&event.random),
        secret: event.secret.get(..event.secret_len as usize)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_are_told_from_secrets() {
        let mut socket = tls_types::tls_socket { tid: 7, write_seq: 1, copied_seq: 2, ..Default::default() };
        socket.ends.local = crate::opened::words("10.0.0.1".parse().unwrap());
        socket.ends.remote = crate::opened::words("2001:db8::1".parse().unwrap());
        (socket.ends.netns, socket.ends.local_port, socket.ends.remote_port) = (9, 40_000, 5432);
        let ends: [SocketAddr; 2] = ["10.0.0.1:40000", "[2001:db8::1]:5432"].map(|end| end.parse().unwrap());
        let record = TlsRecord::read(bytes_of(&socket)).unwrap();
        let [local, remote] = ends;
        let wanted = HandshakeSocket { network_namespace: 9, local, remote, next_sent: 1, next_read: 2 };
        let TlsRecord::Socket(read) = record else { panic!("not a socket") };
        assert!(matches!(news_of(&read), TlsNews::Socket { tid: 7, socket } if socket == wanted));
        socket.is_closed = 1;
        assert!(matches!(news_of(&socket), TlsNews::Closed(found) if found == wanted));
        let event = tls_types::tls_event::default();
        assert!(matches!(TlsRecord::read(bytes_of(&event)), Some(TlsRecord::Event(_))));
    }

    #[test]
    fn an_event_is_read_without_its_padding() {
        let mut event = tls_types::tls_event { tgid: 7, secret_len: 32, ..Default::default() };
        event.label[..13].copy_from_slice(b"CLIENT_RANDOM");
        event.secret.fill(0xab);
        let secret = secret_of(&event, &ClockStamp::default()).unwrap();
        assert_eq!((secret.label, secret.random, secret.secret), ("CLIENT_RANDOM", None, &[0xab; 32][..]));
        assert_eq!(format!("{secret:?}"), "CLIENT_RANDOM of process 7");
        event.secret_len = 65;
        assert_eq!(secret_of(&event, &ClockStamp::default()), None);
    }
}
