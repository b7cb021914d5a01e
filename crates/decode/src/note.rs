//! What is noted about connections.

use super::{Codec, ForeignTraffic};
use std::net::SocketAddr;

/// A warning or fact about a connection, counted and reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Note {
    Tls,
    /// TLS records of a connection were not decrypted.
    Encrypted,
    /// Decryption of one direction stopped, for this reason.
    Undecryptable(&'static str),
    /// All or part of a message could not be decoded and went to `unknown`.
    UndecodedMessage,
    /// A cell or value of unknown type went to `data` as a whole, though it may have an inner structure.
    UntypedValue,
    /// A compressed body was posted in proportion to its decompressed accounts.
    ProRata,
    /// The rest of one direction is not of this protocol, for this reason.
    Malformed(&'static str),
    LostBoundary,
    /// The first bytes of a direction, or those behind a gap, are the middle of a message, so they were passed over.
    MidMessage,
    /// A retransmission had different bytes. The first ones count.
    Conflict,
    LongMessage,
    /// A compressed body claims to decompress to more than its format allows.
    Implausible(Codec),
    /// A compressed body decompresses to more than [`crate::limits::DECOMPRESSED`].
    LongBody,
    /// A compressed message was not decompressed because [`crate::limits::EXPANDED`] was spent.
    Expansion,
    /// Of a compressed packet or segment, only the first operations were decoded: see [`crate::Expansion::allows_operations`].
    ManyOperations,
    /// A connection has payload in one direction, and no frame of the other was captured.
    OneWay,
    /// Pending requests were closed as unanswered because nothing of the server was captured: there would be no end to
    /// them.
    Abandoned,
    /// An answer went to the first of several requests that it could belong to.
    Ambiguous,
    /// A frame was captured after frames that acknowledge it. Those waited for it.
    CapturedLate,
    /// The same, but too late to be waited for: an answer may have been paired with another request.
    CapturedTooLate,
    /// A frame repeats payload, and its time is before that of an earlier frame in the file.
    RepeatedBackInTime,
    /// An answer behind lost bytes could belong to any of several requests, captured or lost, and went to none.
    Unpaired,
    /// A client sent most requests of a connection while others waited: it may send by a clock.
    Overlapping,
    /// Sequence or acknowledgment numbers show bytes at the end of a direction that are in no frame.
    EndNotCaptured,
    /// A connection was joined midway, and requests were answered before the server had answered the unseen ones: answers
    /// may be shifted.
    Shifted,
    /// Both ends switched to another protocol, given by its usual name.
    Switched(&'static str),
    /// UDP datagrams that may be of a protocol decoded only over TCP.
    Datagrams {
        port: u16,
        /// The port was selected, not merely well known.
        is_selected: bool,
    },
    /// A selected connection is not decoded: its bytes are not of the expected protocol.
    Foreign(ForeignTraffic),
    /// A server's connections were captured on both sides of an address translation: with the address that clients use, and with the
    /// server's own. They count once.
    Translated {
        from: SocketAddr,
        to: SocketAddr,
    },
    /// Requests to this server went on, with the same payload, to another server of the capture before they were answered.
    Relay {
        server: SocketAddr,
    },
    /// A tap repeated many frames, but not nearly all. Repeats count as copies.
    UnsteadyTap,
    /// A tap has both ends of a path. Times are those of the end that saw a frame first.
    BothEnds,
}
