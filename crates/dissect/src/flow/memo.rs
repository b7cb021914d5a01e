//! What turns came to, to be taken for those that follow.
//!
//! A *turn* is what passes between two moments at which a connection is quiet: nothing is open, incomplete, held back or
//! waited for. A turn that the general path took in is kept as the frames that it is made of, each with a mask of the bytes
//! that may differ, and with what it came to. Frames that match are then counted instead of decoded. They are kept until
//! their turn is complete, so that one that goes on otherwise can still go the general way.

use super::counts::Counts;
use crate::ledger::{Book, Recorded, Recording, Repeat};
use crate::packet::{Bare, Headers};
use overhead_decode::Free;
use overhead_model::{Operation, RowId, Side, Tally};

/// Frames with payload before anything is kept of a connection: few are that short, and many together would take room.
pub const LEARN_AFTER: u64 = 16;
/// Turns kept of a connection.
const TURNS: usize = 8;
/// Frames of a turn.
const FRAMES: usize = 6;
/// Payload of a turn.
const BYTES: usize = 16 << 10;
/// Turns that may be learnt and never come again, before that is given up for a while: twice as many as are kept, and more
/// with each one that came again, up to this.
const CREDIT: u32 = 2 * TURNS as u32;
const MOST_CREDIT: u32 = 64;
/// The same after that while.
const SECOND_CREDIT: u32 = 4;
/// Turns that are not learnt then.
const REST: u32 = 4096;

/// A frame of a turn under way.
#[derive(Clone, Copy, Debug)]
pub struct Taken {
    pub side: Side,
    pub number: u64,
    pub time_ns: u64,
    pub headers: Headers,
    /// Where its payload begins in the bytes of the turn, and how long it is; 0 for an acknowledgment.
    pub start: usize,
    pub len: usize,
    /// How far it acknowledges the other direction, where that is further than before.
    pub acked: Option<u64>,
}

/// The frames of a turn so far.
#[derive(Debug, Default)]
pub struct Frames {
    pub frames: Vec<Taken>,
    pub bytes: Vec<u8>,
}

impl Frames {
    fn clear(&mut self) {
        self.frames.clear();
        self.bytes.clear();
    }

    /// Adds a frame behind the others.
    pub fn push(&mut self, frame: Taken, payload: &[u8]) {
        self.frames.push(Taken { start: self.bytes.len(), len: payload.len(), ..frame });
        self.bytes.extend_from_slice(payload);
    }

    /// Returns the payload of a frame.
    pub fn payload(&self, frame: &Taken) -> &[u8] {
        self.bytes.get(frame.start..frame.start + frame.len).unwrap_or_default()
    }
}

/// What a payload of a certain length is to be, in words of eight bytes of which bits may be free to differ.
#[derive(Debug, Default)]
struct Pattern {
    words: Box<[Word]>,
    /// The last word, which may overlap the one before.
    last: Word,
}

/// What a word is to be, and the bits in which it is to be it.
#[derive(Clone, Copy, Debug, Default)]
struct Word {
    index: usize,
    value: u64,
    mask: u64,
}

impl Pattern {
    /// Of this payload, with these bits fixed.
    fn new(payload: &[u8], mask: &[u8]) -> Self {
        let word = |index, word, mask| Word { index, value: word & mask, mask };
        let words = payload.as_chunks::<8>().0.iter().zip(mask.as_chunks::<8>().0).enumerate();
        let words = words.map(|(at, (of, mask))| word(at, u64::from_le_bytes(*of), u64::from_le_bytes(*mask)));
        Self {
            words: words.filter(|word| word.mask != 0).collect(),
            last: word(0, last_word(payload), last_word(mask)),
        }
    }

    /// Returns whether a payload of the same length is like it.
    #[inline]
    fn matches(&self, payload: &[u8]) -> bool {
        let mut differ = (last_word(payload) & self.last.mask) ^ self.last.value;
        let (found, _) = payload.as_chunks::<8>();
        for word in &self.words {
            let Some(found) = found.get(word.index) else { return false };
            differ |= (u64::from_le_bytes(*found) & word.mask) ^ word.value;
        }
        differ == 0
    }
}

/// The last eight bytes, or as many as there are: the same bytes in the same places for all of one length.
#[inline]
pub fn last_word(bytes: &[u8]) -> u64 {
    if let Some(last) = bytes.last_chunk() {
        return u64::from_le_bytes(*last);
    }
    match (bytes.first_chunk(), bytes.last_chunk()) {
        (Some(first), Some(last)) => u64::from(u32::from_le_bytes(*first)) << 32 | u64::from(u32::from_le_bytes(*last)),
        _ => bytes.iter().fold(0, |word, &byte| word << 8 | u64::from(byte)),
    }
}

/// Bytes that are to equal those of an earlier frame.
#[derive(Clone, Copy, Debug)]
struct Echo {
    at: usize,
    len: usize,
    of_frame: usize,
    of_at: usize,
}

/// What a frame of a turn is to be.
#[derive(Debug)]
struct Step {
    side: Side,
    headers: Headers,
    len: usize,
    pattern: Pattern,
    /// What else there is to its payload, where there is anything.
    rules: Option<Box<Rules>>,
}

/// What bytes are to be that may differ.
#[derive(Debug, Default)]
struct Rules {
    /// Where digits are to be.
    digits: Box<[usize]>,
    echoes: Box<[Echo]>,
    /// Where ids are, and how long.
    ids: Box<[(usize, usize)]>,
}

impl Step {
    #[inline]
    fn matches(&self, frame: &Candidate<'_>, before: &Frames) -> bool {
        frame.payload.len() == self.len
            && frame.side == self.side
            && *frame.headers == self.headers
            && self.pattern.matches(frame.payload)
            && self.rules.as_ref().is_none_or(|rules| rules.match_in(frame.payload, before))
    }

    fn held(&self) -> usize {
        let rules = self.rules.as_ref().map_or(0, |rules| {
            size_of::<Rules>() + size_of_val(&*rules.digits) + size_of_val(&*rules.echoes) + size_of_val(&*rules.ids)
        });
        size_of::<Self>() + size_of_val(&*self.pattern.words) + rules
    }
}

impl Rules {
    fn match_in(&self, payload: &[u8], before: &Frames) -> bool {
        self.digits.iter().all(|&at| payload.get(at).is_some_and(u8::is_ascii_digit))
            && self.echoes.iter().all(|echo| echo.matches(payload, before))
            && (self.ids.len() < 2 || self.are_distinct(payload))
    }

    fn are_distinct(&self, payload: &[u8]) -> bool {
        let id = |&(at, len): &(usize, usize)| payload.get(at..at + len);
        self.ids
            .iter()
            .enumerate()
            .all(|(index, one)| self.ids.iter().skip(index + 1).all(|other| id(one) != id(other)))
    }
}

impl Echo {
    fn matches(&self, payload: &[u8], before: &Frames) -> bool {
        let Self { at, len, of_frame, of_at } = *self;
        let of = before.frames.get(of_frame).map(|frame| before.payload(frame)).unwrap_or_default();
        payload.get(at..at + len) == of.get(of_at..of_at + len)
    }
}

/// A frame that may be the next of a turn.
#[derive(Clone, Copy, Debug)]
pub struct Candidate<'a> {
    pub side: Side,
    pub headers: &'a Headers,
    /// Empty for an acknowledgment of all that the other side has sent.
    pub payload: &'a [u8],
}

impl<'a> Candidate<'a> {
    #[inline]
    pub fn of(side: Side, bare: &'a Bare<'_>) -> Self {
        Self { side, headers: &bare.headers, payload: bare.payload }
    }
}

/// Latencies of a turn: of so many operations of a row, from the time of one frame to that of another.
#[derive(Clone, Copy, Debug)]
struct Latency {
    row: RowId,
    from: usize,
    to: usize,
    times: u64,
}

/// A turn that is kept.
#[derive(Debug)]
struct Turn {
    /// See [`overhead_decode::Decoder::quiet`]: before, and afterwards.
    version: u64,
    after: u64,
    steps: Vec<Step>,
    /// Operations, latencies apart, and how many of each.
    operations: Vec<(RowId, Operation, u64)>,
    latencies: Vec<Latency>,
    repeat: Repeat,
    counts: Counts,
    /// How often it came again since that was told.
    count: u64,
}

impl Turn {
    /// Returns what it comes to that a frame matches which so many came before.
    #[inline]
    fn after(&self, before: usize) -> Match {
        if self.steps.len() == before + 1 { Match::Whole(self.after) } else { Match::Part }
    }

    /// Tells the tally how often it came again, and adds that to the counts.
    fn tell<T: Tally>(&mut self, counts: &mut Counts, tally: &mut T) {
        let count = std::mem::take(&mut self.count);
        if count > 0 {
            for (row, operation, times) in &self.operations {
                tally.operations(*row, operation, times * count);
            }
            counts.add(&self.counts, count);
        }
    }

    fn held(&self) -> usize {
        size_of::<Self>()
            + self.steps.iter().map(Step::held).sum::<usize>()
            + size_of_val(&*self.operations)
            + size_of_val(&*self.latencies)
            + self.repeat.held()
    }
}

/// Whether a connection is quiet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quiet {
    /// That has to be found out.
    Unknown,
    No,
    /// Its decoder is in this version.
    In(u64),
}

/// What is kept of a connection's turns.
#[derive(Debug)]
pub struct Memo {
    /// The one that came last is the first.
    turns: Vec<Turn>,
    /// The frames of the turn under way that matched so far, or of one that is being learnt.
    pub under_way: Frames,
    /// The turn being learnt began with the decoder in this version.
    learning: Option<u64>,
    pub quiet: Quiet,
    /// How often the first turn came again since the books took it in.
    due: u64,
    /// How far each direction was acknowledged when its last payload came, and at the end of the last turn.
    acked_before: [u64; 2],
    acked: [u64; 2],
    /// Lengths and directions of the frames that turns began with that were not learnt, the latest first.
    seen: [u32; TURNS],
    credit: u32,
    rest: u32,
    /// Bytes of memory that the turns take.
    held: usize,
    /// What came of turns that are forgotten by now.
    counts: Counts,
}

impl Default for Memo {
    fn default() -> Self {
        let (turns, under_way) = (Vec::new(), Frames::default());
        Self {
            turns,
            under_way,
            learning: None,
            quiet: Quiet::Unknown,
            due: 0,
            acked_before: [0; 2],
            acked: [0; 2],
            seen: [0; TURNS],
            credit: CREDIT,
            rest: 0,
            held: 0,
            counts: Counts::default(),
        }
    }
}

/// What became of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Match {
    /// It matches no turn.
    None,
    /// It matches one that goes on.
    Part,
    /// It is the last one of a turn, which leaves the decoder in this version.
    Whole(u64),
}

impl Memo {
    /// Returns whether frames wait for the rest of their turn.
    pub fn is_under_way(&self) -> bool {
        self.learning.is_none() && !self.under_way.frames.is_empty()
    }

    /// Returns whether a turn is being learnt.
    pub fn is_learning(&self) -> bool {
        self.learning.is_some()
    }

    /// Looks for a turn that goes on, or begins, with this frame. What matches is to be added to the frames under way.
    #[inline]
    pub fn find(&mut self, frame: &Candidate<'_>, version: u64, book: &mut Book) -> Match {
        match self.turns.first() {
            Some(turn) if self.goes_on(turn, frame, version) => turn.after(self.under_way.frames.len()),
            _ => self.find_other(frame, version, book),
        }
    }

    fn find_other(&mut self, frame: &Candidate<'_>, version: u64, book: &mut Book) -> Match {
        let mut others = self.turns.iter().skip(1);
        let Some(index) = others.position(|turn| self.goes_on(turn, frame, version) && self.begins(turn)) else {
            return Match::None;
        };
        self.catch_up(book);
        self.turns.swap(0, index + 1);
        self.turns.first().map_or(Match::None, |turn| turn.after(self.under_way.frames.len()))
    }

    #[inline]
    fn goes_on(&self, turn: &Turn, frame: &Candidate<'_>, version: u64) -> bool {
        let step = turn.steps.get(self.under_way.frames.len());
        turn.version == version && step.is_some_and(|step| step.matches(frame, &self.under_way))
    }

    /// Returns whether the frames under way are the first ones of this turn, too.
    fn begins(&self, turn: &Turn) -> bool {
        let mut before = turn.steps.iter().zip(&self.under_way.frames);
        before.all(|(step, frame)| {
            let payload = self.under_way.payload(frame);
            step.matches(&Candidate { side: frame.side, headers: &frame.headers, payload }, &self.under_way)
        })
    }

    /// Payload of a direction came again, when that much of it was acknowledged.
    #[inline]
    pub fn came(&mut self, side: Side, acked: u64) {
        self.acked_before[side as usize] = acked;
    }

    /// The turn under way is whole with a frame of this time, and so much is acknowledged of both directions: it is counted, and
    /// the tally takes its latencies in.
    #[inline]
    pub fn complete<T: Tally>(&mut self, last_ns: u64, acked: [u64; 2], tally: &mut T) {
        self.credit = MOST_CREDIT.min(self.credit + 1);
        let Some(turn) = self.turns.first_mut() else { return };
        (turn.count, self.due, self.acked) = (turn.count + 1, self.due + 1, acked);
        for &Latency { row, from, to, times } in &turn.latencies {
            let time_of = |index: usize| self.under_way.frames.get(index).map_or(last_ns, |frame| frame.time_ns);
            tally.latency(row, time_of(to).saturating_sub(time_of(from)), times);
        }
        self.under_way.clear();
    }

    /// The books take in what came again of the first turn: to be called before anything else is done to them.
    pub fn catch_up(&mut self, book: &mut Book) {
        let due = std::mem::take(&mut self.due);
        let Some(turn) = self.turns.first().filter(|_| due > 0) else { return };
        for side in Side::BOTH {
            book.acknowledged(side, self.acked_before[side as usize]);
            book.repeat(side, &turn.repeat, due);
            book.acknowledged(side, self.acked[side as usize]);
        }
        book.repeat_counts(&turn.repeat, due);
    }

    /// Takes the frames under way out, to go the general way.
    pub fn take_under_way(&mut self) -> Frames {
        std::mem::take(&mut self.under_way)
    }

    /// Returns whether the turn that begins with a frame is to be learnt, and has it begin if so.
    pub fn begin_learning<T: Tally>(&mut self, version: u64, frame: &Candidate<'_>, tally: &mut T) -> bool {
        if self.rest > 0 {
            self.rest -= 1;
            return false;
        }
        // What comes for the first time may never come again: only its looks are remembered.
        let looks = (frame.payload.len() as u32) << 1 | frame.side as u32;
        if !self.seen.contains(&looks) {
            self.seen.rotate_right(1);
            self.seen[0] = looks;
            return false;
        }
        self.credit -= 1;
        if self.credit == 0 {
            // What there is does not come again often enough to be looked for.
            for mut turn in self.turns.drain(..) {
                turn.tell(&mut self.counts, tally);
            }
            self.held = 0;
            (self.credit, self.rest) = (SECOND_CREDIT, REST);
            return false;
        }
        self.learning = Some(version);
        true
    }

    /// Adds a frame to the turn being learnt; false where it becomes too long.
    pub fn learn(&mut self, frame: Taken, payload: &[u8]) -> bool {
        let fits = self.under_way.frames.len() < FRAMES && self.under_way.bytes.len() + payload.len() <= BYTES;
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

    /// The turn being learnt is whole, and the decoder in this version: keeps it, where it can come again.
    pub fn keep<T: Tally>(&mut self, after: u64, recording: &Recording, tally: &mut T) {
        if let Some(turn) = self.learning.take().and_then(|before| turn([before, after], &self.under_way, recording)) {
            if self.turns.len() >= TURNS
                && let Some(mut last) = self.turns.pop()
            {
                last.tell(&mut self.counts, tally);
                self.held -= last.held();
            }
            self.held += turn.held();
            self.turns.insert(0, turn);
        }
        self.under_way.clear();
    }

    /// Tells the tally of all turns that came again, and returns what their frames come to.
    pub fn tell<T: Tally>(&mut self, tally: &mut T) -> Counts {
        let mut counts = std::mem::take(&mut self.counts);
        self.turns.iter_mut().for_each(|turn| turn.tell(&mut counts, tally));
        counts
    }

    /// Returns how many frames came in turns that came again, and are not told of.
    pub fn hits(&self) -> u64 {
        self.turns.iter().map(|turn| turn.count * turn.counts.frames).sum::<u64>() + self.counts.frames
    }

    /// Returns how many bytes of memory it holds, roughly.
    pub fn held(&self) -> usize {
        size_of::<Self>()
            + self.under_way.bytes.capacity()
            + self.under_way.frames.capacity() * size_of::<Taken>()
            + self.held
    }
}

/// Returns what is to be kept of a turn; `None` where it cannot be told again.
fn turn([version, after]: [u64; 2], under_way: &Frames, recording: &Recording) -> Option<Turn> {
    let repeat = recording.repeat()?;
    let frames = &under_way.frames;
    let at = |side: Side, time_ns: Option<u64>| {
        let mut found = frames
            .iter()
            .enumerate()
            .filter(|(_, frame)| frame.side == side && frame.len > 0 && Some(frame.time_ns) == time_ns);
        let (index, _) = found.next()?;
        if found.next().is_some() { None } else { Some(index) }
    };
    let (mut operations, mut latencies) = (Vec::new(), Vec::<Latency>::new());
    for Recorded { row, operation, first_ns, last_ns, .. } in &recording.operations {
        if operation.latency_ns.is_some() {
            let (from, to) = (at(Side::Request, *first_ns)?, at(Side::Response, *last_ns)?);
            match latencies.iter_mut().find(|kept| (kept.row, kept.from, kept.to) == (*row, from, to)) {
                Some(kept) => kept.times += 1,
                None => latencies.push(Latency { row: *row, from, to, times: 1 }),
            }
        }
        let bare = Operation { latency_ns: None, ..*operation };
        match operations.iter_mut().find(|(of, kept, _)| of == row && *kept == bare) {
            Some((_, _, times)) => *times += 1,
            None => operations.push((*row, bare, 1)),
        }
    }
    let steps: Vec<Step> = (0..frames.len()).map(|index| step(index, under_way, recording)).collect::<Option<_>>()?;
    // Ids are told apart within a frame.
    if steps.iter().filter(|step| step.rules.as_ref().is_some_and(|rules| !rules.ids.is_empty())).count() > 1 {
        return None;
    }
    let mut counts = Counts::default();
    for frame in frames {
        counts.frame(frame.headers, frame.len);
    }
    operations.shrink_to_fit();
    latencies.shrink_to_fit();
    Some(Turn { version, after, steps, operations, latencies, repeat, counts, count: 0 })
}

/// Returns what a frame of a turn is to be; `None` where it does not itself keep the rules that its like are held against.
fn step(index: usize, under_way: &Frames, recording: &Recording) -> Option<Step> {
    let frame = under_way.frames.get(index)?;
    let payload = under_way.payload(frame);
    // Where the frame begins in what was recorded of its side.
    let start_of = |index: usize, side: Side| -> u64 {
        under_way.frames.iter().take(index).filter(|frame| frame.side == side).map(|frame| frame.len as u64).sum()
    };
    let start = start_of(index, frame.side);
    let (mut mask, mut digits) = (vec![0xff_u8; payload.len()], Vec::new());
    let (mut echoes, mut ids) = (Vec::new(), Vec::new());
    for free in recording.free.iter().filter(|free| free.side == frame.side) {
        let from = usize::try_from(free.offset.saturating_sub(start)).ok()?;
        let to = usize::try_from((free.offset + free.len).saturating_sub(start)).ok()?.min(payload.len());
        let is_whole = free.offset >= start && (to - from.min(to)) as u64 == free.len;
        match free.free {
            Free::Any => mask.get_mut(from..to).unwrap_or_default().fill(0),
            Free::Digits => {
                for at in from..to {
                    if payload[at].is_ascii_digit() {
                        mask[at] = 0;
                        digits.push(at);
                    }
                }
            }
            Free::Id(_) if !is_whole => {}
            Free::Id(bits) => {
                let asked = recording.free.iter().find(|asked| {
                    (asked.side, asked.op, asked.len) == (Side::Request, free.op, free.len)
                        && matches!(asked.free, Free::Id(_))
                });
                let place = asked.filter(|_| free.side == Side::Response).and_then(|asked| {
                    let mut before = under_way.frames.iter().enumerate().take(index);
                    before.find_map(|(of_frame, frame)| {
                        let start = start_of(of_frame, Side::Request);
                        let of_at = usize::try_from(asked.offset.checked_sub(start)?).ok()?;
                        let lies_in = frame.side == Side::Request && of_at + to - from <= frame.len;
                        lies_in.then_some(Echo { at: from, len: to - from, of_frame, of_at })
                    })
                });
                match (free.side, place) {
                    (Side::Response, None) => continue,
                    (Side::Response, Some(echo)) => echoes.push(echo),
                    (Side::Request, _) => ids.push((from, to - from)),
                }
                let range = mask.get_mut(from..to).unwrap_or_default();
                range.fill(0);
                if let Some(first) = range.first_mut() {
                    *first = !bits;
                }
            }
        }
    }
    let pattern = Pattern::new(payload, &mask);
    let (side, headers, len) = (frame.side, frame.headers, frame.len);
    let is_ruled = !(digits.is_empty() && echoes.is_empty() && ids.is_empty());
    let rules = is_ruled.then(|| Box::new(Rules { digits: digits.into(), echoes: echoes.into(), ids: ids.into() }));
    let step = Step { side, headers, len, pattern, rules };
    step.matches(&Candidate { side, headers: &headers, payload }, under_way).then_some(step)
}
