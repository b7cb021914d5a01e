//! Finds the headers of a frame, and what to replace in each.

use overhead_dissect::packet::{self, HeaderLayer, PassedHeader};
use overhead_model::{Frame, LinkType};
use std::ops::Range;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Ethernet,
    /// A cooked header with one address.
    Cooked,
    /// IPv4 with its options.
    Ipv4,
    Ipv6,
    Extension(u8),
    Tcp,
    /// UDP, with the header of a tunnel and its options.
    Udp,
    /// ICMP, with its version of IP.
    Icmp(u8),
    /// GRE with its optional fields.
    Gre,
    Arp,
    /// Needs no change: tags, labels, fixed headers of tunnels.
    Other,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layer {
    pub kind: Kind,
    /// Its captured bytes.
    pub bytes: Range<usize>,
    /// End of its packet on the wire.
    pub end: usize,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Layers {
    pub all: Vec<Layer>,
    /// Start of the payload.
    pub payload: usize,
    /// End of the payload on the wire.
    pub end: usize,
    /// The payload is part of a larger packet.
    pub is_fragment: bool,
}

pub fn split(link: LinkType, bytes: &[u8], wire_len: usize) -> Layers {
    let frame = Frame { time_ns: 0, link, original_len: wire_len as u32, interface: 0, bytes };
    let mut layers = Layers { end: wire_len, ..Layers::default() };
    let Some(trail) = packet::headers(&frame) else { return layers };
    layers.is_fragment = trail.is_fragment;
    let cooked = matches!(link, LinkType::LINUX_SLL | LinkType::LINUX_SLL2);
    let link_kind = if cooked { Kind::Cooked } else { Kind::Other };
    let mut is_whole = layers.take(link_kind, trail.start, wire_len, bytes);
    for PassedHeader { layer, bytes: header, end } in trail.passed {
        is_whole = is_whole && layers.take(kind(layer), header.len(), end, bytes);
    }
    if let Some(layer) = trail.next.filter(|_| is_whole) {
        layers.take_last(layer, bytes);
    }
    layers
}

impl Layers {
    /// Adds the next header, which has `len` bytes, if it is complete. Its packet ends at `end`.
    fn take(&mut self, kind: Kind, len: usize, end: usize, bytes: &[u8]) -> bool {
        let header = self.payload..self.payload + len;
        let is_whole = header.end <= bytes.len().min(end);
        if is_whole {
            (self.payload, self.end) = (header.end, end);
            if len > 0 {
                self.all.push(Layer { kind, bytes: header, end });
            }
        }
        is_whole
    }

    /// Adds a header that carries no further packet.
    fn take_last(&mut self, layer: HeaderLayer, bytes: &[u8]) {
        let rest = bytes.get(self.payload..).unwrap_or_default();
        let mut end = self.end;
        let (kind, len) = match layer {
            HeaderLayer::Protocol(6) => {
                (Kind::Tcp, rest.get(12).map_or(20, |field| usize::from(field >> 4) * 4).max(20))
            }
            HeaderLayer::Protocol(17) => {
                let stated =
                    rest.get(4..).and_then(|rest| rest.first_chunk()).map_or(0, |len| u16::from_be_bytes(*len));
                if stated >= 8 {
                    end = end.min(self.payload + usize::from(stated));
                }
                (Kind::Udp, 8)
            }
            HeaderLayer::Protocol(1) => (Kind::Icmp(4), 8),
            HeaderLayer::Protocol(58) => (Kind::Icmp(6), 8),
            // Ethernet and IPv4.
            HeaderLayer::EtherType(0x0806) if rest.starts_with(&[0, 1, 8, 0]) => (Kind::Arp, 28),
            _ => return,
        };
        self.take(kind, len, end, bytes);
    }
}

fn kind(layer: HeaderLayer) -> Kind {
    match layer {
        HeaderLayer::Ethernet => Kind::Ethernet,
        HeaderLayer::EtherType(0x0800) => Kind::Ipv4,
        HeaderLayer::EtherType(0x86dd) => Kind::Ipv6,
        HeaderLayer::EtherType(_) | HeaderLayer::Mpls => Kind::Other,
        HeaderLayer::Protocol(17) => Kind::Udp,
        HeaderLayer::Protocol(47) => Kind::Gre,
        HeaderLayer::Protocol(extension) => Kind::Extension(extension),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::Addresses;
    use crate::fill::{Filler, FillerKey};
    use crate::frame;
    use overhead_dissect::packet::{Packet, parse};

    const ETHERNET: &[u8] = b"\x02aaaaa\x02bbbbb\x08\0";

    /// Returns an IPv4 packet with this protocol.
    fn v4(protocol: u8, parts: &[&[u8]]) -> Vec<u8> {
        let content = parts.concat();
        let len = (20 + content.len() as u16).to_be_bytes();
        [&[0x45, 0], &len[..], &[0, 1, 0, 0, 64, protocol, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2], &content].concat()
    }

    fn udp(port: u16, parts: &[&[u8]]) -> Vec<u8> {
        let content = parts.concat();
        let len = (8 + content.len() as u16).to_be_bytes();
        v4(17, &[&[0xc0, 0], &port.to_be_bytes(), &len, &[0, 0], &content])
    }

    #[test]
    fn a_copy_has_the_same_segment_inside_any_headers() {
        let tcp = [&[0x9c, 0x41, 0x15, 0x38][..], &[0; 8], &[0x50, 0x10, 1, 0, 0, 0, 0, 0], b"secret"].concat();
        let inner = v4(6, &[&tcp]);
        let v6 = |next: u8, content: &[u8]| {
            let len = (content.len() as u16).to_be_bytes();
            [&[0x60, 0, 0, 0][..], &len, &[next, 64], &[0xfd; 15], &[1], &[0xfd; 15], &[2], content].concat()
        };
        let of_type = |kind: u16, content: &[u8]| [&ETHERNET[..12], &kind.to_be_bytes()[..], content].concat();
        let bridged = [ETHERNET, &inner].concat();
        let frames = [
            of_type(0x0800, &inner),
            of_type(0x8100, &[&[0, 1, 8, 0], &inner[..]].concat()),
            of_type(0x8847, &[&[0, 1, 1, 64], &inner[..]].concat()),
            of_type(0x8864, &[&[0x11, 0, 0, 1, 0, 48, 0, 0x21], &inner[..]].concat()),
            of_type(0x86dd, &v6(6, &tcp)),
            of_type(0x86dd, &v6(60, &[&[6, 0, 1, 4, b's', b'e', b'c', b'r'], &tcp[..]].concat())),
            of_type(0x0800, &v4(4, &[&inner])),
            of_type(0x0800, &v4(47, &[&[0x20, 0, 8, 0, 0, 0, 0, 7], &inner])),
            // ERSPAN.
            of_type(0x0800, &v4(47, &[&[0x10, 0, 0x88, 0xbe, 0, 0, 0, 1, 0x10, 0, 0, 0, 0, 0, 0, 0], &bridged])),
            of_type(0x0800, &udp(4789, &[&[8, 0, 0, 0, 0, 0, 1, 0], &bridged])),
            of_type(0x0800, &udp(6081, &[&[1, 0, 0x65, 0x58, 0, 0, 1, 0], b"secr", &bridged])),
        ];
        let filler = Filler::new(FillerKey(*b"a key for tests."));
        let addresses = Addresses::new(filler, vec![5432]);
        for bytes in frames {
            let mut copy = bytes.clone();
            frame::replace(&filler, &addresses, LinkType::ETHERNET, copy.len(), &mut copy);
            let [was, is] = [&bytes, &copy].map(|bytes| {
                let link = LinkType::ETHERNET;
                let frame = Frame { time_ns: 0, link, original_len: bytes.len() as u32, interface: 0, bytes };
                let Packet::Tcp(segment) = parse(&frame) else { panic!("{bytes:x?}") };
                segment
            });
            assert_eq!((is.headers, is.payload_len), (was.headers, was.payload_len));
            assert!(is.source != was.source && is.destination.ip() != was.destination.ip());
            assert_eq!(is.destination.port(), 5432);
            assert_ne!(is.payload, was.payload);
            assert!(!copy.windows(4).any(|bytes| bytes == b"secr"));
        }
    }

    #[test]
    fn the_first_fragment_has_the_headers_of_its_packet() {
        let tcp = [&[0x9c, 0x41, 0x15, 0x38][..], &[0; 8], &[0x50, 0x10, 1, 0, 0, 0, 0, 0]].concat();
        let kinds = |flags: u8, offset: u8| {
            let mut bytes = [ETHERNET, &v4(6, &[&tcp])].concat();
            (bytes[20], bytes[21]) = (flags, offset);
            let layers = split(LinkType::ETHERNET, &bytes, bytes.len());
            assert_eq!((layers.is_fragment, layers.end), (flags > 0 || offset > 0, bytes.len()));
            layers.all.iter().map(|layer| layer.kind).collect::<Vec<_>>()
        };
        assert_eq!(kinds(0, 0), [Kind::Ethernet, Kind::Ipv4, Kind::Tcp]);
        assert_eq!(kinds(0x20, 0), [Kind::Ethernet, Kind::Ipv4, Kind::Tcp]);
        assert_eq!(kinds(0, 9), [Kind::Ethernet, Kind::Ipv4]);
    }
}
