//! Maps fields to bytes of frames during a dissection, and replaces them.
//!
//! A frame's payload is first replaced as a whole, because its meaning is not known yet. When a field is posted, its
//! replacement is written into the frame that carried it first and into all frames that repeated it since; later
//! repetitions are copied from there. So memory holds undecoded messages, and positions of the last decoded frames.

use crate::address::Addresses;
use crate::fill::Filler;
use crate::packed;
use crate::rules::{self, FieldAt, Treatment};
use crate::tls;
use overhead_dissect::explain::{ByteVisibility, ConnectionStates, UnpostedStream};
use overhead_model::{Account, Listener, Protocol, Side, Tally, Trace};
use overhead_protocols::cql::segment_checksum;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ops::Range;

/// Decoded frames of a direction whose positions are remembered.
const REMEMBERED: usize = 1 << 10;

/// Bytes of a segment's payload and their location in the copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Position in the payload.
    pub at: u64,
    /// Offset in the copy.
    pub to: u64,
    /// Captured bytes.
    pub len: u64,
}

/// A change to the copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Edit {
    /// Writes bytes of [`Streams::bytes`].
    Replace { bytes: Range<usize>, to: u64 },
    /// Repeats bytes of the copy.
    Copy { from: u64, to: u64, len: u64 },
}

/// The stream position of a frame's payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placed {
    connection: u64,
    side: Side,
    offset: i64,
}

#[derive(Debug)]
pub struct Streams {
    filler: Filler,
    addresses: Addresses,
    turns: ConnectionStates<CopiedConnection>,
    payload: Vec<Part>,
    /// The changes since the start of the last frame.
    pub edits: Vec<Edit>,
    pub bytes: Vec<u8>,
    scratch: CopyScratch,
    /// The current frame was dissected.
    pub has_heard: bool,
    pub placed: Option<Placed>,
}

#[derive(Debug, Default)]
struct CopyScratch {
    field: Vec<u8>,
    runs: Vec<(u64, Range<usize>)>,
}

#[derive(Debug, Default)]
struct CopiedConnection {
    protocol: Option<Protocol>,
    sides: [StreamDirection; 2],
    /// Names of open operations whose answers depend on them.
    names: HashMap<u64, Box<str>>,
    /// CQL compression was negotiated.
    is_compressed: bool,
}

/// Bytes of a stream and their location in the copy.
#[derive(Clone, Copy, Debug)]
struct FramePlace {
    /// Offset in the stream; negative before the first captured byte.
    start: i64,
    len: i64,
    to: u64,
}

#[derive(Debug, Default)]
struct StreamDirection {
    stream: UnpostedStream,
    /// Places with bytes that are not posted yet, by their offsets in the stream and in the copy.
    places: BTreeMap<(i64, u64), FramePlace>,
    /// Length of the longest place so far.
    longest: i64,
    /// Places whose bytes are all posted.
    remembered: VecDeque<FramePlace>,
    groups: Vec<&'static str>,
    field: &'static str,
    field_len: u64,
    is_taken: bool,
    name: Vec<u8>,
    command: Vec<u8>,
    kind: u8,
    segment: Option<CopiedSegment>,
    /// Fields reported from the compressed bytes that are posted next.
    inner: Vec<(Account, &'static str, u64)>,
    /// Bytes to be posted that are already replaced.
    replaced: u64,
}

#[derive(Debug, Default)]
struct CopiedSegment {
    payload: Vec<u8>,
    is_begun: bool,
    checksum: VecDeque<u8>,
}

impl Streams {
    pub fn new(filler: Filler, addresses: Addresses) -> Self {
        Self {
            filler,
            addresses,
            turns: ConnectionStates::default(),
            payload: Vec::new(),
            edits: Vec::new(),
            bytes: Vec::new(),
            scratch: CopyScratch::default(),
            has_heard: false,
            placed: None,
        }
    }

    /// Starts a frame whose payload is located here.
    pub fn begin(&mut self, payload: impl IntoIterator<Item = Part>) {
        self.edits.clear();
        self.bytes.clear();
        self.payload.clear();
        self.payload.extend(payload);
        (self.has_heard, self.placed) = (false, None);
    }

    /// Adds a second location of a payload.
    pub fn place_again(&mut self, placed: Placed, payload: Vec<Part>) {
        self.payload = payload;
        self.turns.turn(placed.connection, false);
        self.place(placed.side, placed.offset);
    }

    fn place(&mut self, side: Side, offset: i64) {
        self.placed = Some(Placed { connection: self.turns.connection, side, offset });
        let direction = &mut self.turns.kept().sides[side as usize];
        let posted = direction.stream.posted.cast_signed();
        for part in std::mem::take(&mut self.payload) {
            let place = FramePlace { start: offset + part.at.cast_signed(), len: part.len.cast_signed(), to: part.to };
            let end = (place.start + place.len).min(posted);
            let is_late = place.start < posted;
            let known = direction.remembered.iter().filter(|_| is_late).chain(direction.within(place.start, end));
            for before in known {
                let (from, end) = (place.start.max(before.start), end.min(before.start + before.len));
                if from < end {
                    let (to, len) = (place.at(from), (end - from).cast_unsigned());
                    self.edits.push(Edit::Copy { from: before.at(from), to, len });
                }
            }
            if place.start + place.len > posted {
                direction.longest = direction.longest.max(place.len);
                direction.places.insert((place.start, place.to), place);
            }
        }
    }

    /// Replaces the last announced field, which belongs to this account.
    fn posted(&mut self, side: Side, op: Option<u64>, account: Account) {
        let Self { filler, addresses, turns, edits, bytes, scratch, .. } = self;
        let connection = turns.kept();
        let direction = &mut connection.sides[side as usize];
        if std::mem::replace(&mut direction.is_taken, true) {
            return;
        }
        if direction.replaced > 0 {
            direction.replaced = direction.replaced.saturating_sub(direction.field_len);
            return;
        }
        let CopyScratch { field, runs } = scratch;
        field.clear();
        runs.clear();
        let is_start = direction.stream.posted == 0;
        direction.stream.take(direction.field_len, |offset, run| {
            if run.seen == ByteVisibility::Captured {
                let from = field.len();
                field.extend_from_slice(&run.bytes);
                runs.push((offset, from..field.len()));
            }
        });
        let Some(protocol) = connection.protocol else { return };
        connection.is_compressed |= protocol == Protocol::Cql && direction.field == "option" && field == b"COMPRESSION";
        let operation =
            op.and_then(|op| connection.names.get(&op)).map_or(direction.command.as_slice(), |name| name.as_bytes());
        let at = FieldAt {
            protocol,
            account,
            side,
            groups: &direction.groups,
            field: direction.field,
            operation,
            name: &direction.name,
            kind: direction.kind,
            is_compressed: connection.is_compressed,
        };
        let treatment = at.treatment(field);
        direction.notice(field);
        replace(filler, addresses, (treatment, protocol, is_start), field);
        if protocol == Protocol::Cql {
            direction.segment(field);
        }
        for (offset, range) in runs.iter() {
            direction.put(*offset, field.get(range.clone()).unwrap_or_default(), edits, bytes);
        }
        direction.retire();
    }

    /// Replaces the next bytes, the compressed form of the inner fields reported before.
    fn packed(&mut self, side: Side, wire: u64) {
        let Self { filler, addresses, turns, edits, bytes, .. } = self;
        let connection = turns.kept();
        let direction = &mut connection.sides[side as usize];
        let inner = std::mem::take(&mut direction.inner);
        let Some(protocol) = connection.protocol else { return };
        let mut runs = Vec::new();
        direction.stream.take(wire, |offset, run| {
            if run.seen == ByteVisibility::Captured {
                runs.push((offset, run.bytes));
            }
        });
        (direction.field, direction.replaced) = ("compressed", wire);
        let is_whole = runs.len() == 1;
        for (offset, mut run) in runs {
            let anew =
                if is_whole { direction.repack(filler, addresses, (side, protocol, &inner), &run) } else { None };
            match anew {
                Some(anew) => run = anew,
                None => filler.binary(&mut run),
            }
            if protocol == Protocol::Cql {
                direction.segment(&mut run);
            }
            direction.put(offset, &run, edits, bytes);
        }
        direction.retire();
    }
}

fn replace(filler: &Filler, addresses: &Addresses, how: (Treatment, Protocol, bool), bytes: &mut [u8]) {
    let (treatment, protocol, is_start) = how;
    match treatment {
        Treatment::Keep => {}
        Treatment::Data => filler.data(bytes),
        Treatment::Text => filler.text(bytes),
        Treatment::Binary => filler.binary(bytes),
        Treatment::Name => match bytes {
            [b'$', name @ ..] if protocol == Protocol::Mongo => filler.identifier(name),
            name => filler.identifier(name),
        },
        Treatment::Path => filler.name(bytes, |_| false),
        Treatment::Statement => filler.statement(protocol, bytes),
        Treatment::Behind(end) => rules::behind(filler, end, bytes),
        Treatment::Known => rules::known(filler, bytes),
        Treatment::Address => addresses.replace(bytes),
        Treatment::Handshake => tls::handshake(filler, bytes),
        Treatment::Error => rules::error(filler, bytes),
        Treatment::Info => rules::info(filler, bytes),
        Treatment::Proxy => rules::proxy(filler, bytes),
        Treatment::Opaque => rules::opaque(filler, bytes, is_start),
    }
}

impl FramePlace {
    /// Returns the location in the copy of an offset in the stream.
    fn at(&self, offset: i64) -> u64 {
        self.to + (offset - self.start).cast_unsigned()
    }
}

impl StreamDirection {
    /// Remembers fields that give the meaning of later ones.
    fn notice(&mut self, bytes: &[u8]) {
        let place = match self.field {
            "name" | "field name" | "header name" | "option" | "key" | "parameter name" => &mut self.name,
            "command" => &mut self.command,
            "element type" => {
                self.kind = bytes.first().copied().unwrap_or_default();
                return;
            }
            _ => return,
        };
        place.clear();
        place.extend_from_slice(bytes.get(..64).unwrap_or(bytes));
    }

    /// Returns as many bytes that decompress to the same fields with other content, or `None`.
    fn repack(
        &mut self,
        filler: &Filler,
        addresses: &Addresses,
        (side, protocol, inner): (Side, Protocol, &[(Account, &'static str, u64)]),
        wire: &[u8],
    ) -> Option<Vec<u8>> {
        let len = usize::try_from(inner.iter().map(|(_, _, len)| len).sum::<u64>()).ok()?;
        let (packed, mut content) = packed::unpack(wire, len)?;
        let mut plain = Vec::with_capacity(len);
        let mut stays = Vec::with_capacity(len);
        let mut rest = content.as_mut_slice();
        for &(account, field, len) in inner {
            let (bytes, behind) = rest.split_at_mut_checked(usize::try_from(len).ok()?)?;
            rest = behind;
            self.field = field;
            let (groups, operation) = (&self.groups, self.command.as_slice());
            let (name, kind) = (&self.name, self.kind);
            let at = FieldAt { protocol, account, side, groups, field, operation, name, kind, is_compressed: true };
            let treatment = at.treatment(bytes);
            self.notice(bytes);
            stays.resize(stays.len() + bytes.len(), treatment == Treatment::Keep);
            let from = plain.len();
            plain.extend_from_slice(bytes);
            replace(filler, addresses, (treatment, protocol, false), bytes);
            let plain = plain.get_mut(from..).unwrap_or_default();
            if matches!(treatment, Treatment::Name | Treatment::Path | Treatment::Statement) {
                plain.copy_from_slice(bytes);
            } else {
                Filler::plain(plain, bytes);
            }
        }
        self.field = "compressed";
        packed.pack(wire, &content, &plain, &stays)
    }

    /// Takes bytes of a CQL segment and corrects its checksum.
    fn segment(&mut self, bytes: &mut [u8]) {
        match (self.field, &mut self.segment) {
            ("segment header", segment) => {
                let segment = segment.get_or_insert_default();
                if segment.is_begun {
                    *segment = CopiedSegment::default();
                }
            }
            (_, None) => {}
            ("segment checksum", Some(segment)) => {
                if segment.checksum.is_empty() {
                    segment.checksum = segment_checksum(&segment.payload).to_le_bytes().into();
                    segment.is_begun = true;
                }
                for byte in bytes {
                    *byte = segment.checksum.pop_front().unwrap_or(*byte);
                }
            }
            (_, Some(segment)) => {
                segment.is_begun = true;
                segment.payload.extend_from_slice(bytes);
            }
        }
    }

    /// Writes bytes at a stream offset to all their locations.
    fn put(&self, offset: u64, field: &[u8], edits: &mut Vec<Edit>, bytes: &mut Vec<u8>) {
        let (start, end) = (offset.cast_signed(), offset.cast_signed() + field.len().cast_signed() as i64);
        for place in self.within(start, end) {
            let (from, to) = (start.max(place.start), end.min(place.start + place.len));
            if from >= to {
                continue;
            }
            let begin = bytes.len();
            let range = (from - start).cast_unsigned() as usize..(to - start).cast_unsigned() as usize;
            bytes.extend_from_slice(field.get(range).unwrap_or_default());
            edits.push(Edit::Replace { bytes: begin..bytes.len(), to: place.at(from) });
        }
    }

    /// Returns the places that may overlap this range of the stream; none if the range is empty.
    fn within(&self, start: i64, end: i64) -> impl Iterator<Item = &FramePlace> {
        let first = (start.saturating_sub(self.longest), 0);
        self.places.range(first..(end, 0).max(first)).map(|(_, place)| place)
    }

    /// Forgets the oldest decoded frames.
    fn retire(&mut self) {
        let posted = self.stream.posted.cast_signed();
        let begun = self.places.extract_if(..(posted, 0), |_, place| place.start + place.len <= posted);
        self.remembered.extend(begun.map(|(_, place)| place));
        let surplus = self.remembered.len().saturating_sub(REMEMBERED);
        self.remembered.drain(..surplus);
    }
}

impl Tally for Streams {
    fn wants_statements(&self) -> bool {
        false
    }

    fn listener(&mut self) -> Option<&mut dyn Listener> {
        Some(self)
    }
}

impl Listener for Streams {
    fn wants_inner(&self) -> bool {
        true
    }

    fn hear(&mut self, step: Trace<'_>) {
        self.turns.hear(&step);
        match step {
            Trace::Frame(_) => self.has_heard = true,
            Trace::Decoding { protocol } => self.turns.kept().protocol = Some(protocol),
            Trace::Swapped => self.turns.kept().sides.swap(0, 1),
            Trace::Placed { side, offset } => self.place(side, offset),
            Trace::Bytes { side, bytes, opaque } => self.turns.kept().sides[side as usize].stream.push(bytes, opaque),
            Trace::Enter { side, group } => self.turns.kept().sides[side as usize].groups.push(group),
            Trace::Leave { side } => _ = self.turns.kept().sides[side as usize].groups.pop(),
            Trace::Field { side, field, len } => {
                let direction = &mut self.turns.kept().sides[side as usize];
                (direction.field, direction.field_len, direction.is_taken) = (field, len, false);
            }
            Trace::Inner { side, account, field, len } => {
                self.turns.kept().sides[side as usize].inner.push((account, field, len));
            }
            Trace::Packed { side, wire } => self.packed(side, wire),
            Trace::Posted { side, op, account, in_order: true, .. } => self.posted(side, op, account),
            Trace::Labelled { op: Some(op), name, .. } => {
                let connection = self.turns.kept();
                if connection.protocol == Some(Protocol::Resp) {
                    connection.names.insert(op, name.into());
                }
            }
            Trace::Closed { op: Some(op), .. } => _ = self.turns.kept().names.remove(&op),
            _ => {}
        }
    }
}
