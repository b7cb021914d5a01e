//! Frames in, closed operations out, totals at the end.

use crate::copies::Copies;
use crate::decode::{KeyLog, Note};
use crate::flow::{Finished, Flow};
use crate::fragments::{Fragments, Outcome};
use crate::limits;
use crate::packet::{self, Fragment, Packet, Segment};
use crate::protocols::Commons;
use crate::select::Selection;
use overhead_model::record::TcpTotals;
use overhead_model::{Frame, FrameFacts, LinkType, Tally, Trace};
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;

/// Totals over all frames, as the run record has them in `source`, `tcp` and `ledger.other`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Link types seen.
    pub link_types: BTreeSet<LinkType>,
    /// Earliest capture time, Unix nanoseconds; `None` without frames.
    pub first_ns: Option<u64>,
    /// Latest capture time.
    pub last_ns: Option<u64>,
    /// Frames.
    pub frames: u64,
    /// Their lengths on the wire.
    pub wire_bytes: u64,
    /// Their captured lengths.
    pub captured_bytes: u64,
    /// Frames captured shorter than they were.
    pub truncated_frames: u64,
    /// TCP payload of selected connections that was on the wire but not captured.
    pub snapped_payload_bytes: u64,
    /// Second copies of frames on `any`, by interface or packet type.
    pub duplicate_frames: u64,
    /// Frames whose headers do not parse.
    pub malformed_frames: u64,
    /// Bytes of frames that belong to no selected connection.
    pub other: u64,
    /// Transport totals over the selected connections.
    pub tcp: TcpTotals,
    /// Doubts of decoders, and how often each occurred.
    pub notes: BTreeMap<Note, u64>,
}

/// Both ends of a connection, the lesser first.
type Key = (SocketAddr, SocketAddr);

/// Takes frames apart and hands closed operations to a [`Tally`].
#[derive(Debug)]
pub struct Dissector<T> {
    selection: Selection,
    keys: Option<Arc<KeyLog>>,
    commons: Commons,
    tally: T,
    totals: Totals,
    copies: Copies,
    fragments: Fragments,
    flows: HashMap<Key, Entry>,
    closing: VecDeque<(u64, Key)>,
    /// Connections so far, selected or not.
    connections: u64,
}

#[derive(Debug)]
struct Entry {
    flow: Flow,
    /// In order of appearance, from 1.
    number: u64,
    /// When both ends had closed.
    closed_ns: Option<u64>,
}

impl<T: Tally> Dissector<T> {
    /// A dissector for the selected connections.
    pub fn new(selection: Selection, tally: T) -> Self {
        Self {
            selection,
            keys: None,
            commons: Commons::default(),
            tally,
            totals: Totals::default(),
            copies: Copies::default(),
            fragments: Fragments::default(),
            flows: HashMap::new(),
            closing: VecDeque::new(),
            connections: 0,
        }
    }

    /// Decrypts TLS with these secrets, which may become more while frames come in.
    #[must_use]
    pub fn with_keys(mut self, keys: Arc<KeyLog>) -> Self {
        self.keys = Some(keys);
        self
    }

    /// Totals so far; what open connections hold is added when they end.
    pub fn totals(&self) -> &Totals {
        &self.totals
    }

    /// What was tallied so far.
    pub fn tally(&self) -> &T {
        &self.tally
    }

    /// Takes in one frame.
    pub fn frame(&mut self, frame: &Frame<'_>) {
        self.count(frame);
        let packet = packet::parse(frame);
        let copy = match &packet {
            Packet::Tcp(segment) => self.copies.has_segment(frame, segment),
            Packet::Fragment(fragment) => self.copies.has_fragment(frame, fragment),
            Packet::Other | Packet::Malformed => false,
        };
        if copy {
            self.totals.duplicate_frames += 1;
            self.totals.other += u64::from(frame.original_len);
        } else {
            self.packet(&packet, u64::from(frame.original_len), 1);
        }
        self.retire(frame.time_ns);
    }

    /// Takes in what a frame holds, or what `frames` fragments hold together.
    fn packet(&mut self, packet: &Packet<'_>, wire_len: u64, frames: u64) {
        match packet {
            Packet::Tcp(segment) => self.segment(segment),
            Packet::Fragment(fragment) => self.fragment(fragment),
            Packet::Other => self.totals.other += wire_len,
            Packet::Malformed => {
                self.totals.malformed_frames += frames;
                self.totals.other += wire_len;
            }
        }
    }

    /// Headers add up towards a limit, so packets in fragments within packets in fragments come to an end.
    fn fragment(&mut self, fragment: &Fragment<'_>) {
        let Outcome { whole, discarded } = self.fragments.add(fragment);
        self.totals.other += discarded;
        if let Some(whole) = whole {
            let packet = packet::parse_datagram(&whole);
            self.packet(&packet, u64::from(whole.wire_len), u64::from(whole.frames));
        }
    }

    /// Ends all connections and gives the tally and the totals.
    pub fn finish(mut self) -> (T, Totals) {
        let mut open: Vec<Entry> = std::mem::take(&mut self.flows).into_values().collect();
        open.sort_unstable_by_key(|entry| entry.number);
        for entry in open {
            self.end(entry);
        }
        self.totals.other += self.fragments.finish();
        (self.tally, self.totals)
    }

    fn count(&mut self, frame: &Frame<'_>) {
        let totals = &mut self.totals;
        totals.link_types.insert(frame.link);
        totals.frames += 1;
        totals.wire_bytes += u64::from(frame.original_len);
        totals.captured_bytes += frame.bytes.len() as u64;
        totals.truncated_frames += u64::from(frame.bytes.len() < frame.original_len as usize);
        totals.first_ns = Some(totals.first_ns.map_or(frame.time_ns, |first| first.min(frame.time_ns)));
        totals.last_ns = Some(totals.last_ns.map_or(frame.time_ns, |last| last.max(frame.time_ns)));
    }

    fn segment(&mut self, segment: &Segment<'_>) {
        let key = key(segment);
        let lingered = |closed: u64| segment.time_ns.saturating_sub(closed) > limits::LINGER_NS;
        let over = self
            .flows
            .get(&key)
            .is_some_and(|entry| entry.flow.is_succeeded_by(segment) || entry.closed_ns.is_some_and(lingered));
        if over && let Some(entry) = self.flows.remove(&key) {
            self.end(entry);
        }
        let (selection, keys, connections) = (&self.selection, &self.keys, &mut self.connections);
        let commons = &self.commons;
        commons.at(self.totals.frames);
        let entry = self.flows.entry(key).or_insert_with(|| {
            *connections += 1;
            let flow = Flow::new(segment, &selection.judge(segment), keys.clone(), commons.clone());
            Entry { flow, number: *connections, closed_ns: None }
        });
        let facts = facts(segment, entry.number, self.totals.frames);
        self.tally.trace(Trace::Frame(facts));
        entry.flow.segment(segment, facts.number, &mut self.tally);
        if entry.closed_ns.is_none() && entry.flow.is_closed() {
            entry.closed_ns = Some(segment.time_ns);
            self.closing.push_back((segment.time_ns, key));
        }
    }

    /// Ends connections that closed long ago.
    fn retire(&mut self, now_ns: u64) {
        while let Some(&(closed_ns, key)) = self.closing.front() {
            if now_ns.saturating_sub(closed_ns) <= limits::LINGER_NS {
                return;
            }
            self.closing.pop_front();
            if self.flows.get(&key).is_some_and(|entry| entry.closed_ns == Some(closed_ns))
                && let Some(entry) = self.flows.remove(&key)
            {
                self.end(entry);
            }
        }
    }

    fn end(&mut self, entry: Entry) {
        self.tally.trace(Trace::Ending { connection: entry.number });
        let Finished { tcp, other, snapped, notes } = entry.flow.finish(&mut self.tally);
        self.totals.other += other;
        self.totals.snapped_payload_bytes += snapped;
        for (note, count) in notes {
            *self.totals.notes.entry(note).or_default() += count;
        }
        let Some(tcp) = tcp else { return };
        let totals = &mut self.totals.tcp;
        totals.connections += tcp.connections;
        totals.payload_bytes += tcp.payload_bytes;
        totals.retransmitted_bytes += tcp.retransmitted_bytes;
        totals.out_of_order_frames += tcp.out_of_order_frames;
        totals.gap_bytes += tcp.gap_bytes;
        totals.control_frames += tcp.control_frames;
    }
}

fn facts(segment: &Segment<'_>, connection: u64, number: u64) -> FrameFacts {
    FrameFacts {
        number,
        connection,
        time_ns: segment.time_ns,
        wire_len: segment.wire_len,
        headers: [segment.headers.link, segment.headers.ip, segment.headers.tcp],
        payload_len: segment.payload_len,
        flags: segment.flags,
    }
}

fn key(segment: &Segment<'_>) -> Key {
    let (a, b) = (segment.source, segment.destination);
    if a <= b { (a, b) } else { (b, a) }
}
