//! Exact traffic by server, client and pair of zones, from TCP's own counters.

use super::servers::{ServerEnd, WatchedServers};
use super::shares::{RecentUse, beyond};
use super::zones::ZoneMap;
use overhead_kernel::{FollowedTraffic, SocketGroup, SocketTotals};
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// Most flows with a client. Other clients of a server and pair of zones share a flow, with [`FlowKey::client`] `None`.
const CLIENT_FLOWS: usize = 500;
/// Most flows that the clients of a server share. Those of other servers share one of [`ServerEnd::OTHER`].
const SERVER_FLOWS: usize = 1500;
/// Windows of a new network namespace that follow one another closely.
pub const FIRST_WINDOWS: u64 = 3;
/// Number of groups above which those without traffic are forgotten.
const KNOWN_GROUPS: usize = 32_768;

/// The zones of both ends; absent if no prefix has the address.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ZonePair {
    pub client: Option<Arc<str>>,
    pub server: Option<Arc<str>>,
}

/// The connections of a client to a server.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
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
    /// Returns the flow that gets the sums of this one if there is no room for it: that of all clients of the server, or of all
    /// servers.
    fn shared(&self) -> Self {
        let (server, zones) = match self.client {
            Some(_) => (self.server, self.zones.clone()),
            None => (ServerEnd::OTHER, ZonePair::default()),
        };
        Self { server, at_server: self.at_server, zones, client: None, client_group: 0 }
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
        let client: SocketAddr = if group.is_server { group.remote } else { group.local };
        let server = ServerEnd::new(server_of(group), group.network_namespace);
        Self { server, client: client.ip().to_canonical() }
    }
}

/// Returns the server's address.
pub fn server_of(group: &SocketGroup) -> SocketAddr {
    if group.is_server { group.local } else { group.remote }
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

    /// Returns whether a group is the clients' end of connections whose servers' end is on this host too.
    fn has_server_of(&self, group: &SocketGroup) -> bool {
        !group.is_server && self.servers.contains(&GroupEnds::new(group))
    }

    /// Returns the flow of a group.
    fn flow(&self, group: &SocketGroup, zones: &ZoneMap) -> FlowKey {
        let ends @ GroupEnds { server, client } = GroupEnds::new(group);
        let client_group = self.clients.get(&ends).copied().unwrap_or_default();
        let zones = zone_pair(zones, client, server.address.ip());
        FlowKey { server, at_server: group.is_server, zones, client: Some(client), client_group }
    }
}

/// Where a group is counted.
#[derive(Serialize, Deserialize)]
struct GroupPlace {
    /// Absent for the clients' end if the servers' is on this host too, and counted instead.
    flow: Option<FlowKey>,
    /// Number of the last reading with its traffic.
    #[serde(skip)]
    reading: u64,
}

/// The sums of a flow.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
pub struct FlowSums {
    pub totals: SocketTotals,
    /// The part of them that is archived.
    pub archived: SocketTotals,
    recent: RecentUse,
}

impl FlowSums {
    fn absorb(&mut self, other: &Self) {
        self.totals.add(&other.totals);
        self.archived.add(&other.archived);
        self.recent.absorb(other.recent);
    }
}

/// The connections that share a composition.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ComposedKey {
    pub server: ServerEnd,
    pub zones: ZonePair,
}

/// Sums that only grow: bytes of clients are `sent`, those of servers `received`.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
pub struct FlowBook {
    #[serde(skip)]
    readings: u64,
    #[serde(with = "overhead_model::pairs")]
    groups: HashMap<SocketGroup, GroupPlace>,
    #[serde(with = "overhead_model::pairs")]
    pub flows: BTreeMap<FlowKey, FlowSums>,
    /// Bytes of requests and of responses that no composition has yet.
    #[serde(skip)]
    pub growth: BTreeMap<ComposedKey, [u64; 2]>,
    /// Bytes of each network namespace since its last window.
    #[serde(skip)]
    unseen: HashMap<u32, u64>,
    /// Number of windows of each network namespace.
    #[serde(skip)]
    windows: HashMap<u32, u64>,
    /// How often the sums of a flow moved to a shared one.
    pub evicted: u64,
    /// Traffic of connections for which the kernel's table had no room, at servers and at clients.
    pub without_room: SocketTotals,
    pub lost_connections: u64,
    /// Bytes of servers on other ports for which the kernel's table had no room, and servers that it could not note.
    pub unidentified_bytes: u64,
    pub lost_listeners: u64,
    /// The part of these that earlier programs counted.
    earlier: (SocketTotals, [u64; 3]),
}

impl FlowBook {
    /// Adds the traffic since the last reading. Then flows beyond the limits make room.
    pub fn take(&mut self, traffic: &FollowedTraffic, zones: &ZoneMap) {
        let sockets = LocalSockets::new(traffic);
        self.readings += 1;
        self.flows.values_mut().for_each(|sums| sums.recent.fall());
        for (group, grown) in &traffic.groups {
            let new = || GroupPlace { flow: Some(sockets.flow(group, zones)), reading: 0 };
            let place = self.groups.entry(*group).or_insert_with(new);
            place.reading = self.readings;
            if sockets.has_server_of(group) {
                place.flow = None;
            }
            let Some(flow) = &place.flow else { continue };
            let mut grown = from_client(*grown, group.is_server);
            if group.is_adopted {
                std::mem::swap(&mut grown.opened, &mut grown.met_open);
            }
            let (sides, bytes) = (wire_bytes(&grown), wire_bytes(&grown).iter().sum());
            *self.unseen.entry(group.network_namespace).or_default() += bytes;
            let composed = ComposedKey { server: flow.server, zones: flow.zones.clone() };
            add_sides(self.growth.entry(composed).or_default(), sides);
            let sums = self.flows.entry(flow.clone()).or_default();
            sums.totals.add(&grown);
            sums.recent.add(bytes, group.network_namespace);
        }
        self.evict(CLIENT_FLOWS, |flow| flow.client);
        let shared_by_clients = |flow: &FlowKey| flow.client.is_none() && flow.server != ServerEnd::OTHER;
        self.evict(SERVER_FLOWS, |flow| shared_by_clients(flow).then(|| flow.server.address.ip()));
        if self.groups.len() > KNOWN_GROUPS {
            self.groups.retain(|_, place| place.reading == self.readings);
        }
        // Those of local clients are in the servers'.
        let [clients, servers, _, others] = traffic.remaining;
        self.without_room = from_client(servers, true);
        self.without_room.add(&clients);
        let (room, [lost, unidentified, listeners]) = self.earlier;
        self.without_room.add(&room);
        self.lost_connections = traffic.lost + lost;
        self.unidentified_bytes = wire_bytes(&others).iter().sum::<u64>() + unidentified;
        self.lost_listeners = traffic.lost_listeners + listeners;
    }

    /// Moves the sums of flows beyond a limit to shared ones, among those with an address.
    fn evict(&mut self, limit: usize, address: impl Fn(&FlowKey) -> Option<IpAddr>) {
        let uses = self.flows.iter().filter_map(|(flow, sums)| Some((flow, address(flow)?, sums.recent)));
        for flow in beyond(limit, uses).into_iter().cloned().collect::<Vec<_>>() {
            let Some(sums) = self.flows.remove(&flow) else { continue };
            self.flows.entry(flow.shared()).or_default().absorb(&sums);
            self.evicted += 1;
        }
    }

    /// Notes that all sums were archived.
    pub fn mark_archived(&mut self) {
        self.flows.values_mut().for_each(|sums| sums.archived = sums.totals);
    }

    /// Notes that other programs count from now on.
    pub fn replace_programs(&mut self) {
        self.earlier = (self.without_room, [self.lost_connections, self.unidentified_bytes, self.lost_listeners]);
    }

    /// Keeps the flows apart from those of this start of the host, which gives network namespaces and control groups other numbers.
    pub fn leave_boot(&mut self) {
        self.groups.clear();
        for (flow, sums) in std::mem::take(&mut self.flows) {
            let flow = FlowKey { server: flow.server.before_boot(), client_group: 0, ..flow };
            self.flows.entry(flow).or_default().absorb(&sums);
        }
    }

    /// Counts further traffic by other zones.
    pub fn rezone(&mut self, zones: &ZoneMap) {
        for flow in self.groups.values_mut().filter_map(|place| place.flow.as_mut()) {
            if let Some(client) = flow.client {
                flow.zones = zone_pair(zones, client, flow.server.address.ip());
            }
        }
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

    /// Returns the number of servers of this host that have traffic but were not found, plus that of clients on this host. A
    /// change calls for a search: the labels of a new series must be right from the start.
    pub fn newcomers(&self, servers: &WatchedServers) -> usize {
        let here = self.flows.keys().filter(|flow| flow.at_server).map(|flow| flow.server);
        let unknown: BTreeSet<_> = here.filter(|server| servers.database(server).is_none()).collect();
        let here = self.flows.keys().filter(|flow| flow.client_group > 0 || !flow.at_server);
        let clients: BTreeSet<_> = here.map(|flow| (flow.client_group, flow.client, flow.server)).collect();
        unknown.len() + clients.len()
    }

    /// Returns whether a network namespace with traffic has had few windows.
    pub fn has_new_namespace(&self) -> bool {
        let windows = |number: &u32| self.windows.get(number).copied().unwrap_or_default();
        self.unseen.iter().any(|(number, bytes)| *bytes > 0 && windows(number) < FIRST_WINDOWS)
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

/// Adds bytes of requests and of responses.
pub fn add_sides(sums: &mut [u64; 2], more: [u64; 2]) {
    sums.iter_mut().zip(more).for_each(|(sum, bytes)| *sum += bytes);
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
        book.take(&reading(&[(server, totals(10, 1)), (elsewhere, totals(1, 10))]), &zones);
        // The server's end is read later.
        book.take(&reading(&[(client, totals(2, 20))]), &zones);
        let flows: Vec<_> =
            book.flows.iter().map(|(key, sums)| (key.at_server, key.client_group, wire_bytes(&sums.totals))).collect();
        assert_eq!(flows, [(true, 1, [4, 40]), (false, 1, [6, 60])]);
        assert!(book.has_new_namespace());
        assert_eq!([7, 7].map(|number| book.next_namespace(&BTreeSet::from([number, 9]))), [Some(7), None]);
    }

    #[test]
    fn connections_met_open_were_not_opened() {
        let mut book = FlowBook::default();
        let opened = group("10.0.0.1:6379", "10.0.0.9:0", true);
        let adopted = SocketGroup { is_adopted: true, ..opened };
        book.take(&reading(&[(opened, totals(1, 1)), (adopted, totals(1, 1))]), &ZoneMap::default());
        let counts: Vec<_> = book.flows.values().map(|sums| (sums.totals.opened, sums.totals.met_open)).collect();
        assert_eq!(counts, [(1, 1)]);
    }

    fn payload(book: &FlowBook) -> u64 {
        book.flows.values().map(|sums| sums.totals.sent.payload_bytes).sum()
    }

    #[test]
    fn many_servers_share_a_flow() {
        let (mut book, all) = (FlowBook::default(), CLIENT_FLOWS + SERVER_FLOWS + 500);
        let flow = |number: usize| {
            let server = format!("10.{}.{}.1:6379", number / 250, number % 250);
            (group("10.99.0.1:0", &server, false), totals(1, 1))
        };
        book.take(&reading(&(0..all).map(flow).collect::<Vec<_>>()), &ZoneMap::default());
        assert_eq!((book.flows.len(), payload(&book)), (CLIENT_FLOWS + SERVER_FLOWS + 1, all as u64));
        assert_eq!(book.growth.len(), all, "compositions keep the servers apart");
    }

    /// 700 addresses of loopback once made every later client share a flow.
    #[test]
    fn addresses_of_one_user_cost_no_other_client_its_flow() {
        let (mut book, zones) = (FlowBook::default(), ZoneMap::default());
        let flow = |client: &str, bytes| (group("10.9.0.1:6379", &format!("{client}:0"), true), totals(bytes, bytes));
        let flood = |bytes| -> Vec<_> {
            (0..700).map(|number| flow(&format!("127.0.{}.{}", number / 250, 2 + number % 250), bytes)).collect()
        };
        let has = |book: &FlowBook, client: &str| {
            let client = Some(client.parse().unwrap());
            book.flows.iter().find(|(key, _)| key.client == client).map(|(_, sums)| sums.totals.sent.payload_bytes)
        };
        book.take(&reading(&flood(1_000)), &zones);
        assert_eq!((book.flows.len(), book.evicted, payload(&book)), (CLIENT_FLOWS + 1, 200, 700_000));
        let late = [flow("127.0.0.1", 3), flow("192.0.2.1", 5)];
        book.take(&reading(&[&flood(1_000)[..], &late].concat()), &zones);
        assert_eq!((has(&book, "127.0.0.1"), has(&book, "192.0.2.1")), (Some(3), Some(5)));
        assert_eq!((book.flows.len(), payload(&book)), (CLIENT_FLOWS + 1, 1_400_008));
        // An idle client makes room for an active one, and comes back when it is active again.
        for _ in 0..100 {
            book.take(&reading(&flood(1_000)), &zones);
        }
        assert_eq!(has(&book, "192.0.2.1"), None);
        let before = payload(&book);
        book.take(&reading(&late), &zones);
        assert_eq!((has(&book, "192.0.2.1"), payload(&book) - before), (Some(5), 8));
    }

    #[test]
    fn what_moves_to_a_shared_flow_is_archived_once() {
        let (mut book, zones) = (FlowBook::default(), ZoneMap::default());
        let flows = |range: std::ops::Range<usize>| {
            let flow =
                |number: usize| group("10.9.0.1:6379", &format!("10.0.{}.{}:0", number / 250, number % 250), true);
            reading(&range.map(|number| (flow(number), totals(2, 2))).collect::<Vec<_>>())
        };
        let new = |book: &FlowBook| {
            let grown = |sums: &FlowSums| sums.totals.since(&sums.archived).sent.payload_bytes;
            book.flows.values().map(grown).sum::<u64>()
        };
        book.take(&flows(0..CLIENT_FLOWS), &zones);
        assert_eq!(new(&book), 2 * CLIENT_FLOWS as u64);
        book.mark_archived();
        book.take(&flows(CLIENT_FLOWS..CLIENT_FLOWS + 300), &zones);
        assert_eq!((book.evicted, new(&book)), (300, 600));
    }

    #[test]
    fn other_zones_count_from_then_on() {
        let zones = |zone: &str| {
            let table = BTreeMap::from([("10.0.0.0/8".to_owned(), zone.to_owned())]);
            ZoneMap::new(&table, None).unwrap()
        };
        let mut book = FlowBook::default();
        let traffic = reading(&[(group("10.9.0.1:6379", "10.0.0.1:0", true), totals(2, 2))]);
        book.take(&traffic, &zones("a"));
        book.rezone(&zones("b"));
        book.take(&traffic, &zones("b"));
        let found: Vec<_> =
            book.flows.iter().map(|(key, sums)| (key.zones.client.as_deref(), sums.totals.opened)).collect();
        assert_eq!(found, [(Some("a"), 1), (Some("b"), 1)]);
    }
}
