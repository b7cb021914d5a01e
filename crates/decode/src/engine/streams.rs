//! What the engine keeps of the two streams between calls.

use crate::{Note, OpId, Out, Reader, limits};
use overhead_model::{Account, Outcome};

/// The state of both directions.
#[derive(Debug)]
pub struct StreamStates(pub(super) [StreamState; 2]);

#[derive(Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact about the stream, independent of the others")]
pub(super) struct StreamState {
    pub state: StreamSync,
    /// Captured start of the current message.
    pub tail: Vec<u8>,
    /// Unreadable bytes of that message after `tail`.
    pub opaque: u64,
    /// Length of the current message, if known.
    pub need: Option<u64>,
    /// Operation that the decoder charges.
    pub current: Option<OpId>,
    /// Unmatched operation that receives undecoded bytes until a boundary is found.
    pub stretch: Option<OpId>,
    /// A boundary was lost earlier, so the current one may be false.
    pub doubtful: bool,
    /// The search starts behind a hole that no captured message reached into.
    pub is_at_hole: bool,
    /// Decoding already failed at this position during a search.
    pub tried: bool,
    /// The other side sent bytes, or bytes were lost: the next byte starts a turn.
    pub turns: bool,
    /// Start of a turn, relative to the current position, during a search.
    pub turn: Option<usize>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum StreamSync {
    /// At a message boundary, or within a message whose start was seen.
    #[default]
    Synced,
    /// Looking for a boundary: the capture started mid-connection, or bytes were lost.
    Searching,
    /// Not this protocol: nothing more is decoded.
    Dead,
}

impl StreamStates {
    pub fn new(mid_stream: bool) -> Self {
        let state = if mid_stream { StreamSync::Searching } else { StreamSync::Synced };
        let stream = || StreamState { state, turns: true, ..StreamState::default() };
        Self([stream(), stream()])
    }

    /// Returns how many bytes of incomplete messages are kept.
    pub fn held(&self) -> usize {
        self.0.iter().map(|stream| stream.tail.capacity()).sum()
    }

    /// Returns whether both directions are at the end of a message.
    #[inline]
    pub(super) fn is_settled(&self) -> bool {
        let is_settled = |stream: &StreamState| {
            let StreamState { state, tail, opaque, need, stretch, tried, .. } = stream;
            *state == StreamSync::Synced
                && tail.is_empty()
                && *opaque == 0
                && need.is_none()
                && stretch.is_none()
                && !tried
        };
        self.0.iter().all(is_settled)
    }

    pub fn shrink(&mut self) {
        self.0.iter_mut().for_each(|stream| stream.tail.shrink_to_fit());
    }
}

impl StreamState {
    pub fn clear(&mut self) {
        self.tail.clear();
        self.opaque = 0;
        self.need = None;
    }

    /// Adds up to `n` unreadable bytes to the current message and returns how many it took.
    pub fn extend_opaque(&mut self, n: u64) -> u64 {
        let missing = self.need.unwrap_or(0).saturating_sub(self.tail.len() as u64 + self.opaque);
        let taken = n.min(missing);
        self.opaque += taken;
        taken
    }

    /// Keeps bytes of an incomplete message, up to the limit.
    pub fn keep<R: Reader>(&mut self, bytes: &[u8], out: &mut Out<'_, R>) {
        let room = usize::try_from(limits::MESSAGE_BUFFER).unwrap_or(usize::MAX).saturating_sub(self.tail.len());
        let kept = bytes.len().min(room);
        self.tail.extend_from_slice(bytes.get(..kept).unwrap_or_default());
        let beyond = (bytes.len() - kept) as u64;
        if beyond > 0 && self.opaque == 0 {
            out.note(Note::LongMessage);
        }
        self.opaque += beyond;
    }

    /// Posts `n` bytes to `unknown` of the unmatched operation and returns `n`.
    #[cold]
    pub fn strand<R: Reader>(&mut self, name: &str, n: u64, out: &mut Out<'_, R>) -> u64 {
        if n > 0 {
            match self.stretch {
                Some(op) => out.charge(op),
                None => self.stretch = Some(out.orphan(name)),
            }
            out.post(Account::Unknown, "undecoded", n);
        }
        n
    }

    pub fn end_stretch<R: Reader>(&mut self, out: &mut Out<'_, R>) {
        out.release();
        if let Some(op) = self.stretch.take() {
            out.close(op, Outcome::NoReply);
        }
    }
}
