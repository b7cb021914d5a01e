//! One direction in the books: which frame each byte came in, and which operation it went to.

use crate::limits;
use crate::packet::Headers;
use overhead_decode::OpId;
use overhead_model::{Account, Side};
use std::collections::btree_map::OccupiedEntry;
use std::collections::{BTreeMap, VecDeque};

/// A frame whose payload has not all been posted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameId(u32);

/// A run of bytes that came in one frame, or in none.
#[derive(Clone, Copy, Debug)]
struct Slice {
    end: u64,
    frame: Option<FrameId>,
}

#[derive(Clone, Debug, Default)]
struct PendingFrame {
    /// Its number in the capture; of fragments, the last one's.
    number: u64,
    /// Frames that it stands for: 1, or the number of fragments.
    frames: u32,
    time_ns: u64,
    headers: Headers,
    /// New payload bytes that are not posted yet.
    left: u64,
    /// Payload bytes by operation, in stream order.
    shares: Vec<(OpId, u64)>,
}

impl PendingFrame {
    /// Notes that `len` payload bytes went to `op`; true where they are the first of it.
    fn share(&mut self, op: OpId, len: u64) -> bool {
        if let Some((of, bytes)) = self.shares.last_mut()
            && *of == op
        {
            *bytes += len;
            return false;
        }
        // Operations of one frame hardly ever alternate; looking further back would make long pipelines quadratic.
        if let Some((_, bytes)) = self.shares.iter_mut().rev().take(8).find(|(of, _)| *of == op) {
            *bytes += len;
            return false;
        }
        self.shares.push((op, len));
        true
    }
}

/// A run of bytes that went to one operation.
#[derive(Clone, Copy, Debug)]
struct Owned {
    end: u64,
    op: OpId,
}

/// A frame to be charged to the owner of a byte that is not decoded yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Deferred {
    /// Offset of that byte in this direction.
    pub offset: u64,
    /// Direction in which the frame itself went.
    pub side: Side,
    pub account: Account,
    /// Number of the frame in the capture.
    pub frame: u64,
    pub bytes: u64,
}

/// A posted run of bytes within one slice.
pub(super) struct Piece {
    pub len: u64,
    pub frame: Option<FrameId>,
    /// The frame's number in the capture, how many it stands for, and its time; 0 without a frame.
    pub number: u64,
    pub frames: u32,
    pub time_ns: u64,
    /// The frame's payload is all posted.
    pub frame_done: bool,
}

/// The operation that got the last bytes, as long as more of the same frame may go to it. Such bytes are only added up
/// here; the frame and the run of bytes learn of them by [`Stream::sync`].
#[derive(Clone, Copy, Debug, Default)]
struct Hot {
    op: OpId,
    /// Where the operation is among the open ones.
    open: u32,
    /// Bytes left in the slice; 0 where there is no such operation.
    left: u64,
    /// Bytes added up.
    run: u64,
    /// The frame's number.
    number: u64,
}

/// The frame at hand while its payload goes to one operation, or to several one after the other in order of their opening,
/// which is the rule: it is not in the tables then. Where that turns out otherwise it is put there, by [`Stream::spill`].
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Now {
    pub origin: (u64, u32),
    pub time_ns: u64,
    pub headers: Headers,
    /// Of its new payload, what is not posted yet; 0 where there is no such frame.
    pub left: u64,
    /// The operation that the last of it went to, and where it is among the open ones.
    pub op: Option<(OpId, u32)>,
    /// What was not posted yet when that operation's bytes began.
    from: u64,
}

/// Payload of the frame at hand that went to one operation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Share {
    pub op: OpId,
    /// Where it is among the open ones.
    pub open: u32,
    pub bytes: u64,
}

#[derive(Debug, Default)]
pub(super) struct Stream {
    /// Offset up to which bytes have been posted.
    pub posted: u64,
    pub now: Now,
    /// Operations that have bytes of it, before the one that has the last.
    pub earlier: Vec<Share>,
    /// Offset up to which bytes have been announced.
    pub end: u64,
    /// Offset up to which the receiver has acknowledged.
    pub acked: u64,
    owners: VecDeque<Owned>,
    /// Charges wait for an owner in the tables; kept here, where every posting looks.
    pub is_deferring: bool,
    /// Absent until something goes into them: most connections do with the frame at hand.
    tables: Option<Box<Tables>>,
}

/// What is not posted yet besides the frame at hand.
#[derive(Debug, Default)]
struct Tables {
    hot: Hot,
    /// By offset, and in order of arrival.
    deferred: BTreeMap<(u64, u64), Deferred>,
    deferred_ever: u64,
    slices: VecDeque<Slice>,
    frames: Vec<PendingFrame>,
    free: Vec<FrameId>,
}

impl Tables {
    fn add_frame(&mut self, (number, frames): (u64, u32), time_ns: u64, headers: Headers, left: u64) -> FrameId {
        let id = self.free.pop().unwrap_or_else(|| {
            self.frames.push(PendingFrame::default());
            FrameId(self.frames.len() as u32 - 1)
        });
        if let Some(frame) = self.frame(id) {
            (frame.number, frame.frames) = (number, frames);
            frame.time_ns = time_ns;
            frame.headers = headers;
            frame.left = left;
        }
        id
    }

    fn frame(&mut self, id: FrameId) -> Option<&mut PendingFrame> {
        self.frames.get_mut(id.0 as usize)
    }

    /// Returns how many bytes of memory they take, roughly.
    fn held(&self) -> usize {
        size_of::<Self>()
            + self.deferred.len() * 2 * size_of::<Deferred>()
            + self.slices.capacity() * size_of::<Slice>()
            + self.frames.capacity() * 2 * size_of::<PendingFrame>()
    }

    /// Nothing is in them.
    fn is_empty(&self) -> bool {
        self.slices.is_empty() && self.deferred.is_empty() && self.free.len() == self.frames.len()
    }
}

impl Stream {
    pub fn add_frame(&mut self, origin: (u64, u32), time_ns: u64, headers: Headers, left: u64) -> FrameId {
        self.tables().add_frame(origin, time_ns, headers, left)
    }

    fn tables(&mut self) -> &mut Tables {
        self.tables.get_or_insert_default()
    }

    fn pending(&mut self, frame: FrameId) -> Option<&mut PendingFrame> {
        self.tables.as_mut()?.frame(frame)
    }

    /// The next `len` bytes are the new payload of this frame. False where other bytes are before them.
    #[inline]
    pub fn set_now(&mut self, origin: (u64, u32), time_ns: u64, headers: Headers, len: u64) -> bool {
        let alone = self.now.left == 0 && self.tables.as_ref().is_none_or(|tables| tables.slices.is_empty());
        if alone {
            self.end += len;
            self.now = Now { origin, time_ns, headers, left: len, op: None, from: len };
        }
        alone
    }

    /// All that is left of the frame at hand is expected to go to `op`; true where that begins a new run.
    #[inline]
    pub fn take_now(&mut self, op: OpId, open: u32) -> bool {
        let now = &mut self.now;
        let before = now.op.replace((op, open));
        if let Some((before, open)) = before {
            self.earlier.push(Share { op: before, open, bytes: now.from - now.left });
        }
        now.from = now.left;
        let end = self.posted + now.left;
        match self.owners.back_mut() {
            Some(last) if last.op == op => {
                last.end = end;
                return false;
            }
            Some(last) if before.is_some() => last.end = self.posted,
            _ => {}
        }
        self.owners.push_back(Owned { end, op });
        true
    }

    /// The frame at hand is all posted: the operation that has its last bytes; and in `earlier` all that have any, where that
    /// is more than one.
    #[inline]
    pub fn end_now(&mut self) -> Option<(OpId, u32)> {
        let (op, open) = self.now.op.take()?;
        if !self.earlier.is_empty() {
            self.earlier.push(Share { op, open, bytes: self.now.from });
        }
        Some((op, open))
    }

    /// Puts the frame at hand into the tables.
    pub fn spill(&mut self) {
        let Now { origin, time_ns, headers, left, op, from } = std::mem::take(&mut self.now);
        if left == 0 {
            return;
        }
        let tables = self.tables.get_or_insert_default();
        let id = tables.add_frame(origin, time_ns, headers, left);
        if let (Some((op, _)), Some(frame)) = (op, tables.frame(id)) {
            frame.shares.extend(self.earlier.drain(..).map(|share| (share.op, share.bytes)));
            frame.shares.push((op, from - left));
            if let Some(last) = self.owners.back_mut() {
                last.end = self.posted;
            }
        }
        tables.slices.push_back(Slice { end: self.end, frame: Some(id) });
    }

    pub fn add_slice(&mut self, frame: Option<FrameId>, len: u64) {
        self.spill();
        self.end += len;
        let end = self.end;
        let slices = &mut self.tables().slices;
        match slices.back_mut() {
            Some(last) if last.frame == frame => last.end = end,
            _ => slices.push_back(Slice { end, frame }),
        }
    }

    /// Moves `len` bytes on where they go where the last ones went, and something of their frame is left then: where the
    /// operation is among the open ones, and the number of the frame.
    #[inline]
    pub fn advance_same(&mut self, op: OpId, len: u64) -> Option<(u32, u64)> {
        let hot = &mut self.tables.as_mut()?.hot;
        if hot.op != op || len >= hot.left {
            return None;
        }
        hot.left -= len;
        hot.run += len;
        self.posted += len;
        Some((hot.open, hot.number))
    }

    /// Further bytes of `frame`, if it goes on, may go to `op`, which is open at `open`, without further ado.
    pub fn heat(&mut self, op: OpId, open: u32, (frame, number): (FrameId, u64)) {
        let Some(tables) = &mut self.tables else { return };
        let Some(slice) = tables.slices.front().filter(|slice| slice.frame == Some(frame)) else { return };
        // What is deferred must be looked at after every posting.
        if !self.is_deferring {
            tables.hot = Hot { op, open, left: slice.end - self.posted, run: 0, number };
        }
    }

    /// Books what was added up since.
    pub fn sync(&mut self) {
        let Some(tables) = &mut self.tables else { return };
        let Hot { op, run, .. } = std::mem::take(&mut tables.hot);
        if run == 0 {
            return;
        }
        let frame = tables.slices.front().and_then(|slice| slice.frame);
        if let Some(frame) = frame.and_then(|frame| tables.frame(frame)) {
            frame.share(op, run);
            frame.left = frame.left.saturating_sub(run);
        }
        if let Some(last) = self.owners.back_mut() {
            last.end = self.posted;
        }
    }

    /// Moves `len` bytes on where they are all of one frame.
    pub fn advance_within(&mut self, len: u64) -> Option<Piece> {
        let slice = self.tables.as_ref()?.slices.front()?;
        if slice.frame.is_none() || slice.end - self.posted < len { None } else { self.advance(len) }
    }

    /// Moves up to `len` bytes on, at most to the end of the slice; `None` where nothing was announced.
    pub fn advance(&mut self, len: u64) -> Option<Piece> {
        let tables = self.tables.as_mut()?;
        let slice = *tables.slices.front()?;
        let taken = len.min(slice.end - self.posted);
        self.posted += taken;
        if self.posted == slice.end {
            tables.slices.pop_front();
        }
        let (mut number, mut frames, mut time_ns, mut frame_done) = (0, 0, 0, false);
        if let Some(frame) = slice.frame.and_then(|id| tables.frame(id)) {
            frame.left = frame.left.saturating_sub(taken);
            (number, frames, time_ns) = (frame.number, frame.frames, frame.time_ns);
            frame_done = frame.left == 0;
        }
        Some(Piece { len: taken, frame: slice.frame, number, frames, time_ns, frame_done })
    }

    /// Notes that `len` payload bytes of `frame` went to `op`; true where they are the first of it. Bytes outside the
    /// stream (strays) are taken off what is left here; others by [`Stream::advance`].
    pub fn share(&mut self, frame: FrameId, op: OpId, len: u64) -> bool {
        self.pending(frame).is_some_and(|frame| frame.share(op, len))
    }

    /// The number in the capture of a pending frame, and how many frames it stands for.
    pub fn origin(&self, frame: FrameId) -> (u64, u32) {
        let tables = self.tables.as_ref();
        let frame = tables.and_then(|tables| tables.frames.get(frame.0 as usize));
        frame.map_or((0, 0), |frame| (frame.number, frame.frames))
    }

    /// Takes `len` bytes that are not part of the stream off what `frame` still waits for.
    pub fn strayed(&mut self, frame: FrameId, len: u64) {
        if let Some(frame) = self.pending(frame) {
            frame.left = frame.left.saturating_sub(len);
        }
    }

    /// Where all of a frame's payload is posted: its headers and its number, and in `shares` who had how much. The frame
    /// is forgotten.
    pub fn take_if_posted(&mut self, id: FrameId, shares: &mut Vec<(OpId, u64)>) -> Option<(Headers, u64)> {
        let tables = self.tables.as_mut()?;
        let frame = tables.frame(id)?;
        if frame.left > 0 {
            return None;
        }
        shares.clear();
        shares.append(&mut frame.shares);
        let found = (frame.headers, frame.number);
        tables.free.push(id);
        Some(found)
    }

    /// Notes that the bytes up to the current offset went to `op`; true where that began a new run.
    pub fn own(&mut self, op: OpId) -> bool {
        match self.owners.back_mut() {
            Some(last) if last.op == op => {
                last.end = self.posted;
                false
            }
            _ => {
                self.owners.push_back(Owned { end: self.posted, op });
                true
            }
        }
    }

    /// The operation that owns the byte at `offset`, or the oldest one remembered.
    pub fn owner(&self, offset: u64) -> Option<OpId> {
        let index = self.owners.partition_point(|owned| owned.end <= offset);
        self.owners.get(index).or(self.owners.back()).map(|owned| owned.op)
    }

    /// Returns how many bytes of memory it holds, roughly, beyond its own size.
    #[inline]
    pub fn held(&self) -> usize {
        self.owners.capacity() * size_of::<Owned>() + self.tables.as_deref().map_or(0, Tables::held)
    }

    /// Gives back room that nothing is in.
    pub fn shrink(&mut self) {
        self.sync();
        self.earlier.shrink_to_fit();
        self.owners.shrink_to_fit();
        self.tables.take_if(|tables| tables.is_empty());
    }

    /// Drops one remembered owner that is no longer needed.
    pub fn forget_owner(&mut self) -> Option<OpId> {
        let oldest = self.owners.front()?;
        let spent = oldest.end <= self.acked && self.owners.len() > limits::OWNERS_AFTER_ACK;
        if spent || self.owners.len() > limits::OWNERS { self.owners.pop_front().map(|owned| owned.op) } else { None }
    }

    /// Keeps a charge until its byte has an owner; false where too many are kept.
    pub fn defer(&mut self, deferred: Deferred) -> bool {
        if self.tables().deferred.len() >= limits::DEFERRED {
            return false;
        }
        self.sync();
        let tables = self.tables();
        tables.deferred_ever += 1;
        tables.deferred.insert((deferred.offset, tables.deferred_ever), deferred);
        self.is_deferring = true;
        true
    }

    /// A deferred charge whose byte has an owner now.
    pub fn next_due(&mut self) -> Option<Deferred> {
        if !self.is_deferring {
            return None;
        }
        let deferred = &mut self.tables.as_mut()?.deferred;
        let due = deferred.first_entry().filter(|first| first.key().0 < self.posted).map(OccupiedEntry::remove);
        self.is_deferring = !deferred.is_empty();
        due
    }

    /// Takes all deferred charges, by offset.
    pub fn take_deferred(&mut self) -> impl Iterator<Item = Deferred> + use<> {
        self.is_deferring = false;
        let deferred = self.tables.as_mut().map(|tables| std::mem::take(&mut tables.deferred));
        deferred.unwrap_or_default().into_values()
    }

    /// Client and server are exchanged: so are the directions of the frames to be charged.
    pub fn swap_deferred(&mut self) {
        for deferred in self.tables.iter_mut().flat_map(|tables| tables.deferred.values_mut()) {
            deferred.side = deferred.side.other();
        }
    }
}
