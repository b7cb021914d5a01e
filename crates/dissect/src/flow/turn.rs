//! A turn: its frames, each with a mask of the bytes that may differ, and its result.

use super::counts::FlowCounts;
use super::mask::PayloadMask;
use crate::ledger::{FreeBytes, RecordedOperation, RepeatedEntries, TurnRecording};
use crate::packet::{Headers, PlainSegment};
use overhead_decode::Free;
use overhead_model::{Operation, RowId, Side, Tally};
use std::hash::{Hash, Hasher};

#[derive(Clone, Copy, Debug)]
pub struct TurnFrame {
    pub side: Side,
    pub number: u64,
    pub time_ns: u64,
    pub headers: Headers,
    /// Start of its payload in the bytes of the turn, and its length; 0 for an acknowledgment.
    pub start: usize,
    pub len: usize,
    /// Offset it acknowledges in the other direction, if that advances.
    pub acked: Option<u64>,
}

#[derive(Debug, Default)]
pub struct TurnFrames {
    pub taken: Vec<TurnFrame>,
    pub bytes: Vec<u8>,
}

impl TurnFrames {
    pub fn clear(&mut self) {
        self.taken.clear();
        self.bytes.clear();
    }

    #[inline(always)]
    pub fn push(&mut self, frame: TurnFrame, payload: &[u8]) {
        if self.taken.capacity() == 0 {
            // Most turns have two frames, and the last one is not kept.
            self.taken.reserve_exact(1);
        }
        self.taken.push(TurnFrame { start: self.bytes.len(), len: payload.len(), ..frame });
        self.bytes.extend_from_slice(payload);
    }

    fn sent(&self) -> impl Iterator<Item = ComparedFrame<'_>> {
        let sent = |frame: &TurnFrame| ComparedFrame {
            side: frame.side,
            headers: frame.headers,
            payload: self.payload(frame),
        };
        self.taken.iter().map(sent)
    }

    pub fn payload(&self, frame: &TurnFrame) -> &[u8] {
        self.bytes.get(frame.start..frame.start + frame.len).unwrap_or_default()
    }
}

/// Bytes that must equal an earlier frame's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct EchoedBytes {
    at: usize,
    len: usize,
    of_frame: usize,
    of_at: usize,
}

/// The pattern for a frame of a turn.
#[derive(Debug, PartialEq, Eq, Hash)]
struct FramePattern {
    side: Side,
    headers: Headers,
    len: usize,
    pattern: PayloadMask,
    /// Further rules for its payload, if any.
    rules: Option<Box<PayloadRules>>,
}

/// The parts of a frame that are compared with another.
#[derive(Clone, Copy, Debug)]
struct ComparedFrame<'a> {
    side: Side,
    headers: Headers,
    payload: &'a [u8],
}

impl<'a> ComparedFrame<'a> {
    #[inline]
    fn new(side: Side, bare: &PlainSegment<'a>) -> Self {
        Self { side, headers: bare.headers, payload: bare.payload }
    }
}

#[derive(Debug, Default, PartialEq, Eq, Hash)]
struct PayloadRules {
    echoes: Box<[EchoedBytes]>,
    /// Start and length of each id.
    ids: Box<[(usize, usize)]>,
}

impl FramePattern {
    /// Returns whether a frame that follows those in `before` matches.
    #[inline(always)]
    fn fits(&self, sent: ComparedFrame<'_>, before: &TurnFrames) -> bool {
        sent.side == self.side
            && sent.headers == self.headers
            && sent.payload.len() == self.len
            && self.pattern.matches(sent.payload)
            && self.rules.as_ref().is_none_or(|rules| rules.match_in(sent.payload, before))
    }
}

impl PayloadRules {
    fn match_in(&self, payload: &[u8], before: &TurnFrames) -> bool {
        self.echoes.iter().all(|echo| echo.matches(payload, before))
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

impl EchoedBytes {
    fn matches(&self, payload: &[u8], before: &TurnFrames) -> bool {
        let Self { at, len, of_frame, of_at } = *self;
        let of = before.taken.get(of_frame).map(|frame| before.payload(frame)).unwrap_or_default();
        payload.get(at..at + len) == of.get(of_at..of_at + len)
    }
}

/// Latencies of a turn: for several operations of a row, from the time of one frame to the time of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TurnLatency {
    pub row: RowId,
    /// Index of each frame, from 0.
    pub from: usize,
    pub to: usize,
    pub times: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct TurnSpan {
    /// Index of the equal operation in [`Turn::operations`].
    kind: u32,
    /// Index of its first frame; `None` if unknown.
    start: Option<u8>,
    /// Index of the frame with the last byte of its response, if it has a latency.
    end: Option<u8>,
}

/// A turn that may come again on any connection with its decoder in the same state.
#[derive(Debug, PartialEq, Eq)]
pub struct Turn {
    steps: Vec<FramePattern>,
    /// Operations without latencies, and the number of each.
    operations: Vec<(RowId, Operation, u64)>,
    /// All operations in order of closing; empty if nobody wants them one by one.
    each: Box<[TurnSpan]>,
    pub latencies: Vec<TurnLatency>,
    pub repeat: RepeatedEntries,
    pub counts: FlowCounts,
}

impl Turn {
    #[inline]
    pub fn len(&self) -> usize {
        self.steps.len()
    }

    /// Returns the direction and payload length of its first frame.
    pub fn start(&self) -> Option<(Side, usize)> {
        self.steps.first().map(|step| (step.side, step.len))
    }

    /// Returns whether a segment from `side` matches the next frame, given that those in `before` match.
    #[inline(always)]
    pub fn goes_on(&self, before: &TurnFrames, side: Side, bare: &PlainSegment<'_>) -> bool {
        match self.steps.get(before.taken.len()) {
            Some(step) => step.fits(ComparedFrame::new(side, bare), before),
            None => false,
        }
    }

    /// Returns whether these frames, followed by a segment from `side`, match its first ones.
    pub fn begins_with(&self, before: &TurnFrames, side: Side, bare: &PlainSegment<'_>) -> bool {
        self.goes_on(before, side, bare) && before.sent().zip(&self.steps).all(|(sent, step)| step.fits(sent, before))
    }

    /// Reports `times` repetitions, at least one, to the tally and adds them to the counts.
    pub fn tell<T: Tally>(&self, times: u64, counts: &mut FlowCounts, tally: &mut T) {
        for (row, operation, of_each) in &self.operations {
            tally.operations(*row, operation, of_each * times);
        }
        counts.add_turns(&self.counts, times);
    }

    /// Reports each operation of a turn with these frames and a last one at `last_ns`.
    pub fn tell_each<T: Tally>(&self, under_way: &TurnFrames, last_ns: u64, tally: &mut T) {
        let time_of = |index: u8| under_way.taken.get(usize::from(index)).map_or(last_ns, |frame| frame.time_ns);
        for each in &self.each {
            let Some((row, operation, _)) = self.operations.get(each.kind as usize) else { continue };
            let start_ns = each.start.map(time_of);
            let latency_ns = start_ns.zip(each.end).and_then(|(start_ns, end)| time_of(end).checked_sub(start_ns));
            tally.each(*row, &Operation { latency_ns, ..*operation }, start_ns);
        }
    }
}

/// Hashes the parts that distinguish it from most others.
impl Hash for Turn {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.steps.hash(state);
        self.operations.iter().for_each(|(row, ..)| row.0.hash(state));
    }
}

/// Returns the turn to keep; `None` if it cannot be reported again, operation by operation if `wants_each`.
pub fn turn(under_way: &TurnFrames, recording: &TurnRecording, wants_each: bool) -> Option<Turn> {
    let repeat = recording.repeat()?;
    let frames = &under_way.taken;
    let at = |side: Side, time_ns: Option<u64>| {
        let mut found = frames
            .iter()
            .enumerate()
            .filter(|(_, frame)| frame.side == side && frame.len > 0 && Some(frame.time_ns) == time_ns);
        let (index, _) = found.next()?;
        if found.next().is_some() { None } else { Some(index) }
    };
    let (mut operations, mut each) = (Vec::with_capacity(1), Vec::new());
    let mut latencies = Vec::<TurnLatency>::with_capacity(1);
    for RecordedOperation { row, operation, first_ns, last_ns, .. } in &recording.operations {
        // The clock was set back: this one has no latency, but others like it have.
        if last_ns.is_some() && last_ns < first_ns {
            return None;
        }
        if operation.latency_ns.is_some() {
            let (from, to) = (at(Side::Request, *first_ns)?, at(Side::Response, *last_ns)?);
            match latencies.iter_mut().find(|kept| (kept.row, kept.from, kept.to) == (*row, from, to)) {
                Some(kept) => kept.times += 1,
                None => latencies.push(TurnLatency { row: *row, from, to, times: 1 }),
            }
        }
        let bare = Operation { latency_ns: None, ..*operation };
        let kind = operations.iter().position(|(of, kept, _)| of == row && *kept == bare).unwrap_or(operations.len());
        match operations.get_mut(kind) {
            Some((_, _, times)) => *times += 1,
            None => operations.push((*row, bare, 1)),
        }
        if wants_each {
            let frame = |side: Side, time_ns: &Option<u64>| match time_ns {
                Some(_) => Some(Some(u8::try_from(at(side, *time_ns)?).ok()?)),
                None => Some(None),
            };
            let (first, last) = (frame(Side::Request, first_ns)?, frame(Side::Response, last_ns)?);
            each.push(TurnSpan { kind: kind as u32, start: first.or(last), end: operation.latency_ns.and(last) });
        }
    }
    let step = |index| step(index, under_way, recording);
    let steps: Vec<FramePattern> = (0..frames.len()).map(step).collect::<Option<_>>()?;
    // Ids are compared only within a frame.
    if steps.iter().filter(|step| step.rules.as_ref().is_some_and(|rules| !rules.ids.is_empty())).count() > 1 {
        return None;
    }
    let mut counts = FlowCounts::default();
    for frame in frames {
        counts.count_frame(frame.headers, frame.len);
    }
    operations.shrink_to_fit();
    latencies.shrink_to_fit();
    Some(Turn { steps, operations, each: each.into(), latencies, repeat, counts })
}

/// Returns the pattern for a frame of a turn; `None` if the frame breaks its own rules.
fn step(index: usize, under_way: &TurnFrames, recording: &TurnRecording) -> Option<FramePattern> {
    let frame = under_way.taken.get(index)?;
    let payload = under_way.payload(frame);
    let start = start_of(frame.side, under_way.taken.get(..index)?);
    let (mut mask, mut digits) = (vec![0xff_u8; payload.len()], vec![0; payload.len()]);
    let (mut echoes, mut ids) = (Vec::new(), Vec::new());
    for free in recording.free.iter().filter(|free| free.side == frame.side) {
        let from = usize::try_from(free.offset.saturating_sub(start)).ok()?;
        let to = usize::try_from((free.offset + free.len).saturating_sub(start)).ok()?.min(payload.len());
        let is_whole = free.offset >= start && (to - from.min(to)) as u64 == free.len;
        match free.free {
            Free::Any => mask.get_mut(from..to).unwrap_or_default().fill(0),
            Free::Digits => {
                for at in (from..to).filter(|at| payload[*at].is_ascii_digit()) {
                    (mask[at], digits[at]) = (0xf0, 0x0f);
                }
            }
            Free::Id(_) if to <= from => {}
            // The pattern allows any value for an id, so all ids must be known. An id that two frames share, or an answer's id that
            // no request of the turn has, could belong to a request of the next turn.
            Free::Id(_) if !is_whole => return None,
            Free::Id(bits) => {
                match frame.side {
                    Side::Request => ids.push((from, to - from)),
                    Side::Response => echoes.push(echo(free, from, under_way.taken.get(..index)?, recording)?),
                }
                let range = mask.get_mut(from..to).unwrap_or_default();
                range.fill(0);
                if let Some(first) = range.first_mut() {
                    *first = !bits;
                }
            }
        }
    }
    let pattern = PayloadMask::new(payload, &mask, &digits);
    let (side, headers, len) = (frame.side, frame.headers, frame.len);
    let is_ruled = !(echoes.is_empty() && ids.is_empty());
    let rules = is_ruled.then(|| Box::new(PayloadRules { echoes: echoes.into(), ids: ids.into() }));
    let step = FramePattern { side, headers, len, pattern, rules };
    step.fits(ComparedFrame { side, headers, payload }, under_way).then_some(step)
}

/// Returns the start, in the recording of `side`, of a frame that follows these.
fn start_of(side: Side, before: &[TurnFrame]) -> u64 {
    before.iter().filter(|frame| frame.side == side).map(|frame| frame.len as u64).sum()
}

/// Returns the bytes of an earlier frame that an answer's id, at `at` in its own frame, must equal; `None` if no earlier frame has the
/// id of its request.
fn echo(id: &FreeBytes, at: usize, before: &[TurnFrame], recording: &TurnRecording) -> Option<EchoedBytes> {
    let is_asked = |asked: &&FreeBytes| {
        (asked.side, asked.op, asked.len) == (Side::Request, id.op, id.len) && matches!(asked.free, Free::Id(_))
    };
    let asked = recording.free.iter().find(is_asked)?;
    let len = usize::try_from(id.len).ok()?;
    before.iter().enumerate().filter(|(_, frame)| frame.side == Side::Request).find_map(|(of_frame, frame)| {
        let start = start_of(Side::Request, before.get(..of_frame)?);
        let of_at = usize::try_from(asked.offset.checked_sub(start)?).ok()?;
        (of_at + len <= frame.len).then_some(EchoedBytes { at, len, of_frame, of_at })
    })
}
