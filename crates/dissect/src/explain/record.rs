//! Records the postings of one operation, with their bytes.

use super::stream::{ByteVisibility, DecodedRun, UnpostedStream};
use crate::limits;
use overhead_model::{Account, Amounts, Class, ConnectionSummary, Listener, Operation, Outcome, Side, Tally, Trace};
use std::collections::{BTreeMap, BTreeSet};

/// Everything posted to one operation.
#[derive(Clone, Debug, Default)]
pub struct ExplainedOperation {
    /// Latest class, name and way of sending.
    pub label: Option<(Class, String, &'static str)>,
    /// The ledger's operation, once closed.
    pub operation: Option<Operation>,
    /// Postings by side, up to its close.
    pub at_close: [Amounts; 2],
    /// All postings by side, including late acknowledgments and repeats.
    pub amounts: [Amounts; 2],
    pub connection: Option<ConnectionSummary>,
    pub parts: Vec<FramePart>,
    /// Bytes other than new payload, by frame: headers, control, repeats.
    pub charges: BTreeMap<u64, (Side, Amounts)>,
    /// The share of `amounts` beyond the limits, in neither `parts` nor `charges`.
    pub unlisted: [Amounts; 2],
}

/// The operation's payload in one frame, and the bytes in between.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FramePart {
    /// `None` for bytes in no captured frame.
    pub frame: Option<u64>,
    pub side: Side,
    pub items: Vec<FrameItem>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FrameItem {
    /// Number of bytes of other operations.
    Others(u64),
    /// A field of this operation, or a piece of one.
    Piece(FieldPiece),
}

/// Adjacent bytes of one field in one frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldPiece {
    /// Group and field names, joined by dots.
    pub path: String,
    pub account: Account,
    /// Offset of the first byte in the direction's stream, counted from the first captured byte.
    pub offset: u64,
    /// Length of the whole field in bytes.
    pub field_len: u64,
    /// Bytes of the field before this piece.
    pub field_at: u64,
    pub len: u64,
    pub seen: ByteVisibility,
    /// The bytes, if known.
    pub bytes: Vec<u8>,
}

/// A frame of the operation, for a dump.
#[derive(Clone, Copy, Debug)]
pub struct FrameView<'a> {
    /// `None` for bytes in no captured frame.
    pub frame: Option<u64>,
    pub side: Side,
    /// The operation's non-payload bytes; zero if the frame was shown before.
    pub charges: Amounts,
    pub items: &'a [FrameItem],
}

impl ExplainedOperation {
    /// Returns whether the recorded amounts match the ledger.
    pub fn is_balanced(&self) -> bool {
        self.operation.is_some_and(|operation| operation.sides.map(|side| side.amounts) == self.at_close)
    }

    /// Returns how the operation ended; `None` if it never closed.
    pub fn outcome(&self) -> Option<Outcome> {
        self.operation.map(|operation| operation.outcome)
    }

    pub fn frames(&self) -> BTreeSet<u64> {
        self.parts.iter().filter_map(|part| part.frame).chain(self.charges.keys().copied()).collect()
    }

    /// Returns how many of its bytes were not captured.
    pub fn missing(&self) -> u64 {
        let missing = |item: &FrameItem| match item {
            FrameItem::Piece(piece) if matches!(piece.seen, ByteVisibility::Snapped | ByteVisibility::Gap) => piece.len,
            _ => 0,
        };
        self.parts.iter().flat_map(|part| &part.items).map(missing).sum()
    }

    /// Returns its frames: those with payload in stream order, the others between them by number.
    pub fn views(&self) -> Vec<FrameView<'_>> {
        let with_payload: BTreeSet<u64> = self.parts.iter().filter_map(|part| part.frame).collect();
        let bare = self.charges.iter().filter(|(frame, _)| !with_payload.contains(frame));
        let mut bare = bare
            .map(|(&frame, &(side, charges))| FrameView { frame: Some(frame), side, charges, items: &[] })
            .peekable();
        let mut shown = BTreeSet::new();
        let mut views = Vec::with_capacity(self.parts.len() + self.charges.len());
        for part in &self.parts {
            while let Some(view) = bare.next_if(|view| part.frame.is_some() && view.frame < part.frame) {
                views.push(view);
            }
            let first = part.frame.filter(|&frame| shown.insert(frame));
            let charges =
                first.and_then(|frame| self.charges.get(&frame)).map_or(Amounts::ZERO, |&(_, charges)| charges);
            views.push(FrameView { frame: part.frame, side: part.side, charges, items: &part.items });
        }
        views.extend(bare);
        views
    }
}

#[derive(Debug, Default)]
pub struct OperationRecorder {
    connection: u64,
    op: Option<u64>,
    /// Whether current steps concern the operation's connection.
    here: bool,
    /// Whether the recording is complete.
    pub done: bool,
    sides: [RecordedDirection; 2],
    stray: Vec<u8>,
    kept: u64,
    pieces: usize,
    pub explained: ExplainedOperation,
}

#[derive(Debug, Default)]
struct RecordedDirection {
    stream: UnpostedStream,
    groups: Vec<&'static str>,
    field: &'static str,
    field_len: u64,
    field_at: u64,
    /// The last frame with another operation's payload ahead of this one's, and the number of those bytes.
    before: (u64, u64),
    part: Option<usize>,
}

/// Fields of [`Trace::Posted`].
#[derive(Clone, Copy)]
struct PostedBytes {
    side: Side,
    account: Account,
    frame: Option<u64>,
    len: u64,
}

impl OperationRecorder {
    /// Returns a recorder for operation `op` of a connection, as found by [`super::Finder`].
    pub fn new(connection: u64, op: Option<u64>) -> Self {
        Self { connection, op, ..Self::default() }
    }

    /// Handles a posting to this or another operation.
    fn posted(&mut self, op: Option<u64>, posted: PostedBytes, in_order: bool) {
        let mine = op == self.op;
        let direction = &mut self.sides[posted.side as usize];
        if !in_order {
            let bytes = std::mem::take(&mut self.stray);
            if mine {
                self.stray_piece(posted, bytes);
            }
            return;
        }
        let at = direction.field_at;
        direction.field_at += posted.len;
        if !mine {
            direction.stream.take(posted.len, |_, _| {});
            return self.others(posted);
        }
        let mut runs = Vec::new();
        direction.stream.take(posted.len, |offset, run| runs.push((offset, run)));
        let path = direction.groups.iter().chain([&direction.field]).copied().collect::<Vec<_>>().join(".");
        let field_len = direction.field_len;
        self.add(posted, &path, (field_len, at), runs);
    }

    /// Adds bytes of a field of `field_len` bytes, from `at` on.
    fn add(&mut self, of: PostedBytes, path: &str, (field_len, mut at): (u64, u64), runs: Vec<(u64, DecodedRun)>) {
        self.account(of);
        for (offset, run) in runs {
            let (path, account, len, seen) = (path.to_owned(), of.account, run.len, run.seen);
            let piece = FieldPiece { path, account, offset, field_len, field_at: at, len, seen, bytes: Vec::new() };
            self.keep(of, piece, run);
            at += len;
        }
    }

    fn account(&mut self, posted: PostedBytes) {
        if posted.frame.is_some() {
            self.explained.amounts[posted.side as usize][posted.account] += posted.len;
        }
    }

    fn stray_piece(&mut self, posted: PostedBytes, bytes: Vec<u8>) {
        let len = bytes.len() as u64;
        let captured = DecodedRun { seen: ByteVisibility::Captured, len, bytes };
        let rest = posted.len.saturating_sub(len);
        let snapped = DecodedRun { seen: ByteVisibility::Snapped, len: rest, bytes: Vec::new() };
        self.add(posted, "outside the stream", (posted.len, 0), vec![(0, captured), (len, snapped)]);
    }

    /// Adds a piece to its frame's part.
    fn keep(&mut self, posted: PostedBytes, mut piece: FieldPiece, run: DecodedRun) {
        if run.len == 0 {
            return;
        }
        if self.pieces >= limits::EXPLAINED_FIELDS {
            if posted.frame.is_some() {
                self.explained.unlisted[posted.side as usize][posted.account] += run.len;
            }
            return;
        }
        self.pieces += 1;
        self.kept += run.bytes.len() as u64;
        if posted.frame.is_none() {
            piece.seen = ByteVisibility::Gap;
        } else if run.seen.is_at_hand() && self.kept > limits::EXPLAINED_BYTES {
            piece.seen = ByteVisibility::NotKept;
        } else {
            piece.bytes = run.bytes;
        }
        let part = self.part(posted.side, posted.frame);
        part.items.push(FrameItem::Piece(piece));
    }

    fn part(&mut self, side: Side, frame: Option<u64>) -> &mut FramePart {
        let direction = &mut self.sides[side as usize];
        let parts = &mut self.explained.parts;
        let current = direction.part.filter(|&at| parts.get(at).is_some_and(|part| part.frame == frame));
        let at = current.unwrap_or_else(|| {
            let (before, others) = std::mem::take(&mut direction.before);
            let ahead = (Some(before) == frame && others > 0).then_some(FrameItem::Others(others));
            parts.push(FramePart { frame, side, items: ahead.into_iter().collect() });
            parts.len() - 1
        });
        direction.part = Some(at);
        &mut parts[at]
    }

    /// Handles payload of another operation.
    fn others(&mut self, posted: PostedBytes) {
        let Some(frame) = posted.frame else { return };
        let direction = &mut self.sides[posted.side as usize];
        let part = direction.part.and_then(|at| self.explained.parts.get_mut(at));
        match part.filter(|part| part.frame == Some(frame)) {
            Some(part) => match part.items.last_mut() {
                Some(FrameItem::Others(len)) => *len += posted.len,
                _ => part.items.push(FrameItem::Others(posted.len)),
            },
            None if direction.before.0 == frame => direction.before.1 += posted.len,
            None => direction.before = (frame, posted.len),
        }
    }

    fn charged(&mut self, side: Side, account: Account, frame: u64, bytes: u64) {
        let explained = &mut self.explained;
        explained.amounts[side as usize][account] += bytes;
        if explained.charges.len() < limits::EXPLAINED_FRAMES || explained.charges.contains_key(&frame) {
            explained.charges.entry(frame).or_insert((side, Amounts::ZERO)).1[account] += bytes;
        } else {
            explained.unlisted[side as usize][account] += bytes;
        }
    }

    /// Swaps the amounts charged to the connection before its sides were known.
    fn swap(&mut self) {
        if self.op.is_none() {
            self.explained.amounts.swap(0, 1);
            self.explained.unlisted.swap(0, 1);
            self.explained.charges.values_mut().for_each(|(side, _)| *side = side.other());
        }
    }

    fn step(&mut self, step: Trace<'_>) {
        match step {
            Trace::Swapped => self.swap(),
            Trace::Bytes { side, bytes, opaque } => self.sides[side as usize].stream.push(bytes, opaque),
            Trace::Decrypted { side, ahead, bytes } => self.sides[side as usize].stream.decrypt(ahead, bytes),
            Trace::Stray { bytes } => self.stray = bytes.to_vec(),
            Trace::Enter { side, group } => self.sides[side as usize].groups.push(group),
            Trace::Leave { side } => _ = self.sides[side as usize].groups.pop(),
            Trace::Field { side, field, len } => {
                let direction = &mut self.sides[side as usize];
                (direction.field, direction.field_len, direction.field_at) = (field, len, 0);
            }
            Trace::Posted { side, op, account, frame, len, in_order } => {
                self.posted(op, PostedBytes { side, account, frame, len }, in_order);
            }
            Trace::Charged { side, op, account, frame, bytes } if op == self.op => {
                self.charged(side, account, frame, bytes);
            }
            Trace::Labelled { op, class, name, via, .. } if op == self.op => {
                self.explained.label = Some((class, name.to_owned(), via));
            }
            Trace::Closed { op, operation } if op == self.op => {
                self.explained.operation = Some(*operation);
                self.explained.at_close = self.explained.amounts;
            }
            _ => {}
        }
    }
}

impl Tally for OperationRecorder {
    fn connection(&mut self, summary: ConnectionSummary) {
        if self.here {
            self.explained.connection = Some(summary);
            self.done = true;
        }
    }

    fn listener(&mut self) -> Option<&mut dyn Listener> {
        Some(self)
    }
}

impl Listener for OperationRecorder {
    fn hear(&mut self, step: Trace<'_>) {
        match step {
            Trace::Frame(facts) => self.here = facts.connection == self.connection,
            Trace::Ending { connection } => self.here = connection == self.connection,
            step if self.here => self.step(step),
            _ => {}
        }
    }
}
