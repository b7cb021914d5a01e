//! Captures the bytes of UNIX stream sockets, once each, from the calls that write them.
//!
//! The programs in `bpf/streams.bpf.c` copy them. A writing call may return after its bytes were read and answered,
//! so pieces come out of order; [`order`] restores it from what each writer had read before.

mod order;

use crate::clock::ClockStamp;
use crate::discover::check_pid_namespace;
use crate::error::Error;
use crate::object::{self, has_tracepoint, kernel_types, map, plain, plain_types, ring_size};
use crate::skeleton::stream_types as types;
use libbpf_rs::{Link, MapCore, MapFlags, Object, RingBuffer};
use order::StreamOrder;
use overhead_model::add_fields;
use std::collections::BTreeSet;
use std::io::Read;
use std::os::linux::fs::MetadataExt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/streams.bpf.o"));

plain_types!(types::piece, types::stream_sums, types::stream_alive);

/// Read size for the list of connections. Between reads the kernel counts from the start of its hash bucket and skips
/// sockets if others closed meanwhile, so few reads are better.
const LIST_READ_BYTES: usize = 1 << 18;
/// Records per poll.
const RECORDS_PER_POLL: usize = 4096;
/// How long a piece waits for earlier bytes of the other direction. Their writing call returns once its thread runs
/// again, which can take long on a loaded machine.
const ORDER_TIMEOUT: Duration = Duration::from_secs(10);
/// Shorter wait, once a piece was lost.
const ORDER_TIMEOUT_AFTER_LOSS: Duration = Duration::from_millis(100);
/// Interval of the search for pieces that have waited too long.
const TIMEOUT_CHECK: Duration = Duration::from_millis(50);
/// Bytes before the payload in a record.
const HEADER: usize = size_of::<types::piece>();

/// The sockets to capture, and limits.
#[derive(Clone, Debug)]
pub struct StreamOptions {
    /// Paths of the servers' sockets, or `@` and an abstract name.
    pub sockets: Vec<String>,
    /// Size of the BPF ring buffer, rounded up to a power of two.
    pub ring_bytes: u32,
    /// Bytes kept per call. Lengths are exact regardless.
    pub limit: Option<u32>,
}

/// All or some of the bytes that one call wrote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamBytes {
    /// Unix nanoseconds: when the call returned, or when the other end read the bytes if that was earlier.
    pub time_ns: u64,
    /// Number of the connection, from 1.
    pub id: u64,
    pub to_server: bool,
    /// Bytes of the direction before these, since the connection started or was first seen.
    pub offset: u64,
    /// The connection is older than the capture.
    pub is_old: bool,
    /// Process that connected.
    pub client_pid: u32,
    /// Index in [`StreamOptions::sockets`].
    pub socket: usize,
    /// Number of bytes written; `bytes` may hold fewer.
    pub length: u32,
    pub bytes: Vec<u8>,
    /// Why bytes are missing; `None` if all are there.
    pub absent: Option<AbsentBytes>,
    /// Bytes of the other direction that the writer had read.
    seen: u64,
}

impl StreamBytes {
    /// 0 to the server, 1 from it.
    fn direction(&self) -> usize {
        usize::from(!self.to_server)
    }

    /// Returns the end of a connection: an empty piece from its client.
    pub fn end(time_ns: u64, id: u64, socket: usize, client_pid: u32, offset: u64, is_old: bool) -> Self {
        let (bytes, absent) = (Vec::new(), None);
        Self { time_ns, id, to_server: true, offset, is_old, client_pid, socket, length: 0, bytes, absent, seen: 0 }
    }
}

/// Why a piece lacks bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum AbsentBytes {
    /// Beyond [`StreamOptions::limit`].
    Limit,
    /// No longer in memory.
    Fault,
    /// The call with this number has no readable buffer: `sendfile`, `splice`, `io_uring`, calls of 32-bit programs.
    Call(i32),
}

/// Sums over all captured sockets since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamCounts {
    /// Calls that wrote at least one byte.
    pub calls: u64,
    pub bytes: u64,
    /// Bytes that reached the ring.
    pub copied: u64,
    /// Records that found no room in the ring.
    pub lost: u64,
    /// Bytes of these records.
    pub lost_bytes: u64,
}

/// Running programs and their ring. Dropping it detaches them.
pub struct UnixStreams {
    object: Object,
    ring: RingBuffer<'static>,
    /// Taken from the ring, not yet ordered.
    taken: Arc<Mutex<Vec<StreamBytes>>>,
    order: StreamOrder,
    /// Last search for pieces that have waited too long.
    last_check: Instant,
    /// Pieces that were handed on before what their writers had read.
    pub early: u64,
    clock: ClockStamp,
    connections: Option<Link>,
    links: Vec<Link>,
}

impl UnixStreams {
    /// Loads the programs and starts capturing.
    ///
    /// # Errors
    ///
    /// [`Error::NoBtf`], [`Error::Permission`], [`Error::PidNamespace`], [`Error::NoProc`], [`Error::Load`] or
    /// [`Error::Attach`] if this machine cannot do it; [`Error::Tables`] if a socket name is too long.
    pub fn start(options: &StreamOptions) -> Result<Self, Error> {
        libbpf_rs::set_print(None);
        check_pid_namespace()?;
        check_tracepoints()?;
        let object = load(options)?;
        for (index, socket) in options.sockets.iter().enumerate() {
            watch_socket(&object, index as u32, socket)?;
        }
        let limit = options.limit.map_or(u64::MAX, u64::from);
        write_settings(&object, limit, false)?;
        let clock = ClockStamp::now();
        let taken = Arc::<Mutex<Vec<StreamBytes>>>::default();
        let waiting = Arc::clone(&taken);
        let ring = object::ring(&map(&object, "ring")?, move |record| {
            waiting.lock().unwrap_or_else(PoisonError::into_inner).extend(bytes_of(record, &clock));
        })?;
        let (mut links, mut connections) = (Vec::new(), None);
        for program in object.progs_mut().filter(|program| program.autoload()) {
            // All are required; without the iterator, old connections would look like new ones.
            let link = object::attach(&program)?;
            if program.name() == "read_connections" {
                connections = Some(link);
            } else {
                links.push(link);
            }
        }
        let (order, last_check) = (StreamOrder::default(), Instant::now());
        let streams = Self { object, ring, taken, order, last_check, early: 0, clock, connections, links };
        // The BPF programs mark the connections that already exist.
        streams.read_connections()?;
        write_settings(&streams.object, limit, true)?;
        Ok(streams)
    }

    /// Returns the processes whose connections are older than the capture and still open.
    pub fn client_pids(&self) -> Result<BTreeSet<u32>, Error> {
        Ok(self.alive()?.into_iter().map(|alive| alive.client_pid as u32).filter(|pid| *pid > 0).collect())
    }

    /// Returns the numbers of the open connections. Some may be missing if others open and close meanwhile.
    pub fn open_connections(&self) -> Result<BTreeSet<u64>, Error> {
        Ok(self.alive()?.into_iter().map(|alive| alive.id).collect())
    }

    fn alive(&self) -> Result<Vec<types::stream_alive>, Error> {
        let bytes = self.read_connections()?;
        Ok(bytes.chunks_exact(size_of::<types::stream_alive>()).filter_map(plain).collect())
    }

    fn read_connections(&self) -> Result<Vec<u8>, Error> {
        let Some(link) = &self.connections else { return Ok(Vec::new()) };
        let (mut bytes, mut part) = (Vec::new(), vec![0; LIST_READ_BYTES]);
        let mut iterator = libbpf_rs::Iter::new(link)?;
        loop {
            match iterator.read(&mut part)? {
                0 => return Ok(bytes),
                read => bytes.extend_from_slice(part.get(..read).unwrap_or_default()),
            }
        }
    }

    /// Hands new bytes to `take`, each connection's in an order in which they can have been written. Pieces that must
    /// wait for earlier ones are kept, except with `all`.
    pub fn poll(&mut self, all: bool, mut take: impl FnMut(StreamBytes)) -> Result<usize, Error> {
        let read = self.ring.consume_raw_n(RECORDS_PER_POLL);
        if read < 0 {
            return Err(std::io::Error::from_raw_os_error(-read).into());
        }
        let mut taken = std::mem::take(&mut *self.taken.lock().unwrap_or_else(PoisonError::into_inner));
        let now = Instant::now();
        let count = taken.len();
        for bytes in taken.drain(..) {
            self.order.push(bytes, now, &mut take);
        }
        // Reuses the allocation.
        *self.taken.lock().unwrap_or_else(PoisonError::into_inner) = taken;
        if all && count == 0 {
            self.early += self.order.release(None, &mut take);
        } else if now.duration_since(self.last_check) >= TIMEOUT_CHECK && self.order.waits_from(u64::MAX) {
            self.last_check = now;
            let timeout = if self.counts()?.lost > 0 { ORDER_TIMEOUT_AFTER_LOSS } else { ORDER_TIMEOUT };
            if let Some(before) = now.checked_sub(timeout) {
                self.early += self.order.release(Some(before), &mut take);
            }
        }
        Ok(count)
    }

    /// Returns whether a piece written up to `time_ns` waits for a call that has not returned.
    pub fn waits_from(&self, time_ns: u64) -> bool {
        self.order.waits_from(time_ns)
    }

    /// Detaches the programs. Captured events can still be polled.
    pub fn stop(&mut self) {
        self.links.clear();
    }

    /// Frees the state of a connection that has ended.
    pub fn forget(&mut self, id: u64) {
        self.order.forget(id);
    }

    /// Adds up the counters of all CPUs.
    pub fn counts(&self) -> Result<StreamCounts, Error> {
        let copies = map(&self.object, "sums")?.lookup_percpu(&0_u32.to_ne_bytes(), MapFlags::ANY)?.unwrap_or_default();
        let mut counts = StreamCounts::default();
        for sums in copies.iter().filter_map(|bytes| plain::<types::stream_sums>(bytes)) {
            add_fields!(counts, sums => calls, bytes, copied, lost, lost_bytes);
        }
        Ok(counts)
    }

    /// Returns the current time by the clock of the pieces, in Unix nanoseconds.
    pub fn now_ns(&self) -> u64 {
        self.clock.unix_ns_at(crate::clock::monotonic_ns())
    }
}

/// Kernels before 6.3 have no tracepoints that say who writes to a socket.
fn check_tracepoints() -> Result<(), Error> {
    let btf = kernel_types()?;
    for tracepoint in ["sock_send_length", "sock_recv_length"] {
        if !has_tracepoint(&btf, tracepoint) {
            let reason = "this kernel has no such tracepoint: UNIX sockets need Linux 6.3 or later".to_owned();
            return Err(Error::Attach { program: tracepoint.to_owned(), reason });
        }
    }
    Ok(())
}

fn write_settings(object: &Object, limit: u64, marked: bool) -> Result<(), Error> {
    let settings = [limit.to_ne_bytes(), u64::from(marked).to_ne_bytes()].concat();
    Ok(map(object, "settings")?.update(&0_u32.to_ne_bytes(), &settings, MapFlags::ANY)?)
}

fn load(options: &StreamOptions) -> Result<Object, Error> {
    let btf = kernel_types()?;
    // A kernel without io_uring has no such writes.
    let is_unused = |name: &str| name.starts_with("io_uring") && !has_tracepoint(&btf, name);
    let cpus = libbpf_rs::num_possible_cpus().map_err(|error| Error::loading(&error))?.max(1) as u32;
    object::load(OBJECT, is_unused, &[("ring", ring_size(options.ring_bytes)), ("scratches", cpus)])
}

/// Registers a socket with the programs, by its name and by the inode of its path.
fn watch_socket(object: &Object, index: u32, socket: &str) -> Result<(), Error> {
    let (names, files) = (map(object, "names")?, map(object, "files")?);
    let mut name = [0; size_of::<types::stream_name>()];
    let (bytes, at) = socket.strip_prefix('@').map_or((socket.as_bytes(), 0), |name| (name.as_bytes(), 1));
    let Some(place) = name.get_mut(at..at + bytes.len()) else {
        return Err(Error::Tables(format!("{socket} is longer than the name of a socket can be (107 bytes)")));
    };
    place.copy_from_slice(bytes);
    names.update(&name, &index.to_ne_bytes(), MapFlags::ANY)?;
    if at == 0
        && let Ok(file) = Path::new(socket).metadata()
    {
        let key = [file.st_ino().to_ne_bytes(), kernel_device(file.st_dev()).to_ne_bytes()].concat();
        files.update(&key, &index.to_ne_bytes(), MapFlags::ANY)?;
    }
    Ok(())
}

/// Converts a device number to the kernel's `MKDEV`: 12 bits major, 20 bits minor.
fn kernel_device(device: u64) -> u64 {
    u64::from(libc::major(device)) << 20 | u64::from(libc::minor(device))
}

fn bytes_of(record: &[u8], clock: &ClockStamp) -> Option<StreamBytes> {
    let piece: types::piece = plain(record)?;
    let absent = match types::absence(u32::from(piece.absent)) {
        types::absence::ABSENT_NOT => None,
        types::absence::ABSENT_LIMIT => Some(AbsentBytes::Limit),
        types::absence::ABSENT_FAULT => Some(AbsentBytes::Fault),
        _ => Some(AbsentBytes::Call(piece.call)),
    };
    Some(StreamBytes {
        time_ns: clock.unix_ns_at(piece.time_ns),
        id: piece.id,
        to_server: piece.to_server != 0,
        offset: piece.offset,
        is_old: piece.is_old != 0,
        client_pid: piece.client_pid,
        socket: piece.wanted as usize,
        length: piece.length,
        bytes: record.get(HEADER..HEADER + piece.captured as usize)?.to_vec(),
        absent: absent.filter(|_| piece.captured < piece.length),
        seen: piece.seen,
    })
}

/// Returns the name of a system call.
pub fn call_name(number: i32) -> String {
    let name = usize::try_from(number).ok().and_then(syscalls::Sysno::new);
    name.map_or_else(|| format!("system call {number}"), |name| name.name().to_owned())
}
