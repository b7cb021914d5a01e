//! The one interface between ordered bytes and what is made of them.
//!
//! A [`Decoder`] is a pure, incremental function over the two byte streams of a connection. It *posts* every byte that
//! it consumes, in stream order, as `(account, field, length)` and says to which operation these bytes belong. What
//! happens to a posting is the [`Reader`]'s business and is chosen at compile time: the ledger adds lengths up, an
//! explanation keeps field names, a test checks that postings cover the message.
//!
//! ```text
//!   flow ──bytes──▶ Engine ──Input──▶ Decoder ──postings──▶ Out ──▶ Reader
//!                   (one loop for     (one folder a                (ledger, explain,
//!                    all protocols)    protocol)                    transcript)
//! ```
//!
//! Bytes cannot be consumed without being posted: the [`Engine`] advances by what was posted and by nothing else.

#![forbid(unsafe_code)]

mod codec;
mod cursor;
pub mod engine;
mod expansion;
mod foreign;
pub mod limits;
pub mod near;
mod numbers;
mod out;
mod pro_rata;
mod split;
pub mod tape;
mod versioned;

pub use codec::Codec;
pub use cursor::{Cursor, Short};
pub use engine::Engine;
pub use expansion::Expansion;
pub use foreign::{Foreign, Look};
pub use numbers::numbers;
pub use out::{CountedText, Field, Free, Label, Note, OpId, Out, Reader, cut_in_the_middle};
pub use pro_rata::{Shares, Weigher};
pub use split::Split;
pub use versioned::Versioned;

use overhead_model::Side;
use std::hash::Hasher;

/// A hash table for what is looked up for every segment or message. Its keys may be chosen by who is captured; seeds are random.
pub type FastMap<K, V> = std::collections::HashMap<K, V, foldhash::fast::RandomState>;

/// What a decoder is given: the bytes at the current position of one direction.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a> {
    /// Bytes that were captured.
    pub bytes: &'a [u8],
    /// How many bytes follow them that are on the wire but cannot be read (snapped, in a gap, or beyond
    /// [`crate::limits::MESSAGE_BUFFER`]). They can be consumed by posting them, but not read.
    pub opaque: u64,
}

impl Input<'_> {
    /// Returns how many bytes can be posted now.
    pub fn available(&self) -> u64 {
        self.bytes.len() as u64 + self.opaque
    }

    /// Moves past `n` bytes that were posted, of those that were captured first; at most as many as are available.
    #[inline]
    pub fn advance(&mut self, n: u64) {
        let captured = usize::try_from(n).unwrap_or(usize::MAX).min(self.bytes.len());
        self.bytes = self.bytes.get(captured..).unwrap_or_default();
        self.opaque = self.opaque.saturating_sub(n - captured as u64);
    }

    /// Takes element after element, each of which moves past what it posted, until nothing is left or one returns what it waits
    /// for, and returns what that comes to for [`Decoder::step`].
    ///
    /// # Errors
    ///
    /// Those of an element.
    #[inline]
    pub fn each(
        self,
        mut element: impl FnMut(&mut Self) -> Result<Option<Step>, Malformed>,
    ) -> Result<Step, Malformed> {
        let mut left = self;
        let mut step = Step::Progress;
        while left.available() > 0 {
            if let Some(blocked) = element(&mut left)? {
                step = blocked;
                break;
            }
        }
        // What a step needs is counted from its start; where something was consumed, the next call asks again.
        Ok(if left.available() < self.available() { Step::Progress } else { step })
    }

    /// Returns what is behind `n` bytes that were posted.
    #[must_use]
    pub fn after(mut self, n: u64) -> Self {
        self.advance(n);
        self
    }
}

/// What one call of [`Decoder::step`] came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// At least one byte was posted; call again with what follows.
    Progress,
    /// Nothing was posted: the message at this position is exactly this many bytes long in all, more than are available.
    ///
    /// The decoder is not asked again before as many are there, so that a long message that comes in small pieces costs one
    /// look. And it is what makes a hole survivable: bytes that were not captured count towards the number, the message is
    /// decoded with its end opaque, and the next one begins where it should. Return it as soon as a length is known.
    Need(u64),
    /// Nothing was posted: more bytes are needed, and it cannot be said how many (a header that is cut, a line without its end).
    ///
    /// The decoder is asked again with each piece. Where bytes were not captured right behind these, the boundary is lost:
    /// nothing says where the next message begins, so [`Decoder::lost`] is called, and the search goes on by
    /// [`Decoder::boundary`].
    More,
    /// From here on, both directions of the connection are TLS records. At least one byte was posted.
    Tls,
}

/// The bytes cannot be of this protocol; the rest of this direction is not decoded. Names what was wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Malformed(pub &'static str);

/// Whether a message begins at some position, as far as can be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Boundary {
    /// These bytes begin a message.
    Yes,
    /// They do not.
    No,
    /// More bytes are needed (at most [`crate::limits::BOUNDARY_WINDOW`]).
    More,
}

/// A protocol: state of one connection, fed by [`Engine`].
///
/// Implementations are pure: no I/O, clock, panic or `unsafe`, and no allocation from a length that was not checked.
///
/// # The life of an operation
///
/// | call | when | what it does |
/// |---|---|---|
/// | [`Out::open`] | a request begins | gives the operation its number; it is charged with nothing yet |
/// | [`Out::charge`] | a message begins, of either direction | what is posted next in this direction goes to that operation, in later steps too |
/// | [`Out::post`], or a [`Cursor`] | for each field | the next bytes go to an account, under a name for people |
/// | [`Out::label`] | it is known what was asked | says class, name and way of sending; the last label before the end holds, and without one it is `unmatched` |
/// | [`Out::release`] | a message is whole | what follows in this direction belongs to no operation until the next charge |
/// | [`Out::close`] | the answer is whole, or none will come | says how it ended; nothing can be posted to it any more |
///
/// Several operations may be open at once: the decoder keeps their numbers, in order or by the ids of the protocol, and
/// charges the one that a message is of. A message that answers nothing known is an [`Out::orphan`], which is opened, labelled
/// `unmatched` and charged at once. Operations that are open at the end are unanswered; [`Decoder::lost`] closes those whose
/// answers can no longer be told apart.
///
/// # Example
///
/// A protocol of which each message is a byte that counts the text behind it. Requests are answered in order.
///
/// ```
/// use overhead_testing::transcript::check;
/// use overhead_decode::{Boundary, Cursor, Decoder, Input, Malformed, OpId, Out, Reader, Step, limits};
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
///     cursor.finish(); // What could not be read goes to `unknown`, so that the next message begins where it should.
///     text
/// }
///
/// impl Decoder for Counted {
///     fn step<R: Reader>(&mut self, side: Side, input: Input<'_>, out: &mut Out<'_, R>) -> Result<Step, Malformed> {
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
///     /// Any byte may be a length: nothing proves a boundary, so that a direction is not decoded after a loss.
///     fn boundary(&self, _: Side, _: &[u8]) -> Boundary {
///         Boundary::No
///     }
///
///     /// It cannot be told which answers were lost, so none of those that follow has its request.
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
/// // Two requests at once, then their answers; `check` tries it cut at every byte, too.
/// let transcript = check(Counted::default, &[(Side::Request, b"\x03GET\x03SET"), (Side::Response, b"\x01x\x00")]);
/// assert_eq!(
///     transcript.summary(),
///     ["workload GET [] ok: framing 1, query 3 | framing 1, data 1", "workload SET [] ok: framing 1, query 3 | framing 1"]
/// );
/// ```
pub trait Decoder {
    /// Decodes one message, or one element of a long one, from the start of `input` and posts exactly the bytes it
    /// consumes. [`Step::Need`] and [`Step::More`] must be returned before anything is posted.
    ///
    /// For a length-prefixed message: return [`Step::Need`] until `input.available()` covers it, then decode it with a
    /// [`Cursor`]; its [`Cursor::finish`] posts whatever could not be decoded to `unknown`, so that a message whose inside is damaged,
    /// snapped or of an unknown kind never costs the boundary of the next.
    ///
    /// # Errors
    ///
    /// [`Malformed`] where the position cannot be the start of a message. What was posted before stays posted.
    fn step<R: Reader>(&mut self, side: Side, input: Input<'_>, out: &mut Out<'_, R>) -> Result<Step, Malformed>;

    /// Says whether `bytes` provably begin a message of this direction. Asked at the start of a connection whose handshake
    /// was not captured, and byte by byte after a loss, or only as [`Decoder::resumes_at_turns`] says.
    fn boundary(&self, side: Side, bytes: &[u8]) -> Boundary;

    /// Returns whether a boundary is believed only where a turn begins: at the first byte behind some of the other side, or
    /// behind some that were lost. For a protocol of which anything may look like a message: what is no turn is then not
    /// asked of [`Decoder::boundary`], and goes to `unknown`. Where a turn begins with something else,
    /// [`Decoder::lost`] is called.
    fn resumes_at_turns(&self) -> bool {
        false
    }

    /// Bytes of `side` were lost in the midst of a message: forget what can no longer be paired or told. Operations
    /// that were open may be closed as unanswered. Decoding of this side resumes at the next boundary.
    fn lost<R: Reader>(&mut self, side: Side, out: &mut Out<'_, R>);

    /// The connection, or the capture, is over. Operations may be closed that only waited for what could still have come.
    fn end<R: Reader>(&mut self, out: &mut Out<'_, R>) {
        let _ = out;
    }

    /// Nothing of the server is captured: closes what waits for a response as unanswered.
    fn abandon<R: Reader>(&mut self, out: &mut Out<'_, R>) {
        self.lost(Side::Response, out);
    }

    /// Returns a number while the connection is quiet: no message is incomplete and no request waits, in either direction.
    /// `None` otherwise, and for a decoder that cannot tell.
    ///
    /// As long as two calls return the same number, equal bytes come to equal postings, labels and outcomes after both, and
    /// [`Out::post_free`] says which bytes need not even be equal. So the number changes with everything that outlives an
    /// operation and that decoding depends on: prepared statements, what was negotiated, open transactions. A decoder that
    /// keeps all this in a [`Versioned`] has the number from there.
    fn quiet(&self) -> Option<u64> {
        None
    }

    /// Feeds what the number of [`Decoder::quiet`] stands for to `state`, all of it, and returns whether it has; a decoder may not
    /// where that would be much. As long as two connections of a protocol feed the same, equal bytes come to the same on both.
    fn feed_state(&self, state: &mut impl Hasher) -> bool {
        let _ = state;
        false
    }

    /// Goes from a quiet state to the one that [`Decoder::quiet`] has returned `number` for before, as the messages would have
    /// gone that led there. Returns whether it is there; where it is not, nothing has changed.
    ///
    /// What has been decoded once need not be decoded again where the same comes in a state with the same number, if the
    /// state that it led to can be reached without.
    fn resume(&mut self, number: u64) -> bool {
        self.quiet() == Some(number)
    }

    /// Returns how many bytes of memory it holds beyond its own size, roughly: what grows with what the peers send.
    fn held(&self) -> usize {
        0
    }
}
