//! The bytes of one direction between their arrival and their posting.

use crate::limits;
use std::collections::VecDeque;

/// What is known of the value of a byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// It was captured.
    Captured,
    /// It is known in clear; on the wire it is encrypted.
    Decrypted,
    /// It was on the wire, and not captured: snapped.
    Snapped,
    /// It is in no captured frame.
    Gap,
    /// It was captured, and not kept because the operation is longer than [`limits::EXPLAINED_BYTES`].
    NotKept,
}

impl Seen {
    /// Its value is known.
    pub fn is_at_hand(self) -> bool {
        matches!(self, Self::Captured | Self::Decrypted)
    }
}

/// Bytes of one direction that are not posted yet.
#[derive(Debug, Default)]
pub struct UnpostedStream {
    bytes: VecDeque<u8>,
    runs: VecDeque<(Seen, u64)>,
    /// How many were posted.
    pub posted: u64,
}

/// Neighbouring bytes of which the same is known; `bytes` has them where they are known.
#[derive(Debug)]
pub struct DecodedRun {
    /// What is known.
    pub seen: Seen,
    /// How many.
    pub len: u64,
    /// The bytes, where they are known.
    pub bytes: Vec<u8>,
}

impl UnpostedStream {
    /// Takes in bytes, and then `opaque` more that were not captured.
    pub fn push(&mut self, bytes: &[u8], opaque: u64) {
        let room = usize::try_from(limits::MESSAGE_BUFFER).unwrap_or(usize::MAX).saturating_sub(self.bytes.len());
        let (kept, beyond) = bytes.split_at(bytes.len().min(room));
        self.bytes.extend(kept);
        for (seen, len) in
            [(Seen::Captured, kept.len() as u64), (Seen::NotKept, beyond.len() as u64), (Seen::Snapped, opaque)]
        {
            match self.runs.back_mut() {
                Some((last, count)) if *last == seen => *count += len,
                _ if len > 0 => self.runs.push_back((seen, len)),
                _ => {}
            }
        }
    }

    /// Replaces what lies `ahead` bytes further on by what it is in clear, if all of it was captured.
    pub fn decrypt(&mut self, mut ahead: u64, clear: &[u8]) {
        let len = clear.len() as u64;
        let mut at_hand = 0;
        for index in 0..self.runs.len() {
            let Some(&(seen, run)) = self.runs.get(index) else { return };
            if ahead >= run {
                ahead -= run;
                at_hand += if seen.is_at_hand() { run } else { 0 };
                continue;
            }
            if seen != Seen::Captured || ahead + len > run {
                return;
            }
            let start = usize::try_from(at_hand + ahead).unwrap_or(usize::MAX);
            self.bytes.iter_mut().skip(start).zip(clear).for_each(|(byte, clear)| *byte = *clear);
            let parts = [(seen, ahead), (Seen::Decrypted, len), (seen, run - ahead - len)];
            let after = self.runs.split_off(index + 1);
            self.runs.truncate(index);
            self.runs.extend(parts.into_iter().filter(|(_, len)| *len > 0).chain(after));
            return;
        }
    }

    /// Passes over `len` bytes, and hands them to `keep` run by run.
    pub fn take(&mut self, mut len: u64, mut keep: impl FnMut(u64, DecodedRun)) {
        while len > 0 {
            let Some((seen, left)) = self.runs.front_mut() else { return };
            let taken = len.min(*left);
            let seen = *seen;
            *left -= taken;
            if *left == 0 {
                self.runs.pop_front();
            }
            let at_hand = if seen.is_at_hand() { usize::try_from(taken).unwrap_or(usize::MAX) } else { 0 };
            let bytes = self.bytes.drain(..at_hand.min(self.bytes.len())).collect();
            keep(self.posted, DecodedRun { seen, len: taken, bytes });
            self.posted += taken;
            len -= taken;
        }
    }
}
