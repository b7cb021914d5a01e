//! Recognises copies: the same packet captured twice (`design/ledger.md`, copies).
//!
//! - A capture on `any`, or on several interfaces, sees a frame at each interface it passes: both ends of loopback, or a bridge and the
//!   port behind it. The same frame at another place is a copy, even if its addresses were translated on the [way].
//! - A mirror port, or merged taps, repeat nearly every frame at one place. A [trial] decides whether this is such a tap.
//!
//! At the same place of any other tap, a repeat is the sender's own: a retransmission.

mod recent;
pub(crate) mod trial;
mod way;

use crate::digest::Digest;
use crate::limits;
use crate::packet::{Fragment, FragmentKey, PlainFrame, PlainHeader, Segment, of_plain_header};
use overhead_model::{Frame, LinkType};
use recent::{RecentFrames, Sighting};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use trial::TapOffsets;

const SEGMENT: u64 = 0;
const FRAGMENT: u64 = 1;
const HEADERS: u64 = 2;

/// Stands for the ends of a fragment, whose digest has its addresses.
const NO_ENDS: [SocketAddr; 2] = [SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0); 2];

/// Where a frame was seen: the capture's interface, and the details in the cooked header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct CopyPlace {
    interface: u32,
    /// Interface index of the capturing host (SLL2).
    index: u32,
    /// Whether the frame was to us, to another host, from us, …
    packet_type: u8,
}

/// How a frame relates to the frames before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameNovelty {
    New,
    Copy,
    /// A copy with other addresses or ports. The first one's source and destination are these.
    Translated([SocketAddr; 2]),
}

/// A frame remembered while nothing has to be compared. It holds no payload.
#[derive(Clone, Copy, Debug)]
enum EarlyFrame {
    Header(PlainHeader),
    Segment { digest: u64, ends: [SocketAddr; 2] },
}

impl EarlyFrame {
    const NONE: Self = Self::Segment { digest: 0, ends: NO_ENDS };

    /// Returns the digest of the headers, and source and destination.
    fn key(&self) -> (u64, [SocketAddr; 2]) {
        match self {
            Self::Header(header) => {
                let segment = of_plain_header(header);
                (numbers_digest(HEADERS, &segment).value(), [segment.source, segment.destination])
            }
            Self::Segment { digest, ends } => (*digest, *ends),
        }
    }
}

/// Remembers recent frames.
///
/// In the usual case, one place and a tap that repeats nothing, no frame is compared and only headers are kept.
#[derive(Debug)]
pub struct Copies {
    /// Headers and times of frames, until frames are compared.
    early: Box<[(EarlyFrame, u64); limits::COPIES]>,
    next: usize,
    first: Option<CopyPlace>,
    /// The interface of the only place so far, if the interface is all that identifies it.
    only_interface: Option<u32>,
    /// The frames to compare with, once there is a second place or a tap that repeats frames.
    recent: Option<Box<RecentFrames>>,
    /// Taps that repeat frames, with the times between a frame and its copy.
    taps: Vec<(u32, TapOffsets)>,
    /// Number of the frame from which on a repeat may start a trial.
    next_trial: u64,
    trials: u32,
}

impl Default for Copies {
    #[allow(clippy::large_stack_arrays, reason = "20 KiB, boxed at once")]
    fn default() -> Self {
        Self {
            early: Box::new([(EarlyFrame::NONE, 0); limits::COPIES]),
            next: 0,
            first: None,
            only_interface: None,
            recent: None,
            taps: Vec::new(),
            next_trial: 0,
            trials: 0,
        }
    }
}

impl Copies {
    /// Returns whether the frame needs no comparison, and remembers it if so.
    #[inline(always)]
    pub fn is_usual(&mut self, frame: &Frame<'_>, plain: &PlainFrame<'_>) -> bool {
        let is_usual = self.only_interface == Some(frame.interface);
        if is_usual {
            self.remember_early(EarlyFrame::Header(*plain.header), frame.time_ns);
        }
        is_usual
    }

    /// Compares a segment's frame with recent ones, and remembers it if it is new.
    #[inline(never)]
    pub fn compare(&mut self, frame: &Frame<'_>, segment: &Segment<'_>) -> FrameNovelty {
        let (place, ends) = (place(frame), [segment.source, segment.destination]);
        if self.is_only_place(place) {
            if frame.link == LinkType::ETHERNET {
                // An Ethernet header adds nothing to the place.
                self.only_interface = Some(frame.interface);
            }
            let digest = numbers_digest(HEADERS, segment).value();
            self.remember_early(EarlyFrame::Segment { digest, ends }, frame.time_ns);
            return FrameNovelty::New;
        }
        let has_id = segment.ip_id != 0;
        let sighting = Sighting { digest: segment_digest(segment), ends, place, time_ns: frame.time_ns, has_id };
        self.compare_sighting(sighting, || numbers_digest(HEADERS, segment).value())
    }

    /// Returns whether a fragment was seen recently, and remembers it otherwise.
    pub fn has_fragment(&mut self, frame: &Frame<'_>, fragment: &Fragment<'_>) -> bool {
        let (place, digest) = (place(frame), fragment_digest(fragment));
        if self.is_only_place(place) {
            self.remember_early(EarlyFrame::Segment { digest, ends: NO_ENDS }, frame.time_ns);
            return false;
        }
        let sighting = Sighting { digest, ends: NO_ENDS, place, time_ns: frame.time_ns, has_id: true };
        self.compare_sighting(sighting, || digest) != FrameNovelty::New
    }

    fn compare_sighting(&mut self, sighting: Sighting, of_headers: impl FnOnce() -> u64) -> FrameNovelty {
        self.compare_from_now_on();
        let Self { recent: Some(recent), taps, .. } = self else { return FrameNovelty::New };
        let tap = taps.iter_mut().find(|(interface, _)| *interface == sighting.place.interface);
        recent.compare(sighting, of_headers, tap.map(|(_, offsets)| offsets))
    }

    fn compare_from_now_on(&mut self) {
        self.only_interface = None;
        if self.recent.is_none() {
            let oldest_first = self.early.iter().cycle().skip(self.next).take(limits::COPIES);
            self.recent = Some(Box::new(RecentFrames::from_early(oldest_first, self.first.unwrap_or_default())));
        }
    }

    /// Forgets the frame remembered last, which comes again after a trial.
    pub fn forget_latest(&mut self) {
        if let Some(recent) = &mut self.recent {
            return recent.forget_latest();
        }
        self.next = (self.next + limits::COPIES - 1) % limits::COPIES;
        if let Some((kept, _)) = self.early.get_mut(self.next) {
            *kept = EarlyFrame::NONE;
        }
    }

    /// Returns whether every frame so far came from this place, and none had to be compared.
    fn is_only_place(&mut self, place: CopyPlace) -> bool {
        self.recent.is_none() && *self.first.get_or_insert(place) == place
    }

    /// Overwrites the oldest frame.
    #[inline(always)]
    fn remember_early(&mut self, frame: EarlyFrame, time_ns: u64) {
        // The remainder avoids a bounds check.
        if let Some(kept) = self.early.get_mut(self.next % limits::COPIES) {
            *kept = (frame, time_ns);
        }
        self.next = (self.next + 1) % limits::COPIES;
    }

    /// Returns whether two interfaces are at both ends of a path.
    pub fn has_both_ends(&self) -> bool {
        self.recent.as_ref().is_some_and(|recent| recent.way.is_long())
    }

    /// Takes repeats at the same place as the senders' own.
    pub fn judge_no_tap(&mut self) {
        self.next_trial = u64::MAX;
    }

    /// Returns whether the frame with this number, which has nothing new for its connection, may be a copy at the same place.
    #[cold]
    pub fn may_repeat(&self, segment: &Segment<'_>, interface: u32, number: u64) -> bool {
        // Acknowledgments that say nothing new are common, and are looked at only when a capture starts.
        let is_bare_ack = segment.payload_len == 0 && !segment.flags.syn && !segment.flags.fin;
        let is_too_common = is_bare_ack && number > limits::COPIES as u64;
        let is_judged = self.taps.len() >= limits::TAPS || self.taps.iter().any(|(tap, _)| *tap == interface);
        if is_too_common || is_judged || number < self.next_trial {
            return false;
        }
        let ends = [segment.source, segment.destination];
        if let Some(recent) = &self.recent {
            return recent.has(segment_digest(segment), ends);
        }
        let key = (numbers_digest(HEADERS, segment).value(), ends);
        let is_like = |(kept, time_ns): &&(EarlyFrame, u64)| {
            // Most differ in this number.
            let is_of_seq = !matches!(kept, EarlyFrame::Header(header) if of_plain_header(header).seq != segment.seq);
            is_of_seq && segment.time_ns.abs_diff(*time_ns) <= limits::COPY_NS && kept.key() == key
        };
        // The frame itself is among them.
        self.early.iter().filter(is_like).count() > 1
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

/// Leaves out addresses and ports, which a translation changes, and hop limit and checksums, which change on the way.
#[inline]
fn numbers_digest(kind: u64, segment: &Segment<'_>) -> Digest {
    let mut digest = Digest::new(kind);
    let flags = segment.flags;
    let bits = [flags.syn, flags.ack, flags.fin, flags.rst].iter().fold(0, |bits, &flag| bits << 1 | u64::from(flag));
    digest.words(bits, u64::from(segment.seq) << 32 | u64::from(segment.ack));
    digest.words(u64::from(segment.payload_len), u64::from(segment.window) << 16 | u64::from(segment.ip_id));
    digest
}

fn segment_digest(segment: &Segment<'_>) -> u64 {
    let mut digest = numbers_digest(SEGMENT, segment);
    // A router may lower the maximum segment size in a SYN.
    if !segment.flags.syn {
        digest.bytes(segment.options);
    }
    let start = segment.payload.len().min(limits::COPY_PAYLOAD);
    digest.bytes(segment.payload.get(..start).unwrap_or_default());
    digest.value()
}

fn fragment_digest(fragment: &Fragment<'_>) -> u64 {
    let FragmentKey { source, destination, id, protocol } = fragment.key;
    let mut digest = Digest::new(FRAGMENT);
    addresses(&mut digest, source, destination);
    digest.words(
        u64::from(id) << 32 | u64::from(fragment.offset) << 8 | u64::from(protocol),
        u64::from(fragment.len) << 1 | u64::from(fragment.more),
    );
    digest.value()
}
