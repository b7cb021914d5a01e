//! Stores connections by their two ends.

use hashbrown::HashTable;
use std::hash::{BuildHasher, Hash, Hasher};
use std::net::SocketAddr;

/// Recently looked-up places to remember: 4 KiB.
const NEAR: usize = 1024;

/// Both ends of a connection as words, the lesser first, whichever sends. IPv4 addresses and ports fill only the first two.
#[derive(Clone, Copy, Debug, Eq)]
pub struct ConnectionKey([u64; 5]);

impl PartialEq for ConnectionKey {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        // Compare words: comparing bytes would be a call.
        let [words, of_words] = [self.0, other.0].map(|[a, b, c, d, ports]| (a, b, ports, c, d));
        words == of_words
    }
}

impl ConnectionKey {
    /// Returns the key of two IPv4 ends, each in a word, and whether the first is the lesser.
    #[inline]
    pub fn from_words([a, b]: [u64; 2]) -> (Self, bool) {
        (Self([a.min(b), a.max(b), 0, 0, 0]), a <= b)
    }

    /// Returns the key of any two ends, and whether the first is the lesser.
    pub fn new(a: SocketAddr, b: SocketAddr) -> (Self, bool) {
        if let (SocketAddr::V4(a), SocketAddr::V4(b)) = (a, b) {
            return Self::from_words([a, b].map(|end| u64::from(end.ip().to_bits()) << 16 | u64::from(end.port())));
        }
        let end = |end: SocketAddr| match end {
            SocketAddr::V4(end) => (u128::from(end.ip().to_bits()), end.port()),
            SocketAddr::V6(end) => (end.ip().to_bits(), end.port()),
        };
        let (a, b) = (end(a), end(b));
        let is_lesser = a <= b;
        let (a, b) = (a.min(b), a.max(b));
        let ports = 1 << 32 | u64::from(a.1) << 16 | u64::from(b.1);
        (Self([(a.0 >> 64) as u64, a.0 as u64, (b.0 >> 64) as u64, b.0 as u64, ports]), is_lesser)
    }

    /// Returns the index in `near`. Consecutive ports, as clients use them, get neighbouring indices.
    #[inline]
    fn near(&self) -> usize {
        let all = self.0.iter().fold(0, |all, word| all ^ word);
        (all ^ all >> 16) as usize % NEAR
    }
}

impl Hash for ConnectionKey {
    #[inline]
    fn hash<H: Hasher>(&self, state: &mut H) {
        let [a, b, rest @ ..] = self.0;
        state.write_u64(a);
        state.write_u64(b);
        if rest[2] != 0 {
            for word in rest {
                state.write_u64(word);
            }
        }
    }
}

/// An entry with its key, which stays where it is: entries are large.
pub type KeptEntry<E> = Box<(ConnectionKey, E)>;

/// An entry for each connection. The captured parties may choose the keys, so hash seeds are random.
///
/// Few connections have most of the frames, so the places of recent look-ups are remembered and checked without hashing.
#[derive(Debug)]
pub struct ConnectionTable<E> {
    /// Indices into `kept`, hashed by key.
    places: HashTable<u32>,
    kept: Vec<Option<KeptEntry<E>>>,
    free: Vec<u32>,
    near: Box<[u32; NEAR]>,
    seed: foldhash::fast::RandomState,
}

impl<E> Default for ConnectionTable<E> {
    fn default() -> Self {
        Self {
            places: HashTable::new(),
            kept: Vec::new(),
            free: Vec::new(),
            near: Box::new([0; NEAR]),
            seed: foldhash::fast::RandomState::default(),
        }
    }
}

impl<E> ConnectionTable<E> {
    pub fn len(&self) -> usize {
        self.places.len()
    }

    pub fn get(&self, key: &ConnectionKey) -> Option<&E> {
        let place = self.find(key)?;
        kept_at(&self.kept, place).map(|(_, entry)| entry)
    }

    /// Returns a connection's entry mutably. Fastest for one that was looked up or inserted lately.
    #[inline(always)]
    pub fn get_mut(&mut self, key: &ConnectionKey) -> Option<&mut E> {
        let near = *self.near.get(key.near())?;
        let place = if is_of(&self.kept, near, key) { near } else { self.look_up(key)? };
        self.kept.get_mut(place as usize)?.as_deref_mut().map(|(_, entry)| entry)
    }

    pub fn insert(&mut self, entry: KeptEntry<E>) {
        let key = entry.0;
        let place = self.free.pop().unwrap_or(self.kept.len() as u32);
        match self.kept.get_mut(place as usize) {
            Some(free) => *free = Some(entry),
            None => self.kept.push(Some(entry)),
        }
        let Self { places, kept, near, seed, .. } = self;
        if let Some(near) = near.get_mut(key.near()) {
            *near = place;
        }
        let hash = |key: &ConnectionKey| seed.hash_one(key);
        places.insert_unique(hash(&key), place, |place| kept_at(kept, *place).map_or(0, |(of, _)| hash(of)));
    }

    pub fn remove(&mut self, key: &ConnectionKey) -> Option<KeptEntry<E>> {
        self.remove_if(key, |_| true)
    }

    /// Removes and returns the entry of a connection if it `is_due`.
    pub fn remove_if(&mut self, key: &ConnectionKey, is_due: impl FnOnce(&E) -> bool) -> Option<KeptEntry<E>> {
        let Self { places, kept, seed, .. } = self;
        let found = places.find_entry(seed.hash_one(key), |place| is_of(kept, *place, key)).ok()?;
        kept_at(kept, *found.get()).filter(|(_, entry)| is_due(entry))?;
        let (place, _) = found.remove();
        self.free.push(place);
        self.kept.get_mut(place as usize)?.take()
    }

    /// Returns all entries, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (&ConnectionKey, &E)> {
        self.kept.iter().flatten().map(|of| (&of.0, &of.1))
    }

    /// Returns all entries mutably, in no order.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut E> {
        self.kept.iter_mut().flatten().map(|of| &mut of.1)
    }

    /// Removes and returns all entries, in no order.
    pub fn drain(&mut self) -> Vec<KeptEntry<E>> {
        std::mem::take(self).kept.into_iter().flatten().collect()
    }

    fn find(&self, key: &ConnectionKey) -> Option<u32> {
        self.places.find(self.seed.hash_one(key), |place| is_of(&self.kept, *place, key)).copied()
    }

    /// Looks up a connection whose place was not remembered, and remembers it.
    #[inline(never)]
    fn look_up(&mut self, key: &ConnectionKey) -> Option<u32> {
        let place = self.find(key)?;
        if let Some(near) = self.near.get_mut(key.near()) {
            *near = place;
        }
        Some(place)
    }
}

#[inline]
fn kept_at<E>(kept: &[Option<KeptEntry<E>>], place: u32) -> Option<&(ConnectionKey, E)> {
    kept.get(place as usize)?.as_deref()
}

/// Returns whether the entry at `place` has this key.
#[inline]
fn is_of<E>(kept: &[Option<KeptEntry<E>>], place: u32, key: &ConnectionKey) -> bool {
    kept_at(kept, place).is_some_and(|(of, _)| of == key)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    /// Ends of both families: few enough to repeat, and some share an index in `near`.
    fn key((family, from, to): (bool, u16, u16)) -> ConnectionKey {
        let end = |port: u16| -> SocketAddr {
            let address = if family { "::1".parse().unwrap() } else { std::net::Ipv4Addr::LOCALHOST.into() };
            SocketAddr::new(address, port % 4 * NEAR as u16 + port / 4)
        };
        ConnectionKey::new(end(from), end(to)).0
    }

    proptest! {
        #[test]
        fn it_keeps_what_a_map_keeps(steps in prop::collection::vec((0..4, (any::<bool>(), 0..9_u16, 0..9_u16)), 0..400)) {
            let (mut table, mut map) = (ConnectionTable::default(), BTreeMap::new());
            for (number, (step, ends)) in steps.into_iter().enumerate() {
                let key = key(ends);
                match step {
                    0 => prop_assert_eq!(table.remove(&key).map(|of| of.1), map.remove(&key.0)),
                    1 => prop_assert_eq!(table.get(&key), map.get(&key.0)),
                    _ => {
                        let kept = table.get_mut(&key).copied();
                        prop_assert_eq!(kept, map.get(&key.0).copied());
                        if kept.is_none() {
                            table.insert(Box::new((key, number)));
                            map.insert(key.0, number);
                        }
                    }
                }
                prop_assert_eq!(table.len(), map.len());
            }
            let found: BTreeMap<_, _> = table.iter().map(|(key, number)| (key.0, *number)).collect();
            prop_assert_eq!(found, map);
        }
    }

    #[test]
    fn both_directions_have_one_key() {
        for [a, b] in [["10.0.0.1:9", "10.0.0.2:1"], ["10.0.0.1:1", "10.0.0.1:9"], ["[::1]:9", "[::2]:1"]] {
            let (a, b): (SocketAddr, SocketAddr) = (a.parse().unwrap(), b.parse().unwrap());
            assert_eq!(
                (ConnectionKey::new(a, b), ConnectionKey::new(b, a).1),
                ((ConnectionKey::new(b, a).0, true), false)
            );
        }
    }
}
