//! Checks what [`Decoder::idle_state`] and [`Out::post_free`] promise. Changes bytes that the decoder marked as free, and
//! repeats turns if the decoder's number permits it. The decoder's output must stay the same.

use overhead_decode::{Decoder, Free, Input, Label, Note, OpId, Out, Reader, Step};
use overhead_model::{Account, Class, Outcome, Side};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;

/// Number of rounds, each with other bytes.
pub const ROUNDS: u64 = 8;

/// Counts of what a conversation allowed to check.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Checked {
    /// Turns: stretches of the conversation between two idle moments.
    pub turns: usize,
    /// Turns that leave the number unchanged, so that they can be repeated.
    pub repeatable: usize,
    /// Turns that were repeated elsewhere.
    pub repeated: usize,
    /// Bytes changed in one round.
    pub free: u64,
}

/// Plays `conversation` unchanged, then with its free bytes changed, and repeats earlier turns wherever the number
/// equals the one before them. Stops where the decoder rejects the conversation. Returns what was checked.
///
/// # Panics
///
/// If anything posted, labelled, closed or noted differs, or the number. For tests only.
pub fn check<D: Decoder>(new: impl Fn() -> D, conversation: &[(Side, &[u8])]) -> Checked {
    check_rounds(new, conversation, 0..ROUNDS)
}

/// Like [`check`], for some of the [`ROUNDS`].
///
/// # Panics
///
/// Like [`check`].
pub fn check_rounds<D: Decoder>(new: impl Fn() -> D, conversation: &[(Side, &[u8])], rounds: Range<u64>) -> Checked {
    let mut checked = Checked::default();
    let turns = turns(new(), conversation);
    for round in rounds {
        let mut dice = Dice(round + 1);
        let mut stage = Stage::new(new());
        checked = Checked { turns: turns.len(), ..Checked::default() };
        let mut played = 0;
        for (index, turn) in turns.iter().enumerate() {
            stage.play(conversation.get(played..turn.pieces.start).unwrap_or_default());
            let earlier: Vec<_> = turns.iter().take(index).filter(|it| it.is_repeatable(turn.before)).collect();
            if let Some(again) = earlier.get(dice.below(earlier.len().max(1))) {
                stage.repeat(again, conversation, &mut dice);
                checked.repeated += 1;
            }
            stage.repeat(turn, conversation, &mut dice);
            checked.repeatable += usize::from(turn.is_repeatable(turn.before));
            checked.free += turn.heard.free.iter().map(|free| free.bytes.end - free.bytes.start).sum::<usize>() as u64;
            played = turn.pieces.end;
        }
    }
    checked
}

/// Plays `conversation` and returns the decoder's number after each piece; `None` where it is not idle.
pub fn numbers<D: Decoder>(decoder: D, conversation: &[(Side, &[u8])]) -> Vec<Option<u64>> {
    let mut stage = Stage::new(decoder);
    let after = |piece| stage.play(std::slice::from_ref(piece)).then(|| stage.idle_state()).flatten();
    conversation.iter().map(after).collect()
}

/// A stretch of a conversation between two idle moments.
#[derive(Debug)]
struct Turn {
    pieces: Range<usize>,
    before: u64,
    after: u64,
    heard: Told,
}

/// A turn's output: everything that the decoder reported, and the free parts of the turn.
#[derive(Debug, Default)]
struct Told {
    said: Vec<Said>,
    free: Vec<FreeBytes>,
}

impl Turn {
    /// Returns whether the turn may be repeated at `number`, which it then leaves unchanged.
    fn is_repeatable(&self, number: u64) -> bool {
        self.before == number && self.after == number
    }
}

/// Free bytes of one direction, counted from the start of the turn.
#[derive(Clone, Debug)]
struct FreeBytes {
    side: Side,
    bytes: Range<usize>,
    how: Free,
}

/// One report of a decoder. Operations are counted from the start of the turn.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Said {
    Open,
    Post(Side, u64, Account, &'static str, u64),
    Enter(Side, &'static str),
    Leave(Side),
    Label(u64, Class, String, &'static str, String),
    Close(u64, Outcome),
    Software(Side, String),
    Version(Side, String),
    Note(Note),
}

/// Returns the turns of a conversation.
fn turns<D: Decoder>(decoder: D, conversation: &[(Side, &[u8])]) -> Vec<Turn> {
    let mut stage = Stage::new(decoder);
    let mut turns = Vec::new();
    let mut begun = stage.idle_state().map(|number| (0, number));
    for (index, piece) in conversation.iter().enumerate() {
        if !stage.play(std::slice::from_ref(piece)) {
            break;
        }
        let Some(after) = stage.idle_state() else { continue };
        let heard = stage.heard.take();
        if let Some((start, before)) = begun {
            turns.push(Turn { pieces: start..index + 1, before, after, heard });
        }
        begun = Some((index + 1, after));
    }
    turns
}

/// A decoder in use, and its output.
struct Stage<D> {
    decoder: D,
    tails: [Vec<u8>; 2],
    current: [Option<OpId>; 2],
    heard: Heard,
}

impl<D: Decoder> Stage<D> {
    fn new(decoder: D) -> Self {
        Self { decoder, tails: [Vec::new(), Vec::new()], current: [None; 2], heard: Heard::default() }
    }

    /// Returns the decoder's number if all bytes were consumed.
    fn idle_state(&self) -> Option<u64> {
        self.decoder.idle_state().filter(|_| self.tails.iter().all(Vec::is_empty))
    }

    /// Plays `turn` with its free bytes changed. The postings must stay the same.
    fn repeat(&mut self, turn: &Turn, conversation: &[(Side, &[u8])], dice: &mut Dice) {
        let pieces = changed(conversation.get(turn.pieces.clone()).unwrap_or_default(), &turn.heard.free, dice);
        self.heard.take();
        assert_eq!(self.idle_state(), Some(turn.before), "before {pieces:?}");
        let borrowed: Vec<(Side, &[u8])> = pieces.iter().map(|(side, bytes)| (*side, bytes.as_slice())).collect();
        assert!(self.play(&borrowed), "not taken: {pieces:?}");
        let Told { said, .. } = self.heard.take();
        assert_eq!(said, turn.heard.said, "said of {pieces:?}");
        assert_eq!(self.idle_state(), Some(turn.after), "after {pieces:?}");
    }

    /// Returns whether the decoder took all pieces.
    fn play(&mut self, pieces: &[(Side, &[u8])]) -> bool {
        pieces.iter().all(|(side, bytes)| self.take(*side, bytes))
    }

    fn take(&mut self, side: Side, bytes: &[u8]) -> bool {
        let mut tail = std::mem::take(&mut self.tails[side as usize]);
        tail.extend_from_slice(bytes);
        let mut out = Out::new(&mut self.heard, side, self.current[side as usize]);
        let mut used = 0;
        let taken = loop {
            let input = Input { bytes: tail.get(used..).unwrap_or_default(), opaque: 0 };
            if input.bytes.is_empty() {
                break true;
            }
            let before = out.posted();
            let step = self.decoder.step(side, input, &mut out);
            out.leave_all();
            let posted = out.posted() - before;
            used += posted as usize;
            match step {
                Ok(Step::Progress) if posted > 0 => {}
                Ok(Step::Need(_) | Step::More) if posted == 0 => break true,
                _ => break false,
            }
        };
        self.current[side as usize] = out.current();
        tail.drain(..used);
        self.tails[side as usize] = tail;
        taken
    }
}

/// Collects the output since the last quiet moment.
#[derive(Debug, Default)]
struct Heard {
    told: Told,
    opened: u64,
    /// Operations opened before the last quiet moment.
    earlier: u64,
    posted: [u64; 2],
}

impl Heard {
    /// Returns the output since the last call.
    fn take(&mut self) -> Told {
        self.earlier = self.opened;
        self.posted = [0; 2];
        std::mem::take(&mut self.told)
    }

    fn number(&self, op: OpId) -> u64 {
        op.0.wrapping_sub(self.earlier)
    }
}

impl Reader for Heard {
    fn open(&mut self) -> OpId {
        self.told.said.push(Said::Open);
        self.opened += 1;
        OpId(self.opened - 1)
    }

    fn post(&mut self, side: Side, op: OpId, account: Account, field: &'static str, len: u64) {
        self.posted[side as usize] += len;
        self.told.said.push(Said::Post(side, self.number(op), account, field, len));
    }

    fn free(&mut self, side: Side, _op: OpId, ahead: u64, len: u64, how: Free) {
        let start = (self.posted[side as usize] + ahead) as usize;
        self.told.free.push(FreeBytes { side, bytes: start..start + len as usize, how });
    }

    fn enter(&mut self, side: Side, group: &'static str) {
        self.told.said.push(Said::Enter(side, group));
    }

    fn leave(&mut self, side: Side) {
        self.told.said.push(Said::Leave(side));
    }

    fn label(&mut self, op: OpId, label: Label<'_>) {
        let Label { class, name, via, statement } = label;
        self.told.said.push(Said::Label(self.number(op), class, name.to_owned(), via, statement.to_owned()));
    }

    fn close(&mut self, op: OpId, outcome: Outcome) {
        self.told.said.push(Said::Close(self.number(op), outcome));
    }

    fn software(&mut self, side: Side, name: &str) {
        self.told.said.push(Said::Software(side, name.to_owned()));
    }

    fn software_version(&mut self, side: Side, version: &str) {
        self.told.said.push(Said::Version(side, version.to_owned()));
    }

    fn note(&mut self, note: Note) {
        self.told.said.push(Said::Note(note));
    }
}

/// Returns the pieces of a turn with their free bytes changed.
fn changed(pieces: &[(Side, &[u8])], free: &[FreeBytes], dice: &mut Dice) -> Vec<(Side, Vec<u8>)> {
    let mut streams = Side::BOTH.map(|side| {
        pieces.iter().filter(|(of, _)| *of == side).flat_map(|(_, bytes)| bytes.iter().copied()).collect::<Vec<u8>>()
    });
    let mut ids = BTreeMap::new();
    let mut taken = BTreeSet::new();
    let before = streams.clone();
    // Another id, which is not free, may be anywhere. Ids of one byte are too few to avoid them all.
    let is_sent =
        |id: &[u8]| id.len() > 1 && before.iter().any(|stream| stream.windows(id.len()).any(|sent| sent == id));
    for FreeBytes { side, bytes, how } in free {
        assert!(bytes.end <= streams[*side as usize].len(), "free bytes that were not sent: {bytes:?}");
        let place = streams[*side as usize].get_mut(bytes.clone()).unwrap_or_default();
        match *how {
            Free::Any => place.fill_with(|| dice.byte()),
            Free::Digits => place.iter_mut().filter(|byte| byte.is_ascii_digit()).for_each(|byte| *byte = dice.digit()),
            Free::Id(mask) => {
                let id = ids.entry(place.to_vec()).or_insert_with_key(|old| dice.id(old, mask, &mut taken, is_sent));
                place.copy_from_slice(id);
            }
        }
    }
    let mut left = streams.map(VecDeque::from);
    pieces.iter().map(|(side, bytes)| (*side, left[*side as usize].drain(..bytes.len()).collect())).collect()
}

/// A reproducible random number generator.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        // SplitMix64, <https://prng.di.unimi.it/splitmix64.c>.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    /// Returns a byte, usually one with a meaning in some protocol.
    fn byte(&mut self) -> u8 {
        const TELLING: &[u8] = b"\0\r\n*$+-:>|\xff";
        match self.below(4) {
            0 => TELLING[self.below(TELLING.len())],
            _ => self.next() as u8,
        }
    }

    fn digit(&mut self) -> u8 {
        b'0' + self.below(10) as u8
    }

    /// Returns an id to replace `old`, different from all others.
    fn id(&mut self, old: &[u8], mask: u8, taken: &mut BTreeSet<Vec<u8>>, is_sent: impl Fn(&[u8]) -> bool) -> Vec<u8> {
        loop {
            let mut new: Vec<u8> = old.iter().map(|_| self.next() as u8).collect();
            if let (Some(new), Some(old)) = (new.first_mut(), old.first()) {
                *new = (*old & !mask) | (*new & mask);
            }
            if !is_sent(&new) && taken.insert(new.clone()) {
                return new;
            }
        }
    }
}

#[cfg(test)]
mod tests;
