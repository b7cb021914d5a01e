//! Walks from header to header.

use super::{Datagram, Fragment, FragmentKey, Headers, Packet, Segment, link, net, tunnel};
use crate::limits;
use etherparse::TcpHeaderSlice;
use overhead_model::{Frame, TcpFlags};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::ops::Range;

/// Bytes of a TCP header without options, and with the most options.
const SHORTEST_HEADER: usize = 20;
const LONGEST_HEADER: usize = 60;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderLayer {
    Ethernet,
    /// The layer named by an Ethernet type field.
    EtherType(u16),
    Mpls,
    /// The layer named by an IP header's protocol or next header field.
    Protocol(u8),
}

/// Why a walk ends without a packet.
#[derive(Clone, Copy, Debug)]
pub enum WalkStop {
    /// Unsupported content.
    Other,
    Tcp,
    /// UDP: source and destination port.
    Udp([u16; 2]),
    /// Truncated or contradictory headers.
    Malformed,
    /// Headers not fully captured, with their end as an offset from the frame's start.
    Snapped(usize),
    /// A fragment: its packet's identification, its offset, and whether more follow.
    Fragment {
        id: u32,
        offset: u32,
        more: bool,
        protocol: u8,
    },
}

/// The headers of a frame up to TCP, or up to one that is not passed.
#[derive(Clone, Debug, Default)]
pub struct HeaderTrail {
    /// Bytes of the link-layer header before them.
    pub start: usize,
    pub passed: Vec<PassedHeader>,
    /// What follows them, if anything is known of it.
    pub next: Option<HeaderLayer>,
    /// The frame has a fragment of a packet.
    pub is_fragment: bool,
}

#[derive(Clone, Debug)]
pub struct PassedHeader {
    pub layer: HeaderLayer,
    /// Its place in the frame. A tunnel's header may end beyond the captured bytes.
    pub bytes: Range<usize>,
    /// End of the packet on the wire, as far as the headers up to this one give it.
    pub end: usize,
}

/// A position within a frame or a reassembled packet.
#[derive(Debug)]
pub struct HeaderWalk<'a> {
    bytes: &'a [u8],
    /// Offset of the next header.
    pub at: usize,
    /// End of the packet on the wire, as the innermost header gives it.
    end: usize,
    /// Length on the wire.
    total: usize,
    /// Offset of the first IP header.
    ip_at: Option<usize>,
    /// Addresses and identification from the innermost IP header.
    pub addresses: (IpAddr, IpAddr),
    pub ip_id: u16,
    pub v6: bool,
    /// Whether the IPv6 packet's length is still to come, in its jumbo payload option.
    pub jumbo: bool,
    passed: u32,
    time_ns: u64,
    wire_len: u32,
    frames: u32,
    /// Headers of the frames that carried a reassembled packet.
    outside: Headers,
}

/// Classifies a frame with an unreadable link-layer header, assumed to be at most 20 bytes long and followed by IP and TCP.
pub fn without_link_header<'a>(frame: &Frame<'a>) -> Packet<'a> {
    let headers = 20 + 2 * LONGEST_HEADER;
    let is_snapped = frame.bytes.len() < 20 && frame.bytes.len() < frame.original_len as usize;
    if is_snapped { Packet::Snapped { need: headers as u32 } } else { Packet::Malformed }
}

impl<'a> HeaderWalk<'a> {
    pub fn from_frame(frame: &Frame<'a>, at: usize) -> Self {
        Self {
            bytes: frame.bytes,
            at,
            end: frame.original_len as usize,
            total: frame.original_len as usize,
            ip_at: None,
            addresses: (IpAddr::V4(Ipv4Addr::UNSPECIFIED), IpAddr::V4(Ipv4Addr::UNSPECIFIED)),
            ip_id: 0,
            v6: false,
            jumbo: false,
            passed: 0,
            time_ns: frame.time_ns,
            wire_len: frame.original_len,
            frames: 1,
            outside: Headers::default(),
        }
    }

    pub fn from_datagram(datagram: &'a Datagram) -> Self {
        let key = datagram.key;
        Self {
            bytes: &datagram.bytes,
            at: 0,
            end: datagram.len as usize,
            total: datagram.len as usize,
            ip_at: Some(0),
            addresses: (key.source, key.destination),
            ip_id: key.id as u16,
            v6: key.source.is_ipv6(),
            jumbo: false,
            passed: datagram.passed,
            time_ns: datagram.time_ns,
            wire_len: datagram.wire_len,
            frames: datagram.frames,
            outside: Headers { link: datagram.link, ip: datagram.ip, tcp: 0 },
        }
    }

    pub fn run(mut self, mut layer: HeaderLayer) -> Packet<'a> {
        while self.passed < limits::HEADERS {
            layer = match self.next(layer) {
                Ok(next) => next,
                Err(WalkStop::Tcp) => return self.tcp(),
                Err(WalkStop::Other) => return Packet::Other,
                Err(WalkStop::Udp(ports)) => return Packet::Udp(ports),
                Err(WalkStop::Malformed) => return Packet::Malformed,
                Err(WalkStop::Snapped(end)) => return Packet::Snapped { need: (end + LONGEST_HEADER) as u32 },
                Err(WalkStop::Fragment { id, offset, more, protocol }) => {
                    return self.fragment(id, offset, more, protocol).map_or(Packet::Malformed, Packet::Fragment);
                }
            };
        }
        Packet::Other
    }

    /// Passes a header and returns what follows it.
    fn next(&mut self, layer: HeaderLayer) -> Result<HeaderLayer, WalkStop> {
        self.passed += 1;
        match layer {
            HeaderLayer::Protocol(net::TCP) => Err(WalkStop::Tcp),
            HeaderLayer::Ethernet => link::ethernet(self),
            HeaderLayer::EtherType(ether_type) => link::carried(self, ether_type),
            HeaderLayer::Mpls => link::mpls(self),
            HeaderLayer::Protocol(protocol) if self.v6 && net::is_extension(protocol) => net::extension(self, protocol),
            HeaderLayer::Protocol(protocol) => tunnel::carried(self, protocol),
        }
    }

    /// Returns the headers from `layer` on, into the first fragment of a packet, too.
    pub fn trail(mut self, mut layer: HeaderLayer) -> HeaderTrail {
        let mut trail = HeaderTrail { start: self.at, ..HeaderTrail::default() };
        while self.passed < limits::HEADERS {
            let at = self.at;
            let next = self.next(layer);
            if self.at > at {
                trail.passed.push(PassedHeader { layer, bytes: at..self.at, end: self.end });
            }
            layer = match next {
                Ok(next) => next,
                Err(WalkStop::Fragment { offset, protocol, .. }) => {
                    trail.is_fragment = true;
                    if offset > 0 {
                        break;
                    }
                    HeaderLayer::Protocol(protocol)
                }
                Err(_) => {
                    trail.next = (self.at == at).then_some(layer);
                    break;
                }
            };
        }
        trail
    }

    pub fn rest(&self) -> &'a [u8] {
        self.bytes.get(self.at..).unwrap_or_default()
    }

    /// Returns the next `N` bytes without moving on.
    pub fn peek<const N: usize>(&self) -> Result<[u8; N], WalkStop> {
        self.rest().first_chunk().copied().ok_or_else(|| self.short(N))
    }

    /// Returns why a header of `len` bytes here, longer than the captured rest, cannot be read.
    pub fn short(&self, len: usize) -> WalkStop {
        let end = self.at.saturating_add(len);
        // A header is broken if the frame was fully captured, or if the packet ends before it on the wire too.
        if self.bytes.len() < end.min(self.total) && end <= self.end {
            WalkStop::Snapped(end)
        } else {
            WalkStop::Malformed
        }
    }

    pub fn enter_ip(&mut self) {
        self.ip_at.get_or_insert(self.at);
    }

    /// Ends the packet `len` bytes from here, but never beyond its end on the wire.
    pub fn bound(&mut self, len: usize) {
        self.end = self.end.min(self.at.saturating_add(len));
    }

    /// Returns the header lengths if the headers end here.
    fn headers(&self) -> Option<Headers> {
        let ip_at = self.ip_at?;
        let padding = self.total.checked_sub(self.end)?;
        Some(Headers {
            link: self.outside.link + (ip_at + padding) as u32,
            ip: self.outside.ip + (self.at - ip_at) as u32,
            tcp: 0,
        })
    }

    /// Returns the captured bytes up to the end of the packet.
    fn payload(&self) -> &'a [u8] {
        let captured_end = self.end.min(self.bytes.len());
        self.bytes.get(self.at..captured_end).unwrap_or_default()
    }

    fn tcp(self) -> Packet<'a> {
        let (at, rest) = (self.at, self.rest());
        // The data offset gives the header length (RFC 9293 section 3.1).
        let len = rest.get(12).map_or(LONGEST_HEADER, |field| usize::from(field >> 4) * 4);
        let len = len.min(self.end.saturating_sub(at)).max(SHORTEST_HEADER);
        if rest.len() < len
            && let WalkStop::Snapped(end) = self.short(len)
        {
            return Packet::Snapped { need: end as u32 };
        }
        self.segment().map_or(Packet::Malformed, Packet::Tcp)
    }

    fn segment(mut self) -> Option<Segment<'a>> {
        let tcp = TcpHeaderSlice::from_slice(self.rest()).ok()?;
        let mut headers = self.headers()?;
        headers.tcp = tcp.slice().len() as u32;
        let options = self.rest().get(20..tcp.slice().len())?;
        self.at += tcp.slice().len();
        Some(Segment {
            time_ns: self.time_ns,
            wire_len: self.wire_len,
            frames: self.frames,
            headers,
            source: SocketAddr::new(self.addresses.0, tcp.source_port()),
            destination: SocketAddr::new(self.addresses.1, tcp.destination_port()),
            ip_id: self.ip_id,
            seq: tcp.sequence_number(),
            ack: tcp.acknowledgment_number(),
            flags: TcpFlags { syn: tcp.syn(), ack: tcp.ack(), fin: tcp.fin(), rst: tcp.rst() },
            window: tcp.window_size(),
            options,
            payload_len: self.end.checked_sub(self.at)? as u32,
            payload: self.payload(),
            stream: None,
        })
    }

    fn fragment(self, id: u32, offset: u32, more: bool, protocol: u8) -> Option<Fragment<'a>> {
        let Headers { link, ip, .. } = self.headers()?;
        let (source, destination) = self.addresses;
        Some(Fragment {
            time_ns: self.time_ns,
            wire_len: self.wire_len,
            frames: self.frames,
            link,
            ip,
            key: FragmentKey { source, destination, id, protocol: if self.v6 { 0 } else { protocol } },
            protocol,
            offset,
            more,
            len: self.end.checked_sub(self.at)? as u32,
            bytes: self.payload(),
            passed: self.passed,
        })
    }
}
