//! TLS below a protocol: its records and, if the keys are known, the protocol within them.
//!
//! [`LayeredDecoder`] is a decoder around a protocol's decoder. It passes everything on until the connection turns to TLS, and takes records
//! from then on. A decrypted record passes its content to a separate engine with the same protocol decoder, and that engine's postings
//! are woven into the records' postings ([`weave`]). Records that cannot be decrypted are counted ([`records`]). Known calls of the
//! library that sealed or opened the records give the content in place of keys ([`calls`]).
//!
//! Supports TLS 1.2 and 1.3 with the suites in [`suite`] and secrets from a [`KeyLog`]. Early data of TLS 1.3 is not decrypted.

mod calls;
mod crypt;
mod hello;
mod keylog;
mod records;
mod session;
mod suite;
#[cfg(test)]
mod tests;
mod weave;

pub(crate) use calls::ClearPart;
pub use keylog::KeyLog;

use crate::proxy;
use calls::{CallEvent, LibraryCalls, PendingRecord, RecordFacts};
use overhead_decode::engine::{EngineDriver, StreamStates};
use overhead_decode::limits::OUTSTANDING;
use overhead_decode::tape::TapeRecorder;
use overhead_decode::{Decoder, Input, Malformed, MessageBoundary, Note, OpId, Out, Reader, Step};
use overhead_model::{Account, Class, Outcome, Side};
use records::{APPLICATION_DATA, RecordHeader, RecordOperations};
use session::{RecordContent, RecordLayout, TlsSession, WireRecord};
use std::collections::VecDeque;
use std::hash::Hasher;
use std::sync::Arc;
use weave::{OwnContent, PostingWeave};

/// A protocol's decoder, with or without TLS around it.
#[derive(Debug)]
pub(crate) struct LayeredDecoder<D> {
    /// Stepped directly if there is no TLS.
    decoder: D,
    keys: Option<Arc<KeyLog>>,
    secured: Option<Box<SecuredStreams>>,
    /// Calls of a TLS library; absent if none are expected.
    calls: Option<Box<LibraryCalls>>,
    /// Nothing was decoded yet, so the client may begin with TLS.
    is_fresh: bool,
    is_proxied: bool,
}

#[derive(Debug)]
struct SecuredStreams {
    tls: TlsLayer,
    streams: StreamStates,
}

/// The records, and their content that is held back.
#[derive(Debug)]
struct TlsLayer {
    session: TlsSession,
    records: RecordOperations,
    weaves: [PostingWeave; 2],
    /// Operations that are over except for postings held back.
    closing: VecDeque<PendingClose>,
    text: Vec<u8>,
}

/// An operation to close once this many records of each direction are posted.
#[derive(Clone, Copy, Debug)]
struct PendingClose {
    op: OpId,
    outcome: Outcome,
    after: [u64; 2],
}

impl<D: Decoder> LayeredDecoder<D> {
    pub(crate) fn new(decoder: D, mid_stream: bool, keys: Option<Arc<KeyLog>>) -> Self {
        Self { decoder, keys, secured: None, calls: None, is_fresh: !mid_stream, is_proxied: false }
    }

    /// Returns the end of the last record that may begin an operation and still waits for a TLS library's call, as [`Self::hear`] counts.
    pub(crate) fn awaited(&self) -> Option<(Side, u64)> {
        self.calls.as_ref()?.awaited()
    }

    /// Makes records wait for calls of a TLS library from now on.
    pub(crate) fn expect_calls(&mut self) {
        self.calls.get_or_insert_default();
    }

    /// Counts bytes of `side` that are about to come.
    #[inline]
    pub(crate) fn hear(&mut self, side: Side, len: u64) {
        if let Some(calls) = &mut self.calls {
            calls.hear(side, len);
        }
    }

    pub(crate) fn call<R: Reader>(&mut self, part: ClearPart, reader: &mut R) {
        let Some(calls) = &mut self.calls else { return };
        let side = part.side;
        calls.add(part);
        if let Some(SecuredStreams { tls, streams }) = self.secured.as_deref_mut() {
            tls.tell(&mut EngineDriver::new(&mut self.decoder, streams), calls, &mut Out::new(reader, side, None));
        }
    }

    /// Posts everything held back, at the end of the connection.
    pub(crate) fn settle_all<R: Reader>(&mut self, reader: &mut R) {
        let Some(SecuredStreams { tls, streams }) = self.secured.as_deref_mut() else { return };
        let mut inner = EngineDriver::new(&mut self.decoder, streams);
        if let Some(calls) = &mut self.calls {
            let mut out = Out::new(reader, Side::Request, None);
            let mut events = Vec::new();
            calls.end(&mut events);
            tls.apply(&mut inner, events, &mut out);
        }
        for side in Side::BOTH {
            let mut out = Out::new(reader, side, None);
            if !tls.weaves[side as usize].is_idle() {
                tls.feed(side, &mut out, |recorder| inner.finish_side(side, recorder));
            }
            tls.settle(usize::MAX, &mut out);
        }
    }

    pub(crate) fn shrink(&mut self) {
        if let Some(SecuredStreams { tls, streams }) = self.secured.as_deref_mut() {
            streams.shrink();
            tls.text = Vec::new();
        }
    }

    /// Takes in a proxy header as an unanswered operation; `None` if there is none.
    #[cold]
    fn proxy<R: Reader>(&mut self, input: Input<'_>, out: &mut Out<'_, R>) -> Option<Step> {
        let len = match proxy::ProxyHeader::of(input.bytes) {
            proxy::ProxyHeader::Begun if input.opaque == 0 => return Some(Step::More),
            proxy::ProxyHeader::Begun | proxy::ProxyHeader::None => return None,
            proxy::ProxyHeader::Len(len) => len as u64,
        };
        if input.available() < len {
            return Some(Step::Need(len));
        }
        let op = out.open();
        out.charge(op);
        out.label(op, Class::Setup, "PROXY", "");
        out.post(Account::Metadata, "proxy's header", len);
        out.close(op, Outcome::NoReply);
        out.release();
        self.is_proxied = true;
        Some(Step::Progress)
    }

    fn begin<R: Reader>(&mut self, out: &mut Out<'_, R>) {
        out.note(Note::Tls);
        let tls = TlsLayer {
            session: TlsSession::new(self.keys.take(), self.calls.is_some()),
            records: RecordOperations::default(),
            weaves: [PostingWeave::default(), PostingWeave::default()],
            closing: VecDeque::new(),
            text: Vec::new(),
        };
        self.secured = Some(Box::new(SecuredStreams { tls, streams: StreamStates::new(false) }));
    }
}

impl<D: Decoder> Decoder for LayeredDecoder<D> {
    fn step<R: Reader>(&mut self, side: Side, input: Input<'_>, out: &mut Out<'_, R>) -> Result<Step, Malformed> {
        if let Some(secured) = &mut self.secured {
            return secured.step((&mut self.decoder, self.calls.as_deref_mut()), side, input, out);
        }
        if self.is_fresh && side == Side::Request {
            if !self.is_proxied
                && let Some(step) = self.proxy(input, out)
            {
                return Ok(step);
            }
            match hello::client_hello(input.bytes) {
                MessageBoundary::No => self.is_fresh = false,
                MessageBoundary::More if input.opaque == 0 => return Ok(Step::More),
                MessageBoundary::More => {}
                MessageBoundary::Yes => self.begin(out),
            }
            if let Some(secured) = &mut self.secured {
                return secured.step((&mut self.decoder, self.calls.as_deref_mut()), side, input, out);
            }
        }
        let before = out.posted();
        let step = self.decoder.step(side, input, out);
        self.is_fresh &= out.posted() == before;
        if step == Ok(Step::Tls) {
            self.begin(out);
            return Ok(Step::Progress);
        }
        step
    }

    fn boundary(&self, side: Side, bytes: &[u8]) -> MessageBoundary {
        match &self.secured {
            Some(_) => records::boundary(bytes),
            None => self.decoder.boundary(side, bytes),
        }
    }

    fn resumes_at_turns(&self) -> bool {
        self.secured.is_none() && self.decoder.resumes_at_turns()
    }

    fn lost<R: Reader>(&mut self, side: Side, out: &mut Out<'_, R>) {
        match self.secured.as_deref_mut() {
            Some(SecuredStreams { tls, streams }) => {
                tls.session.lost(side);
                tls.interrupt(&mut EngineDriver::new(&mut self.decoder, streams), side, out);
            }
            None => self.decoder.lost(side, out),
        }
    }

    fn abandon<R: Reader>(&mut self, out: &mut Out<'_, R>) {
        match self.secured.as_deref_mut() {
            Some(SecuredStreams { tls, streams }) => {
                let mut inner = EngineDriver::new(&mut self.decoder, streams);
                tls.feed(Side::Response, out, |recorder| inner.abandon(recorder));
            }
            None => self.decoder.abandon(out),
        }
    }

    fn end<R: Reader>(&mut self, out: &mut Out<'_, R>) {
        self.decoder.end(out);
    }

    #[inline]
    fn idle_state(&self) -> Option<u64> {
        if self.is_fresh || self.secured.is_some() || self.calls.is_some() { None } else { self.decoder.idle_state() }
    }

    fn feed_state(&self, state: &mut impl Hasher) -> bool {
        self.decoder.feed_state(state)
    }

    #[inline]
    fn held(&self) -> usize {
        self.decoder.held()
            + self.secured.as_deref().map_or(0, SecuredStreams::held)
            + self.calls.as_deref().map_or(0, LibraryCalls::held)
    }
}

/// The start of an operation relative to the open ones.
#[derive(Clone, Copy, Debug)]
enum OpenOrder {
    Latest,
    /// Before some of them, because it became known late.
    Earlier,
}

impl SecuredStreams {
    fn held(&self) -> usize {
        let TlsLayer { weaves, closing, text, .. } = &self.tls;
        size_of::<Self>()
            + self.streams.held()
            + text.capacity()
            + closing.capacity() * size_of::<PendingClose>()
            + weaves.iter().map(PostingWeave::held_bytes).sum::<usize>()
    }

    fn step<D: Decoder, R: Reader>(
        &mut self,
        (decoder, calls): (&mut D, Option<&mut LibraryCalls>),
        side: Side,
        input: Input<'_>,
        out: &mut Out<'_, R>,
    ) -> Result<Step, Malformed> {
        self.tls.step((&mut EngineDriver::new(decoder, &mut self.streams), calls), side, input, out)
    }
}

impl TlsLayer {
    fn step<D: Decoder, R: Reader>(
        &mut self,
        (inner, calls): (&mut EngineDriver<'_, D>, Option<&mut LibraryCalls>),
        side: Side,
        input: Input<'_>,
        out: &mut Out<'_, R>,
    ) -> Result<Step, Malformed> {
        let header = match RecordHeader::read(input)? {
            Some(header) if input.available() < header.total() => return Ok(Step::Need(header.total())),
            Some(header) => header,
            None => return Ok(Step::More),
        };
        out.note(Note::Tls);
        let mut text = std::mem::take(&mut self.text);
        let record = WireRecord { header: header.bytes, fragment: header.fragment(input), length: header.length() };
        let content = self.session.record(side, record, &mut text);
        if let Some(calls) = calls {
            let end = calls.position(side, input.available()) + header.total();
            if let RecordContent::Sealed(layout) = content {
                calls.lay(side, PendingRecord { end, kind: header.kind(), layout, is_late: false, number: 0 });
                self.tell(inner, calls, out);
                out.pass(header.total());
                self.text = text;
                return Ok(Step::Progress);
            }
            if matches!(content, RecordContent::Opened(_)) {
                calls.ignore();
            }
            if calls.is_waiting(side) {
                // Late keys open the following records.
                let mut events = Vec::new();
                calls.seal(side, &mut events);
                self.apply(inner, events, out);
            }
        }
        if let RecordContent::Opened(layout) = content {
            out.decrypted(self.weaves[side as usize].ahead(layout), &text);
        }
        match content {
            RecordContent::Opened(layout) | RecordContent::Unread(layout)
                if layout.kind != APPLICATION_DATA || layout.content == 0 =>
            {
                let session = self.records.is_handshake_over().then_some(OpenOrder::Latest);
                self.own(side, layout, session, out);
                out.pass(header.total());
            }
            RecordContent::Opened(layout) => {
                self.data(side, layout, out, |recorder| inner.bytes(side, &text, recorder));
                out.pass(header.total());
            }
            RecordContent::Unread(layout) => {
                self.data(side, layout, out, |recorder| inner.opaque(side, layout.content as u64, recorder));
                out.pass(header.total());
            }
            content @ (RecordContent::Closed | RecordContent::Sealed(_) | RecordContent::Failed(_)) => {
                if let RecordContent::Failed(reason) = content {
                    out.note(Note::Undecryptable(reason));
                }
                if self.is_decrypting(side) {
                    self.interrupt(inner, side, out);
                }
                self.records.post(side, header, input, out);
            }
        }
        self.text = text;
        Ok(Step::Progress)
    }

    /// Applies everything the calls so far show.
    fn tell<D: Decoder, R: Reader>(
        &mut self,
        inner: &mut EngineDriver<'_, D>,
        calls: &mut LibraryCalls,
        out: &mut Out<'_, R>,
    ) {
        let mut events = Vec::new();
        calls.tell(&mut events);
        for side in Side::BOTH {
            if calls.is_given_up(side) {
                calls.seal(side, &mut events);
            }
        }
        self.apply(inner, events, out);
    }

    fn apply<D: Decoder, R: Reader>(
        &mut self,
        inner: &mut EngineDriver<'_, D>,
        events: Vec<(Side, CallEvent)>,
        out: &mut Out<'_, R>,
    ) {
        for (side, event) in events {
            out.of_side(side, |out| match event {
                CallEvent::Record(RecordFacts::Data(layout)) => self.begin_data(side, layout, out),
                CallEvent::Record(RecordFacts::Own { layout, is_session, is_overtaken }) => {
                    let order = if is_overtaken { OpenOrder::Earlier } else { OpenOrder::Latest };
                    let session = (is_session || self.records.is_handshake_over()).then_some(order);
                    self.own(side, layout, session, out);
                }
                CallEvent::Record(RecordFacts::Sealed(layout, kind)) => self.sealed(side, layout, kind, out),
                CallEvent::Content(bytes) => {
                    let mut rest = bytes.as_slice();
                    for (ahead, len) in self.weaves[side as usize].tell(bytes.len() as u64) {
                        let (here, after) = rest.split_at(rest.len().min(usize::try_from(len).unwrap_or(usize::MAX)));
                        out.decrypted(ahead, here);
                        rest = after;
                    }
                    self.feed(side, out, |recorder| inner.bytes(side, &bytes, recorder));
                }
                CallEvent::Missing(len) => {
                    self.weaves[side as usize].tell(len);
                    self.feed(side, out, |recorder| inner.opaque(side, len, recorder));
                }
                CallEvent::GivenUp(reason) => {
                    out.note(Note::Undecryptable(reason));
                    self.interrupt(inner, side, out);
                }
            });
        }
    }

    /// Pushes a record with unknown content.
    fn sealed<R: Reader>(&mut self, side: Side, layout: RecordLayout, kind: u8, out: &mut Out<'_, R>) {
        if (side, kind) == (Side::Response, APPLICATION_DATA)
            && let Some(op) = self.records.end_handshake()
        {
            self.close(side, op, Outcome::Ok, out);
        }
        let op = self.records.operation(kind, out);
        let weave = &mut self.weaves[side as usize];
        weave.push(layout.closed(), Some(OwnContent::sealed(op, kind)));
        weave.play(out);
    }

    /// Returns whether `side` has any decoded content.
    fn is_decrypting(&self, side: Side) -> bool {
        self.weaves[side as usize].end() > 0
    }

    /// Pushes a record of application data, whose content `decode` decodes. The server's first one ends the handshake unless it has ended.
    fn data<R: Reader>(
        &mut self,
        side: Side,
        layout: RecordLayout,
        out: &mut Out<'_, R>,
        decode: impl FnOnce(&mut TapeRecorder<'_, '_, R>),
    ) {
        self.begin_data(side, layout, out);
        self.feed(side, out, decode);
    }

    /// Pushes a record of application data whose content is decoded later.
    fn begin_data<R: Reader>(&mut self, side: Side, layout: RecordLayout, out: &mut Out<'_, R>) {
        if side == Side::Response
            && let Some(op) = self.records.end_handshake()
        {
            self.close(side, op, Outcome::Ok, out);
        }
        self.weaves[side as usize].push(layout, None);
    }

    /// Pushes a record without application data: part of the handshake or, with a `session`, an operation that does not count.
    fn own<R: Reader>(&mut self, side: Side, layout: RecordLayout, session: Option<OpenOrder>, out: &mut Out<'_, R>) {
        let field = records::content_name(layout.kind);
        if let Some(order) = session {
            let op = match order {
                OpenOrder::Latest => out.open(),
                OpenOrder::Earlier => out.open_earlier(),
            };
            out.label(op, Class::Setup, "TLS", "session");
            self.push_own(side, layout, (op, field), out);
            self.close(side, op, Outcome::Unsolicited, out);
            return;
        }
        let op = self.records.handshake(out);
        self.push_own(side, layout, (op, field), out);
        let outcome = match layout.kind {
            records::ALERT if side == Side::Response => Some(Outcome::Error),
            _ => self.session.is_established().then_some(Outcome::Ok),
        };
        if let Some(outcome) = outcome
            && let Some(op) = self.records.end_handshake()
        {
            self.close(side, op, outcome, out);
        }
    }

    fn push_own<R: Reader>(
        &mut self,
        side: Side,
        layout: RecordLayout,
        own: (OpId, &'static str),
        out: &mut Out<'_, R>,
    ) {
        let weave = &mut self.weaves[side as usize];
        weave.push(layout, Some(OwnContent::of_tls(own)));
        weave.play(out);
    }

    /// Lets `decode` put content on the tape of `side`, and posts all complete records.
    fn feed<R: Reader>(&mut self, side: Side, out: &mut Out<'_, R>, decode: impl FnOnce(&mut TapeRecorder<'_, '_, R>)) {
        let weave = &mut self.weaves[side as usize];
        decode(&mut TapeRecorder::append(out, &mut weave.tape));
        weave.play(out);
        let after = [self.weaves[0].end_of_tape(), self.weaves[1].end_of_tape()];
        let closed = self.weaves[side as usize].tape.closed();
        self.closing.extend(closed.map(|(op, outcome)| PendingClose { op, outcome, after }));
        self.settle(OUTSTANDING, out);
    }

    /// Closes an operation whose last record of `side` was pushed.
    fn close<R: Reader>(&mut self, side: Side, op: OpId, outcome: Outcome, out: &mut Out<'_, R>) {
        let mut after = [0; 2];
        after[side as usize] = self.weaves[side as usize].end();
        self.closing.push_back(PendingClose { op, outcome, after });
        self.settle(OUTSTANDING, out);
    }

    /// Closes operations that are over and posted, and the earliest of the others if there are more than `limit`.
    fn settle<R: Reader>(&mut self, limit: usize, out: &mut Out<'_, R>) {
        while let Some(&PendingClose { op, outcome, after }) = self.closing.front() {
            let is_posted = Side::BOTH.iter().all(|&side| after[side as usize] <= self.weaves[side as usize].posted());
            if !is_posted && self.closing.len() <= limit {
                return;
            }
            self.closing.pop_front();
            out.close(op, outcome);
        }
    }

    /// Notes that the next content of `side` does not continue the earlier content.
    fn interrupt<D: Decoder, R: Reader>(&mut self, inner: &mut EngineDriver<'_, D>, side: Side, out: &mut Out<'_, R>) {
        self.feed(side, out, |recorder| inner.interrupt(side, recorder));
    }
}
