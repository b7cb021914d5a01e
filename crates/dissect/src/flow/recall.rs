//! Takes in frames by memory of earlier turns like theirs; see [`memo`](super::memo).

use super::half::StreamReassembly;
use super::memo::{LEARN_AFTER, Memo, MemoState, TurnMatch};
use super::turn::{TurnFrame, TurnFrames};
use super::turns::SharedTurns;
use super::{ConnectionFlow, FlowStage};
use crate::ledger::ChargeOwner;
use crate::packet::{PlainSegment, Segment};
use overhead_model::{Account, Side, Tally};

#[derive(Debug)]
pub enum MemoMode {
    /// No memory, now or later.
    Off,
    /// No memory yet; later, the turns that connections share.
    Later(SharedTurns),
    On(Box<Memo>),
}

impl MemoMode {
    /// Returns a memory that later keeps and shares turns, or none without `turns`.
    pub fn new(turns: Option<SharedTurns>) -> Self {
        turns.map_or(Self::Off, Self::Later)
    }

    #[inline]
    fn memo(&self) -> Option<&Memo> {
        if let Self::On(memo) = self { Some(memo) } else { None }
    }

    #[inline]
    fn memo_mut(&mut self) -> Option<&mut Memo> {
        if let Self::On(memo) = self { Some(memo) } else { None }
    }

    pub fn held(&self) -> usize {
        self.memo().map_or(0, Memo::held)
    }
}

impl ConnectionFlow {
    /// Takes in a segment that continues or starts a turn like an earlier one, and returns whether it did. Any other segment takes the
    /// general path: see [`ConnectionFlow::segment`]. `by_lesser`: the sender's address is the lesser of the two.
    #[inline]
    pub fn recall<T: Tally>(&mut self, by_lesser: bool, bare: &PlainSegment<'_>, number: u64, tally: &mut T) -> bool {
        let side = if by_lesser == self.is_client_lesser { Side::Request } else { Side::Response };
        let begins = match &self.memory {
            MemoMode::On(memo) if !memo.is_learning() => false,
            MemoMode::Later(_) if !bare.payload.is_empty() && self.is_answered() => true,
            _ => return false,
        };
        self.follows(side, bare)
            && (!begins || self.begins_shared(side, bare))
            && self.matches(side, bare, number, tally)
    }

    /// Starts the memory of a connection if a segment starts a turn shared by others in its state. Returns whether it does.
    #[inline(never)]
    fn begins_shared(&mut self, side: Side, bare: &PlainSegment<'_>) -> bool {
        let (MemoMode::Later(turns), FlowStage::Decoding(decoding)) = (&self.memory, &self.stage) else { return false };
        let state = || turns.state(|state| decoding.engine.feed_state(state));
        let begins = !self.unproven
            && self.is_past_midst()
            && self.is_established()
            && self.book.is_idle()
            && decoding.engine.idle_state().is_some()
            && turns.like(&TurnFrames::default(), (side, bare), state).is_some();
        if begins {
            self.memory = MemoMode::On(Box::new(Memo::new(turns.clone())));
        }
        begins
    }

    /// Prepares for a segment on the general path: waiting frames of a turn go first, and the segment may be part of a turn to learn.
    pub(super) fn divert<T: Tally>(&mut self, side: Side, segment: &Segment<'_>, number: u64, tally: &mut T) {
        let Some(memo) = self.memory.memo_mut() else { return };
        let is_learning = memo.is_learning();
        if tally.listener().is_some() {
            // Everything the listener hears takes the general path, and nothing of it is learnt.
            if is_learning {
                self.stop_learning();
            } else {
                self.fall_back(None, tally);
            }
            if let Some(memo) = self.memory.memo_mut() {
                memo.state = MemoState::Unknown;
            }
            return;
        }
        let bare = segment.bare().filter(|bare| self.follows(side, bare));
        if is_learning {
            return self.learn_on(side, bare.as_ref(), number);
        }
        let goes_on = bare.as_ref().filter(|bare| !bare.payload.is_empty()).map(|bare| (side, bare.payload.len()));
        if self.fall_back(goes_on, tally) {
            return self.learn_on(side, bare.as_ref(), number);
        }
        match bare {
            Some(bare) if !bare.payload.is_empty() => self.begin_to_learn(side, &bare, number),
            _ => {
                if let Some(memo) = self.memory.memo_mut() {
                    memo.state = MemoState::Unknown;
                }
            }
        }
    }

    /// Returns whether each SYN that was seen has been acknowledged.
    fn is_established(&self) -> bool {
        !self.halves.iter().any(StreamReassembly::awaits_handshake)
    }

    /// Returns whether a segment directly continues what came before it.
    #[inline]
    fn follows(&self, side: Side, bare: &PlainSegment<'_>) -> bool {
        let (half, other) = (&self.halves[side as usize], &self.halves[side.other() as usize]);
        self.is_settled
            && half.is_next_seq(bare.seq)
            && match side {
                _ if bare.payload.is_empty() => other.is_acknowledged_by(bare.ack),
                // So that a turn has as many round trips each time.
                Side::Request => other.is_next_seq(bare.ack) || self.stream.is_some(),
                // What acknowledges bytes that are not captured yet may have to wait.
                Side::Response => other.has_delivered(bare.ack) || self.stream.is_some(),
            }
    }

    /// Takes in the segment if it continues or starts a known turn. Returns whether it does.
    #[inline]
    fn matches<T: Tally>(&mut self, side: Side, bare: &PlainSegment<'_>, number: u64, tally: &mut T) -> bool {
        let Some(memo) = self.memory.memo_mut() else { return false };
        if memo.state == MemoState::Unknown {
            let number = match &self.stage {
                FlowStage::Decoding(decoding) if !self.unproven && self.book.is_idle() => decoding.engine.idle_state(),
                _ => None,
            };
            memo.state = number.map_or(MemoState::Busy, MemoState::Idle);
        }
        let MemoState::Idle(version) = memo.state else { return false };
        if bare.payload.is_empty() && !memo.is_under_way() {
            return false;
        }
        let mut found = memo.find(side, bare, version, &mut self.book);
        if found == TurnMatch::None {
            found = self.find_shared(side, bare, version, tally);
            if found == TurnMatch::None {
                return false;
            }
        }
        let Some(memo) = self.memory.memo_mut() else { return false };
        let other = &mut self.halves[side.other() as usize];
        let is_news = other.acknowledge_delivered(bare.ack);
        if !bare.payload.is_empty() {
            let half = &mut self.halves[side as usize];
            memo.came(side, half.acked_seen());
            half.deliver_bytes(bare.payload, bare.payload.len() as u64);
        }
        if found == TurnMatch::Part {
            let acked = is_news.then(|| self.halves[side.other() as usize].acked_bytes());
            memo.under_way.push(taken(side, bare, number, acked), bare.payload);
        } else {
            memo.complete(bare, self.halves.each_ref().map(StreamReassembly::acked_seen), tally);
        }
        true
    }

    #[inline(never)]
    fn find_shared<T: Tally>(&mut self, side: Side, bare: &PlainSegment<'_>, version: u64, tally: &mut T) -> TurnMatch {
        let (Some(memo), FlowStage::Decoding(decoding)) = (self.memory.memo_mut(), &self.stage) else {
            return TurnMatch::None;
        };
        let feed = |turns: &SharedTurns| turns.state(|state| decoding.engine.feed_state(state));
        memo.find_shared((side, bare), (version, feed), &mut self.book, &mut self.counts, tally)
    }

    /// Sends the frames of a turn under way down the general path, because the turn continues differently. Returns whether to learn it,
    /// which is possible if it continues with payload of this side and length: a cache miss, for example, starts like a hit.
    pub(super) fn fall_back<T: Tally>(&mut self, goes_on: Option<(Side, usize)>, tally: &mut T) -> bool {
        let Some(memo) = self.memory.memo_mut() else { return false };
        memo.catch_up(&mut self.book);
        if !memo.is_under_way() {
            return false;
        }
        let state = std::mem::replace(&mut memo.state, MemoState::Unknown);
        let under_way = std::mem::take(&mut memo.under_way);
        let is_learning = match (state, goes_on) {
            (MemoState::Idle(version), Some((side, len))) => memo.begin_learning(version, side, len),
            _ => false,
        };
        if is_learning {
            self.book.record();
        }
        for frame in &under_way.taken {
            let here = self.book.at(frame.number, 1);
            let payload = under_way.payload(frame);
            if is_learning && let Some(memo) = self.memory.memo_mut() {
                memo.learn(TurnFrame { acked: None, ..*frame }, payload);
            }
            self.counts.count_frame(frame.headers, payload.len());
            if let Some(acked) = frame.acked {
                self.book.acknowledged(frame.side.other(), acked);
            }
            if payload.is_empty() {
                let last = frame.acked.unwrap_or_default().saturating_sub(1);
                let owner = ChargeOwner::Byte(frame.side.other(), last);
                self.book.charge(frame.side, owner, Account::Control, frame.headers.total(), tally);
            } else {
                let arrival = self.book.arrival(frame.side, frame.time_ns, frame.headers, payload.len() as u64);
                self.book.slice(frame.side, arrival, payload.len() as u64);
                self.decode(frame.side, payload, 0, tally);
            }
            self.book.at(here.0, here.1);
        }
        is_learning
    }

    /// Starts to learn a turn with the next segment on the general path, if it is likely to come again.
    fn begin_to_learn(&mut self, side: Side, bare: &PlainSegment<'_>, number: u64) {
        let Some(memo) = self.memory.memo_mut() else { return };
        // Unknown if something was under way.
        if let MemoState::Idle(version) = std::mem::replace(&mut memo.state, MemoState::Unknown)
            && memo.begin_learning(version, side, bare.payload.len())
        {
            self.book.record();
            if !memo.learn(taken(side, bare, number, None), bare.payload) {
                self.stop_learning();
            }
        }
    }

    /// Adds the next segment on the general path to the turn being learnt, or stops learning if the segment does not fit.
    fn learn_on(&mut self, side: Side, bare: Option<&PlainSegment<'_>>, number: u64) {
        let Some(memo) = self.memory.memo_mut() else { return };
        if !bare.is_some_and(|bare| memo.learn(taken(side, bare, number, None), bare.payload)) {
            self.stop_learning();
        }
    }

    fn stop_learning(&mut self) {
        if let Some(memo) = self.memory.memo_mut() {
            memo.stop_learning();
        }
        self.book.recorded();
    }

    /// Keeps the turn being learnt if this segment with payload completed it.
    #[inline]
    pub(super) fn learnt<T: Tally>(&mut self, tally: &mut T) {
        let is_time = self.counts.payload_frames >= LEARN_AFTER
            && self.is_answered()
            && self.is_past_midst()
            && self.is_established();
        match &mut self.memory {
            MemoMode::On(memo) if memo.is_learning() => {
                if let FlowStage::Decoding(decoding) = &self.stage
                    && self.book.is_idle()
                    && let Some(version) = decoding.engine.idle_state()
                    && let Some(recording) = self.book.recorded()
                {
                    let feed = |turns: &SharedTurns| turns.state(|state| decoding.engine.feed_state(state));
                    memo.keep((version, feed), &recording, &mut self.counts, tally);
                }
            }
            MemoMode::Later(_) if tally.listens_at_times() && tally.listener().is_some() => {}
            MemoMode::Later(turns) if is_time => {
                let memo = || MemoMode::On(Box::new(Memo::new(turns.clone())));
                self.memory = if tally.listener().is_some() { MemoMode::Off } else { memo() };
            }
            _ => {}
        }
    }

    pub fn hits(&self) -> u64 {
        self.counts.recalled + self.memory.memo().map_or(0, Memo::hits)
    }

    pub(super) fn forget<T: Tally>(&mut self, tally: &mut T) {
        if let Some(memo) = self.memory.memo() {
            let turns = memo.shared();
            self.stop_learning();
            self.tell(tally);
            self.memory = MemoMode::Later(turns);
        }
    }

    /// Sends waiting frames down the general path, then reports and forgets all turns, so that the tally is the same as without a memory.
    pub fn forget_turns<T: Tally>(&mut self, tally: &mut T) {
        self.fall_back(None, tally);
        self.forget(tally);
    }

    /// Reports repeated turns to the tally.
    pub fn tell<T: Tally>(&mut self, tally: &mut T) {
        if let Some(memo) = self.memory.memo_mut() {
            memo.tell(&mut self.counts, tally);
        }
    }
}

fn taken(side: Side, bare: &PlainSegment<'_>, number: u64, acked: Option<u64>) -> TurnFrame {
    let PlainSegment { time_ns, headers, .. } = *bare;
    TurnFrame { side, number, time_ns, headers, start: 0, len: 0, acked }
}
