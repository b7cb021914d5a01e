//! What a TLS library was called with, beside the frames that carried it: how captures keep it.
//!
//! A part of a call is a packet of link type 252, as the pieces of [`crate::stream`] are: tags, then the bytes. Wireshark shows them
//! in clear. They were on no wire: their records are in frames of the same capture, and these take their content from here.
//!
//! ```text
//! text:  "tls 1", "s" where the sender's library was called or "r" for the receiver's, first and last number in TCP, place of the
//!        call's bytes in all that the library has moved, bytes of the call, bytes of it before these, bytes that could not be had
//!        "tls 1 announced": such packets are to be expected from here on
//! ```

use crate::stream::{Tags, column_text, put, put_text};
use std::fmt::Write as _;
use std::net::SocketAddr;

/// First words of the text, with the version of its format.
const FORMAT: &str = "tls 1 ";
const ANNOUNCED: &str = "announced";

/// A packet of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallPacket<'a> {
    /// Calls are taken from here on.
    Announcement,
    /// A part of what one call has moved.
    Part(CallPart<'a>),
}

/// A part of what one call of a TLS library has moved through a TCP connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallPart<'a> {
    /// Who has sent the bytes.
    pub sender: SocketAddr,
    /// Who has received them.
    pub receiver: SocketAddr,
    /// It was the sender's library that was called.
    pub sent: bool,
    /// TCP sequence numbers of the first byte that was moved for the call, and behind the last one.
    pub sequence: [u32; 2],
    /// Place of the call's first byte in what the library has moved.
    pub call_start: u64,
    /// Bytes of the call.
    pub call_len: u64,
    /// Bytes of the call before these.
    pub before: u64,
    /// Bytes here. Where they could not be had, `bytes` is empty.
    pub len: u32,
    /// The bytes.
    pub bytes: &'a [u8],
}

impl<'a> CallPacket<'a> {
    /// Reads a packet; `None` for other packets of the link type, and where it was not captured whole.
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

    /// Appends the packet to `out`. `server_port` says whose dissector Wireshark is to show the bytes with.
    pub fn write(&self, server_port: u16, out: &mut Vec<u8>) {
        let mut text = FORMAT.to_owned();
        match self {
            Self::Announcement => text.push_str(ANNOUNCED),
            Self::Part(part) => {
                let CallPart { sent, sequence: [from, to], call_start, call_len, before, len, bytes, .. } = part;
                let (end, missing) = (if *sent { 's' } else { 'r' }, *len as usize - bytes.len());
                // Writing to memory does not fail.
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
