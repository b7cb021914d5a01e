//! Detects second copies of a frame.
//!
//! A capture on `any`, or on several interfaces, sees a frame at each interface it passes: both ends of loopback, or a bridge and the
//! port behind it. The same headers at another interface, or with another packet type, mean a copy; at the same place, a
//! retransmission.

use crate::digest::Digest;
use crate::limits;
use crate::packet::{Fragment, FragmentKey, PlainFrame, PlainHeader, Segment, of_plain_header};
use overhead_model::{Frame, LinkType};
use std::net::IpAddr;

const SEGMENT: u64 = 0;
const FRAGMENT: u64 = 1;
const HEADERS: u64 = 2;

/// Where a frame was seen: the capture's interface, and the details in the cooked header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct CopyPlace {
    interface: u32,
    /// Interface index of the capturing host (SLL2).
    index: u32,
    /// Whether the frame was to us, to another host, from us, …
    packet_type: u8,
}

#[derive(Clone, Copy, Debug, Default)]
struct CopySighting {
    place: CopyPlace,
    time_ns: u64,
}

/// A frame remembered while only one place was known. It holds no payload.
#[derive(Clone, Copy, Debug)]
enum EarlyCopy {
    Header(PlainHeader),
    Digest(u64),
}

/// Remembers recent frames.
///
/// While there is only one place, the usual case, nothing is compared and only headers are kept.
#[derive(Debug)]
pub struct Copies {
    /// Digests of everything that routers and bridges leave unchanged, parallel to `sightings`.
    digests: Vec<u64>,
    sightings: Vec<CopySighting>,
    next: usize,
    /// Headers and times of frames, until a second place appears.
    early: Box<[(EarlyCopy, u64); limits::COPIES]>,
    first: Option<CopyPlace>,
    /// The interface of the only place so far, if the interface is all that identifies it.
    only_interface: Option<u32>,
    /// Whether there is more than one place.
    several: bool,
    /// Number of frames until all those remembered by their headers are forgotten.
    by_header: usize,
}

impl Default for Copies {
    fn default() -> Self {
        Self {
            digests: Vec::new(),
            sightings: Vec::new(),
            next: 0,
            early: Box::new([(EarlyCopy::Digest(0), 0); limits::COPIES]),
            first: None,
            only_interface: None,
            several: false,
            by_header: 0,
        }
    }
}

impl Copies {
    /// Returns whether the plain frame was recently seen at another place.
    #[inline(always)]
    pub fn has_plain(&mut self, frame: &Frame<'_>, plain: &PlainFrame<'_>) -> bool {
        if self.only_interface == Some(frame.interface) {
            self.remember_early(|kept| *kept = (EarlyCopy::Header(*plain.header), frame.time_ns));
            return false;
        }
        self.has_plain_elsewhere(frame, *plain)
    }

    /// Takes a copy of `plain`, so that other frames need not keep theirs in memory.
    #[inline(never)]
    fn has_plain_elsewhere(&mut self, frame: &Frame<'_>, plain: PlainFrame<'_>) -> bool {
        // An Ethernet header adds nothing to the place.
        let place = CopyPlace { interface: frame.interface, ..CopyPlace::default() };
        let is_copy = self.has_segment(frame, &plain.segment());
        self.only_interface = (!self.several && self.first == Some(place)).then_some(frame.interface);
        is_copy
    }

    /// Returns whether a segment with other headers was recently seen at another place.
    #[inline(never)]
    pub fn has_segment(&mut self, frame: &Frame<'_>, segment: &Segment<'_>) -> bool {
        self.has(frame, || of_headers(HEADERS, segment).value(), || of_segment(segment))
    }

    /// Returns whether the frame's `fragment` was recently seen at another place.
    pub fn has_fragment(&mut self, frame: &Frame<'_>, fragment: &Fragment<'_>) -> bool {
        self.has(frame, || of_fragment(fragment), || of_fragment(fragment))
    }

    fn has(&mut self, frame: &Frame<'_>, headers: impl FnOnce() -> u64, full: impl FnOnce() -> u64) -> bool {
        let (place, now_ns) = (place(frame), frame.time_ns);
        if self.is_only_place(place) {
            let digest = headers();
            self.remember_early(|kept| *kept = (EarlyCopy::Digest(digest), now_ns));
            return false;
        }
        if !self.several {
            self.expect_copies();
        }
        if self.by_header > 0 && self.seen_elsewhere(headers(), place, now_ns) {
            return true;
        }
        let digest = full();
        if self.seen_elsewhere(digest, place, now_ns) {
            return true;
        }
        self.by_header = self.by_header.saturating_sub(1);
        self.remember(digest, place, now_ns);
        false
    }

    /// Returns whether every frame so far came from this place.
    fn is_only_place(&mut self, place: CopyPlace) -> bool {
        !self.several && *self.first.get_or_insert(place) == place
    }

    /// Overwrites the oldest frame.
    #[inline(always)]
    fn remember_early(&mut self, write: impl FnOnce(&mut (EarlyCopy, u64))) {
        // The remainder avoids a bounds check.
        if let Some(kept) = self.early.get_mut(self.next % limits::COPIES) {
            write(kept);
        }
        self.next = (self.next + 1) % limits::COPIES;
    }

    /// Starts comparing frames: there is a second place.
    #[cold]
    fn expect_copies(&mut self) {
        let place = self.first.unwrap_or_default();
        (self.several, self.only_interface, self.by_header) = (true, None, limits::COPIES);
        for &(frame, time_ns) in self.early.iter() {
            self.digests.push(match frame {
                EarlyCopy::Header(header) => of_headers(HEADERS, &of_plain_header(&header)).value(),
                EarlyCopy::Digest(digest) => digest,
            });
            self.sightings.push(CopySighting { place, time_ns });
        }
    }

    #[inline]
    fn remember(&mut self, digest: u64, place: CopyPlace, time_ns: u64) {
        if let (Some(kept), Some(sighting)) = (self.digests.get_mut(self.next), self.sightings.get_mut(self.next)) {
            (*kept, *sighting) = (digest, CopySighting { place, time_ns });
        }
        self.next = (self.next + 1) % limits::COPIES;
    }

    fn seen_elsewhere(&self, digest: u64, place: CopyPlace, now_ns: u64) -> bool {
        let mut same = self.digests.iter().zip(&self.sightings).filter(|&(&kept, _)| kept == digest);
        same.any(|(_, seen)| seen.place != place && now_ns.abs_diff(seen.time_ns) <= limits::COPY_NS)
    }
}

#[inline]
fn place(frame: &Frame<'_>) -> CopyPlace {
    let Frame { link, interface, bytes, .. } = *frame;
    let (index, packet_type) = match link {
        LinkType::LINUX_SLL => ([0; 4], bytes.get(1)),
        LinkType::LINUX_SLL2 => {
            (bytes.get(4..).and_then(|bytes| bytes.first_chunk()).copied().unwrap_or_default(), bytes.get(10))
        }
        _ => ([0; 4], None),
    };
    CopyPlace { interface, index: u32::from_be_bytes(index), packet_type: packet_type.copied().unwrap_or_default() }
}

fn addresses(digest: &mut Digest, source: IpAddr, destination: IpAddr) {
    match (source, destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            digest.words(u64::from(source.to_bits()), u64::from(destination.to_bits()));
        }
        _ => {
            for address in [source, destination] {
                let bits = match address {
                    IpAddr::V4(address) => u128::from(address.to_bits()),
                    IpAddr::V6(address) => address.to_bits(),
                };
                digest.words((bits >> 64) as u64, bits as u64);
            }
        }
    }
}

/// Leaves out hop limit and checksums, which change on the way or are filled in by the network card.
#[inline]
fn of_headers(kind: u64, segment: &Segment<'_>) -> Digest {
    let mut digest = Digest::new(kind);
    addresses(&mut digest, segment.source.ip(), segment.destination.ip());
    let flags = segment.flags;
    let bits = [flags.syn, flags.ack, flags.fin, flags.rst].iter().fold(0, |bits, &flag| bits << 1 | u64::from(flag));
    digest.words(
        u64::from(segment.source.port()) << 48 | u64::from(segment.destination.port()) << 32 | bits,
        u64::from(segment.seq) << 32 | u64::from(segment.ack),
    );
    digest.words(u64::from(segment.payload_len), u64::from(segment.window) << 16 | u64::from(segment.ip_id));
    digest
}

fn of_segment(segment: &Segment<'_>) -> u64 {
    let mut digest = of_headers(SEGMENT, segment);
    digest.bytes(segment.options);
    let start = segment.payload.len().min(limits::COPY_PAYLOAD);
    digest.bytes(segment.payload.get(..start).unwrap_or_default());
    digest.value()
}

fn of_fragment(fragment: &Fragment<'_>) -> u64 {
    let FragmentKey { source, destination, id, protocol } = fragment.key;
    let mut digest = Digest::new(FRAGMENT);
    addresses(&mut digest, source, destination);
    digest.words(
        u64::from(id) << 32 | u64::from(fragment.offset) << 8 | u64::from(protocol),
        u64::from(fragment.len) << 1 | u64::from(fragment.more),
    );
    digest.value()
}
