//! A captured link-layer unit, as every source returns it.

use crate::stream;
use std::fmt;

/// A frame and its bytes, borrowed from the source.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    /// Capture time in nanoseconds since the Unix epoch.
    pub time_ns: u64,
    /// Link type of the capturing interface.
    pub link: LinkType,
    /// Length in bytes, before snapping: see [`Frame::wire_len`].
    pub original_len: u32,
    /// Index of the capturing interface within its source (0 if the format has only one).
    pub interface: u32,
    /// Captured bytes; fewer than `original_len` if the frame was snapped.
    pub bytes: &'a [u8],
}

impl Frame<'_> {
    /// Returns the length on the wire in bytes, before snapping. Sums of these are *wire bytes*. For a piece of a stream,
    /// only the bytes of the stream count: its tags were not on a wire.
    #[inline]
    pub fn wire_len(&self) -> u32 {
        self.original_len - self.unsent()
    }

    /// Returns how many of these bytes were captured.
    #[inline]
    pub fn captured_len(&self) -> u32 {
        self.bytes.len() as u32 - self.unsent()
    }

    #[inline]
    fn unsent(&self) -> u32 {
        if self.link == LinkType::UPPER_PDU { self.tags_len() } else { 0 }
    }

    /// Returns how many bytes of a [`LinkType::UPPER_PDU`] frame were never sent: the tags of a piece. 0 for packets of
    /// other programs.
    fn tags_len(&self) -> u32 {
        match stream::column_text(self.bytes) {
            Some((text, at)) if text.starts_with(stream::FORMAT.as_bytes()) => at as u32,
            // The bytes of a call were also sent in captured frames.
            Some(_) if stream::is_call(self.bytes) => self.bytes.len() as u32,
            _ => 0,
        }
    }
}

/// A [`Frame`] with its own copy of the bytes.
#[derive(Clone, Debug)]
pub struct OwnedFrame {
    time_ns: u64,
    link: LinkType,
    original_len: u32,
    interface: u32,
    bytes: Vec<u8>,
}

impl OwnedFrame {
    pub fn new(frame: &Frame<'_>) -> Self {
        let Frame { time_ns, link, original_len, interface, bytes } = *frame;
        Self { time_ns, link, original_len, interface, bytes: bytes.to_vec() }
    }

    pub fn frame(&self) -> Frame<'_> {
        let Self { time_ns, link, original_len, interface, ref bytes } = *self;
        Frame { time_ns, link, original_len, interface, bytes }
    }
}

/// A link-layer header type, by its number in the tcpdump.org LINKTYPE registry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LinkType(pub u16);

impl LinkType {
    /// BSD loopback, address family in host byte order.
    pub const NULL: Self = Self(0);
    pub const ETHERNET: Self = Self(1);
    /// Raw IP as some BSDs number it.
    pub const RAW_BSD: Self = Self(12);
    /// PPP, with or without the two bytes of HDLC before the protocol.
    pub const PPP: Self = Self(9);
    /// PPP in HDLC-like frames (RFC 1662).
    pub const PPP_SERIAL: Self = Self(50);
    /// A session of PPP over Ethernet, without the Ethernet header (RFC 2516).
    pub const PPP_ETHER: Self = Self(51);
    /// Raw IP as OpenBSD numbers it.
    pub const RAW_OPENBSD: Self = Self(14);
    /// Raw IPv4 or IPv6, according to the version nibble.
    pub const RAW: Self = Self(101);
    /// OpenBSD loopback, address family in network byte order.
    pub const LOOP: Self = Self(108);
    pub const LINUX_SLL: Self = Self(113);
    pub const IPV4: Self = Self(228);
    pub const IPV6: Self = Self(229);
    /// Packets of Wireshark's export, which hold streams: see [`crate::stream`].
    pub const UPPER_PDU: Self = Self(252);
    pub const LINUX_SLL2: Self = Self(276);

    /// Returns the registry's name without its `LINKTYPE_`/`DLT_` prefix, if this tool decodes the type.
    pub const fn name(self) -> Option<&'static str> {
        match self {
            Self::NULL => Some("NULL"),
            Self::ETHERNET => Some("EN10MB"),
            Self::RAW_BSD | Self::RAW_OPENBSD | Self::RAW => Some("RAW"),
            Self::PPP => Some("PPP"),
            Self::PPP_SERIAL => Some("PPP_SERIAL"),
            Self::PPP_ETHER => Some("PPP_ETHER"),
            Self::LOOP => Some("LOOP"),
            Self::LINUX_SLL => Some("LINUX_SLL"),
            Self::IPV4 => Some("IPV4"),
            Self::IPV6 => Some("IPV6"),
            Self::UPPER_PDU => Some("WIRESHARK_UPPER_PDU"),
            Self::LINUX_SLL2 => Some("LINUX_SLL2"),
            _ => None,
        }
    }
}

impl fmt::Display for LinkType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.pad(name),
            None => write!(f, "LINKTYPE_{}", self.0),
        }
    }
}
