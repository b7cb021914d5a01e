//! Reads link layers: Ethernet and its tags, cooked captures, loopback, and everything between them and IP.

use super::net;
use super::walk::{HeaderLayer, HeaderWalk, WalkStop};
use overhead_model::LinkType;

/// Ethernet types (IEEE 802 Numbers, IANA).
const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
const VLAN: u16 = 0x8100;
const PROVIDER_BRIDGE: u16 = 0x88a8;
/// Q-in-Q before IEEE 802.1ad assigned it a number.
const DOUBLE_TAG: u16 = 0x9100;
const MPLS: u16 = 0x8847;
const MPLS_UPSTREAM: u16 = 0x8848;
const PPPOE_SESSION: u16 = 0x8864;
/// Metadata that Cisco switches put before the payload.
const CISCO_METADATA: u16 = 0x8909;

/// Returns the offset and type of the link layer's payload; `None` if the header is incomplete or unknown.
pub fn header(link: LinkType, bytes: &[u8]) -> Option<(usize, HeaderLayer)> {
    let ether_type_at = |offset: usize| {
        let field = bytes.get(offset..)?.first_chunk()?;
        Some(HeaderLayer::EtherType(u16::from_be_bytes(*field)))
    };
    match link {
        LinkType::ETHERNET => Some((0, HeaderLayer::Ethernet)),
        LinkType::LINUX_SLL => Some((16, ether_type_at(14)?)),
        LinkType::LINUX_SLL2 => Some((20, ether_type_at(0)?)),
        LinkType::PPP | LinkType::PPP_SERIAL => ppp(bytes),
        LinkType::PPP_ETHER => Some((0, HeaderLayer::EtherType(PPPOE_SESSION))),
        LinkType::NULL | LinkType::LOOP => Some((4, address_family(*bytes.first_chunk()?)?)),
        LinkType::RAW | LinkType::RAW_BSD | LinkType::RAW_OPENBSD | LinkType::IPV4 | LinkType::IPV6 => {
            Some((0, ip_version(*bytes.first()?)?))
        }
        _ => None,
    }
}

/// Returns the address family of a BSD loopback header, in either byte order: `AF_INET` is always 2, `AF_INET6` is 10, 24, 28 or 30.
fn address_family(field: [u8; 4]) -> Option<HeaderLayer> {
    let of = |family: u32| match family {
        2 => Some(HeaderLayer::EtherType(IPV4)),
        10 | 24 | 28 | 30 => Some(HeaderLayer::EtherType(IPV6)),
        _ => None,
    };
    of(u32::from_le_bytes(field)).or_else(|| of(u32::from_be_bytes(field)))
}

pub fn ip_version(first: u8) -> Option<HeaderLayer> {
    match first >> 4 {
        4 => Some(HeaderLayer::EtherType(IPV4)),
        6 => Some(HeaderLayer::EtherType(IPV6)),
        _ => None,
    }
}

pub fn ethernet(walk: &mut HeaderWalk<'_>) -> Result<HeaderLayer, WalkStop> {
    let [.., high, low] = walk.peek::<14>()?;
    walk.at += 14;
    Ok(HeaderLayer::EtherType(u16::from_be_bytes([high, low])))
}

/// Reads the tag announced by an Ethernet type, or goes on to IP.
pub fn carried(walk: &mut HeaderWalk<'_>, ether_type: u16) -> Result<HeaderLayer, WalkStop> {
    match ether_type {
        IPV4 => net::v4(walk),
        IPV6 => net::v6(walk),
        VLAN | PROVIDER_BRIDGE | DOUBLE_TAG => {
            let [_, _, high, low] = walk.peek()?;
            walk.at += 4;
            Ok(HeaderLayer::EtherType(u16::from_be_bytes([high, low])))
        }
        MPLS | MPLS_UPSTREAM => Ok(HeaderLayer::Mpls),
        PPPOE_SESSION => pppoe(walk),
        CISCO_METADATA => {
            // A version, and the number of 4-byte options.
            let [_, options] = walk.peek()?;
            walk.at += 2 + 4 * usize::from(options);
            let [high, low] = walk.peek()?;
            walk.at += 2;
            Ok(HeaderLayer::EtherType(u16::from_be_bytes([high, low])))
        }
        _ => Err(WalkStop::Other),
    }
}

/// Reads an MPLS label (RFC 3032 section 2.1). No field names the payload of the last one; IP shows its version.
pub fn mpls(walk: &mut HeaderWalk<'_>) -> Result<HeaderLayer, WalkStop> {
    let [_, _, bottom, _] = walk.peek()?;
    walk.at += 4;
    if bottom & 1 == 0 {
        return Ok(HeaderLayer::Mpls);
    }
    let [first] = walk.peek()?;
    ip_version(first).ok_or(WalkStop::Other)
}

/// Reads a `PPPoE` session header and the PPP protocol field (RFC 2516 section 4): version 1, type 1, code 0.
fn pppoe(walk: &mut HeaderWalk<'_>) -> Result<HeaderLayer, WalkStop> {
    let [version, code, _, _, high, low, first] = walk.peek::<7>()?;
    if (version, code) != (0x11, 0) {
        return Err(WalkStop::Other);
    }
    walk.at += 6;
    walk.bound(usize::from(u16::from_be_bytes([high, low])));
    // RFC 1661 section 6.5: the first byte may be omitted if it is 0. The last one is odd, the first one even.
    let (len, protocol) = if first & 1 == 1 { (1, u16::from(first)) } else { (2, u16::from_be_bytes(walk.peek()?)) };
    walk.at += len;
    ppp_protocol(protocol).ok_or(WalkStop::Other)
}

/// Reads a PPP frame (RFC 1661 section 2, RFC 1662 section 3.1), which may omit address, control and the first protocol byte.
fn ppp(bytes: &[u8]) -> Option<(usize, HeaderLayer)> {
    let start = if bytes.starts_with(&[0xff, 0x03]) { 2 } else { 0 };
    let (len, protocol) = match *bytes.get(start..)? {
        [short, ..] if short & 1 == 1 => (1, u16::from(short)),
        [high, low, ..] => (2, u16::from_be_bytes([high, low])),
        _ => return None,
    };
    // Control protocols carry no segments.
    Some((start + len, ppp_protocol(protocol).unwrap_or(HeaderLayer::EtherType(0))))
}

fn ppp_protocol(protocol: u16) -> Option<HeaderLayer> {
    match protocol {
        0x0021 => Some(HeaderLayer::EtherType(IPV4)),
        0x0057 => Some(HeaderLayer::EtherType(IPV6)),
        _ => None,
    }
}
