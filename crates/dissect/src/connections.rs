//! Tracks current connections and assigns segments to them.

mod entry;
mod join;
mod parking;

use crate::bounds::Holdings;
use crate::flow::{ConnectionFlow, FinishedFlow, SharedTurns};
use crate::limits;
use crate::moment::CaptureMoment;
use crate::packet::{PlainFrame, PlainSegment, Segment};
use crate::relay::RelayedRequests;
use crate::select::Selection;
use crate::table::{ConnectionKey, ConnectionTable, KeptEntry};
use crate::tls::KeyLog;
use crate::totals::Totals;
use crate::translations::Translations;
use entry::ConnectionEntry;
use overhead_decode::{ApparentProtocol, Expansion, Note};
use overhead_model::{Tally, Trace};
use overhead_protocols::SharedContext;
use parking::Parking;
use std::cmp::Reverse;
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;

/// What a frame holds for a connection.
#[derive(Clone, Copy, Debug)]
pub enum FrameContent<'a> {
    Segment(&'a Segment<'a>),
    /// A fragmented segment, at its last fragment.
    Reassembled(&'a Segment<'a>),
    /// A copy of a segment that had this source and destination.
    Translated(&'a Segment<'a>, [SocketAddr; 2]),
}

/// What became of a frame's segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SegmentFate {
    Posted,
    /// Nothing yet: it may be a copy at the same place.
    Repeats,
    Copied,
}

/// Takes segments in, and hands closed operations to a [`Tally`].
#[derive(Debug)]
pub struct Connections<T> {
    selection: Selection,
    keys: Option<Arc<KeyLog>>,
    shared: SharedContext,
    translations: Translations,
    tally: T,
    /// Whether the tally hears each step; if so, the memo handles nothing.
    is_listening: bool,
    /// State that the connections' memos share; `None` disables memos.
    turns: Option<SharedTurns>,
    totals: Totals,
    relayed: RelayedRequests,
    flows: ConnectionTable<ConnectionEntry>,
    /// Closed connections in closing order, each with its closing time.
    closing: VecDeque<(u64, ConnectionKey)>,
    /// Time until which all of them are kept.
    next_retired_ns: u64,
    holdings: Holdings,
    /// Half-open connections in order of their number. Some may have payload by now, and are skipped.
    half_open: VecDeque<(u64, ConnectionKey)>,
    /// Connections without payload that are no longer half-open.
    idle: VecDeque<(u64, ConnectionKey)>,
    /// Connections on unselected ports, in order of their number.
    unselected: VecDeque<(u64, ConnectionKey)>,
    /// Selected or not.
    count: u64,
    /// Frames of ended connections that the memo handled.
    hits: u64,
}

/// Is asked about a segment with nothing new: whether its frame may be a copy.
pub trait MayRepeat: FnOnce(&Segment<'_>) -> bool {}
impl<F: FnOnce(&Segment<'_>) -> bool> MayRepeat for F {}

impl<T: Tally> Connections<T> {
    pub fn new(selection: Selection, tally: T) -> Self {
        let mut shared = SharedContext::default();
        shared.given = selection.given.clone();
        Self {
            selection,
            keys: None,
            shared,
            translations: Translations::default(),
            tally,
            is_listening: false,
            turns: Some(SharedTurns::default()),
            totals: Totals::default(),
            relayed: RelayedRequests::default(),
            flows: ConnectionTable::default(),
            closing: VecDeque::new(),
            next_retired_ns: u64::MAX,
            holdings: Holdings::new(limits::HELD),
            half_open: VecDeque::new(),
            idle: VecDeque::new(),
            unselected: VecDeque::new(),
            count: 0,
            hits: 0,
        }
    }

    #[must_use]
    pub fn with_keys(mut self, keys: Arc<KeyLog>) -> Self {
        self.keys = Some(keys);
        self
    }

    /// See [`crate::Dissector::within`].
    #[must_use]
    pub fn within(mut self, bytes: usize) -> Self {
        self.holdings = Holdings::new(bytes);
        self.shared = self.shared.with_expansion(Expansion::within(bytes as u64));
        self
    }

    /// Disables the memo, to show that the result is the same without it.
    #[must_use]
    pub fn without_memo(mut self) -> Self {
        self.turns = None;
        self
    }

    /// Sets whether the tally's listener hears each step from here on.
    pub fn listen(&mut self, is_listening: bool) {
        self.is_listening = is_listening;
        self.tally.listen(is_listening);
    }

    pub fn memo_hits(&self) -> u64 {
        self.hits + self.flows.iter().map(|(_, entry)| entry.flow.hits()).sum::<u64>()
    }

    /// Returns the tally, once the memos have reported to it.
    pub fn tally(&mut self) -> &T {
        for entry in self.flows.iter_mut() {
            entry.announce(&mut self.tally);
            entry.flow.tell(&mut self.tally);
        }
        &self.tally
    }

    /// Returns the tally without updating it from the memos.
    pub fn tally_mut(&mut self) -> &mut T {
        &mut self.tally
    }

    /// Handles the content of a frame. `may_repeat` is asked about a segment with nothing new: whether its frame may be a copy.
    pub fn found(&mut self, found: &FrameContent<'_>, at: CaptureMoment, may_repeat: impl MayRepeat) -> SegmentFate {
        match *found {
            FrameContent::Segment(segment) => self.segment(segment, at, may_repeat),
            FrameContent::Reassembled(segment) => self.segment(segment, at, |_| false),
            FrameContent::Translated(segment, first) if !self.join(segment, first) => SegmentFate::Copied,
            FrameContent::Translated(segment, _) => self.post(self.translations.original(segment), at, |_| false),
        }
    }

    pub fn segment(&mut self, segment: &Segment<'_>, at: CaptureMoment, may_repeat: impl MayRepeat) -> SegmentFate {
        let segment = self.original(segment, at.clock_ns);
        self.post(segment, at, may_repeat)
    }

    /// Handles a segment between its ends' own addresses.
    fn post(&mut self, segment: Segment<'_>, at: CaptureMoment, may_repeat: impl MayRepeat) -> SegmentFate {
        let key = ConnectionKey::new(segment.source, segment.destination);
        self.take(key, segment.bare(), || segment, at, may_repeat)
    }

    /// Handles the segment of a frame with the usual headers.
    #[inline(always)]
    pub fn plain(&mut self, plain: &PlainFrame<'_>, at: CaptureMoment, may_repeat: impl MayRepeat) -> SegmentFate {
        self.take(ConnectionKey::from_words(plain.ends()), plain.bare(), || segment_of(*plain), at, may_repeat)
    }

    /// Returns whether a segment has nothing new for its connection.
    pub fn repeats(&self, segment: &Segment<'_>) -> bool {
        let segment = self.translations.original(segment);
        let (key, _) = ConnectionKey::new(segment.source, segment.destination);
        self.flows.get(&key).is_some_and(|entry| entry.flow.repeats(&segment))
    }

    /// Handles a segment; `is_from_lesser` says whether the sender is the lesser end of the key.
    #[inline(always)]
    fn take<'a>(
        &mut self,
        (key, is_from_lesser): (ConnectionKey, bool),
        bare: Option<PlainSegment<'_>>,
        segment: impl FnOnce() -> Segment<'a>,
        at: CaptureMoment,
        may_repeat: impl MayRepeat,
    ) -> SegmentFate {
        if let Some(entry) = self.flows.get_mut(&key) {
            entry.announce(&mut self.tally);
            let recalls = |bare| entry.flow.recall(is_from_lesser, bare, at.number, &mut self.tally);
            if self.is_listening || !bare.as_ref().is_some_and(recalls) {
                let segment = segment();
                if entry.flow.repeats(&segment) {
                    if may_repeat(&segment) {
                        return SegmentFate::Repeats;
                    }
                    if segment.payload_len > 0 && segment.time_ns < at.clock_ns {
                        *self.totals.notes.entry(Note::RepeatedBackInTime).or_default() += 1;
                    }
                }
                if entry.is_gone(at.clock_ns) || entry.flow.is_succeeded_by(&segment) {
                    self.succeed(&segment, key, at);
                } else {
                    if entry.go_on(&segment, at, &mut self.tally) {
                        self.closing.push_back((at.clock_ns, key));
                        let until_ns = at.clock_ns.saturating_add(limits::LINGER_NS);
                        self.next_retired_ns = self.next_retired_ns.min(until_ns);
                    }
                    if let Some(before) = entry.weigh_if_due() {
                        self.holdings.change(before, entry.held);
                        self.keep_within_bounds();
                    }
                }
            }
        } else {
            self.first(&segment(), key, at);
        }
        if self.tally.statements() > limits::STATEMENTS {
            self.shed_statements();
        }
        if at.clock_ns > self.next_retired_ns {
            self.retire(at.clock_ns);
        }
        SegmentFate::Posted
    }

    /// Ends a connection and starts its successor between the same ends.
    #[cold]
    fn succeed(&mut self, segment: &Segment<'_>, key: ConnectionKey, at: CaptureMoment) {
        if let Some(mut entry) = self.flows.remove(&key) {
            self.end(&mut entry.1);
            self.forget_stale_closings();
        }
        self.first(segment, key, at);
    }

    /// Starts a connection with its first segment.
    #[cold]
    fn first(&mut self, segment: &Segment<'_>, key: ConnectionKey, at: CaptureMoment) {
        self.count += 1;
        let (number, verdict) = (self.count, self.selection.judge(segment));
        let selected = !verdict.candidates.is_empty();
        let flow = ConnectionFlow::new(segment, &verdict, self.keys.clone(), self.shared.clone(), self.turns.clone());
        let parking = Parking::default();
        let entry = ConnectionEntry { flow, number, closed_ns: None, held: 0, unweighed: 0, selected, parking };
        self.flows.insert(Box::new((key, entry)));
        if selected {
            self.holdings.begin();
        }
        self.post(*segment, at, |_| false);
        if !selected {
            self.unselected.push_back((number, key));
            self.forget_unselected();
        } else if self.flows.get_mut(&key).is_some_and(|entry| entry.held == 0) {
            self.half_open.push_back((number, key));
            self.make_room_for_bare();
        }
    }

    /// Forgets the oldest connections on unselected ports if there are too many; their frames are already counted.
    fn forget_unselected(&mut self) {
        while self.unselected.len() > limits::UNSELECTED
            && let Some((number, key)) = self.unselected.pop_front()
        {
            if let Some(mut entry) = self.remove_numbered(number, &key, |_| true) {
                self.end(&mut entry.1);
            }
        }
    }

    /// Gives up connections without payload if there are too many: half-open and closed ones first, oldest first.
    fn make_room_for_bare(&mut self) {
        let flows = &self.flows;
        let is_bare = |(number, key): &(u64, ConnectionKey)| {
            flows.get(key).is_some_and(|entry| entry.number == *number && entry.held == 0)
        };
        // Most receive payload soon.
        while self.half_open.pop_front_if(|oldest| !is_bare(oldest)).is_some() {}
        for queue in [&mut self.half_open, &mut self.idle] {
            if queue.len() > 2 * limits::BARE {
                queue.retain(is_bare);
            }
        }
        while self.holdings.is_flooded() {
            if let Some((number, key)) = self.half_open.pop_front() {
                let bare = self.flows.get(&key).filter(|entry| entry.number == number && entry.held == 0);
                if bare.is_some_and(|entry| entry.closed_ns.is_none() && entry.flow.is_answered()) {
                    self.idle.push_back((number, key));
                } else {
                    self.give_up(number, &key, |entry| entry.held == 0);
                }
            } else if let Some((number, key)) = self.idle.pop_front() {
                self.give_up(number, &key, |entry| entry.held == 0);
            } else {
                return;
            }
        }
    }

    /// Makes room if the connections hold more than the limit.
    #[inline]
    fn keep_within_bounds(&mut self) {
        if self.holdings.is_over() {
            self.make_room();
        }
    }

    /// Sheds statements, since there are too many. The choice depends on the tally, so the memos report first; nothing may still refer to
    /// a shed statement by number.
    #[cold]
    fn shed_statements(&mut self) {
        for entry in self.flows.iter_mut() {
            entry.announce(&mut self.tally);
            entry.flow.forget_turns(&mut self.tally);
        }
        if let Some(turns) = &self.turns {
            turns.clear();
        }
        self.tally.shed_statements(limits::STATEMENTS / 2);
        for entry in self.flows.iter_mut() {
            entry.flow.renumber(|row| self.tally.renumbered(row));
        }
    }

    /// Makes room: drops closed connections, then memory that connections no longer need, then the largest connections.
    #[cold]
    fn make_room(&mut self) {
        // Closed connections only wait for stragglers.
        while self.holdings.is_crowded()
            && let Some((closed_ns, key)) = self.closing.pop_front()
        {
            self.retire_one(closed_ns, key);
        }
        if self.holdings.is_crowded() {
            for entry in self.flows.iter_mut().filter(|entry| entry.held > 0) {
                entry.announce(&mut self.tally);
                entry.flow.shrink(&mut self.tally);
                let before = entry.weigh();
                self.holdings.change(before, entry.held);
            }
        }
        if self.holdings.is_crowded() {
            self.give_up_largest();
        }
    }

    /// Gives up connections until there is room: the largest first, and the oldest among equals.
    fn give_up_largest(&mut self) {
        let mut sizes: Vec<_> =
            self.flows.iter().map(|(key, entry)| (Reverse(entry.held), entry.number, *key)).collect();
        sizes.sort_unstable_by_key(|&(held, number, _)| (held, number));
        for (_, number, key) in sizes {
            if !self.holdings.is_crowded() {
                return;
            }
            self.give_up(number, &key, |_| true);
        }
    }

    /// Ends a connection early; its later segments start a new one.
    fn give_up(&mut self, number: u64, key: &ConnectionKey, is_due: impl FnOnce(&ConnectionEntry) -> bool) {
        if let Some(mut entry) = self.remove_numbered(number, key, is_due) {
            self.totals.tcp.given_up += u64::from(entry.1.closed_ns.is_none());
            self.end(&mut entry.1);
        }
    }

    /// Removes the connection with this number, if it is still present and `is_due`.
    fn remove_numbered(
        &mut self,
        number: u64,
        key: &ConnectionKey,
        is_due: impl FnOnce(&ConnectionEntry) -> bool,
    ) -> Option<KeptEntry<ConnectionEntry>> {
        self.flows.remove_if(key, |entry| entry.number == number && is_due(entry))
    }

    #[cold]
    fn retire(&mut self, clock_ns: u64) {
        let is_due =
            |&mut (closed_ns, _): &mut (u64, ConnectionKey)| clock_ns.saturating_sub(closed_ns) > limits::LINGER_NS;
        while let Some((closed_ns, key)) = self.closing.pop_front_if(is_due) {
            self.retire_one(closed_ns, key);
        }
        let next = self.closing.front();
        self.next_retired_ns = next.map_or(u64::MAX, |&(closed_ns, _)| closed_ns.saturating_add(limits::LINGER_NS));
    }

    /// Removes closings of connections that gave way to a successor, if there are many.
    fn forget_stale_closings(&mut self) {
        if self.closing.len() > 2 * self.flows.len() + limits::BARE {
            let flows = &self.flows;
            self.closing
                .retain(|(closed_ns, key)| flows.get(key).is_some_and(|entry| entry.closed_ns == Some(*closed_ns)));
        }
    }

    /// Ends a connection that closed at that time, if it is still present.
    fn retire_one(&mut self, closed_ns: u64, key: ConnectionKey) {
        if let Some(mut entry) = self.flows.remove_if(&key, |entry| entry.closed_ns == Some(closed_ns)) {
            self.end(&mut entry.1);
        }
    }

    /// Ends all connections; returns the tally, and what to add to the totals.
    pub fn finish(mut self) -> (T, Totals) {
        let mut open = self.flows.drain();
        open.sort_unstable_by_key(|of| of.1.number);
        // What the content of one reveals of its server helps to decide the others.
        for entry in &mut open {
            entry.1.announce(&mut self.tally);
            entry.1.flow.decide_by_content(&mut self.tally);
        }
        for mut entry in open {
            self.end(&mut entry.1);
        }
        let refused = self.shared.refused();
        if refused > 0 {
            self.totals.notes.insert(Note::Expansion, refused);
        }
        self.totals.notes.extend(self.translations.notes());
        self.totals.notes.extend(self.relayed.relays().into_iter().map(|server| (Note::Relay { server }, 1)));
        (self.tally, self.totals)
    }

    fn end(&mut self, entry: &mut ConnectionEntry) {
        if entry.selected {
            self.holdings.end(entry.held);
        }
        entry.announce(&mut self.tally);
        entry.release_all(|segment| Some(segment.ack), &mut self.tally);
        self.shared.statements.withhold(true);
        self.tally.trace(Trace::Ending { connection: entry.number });
        let FinishedFlow { tcp, transport, other, wire_bytes, notes, hits, requests } =
            entry.flow.finish(&mut self.tally);
        self.relayed.add(entry.flow.ends, &requests);
        self.shared.statements.withhold(false);
        self.hits += hits;
        let tcp = tcp.unwrap_or_default();
        let is_midway =
            notes.keys().any(|note| matches!(note, Note::Foreign(foreign) if foreign.look == ApparentProtocol::Tls));
        let midway_tls_bytes = if is_midway { wire_bytes } else { 0 };
        self.totals.transports.extend(transport);
        self.totals.add(&Totals { other, midway_tls_bytes, tcp, notes, ..Totals::default() });
    }
}

/// Takes a copy and stays out of line, so that recalled frames need not store what was read of them in memory.
#[inline(never)]
fn segment_of(plain: PlainFrame<'_>) -> Segment<'_> {
    plain.segment()
}
