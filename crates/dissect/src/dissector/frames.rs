//! Reads frames one by one, and keeps the totals over all of them.

use crate::copies::Copies;
use crate::fragments::FragmentSets;
use crate::moment::CaptureMoment;
use crate::packet::{self, Fragment, Packet, PlainFrame, Segment};
use crate::select::Selection;
use crate::totals::Totals;
use overhead_decode::Note;
use overhead_model::{CallPacket, Frame, LinkType, StreamPiece};

#[derive(Clone, Copy, Debug)]
pub enum FrameContent<'a> {
    Segment(&'a Segment<'a>),
    /// A fragmented segment, at its last fragment.
    Reassembled(&'a Segment<'a>),
    Call(&'a CallPacket<'a>),
}

/// Dissects frames, and counts those without a segment.
#[derive(Debug, Default)]
pub struct FrameDissector {
    pub totals: Totals,
    copies: Copies,
    fragments: FragmentSets,
    last_link: Option<LinkType>,
    /// Ports whose datagrams deserve a note.
    datagrams: Vec<u16>,
    /// Whether the user named these ports.
    is_selected: bool,
}

/// A frame's kind at first sight.
pub enum FrameSight<'a> {
    Usual(PlainFrame<'a>),
    Copy,
    /// A frame with other headers, or none.
    Other,
}

impl FrameDissector {
    /// Returns a frame counter for a capture with this selection.
    pub fn of(selection: &Selection) -> Self {
        Self { datagrams: selection.datagrams(), is_selected: !selection.ports.is_empty(), ..Self::default() }
    }

    /// Handles one frame; hands its content, and any packet it completes, to `take`.
    pub fn each_content(&mut self, frame: &Frame<'_>, mut take: impl FnMut(FrameContent<'_>, CaptureMoment)) {
        match self.look_at(frame) {
            FrameSight::Usual(plain) => take(FrameContent::Segment(&plain.segment()), self.moment()),
            FrameSight::Copy => {}
            FrameSight::Other => self.rare(frame, take),
        }
    }

    /// Classifies a frame. Handles copies fully, and leaves other headers to [`FrameDissector::rare`].
    #[inline(always)]
    pub fn look_at<'a>(&mut self, frame: &Frame<'a>) -> FrameSight<'a> {
        if frame.link == LinkType::UPPER_PDU {
            return FrameSight::Other;
        }
        self.count(frame);
        match PlainFrame::of(frame) {
            Some(plain) if self.copies.has_plain(frame, &plain) => {
                self.copy(frame);
                FrameSight::Copy
            }
            Some(plain) => FrameSight::Usual(plain),
            None => FrameSight::Other,
        }
    }

    #[inline(always)]
    fn count(&mut self, frame: &Frame<'_>) {
        self.totals.count_frame(frame);
        if self.last_link != Some(frame.link) {
            self.last_link = Some(frame.link);
            self.totals.link_types.insert(frame.link);
        }
    }

    pub fn moment(&self) -> CaptureMoment {
        // Calls are not frames, but share their numbering.
        let number = self.totals.frames + self.totals.calls;
        CaptureMoment { number, clock_ns: self.totals.last_ns.unwrap_or_default() }
    }

    fn copy(&mut self, frame: &Frame<'_>) {
        self.totals.duplicate_frames += 1;
        self.totals.other += u64::from(frame.wire_len());
    }

    /// Handles a frame with unusual headers.
    #[inline(never)]
    pub fn rare(&mut self, frame: &Frame<'_>, mut take: impl FnMut(FrameContent<'_>, CaptureMoment)) {
        if frame.link == LinkType::UPPER_PDU {
            return self.pdu(frame, take);
        }
        match packet::parse_any(frame) {
            Packet::Tcp(segment) if self.copies.has_segment(frame, &segment) => self.copy(frame),
            Packet::Tcp(segment) => take(FrameContent::Segment(&segment), self.moment()),
            Packet::Fragment(fragment) if self.copies.has_fragment(frame, &fragment) => self.copy(frame),
            Packet::Fragment(fragment) => self.fragment(&fragment, take),
            packet => self.without_segment(&packet, u64::from(frame.original_len), 1),
        }
    }

    /// Handles a packet with a call, a piece of a byte stream, or another program's data.
    fn pdu(&mut self, frame: &Frame<'_>, take: impl FnOnce(FrameContent<'_>, CaptureMoment)) {
        if let Some(call) = CallPacket::read(frame.bytes) {
            self.totals.calls += 1;
            return take(FrameContent::Call(&call), self.moment());
        }
        self.count(frame);
        if let Some((piece, at)) = StreamPiece::read(frame.bytes) {
            take(FrameContent::Segment(&packet::of_piece(frame, &piece, at)), self.moment());
        } else {
            self.totals.foreign_pdus += 1;
            self.totals.other += u64::from(frame.wire_len());
        }
    }

    fn fragment(&mut self, fragment: &Fragment<'_>, mut take: impl FnMut(FrameContent<'_>, CaptureMoment)) {
        let mut fragments = std::mem::take(&mut self.fragments);
        self.totals.other += fragments.take(fragment, |packet, datagram| match packet {
            Packet::Tcp(segment) => take(FrameContent::Reassembled(segment), self.moment()),
            packet => self.without_segment(packet, u64::from(datagram.wire_len), u64::from(datagram.frames)),
        });
        self.fragments = fragments;
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

    /// Ends the capture and returns the totals, except the connections' own.
    pub fn finish(mut self) -> Totals {
        self.totals.other += self.fragments.finish();
        self.totals
    }
}
