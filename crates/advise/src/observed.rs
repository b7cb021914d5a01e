//! What was read so far of open connections and operations.

use crate::assembly::FieldAssembly;
use crate::finding::Example;
use crate::limits;
use crate::seen::{FieldSum, RowOnConnection, SeenDirection, SeenFieldKey, SeenPiece};
use overhead_model::{FrameFacts, Operation, Protocol, Side};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::hash::{DefaultHasher, Hash};
use std::net::SocketAddr;

#[derive(Default)]
pub struct ObservedConnection {
    pub protocol: Option<Protocol>,
    pub sides: [FieldAssembly; 2],
    pub open: HashMap<Option<u64>, Box<ObservedOperation>>,
    /// With payload, the latest last.
    pub frames: VecDeque<FrameNote>,
    /// The end that sent the first frame.
    pub first_end: Option<SocketAddr>,
    pub first_ns: Option<u64>,
    /// Time of the last frame with payload, and of the last one without since.
    pub payload_ns: Option<u64>,
    pub bare_ns: Option<u64>,
    pub ready_ns: Option<u64>,
    pub latest: Option<u64>,
    pub closed: Option<(usize, Example)>,
    pub example: Option<Example>,
    pub rows: BTreeMap<usize, RowOnConnection>,
    /// The shortest latency of an operation, an upper limit of the network's round trip.
    pub shortest_ns: Option<u64>,
    /// Operations since the last pause, and the end of the last one.
    pub in_a_row: u64,
    pub ended_ns: Option<u64>,
}

/// Time between an answer and the next request from which a client pauses. A load generator does not.
const PAUSE_NS: u64 = 10_000_000;

/// A frame whose payload may not be posted yet.
#[derive(Clone, Copy)]
pub struct FrameNote {
    pub facts: FrameFacts,
    pub bare_ns: Option<u64>,
    pub since_ns: Option<u64>,
}

#[derive(Default)]
pub struct ObservedOperation {
    pub number: u64,
    pub fields: Vec<(SeenFieldKey, FieldSum)>,
    pub directions: [SeenDirection; 2],
    pub digests: [RequestDigests; 2],
    pub too_long: [bool; 2],
    pub first_frame: Option<u64>,
}

/// Digests of the bytes that identify a request.
#[derive(Default)]
pub struct RequestDigests {
    pub all: DefaultHasher,
    pub text: DefaultHasher,
    pub some: bool,
    pub unknown: bool,
}

impl RequestDigests {
    pub fn add(&mut self, path: u32, is_text: bool, bytes: Option<&[u8]>) {
        let Some(bytes) = bytes else {
            self.unknown = true;
            return;
        };
        self.some = true;
        (path, bytes).hash(&mut self.all);
        if is_text {
            (path, bytes).hash(&mut self.text);
        }
    }
}

impl ObservedConnection {
    /// Returns the index of an end, in order of appearance.
    pub fn end(&mut self, source: SocketAddr) -> usize {
        usize::from(*self.first_end.get_or_insert(source) != source)
    }

    /// Returns the upper limit of the network's share of an operation's latency, and the number of operations since the
    /// client's last pause.
    pub fn pace(&mut self, operation: &Operation, directions: &[SeenDirection; 2]) -> (u64, u64) {
        let begun_ns = directions[0].pieces.first().map(|piece| piece.time_ns);
        let is_next = |ended: u64| begun_ns.is_some_and(|begun| begun.saturating_sub(ended) <= PAUSE_NS);
        self.in_a_row = if self.ended_ns.is_some_and(is_next) { self.in_a_row + 1 } else { 0 };
        self.ended_ns = directions[1].last.map(|piece| piece.time_ns).or(self.ended_ns);
        let Some(latency_ns) = operation.latency_ns else { return (0, self.in_a_row) };
        let shortest_ns = self.shortest_ns.map_or(latency_ns, |shortest| shortest.min(latency_ns));
        self.shortest_ns = Some(shortest_ns);
        (shortest_ns, self.in_a_row)
    }

    /// Returns a frame with payload by its number.
    pub fn note(&self, number: u64) -> Option<FrameNote> {
        let at = self.frames.binary_search_by_key(&number, |note| note.facts.number).ok()?;
        self.frames.get(at).copied()
    }
}

impl ObservedOperation {
    /// Adds bytes of the operation in a frame.
    pub fn add_piece(&mut self, side: Side, frame: u64, len: u64, note: Option<FrameNote>) {
        self.first_frame.get_or_insert(frame);
        let direction = &mut self.directions[side as usize];
        direction.len += len;
        if let Some(last) = direction.last.as_mut().filter(|last| last.frame == frame) {
            last.len += len;
            let place = usize::try_from(direction.count).unwrap_or(usize::MAX).saturating_sub(1);
            if let Some(kept) = direction.pieces.get_mut(place) {
                kept.len += len;
            }
            return;
        }
        let Some(FrameNote { facts, bare_ns, .. }) = note else { return };
        let piece = SeenPiece {
            frame,
            time_ns: facts.time_ns,
            len,
            payload: u64::from(facts.payload_len),
            headers: facts.headers.map(u64::from),
            bare_ns,
        };
        direction.count += 1;
        direction.last = Some(piece);
        if direction.pieces.len() < limits::PIECES {
            direction.pieces.push(piece);
        }
    }

    /// Adds bytes of a field; `ends` marks its last ones.
    pub fn add_field(&mut self, key: SeenFieldKey, len: u64, ends: bool) {
        let at = self.fields.iter().position(|(of, _)| *of == key).unwrap_or_else(|| {
            self.fields.push((key, FieldSum::default()));
            self.fields.len() - 1
        });
        if let Some((_, sum)) = self.fields.get_mut(at) {
            sum.bytes += len;
            sum.times += u64::from(ends);
        }
    }

    /// Appends to the message, or discards it if it is too long or has unknown bytes.
    pub fn append_message(&mut self, side: Side, bytes: Option<&[u8]>) {
        let message = &mut self.directions[side as usize].message;
        let lost = &mut self.too_long[side as usize];
        match bytes {
            Some(bytes) if !*lost && message.len() + bytes.len() <= limits::MESSAGE => message.extend(bytes),
            _ => {
                *lost = true;
                *message = Vec::new();
            }
        }
    }

    pub fn example(&self, else_frame: u64) -> Example {
        Example { operation: self.number, frame: self.first_frame.unwrap_or(else_frame) }
    }
}
