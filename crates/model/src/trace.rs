//! The steps from bytes to operations, for observers.
//!
//! A [`Tally`] receives closed operations. If it has a [`Listener`], that receives every step before:
//! the same postings that the ledger adds up, so the details of an operation cannot differ from its totals.

use crate::account::Account;
#[cfg(doc)]
use crate::operation::OTHER;
use crate::operation::{Class, ConnectionEnds, ConnectionSummary, Operation, RowId, RowKey, Side, SideTotals};
use crate::system::Protocol;
use std::net::SocketAddr;

/// A captured frame with a TCP segment, as far as its headers show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameFacts {
    /// Number in the capture, from 1.
    pub number: u64,
    /// Number of the connection, from 1 in order of appearance, including unselected ones.
    pub connection: u64,
    /// Capture time, Unix nanoseconds.
    pub time_ns: u64,
    /// Length on the wire in bytes.
    pub wire_len: u32,
    /// Bytes of link-layer, IP and TCP headers, in this order.
    pub headers: [u32; 3],
    /// Payload on the wire.
    pub payload_len: u32,
    pub flags: TcpFlags,
    pub source: SocketAddr,
    pub destination: SocketAddr,
    /// Sequence number of its first byte, or of the `SYN`.
    pub seq: u32,
    /// The window field, unscaled (RFC 9293 section 3.1).
    pub window: u16,
}

/// The flags of a TCP segment that open, close and acknowledge.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "they are the flag bits of the header")]
pub struct TcpFlags {
    pub syn: bool,
    pub ack: bool,
    pub fin: bool,
    pub rst: bool,
}

/// One step. Operation numbers are unique on their connection; `None` is the connection's own `CONNECT`.
#[derive(Clone, Copy, Debug)]
pub enum Trace<'a> {
    /// A frame starts. The steps up to the next frame or [`Trace::Ending`] are of its connection.
    Frame(FrameFacts),
    /// A connection ends. The steps that follow are of this one.
    Ending {
        connection: u64,
    },
    /// The connection is of a selected protocol. Comes before its first posting.
    Decoding {
        protocol: Protocol,
    },
    /// Position of the current frame's payload in the stream of a direction, whether new or repeated.
    Placed {
        side: Side,
        /// Relative to the first decoded byte; negative for earlier bytes that were captured late.
        offset: i64,
    },
    /// Client and server had been confused: the sides of all earlier steps of this connection are swapped.
    Swapped,
    /// The next bytes of a direction, in order, before they are decoded.
    Bytes {
        side: Side,
        /// Captured bytes.
        bytes: &'a [u8],
        /// Bytes after these that were snapped, or are in no captured frame.
        opaque: u64,
    },
    /// Decrypted bytes. The wire has the ciphertext, from [`Trace::Bytes`].
    Decrypted {
        side: Side,
        /// Bytes of the direction to be posted before these.
        ahead: u64,
        /// Plain text, as long as the ciphertext.
        bytes: &'a [u8],
    },
    /// Bytes outside the ordered stream, before they are posted to their own operation.
    Stray {
        /// Captured bytes.
        bytes: &'a [u8],
    },
    Opened {
        op: u64,
    },
    /// Labels an operation; the last label counts.
    Labelled {
        op: Option<u64>,
        protocol: Protocol,
        class: Class,
        name: &'a str,
        via: &'static str,
        /// Empty if there is none.
        statement: &'a str,
    },
    /// Opens a group of fields.
    Enter {
        side: Side,
        group: &'static str,
    },
    /// Closes the innermost group.
    Leave {
        side: Side,
    },
    /// A field of the protocol; its [`Trace::Posted`] parts follow.
    Field {
        side: Side,
        field: &'static str,
        /// Bytes posted at once.
        len: u64,
    },
    /// A field of decompressed bytes, in order. It is not posted.
    Inner {
        side: Side,
        /// The account that it would be posted to.
        account: Account,
        field: &'static str,
        len: u64,
    },
    /// The next posted bytes are the compressed form of the [`Trace::Inner`] fields since the last such step.
    Packed {
        side: Side,
        wire: u64,
    },
    /// The next bytes of a direction were posted to an operation.
    Posted {
        side: Side,
        op: Option<u64>,
        account: Account,
        /// The frame that carried them; `None` if they were not captured, and so are in no account.
        frame: Option<u64>,
        len: u64,
        /// False outside the ordered stream ([`Trace::Stray`]).
        in_order: bool,
    },
    /// Bytes of a frame other than new payload were charged to an operation: a share of its headers, a frame without
    /// payload, or repeated payload.
    Charged {
        /// Direction of the frame.
        side: Side,
        op: Option<u64>,
        account: Account,
        frame: u64,
        bytes: u64,
    },
    /// An operation is complete and goes to the tally next.
    Closed {
        op: Option<u64>,
        operation: &'a Operation,
    },
}

/// Receives closed operations: the aggregate of the report does, and so does a list in a test.
///
/// Calls for different connections may come in any order, and the result must not depend on it. By default, all operations
/// share a row and nothing is kept, for a tally that only listens.
pub trait Tally {
    /// Returns the number of the row and statement with this key. Creates it if needed.
    fn row(&mut self, _key: RowKey<'_>) -> RowId {
        RowId(0)
    }

    /// Returns whether statements are kept separate. If not, decoders need not extract them.
    #[inline]
    fn wants_statements(&self) -> bool {
        true
    }

    /// Returns the number of statements held in memory; 0 if the tally does not hold them.
    #[inline]
    fn statements(&self) -> usize {
        0
    }

    /// Keeps the `keep` largest statements by bytes and merges the others into [`OTHER`] of their rows. The choice depends
    /// on all operations so far.
    fn shed_statements(&mut self, _keep: usize) {}

    /// Returns the current number of a row or statement, after statements were shed.
    fn renumbered(&self, row: RowId) -> RowId {
        row
    }

    /// Adds a closed operation of `row` to counts, totals and distributions.
    fn operation(&mut self, _row: RowId, _operation: &Operation) {}

    /// Adds `times` equal operations. Their latencies follow separately, by [`Tally::latency`].
    fn operations(&mut self, row: RowId, operation: &Operation, times: u64) {
        (0..times).for_each(|_| self.operation(row, operation));
    }

    /// Adds a latency in nanoseconds for `times` operations of `row`.
    fn latency(&mut self, _row: RowId, _latency_ns: u64, _times: u64) {}

    /// Returns whether [`Tally::each`] is wanted.
    #[inline]
    fn wants_each(&self) -> bool {
        false
    }

    /// Reports each closed operation of `row` once, in addition to [`Tally::operation`] and [`Tally::operations`], if
    /// [`Tally::wants_each`] returns true. Operations of a connection come in the order of closing. `start_ns` is the
    /// capture time, in Unix nanoseconds, of the frame with the request's first byte or, if unseen, the response's last
    /// byte; `None` if neither was seen.
    #[inline]
    fn each(&mut self, _row: RowId, _operation: &Operation, _start_ns: Option<u64>) {}

    /// Adds bytes that came after their operation closed: to totals, not to distributions.
    fn late(&mut self, _row: RowId, _side: Side, _totals: &SideTotals) {}

    /// Reports the end of a selected connection.
    fn connection(&mut self, _summary: ConnectionSummary) {}

    /// Returns whether connections are kept separate. If so, [`Tally::turn_to`] precedes the calls for each.
    #[inline]
    fn wants_ends(&self) -> bool {
        false
    }

    /// The calls that follow are for this connection.
    fn turn_to(&mut self, _ends: &ConnectionEnds) {}

    /// Names the ends of that connection, client first, whose addresses are only placeholders.
    fn name_ends(&mut self, _names: &[String; 2]) {}

    /// Swaps client and server of that connection, before anything is reported.
    fn swap_ends(&mut self) {}

    /// Returns the listener for the steps of each operation. Without one, the calls and their preparation are compiled
    /// away.
    #[inline]
    fn listener(&mut self) -> Option<&mut dyn Listener> {
        None
    }

    /// Turns the listener on or off, for a tally that has one only at times.
    fn listen(&mut self, _is_listening: bool) {}

    /// Returns whether the listener is only on at times. The memo is used while it is off.
    #[inline]
    fn listens_at_times(&self) -> bool {
        false
    }

    /// Passes a step to the listener.
    #[inline]
    fn trace(&mut self, step: Trace<'_>) {
        if let Some(listener) = self.listener() {
            listener.hear(step);
        }
    }
}

/// Receives each step on the way to an operation.
pub trait Listener {
    fn hear(&mut self, step: Trace<'_>);

    /// Returns whether [`Trace::Inner`] is used.
    fn wants_inner(&self) -> bool {
        false
    }
}
