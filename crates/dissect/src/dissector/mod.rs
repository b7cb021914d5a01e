//! Takes frames in and hands closed operations out, with totals at the end.

mod frames;

use crate::connections::Connections;
use crate::model::{LinkModel, ModelTotals};
use crate::moment::CaptureMoment;
use crate::select::Selection;
use crate::tls::KeyLog;
use crate::totals::Totals;
pub(crate) use frames::FrameContent;
use frames::{FrameDissector, FrameSight};
use overhead_model::{Frame, LinkType, Tally};
use std::sync::Arc;

/// Dissects frames and hands closed operations to a [`Tally`].
#[derive(Debug)]
pub struct Dissector<T> {
    frames: FrameDissector,
    connections: Connections<T>,
    /// The link model and its additions; `None` leaves frames as captured.
    model: Option<(LinkModel, ModelTotals)>,
}

impl<T: Tally> Dissector<T> {
    pub fn new(selection: Selection, tally: T) -> Self {
        Self { frames: FrameDissector::of(&selection), connections: Connections::new(selection, tally), model: None }
    }

    /// Decrypts TLS with these secrets; more may be added while frames come in.
    #[must_use]
    pub fn with_keys(mut self, keys: Arc<KeyLog>) -> Self {
        self.connections = self.connections.with_keys(keys);
        self
    }

    /// Disables the memo, to show that the result is the same without it.
    #[must_use]
    pub fn without_memo(mut self) -> Self {
        self.connections = self.connections.without_memo();
        self
    }

    pub fn memo_hits(&self) -> u64 {
        self.connections.memo_hits()
    }

    /// Replaces captured frames with those the link would carry: see [`LinkModel`].
    #[must_use]
    pub fn with_model(mut self, model: LinkModel) -> Self {
        self.model = Some((model, ModelTotals::default()));
        self
    }

    pub fn modelled(&self) -> ModelTotals {
        self.model.map(|(_, modelled)| modelled).unwrap_or_default()
    }

    /// Sets whether the tally's listener hears each step from the next frame on.
    pub fn listen(&mut self, is_listening: bool) {
        self.connections.listen(is_listening);
    }

    /// Returns the totals over all frames so far; connections add theirs at the end.
    pub fn totals(&self) -> &Totals {
        &self.frames.totals
    }

    /// Returns the tally, once the memos have reported to it.
    pub fn tally(&mut self) -> &T {
        self.connections.tally()
    }

    /// Returns the tally without updating it from the memos; a listening tally is always up to date.
    pub fn tally_mut(&mut self) -> &mut T {
        self.connections.tally_mut()
    }

    /// Handles one frame. The whole path of a frame with the usual headers, up to the memo, is inlined into this one call.
    #[inline(never)]
    pub fn frame(&mut self, frame: &Frame<'_>) {
        if self.model.is_some() {
            return self.model_frame(frame);
        }
        let Self { frames, connections, .. } = self;
        match frames.look_at(frame) {
            FrameSight::Usual(plain) => connections.plain(&plain, frames.moment()),
            FrameSight::Copy => {}
            FrameSight::Other => frames.rare(frame, |found, at| connections.found(found, at)),
        }
    }

    /// Handles the frames that the modelled link would carry in place of one frame.
    #[inline(never)]
    fn model_frame(&mut self, frame: &Frame<'_>) {
        let Self { frames, connections, model, .. } = self;
        let Some((model, modelled)) = model else { return };
        if frame.link != LinkType::UPPER_PDU {
            model.count_frame(frame.original_len, modelled);
        }
        frames.each_content(frame, |found, at| {
            let (FrameContent::Segment(segment) | FrameContent::Reassembled(segment)) = found else {
                return connections.found(found, at);
            };
            if segment.stream.is_some() {
                // A stream piece has no link to model.
                return connections.segment(segment, at);
            }
            // Each piece is a separately numbered frame.
            let first = at.number + modelled.added_frames;
            for (number, piece) in (first..).zip(model.pieces(segment, modelled)) {
                connections.segment(&piece, CaptureMoment { number, ..at });
            }
        });
    }

    pub fn finish(self) -> (T, Totals) {
        let mut totals = self.frames.finish();
        let (tally, of_connections) = self.connections.finish();
        totals.add(&of_connections);
        if let Some((_, modelled)) = self.model {
            totals.frames += modelled.added_frames;
            totals.wire_bytes += modelled.added_header_bytes + modelled.physical_bytes;
            totals.other += modelled.elsewhere();
        }
        (tally, totals)
    }
}
