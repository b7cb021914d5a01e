//! Finds proxies and poolers: servers whose requests go on to another server of the capture, which answers first.

use crate::digest::Digest;
use crate::limits;
use crate::packet::Segment;
use overhead_model::Side;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

/// A request, by its payload, and the time in which it was answered.
#[derive(Clone, Copy, Debug)]
struct AnsweredRequest {
    payload: u64,
    from_ns: u64,
    /// `None` until the next payload of the server.
    to_ns: Option<u64>,
}

impl AnsweredRequest {
    /// Returns whether `other` was sent later and answered earlier.
    fn encloses(&self, other: &Self) -> bool {
        self.from_ns <= other.from_ns && other.to_ns.is_some() && other.to_ns <= self.to_ns
    }
}

/// The first requests of a connection.
#[derive(Debug, Default)]
pub struct FirstRequests {
    /// Apart, because short connections have only one.
    first: Option<AnsweredRequest>,
    later: Vec<AnsweredRequest>,
}

impl FirstRequests {
    /// Takes in a segment with payload.
    #[cold]
    pub fn add(&mut self, side: Side, segment: &Segment<'_>) {
        match side {
            Side::Request => {
                let mut digest = Digest::new(0);
                digest.bytes(segment.payload);
                let request = AnsweredRequest { payload: digest.value(), from_ns: segment.time_ns, to_ns: None };
                match self.first {
                    None => self.first = Some(request),
                    Some(_) => self.later.push(request),
                }
            }
            Side::Response => {
                let latest_first = self.later.iter_mut().rev().chain(&mut self.first);
                for request in latest_first.take_while(|request| request.to_ns.is_none()) {
                    request.to_ns = Some(segment.time_ns);
                }
            }
        }
    }

    /// Forgets all: client and server were taken for each other.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    pub fn held(&self) -> usize {
        self.later.capacity() * size_of::<AnsweredRequest>()
    }
}

/// The first requests of the ended connections.
#[derive(Debug, Default)]
pub struct RelayedRequests {
    /// By payload, with client and server.
    all: BTreeMap<u64, Vec<([SocketAddr; 2], AnsweredRequest)>>,
    count: usize,
}

/// Requests of one server that another one also got.
#[derive(Debug, Default)]
struct RelayedPart {
    /// Different payloads that went on.
    relayed: BTreeSet<u64>,
    /// Requests that went on, and others.
    enclosed: usize,
    alone: usize,
}

impl RelayedRequests {
    /// Adds those of a connection between a client and a server, up to a limit.
    pub fn add(&mut self, ends: [SocketAddr; 2], requests: &FirstRequests) {
        for request in requests.first.iter().chain(&requests.later).filter(|request| request.to_ns.is_some()) {
            if self.count < limits::RELAYED {
                self.count += 1;
                let alike = self.all.entry(request.payload).or_default();
                // One more shows that they are too many.
                if alike.len() <= limits::RELAYED_ALIKE {
                    alike.push((ends, *request));
                }
            }
        }
    }

    /// Returns the servers that hand on what they are sent.
    pub fn relays(&self) -> BTreeSet<SocketAddr> {
        let mut parts = BTreeMap::<[SocketAddr; 2], RelayedPart>::new();
        // What is sent all the time proves nothing.
        for (payload, alike) in self.all.iter().filter(|(_, alike)| alike.len() <= limits::RELAYED_ALIKE) {
            for (ends, request) in alike {
                let mut enclosed = BTreeMap::<SocketAddr, bool>::new();
                // An address translation keeps the client's port.
                let others = alike.iter().filter(|(of, _)| of[1] != ends[1] && of[0].port() != ends[0].port());
                for (of, other) in others {
                    *enclosed.entry(of[1]).or_default() |= other.encloses(request);
                }
                for (front, is_enclosed) in enclosed {
                    let part = parts.entry([front, ends[1]]).or_default();
                    if is_enclosed {
                        part.relayed.insert(*payload);
                        part.enclosed += 1;
                    } else {
                        part.alone += 1;
                    }
                }
            }
        }
        let is_relayed =
            |part: &RelayedPart| part.relayed.len() >= limits::RELAYED_KINDS && part.enclosed >= 9 * part.alone;
        parts.into_iter().filter(|(_, part)| is_relayed(part)).map(|([front, _], _)| front).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRONT: u16 = 6432;
    const BACK: u16 = 5432;

    /// Adds requests to a server: for each payload, when it was sent and answered.
    fn add(all: &mut RelayedRequests, ports: [u16; 2], requests: impl Iterator<Item = (u64, u64, u64)>) {
        let request = |(payload, from_ns, to_ns)| AnsweredRequest { payload, from_ns, to_ns: Some(to_ns) };
        let later = requests.map(request).collect();
        all.add(ports.map(|port| ([10, 0, 0, 1], port).into()), &FirstRequests { first: None, later });
    }

    /// Returns the ports of relays, if the back is sent `count` requests, each `after` nanoseconds after the front.
    fn relays(count: u64, after: impl Fn(u64) -> u64) -> Vec<u16> {
        let mut all = RelayedRequests::default();
        add(&mut all, [40_000, FRONT], (0..count).map(|of| (of, 100 * of, 100 * of + 50)));
        add(&mut all, [40_001, BACK], (0..count).map(|of| (of, 100 * of + after(of), 100 * of + after(of) + 20)));
        all.relays().iter().map(SocketAddr::port).collect()
    }

    #[test]
    fn a_server_is_a_relay_if_its_requests_go_on_before_it_answers() {
        assert_eq!(relays(8, |_| 10), [FRONT]);
        // Sent to the other one afterwards, or to both at once.
        assert_eq!(relays(8, |_| 60), [0; 0]);
        assert_eq!(relays(8, |of| if of % 2 == 0 { 10 } else { 40 }), [0; 0]);
        // As two connections of one driver start.
        assert_eq!(relays(3, |_| 10), [0; 0]);
    }

    #[test]
    fn the_same_request_again_and_again_proves_nothing() {
        let mut all = RelayedRequests::default();
        for (ports, start) in [([40_000, FRONT], 0), ([40_001, BACK], 10)] {
            add(&mut all, ports, (0..60).map(|of| (0, 100 * of + start, 100 * of + 50 - start)));
        }
        assert!(all.relays().is_empty());
    }
}
