//! Connections that were met in their midst: whether answers are those to the requests that they are paired with.
//!
//! Where answers come in the order of their requests and say nothing of them, an answer to a request that was not captured goes to the
//! next one, and so does each that follows until the client waits for all. An answer too many tells; so does a client that never waits,
//! of which nothing can be told.

use super::{Flow, Stage};
use overhead_decode::Note;
use overhead_model::{Protocol, Side};

/// What is known of the pairing on such a connection.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Midst {
    /// A request that was seen has its answer, or that of another.
    is_paired: bool,
    /// All requests that were seen were answered at some time.
    is_drained: bool,
}

/// What the books have come to before a segment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Before {
    operations: u64,
    unmatched: u64,
}

impl Midst {
    /// Returns what there is to watch on a connection of `protocol`: nothing where more than their order tells which answer is whose,
    /// or servers may speak first.
    pub fn of(protocol: Protocol) -> Option<Self> {
        matches!(protocol, Protocol::Resp | Protocol::Memcache | Protocol::Ssdb).then(Self::default)
    }
}

impl Flow {
    /// Returns what is to be compared behind a segment of `side`; `None` where nothing is.
    #[inline]
    pub(super) fn before(&self, side: Side) -> Option<Before> {
        if side == Side::Request || self.midst.is_none() {
            return None;
        }
        Some(Before { operations: self.book.operations(), unmatched: self.book.unmatched() })
    }

    /// Returns whether what is watched can only be told by answers without a request from here on, which no turn has.
    #[inline]
    pub(super) fn is_past_midst(&self) -> bool {
        let is_known = |midst: Midst| midst.is_paired && midst.is_drained;
        matches!(self.stage, Stage::Decoding(_)) && self.midst.is_none_or(is_known)
    }

    /// A segment of the server was taken in.
    #[cold]
    pub(super) fn compare(&mut self, before: Before) {
        // What was lost leaves answers alone, too.
        let is_whole = self.counts.snapped_bytes() == 0 && self.halves.iter().all(|half| half.hole_bytes() == 0);
        let Some(midst) = self.midst.as_mut().filter(|_| is_whole) else { return self.midst = None };
        midst.is_paired |= self.book.operations() > before.operations;
        midst.is_drained |= self.book.outstanding() == 0;
        if midst.is_paired && self.book.unmatched() > before.unmatched {
            self.book.note_once(Note::Shifted);
        }
    }

    /// The connection is over.
    pub(super) fn leave_midst(&mut self) {
        if self.midst.is_some_and(|midst| midst.is_paired && !midst.is_drained) {
            self.book.note_once(Note::Shifted);
        }
    }
}
