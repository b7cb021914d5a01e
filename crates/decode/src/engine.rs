//! The loop that feeds the two streams of a connection to a decoder.

mod streams;

use super::{DecodeStep, Decoder, Input, Malformed, MessageBoundary, Note, Out, Reader, Step};
use crate::limits;
use overhead_model::Side;
use std::hash::Hasher;
pub use streams::StreamStates;
use streams::{StreamState, StreamSync};

/// Name of the row for bytes without a known message boundary.
const UNDECODED: &str = "(undecoded)";

/// Feeds a connection's bytes to its decoder and keeps only the tail of an incomplete message.
///
/// It handles no layer between TCP and the protocol: a direction that turns to TLS is given up.
#[derive(Debug)]
pub struct DecoderEngine<D> {
    pub decoder: D,
    streams: StreamStates,
}

impl<D: Decoder> DecoderEngine<D> {
    /// `mid_stream` means that the handshake was not captured.
    pub fn new(decoder: D, mid_stream: bool) -> Self {
        Self { decoder, streams: StreamStates::new(mid_stream) }
    }

    #[inline]
    fn driver(&mut self) -> EngineDriver<'_, D> {
        EngineDriver::new(&mut self.decoder, &mut self.streams)
    }

    /// Takes the next bytes of `side`.
    #[inline]
    pub fn bytes<R: Reader>(&mut self, side: Side, bytes: &[u8], reader: &mut R) {
        self.driver().bytes(side, bytes, reader);
    }

    /// Takes `n` bytes of `side` that cannot be read: they were snapped, or are in no captured frame.
    pub fn opaque<R: Reader>(&mut self, side: Side, n: u64, reader: &mut R) {
        self.driver().opaque(side, n, reader);
    }

    /// Frees unused memory.
    pub fn shrink(&mut self) {
        self.streams.shrink();
    }

    /// Closes pending requests as unanswered: nothing of the server was captured.
    pub fn abandon<R: Reader>(&mut self, reader: &mut R) {
        self.driver().abandon(reader);
    }

    /// Stops decoding: the connection is of another protocol.
    pub fn refuse(&mut self) {
        self.streams.0.iter_mut().for_each(|stream| stream.state = StreamSync::Dead);
    }

    /// Returns the number of [`Decoder::idle_state`] if no incomplete message is kept and nothing was lost.
    #[inline]
    pub fn idle_state(&self) -> Option<u64> {
        if self.streams.is_settled() { self.decoder.idle_state() } else { None }
    }

    /// See [`Decoder::feed_state`].
    pub fn feed_state(&self, state: &mut impl Hasher) -> bool {
        self.decoder.feed_state(state)
    }

    /// Returns the approximate memory held, in bytes, beyond its own size.
    #[inline]
    pub fn held(&self) -> usize {
        self.streams.held() + self.decoder.held()
    }

    /// Ends the connection: posts what is left to `unknown`.
    pub fn finish<R: Reader>(&mut self, reader: &mut R) {
        for side in Side::BOTH {
            self.driver().finish_side(side, reader);
        }
        self.decoder.end(&mut Out::new(reader, Side::Request, None));
    }
}

/// The loop without the decoder and its streams, which it borrows.
#[derive(Debug)]
pub struct EngineDriver<'a, D> {
    decoder: &'a mut D,
    streams: &'a mut [StreamState; 2],
}

impl<'a, D: Decoder> EngineDriver<'a, D> {
    #[inline]
    pub fn new(decoder: &'a mut D, streams: &'a mut StreamStates) -> Self {
        Self { decoder, streams: &mut streams.0 }
    }

    /// Decodes the next captured bytes of a direction.
    #[inline]
    pub fn bytes<R: Reader>(&mut self, side: Side, bytes: &[u8], reader: &mut R) {
        self.with_out(side, reader, |driver, out| driver.take(side, bytes, out));
    }

    /// Runs `post` with an output that charges the same operation as the last one did.
    #[inline]
    fn with_out<R: Reader>(&mut self, side: Side, reader: &mut R, post: impl FnOnce(&mut Self, &mut Out<'_, R>)) {
        let mut out = Out::new(reader, side, self.streams[side as usize].current);
        post(self, &mut out);
        self.streams[side as usize].current = out.current();
    }

    fn take<R: Reader>(&mut self, side: Side, mut bytes: &[u8], out: &mut Out<'_, R>) {
        self.streams[side.other() as usize].turns = true;
        let stream = &mut self.streams[side as usize];
        if stream.opaque > 0 {
            let taken = stream.extend_opaque(bytes.len() as u64);
            bytes = usize::try_from(taken).ok().and_then(|n| bytes.get(n..)).unwrap_or_default();
            self.run_tail(side, out);
        }
        if bytes.is_empty() {
            return;
        }
        if self.streams[side as usize].tail.is_empty() {
            let used = self.consume(side, Input { bytes, opaque: 0 }, out);
            let rest = usize::try_from(used).ok().and_then(|n| bytes.get(n..)).unwrap_or_default();
            if !rest.is_empty() {
                self.streams[side as usize].keep(rest, out);
            }
        } else {
            let stream = &mut self.streams[side as usize];
            if stream.state == StreamSync::Searching && std::mem::take(&mut stream.turns) {
                stream.turn = Some(stream.tail.len());
            }
            stream.keep(bytes, out);
            self.run_tail(side, out);
        }
    }

    /// Handles the next `n` bytes of a direction, which were not captured.
    pub fn opaque<R: Reader>(&mut self, side: Side, n: u64, reader: &mut R) {
        self.with_out(side, reader, |driver, out| driver.take_opaque(side, n, out));
    }

    fn take_opaque<R: Reader>(&mut self, side: Side, n: u64, out: &mut Out<'_, R>) {
        let mut left = n;
        while left > 0 {
            let stream = &mut self.streams[side as usize];
            if stream.need.is_some() {
                left -= stream.extend_opaque(left);
                self.run_tail(side, out);
                continue;
            }
            let tail = std::mem::take(&mut stream.tail);
            let before = tail.len() as u64;
            let used = self.consume(side, Input { bytes: &tail, opaque: left }, out);
            if used > before {
                left -= used - before;
            } else if self.streams[side as usize].need.is_some() {
                self.streams[side as usize].tail = tail.get(used as usize..).unwrap_or_default().to_vec();
            } else {
                self.lose(side, (before - used, left), out);
                return;
            }
        }
    }

    /// Ends `side`: posts what is left to `unknown`.
    pub fn finish_side<R: Reader>(&mut self, side: Side, reader: &mut R) {
        let stream = &mut self.streams[side as usize];
        let left = stream.tail.len() as u64 + stream.opaque;
        stream.clear();
        // A message that was cut off has no operation yet.
        let (current, name) =
            if stream.state == StreamSync::Synced { (None, "(cut off)") } else { (stream.current, UNDECODED) };
        let mut out = Out::new(reader, side, current);
        stream.strand(name, left, &mut out);
        stream.current = out.current();
    }

    pub fn abandon<R: Reader>(&mut self, reader: &mut R) {
        self.with_out(Side::Response, reader, |driver, out| driver.decoder.abandon(out));
    }

    /// Notes that the next bytes of `side` do not continue the previous ones.
    pub fn interrupt<R: Reader>(&mut self, side: Side, reader: &mut R) {
        let stream = &self.streams[side as usize];
        let left = stream.tail.len() as u64 + stream.opaque;
        self.with_out(side, reader, |driver, out| driver.search_on(side, left, out));
    }

    /// Decodes the kept tail as far as possible.
    fn run_tail<R: Reader>(&mut self, side: Side, out: &mut Out<'_, R>) {
        let stream = &mut self.streams[side as usize];
        let available = stream.tail.len() as u64 + stream.opaque;
        if stream.need.is_some_and(|need| available < need) {
            return;
        }
        let mut tail = std::mem::take(&mut stream.tail);
        let opaque = std::mem::take(&mut stream.opaque);
        let used = self.consume(side, Input { bytes: &tail, opaque }, out);
        let left = available - used;
        if left == 0 {
            tail.clear();
        } else {
            tail.drain(..usize::try_from(used).unwrap_or(usize::MAX).min(tail.len()));
            if opaque > 0 && self.streams[side as usize].need.is_none() {
                self.lose(side, (tail.len() as u64, left - tail.len() as u64), out);
                return;
            }
            self.streams[side as usize].opaque = left - tail.len() as u64;
        }
        self.streams[side as usize].tail = tail;
    }

    /// Consumes as much of `input` as possible and returns the number of bytes.
    #[inline]
    fn consume<R: Reader>(&mut self, side: Side, mut input: Input<'_>, out: &mut Out<'_, R>) -> u64 {
        let before = input.available();
        while input.available() > 0 {
            let stream = &mut self.streams[side as usize];
            let used = match stream.state {
                StreamSync::Dead => stream.strand(UNDECODED, input.available(), out),
                StreamSync::Searching => self.search(side, input, out),
                StreamSync::Synced => self.step(side, input, out),
            };
            if used == 0 {
                break;
            }
            input.advance(used);
        }
        before - input.available()
    }

    /// Runs one step of the decoder and returns the bytes it posted; 0 if it needs more.
    #[inline]
    fn step<R: Reader>(&mut self, side: Side, input: Input<'_>, out: &mut Out<'_, R>) -> u64 {
        self.streams[side as usize].need = None;
        let before = out.posted();
        let step = self.decoder.step(side, input, out);
        out.leave_all();
        let posted = out.posted() - before;
        let stream = &mut self.streams[side as usize];
        if step == Ok(Step::Progress) && posted > 0 && stream.state == StreamSync::Synced {
            stream.tried = false;
            return posted;
        }
        self.stepped(input, (step, posted), out)
    }

    /// Handles every outcome of a step except a decoded message. Returns the bytes posted or skipped.
    #[inline(never)]
    fn stepped<R: Reader>(&mut self, input: Input<'_>, (step, posted): (DecodeStep, u64), out: &mut Out<'_, R>) -> u64 {
        let side = out.side();
        match step {
            Ok(Step::Progress) if posted > 0 => {}
            Ok(Step::Need(need)) if need > input.available() => self.streams[side as usize].need = Some(need),
            Ok(Step::More) => {}
            // Unreadable bytes prove nothing about the protocol: only the boundary is lost.
            Err(_) if input.opaque > 0 => {}
            Ok(_) => self.give_up(side, Malformed("a message without bytes"), out),
            Err(malformed) => self.give_up(side, malformed, out),
        }
        let stream = &mut self.streams[side as usize];
        match stream.state {
            StreamSync::Dead if posted == 0 => stream.strand(UNDECODED, input.available(), out),
            // No message starts here after all.
            StreamSync::Searching if posted == 0 && stream.tried => {
                stream.tried = false;
                stream.strand(UNDECODED, 1, out)
            }
            // The previous message does not continue here; another may start.
            StreamSync::Searching => {
                stream.tried = true;
                if posted == 0 { self.search(side, input, out) } else { posted }
            }
            _ => {
                stream.tried &= posted == 0;
                posted
            }
        }
    }

    /// Stops decoding this direction. After a lost boundary, only until the next boundary.
    #[cold]
    fn give_up<R: Reader>(&mut self, side: Side, malformed: Malformed, out: &mut Out<'_, R>) {
        let (state, note) = if self.streams[side as usize].doubtful {
            (StreamSync::Searching, Note::LostBoundary)
        } else {
            (StreamSync::Dead, Note::Malformed(malformed.0))
        };
        out.note(note);
        self.decoder.lost(side, out);
        out.release();
        let stream = &mut self.streams[side as usize];
        stream.state = state;
        (stream.turns, stream.turn) = (false, None);
    }

    /// Gives up bytes without a known boundary, captured and opaque ones, and searches for the next one.
    #[cold]
    fn lose<R: Reader>(&mut self, side: Side, (captured, opaque): (u64, u64), out: &mut Out<'_, R>) {
        let stream = &mut self.streams[side as usize];
        if stream.state == StreamSync::Synced {
            // Nothing of a message may be lost but what is in the hole.
            stream.is_at_hole = captured == 0;
            if captured > 0 {
                out.note(Note::LostBoundary);
            }
        }
        self.search_on(side, captured + opaque, out);
    }

    /// Like [`EngineDriver::lose`] if the loss was already noted.
    fn search_on<R: Reader>(&mut self, side: Side, left: u64, out: &mut Out<'_, R>) {
        let stream = &mut self.streams[side as usize];
        if stream.state == StreamSync::Synced {
            self.decoder.lost(side, out);
            out.release();
            stream.state = StreamSync::Searching;
            stream.doubtful = true;
        }
        stream.clear();
        (stream.turns, stream.turn, stream.tried) = (true, None, false);
        stream.strand(UNDECODED, left, out);
    }

    /// Moves towards the next provable boundary and returns the bytes skipped. Returns 0 if more bytes are needed, or if
    /// the position is a boundary.
    #[cold]
    fn search<R: Reader>(&mut self, side: Side, input: Input<'_>, out: &mut Out<'_, R>) -> u64 {
        let (passed, found) = if self.decoder.resumes_at_turns() {
            self.search_turn(side, input, out)
        } else {
            self.search_bytes(side, input)
        };
        if !found && input.opaque > 0 {
            self.decoder.lost(side, out);
        }
        let stream = &mut self.streams[side as usize];
        let skipped = if found { passed as u64 } else { passed as u64 + input.opaque };
        if stream.is_at_hole && (passed > 0 || found) {
            stream.is_at_hole = false;
            if passed > 0 {
                out.note(Note::LostBoundary);
            }
        }
        stream.strand(UNDECODED, skipped, out);
        stream.tried &= skipped == 0;
        if found {
            stream.end_stretch(out);
            stream.state = StreamSync::Synced;
            if skipped == 0 {
                return self.step(side, input, out);
            }
        }
        skipped
    }

    /// Tests every byte for a boundary. Returns how many bytes to skip, and whether a boundary follows them.
    fn search_bytes(&self, side: Side, input: Input<'_>) -> (usize, bool) {
        let mut passed = 0;
        let found = loop {
            let here = input.bytes.get(passed..).unwrap_or_default();
            if here.is_empty() {
                break false;
            }
            match self.decoder.boundary(side, here) {
                MessageBoundary::Yes => break true,
                MessageBoundary::More if here.len() < limits::BOUNDARY_WINDOW && input.opaque == 0 => break false,
                MessageBoundary::More | MessageBoundary::No => passed += 1,
            }
        };
        (passed, found)
    }

    /// Like [`Self::search_bytes`], but tests only the start of a turn.
    fn search_turn<R: Reader>(&mut self, side: Side, input: Input<'_>, out: &mut Out<'_, R>) -> (usize, bool) {
        let stream = &mut self.streams[side as usize];
        if std::mem::take(&mut stream.turns) {
            stream.turn = Some(0);
        }
        if let Some(at) = stream.turn.take().filter(|at| *at < input.bytes.len()) {
            let boundary = if at > 0 { MessageBoundary::No } else { self.decoder.boundary(side, input.bytes) };
            match boundary {
                // The boundary may still be false.
                MessageBoundary::Yes => {
                    stream.doubtful = true;
                    return (0, true);
                }
                MessageBoundary::More if input.bytes.len() < limits::BOUNDARY_WINDOW && input.opaque == 0 => {
                    stream.turn = Some(0);
                    return (0, false);
                }
                MessageBoundary::More | MessageBoundary::No => {
                    // Nothing of a message that started before is lost, but a turn after it is.
                    let is_first = stream.stretch.is_none();
                    stream.is_at_hole = false;
                    out.note(if is_first { Note::MidMessage } else { Note::LostBoundary });
                    self.decoder.lost(side, out);
                    out.release();
                }
            }
            if at > 0 && input.opaque == 0 {
                // The previous turn was too short to decide; another starts after it.
                self.streams[side as usize].turn = Some(0);
                return (at, false);
            }
        }
        self.streams[side as usize].turns = input.opaque > 0;
        (input.bytes.len(), false)
    }
}
