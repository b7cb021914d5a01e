//! From a frame to its headers' lengths and its TCP segment.
//!
//! Headers are read laxly: a frame that was snapped within its payload, or whose IP length is 0 because of segmentation
//! offload, is as good as any. The length of the payload follows from the innermost IP header, so that Ethernet padding and
//! uncaptured trailers are not taken for payload.
//!
//! Everything before the first IP header is `link`, as is what follows the payload; everything from there to the TCP
//! header of the innermost packet is `ip`, so that a tunnel's headers, an inner Ethernet header included, are in one account.

mod link;
mod net;
mod plain;
mod stream;
mod tunnel;
mod walk;

use overhead_model::{Account, Frame, StreamPiece, TcpFlags};
pub(crate) use plain::{Plain, PlainHeader, segment as of_plain_header};
use std::net::{IpAddr, SocketAddr};
pub(crate) use stream::segment as of_piece;
use walk::Walk;

/// What a frame turned out to be.
#[derive(Debug)]
pub enum Packet<'a> {
    /// A TCP segment.
    Tcp(Segment<'a>),
    /// A part of an IP packet.
    Fragment(Fragment<'a>),
    /// A datagram of UDP that is no tunnel's: the ports of sender and receiver.
    Udp([u16; 2]),
    /// Anything else that parses: ARP, ICMP, a link type that is not decoded.
    Other,
    /// Headers that break off or contradict themselves.
    Malformed,
    /// Headers that were on the wire and not captured.
    Snapped {
        /// Bytes of the frame that had to be captured for them, at least.
        need: u32,
    },
}

/// Lengths in bytes of a segment's headers. Trailing padding counts as `link`. Of a segment that came in several
/// fragments, those of all its frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Headers {
    /// Link-layer header, tags and padding.
    pub link: u32,
    /// IP headers with options and extension headers, and the headers of tunnels.
    pub ip: u32,
    /// TCP header with options.
    pub tcp: u32,
}

impl Headers {
    /// Returns their sum.
    pub fn total(self) -> u64 {
        self.accounts().map(|(_, bytes)| u64::from(bytes)).iter().sum()
    }

    /// Returns each length with its account.
    #[inline]
    pub fn accounts(self) -> [(Account, u32); 3] {
        [(Account::Link, self.link), (Account::Ip, self.ip), (Account::Tcp, self.tcp)]
    }
}

/// One TCP segment and the frame it came in.
#[derive(Clone, Copy, Debug)]
pub struct Segment<'a> {
    /// Capture time, Unix nanoseconds; of fragments, that of the last one.
    pub time_ns: u64,
    /// Length of the whole frame on the wire; of fragments, of all their frames.
    pub wire_len: u32,
    /// Frames it came in: 1, or the number of fragments.
    pub frames: u32,
    /// Where the headers end.
    pub headers: Headers,
    /// Sender.
    pub source: SocketAddr,
    /// Receiver.
    pub destination: SocketAddr,
    /// Identification of the IPv4 packet (RFC 791 section 3.1); 0 in IPv6.
    pub ip_id: u16,
    /// Sequence number of the first payload byte (of the SYN, where there is one).
    pub seq: u32,
    /// Acknowledgment number; meaningless without `flags.ack`.
    pub ack: u32,
    /// Flags.
    pub flags: TcpFlags,
    /// The window field, unscaled.
    pub window: u16,
    /// TCP options.
    pub options: &'a [u8],
    /// Payload on the wire, in bytes.
    pub payload_len: u32,
    /// Its captured part.
    pub payload: &'a [u8],
    /// Where it came from, where that was no frame but a piece of a byte stream: there are no headers, sequence numbers and
    /// acknowledgments then.
    pub stream: Option<&'a StreamPiece<'a>>,
}

/// A segment of which nothing but its numbers, its payload and the lengths of its headers can make a difference: an
/// acknowledgment and no other flag that matters, from somebody who has room, in one frame that was captured whole.
#[derive(Clone, Copy, Debug)]
pub struct Bare<'a> {
    /// Capture time, Unix nanoseconds.
    pub time_ns: u64,
    /// Length of the whole frame on the wire.
    pub wire_len: u32,
    /// Lengths of its headers.
    pub headers: Headers,
    /// Sequence number of the first payload byte.
    pub seq: u32,
    /// Acknowledgment number; of a piece of a stream, meaningless.
    pub ack: u32,
    /// Its payload.
    pub payload: &'a [u8],
}

impl<'a> Segment<'a> {
    /// Returns what there is to it but its flags; `None` where these say something, or something is missing.
    #[inline]
    pub fn bare(&self) -> Option<Bare<'a>> {
        let Self { time_ns, wire_len, frames, headers, seq, ack, flags, window, payload_len, payload, .. } = *self;
        let is_bare = !(flags.syn || flags.fin || flags.rst)
            && (flags.ack && window > 0 || self.stream.is_some())
            && frames == 1
            && payload.len() == payload_len as usize;
        is_bare.then_some(Bare { time_ns, wire_len, headers, seq, ack, payload })
    }
}

/// Which packet a fragment is a part of (RFC 791 section 3.2, RFC 8200 section 4.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FragmentKey {
    /// Sender.
    pub source: IpAddr,
    /// Receiver.
    pub destination: IpAddr,
    /// Identification.
    pub id: u32,
    /// Protocol in IPv4; 0 in IPv6, where only the first fragment is sure to name it.
    pub protocol: u8,
}

/// A part of an IP packet, and the frame it came in.
#[derive(Clone, Copy, Debug)]
pub struct Fragment<'a> {
    /// Capture time, Unix nanoseconds.
    pub time_ns: u64,
    /// Length of the whole frame on the wire: `link`, `ip` and `len`.
    pub wire_len: u32,
    /// Frames it came in: 1, but more where a tunnel's packet was in fragments too.
    pub frames: u32,
    /// Bytes of link-layer header and padding.
    pub link: u32,
    /// Bytes of IP headers.
    pub ip: u32,
    /// The packet it is part of.
    pub key: FragmentKey,
    /// What the packet carries, if this is its first fragment.
    pub protocol: u8,
    /// Place of the first byte in the packet's payload.
    pub offset: u32,
    /// Other fragments follow.
    pub more: bool,
    /// Bytes on the wire.
    pub len: u32,
    /// Their captured part.
    pub bytes: &'a [u8],
    /// Headers passed so far, to bound tunnels in fragments in tunnels.
    pub(crate) passed: u32,
}

/// The payload of an IP packet put together from its fragments.
#[derive(Clone, Debug)]
pub struct Datagram {
    /// The fragments' packet.
    pub key: FragmentKey,
    /// What it carries.
    pub protocol: u8,
    /// Capture time of the last fragment.
    pub time_ns: u64,
    /// Lengths on the wire of all its frames.
    pub wire_len: u32,
    /// How many these are.
    pub frames: u32,
    /// Their link-layer headers and padding.
    pub link: u32,
    /// Their IP headers.
    pub ip: u32,
    /// Bytes of the payload.
    pub len: u32,
    /// Its captured start.
    pub bytes: Vec<u8>,
    /// Headers passed so far.
    pub(crate) passed: u32,
}

/// Reads the headers of a frame.
#[inline]
pub fn parse<'a>(frame: &Frame<'a>) -> Packet<'a> {
    Plain::of(frame).map_or_else(|| parse_any(frame), |plain| Packet::Tcp(plain.segment()))
}

/// Returns the same for any frame; [`Plain::of`] is quicker for most.
pub(crate) fn parse_any<'a>(frame: &Frame<'a>) -> Packet<'a> {
    match link::header(frame.link, frame.bytes) {
        Some((at, layer)) => Walk::of_frame(frame, at).run(layer),
        None if frame.link.name().is_some() => walk::without_link_header(frame),
        None => Packet::Other,
    }
}

/// Reads the headers within a packet that came in fragments.
pub fn parse_datagram(datagram: &Datagram) -> Packet<'_> {
    Walk::of_datagram(datagram).run(walk::Layer::Protocol(datagram.protocol))
}

/// Returns whether the options of a SYN make it a further subflow of a connection of Multipath TCP: `MP_JOIN` (RFC 8684 section 3.2).
pub(crate) fn joins_connection(options: &[u8]) -> bool {
    const END: u8 = 0;
    const PADDING: u8 = 1;
    const MULTIPATH: u8 = 30;
    const JOIN: u8 = 1;
    let mut left = options;
    loop {
        match *left {
            [PADDING, ref rest @ ..] => left = rest,
            [END, ..] | [] | [_] => return false,
            [MULTIPATH, _, subtype, ..] if subtype >> 4 == JOIN => return true,
            [_, len, ..] => left = left.get(usize::from(len).max(2)..).unwrap_or_default(),
        }
    }
}
