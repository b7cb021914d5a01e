//! Payload by connection ends, which determines whose counters belong to a capture.

use crate::limits::PEERS;
use overhead_model::{ConnectionSummary, Protocol};
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};

/// Payload by both ends. Beyond [`PEERS`] connections, the key becomes the client's address and server's end; beyond as many
/// again, only the server's end; beyond as many again, there is one sum. Port 0 and the unspecified address replace the merged
/// parts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Peers(HashMap<(SocketAddr, SocketAddr, Protocol), u64>);

impl Peers {
    pub(crate) fn push(&mut self, summary: &ConnectionSummary) {
        let ConnectionSummary { client, server, protocol, payload_bytes, .. } = *summary;
        let exact = (client, server, protocol);
        let known = self.0.len();
        // Reserve room for connections with payload against a flood of empty ones.
        if payload_bytes == 0 && known >= PEERS / 2 {
            return;
        }
        let ends = if known < PEERS || self.0.contains_key(&exact) {
            exact
        } else if known < 2 * PEERS {
            (SocketAddr::new(client.ip(), 0), server, protocol)
        } else if known < 3 * PEERS {
            (nobody(client), server, protocol)
        } else {
            (nobody(client), nobody(server), protocol)
        };
        *self.0.entry(ends).or_default() += payload_bytes;
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (SocketAddr, SocketAddr, Protocol, u64)> {
        self.0.iter().map(|((client, server, protocol), bytes)| (*client, *server, *protocol, *bytes))
    }
}

/// Returns the unspecified address of the family of `end`, and port 0.
fn nobody(end: SocketAddr) -> SocketAddr {
    let address = match end.ip() {
        IpAddr::V4(_) => IpAddr::from([0_u8; 4]),
        IpAddr::V6(_) => IpAddr::from([0_u8; 16]),
    };
    SocketAddr::new(address, 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use overhead_model::{DecidedBy, Transport};

    fn connection(client: SocketAddr, server: SocketAddr, payload_bytes: u64) -> ConnectionSummary {
        ConnectionSummary {
            client,
            server,
            transport: Transport::Tcp,
            names: None,
            protocol: Protocol::Resp,
            server_software: None,
            client_software: None,
            tls: false,
            encrypted: false,
            server_decided_by: DecidedBy::Syn,
            first_ns: 0,
            operations: 1,
            wire_bytes: 100,
            payload_bytes,
            round_trips: 1,
            round_trips_to_answer: None,
        }
    }

    fn address(n: u32) -> IpAddr {
        IpAddr::from((0x0a00_0000 + n).to_be_bytes())
    }

    #[test]
    fn connections_beyond_the_bound_are_added_up() {
        let mut peers = Peers::default();
        for n in 0..PEERS as u32 + 10 {
            let client = SocketAddr::new(address(n >> 15), 1 + (n & 0x7fff) as u16);
            peers.push(&connection(client, SocketAddr::from(([10, 9, 9, 9], 6_379)), 7));
        }
        assert_eq!(peers.iter().map(|peer| peer.3).sum::<u64>(), 7 * (PEERS as u64 + 10));
        assert_eq!(peers.iter().count(), PEERS + 1);
        assert!(peers.iter().any(|(client, _, _, bytes)| client.port() == 0 && bytes == 70));
    }

    #[test]
    fn connections_that_carry_nothing_leave_room_for_those_that_do() {
        let mut peers = Peers::default();
        let server = SocketAddr::from(([10, 9, 9, 9], 6_379));
        for n in 0..2 * PEERS as u32 {
            peers.push(&connection(SocketAddr::new(address(n), 4_000), server, 0));
        }
        let client = SocketAddr::from(([10, 8, 8, 8], 40_000));
        peers.push(&connection(client, server, 7));
        assert!(peers.iter().any(|peer| peer == (client, server, Protocol::Resp, 7)));
    }

    #[test]
    fn many_servers_are_bounded_too() {
        let mut peers = Peers::default();
        let count = 4 * PEERS as u32;
        for n in 0..count {
            let end = |port| SocketAddr::new(address(n), port);
            peers.push(&connection(end(40_000), end(6_379), 7));
        }
        assert_eq!(peers.iter().map(|peer| peer.3).sum::<u64>(), 7 * u64::from(count));
        assert_eq!(peers.iter().count(), 3 * PEERS + 1);
    }
}
