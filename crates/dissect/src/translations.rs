//! Address translations on the way of connections that were captured on both sides of it.

use crate::limits;
use crate::packet::Segment;
use crate::table::ConnectionKey;
use overhead_decode::Note;
use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;

/// Translations that a connection may pass.
const MOST_PASSED: usize = 4;

/// The own addresses of the ends of translated connections.
#[derive(Debug, Default)]
pub struct Translations {
    sides: HashMap<ConnectionKey, TranslatedSide>,
    /// Connections by the server's address that clients use, and its own.
    servers: BTreeMap<[SocketAddr; 2], u64>,
}

#[derive(Clone, Copy, Debug)]
struct TranslatedSide {
    /// The client's address on this side.
    client: SocketAddr,
    /// The ends on a side nearer to both of them, client first: their own addresses, or translated again.
    nearer: [SocketAddr; 2],
}

impl Translations {
    /// Records that connections between the ends of these `sides`, source and destination of a segment each, are one.
    pub fn add(&mut self, sides: [[SocketAddr; 2]; 2], from_client: bool, original: [SocketAddr; 2]) {
        if self.sides.len() >= limits::TRANSLATIONS {
            self.sides.clear();
        }
        for mut ends in sides {
            if !from_client {
                ends.swap(0, 1);
            }
            let [client, server] = ends;
            let renamed = [server, original[1]];
            if server != original[1]
                && (self.servers.len() < limits::TRANSLATED_SERVERS || self.servers.contains_key(&renamed))
            {
                *self.servers.entry(renamed).or_default() += 1;
            }
            if ends != original {
                self.sides.insert(ConnectionKey::new(client, server).0, TranslatedSide { client, nearer: original });
            }
        }
    }

    /// Forgets how this side is translated: its ports are used again.
    pub fn forget(&mut self, [source, destination]: [SocketAddr; 2]) {
        self.sides.remove(&ConnectionKey::new(source, destination).0);
    }

    /// Returns the segment between the ends' own addresses.
    pub fn original<'a>(&self, segment: &Segment<'a>) -> Segment<'a> {
        let [source, destination] = self.original_ends([segment.source, segment.destination]);
        Segment { source, destination, ..*segment }
    }

    /// Returns the own addresses of a segment's source and destination.
    pub fn original_ends(&self, mut ends: [SocketAddr; 2]) -> [SocketAddr; 2] {
        if self.sides.is_empty() {
            return ends;
        }
        for _ in 0..MOST_PASSED {
            let [source, destination] = ends;
            let Some(side) = self.sides.get(&ConnectionKey::new(source, destination).0) else { break };
            let [client, server] = side.nearer;
            ends = if side.client == source { [client, server] } else { [server, client] };
        }
        ends
    }

    /// Returns a note for each server whose address was translated.
    pub fn notes(self) -> impl Iterator<Item = (Note, u64)> {
        self.servers.into_iter().map(|([from, to], count)| (Note::Translated { from, to }, count))
    }
}
