//! What turns came to, to be taken for those that follow.
//!
//! A *turn* is what passes between two moments at which a connection is quiet: nothing is open, incomplete, held back or
//! waited for. A turn that the general path took in is kept as the frames that it is made of, each with a mask of the bytes
//! that may differ, and with what it came to. Frames that match are then counted instead of decoded. They are kept until
//! their turn is complete, so that one that goes on otherwise can still go the general way.

use super::counts::Counts;
use super::half::ORIGIN;
use super::turn::{Frames, Latency, Taken, Turn, turn};
use super::turns::{State, Turns, looks};
use crate::ledger::{Book, Recording};
use crate::packet::Bare;
use overhead_model::{Side, Tally};
use std::sync::Arc;

/// Frames with payload before anything is kept of a connection: what is shorter has nothing to repeat, and many together would
/// take room.
pub const LEARN_AFTER: u64 = 8;
/// Turns kept of a connection.
const TURNS: usize = 8;
/// Frames of a turn.
const FRAMES: usize = 6;
/// Payload of a turn.
const BYTES: usize = 16 << 10;
/// Whether a connection is quiet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quiet {
    /// That has to be found out.
    Unknown,
    No,
    /// Its decoder is in this version.
    In(u64),
}

/// A turn that a connection has learnt.
#[derive(Debug)]
struct Known {
    turn: Arc<Turn>,
    /// The decoder's version before and after it: see [`overhead_decode::Decoder::quiet`].
    version: u64,
    /// How often it came again since that was told.
    count: u64,
}

impl Known {
    /// Returns what it comes to that a frame matches which so many came before.
    #[inline]
    fn with_next(&self, before: usize) -> Match {
        if self.turn.len() == before + 1 { Match::Whole } else { Match::Part }
    }

    fn tell<T: Tally>(&mut self, counts: &mut Counts, tally: &mut T) {
        let times = std::mem::take(&mut self.count);
        if times > 0 {
            self.turn.tell(times, counts, tally);
        }
    }
}

/// What is kept of a connection's turns.
#[derive(Debug)]
pub struct Memo {
    /// The one that came last is the first.
    turns: Vec<Known>,
    /// What other connections have learnt, too.
    shared: Turns,
    /// The frames of the turn under way that matched so far, or of one that is being learnt.
    pub under_way: Frames,
    /// The turn being learnt began with the decoder in this version.
    learning: Option<u64>,
    pub quiet: Quiet,
    /// How often the first turn came again since the books took it in.
    due: u64,
    /// Up to which offset each direction was acknowledged when its last payload came, and at the end of the last turn.
    acked_before: [u64; 2],
    acked: [u64; 2],
    /// Lengths and directions of the frames that turns began with that were not learnt, the latest first.
    seen: [u32; TURNS],
    /// The decoder's state in a version, where connections have such in common.
    state: Option<(u64, Option<State>)>,
}

/// What became of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Match {
    /// It matches no turn.
    None,
    /// It matches one that goes on.
    Part,
    /// It is the last one of a turn.
    Whole,
}

impl Memo {
    /// Returns one without turns. What it learns, it shares.
    pub fn new(shared: Turns) -> Self {
        Self {
            turns: Vec::new(),
            shared,
            under_way: Frames::default(),
            learning: None,
            quiet: Quiet::Unknown,
            due: 0,
            acked_before: [0; 2],
            acked: [0; 2],
            seen: [0; TURNS],
            state: None,
        }
    }

    /// Returns what it shares its turns with.
    pub fn shared(&self) -> Turns {
        self.shared.clone()
    }

    /// Returns whether frames wait for the rest of their turn.
    pub fn is_under_way(&self) -> bool {
        self.learning.is_none() && !self.under_way.taken.is_empty()
    }

    /// Returns whether a turn is being learnt.
    pub fn is_learning(&self) -> bool {
        self.learning.is_some()
    }

    /// Looks for a turn that goes on, or begins, with this frame. What matches is to be added to the frames under way.
    #[inline(always)]
    pub fn find(&mut self, side: Side, bare: &Bare<'_>, version: u64, book: &mut Book) -> Match {
        match self.turns.first() {
            Some(known) if known.version == version && known.turn.goes_on(&self.under_way, side, bare) => {
                known.with_next(self.under_way.taken.len())
            }
            _ => self.find_other(side, bare, version, book),
        }
    }

    fn find_other(&mut self, side: Side, bare: &Bare<'_>, version: u64, book: &mut Book) -> Match {
        let fits = |known: &Known| known.version == version && known.turn.begins_with(&self.under_way, side, bare);
        let mut others = self.turns.iter().enumerate().skip(1);
        let Some((index, _)) = others.find(|(_, known)| fits(known)) else { return Match::None };
        self.catch_up(book);
        self.turns.swap(0, index);
        self.turns.first().map_or(Match::None, |known| known.with_next(self.under_way.taken.len()))
    }

    /// Looks for such a turn among those of other connections whose decoders are in the state that `feed` tells, and has it from
    /// then on.
    pub fn find_shared<T: Tally>(
        &mut self,
        (side, bare): (Side, &Bare<'_>),
        (version, feed): (u64, impl FnOnce(&Turns) -> Option<State>),
        book: &mut Book,
        counts: &mut Counts,
        tally: &mut T,
    ) -> Match {
        let state = || state_in(&mut self.state, version, || feed(&self.shared));
        let Some(turn) = self.shared.like(&self.under_way, (side, bare), state) else { return Match::None };
        self.catch_up(book);
        self.insert(Known { turn, version, count: 0 }, counts, tally);
        self.turns.first().map_or(Match::None, |known| known.with_next(self.under_way.taken.len()))
    }

    /// Keeps a turn as the one that came last.
    fn insert<T: Tally>(&mut self, known: Known, counts: &mut Counts, tally: &mut T) {
        if self.turns.len() >= TURNS
            && let Some(mut last) = self.turns.pop()
        {
            last.tell(counts, tally);
        }
        // Most connections have one or two.
        self.turns.reserve_exact(1);
        self.turns.insert(0, known);
    }

    /// Payload of a direction came again, when it was acknowledged up to this offset.
    #[inline]
    pub fn came(&mut self, side: Side, acked: u64) {
        self.acked_before[side as usize] = acked;
    }

    /// The turn under way is whole with this frame, and both directions are acknowledged up to these offsets: it is counted, and the
    /// tally takes its latencies in.
    #[inline]
    pub fn complete<T: Tally>(&mut self, last: &Bare<'_>, acked: [u64; 2], tally: &mut T) {
        let Some(known) = self.turns.first_mut() else { return };
        (self.due, self.acked) = (self.due + 1, acked);
        let last_ns = last.time_ns;
        known.count += 1;
        for &Latency { row, from, to, times } in &known.turn.latencies {
            let time_of = |index: usize| self.under_way.taken.get(index).map_or(last_ns, |frame| frame.time_ns);
            // None where the clock was set back meanwhile.
            if let Some(latency_ns) = time_of(to).checked_sub(time_of(from)) {
                tally.latency(row, latency_ns, times);
            }
        }
        if tally.wants_each() {
            known.turn.tell_each(&self.under_way, last_ns, tally);
        }
        self.under_way.clear();
    }

    /// The books take in what came again of the first turn: to be called before anything else is done to them.
    pub fn catch_up(&mut self, book: &mut Book) {
        let due = std::mem::take(&mut self.due);
        let Some(Known { turn, .. }) = self.turns.first().filter(|_| due > 0) else { return };
        for side in Side::BOTH {
            let bytes = |acked: [u64; 2]| acked[side as usize].saturating_sub(ORIGIN);
            book.acknowledged(side, bytes(self.acked_before));
            book.repeat(side, &turn.repeat, due);
            book.acknowledged(side, bytes(self.acked));
        }
        book.repeat_counts(&turn.repeat, due);
    }

    /// Takes the frames under way out, to go the general way.
    pub fn take_under_way(&mut self) -> Frames {
        std::mem::take(&mut self.under_way)
    }

    /// Returns whether to learn the turn that begins with a frame, and begins if so. A turn whose first frame has a length and
    /// direction not seen lately is not learnt: it may never come again.
    pub fn begin_learning(&mut self, version: u64, side: Side, payload_len: usize) -> bool {
        let looks = looks(side, payload_len);
        let is_known = self.seen.contains(&looks);
        if is_known {
            self.learning = Some(version);
        } else {
            self.seen.rotate_right(1);
            self.seen[0] = looks;
        }
        is_known
    }

    /// Adds a frame to the turn being learnt; false where it becomes too long.
    pub fn learn(&mut self, frame: Taken, payload: &[u8]) -> bool {
        let fits = self.under_way.taken.len() < FRAMES && self.under_way.bytes.len() + payload.len() <= BYTES;
        if fits {
            self.under_way.push(frame, payload);
        }
        fits
    }

    /// Gives up learning the turn under way.
    pub fn stop_learning(&mut self) {
        self.learning = None;
        self.under_way.clear();
    }

    /// The turn being learnt is whole, and the decoder in this version, of which `feed` tells the state: keeps it, where it can come
    /// again.
    pub fn keep<T: Tally>(
        &mut self,
        (after, feed): (u64, impl FnOnce(&Turns) -> Option<State>),
        recording: &Recording,
        counts: &mut Counts,
        tally: &mut T,
    ) {
        if let Some(version) = self.learning.take()
            && version == after
            && let Some(turn) = turn(&self.under_way, recording, tally.wants_each())
        {
            let turn = self.shared.share(turn);
            if let Some(state) = state_in(&mut self.state, version, || feed(&self.shared)) {
                self.shared.publish(state, &turn);
            }
            self.insert(Known { turn, version, count: 0 }, counts, tally);
        }
        self.under_way = Frames::default();
    }

    /// Tells the tally of all turns that came again, and adds them to the counts.
    pub fn tell<T: Tally>(&mut self, counts: &mut Counts, tally: &mut T) {
        self.turns.iter_mut().for_each(|known| known.tell(counts, tally));
    }

    /// Returns how many frames came in turns that came again, and are not told of.
    pub fn hits(&self) -> u64 {
        self.turns.iter().map(|known| known.count * known.turn.counts.frames).sum()
    }

    /// Returns how many bytes of memory it holds, roughly, without what is shared.
    pub fn held(&self) -> usize {
        size_of::<Self>()
            + self.under_way.bytes.capacity()
            + self.under_way.taken.capacity() * size_of::<Taken>()
            + self.turns.capacity() * size_of::<Known>()
    }
}

/// Returns the decoder's state in a version, which `feed` tells where it is not `known`.
fn state_in(
    known: &mut Option<(u64, Option<State>)>,
    version: u64,
    feed: impl FnOnce() -> Option<State>,
) -> Option<State> {
    match *known {
        Some((of, state)) if of == version => state,
        _ => known.insert((version, feed())).1,
    }
}
