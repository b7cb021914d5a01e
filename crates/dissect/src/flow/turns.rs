//! The turns that connections have learnt, each kept once: those of a service's connections are mostly the same.

use super::turn::Turn;
use overhead_decode::FastMap;
use std::hash::BuildHasher;
use std::sync::{Arc, Mutex, PoisonError};

/// Turns that are shared at most: with eight each, as many as five hundred connections have that have none in common.
const MOST: usize = 4096;

/// All of them, of one thread's connections, by their hashes.
#[derive(Clone, Debug, Default)]
pub struct Turns(Arc<Mutex<FastMap<u64, Arc<Turn>>>>);

impl Turns {
    /// Returns the turn as others have it, if they do; it is shared from now on, where there is room.
    pub fn share(&self, turn: Turn) -> Arc<Turn> {
        let mut turns = self.0.lock().unwrap_or_else(PoisonError::into_inner);
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
}
