//! Frames in, closed operations out, totals at the end.

mod frames;

use crate::connections::Connections;
use crate::model::{LinkModel, Modelled};
use crate::moment::Moment;
use crate::select::Selection;
use crate::tls::KeyLog;
use crate::totals::Totals;
pub(crate) use frames::Found;
use frames::{Frames, Sight};
use overhead_model::{Frame, LinkType, Tally};
use std::sync::Arc;

/// Takes frames apart and hands closed operations to a [`Tally`].
#[derive(Debug)]
pub struct Dissector<T> {
    frames: Frames,
    connections: Connections<T>,
    /// What a link would carry, and what that adds; absent where frames are taken as they were captured.
    model: Option<(LinkModel, Modelled)>,
}

impl<T: Tally> Dissector<T> {
    /// Returns a dissector for the selected connections.
    pub fn new(selection: Selection, tally: T) -> Self {
        Self { frames: Frames::of(&selection), connections: Connections::new(selection, tally), model: None }
    }

    /// Decrypts TLS with these secrets, which may become more while frames come in.
    #[must_use]
    pub fn with_keys(mut self, keys: Arc<KeyLog>) -> Self {
        self.connections = self.connections.with_keys(keys);
        self
    }

    /// Takes nothing from the memo: every frame goes the general way. The result is the same, which is what this is to show.
    #[must_use]
    pub fn without_memo(mut self) -> Self {
        self.connections = self.connections.without_memo();
        self
    }

    /// Returns how many frames were taken from the memo so far.
    pub fn memo_hits(&self) -> u64 {
        self.connections.memo_hits()
    }

    /// Takes in what such a link would carry in place of what was captured: see [`LinkModel`].
    #[must_use]
    pub fn with_model(mut self, model: LinkModel) -> Self {
        self.model = Some((model, Modelled::default()));
        self
    }

    /// Returns what the model has added so far.
    pub fn modelled(&self) -> Modelled {
        self.model.map(|(_, modelled)| modelled).unwrap_or_default()
    }

    /// The tally's listener, which it has at times, hears of each step from the next frame on, or does not.
    pub fn listen(&mut self, is_listening: bool) {
        self.connections.listen(is_listening);
    }

    /// Totals so far over all frames; what connections hold is added at the end.
    pub fn totals(&self) -> &Totals {
        &self.frames.totals
    }

    /// Returns what was tallied so far.
    pub fn tally(&mut self) -> &T {
        self.connections.tally()
    }

    /// Returns the tally, which has been told of everything where it listens.
    pub fn tally_mut(&mut self) -> &mut T {
        self.connections.tally_mut()
    }

    /// Takes in one frame. One call for each: all that a frame with the usual headers goes through is inlined here, up to the memo.
    #[inline(never)]
    pub fn frame(&mut self, frame: &Frame<'_>) {
        if self.model.is_some() {
            return self.model_frame(frame);
        }
        let Self { frames, connections, .. } = self;
        match frames.look_at(frame) {
            Sight::Usual(plain) => connections.plain(&plain, frames.moment()),
            Sight::Copy => {}
            Sight::Other => frames.rare(frame, |found, at| connections.found(found, at)),
        }
    }

    /// Takes in what a link would carry in place of one frame.
    #[inline(never)]
    fn model_frame(&mut self, frame: &Frame<'_>) {
        let Self { frames, connections, model, .. } = self;
        let Some((model, modelled)) = model else { return };
        if frame.link != LinkType::UPPER_PDU {
            model.frame(frame.original_len, modelled);
        }
        frames.frame(frame, |found, at| {
            let (Found::Segment(segment) | Found::Reassembled(segment)) = found else {
                return connections.found(found, at);
            };
            if segment.stream.is_some() {
                // There is no link to be modelled.
                return connections.segment(segment, at);
            }
            // Each piece is a frame with a number of its own.
            let first = at.number + modelled.added_frames;
            for (number, piece) in (first..).zip(model.pieces(segment, modelled)) {
                connections.segment(&piece, Moment { number, ..at });
            }
        });
    }

    /// Ends all connections and gives the tally and the totals.
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
