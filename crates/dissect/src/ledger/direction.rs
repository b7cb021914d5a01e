//! One direction in the books: a queue of frames with bytes still to post, and a list of byte runs, each owned by one operation. A frame
//! is shared out between the runs it overlaps.

use super::ops::ClosedOperations;
use crate::limits;
use crate::packet::Headers;
use overhead_decode::OpId;
use overhead_model::{Account, RowId, Side};
use std::collections::btree_map::OccupiedEntry;
use std::collections::{BTreeMap, VecDeque};

#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    /// Number in the capture; for fragments, the last one's.
    pub number: u64,
    /// Frames it stands for: 1, or the number of fragments.
    pub frames: u32,
    /// Capture time, Unix nanoseconds.
    pub time_ns: u64,
    pub headers: Headers,
    pub len: u64,
    /// Bytes of the other direction that its sender had acknowledged.
    pub acked: u64,
}

/// Bytes that came in one frame, or in none.
#[derive(Clone, Copy, Debug)]
struct FrameSlice {
    end: u64,
    frame: Option<Arrival>,
}

/// Bytes owned by one operation. They end at the start of the next run; the last run ends at `posted`.
#[derive(Clone, Copy, Debug)]
struct OwnerRun {
    start: u64,
    op: OpId,
}

/// One operation's part of a frame.
#[derive(Clone, Copy, Debug)]
pub(super) struct FrameShare {
    pub op: OpId,
    pub bytes: u64,
    pub runs: u32,
    /// Index among the open operations, once looked up.
    pub place: Option<u32>,
}

impl FrameShare {
    pub fn new(op: OpId, bytes: u64) -> Self {
        Self { op, bytes, runs: 1, place: None }
    }
}

/// A frame to charge to the owner of a byte that is not posted yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct DeferredCharge {
    /// Offset of that byte in this direction.
    pub offset: u64,
    pub side: Side,
    pub account: Account,
    pub frame: u64,
    pub bytes: u64,
}

/// A frame with new payload in several places, and its owners so far.
#[derive(Debug)]
pub(super) struct ScatteredFrame {
    pub headers: Headers,
    pub left: u64,
    /// Payload by operation, each once.
    pub shares: Vec<(OpId, u64)>,
}

impl ScatteredFrame {
    /// Notes that `len` bytes went to `op`. Returns whether they are its first.
    pub fn add(&mut self, op: OpId, len: u64) -> bool {
        self.left = self.left.saturating_sub(len);
        if let Some((_, bytes)) = self.shares.iter_mut().find(|(of, _)| *of == op) {
            *bytes += len;
            return false;
        }
        self.shares.push((op, len));
        true
    }
}

/// Entries that few connections need.
#[derive(Debug, Default)]
struct RareCharges {
    /// By offset, then in order of arrival.
    deferred: BTreeMap<(u64, u64), DeferredCharge>,
    deferred_ever: u64,
    scattered: BTreeMap<u64, ScatteredFrame>,
}

#[derive(Debug, Default)]
pub(super) struct LedgerDirection {
    /// End of the posted bytes, as an offset.
    pub posted: u64,
    /// Posting below this offset neither ends a slice nor reaches a deferred charge.
    limit: u64,
    /// Start of the first slice: earlier frames are shared out.
    begun: u64,
    /// End of the announced bytes.
    pub end: u64,
    /// End of the bytes the receiver has acknowledged.
    pub acked: u64,
    /// The first slice, followed by the later ones.
    slice: Option<FrameSlice>,
    later: VecDeque<FrameSlice>,
    /// The last run, preceded by the earlier ones.
    run: Option<OwnerRun>,
    runs: VecDeque<OwnerRun>,
    remembered: u32,
    rare: Option<Box<RareCharges>>,
}

impl LedgerDirection {
    /// Announces that the next `len` bytes came in `frame`, or in no captured one.
    #[inline]
    pub fn announce(&mut self, frame: Option<Arrival>, len: u64) {
        self.end += len;
        let slice = FrameSlice { end: self.end, frame };
        if self.slice.is_some() {
            self.later.push_back(slice);
        } else {
            self.slice = Some(slice);
            self.set_limit();
        }
    }

    /// Sets the offset at which posting must next stop for a check.
    #[inline]
    fn set_limit(&mut self) {
        let end = self.slice.as_ref().map_or(self.posted, |slice| slice.end);
        let first = self.rare.as_ref().and_then(|rare| rare.deferred.first_key_value());
        self.limit = first.map_or(end, |(&(offset, _), _)| end.min(offset + 1));
    }

    /// Returns how many bytes can be posted before the next check; 0 if none were announced.
    #[inline]
    pub fn room(&self) -> u64 {
        self.limit - self.posted
    }

    /// Returns the frame that carried the next byte, if any.
    #[inline]
    pub fn arrival(&self) -> Option<&Arrival> {
        self.slice.as_ref()?.frame.as_ref()
    }

    /// Returns whether all announced bytes are posted, and no charge or frame waits for more.
    pub fn is_idle(&self) -> bool {
        self.slice.is_none()
            && self.rare.as_ref().is_none_or(|rare| rare.deferred.is_empty() && rare.scattered.is_empty())
    }

    /// Gives the next `len` bytes to `count` closed operations of a row. Nothing else may be announced.
    pub fn repeat(&mut self, len: u64, row: RowId, count: u64) {
        let count = count.min(ClosedOperations::MOST.into()) as u32;
        let start = self.posted;
        self.posted += len;
        (self.end, self.begun, self.limit) = (self.posted, self.posted, self.posted);
        if let Some(last) = &mut self.run
            && let Some(before) = ClosedOperations::from_id(last.op).filter(|before| before.row == row)
        {
            // As owners, they are interchangeable.
            let closed = ClosedOperations { row, count: (before.count + count).min(ClosedOperations::MOST) };
            self.remembered += closed.count - before.count;
            last.op = closed.op();
            return;
        }
        let closed = ClosedOperations { row, count };
        self.push_run(OwnerRun { start, op: closed.op() }, closed.count);
    }

    /// Replaces row ids after the tally renumbered its rows.
    pub fn renumber(&mut self, number: &impl Fn(RowId) -> RowId) {
        for run in self.runs.iter_mut().chain(&mut self.run) {
            run.op = ClosedOperations::renumbered(run.op, number);
        }
    }

    /// Starts a run that counts as `count` operations.
    #[inline]
    fn push_run(&mut self, run: OwnerRun, count: u32) {
        if let Some(last) = self.run.replace(run) {
            self.runs.push_back(last);
        }
        self.remembered += count;
    }

    /// Assigns the following bytes to `op`. Returns whether that starts a run.
    #[inline]
    pub fn begin_run(&mut self, op: OpId) -> bool {
        let is_new = self.run.is_none_or(|last| last.op != op);
        if is_new {
            self.push_run(OwnerRun { start: self.posted, op }, 1);
        }
        is_new
    }

    /// Returns whether the last posted bytes are of `op`.
    #[inline]
    pub fn is_last_owner(&self, op: OpId) -> bool {
        self.run.is_some_and(|run| run.op == op)
    }

    #[inline]
    pub fn is_at_start(&self) -> bool {
        self.posted == self.begun
    }

    /// Returns the start of the first slice and its frame, if all of it is posted.
    #[inline]
    pub fn posted_slice(&self) -> Option<(u64, &Option<Arrival>)> {
        let slice = self.slice.as_ref().filter(|slice| slice.end == self.posted)?;
        Some((self.begun, &slice.frame))
    }

    /// Moves on to the next slice, once the first one is posted.
    #[inline]
    pub fn next_slice(&mut self) {
        self.begun = self.posted;
        self.slice = self.later.pop_front();
        self.set_limit();
    }

    /// Returns whether the last run owns all bytes from `start` on.
    #[inline]
    pub fn is_last_run(&self, start: u64) -> bool {
        self.run.is_some_and(|run| run.start <= start)
    }

    /// Puts the owners of the posted bytes from `start` on into `shares`, each once, in order of opening.
    pub fn owners(&self, start: u64, shares: &mut Vec<FrameShare>) {
        shares.clear();
        let first = self.runs.partition_point(|run| run.start <= start).saturating_sub(1);
        let mut runs = self.runs.range(first..).chain(&self.run).peekable();
        while let Some(run) = runs.next() {
            let end = runs.peek().map_or(self.posted, |next| next.start);
            let from = run.start.max(start);
            if from < end {
                shares.push(FrameShare::new(run.op, end - from));
            }
        }
        if !shares.is_sorted_by(|before, after| before.op < after.op) {
            shares.sort_by_key(|share| share.op);
            shares.dedup_by(|share, before| {
                let is_same = share.op == before.op;
                if is_same {
                    (before.bytes, before.runs) = (before.bytes + share.bytes, before.runs + share.runs);
                }
                is_same
            });
        }
    }

    /// Returns the entry for a frame with bytes in several places.
    pub fn scattered(&mut self, frame: &Arrival) -> &mut ScatteredFrame {
        let fresh = || ScatteredFrame { headers: frame.headers, left: frame.len, shares: Vec::new() };
        self.rare.get_or_insert_default().scattered.entry(frame.number).or_insert_with(fresh)
    }

    /// Removes and returns such a frame once all of it is posted.
    pub fn take_scattered(&mut self, number: u64) -> Option<ScatteredFrame> {
        let scattered = &mut self.rare.as_mut()?.scattered;
        if scattered.get(&number)?.left > 0 { None } else { scattered.remove(&number) }
    }

    /// Returns the operation that owns the byte at `offset`, or the nearest one remembered.
    pub fn owner(&self, offset: u64) -> Option<OpId> {
        let earlier = || self.runs.get(self.runs.partition_point(|run| run.start <= offset).saturating_sub(1)).copied();
        let run = self.run.filter(|run| run.start <= offset).or_else(earlier).or(self.run);
        run.map(|run| run.op)
    }

    /// Drops one run that nothing can refer to any more, and returns its operation.
    #[inline]
    pub fn forget_run(&mut self) -> Option<OpId> {
        if self.remembered as usize <= limits::OWNERS_AFTER_ACK {
            return None;
        }
        let oldest = self.runs.front()?.op;
        let end = self.runs.get(1).or(self.run.as_ref())?.start;
        let count = ClosedOperations::from_id(oldest).map_or(1, |closed| closed.count);
        let others = (self.remembered - count) as usize;
        let is_spent = end <= self.acked && others >= limits::OWNERS_AFTER_ACK;
        if (is_spent || others >= limits::OWNERS) && end <= self.begun {
            self.remembered -= count;
            self.runs.pop_front().map(|run| run.op)
        } else {
            None
        }
    }

    /// Returns the approximate memory held, in bytes, excluding its own size.
    #[inline]
    pub fn held(&self) -> usize {
        let rare = self.rare.as_ref().map_or(0, |rare| {
            let in_shares: usize = rare.scattered.values().map(|frame| frame.shares.capacity()).sum();
            size_of::<RareCharges>()
                + rare.deferred.len() * 2 * size_of::<DeferredCharge>()
                + rare.scattered.len() * 2 * size_of::<ScatteredFrame>()
                + in_shares * size_of::<(OpId, u64)>()
        });
        self.runs.capacity() * size_of::<OwnerRun>() + self.later.capacity() * size_of::<FrameSlice>() + rare
    }

    pub fn shrink(&mut self) {
        self.runs.shrink_to_fit();
        self.later.shrink_to_fit();
        self.rare.take_if(|rare| rare.deferred.is_empty() && rare.scattered.is_empty());
    }

    /// Keeps a charge until its byte has an owner. Returns false if too many are kept.
    pub fn defer(&mut self, deferred: DeferredCharge) -> bool {
        let rare = self.rare.get_or_insert_default();
        if rare.deferred.len() >= limits::DEFERRED {
            return false;
        }
        rare.deferred_ever += 1;
        rare.deferred.insert((deferred.offset, rare.deferred_ever), deferred);
        self.set_limit();
        true
    }

    /// Returns whether it has had deferred charges or scattered frames since it was last shrunk.
    #[inline]
    pub fn is_special(&self) -> bool {
        self.rare.is_some()
    }

    /// Removes and returns a deferred charge whose byte now has an owner.
    #[inline(never)]
    pub fn next_due(&mut self) -> Option<DeferredCharge> {
        let deferred = &mut self.rare.as_mut()?.deferred;
        let due = deferred.first_entry().filter(|first| first.key().0 < self.posted).map(OccupiedEntry::remove)?;
        self.set_limit();
        Some(due)
    }

    pub fn take_deferred(&mut self) -> impl Iterator<Item = DeferredCharge> + use<> {
        let deferred = self.rare.as_mut().map(|rare| std::mem::take(&mut rare.deferred));
        self.set_limit();
        deferred.unwrap_or_default().into_values()
    }

    pub fn swap_deferred(&mut self) {
        for deferred in self.rare.iter_mut().flat_map(|rare| rare.deferred.values_mut()) {
            deferred.side = deferred.side.other();
        }
    }
}
