//! Reads frames one by one, and keeps the totals over all of them.

use crate::connections::{FrameContent, SegmentFate};
use crate::copies::{Copies, FrameNovelty};
use crate::fragments::FragmentSets;
use crate::moment::CaptureMoment;
use crate::packet::{self, Fragment, Packet};
use crate::select::Selection;
use crate::totals::Totals;
use overhead_decode::Note;
use overhead_model::stream;
use overhead_model::{Frame, LinkType, StreamPiece};

/// Dissects frames, and counts those without a segment.
#[derive(Debug, Default)]
pub struct FrameDissector {
    pub totals: Totals,
    pub copies: Copies,
    fragments: FragmentSets,
    last_link: Option<LinkType>,
    /// Ports whose datagrams deserve a note.
    datagrams: Vec<u16>,
    /// Whether the user named these ports.
    is_selected: bool,
}

impl FrameDissector {
    /// Returns a frame counter for a capture with this selection.
    pub fn new(selection: &Selection) -> Self {
        Self { datagrams: selection.datagrams(), is_selected: !selection.ports.is_empty(), ..Self::default() }
    }

    #[inline(always)]
    pub fn count(&mut self, frame: &Frame<'_>) {
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

    /// Handles a frame that needs more than a look at its headers; hands its content, and any packet it completes, to `take`.
    #[inline(never)]
    pub fn rare(
        &mut self,
        frame: &Frame<'_>,
        at: CaptureMoment,
        mut take: impl FnMut(FrameContent<'_>, CaptureMoment, &Copies) -> SegmentFate,
    ) -> SegmentFate {
        if frame.link == LinkType::UPPER_PDU {
            self.pdu(frame, take);
            return SegmentFate::Posted;
        }
        let fate = match packet::parse(frame) {
            Packet::Tcp(segment) => match self.copies.compare(frame, &segment) {
                FrameNovelty::New => take(FrameContent::Segment(&segment), at, &self.copies),
                FrameNovelty::Copy => SegmentFate::Copied,
                FrameNovelty::Translated(first) => take(FrameContent::Translated(&segment, first), at, &self.copies),
            },
            Packet::Fragment(fragment) if self.copies.has_fragment(frame, &fragment) => SegmentFate::Copied,
            Packet::Fragment(fragment) => {
                self.fragment(&fragment, at, take);
                SegmentFate::Posted
            }
            packet => {
                self.without_segment(&packet, u64::from(frame.original_len), 1);
                SegmentFate::Posted
            }
        };
        if fate == SegmentFate::Copied {
            self.copy(frame);
        }
        fate
    }

    /// Handles a packet with a call, a piece of a byte stream, or another program's data.
    fn pdu(
        &mut self,
        frame: &Frame<'_>,
        mut take: impl FnMut(FrameContent<'_>, CaptureMoment, &Copies) -> SegmentFate,
    ) {
        if stream::is_call(frame.bytes) {
            self.totals.calls += 1;
            return;
        }
        self.count(frame);
        if let Some((piece, at)) = StreamPiece::read(frame.bytes) {
            let segment = packet::of_piece(frame, &piece, at);
            take(FrameContent::Segment(&segment), self.moment(), &self.copies);
        } else {
            self.totals.foreign_pdus += 1;
            self.totals.other += u64::from(frame.wire_len());
        }
    }

    fn fragment(
        &mut self,
        fragment: &Fragment<'_>,
        at: CaptureMoment,
        mut take: impl FnMut(FrameContent<'_>, CaptureMoment, &Copies) -> SegmentFate,
    ) {
        let mut fragments = std::mem::take(&mut self.fragments);
        self.totals.other += fragments.take(fragment, |packet, datagram| match packet {
            Packet::Tcp(segment) => {
                take(FrameContent::Reassembled(segment), at, &self.copies);
            }
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
                    self.note(note, 1);
                }
            }
            Packet::Tcp(_) | Packet::Fragment(_) | Packet::Other => {}
        }
    }

    pub fn note(&mut self, note: Note, count: u64) {
        if count > 0 {
            *self.totals.notes.entry(note).or_default() += count;
        }
    }

    /// Ends the capture and returns the totals, except the connections' own.
    pub fn finish(mut self) -> Totals {
        self.note(Note::UnsteadyTap, self.copies.unsteady_taps());
        self.note(Note::BothEnds, u64::from(self.copies.has_both_ends()));
        self.totals.other += self.fragments.finish();
        self.totals
    }
}
