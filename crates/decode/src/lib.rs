//! The contract of a protocol decoder: ordered bytes in, postings out.
//!
//! A [`Decoder`] is a pure, incremental function over the two byte streams of a connection. It *posts* every byte that
//! it consumes, in order, as `(account, field, length)`, and names the operation that the bytes belong to. A [`Reader`],
//! chosen at compile time, receives the postings: the ledger sums lengths, an explanation keeps field names, a test checks
//! that postings cover the message.
//!
//! ```text
//!   flow ──bytes──▶ DecoderEngine ──Input──▶ Decoder ──postings──▶ Out ──▶ Reader
//!                   (one loop for                   (one folder a                (ledger, explain,
//!                    all protocols)                  protocol)                    transcript)
//! ```
//!
//! The [`DecoderEngine`] advances by the posted bytes only, so no byte can be consumed without being posted.
//!
//! - `engine`: the loop; `cursor`, `out`: how a decoder reads and posts; `limits`: bounds on what the wire claims
//! - `pending`: the requests that wait, and what pairs them with answers
//! - `codec`, `expansion`, `pro_rata`, `split`, `tape`: compressed bytes and messages within segments
//! - `versioned`: decoder state for the memo; `near`, `numbers`: searching in text
//! - `foreign`: protocols that were not expected

#![forbid(unsafe_code)]

mod codec;
mod cursor;
pub mod engine;
mod expansion;
mod foreign;
pub mod limits;
pub mod near;
mod note;
mod numbers;
mod out;
mod pending;
mod pro_rata;
mod split;
pub mod tape;
mod versioned;

pub use codec::Codec;
pub use cursor::{Cursor, FieldRead, Short};
pub use engine::DecoderEngine;
pub use expansion::Expansion;
pub use foreign::{ApparentProtocol, ForeignTraffic};
pub use note::Note;
pub use numbers::numbers;
pub use out::{Field, Free, Label, OpId, Out, Reader, cut_in_the_middle};
pub use pending::{Moment, PendingRequest, PendingRequests, PendingVerdict};
pub use pro_rata::{OperationShares, Weigher};
pub use split::ProportionalSplit;
pub use versioned::Versioned;

use overhead_model::Side;
use std::hash::Hasher;

/// A hash table for lookups per segment or message. It is seeded at random, because a captured peer may choose the keys.
pub type FastMap<K, V> = std::collections::HashMap<K, V, foldhash::fast::RandomState>;

/// A decoder's input: the bytes at the current position of one direction.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a> {
    /// Captured bytes.
    pub bytes: &'a [u8],
    /// Bytes after these that are on the wire but cannot be read: snapped, in a gap, or beyond
    /// [`crate::limits::MESSAGE_BUFFER`]. They can only be posted.
    pub opaque: u64,
}

impl Input<'_> {
    /// Returns how many bytes can be posted now.
    pub fn available(&self) -> u64 {
        self.bytes.len() as u64 + self.opaque
    }

    /// Skips `n` bytes that were posted, the captured ones first.
    #[inline]
    pub fn advance(&mut self, n: u64) {
        let captured = usize::try_from(n).unwrap_or(usize::MAX).min(self.bytes.len());
        self.bytes = self.bytes.get(captured..).unwrap_or_default();
        self.opaque = self.opaque.saturating_sub(n - captured as u64);
    }

    /// Calls `element` until nothing is left or it returns a step other than progress, and returns the result for
    /// [`Decoder::step`]. Each call must skip the bytes it posted.
    ///
    /// # Errors
    ///
    /// Returns the error of an element.
    #[inline]
    pub fn each(self, mut element: impl FnMut(&mut Self) -> MaybeStep) -> DecodeStep {
        let mut left = self;
        let mut step = Step::Progress;
        while left.available() > 0 {
            if let Some(blocked) = element(&mut left)? {
                step = blocked;
                break;
            }
        }
        // A step's need counts from its start. If anything was consumed, the next call asks again.
        Ok(if left.available() < self.available() { Step::Progress } else { step })
    }

    /// Returns the step to wait for more bytes.
    ///
    /// # Errors
    ///
    /// Returns `reason` if the next bytes were not captured.
    pub fn await_more(&self, reason: &'static str) -> DecodeStep {
        if self.opaque > 0 { Err(Malformed(reason)) } else { Ok(Step::More) }
    }

    /// Returns the input after `n` posted bytes.
    #[must_use]
    pub fn after(mut self, n: u64) -> Self {
        self.advance(n);
        self
    }
}

/// The result of [`Decoder::step`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// At least one byte was posted; call again with the bytes that follow.
    Progress,
    /// Nothing was posted: the message at this position has exactly this many bytes, more than are available.
    ///
    /// The decoder is called again once they are available, so a long message in small pieces is inspected once. Missing
    /// bytes count too: after a gap the message is decoded with an opaque end, and the next one starts where it should.
    /// Return this as soon as the length is known.
    Need(u64),
    /// Nothing was posted: more bytes are needed, but their number is unknown (a cut header, a line without its end).
    ///
    /// The decoder is called again with each piece. If the next bytes were not captured, the boundary is lost:
    /// [`Decoder::lost`] is called, and [`Decoder::boundary`] finds the next message.
    More,
    /// At least one byte was posted. From here on both directions carry TLS records.
    Tls,
}

/// The bytes cannot be of this protocol, for the given reason. The rest of this direction is not decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Malformed(pub &'static str);

/// A step, or another result of decoding.
pub type DecodeStep<T = Step> = Result<T, Malformed>;

/// The step that ends a run of elements; `None` if the next one can be decoded.
pub type MaybeStep = DecodeStep<Option<Step>>;

/// Whether a message starts at a position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageBoundary {
    Yes,
    No,
    /// More bytes are needed (at most [`crate::limits::BOUNDARY_WINDOW`]).
    More,
}

impl MessageBoundary {
    pub fn yes_if(is_boundary: bool) -> Self {
        if is_boundary { Self::Yes } else { Self::No }
    }

    pub fn more_if(may_be_boundary: bool) -> Self {
        if may_be_boundary { Self::More } else { Self::No }
    }
}

/// `None` if more bytes are needed.
impl From<Option<bool>> for MessageBoundary {
    fn from(is_boundary: Option<bool>) -> Self {
        is_boundary.map_or(Self::More, Self::yes_if)
    }
}

/// A protocol: the state of one connection, fed by a [`DecoderEngine`].
///
/// Implementations are pure: no I/O, clock, panic or `unsafe`, and no allocation from an unchecked length.
///
/// # The life of an operation
///
/// | call | when | what it does |
/// |---|---|---|
/// | [`Out::open`] | a request starts | numbers the operation; nothing is charged to it yet |
/// | [`Out::charge`] | a message starts, in either direction | the postings of this direction go to that operation, also in later steps |
/// | [`Out::post`], or a [`Cursor`] | for each field | the next bytes go to an account, under a readable name |
/// | [`Out::label`] | the request is known | sets class, name and way of sending; the last label counts, and without one the operation is `unmatched` |
/// | [`Out::release`] | a message is complete | what follows in this direction belongs to no operation until the next charge |
/// | [`Out::close`] | the answer is complete, or none will come | sets the outcome; nothing more can be posted to it |
///
/// Several operations may be open at once. The decoder keeps their numbers, in order or by the protocol's ids, and charges the
/// one that a message belongs to. A message that answers no known request is an [`Out::orphan`], which is opened, labelled
/// `unmatched` and charged at once. Operations still open at the end are unanswered; [`Decoder::lost`] closes those whose
/// answers can no longer be identified.
///
/// # Example
///
/// Each message is a text with its length in one byte before it. Requests are answered in order.
///
/// ```
/// use overhead_testing::transcript::check;
/// use overhead_decode::{MessageBoundary, Cursor, DecodeStep, Decoder, Input, Malformed, OpId, Out, Reader, Step, limits};
/// use overhead_model::{Account, Class, Outcome, Side};
/// use std::collections::VecDeque;
///
/// #[derive(Debug, Default)]
/// struct Counted {
///     waiting: VecDeque<OpId>,
/// }
///
/// /// Posts one message and gives its text; `account` is what the text is.
/// fn message<'a, R: Reader>(total: u64, input: Input<'a>, account: Account, out: &mut Out<'_, R>) -> &'a [u8] {
///     let mut cursor = Cursor::new(input, total, out);
///     let length = cursor.skip(1, Account::Framing, "length");
///     let text = length.and_then(|()| cursor.text(total - 1, account, "text")).unwrap_or_default();
///     cursor.finish(); // Posts the rest to `unknown`, so that the next message starts where it should.
///     text
/// }
///
/// impl Decoder for Counted {
///     fn step<R: Reader>(&mut self, side: Side, input: Input<'_>, out: &mut Out<'_, R>) -> DecodeStep {
///         let Some(&length) = input.bytes.first() else { return Ok(Step::More) };
///         let total = 1 + u64::from(length);
///         if input.available() < total {
///             return Ok(Step::Need(total));
///         }
///         match side {
///             Side::Request if self.waiting.len() >= limits::OUTSTANDING => {
///                 return Err(Malformed("more requests than can be waited for"));
///             }
///             Side::Request => {
///                 let op = out.open();
///                 out.charge(op);
///                 let verb = message(total, input, Account::Query, out);
///                 out.label(op, Class::Workload, &String::from_utf8_lossy(verb), "");
///                 self.waiting.push_back(op);
///             }
///             Side::Response => {
///                 let op = self.waiting.pop_front().unwrap_or_else(|| out.orphan("RESPONSE"));
///                 out.charge(op);
///                 message(total, input, Account::Data, out);
///                 out.close(op, Outcome::Ok);
///             }
///         }
///         out.release();
///         Ok(Step::Progress)
///     }
///
///     /// Any byte may be a length: nothing proves a boundary, so a direction is not decoded after a loss.
///     fn boundary(&self, _: Side, _: &[u8]) -> MessageBoundary {
///         MessageBoundary::No
///     }
///
///     /// The lost answers are unknown, so no later answer can be paired.
///     fn lost<R: Reader>(&mut self, side: Side, out: &mut Out<'_, R>) {
///         if side == Side::Response {
///             self.waiting.drain(..).for_each(|op| out.close(op, Outcome::Unanswered));
///         }
///     }
///
///     fn held(&self) -> usize {
///         self.waiting.capacity() * size_of::<OpId>()
///     }
/// }
///
/// // Two requests at once, then their answers. `check` also cuts them at every byte.
/// let transcript = check(Counted::default, &[(Side::Request, b"\x03GET\x03SET"), (Side::Response, b"\x01x\x00")]);
/// assert_eq!(
///     transcript.summary(),
///     ["workload GET [] ok: framing 1, query 3 | framing 1, data 1", "workload SET [] ok: framing 1, query 3 | framing 1"]
/// );
/// ```
pub trait Decoder {
    /// Decodes one message, or one element of a long message, from the start of `input` and posts exactly the bytes it
    /// consumes. Return [`Step::Need`] and [`Step::More`] before posting anything.
    ///
    /// For a length-prefixed message, return [`Step::Need`] until `input.available()` covers it, then decode it with a
    /// [`Cursor`]. [`Cursor::finish`] posts what could not be decoded to `unknown`, so a damaged, snapped or unknown
    /// message never costs the boundary of the next.
    ///
    /// # Errors
    ///
    /// Returns [`Malformed`] if no message can start here. Bytes posted before remain posted.
    fn step<R: Reader>(&mut self, side: Side, input: Input<'_>, out: &mut Out<'_, R>) -> DecodeStep;

    /// Returns whether `bytes` provably start a message of this direction. Called at the start of a connection without a
    /// captured handshake, and at every byte after a loss, unless [`Decoder::resumes_at_turns`] is set.
    fn boundary(&self, side: Side, bytes: &[u8]) -> MessageBoundary;

    /// Returns whether boundaries are only trusted at the start of a turn: at the first byte after bytes of the other side,
    /// or after lost bytes. For protocols whose messages can be almost any bytes. Other positions go to `unknown`.
    /// If a turn starts with anything else, [`Decoder::lost`] is called.
    fn resumes_at_turns(&self) -> bool {
        false
    }

    /// Handles bytes of `side` lost within a message: drop state that can no longer be paired. Open operations may be
    /// closed as unanswered. Decoding of this side resumes at the next boundary.
    fn lost<R: Reader>(&mut self, side: Side, out: &mut Out<'_, R>);

    /// Ends the connection or the capture: closes operations that were only kept open for bytes that might have followed.
    fn end<R: Reader>(&mut self, _out: &mut Out<'_, R>) {}

    /// Closes pending requests as unanswered: nothing of the server was captured.
    fn abandon<R: Reader>(&mut self, out: &mut Out<'_, R>) {
        self.lost(Side::Response, out);
    }

    /// Returns a number if the connection is idle: no message is incomplete and no request is pending, in either
    /// direction. Returns `None` otherwise, or if the decoder does not support this.
    ///
    /// While two calls return the same number, equal bytes yield equal postings, labels and outcomes after both, and bytes
    /// that [`Out::post_free`] marks need not be equal. So the number must change with all state that outlives an operation
    /// and affects decoding: prepared statements, negotiated options, open transactions. A decoder that keeps this state in
    /// a [`Versioned`] gets the number from it.
    fn idle_state(&self) -> Option<u64> {
        None
    }

    /// Hashes all state behind the number of [`Decoder::idle_state`] into `state`. Returns false if it does not, for example
    /// because the state is large. Connections with equal hashes decode equal bytes equally.
    fn feed_state(&self, _state: &mut impl Hasher) -> bool {
        false
    }

    /// Returns the approximate memory held, in bytes, beyond its own size: whatever grows with what the peers send.
    fn held(&self) -> usize {
        0
    }
}
