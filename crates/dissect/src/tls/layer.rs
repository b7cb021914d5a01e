//! The records of a connection: decrypts them, and posts their content woven into their headers and tags.

use super::KeyLog;
use super::kept::MetConnection;
use super::records::{self, APPLICATION_DATA, RecordHeader, RecordOperations};
use super::session::{RecordContent, RecordLayout, TlsSession, WireRecord};
use super::weave::PostingWeave;
use overhead_decode::engine::EngineDriver;
use overhead_decode::limits::OUTSTANDING;
use overhead_decode::tape::{DeferredCloses, TapeRecorder};
use overhead_decode::{Decoder, Input, Malformed, Note, OpId, Out, Reader, Step};
use overhead_model::{Class, Outcome, Side};
use std::sync::Arc;

/// The records, and their content that is held back.
#[derive(Debug)]
pub(super) struct TlsLayer {
    session: TlsSession,
    records: RecordOperations,
    weaves: [PostingWeave; 2],
    /// Operations that are over except for postings held back.
    closing: DeferredCloses,
    text: Vec<u8>,
}

impl TlsLayer {
    pub fn new(keys: Option<Arc<KeyLog>>, met: Option<Box<MetConnection>>) -> Self {
        let is_met_open = met.as_ref().is_some_and(|met| met.is_mid_stream);
        Self {
            session: TlsSession::new(keys, met),
            records: RecordOperations::new(is_met_open),
            weaves: [PostingWeave::default(), PostingWeave::default()],
            closing: DeferredCloses::default(),
            text: Vec::new(),
        }
    }

    /// Returns the approximate memory held, in bytes, beyond its own size.
    pub fn held(&self) -> usize {
        self.text.capacity() + self.closing.held() + self.weaves.iter().map(PostingWeave::held_bytes).sum::<usize>()
    }

    pub fn shrink(&mut self) {
        self.text = Vec::new();
    }

    /// Takes in one record.
    pub fn step<D: Decoder, R: Reader>(
        &mut self,
        inner: &mut EngineDriver<'_, D>,
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
        self.post(inner, (header, content), (input, &text), out);
        self.text = text;
        Ok(Step::Progress)
    }

    /// Posts a record; `text` is its content if it was opened.
    fn post<D: Decoder, R: Reader>(
        &mut self,
        inner: &mut EngineDriver<'_, D>,
        (header, content): (RecordHeader, RecordContent),
        (input, text): (Input<'_>, &[u8]),
        out: &mut Out<'_, R>,
    ) {
        let side = out.side();
        if let RecordContent::Opened(layout) = content {
            out.decrypted(self.weaves[side as usize].ahead(layout), text);
        }
        match content {
            RecordContent::Opened(layout) | RecordContent::Unread(layout)
                if layout.kind != APPLICATION_DATA || layout.content == 0 =>
            {
                self.own(layout, out);
            }
            RecordContent::Opened(layout) => {
                self.begin_data(layout, out);
                self.feed(out, |recorder| inner.bytes(side, text, recorder));
            }
            RecordContent::Unread(layout) => {
                self.begin_data(layout, out);
                self.feed(out, |recorder| inner.opaque(side, layout.content as u64, recorder));
            }
            RecordContent::Closed | RecordContent::Failed(_) => {
                if let RecordContent::Failed(reason) = content {
                    out.note(Note::Undecryptable(reason));
                }
                // Of a connection of which only a part is captured, the record may be the first of several.
                if self.weaves[side as usize].end() > 0
                    || (self.session.met.is_some() && header.kind() == APPLICATION_DATA)
                {
                    self.interrupt(inner, out);
                }
                return self.records.post(side, header, input, out);
            }
        }
        out.pass(header.total());
    }

    /// Pushes a record of application data whose content is decoded later. The server's first one ends the handshake.
    fn begin_data<R: Reader>(&mut self, layout: RecordLayout, out: &mut Out<'_, R>) {
        let side = out.side();
        if side == Side::Response
            && let Some(op) = self.records.end_handshake()
        {
            self.close(op, Outcome::Ok, out);
        }
        self.weaves[side as usize].push(layout, None);
    }

    /// Pushes a record without application data: part of the handshake or, after it, an operation that does not count.
    fn own<R: Reader>(&mut self, layout: RecordLayout, out: &mut Out<'_, R>) {
        let field = records::content_name(layout.kind);
        if self.records.is_handshake_over {
            let op = out.open();
            out.label(op, Class::Setup, "TLS", "session");
            self.push_own(layout, (op, field), out);
            self.close(op, Outcome::Unsolicited, out);
            return;
        }
        let op = self.records.handshake(out);
        self.push_own(layout, (op, field), out);
        let outcome = match layout.kind {
            records::ALERT if out.side() == Side::Response => Some(Outcome::Error),
            _ => self.session.is_established().then_some(Outcome::Ok),
        };
        if let Some(outcome) = outcome
            && let Some(op) = self.records.end_handshake()
        {
            self.close(op, outcome, out);
        }
    }

    fn push_own<R: Reader>(&mut self, layout: RecordLayout, own: (OpId, &'static str), out: &mut Out<'_, R>) {
        let weave = &mut self.weaves[out.side() as usize];
        weave.push(layout, Some(own));
        weave.play(out);
    }

    /// Lets `decode` put content on the tape of this side, and posts all complete records.
    pub fn feed<R: Reader>(&mut self, out: &mut Out<'_, R>, decode: impl FnOnce(&mut TapeRecorder<'_, '_, R>)) {
        let side = out.side();
        let weave = &mut self.weaves[side as usize];
        decode(&mut TapeRecorder::append(out, &mut weave.tape));
        weave.play(out);
        let after = [self.weaves[0].end_of_tape(), self.weaves[1].end_of_tape()];
        let closed = self.weaves[side as usize].tape.closed();
        closed.for_each(|(op, outcome)| self.closing.push(op, outcome, after));
        self.settle(OUTSTANDING, out);
    }

    /// Closes an operation whose last record of this side was pushed.
    fn close<R: Reader>(&mut self, op: OpId, outcome: Outcome, out: &mut Out<'_, R>) {
        let (side, mut after) = (out.side(), [0; 2]);
        after[side as usize] = self.weaves[side as usize].end();
        self.closing.push(op, outcome, after);
        self.settle(OUTSTANDING, out);
    }

    fn settle<R: Reader>(&mut self, limit: usize, out: &mut Out<'_, R>) {
        let posted = self.weaves.each_ref().map(|weave| weave.posted);
        self.closing.settle(posted, limit, out);
    }

    /// Ends this side: posts everything held back.
    pub fn finish<D: Decoder, R: Reader>(&mut self, inner: &mut EngineDriver<'_, D>, out: &mut Out<'_, R>) {
        let side = out.side();
        if !self.weaves[side as usize].is_idle() {
            self.feed(out, |recorder| inner.finish_side(side, recorder));
        }
        self.settle(usize::MAX, out);
    }

    /// See [`TlsSession::keep`].
    pub fn keep(&self) {
        self.session.keep();
    }

    /// Records of this side were lost.
    pub fn lost<D: Decoder, R: Reader>(&mut self, inner: &mut EngineDriver<'_, D>, out: &mut Out<'_, R>) {
        self.session.lost(out.side());
        self.interrupt(inner, out);
    }

    /// Notes that the next content of this side does not continue the earlier content.
    fn interrupt<D: Decoder, R: Reader>(&mut self, inner: &mut EngineDriver<'_, D>, out: &mut Out<'_, R>) {
        let side = out.side();
        self.feed(out, |recorder| inner.interrupt(side, recorder));
    }
}
