//! Joins the connections on both sides of an address translation.

use super::Connections;
use super::entry::ConnectionEntry;
use crate::packet::Segment;
use crate::table::{ConnectionKey, KeptEntry};
use overhead_model::Tally;
use std::net::SocketAddr;

impl<T: Tally> Connections<T> {
    /// Returns a segment with the addresses of its ends as if none had been translated.
    pub(super) fn original<'a>(&mut self, segment: &Segment<'a>, clock_ns: u64) -> Segment<'a> {
        let original = self.translations.original(segment);
        let is_translated = [original.source, original.destination] != [segment.source, segment.destination];
        if !is_translated || !segment.flags.syn || segment.flags.ack {
            return original;
        }
        // A new connection may be translated otherwise.
        let (key, _) = ConnectionKey::new(original.source, original.destination);
        let entry = self.flows.get(&key);
        if entry.is_some_and(|entry| !entry.is_gone(clock_ns) && !entry.flow.is_succeeded_by(&original)) {
            return original;
        }
        self.translations.forget([segment.source, segment.destination]);
        *segment
    }

    /// Joins them at a copy of a segment that was first captured on the other side of a translation. Returns whether to handle the copy
    /// instead of the first one, because only the copy's side is selected.
    #[cold]
    pub(super) fn join(&mut self, copy: &Segment<'_>, first: [SocketAddr; 2]) -> bool {
        let second = [copy.source, copy.destination];
        let [first_ends, second_ends] = [first, second].map(|ends| self.translations.original_ends(ends));
        if first_ends == second_ends {
            return false;
        }
        let [first_key, second_key] =
            [first_ends, second_ends].map(|[source, destination]| ConnectionKey::new(source, destination).0);
        let known = self.flows.get(&first_key).map(|entry| first_ends[0] == entry.flow.ends[0]);
        let from_client = known.unwrap_or_else(|| {
            let server_port = self.selection.judge(copy).server_port;
            server_port.map_or(copy.flags.syn && !copy.flags.ack, |port| port == copy.destination.port())
        });
        // Requests reach the server last, and replies leave it first.
        let joined = if from_client { [first_ends[0], second_ends[1]] } else { [second_ends[1], first_ends[0]] };
        let mut entries = [first_key, second_key].map(|key| self.flows.remove(&key));
        let is_selected =
            |entry: &Option<KeptEntry<ConnectionEntry>>| entry.as_ref().is_some_and(|entry| entry.1.selected);
        if is_selected(&entries[1]) && !is_selected(&entries[0]) {
            entries.swap(0, 1);
        }
        let is_wanted = !is_selected(&entries[0]) && !self.selection.judge(copy).candidates.is_empty();
        let [kept, given_up] = entries;
        let (kept, ended) = if is_wanted { (None, [kept, given_up]) } else { (kept, [None, given_up]) };
        ended.into_iter().flatten().for_each(|mut entry| self.end(&mut entry.1));
        self.translations.add([first_ends, second_ends], from_client, joined);
        if let Some(mut kept) = kept {
            let entry = &mut kept.1;
            entry.announce(&mut self.tally);
            entry.release_all(|_| None, &mut self.tally);
            entry.flow.rename(joined);
            let (number, key) = (entry.number, ConnectionKey::new(joined[0], joined[1]).0);
            let queue = if entry.selected { &mut self.half_open } else { &mut self.unselected };
            queue.push_back((number, key));
            kept.0 = key;
            self.flows.insert(kept);
        }
        is_wanted
    }
}
