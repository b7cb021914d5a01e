//! What happens to bytes on their way into operations, for those who want to watch.
//!
//! A [`crate::Tally`] takes closed operations. One that names a [`crate::Listener`] hears of every step to them, too: the very
//! postings that the ledger adds up, so that what it tells about an operation cannot differ from the operation's figures.

use crate::account::Account;
use crate::operation::{Class, Operation, Side};
use crate::system::Protocol;
use std::net::SocketAddr;

/// A captured frame with a TCP segment, as far as its headers tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameFacts {
    /// Its number in the capture, from 1.
    pub number: u64,
    /// The number of its connection, from 1 in order of appearance; connections that are not selected count too.
    pub connection: u64,
    /// Capture time, Unix nanoseconds.
    pub time_ns: u64,
    /// Length on the wire.
    pub wire_len: u32,
    /// Bytes of link-layer, IP and TCP headers, in this order.
    pub headers: [u32; 3],
    /// Payload on the wire.
    pub payload_len: u32,
    /// `SYN`, `FIN`, `RST` and `ACK`, as far as they are set.
    pub flags: TcpFlags,
    /// Who sent it.
    pub source: SocketAddr,
    /// Whom it was sent to.
    pub destination: SocketAddr,
    /// The sequence number of its first byte, of the `SYN` where it has one.
    pub seq: u32,
    /// The window field, unscaled (RFC 9293 section 3.1).
    pub window: u16,
}

/// The flags of a TCP segment that open, close and acknowledge.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "they are the flag bits of the header")]
pub struct TcpFlags {
    /// Synchronise: the sequence number is the initial one.
    pub syn: bool,
    /// The acknowledgment number is valid.
    pub ack: bool,
    /// No more data from the sender.
    pub fin: bool,
    /// Reset.
    pub rst: bool,
}

/// One step. Operations are named by a number that is unique on their connection; `None` is the connection's own
/// `CONNECT`.
#[derive(Clone, Copy, Debug)]
pub enum Trace<'a> {
    /// A frame begins. What follows is of its connection, until the next frame or [`Trace::Ending`].
    Frame(FrameFacts),
    /// A connection ends. What follows is of this one.
    Ending {
        /// Its number.
        connection: u64,
    },
    /// The connection is of a selected protocol; nothing was posted to operations before.
    Decoding {
        /// The protocol.
        protocol: Protocol,
    },
    /// The payload of the frame that began lies in the stream of a direction, new or repeated.
    Placed {
        /// The direction.
        side: Side,
        /// Offset of its first byte from the byte that is decoded first; below 0 for what was captured later and lies before it.
        offset: i64,
    },
    /// Client and server had been taken for each other: what was said of this connection's sides is the other way round.
    Swapped,
    /// The next bytes of a direction, in order, about to be decoded.
    Bytes {
        /// The direction.
        side: Side,
        /// Those that were captured.
        bytes: &'a [u8],
        /// How many follow that were not: snapped, or in no captured frame.
        opaque: u64,
    },
    /// Bytes that were decrypted: what the wire has there is the ciphertext of [`Trace::Bytes`].
    Decrypted {
        /// The direction.
        side: Side,
        /// How many bytes of the direction are to be posted before these.
        ahead: u64,
        /// The bytes in clear, as many as in the ciphertext.
        bytes: &'a [u8],
    },
    /// Bytes that lie outside the ordered stream, about to be posted to an operation of their own.
    Stray {
        /// The captured ones.
        bytes: &'a [u8],
    },
    /// An operation opens.
    Opened {
        /// Its number on the connection.
        op: u64,
    },
    /// What an operation is, until it is said again.
    Labelled {
        /// The operation.
        op: Option<u64>,
        /// Its protocol.
        protocol: Protocol,
        /// Its class.
        class: Class,
        /// Its name.
        name: &'a str,
        /// The way it was sent.
        via: &'static str,
        /// Its statement; empty where it has none.
        statement: &'a str,
    },
    /// Fields from here on lie in a group.
    Enter {
        /// The direction.
        side: Side,
        /// Name of the group.
        group: &'static str,
    },
    /// The innermost group ends.
    Leave {
        /// The direction.
        side: Side,
    },
    /// A field of the protocol; its [`Trace::Posted`] pieces follow.
    Field {
        /// The direction.
        side: Side,
        /// The field.
        field: &'static str,
        /// All its bytes that are posted at once.
        len: u64,
    },
    /// A field of what bytes decompress to, in order. None of it is posted.
    Inner {
        /// The direction.
        side: Side,
        /// Where it would be posted.
        account: Account,
        /// The field.
        field: &'static str,
        /// Its bytes.
        len: u64,
    },
    /// The bytes that are posted next come to the [`Trace::Inner`] fields since the last of these.
    Packed {
        /// The direction.
        side: Side,
        /// How many bytes.
        wire: u64,
    },
    /// The next bytes of a direction went to an operation.
    Posted {
        /// The direction.
        side: Side,
        /// The operation.
        op: Option<u64>,
        /// The account.
        account: Account,
        /// The frame they came in; `None` where they are in no captured frame, and in nobody's books.
        frame: Option<u64>,
        /// How many.
        len: u64,
        /// False for those outside the ordered stream ([`Trace::Stray`]).
        in_order: bool,
    },
    /// Bytes of a frame that are not its new payload went to an operation: a share of its headers, a frame without
    /// payload, or what it repeats.
    Charged {
        /// The direction of the frame.
        side: Side,
        /// The operation.
        op: Option<u64>,
        /// The account.
        account: Account,
        /// The frame.
        frame: u64,
        /// How many.
        bytes: u64,
    },
    /// An operation is over and goes to the tally next.
    Closed {
        /// The operation.
        op: Option<u64>,
        /// What it came to.
        operation: &'a Operation,
    },
}
