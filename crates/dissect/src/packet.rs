//! From a frame to its headers' lengths and its TCP segment.
//!
//! Header fields come from etherparse, read laxly: a frame that was snapped within its payload, or whose IP length is 0
//! because of segmentation offload, is as good as any. The length of the payload follows from the IP header, so that
//! Ethernet padding and uncaptured trailers are not taken for payload.

use etherparse::{EtherType, LaxNetSlice, LaxSlicedPacket, TransportSlice};
pub use overhead_model::TcpFlags as Flags;
use overhead_model::{Frame, LinkType};
use std::net::{IpAddr, SocketAddr};

/// What a frame turned out to be.
#[derive(Debug)]
pub enum Packet<'a> {
    /// A TCP segment.
    Tcp(Segment<'a>),
    /// Anything else that parses: ARP, UDP, ICMP, a lone IP fragment, a link type that is not decoded.
    Other,
    /// Headers that break off or contradict themselves.
    Malformed,
}

/// Lengths in bytes of a frame's headers. Trailing padding counts as `link`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Headers {
    /// Link-layer header, tags and padding.
    pub link: u32,
    /// IP headers.
    pub ip: u32,
    /// TCP header with options.
    pub tcp: u32,
}

/// One TCP segment and the frame it came in.
#[derive(Clone, Copy, Debug)]
pub struct Segment<'a> {
    /// Capture time, Unix nanoseconds.
    pub time_ns: u64,
    /// Length of the whole frame on the wire.
    pub wire_len: u32,
    /// Where the headers end.
    pub headers: Headers,
    /// Sender.
    pub source: SocketAddr,
    /// Receiver.
    pub destination: SocketAddr,
    /// Sequence number of the first payload byte (of the SYN, where there is one).
    pub seq: u32,
    /// Acknowledgment number; meaningless without `flags.ack`.
    pub ack: u32,
    /// Flags.
    pub flags: Flags,
    /// Payload on the wire, in bytes.
    pub payload_len: u32,
    /// Its captured part.
    pub payload: &'a [u8],
}

/// Reads the headers of a frame.
pub fn parse<'a>(frame: &Frame<'a>) -> Packet<'a> {
    let Some((offset, ether_type)) = link_layer(frame.link, frame.bytes) else {
        return if known(frame.link) { Packet::Malformed } else { Packet::Other };
    };
    let Some(bytes) = frame.bytes.get(offset..) else {
        return Packet::Malformed;
    };
    let sliced = LaxSlicedPacket::from_ether_type(ether_type, bytes);
    let Some(net) = &sliced.net else {
        return if sliced.stop_err.is_some() { Packet::Malformed } else { Packet::Other };
    };
    match &sliced.transport {
        Some(TransportSlice::Tcp(tcp)) => segment(frame, net, tcp).map_or(Packet::Malformed, Packet::Tcp),
        None if sliced.stop_err.is_some() => Packet::Malformed,
        Some(_) | None => Packet::Other,
    }
}

fn known(link: LinkType) -> bool {
    link.name().is_some()
}

/// Offset and type of what the link layer carries; for Ethernet the type field of the first header, so that VLAN tags
/// are still ahead.
fn link_layer(link: LinkType, bytes: &[u8]) -> Option<(usize, EtherType)> {
    let ether_type_at = |offset: usize| {
        let field = bytes.get(offset..offset + 2)?;
        Some(EtherType(u16::from_be_bytes([*field.first()?, *field.last()?])))
    };
    match link {
        LinkType::ETHERNET => Some((14, ether_type_at(12)?)),
        LinkType::LINUX_SLL => Some((16, ether_type_at(14)?)),
        LinkType::LINUX_SLL2 => Some((20, ether_type_at(0)?)),
        LinkType::NULL | LinkType::LOOP => Some((4, address_family(*bytes.first_chunk()?)?)),
        LinkType::RAW | LinkType::RAW_BSD | LinkType::RAW_OPENBSD | LinkType::IPV4 | LinkType::IPV6 => {
            Some((0, ip_version(*bytes.first()?)?))
        }
        _ => None,
    }
}

/// The address family of a BSD loopback header, in whichever byte order the capturing host had: `AF_INET` is 2
/// everywhere, `AF_INET6` is 10, 24, 28 or 30.
fn address_family(field: [u8; 4]) -> Option<EtherType> {
    let of = |family: u32| match family {
        2 => Some(EtherType::IPV4),
        10 | 24 | 28 | 30 => Some(EtherType::IPV6),
        _ => None,
    };
    of(u32::from_le_bytes(field)).or_else(|| of(u32::from_be_bytes(field)))
}

fn ip_version(first: u8) -> Option<EtherType> {
    match first >> 4 {
        4 => Some(EtherType::IPV4),
        6 => Some(EtherType::IPV6),
        _ => None,
    }
}

fn segment<'a>(frame: &Frame<'a>, net: &LaxNetSlice<'_>, tcp: &etherparse::TcpSlice<'_>) -> Option<Segment<'a>> {
    let offset_of = |part: &[u8]| (part.as_ptr() as usize).checked_sub(frame.bytes.as_ptr() as usize);
    let (ip_header, ip_len, source, destination) = match net {
        LaxNetSlice::Ipv4(ip) => {
            let header = ip.header();
            let addresses = (IpAddr::V4(header.source_addr()), IpAddr::V4(header.destination_addr()));
            (offset_of(header.slice())?, usize::from(header.total_len()), addresses.0, addresses.1)
        }
        LaxNetSlice::Ipv6(ip) => {
            let header = ip.header();
            let addresses = (IpAddr::V6(header.source_addr()), IpAddr::V6(header.destination_addr()));
            let len = match usize::from(header.payload_length()) {
                0 => 0,
                payload => payload + header.slice().len(),
            };
            (offset_of(header.slice())?, len, addresses.0, addresses.1)
        }
        LaxNetSlice::Arp(_) => return None,
    };
    let tcp_header = offset_of(tcp.slice())?;
    let payload_at = tcp_header + tcp.header_slice().len();
    let wire_len = frame.original_len as usize;
    // Length 0: the network card was to fill it in (TSO, BIG TCP). A length beyond the frame is not believed.
    let ip_end = if ip_len == 0 { wire_len } else { (ip_header + ip_len).min(wire_len) };
    let payload_len = ip_end.checked_sub(payload_at)?;
    let captured_end = ip_end.min(frame.bytes.len());
    let payload = frame.bytes.get(payload_at..captured_end).unwrap_or_default();
    Some(Segment {
        time_ns: frame.time_ns,
        wire_len: frame.original_len,
        headers: Headers {
            link: (ip_header + wire_len - ip_end) as u32,
            ip: (tcp_header - ip_header) as u32,
            tcp: (payload_at - tcp_header) as u32,
        },
        source: SocketAddr::new(source, tcp.source_port()),
        destination: SocketAddr::new(destination, tcp.destination_port()),
        seq: tcp.sequence_number(),
        ack: tcp.acknowledgment_number(),
        flags: Flags { syn: tcp.syn(), ack: tcp.ack(), fin: tcp.fin(), rst: tcp.rst() },
        payload_len: payload_len as u32,
        payload,
    })
}
