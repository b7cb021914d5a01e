//! Traffic of servers that may turn out to be databases: it is kept for a while, so that these have their totals from the start.

use super::servers::WatchedServers;
use overhead_kernel::{FollowedTraffic, ServerPort, SocketGroup, SocketTotals};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};
use std::mem::take;

/// Readings for which the traffic of an unknown server is kept: two searches by then have looked at its process.
const KEPT: u64 = 2 * super::SEARCH;
/// Most groups that are kept.
const KEPT_GROUPS: usize = 16_384;

/// The traffic on a port.
#[derive(Serialize, Deserialize)]
struct Candidate {
    /// Number of the first reading with its traffic.
    since: u64,
    #[serde(with = "overhead_model::pairs")]
    groups: BTreeMap<SocketGroup, SocketTotals>,
}

/// Keeps the traffic on ports of unknown servers.
#[derive(Default, Serialize, Deserialize)]
pub struct CandidateBook {
    readings: u64,
    #[serde(with = "overhead_model::pairs")]
    by_port: HashMap<ServerPort, Candidate>,
    groups: usize,
    /// Bytes that were not kept for lack of room, on the wire.
    pub dropped_bytes: u64,
}

impl CandidateBook {
    /// Replaces the traffic of unknown servers by what was kept of those that are known since. Returns the ports whose traffic is no
    /// longer kept, because their servers are still unknown.
    pub fn take(&mut self, traffic: &mut FollowedTraffic, servers: &WatchedServers) -> Vec<ServerPort> {
        self.readings += 1;
        let (known, unknown): (BTreeMap<_, _>, _) =
            take(&mut traffic.groups).into_iter().partition(|(group, _)| servers.has_port(group.server_port()));
        traffic.groups = known;
        for (group, grown) in unknown {
            self.keep(group, &grown);
        }
        let mut ignored = Vec::new();
        for (port, candidate) in self
            .by_port
            .extract_if(|port, candidate| servers.has_port(*port) || candidate.since + KEPT <= self.readings)
        {
            self.groups -= candidate.groups.len();
            if servers.has_port(port) {
                candidate.groups.iter().for_each(|(group, sum)| traffic.groups.entry(*group).or_default().add(sum));
            } else {
                ignored.push(port);
            }
        }
        ignored
    }

    fn keep(&mut self, group: SocketGroup, grown: &SocketTotals) {
        let since = self.readings;
        let new = || Candidate { since, groups: BTreeMap::new() };
        let kept = &mut self.by_port.entry(group.server_port()).or_insert_with(new).groups;
        if let Some(sum) = kept.get_mut(&group) {
            sum.add(grown);
        } else if self.groups < KEPT_GROUPS {
            kept.insert(group, *grown);
            self.groups += 1;
        } else if group.is_server {
            // Of clients, the servers may be elsewhere, or have these bytes too.
            self.dropped_bytes += grown.sent.wire_bytes() + grown.received.wire_bytes();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use overhead_kernel::{SegmentTotals, TcpServer};

    fn traffic(port: u16, clients: u32, bytes: u64) -> FollowedTraffic {
        let group = |client: u32| SocketGroup {
            control_group: 1,
            network_namespace: 7,
            local: format!("10.0.0.1:{port}").parse().unwrap(),
            remote: std::net::SocketAddr::from((std::net::Ipv4Addr::from_bits(client), 0)),
            is_server: true,
            is_adopted: false,
        };
        let sent = SegmentTotals { payload_bytes: bytes, ..SegmentTotals::default() };
        let totals = SocketTotals { sent, ..SocketTotals::default() };
        FollowedTraffic { groups: (0..clients).map(|client| (group(client), totals)).collect(), ..Default::default() }
    }

    fn started(comm: &str, port: u16) -> Vec<TcpServer> {
        let address = format!("10.0.0.1:{port}").parse().unwrap();
        vec![TcpServer { pids: vec![4_000_000], comm: comm.to_owned(), network_namespace: 7, addresses: vec![address] }]
    }

    fn payload(traffic: &FollowedTraffic) -> u64 {
        traffic.groups.values().map(|sum| sum.sent.payload_bytes).sum()
    }

    #[test]
    fn a_server_that_proves_to_be_a_database_has_its_traffic_from_the_start() {
        let (mut book, mut servers) = (CandidateBook::default(), WatchedServers::default());
        let mut read = |servers: &WatchedServers, bytes| {
            let mut traffic = traffic(7777, 1, bytes);
            assert_eq!(book.take(&mut traffic, servers), []);
            payload(&traffic)
        };
        assert_eq!([read(&servers, 3), read(&servers, 4)], [0, 0]);
        assert!(servers.note(started("redis-server", 7777)));
        assert_eq!(read(&servers, 5), 12);
        assert_eq!(read(&servers, 6), 6, "each byte counts once");
        // It ends, and another program takes its port.
        assert!(!servers.note(started("nginx", 7777)));
        assert_eq!(read(&servers, 7), 0);
    }

    #[test]
    fn other_servers_are_dropped_after_a_while() {
        let (mut book, servers) = (CandidateBook::default(), WatchedServers::default());
        let mut ignored = Vec::new();
        for _ in 0..=KEPT {
            ignored.extend(book.take(&mut traffic(7777, 2, 1), &servers));
        }
        assert_eq!(ignored, [ServerPort { network_namespace: 7, port: 7777 }]);
        assert!((book.groups, book.by_port.len(), book.dropped_bytes) == (0, 0, 0));
    }

    #[test]
    fn what_finds_no_room_is_counted() {
        let (mut book, servers) = (CandidateBook::default(), WatchedServers::default());
        book.take(&mut traffic(7777, KEPT_GROUPS as u32 + 5, 10), &servers);
        assert_eq!((book.groups, book.dropped_bytes), (KEPT_GROUPS, 50));
    }
}
