//! Reads the most common frames: Ethernet, IPv4 without options or fragments, TCP. The [walk](super::walk) gives the same result for
//! these, and handles everything else.

use super::{Headers, PlainSegment, Segment};
use overhead_model::{Frame, LinkType, TcpFlags};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};

const ETHERNET: usize = 14;
const IP: usize = 20;
const TCP: usize = 20;

/// Flags (RFC 9293 section 3.1).
const FIN: u8 = 1;
const SYN: u8 = 2;
const RST: u8 = 4;
const ACK: u8 = 16;

/// The IPv4 header and the TCP header without options.
pub type PlainHeader = [u8; IP + TCP];

/// A plain frame, with only its lengths checked so far.
#[derive(Clone, Copy, Debug)]
pub struct PlainFrame<'a> {
    /// The headers after Ethernet's.
    pub header: &'a PlainHeader,
    time_ns: u64,
    wire_len: u32,
    ip_len: u32,
    options: &'a [u8],
    /// The captured payload, and its length on the wire.
    payload: &'a [u8],
    payload_len: usize,
}

impl<'a> PlainFrame<'a> {
    /// Returns the plain frame; `None` for any other frame.
    #[inline]
    pub fn read(frame: &Frame<'a>) -> Option<Self> {
        let (headers, behind): (&[u8; ETHERNET + IP + TCP], _) = frame.bytes.split_first_chunk()?;
        let header: &PlainHeader = headers.last_chunk()?;
        // Ethernet's type, and the version and length of the IP header.
        let is_ip = u32::from_be_bytes([headers[12], headers[13], headers[14], 0]) == 0x0800_4500;
        // Fragment flags and offset, and the protocol.
        let is_whole_tcp = u32::from_be_bytes([header[6] & 0x3f, header[7], 0, header[9]]) == 6;
        // A length of 0, left by offload, is also too short.
        let ip_len = u32::from(two(header, 2));
        if frame.link != LinkType::ETHERNET || !is_ip || !is_whole_tcp || ETHERNET as u32 + ip_len > frame.original_len
        {
            return None;
        }
        let (options, rest) = behind.split_at_checked(tcp_len(header).checked_sub(TCP)?)?;
        let payload_len = (ip_len as usize).checked_sub(IP + TCP + options.len())?;
        let payload = rest.get(..payload_len).unwrap_or(rest);
        let Frame { time_ns, original_len: wire_len, .. } = *frame;
        Some(Self { header, time_ns, wire_len, ip_len, options, payload, payload_len })
    }

    #[inline]
    pub fn ports(&self) -> [u16; 2] {
        [two(self.header, IP), two(self.header, IP + 2)]
    }

    /// Returns both ends, each with address and port in one word.
    #[inline]
    pub fn ends(&self) -> [u64; 2] {
        let [source, destination] = self.ports();
        let end = |at: usize, port: u16| u64::from(four(self.header, at)) << 16 | u64::from(port);
        [end(12, source), end(16, destination)]
    }

    #[inline]
    fn headers(&self) -> Headers {
        Headers { link: self.wire_len - self.ip_len, ip: IP as u32, tcp: (TCP + self.options.len()) as u32 }
    }

    /// Returns the bare segment; `None` if it has more to say: see [`PlainSegment`].
    #[inline]
    pub fn bare(&self) -> Option<PlainSegment<'a>> {
        let is_bare = self.header[IP + 13] & (FIN | SYN | RST | ACK) == ACK
            && two(self.header, IP + 14) > 0
            && self.payload.len() == self.payload_len;
        is_bare.then(|| PlainSegment {
            time_ns: self.time_ns,
            wire_len: self.wire_len,
            headers: self.headers(),
            seq: four(self.header, IP + 4),
            ack: four(self.header, IP + 8),
            payload: self.payload,
        })
    }

    #[inline]
    pub fn segment(&self) -> Segment<'a> {
        Segment {
            time_ns: self.time_ns,
            wire_len: self.wire_len,
            headers: self.headers(),
            options: self.options,
            payload: self.payload,
            ..segment(self.header)
        }
    }
}

/// Returns the TCP header length from its data offset.
#[inline]
fn tcp_len(header: &PlainHeader) -> usize {
    usize::from(header[IP + 12] >> 4) * 4
}

/// Returns the segment in these headers, without time, frame, options or payload.
#[inline]
pub fn segment(header: &PlainHeader) -> Segment<'static> {
    let end_of = |at: usize, port: usize| {
        SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::from_bits(four(header, at)), two(header, port)))
    };
    let (flags, tcp_len) = (header[IP + 13], tcp_len(header) as u32);
    Segment {
        time_ns: 0,
        wire_len: 0,
        frames: 1,
        headers: Headers { link: 0, ip: IP as u32, tcp: tcp_len },
        source: end_of(12, IP),
        destination: end_of(16, IP + 2),
        ip_id: two(header, 4),
        seq: four(header, IP + 4),
        ack: four(header, IP + 8),
        flags: TcpFlags { fin: flags & FIN != 0, syn: flags & SYN != 0, rst: flags & RST != 0, ack: flags & ACK != 0 },
        window: two(header, IP + 14),
        options: &[],
        payload_len: u32::from(two(header, 2)).saturating_sub(IP as u32 + tcp_len),
        payload: &[],
        stream: None,
    }
}

#[inline]
fn two(header: &PlainHeader, at: usize) -> u16 {
    u16::from_be_bytes([header[at], header[at + 1]])
}

#[inline]
fn four(header: &PlainHeader, at: usize) -> u32 {
    u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::{Packet, link, walk::HeaderWalk};
    use proptest::prelude::*;

    /// 4 bytes of payload, then 2 of padding.
    const FRAME: [u8; 72] = [
        0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 8, 0, // Ethernet
        0x45, 0, 0, 56, 0x12, 0x34, 0x40, 0, 64, 6, 0, 0, 127, 0, 0, 1, 10, 0, 0, 2, // IPv4
        0x18, 0xeb, 0x9c, 0x40, 1, 2, 3, 4, 5, 6, 7, 8, 0x80, 0x18, 2, 0, 0, 0, 0, 0, // TCP
        1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2, b'P', b'I', b'N', b'G', 0, 0,
    ];

    fn by_walk<'a>(frame: &Frame<'a>) -> Option<Segment<'a>> {
        let (at, layer) = link::header(frame.link, frame.bytes)?;
        if let Packet::Tcp(segment) = HeaderWalk::from_frame(frame, at).run(layer) { Some(segment) } else { None }
    }

    #[test]
    fn the_usual_frame_is_read() {
        let frame = Frame { time_ns: 1, link: LinkType::ETHERNET, original_len: 72, interface: 0, bytes: &FRAME };
        let found = PlainFrame::read(&frame).unwrap().segment();
        assert_eq!((found.headers, found.payload), (Headers { link: 16, ip: 20, tcp: 32 }, &b"PING"[..]));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4096))]
        #[test]
        fn what_is_read_is_what_the_walk_reads(
            changes in prop::collection::vec((12usize..72, any::<u8>()), 0..4),
            len in 50usize..=72,
            more in 0u32..4,
        ) {
            let mut bytes = FRAME;
            for (at, byte) in changes {
                bytes[at] = byte;
            }
            let bytes = &bytes[..len];
            let frame =
                Frame { time_ns: 1, link: LinkType::ETHERNET, original_len: len as u32 + more, interface: 0, bytes };
            if let Some(found) = PlainFrame::read(&frame).map(|plain| plain.segment()) {
                prop_assert_eq!(format!("{:?}", Some(found)), format!("{:?}", by_walk(&frame)));
            }
        }
    }
}
