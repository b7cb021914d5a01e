//! Joins slices with operations by connection and sequence numbers.

use super::record::SampledWork;
use super::{CpuWork, SamplingWindow, SliceExchange, SliceKind, WorkSlice};
use crate::options::ProcessRole;
use crate::ownership::canonical;
use overhead_model::{Class, Listener, Protocol, Trace};
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
/// Windows are this long or longer if few slices begin. Then operations are recorded between windows too, so that
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
    /// The number of these operations, weighted like their slices.
    pub operations: f64,
    pub own: CpuWork,
    /// The event loop's work in rounds that read these operations.
    pub rounds: CpuWork,
    /// Time in slices shared by several kinds.
    pub divided_ns: f64,
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
    /// Weighted number of slices that moved bytes of captured connections, and of those with an unknown operation.
    pub moved: f64,
    pub unknown: f64,
}

/// Records operations near each window and joins them with the slices that began in it.
#[derive(Debug)]
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
        Self {
            exchange,
            near: None,
            is_steady: false,
            traced: TracedOperations::default(),
            waiting: VecDeque::new(),
            kinds: KindTable::default(),
            slots: BTreeMap::new(),
            joined: 0,
        }
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
            let Some(window) = self.exchange.planned() else { return (self.is_steady, time_ns + RETRY_NS) };
            let (start_ns, end_ns) = (window.start_unix_ns.saturating_sub(BEFORE_NS), window.end_unix_ns + AFTER_NS);
            self.is_steady = window.end_unix_ns.saturating_sub(window.start_unix_ns) >= STEADY_WINDOW_NS;
            if time_ns < start_ns {
                if !self.is_steady {
                    self.traced = TracedOperations::default();
                }
                return (self.is_steady, start_ns);
            }
            self.exchange.forget_planned();
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
        // How many operations the bytes make up, by kind: 1 for a whole operation.
        let mut parts: BTreeMap<Option<usize>, f64> = BTreeMap::new();
        let mut unnamed = 0;
        let mut covered = 0;
        stream.overlaps(seq, len, |piece, bytes| {
            let operation = operations[piece.operation];
            covered += bytes;
            unnamed += if operation.kind.is_none() && !operation.is_none { bytes } else { 0 };
            let all = operation.bytes[piece.side].max(1);
            *parts.entry(operation.kind).or_default() += bytes as f64 / all as f64;
        });
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
        let is_request = is_send == (slice.role() == Some(ProcessRole::Client));
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

    /// Returns an operation's index. It may have begun before listening did.
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
mod tests {
    use super::super::weight;
    use super::*;
    use overhead_model::{Account, FrameFacts, Side, TcpFlags};

    const CLIENT: &str = "10.0.0.9:40000";
    const SERVER: &str = "10.0.0.1:6379";
    const SLOT: u32 = 3;

    fn end(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    fn frame(listener: &mut WorkListener, number: u64, side: Side, seq: u32, len: u32) {
        let (source, destination) = match side {
            Side::Request => (end(CLIENT), end(SERVER)),
            Side::Response => (end(SERVER), end(CLIENT)),
        };
        listener.hear(Trace::Frame(FrameFacts {
            number,
            connection: 1,
            time_ns: 0,
            wire_len: 0,
            headers: [0; 3],
            payload_len: len,
            flags: TcpFlags::default(),
            source,
            destination,
            seq,
            window: 0,
        }));
    }

    fn post(listener: &mut WorkListener, op: u64, side: Side, frame: u64, len: u64) {
        listener.hear(Trace::Posted {
            side,
            op: Some(op),
            account: Account::Data,
            frame: Some(frame),
            len,
            in_order: true,
        });
    }

    fn label(listener: &mut WorkListener, op: u64, name: &str) {
        listener.hear(Trace::Labelled {
            op: Some(op),
            protocol: Protocol::Resp,
            class: Class::Workload,
            name,
            via: "",
            statement: "",
        });
    }

    fn slice(side: Side, seq: u32, len: u32, ns: f64, call: u16) -> WorkSlice {
        let (from, to) = if side == Side::Request { (end(CLIENT), end(SERVER)) } else { (end(SERVER), end(CLIENT)) };
        let kind = SliceKind::Bytes { from, to, is_send: side == Side::Response, is_empty: false, seq, len };
        WorkSlice {
            tid: 7,
            slot: SLOT,
            kind,
            work: CpuWork { ns, in_calls_ns: 0.0, calls: BTreeMap::from([(call, 1.0)]) },
        }
    }

    fn joined(hear: impl FnOnce(&mut WorkListener), slices: Vec<WorkSlice>) -> SampledWork {
        let exchange = Arc::new(SliceExchange::default());
        exchange.plan(SamplingWindow { number: 0, start_unix_ns: 10_000_000, end_unix_ns: 20_000_000 });
        exchange.lock().waiting = slices.len();
        exchange.lock().slices.insert(0, slices);
        exchange.lock().lengths.insert(0, 10_000_000);
        let mut listener = WorkListener::new(exchange);
        assert_eq!(listener.advance_to(1_000_000), (false, 5_000_000));
        assert_eq!(listener.advance_to(5_000_000), (true, 25_000_000));
        hear(&mut listener);
        listener.finish()
    }

    fn of<'a>(work: &'a SampledWork, name: &str) -> &'a KindWork {
        let number = work.kinds.iter().position(|kind| kind.name == name).unwrap();
        &work.slots[&SLOT].kinds[&number]
    }

    /// Two requests, the second read in two halves. Sequence numbers wrap around.
    #[test]
    fn slices_go_to_the_operations_whose_bytes_they_are() {
        let start = u32::MAX - 4;
        let work = joined(
            |listener| {
                frame(listener, 1, Side::Request, start, 30);
                label(listener, 1, "GET");
                post(listener, 1, Side::Request, 1, 10);
                label(listener, 2, "SET");
                post(listener, 2, Side::Request, 1, 20);
                frame(listener, 2, Side::Response, 500, 5);
                post(listener, 1, Side::Response, 2, 5);
            },
            vec![
                slice(Side::Request, start, 10, 100.0, 0),
                slice(Side::Request, start.wrapping_add(10), 10, 40.0, 0),
                slice(Side::Request, start.wrapping_add(20), 10, 60.0, 0),
                slice(Side::Response, 500, 5, 7.0, 1),
                WorkSlice { kind: SliceKind::Loop, ..slice(Side::Request, 0, 1, 30.0, 232) },
                slice(Side::Response, 900, 5, 11.0, 1),
            ],
        );
        let (get, set) = (of(&work, "GET"), of(&work, "SET"));
        assert_eq!((get.operations, get.own.ns), (1.0, 107.0));
        assert_eq!((set.operations, set.own.ns, set.own.calls[&0]), (1.0, 100.0, 2.0));
        assert_eq!(get.own.calls, BTreeMap::from([(0, 1.0), (1, 1.0)]));
        let slot = &work.slots[&SLOT];
        assert_eq!((slot.threads[&7].shared.ns, slot.unattributed.ns, slot.slices), (30.0, 11.0, 6));
        assert_eq!((get.divided_ns, set.divided_ns), (0.0, 0.0));
    }

    /// The first round reads a GET, the second two SETs and a GET, the third nothing.
    #[test]
    fn the_loops_work_is_for_the_operations_of_its_round() {
        let turn = |ns| WorkSlice { kind: SliceKind::Loop, ..slice(Side::Request, 0, 1, ns, 232) };
        let work = joined(
            |listener| {
                frame(listener, 1, Side::Request, 0, 40);
                for (op, name) in [(1, "GET"), (2, "SET"), (3, "SET"), (4, "GET")] {
                    label(listener, op, name);
                    post(listener, op, Side::Request, 1, 10);
                }
            },
            vec![
                turn(20.0),
                slice(Side::Request, 0, 10, 1.0, 0),
                turn(90.0),
                slice(Side::Request, 10, 10, 1.0, 0),
                slice(Side::Request, 20, 10, 1.0, 0),
                slice(Side::Request, 30, 10, 1.0, 0),
                turn(7.0),
            ],
        );
        let (get, set) = (of(&work, "GET"), of(&work, "SET"));
        assert!((get.rounds.ns - 50.0).abs() < 1e-9 && (set.rounds.ns - 60.0).abs() < 1e-9, "{get:?} {set:?}");
        assert!((work.slots[&SLOT].threads[&7].shared.ns - 7.0).abs() < 1e-9);
    }

    /// One call reads two requests, which get equal shares.
    #[test]
    fn a_call_for_several_operations_is_divided_and_said_to_be() {
        let work = joined(
            |listener| {
                frame(listener, 1, Side::Request, 0, 110);
                label(listener, 1, "GET");
                post(listener, 1, Side::Request, 1, 10);
                label(listener, 2, "SET");
                post(listener, 2, Side::Request, 1, 100);
            },
            vec![slice(Side::Request, 0, 110, 50.0, 0)],
        );
        for name in ["GET", "SET"] {
            let sums = of(&work, name);
            assert_eq!((sums.operations, sums.own.ns, sums.divided_ns, sums.own.calls[&0]), (1.0, 25.0, 25.0, 0.5));
        }
    }

    /// The operation began before listening did, so it has no name.
    #[test]
    fn what_has_no_name_is_charged_to_nothing() {
        let work = joined(
            |listener| {
                frame(listener, 1, Side::Request, 0, 10);
                post(listener, 1, Side::Request, 1, 10);
            },
            vec![slice(Side::Request, 0, 10, 50.0, 0)],
        );
        let slot = &work.slots[&SLOT];
        assert!(slot.kinds.is_empty());
        assert_eq!((slot.unattributed.ns, slot.unattributed.count()), (50.0, 1.0));
        assert_eq!((slot.moved, slot.unknown), (1.0, 1.0));
    }

    #[test]
    fn bytes_of_no_operation_are_not_unknown() {
        let work = joined(
            |listener| {
                frame(listener, 1, Side::Request, 0, 10);
                listener.hear(Trace::Posted {
                    side: Side::Request,
                    op: None,
                    account: Account::Data,
                    frame: Some(1),
                    len: 10,
                    in_order: true,
                });
            },
            vec![slice(Side::Request, 0, 10, 50.0, 0)],
        );
        let slot = &work.slots[&SLOT];
        assert_eq!((slot.unattributed.ns, slot.moved, slot.unknown), (50.0, 1.0, 0.0));
    }

    /// With long windows, a request in one and its response in the next keep their name.
    #[test]
    fn operations_that_take_longer_than_a_window_keep_their_names() {
        const MS: u64 = 1_000_000;
        let exchange = Arc::new(SliceExchange::default());
        let answer = slice(Side::Response, 500, 5, 7.0, 1);
        for (number, slices) in [(0, vec![slice(Side::Request, 0, 10, 100.0, 0)]), (1, vec![answer])] {
            let start_unix_ns = (100 + 200 * u64::from(number)) * MS;
            exchange.plan(SamplingWindow { number, start_unix_ns, end_unix_ns: start_unix_ns + 100 * MS });
            exchange.lock().waiting += 1;
            exchange.lock().lengths.insert(number, 100 * MS);
            exchange.lock().slices.insert(number, slices);
        }
        let mut listener = WorkListener::new(exchange);
        assert_eq!(listener.advance_to(0), (true, 95 * MS));
        assert_eq!(listener.advance_to(100 * MS), (true, 205 * MS));
        frame(&mut listener, 1, Side::Request, 0, 10);
        label(&mut listener, 1, "SELECT");
        post(&mut listener, 1, Side::Request, 1, 10);
        assert_eq!(listener.advance_to(205 * MS), (true, 295 * MS));
        assert_eq!(listener.advance_to(300 * MS), (true, 405 * MS));
        frame(&mut listener, 2, Side::Response, 500, 5);
        post(&mut listener, 1, Side::Response, 2, 5);
        let work = listener.finish();
        let sums = of(&work, "SELECT");
        assert!((sums.own.count() - 0.2).abs() < 1e-9 && (sums.operations - 0.1).abs() < 1e-9, "{sums:?}");
        assert_eq!((work.slots[&SLOT].unattributed.ns, work.slots[&SLOT].unknown), (0.0, 0.0));
    }

    /// A window of a quarter of the length counts four times as much, but the number of sampled operations stays.
    #[test]
    fn short_windows_weigh_more() {
        let (short, long) = (weight(2_500_000), weight(10_000_000));
        assert!((short - 4.0 * long).abs() < 1e-9);
        let work = slice(Side::Request, 0, 10, 50.0, 0).weighted(4.0).work;
        assert_eq!((work.ns, work.count()), (200.0, 4.0));
    }

    #[test]
    fn windows_without_frames_are_passed_over() {
        let exchange = Arc::new(SliceExchange::default());
        for number in 0..3 {
            let start_unix_ns = 100_000_000 * (u64::from(number) + 1);
            exchange.plan(SamplingWindow { number, start_unix_ns, end_unix_ns: start_unix_ns + 1_000_000 });
        }
        let mut listener = WorkListener::new(Arc::clone(&exchange));
        assert_eq!(listener.advance_to(290_000_000), (false, 295_000_000));
        assert_eq!(listener.advance_to(300_000_000), (true, 306_000_000));
        assert_eq!(listener.advance_to(400_000_000), (false, 401_000_000));
    }
}
