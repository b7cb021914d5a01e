//! Second copies of a frame.
//!
//! A capture on `any`, or on several interfaces, sees a frame at each interface that it passes: at both ends of
//! loopback, on a bridge and on the port behind it. Copies are told from retransmissions by where they were seen: the same
//! headers at another interface, or with another packet type, are a copy; at the same place they are a retransmission.

use crate::digest::Digest;
use crate::limits;
use crate::packet::{Fragment, FragmentKey, Segment};
use overhead_model::{Frame, LinkType};
use std::net::IpAddr;

/// Where a frame was seen: the interface of the capture, and what the cooked header says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Place {
    interface: u32,
    /// Interface index of the capturing host (SLL2).
    index: u32,
    /// To us, to another host, from us, …
    packet_type: u8,
}

#[derive(Clone, Copy, Debug, Default)]
struct Sighting {
    place: Place,
    time_ns: u64,
}

/// Remembers the frames seen last.
#[derive(Debug)]
pub struct Copies {
    /// What tells frames apart, apart from what a router or bridge changes. In step with `sightings`.
    digests: Vec<u64>,
    sightings: Vec<Sighting>,
    next: usize,
    first: Option<Place>,
    /// Frames were seen at more than one place.
    several: bool,
}

impl Default for Copies {
    fn default() -> Self {
        let (digests, sightings) = (vec![0; limits::COPIES], vec![Sighting::default(); limits::COPIES]);
        Self { digests, sightings, next: 0, first: None, several: false }
    }
}

impl Copies {
    /// Whether `frame`, which holds `segment`, was seen at another place just before.
    pub fn has_segment(&mut self, frame: &Frame<'_>, segment: &Segment<'_>) -> bool {
        self.has(frame, of_segment(segment))
    }

    /// Whether `frame`, which holds `fragment`, was seen at another place just before.
    pub fn has_fragment(&mut self, frame: &Frame<'_>, fragment: &Fragment<'_>) -> bool {
        self.has(frame, of_fragment(fragment))
    }

    fn has(&mut self, frame: &Frame<'_>, digest: u64) -> bool {
        let place = place(frame);
        self.several |= *self.first.get_or_insert(place) != place;
        if self.several && self.seen_elsewhere(digest, place, frame.time_ns) {
            return true;
        }
        if let (Some(kept), Some(sighting)) = (self.digests.get_mut(self.next), self.sightings.get_mut(self.next)) {
            (*kept, *sighting) = (digest, Sighting { place, time_ns: frame.time_ns });
        }
        self.next = (self.next + 1) % limits::COPIES;
        false
    }

    fn seen_elsewhere(&self, digest: u64, place: Place, now_ns: u64) -> bool {
        let mut same = self.digests.iter().zip(&self.sightings).filter(|&(&kept, _)| kept == digest);
        same.any(|(_, seen)| seen.place != place && now_ns.abs_diff(seen.time_ns) <= limits::COPY_NS)
    }
}

fn place(frame: &Frame<'_>) -> Place {
    let Frame { link, interface, bytes, .. } = *frame;
    let (index, packet_type) = match link {
        LinkType::LINUX_SLL => ([0; 4], bytes.get(1)),
        LinkType::LINUX_SLL2 => {
            (bytes.get(4..).and_then(|bytes| bytes.first_chunk()).copied().unwrap_or_default(), bytes.get(10))
        }
        _ => ([0; 4], None),
    };
    Place { interface, index: u32::from_be_bytes(index), packet_type: packet_type.copied().unwrap_or_default() }
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

/// Hop limit and checksums are left out: they change on the way, or are filled in by the network card.
fn of_segment(segment: &Segment<'_>) -> u64 {
    let mut digest = Digest::new(0);
    addresses(&mut digest, segment.source.ip(), segment.destination.ip());
    let flags = segment.flags;
    let bits = [flags.syn, flags.ack, flags.fin, flags.rst].iter().fold(0, |bits, &flag| bits << 1 | u64::from(flag));
    digest.words(
        u64::from(segment.source.port()) << 48 | u64::from(segment.destination.port()) << 32 | bits,
        u64::from(segment.seq) << 32 | u64::from(segment.ack),
    );
    digest.words(u64::from(segment.payload_len), u64::from(segment.window) << 16 | u64::from(segment.ip_id));
    digest.bytes(segment.options);
    let start = segment.payload.len().min(limits::COPY_PAYLOAD);
    digest.bytes(segment.payload.get(..start).unwrap_or_default());
    digest.value()
}

fn of_fragment(fragment: &Fragment<'_>) -> u64 {
    let FragmentKey { source, destination, id, protocol } = fragment.key;
    let mut digest = Digest::new(1);
    addresses(&mut digest, source, destination);
    digest.words(
        u64::from(id) << 32 | u64::from(fragment.offset) << 8 | u64::from(protocol),
        u64::from(fragment.len) << 1 | u64::from(fragment.more),
    );
    digest.value()
}
