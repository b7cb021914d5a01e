//! Address translations on the way of connections that were captured on both sides of it.

use crate::limits;
use crate::packet::Segment;
use crate::table::ConnectionKey;
use overhead_decode::Note;
use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;

/// What the ends of connections on one side of a translation are called.
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
    /// Each end's own address, client first.
    original: [SocketAddr; 2],
}

impl Translations {
    /// Records that connections between these `sides`, each given by a segment's source and destination, are one.
    pub fn add(&mut self, sides: [[SocketAddr; 2]; 2], from_client: bool, original: [SocketAddr; 2]) {
        if self.sides.len() >= limits::TRANSLATIONS {
            self.sides.clear();
        }
        let before = sides.map(|ends| self.original_ends(ends));
        for side in self.sides.values_mut().filter(|side| before.iter().any(|ends| side.is_between(*ends))) {
            side.original = original;
        }
        for mut ends in sides {
            if !from_client {
                ends.swap(0, 1);
            }
            let [client, server] = ends;
            if server != original[1]
                && (self.servers.len() < limits::TRANSLATED_SERVERS
                    || self.servers.contains_key(&[server, original[1]]))
            {
                *self.servers.entry([server, original[1]]).or_default() += 1;
            }
            self.sides.insert(ConnectionKey::of(client, server).0, TranslatedSide { client, original });
        }
    }

    /// Returns the segment between the ends' own addresses.
    pub fn original<'a>(&self, segment: &Segment<'a>) -> Segment<'a> {
        let [source, destination] = self.original_ends([segment.source, segment.destination]);
        Segment { source, destination, ..*segment }
    }

    /// Returns the own addresses of a segment's source and destination.
    pub fn original_ends(&self, ends: [SocketAddr; 2]) -> [SocketAddr; 2] {
        if self.sides.is_empty() {
            return ends;
        }
        let [source, destination] = ends;
        match self.sides.get(&ConnectionKey::of(source, destination).0) {
            None => ends,
            Some(side) if side.client == source => side.original,
            Some(side) => [side.original[1], side.original[0]],
        }
    }

    /// Returns a note for each server whose address was translated.
    pub fn notes(self) -> impl Iterator<Item = (Note, u64)> {
        self.servers.into_iter().map(|([from, to], count)| (Note::Translated { from, to }, count))
    }
}

impl TranslatedSide {
    fn is_between(&self, ends: [SocketAddr; 2]) -> bool {
        let [client, server] = self.original;
        ends == [client, server] || ends == [server, client]
    }
}
