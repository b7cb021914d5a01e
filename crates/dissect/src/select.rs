//! Selects the connections to decode, and their protocols.

use crate::packet::Segment;
use overhead_model::{Protocol, Transport, sorted_distinct};
use overhead_protocols::{GivenStatements, facts};

/// The user's choice of connections, and what is known of them. The default detects every connection, by port and then by content.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// Server ports with their possible protocols. If empty, all well-known ports, and any other connection by content.
    pub ports: Vec<(u16, Vec<Protocol>)>,
    /// Texts of statements that were prepared before the capture.
    pub given: GivenStatements,
}

/// Result of looking up a connection's ports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortVerdict {
    /// Possible protocols; empty if not selected.
    pub candidates: Vec<Protocol>,
    /// The selected or well-known port, if exactly one end has one; otherwise `None`.
    pub server_port: Option<u16>,
}

impl Selection {
    /// Judges a connection by the ports of its first segment.
    pub fn judge(&self, segment: &Segment<'_>) -> PortVerdict {
        if let Some(piece) = segment.stream.filter(|piece| piece.transport == Transport::Unix) {
            return PortVerdict { candidates: self.candidates_at(piece.addresses[1].port()), server_port: None };
        }
        let (source, destination) = (segment.source.port(), segment.destination.port());
        let by_destination = self.candidates_on(destination);
        let by_source = self.candidates_on(source);
        match (by_source, by_destination) {
            (None, None) if self.ports.is_empty() => {
                PortVerdict { candidates: Protocol::ALL.to_vec(), server_port: None }
            }
            (None, None) => PortVerdict { candidates: Vec::new(), server_port: None },
            (None, Some(candidates)) => PortVerdict { candidates, server_port: Some(destination) },
            (Some(candidates), None) => PortVerdict { candidates, server_port: Some(source) },
            // A client may use another system's port by chance; a SYN identifies the server.
            (Some(_), Some(candidates)) if segment.flags.syn && !segment.flags.ack => {
                PortVerdict { candidates, server_port: None }
            }
            (Some(candidates), Some(_)) => PortVerdict { candidates, server_port: None },
        }
    }

    /// Returns the server ports whose datagrams may belong to a protocol that is decoded only over TCP.
    pub(crate) fn datagrams(&self) -> Vec<u16> {
        if self.ports.is_empty() {
            let spoken = Protocol::ALL.into_iter().filter(|protocol| facts(*protocol).has_udp);
            return spoken.flat_map(Protocol::ports).copied().collect();
        }
        let is_spoken = |protocols: &[Protocol]| protocols.iter().all(|protocol| facts(*protocol).has_udp);
        self.ports.iter().filter(|(_, protocols)| is_spoken(protocols)).map(|(port, _)| *port).collect()
    }

    /// Returns the possible protocols at a Unix socket path; `noted` is the port recorded in the capture, or 0.
    pub(crate) fn candidates_at(&self, noted: u16) -> Vec<Protocol> {
        if self.ports.is_empty() {
            return self.candidates_on(noted).unwrap_or_else(|| Protocol::ALL.to_vec());
        }
        // Paths have no ports, so every selected protocol applies.
        sorted_distinct(self.ports.iter().flat_map(|(_, protocols)| protocols).copied())
    }

    /// Returns the possible protocols on a port; `None` if it is neither selected nor well known.
    pub(crate) fn candidates_on(&self, port: u16) -> Option<Vec<Protocol>> {
        if self.ports.is_empty() {
            let known = Protocol::ALL.into_iter().find(|protocol| protocol.ports().contains(&port))?;
            // Any protocol may use this port; the bytes decide.
            return Some(if facts(known).takes_resp { Protocol::ALL.to_vec() } else { vec![known] });
        }
        let (_, protocols) = self.ports.iter().find(|(of, _)| *of == port)?;
        let besides =
            protocols.iter().any(|protocol| facts(*protocol).takes_resp) && !protocols.contains(&Protocol::Resp);
        Some(protocols.iter().copied().chain(besides.then_some(Protocol::Resp)).collect())
    }
}
