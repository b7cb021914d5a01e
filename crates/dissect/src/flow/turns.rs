//! Keeps each learnt turn once: the connections of a service mostly have the same ones.

use super::turn::{Turn, TurnFrames};
use crate::packet::PlainSegment;
use overhead_decode::FastMap;
use overhead_model::Side;
use std::hash::{BuildHasher, DefaultHasher, Hasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Most shared turns: with eight each, enough for 250 connections that have none in common.
const MOST: usize = 2048;
/// Most turns that start alike, in any state.
const ALIKE: usize = 16;
/// Most different starts.
const COMMON: usize = 512;

/// The turns that connections share.
#[derive(Clone, Debug, Default)]
pub struct SharedTurns(Arc<SharedTurnsInner>);

#[derive(Debug, Default)]
struct SharedTurnsInner {
    store: Mutex<TurnStore>,
    seed: RandomState,
}

#[derive(Debug, Default)]
struct TurnStore {
    all: FastMap<u64, Arc<Turn>>,
    /// Turns that leave the decoder's state unchanged, with that state, by their beginning.
    by_start: FastMap<u32, Vec<(State, Arc<Turn>)>>,
}

/// A hash of the decoder state that connections of a protocol may share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct State(u64);

/// Returns the direction and payload length at the start of a turn, as one number.
#[inline]
pub fn looks(side: Side, payload_len: usize) -> u32 {
    (payload_len as u32) << 1 | side as u32
}

impl SharedTurns {
    fn store(&self) -> MutexGuard<'_, TurnStore> {
        self.0.store.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns an equal shared turn, or shares this one if there is room.
    pub fn share(&self, turn: Turn) -> Arc<Turn> {
        let mut store = self.store();
        let turns = &mut store.all;
        let hash = turns.hasher().hash_one(&turn);
        if let Some(known) = turns.get(&hash).filter(|known| ***known == turn) {
            return Arc::clone(known);
        }
        if turns.len() >= MOST {
            // Drop turns that every connection has forgotten.
            turns.retain(|_, turn| Arc::strong_count(turn) > 1);
        }
        let turn = Arc::new(turn);
        if turns.len() < MOST {
            turns.insert(hash, Arc::clone(&turn));
        }
        turn
    }

    pub fn state(&self, feed: impl FnOnce(&mut DefaultHasher) -> bool) -> Option<State> {
        let mut hasher = self.0.seed.build_hasher();
        feed(&mut hasher).then(|| State(hasher.finish()))
    }

    /// Offers a turn that starts and ends in this state to all connections in it.
    pub fn publish(&self, state: State, turn: &Arc<Turn>) {
        let mut store = self.store();
        let by_start = &mut store.by_start;
        let Some((side, len)) = turn.start().filter(|_| by_start.len() < COMMON) else { return };
        let alike = by_start.entry(looks(side, len)).or_default();
        if alike.len() < ALIKE && !alike.iter().any(|(of, known)| *of == state && Arc::ptr_eq(known, turn)) {
            alike.push((state, Arc::clone(turn)));
        }
    }

    /// Returns a turn learnt in the same state that starts with these frames and this one. Calls `state` only if such a turn exists in any
    /// state.
    pub fn like(
        &self,
        before: &TurnFrames,
        (side, bare): (Side, &PlainSegment<'_>),
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

    pub fn clear(&self) {
        let mut store = self.store();
        (store.all, store.by_start) = (FastMap::default(), FastMap::default());
    }
}
