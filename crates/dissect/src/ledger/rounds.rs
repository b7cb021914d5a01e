//! Counts the client's waits for its server: round trips.
//!
//! The client starts a round trip when it sends after it has acknowledged a whole reply, or a whole step of a reply, to something that it
//! sent in the current one. Acknowledgment numbers decide, so the position of the tap does not matter.

use super::direction::LedgerDirection;
use overhead_decode::OpId;
use overhead_model::Outcome;

/// [`RoundTrips::reply_end`] until the first reply of the current round trip is complete.
const NO_REPLY_YET: u64 = u64::MAX;

/// Fewest overlapping round trips in a row that show a habit.
const OVERLAPPING: u64 = 20;

/// See [`RoundTrips::in_flight`].
const NONE_IN_FLIGHT: (usize, usize) = (usize::MAX, 0);

/// The current round trip of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RoundTrips {
    /// Distinguishes it from others, for [`super::ops::OpenOperation::round`].
    pub number: u64,
    /// Round trips counted so far.
    pub total: u64,
    /// Acknowledging the server's bytes before this offset completes it: the end of its first whole reply. 0 while no operation that needs
    /// a reply was sent in it.
    reply_end: u64,
    /// The server's bytes that were acknowledged at its start.
    acked_before: u64,
    /// The operation that it is counted for, while that is open.
    owner: Option<OpId>,
    /// Round trips that started while earlier requests waited for their replies, since none waited.
    overlapping: u64,
    /// Fewest and most requests in flight at the start of one of these.
    in_flight: (usize, usize),
}

impl Default for RoundTrips {
    fn default() -> Self {
        Self {
            number: 1,
            total: 0,
            reply_end: 0,
            acked_before: 0,
            owner: None,
            overlapping: 0,
            in_flight: NONE_IN_FLIGHT,
        }
    }
}

/// What the end of an operation means for the round trips it is counted for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RoundTripChange {
    None,
    /// The current one is counted for it from now on.
    Gained,
    /// The current one is not counted for it any more.
    Lost,
}

impl RoundTrips {
    /// Takes in bytes that the client sends to `op` after it has acknowledged `acked` bytes of the server. Returns whether they start a
    /// round trip, which is counted for `op` unless it needs no reply. `outstanding` operations are open, this one included.
    #[inline]
    pub fn sent(&mut self, op: OpId, acked: u64, replies: &LedgerDirection, outstanding: usize) -> bool {
        let answers_step =
            || acked >= replies.posted && replies.posted > self.acked_before && replies.is_last_owner(op);
        let starts = acked >= self.reply_end || answers_step();
        if starts {
            self.number += 1;
            self.total += 1;
            self.overlap(outstanding);
            (self.reply_end, self.acked_before, self.owner) = (NO_REPLY_YET, acked, Some(op));
        }
        starts
    }

    /// Takes in the end of an operation whose latest bytes were sent in the round trip with this number.
    #[inline]
    pub fn closed(&mut self, op: OpId, round: u64, outcome: Outcome, replies: &LedgerDirection) -> RoundTripChange {
        if round != self.number {
            return RoundTripChange::None;
        }
        let is_owner = self.owner.take_if(|owner| *owner == op).is_some();
        // The last flight of a TLS handshake is part of an answered operation, and needs no reply.
        let is_replied = outcome == Outcome::Unanswered || replies.posted > self.acked_before;
        // What is not decoded counts as no reply, whatever the server sent for it.
        let needs_none = outcome == Outcome::NoReply && !replies.is_last_owner(op);
        if needs_none || !is_replied {
            if !is_owner {
                return RoundTripChange::None;
            }
            self.total -= 1;
            self.reply_end = 0;
            return RoundTripChange::Lost;
        }
        let is_vacant = self.reply_end == 0;
        if is_vacant || self.reply_end == NO_REPLY_YET {
            self.reply_end = replies.posted.max(1);
        }
        self.total += u64::from(is_vacant);
        if is_vacant { RoundTripChange::Gained } else { RoundTripChange::None }
    }

    /// Takes in that a round trip starts with so many requests in flight. A turn that the memo repeats starts with one.
    #[inline]
    fn overlap(&mut self, outstanding: usize) {
        if outstanding > 1 {
            self.overlapping += 1;
            self.in_flight = (self.in_flight.0.min(outstanding), self.in_flight.1.max(outstanding));
        } else {
            (self.overlapping, self.in_flight) = (0, NONE_IN_FLIGHT);
        }
    }

    /// Returns whether the client has not waited for all replies for long, and has now few and now many requests in flight, so that it may
    /// send by a clock.
    #[inline]
    pub fn may_be_by_clock(&self) -> bool {
        let (fewest, most) = self.in_flight;
        self.overlapping >= OVERLAPPING && most >= 2 * fewest
    }

    /// Returns what a turn that started at `before` leaves behind: the distance of the end of the reply from the end of the server's bytes,
    /// and the round trips counted. `None` if the client sent nothing in it.
    pub fn since(&self, before: &Self, replies: &LedgerDirection) -> Option<RepeatedRoundTrips> {
        (self != before).then(|| RepeatedRoundTrips {
            reply_to_end: (self.reply_end != 0).then(|| replies.posted.saturating_sub(self.reply_end)),
            count: self.total - before.total,
        })
    }

    /// Adds the round trips of a turn's repetitions.
    pub fn repeat(&mut self, repeat: RepeatedRoundTrips, times: u64, replies: &LedgerDirection) {
        self.number += 1;
        self.total += repeat.count * times;
        self.owner = None;
        self.reply_end = repeat.reply_to_end.map_or(0, |to_end| (replies.posted - to_end).max(1));
    }
}

/// The round trips of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RepeatedRoundTrips {
    /// Distance from the end of the first whole reply in the last one to the end of the turn; `None` without a reply.
    reply_to_end: Option<u64>,
    count: u64,
}
