//! The ledger of one connection: posts every byte of every frame once, to an account of an operation.
//!
//! The decoder posts payload in stream order. Once all new payload of a frame is posted, the operations with that payload share the
//! frame's headers. A frame without new payload goes whole to the operation it acknowledges or repeats. Charges that depend on payload
//! not decoded yet are deferred.

#![expect(clippy::inline_always, reason = "each has one or two callers, which run for every operation in a frame")]

mod connect;
mod direction;
mod ops;
mod proof;
mod reader;
mod recording;
mod rounds;
mod sharing;

pub use direction::Arrival;
pub use reader::LedgerReader;
pub use recording::{FreeBytes, RecordedOperation, RepeatedEntries, TurnRecording};

use crate::packet::Headers;
use connect::ConnectAmounts;
use direction::{DeferredCharge, FrameShare, LedgerDirection};
use ops::{ClosedOperations, OpenOperation, OperationTable, State};
use overhead_decode::{Note, OpId, ProportionalSplit};
use overhead_model::{
    Account, Amounts, Class, Outcome, PayloadAmounts, Protocol, RowId, RowKey, Side, SideTotals, Tally, Trace,
};
use reader::ByteOwner;
use rounds::{RoundTripChange, RoundTrips};
use std::collections::BTreeMap;

#[derive(Debug, Default)]
pub struct ConnectionLedger {
    /// Number of the current frame in the capture, and the frames it stands for.
    number: u64,
    frames: u32,
    ops: OperationTable,
    directions: [LedgerDirection; 2],
    connect: ConnectAmounts,
    rounds: RoundTrips,
    /// The client waited for the TCP handshake.
    has_handshake: bool,
    /// Round trips up to the first answer to an operation of class workload.
    pub round_trips_to_answer: Option<u64>,
    latest: Option<OpId>,
    /// Absent if the acknowledgments of the directions show what senders had received.
    proofs: Option<proof::AckProofs>,
    /// Absent if the connection has neither software names nor warnings.
    said: Option<Box<ConnectionFacts>>,
    pub operations: u64,
    pub unmatched: u64,
    /// Records the current turn, if it is to be repeated.
    recording: Option<Box<TurnRecording>>,
    scratch: Option<Box<ShareBuffers>>,
}

#[derive(Debug, Default)]
struct ConnectionFacts {
    software: [Option<String>; 2],
    notes: BTreeMap<Note, u64>,
}

/// Buffers kept to avoid allocation.
#[derive(Debug, Default)]
struct ShareBuffers {
    shares: Vec<FrameShare>,
    split: ProportionalSplit,
}

/// The recipient of a frame's charge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChargeOwner {
    Connect,
    /// The latest operation, or the connection before there is one.
    Latest,
    /// The operation that owns the byte at this offset of a direction.
    Byte(Side, u64),
}

impl ConnectionLedger {
    pub fn new() -> Self {
        Self { frames: 1, ..Self::default() }
    }

    /// Exchanges client and server. Call this only before anything was decoded.
    pub fn swap_sides(&mut self) {
        self.directions.swap(0, 1);
        self.connect.swap_sides();
        self.directions.iter_mut().for_each(LedgerDirection::swap_deferred);
    }

    pub fn shrink(&mut self) {
        self.directions.iter_mut().for_each(LedgerDirection::shrink);
        self.ops.shrink();
        self.scratch = None;
    }

    pub fn outstanding(&self) -> usize {
        self.ops.outstanding()
    }

    /// Returns the approximate memory held, in bytes, excluding its own size.
    #[inline]
    pub fn held(&self) -> usize {
        self.ops.held() + self.directions.iter().map(LedgerDirection::held).sum::<usize>()
    }

    /// Counts the TCP handshake as a round trip.
    pub fn shake_hands(&mut self) {
        self.has_handshake = true;
    }

    /// Returns the round trips so far, with the TCP handshake.
    pub fn round_trips(&self) -> u64 {
        self.rounds.total + u64::from(self.has_handshake)
    }

    /// Returns the software that the end sending on `side` named.
    pub fn software(&self, side: Side) -> Option<&str> {
        self.said.as_ref()?.software[side as usize].as_deref()
    }

    pub fn is_noted(&self, note: Note) -> bool {
        self.said.as_ref().is_some_and(|said| said.notes.contains_key(&note))
    }

    pub fn note(&mut self, note: Note) {
        self.spoil();
        *self.said.get_or_insert_default().notes.entry(note).or_default() += 1;
    }

    /// Counts a warning unless it was counted before.
    pub fn note_once(&mut self, note: Note) {
        if !self.is_noted(note) {
            self.note(note);
        }
    }

    /// Removes and returns the warnings, with their counts.
    pub fn take_notes(&mut self) -> BTreeMap<Note, u64> {
        self.said.as_mut().map(|said| std::mem::take(&mut said.notes)).unwrap_or_default()
    }

    /// Sets the current frame: its number in the capture (for fragments, the last one's) and the frames it stands for. Returns the previous
    /// values.
    pub fn at(&mut self, number: u64, frames: u32) -> (u64, u32) {
        (std::mem::replace(&mut self.number, number), std::mem::replace(&mut self.frames, frames))
    }

    /// Returns the current frame of `side` with `len` bytes of new payload.
    #[inline]
    pub fn arrival(&self, side: Side, time_ns: u64, headers: Headers, len: u64) -> Arrival {
        let acked = self.directions[side.other() as usize].acked;
        Arrival { number: self.number, frames: self.frames, time_ns, headers, len, acked }
    }

    /// Announces, before decoding, that the next `len` bytes of `side` came in `frame`.
    #[inline]
    pub fn slice(&mut self, side: Side, frame: Arrival, len: u64) {
        self.directions[side as usize].announce(Some(frame), len);
    }

    /// Announces that no captured frame has the next `len` bytes of `side`: they are decoded as unreadable, and posted nowhere.
    pub fn gap(&mut self, side: Side, len: u64) {
        self.directions[side as usize].announce(None, len);
    }

    /// Posts `len` new bytes of `frame` outside the decoded stream, as a separate unmatched operation.
    pub fn stray<T: Tally>(&mut self, protocol: Protocol, side: Side, frame: Arrival, len: u64, tally: &mut T) {
        let op = self.ops.open(0);
        tally.trace(Trace::Opened { op: op.0 });
        self.label_row(op, unmatched(protocol, "(stray)"), tally);
        if let Some(open) = self.ops.get_mut(op) {
            open.operation.sides[side as usize].amounts[Account::Unknown] += len;
        }
        let (account, came_in) = (Account::Unknown, Some(frame.number));
        tally.trace(Trace::Posted { side, op: Some(op.0), account, frame: came_in, len, in_order: false });
        self.scatter(side, &frame, (op, len), false);
        self.close_op(protocol, op, Outcome::NoReply, tally);
        let mut scratch = self.scratch.take().unwrap_or_default();
        self.settle_scattered(side, frame.number, &mut scratch, tally);
        self.scratch = Some(scratch);
    }

    /// Charges a frame without new payload, or the repeated part of a frame, to its owner.
    pub fn charge<T: Tally>(&mut self, side: Side, owner: ChargeOwner, account: Account, bytes: u64, tally: &mut T) {
        let op = match owner {
            ChargeOwner::Connect => None,
            ChargeOwner::Latest => self.latest,
            ChargeOwner::Byte(of, offset) => {
                let direction = &mut self.directions[of as usize];
                let deferred = DeferredCharge { offset, side, account, frame: self.number, bytes };
                if offset >= direction.posted && direction.defer(deferred) {
                    return;
                }
                direction.owner(offset).or(self.latest)
            }
        };
        self.post_frame(op, side, account, (self.number, bytes), tally);
    }

    /// Notes that the receiver acknowledged all bytes of `side` before `offset`.
    pub fn acknowledged(&mut self, side: Side, offset: u64) {
        self.directions[side as usize].acked = offset;
    }

    /// Replaces row ids after the tally renumbered its rows. No recording may be in progress.
    pub fn renumber(&mut self, number: &impl Fn(RowId) -> RowId) {
        self.ops.renumber(number);
        self.directions.iter_mut().for_each(|direction| direction.renumber(number));
        self.latest = self.latest.map(|op| ClosedOperations::renumbered(op, number));
    }

    /// Ends the connection: open operations close as unanswered, or as unmatched if their request was never complete.
    pub fn finish<T: Tally>(&mut self, protocol: Protocol, tally: &mut T) {
        for side in Side::BOTH {
            let direction = &mut self.directions[side as usize];
            for deferred in direction.take_deferred() {
                let frame = (deferred.frame, deferred.bytes);
                self.post_frame(self.latest, deferred.side, deferred.account, frame, tally);
            }
        }
        for op in self.ops.open_ids() {
            if self.ops.get(op).is_some_and(|open| open.row.is_none()) {
                self.label_row(op, unmatched(protocol, "(cut off)"), tally);
            }
            let is_unmatched = self.ops.get(op).is_some_and(|open| open.class == Class::Unmatched);
            self.close_op(protocol, op, if is_unmatched { Outcome::NoReply } else { Outcome::Unanswered }, tally);
        }
        let totals = std::mem::take(&mut self.connect).totals();
        if totals.iter().any(|side| side.amounts.total() > 0) {
            let key = RowKey { protocol, class: Class::Setup, name: "CONNECT", via: "", statement: "" };
            let row = tally.row(key);
            let round_trips = u32::from(self.has_handshake);
            let operation =
                overhead_model::Operation { sides: totals, outcome: Outcome::Ok, latency_ns: None, round_trips };
            let RowKey { class, name, via, statement, .. } = key;
            tally.trace(Trace::Labelled { op: None, protocol, class, name, via, statement });
            tally.trace(Trace::Closed { op: None, operation: &operation });
            tally.operation(row, &operation);
            tally.each(row, &operation, None);
        }
    }

    /// Posts `bytes` of a frame, given by its number, other than new payload.
    fn post_frame<T: Tally>(
        &mut self,
        op: Option<OpId>,
        side: Side,
        account: Account,
        (frame, bytes): (u64, u64),
        tally: &mut T,
    ) {
        let state = op.map(|op| self.ops.state(op));
        let known = op.filter(|_| state != Some(State::Gone)).map(|op| op.0);
        tally.trace(Trace::Charged { side, op: known, account, frame, bytes });
        match state {
            Some(State::Open(index)) => {
                let mine = &mut self.ops.at(index).operation.sides[side as usize];
                mine.frames += 1;
                mine.amounts[account] += bytes;
            }
            Some(State::Closed(row)) => {
                self.spoil();
                tally.late(row, side, &SideTotals { frames: 1, amounts: Amounts::new(account, bytes) });
            }
            Some(State::Gone) | None => {
                self.spoil();
                self.connect.charge_frame(side, account, bytes);
            }
        }
    }

    /// Returns the operation's id for the tally; `None` if its bytes go to the connection.
    fn known(&self, op: OpId) -> Option<u64> {
        self.ops.get(op).map(|_| op.0)
    }

    fn label_row<T: Tally>(&mut self, op: OpId, key: RowKey<'_>, tally: &mut T) {
        let row = tally.row(key);
        let RowKey { protocol, class, name, via, statement } = key;
        tally.trace(Trace::Labelled { op: Some(op.0), protocol, class, name, via, statement });
        if let Some(open) = self.ops.get_mut(op) {
            open.row = Some(row);
            open.class = class;
        }
    }

    fn close_op<T: Tally>(&mut self, protocol: Protocol, op: OpId, outcome: Outcome, tally: &mut T) {
        let Some(open) = self.ops.get_mut(op) else { return };
        (open.operation.outcome, open.is_over) = (outcome, true);
        match self.rounds.closed(op, open.round, outcome, &self.directions[Side::Response as usize]) {
            RoundTripChange::None => {}
            RoundTripChange::Gained => open.operation.round_trips += 1,
            RoundTripChange::Lost => open.operation.round_trips -= 1,
        }
        let is_unnamed = open.row.is_none();
        if open.class == Class::Workload && matches!(outcome, Outcome::Ok | Outcome::Error) {
            self.note_answer();
        }
        if is_unnamed {
            self.label_row(op, unmatched(protocol, "(undecoded)"), tally);
        }
        self.release(op, tally);
    }

    /// Emits an operation that is over, once all frames with its payload are shared out.
    #[inline]
    fn release<T: Tally>(&mut self, op: OpId, tally: &mut T) {
        let Some((row, open)) = self.ops.close(op) else { return };
        let OpenOperation { operation, class, first_ns, last_ns, .. } = open;
        if let Some(recording) = &mut self.recording {
            let (operation, first_ns, last_ns) = (*operation, *first_ns, *last_ns);
            recording.closed(RecordedOperation { op, row, operation, first_ns, last_ns });
        }
        let counts = *class != Class::Unmatched && operation.outcome != Outcome::Unsolicited;
        self.operations += u64::from(counts);
        let is_unmatched = *class == Class::Unmatched;
        self.unmatched += u64::from(is_unmatched);
        tally.trace(Trace::Closed { op: Some(op.0), operation });
        tally.operation(row, operation);
        tally.each(row, operation, first_ns.or(*last_ns));
        if is_unmatched {
            // Its evidence about the pairing differs between connections.
            self.spoil();
        }
    }

    /// Opens an operation and makes it the latest one.
    fn open<T: Tally>(&mut self, tally: &mut T) -> OpId {
        if let Some(before) = self.latest.take() {
            self.ops.forget(before);
        }
        let op = self.ops.open(1);
        tally.trace(Trace::Opened { op: op.0 });
        self.latest = Some(op);
        op
    }

    /// Assigns the following bytes of a direction to `op`. Returns their owner in the books, and how many of them can be summed before
    /// they must be entered.
    #[inline(always)]
    fn begin(&mut self, side: Side, op: OpId) -> (ByteOwner, u64) {
        let direction = &mut self.directions[side as usize];
        let is_new = direction.begin_run(op);
        let (room, acked) = (direction.room(), direction.arrival().map(|frame| frame.acked));
        let is_more = is_new || direction.is_at_start();
        if is_new {
            self.record_run(side, op);
        }
        let mut by_clock = false;
        let whose = match (self.ops.hold(op, u32::from(is_new)), acked) {
            (_, None) => ByteOwner::Nobodys,
            (None, _) => ByteOwner::Connections,
            (Some(place), Some(acked)) => {
                let outstanding = self.ops.outstanding();
                let open = self.ops.at(place);
                open.unshared += u32::from(is_more);
                if side == Side::Request {
                    let starts = self.rounds.sent(op, acked, &self.directions[Side::Response as usize], outstanding);
                    open.operation.round_trips += u32::from(starts);
                    open.round = self.rounds.number;
                    by_clock = starts && self.rounds.may_be_by_clock();
                }
                ByteOwner::Open(place)
            }
        };
        if by_clock {
            // Its round trips are counted too high.
            self.note_once(Note::Overlapping);
        }
        (whose, room)
    }

    /// Enters `len` summed bytes, split by account in `amounts`.
    #[inline(always)]
    fn enter(&mut self, side: Side, whose: ByteOwner, len: u64, amounts: &PayloadAmounts) {
        self.directions[side as usize].posted += len;
        match whose {
            ByteOwner::Open(place) => self.ops.at(place).operation.sides[side as usize].amounts.add_payload(amounts),
            ByteOwner::Connections => {
                let mut sum = Amounts::ZERO;
                sum.add_payload(amounts);
                for (account, bytes) in sum.iter().filter(|&(_, bytes)| bytes > 0) {
                    self.add_to_connection(side, account, bytes);
                }
            }
            ByteOwner::Nobodys => {}
        }
    }

    /// Traces posted bytes that are summed but not yet entered.
    #[inline]
    fn trace_posted<T: Tally>(&self, side: Side, op: OpId, (account, len): (Account, u64), tally: &mut T) {
        let frame = self.directions[side as usize].arrival().map(|frame| frame.number);
        tally.trace(Trace::Posted { side, op: self.known(op), account, frame, len, in_order: true });
    }

    /// Handles the end of a slice, posted with bytes of that operation, or an offset that a deferred charge waits for.
    #[inline]
    fn reach<T: Tally>(&mut self, side: Side, (op, whose): (OpId, ByteOwner), tally: &mut T) {
        let direction = &self.directions[side as usize];
        if let Some((start, frame)) = direction.posted_slice() {
            match (frame, whose) {
                (Some(frame), ByteOwner::Open(place))
                    if direction.posted - start == frame.len && direction.is_last_run(start) =>
                {
                    // It has all of the frame's new payload, and so gets the headers.
                    let open = self.ops.at(place);
                    open.touch(side, frame.frames, frame.time_ns);
                    open.unshared -= 1;
                    for (account, bytes) in frame.headers.accounts() {
                        let bytes = u64::from(bytes);
                        open.operation.sides[side as usize].amounts[account] += bytes;
                        tally.trace(Trace::Charged { side, op: Some(op.0), account, frame: frame.number, bytes });
                    }
                    if open.is_over {
                        self.release(op, tally);
                    }
                }
                (&Some(frame), _) => self.settle(side, start, &frame, tally),
                (None, _) => {}
            }
            self.directions[side as usize].next_slice();
            self.forget_owners(side);
        }
        if self.directions[side as usize].is_special() {
            self.catch_up(side, tally);
        }
    }

    fn catch_up<T: Tally>(&mut self, side: Side, tally: &mut T) {
        while let Some(deferred) = self.directions[side as usize].next_due() {
            let op = self.directions[side as usize].owner(deferred.offset);
            self.post_frame(op, deferred.side, deferred.account, (deferred.frame, deferred.bytes), tally);
        }
    }

    #[inline]
    fn forget_owners(&mut self, side: Side) {
        while let Some(op) = self.directions[side as usize].forget_run() {
            self.ops.forget(op);
        }
    }
}

/// Returns the row for bytes outside the operations of `protocol`.
fn unmatched(protocol: Protocol, name: &str) -> RowKey<'_> {
    RowKey { protocol, class: Class::Unmatched, name, via: "", statement: "" }
}
