//! The frame that most are: Ethernet, IPv4 without options or fragments, TCP. Anything else, and anything odd, is left to
//! the [walk](super::walk), which gives the same for these.

use super::{Headers, Segment};
use overhead_model::{Frame, LinkType, TcpFlags};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};

const ETHERNET: usize = 14;
const IP: usize = 20;
const TCP: usize = 20;

/// The IPv4 header of such a frame, and its TCP header without options.
pub type PlainHeader = [u8; IP + TCP];

/// Such a frame: its lengths were checked, and nothing else was read yet.
#[derive(Clone, Copy, Debug)]
pub struct Plain<'a> {
    /// The headers behind Ethernet's.
    pub header: &'a PlainHeader,
    time_ns: u64,
    wire_len: u32,
    padding: u32,
    options: &'a [u8],
    payload: &'a [u8],
}

impl<'a> Plain<'a> {
    /// Returns `None` for any other frame.
    #[inline]
    pub fn of(frame: &Frame<'a>) -> Option<Self> {
        let bytes = frame.bytes;
        let (ethernet, packet) = bytes.split_first_chunk::<ETHERNET>()?;
        let header: &PlainHeader = packet.first_chunk()?;
        let is_ip = frame.link == LinkType::ETHERNET && ethernet[12..] == [8, 0] && header[0] == 0x45;
        let is_fragment = two(header, 6) & 0x3fff != 0;
        if !is_ip || header[9] != 6 || is_fragment {
            return None;
        }
        let payload_at = IP + usize::from(header[IP + 12] >> 4) * 4;
        // A length of 0, which offload leaves, fails this too.
        let end = usize::from(two(header, 2));
        let padding = (frame.original_len as usize).checked_sub(ETHERNET + end)?;
        if payload_at < IP + TCP || end < payload_at {
            return None;
        }
        Some(Self {
            header,
            time_ns: frame.time_ns,
            wire_len: frame.original_len,
            padding: padding as u32,
            options: packet.get(IP + TCP..payload_at)?,
            payload: packet.get(payload_at..end.min(packet.len()))?,
        })
    }

    /// Returns the ports of its sender and its receiver.
    #[inline]
    pub fn ports(&self) -> [u16; 2] {
        [two(self.header, IP), two(self.header, IP + 2)]
    }

    /// Returns both ends, each with its address and its port in one word.
    #[inline]
    pub fn ends(&self) -> [u64; 2] {
        let [source, destination] = self.ports();
        let end = |at: usize, port: u16| u64::from(four(self.header, at)) << 16 | u64::from(port);
        [end(12, source), end(16, destination)]
    }

    /// Returns its segment.
    #[inline]
    pub fn segment(&self) -> Segment<'a> {
        let mut segment = segment(self.header);
        segment.time_ns = self.time_ns;
        segment.wire_len = self.wire_len;
        segment.headers.link = ETHERNET as u32 + self.padding;
        segment.options = self.options;
        segment.payload = self.payload;
        segment
    }
}

/// Returns what these headers say of a segment: without its time, its frame, its options and its payload.
#[inline]
pub fn segment(header: &PlainHeader) -> Segment<'static> {
    let end_of = |at: usize, port: usize| {
        SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::from_bits(four(header, at)), two(header, port)))
    };
    let (flags, tcp_len) = (header[IP + 13], u32::from(header[IP + 12] >> 4) * 4);
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
        flags: TcpFlags { fin: flags & 1 != 0, syn: flags & 2 != 0, rst: flags & 4 != 0, ack: flags & 16 != 0 },
        window: two(header, IP + 14),
        options: &[],
        payload_len: u32::from(two(header, 2)).saturating_sub(IP as u32 + tcp_len),
        payload: &[],
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
    use crate::packet::{Packet, link, walk::Walk};
    use proptest::prelude::*;

    /// 4 bytes of payload and, behind them, 2 of padding.
    const FRAME: [u8; 72] = [
        0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 8, 0, // Ethernet
        0x45, 0, 0, 56, 0x12, 0x34, 0x40, 0, 64, 6, 0, 0, 127, 0, 0, 1, 10, 0, 0, 2, // IPv4
        0x18, 0xeb, 0x9c, 0x40, 1, 2, 3, 4, 5, 6, 7, 8, 0x80, 0x18, 2, 0, 0, 0, 0, 0, // TCP
        1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2, b'P', b'I', b'N', b'G', 0, 0,
    ];

    fn by_walk<'a>(frame: &Frame<'a>) -> Option<Segment<'a>> {
        let (at, layer) = link::header(frame.link, frame.bytes)?;
        if let Packet::Tcp(segment) = Walk::of_frame(frame, at).run(layer) { Some(segment) } else { None }
    }

    #[test]
    fn the_usual_frame_is_read() {
        let frame = Frame { time_ns: 1, link: LinkType::ETHERNET, original_len: 72, interface: 0, bytes: &FRAME };
        let found = Plain::of(&frame).unwrap().segment();
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
            if let Some(found) = Plain::of(&frame).map(|plain| plain.segment()) {
                prop_assert_eq!(format!("{:?}", Some(found)), format!("{:?}", by_walk(&frame)));
            }
        }
    }
}
