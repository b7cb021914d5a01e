//! Holds postings back until their layout on the wire is known.
//!
//! Two layouts need this. A compressed segment is decoded from its decompressed bytes, but the wire bytes count, divided in
//! proportion to the decompressed accounts. And messages within segments (CQL version 5) or TLS records continue across
//! headers, checksums and tags, which must be posted in between. A [`Weigher`](super::Weigher) is enough for a compressed
//! body, which belongs to one operation.

use super::{Label, Note, OpId, OperationShares, Out, Reader};
use overhead_model::{Account, Amounts, Outcome, Side};
use std::collections::VecDeque;

/// Recorded postings, in order.
#[derive(Debug, Default)]
pub struct PostingTape {
    events: Vec<TapeEvent>,
    closed: Vec<(OpId, Outcome)>,
    /// Start of the next player.
    start: TapePosition,
    /// Bytes posted since the tape was cleared.
    recorded: u64,
}

#[derive(Clone, Copy, Debug, Default)]
pub struct TapePosition {
    next: usize,
    /// Bytes of the next posting already played.
    within: u64,
}

#[derive(Clone, Copy, Debug)]
enum TapeEvent {
    Enter(&'static str),
    Leave,
    Post { op: OpId, account: Account, field: &'static str, len: u64 },
}

/// A reader that records postings and forwards everything else. Operations closed during the recording stay open until the
/// tape is played.
pub struct TapeRecorder<'a, 'r, R: Reader> {
    out: &'a mut Out<'r, R>,
    tape: &'a mut PostingTape,
}

impl PostingTape {
    /// Returns the memory held, in bytes.
    pub fn held_bytes(&self) -> usize {
        self.events.capacity() * size_of::<TapeEvent>()
    }
}

impl<'a, 'r, R: Reader> TapeRecorder<'a, 'r, R> {
    /// Clears `tape` and records on it.
    pub fn new(out: &'a mut Out<'r, R>, tape: &'a mut PostingTape) -> Self {
        tape.clear();
        Self { out, tape }
    }

    /// Appends to `tape`.
    pub fn append(out: &'a mut Out<'r, R>, tape: &'a mut PostingTape) -> Self {
        Self { out, tape }
    }
}

impl<R: Reader> Reader for TapeRecorder<'_, '_, R> {
    fn open(&mut self) -> OpId {
        self.out.open()
    }

    fn post(&mut self, _: Side, op: OpId, account: Account, field: &'static str, len: u64) {
        self.tape.recorded += len;
        self.tape.events.push(TapeEvent::Post { op, account, field, len });
    }

    fn enter(&mut self, _: Side, group: &'static str) {
        self.tape.events.push(TapeEvent::Enter(group));
    }

    fn leave(&mut self, _: Side) {
        self.tape.events.push(TapeEvent::Leave);
    }

    fn wants_free(&self) -> bool {
        false
    }

    fn label(&mut self, op: OpId, label: Label<'_>) {
        self.out.label_statement(op, label);
    }

    fn wants_statements(&self) -> bool {
        self.out.wants_statements()
    }

    fn close(&mut self, op: OpId, outcome: Outcome) {
        self.tape.closed.push((op, outcome));
    }

    fn software(&mut self, side: Side, name: &str) {
        self.out.software(side, name);
    }

    fn software_version(&mut self, side: Side, version: &str) {
        self.out.software_version(side, version);
    }

    fn note(&mut self, note: Note) {
        self.out.note(note);
    }
}

impl PostingTape {
    /// Frees memory beyond `bytes`.
    pub fn shrink(&mut self, bytes: usize) {
        self.clear();
        self.events.shrink_to(bytes / size_of::<TapeEvent>());
    }

    fn clear(&mut self) {
        self.events.clear();
        self.closed.clear();
        (self.start, self.recorded) = (TapePosition::default(), 0);
    }

    pub fn recorded(&self) -> u64 {
        self.recorded
    }

    /// Drains the operations closed during the recording.
    pub fn closed(&mut self) -> std::vec::Drain<'_, (OpId, Outcome)> {
        self.closed.drain(..)
    }

    pub fn play(&self) -> TapePlayer<'_> {
        TapePlayer { tape: self, at: self.start }
    }

    /// Moves the start of the tape to `position`.
    pub fn forget(&mut self, position: TapePosition) {
        self.start = position;
        // Moving the rest to the front pays off once half of it was played.
        if self.start.next * 2 >= self.events.len() {
            self.events.drain(..self.start.next.min(self.events.len()));
            self.start.next = 0;
        }
    }

    /// Closes the operations closed during the recording.
    pub fn close<R: Reader>(&mut self, out: &mut Out<'_, R>) {
        for (op, outcome) in self.closed.drain(..) {
            out.close(op, outcome);
        }
    }
}

#[derive(Clone, Copy)]
pub struct TapePlayer<'a> {
    tape: &'a PostingTape,
    at: TapePosition,
}

struct TapePosting {
    op: OpId,
    account: Account,
    field: &'static str,
    len: u64,
}

impl TapePlayer<'_> {
    pub fn position(&self) -> TapePosition {
        self.at
    }

    /// Plays up to `len` bytes: calls `group` for groups and `post` for postings.
    fn run(&mut self, mut len: u64, mut group: impl FnMut(Option<&'static str>), mut post: impl FnMut(TapePosting)) {
        while let Some(&event) = self.tape.events.get(self.at.next) {
            match event {
                TapeEvent::Enter(_) | TapeEvent::Post { .. } if len == 0 => return,
                TapeEvent::Enter(name) => group(Some(name)),
                TapeEvent::Leave => group(None),
                TapeEvent::Post { op, account, field, len: whole } => {
                    let taken = len.min(whole - self.at.within);
                    len -= taken;
                    self.at.within += taken;
                    post(TapePosting { op, account, field, len: taken });
                    if self.at.within < whole {
                        return;
                    }
                    self.at.within = 0;
                }
            }
            self.at.next += 1;
        }
    }

    /// Collects the shares of the operations in the next `len` bytes, in order; adjacent shares of one operation are
    /// merged.
    pub fn owners(mut self, len: u64, owners: &mut Vec<(OpId, u64)>) {
        owners.clear();
        self.run(
            len,
            |_| {},
            |piece| match owners.last_mut() {
                Some((op, share)) if *op == piece.op => *share += piece.len,
                _ => owners.push((piece.op, piece.len)),
            },
        );
    }

    /// Posts the next `len` bytes as recorded.
    pub fn post<R: Reader>(&mut self, len: u64, out: &mut Out<'_, R>) {
        // Two closures cannot both hold `out`.
        let out = std::cell::RefCell::new(out);
        self.run(
            len,
            |name| match name {
                Some(name) => out.borrow_mut().enter(name),
                None => out.borrow_mut().leave(),
            },
            |piece| {
                let mut out = out.borrow_mut();
                out.charge(piece.op);
                out.post(piece.account, piece.field, piece.len);
            },
        );
    }

    /// Posts `wire` compressed bytes in proportion to the operations and accounts of the next `len` bytes: see
    /// [`OperationShares::post`].
    pub fn post_pro_rata<R: Reader>(
        &mut self,
        len: u64,
        wire: u64,
        shares: &mut OperationShares,
        out: &mut Out<'_, R>,
    ) {
        if out.wants_inner() {
            let mut again = *self;
            again.run(len, |_| {}, |piece| out.inner(piece.account, piece.field, piece.len));
        }
        let mut parts = shares.take_parts();
        self.run(
            len,
            |_| {},
            |piece| match parts.last_mut() {
                Some((op, amounts)) if *op == piece.op => amounts[piece.account] += piece.len,
                _ => parts.push((piece.op, Amounts::of(piece.account, piece.len))),
            },
        );
        shares.post_parts(parts, wire, "compressed", out);
    }
}

/// Operations that are over, to close once their bytes on the tapes of both directions are posted.
#[derive(Debug, Default)]
pub struct DeferredCloses(VecDeque<DeferredClose>);

#[derive(Clone, Copy, Debug)]
struct DeferredClose {
    op: OpId,
    outcome: Outcome,
    /// By side.
    after: [u64; 2],
}

impl DeferredCloses {
    /// Adds an operation to close once this much of each direction is posted.
    pub fn push(&mut self, op: OpId, outcome: Outcome, after: [u64; 2]) {
        self.0.push_back(DeferredClose { op, outcome, after });
    }

    /// Closes operations whose bytes are posted, and the earliest of the others if there are more than `limit`.
    pub fn settle<R: Reader>(&mut self, posted: [u64; 2], limit: usize, out: &mut Out<'_, R>) {
        while let Some(&DeferredClose { op, outcome, after }) = self.0.front() {
            let is_posted = after.iter().zip(posted).all(|(after, posted)| *after <= posted);
            if !is_posted && self.0.len() <= limit {
                return;
            }
            self.0.pop_front();
            out.close(op, outcome);
        }
    }

    /// Stops waiting for the bytes of one direction, which were lost.
    pub fn forget(&mut self, side: Side) {
        self.0.iter_mut().for_each(|closing| closing.after[side as usize] = 0);
    }

    /// Returns the memory held, in bytes.
    pub fn held(&self) -> usize {
        self.0.capacity() * size_of::<DeferredClose>()
    }
}

/// Posts the next `len` bytes from `shares`, one share for each of `owners`, and reduces the shares.
pub fn post_shares<R: Reader>(
    owners: &[(OpId, u64)],
    shares: &mut [u64],
    (account, field, mut len): (Account, &'static str, u64),
    out: &mut Out<'_, R>,
) {
    for ((op, _), share) in owners.iter().zip(shares) {
        let taken = len.min(*share);
        *share -= taken;
        len -= taken;
        if taken > 0 {
            out.charge(*op);
            out.post(account, field, taken);
        }
    }
}
