//! Finds the headers of a frame, as `overhead_dissect::packet` reads them.

use overhead_model::LinkType;
use std::ops::Range;

/// As many headers as a dissection passes.
const MOST: usize = overhead_dissect::limits::HEADERS as usize;

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
    /// UDP of a tunnel.
    Tunnel,
    Udp,
    /// ICMP, with its version of IP.
    Icmp(u8),
    /// GRE with its optional fields.
    Gre,
    /// Geneve's options.
    Options,
    Arp,
    /// Needs no change: tags, labels, fixed headers of tunnels.
    Other,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layer {
    pub kind: Kind,
    /// Its captured bytes.
    pub bytes: Range<usize>,
    /// End, on the wire, of the packet that it begins.
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

#[derive(Clone, Copy)]
enum Next {
    Ethernet,
    EtherType(u16),
    Mpls,
    Protocol(u8),
    Payload,
}

struct LayerWalk<'a> {
    bytes: &'a [u8],
    at: usize,
    end: usize,
    v6: bool,
    layers: Layers,
}

pub fn of(link: LinkType, bytes: &[u8], wire_len: usize) -> Layers {
    let mut walk = LayerWalk { bytes, at: 0, end: wire_len, v6: false, layers: Layers::default() };
    let mut next = walk.link(link);
    for _ in 0..MOST {
        next = match next {
            Next::Ethernet => walk.take(Kind::Ethernet, 14, |walk| walk.ether_type(12)),
            Next::EtherType(kind) => walk.ether(kind),
            Next::Mpls => {
                let is_last = walk.byte(2) & 1 != 0;
                walk.take(Kind::Other, 4, |walk| if is_last { walk.version(4) } else { Next::Mpls })
            }
            Next::Protocol(protocol) => walk.protocol(protocol),
            Next::Payload => break,
        };
    }
    walk.layers.payload = walk.at.min(bytes.len());
    walk.layers.end = walk.end;
    walk.layers
}

impl LayerWalk<'_> {
    fn byte(&self, at: usize) -> u8 {
        self.bytes.get(self.at + at).copied().unwrap_or_default()
    }

    fn word(&self, at: usize) -> usize {
        usize::from(self.byte(at)) << 8 | usize::from(self.byte(at + 1))
    }

    fn ether_type(&self, at: usize) -> Next {
        Next::EtherType(self.word(at) as u16)
    }

    /// Reads the version of an IP header `at` bytes ahead.
    fn version(&self, at: usize) -> Next {
        match self.byte(at) >> 4 {
            4 => Next::EtherType(0x0800),
            6 => Next::EtherType(0x86dd),
            _ => Next::Payload,
        }
    }

    /// Skips a header of `len` bytes, if it is complete. `next` is read before.
    fn take(&mut self, kind: Kind, len: usize, next: impl FnOnce(&Self) -> Next) -> Next {
        if self.at + len > self.bytes.len() || self.at + len > self.end {
            return Next::Payload;
        }
        let next = next(self);
        self.layers.all.push(Layer { kind, bytes: self.at..self.at + len, end: self.end });
        self.at += len;
        next
    }

    /// Limits the packet that begins here to `len` bytes.
    fn bound(&mut self, len: usize) {
        self.end = self.end.min(self.at.saturating_add(len));
    }

    fn link(&mut self, link: LinkType) -> Next {
        match link {
            LinkType::ETHERNET => Next::Ethernet,
            LinkType::LINUX_SLL => self.take(Kind::Cooked, 16, |walk| walk.ether_type(14)),
            LinkType::LINUX_SLL2 => self.take(Kind::Cooked, 20, |walk| walk.ether_type(0)),
            LinkType::NULL | LinkType::LOOP => {
                let family = self.bytes.first_chunk().map_or(0, |field| u32::from_le_bytes(*field));
                let next = match [family, family.swap_bytes()] {
                    [2, _] | [_, 2] => Next::EtherType(0x0800),
                    [10 | 24 | 28 | 30, _] | [_, 10 | 24 | 28 | 30] => Next::EtherType(0x86dd),
                    _ => Next::Payload,
                };
                self.take(Kind::Other, 4, |_| next)
            }
            LinkType::UPPER_PDU => Next::Payload,
            _ if link.name().is_some() => self.version(0),
            _ => Next::Payload,
        }
    }

    fn ether(&mut self, kind: u16) -> Next {
        match kind {
            0x0800 => self.v4(),
            0x86dd => self.v6(),
            0x8100 | 0x88a8 | 0x9100 => self.take(Kind::Other, 4, |walk| walk.ether_type(2)),
            0x8847 | 0x8848 => Next::Mpls,
            0x8864 if self.word(0) == 0x1100 => {
                let (len, protocol) = (self.word(4), self.word(6));
                self.end = self.end.min(self.at + 6 + len);
                self.take(Kind::Other, 8, |_| match protocol {
                    0x0021 => Next::EtherType(0x0800),
                    0x0057 => Next::EtherType(0x86dd),
                    _ => Next::Payload,
                })
            }
            0x0806 if self.word(0) == 1 && self.word(2) == 0x0800 => self.take(Kind::Arp, 28, |_| Next::Payload),
            _ => Next::Payload,
        }
    }

    fn v4(&mut self) -> Next {
        let len = usize::from(self.byte(0) & 0x0f) * 4;
        if self.byte(0) >> 4 != 4 || len < 20 {
            return Next::Payload;
        }
        let (total, protocol) = (self.word(2), self.byte(9));
        if total > 0 && total < len {
            return Next::Payload;
        }
        if total > 0 {
            self.bound(total);
        }
        self.v6 = false;
        self.layers.is_fragment |= self.word(6) & 0x3fff != 0;
        let is_behind = self.word(6) & 0x1fff != 0;
        self.take(Kind::Ipv4, len, |_| if is_behind { Next::Payload } else { Next::Protocol(protocol) })
    }

    fn v6(&mut self) -> Next {
        if self.byte(0) >> 4 != 6 {
            return Next::Payload;
        }
        let (len, next) = (self.word(4), self.byte(6));
        if len > 0 {
            self.bound(40 + len);
        }
        self.v6 = true;
        self.take(Kind::Ipv6, 40, |_| Next::Protocol(next))
    }

    fn protocol(&mut self, protocol: u8) -> Next {
        match protocol {
            6 => {
                let len = (usize::from(self.byte(12) >> 4) * 4).max(20);
                self.take(Kind::Tcp, len, |_| Next::Payload)
            }
            44 if self.v6 => {
                let (next, field) = (self.byte(0), self.word(2));
                self.layers.is_fragment |= field & 0xfff9 != 0;
                let is_behind = field & 0xfff8 != 0;
                self.take(Kind::Extension(44), 8, |_| if is_behind { Next::Payload } else { Next::Protocol(next) })
            }
            0 | 43 | 60 | 135 | 139 | 140 if self.v6 => {
                let (next, len) = (self.byte(0), (usize::from(self.byte(1)) + 1) * 8);
                self.take(Kind::Extension(protocol), len, |_| Next::Protocol(next))
            }
            4 => Next::EtherType(0x0800),
            41 => Next::EtherType(0x86dd),
            137 => Next::Mpls,
            47 => self.gre(),
            51 => {
                let (next, len) = (self.byte(0), (usize::from(self.byte(1)) + 2) * 4);
                self.take(Kind::Extension(51), len, |_| Next::Protocol(next))
            }
            17 => self.udp(),
            1 => self.take(Kind::Icmp(4), 8, |_| Next::Payload),
            58 => self.take(Kind::Icmp(6), 8, |_| Next::Payload),
            _ => Next::Payload,
        }
    }

    fn gre(&mut self) -> Next {
        let (flags, version, kind) = (self.byte(0), self.byte(1) & 7, self.word(2) as u16);
        if flags & 0x40 != 0 || version != 0 {
            return Next::Payload;
        }
        let optional = [0x80, 0x20, 0x10].iter().filter(|&&flag| flags & flag != 0).count();
        self.take(Kind::Gre, 4 + 4 * optional, |_| bridged(kind))
    }

    fn udp(&mut self) -> Next {
        let (port, len) = (self.word(2), self.word(4));
        if len >= 8 {
            self.bound(len);
        }
        match port {
            4789 | 8472 => {
                self.take(Kind::Tunnel, 8, |_| Next::Payload);
                let is_valid = self.byte(0) & 8 != 0;
                self.take(Kind::Other, 8, |_| if is_valid { Next::Ethernet } else { Next::Payload })
            }
            6081 => {
                self.take(Kind::Tunnel, 8, |_| Next::Payload);
                let (first, kind) = (self.byte(0), self.word(2) as u16);
                if first >> 6 != 0 {
                    return Next::Payload;
                }
                self.take(Kind::Other, 8, |_| Next::Payload);
                self.take(Kind::Options, usize::from(first & 0x3f) * 4, |_| bridged(kind))
            }
            _ => self.take(Kind::Udp, 8, |_| Next::Payload),
        }
    }
}

fn bridged(kind: u16) -> Next {
    if kind == 0x6558 { Next::Ethernet } else { Next::EtherType(kind) }
}
