//! Exact traffic by server, client and pair of zones, from TCP's own counters.

use super::servers::{ServerEnd, WatchedServers};
use super::zones::ZoneMap;
use overhead_kernel::{FollowedTraffic, SocketGroup, SocketTotals};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

/// Most flows with a client. Later clients of a server and pair of zones share a flow, with [`FlowKey::client`] `None`.
const CLIENT_FLOWS: usize = 500;
/// Most flows. Later servers share [`FlowKey::shared_by_servers`].
const FLOWS: usize = 2000;
/// Windows of a new network namespace that follow one another closely.
pub const FIRST_WINDOWS: u64 = 3;
/// Groups without traffic for this many readings may be removed from the kernel's table.
const IDLE_READINGS: u32 = 120;
/// Number of groups in the kernel's table above which idle ones are removed.
const CROWDED: usize = 32_768;

/// The zones of both ends; absent if no prefix has the address.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ZonePair {
    pub client: Option<Arc<str>>,
    pub server: Option<Arc<str>>,
}

/// The connections of a client to a server.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FlowKey {
    pub server: ServerEnd,
    /// Whether the server's sockets were counted; otherwise, it is elsewhere, and the client's were.
    pub at_server: bool,
    pub zones: ZonePair,
    /// Absent for clients that share a flow.
    pub client: Option<IpAddr>,
    /// Inode of the control group of the client's sockets; 0 if the client is elsewhere, or several groups have its address.
    pub client_group: u64,
}

impl FlowKey {
    /// Returns the flow that servers beyond the limit share.
    fn shared_by_servers(at_server: bool) -> Self {
        let server = ServerEnd::new(SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), 0), 0);
        Self { server, at_server, zones: ZonePair::default(), client: None, client_group: 0 }
    }
}

/// The ends of a group's connections.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct GroupEnds {
    server: ServerEnd,
    client: IpAddr,
}

impl GroupEnds {
    fn new(group: &SocketGroup) -> Self {
        let (server, client): (SocketAddr, SocketAddr) =
            if group.is_server { (group.local, group.remote) } else { (group.remote, group.local) };
        Self { server: ServerEnd::new(server, group.network_namespace), client: client.ip().to_canonical() }
    }
}

/// The ends that have sockets on this host.
struct LocalSockets {
    servers: HashSet<GroupEnds>,
    /// With the control group, or 0 if there are several.
    clients: HashMap<GroupEnds, u64>,
}

impl LocalSockets {
    fn new(totals: &FollowedTraffic) -> Self {
        let (mut servers, mut clients) = (HashSet::new(), HashMap::new());
        for group in totals.groups.keys() {
            let ends = GroupEnds::new(group);
            if group.is_server {
                servers.insert(ends);
            } else if *clients.entry(ends).or_insert(group.control_group) != group.control_group {
                clients.insert(ends, 0);
            }
        }
        Self { servers, clients }
    }
}

/// A group's last reading, and where it is counted.
struct GroupState {
    before: SocketTotals,
    /// Absent if the other end is counted instead.
    flow: Option<FlowKey>,
    idle: u32,
}

/// Sums that only grow: bytes of clients are `sent`, those of servers `received`.
#[derive(Default)]
pub struct FlowBook {
    groups: HashMap<SocketGroup, GroupState>,
    flows: BTreeMap<FlowKey, SocketTotals>,
    /// Bytes of each network namespace since its last window.
    unseen: HashMap<u32, u64>,
    /// Number of windows of each network namespace.
    windows: HashMap<u32, u64>,
    /// Groups of connections that share a flow.
    pub sharing: u64,
    /// Traffic of connections for which the kernel's table had no room, at servers and at clients.
    pub without_room: SocketTotals,
    pub lost_connections: u64,
}

impl FlowBook {
    pub fn flows(&self) -> &BTreeMap<FlowKey, SocketTotals> {
        &self.flows
    }

    /// Adds the growth since the last reading. If the table is crowded, returns its closed, idle groups.
    pub fn take(&mut self, totals: &FollowedTraffic, zones: &ZoneMap) -> Vec<SocketGroup> {
        let sockets = LocalSockets::new(totals);
        let is_crowded = totals.groups.len() > CROWDED;
        let mut removable = Vec::new();
        for (group, now) in &totals.groups {
            if !self.groups.contains_key(group) {
                let flow = self.flow(group, &sockets, zones);
                if let Some(flow) = &flow {
                    self.flows.entry(flow.clone()).or_default();
                }
                self.groups.insert(*group, GroupState { before: SocketTotals::default(), flow, idle: 0 });
            }
            let Some(state) = self.groups.get_mut(group) else { continue };
            let grown = now.since(&state.before);
            state.idle = if grown == SocketTotals::default() { state.idle + 1 } else { 0 };
            state.before = *now;
            if let Some(flow) = &state.flow {
                *self.unseen.entry(group.network_namespace).or_default() += wire_bytes(&grown).iter().sum::<u64>();
                self.flows.entry(flow.clone()).or_default().add(&from_client(grown, group.is_server));
            }
            if is_crowded && state.idle > IDLE_READINGS && now.opened == now.closed {
                removable.push(*group);
            }
        }
        let [clients, servers] = totals.remaining;
        self.without_room = from_client(servers, true);
        self.without_room.add(&clients);
        self.lost_connections = totals.lost;
        removable
    }

    /// Chooses which of these network namespaces has the next window, which starts now: one with traffic and few windows so far,
    /// or else the one with the most bytes since its last window. Returns `None` without traffic.
    pub fn next_namespace(&mut self, among: &BTreeSet<u32>) -> Option<u32> {
        self.unseen.retain(|number, bytes| among.contains(number) && *bytes > 0);
        self.windows.retain(|number, _| among.contains(number));
        let few = |number: &u32| Reverse(self.windows.get(number).copied().unwrap_or_default().min(FIRST_WINDOWS));
        let next = *self.unseen.iter().max_by_key(|(number, bytes)| (few(number), **bytes))?.0;
        self.unseen.remove(&next);
        *self.windows.entry(next).or_default() += 1;
        Some(next)
    }

    /// Returns the number of servers of this host that have traffic but were not found, plus that of clients' control groups. A
    /// change calls for a search: the labels of a new series must be right from the start.
    pub fn newcomers(&self, servers: &WatchedServers) -> usize {
        let here = self.flows.keys().filter(|flow| flow.at_server).map(|flow| flow.server);
        let unknown: BTreeSet<_> = here.filter(|server| servers.database(server).is_none()).collect();
        let groups: BTreeSet<_> = self.flows.keys().map(|flow| flow.client_group).collect();
        unknown.len() + groups.len()
    }

    /// Returns whether a network namespace with traffic has had few windows.
    pub fn has_new_namespace(&self) -> bool {
        let windows = |number: &u32| self.windows.get(number).copied().unwrap_or_default();
        self.unseen.iter().any(|(number, bytes)| *bytes > 0 && windows(number) < FIRST_WINDOWS)
    }

    /// Adds the last reading of a group that was removed from the kernel's table.
    pub fn remove(&mut self, group: &SocketGroup, last: &SocketTotals) {
        if let Some(GroupState { before, flow: Some(flow), .. }) = self.groups.remove(group) {
            self.flows.entry(flow).or_default().add(&from_client(last.since(&before), group.is_server));
        }
    }

    /// Returns where to count a group; `None` for the clients' end if the servers' is on this host too.
    fn flow(&mut self, group: &SocketGroup, sockets: &LocalSockets, zones: &ZoneMap) -> Option<FlowKey> {
        let ends @ GroupEnds { server, client } = GroupEnds::new(group);
        if !group.is_server && sockets.servers.contains(&ends) {
            return None;
        }
        let client_group = sockets.clients.get(&ends).copied().unwrap_or_default();
        let zones = zone_pair(zones, client, server.address.ip());
        let own = FlowKey { server, at_server: group.is_server, zones, client: Some(client), client_group };
        if self.flows.contains_key(&own) || self.flows.len() < CLIENT_FLOWS {
            return Some(own);
        }
        self.sharing += 1;
        let shared = FlowKey { client: None, client_group: 0, ..own };
        let has_room = self.flows.contains_key(&shared) || self.flows.len() < FLOWS;
        Some(if has_room { shared } else { FlowKey::shared_by_servers(group.is_server) })
    }
}

pub fn zone_pair(zones: &ZoneMap, client: IpAddr, server: IpAddr) -> ZonePair {
    ZonePair { client: zones.zone(client).map(Arc::from), server: zones.zone(server).map(Arc::from) }
}

/// Swaps the directions of a server's totals, so that `sent` is the client's.
fn from_client(mut totals: SocketTotals, is_server: bool) -> SocketTotals {
    if is_server {
        std::mem::swap(&mut totals.sent, &mut totals.received);
    }
    totals
}

/// Returns the bytes on the wire of requests and of responses.
pub fn wire_bytes(totals: &SocketTotals) -> [u64; 2] {
    [totals.sent.wire_bytes(), totals.received.wire_bytes()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use overhead_kernel::SegmentTotals;

    fn group(local: &str, remote: &str, is_server: bool) -> SocketGroup {
        SocketGroup {
            control_group: 1,
            network_namespace: 7,
            local: local.parse().unwrap(),
            remote: remote.parse().unwrap(),
            is_server,
            is_adopted: false,
        }
    }

    fn totals(sent: u64, received: u64) -> SocketTotals {
        let segments = |payload_bytes| SegmentTotals { payload_bytes, ..SegmentTotals::default() };
        SocketTotals { sent: segments(sent), received: segments(received), opened: 1, ..SocketTotals::default() }
    }

    fn reading(groups: &[(SocketGroup, SocketTotals)]) -> FollowedTraffic {
        FollowedTraffic { groups: groups.iter().copied().collect(), ..FollowedTraffic::default() }
    }

    #[test]
    fn a_connection_with_both_ends_on_this_host_counts_once() {
        let (server, client) =
            (group("10.0.0.1:6379", "10.0.0.9:0", true), group("10.0.0.9:0", "10.0.0.1:6379", false));
        let elsewhere = group("10.0.0.9:0", "10.0.0.2:6379", false);
        let mut book = FlowBook::default();
        let zones = ZoneMap::default();
        book.take(&reading(&[(server, totals(30, 3)), (client, totals(3, 30)), (elsewhere, totals(5, 50))]), &zones);
        book.take(&reading(&[(server, totals(40, 4)), (client, totals(4, 40)), (elsewhere, totals(6, 60))]), &zones);
        let flows: Vec<_> =
            book.flows().iter().map(|(key, sum)| (key.at_server, key.client_group, wire_bytes(sum))).collect();
        assert_eq!(flows, [(true, 1, [4, 40]), (false, 1, [6, 60])]);
        assert!(book.has_new_namespace());
        assert_eq!([7, 7].map(|number| book.next_namespace(&BTreeSet::from([number, 9]))), [Some(7), None]);
    }

    #[test]
    fn many_servers_share_a_flow() {
        let mut book = FlowBook::default();
        let flow = |number: usize| {
            let server = format!("10.{}.{}.1:6379", number / 250, number % 250);
            (group("10.99.0.1:0", &server, false), totals(1, 1))
        };
        book.take(&reading(&(0..FLOWS + 500).map(flow).collect::<Vec<_>>()), &ZoneMap::default());
        assert_eq!(book.flows().len(), FLOWS + 1);
        assert_eq!(book.flows().values().map(|sum| sum.sent.payload_bytes).sum::<u64>(), FLOWS as u64 + 500);
    }

    #[test]
    fn sums_never_fall_and_late_clients_share_one() {
        let mut book = FlowBook::default();
        let flow = |number: usize, bytes| {
            let client = format!("10.0.{}.{}:0", number / 250, number % 250);
            (group("10.9.0.1:6379", &client, true), totals(bytes, bytes))
        };
        let all = |bytes| (0..CLIENT_FLOWS + 20).map(|number| flow(number, bytes)).collect::<Vec<_>>();
        let sum = |book: &FlowBook| book.flows().values().map(|sum| sum.sent.payload_bytes).sum::<u64>();
        book.take(&reading(&all(2)), &ZoneMap::default());
        assert_eq!((book.flows().len(), book.sharing, sum(&book)), (CLIENT_FLOWS + 1, 20, 2 * 520));
        // The kernel's table has started again.
        book.take(&reading(&all(1)), &ZoneMap::default());
        book.take(&reading(&all(3)), &ZoneMap::default());
        assert_eq!(sum(&book), 4 * 520);
        book.remove(&flow(0, 0).0, &totals(7, 7));
        assert_eq!(sum(&book), 4 * 520 + 4);
    }
}
