//! Sums operations by connection, client or server.
//!
//! Groups and rows receive the same input, so their totals agree. The number of groups is limited to [`GROUPS`]. A new group
//! beyond the limit folds the smallest groups without an open connection into one row. Connections report their full totals
//! when they end, so the memo cannot influence that choice.

use super::row_sums::{KindKey, OperationKind, RowSums};
use crate::limits::{GROUPS, PEER_ROWS};
use overhead_model::record::{By, PeerRow, PeerRows};
use overhead_model::stream::process_of;
use overhead_model::{Class, ConnectionEnds, OTHER, Operation, Protocol, Side, SideTotals};
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;

/// Number of groups folded at once, so that the search for the smallest is rare.
const AT_ONCE: usize = GROUPS / 8;

/// Key that separates groups; omits parts that do not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct GroupKey {
    protocol: Protocol,
    client: Option<SocketAddr>,
    server: Option<SocketAddr>,
    /// Start of a connection: ports are reused.
    first_ns: u64,
}

#[derive(Clone, Debug, Default)]
struct Group {
    classes: [Option<Box<RowSums>>; Class::COUNT],
    /// Client and server of the group's last connection to end, if their addresses are placeholders.
    names: Option<Box<[String; 2]>>,
    /// Number of connections with operations or frames, and number still open.
    connections: u64,
    open: u64,
}

/// Where to add a connection's operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Group(GroupKey),
    /// The remainder without a separate group.
    Other(Protocol),
}

#[derive(Clone, Debug)]
pub(crate) struct ByPeer {
    pub by: By,
    groups: HashMap<GroupKey, Group>,
    other: BTreeMap<Protocol, Group>,
    /// Number of groups folded into the remainder.
    folded: u64,
    /// Open connections by number.
    open: HashMap<u64, Place>,
    current: Option<ConnectionEnds>,
}

impl ByPeer {
    pub(crate) fn new(by: By) -> Self {
        Self { by, groups: HashMap::new(), other: BTreeMap::new(), folded: 0, open: HashMap::new(), current: None }
    }

    /// Selects the connection for subsequent calls.
    #[inline]
    pub(crate) fn turn_to(&mut self, ends: &ConnectionEnds) {
        self.current = Some(*ends);
    }

    /// Swaps client and server of the current connection after a wrong guess.
    pub(crate) fn swap(&mut self) {
        if let Some(ends) = &mut self.current {
            std::mem::swap(&mut ends.client, &mut ends.server);
        }
    }

    /// Adds closed operations with equal results to the current connection.
    pub(crate) fn add(&mut self, kind: (Class, Protocol), operation: &Operation, times: u64) {
        if let Some(sums) = self.sums(kind) {
            sums.add(kind.0, &operation.sides, operation.outcome, times);
            if let Some(latency_ns) = operation.latency_ns {
                sums.latency.record(latency_ns, times);
            }
        }
    }

    pub(crate) fn add_latency(&mut self, kind: (Class, Protocol), latency_ns: u64, times: u64) {
        if let Some(sums) = self.sums(kind) {
            sums.latency.record(latency_ns, times);
        }
    }

    pub(crate) fn add_late(&mut self, kind: (Class, Protocol), side: Side, totals: &SideTotals) {
        if let Some(sums) = self.sums(kind) {
            sums.add_late(side, totals);
        }
    }

    pub(crate) fn end(&mut self, names: Option<&[String; 2]>) {
        let Some(ends) = &self.current else { return };
        if let Some(Place::Group(key)) = self.open.remove(&ends.number)
            && let Some(group) = self.groups.get_mut(&key)
        {
            group.open -= 1;
            group.names = names.cloned().map(Box::new);
        }
    }

    /// Returns the sums of a class in the current connection's group.
    fn sums(&mut self, (class, protocol): (Class, Protocol)) -> Option<&mut RowSums> {
        let ends = self.current?;
        let place = match self.open.get(&ends.number) {
            Some(place) => *place,
            None => self.begin(&ends, protocol),
        };
        let group = match place {
            Place::Group(key) => self.groups.get_mut(&key)?,
            Place::Other(protocol) => self.other.entry(protocol).or_default(),
        };
        Some(group.classes.get_mut(class as usize)?.get_or_insert_default())
    }

    /// Registers a connection when it first appears.
    fn begin(&mut self, ends: &ConnectionEnds, protocol: Protocol) -> Place {
        let key = self.key(ends, protocol);
        if !self.groups.contains_key(&key) && self.groups.len() >= GROUPS {
            self.fold();
        }
        let has_room = self.groups.len() < GROUPS;
        let place = if has_room || self.groups.contains_key(&key) {
            let group = self.groups.entry(key).or_default();
            group.connections += 1;
            group.open += 1;
            Place::Group(key)
        } else {
            self.folded += 1;
            self.other.entry(protocol).or_default().connections += 1;
            Place::Other(protocol)
        };
        self.open.insert(ends.number, place);
        place
    }

    fn key(&self, ends: &ConnectionEnds, protocol: Protocol) -> GroupKey {
        let ConnectionEnds { client, server, first_ns, .. } = *ends;
        let none = GroupKey { protocol, client: None, server: None, first_ns: 0 };
        match self.by {
            By::Client => GroupKey { client: Some(SocketAddr::new(process_of(client.ip()), 0)), ..none },
            By::Server => GroupKey { server: Some(server), ..none },
            By::Connection | By::Name | By::Statement => {
                GroupKey { protocol, client: Some(client), server: Some(server), first_ns }
            }
        }
    }

    /// Adds the smallest groups without an open connection to the remainder.
    #[cold]
    fn fold(&mut self) {
        let closed = self.groups.iter().filter(|(_, group)| group.open == 0);
        let mut closed: Vec<(u64, Reverse<GroupKey>)> =
            closed.map(|(key, group)| (group.bytes(), Reverse(*key))).collect();
        let count = AT_ONCE.min(closed.len());
        if count > 0 && count < closed.len() {
            closed.select_nth_unstable(count - 1);
        }
        for (_, Reverse(key)) in closed.into_iter().take(count) {
            if let Some(group) = self.groups.remove(&key) {
                self.folded += 1;
                self.other.entry(key.protocol).or_default().merge(&group);
            }
        }
    }

    /// Returns the totals so far, by connection, client or server.
    pub(crate) fn kinds(&self, by: By) -> Vec<OperationKind> {
        let mut kinds = BTreeMap::<KindKey, RowSums>::new();
        let groups = self.groups.iter().map(|(key, group)| (Some(key), key.protocol, group));
        let others = self.other.iter().map(|(protocol, group)| (None, *protocol, group));
        for (key, protocol, group) in groups.chain(others) {
            let label = key.map_or_else(|| OTHER.to_owned(), |key| group.label(by, key));
            for (class, sums) in Class::ALL.into_iter().zip(&group.classes) {
                let Some(sums) = sums else { continue };
                let key = KindKey { class, protocol, label: label.clone() };
                kinds.entry(key).or_default().merge(sums);
            }
        }
        kinds.into_iter().collect()
    }

    /// Returns the rows of the record: the largest of each class, and one row per protocol for the remainder.
    pub(crate) fn to_record(&self) -> PeerRows {
        let mut rows = Vec::new();
        let mut left_out = self.folded;
        let mut other = self.other.clone();
        let mut groups: Vec<(&GroupKey, &Group)> = self.groups.iter().collect();
        groups.sort_by_key(|(key, group)| (Reverse(group.bytes()), **key));
        for (rank, (key, group)) in groups.into_iter().enumerate() {
            if rank < PEER_ROWS {
                rows.extend(group.rows(self.by, Some(*key), key.protocol));
            } else {
                left_out += 1;
                other.entry(key.protocol).or_default().merge(group);
            }
        }
        rows.extend(other.iter().flat_map(|(protocol, group)| group.rows(self.by, None, *protocol)));
        PeerRows { by: self.by, rows, left_out }
    }
}

impl Group {
    fn bytes(&self) -> u64 {
        self.classes.iter().flatten().map(|sums| sums.bytes()).sum()
    }

    fn merge(&mut self, other: &Self) {
        self.connections += other.connections;
        self.names = self.names.take().or_else(|| other.names.clone());
        for (mine, theirs) in self.classes.iter_mut().zip(&other.classes) {
            if let Some(theirs) = theirs {
                mine.get_or_insert_default().merge(theirs);
            }
        }
    }

    /// Returns the names of client and server, if the key has them.
    fn ends(&self, by: By, key: &GroupKey) -> [Option<String>; 2] {
        let end = |end: SocketAddr| if by == By::Client { end.ip().to_string() } else { end.to_string() };
        match &self.names {
            Some(names) => {
                let [client, server] = &**names;
                [key.client.map(|_| client.clone()), key.server.map(|_| server.clone())]
            }
            None => [key.client.map(end), key.server.map(end)],
        }
    }

    /// Returns the label of a connection, client or server.
    fn label(&self, by: By, key: &GroupKey) -> String {
        let [client, server] = self.ends(by, key).map(Option::unwrap_or_default);
        match by {
            By::Client => client,
            By::Server => server,
            By::Connection | By::Name | By::Statement => format!("{client} > {server}"),
        }
    }

    /// Returns a row for each class; without a key, the rows of the remainder.
    fn rows(&self, by: By, key: Option<GroupKey>, protocol: Protocol) -> Vec<PeerRow> {
        let [client, server] = key.as_ref().map_or([None, None], |key| self.ends(by, key));
        let row = |(class, sums): (Class, &Option<Box<RowSums>>)| {
            let sums = sums.as_ref()?;
            Some(PeerRow {
                class,
                protocol: protocol.name().to_owned(),
                client: client.clone(),
                server: server.clone(),
                first_ns: key.map(|key| key.first_ns).filter(|first_ns| *first_ns > 0),
                connections: self.connections,
                totals: sums.to_record(),
            })
        };
        Class::ALL.into_iter().zip(&self.classes).filter_map(row).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use overhead_model::{Account, Amounts, Outcome};

    const REQUEST: (Class, Protocol) = (Class::Workload, Protocol::Resp);
    const SERVER: ([u8; 4], u16) = ([10, 0, 0, 1], 6_379);

    fn ends(number: u64, port: u16) -> ConnectionEnds {
        let client = SocketAddr::from(([10, 0, (port >> 8) as u8, 2], port));
        ConnectionEnds { number, client, server: SERVER.into(), first_ns: number }
    }

    fn operation(bytes: u64) -> Operation {
        let side = |bytes| SideTotals { frames: 1, amounts: Amounts::new(Account::Data, bytes) };
        Operation {
            sides: [side(bytes), side(2 * bytes)],
            outcome: Outcome::Ok,
            latency_ns: Some(bytes),
            round_trips: 1,
        }
    }

    /// Opens connections with one operation of the given size each, and ends them.
    fn peers_with(by: By, connections: impl Iterator<Item = (u64, u64)>) -> ByPeer {
        let mut peers = ByPeer::new(by);
        for (number, bytes) in connections {
            peers.turn_to(&ends(number, number as u16));
            peers.add(REQUEST, &operation(bytes), 1);
            peers.end(None);
        }
        peers
    }

    fn sums(peers: &PeerRows) -> (u64, u64, u64) {
        let add = |sum: (u64, u64, u64), row: &PeerRow| {
            (
                sum.0 + row.count,
                sum.1 + row.request.wire_bytes + row.response.wire_bytes,
                sum.2 + row.latency_ns.or_empty().count,
            )
        };
        peers.rows.iter().fold((0, 0, 0), add)
    }

    #[test]
    fn the_largest_have_rows_and_the_others_share_one() {
        let count = GROUPS as u64 + 700;
        let peers = peers_with(By::Connection, (1..=count).map(|n| (n, 1 + n * 7_919 % 10_007)));
        assert!(peers.groups.len() <= GROUPS);
        let record = peers.to_record();
        assert_eq!(record.rows.len(), PEER_ROWS + 1);
        assert_eq!(record.left_out, count - PEER_ROWS as u64);
        let bytes: u64 = (1..=count).map(|n| 3 * (1 + n * 7_919 % 10_007)).sum();
        assert_eq!(sums(&record), (count, bytes, count));
        let mut largest: Vec<u64> = (1..=count).map(|n| 3 * (1 + n * 7_919 % 10_007)).collect();
        largest.sort_unstable_by(|a, b| b.cmp(a));
        let found = record.rows.iter().map(|row| row.request.wire_bytes + row.response.wire_bytes);
        assert!(found.take(PEER_ROWS).eq(largest.into_iter().take(PEER_ROWS)));
        let other = record.rows.last().unwrap();
        assert_eq!((&other.client, &other.server, other.connections), (&None, &None, count - PEER_ROWS as u64));
    }

    #[test]
    fn open_connections_are_not_folded() {
        let mut peers = ByPeer::new(By::Connection);
        let count = GROUPS as u64 + 3;
        for number in 1..=count {
            peers.turn_to(&ends(number, number as u16));
            peers.add(REQUEST, &operation(5), 1);
        }
        assert_eq!((peers.groups.len(), peers.folded), (GROUPS, 3));
        // Later operations on a connection without a group stay without one.
        peers.turn_to(&ends(count, count as u16));
        peers.add_late(REQUEST, Side::Request, &operation(5).sides[0]);
        peers.end(None);
        assert_eq!((peers.groups.len(), peers.folded), (GROUPS, 3));
        assert_eq!(sums(&peers.to_record()), (count, 15 * count + 5, count));
    }

    #[test]
    fn clients_are_told_apart_by_address_and_servers_by_port() {
        let clients = peers_with(By::Client, (1..=600).map(|n| (n, 1))).to_record();
        assert_eq!(clients.rows.iter().filter_map(|row| row.client.as_deref()).min(), Some("10.0.0.2"));
        assert_eq!((clients.rows.len(), clients.rows[0].connections), (3, 256));
        let servers = peers_with(By::Server, (1..=600).map(|n| (n, 1))).to_record();
        assert_eq!((servers.rows.len(), servers.rows[0].server.as_deref()), (1, Some("10.0.0.1:6379")));
    }

    #[test]
    fn sides_that_were_taken_for_each_other_are_not_kept_so() {
        let mut peers = ByPeer::new(By::Server);
        let ConnectionEnds { number, client, server, first_ns } = ends(1, 7);
        peers.turn_to(&ConnectionEnds { number, client: server, server: client, first_ns });
        peers.swap();
        peers.add((Class::Setup, Protocol::Resp), &operation(1), 1);
        assert_eq!(peers.to_record().rows[0].server.as_deref(), Some("10.0.0.1:6379"));
    }
}
