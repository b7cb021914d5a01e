//! Joins slices with operations by connection and sequence numbers.

use super::record::SampledWork;
use super::{CpuWork, SamplingWindow, SliceExchange, SliceKind, WorkSlice};
use crate::options::ProcessRole;
use crate::ownership::canonical;
use overhead_model::{Class, Listener, Protocol, Trace, add_fields};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;

/// Operations are recorded from this long before a window, in which earlier requests may be read, until after it.
const BEFORE_NS: u64 = 5_000_000;
const AFTER_NS: u64 = 5_000_000;
/// When to ask again if no window is planned yet.
const RETRY_NS: u64 = 1_000_000;
/// Windows that wait for their slices, which are reported when they end.
const MAX_PENDING_WINDOWS: usize = 16;
/// Windows are this long or longer if few slices start. Then operations are recorded between windows too, so that
/// long operations keep their names; few frames are read at length.
const STEADY_WINDOW_NS: u64 = 60_000_000;
/// Unfinished operations carried from one window to the next, at most.
const MAX_OPEN_OPERATIONS: usize = 1 << 16;

/// Kinds of operations at most; further ones stay unnamed.
const MAX_KINDS: usize = 4_096;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct OperationKey {
    pub protocol: Protocol,
    pub class: Class,
    pub name: String,
    pub via: &'static str,
    pub statement: String,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct KindWork {
    /// Operations read (by a client: written) in the slices.
    pub sampled: f64,
    /// Number of operations, weighted like their slices.
    pub operations: f64,
    pub own: CpuWork,
    /// The event loop's work in rounds that read these operations.
    pub rounds: CpuWork,
    /// Time in slices shared by several kinds.
    pub divided_ns: f64,
}

impl KindWork {
    pub fn add(&mut self, other: &Self) {
        add_fields!(self, other => sampled, operations, divided_ns);
        self.own.add(&other.own, 1.0);
        self.rounds.add(&other.rounds, 1.0);
    }

    /// Returns the time of the operations and of their part in the event loop.
    pub fn ns(&self) -> f64 {
        self.own.ns + self.rounds.ns
    }

    /// Returns the system calls of the operations and of their part in the event loop.
    pub fn calls(&self) -> f64 {
        self.own.count() + self.rounds.count()
    }
}

/// A thread's work from one waiting call to the next.
#[derive(Default)]
struct LoopRound {
    /// The loop's work until it touched a socket.
    work: CpuWork,
    /// Operations read in the round, by kind.
    operations: BTreeMap<usize, f64>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct ThreadSums {
    /// By kind.
    pub operations: BTreeMap<usize, f64>,
    /// The loop's work in rounds that read no operation.
    pub shared: CpuWork,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct SlotWork {
    pub kinds: BTreeMap<usize, KindWork>,
    pub threads: BTreeMap<u32, ThreadSums>,
    pub unattributed: CpuWork,
    pub slices: u64,
    /// Weighted number of slices that moved bytes of captured connections, and the part with an unknown operation.
    pub moved: f64,
    pub unknown: f64,
}

/// Records operations near each window and joins them with the slices that started in it.
#[derive(Debug, Default)]
pub struct WorkListener {
    exchange: Arc<SliceExchange>,
    near: Option<SamplingWindow>,
    /// Operations are recorded between windows too.
    is_steady: bool,
    traced: TracedOperations,
    waiting: VecDeque<(SamplingWindow, TracedOperations)>,
    kinds: KindTable,
    slots: BTreeMap<u32, SlotWork>,
    /// Windows before this one are joined.
    joined: u32,
}

#[derive(Debug, Default)]
struct KindTable {
    numbers: HashMap<OperationKey, usize>,
    list: Vec<OperationKey>,
}

impl KindTable {
    fn number(&mut self, kind: OperationKey) -> Option<usize> {
        if let Some(number) = self.numbers.get(&kind) {
            return Some(*number);
        }
        let number = self.list.len();
        (number < MAX_KINDS).then(|| {
            self.numbers.insert(kind.clone(), number);
            self.list.push(kind);
            number
        })
    }
}

/// Operations near a window.
#[derive(Debug, Default)]
struct TracedOperations {
    connection: u64,
    /// Sender and receiver of a frame, and the sequence number of its next posted byte.
    frames: HashMap<u64, (FlowEnds, u32)>,
    numbers: HashMap<(u64, u64), usize>,
    operations: Vec<TracedOperation>,
    directions: HashMap<FlowEnds, Vec<OperationSpan>>,
}

/// Sender and receiver.
type FlowEnds = (SocketAddr, SocketAddr);

#[derive(Clone, Copy, Debug, Default)]
struct TracedOperation {
    kind: Option<usize>,
    /// Bytes of the request and of the response.
    bytes: [u64; 2],
    is_closed: bool,
    /// Stands for bytes that belong to no operation.
    is_none: bool,
}

/// Stands for no operation.
const NO_OPERATION: u64 = u64::MAX;

/// Consecutive bytes of one operation.
#[derive(Clone, Copy, Debug)]
struct OperationSpan {
    seq: u32,
    len: u32,
    operation: usize,
    side: usize,
}

impl WorkListener {
    pub(crate) fn new(exchange: Arc<SliceExchange>) -> Self {
        Self { exchange, ..Self::default() }
    }

    /// Tells the listener the capture's time. Returns whether to listen from now on, and until when that holds.
    pub fn advance_to(&mut self, time_ns: u64) -> (bool, u64) {
        if let Some(window) = self.near {
            let end_ns = window.end_unix_ns + AFTER_NS;
            if time_ns < end_ns {
                return (true, end_ns);
            }
            self.close_window(window);
        }
        loop {
            let planned = self.exchange.lock().planned.front().copied();
            let Some(window) = planned else { return (self.is_steady, time_ns + RETRY_NS) };
            let (start_ns, end_ns) = (window.start_unix_ns.saturating_sub(BEFORE_NS), window.end_unix_ns + AFTER_NS);
            self.is_steady = window.end_unix_ns.saturating_sub(window.start_unix_ns) >= STEADY_WINDOW_NS;
            if time_ns < start_ns {
                if !self.is_steady {
                    self.traced = TracedOperations::default();
                }
                return (self.is_steady, start_ns);
            }
            self.exchange.lock().planned.pop_front();
            if time_ns < end_ns {
                self.near = Some(window);
                return (true, end_ns);
            }
            // No frame was captured near it.
            self.close_window(window);
        }
    }

    fn close_window(&mut self, window: SamplingWindow) {
        self.near = None;
        let next = if self.is_steady { self.traced.carried() } else { TracedOperations::default() };
        self.waiting.push_back((window, std::mem::replace(&mut self.traced, next)));
        if self.waiting.len() > MAX_PENDING_WINDOWS
            && let Some((window, traced)) = self.waiting.pop_front()
        {
            self.join(window, &traced);
        }
    }

    /// Joins the remaining windows and returns the results.
    pub fn finish(&mut self) -> SampledWork {
        if let Some(window) = self.near {
            self.close_window(window);
        }
        while let Some((window, traced)) = self.waiting.pop_front() {
            self.join(window, &traced);
        }
        // Slices that ended too late, or whose windows had no captured frame.
        let numbers: Vec<u32> = self.exchange.lock().slices.keys().copied().collect();
        for number in numbers {
            let (slices, weight) = self.exchange.take(number);
            for slice in slices {
                self.charge_nothing(&slice.weighted(weight));
            }
        }
        let all = self.exchange.lock();
        SampledWork {
            kinds: std::mem::take(&mut self.kinds.list),
            slots: std::mem::take(&mut self.slots),
            windows: all.windows,
            window_ns: all.window_ns,
            dropped: all.dropped,
        }
    }

    fn join(&mut self, window: SamplingWindow, traced: &TracedOperations) {
        self.joined = window.number + 1;
        let directions = traced.directions.iter().map(|(direction, pieces)| (*direction, SpanIndex::new(pieces)));
        let streams: HashMap<FlowEnds, SpanIndex> = directions.collect();
        let (slices, weight) = self.exchange.take(window.number);
        // Slices of one thread are in order.
        let mut rounds: HashMap<(u32, u32), LoopRound> = HashMap::new();
        for slice in slices {
            let slice = slice.weighted(weight);
            let round = rounds.entry((slice.slot, slice.tid)).or_default();
            if slice.kind == SliceKind::Loop {
                let over = std::mem::take(round);
                round.work = slice.work;
                self.slots.entry(slice.slot).or_default().slices += 1;
                self.charge_round(slice.slot, slice.tid, &over);
            } else {
                self.charge(&slice, weight, &streams, &traced.operations, &mut round.operations);
            }
        }
        for ((slot, tid), round) in rounds {
            self.charge_round(slot, tid, &round);
        }
    }

    /// Divides the loop's work in a round between the operations read in it.
    fn charge_round(&mut self, slot: u32, tid: u32, round: &LoopRound) {
        let slot = self.slots.entry(slot).or_default();
        let operations: f64 = round.operations.values().sum();
        if operations <= 0.0 {
            slot.threads.entry(tid).or_default().shared.add(&round.work, 1.0);
        }
        for (kind, part) in round.operations.iter().filter(|_| operations > 0.0) {
            slot.kinds.entry(*kind).or_default().rounds.add(&round.work, part / operations);
        }
    }

    fn charge_nothing(&mut self, slice: &WorkSlice) {
        let slot = self.slots.entry(slice.slot).or_default();
        slot.slices += 1;
        if slice.kind == SliceKind::Loop {
            slot.threads.entry(slice.tid).or_default().shared.add(&slice.work, 1.0);
        } else {
            slot.unattributed.add(&slice.work, 1.0);
        }
    }

    /// Charges a weighted slice that touched a socket, and adds the operations it read to its round.
    fn charge(
        &mut self,
        slice: &WorkSlice,
        weight: f64,
        streams: &HashMap<FlowEnds, SpanIndex>,
        operations: &[TracedOperation],
        round: &mut BTreeMap<usize, f64>,
    ) {
        let SliceKind::Bytes { from, to, is_send, is_empty, seq, len } = slice.kind else {
            return self.charge_nothing(slice);
        };
        let slot = self.slots.entry(slice.slot).or_default();
        slot.moved += weight;
        let Some(stream) = streams.get(&(from, to)) else {
            slot.unknown += weight;
            return self.charge_nothing(slice);
        };
        let SliceContent { parts, covered, unnamed } = stream.content(seq, len, operations);
        let whole: f64 = parts.values().sum();
        slot.slices += 1;
        if covered == 0 || whole <= 0.0 {
            slot.unknown += weight;
            slot.unattributed.add(&slice.work, 1.0);
            return;
        }
        // The part of the bytes that was not captured.
        let known = covered.min(u64::from(len)) as f64 / f64::from(len.max(1));
        slot.unknown += weight * (1.0 - known + unnamed as f64 / f64::from(len.max(1))).min(1.0);
        if known < 1.0 {
            slot.unattributed.add(&slice.work, 1.0 - known);
        }
        let is_request = is_send == (ProcessRole::from_slot(slice.slot) == Some(ProcessRole::Client));
        let is_divided = parts.len() > 1;
        for (kind, part) in parts {
            let share = known * part / whole;
            let Some(kind) = kind else {
                slot.unattributed.add(&slice.work, share);
                continue;
            };
            let sums = slot.kinds.entry(kind).or_default();
            sums.own.add(&slice.work, share);
            if is_divided {
                sums.divided_ns += slice.work.ns * share;
            }
            if is_request && !is_empty {
                sums.sampled += part;
                sums.operations += part * weight;
                *slot.threads.entry(slice.tid).or_default().operations.entry(kind).or_default() += part * weight;
                *round.entry(kind).or_default() += part;
            }
        }
    }
}

/// The operations in the bytes of a slice.
#[derive(Default)]
struct SliceContent {
    /// How many operations the bytes make up, by kind: 1 for a whole operation.
    parts: BTreeMap<Option<usize>, f64>,
    /// Bytes of known operations, and the part without a kind.
    covered: u64,
    unnamed: u64,
}

/// One direction's spans by sequence number.
struct SpanIndex {
    base: u32,
    /// By offset from `base`.
    pieces: Vec<(i64, OperationSpan)>,
}

impl SpanIndex {
    fn new(pieces: &[OperationSpan]) -> Self {
        let base = pieces.first().map_or(0, |piece| piece.seq);
        let behind = |piece: &OperationSpan| i64::from(piece.seq.wrapping_sub(base).cast_signed());
        let mut pieces: Vec<(i64, OperationSpan)> = pieces.iter().map(|piece| (behind(piece), *piece)).collect();
        pieces.sort_by_key(|(at, _)| *at);
        Self { base, pieces }
    }

    fn content(&self, seq: u32, len: u32, operations: &[TracedOperation]) -> SliceContent {
        let mut content = SliceContent::default();
        self.overlaps(seq, len, |piece, bytes| {
            let operation = operations[piece.operation];
            content.covered += bytes;
            content.unnamed += if operation.kind.is_none() && !operation.is_none { bytes } else { 0 };
            let all = operation.bytes[piece.side].max(1);
            *content.parts.entry(operation.kind).or_default() += bytes as f64 / all as f64;
        });
        content
    }

    /// Calls `take` with each span that overlaps these bytes, and by how much.
    fn overlaps(&self, seq: u32, len: u32, mut take: impl FnMut(&OperationSpan, u64)) {
        let start = i64::from(seq.wrapping_sub(self.base).cast_signed());
        let end = start + i64::from(len);
        let first = self.pieces.partition_point(|(at, piece)| at + i64::from(piece.len) <= start);
        for (at, piece) in self.pieces.get(first..).unwrap_or_default().iter().take_while(|(at, _)| *at < end) {
            let bytes = end.min(at + i64::from(piece.len)) - start.max(*at);
            if bytes > 0 {
                take(piece, bytes.cast_unsigned());
            }
        }
    }
}

impl TracedOperations {
    /// Returns the unfinished operations for the next window.
    fn carried(&self) -> Self {
        let mut next = Self { connection: self.connection, ..Self::default() };
        for (number, place) in &self.numbers {
            let Some(operation) = self.operations.get(*place).filter(|operation| !operation.is_closed) else {
                continue;
            };
            if operation.kind.is_some() && next.operations.len() < MAX_OPEN_OPERATIONS {
                next.numbers.insert(*number, next.operations.len());
                next.operations.push(*operation);
            }
        }
        next
    }

    /// Returns an operation's index. It may have started before listening did.
    fn operation(&mut self, op: u64) -> usize {
        let operations = &mut self.operations;
        *self.numbers.entry((self.connection, op)).or_insert_with(|| {
            operations.push(TracedOperation { is_none: op == NO_OPERATION, ..TracedOperation::default() });
            operations.len() - 1
        })
    }

    fn posted(&mut self, side: usize, op: u64, frame: u64, len: u32) {
        let place = self.operation(op);
        if let Some(operation) = self.operations.get_mut(place) {
            operation.bytes[side] += u64::from(len);
        }
        let Some((direction, next)) = self.frames.get_mut(&frame) else { return };
        let seq = *next;
        *next = next.wrapping_add(len);
        let pieces = self.directions.entry(*direction).or_default();
        match pieces.last_mut() {
            Some(last) if last.operation == place && last.seq.wrapping_add(last.len) == seq => last.len += len,
            _ => pieces.push(OperationSpan { seq, len, operation: place, side }),
        }
    }
}

impl Listener for WorkListener {
    fn hear(&mut self, step: Trace<'_>) {
        match step {
            Trace::Frame(facts) => {
                self.traced.connection = facts.connection;
                if facts.payload_len > 0 {
                    let seq = facts.seq.wrapping_add(u32::from(facts.flags.syn));
                    let direction = (canonical(facts.source), canonical(facts.destination));
                    self.traced.frames.insert(facts.number, (direction, seq));
                }
            }
            Trace::Ending { connection } => self.traced.connection = connection,
            Trace::Labelled { op: Some(op), protocol, class, name, via, statement } => {
                let (name, statement) = (name.to_owned(), statement.to_owned());
                let kind = self.kinds.number(OperationKey { protocol, class, name, via, statement });
                let place = self.traced.operation(op);
                if let Some(operation) = self.traced.operations.get_mut(place) {
                    operation.kind = kind;
                }
            }
            Trace::Posted { side, op, frame: Some(frame), len, in_order: true, .. } => {
                let op = op.unwrap_or(NO_OPERATION);
                self.traced.posted(side as usize, op, frame, u32::try_from(len).unwrap_or(u32::MAX));
            }
            Trace::Closed { op: Some(op), .. } => {
                if let Some(place) = self.traced.numbers.get(&(self.traced.connection, op))
                    && let Some(operation) = self.traced.operations.get_mut(*place)
                {
                    operation.is_closed = true;
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests;
