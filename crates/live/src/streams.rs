//! UNIX sockets as a source: selects them, and turns the bytes written to them into frames.

use super::beside::LiveInput;
use super::container::LivePlan;
use super::plan::CapturePlan;
use anyhow::{Result, bail};
use overhead_capture::live::StopHandle;
use overhead_capture::{FrameSource, KernelStats, LiveTotals, NextFrame, SourceError};
use overhead_decode::FastMap;
use overhead_dissect::Selection;
use overhead_host::databases::Database;
use overhead_kernel::{
    AbsentBytes, ProcessSelection, StreamBytes, StreamCounts, StreamOptions, UnixServer, UnixStreams, call_name,
    raised, unix_servers,
};
use overhead_model::stream::{PieceTags, unix_ends};
use overhead_model::{Class, Frame, LinkType, Measured, Protocol, StreamPiece, System, Transport};
use overhead_reading::Warnings;
use overhead_report::Aggregate;
use overhead_report::text::counted;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::Path;
use std::time::{Duration, Instant};

/// Given instead of a path: the sockets of known servers.
pub const AUTO: &str = "auto";
/// Interval between polls of the ring while it is empty.
const PAUSE: Duration = Duration::from_millis(2);
/// Interval between [`NextFrame::Idle`] while nothing arrives.
const IDLE: Duration = Duration::from_millis(20);
/// Interval between checks for ended connections.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// Time after a stop within which calls may return whose bytes were read earlier.
const RETURN: Duration = Duration::from_secs(2);

/// The sockets to capture.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UnixSockets {
    /// Absolute paths or abstract names.
    pub names: Vec<String>,
    /// Processes that listen on them.
    pub pids: Vec<u32>,
    /// Whether they are captured in addition to an interface.
    pub are_beside: bool,
}

impl UnixSockets {
    /// Resolves these arguments to sockets: paths, abstract names, or `auto` for those of known servers in the
    /// selection. If processes are given, only their sockets count.
    pub fn find(asked: &[String], selection: &Selection, pids: &[u32]) -> Result<Self> {
        let listening = raised(unix_servers)?;
        let mut sockets = Self::default();
        for name in asked {
            if name == AUTO {
                let known = known(&listening, selection, pids);
                if known.is_empty() {
                    bail!(
                        "no known server listens on a UNIX socket: name its path, as in --unix /run/redis/redis.sock"
                    );
                }
                for server in known {
                    sockets.add(server.socket.clone(), &server.pids);
                }
            } else {
                let name = absolute(name)?;
                let is_named = |server: &&UnixServer| is_same(&server.socket, &name);
                let pids = listening.iter().find(is_named).map_or(&[][..], |server| &server.pids);
                sockets.add(name, pids);
            }
        }
        Ok(sockets)
    }

    /// Finds the sockets of servers of these protocols that also listen on one of these ports, or on no port if none is
    /// given. Ignores containers and other network namespaces. Returns `None` if there are none.
    pub fn beside(
        databases: &[Database],
        protocols: &[Protocol],
        ports: &[u16],
        is_named: bool,
        network_namespace: u32,
    ) -> Option<Self> {
        let is_meant = |database: &&Database| {
            let is_here = database.network_namespace.is_none_or(|namespace| namespace == network_namespace);
            let listens = (database.addresses.is_empty() && !is_named)
                || database.ports().iter().any(|port| ports.contains(port));
            protocols.contains(&database.system.protocol) && is_here && listens && database.container.is_none()
        };
        let mut sockets = Self { are_beside: true, ..Self::default() };
        for database in databases.iter().filter(is_meant) {
            for socket in &database.unix {
                sockets.add(socket.clone(), &database.pids);
            }
        }
        (!sockets.names.is_empty()).then_some(sockets)
    }

    /// Returns how to find the processes of the server.
    pub fn server(&self) -> ProcessSelection {
        match self.pids.as_slice() {
            [] => ProcessSelection::Named(format!("nobody listened on {} yet", self.names.join(" or "))),
            pids => ProcessSelection::Pids(pids.to_vec()),
        }
    }

    fn add(&mut self, name: String, pids: &[u32]) {
        if !self.names.contains(&name) {
            self.names.push(name);
        }
        for pid in pids {
            if !self.pids.contains(pid) {
                self.pids.push(*pid);
            }
        }
    }
}

/// Returns the sockets that known servers in the selection listen on. If processes are given, only their sockets count.
pub fn known<'a>(listening: &'a [UnixServer], selection: &Selection, pids: &[u32]) -> Vec<&'a UnixServer> {
    let protocols: BTreeSet<Protocol> = selection.ports.iter().flat_map(|(_, protocols)| protocols).copied().collect();
    let is_meant = |system: &System| protocols.is_empty() || protocols.contains(&system.protocol);
    let is_known =
        |server: &UnixServer| System::ALL.iter().any(|system| is_meant(system) && server.comm.starts_with(system.name));
    let is_named = |server: &UnixServer| server.pids.iter().any(|pid| pids.contains(pid));
    listening.iter().filter(|server| if pids.is_empty() { is_known(server) } else { is_named(server) }).collect()
}

/// Returns the name that the kernel has for a socket: an absolute path, or an abstract name.
fn absolute(name: &str) -> Result<String> {
    if name.starts_with('@') {
        return Ok(name.to_owned());
    }
    let path = std::path::absolute(name)?;
    match path.to_str() {
        Some(path) => Ok(path.to_owned()),
        None => bail!("--unix {name}: the path is not UTF-8"),
    }
}

/// Returns whether two names denote the same socket: they are equal, or paths to the same file.
fn is_same(bound: &str, asked: &str) -> bool {
    let canonical = |path: &str| Path::new(path).canonicalize().ok();
    bound == asked || (canonical(asked).is_some() && canonical(bound) == canonical(asked))
}

/// Warns of named sockets without a listener, if nothing was captured.
pub fn look_for_servers(asked: &[String], warnings: &mut Warnings) {
    let Ok(listening) = raised(unix_servers) else { return };
    let is_there = |name: &&String| listening.iter().any(|server| is_same(&server.socket, name));
    for name in asked.iter().filter(|name| *name != AUTO) {
        let Ok(name) = absolute(name) else { continue };
        if !is_there(&&name) {
            warnings.remark(format!(
                "nobody listens on the UNIX socket {name}: check its path (`ss -xl` lists the ones in use)"
            ));
        }
    }
}

/// Names UNIX sockets that may have carried operations, if none were captured.
pub fn look_for_others(plan: &CapturePlan, aggregate: &Aggregate, warnings: &mut Warnings) {
    // With a connection, the server was the right one: its errors say more.
    let has_traffic = [Class::Workload, Class::Setup].iter().any(|class| aggregate.class_totals(*class).0 > 0);
    if !plan.captures() || has_traffic {
        return;
    }
    let Ok(listening) = raised(unix_servers) else { return };
    let known = known(&listening, &plan.live.selection, &plan.counters.named_pids);
    if known.is_empty() {
        return;
    }
    warnings.remark(format!("no operation was captured, and {}", hint(&known)));
}

/// Names servers that also listen on UNIX sockets.
fn hint(servers: &[&UnixServer]) -> String {
    let sentence = |server: &&UnixServer| {
        format!(
            "{} (process {}) also listens on the UNIX socket {}, which no packet goes through: capture it with --unix {}",
            server.comm,
            server.pids.first().copied().unwrap_or_default(),
            server.socket,
            server.socket
        )
    };
    servers.iter().map(sentence).collect::<Vec<_>>().join("; ")
}

/// Bytes written to UNIX sockets, as frames.
pub struct StreamSource {
    streams: UnixStreams,
    names: Vec<String>,
    /// The server's port in frames: the protocol's usual one, or 0.
    port: u16,
    /// Interface number of the pieces.
    interface: u32,
    stop: StopHandle,
    /// When the stop was noticed.
    stopped: Option<Instant>,
    stopping: bool,
    /// Whether everything before the stop was read.
    drained: bool,
    ready: VecDeque<StreamBytes>,
    /// The current frame.
    frame: Vec<u8>,
    totals: LiveTotals,
    open: FastMap<u64, OpenStream>,
    /// Connections are checked in rounds. `checked` is the time of the last round, `gone` has our connections that it
    /// did not find, and `ended` those that the round before did not find either.
    checked: Instant,
    gone: BTreeSet<u64>,
    ended: BTreeSet<u64>,
    /// Bytes that were not copied, by reason.
    absent: BTreeMap<AbsentBytes, u64>,
    idle_since: Option<Instant>,
}

/// An open connection.
#[derive(Clone, Debug)]
struct OpenStream {
    /// Tags of the bytes written by the client and by the server.
    tags: [PieceTags; 2],
    socket: usize,
    client_pid: u32,
    is_old: bool,
    sent: [u64; 2],
}

impl StreamSource {
    /// Starts to read what is written to the sockets, until `stop` stops it.
    pub fn open(sockets: &UnixSockets, plan: &LivePlan, stop: StopHandle) -> Result<Self> {
        let (ring_bytes, limit) = (plan.buffer, (plan.snaplen > 0).then_some(plan.snaplen));
        let streams = UnixStreams::start(&StreamOptions { sockets: sockets.names.clone(), ring_bytes, limit })?;
        let mut protocols = plan.selection.ports.iter().flat_map(|(_, protocols)| protocols);
        let first = protocols.next();
        let only = first.filter(|first| protocols.all(|protocol| protocol == *first));
        Ok(Self {
            streams,
            names: sockets.names.iter().map(|name| format!("unix:{name}")).collect(),
            port: only.and_then(|protocol| protocol.ports().first()).copied().unwrap_or_default(),
            interface: u32::from(sockets.are_beside),
            stop,
            stopped: None,
            stopping: false,
            drained: false,
            ready: VecDeque::new(),
            frame: Vec::new(),
            totals: LiveTotals::default(),
            open: FastMap::default(),
            checked: Instant::now(),
            gone: BTreeSet::new(),
            ended: BTreeSet::new(),
            absent: BTreeMap::new(),
            idle_since: None,
        })
    }

    /// Returns the processes that were already connected.
    pub fn client_pids(&self) -> BTreeSet<u32> {
        self.streams.client_pids().unwrap_or_default()
    }

    /// Reads the new pieces and returns their number.
    pub fn fill(&mut self) -> Result<usize, SourceError> {
        let ready = &mut self.ready;
        let taken = self.streams.poll(self.stopping, |bytes| ready.push_back(bytes)).map_err(|error| failed(&error))?;
        if taken == 0 {
            self.end_connections();
        }
        if let Some(stopped_ns) = self.stop.requested_ns().filter(|_| !self.stopping) {
            let since = *self.stopped.get_or_insert_with(Instant::now);
            // A call may not have returned yet although its bytes were answered.
            if !self.streams.waits_from(stopped_ns) || since.elapsed() >= RETURN {
                self.stopping = true;
                self.streams.stop();
                self.check_connections();
                self.check_connections();
            }
        }
        Ok(taken)
    }

    /// Ends connections that were already gone at the last check, so nothing is in flight.
    fn end_connections(&mut self) {
        let now_ns = self.streams.now_ns();
        for id in std::mem::take(&mut self.ended) {
            if let Some(stream) = self.open.remove(&id) {
                self.streams.forget(id);
                self.ready.push_back(StreamBytes::end(
                    now_ns,
                    id,
                    stream.socket,
                    stream.client_pid,
                    stream.sent[0],
                    stream.is_old,
                ));
            }
        }
        if !self.stopping && self.checked.elapsed() >= CHECK_INTERVAL {
            self.check_connections();
        }
    }

    fn check_connections(&mut self) {
        self.checked = Instant::now();
        if let Ok(open) = self.streams.open_connections() {
            let gone = self.open.keys().filter(|id| !open.contains(id)).copied().collect();
            // The kernel omits some open connections, but rarely the same one twice.
            self.ended = self.gone.intersection(&gone).copied().collect();
            self.gone = gone;
        }
    }

    /// Turns bytes into a frame.
    fn make(&mut self, bytes: &StreamBytes) -> (u64, u32) {
        let Self { open, names, port, frame, .. } = self;
        let stream = open.entry(bytes.id).or_insert_with(|| {
            let name = names.get(bytes.socket).map_or("unix:", String::as_str);
            OpenStream::new(bytes, name, *port)
        });
        let direction = usize::from(!bytes.to_server);
        frame.clear();
        stream.tags[direction].write(bytes.offset, bytes.length == 0, frame);
        stream.sent[direction] = bytes.offset + u64::from(bytes.length);
        let original_len = frame.len() as u32 + bytes.length;
        frame.extend_from_slice(&bytes.bytes);
        if let Some(absent) = bytes.absent {
            *self.absent.entry(absent).or_default() += u64::from(bytes.length) - bytes.bytes.len() as u64;
        }
        if bytes.length == 0 {
            self.open.remove(&bytes.id);
        }
        (bytes.time_ns, original_len)
    }
}

impl OpenStream {
    /// Returns the connection of these bytes, to the server's socket of this name.
    fn new(bytes: &StreamBytes, name: &str, port: u16) -> Self {
        let StreamBytes { id, client_pid, is_old, socket, offset, .. } = *bytes;
        let client = format!("pid:{client_pid}");
        let addresses = unix_ends(client_pid, name, id, port);
        let tags = [true, false].map(|to_server| {
            let (begins, ends, transport) = (!is_old, false, Transport::Unix);
            let (client, server) = (client.as_str(), name);
            PieceTags::new(&StreamPiece { transport, id, to_server, offset, begins, ends, client, server, addresses })
        });
        Self { tags, socket, client_pid, is_old, sent: [0; 2] }
    }
}

impl FrameSource for StreamSource {
    /// Returns [`NextFrame::Idle`] at once if there is no frame, and then after every 20 ms without one.
    fn next_frame(&mut self) -> Result<NextFrame<'_>, SourceError> {
        while !self.has_ready() {
            self.fill()?;
            if self.has_ready() {
                break;
            }
            if self.stopping {
                if self.drained {
                    return Ok(NextFrame::End);
                }
                // The last check released pieces that had waited in vain.
                self.drained = true;
                continue;
            }
            let since =
                *self.idle_since.get_or_insert_with(|| Instant::now().checked_sub(IDLE).unwrap_or_else(Instant::now));
            if since.elapsed() >= IDLE {
                self.idle_since = Some(Instant::now());
                return Ok(NextFrame::Idle);
            }
            std::thread::sleep(PAUSE);
            if self.stop.requested_ns().is_some() {
                return Ok(NextFrame::Idle);
            }
        }
        self.idle_since = None;
        Ok(self.hand_out())
    }

    fn kernel(&mut self) -> Measured<KernelStats> {
        let counts = self.streams.counts();
        let kernel =
            |counts: StreamCounts| KernelStats { received: counts.calls, dropped: counts.lost, interface_dropped: 0 };
        counts.map(kernel).into()
    }
}

impl StreamSource {
    /// Returns whether a piece is ready.
    pub fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Returns the next piece; [`NextFrame::Idle`] if there is none, or it is later than the stop.
    pub fn hand_out(&mut self) -> NextFrame<'_> {
        let Some(bytes) = self.ready.pop_front() else { return NextFrame::Idle };
        let (time_ns, original_len) = self.make(&bytes);
        if self.stop.requested_ns().is_some_and(|stopped_ns| time_ns > stopped_ns && bytes.length > 0) {
            return NextFrame::Idle;
        }
        let Self { interface, frame, .. } = self;
        let frame =
            Frame { time_ns, link: LinkType::UPPER_PDU, original_len, interface: *interface, bytes: frame.as_slice() };
        self.totals.add(&frame);
        NextFrame::Frame(frame)
    }
}

impl LiveInput for StreamSource {
    fn stop_handle(&self) -> StopHandle {
        self.stop.clone()
    }

    fn totals(&self) -> &LiveTotals {
        &self.totals
    }

    fn end_window(&mut self) {
        self.streams.stop();
    }

    fn losses(&self) -> Vec<String> {
        let loss = |(absent, bytes): (&AbsentBytes, &u64)| match absent {
            AbsentBytes::Limit => None,
            AbsentBytes::Fault => Some(format!(
                "{} were no longer in the memory of their process when its call had returned: they are counted, and their content is not known",
                counted(*bytes, "byte")
            )),
            AbsentBytes::Call(call) => Some(format!(
                "{} were written by {}: their length is known, but not their content",
                counted(*bytes, "byte"),
                call_name(*call)
            )),
        };
        let early = Some(self.streams.early).filter(|early| *early > 0).map(|early| {
            format!(
                "{} arrived before the bytes that their writers had read, because the calls that wrote those were not seen to return: answers may precede their requests there",
                counted(early, "piece of a UNIX socket")
            )
        });
        self.absent.iter().filter_map(loss).chain(early).collect()
    }
}

fn failed(error: &overhead_kernel::Error) -> SourceError {
    SourceError::Live { interface: "UNIX sockets".to_owned(), reason: error.to_string() }
}
