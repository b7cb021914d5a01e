//! TCP's own counters for connections to some ports: payload, segments, retransmissions and headers.
//!
//! The programs in `bpf/totals.bpf.c` follow these connections in every network namespace, and add their counters up. Both
//! ends of a connection between processes of this host are counted, each under a key of its own.
//!
//! # What the headers leave out
//!
//! Payload and segments are exact, apart from what no socket counts: repeated SYNs that a listener answers, and segments that
//! reach a closed port, a closed socket or a connection in TIME-WAIT. Of what arrives twice, only the headers count. Headers are computed from the segments. They lack SACK blocks, and assume
//! the options that Linux sends with a SYN. With segmentation offload, TCP counts the segments of the wire, while a
//! capture on this host shows larger frames with fewer headers.

mod pinned;

pub use pinned::{FollowerPosition, boot_id};

use crate::error::Error;
use crate::object::{self, Plain, lookup, map, plain, plain_types};
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

plain_types!(types::totals_key, types::end_totals, types::totals_losses);

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
    /// With retransmissions.
    pub sent: SegmentTotals,
    /// Payload counts once, however often it arrived.
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
        sent, received, retransmitted_bytes, retransmitted_segments, opened, met_open, closed, round_trip_us, round_trips,
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
        }
    }
}

/// What TCP counted.
#[derive(Clone, Debug, Default)]
pub struct FollowedTraffic {
    /// Groups with traffic since the last reading, and this traffic. Both ends of a connection between processes of this host have
    /// a group each.
    pub groups: BTreeMap<SocketGroup, SocketTotals>,
    /// The traffic of groups that found no room, since the start: of clients' sockets, of servers', and of clients' whose servers are on
    /// this host by their addresses.
    pub remaining: [SocketTotals; 3],
    /// Connections that could not be followed for lack of memory, since the start.
    pub lost: u64,
}

/// Running programs and their maps. Dropping it detaches them, unless they are pinned.
#[derive(Debug)]
pub struct TcpFollower {
    by_connection: bool,
    settings: MapHandle,
    /// The table that the programs fill comes first.
    sums: [MapHandle; 2],
    filled: MapHandle,
    /// What was read of one table: of the first, or of the second if that `is_unread`.
    counted: BTreeMap<SocketGroup, SocketTotals>,
    /// Whether the second table has sums that were not read.
    is_unread: bool,
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
        Self::load(ports, by_connection, None)
    }

    /// Loads the programs, with the tables and links that are pinned in a folder, if one is given.
    fn load(ports: &[u16], by_connection: bool, pins: Option<&PinFolder>) -> Result<Self, Error> {
        let object = pinned::open(pins)?;
        let map = |name| map(&object, name);
        let followed = map("followed")?;
        let mut links = BTreeMap::new();
        for program in object.progs_mut() {
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
            settings: map("settings")?,
            sums: [map("sums_even")?, map("sums_odd")?],
            filled: map("filled")?,
            counted: BTreeMap::new(),
            is_unread: false,
            remaining: map("remaining")?,
            losses: map("losses")?,
            adopt,
            settle,
            _changes: links.into_values().collect(),
        };
        if value::<u32>(&follower.filled, 0)? != identity(&follower.sums[0])? {
            follower.sums.swap(0, 1);
        }
        follower.follow_ports(ports)?;
        Ok(follower)
    }

    /// Replaces the ports. Connections that are followed already stay so.
    pub fn follow_ports(&self, ports: &[u16]) -> Result<(), Error> {
        let settings = [&u32::from(self.by_connection).to_ne_bytes()[..], &object::port_set(ports)].concat();
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
        if !self.is_unread {
            let [_, read] = &self.sums;
            empty(read)?;
            self.filled.update(&0_u32.to_ne_bytes(), &read.as_fd().as_raw_fd().to_ne_bytes(), MapFlags::ANY)?;
            self.sums.swap(0, 1);
            self.is_unread = true;
        }
        let traffic = self.traffic(&sums(&self.sums[1])?)?;
        self.counted.clear();
        self.is_unread = false;
        Ok(traffic)
    }

    /// Returns the growth like [`Self::read`], but empties no table: what [`Self::read`] has returned remains in the kernel.
    pub fn peek(&mut self) -> Result<FollowedTraffic, Error> {
        if self.is_unread {
            return self.read();
        }
        run(&self.settle)?;
        let sums = sums(&self.sums[0])?;
        let traffic = self.traffic(&sums)?;
        self.counted = sums;
        Ok(traffic)
    }

    /// Returns the growth of sums since they were counted.
    fn traffic(&self, sums: &BTreeMap<SocketGroup, SocketTotals>) -> Result<FollowedTraffic, Error> {
        let at = |end: u32| Ok::<_, Error>(value::<types::end_totals>(&self.remaining, end)?.into());
        let (remaining, lost) = ([at(0)?, at(1)?, at(2)?], value::<types::totals_losses>(&self.losses, 0)?.lost);
        let before = |group| self.counted.get(group).copied().unwrap_or_default();
        let grown = sums.iter().map(|(group, sum)| (*group, sum.since(&before(group))));
        let groups = grown.filter(|(_, grown)| *grown != SocketTotals::default()).collect();
        Ok(FollowedTraffic { groups, remaining, lost })
    }

    /// Returns the numbers of the tables: the one that is filled, and the other.
    fn tables(&self) -> Result<[u32; 2], Error> {
        let [filled, other] = &self.sums;
        Ok([identity(filled)?, identity(other)?])
    }
}

fn identity(map: &MapHandle) -> Result<u32, Error> {
    Ok(map.info()?.info.id)
}

fn is_iterator(program: &ProgramMut<'_>) -> bool {
    program.section().to_string_lossy().starts_with("iter/")
}

/// Returns all sums of a table. One batch has room for all: a smaller one would end at a bucket that does not fit into it.
fn sums(table: &MapHandle) -> Result<BTreeMap<SocketGroup, SocketTotals>, Error> {
    let mut sums = BTreeMap::<_, SocketTotals>::new();
    for (key, sum) in table.lookup_batch(table.max_entries(), MapFlags::ANY, MapFlags::ANY)? {
        if let (Some(key), Some(sum)) = (plain::<types::totals_key>(&key), plain::<types::end_totals>(&sum)) {
            sums.entry(group(&key)).or_default().add(&sum.into());
        }
    }
    if sums.is_empty() && table.keys().next().is_some() {
        return Err(Error::Tables("the sums of connections cannot be read".to_owned()));
    }
    Ok(sums)
}

fn empty(table: &MapHandle) -> Result<(), Error> {
    table.lookup_and_delete_batch(table.max_entries(), MapFlags::ANY, MapFlags::ANY)?.for_each(drop);
    match table.keys().next() {
        Some(_) => Err(Error::Tables("the sums of connections cannot be removed".to_owned())),
        None => Ok(()),
    }
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
