//! The ledger of one connection: every byte of every frame, posted once, to an account of an operation.
//!
//! Payload is posted by the decoder in stream order. The headers of a frame are shared between the operations whose new
//! payload it carries, once all of that payload has been posted; a frame without new payload is posted whole, to the operation
//! that it acknowledges or repeats. What concerns payload that is not decoded yet is deferred until it is.

mod connect;
mod ops;
mod reader;
mod split;
mod stream;

pub use reader::Ledger;
pub use stream::FrameId;

use crate::packet::Headers;
use connect::Connect;
use ops::{Ops, State};
use overhead_decode::{Note, OpId};
use overhead_model::{Account, Amounts, Class, Outcome, Protocol, RowKey, Side, SideTotals, Tally, Trace};
use split::Split;
use std::collections::BTreeMap;
use stream::{Deferred, Piece, Share, Stream};

/// The books of one connection.
#[derive(Debug)]
pub struct Book {
    protocol: Protocol,
    /// Number in the capture of the frame at hand, and how many frames it stands for.
    number: u64,
    frames: u32,
    ops: Ops,
    streams: [Stream; 2],
    connect: Connect,
    latest: Option<OpId>,
    /// Absent where nothing was said.
    said: Option<Box<Said>>,
    operations: u64,
    /// Absent until a frame is shared between operations.
    scratch: Option<Box<Scratch>>,
}

/// What was said of a connection besides its operations.
#[derive(Debug, Default)]
struct Said {
    software: [Option<String>; 2],
    notes: BTreeMap<Note, u64>,
}

/// Kept for its memory.
#[derive(Debug, Default)]
struct Scratch {
    shares: Vec<(OpId, u64)>,
    split: Split,
}

/// Bytes of one field.
#[derive(Clone, Copy, Debug)]
struct Posting {
    account: Account,
    field: &'static str,
    len: u64,
}

/// Whom a frame is charged to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// The connection itself.
    Connect,
    /// The latest operation, or the connection before there is one.
    Latest,
    /// The operation that owns the byte at this offset of a direction.
    Byte(Side, u64),
}

impl Book {
    /// Empty books.
    pub fn new(protocol: Protocol) -> Self {
        Self {
            protocol,
            number: 0,
            frames: 1,
            ops: Ops::default(),
            streams: [Stream::default(), Stream::default()],
            connect: Connect::default(),
            latest: None,
            said: None,
            operations: 0,
            scratch: None,
        }
    }

    /// Sets the protocol, which for a connection on an unknown port is learnt after its first frames.
    pub fn set_protocol(&mut self, protocol: Protocol) {
        self.protocol = protocol;
    }

    /// Exchanges client and server. Only before anything was decoded.
    pub fn swap_sides(&mut self) {
        self.streams.iter_mut().for_each(Stream::sync);
        self.streams.swap(0, 1);
        self.connect.swap_sides();
        self.streams.iter_mut().for_each(Stream::swap_deferred);
    }

    /// Gives back room that nothing is in.
    pub fn shrink(&mut self) {
        self.streams.iter_mut().for_each(Stream::shrink);
        self.ops.shrink();
        self.scratch = None;
    }

    /// Returns how many operations have not ended.
    pub fn outstanding(&self) -> usize {
        self.ops.outstanding()
    }

    /// Returns how many bytes of memory it holds, roughly, beyond its own size.
    #[inline]
    pub fn held(&self) -> usize {
        self.ops.held() + self.streams.iter().map(Stream::held).sum::<usize>()
    }

    /// What the ends said they are, by the side that sends it.
    pub fn software(&self, side: Side) -> Option<&str> {
        self.said.as_ref()?.software[side as usize].as_deref()
    }

    /// The protocol.
    pub fn protocol(&self) -> Protocol {
        self.protocol
    }

    /// Whether there was this doubt.
    pub fn is_noted(&self, note: Note) -> bool {
        self.said.as_ref().is_some_and(|said| said.notes.contains_key(&note))
    }

    /// Counts a doubt.
    pub fn note(&mut self, note: Note) {
        *self.said.get_or_insert_default().notes.entry(note).or_default() += 1;
    }

    /// Hands the doubts on, and how often they occurred.
    pub fn take_notes(&mut self) -> BTreeMap<Note, u64> {
        self.said.as_mut().map(|said| std::mem::take(&mut said.notes)).unwrap_or_default()
    }

    /// Operations closed, `unmatched` and `CONNECT` left out.
    pub fn operations(&self) -> u64 {
        self.operations
    }

    /// What follows comes of the frame with this number in the capture, the last of so many where they are fragments.
    /// Gives what was said before.
    pub fn at(&mut self, number: u64, frames: u32) -> (u64, u32) {
        (std::mem::replace(&mut self.number, number), std::mem::replace(&mut self.frames, frames))
    }

    /// Announces a frame with `new_payload` bytes of new payload in `side`.
    pub fn frame(&mut self, side: Side, time_ns: u64, headers: Headers, new_payload: u64) -> FrameId {
        self.streams[side as usize].add_frame((self.number, self.frames), time_ns, headers, new_payload)
    }

    /// Announces a frame whose `len` bytes of payload are all new, and the next of `side`.
    #[inline]
    pub fn whole_frame(&mut self, side: Side, time_ns: u64, headers: Headers, len: u64) {
        if !self.streams[side as usize].set_now((self.number, self.frames), time_ns, headers, len) {
            let frame = self.frame(side, time_ns, headers, len);
            self.slice(side, frame, len);
        }
    }

    /// The next `len` bytes of `side` came in `frame`. Announced before they are decoded.
    pub fn slice(&mut self, side: Side, frame: FrameId, len: u64) {
        self.streams[side as usize].add_slice(Some(frame), len);
    }

    /// The next `len` bytes of `side` are in no captured frame: they will be decoded as unreadable, and posted nowhere.
    pub fn gap(&mut self, side: Side, len: u64) {
        self.streams[side as usize].add_slice(None, len);
    }

    /// `len` new bytes of `frame` that lie outside the decoded stream: an unmatched stretch of its own.
    pub fn stray<T: Tally>(&mut self, side: Side, frame: FrameId, len: u64, tally: &mut T) {
        let op = self.ops.open();
        tally.trace(Trace::Opened { op: op.0 });
        self.label_row(op, Class::Unmatched, "(stray)", "", tally);
        *self.amount(op, side, Account::Unknown) += len;
        self.streams[side as usize].sync();
        let (number, frames) = self.streams[side as usize].origin(frame);
        let came_in = Some(number);
        let account = Account::Unknown;
        tally.trace(Trace::Posted { side, op: Some(op.0), account, frame: came_in, len, in_order: false });
        let stream = &mut self.streams[side as usize];
        stream.strayed(frame, len);
        if stream.share(frame, op, len) {
            self.touch(op, side, frames);
        }
        self.close_op(op, Outcome::NoReply, tally);
        self.settle(side, frame, tally);
    }

    /// Charges a frame without new payload, or the repeated part of one, to its owner.
    pub fn charge<T: Tally>(&mut self, side: Side, owner: Owner, account: Account, bytes: u64, tally: &mut T) {
        let op = match owner {
            Owner::Connect => None,
            Owner::Latest => self.latest,
            Owner::Byte(of, offset) => {
                let stream = &mut self.streams[of as usize];
                let deferred = Deferred { offset, side, account, frame: self.number, bytes };
                if offset >= stream.posted && stream.defer(deferred) {
                    return;
                }
                stream.owner(offset).or(self.latest)
            }
        };
        self.post_frame(op, side, account, (self.number, bytes), tally);
    }

    /// All bytes of `side` before `offset` have been acknowledged.
    pub fn acknowledged(&mut self, side: Side, offset: u64) {
        self.streams[side as usize].acked = offset;
    }

    /// Ends the connection: open operations close as unanswered, or as unmatched where their request was never complete.
    pub fn finish<T: Tally>(&mut self, tally: &mut T) {
        for side in Side::BOTH {
            let stream = &mut self.streams[side as usize];
            for deferred in stream.take_deferred() {
                let frame = (deferred.frame, deferred.bytes);
                self.post_frame(self.latest, deferred.side, deferred.account, frame, tally);
            }
        }
        for op in self.ops.open_ids() {
            if self.ops.get(op).is_some_and(|open| open.row.is_none()) {
                self.label_row(op, Class::Unmatched, "(cut off)", "", tally);
            }
            let unmatched = self.ops.get(op).is_some_and(|open| open.class == Class::Unmatched);
            self.close_op(op, if unmatched { Outcome::NoReply } else { Outcome::Unanswered }, tally);
        }
        let totals = std::mem::take(&mut self.connect).totals();
        if totals.iter().any(|side| side.amounts.total() > 0) {
            let key = RowKey { protocol: self.protocol, class: Class::Setup, name: "CONNECT", via: "" };
            let row = tally.row(key);
            let operation = overhead_model::Operation { sides: totals, outcome: Outcome::Ok, latency_ns: None };
            tally.trace(Trace::Labelled { op: None, class: key.class, name: key.name, via: key.via });
            tally.trace(Trace::Closed { op: None, operation: &operation });
            tally.operation(row, &operation);
        }
    }

    /// Posts `bytes` of a frame, given by its number, that are not new payload.
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
                tally.late(row, side, &SideTotals { frames: 1, amounts: Amounts::of(account, bytes) });
            }
            Some(State::Gone) | None => self.connect.frame(side, account, bytes),
        }
    }

    /// Shares the headers of a frame whose payload has all been posted.
    fn settle<T: Tally>(&mut self, side: Side, frame: FrameId, tally: &mut T) {
        let mut scratch = self.scratch.take().unwrap_or_default();
        let Scratch { shares, split } = &mut *scratch;
        if let Some((headers, number)) = self.streams[side as usize].take_if_posted(frame, shares) {
            if !shares.is_sorted_by_key(|&(op, _)| Ops::age(op)) {
                shares.sort_by_key(|&(op, _)| Ops::age(op));
            }
            split.begin(shares.iter().map(|&(_, bytes)| bytes));
            for (account, bytes) in headers.accounts() {
                split.amount(u64::from(bytes), |index, share| {
                    if let Some(&(op, _)) = shares.get(index) {
                        self.post_header(op, side, account, (number, share), tally);
                    }
                });
            }
            for &(op, _) in &*shares {
                if self.ops.release_frame(op) {
                    self.emit(op, tally);
                }
            }
        }
        shares.clear();
        self.scratch = Some(scratch);
    }

    /// Posts a share of the headers of a frame, given by its number.
    fn post_header<T: Tally>(
        &mut self,
        op: OpId,
        side: Side,
        account: Account,
        (frame, bytes): (u64, u64),
        tally: &mut T,
    ) {
        tally.trace(Trace::Charged { side, op: self.known(op), account, frame, bytes });
        *self.amount(op, side, account) += bytes;
    }

    /// The operation as the tally is told of it: `None` where its bytes go to the connection.
    fn known(&self, op: OpId) -> Option<u64> {
        self.ops.get(op).map(|_| op.0)
    }

    fn touch(&mut self, op: OpId, side: Side, frames: u32) {
        if let Some(open) = self.ops.get_mut(op) {
            open.operation.sides[side as usize].frames += u64::from(frames);
            open.pending_frames += 1;
        }
    }

    fn amount(&mut self, op: OpId, side: Side, account: Account) -> &mut u64 {
        match self.ops.get_mut(op) {
            Some(open) => &mut open.operation.sides[side as usize].amounts[account],
            // Not reached by a decoder that keeps the rules; the bytes still balance.
            None => self.connect.amount(side, account),
        }
    }

    fn label_row<T: Tally>(&mut self, op: OpId, class: Class, name: &str, via: &'static str, tally: &mut T) {
        let row = tally.row(RowKey { protocol: self.protocol, class, name, via });
        tally.trace(Trace::Labelled { op: Some(op.0), class, name, via });
        if let Some(open) = self.ops.get_mut(op) {
            open.row = Some(row);
            open.class = class;
        }
    }

    fn close_op<T: Tally>(&mut self, op: OpId, outcome: Outcome, tally: &mut T) {
        if self.ops.get(op).is_some_and(|open| open.row.is_none()) {
            self.label_row(op, Class::Unmatched, "(undecoded)", "", tally);
        }
        if let Some(open) = self.ops.get_mut(op) {
            open.operation.outcome = outcome;
            open.is_over = true;
            if open.pending_frames == 0 {
                self.emit(op, tally);
            }
        }
    }

    fn emit<T: Tally>(&mut self, op: OpId, tally: &mut T) {
        let Some((row, class, operation)) = self.ops.close(op) else {
            return;
        };
        let counts = class != Class::Unmatched && operation.outcome != Outcome::Unsolicited;
        self.operations += u64::from(counts);
        tally.trace(Trace::Closed { op: Some(op.0), operation });
        tally.operation(row, operation);
    }

    /// Posts a field.
    fn post_field<T: Tally>(&mut self, side: Side, op: OpId, posting: Posting, tally: &mut T) {
        tally.trace(Trace::Field { side, field: posting.field, len: posting.len });
        if self.lump(side, op, posting.len) > 0 {
            let frame = Some(self.streams[side as usize].now.origin.0);
            let Posting { account, len, .. } = posting;
            tally.trace(Trace::Posted { side, op: Some(op.0), account, frame, len, in_order: true });
            self.post_sums(side, op, &Amounts::of(account, len), len, tally);
        } else if !self.post_within(side, op, posting, tally) {
            self.post_pieces(side, op, posting.account, posting.len, tally);
        }
    }

    /// Opens an operation, the latest one.
    fn open<T: Tally>(&mut self, tally: &mut T) -> OpId {
        let op = self.ops.open();
        tally.trace(Trace::Opened { op: op.0 });
        if let Some(before) = self.latest.replace(op) {
            self.ops.forget(before);
        }
        self.ops.retain(op);
        op
    }

    /// Of how many of the next bytes of `side` it does not matter in which order they are posted to `op`: those of the frame
    /// at hand, where its operations follow one another in order of their opening. 0 where that is less than `len`.
    #[inline]
    fn lump(&mut self, side: Side, op: OpId, len: u64) -> u64 {
        let stream = &self.streams[side as usize];
        let left = stream.now.left;
        if len > left || stream.is_deferring {
            return 0;
        }
        let goes_on = stream.now.op.is_some_and(|(of, _)| of == op);
        if goes_on || self.attach(side, op) { left } else { 0 }
    }

    /// Posts bytes of the frame at hand, at most as many as [`Book::lump`] gave.
    #[inline]
    fn post_sums<T: Tally>(&mut self, side: Side, op: OpId, sums: &Amounts, len: u64, tally: &mut T) {
        let stream = &mut self.streams[side as usize];
        stream.posted += len;
        stream.now.left -= len;
        let is_whole = stream.now.left == 0;
        match stream.now.op {
            Some((of, open)) if of == op => self.ops.at(open).operation.sides[side as usize].amounts += *sums,
            // Not reached by an output that keeps the rules; the bytes still balance.
            _ => sums.iter().for_each(|(account, len)| *self.connect.amount(side, account) += len),
        }
        if is_whole {
            self.settle_now(side, tally);
        }
    }

    /// The frame at hand, or what is left of it, goes to `op`, as far as can be told; false where a younger operation has
    /// some of it.
    fn attach(&mut self, side: Side, op: OpId) -> bool {
        let stream = &mut self.streams[side as usize];
        let is_elder = stream.now.op.is_none_or(|(before, _)| Ops::age(before) < Ops::age(op));
        if stream.now.left == 0 || !is_elder {
            return false;
        }
        let Some((open, references)) = self.ops.place(op) else { return false };
        *references += u32::from(stream.take_now(op, open));
        self.ops.at(open).touch(side, stream.now.origin.1, stream.now.time_ns);
        true
    }

    /// Charges the headers of the frame at hand, whose payload is all posted.
    #[inline]
    fn settle_now<T: Tally>(&mut self, side: Side, tally: &mut T) {
        let stream = &mut self.streams[side as usize];
        let Some((op, open)) = stream.end_now() else { return };
        let (headers, number) = (stream.now.headers, stream.now.origin.0);
        if stream.earlier.is_empty() {
            for (account, bytes) in headers.accounts() {
                let share = Share { op, open, bytes: u64::from(bytes) };
                self.charge_share(side, share, account, number, tally);
            }
            self.release(op, open, tally);
        } else {
            self.settle_shares(side, headers, number, tally);
        }
        self.forget_owners(side);
    }

    /// Shares the headers of the frame at hand between its operations.
    fn settle_shares<T: Tally>(&mut self, side: Side, headers: Headers, number: u64, tally: &mut T) {
        let mut now = std::mem::take(&mut self.streams[side as usize].earlier);
        let mut scratch = self.scratch.take().unwrap_or_default();
        let split = &mut scratch.split;
        split.begin(now.iter().map(|share| share.bytes));
        for (account, bytes) in headers.accounts() {
            split.amount(u64::from(bytes), |index, bytes| {
                if let Some(share) = now.get(index) {
                    self.charge_share(side, Share { bytes, ..*share }, account, number, tally);
                }
            });
        }
        for share in now.drain(..) {
            self.release(share.op, share.open, tally);
        }
        self.scratch = Some(scratch);
        self.streams[side as usize].earlier = now;
    }

    /// Charges bytes of the headers of a frame, given by its number, to an operation that is open.
    #[inline]
    fn charge_share<T: Tally>(&mut self, side: Side, share: Share, account: Account, number: u64, tally: &mut T) {
        let Share { op, open, bytes } = share;
        tally.trace(Trace::Charged { side, op: Some(op.0), account, frame: number, bytes });
        self.ops.at(open).operation.sides[side as usize].amounts[account] += bytes;
    }

    /// The headers of a frame with payload of an open operation are shared out.
    #[inline]
    fn release<T: Tally>(&mut self, op: OpId, open: u32, tally: &mut T) {
        if self.ops.at(open).release() {
            self.emit(op, tally);
        }
    }

    /// Posts a field that lies within one frame, which other operations have some of, or by which something waits; false
    /// where it does not.
    #[inline(never)]
    fn post_within<T: Tally>(&mut self, side: Side, op: OpId, posting: Posting, tally: &mut T) -> bool {
        let stream = &mut self.streams[side as usize];
        if let Some(at) = stream.advance_same(op, posting.len) {
            self.add(side, op, posting, at, tally);
            return true;
        }
        stream.sync();
        stream.spill();
        let State::Open(open) = self.ops.state(op) else { return false };
        let Some(piece) = stream.advance_within(posting.len) else { return false };
        self.add(side, op, posting, (open, piece.number), tally);
        self.book_piece(side, op, &piece, tally);
        true
    }

    /// Adds a field to the operation that is open at a place, from the frame of a number.
    fn add<T: Tally>(&mut self, side: Side, op: OpId, posting: Posting, (open, frame): (u32, u64), tally: &mut T) {
        let Posting { account, len, .. } = posting;
        tally.trace(Trace::Posted { side, op: Some(op.0), account, frame: Some(frame), len, in_order: true });
        self.ops.at(open).operation.sides[side as usize].amounts[account] += len;
    }

    /// Posts a field of which parts lie in several frames or in none.
    fn post_pieces<T: Tally>(&mut self, side: Side, op: OpId, account: Account, mut len: u64, tally: &mut T) {
        self.streams[side as usize].sync();
        while len > 0 {
            let Some(piece) = self.streams[side as usize].advance(len) else { return };
            len -= piece.len;
            let (known, frame) = (self.known(op), piece.frame.map(|_| piece.number));
            tally.trace(Trace::Posted { side, op: known, account, frame, len: piece.len, in_order: true });
            if piece.frame.is_some() {
                *self.amount(op, side, account) += piece.len;
            }
            self.book_piece(side, op, &piece, tally);
        }
    }

    /// Takes down whose a piece was that was posted.
    fn book_piece<T: Tally>(&mut self, side: Side, op: OpId, piece: &Piece, tally: &mut T) {
        let stream = &mut self.streams[side as usize];
        if stream.own(op) {
            self.ops.retain(op);
        }
        if let Some(frame) = piece.frame {
            let is_first = self.streams[side as usize].share(frame, op, piece.len);
            if let Some(open) = self.ops.get_mut(op) {
                if is_first {
                    open.touch(side, piece.frames, piece.time_ns);
                } else {
                    open.seen(side, piece.time_ns);
                }
            }
            if piece.frame_done {
                self.settle(side, frame, tally);
            } else if let State::Open(open) = self.ops.state(op) {
                self.streams[side as usize].heat(op, open, (frame, piece.number));
            }
        }
        self.catch_up(side, tally);
    }

    /// Posts what was deferred until its bytes had an owner, and forgets owners that nothing can refer to any more.
    fn catch_up<T: Tally>(&mut self, side: Side, tally: &mut T) {
        while let Some(deferred) = self.streams[side as usize].next_due() {
            let op = self.streams[side as usize].owner(deferred.offset);
            self.post_frame(op, deferred.side, deferred.account, (deferred.frame, deferred.bytes), tally);
        }
        self.forget_owners(side);
    }

    fn forget_owners(&mut self, side: Side) {
        while let Some(op) = self.streams[side as usize].forget_owner() {
            self.ops.forget(op);
        }
    }
}
