//! The requests of a connection that wait for answers, for protocols that answer in order.
//!
//! While nothing is lost, an answer belongs to the first request. Behind a hole, acknowledgments decide, because a request is sent with
//! all that its sender had received, and so is an answer:
//!
//! - A request that acknowledges bytes of the server is not answered by them.
//! - An answer that does not acknowledge a request does not answer it.
//! - Requests with the same acknowledgment were sent without waiting: a *flight*. A client that waits for the answers to a flight before
//!   it sends the next one has all answers to the flights before the last one that an answer may belong to.
//!
//! If these leave several requests, or requests that were lost, an answer is paired with none of them. Pairing resumes with the first
//! flight that is certain.

use crate::{DecodeStep, Malformed, Note, OpId, Out, Reader, limits};
use overhead_model::{Outcome, Side};
use std::collections::VecDeque;
use std::ops::Range;

/// A position in the stream of one side, and how much of the other stream its sender had received by then. Both are offsets in TCP streams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moment {
    pub at: u64,
    pub received: u64,
}

/// A request in a [`PendingRequests`].
pub trait PendingRequest {
    /// Returns its operation, or any number that the messages of one operation share.
    fn op(&self) -> OpId;
}

impl<T> PendingRequest for (OpId, T) {
    fn op(&self) -> OpId {
        self.0
    }
}

/// Bytes of the shortest answers: `:0` of Redis, `HD` of memcached, with their line ends.
const SHORTEST: u64 = 4;

/// Holes of the client's stream told apart.
const HOLES: usize = 16;

#[derive(Clone, Debug)]
pub struct PendingRequests<T> {
    /// The last client bytes of a request at that time.
    queue: VecDeque<(T, Moment)>,
    /// The client sent a request before the one before it was answered.
    pipelines: bool,
    /// It sent requests between the answers to earlier ones.
    overlaps: bool,
    /// An answer came since the queue was last empty.
    is_begun: bool,
    /// The last answer that was paired with no request, or while pairing was uncertain.
    heard: Moment,
    doubt: Option<Box<PairingDoubt>>,
}

/// What was lost since the last certain pairing.
#[derive(Clone, Debug, Default)]
struct PairingDoubt {
    /// End of the server's bytes before the first loss.
    since: u64,
    /// Bytes of the server, so that waiting requests may have been answered.
    answers: bool,
    /// Bytes of the client.
    requests: VecDeque<Range<u64>>,
    /// An answer before this offset could belong to several requests. Those sent before it stay without an answer.
    ambiguous: u64,
}

/// What the acknowledgments around an answer prove about the waiting requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PendingVerdict {
    /// How many of the first ones will have no answer.
    pub lost: usize,
    /// The answer belongs to the first one after these.
    pub is_paired: bool,
}

impl<T> Default for PendingRequests<T> {
    fn default() -> Self {
        Self {
            queue: VecDeque::new(),
            pipelines: false,
            overlaps: false,
            is_begun: false,
            heard: Moment::default(),
            doubt: None,
        }
    }
}

impl<T: PendingRequest> PendingRequests<T> {
    /// Has room for one request: most clients wait for each answer.
    pub fn with_room() -> Self {
        Self { queue: VecDeque::with_capacity(1), ..Self::default() }
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Returns whether no request waits and pairing is certain.
    #[inline]
    pub fn is_idle(&self) -> bool {
        self.queue.is_empty() && self.doubt.is_none()
    }

    #[inline]
    pub fn len(&self) -> usize {
        self.queue.len()
    }

    #[inline]
    pub fn front(&self) -> Option<&T> {
        self.queue.front().map(|(request, _)| request)
    }

    #[inline]
    pub fn front_mut(&mut self) -> Option<&mut T> {
        self.queue.front_mut().map(|(request, _)| request)
    }

    pub fn get(&self, index: usize) -> Option<&T> {
        self.queue.get(index).map(|(request, _)| request)
    }

    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &T> + ExactSizeIterator {
        self.queue.iter().map(|(request, _)| request)
    }

    pub fn iter_mut(&mut self) -> impl DoubleEndedIterator<Item = &mut T> {
        self.queue.iter_mut().map(|(request, _)| request)
    }

    pub fn drain(&mut self) -> impl Iterator<Item = T> {
        self.is_begun = false;
        self.queue.drain(..).map(|(request, _)| request)
    }

    /// Closes all requests as unanswered, and forgets them. For decoders whose [`PendingRequest::op`] is an operation.
    pub fn abandon<R: Reader>(&mut self, out: &mut Out<'_, R>) {
        self.drain().for_each(|request| out.close(request.op(), Outcome::Unanswered));
    }

    /// Returns the memory held, in bytes.
    pub fn held(&self) -> usize {
        self.queue.capacity() * size_of::<(T, Moment)>()
    }

    /// Adds a request whose last bytes are posted.
    #[inline]
    pub fn push<R: Reader>(&mut self, request: T, out: &Out<'_, R>) {
        self.push_at(request, out.moment_of(Side::Request), out);
    }

    /// Like [`Self::push`].
    ///
    /// # Errors
    ///
    /// Fails with `reason` if [`limits::OUTSTANDING`] requests wait.
    #[inline]
    pub fn push_within<R: Reader>(&mut self, request: T, reason: &'static str, out: &Out<'_, R>) -> DecodeStep<()> {
        if self.queue.len() >= limits::OUTSTANDING {
            return Err(Malformed(reason));
        }
        self.push(request, out);
        Ok(())
    }

    /// Adds a request whose bytes start with the next one.
    #[inline]
    pub fn push_ahead<R: Reader>(&mut self, request: T, out: &Out<'_, R>) {
        let Moment { at, received } = out.moment_of(Side::Request);
        self.push_at(request, Moment { at: at + 1, received }, out);
    }

    #[inline]
    fn push_at<R: Reader>(&mut self, request: T, sent: Moment, out: &Out<'_, R>) {
        if let Some((last, before)) = self.queue.back()
            && last.op() != request.op()
        {
            self.follow(before.received == sent.received, out);
        }
        self.queue.push_back((request, sent));
    }

    /// Learns from a request that is sent while others wait. `is_same_flight`: since the last of them, nothing was received.
    #[inline(never)]
    fn follow<R: Reader>(&mut self, is_same_flight: bool, out: &Out<'_, R>) {
        // Answers that were not captured, or not yet, may have come before it.
        let is_known = self.doubt.is_none() && !out.has_unseen(Side::Request);
        self.pipelines |= is_known || is_same_flight;
        self.overlaps |= is_known && self.is_begun;
    }

    /// Adds a request before the others, which the next bytes answer.
    pub fn push_front(&mut self, request: T) {
        self.queue.push_front((request, Moment::default()));
    }

    /// Removes the first request.
    #[inline]
    pub fn pop(&mut self) -> Option<T> {
        let (request, _) = self.queue.pop_front()?;
        self.is_begun = !self.queue.is_empty();
        Some(request)
    }

    /// Removes a request.
    pub fn remove(&mut self, index: usize) -> Option<T> {
        if index == 0 { self.pop() } else { self.queue.remove(index).map(|(request, _)| request) }
    }

    /// Returns the request that the answer at the current position belongs to. Calls `drop` with those that will have no answer.
    #[inline]
    pub fn answer<R: Reader>(&mut self, out: &mut Out<'_, R>, mut drop: impl FnMut(T, &mut Out<'_, R>)) -> Option<&T> {
        let PendingVerdict { lost, is_paired } = self.judge(out);
        for _ in 0..lost {
            if let Some(request) = self.pop() {
                drop(request, out);
            }
        }
        self.front().filter(|_| is_paired)
    }

    /// Notes that bytes of `side` are missing, with the rest of the answer to `current`.
    pub fn lose_answer<R: Reader>(&mut self, side: Side, current: Option<OpId>, out: &mut Out<'_, R>) {
        if side == Side::Response
            && let Some(op) = current.filter(|op| self.front().is_some_and(|front| front.op() == *op))
        {
            self.pop();
            out.close(op, Outcome::Unanswered);
        }
        self.lose(side, out);
    }

    /// Notes that bytes of `side` are missing.
    #[cold]
    pub fn lose<R: Reader>(&mut self, side: Side, out: &mut Out<'_, R>) {
        let hole = out.moment_of(side).at..out.announced(side);
        let since = out.moment_of(Side::Response).at;
        let doubt = self.doubt.get_or_insert_with(|| Box::new(PairingDoubt { since, ..PairingDoubt::default() }));
        match side {
            Side::Response => doubt.answers = true,
            Side::Request => {
                if doubt.requests.len() >= HOLES {
                    doubt.requests.pop_front();
                    doubt.answers = true;
                }
                doubt.requests.push_back(hole);
            }
        }
    }

    /// Returns whether the client waits for answers before it sends the next request.
    #[inline]
    pub fn is_serial(&self) -> bool {
        !self.pipelines
    }

    /// Returns a number for what is known of the client's habit. It affects pairing behind a hole, and so is part of an idle state.
    #[inline]
    pub fn habit(&self) -> u64 {
        u64::from(self.pipelines) + u64::from(self.overlaps)
    }

    /// Forgets the client's habit: what it sent so far says little of what follows.
    pub fn forget_habit(&mut self) {
        (self.pipelines, self.overlaps) = (false, false);
    }

    /// Returns whether the next answer certainly belongs to the first request.
    #[inline]
    pub fn is_certain(&self) -> bool {
        self.doubt.is_none()
    }

    /// Decides which request the answer at the current position belongs to. The caller removes the lost ones.
    #[inline]
    pub fn judge<R: Reader>(&mut self, out: &mut Out<'_, R>) -> PendingVerdict {
        if self.queue.is_empty() || self.doubt.is_some() {
            return self.weigh(out);
        }
        PendingVerdict { lost: 0, is_paired: true }
    }

    #[cold]
    fn weigh<R: Reader>(&mut self, out: &mut Out<'_, R>) -> PendingVerdict {
        let answer = out.moment_of(Side::Response);
        let verdict = self.weigh_answer(answer, out);
        self.heard = answer;
        verdict
    }

    fn weigh_answer<R: Reader>(&mut self, answer: Moment, out: &mut Out<'_, R>) -> PendingVerdict {
        const UNKNOWN: PendingVerdict = PendingVerdict { lost: 0, is_paired: false };
        let Some(doubt) = &self.doubt else { return UNKNOWN };
        let is_before = |sent: &Moment| doubt.requests.front().is_none_or(|hole| sent.at <= hole.start);
        if !doubt.answers && doubt.ambiguous == 0 && self.queue.front().is_some_and(|(_, sent)| is_before(sent)) {
            return PendingVerdict { lost: 0, is_paired: true };
        }
        let is_possible = |sent: &Moment| sent.at <= answer.received && sent.received <= answer.at;
        let possible = self.queue.partition_point(|(_, sent)| is_possible(sent));
        let Some(&(_, last)) = possible.checked_sub(1).and_then(|last| self.queue.get(last)) else { return UNKNOWN };
        let first = self.queue.partition_point(|(_, sent)| sent.received < last.received);
        let end = self.queue.partition_point(|(_, sent)| sent.received <= last.received);
        // So many answers do not fit in what was lost: the client did not wait for them.
        self.overlaps |= last.received.saturating_sub(doubt.since) < first as u64 * SHORTEST;
        if self.is_proven(first..end, answer, out) {
            let sent = self.queue.get(first).map_or(last, |(_, sent)| *sent);
            // Otherwise the start of the answer may be lost, and how many of its parts follow is unknown.
            if answer.at == sent.received || self.overlaps {
                self.trust(sent);
            }
            return PendingVerdict { lost: first, is_paired: true };
        }
        out.note(Note::Unpaired);
        let overlaps = self.overlaps;
        if let Some(doubt) = &mut self.doubt {
            doubt.ambiguous = if overlaps { u64::MAX } else { answer.at + 1 };
        }
        PendingVerdict { lost: if overlaps { self.queue.len() } else { end }, is_paired: false }
    }

    /// Returns whether an answer belongs to the first request of a flight.
    fn is_proven<R: Reader>(&self, flight: Range<usize>, answer: Moment, out: &Out<'_, R>) -> bool {
        let last = flight.end.checked_sub(1).and_then(|last| self.queue.get(last));
        let parts = (&self.doubt, self.queue.get(flight.start), last);
        let (Some(doubt), Some((request, sent)), Some((last, _))) = parts else { return false };
        let is_alone = request.op() == last.op();
        // Nothing came between the flight and the answer.
        let is_next = answer.at == sent.received;
        // The client received an answer that acknowledges the hole before it sent the flight.
        let is_heard = |hole: &Range<u64>| self.heard.received >= hole.end && self.heard.at < sent.received;
        // The server had the hole, and the client had no more from it when it sent the flight.
        let bare = out.bare_ack();
        let is_open = |hole: &Range<u64>| bare.received >= hole.end && sent.received <= bare.at;
        let is_answered = |hole: &Range<u64>| is_heard(hole) || self.is_serial() && doubt.answers && !is_open(hole);
        let is_first = doubt.requests.iter().take_while(|hole| hole.start < sent.at).all(is_answered);
        let is_behind = |hole: &Range<u64>| hole.start >= sent.at && hole.start < answer.received;
        let has_later = doubt.requests.iter().any(is_behind) || answer.received > out.announced(Side::Request);
        let is_told = if self.overlaps {
            // No answer since the hole could belong to another request.
            is_alone && !has_later && flight.start == 0 && doubt.ambiguous == 0 && doubt.requests.is_empty()
        } else {
            is_next || is_alone && !has_later
        };
        is_first && is_told && sent.received >= doubt.ambiguous
    }

    /// Makes pairing certain again for requests up to one sent at this moment.
    fn trust(&mut self, sent: Moment) {
        let Some(doubt) = &mut self.doubt else { return };
        (doubt.answers, doubt.ambiguous) = (false, 0);
        doubt.requests.retain(|hole| hole.start >= sent.at);
        if doubt.requests.is_empty() {
            self.doubt = None;
        }
    }
}
