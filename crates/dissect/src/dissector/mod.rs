//! Takes frames in and hands closed operations out, with totals at the end.

mod frames;

use crate::connections::{Connections, FrameContent, SegmentFate};
use crate::copies::trial::{TapTrial, TapVerdict};
use crate::model::{LinkModel, ModelTotals};
use crate::moment::CaptureMoment;
use crate::packet::{PlainFrame, Segment};
use crate::select::Selection;
use crate::tls::KeyLog;
use crate::totals::Totals;
use frames::FrameDissector;
use overhead_decode::Note;
use overhead_model::{Frame, LinkType, Tally};
use std::sync::Arc;

/// Dissects frames and hands closed operations to a [`Tally`].
#[derive(Debug)]
pub struct Dissector<T> {
    frames: FrameDissector,
    connections: Connections<T>,
    /// The link model and its additions; `None` leaves frames as captured.
    model: Option<(LinkModel, ModelTotals)>,
    /// Frames held to judge a tap.
    trial: Option<TapTrial>,
    /// Frames are modelled or held.
    is_special: bool,
}

impl<T: Tally> Dissector<T> {
    pub fn new(selection: Selection, tally: T) -> Self {
        Self {
            frames: FrameDissector::new(&selection),
            connections: Connections::new(selection, tally),
            model: None,
            trial: None,
            is_special: false,
        }
    }

    /// Decrypts TLS with these secrets; more may be added while frames come in.
    #[must_use]
    pub fn with_keys(mut self, keys: Arc<KeyLog>) -> Self {
        self.connections = self.connections.with_keys(keys);
        self
    }

    /// Limits what connections hold, and what is decompressed, to `bytes` each in place of the usual limits.
    #[must_use]
    pub fn within(mut self, bytes: usize) -> Self {
        self.connections = self.connections.within(bytes);
        self
    }

    /// Disables the memo, to show that the result is the same without it.
    #[must_use]
    pub fn without_memo(mut self) -> Self {
        self.connections = self.connections.without_memo();
        self
    }

    /// Handles each frame at once. What a tap repeats then counts as retransmitted.
    #[must_use]
    pub fn without_trials(mut self) -> Self {
        self.frames.copies.judge_no_tap();
        self
    }

    pub fn memo_hits(&self) -> u64 {
        self.connections.memo_hits()
    }

    /// Replaces captured frames with those the link would carry: see [`LinkModel`].
    #[must_use]
    pub fn with_model(mut self, model: LinkModel) -> Self {
        self.model = Some((model, ModelTotals::default()));
        self.is_special = true;
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
        if self.is_special {
            return self.special(frame);
        }
        let at = self.count(frame);
        if self.dissect(frame, at) == SegmentFate::Repeats {
            self.begin_trial(frame, at);
        }
    }

    /// Counts a frame, and returns its number and time.
    #[inline(always)]
    fn count(&mut self, frame: &Frame<'_>) -> CaptureMoment {
        if frame.link != LinkType::UPPER_PDU {
            self.frames.count(frame);
        }
        self.frames.moment()
    }

    #[inline(always)]
    fn dissect(&mut self, frame: &Frame<'_>, at: CaptureMoment) -> SegmentFate {
        let Self { frames, connections, .. } = self;
        match PlainFrame::read(frame) {
            Some(plain) if frames.copies.is_usual(frame, &plain) => {
                connections.plain(&plain, at, |segment| frames.copies.may_repeat(segment, frame.interface, at.number))
            }
            _ => frames.rare(frame, at, |found, at, copies| {
                connections.found(&found, at, |segment| copies.may_repeat(segment, frame.interface, at.number))
            }),
        }
    }

    /// Holds or models a frame.
    #[inline(never)]
    fn special(&mut self, frame: &Frame<'_>) {
        let at = self.count(frame);
        if let Some((model, modelled)) = &mut self.model
            && frame.link != LinkType::UPPER_PDU
        {
            model.count_frame(frame.original_len, modelled);
        }
        match &mut self.trial {
            // Pieces of streams and calls come from no tap.
            Some(trial) if frame.link != LinkType::UPPER_PDU => {
                if trial.hold(frame, at) {
                    self.judge(false);
                }
            }
            _ => {
                if self.handle(frame, at) == SegmentFate::Repeats {
                    self.begin_trial(frame, at);
                }
            }
        }
    }

    /// Handles a frame that was counted.
    fn handle(&mut self, frame: &Frame<'_>, at: CaptureMoment) -> SegmentFate {
        if self.model.is_some() { self.model_frame(frame, at) } else { self.dissect(frame, at) }
    }

    #[cold]
    fn begin_trial(&mut self, frame: &Frame<'_>, at: CaptureMoment) {
        self.frames.copies.forget_latest();
        self.trial = Some(TapTrial::new(frame, at));
        self.is_special = true;
    }

    /// Ends the trial if the evidence suffices, and handles the frames it held. `is_last` means that no more will come.
    #[cold]
    fn judge(&mut self, is_last: bool) {
        let Some(trial) = &self.trial else { return };
        let verdict = self.frames.copies.judge(trial, is_last);
        if verdict == TapVerdict::Open {
            return;
        }
        let Some(TapTrial { frames, interface, .. }) = self.trial.take() else { return };
        self.is_special = self.model.is_some();
        let number = frames.last().map_or(0, |(_, at)| at.number);
        if let TapVerdict::Doubled { is_certain, from_both_ends, .. } = verdict {
            self.frames.note(Note::UnsteadyTap, u64::from(!is_certain));
            self.frames.note(Note::BothEnds, u64::from(from_both_ends));
        }
        self.frames.copies.settle(interface, verdict, number);
        for (held, at) in &frames {
            self.handle(&held.frame(), *at);
        }
    }

    /// Handles the frames that the modelled link would carry in place of one frame.
    #[inline(never)]
    fn model_frame(&mut self, frame: &Frame<'_>, at: CaptureMoment) -> SegmentFate {
        let Self { frames, connections, model: Some((model, modelled)), .. } = self else { return SegmentFate::Posted };
        frames.rare(frame, at, |found, at, copies| {
            let may_repeat = |segment: &Segment<'_>| copies.may_repeat(segment, frame.interface, at.number);
            let segment = match found {
                // A stream piece has no link to model.
                FrameContent::Segment(segment) if segment.stream.is_none() => segment,
                FrameContent::Reassembled(segment) => segment,
                _ => return connections.found(&found, at, may_repeat),
            };
            if connections.repeats(segment) && may_repeat(segment) {
                return SegmentFate::Repeats;
            }
            // Each piece is a separately numbered frame.
            let first = at.number + modelled.added_frames;
            for (number, piece) in (first..).zip(model.pieces(segment, modelled)) {
                connections.segment(&piece, CaptureMoment { number, ..at }, |_| false);
            }
            SegmentFate::Posted
        })
    }

    pub fn finish(mut self) -> (T, Totals) {
        self.judge(true);
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
