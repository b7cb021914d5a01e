//! Holds TLS library calls that come before the packets that carry their data.

use crate::limits;
use overhead_decode::FastMap;
use overhead_model::CallPart;
use std::collections::VecDeque;
use std::hash::Hash;
use std::net::SocketAddr;

#[derive(Clone, Debug)]
pub struct EarlyPart {
    pub sender: SocketAddr,
    pub sent: bool,
    pub sequence: [u32; 2],
    pub call_start: u64,
    pub call_len: u64,
    pub before: u64,
    pub len: u32,
    pub bytes: Vec<u8>,
    clock_ns: u64,
}

#[derive(Debug)]
pub struct EarlyCalls<K> {
    parts: FastMap<K, VecDeque<EarlyPart>>,
    held: usize,
    given_up: u64,
}

impl<K> Default for EarlyCalls<K> {
    fn default() -> Self {
        Self { parts: FastMap::default(), held: 0, given_up: 0 }
    }
}

impl<K: Copy + Eq + Hash> EarlyCalls<K> {
    /// Adds a part. If too much is waiting, gives up old parts first.
    pub fn add(&mut self, key: K, part: &CallPart<'_>, clock_ns: u64) {
        if self.held > limits::CLEAR_BYTES || self.parts.len() > limits::EARLY_CONNECTIONS {
            self.give_up(clock_ns);
        }
        let CallPart { sender, sent, sequence, call_start, call_len, before, len, bytes, .. } = *part;
        let bytes = bytes.to_vec();
        self.held += bytes.len();
        let part = EarlyPart { sender, sent, sequence, call_start, call_len, before, len, bytes, clock_ns };
        self.parts.entry(key).or_default().push_back(part);
    }

    #[inline]
    pub fn has(&self, key: &K) -> bool {
        !self.parts.is_empty() && self.parts.contains_key(key)
    }

    /// Hands a connection's parts to `take`, in order, until it rejects one.
    pub fn deliver(&mut self, key: &K, mut take: impl FnMut(&EarlyPart) -> bool) {
        let Some(parts) = self.parts.get_mut(key) else { return };
        while let Some(part) = parts.pop_front_if(|part| take(part)) {
            self.held -= part.bytes.len();
        }
        if parts.is_empty() {
            self.parts.remove(key);
        }
    }

    /// Returns how many bytes no connection has taken.
    pub fn bytes(&self) -> u64 {
        self.given_up + self.parts.values().flatten().map(|part| u64::from(part.len)).sum::<u64>()
    }

    /// Forgets the parts of connections whose first part is old.
    fn give_up(&mut self, clock_ns: u64) {
        let is_old = |part: &EarlyPart| clock_ns.saturating_sub(part.clock_ns) > limits::EARLY_NS;
        let (held, given_up) = (&mut self.held, &mut self.given_up);
        let room = *held <= 2 * limits::CLEAR_BYTES;
        self.parts.retain(|_, parts| {
            let keeps = room && !parts.front().is_some_and(is_old);
            if !keeps {
                *held -= parts.iter().map(|part| part.bytes.len()).sum::<usize>();
                *given_up += parts.iter().map(|part| u64::from(part.len)).sum::<u64>();
            }
            keeps
        });
    }
}
