//! Holds the bytes of one direction between arrival and posting.

use crate::limits;
use std::collections::VecDeque;

/// How much is known of a byte's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ByteVisibility {
    Captured,
    /// Known in clear text, but encrypted on the wire.
    Decrypted,
    /// On the wire, but cut off by the snap length.
    Snapped,
    Gap,
    /// Captured, but not kept because the operation is longer than [`limits::EXPLAINED_BYTES`].
    NotKept,
}

impl ByteVisibility {
    pub fn is_at_hand(self) -> bool {
        matches!(self, Self::Captured | Self::Decrypted)
    }
}

/// Bytes of one direction not posted yet.
#[derive(Debug, Default)]
pub struct UnpostedStream {
    bytes: VecDeque<u8>,
    runs: VecDeque<(ByteVisibility, u64)>,
    pub posted: u64,
}

/// Adjacent bytes with the same [`ByteVisibility`].
#[derive(Debug)]
pub struct DecodedRun {
    pub seen: ByteVisibility,
    pub len: u64,
    /// The bytes, if known.
    pub bytes: Vec<u8>,
}

impl UnpostedStream {
    /// Adds bytes, then `opaque` more that were not captured.
    pub fn push(&mut self, bytes: &[u8], opaque: u64) {
        let room = usize::try_from(limits::MESSAGE_BUFFER).unwrap_or(usize::MAX).saturating_sub(self.bytes.len());
        let (kept, beyond) = bytes.split_at(bytes.len().min(room));
        self.bytes.extend(kept);
        for (seen, len) in [
            (ByteVisibility::Captured, kept.len() as u64),
            (ByteVisibility::NotKept, beyond.len() as u64),
            (ByteVisibility::Snapped, opaque),
        ] {
            match self.runs.back_mut() {
                Some((last, count)) if *last == seen => *count += len,
                _ if len > 0 => self.runs.push_back((seen, len)),
                _ => {}
            }
        }
    }

    /// Replaces the bytes `ahead` of the next one with their clear text, if all of them were captured.
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
            if seen != ByteVisibility::Captured || ahead + len > run {
                return;
            }
            let start = usize::try_from(at_hand + ahead).unwrap_or(usize::MAX);
            self.bytes.iter_mut().skip(start).zip(clear).for_each(|(byte, clear)| *byte = *clear);
            let parts = [(seen, ahead), (ByteVisibility::Decrypted, len), (seen, run - ahead - len)];
            let after = self.runs.split_off(index + 1);
            self.runs.truncate(index);
            self.runs.extend(parts.into_iter().filter(|(_, len)| *len > 0).chain(after));
            return;
        }
    }

    /// Removes `len` bytes and hands them to `keep` run by run.
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
