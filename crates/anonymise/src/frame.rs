//! Replaces addresses, names and user data in a frame and keeps all lengths.

use crate::address::Addresses;
use crate::fill::Filler;
use crate::layers::{self, Kind, Layer, Layers};
use crate::rules;
use overhead_model::LinkType;
use std::ops::Range;

/// TCP options without private content (IANA, TCP Option Kind Numbers): sizes, scales, acknowledgments, time stamps,
/// time-outs. Others may hold keys or cookies.
const TCP_OPTIONS: [u8; 6] = [2, 3, 4, 5, 8, 28];
/// IPv4 options without private content: Router Alert.
const IP_OPTIONS: [u8; 1] = [148];

/// Replaces addresses and all bytes outside of headers.
pub fn replace(filler: &Filler, addresses: &Addresses, link: LinkType, wire_len: usize, bytes: &mut [u8]) {
    let layers = layers::split(link, bytes, wire_len);
    for Layer { kind, bytes: at, .. } in &layers.all {
        let Some(header) = bytes.get_mut(at.clone()) else { continue };
        match kind {
            Kind::Ethernet => each(addresses, header, &[0..6, 6..12]),
            Kind::Cooked => {
                let from = if header.len() == 16 { 6 } else { 12 };
                addresses.replace(header.get_mut(from..from + 6).unwrap_or_default());
                header.get_mut(from + 6..from + 8).unwrap_or_default().fill(0);
            }
            Kind::Arp => each(addresses, header, &[8..14, 14..18, 18..24, 24..28]),
            Kind::Ipv4 => {
                each(addresses, header, &[12..16, 16..20]);
                options(header.get_mut(20..).unwrap_or_default(), &IP_OPTIONS);
            }
            Kind::Ipv6 => each(addresses, header, &[8..24, 24..40]),
            // Routing addresses; authentication data.
            Kind::Extension(43 | 51) => header.get_mut(12..).unwrap_or_default().fill(0),
            Kind::Tcp => {
                ports(addresses, header);
                options(header.get_mut(20..).unwrap_or_default(), &TCP_OPTIONS);
            }
            Kind::Udp => {
                ports(addresses, header);
                // Geneve's options, after its fixed header.
                header.get_mut(16..).unwrap_or_default().fill(0);
            }
            Kind::Icmp(_) | Kind::Gre | Kind::Extension(44) | Kind::Other => {}
            // Padding replaces options.
            Kind::Extension(_) => header.get_mut(2..).unwrap_or_default().fill(0),
        }
    }
    payload(filler, addresses, &layers, bytes);
}

/// Fills bytes outside of headers. The start of a cut or inconsistent header stays, so that it is still recognized as such.
fn payload(filler: &Filler, addresses: &Addresses, layers: &Layers, bytes: &mut [u8]) {
    let end = layers.end.clamp(layers.payload, bytes.len());
    bytes.get_mut(end..).unwrap_or_default().fill(0);
    let payload = bytes.get_mut(layers.payload..end).unwrap_or_default();
    match layers.all.last().map(|layer| layer.kind) {
        Some(Kind::Icmp(_)) => filler.binary(payload),
        Some(Kind::Ipv4 | Kind::Ipv6 | Kind::Extension(_)) => {
            if layers.is_fragment {
                rules::opaque(filler, payload, false);
            } else {
                let header = payload.len().min(20);
                let (header, rest) = payload.split_at_mut(header);
                ports(addresses, header);
                filler.data(rest);
            }
        }
        _ => rules::opaque(filler, payload, false),
    }
}

fn each(addresses: &Addresses, header: &mut [u8], places: &[Range<usize>]) {
    for place in places {
        addresses.replace(header.get_mut(place.clone()).unwrap_or_default());
    }
}

pub fn ports(addresses: &Addresses, header: &mut [u8]) {
    for port in header.as_chunks_mut::<2>().0.iter_mut().take(2) {
        *port = addresses.port(u16::from_be_bytes(*port)).to_be_bytes();
    }
}

/// Blanks options of other kinds. An option is a kind, a length that counts both bytes, and a value.
pub fn options(mut bytes: &mut [u8], kinds: &[u8]) {
    loop {
        match &*bytes {
            [0, ..] | [] | [_] => return bytes.fill(0),
            [1, ..] => bytes = bytes.get_mut(1..).unwrap_or_default(),
            &[kind, len, ..] => {
                let (option, rest) = bytes.split_at_mut(usize::from(len).clamp(2, bytes.len()));
                if !kinds.contains(&kind) {
                    // The pointer of a route stays valid.
                    option.get_mut(2..).unwrap_or_default().fill(0);
                }
                bytes = rest;
            }
        }
    }
}

/// Sets checksums, the innermost first. In a fragment or a packet that was not captured whole, the checksum of the content
/// is 0.
pub fn checksums(link: LinkType, wire_len: usize, bytes: &mut [u8]) {
    let layers = layers::split(link, bytes, wire_len);
    for (index, layer) in layers.all.iter().enumerate().rev() {
        let ip =
            layers.all.get(..index).unwrap_or_default().iter().rfind(|ip| matches!(ip.kind, Kind::Ipv4 | Kind::Ipv6));
        let at = layer.bytes.start;
        match (layer.kind, ip) {
            (Kind::Ipv4, _) => put(bytes, at + 10, |bytes| sum(bytes, layer.bytes.clone(), 0)),
            (Kind::Tcp, Some(ip)) => over(bytes, layer, at + 16, (pseudo(bytes, ip, layer, 6), layers.is_fragment)),
            // A checksum of 0 means none.
            (Kind::Udp, Some(ip)) if bytes.get(at + 6..at + 8) != Some(&[0, 0]) => {
                over(bytes, layer, at + 6, (pseudo(bytes, ip, layer, 17), layers.is_fragment));
                if bytes.get(at + 6..at + 8) == Some(&[0, 0]) && layer.end <= bytes.len() && !layers.is_fragment {
                    bytes.get_mut(at + 6..at + 8).unwrap_or_default().fill(0xff);
                }
            }
            (Kind::Icmp(4), _) => over(bytes, layer, at + 2, (0, layers.is_fragment)),
            (Kind::Icmp(_), Some(ip)) => over(bytes, layer, at + 2, (pseudo(bytes, ip, layer, 58), layers.is_fragment)),
            (Kind::Gre, _) if bytes.get(at).is_some_and(|flags| flags & 0x80 != 0) => {
                over(bytes, layer, at + 4, (0, layers.is_fragment));
            }
            _ => {}
        }
    }
}

/// Sums a layer and everything after it.
fn over(bytes: &mut [u8], layer: &Layer, at: usize, (begun, is_fragment): (u32, bool)) {
    if layer.end > bytes.len() || is_fragment {
        return bytes.get_mut(at..at + 2).unwrap_or_default().fill(0);
    }
    put(bytes, at, |bytes| sum(bytes, layer.bytes.start..layer.end, begun));
}

fn put(bytes: &mut [u8], at: usize, sum: impl FnOnce(&[u8]) -> u16) {
    let Some(place) = bytes.get_mut(at..at + 2) else { return };
    place.fill(0);
    let sum = sum(bytes);
    bytes.get_mut(at..at + 2).unwrap_or_default().copy_from_slice(&sum.to_be_bytes());
}

/// Sums the pseudo-header (RFC 9293 section 3.1, RFC 8200 section 8.1).
fn pseudo(bytes: &[u8], ip: &Layer, layer: &Layer, protocol: u32) -> u32 {
    let from = ip.bytes.start;
    let addresses = if ip.kind == Kind::Ipv4 { from + 12..from + 20 } else { from + 8..from + 40 };
    let len = (layer.end - layer.bytes.start) as u32;
    add(bytes.get(addresses).unwrap_or_default(), protocol + (len >> 16) + (len & 0xffff))
}

fn sum(bytes: &[u8], range: Range<usize>, begun: u32) -> u16 {
    let mut sum = add(bytes.get(range).unwrap_or_default(), begun);
    while sum > 0xffff {
        sum = (sum >> 16) + (sum & 0xffff);
    }
    !(sum as u16)
}

/// Adds words with their carries, so that no length overflows.
fn add(bytes: &[u8], begun: u32) -> u32 {
    let (words, rest) = bytes.as_chunks::<2>();
    let words = words.iter().map(|word| u32::from(u16::from_be_bytes(*word)));
    let last = rest.first().map(|byte| u32::from(*byte) << 8);
    words.chain(last).fold(begun, |sum, word| {
        let sum = sum + word;
        (sum >> 16) + (sum & 0xffff)
    })
}
