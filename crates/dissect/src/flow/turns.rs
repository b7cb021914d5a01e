//! The turns that connections have learnt, each kept once: those of a service's connections are mostly the same.

use super::turn::{Frames, Turn};
use crate::packet::Bare;
use overhead_decode::FastMap;
use overhead_model::Side;
use std::hash::{BuildHasher, DefaultHasher, Hasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Turns that are shared at most: with eight each, as many as five hundred connections have that have none in common.
const MOST: usize = 4096;
/// Those that begin alike, in whichever state.
const ALIKE: usize = 16;
/// Beginnings of which there are some.
const COMMON: usize = 512;

/// All of them, of one thread's connections.
#[derive(Clone, Debug, Default)]
pub struct Turns(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    store: Mutex<Store>,
    /// States are hashed with it.
    seed: RandomState,
}

#[derive(Debug, Default)]
struct Store {
    /// By their hashes.
    all: FastMap<u64, Arc<Turn>>,
    /// Those that leave the decoder as it was, with its state, by how they begin.
    by_start: FastMap<u32, Vec<(State, Arc<Turn>)>>,
}

/// What connections of a protocol remember, where it is the same: a hash of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct State(u64);

/// Returns the direction and the length of the payload that a turn begins with.
#[inline]
pub fn looks(side: Side, payload_len: usize) -> u32 {
    (payload_len as u32) << 1 | side as u32
}

impl Turns {
    fn store(&self) -> MutexGuard<'_, Store> {
        self.0.store.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the turn as others have it, if they do; it is shared from now on, where there is room.
    pub fn share(&self, turn: Turn) -> Arc<Turn> {
        let mut store = self.store();
        let turns = &mut store.all;
        let hash = turns.hasher().hash_one(&turn);
        if let Some(known) = turns.get(&hash).filter(|known| ***known == turn) {
            return Arc::clone(known);
        }
        if turns.len() >= MOST {
            // Some may have been forgotten by all.
            turns.retain(|_, turn| Arc::strong_count(turn) > 1);
        }
        let turn = Arc::new(turn);
        if turns.len() < MOST {
            turns.insert(hash, Arc::clone(&turn));
        }
        turn
    }

    /// Returns the state that is fed.
    pub fn state(&self, feed: impl FnOnce(&mut DefaultHasher) -> bool) -> Option<State> {
        let mut hasher = self.0.seed.build_hasher();
        feed(&mut hasher).then(|| State(hasher.finish()))
    }

    /// A turn was learnt in a state, and ends in it: it holds for all connections in that state.
    pub fn publish(&self, state: State, turn: &Arc<Turn>) {
        let mut store = self.store();
        let by_start = &mut store.by_start;
        let Some((side, len)) = turn.start().filter(|_| by_start.len() < COMMON) else { return };
        let alike = by_start.entry(looks(side, len)).or_default();
        if alike.len() < ALIKE && !alike.iter().any(|(of, known)| *of == state && Arc::ptr_eq(known, turn)) {
            alike.push((state, Arc::clone(turn)));
        }
    }

    /// Returns a turn of a connection in the same state that these frames, and this one, are like the first ones of. The state is
    /// asked for where there is such a turn in any.
    pub fn like(
        &self,
        before: &Frames,
        (side, bare): (Side, &Bare<'_>),
        state: impl FnOnce() -> Option<State>,
    ) -> Option<Arc<Turn>> {
        let looks = match before.taken.first() {
            Some(first) => looks(first.side, first.len),
            None => looks(side, bare.payload.len()),
        };
        let fits = |turn: &Turn| turn.begins_with(before, side, bare);
        let store = self.store();
        let mut alike = store.by_start.get(&looks)?.iter().filter(|(_, turn)| fits(turn)).peekable();
        alike.peek()?;
        let state = state()?;
        alike.find_map(|(of, turn)| (*of == state).then(|| Arc::clone(turn)))
    }

    /// Forgets all.
    pub fn clear(&self) {
        let mut store = self.store();
        (store.all, store.by_start) = (FastMap::default(), FastMap::default());
    }
}
