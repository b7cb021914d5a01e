//! Byte streams without frames, as captures keep them: UNIX sockets and, in old captures, calls of a TLS library.
//!
//! All or part of the bytes of one call are a packet of link type 252 (`LINKTYPE_WIRESHARK_UPPER_PDU`): tags, then the bytes.
//! Wireshark passes the bytes to the dissector of the server's port. All tags are registered (Wireshark's
//! `wsutil/exported_pdu_tlvs.h`); everything else is text in the tag for the information column.
//!
//! ```text
//! tag:   type u16, length u16, value; big-endian; the last has type 0 and no value
//! text:  "stream 1", transport, number, ">" to the server or "<" from it, offset, marks, client, server
//! marks: "s" if the stream is known from its first byte, "e" if it ends here, "-" for neither
//! ```

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::io::Write as _;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

const END: u16 = 0;
const DISSECTOR: u16 = 12;
const DISSECTOR_TABLE: u16 = 14;
const IPV4_SOURCE: u16 = 20;
const IPV4_DESTINATION: u16 = 21;
const IPV6_SOURCE: u16 = 22;
const IPV6_DESTINATION: u16 = 23;
const PORT_TYPE: u16 = 24;
const SOURCE_PORT: u16 = 25;
const DESTINATION_PORT: u16 = 26;
const TABLE_NUMBER: u16 = 32;
const COLUMN_TEXT: u16 = 36;

/// `EXP_PDU_PT_TCP`.
const TCP: u32 = 2;
/// Start of the text, with the version of its format.
pub(crate) const FORMAT: &str = "stream 1 ";
/// Start of the text of a packet with a call of a TLS library, whose bytes were also sent in frames of the capture. Old
/// captures have them.
const CALL: &str = "tls 1 ";
/// Length of a tag's header.
const TAG: usize = 4;
/// More tags than our packets have.
const MOST_TAGS: usize = 32;
/// Offset, type and length of the tags before the text in the usual packets: IPv6 addresses, and a protocol with a port.
/// All UNIX sockets are written this way, except for unknown protocols.
const USUAL: [(usize, u16, u16); 7] = [
    (0, DISSECTOR_TABLE, TABLE.len() as u16),
    (12, TABLE_NUMBER, 4),
    (20, IPV6_SOURCE, 16),
    (40, IPV6_DESTINATION, 16),
    (60, PORT_TYPE, 4),
    (68, SOURCE_PORT, 4),
    (76, DESTINATION_PORT, 4),
];
/// Offset of the text's tag in these.
const USUAL_TEXT: usize = 84;
const TABLE: &[u8; 8] = b"tcp.port";
/// Digits of the largest offset.
const MOST_DIGITS: usize = 20;
/// Unique local addresses (RFC 4193) that stand for processes and for paths.
const PROCESSES: u64 = 0xfd6f_7665_7268_0000;
const PATHS: u64 = 0xfd6f_7665_7268_0001;

crate::enum_with! {
    /// The carrier of the bytes of a connection.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "kebab-case")]
    pub enum Transport, name: &'static str {
        /// TCP, in frames.
        #[default]
        Tcp = "tcp",
        /// A UNIX stream socket: no frames, no link.
        Unix = "unix",
        /// Calls of a TLS library, in clear: no frames. Only in old records and captures.
        TlsPlaintext = "tls-plaintext",
        /// Of a run: its connections differ, and each names its carrier.
        Mixed = "mixed",
    }
}

impl Transport {
    /// Returns whether the bytes came in frames, whose headers are in the ledger.
    pub const fn has_frames(self) -> bool {
        matches!(self, Self::Tcp | Self::Mixed)
    }
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A piece of a stream. Its bytes follow the tags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamPiece<'a> {
    /// [`Transport::Unix`] or [`Transport::TlsPlaintext`].
    pub transport: Transport,
    /// Number of the connection, unique within a capture.
    pub id: u64,
    pub to_server: bool,
    /// Bytes of the direction before this piece, from its start or from when it was first seen.
    pub offset: u64,
    /// Offsets count from the connection's first byte.
    pub begins: bool,
    /// The connection ends with this piece.
    pub ends: bool,
    /// The client, without spaces, such as `pid:4711`.
    pub client: &'a str,
    /// The server, such as `unix:/run/redis.sock`.
    pub server: &'a str,
    /// Real addresses, or placeholders: see [`unix_ends`].
    pub addresses: [SocketAddr; 2],
}

impl<'a> StreamPiece<'a> {
    /// Returns the addresses of sender and receiver.
    pub fn direction(&self) -> (SocketAddr, SocketAddr) {
        let [client, server] = self.addresses;
        if self.to_server { (client, server) } else { (server, client) }
    }

    /// Reads the tags of a packet and returns their length. `None` for other packets of the link type, and for incomplete
    /// tags.
    pub fn read(bytes: &'a [u8]) -> Option<(Self, usize)> {
        let (tags, at) = Tags::read(bytes)?;
        Some((Self::from_text(tags.text?, tags.ends)?, at))
    }

    fn from_text(text: &'a [u8], ends: TagEnds) -> Option<Self> {
        let mut rest = text.strip_prefix(FORMAT.as_bytes())?;
        let mut word = || {
            let (word, others) = rest.split_at_checked(rest.iter().position(|byte| *byte == b' ')?)?;
            rest = others.get(1..)?;
            (!word.is_empty()).then_some(word)
        };
        let transport = match word()? {
            b"unix" => Transport::Unix,
            b"tls-plaintext" => Transport::TlsPlaintext,
            _ => return None,
        };
        let number = |word: &[u8]| std::str::from_utf8(word).ok()?.parse().ok();
        let id = number(word()?)?;
        let to_server = match word()? {
            b">" => true,
            b"<" => false,
            _ => return None,
        };
        let offset = number(word()?)?;
        let marks = word()?;
        let client = std::str::from_utf8(word()?).ok()?;
        let server = std::str::from_utf8(rest).ok().filter(|server| !server.is_empty())?;
        let [source, destination] = ends.addresses()?;
        Some(Self {
            transport,
            id,
            to_server,
            offset,
            begins: marks.contains(&b's'),
            ends: marks.contains(&b'e'),
            client,
            server,
            addresses: if to_server { [source, destination] } else { [destination, source] },
        })
    }

    /// Appends the tags to `out`; the caller appends the bytes.
    pub fn write(&self, out: &mut Vec<u8>) {
        PieceTags::new(self).write(self.offset, self.ends, out);
    }
}

/// The tags of one direction, prepared once, because every write of a process makes a piece.
#[derive(Clone, Debug)]
pub struct PieceTags {
    /// Everything up to the offset, and the position of the text's tag.
    head: Vec<u8>,
    text: usize,
    begins: bool,
    /// Client and server, and the last tag.
    tail: Vec<u8>,
}

impl PieceTags {
    /// Prepares the tags of all pieces that differ from `piece` only in offset and end.
    pub fn new(piece: &StreamPiece<'_>) -> Self {
        let (mut head, mut tail) = (Vec::new(), Vec::new());
        Tags::write_ends(piece.direction(), piece.addresses[1].port(), &mut head);
        let text = head.len();
        put(&mut head, COLUMN_TEXT, FORMAT.as_bytes());
        let to = if piece.to_server { '>' } else { '<' };
        let _ = write!(head, "{} {} {to} ", piece.transport, piece.id);
        let _ = write!(tail, " {} {}", piece.client, piece.server);
        put(&mut tail, END, &[]);
        Self { head, text, begins: piece.begins, tail }
    }

    /// Appends the tags of the piece at this offset to `out`; the caller appends the bytes.
    pub fn write(&self, offset: u64, ends: bool, out: &mut Vec<u8>) {
        let text = out.len() + self.text;
        out.extend_from_slice(&self.head);
        put_number(out, offset);
        out.push(b' ');
        out.extend_from_slice(marks(self.begins, ends).as_bytes());
        out.extend_from_slice(&self.tail);
        // The last tag is not part of the text.
        let length = (out.len() - text - 2 * TAG) as u16;
        if let Some(place) = out.get_mut(text + 2..text + TAG) {
            place.copy_from_slice(&length.to_be_bytes());
        }
    }
}

fn put_number(out: &mut Vec<u8>, mut number: u64) {
    let mut digits = [0; MOST_DIGITS];
    let mut from = MOST_DIGITS;
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + (number % 10) as u8;
        number /= 10;
        from -= 1;
        if number == 0 {
            break;
        }
    }
    out.extend_from_slice(digits.get(from..).unwrap_or_default());
}

/// The tags of one of our packets.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tags<'a> {
    pub(crate) text: Option<&'a [u8]>,
    pub(crate) ends: TagEnds,
}

impl<'a> Tags<'a> {
    /// Returns the tags and their length; `None` if they are incomplete.
    pub(crate) fn read(bytes: &'a [u8]) -> Option<(Self, usize)> {
        if let Some((head, text, at)) = usual(bytes) {
            return Some((Self { text: Some(text), ends: TagEnds::usual(head)? }, at));
        }
        let (mut at, mut tags) = (0, Self::default());
        for _ in 0..MOST_TAGS {
            let (kind, value) = tag(bytes, at)?;
            at += TAG + value.len();
            match kind {
                END => return Some((tags, at)),
                COLUMN_TEXT => tags.text = Some(value),
                _ => tags.ends.tag(kind, value)?,
            }
        }
        None
    }

    /// Appends the tags for sender, receiver and dissector; the latter follows from the server's port, if there is one.
    pub(crate) fn write_ends((source, destination): (SocketAddr, SocketAddr), server_port: u16, out: &mut Vec<u8>) {
        if server_port > 0 {
            put(out, DISSECTOR_TABLE, TABLE);
            put(out, TABLE_NUMBER, &u32::from(server_port).to_be_bytes());
        } else {
            put(out, DISSECTOR, b"data");
        }
        put_address(out, source.ip(), [IPV4_SOURCE, IPV6_SOURCE]);
        put_address(out, destination.ip(), [IPV4_DESTINATION, IPV6_DESTINATION]);
        put(out, PORT_TYPE, &TCP.to_be_bytes());
        put(out, SOURCE_PORT, &u32::from(source.port()).to_be_bytes());
        put(out, DESTINATION_PORT, &u32::from(destination.port()).to_be_bytes());
    }
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TagEnds {
    addresses: [Option<IpAddr>; 2],
    ports: [Option<u16>; 2],
}

impl TagEnds {
    /// Reads tags at their usual offsets.
    fn usual(head: &[u8; USUAL_TEXT]) -> Option<Self> {
        let address = |at: usize| Some(IpAddr::from(*head.get(at + TAG..)?.first_chunk::<16>()?));
        let port = |at: usize| u16::try_from(u32::from_be_bytes(*head.get(at + TAG..)?.first_chunk()?)).ok();
        let [_, _, (source, ..), (destination, ..), _, (from, ..), (to, ..)] = USUAL;
        let addresses = [address(source), address(destination)];
        Some(Self { addresses, ports: [Some(port(from)?), Some(port(to)?)] })
    }

    /// Reads one tag; `None` if its value has the wrong length.
    fn tag(&mut self, kind: u16, value: &[u8]) -> Option<()> {
        let port = |value: &[u8]| u16::try_from(u32::from_be_bytes(value.try_into().ok()?)).ok();
        match kind {
            IPV4_SOURCE => self.addresses[0] = Some(<[u8; 4]>::try_from(value).ok()?.into()),
            IPV4_DESTINATION => self.addresses[1] = Some(<[u8; 4]>::try_from(value).ok()?.into()),
            IPV6_SOURCE => self.addresses[0] = Some(<[u8; 16]>::try_from(value).ok()?.into()),
            IPV6_DESTINATION => self.addresses[1] = Some(<[u8; 16]>::try_from(value).ok()?.into()),
            SOURCE_PORT => self.ports[0] = Some(port(value)?),
            DESTINATION_PORT => self.ports[1] = Some(port(value)?),
            _ => {}
        }
        Some(())
    }

    pub(crate) fn addresses(self) -> Option<[SocketAddr; 2]> {
        let ([source, destination], [from, to]) = (self.addresses, self.ports);
        Some([SocketAddr::new(source?, from?), SocketAddr::new(destination?, to?)])
    }
}

const fn marks(begins: bool, ends: bool) -> &'static str {
    match (begins, ends) {
        (false, false) => "-",
        (true, false) => "s",
        (false, true) => "e",
        (true, true) => "se",
    }
}

fn tag(bytes: &[u8], at: usize) -> Option<(u16, &[u8])> {
    let [kind_high, kind_low, high, low] = *bytes.get(at..)?.first_chunk()?;
    let length = usize::from(u16::from_be_bytes([high, low]));
    Some((u16::from_be_bytes([kind_high, kind_low]), bytes.get(at + TAG..at + TAG + length)?))
}

pub(crate) fn put(out: &mut Vec<u8>, kind: u16, value: &[u8]) {
    out.extend(kind.to_be_bytes());
    out.extend((value.len() as u16).to_be_bytes());
    out.extend(value);
}

fn put_address(out: &mut Vec<u8>, address: IpAddr, [v4, v6]: [u16; 2]) {
    match address {
        IpAddr::V4(address) => put(out, v4, &address.octets()),
        IpAddr::V6(address) => put(out, v6, &address.octets()),
    }
}

/// Returns placeholder addresses for a connection between a process and the server at a path. They are unique local
/// addresses, equal for the same process and path, but different for each connection `id`. Wireshark chooses its dissector
/// by `port`, the server's usual one; 0 if the protocol is unknown.
pub fn unix_ends(pid: u32, path: &str, id: u64, port: u16) -> [SocketAddr; 2] {
    let client = u128::from(PROCESSES) << 64 | u128::from(pid) << 32 | u128::from((id >> 16) as u32);
    let server = u128::from(PATHS) << 64 | u128::from(hash(path.as_bytes()));
    [SocketAddr::new(Ipv6Addr::from(client).into(), id as u16), SocketAddr::new(Ipv6Addr::from(server).into(), port)]
}

/// Returns the placeholder address of a process without its connection; any other address unchanged.
pub fn process_of(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V6(v6) if (v6.to_bits() >> 64) as u64 == PROCESSES => {
            Ipv6Addr::from_bits(v6.to_bits() & !u128::from(u32::MAX)).into()
        }
        other => other,
    }
}

/// FNV-1a: enough to keep a few paths apart.
fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

/// Returns the bytes before the text, the text, and the length of the tags, if all are at their usual offsets.
#[inline]
fn usual(bytes: &[u8]) -> Option<(&[u8; USUAL_TEXT], &[u8], usize)> {
    let (head, rest) = bytes.split_first_chunk::<USUAL_TEXT>()?;
    let is_there = |&(at, kind, length): &(usize, u16, u16)| {
        let [kind, length] = [kind, length].map(u16::to_be_bytes);
        head.get(at..at + TAG) == Some(&[kind[0], kind[1], length[0], length[1]])
    };
    if !USUAL.iter().all(is_there) {
        return None;
    }
    let (kind, text) = tag(rest, 0)?;
    let end = TAG + text.len();
    match (kind, tag(rest, end)?) {
        (COLUMN_TEXT, (END, last)) => Some((head, text, USUAL_TEXT + end + TAG + last.len())),
        _ => None,
    }
}

/// Returns the last text of the information column and the length of the tags. `None` if they are incomplete or have no
/// such text.
#[inline]
/// Returns whether a packet of the link type has a call of a TLS library next to the frames that carried its ciphertext.
pub fn is_call(packet: &[u8]) -> bool {
    column_text(packet).is_some_and(|(text, _)| text.starts_with(CALL.as_bytes()))
}

pub(crate) fn column_text(bytes: &[u8]) -> Option<(&[u8], usize)> {
    if let Some((_, text, at)) = usual(bytes) {
        return Some((text, at));
    }
    let (mut at, mut text) = (0, None);
    for _ in 0..MOST_TAGS {
        let (kind, value) = tag(bytes, at)?;
        at += TAG + value.len();
        match kind {
            END => return Some((text?, at)),
            COLUMN_TEXT => text = Some(value),
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::{Frame, LinkType};

    fn piece() -> StreamPiece<'static> {
        StreamPiece {
            transport: Transport::Unix,
            id: 70_000,
            to_server: false,
            offset: 1 << 33,
            begins: true,
            ends: false,
            client: "pid:4711",
            server: "unix:/run/a b.sock",
            addresses: unix_ends(4_711, "/run/a b.sock", 70_000, 6_379),
        }
    }

    #[test]
    fn what_is_written_is_read() {
        for (to_server, begins, ends) in [(false, true, false), (true, false, true), (true, false, false)] {
            let piece = StreamPiece { to_server, begins, ends, ..piece() };
            let mut bytes = Vec::new();
            piece.write(&mut bytes);
            let tags = bytes.len();
            bytes.extend(b"+OK\r\n");
            assert_eq!(StreamPiece::read(&bytes), Some((piece, tags)));
            for cut in 0..tags {
                assert_eq!(StreamPiece::read(&bytes[..cut]), None, "cut at {cut}");
            }
            let link = LinkType::UPPER_PDU;
            let frame = Frame { time_ns: 0, link, original_len: bytes.len() as u32, interface: 0, bytes: &bytes };
            assert_eq!(frame.wire_len(), 5, "tags are on no wire");
        }
    }

    #[test]
    fn a_call_of_an_old_capture_was_on_no_wire() {
        let mut bytes = Vec::new();
        put(&mut bytes, COLUMN_TEXT, b"tls 1 s 1 6 0 5 0 0");
        put(&mut bytes, END, &[]);
        bytes.extend(b"+OK\r\n");
        assert!(is_call(&bytes));
        assert_eq!(StreamPiece::read(&bytes), None);
        let link = LinkType::UPPER_PDU;
        let frame = Frame { time_ns: 0, link, original_len: bytes.len() as u32, interface: 0, bytes: &bytes };
        assert_eq!((frame.wire_len(), frame.captured_len()), (0, 0));
    }

    #[test]
    fn pieces_are_read_alike_wherever_their_tags_are() {
        for (offset, port) in [(0, 6_379), (9, 6_379), (10, 6_379), (u64::MAX, 6_379), (7, 0)] {
            let addresses = unix_ends(4_711, "/run/a b.sock", 70_000, port);
            let piece = StreamPiece { offset, addresses, ..piece() };
            let (mut bytes, mut others) = (Vec::new(), Vec::new());
            piece.write(&mut bytes);
            assert_eq!(usual(&bytes).is_some(), port > 0);
            // A Wireshark option unrelated to the stream.
            put(&mut others, 33, b"x");
            others.extend(&bytes);
            assert!(usual(&others).is_none());
            assert_eq!(StreamPiece::read(&bytes), Some((piece, bytes.len())));
            assert_eq!(StreamPiece::read(&others), Some((piece, others.len())));
        }
    }

    #[test]
    fn connections_of_a_process_differ_and_the_process_does_not() {
        let of = |id| unix_ends(4_711, "/run/redis.sock", id, 6_379);
        assert_ne!(of(1)[0], of(65_537)[0]);
        assert_eq!(of(1)[1], of(65_537)[1]);
        assert_eq!(process_of(of(1)[0].ip()), process_of(of(65_537)[0].ip()));
        assert_ne!(of(1)[1].ip(), unix_ends(4_711, "/run/valkey.sock", 1, 6_379)[1].ip());
    }

    #[test]
    fn packets_of_other_programs_are_none_of_ours() {
        let mut bytes = Vec::new();
        put(&mut bytes, DISSECTOR, b"sip");
        put(&mut bytes, END, &[]);
        assert_eq!(StreamPiece::read(&bytes), None);
    }
}
