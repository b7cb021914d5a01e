//! Decides which process families own the captured connections.
//!
//! A port is not enough: a process in another network namespace, or on another interface, may use the same one. The
//! BPF programs record both ends of the followed processes' sockets, among which captured connections are looked up.

use crate::options::ProcessRole;
use crate::skeleton::types;
use overhead_model::Protocol;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

/// A captured connection, or the sum of one client address's connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CapturedConnection {
    /// Port 0 if the connections of this address were summed.
    pub client: SocketAddr,
    pub server: SocketAddr,
    pub protocol: Protocol,
    /// TCP payload of both directions, each byte once.
    pub payload_bytes: u64,
}

/// Objects of one protocol that the families of one role own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct OwnedTraffic {
    pub(crate) slots: BTreeSet<u32>,
    pub(crate) payload_bytes: u64,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Ownership {
    owned: BTreeMap<(ProcessRole, Protocol), OwnedTraffic>,
    /// All captured payload.
    payload_bytes: BTreeMap<Protocol, u64>,
    /// Slots whose sockets have kernel TLS: their byte counts are not TCP's.
    layered: BTreeSet<u32>,
}

impl Ownership {
    /// Looks up what was captured in network namespace `own_netns` in `table`, which has room for `most` sockets.
    pub(crate) fn new(
        captured: &[CapturedConnection],
        table: &[(types::connection_key, types::connection)],
        own_netns: u32,
        most: u32,
    ) -> Self {
        let mut ownership = Self::default();
        for connection in captured {
            *ownership.payload_bytes.entry(connection.protocol).or_default() += connection.payload_bytes;
        }
        ownership.layered =
            table.iter().filter(|(_, socket)| socket.layered != 0).map(|(_, socket)| socket.slot).collect();
        for role in ProcessRole::ALL {
            let mut sockets = RoleSockets::new(role, table, own_netns);
            sockets.full = table.len() >= most as usize / 10 * 9;
            ownership.assign(role, captured, &sockets);
        }
        ownership
    }

    fn assign(&mut self, role: ProcessRole, captured: &[CapturedConnection], sockets: &RoleSockets) {
        let (mut places, mut rest) = (HashSet::new(), Vec::new());
        for connection in captured {
            let Some(slot) = sockets.owner(role, connection) else {
                rest.push(connection);
                continue;
            };
            let owned = self.owned.entry((role, connection.protocol)).or_default();
            owned.slots.insert(slot);
            owned.payload_bytes += connection.payload_bytes;
            places.insert(place(role, connection));
        }
        // Sockets evicted from the table go to the owner of other sockets at the same place.
        for connection in rest {
            let unknown = connection.client.port() == 0 || sockets.full;
            if unknown && places.contains(&place(role, connection)) {
                self.owned.entry((role, connection.protocol)).or_default().payload_bytes += connection.payload_bytes;
            }
        }
    }

    pub(crate) fn protocols(&self) -> BTreeSet<Protocol> {
        self.owned.keys().map(|(_, protocol)| *protocol).collect()
    }

    /// Returns the share of a role, of one protocol or of all.
    pub(crate) fn owned(&self, role: ProcessRole, protocol: Option<Protocol>) -> OwnedTraffic {
        let mut sum = OwnedTraffic::default();
        for ((_, _), owned) in
            self.owned.iter().filter(|((of, what), _)| *of == role && protocol.is_none_or(|protocol| protocol == *what))
        {
            sum.slots.extend(&owned.slots);
            sum.payload_bytes += owned.payload_bytes;
        }
        sum
    }

    pub(crate) fn captured(&self, protocol: Option<Protocol>) -> u64 {
        let wanted = |what: &Protocol| protocol.is_none_or(|protocol| protocol == *what);
        self.payload_bytes.iter().filter(|(what, _)| wanted(what)).map(|(_, bytes)| bytes).sum()
    }

    /// Returns whether kernel TLS lies between one of the families and TCP.
    pub(crate) fn is_layered(&self, slots: &BTreeSet<u32>) -> bool {
        !self.layered.is_disjoint(slots)
    }
}

/// Key under which similar connections share an owner: for servers the server's end, for clients the client's address
/// and the server's end.
fn place(role: ProcessRole, connection: &CapturedConnection) -> (Option<IpAddr>, SocketAddr) {
    ((role == ProcessRole::Client).then(|| connection.client.ip().to_canonical()), canonical(connection.server))
}

struct RoleSockets {
    /// By local and remote end.
    exact: HashMap<(SocketAddr, SocketAddr), u32>,
    /// By what address translation preserves: a server socket's remote end; a client socket's port and remote end.
    translated: HashMap<(u16, SocketAddr), u32>,
    /// By what both ends' own addresses tell: a server socket's local end and remote port; a client socket's local end.
    own_ends: HashMap<(SocketAddr, u16), u32>,
    /// The table is nearly full, so sockets may be missing.
    full: bool,
}

impl RoleSockets {
    fn new(role: ProcessRole, table: &[(types::connection_key, types::connection)], own_netns: u32) -> Self {
        let (mut exact, mut translated, mut own_ends) = (HashMap::new(), HashMap::new(), HashMap::new());
        // Inserted last, sockets of the captured network namespace take precedence.
        for own in [false, true] {
            let here = table.iter().filter(|(key, _)| (key.netns == own_netns) == own);
            for (key, socket) in here.filter(|(_, socket)| ProcessRole::from_slot(socket.slot) == Some(role)) {
                let (local, remote) = (end(key.local, key.local_port), end(key.remote, key.remote_port));
                // Another namespace's loopback cannot be captured here.
                if !own && (local.ip().is_loopback() || remote.ip().is_loopback()) {
                    continue;
                }
                exact.insert((local, remote), socket.slot);
                let ports = if role == ProcessRole::Client { [local.port(), 0] } else { [0, remote.port()] };
                translated.insert((ports[0], remote), socket.slot);
                own_ends.insert((local, ports[1]), socket.slot);
            }
        }
        Self { exact, translated, own_ends, full: false }
    }

    fn owner(&self, role: ProcessRole, connection: &CapturedConnection) -> Option<u32> {
        let (client, server) = (canonical(connection.client), canonical(connection.server));
        let (ends, port_and_remote, own_end) = match role {
            ProcessRole::Server => ((server, client), (0, client), (server, client.port())),
            ProcessRole::Client => ((client, server), (client.port(), server), (client, 0)),
        };
        let near = || self.translated.get(&port_and_remote).or_else(|| self.own_ends.get(&own_end));
        self.exact.get(&ends).or_else(near).copied()
    }
}

pub(crate) fn end(address: [u32; 4], port: u16) -> SocketAddr {
    let mut bytes = [0; 16];
    for (place, byte) in bytes.iter_mut().zip(address.iter().flat_map(|word| word.to_ne_bytes())) {
        *place = byte;
    }
    canonical(SocketAddr::new(Ipv6Addr::from(bytes).into(), port))
}

/// Maps IPv4-mapped addresses to IPv4 and drops the scope.
pub(crate) fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::opened::words;

    const OWN: u32 = 1;
    const OTHER: u32 = 2;

    fn captured(client: &str, server: &str, payload_bytes: u64) -> CapturedConnection {
        let (client, server) = (client.parse().unwrap(), server.parse().unwrap());
        CapturedConnection { client, server, protocol: Protocol::Resp, payload_bytes }
    }

    fn socket(netns: u32, local: &str, remote: &str, slot: u32) -> (types::connection_key, types::connection) {
        let (local, remote): (SocketAddr, SocketAddr) = (local.parse().unwrap(), remote.parse().unwrap());
        let key = types::connection_key {
            netns,
            local_port: local.port(),
            remote_port: remote.port(),
            local: words(local.ip()),
            remote: words(remote.ip()),
        };
        (key, types::connection { slot, layered: 0 })
    }

    fn servers(captured: &[CapturedConnection], table: &[(types::connection_key, types::connection)]) -> OwnedTraffic {
        Ownership::new(captured, table, OWN, 100).owned(ProcessRole::Server, None)
    }

    #[test]
    fn the_same_loopback_connection_in_another_namespace_is_not_captured() {
        let (client, server) = ("127.0.0.1:40000", "127.0.0.1:6379");
        let table = [socket(OWN, server, client, 3), socket(OTHER, server, client, 5)];
        assert_eq!(servers(&[captured(client, server, 10)], &table).slots, BTreeSet::from([3]));
        assert_eq!(servers(&[captured(client, server, 10)], &table[1..]), OwnedTraffic::default());
    }

    #[test]
    fn a_server_in_a_container_is_found_by_its_connection_and_behind_a_published_port_by_the_client() {
        let table = [socket(OTHER, "172.17.0.2:6379", "10.0.0.9:40000", 3)];
        assert_eq!(servers(&[captured("10.0.0.9:40000", "172.17.0.2:6379", 7)], &table).payload_bytes, 7);
        assert_eq!(servers(&[captured("10.0.0.9:40000", "10.0.0.1:16379", 7)], &table).slots, BTreeSet::from([3]));
        assert_eq!(servers(&[captured("10.0.0.9:40001", "10.0.0.1:16379", 7)], &table), OwnedTraffic::default());
    }

    #[test]
    fn both_ends_are_found_by_their_own_addresses() {
        let table = [
            socket(OWN, "10.0.0.9:40000", "10.0.0.1:16379", 4),
            socket(OTHER, "172.17.0.2:6379", "172.17.0.1:40000", 3),
        ];
        let ownership = Ownership::new(&[captured("10.0.0.9:40000", "172.17.0.2:6379", 7)], &table, OWN, 100);
        for role in ProcessRole::ALL {
            assert_eq!(ownership.owned(role, None).payload_bytes, 7, "{role:?}");
        }
    }

    #[test]
    fn an_address_of_ipv4_is_the_same_in_a_socket_of_ipv6() {
        let table = [socket(OWN, "[::ffff:10.0.0.1]:6379", "[::ffff:10.0.0.9]:40000", 3)];
        assert_eq!(servers(&[captured("10.0.0.9:40000", "10.0.0.1:6379", 7)], &table).slots, BTreeSet::from([3]));
    }

    #[test]
    fn roles_are_told_by_the_slot() {
        let (client, server) = ("10.0.0.9:40000", "10.0.0.1:6379");
        let table = [socket(OWN, server, client, 3), socket(OTHER, client, server, 4)];
        let ownership = Ownership::new(&[captured(client, server, 7)], &table, OWN, 100);
        assert_eq!(ownership.owned(ProcessRole::Server, None).slots, BTreeSet::from([3]));
        assert_eq!(ownership.owned(ProcessRole::Client, None).slots, BTreeSet::from([4]));
        assert_eq!(ownership.captured(None), 7);
    }

    #[test]
    fn connections_that_were_added_up_belong_to_who_has_others_of_the_same_place() {
        let table = [socket(OWN, "10.0.0.1:6379", "10.0.0.9:40000", 3)];
        let captured = [
            captured("10.0.0.9:40000", "10.0.0.1:6379", 7),
            captured("10.0.0.9:0", "10.0.0.1:6379", 100),
            captured("10.0.0.9:0", "10.0.0.2:6379", 1_000),
        ];
        assert_eq!(servers(&captured, &table).payload_bytes, 107);
    }
}
