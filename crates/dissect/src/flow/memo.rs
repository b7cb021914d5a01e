//! Results of earlier turns, reused for later ones like them.
//!
//! A *turn* is the traffic between two idle moments of a connection, when nothing is open, incomplete, held back or waited for. After
//! the general path handles a turn, the connection keeps its frames, each with a mask of the bytes that may differ, and its result.
//! Later frames that match are counted instead of decoded. They are kept until their turn is complete, so that a turn that continues
//! differently can still take the general path.

use super::counts::FlowCounts;
use super::half::ORIGIN;
use super::turn::{Turn, TurnFrame, TurnFrames, TurnLatency, turn};
use super::turns::{SharedTurns, State, looks};
use crate::ledger::{ConnectionLedger, TurnRecording};
use crate::packet::PlainSegment;
use overhead_model::{Side, Tally};
use std::sync::Arc;

/// Frames with payload before a connection keeps turns: shorter connections have nothing to repeat, and many of them would take memory.
pub const LEARN_AFTER: u64 = 8;
/// Most turns kept per connection.
const TURNS: usize = 8;
/// Most frames in a turn.
const FRAMES: usize = 6;
/// Room for most turns, while they are learnt.
const USUAL_FRAMES: usize = 2;
const USUAL_BYTES: usize = 256;
/// Most payload in a turn, in bytes.
const BYTES: usize = 16 << 10;

/// What a memo does with the next frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoState {
    /// Checks whether the connection is idle.
    Unknown,
    /// Waits until the connection is idle.
    Busy,
    /// Matches it with turns that started with the decoder in this version.
    Idle(u64),
    /// Adds it to a turn that started with the decoder in this version.
    Learning(u64),
}

#[derive(Debug)]
struct LearnedTurn {
    turn: Arc<Turn>,
    /// The decoder's version before and after the turn: see [`overhead_decode::Decoder::idle_state`].
    version: u64,
    /// Repetitions not yet reported to the tally.
    count: u64,
}

impl LearnedTurn {
    /// Returns the match for a frame after `before` matching frames of the turn.
    #[inline]
    fn with_next(&self, before: usize) -> TurnMatch {
        if self.turn.len() == before + 1 { TurnMatch::Whole } else { TurnMatch::Part }
    }

    fn tell<T: Tally>(&mut self, counts: &mut FlowCounts, tally: &mut T) {
        let times = std::mem::take(&mut self.count);
        if times > 0 {
            self.turn.tell(times, counts, tally);
        }
    }
}

#[derive(Debug)]
pub struct Memo {
    /// Latest first.
    turns: Vec<LearnedTurn>,
    /// Turns shared with other connections.
    shared: SharedTurns,
    /// Frames of the turn under way that matched so far, or of the turn being learnt.
    pub under_way: TurnFrames,
    pub state: MemoState,
    /// Repetitions of the first turn that the books have not taken in.
    due: u64,
    /// Acknowledged offset of each direction at its last payload, and at the end of the last turn.
    acked_before: [u64; 2],
    acked: [u64; 2],
    /// Lengths and directions of the first frames of turns that were not learnt, latest first.
    seen: [u32; TURNS],
    /// The decoder's state in a version; the inner `None` if it cannot be shared.
    decoder_state: Option<(u64, Option<State>)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TurnMatch {
    None,
    /// It matches a turn that has more frames.
    Part,
    /// It completes a turn.
    Whole,
}

impl Memo {
    /// Returns one without turns. It shares the turns it learns.
    pub fn new(shared: SharedTurns) -> Self {
        Self {
            turns: Vec::new(),
            shared,
            under_way: TurnFrames::default(),
            state: MemoState::Unknown,
            due: 0,
            acked_before: [0; 2],
            acked: [0; 2],
            seen: [0; TURNS],
            decoder_state: None,
        }
    }

    pub fn shared(&self) -> SharedTurns {
        self.shared.clone()
    }

    /// Returns whether frames wait for the rest of their turn.
    pub fn is_under_way(&self) -> bool {
        !self.is_learning() && !self.under_way.taken.is_empty()
    }

    pub fn is_learning(&self) -> bool {
        matches!(self.state, MemoState::Learning(_))
    }

    /// Looks for a turn that this frame continues or starts. The caller adds a matching frame to those under way.
    #[inline(always)]
    pub fn find(&mut self, side: Side, bare: &PlainSegment<'_>, now: u64, book: &mut ConnectionLedger) -> TurnMatch {
        match self.turns.first() {
            Some(known) if known.version == now && known.turn.goes_on(&self.under_way, side, bare) => {
                known.with_next(self.under_way.taken.len())
            }
            _ => self.find_next(side, bare, now, book),
        }
    }

    fn find_next(&mut self, side: Side, bare: &PlainSegment<'_>, now: u64, book: &mut ConnectionLedger) -> TurnMatch {
        let fits = |known: &LearnedTurn| known.version == now && known.turn.begins_with(&self.under_way, side, bare);
        let mut others = self.turns.iter().enumerate().skip(1);
        let Some((index, _)) = others.find(|(_, known)| fits(known)) else { return TurnMatch::None };
        self.catch_up(book);
        self.turns.swap(0, index);
        self.turns.first().map_or(TurnMatch::None, |known| known.with_next(self.under_way.taken.len()))
    }

    /// Looks for such a turn of other connections whose decoders are in the state that `feed` returns, and keeps it.
    pub fn find_shared<T: Tally>(
        &mut self,
        (side, bare): (Side, &PlainSegment<'_>),
        (version, feed): (u64, impl FnOnce(&SharedTurns) -> Option<State>),
        book: &mut ConnectionLedger,
        counts: &mut FlowCounts,
        tally: &mut T,
    ) -> TurnMatch {
        let state = || state_in(&mut self.decoder_state, version, || feed(&self.shared));
        let Some(turn) = self.shared.like(&self.under_way, (side, bare), state) else { return TurnMatch::None };
        self.catch_up(book);
        self.insert(LearnedTurn { turn, version, count: 0 }, counts, tally);
        self.turns.first().map_or(TurnMatch::None, |known| known.with_next(self.under_way.taken.len()))
    }

    fn insert<T: Tally>(&mut self, known: LearnedTurn, counts: &mut FlowCounts, tally: &mut T) {
        if self.turns.len() >= TURNS
            && let Some(mut last) = self.turns.pop()
        {
            last.tell(counts, tally);
        }
        // Most connections have one or two.
        self.turns.reserve_exact(1);
        self.turns.insert(0, known);
    }

    /// Notes the acknowledged offset of a direction when its payload came again.
    #[inline]
    pub fn came(&mut self, side: Side, acked: u64) {
        self.acked_before[side as usize] = acked;
    }

    /// Counts the turn that this frame completes, with both directions acknowledged up to these offsets, and adds its latencies to the
    /// tally.
    #[inline(always)]
    pub fn complete<T: Tally>(&mut self, last: &PlainSegment<'_>, acked: [u64; 2], tally: &mut T) {
        let Some(known) = self.turns.first_mut() else { return };
        (self.due, self.acked) = (self.due + 1, acked);
        let last_ns = last.time_ns;
        known.count += 1;
        for &TurnLatency { row, from, to, times } in &known.turn.latencies {
            let time_of = |index: usize| self.under_way.taken.get(index).map_or(last_ns, |frame| frame.time_ns);
            // None if the clock was set back meanwhile.
            if let Some(latency_ns) = time_of(to).checked_sub(time_of(from)) {
                tally.latency(row, latency_ns, times);
            }
        }
        if tally.wants_each() {
            known.turn.tell_each(&self.under_way, last_ns, tally);
        }
        self.under_way.clear();
    }

    /// Enters repetitions of the first turn in the books. Call this before any other change to them.
    pub fn catch_up(&mut self, book: &mut ConnectionLedger) {
        let due = std::mem::take(&mut self.due);
        let Some(LearnedTurn { turn, .. }) = self.turns.first().filter(|_| due > 0) else { return };
        for side in Side::BOTH {
            let bytes = |acked: [u64; 2]| acked[side as usize].saturating_sub(ORIGIN);
            book.acknowledged(side, bytes(self.acked_before));
            book.repeat(side, &turn.repeat, due);
            book.acknowledged(side, bytes(self.acked));
        }
        book.repeat_counts(&turn.repeat, due);
    }

    /// Starts to learn the turn that starts with this frame, and returns true, if a first frame of its length and direction was seen
    /// lately. Any other turn may never come again.
    pub fn begin_learning(&mut self, version: u64, side: Side, payload_len: usize) -> bool {
        let looks = looks(side, payload_len);
        let is_known = self.seen.contains(&looks);
        if is_known {
            self.state = MemoState::Learning(version);
            self.under_way.taken.reserve_exact(USUAL_FRAMES);
            self.under_way.bytes.reserve_exact(USUAL_BYTES);
        } else {
            self.seen.rotate_right(1);
            self.seen[0] = looks;
        }
        is_known
    }

    /// Adds a frame to the turn being learnt. Returns false if the turn becomes too long.
    pub fn learn(&mut self, frame: TurnFrame, payload: &[u8]) -> bool {
        let fits = self.under_way.taken.len() < FRAMES && self.under_way.bytes.len() + payload.len() <= BYTES;
        if fits {
            self.under_way.push(frame, payload);
        }
        fits
    }

    pub fn stop_learning(&mut self) {
        self.state = MemoState::Unknown;
        self.under_way.clear();
    }

    /// Keeps the completed turn being learnt, if it can come again. `after` is the decoder's version now; `feed` returns its state.
    pub fn keep<T: Tally>(
        &mut self,
        (after, feed): (u64, impl FnOnce(&SharedTurns) -> Option<State>),
        recording: &TurnRecording,
        counts: &mut FlowCounts,
        tally: &mut T,
    ) {
        if let MemoState::Learning(version) = std::mem::replace(&mut self.state, MemoState::Idle(after))
            && version == after
            && let Some(turn) = turn(&self.under_way, recording, tally.wants_each())
        {
            let turn = self.shared.share(turn);
            if let Some(state) = state_in(&mut self.decoder_state, version, || feed(&self.shared)) {
                self.shared.publish(state, &turn);
            }
            self.insert(LearnedTurn { turn, version, count: 0 }, counts, tally);
        }
        self.under_way = TurnFrames::default();
    }

    /// Reports all repeated turns to the tally, and adds them to the counts.
    pub fn tell<T: Tally>(&mut self, counts: &mut FlowCounts, tally: &mut T) {
        self.turns.iter_mut().for_each(|known| known.tell(counts, tally));
    }

    /// Returns the number of frames in repeated turns that were not reported yet.
    pub fn hits(&self) -> u64 {
        self.turns.iter().map(|known| known.count * known.turn.counts.frames).sum()
    }

    /// Returns the approximate memory held, in bytes, without shared turns.
    pub fn held(&self) -> usize {
        size_of::<Self>()
            + self.under_way.bytes.capacity()
            + self.under_way.taken.capacity() * size_of::<TurnFrame>()
            + self.turns.capacity() * size_of::<LearnedTurn>()
    }
}

/// Returns the decoder's state in a version, from `feed` if it is not `known`.
fn state_in(last: &mut Option<(u64, Option<State>)>, now: u64, feed: impl FnOnce() -> Option<State>) -> Option<State> {
    match *last {
        Some((of, state)) if of == now => state,
        _ => last.insert((now, feed())).1,
    }
}
