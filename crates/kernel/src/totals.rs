//! TCP's own counters for connections to some ports: payload, segments, retransmissions and headers.
//!
//! The programs in `bpf/totals.bpf.c` follow these connections in every network namespace, and add their counters up. Both
//! ends of a connection between processes of this host are counted, each under a key of its own. They can also follow those to all
//! listeners of the host, so that a server that is recognised later has its totals from the start.
//!
//! # What the headers leave out
//!
//! Payload and segments are exact, apart from what no socket counts: repeated SYNs that a listener answers, and segments that
//! reach a closed port. What arrives at closed sockets, or twice, is seen when the kernel drops it, since Linux 6.11; before, the former
//! is missing, and only the headers of the latter count. Headers are computed from the segments. They lack SACK blocks and the options of
//! Multipath TCP, and assume the options that Linux sends with a SYN. With segmentation offload, TCP counts the segments of the wire, while
//! a capture on this host shows larger frames with fewer headers.

mod pinned;

pub use pinned::{FollowerPosition, boot_id};

use crate::error::Error;
use crate::listeners::TcpServer;
use crate::object::{self, Plain, bytes_of, lookup, map, plain, plain_types};
use crate::ownership::end;
use crate::pins::PinFolder;
use crate::skeleton::totals_types as types;
use crate::sums::{CounterSum, counter_sums};
use libbpf_rs::{Iter, Link, MapCore, MapFlags, MapHandle, ProgramMut};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::Read;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd};

static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/totals.bpf.o"));

/// Bytes of an Ethernet header.
pub const ETHERNET_HEADER: u64 = 14;

/// Arguments of the tracepoint of dropped segments with the socket that they are for, since Linux 6.11.
const DROP_ARGUMENTS: usize = 4;

/// Pairs of tables: of the settings' ports, and of the others.
const TABLES: usize = 2;

/// Entries removed from a table at once.
const BATCH: u32 = 1024;

plain_types!(types::totals_key, types::end_totals, types::totals_losses);
plain_types!(types::connection_key, types::listener_key, types::listener, types::new_listener);

/// The sockets at one end of some connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SocketGroup {
    /// Inode of the owner's control group.
    pub control_group: u64,
    /// Inode of the network namespace.
    pub network_namespace: u32,
    /// The client's port is 0 if its connections to the server's port share a sum.
    pub local: SocketAddr,
    pub remote: SocketAddr,
    /// Whether the local end accepted the connections.
    pub is_server: bool,
    /// Whether the connections were open before they were followed.
    pub is_adopted: bool,
}

/// Segments and bytes that TCP sent or received.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SegmentTotals {
    pub segments: u64,
    /// Without headers; with retransmissions if sent.
    pub payload_bytes: u64,
    /// IP and TCP headers.
    pub header_bytes: u64,
}

impl SegmentTotals {
    /// Returns the bytes on an Ethernet.
    pub fn wire_bytes(&self) -> u64 {
        self.payload_bytes + self.header_bytes + self.segments * ETHERNET_HEADER
    }
}

/// Totals of the sockets at one end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SocketTotals {
    /// With retransmissions, and without what this host's firewall drops.
    pub sent: SegmentTotals,
    /// With what arrives again, and with what this host's firewall drops.
    pub received: SegmentTotals,
    /// Part of what was sent.
    pub retransmitted_bytes: u64,
    /// Part of the sent segments.
    pub retransmitted_segments: u64,
    /// Connections that were opened, or met open if the group is adopted, and those that were closed.
    pub opened: u64,
    /// Connections met open that were moved here from `opened`.
    pub met_open: u64,
    pub closed: u64,
    /// Sum of smoothed round-trip times, microseconds, and how many it has.
    pub round_trip_us: u64,
    /// Number of round-trip times in the sum.
    pub round_trips: u64,
    /// Segments of Multipath TCP, sent and received, whose options are in no header.
    pub multipath_segments: u64,
    /// Part of what was received: payload that had arrived before, or that came after the socket was closed.
    pub refused_bytes: u64,
}

impl SocketTotals {
    /// Returns the sum's growth since an earlier reading.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        CounterSum::since(self, before)
    }

    /// Adds the sum of other connections.
    pub fn add(&mut self, other: &Self) {
        CounterSum::add(self, other);
    }
}

counter_sums! {
    SegmentTotals { segments, payload_bytes, header_bytes }
    SocketTotals {
        sent, received, retransmitted_bytes, retransmitted_segments, opened, met_open, closed, round_trip_us, round_trips, multipath_segments, refused_bytes,
    }
}

impl From<types::end_totals> for SocketTotals {
    fn from(of: types::end_totals) -> Self {
        Self {
            sent: SegmentTotals {
                segments: of.sent_segments,
                payload_bytes: of.sent_bytes,
                header_bytes: of.sent_header_bytes,
            },
            received: SegmentTotals {
                segments: of.received_segments,
                payload_bytes: of.received_bytes,
                header_bytes: of.received_header_bytes,
            },
            retransmitted_bytes: of.retransmitted_bytes,
            retransmitted_segments: of.retransmitted_segments,
            opened: of.opened,
            met_open: 0,
            closed: of.closed,
            round_trip_us: of.round_trip_us,
            round_trips: of.round_trips,
            multipath_segments: of.multipath_segments,
            refused_bytes: of.refused_bytes,
        }
    }
}

/// A port on which this host's servers listen, or their clients connect to them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ServerPort {
    /// Inode; 0 for the clients' ends, which may be in another network namespace than the server.
    pub network_namespace: u32,
    pub port: u16,
}

impl SocketGroup {
    pub fn server_port(&self) -> ServerPort {
        let (network_namespace, server) =
            if self.is_server { (self.network_namespace, self.local) } else { (0, self.remote) };
        ServerPort { network_namespace, port: server.port() }
    }
}

/// What TCP counted.
#[derive(Clone, Debug, Default)]
pub struct FollowedTraffic {
    /// Groups with traffic since the last reading, and this traffic. Both ends of a connection between processes of this host have
    /// a group each.
    pub groups: BTreeMap<SocketGroup, SocketTotals>,
    /// The traffic of groups that found no room, since the start: of clients' sockets, of servers', of clients' whose servers are on
    /// this host by their addresses, and of servers' on other ports than the settings'.
    pub remaining: [SocketTotals; 4],
    /// Connections that could not be followed for lack of memory, since the start.
    pub lost: u64,
    /// Servers that have started to listen since the last reading, if all listeners are followed. Some may have ended.
    pub new_listeners: Vec<TcpServer>,
    /// Listeners that this list lacked for lack of memory, since the start.
    pub lost_listeners: u64,
}

/// Running programs and their maps. Dropping it detaches them, unless they are pinned.
#[derive(Debug)]
pub struct TcpFollower {
    by_connection: bool,
    every_listener: bool,
    /// The kernel shows which segments it drops: since Linux 6.11.
    pub sees_drops: bool,
    settings: MapHandle,
    /// By `totals_table`. The table that the programs fill comes first.
    sums: [[MapHandle; 2]; TABLES],
    filled: MapHandle,
    /// What was read of the tables: of the first ones, or of the second ones that are unread.
    counted: BTreeMap<SocketGroup, SocketTotals>,
    /// Whether the second table of each pair has sums that were not read.
    is_unread: [bool; TABLES],
    listeners: MapHandle,
    new_listeners: MapHandle,
    remaining: MapHandle,
    losses: MapHandle,
    adopt: Link,
    settle: Link,
    _changes: Vec<Link>,
}

impl TcpFollower {
    /// Begins to follow connections to these ports. With `by_connection`, each has a sum of its own; otherwise, those of one
    /// client address to one server's port share one.
    ///
    /// # Errors
    ///
    /// [`Error::NoBtf`], [`Error::Permission`], [`Error::PidNamespace`], [`Error::NoProc`], [`Error::Load`] or
    /// [`Error::Attach`] if this machine cannot do it.
    pub fn start(ports: &[u16], by_connection: bool) -> Result<Self, Error> {
        Self::load(ports, by_connection, false, None)
    }

    /// Begins to follow connections to these ports and to all listeners of this host. Those of one client address to one server's port
    /// share a sum. Servers on other ports take no room from those on `ports`.
    ///
    /// # Errors
    ///
    /// Those of [`Self::start`].
    pub fn start_with_listeners(ports: &[u16]) -> Result<Self, Error> {
        Self::load(ports, false, true, None)
    }

    /// Loads the programs, with the tables and links that are pinned in a folder, if one is given.
    fn load(ports: &[u16], by_connection: bool, every_listener: bool, pins: Option<&PinFolder>) -> Result<Self, Error> {
        let sees_drops = object::tracepoint_arguments(&object::kernel_types()?, "kfree_skb") >= DROP_ARGUMENTS;
        let object = pinned::open(pins, |program| program == "drop_segment" && !sees_drops)?;
        let map = |name| map(&object, name);
        let followed = map("followed")?;
        let mut links = BTreeMap::new();
        for program in object.progs_mut().filter(|program| program.autoload()) {
            let link = if program.name() == "settle_open" {
                let attached = program.attach_iter(followed.as_fd());
                attached
                    .map_err(|error| Error::Attach { program: "settle_open".into(), reason: format!("{error:#}") })?
            } else {
                pinned::attach(&program, pins)?
            };
            links.insert(program.name().to_string_lossy().into_owned(), link);
        }
        let mut link =
            |name: &str| links.remove(name).ok_or_else(|| Error::Tables(format!("program {name} is missing")));
        let (adopt, settle) = (link("adopt")?, link("settle_open")?);
        let mut follower = Self {
            by_connection,
            every_listener,
            sees_drops,
            settings: map("settings")?,
            sums: [[map("sums_even")?, map("sums_odd")?], [map("other_even")?, map("other_odd")?]],
            filled: map("filled")?,
            counted: BTreeMap::new(),
            is_unread: [false; TABLES],
            listeners: map("listeners")?,
            new_listeners: map("new_listeners")?,
            remaining: map("remaining")?,
            losses: map("losses")?,
            adopt,
            settle,
            _changes: links.into_values().collect(),
        };
        for (pair, tables) in (0_u32..).zip(&mut follower.sums) {
            if value::<u32>(&follower.filled, pair)? != identity(&tables[0])? {
                tables.swap(0, 1);
            }
        }
        follower.follow_ports(ports)?;
        Ok(follower)
    }

    /// Replaces the ports. Connections that are followed already stay so.
    pub fn follow_ports(&self, ports: &[u16]) -> Result<(), Error> {
        let flags =
            [self.by_connection, self.every_listener, self.sees_drops].map(|flag| u32::from(flag).to_ne_bytes());
        let settings = [&flags.concat()[..], &object::port_set(ports)].concat();
        Ok(self.settings.update(&0_u32.to_ne_bytes(), &settings, MapFlags::ANY)?)
    }

    /// Follows the open connections of the calling thread's network namespace, from now on.
    pub fn adopt_open(&self) -> Result<(), Error> {
        run(&self.adopt)
    }

    /// Adds up the open connections, and returns the growth of all sums since the last reading. Then the sums have a new table, and the
    /// next call empties the old one.
    ///
    /// # Errors
    ///
    /// [`Error::Tables`], for example for lack of descriptors or memory. Nothing is lost: the next reading has what this one lacks.
    pub fn read(&mut self) -> Result<FollowedTraffic, Error> {
        run(&self.settle)?;
        for (pair, table) in (0_u32..).zip(0..TABLES) {
            if self.is_unread[table] {
                continue;
            }
            let [_, read] = &self.sums[table];
            drain(read, |_, _| {})?;
            self.filled.update(&pair.to_ne_bytes(), &read.as_fd().as_raw_fd().to_ne_bytes(), MapFlags::ANY)?;
            self.sums[table].swap(0, 1);
            self.is_unread[table] = true;
        }
        let traffic = self.traffic(&self.sums(1)?)?;
        self.counted.clear();
        self.is_unread = [false; TABLES];
        Ok(traffic)
    }

    /// Returns the growth like [`Self::read`], but empties no table: what [`Self::read`] has returned remains in the kernel.
    pub fn peek(&mut self) -> Result<FollowedTraffic, Error> {
        if self.is_unread.contains(&true) {
            return self.read();
        }
        run(&self.settle)?;
        let sums = self.sums(0)?;
        let traffic = self.traffic(&sums)?;
        self.counted = sums;
        Ok(traffic)
    }

    /// Returns the growth of sums since they were counted, and the new listeners.
    fn traffic(&self, sums: &BTreeMap<SocketGroup, SocketTotals>) -> Result<FollowedTraffic, Error> {
        let at = |end: u32| Ok::<_, Error>(value::<types::end_totals>(&self.remaining, end)?.into());
        let remaining = [at(0)?, at(1)?, at(2)?, at(3)?];
        let types::totals_losses { lost, lost_listeners } = value(&self.losses, 0)?;
        let before = |group| self.counted.get(group).copied().unwrap_or_default();
        let grown = sums.iter().map(|(group, sum)| (*group, sum.since(&before(group))));
        let groups = grown.filter(|(_, grown)| *grown != SocketTotals::default()).collect();
        Ok(FollowedTraffic { groups, remaining, lost, new_listeners: self.read_new_listeners()?, lost_listeners })
    }

    /// Returns the sums of the first or of the second table of each pair.
    fn sums(&self, which: usize) -> Result<BTreeMap<SocketGroup, SocketTotals>, Error> {
        let mut sums = BTreeMap::<_, SocketTotals>::new();
        for table in self.sums.iter().filter_map(|pair| pair.get(which)) {
            // One batch has room for all: a smaller one would end at a bucket that does not fit into it.
            let mut entries = table.lookup_batch(table.max_entries(), MapFlags::ANY, MapFlags::ANY)?.peekable();
            if entries.peek().is_none() && table.keys().next().is_some() {
                return Err(Error::Tables("the sums of connections cannot be read".to_owned()));
            }
            for (key, sum) in entries {
                if let (Some(key), Some(sum)) = (plain::<types::totals_key>(&key), plain::<types::end_totals>(&sum)) {
                    sums.entry(group(&key)).or_default().add(&sum.into());
                }
            }
        }
        Ok(sums)
    }

    /// Returns the numbers of the tables of each pair: the one that is filled, and the other.
    fn tables(&self) -> Result<[[u32; 2]; TABLES], Error> {
        let [known, others] =
            self.sums.each_ref().map(|[filled, other]| Ok::<_, Error>([identity(filled)?, identity(other)?]));
        Ok([known?, others?])
    }

    /// Returns the listeners since the last call, those of a process and network namespace together.
    fn read_new_listeners(&self) -> Result<Vec<TcpServer>, Error> {
        let mut servers = BTreeMap::<(u32, u32), TcpServer>::new();
        drain(&self.new_listeners, |key, listener| {
            let (Some(ends), Some(listener)) =
                (plain::<types::connection_key>(key), plain::<types::new_listener>(listener))
            else {
                return;
            };
            let types::new_listener { pid, command } = listener;
            let command = command.split(|byte| *byte == 0).next().unwrap_or_default();
            let server = servers.entry((pid, ends.netns)).or_insert_with(|| TcpServer {
                pids: vec![pid],
                comm: String::from_utf8_lossy(command).into_owned(),
                network_namespace: ends.netns,
                addresses: Vec::new(),
            });
            server.addresses.push(end(ends.local, ends.local_port));
        })?;
        for server in servers.values_mut() {
            server.addresses.sort_unstable();
        }
        Ok(servers.into_values().collect())
    }

    /// Follows no more connections to a port that is not among the ports, until another socket starts to listen there.
    pub fn ignore(&self, server: ServerPort) -> Result<(), Error> {
        let key = types::listener_key { netns: server.network_namespace, port: server.port.into() };
        let ignored = types::listener { is_ignored: 1 };
        Ok(self.listeners.update(bytes_of(&key), bytes_of(&ignored), MapFlags::ANY)?)
    }
}

fn identity(map: &MapHandle) -> Result<u32, Error> {
    Ok(map.info()?.info.id)
}

fn is_iterator(program: &ProgramMut<'_>) -> bool {
    program.section().to_string_lossy().starts_with("iter/")
}

/// Removes all entries of a table.
fn drain(table: &MapHandle, mut take: impl FnMut(&[u8], &[u8])) -> Result<(), Error> {
    // The iterator ends at an error, and at a bucket that does not fit into the rest of a batch.
    while table.keys().next().is_some() {
        let mut entries = table.lookup_and_delete_batch(BATCH, MapFlags::ANY, MapFlags::ANY)?.peekable();
        if entries.peek().is_none() {
            return Err(Error::Tables("a table of connections cannot be read".to_owned()));
        }
        entries.for_each(|(key, value)| take(&key, &value));
    }
    Ok(())
}

/// Runs an iterator to its end. It prints nothing.
fn run(link: &Link) -> Result<(), Error> {
    Iter::new(link)?.read_to_end(&mut Vec::new()).map(drop).map_err(|error| Error::Tables(error.to_string()))
}

fn value<T: Plain + Default>(map: &MapHandle, key: u32) -> Result<T, Error> {
    Ok(lookup(map, &key.to_ne_bytes())?.unwrap_or_default())
}

fn group(key: &types::totals_key) -> SocketGroup {
    let ends = &key.ends;
    SocketGroup {
        control_group: key.cgroup,
        network_namespace: ends.netns,
        local: end(ends.local, ends.local_port),
        remote: end(ends.remote, ends.remote_port),
        is_server: key.is_server != 0,
        is_adopted: key.is_adopted != 0,
    }
}
