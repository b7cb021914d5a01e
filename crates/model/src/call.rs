//! Calls of a TLS library, as captures keep them next to the frames that carried their ciphertext.
//!
//! Part of a call is a packet of link type 252, like the pieces of [`crate::stream`]: tags, then the bytes. Wireshark shows
//! them in clear. They were not on a wire: the frames of the same capture have their records, whose content comes from here.
//!
//! ```text
//! text:  "tls 1", "s" if the sender's library was called or "r" if the receiver's, first and last TCP sequence number,
//!        position of the call's bytes in the library's stream, length of the call, bytes of it before these, unreadable bytes
//!        "tls 1 announced": such packets may follow
//! ```

use crate::stream::{Tags, column_text, put, put_text};
use std::fmt::Write as _;
use std::net::SocketAddr;

/// Start of the text, with the version of its format.
const FORMAT: &str = "tls 1 ";
const ANNOUNCED: &str = "announced";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallPacket<'a> {
    /// Calls are recorded from here on.
    Announcement,
    Part(CallPart<'a>),
}

/// Some of the bytes that one call of a TLS library moved through a TCP connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallPart<'a> {
    pub sender: SocketAddr,
    pub receiver: SocketAddr,
    /// The sender's library was called, not the receiver's.
    pub sent: bool,
    /// TCP sequence numbers of the first byte moved for the call, and after the last one.
    pub sequence: [u32; 2],
    /// Position of the call's first byte in the library's stream.
    pub call_start: u64,
    /// Bytes of the call.
    pub call_len: u64,
    /// Bytes of the call before these.
    pub before: u64,
    /// Bytes in this part. If they could not be read, `bytes` is empty.
    pub len: u32,
    pub bytes: &'a [u8],
}

impl<'a> CallPacket<'a> {
    /// Reads a packet. Returns `None` for other packets of the link type and for incomplete ones.
    pub fn read(packet: &'a [u8]) -> Option<Self> {
        // Most packets are pieces of streams.
        column_text(packet).filter(|(text, _)| text.starts_with(FORMAT.as_bytes()))?;
        let (tags, at) = Tags::read(packet)?;
        let text = std::str::from_utf8(tags.text?).ok()?.strip_prefix(FORMAT)?;
        if text == ANNOUNCED {
            return Some(Self::Announcement);
        }
        let mut words = text.split(' ');
        let sent = match words.next()? {
            "s" => true,
            "r" => false,
            _ => return None,
        };
        let mut number = || words.next()?.parse::<u64>().ok();
        let sequence = [number()?.try_into().ok()?, number()?.try_into().ok()?];
        let (call_start, call_len, before, missing) = (number()?, number()?, number()?, number()?);
        let bytes = packet.get(at..)?;
        let len = u64::from(u32::try_from(bytes.len()).ok()?) + missing;
        let is_within = before.checked_add(len)? <= call_len && call_start.checked_add(call_len).is_some();
        let [sender, receiver] = tags.ends.addresses()?;
        (is_within && (missing == 0 || bytes.is_empty())).then_some(Self::Part(CallPart {
            sender,
            receiver,
            sent,
            sequence,
            call_start,
            call_len,
            before,
            len: len.try_into().ok()?,
            bytes,
        }))
    }

    /// Appends the packet to `out`. Wireshark picks its dissector by `server_port`.
    pub fn write(&self, server_port: u16, out: &mut Vec<u8>) {
        let mut text = FORMAT.to_owned();
        match self {
            Self::Announcement => text.push_str(ANNOUNCED),
            Self::Part(part) => {
                let CallPart { sent, sequence: [from, to], call_start, call_len, before, len, bytes, .. } = part;
                let (end, missing) = (if *sent { 's' } else { 'r' }, *len as usize - bytes.len());
                let _ = write!(text, "{end} {from} {to} {call_start} {call_len} {before} {missing}");
                Tags::write_ends((part.sender, part.receiver), server_port, out);
            }
        }
        put_text(out, &text);
        put(out, 0, &[]);
        if let Self::Part(part) = self {
            out.extend_from_slice(part.bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::{Frame, LinkType};
    use crate::stream::StreamPiece;

    fn part(bytes: &[u8]) -> CallPart<'_> {
        CallPart {
            sender: "[::1]:40000".parse().unwrap(),
            receiver: "[::1]:6379".parse().unwrap(),
            sent: false,
            sequence: [u32::MAX - 3, 20],
            call_start: 1 << 40,
            call_len: 30,
            before: 7,
            len: 5,
            bytes,
        }
    }

    #[test]
    fn what_is_written_is_read() {
        for packet in [CallPacket::Announcement, CallPacket::Part(part(b"+OK\r\n")), CallPacket::Part(part(b""))] {
            let mut bytes = Vec::new();
            packet.write(6379, &mut bytes);
            assert_eq!(CallPacket::read(&bytes), Some(packet));
            assert_eq!(StreamPiece::read(&bytes), None, "it is no stream of its own");
            let link = LinkType::UPPER_PDU;
            let frame = Frame { time_ns: 0, link, original_len: bytes.len() as u32, interface: 0, bytes: &bytes };
            assert_eq!((frame.wire_len(), frame.captured_len()), (0, 0), "it was on no wire");
        }
    }

    #[test]
    fn a_part_is_within_its_call() {
        let mut bytes = Vec::new();
        CallPacket::Part(CallPart { before: 26, ..part(b"+OK\r\n") }).write(6379, &mut bytes);
        assert_eq!(CallPacket::read(&bytes), None);
    }
}
