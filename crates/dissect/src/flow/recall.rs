//! Where a connection takes frames in by what it remembers of turns like theirs; see [`memo`](super::memo).

use super::half::{Acked, ORIGIN};
use super::memo::{Candidate, LEARN_AFTER, Match, Memo, Quiet, Taken};
use super::{Flow, Stage};
use crate::ledger::Owner;
use crate::packet::Segment;
use overhead_model::{Account, Side, Tally};

/// What a connection remembers of its turns.
#[derive(Debug)]
pub enum Memory {
    /// Nothing, now and later.
    Off,
    /// Nothing yet.
    Later,
    /// These.
    On(Box<Memo>),
}

impl Memory {
    /// Remembers turns once there are some, where that is wanted.
    pub fn new(is_wanted: bool) -> Self {
        if is_wanted { Self::Later } else { Self::Off }
    }

    pub fn held(&self) -> usize {
        if let Self::On(memo) = self { memo.held() } else { 0 }
    }
}

impl Flow {
    /// Takes a segment in that goes on with a turn like one before, or begins one; false where it is to go the general way,
    /// and nothing is under way any more.
    #[inline]
    pub(super) fn recall<T: Tally>(&mut self, side: Side, segment: &Segment<'_>, number: u64, tally: &mut T) -> bool {
        let Memory::On(memo) = &self.memory else { return false };
        let frame = Candidate { side, headers: segment.headers, payload: segment.payload };
        let is_plain = self.is_plain(side, segment);
        if memo.is_learning() {
            self.learn_on(is_plain, segment, &frame, number);
            return false;
        }
        if is_plain && self.matches(segment, &frame, number, tally) {
            return true;
        }
        self.fall_back(tally);
        if let Memory::On(memo) = &mut self.memory {
            if is_plain && segment.payload_len > 0 {
                self.begin_to_learn(segment, &frame, number, tally);
            } else {
                memo.quiet = Quiet::Unknown;
            }
        }
        false
    }

    /// Returns whether nothing but the payload and the numbers of a segment could make a difference.
    #[inline]
    fn is_plain(&self, side: Side, segment: &Segment<'_>) -> bool {
        let flags = segment.flags;
        let (half, other) = (&self.halves[side as usize], &self.halves[side.other() as usize]);
        let is_data = segment.payload_len > 0;
        flags.ack
            && !(flags.syn || flags.fin || flags.rst)
            && segment.frames == 1
            && segment.window > 0
            && segment.payload.len() as u64 == u64::from(segment.payload_len)
            && half.is_next_seq(segment.seq)
            && (is_data || other.is_acknowledged_by(segment.ack))
            && half.is_orderly()
            && other.is_orderly()
            && !half.fin_seen()
            && !other.fin_seen()
            && self.probes.iter().all(Option::is_none)
    }

    /// Returns whether the segment goes on with a turn that is known, or begins one; if so, takes it in.
    #[inline]
    fn matches<T: Tally>(&mut self, segment: &Segment<'_>, frame: &Candidate<'_>, number: u64, tally: &mut T) -> bool {
        let Memory::On(memo) = &mut self.memory else { return false };
        if memo.quiet == Quiet::Unknown {
            let number = match &self.stage {
                Stage::Decoding(decoding) if !self.unproven && self.book.is_quiet() => decoding.engine.quiet(),
                _ => None,
            };
            memo.quiet = number.map_or(Quiet::No, Quiet::In);
        }
        let Quiet::In(version) = memo.quiet else { return false };
        if frame.payload.is_empty() && !memo.is_under_way() {
            return false;
        }
        let found = memo.find(frame, version);
        match found {
            Match::None => return false,
            Match::Whole(after) if after != version => {
                // What a state was may be forgotten by now.
                let Stage::Decoding(decoding) = &mut self.stage else { return false };
                if !decoding.engine.resume(after) {
                    return false;
                }
                memo.quiet = Quiet::In(after);
            }
            Match::Whole(_) | Match::Part => {}
        }
        self.hits += 1;
        let side = frame.side;
        let other = &mut self.halves[side.other() as usize];
        let is_news = other.acknowledge(segment.ack) == Acked::Bytes;
        let acked = is_news.then(|| other.acked().min(other.high()).saturating_sub(ORIGIN));
        if frame.payload.is_empty() {
            self.tcp.control_frames += 1;
        } else {
            self.payload_frames += 1;
            self.tcp.payload_bytes += u64::from(segment.payload_len);
            self.halves[side as usize].deliver_bytes(segment.payload, u64::from(segment.payload_len));
        }
        if found == Match::Part {
            memo.under_way.push(taken(frame, segment, number, acked), frame.payload);
        } else {
            memo.complete(segment.time_ns, acked, &mut self.book, tally);
        }
        true
    }

    /// The turn under way goes on otherwise than those before: what was taken in of it goes the general way.
    pub(super) fn fall_back<T: Tally>(&mut self, tally: &mut T) {
        let Memory::On(memo) = &mut self.memory else { return };
        if !memo.is_under_way() {
            return;
        }
        memo.quiet = Quiet::Unknown;
        let under_way = memo.take_under_way();
        for frame in &under_way.frames {
            let here = self.book.at(frame.number, 1);
            let payload = under_way.payload(frame);
            if let Some(acked) = frame.acked {
                self.book.acknowledged(frame.side.other(), acked);
            }
            if payload.is_empty() {
                let last = frame.acked.unwrap_or_default().saturating_sub(1);
                let owner = Owner::Byte(frame.side.other(), last);
                self.book.charge(frame.side, owner, Account::Control, u64::from(frame.wire_len), tally);
            } else {
                let arrival = self.book.arrival(frame.time_ns, frame.headers, payload.len() as u64);
                self.book.slice(frame.side, arrival, payload.len() as u64);
                self.decode(frame.side, payload, 0, tally);
            }
            self.book.at(here.0, here.1);
        }
    }

    /// A segment that goes the general way next may begin a turn to be learnt.
    fn begin_to_learn<T: Tally>(&mut self, segment: &Segment<'_>, frame: &Candidate<'_>, number: u64, tally: &mut T) {
        let Memory::On(memo) = &mut self.memory else { return };
        // Unknown where something was under way.
        if let Quiet::In(version) = std::mem::replace(&mut memo.quiet, Quiet::Unknown)
            && memo.begin_learning(version, frame, tally)
        {
            self.book.record();
            if !memo.learn(taken(frame, segment, number, None), frame.payload) {
                self.stop_learning();
            }
        }
    }

    /// A segment that goes the general way next is part of a turn that is being learnt, if it is like others.
    fn learn_on(&mut self, is_plain: bool, segment: &Segment<'_>, frame: &Candidate<'_>, number: u64) {
        let Memory::On(memo) = &mut self.memory else { return };
        memo.quiet = Quiet::Unknown;
        if !(is_plain && memo.learn(taken(frame, segment, number, None), frame.payload)) {
            self.stop_learning();
        }
    }

    fn stop_learning(&mut self) {
        if let Memory::On(memo) = &mut self.memory {
            memo.stop_learning();
        }
        self.book.recorded();
    }

    /// A segment with payload went the general way: where the turn being learnt is whole with it, the turn is kept.
    #[inline]
    pub(super) fn learnt<T: Tally>(&mut self, tally: &mut T) {
        let is_time = self.payload_frames >= LEARN_AFTER && self.is_answered();
        match &mut self.memory {
            Memory::On(memo) if memo.is_learning() => {
                if let Stage::Decoding(decoding) = &self.stage
                    && self.book.is_quiet()
                    && let Some(version) = decoding.engine.quiet()
                {
                    if let Some(recording) = self.book.recorded() {
                        memo.keep(version, &recording, tally);
                    }
                    memo.quiet = Quiet::In(version);
                }
            }
            Memory::Later if is_time => {
                self.memory = if tally.listener().is_some() { Memory::Off } else { Memory::On(Box::default()) };
            }
            _ => {}
        }
    }

    /// Returns how many frames were taken in by memory.
    pub fn hits(&self) -> u64 {
        self.hits
    }

    /// Forgets all turns.
    pub(super) fn forget<T: Tally>(&mut self, tally: &mut T) {
        if matches!(self.memory, Memory::On(_)) {
            self.stop_learning();
            self.tell(tally);
            self.memory = Memory::Later;
        }
    }

    /// Tells the tally of what came again.
    pub fn tell<T: Tally>(&mut self, tally: &mut T) {
        if let Memory::On(memo) = &mut self.memory {
            memo.tell(tally);
        }
    }
}

fn taken(frame: &Candidate<'_>, segment: &Segment<'_>, number: u64, acked: Option<u64>) -> Taken {
    Taken {
        side: frame.side,
        number,
        time_ns: segment.time_ns,
        wire_len: segment.wire_len,
        headers: frame.headers,
        start: 0,
        len: 0,
        acked,
    }
}
