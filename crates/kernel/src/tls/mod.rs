//! Captures what processes encrypt and decrypt with OpenSSL or BoringSSL, when the library's calls return.
//!
//! The programs in `bpf/tls.bpf.c` copy the bytes of each call, with the TCP sequence numbers that its socket used
//! meanwhile. [`libraries`] finds the functions by name in the files that a process maps.

mod libraries;

use crate::clock::ClockStamp;
use crate::discover::{self, check_pid_namespace, families, owners};
use crate::error::Error;
use crate::object::{self, arguments_of, has_tracepoint, kernel_types, map, plain, plain_types, ring_size};
use crate::options::ProcessSelection;
use crate::ownership::end;
use crate::skeleton::tls_types::{self, tls_function};
use libbpf_rs::{Link, MapCore, MapFlags, Object, ProgramMut, RingBuffer, UprobeOpts};
use libraries::{FREE, FUNCTIONS, FileId, LibraryFinder, ProcessEncryption, TlsLibrary};
use overhead_model::add_fields;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/tls.bpf.o"));

plain_types!(tls_types::tls_event, tls_types::tls_counts);

/// Default size of the ring buffer.
const RING_BYTES: u32 = 64 << 20;
/// Buffer capacity kept between polls.
const KEPT_BUFFER_BYTES: usize = 8 << 20;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TlsProcesses {
    /// Listeners on the ports on this host; else clients connected to them, and this process's children.
    Auto,
    /// These processes and their forks.
    Pids(Vec<u32>),
}

#[derive(Clone, Debug)]
pub struct TlsOptions {
    pub processes: TlsProcesses,
    /// Only connections on these ports, if there are any. Calls whose socket is unknown are captured regardless.
    pub ports: Vec<u16>,
    /// The program about to be started as a child, if any.
    pub program: Option<PathBuf>,
    /// Size of the ring buffer, rounded up to a power of two.
    pub ring_bytes: u32,
    /// Observe sockets by the kernel's TCP functions even if there are tracepoints.
    pub by_functions: bool,
}

impl TlsOptions {
    pub fn new(processes: TlsProcesses, ports: impl Into<Vec<u16>>) -> Self {
        Self { processes, ports: ports.into(), program: None, ring_bytes: RING_BYTES, by_functions: false }
    }
}

/// All or some of the bytes that one call moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TlsCall<'a> {
    /// When the call returned, Unix nanoseconds.
    pub time_ns: u64,
    pub pid: u32,
    pub tid: u32,
    /// Number of the SSL object, from 1.
    pub stream: u64,
    /// Sent by the process; else received.
    pub sent: bool,
    /// Offset of the first byte in this direction of the SSL object, counted from its first observed call.
    pub offset: u64,
    /// Bytes moved by the whole call.
    pub call_bytes: u64,
    /// Bytes of the call before these.
    pub call_before: u64,
    /// Number of bytes. `bytes` is empty if they could not be read.
    pub len: u32,
    pub bytes: &'a [u8],
    /// Known if the thread used the socket within a call.
    pub connection: Option<TlsConnection>,
}

/// The TCP connection of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TlsConnection {
    /// Network namespace of the socket.
    pub netns: u32,
    /// The process's end.
    pub local: SocketAddr,
    pub remote: SocketAddr,
    /// TCP sequence numbers: the first byte that the socket moved for this call, and one past the last.
    pub sequence: [u32; 2],
}

/// Captured and missed calls since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TlsCounts {
    /// Calls that moved bytes, on selected connections.
    pub calls: u64,
    /// Bytes of these calls.
    pub bytes: u64,
    /// No room in the ring buffer.
    pub lost_bytes: u64,
    /// Not readable in the process.
    pub unread_bytes: u64,
    /// Sent from files (`SSL_sendfile`), so without content.
    pub file_bytes: u64,
    /// On connections of other ports.
    pub elsewhere_bytes: u64,
    /// In calls whose socket is unknown.
    pub unjoined_bytes: u64,
}

/// Ways in which a process may encrypt.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProcessTls {
    /// OpenSSL and BoringSSL files, by the process's names for them.
    pub openssl: Vec<String>,
    /// Libraries whose calls cannot be captured.
    pub others: Vec<&'static str>,
}

/// Returns the encryption libraries that a process has loaded or was linked with. It may not use them.
///
/// # Errors
///
/// The process is gone, or another user's.
pub fn process_tls(pid: u32) -> std::io::Result<ProcessTls> {
    let ProcessEncryption { libraries, others } = LibraryFinder::default().of_process(pid)?;
    Ok(ProcessTls {
        openssl: libraries.into_iter().map(|library| library.name).collect(),
        others: others.into_iter().collect(),
    })
}

/// A process whose calls cannot be captured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsUnsupported {
    pub pid: u32,
    pub comm: String,
    /// Its other TLS libraries; empty if none is known.
    pub libraries: Vec<&'static str>,
}

/// Captures calls of TLS libraries. Dropping it detaches the programs.
pub struct TlsCalls {
    /// Its function probes are attached to each library found.
    object: Object,
    ring: RingBuffer<'static>,
    /// From the ring buffer, not yet polled; each event is preceded by its length.
    taken: Arc<Mutex<Vec<u8>>>,
    finder: LibraryFinder,
    libraries: BTreeMap<FileId, TlsLibrary>,
    /// Results of the last scan.
    processes: BTreeMap<u32, ProcessEncryption>,
    serves: bool,
    clock: ClockStamp,
    links: Vec<Link>,
}

impl TlsCalls {
    /// Loads the programs, finds the processes and their libraries, and begins capturing.
    ///
    /// # Errors
    ///
    /// [`Error::NoBtf`], [`Error::Permission`], [`Error::PidNamespace`], [`Error::NoProc`], [`Error::Load`] or
    /// [`Error::Attach`] if this machine cannot do it; [`Error::NoSuchProcess`].
    pub fn start(options: &TlsOptions) -> Result<Self, Error> {
        libbpf_rs::set_print(None);
        check_pid_namespace()?;
        let RootProcesses { pids, adopts, serves } = roots(options)?;
        let mut object = load(options)?;
        let links = attach_to_kernel(&mut object)?;
        let taken = Arc::<Mutex<Vec<u8>>>::default();
        let waiting = Arc::clone(&taken);
        let ring = object::ring(&map(&object, "events")?, move |event| keep(event, &waiting))?;
        let mut calls = Self {
            object,
            ring,
            taken,
            finder: LibraryFinder::default(),
            libraries: BTreeMap::new(),
            processes: BTreeMap::new(),
            serves,
            clock: ClockStamp::now(),
            links,
        };
        if adopts {
            calls.follow(std::process::id())?;
            let found = calls.finder.of_system(options.program.as_deref());
            calls.attach(&found.libraries)?;
        }
        for (_, family) in families(&pids)? {
            for pid in family {
                calls.follow(pid)?;
            }
        }
        calls.rescan()?;
        Ok(calls)
    }

    /// Looks for new processes and newly loaded libraries.
    pub fn rescan(&mut self) -> Result<(), Error> {
        let own = std::process::id();
        let pids: Vec<u32> = map(&self.object, "followed")?.keys().filter_map(|key| number(&key)).collect();
        for pid in pids.into_iter().filter(|pid| *pid != own) {
            // It has ended.
            let Ok(found) = self.finder.of_process(pid) else { continue };
            self.attach(&found.libraries)?;
            self.processes.insert(pid, found);
        }
        Ok(())
    }

    /// Hands new events to `take` in the order in which the calls returned. Returns their number.
    pub fn poll(&mut self, mut take: impl FnMut(&TlsCall<'_>)) -> Result<usize, Error> {
        self.ring.consume()?;
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let mut rest = taken.as_slice();
        let mut count = 0;
        while let Some((len, after)) = rest.split_first_chunk::<4>() {
            let Some((event, after)) = after.split_at_checked(u32::from_ne_bytes(*len) as usize) else { break };
            rest = after;
            if let Some(call) = call_of(event, &self.clock) {
                take(&call);
                count += 1;
            }
        }
        taken.clear();
        if taken.capacity() > KEPT_BUFFER_BYTES {
            *taken = Vec::new();
        }
        Ok(count)
    }

    pub fn counts(&self) -> Result<TlsCounts, Error> {
        let bytes = map(&self.object, "counts")?.lookup(&0_u32.to_ne_bytes(), MapFlags::ANY)?;
        let now: tls_types::tls_counts = bytes.and_then(|bytes| plain(&bytes)).unwrap_or_default();
        let mut counts = TlsCounts::default();
        add_fields!(counts, now => calls, bytes, lost_bytes, unread_bytes, file_bytes, elsewhere_bytes, unjoined_bytes);
        Ok(counts)
    }

    /// Returns the observed library files, by their processes' names for them.
    pub fn libraries(&self) -> Vec<String> {
        self.libraries.values().map(|library| library.name.clone()).collect()
    }

    /// Returns whether the processes are servers of the ports; else they are clients.
    pub fn serves(&self) -> bool {
        self.serves
    }

    /// Returns the scanned processes without OpenSSL and BoringSSL, by number.
    pub fn unsupported(&self) -> Vec<TlsUnsupported> {
        let without = self.processes.iter().filter(|(_, found)| found.libraries.is_empty());
        without
            .map(|(pid, found)| TlsUnsupported {
                pid: *pid,
                comm: discover::comm(*pid).unwrap_or_default(),
                libraries: found.others.iter().copied().collect(),
            })
            .collect()
    }

    /// Returns the processes whose calls are captured, as of the last scan.
    pub fn processes(&self) -> Vec<u32> {
        self.processes.iter().filter(|(_, found)| !found.libraries.is_empty()).map(|(pid, _)| *pid).collect()
    }

    /// Captures the calls of a process and its future forks.
    fn follow(&self, pid: u32) -> Result<(), Error> {
        Ok(map(&self.object, "followed")?.update(&pid.to_ne_bytes(), &1_u32.to_ne_bytes(), MapFlags::ANY)?)
    }

    fn attach(&mut self, libraries: &[TlsLibrary]) -> Result<(), Error> {
        for library in libraries {
            if self.libraries.contains_key(&library.id) {
                continue;
            }
            let of_function = |(function, cookie): &(&'static str, tls_function)| {
                [("tls_enter", *function, false, u64::from(cookie.0)), ("tls_exit", *function, true, 0)]
            };
            let probes = FUNCTIONS.iter().flat_map(of_function).chain([("tls_free", FREE, false, 0)]);
            for (program, function, retprobe, cookie) in probes {
                if library.functions.contains(function) {
                    let func_name = Some(function.to_owned());
                    let options = UprobeOpts { cookie, retprobe, func_name, ..UprobeOpts::default() };
                    self.links.push(attach_to_function(&self.object, program, library, options)?);
                }
            }
            self.libraries.insert(library.id, library.clone());
        }
        Ok(())
    }
}

/// Attaches a program for all processes; it ignores those not followed.
fn attach_to_function(
    object: &Object,
    program: &str,
    library: &TlsLibrary,
    options: UprobeOpts,
) -> Result<Link, Error> {
    let function = options.func_name.clone().unwrap_or_default();
    let failed = |reason: String| Error::Attach { program: format!("{function} of {}", library.name), reason };
    let found = object.progs_mut().find(|found| found.name() == program);
    let found = found.ok_or_else(|| failed(format!("{program} is not among the programs")))?;
    found.attach_uprobe_with_opts(-1, &library.path, 0, options).map_err(|error| failed(format!("{error:#}")))
}

/// The processes to begin with.
struct RootProcesses {
    pids: BTreeSet<u32>,
    /// Follow this process's children.
    adopts: bool,
    /// The processes are servers of the ports.
    serves: bool,
}

fn roots(options: &TlsOptions) -> Result<RootProcesses, Error> {
    let owners = owners(&options.ports)?;
    match &options.processes {
        TlsProcesses::Pids(pids) => {
            let pids = ProcessSelection::Pids(pids.clone()).resolve()?;
            let serves = pids.iter().any(|pid| owners.servers.contains(pid));
            Ok(RootProcesses { pids, adopts: false, serves })
        }
        TlsProcesses::Auto if owners.servers.is_empty() => {
            Ok(RootProcesses { pids: owners.clients, adopts: true, serves: false })
        }
        TlsProcesses::Auto => Ok(RootProcesses { pids: owners.servers, adopts: false, serves: true }),
    }
}

fn load(options: &TlsOptions) -> Result<Object, Error> {
    let unused = if by_functions(options)? { TRACEPOINTS } else { FUNCTIONS_OF_TCP.map(|(name, _)| name) };
    let sizes = [("events", ring_size(options.ring_bytes))];
    let object = object::load(OBJECT, |name| unused.contains(&name), &sizes)?;
    let is_limited = u32::from(!options.ports.is_empty());
    let ports = [&is_limited.to_ne_bytes()[..], &object::port_set(&options.ports)].concat();
    map(&object, "wanted_ports")?.update(&0_u32.to_ne_bytes(), &ports, MapFlags::ANY)?;
    Ok(object)
}

/// Programs at the socket tracepoints, which exist since Linux 6.3.
const TRACEPOINTS: [&str; 2] = ["tls_sent", "tls_received"];
/// Their substitutes, named after the traced functions, with the number of arguments these must have. Since Linux
/// 5.19 the fourth argument of `tcp_recvmsg` is the flags.
const FUNCTIONS_OF_TCP: [(&str, RangeInclusive<usize>); 2] = [("tcp_sendmsg", 3..=3), ("tcp_recvmsg", 4..=5)];

/// Returns whether to trace TCP functions instead of socket tracepoints, which the kernel may lack.
fn by_functions(options: &TlsOptions) -> Result<bool, Error> {
    let btf = kernel_types()?;
    let has_tracepoints = has_tracepoint(&btf, "sock_send_length") && has_tracepoint(&btf, "sock_recv_length");
    if has_tracepoints && !options.by_functions {
        return Ok(false);
    }
    let is_other = |(name, expected): &(&str, RangeInclusive<usize>)| {
        !arguments_of(&btf, name).is_some_and(|arguments| expected.contains(&arguments))
    };
    match FUNCTIONS_OF_TCP.into_iter().find(is_other) {
        None => Ok(true),
        Some((name, _)) => Err(Error::Attach {
            program: name.to_owned(),
            reason: "this kernel's function is another one: calls of TLS libraries need Linux 5.19 or later".to_owned(),
        }),
    }
}

/// Attaches the programs for processes and sockets, which are all required.
fn attach_to_kernel(object: &mut Object) -> Result<Vec<Link>, Error> {
    let in_kernel = object.progs_mut().filter(|program| is_in_kernel(program) && program.autoload());
    in_kernel.map(|program| object::attach(&program)).collect()
}

fn is_in_kernel(program: &ProgramMut<'_>) -> bool {
    let section = program.section().to_string_lossy();
    section.starts_with("tp_btf/") || section.starts_with("fexit/")
}

/// Appends an event to those that wait.
fn keep(event: &[u8], taken: &Mutex<Vec<u8>>) {
    let mut taken = taken.lock().unwrap_or_else(PoisonError::into_inner);
    // Events have a few fixed sizes and are padded.
    let len = plain::<tls_types::tls_event>(event).map_or(0, |header| HEADER + header.len as usize).min(event.len());
    taken.extend_from_slice(&(len as u32).to_ne_bytes());
    taken.extend_from_slice(event.get(..len).unwrap_or_default());
}

/// Bytes before the payload in an event.
const HEADER: usize = size_of::<tls_types::tls_event>();

fn call_of<'a>(event: &'a [u8], clock: &ClockStamp) -> Option<TlsCall<'a>> {
    let header: tls_types::tls_event = plain(event)?;
    let has = |flag: tls_types::tls_flags| header.flags & flag.0 != 0;
    let is_missing = has(tls_types::tls_flags::TLS_UNREAD) || has(tls_types::tls_flags::TLS_FILE);
    let connection = &header.connection;
    Some(TlsCall {
        time_ns: clock.unix_ns_at(header.time_ns),
        pid: header.tgid,
        tid: header.tid,
        stream: header.stream,
        sent: has(tls_types::tls_flags::TLS_SENT),
        offset: header.offset,
        call_bytes: header.call_bytes,
        call_before: header.call_before,
        len: header.len,
        bytes: if is_missing { &[] } else { event.get(HEADER..HEADER + header.len as usize)? },
        connection: has(tls_types::tls_flags::TLS_JOINED).then(|| TlsConnection {
            netns: connection.netns,
            local: end(connection.local, connection.local_port),
            remote: end(connection.remote, connection.remote_port),
            sequence: [header.from, header.to],
        }),
    })
}

fn number(key: &[u8]) -> Option<u32> {
    Some(u32::from_ne_bytes(key.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_layout_of_an_event_is_without_holes() {
        assert_eq!(HEADER, 5 * 8 + 2 * 4 + 40 + 4 * 4);
        assert_eq!(call_of(&[0; HEADER - 1], &ClockStamp::default()), None);
        let call = call_of(&[0; HEADER], &ClockStamp::default()).unwrap();
        assert_eq!((call.connection, call.bytes, call.sent), (None, &[][..], false));
    }
}
