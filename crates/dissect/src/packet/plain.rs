//! The frame that most are: Ethernet, IPv4 without options or fragments, TCP. Anything else, and anything odd, is left to
//! the [walk](super::walk), which gives the same for these.

use super::{Headers, Segment};
use overhead_model::{Frame, LinkType, TcpFlags};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};

const ETHERNET: usize = 14;
const IP: usize = 20;
const TCP: usize = 20;

/// The segment in such a frame.
#[inline]
pub fn segment<'a>(frame: &Frame<'a>) -> Option<Segment<'a>> {
    let bytes = frame.bytes;
    let header: &[u8; ETHERNET + IP + TCP] = bytes.first_chunk()?;
    let byte = |at: usize| header[at];
    let two = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
    let four = |at: usize| u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
    let (ip, tcp) = (ETHERNET, ETHERNET + IP);
    let fragment = two(ip + 6) & 0x3fff != 0;
    if frame.link != LinkType::ETHERNET || two(12) != 0x0800 || byte(ip) != 0x45 || byte(ip + 9) != 6 || fragment {
        return None;
    }
    let tcp_len = usize::from(byte(tcp + 12) >> 4) * 4;
    let payload_at = tcp + tcp_len;
    // A length of 0, which offload leaves, fails this too.
    let end = ip + usize::from(two(ip + 2));
    let padding = (frame.original_len as usize).checked_sub(end)?;
    if tcp_len < TCP || end < payload_at {
        return None;
    }
    let flags = byte(tcp + 13);
    let end_of = |at: usize, port: usize| {
        let address = Ipv4Addr::new(byte(at), byte(at + 1), byte(at + 2), byte(at + 3));
        SocketAddr::V4(SocketAddrV4::new(address, two(port)))
    };
    Some(Segment {
        time_ns: frame.time_ns,
        wire_len: frame.original_len,
        frames: 1,
        headers: Headers { link: (ETHERNET + padding) as u32, ip: IP as u32, tcp: tcp_len as u32 },
        source: end_of(ip + 12, tcp),
        destination: end_of(ip + 16, tcp + 2),
        ip_id: two(ip + 4),
        seq: four(tcp + 4),
        ack: four(tcp + 8),
        flags: TcpFlags { fin: flags & 1 != 0, syn: flags & 2 != 0, rst: flags & 4 != 0, ack: flags & 16 != 0 },
        window: two(tcp + 14),
        options: bytes.get(tcp + TCP..payload_at)?,
        payload_len: (end - payload_at) as u32,
        payload: bytes.get(payload_at..end.min(bytes.len()))?,
    })
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
        let found = segment(&frame).unwrap();
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
            if let Some(found) = segment(&frame) {
                prop_assert_eq!(format!("{:?}", Some(found)), format!("{:?}", by_walk(&frame)));
            }
        }
    }
}
