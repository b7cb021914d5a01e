//! Copies frames: originals in, copies out.

use crate::address::Addresses;
use crate::fill::{Filler, FillerKey};
use crate::frame;
use crate::piece;
use crate::spool::Spool;
use crate::streams::{Edit, Part, Streams};
use overhead_dissect::packet::{self, Fragment, FragmentKey, Packet, Segment};
use overhead_dissect::{Dissector, Selection};
use overhead_model::{Frame, LinkType};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fs::File;
use std::io::{self, BufReader, Read};

/// Bytes before each frame in the spool: time, length on the wire, interface, captured length, link type.
const HEADER: usize = 22;
/// Packets whose fragments are remembered.
const FRAGMENTED: usize = 256;
/// Segments remembered to recognize second copies.
const SEGMENTS: usize = 4 << 10;

/// Makes a copy of a capture. The working file holds nothing of the original, but is not a valid capture.
#[derive(Debug)]
pub struct Anonymiser {
    filler: Filler,
    addresses: Addresses,
    dissector: Dissector<Streams>,
    spool: Spool,
    fragments: Fragments,
    segments: Segments,
}

#[derive(Debug, Default)]
struct Fragments {
    packets: HashMap<FragmentKey, Fragmented>,
    order: VecDeque<FragmentKey>,
}

#[derive(Debug, Default)]
struct Fragmented {
    /// By position in the packet: offset in the copy, and length.
    parts: BTreeMap<u32, (u64, u32)>,
    /// Length of the packet, once its last fragment was seen.
    len: Option<u32>,
    /// Length of the TCP header.
    header: u32,
}

/// The stream positions of recent segments.
#[derive(Debug, Default)]
struct Segments {
    placed: HashMap<u64, crate::streams::Placed>,
    order: VecDeque<u64>,
}

impl Anonymiser {
    /// Copies the selected connections, and everything else as unknown data. The copy is built in `file`, which must be
    /// empty, readable and writable.
    pub fn new(selection: &Selection, key: FillerKey, file: File) -> Self {
        let filler = Filler::new(key);
        let addresses = Addresses::new(filler, selection.ports.iter().map(|(port, _)| *port).collect());
        let streams = Streams::new(filler, addresses.clone());
        Self {
            filler,
            addresses,
            dissector: Dissector::new(selection.clone(), streams).without_trials(),
            spool: Spool::new(file),
            fragments: Fragments::default(),
            segments: Segments::default(),
        }
    }

    /// Takes the next frame.
    ///
    /// # Errors
    ///
    /// Returns errors of the file.
    pub fn frame(&mut self, frame: &Frame<'_>) -> io::Result<()> {
        let mut bytes = frame.bytes.to_vec();
        let tags = if frame.link == LinkType::UPPER_PDU { piece::tags(&self.filler, frame.bytes) } else { None };
        if let Some((place, tags)) = tags.as_deref().and_then(|tags| Some((bytes.get_mut(..tags.len())?, tags))) {
            place.copy_from_slice(tags);
        }
        let tags = tags.map_or(0, |tags| tags.len());
        let content = bytes.get_mut(tags..).unwrap_or_default();
        let wire_len = (frame.original_len as usize).saturating_sub(tags);
        frame::replace(&self.filler, &self.addresses, frame.link, wire_len, content);
        let at = self.spool.len() + HEADER as u64;
        self.spool.push(&header(frame))?;
        self.spool.push(&bytes)?;
        let (parts, digest) = match packet::parse(frame) {
            Packet::Tcp(segment) => (vec![whole(frame, &segment, at)], Some(self.digest(&segment))),
            Packet::Fragment(fragment) => (self.fragments.add(frame, &fragment, at), None),
            _ if tags > 0 => {
                let (to, len) = (at + tags as u64, (frame.bytes.len() - tags) as u64);
                (vec![Part { at: 0, to, len }], None)
            }
            _ => (Vec::new(), None),
        };
        self.dissector.tally_mut().begin(parts.iter().cloned());
        self.dissector.frame(frame);
        let streams = self.dissector.tally_mut();
        match (digest, streams.placed) {
            (Some(digest), Some(placed)) => self.segments.remember(digest, placed),
            // A second copy of a segment is not dissected.
            (Some(digest), None) if !streams.has_heard => {
                if let Some(placed) = self.segments.placed.get(&digest) {
                    streams.place_again(*placed, parts);
                }
            }
            _ => {}
        }
        apply(&mut self.spool, self.dissector.tally_mut())
    }

    fn digest(&self, segment: &Segment<'_>) -> u64 {
        // A copy may have other addresses.
        let Segment { ip_id, seq, ack, flags, window, payload_len, .. } = segment;
        let text = format!("{ip_id} {seq} {ack} {flags:?} {window} {payload_len}");
        self.filler.number(b'S', text.as_bytes())
    }

    /// Ends all connections and returns the copies of all frames.
    ///
    /// # Errors
    ///
    /// Returns errors of the file.
    pub fn finish(self) -> io::Result<CopiedFrames> {
        let Self { mut dissector, mut spool, .. } = self;
        dissector.tally_mut().begin([]);
        let (mut streams, _) = dissector.finish();
        apply(&mut spool, &mut streams)?;
        Ok(CopiedFrames { file: BufReader::with_capacity(1 << 20, spool.finish()?), bytes: Vec::new() })
    }
}

fn apply(spool: &mut Spool, streams: &mut Streams) -> io::Result<()> {
    let mut repeated = Vec::new();
    for edit in &streams.edits {
        match edit {
            Edit::Replace { bytes, to } => {
                spool.replace(*to, streams.bytes.get(bytes.clone()).unwrap_or_default())?;
            }
            Edit::Copy { from, to, len } => {
                repeated.resize(usize::try_from(*len).unwrap_or(usize::MAX), 0);
                spool.read(*from, &mut repeated)?;
                spool.replace(*to, &repeated)?;
            }
        }
    }
    Ok(())
}

/// Returns the position of `part`, which is a slice of the frame.
fn place_in(frame: &Frame<'_>, part: &[u8]) -> usize {
    (part.as_ptr() as usize).wrapping_sub(frame.bytes.as_ptr() as usize).min(frame.bytes.len())
}

/// Returns the location of a segment's payload in the copy. The copy of the frame starts at `at`.
fn whole(frame: &Frame<'_>, segment: &Segment<'_>, at: u64) -> Part {
    let from = place_in(frame, segment.payload);
    let len = segment.payload.len().min(frame.bytes.len() - from);
    Part { at: 0, to: at + from as u64, len: len as u64 }
}

impl Fragments {
    /// Adds a fragment. Returns the payload's location once the packet is complete.
    fn add(&mut self, frame: &Frame<'_>, fragment: &Fragment<'_>, at: u64) -> Vec<Part> {
        let from = place_in(frame, fragment.bytes);
        let packet = self.packets.entry(fragment.key).or_insert_with(|| {
            self.order.push_back(fragment.key);
            Fragmented::default()
        });
        if fragment.offset == 0 {
            packet.header = fragment.bytes.get(12).map_or(0, |field| u32::from(field >> 4) * 4);
        }
        if !fragment.more {
            packet.len = Some(fragment.offset + fragment.len);
        }
        packet.parts.insert(fragment.offset, (at + from as u64, fragment.len));
        let seen: u32 = packet.parts.values().map(|(_, len)| len).sum();
        let parts = if packet.len == Some(seen) { self.take(fragment.key) } else { Vec::new() };
        while self.order.len() > FRAGMENTED {
            if let Some(oldest) = self.order.pop_front() {
                self.packets.remove(&oldest);
            }
        }
        parts
    }

    fn take(&mut self, key: FragmentKey) -> Vec<Part> {
        let Some(packet) = self.packets.remove(&key) else { return Vec::new() };
        self.order.retain(|of| *of != key);
        let part = |(&offset, &(to, len)): (&u32, &(u64, u32))| {
            let header = packet.header.saturating_sub(offset).min(len);
            let at = u64::from((offset + header).saturating_sub(packet.header));
            Part { at, to: to + u64::from(header), len: u64::from(len - header) }
        };
        packet.parts.iter().map(part).collect()
    }
}

impl Segments {
    fn remember(&mut self, digest: u64, placed: crate::streams::Placed) {
        if self.placed.insert(digest, placed).is_none() {
            self.order.push_back(digest);
        }
        if self.order.len() > SEGMENTS
            && let Some(oldest) = self.order.pop_front()
        {
            self.placed.remove(&oldest);
        }
    }
}

fn header(frame: &Frame<'_>) -> [u8; HEADER] {
    let mut header = [0; HEADER];
    let fields = [
        frame.time_ns.to_le_bytes().as_slice(),
        &frame.original_len.to_le_bytes(),
        &frame.interface.to_le_bytes(),
        &(frame.bytes.len() as u32).to_le_bytes(),
        &frame.link.0.to_le_bytes(),
    ]
    .concat();
    header.copy_from_slice(&fields);
    header
}

/// The frames of a finished copy, in order.
#[derive(Debug)]
pub struct CopiedFrames {
    file: BufReader<File>,
    bytes: Vec<u8>,
}

impl CopiedFrames {
    /// Returns the next frame, or `None` at the end.
    ///
    /// # Errors
    ///
    /// Returns errors of the file.
    pub fn next_frame(&mut self) -> io::Result<Option<Frame<'_>>> {
        let mut header = [0; HEADER];
        match self.file.read_exact(&mut header) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            read => read?,
        }
        let word = |at: usize| {
            header.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |word| u32::from_le_bytes(*word))
        };
        let time_ns = u64::from(word(0)) | u64::from(word(4)) << 32;
        let (original_len, interface, len) = (word(8), word(12), word(16));
        let link = LinkType(u16::from_le_bytes([header[20], header[21]]));
        self.bytes.resize(len as usize, 0);
        self.file.read_exact(&mut self.bytes)?;
        frame::checksums(link, original_len as usize, &mut self.bytes);
        Ok(Some(Frame { time_ns, link, original_len, interface, bytes: &self.bytes }))
    }
}
