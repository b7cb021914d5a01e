//! Who talked to whom, and how much: what tells whose counters belong to a capture.

use crate::limits::PEERS;
use overhead_model::{ConnectionSummary, Protocol};
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};

/// Payload by both ends; beyond [`PEERS`] connections by the client's address and the server's end, and beyond as many again
/// by the server's end alone. What was added up has port 0, and the unspecified address, in their place.
#[derive(Clone, Debug, Default)]
pub(crate) struct Peers(HashMap<(SocketAddr, SocketAddr, Protocol), u64>);

impl Peers {
    pub(crate) fn push(&mut self, summary: &ConnectionSummary) {
        let ConnectionSummary { client, server, protocol, payload_bytes, .. } = *summary;
        let nobody = match client.ip() {
            IpAddr::V4(_) => IpAddr::from([0_u8; 4]),
            IpAddr::V6(_) => IpAddr::from([0_u8; 16]),
        };
        let exact = (client, server, protocol);
        let ends = if self.0.contains_key(&exact) || self.0.len() < PEERS {
            exact
        } else if self.0.len() < 2 * PEERS {
            (SocketAddr::new(client.ip(), 0), server, protocol)
        } else {
            (SocketAddr::new(nobody, 0), server, protocol)
        };
        *self.0.entry(ends).or_default() += payload_bytes;
    }

    pub(crate) fn merge(&mut self, other: Self) {
        for (ends, bytes) in other.0 {
            *self.0.entry(ends).or_default() += bytes;
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (SocketAddr, SocketAddr, Protocol, u64)> {
        self.0.iter().map(|((client, server, protocol), bytes)| (*client, *server, *protocol, *bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use overhead_model::DecidedBy;

    #[test]
    fn connections_beyond_the_bound_are_added_up() {
        let mut peers = Peers::default();
        for n in 0..PEERS as u32 + 10 {
            peers.push(&ConnectionSummary {
                client: SocketAddr::new(IpAddr::from((0x0a00_0000 + (n >> 15)).to_be_bytes()), 1 + (n & 0x7fff) as u16),
                server: SocketAddr::from(([10, 9, 9, 9], 6_379)),
                protocol: Protocol::Resp,
                server_software: None,
                client_software: None,
                tls: false,
                server_decided_by: DecidedBy::Syn,
                first_ns: 0,
                operations: 1,
                wire_bytes: 100,
                payload_bytes: 7,
            });
        }
        assert_eq!(peers.iter().map(|peer| peer.3).sum::<u64>(), 7 * (PEERS as u64 + 10));
        assert_eq!(peers.iter().count(), PEERS + 1);
        assert!(peers.iter().any(|(client, _, _, bytes)| client.port() == 0 && bytes == 70));
    }
}
