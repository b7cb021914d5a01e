//! Reads a frame's headers, their lengths and its TCP segment.
//!
//! Parsing is lax: it accepts frames snapped within the payload, and an IP length of 0 left by segmentation offload. The innermost IP
//! header gives the payload length, so Ethernet padding and uncaptured trailers do not count as payload.
//!
//! `link` covers everything before the first IP header and after the payload. `ip` covers everything from there to the innermost TCP
//! header, including tunnel headers and inner Ethernet headers.

mod link;
mod net;
mod plain;
mod stream;
mod tunnel;
mod walk;

use overhead_model::{Account, Frame, StreamPiece, TcpFlags};
pub(crate) use plain::{PlainFrame, PlainHeader, segment as of_plain_header};
use std::net::{IpAddr, SocketAddr};
pub(crate) use stream::segment as of_piece;
use walk::HeaderWalk;
pub use walk::{HeaderLayer, HeaderTrail, PassedHeader};

/// The content of a frame.
#[derive(Debug)]
pub enum Packet<'a> {
    Tcp(Segment<'a>),
    Fragment(Fragment<'a>),
    /// A UDP datagram outside any tunnel: source and destination port.
    Udp([u16; 2]),
    /// Anything else that parses: ARP, ICMP, an unsupported link type.
    Other,
    /// Truncated or contradictory headers.
    Malformed,
    /// Headers cut off by the snap length.
    Snapped {
        /// Capture length that they need at least, in bytes.
        need: u32,
    },
}

/// Lengths of a segment's headers in bytes, summed over all frames of a fragmented segment. Trailing padding counts as `link`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Headers {
    /// Link-layer header, tags and padding.
    pub link: u32,
    /// IP headers with options and extension headers, and tunnel headers.
    pub ip: u32,
    /// The TCP header with options.
    pub tcp: u32,
}

impl Headers {
    pub fn total(self) -> u64 {
        self.accounts().map(|(_, bytes)| u64::from(bytes)).iter().sum()
    }

    #[inline]
    pub fn accounts(self) -> [(Account, u32); 3] {
        [(Account::Link, self.link), (Account::Ip, self.ip), (Account::Tcp, self.tcp)]
    }
}

#[derive(Clone, Copy, Debug)]
pub struct Segment<'a> {
    /// Capture time, Unix nanoseconds; the last fragment's if fragmented.
    pub time_ns: u64,
    /// Length of the whole frame on the wire, or of all fragments' frames.
    pub wire_len: u32,
    /// Number of frames: 1, or the number of fragments.
    pub frames: u32,
    pub headers: Headers,
    pub source: SocketAddr,
    pub destination: SocketAddr,
    /// IPv4 identification (RFC 791 section 3.1); 0 for IPv6.
    pub ip_id: u16,
    /// Sequence number of the first payload byte, or of the SYN if there is one.
    pub seq: u32,
    /// Acknowledgment number; meaningless without `flags.ack`.
    pub ack: u32,
    pub flags: TcpFlags,
    /// Unscaled.
    pub window: u16,
    pub options: &'a [u8],
    /// Payload length on the wire, in bytes.
    pub payload_len: u32,
    pub payload: &'a [u8],
    /// The byte-stream piece it came from instead of a frame. Such a segment has no headers, sequence numbers or acknowledgments.
    pub stream: Option<&'a StreamPiece<'a>>,
}

/// A segment that matters only for its numbers, payload and header lengths: fully captured in one frame, with an open window and no
/// flag except ACK.
#[derive(Clone, Copy, Debug)]
pub struct PlainSegment<'a> {
    /// Capture time, Unix nanoseconds.
    pub time_ns: u64,
    /// Length of the whole frame on the wire.
    pub wire_len: u32,
    pub headers: Headers,
    /// Sequence number of the first payload byte.
    pub seq: u32,
    /// Meaningless for a stream piece.
    pub ack: u32,
    pub payload: &'a [u8],
}

impl<'a> Segment<'a> {
    /// Returns the bare segment; `None` if its flags, window, fragmentation or missing bytes matter.
    #[inline]
    pub fn bare(&self) -> Option<PlainSegment<'a>> {
        let Self { time_ns, wire_len, frames, headers, seq, ack, flags, window, payload_len, payload, .. } = *self;
        let is_bare = !(flags.syn || flags.fin || flags.rst)
            && (flags.ack && window > 0 || self.stream.is_some())
            && frames == 1
            && payload.len() == payload_len as usize;
        is_bare.then_some(PlainSegment { time_ns, wire_len, headers, seq, ack, payload })
    }
}

/// Identifies a fragment's packet (RFC 791 section 3.2, RFC 8200 section 4.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FragmentKey {
    pub source: IpAddr,
    pub destination: IpAddr,
    pub id: u32,
    /// IPv4 protocol; 0 for IPv6, since only the first fragment reliably names it.
    pub protocol: u8,
}

/// A fragment of an IP packet, and its frame.
#[derive(Clone, Copy, Debug)]
pub struct Fragment<'a> {
    /// Capture time, Unix nanoseconds.
    pub time_ns: u64,
    /// Length of the whole frame on the wire: the sum of `link`, `ip` and `len`.
    pub wire_len: u32,
    /// Number of frames: 1, or more if a tunnel's packet was fragmented too.
    pub frames: u32,
    /// Bytes of link-layer header and padding.
    pub link: u32,
    /// Bytes of IP headers.
    pub ip: u32,
    pub key: FragmentKey,
    /// The packet's payload protocol, if this is the first fragment.
    pub protocol: u8,
    /// Offset of the first byte within the packet's payload.
    pub offset: u32,
    /// Whether more fragments follow.
    pub more: bool,
    /// Payload bytes on the wire.
    pub len: u32,
    pub bytes: &'a [u8],
    /// Headers passed so far; limits nesting of tunnels and fragments.
    pub(crate) passed: u32,
}

/// The payload of a reassembled IP packet.
#[derive(Clone, Debug)]
pub struct Datagram {
    pub key: FragmentKey,
    pub protocol: u8,
    /// Capture time of the last fragment.
    pub time_ns: u64,
    /// Total length of its frames on the wire.
    pub wire_len: u32,
    pub frames: u32,
    /// Bytes of link-layer headers and padding in all frames.
    pub link: u32,
    /// Bytes of IP headers in all frames.
    pub ip: u32,
    /// Payload length in bytes.
    pub len: u32,
    /// The captured start of the payload.
    pub bytes: Vec<u8>,
    /// Headers passed so far.
    pub(crate) passed: u32,
}

/// Reads the headers of a frame.
#[inline]
pub fn parse<'a>(frame: &Frame<'a>) -> Packet<'a> {
    PlainFrame::read(frame).map_or_else(|| parse_any(frame), |plain| Packet::Tcp(plain.segment()))
}

/// Reads the headers of any frame; [`PlainFrame::read`] is faster for most.
pub(crate) fn parse_any<'a>(frame: &Frame<'a>) -> Packet<'a> {
    match link::header(frame.link, frame.bytes) {
        Some((at, layer)) => HeaderWalk::from_frame(frame, at).run(layer),
        None if frame.link.name().is_some() => walk::without_link_header(frame),
        None => Packet::Other,
    }
}

/// Returns the headers of a frame; `None` if its link-layer header is incomplete or unknown.
pub fn headers(frame: &Frame<'_>) -> Option<HeaderTrail> {
    let (at, layer) = link::header(frame.link, frame.bytes)?;
    Some(HeaderWalk::from_frame(frame, at).trail(layer))
}

/// Reads the headers within a reassembled packet.
pub fn parse_datagram(datagram: &Datagram) -> Packet<'_> {
    HeaderWalk::from_datagram(datagram).run(HeaderLayer::Protocol(datagram.protocol))
}

/// Multipath TCP option subtypes (RFC 8684 section 3): one that adds a subflow to a connection, in a SYN, and one that
/// maps the payload of a subflow to that of its connection.
pub(crate) const MP_JOIN: u8 = 1;
pub(crate) const MP_DSS: u8 = 2;

/// Returns whether TCP options contain a Multipath TCP option of this subtype.
pub(crate) fn has_multipath_option(options: &[u8], wanted: u8) -> bool {
    const MULTIPATH: u8 = 30;
    has_option(options, |option| matches!(*option, [MULTIPATH, _, subtype, ..] if subtype >> 4 == wanted))
}

/// Returns whether TCP options report the byte before `ack` as a duplicate (RFC 2883 section 4): in the first block of a selective
/// acknowledgment.
pub(crate) fn sacks_last_byte(options: &[u8], ack: u32) -> bool {
    const SACK: u8 = 5;
    let block = [ack.wrapping_sub(1).to_be_bytes(), ack.to_be_bytes()].concat();
    has_option(options, |option| option.first() == Some(&SACK) && option.get(2..10) == Some(block.as_slice()))
}

/// Returns whether one of the TCP options is wanted; each starts with its kind, and its length.
fn has_option(options: &[u8], is_wanted: impl Fn(&[u8]) -> bool) -> bool {
    const END: u8 = 0;
    const PADDING: u8 = 1;
    let mut left = options;
    loop {
        match *left {
            [PADDING, ref rest @ ..] => left = rest,
            [END, ..] | [] | [_] => return false,
            _ if is_wanted(left) => return true,
            [_, len, ..] => left = left.get(usize::from(len).max(2)..).unwrap_or_default(),
        }
    }
}
