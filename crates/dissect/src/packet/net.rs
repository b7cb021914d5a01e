//! Reads IPv4 (RFC 791) and IPv6 (RFC 8200): lengths, fragments and extension headers.

use super::walk::{HeaderLayer, HeaderWalk, WalkStop};
use etherparse::{Ipv4HeaderSlice, Ipv6HeaderSlice};
use std::net::IpAddr;

/// Protocol numbers (IANA).
pub const TCP: u8 = 6;
const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const DESTINATION_OPTIONS: u8 = 60;
const MOBILITY: u8 = 135;
const HOST_IDENTITY: u8 = 139;
const SHIM6: u8 = 140;
/// Bytes of an IPv4 header without options, and of an IPv6 header.
const V4_LEN: usize = 20;
const V6_LEN: usize = 40;
/// The jumbo payload option of the hop-by-hop header (RFC 2675 section 2).
const JUMBO: u8 = 0xc2;

pub fn v4(walk: &mut HeaderWalk<'_>) -> Result<HeaderLayer, WalkStop> {
    let header = Ipv4HeaderSlice::from_slice(walk.rest()).map_err(|_| without_v4(walk))?;
    walk.enter_ip();
    (walk.v6, walk.jumbo, walk.ip_id) = (false, false, header.identification());
    walk.addresses = (IpAddr::V4(header.source_addr()), IpAddr::V4(header.destination_addr()));
    match usize::from(header.total_len()) {
        // Left for the network card to fill in (TSO, BIG TCP): the packet ends with the frame.
        0 => {}
        len if len < header.slice().len() => return Err(WalkStop::Malformed),
        len => walk.bound(len),
    }
    walk.at += header.slice().len();
    let protocol = header.protocol().0;
    if header.is_fragmenting_payload() {
        let offset = u32::from(header.fragments_offset().byte_offset());
        let more = header.more_fragments();
        return Err(WalkStop::Fragment { id: u32::from(walk.ip_id), offset, more, protocol });
    }
    Ok(HeaderLayer::Protocol(protocol))
}

/// Reads an IPv6 header. A length of 0 means a jumbogram, whose option follows, or offload, as in IPv4.
pub fn v6(walk: &mut HeaderWalk<'_>) -> Result<HeaderLayer, WalkStop> {
    let header = Ipv6HeaderSlice::from_slice(walk.rest()).map_err(|_| without_header(walk, 6, V6_LEN))?;
    walk.enter_ip();
    (walk.v6, walk.jumbo, walk.ip_id) = (true, header.payload_length() == 0, 0);
    walk.addresses = (IpAddr::V6(header.source_addr()), IpAddr::V6(header.destination_addr()));
    walk.at += header.slice().len();
    if !walk.jumbo {
        walk.bound(usize::from(header.payload_length()));
    }
    Ok(HeaderLayer::Protocol(header.next_header().0))
}

/// Returns why no IPv4 header can be read here. The first byte contains its length.
fn without_v4(walk: &HeaderWalk<'_>) -> WalkStop {
    let len = walk.rest().first().map_or(0, |first| usize::from(first & 0x0f) * 4);
    without_header(walk, 4, len.max(V4_LEN))
}

/// Returns why no IP header of this version and length can be read here.
fn without_header(walk: &HeaderWalk<'_>, version: u8, len: usize) -> WalkStop {
    let rest = walk.rest();
    let is_other = rest.first().is_some_and(|first| first >> 4 != version);
    if is_other || rest.len() >= len { WalkStop::Malformed } else { walk.short(len) }
}

/// Returns whether an IPv6 next header is an extension header to pass. Encryption hides everything after it.
pub fn is_extension(protocol: u8) -> bool {
    matches!(protocol, HOP_BY_HOP | ROUTING | FRAGMENT | DESTINATION_OPTIONS | MOBILITY | HOST_IDENTITY | SHIM6)
}

/// Reads an extension header: next header, and a length in 8-byte units without the first.
pub fn extension(walk: &mut HeaderWalk<'_>, protocol: u8) -> Result<HeaderLayer, WalkStop> {
    if protocol == FRAGMENT {
        return fragment(walk);
    }
    let [next, units] = walk.peek()?;
    let len = (usize::from(units) + 1) * 8;
    let header = walk.rest().get(..len).ok_or_else(|| walk.short(len))?;
    if protocol == HOP_BY_HOP
        && walk.jumbo
        && let Some(len) = jumbo_payload(header.get(2..).unwrap_or_default())
    {
        walk.bound(len);
    }
    walk.at += len;
    Ok(HeaderLayer::Protocol(next))
}

/// Reads a fragment header. One that covers the whole packet (RFC 6946) is passed like any other.
fn fragment(walk: &mut HeaderWalk<'_>) -> Result<HeaderLayer, WalkStop> {
    let [protocol, _, high, low, id @ ..] = walk.peek::<8>()?;
    walk.at += 8;
    let field = u16::from_be_bytes([high, low]);
    let (offset, more) = (u32::from(field & 0xfff8), field & 1 != 0);
    if offset == 0 && !more {
        return Ok(HeaderLayer::Protocol(protocol));
    }
    Err(WalkStop::Fragment { id: u32::from_be_bytes(id), offset, more, protocol })
}

/// Returns the jumbo payload length among options; `None` if missing, or small enough for the ordinary length field.
fn jumbo_payload(mut options: &[u8]) -> Option<usize> {
    loop {
        options = match *options {
            [0, ref rest @ ..] => rest,
            [JUMBO, 4, a, b, c, d, ..] => {
                let len = u32::from_be_bytes([a, b, c, d]);
                return (len > u32::from(u16::MAX)).then_some(len as usize);
            }
            [_, len, ref rest @ ..] => rest.get(usize::from(len)..)?,
            _ => return None,
        };
    }
}
