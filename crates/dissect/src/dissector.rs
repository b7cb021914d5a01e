//! Frames in, closed operations out, totals at the end.

use crate::connections::Connections;
use crate::copies::Copies;
use crate::fragments::{Fragments, Outcome};
use crate::moment::Moment;
use crate::packet::{self, Fragment, Packet, Segment};
use crate::select::Selection;
use crate::tls::KeyLog;
use crate::totals::Totals;
use overhead_model::{Frame, LinkType, Tally};
use std::sync::Arc;

/// Takes frames apart, and counts those that hold no segment.
#[derive(Debug, Default)]
pub struct Frames {
    totals: Totals,
    copies: Copies,
    fragments: Fragments,
    last_link: Option<LinkType>,
}

impl Frames {
    /// Nothing seen yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Totals so far, but for what connections hold.
    pub fn totals(&self) -> &Totals {
        &self.totals
    }

    /// Takes in one frame; a TCP segment that it holds or completes is handed to `take`.
    #[inline]
    pub fn frame(&mut self, frame: &Frame<'_>, take: impl FnOnce(&Segment<'_>, Moment)) {
        self.totals.frame(frame);
        if self.last_link != Some(frame.link) {
            self.last_link = Some(frame.link);
            self.totals.link_types.insert(frame.link);
        }
        // By reference: a segment is large to move.
        match &packet::parse_plain(frame) {
            Some(segment) => self.segment(frame, segment, take),
            None => self.rare(frame, take),
        }
    }

    #[inline]
    fn segment(&mut self, frame: &Frame<'_>, segment: &Segment<'_>, take: impl FnOnce(&Segment<'_>, Moment)) {
        if self.copies.has_segment(frame, segment) {
            self.copy(frame);
        } else {
            take(segment, self.moment());
        }
    }

    fn moment(&self) -> Moment {
        Moment { number: self.totals.frames, clock_ns: self.totals.last_ns.unwrap_or_default() }
    }

    fn copy(&mut self, frame: &Frame<'_>) {
        self.totals.duplicate_frames += 1;
        self.totals.other += u64::from(frame.original_len);
    }

    /// A frame with other headers than most have.
    #[inline(never)]
    fn rare(&mut self, frame: &Frame<'_>, take: impl FnOnce(&Segment<'_>, Moment)) {
        match packet::parse_any(frame) {
            Packet::Tcp(segment) => self.segment(frame, &segment, take),
            Packet::Fragment(fragment) if self.copies.has_fragment(frame, &fragment) => self.copy(frame),
            Packet::Fragment(fragment) => self.fragment(&fragment, take),
            packet => self.without_segment(&packet, u64::from(frame.original_len), 1),
        }
    }

    /// Headers add up towards a limit, so packets in fragments within packets in fragments come to an end.
    fn fragment(&mut self, fragment: &Fragment<'_>, take: impl FnOnce(&Segment<'_>, Moment)) {
        let mut whole = self.add(fragment);
        while let Some(datagram) = whole {
            match packet::parse_datagram(&datagram) {
                Packet::Tcp(segment) => return take(&segment, self.moment()),
                Packet::Fragment(fragment) => whole = self.add(&fragment),
                packet => {
                    return self.without_segment(&packet, u64::from(datagram.wire_len), u64::from(datagram.frames));
                }
            }
        }
    }

    fn add(&mut self, fragment: &Fragment<'_>) -> Option<packet::Datagram> {
        let Outcome { whole, discarded } = self.fragments.add(fragment);
        self.totals.other += discarded;
        whole
    }

    fn without_segment(&mut self, packet: &Packet<'_>, wire_len: u64, frames: u64) {
        self.totals.other += wire_len;
        match *packet {
            Packet::Malformed => self.totals.malformed_frames += frames,
            Packet::Snapped { need } => {
                self.totals.header_snapped_frames += frames;
                self.totals.header_bytes = self.totals.header_bytes.max(need);
            }
            Packet::Tcp(_) | Packet::Fragment(_) | Packet::Other => {}
        }
    }

    /// The capture is over: the totals, but for what connections hold.
    pub fn finish(mut self) -> Totals {
        self.totals.other += self.fragments.finish();
        self.totals
    }
}

/// Takes frames apart and hands closed operations to a [`Tally`].
#[derive(Debug)]
pub struct Dissector<T> {
    frames: Frames,
    connections: Connections<T>,
}

impl<T: Tally> Dissector<T> {
    /// A dissector for the selected connections.
    pub fn new(selection: Selection, tally: T) -> Self {
        Self { frames: Frames::new(), connections: Connections::new(selection, tally) }
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

    /// Totals so far over all frames; what connections hold is added at the end.
    pub fn totals(&self) -> &Totals {
        self.frames.totals()
    }

    /// What was tallied so far.
    pub fn tally(&self) -> &T {
        self.connections.tally()
    }

    /// Takes in one frame.
    #[inline]
    pub fn frame(&mut self, frame: &Frame<'_>) {
        let Self { frames, connections } = self;
        frames.frame(frame, |segment, at| connections.segment(segment, at));
    }

    /// Ends all connections and gives the tally and the totals.
    pub fn finish(self) -> (T, Totals) {
        let mut totals = self.frames.finish();
        let (tally, of_connections) = self.connections.finish();
        totals.add(&of_connections);
        (tally, totals)
    }
}
