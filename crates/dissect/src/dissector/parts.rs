//! Dissection divided among several threads by connection.

use super::frames::{Found, Frames, Sight};
use crate::connections::Connections;
use crate::fragments::Fragments;
use crate::moment::Moment;
use crate::packet::{self, Packet, Plain};
use crate::route::{Recipient, Routes};
use crate::select::Selection;
use crate::totals::Totals;
use overhead_model::{CallPacket, Frame, LinkType, Tally};

/// What is there once, where several threads dissect: it is given all frames, counts them, and says whose each is.
#[derive(Debug)]
pub struct Splitter {
    frames: Frames,
    routes: Routes,
}

impl Splitter {
    /// Returns what divides frames of which this is selected.
    pub fn new(selection: &Selection, routes: Routes) -> Self {
        Self { frames: Frames::of(selection), routes }
    }

    /// Takes in one frame. If a part is to have it, `hand` is called, once.
    #[inline]
    pub fn frame(&mut self, frame: &Frame<'_>, hand: impl FnOnce(Recipient, Moment)) {
        let Self { frames, routes } = self;
        match frames.look_at(frame) {
            Sight::Usual(plain) => hand(Recipient::Part(routes.of_plain(&plain)), frames.moment()),
            Sight::Copy => {}
            Sight::Other => self.rare(frame, hand),
        }
    }

    /// A frame with other headers than most have.
    #[inline(never)]
    fn rare(&mut self, frame: &Frame<'_>, hand: impl FnOnce(Recipient, Moment)) {
        let Self { frames, routes } = self;
        let mut hand = Some(hand);
        frames.rare(frame, |found, at| {
            let recipient = match found {
                Found::Segment(segment) => Recipient::Part(routes.of(segment)),
                Found::Call(CallPacket::Part(part)) => Recipient::Part(routes.of_ends([part.sender, part.receiver])),
                // Whose a fragment is shows when all are there.
                Found::Fragment | Found::Call(CallPacket::Announcement) => Recipient::All,
                Found::Reassembled(_) => return,
            };
            if let Some(hand) = hand.take() {
                hand(recipient, at);
            }
        });
    }

    /// Returns the totals over all frames, to which those of each part are to be added.
    pub fn finish(self) -> Totals {
        self.frames.finish()
    }
}

/// One of several that dissect: it is given what [`Splitter`] hands to it, in that order, and dissects all of it.
#[derive(Debug)]
pub struct Part<T> {
    connections: Connections<T>,
    fragments: Fragments,
    routes: Routes,
    number: usize,
}

impl<T: Tally> Part<T> {
    pub(super) fn new(connections: Connections<T>, routes: Routes, number: usize) -> Self {
        Self { connections, fragments: Fragments::default(), routes, number }
    }

    /// Takes in a frame that was handed to it.
    #[inline(never)]
    pub fn frame(&mut self, frame: &Frame<'_>, at: Moment) {
        match Plain::of(frame) {
            Some(plain) => self.connections.plain(&plain, at),
            None => self.rare(frame, at),
        }
    }

    /// A frame with other headers than most have. It is no copy, and was counted.
    fn rare(&mut self, frame: &Frame<'_>, at: Moment) {
        let Self { connections, fragments, routes, number } = self;
        if frame.link == LinkType::UPPER_PDU {
            Found::in_pdu(frame, |found| {
                if let Some(found) = found {
                    connections.found(found, at);
                }
            });
            return;
        }
        match packet::parse_any(frame) {
            Packet::Tcp(segment) => connections.segment(&segment, at),
            Packet::Fragment(fragment) => {
                fragments.take(&fragment, |whole, _| {
                    if let Packet::Tcp(segment) = whole
                        && routes.of(segment) == *number
                    {
                        connections.segment(segment, at);
                    }
                });
            }
            _ => {}
        }
    }

    /// Ends all of its connections and gives the tally, and what they add to the totals.
    pub fn finish(self) -> (T, Totals) {
        self.connections.finish()
    }
}
