//! Holds postings back until their layout on the wire is known.
//!
//! Two layouts need this. A compressed segment is decoded from its decompressed bytes, but the wire bytes count, divided in
//! proportion to the decompressed accounts. And messages within segments (CQL version 5) or TLS records continue across
//! headers, checksums and tags, which must be posted in between. A [`Weigher`](super::Weigher) is enough for a compressed
//! body, which belongs to one operation.

use super::{Label, Moment, Note, OpId, OperationShares, Out, Reader};
use crate::out::pass_facts_on;
use overhead_model::{Account, Amounts, Outcome, Side};
use std::collections::VecDeque;
use std::ops::Range;

/// The field of a sum of postings: see [`PostingTape::sum_up`].
const SUM: &str = "";

/// Recorded postings, in order.
#[derive(Debug, Default)]
pub struct PostingTape {
    events: Vec<TapeEvent>,
    closed: Vec<(OpId, Outcome)>,
    /// Start of the next player.
    start: TapePosition,
    /// Bytes posted since the tape was cleared.
    pub recorded: u64,
    /// Operations opened since then.
    pub opened: u64,
    /// Positions of postings that are summed up, and the first event that may be a sum: see [`PostingTape::sum_up`].
    summed: (Range<u64>, usize),
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
    pass_facts_on!();

    fn open(&mut self) -> OpId {
        self.tape.opened += 1;
        self.out.open()
    }

    fn post(&mut self, _: Side, op: OpId, account: Account, field: &'static str, len: u64) {
        self.tape.recorded += len;
        let is_summed = self.tape.is_summed();
        if !is_summed || !self.tape.add(op, account, len) {
            let field = if is_summed { SUM } else { field };
            self.tape.events.push(TapeEvent::Post { op, account, field, len });
        }
    }

    fn enter(&mut self, _: Side, group: &'static str) {
        if !self.tape.is_summed() {
            self.tape.events.push(TapeEvent::Enter(group));
        }
    }

    fn leave(&mut self, _: Side) {
        if !self.tape.is_summed() {
            self.tape.events.push(TapeEvent::Leave);
        }
    }

    fn close(&mut self, op: OpId, outcome: Outcome) {
        self.tape.closed.push((op, outcome));
    }
}

impl PostingTape {
    /// Returns the memory held, in bytes.
    pub fn held_bytes(&self) -> usize {
        self.events.capacity() * size_of::<TapeEvent>()
    }

    /// Frees memory beyond `bytes`.
    pub fn shrink(&mut self, bytes: usize) {
        self.clear();
        self.events.shrink_to(bytes / size_of::<TapeEvent>());
    }

    fn clear(&mut self) {
        self.events.clear();
        self.closed.clear();
        (self.start, self.recorded, self.opened) = (TapePosition::default(), 0, 0);
        self.summed = (0..0, 0);
    }

    /// Within these positions, keeps the sum of each operation and account in place of its postings, after the first `detailed` ones. Play
    /// them whole, by [`TapePlayer::post_pro_rata`]. So a result of millions of rows takes no more memory than one row.
    pub fn sum_up(&mut self, positions: Range<u64>, detailed: usize) {
        self.summed = (positions, self.events.len() + detailed);
    }

    /// Returns whether the last posting is to be summed up.
    fn is_summed(&self) -> bool {
        let (positions, first) = &self.summed;
        positions.start < self.recorded && self.recorded <= positions.end && *first <= self.events.len()
    }

    /// Adds a posting to the sum of its operation and account, if there is one.
    fn add(&mut self, by: OpId, to: Account, more: u64) -> bool {
        let sums = self.events.get_mut(self.summed.1..).unwrap_or_default().iter_mut().rev();
        for event in sums {
            match event {
                TapeEvent::Post { op, account, field: SUM, len } if *op == by && *account == to => {
                    *len += more;
                    return true;
                }
                TapeEvent::Post { op, .. } if *op != by => return false,
                _ => {}
            }
        }
        false
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
    pub at: TapePosition,
}

impl TapePlayer<'_> {
    /// Plays up to `len` bytes: calls `hear` for each event, the last posting cut.
    fn run(&mut self, mut len: u64, mut hear: impl FnMut(TapeEvent)) {
        while let Some(&event) = self.tape.events.get(self.at.next) {
            match event {
                TapeEvent::Enter(_) | TapeEvent::Post { .. } if len == 0 => return,
                TapeEvent::Enter(_) | TapeEvent::Leave => hear(event),
                TapeEvent::Post { op, account, field, len: whole } => {
                    let taken = len.min(whole - self.at.within);
                    len -= taken;
                    self.at.within += taken;
                    hear(TapeEvent::Post { op, account, field, len: taken });
                    if self.at.within < whole {
                        return;
                    }
                    self.at.within = 0;
                }
            }
            self.at.next += 1;
        }
    }

    /// Plays the postings among the next `len` bytes.
    fn postings(&mut self, len: u64, mut post: impl FnMut(OpId, Account, &'static str, u64)) {
        self.run(len, |event| {
            if let TapeEvent::Post { op, account, field, len } = event {
                post(op, account, field, len);
            }
        });
    }

    /// Collects the shares of the operations in the next `len` bytes, in order; adjacent shares of one operation are
    /// merged.
    pub fn owners(mut self, len: u64, owners: &mut Vec<(OpId, u64)>) {
        owners.clear();
        self.postings(len, |by, _, _, len| match owners.last_mut() {
            Some((op, share)) if *op == by => *share += len,
            _ => owners.push((by, len)),
        });
    }

    /// Posts the next `len` bytes as recorded.
    pub fn post<R: Reader>(&mut self, len: u64, out: &mut Out<'_, R>) {
        self.run(len, |event| match event {
            TapeEvent::Enter(group) => out.enter(group),
            TapeEvent::Leave => out.leave(),
            TapeEvent::Post { op, account, field, len } => {
                out.charge(op);
                out.post(account, field, len);
            }
        });
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
            // Without sums, the fields do not add up to the content: a listener sees that they are not all.
            again.postings(len, |_, account, field, len| {
                if field != SUM {
                    out.inner(account, field, len);
                }
            });
        }
        let mut parts = shares.take_parts();
        self.postings(len, |by, account, _, len| match parts.last_mut() {
            Some((op, amounts)) if *op == by => amounts[account] += len,
            _ => parts.push((by, Amounts::new(account, len))),
        });
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

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Heard {
        inner: Vec<u64>,
        posted: Vec<(OpId, Account, u64)>,
    }

    impl Reader for Heard {
        fn open(&mut self) -> OpId {
            OpId(0)
        }

        fn post(&mut self, _: Side, op: OpId, account: Account, _: &'static str, len: u64) {
            self.posted.push((op, account, len));
        }

        fn label(&mut self, _: OpId, _: Label<'_>) {}

        fn close(&mut self, _: OpId, _: Outcome) {}

        fn software(&mut self, _: Side, _: &str) {}

        fn wants_inner(&mut self) -> bool {
            true
        }

        fn inner(&mut self, _: Side, _: Account, _: &'static str, len: u64) {
            self.inner.push(len);
        }

        fn note(&mut self, _: Note) {}
    }

    /// Records rows of three operations in two compressed packets of 701 and 299 bytes, sums up after `detailed` postings or not at all,
    /// and plays the packets. Returns what is heard, and the number of events.
    fn heard(detailed: Option<usize>) -> (Heard, usize) {
        let (mut heard, mut tape) = (Heard::default(), PostingTape::default());
        let mut out = Out::new(&mut heard, Side::Response, None);
        for row in 0..200 {
            for (at, account, len) in [(0, Account::Framing, 2), (2, Account::Data, 2), (4, Account::Framing, 1)] {
                let position = 5 * row + at;
                // The second packet starts within a row.
                if let Some(detailed) = detailed.filter(|_| [0, 704].contains(&position)) {
                    tape.sum_up(if position == 0 { 0..701 } else { 701..1000 }, detailed);
                }
                let op = OpId(row / 80);
                TapeRecorder::append(&mut out, &mut tape).post(Side::Response, op, account, "cell", len);
            }
        }
        let mut player = tape.play();
        player.post_pro_rata(701, 70, &mut OperationShares::default(), &mut out);
        player.post_pro_rata(299, 30, &mut OperationShares::default(), &mut out);
        (heard, tape.events.len())
    }

    #[test]
    fn sums_of_a_packet_are_played_as_its_postings_are() {
        let (all, events) = heard(None);
        assert_eq!((events, all.inner.iter().sum::<u64>()), (600, 1000));
        for detailed in [0, 1, 7, 300, 10_000] {
            let (summed, events) = heard(Some(detailed));
            assert_eq!(summed.posted, all.posted, "with {detailed} postings one by one");
            assert!(events <= 2 * detailed + 12, "{events} events with {detailed} postings one by one");
            assert_eq!(summed.inner.iter().sum::<u64>() == 1000, detailed > 600, "what is left out shows");
        }
    }
}
