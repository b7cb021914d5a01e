//! Frames in, closed operations out, totals at the end.

use crate::connections::Connections;
use crate::copies::Copies;
use crate::fragments::{FragmentOutcome, Fragments};
use crate::model::{LinkModel, Modelled};
use crate::moment::Moment;
use crate::packet::{self, Fragment, Packet, Plain, Segment};
use crate::route::Share;
use crate::select::Selection;
use crate::tls::KeyLog;
use crate::totals::Totals;
use overhead_decode::Note;
use overhead_model::{CallPacket, Frame, LinkType, StreamPiece, Tally};
use std::sync::Arc;

/// What was found in a frame.
#[derive(Clone, Copy, Debug)]
enum Found<'a> {
    Segment(&'a Segment<'a>),
    /// No segment, but what a TLS library was called with.
    Call(&'a CallPacket<'a>),
}

/// Takes frames apart, and counts those that hold no segment.
#[derive(Debug, Default)]
struct Frames {
    totals: Totals,
    copies: Copies,
    fragments: Fragments,
    last_link: Option<LinkType>,
    /// Ports on which datagrams are worth a note.
    datagrams: Vec<u16>,
    /// These were named by the user.
    is_selected: bool,
}

/// What a frame is at first sight.
enum Sight<'a> {
    /// One with the usual headers.
    Usual(Plain<'a>),
    /// The second copy of one.
    Copy,
    /// One with other headers, or none at all.
    Other,
}

impl Frames {
    /// Takes in one frame; a TCP segment that it holds or completes is handed to `take`.
    fn frame(&mut self, frame: &Frame<'_>, take: impl FnOnce(Found<'_>, Moment)) {
        match self.look_at(frame) {
            Sight::Usual(plain) => take(Found::Segment(&plain.segment()), self.moment()),
            Sight::Copy => {}
            Sight::Other => self.rare(frame, take),
        }
    }

    /// Takes in a frame if it has the usual headers, or is a copy. Any other is for [`Frames::rare`].
    #[inline(always)]
    fn look_at<'a>(&mut self, frame: &Frame<'a>) -> Sight<'a> {
        if frame.link == LinkType::UPPER_PDU {
            return Sight::Other;
        }
        self.count(frame);
        match Plain::of(frame) {
            Some(plain) if self.copies.has_plain(frame, &plain) => {
                self.copy(frame);
                Sight::Copy
            }
            Some(plain) => Sight::Usual(plain),
            None => Sight::Other,
        }
    }

    #[inline(always)]
    fn count(&mut self, frame: &Frame<'_>) {
        self.totals.frame(frame);
        if self.last_link != Some(frame.link) {
            self.last_link = Some(frame.link);
            self.totals.link_types.insert(frame.link);
        }
    }

    fn moment(&self) -> Moment {
        // Calls are no frames, and have numbers among them.
        let number = self.totals.frames + self.totals.calls;
        Moment { number, clock_ns: self.totals.last_ns.unwrap_or_default() }
    }

    fn copy(&mut self, frame: &Frame<'_>) {
        self.totals.duplicate_frames += 1;
        self.totals.other += u64::from(frame.wire_len());
    }

    /// A frame with other headers than most have.
    #[inline(never)]
    fn rare(&mut self, frame: &Frame<'_>, take: impl FnOnce(Found<'_>, Moment)) {
        if frame.link == LinkType::UPPER_PDU {
            if let Some(call) = CallPacket::read(frame.bytes) {
                self.totals.calls += 1;
                return take(Found::Call(&call), self.moment());
            }
            self.count(frame);
            return self.piece(frame, take);
        }
        match packet::parse_any(frame) {
            Packet::Tcp(segment) if self.copies.has_segment(frame, &segment) => self.copy(frame),
            Packet::Tcp(segment) => take(Found::Segment(&segment), self.moment()),
            Packet::Fragment(fragment) if self.copies.has_fragment(frame, &fragment) => self.copy(frame),
            Packet::Fragment(fragment) => self.fragment(&fragment, take),
            packet => self.without_segment(&packet, u64::from(frame.original_len), 1),
        }
    }

    /// A packet of a byte stream that no frame carried, or of another program.
    fn piece(&mut self, frame: &Frame<'_>, take: impl FnOnce(Found<'_>, Moment)) {
        if let Some((piece, at)) = StreamPiece::read(frame.bytes) {
            take(Found::Segment(&packet::of_piece(frame, &piece, at)), self.moment());
        } else {
            self.totals.foreign_pdus += 1;
            self.totals.other += u64::from(frame.wire_len());
        }
    }

    /// Headers add up towards a limit, so packets in fragments within packets in fragments come to an end.
    fn fragment(&mut self, fragment: &Fragment<'_>, take: impl FnOnce(Found<'_>, Moment)) {
        let mut whole = self.add(fragment);
        while let Some(datagram) = whole {
            match packet::parse_datagram(&datagram) {
                Packet::Tcp(segment) => return take(Found::Segment(&segment), self.moment()),
                Packet::Fragment(fragment) => whole = self.add(&fragment),
                packet => {
                    return self.without_segment(&packet, u64::from(datagram.wire_len), u64::from(datagram.frames));
                }
            }
        }
    }

    fn add(&mut self, fragment: &Fragment<'_>) -> Option<packet::Datagram> {
        let FragmentOutcome { whole, discarded } = self.fragments.add(fragment);
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
            Packet::Udp(ports) => {
                if let Some(&port) = self.datagrams.iter().find(|port| ports.contains(port)) {
                    let note = Note::Datagrams { port, is_selected: self.is_selected };
                    *self.totals.notes.entry(note).or_default() += 1;
                }
            }
            Packet::Tcp(_) | Packet::Fragment(_) | Packet::Other => {}
        }
    }

    /// The capture is over: the totals, but for what connections hold.
    fn finish(mut self) -> Totals {
        self.totals.other += self.fragments.finish();
        self.totals
    }
}

/// Takes frames apart and hands closed operations to a [`Tally`].
#[derive(Debug)]
pub struct Dissector<T> {
    frames: Frames,
    connections: Connections<T>,
    /// Absent where all connections are its own.
    share: Option<Share>,
    /// What a link would carry, and what that adds; absent where frames are taken as they were captured.
    model: Option<(LinkModel, Modelled)>,
}

impl<T: Tally> Dissector<T> {
    /// Returns a dissector for the selected connections.
    pub fn new(selection: Selection, tally: T) -> Self {
        let frames =
            Frames { datagrams: selection.datagrams(), is_selected: !selection.ports.is_empty(), ..Frames::default() };
        Self { frames, connections: Connections::new(selection, tally), share: None, model: None }
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

    /// Takes in what such a link would carry in place of what was captured: see [`LinkModel`]. Not for one of several with a share.
    #[must_use]
    pub fn with_model(mut self, model: LinkModel) -> Self {
        self.model = Some((model, Modelled::default()));
        self
    }

    /// Returns what the model has added so far.
    pub fn modelled(&self) -> Modelled {
        self.model.map(|(_, modelled)| modelled).unwrap_or_default()
    }

    /// Has a share of the connections. It is to be given all frames all the same.
    #[must_use]
    pub fn with_share(mut self, share: Share) -> Self {
        self.connections = self.connections.in_company(share.company());
        self.share = Some(share);
        self
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
        let Self { frames, connections, share, .. } = self;
        match frames.look_at(frame) {
            Sight::Usual(plain) => {
                if share.as_ref().is_none_or(|share| share.has_plain(&plain)) {
                    connections.plain(&plain, frames.moment());
                }
            }
            Sight::Copy => {}
            Sight::Other => self.rare(frame),
        }
    }

    /// A frame with other headers than most have.
    fn rare(&mut self, frame: &Frame<'_>) {
        let Self { frames, connections, share, .. } = self;
        let is_own = |found: &Found<'_>| match (share, *found) {
            (None, _) | (Some(_), Found::Call(CallPacket::Announcement)) => true,
            (Some(share), Found::Segment(segment)) => share.has(segment),
            (Some(share), Found::Call(CallPacket::Part(part))) => share.has_ends([part.sender, part.receiver]),
        };
        frames.rare(frame, |found, at| match found {
            found if !is_own(&found) => {}
            Found::Segment(segment) => connections.segment(segment, at),
            Found::Call(call) => connections.call(call, at),
        });
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
            let segment = match found {
                Found::Segment(segment) => *segment,
                Found::Call(call) => return connections.call(call, at),
            };
            if segment.stream.is_some() {
                // There is no link to be modelled.
                return connections.segment(&segment, at);
            }
            // Each piece is a frame with a number of its own.
            let first = at.number + modelled.added_frames;
            for (number, piece) in (first..).zip(model.pieces(&segment, modelled)) {
                connections.segment(&piece, Moment { number, ..at });
            }
        });
    }

    /// Ends all connections and gives the tally and the totals. Of several with a share, the first has the totals over the
    /// frames.
    pub fn finish(self) -> (T, Totals) {
        let counts = self.share.is_none_or(|share| share.is_first());
        let mut totals = if counts { self.frames.finish() } else { Totals::default() };
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
