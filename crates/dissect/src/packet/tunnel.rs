//! Handles IP payloads other than TCP: tunnels, down to their inner packet, and everything else.

use super::link;
use super::walk::{HeaderLayer, HeaderWalk, WalkStop};

/// Protocol numbers (IANA).
const IPV4: u8 = 4;
const UDP: u8 = 17;
const IPV6: u8 = 41;
const GRE: u8 = 47;
const AUTHENTICATION: u8 = 51;
const MPLS: u8 = 137;
/// UDP ports (IANA), and the port Linux used for VXLAN before its assignment.
const VXLAN_PORT: u16 = 4789;
const VXLAN_PORT_BEFORE: u16 = 8472;
const GENEVE_PORT: u16 = 6081;
/// Ethernet type of an Ethernet frame in a tunnel (transparent Ethernet bridging).
const BRIDGED: u16 = 0x6558;
/// Frames mirrored by switches: ERSPAN types I and II, and type III.
const ERSPAN: u16 = 0x88be;
const ERSPAN_III: u16 = 0x22eb;

/// Reads the header of `protocol` if it is a tunnel.
pub fn carried(walk: &mut HeaderWalk<'_>, protocol: u8) -> Result<HeaderLayer, WalkStop> {
    match protocol {
        IPV4 => Ok(HeaderLayer::EtherType(0x0800)),
        IPV6 => Ok(HeaderLayer::EtherType(0x86dd)),
        MPLS => Ok(HeaderLayer::Mpls),
        GRE => gre(walk),
        UDP => udp(walk),
        AUTHENTICATION => authentication(walk),
        _ => Err(WalkStop::Other),
    }
}

fn ether_type_layer(ether_type: u16) -> HeaderLayer {
    if ether_type == BRIDGED { HeaderLayer::Ethernet } else { HeaderLayer::EtherType(ether_type) }
}

/// Reads GRE (RFC 2784, RFC 2890): checksum, key and sequence number are optional. Version 1 carries PPP and is not decoded.
fn gre(walk: &mut HeaderWalk<'_>) -> Result<HeaderLayer, WalkStop> {
    let [flags, version, high, low] = walk.peek()?;
    let (routing, version) = (flags & 0x40 != 0, version & 7);
    if routing || version != 0 {
        return Err(WalkStop::Other);
    }
    let optional = [0x80, 0x20, 0x10].iter().filter(|&&flag| flags & flag != 0).count();
    walk.at += 4 + 4 * optional;
    match u16::from_be_bytes([high, low]) {
        ERSPAN => {
            // Type I has neither a sequence number nor an ERSPAN header.
            walk.at += if flags & 0x10 == 0 { 0 } else { 8 };
            Ok(HeaderLayer::Ethernet)
        }
        ERSPAN_III => erspan_iii(walk),
        ether_type => Ok(ether_type_layer(ether_type)),
    }
}

/// Reads ERSPAN type III (draft-foschiano-erspan-03 section 4.3). The last bit adds 8 bytes to the 12, and a 5-bit field selects an
/// Ethernet frame or an IP packet.
fn erspan_iii(walk: &mut HeaderWalk<'_>) -> Result<HeaderLayer, WalkStop> {
    let [.., kind, more] = walk.peek::<12>()?;
    walk.at += if more & 1 == 0 { 12 } else { 20 };
    match kind >> 2 & 0x1f {
        0 => Ok(HeaderLayer::Ethernet),
        2 => {
            let [first] = walk.peek()?;
            link::ip_version(first).ok_or(WalkStop::Other)
        }
        _ => Err(WalkStop::Other),
    }
}

/// Reads an authentication header (RFC 4302 section 2), whose length counts 4-byte units without the first two.
fn authentication(walk: &mut HeaderWalk<'_>) -> Result<HeaderLayer, WalkStop> {
    let [next, units] = walk.peek()?;
    walk.at += (usize::from(units) + 2) * 4;
    Ok(HeaderLayer::Protocol(next))
}

/// Reads UDP to a tunnel's port.
fn udp(walk: &mut HeaderWalk<'_>) -> Result<HeaderLayer, WalkStop> {
    let [from_high, from_low, high, low, len @ .., _, _] = walk.peek::<8>()?;
    let port = u16::from_be_bytes([high, low]);
    if !matches!(port, VXLAN_PORT | VXLAN_PORT_BEFORE | GENEVE_PORT) {
        return Err(WalkStop::Udp([u16::from_be_bytes([from_high, from_low]), port]));
    }
    match usize::from(u16::from_be_bytes(len)) {
        // Left by offload, as in the IP header.
        0 => {}
        len if len < 8 => return Err(WalkStop::Malformed),
        len => walk.bound(len),
    }
    walk.at += 8;
    if port == GENEVE_PORT { geneve(walk) } else { vxlan(walk) }
}

/// Reads VXLAN (RFC 7348 section 5): a flag marks the network identifier as valid; the rest is reserved.
fn vxlan(walk: &mut HeaderWalk<'_>) -> Result<HeaderLayer, WalkStop> {
    let [flags, ..] = walk.peek::<8>()?;
    if flags & 0x08 == 0 {
        return Err(WalkStop::Other);
    }
    walk.at += 8;
    Ok(HeaderLayer::Ethernet)
}

/// Reads Geneve (RFC 8926 section 3.4): version 0, option length in 4-byte units, Ethernet type.
fn geneve(walk: &mut HeaderWalk<'_>) -> Result<HeaderLayer, WalkStop> {
    let [version, _, high, low, ..] = walk.peek::<8>()?;
    if version >> 6 != 0 {
        return Err(WalkStop::Other);
    }
    walk.at += 8 + usize::from(version & 0x3f) * 4;
    Ok(ether_type_layer(u16::from_be_bytes([high, low])))
}
