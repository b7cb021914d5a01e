//! The current connections, and which of them a segment belongs to.

use crate::bounds::Holdings;
use crate::dissector::Found;
use crate::early::EarlyCalls;
use crate::flow::{Finished, Flow, Turns};
use crate::limits;
use crate::moment::Moment;
use crate::packet::{Bare, Plain, Segment};
use crate::select::Selection;
use crate::table::{Key, Table};
use crate::tls::KeyLog;
use crate::totals::Totals;
use overhead_decode::Note;
use overhead_model::{CallPacket, FrameFacts, Tally, Trace};
use overhead_protocols::SharedContext;
use std::cmp::Reverse;
use std::collections::VecDeque;
use std::sync::Arc;

/// All connections: segments in, closed operations out to a [`Tally`].
#[derive(Debug)]
pub struct Connections<T> {
    selection: Selection,
    keys: Option<Arc<KeyLog>>,
    /// What TLS libraries were called with before the packets came; absent where no calls are to be expected.
    early: Option<EarlyCalls<Key>>,
    shared: SharedContext,
    tally: T,
    /// The tally hears of each step for now: nothing is taken from the memo.
    is_listening: bool,
    /// What connections share of their memos; absent where they have none.
    turns: Option<Turns>,
    totals: Totals,
    flows: Table<Entry>,
    /// Closed ones in order of their closing, to be forgotten in time.
    closing: VecDeque<(u64, Key)>,
    /// Until after this time, none of them is.
    next_retired_ns: u64,
    holdings: Holdings,
    /// Without payload, by number and in this order; those that have some by now are passed over.
    half_open: VecDeque<(u64, Key)>,
    /// The same of those that were half-open once.
    idle: VecDeque<(u64, Key)>,
    /// Of no selected port, likewise.
    unselected: VecDeque<(u64, Key)>,
    /// Connections so far, selected or not.
    count: u64,
    /// Frames of connections that have ended that the memo took in.
    hits: u64,
}

#[derive(Debug)]
struct Entry {
    flow: Flow,
    /// In order of appearance, from 1.
    number: u64,
    /// When both ends had closed.
    closed_ns: Option<u64>,
    /// Bytes of memory, roughly; 0 without payload.
    held: usize,
    /// Bytes of payload since that was found out.
    unweighed: u32,
    /// On a selected port, or to be told by content.
    selected: bool,
}

impl Entry {
    /// A segment goes the general way; true where it closes the connection.
    #[inline(never)]
    fn go_on<T: Tally>(&mut self, segment: &Segment<'_>, at: Moment, tally: &mut T) -> bool {
        tally.trace(Trace::Frame(facts(segment, self.number, at.number)));
        self.flow.segment(segment, at.number, tally);
        self.unweighed = self.unweighed.saturating_add(segment.payload_len);
        let closes = self.closed_ns.is_none() && self.flow.is_closed();
        if closes {
            // Not the segment's own time: a clock may be set back.
            self.closed_ns = Some(at.clock_ns);
            self.flow.shrink(tally);
            self.unweighed = u32::MAX;
        }
        closes
    }

    /// What the tally is told next is of this connection, where it wants to know.
    #[inline]
    fn announce<T: Tally>(&self, tally: &mut T) {
        if tally.wants_ends() {
            tally.turn_to(&self.flow.ends(self.number));
            if let Some(names) = self.flow.names() {
                tally.name_ends(names);
            }
        }
    }

    /// Finds out anew how many bytes are held, where it is time, and returns how many were before, where that changes.
    #[inline]
    fn weigh_if_due(&mut self) -> Option<usize> {
        // Most frames are short, and what they leave behind is little: it is not worth adding up after each.
        let is_due = self.unweighed > limits::UNWEIGHED || (self.held == 0 && self.unweighed > 0);
        is_due.then(|| self.weigh()).filter(|before| *before != self.held)
    }

    /// Finds out anew how many bytes are held, and returns how many were before.
    fn weigh(&mut self) -> usize {
        self.unweighed = 0;
        std::mem::replace(&mut self.held, self.flow.held())
    }

    /// Closed for so long that nothing more can belong to it.
    fn is_gone(&self, clock_ns: u64) -> bool {
        self.closed_ns.is_some_and(|closed_ns| clock_ns.saturating_sub(closed_ns) > limits::LINGER_NS)
    }
}

impl<T: Tally> Connections<T> {
    /// None yet.
    pub fn new(selection: Selection, tally: T) -> Self {
        Self {
            selection,
            keys: None,
            early: None,
            shared: SharedContext::default(),
            tally,
            is_listening: false,
            turns: Some(Turns::default()),
            totals: Totals::default(),
            flows: Table::default(),
            closing: VecDeque::new(),
            next_retired_ns: u64::MAX,
            holdings: Holdings::default(),
            half_open: VecDeque::new(),
            idle: VecDeque::new(),
            unselected: VecDeque::new(),
            count: 0,
            hits: 0,
        }
    }

    /// Decrypts TLS with these secrets.
    #[must_use]
    pub fn with_keys(mut self, keys: Arc<KeyLog>) -> Self {
        self.keys = Some(keys);
        self
    }

    /// Takes nothing from the memo: every frame goes the general way. The result is the same, which is what this is to show.
    #[must_use]
    pub fn without_memo(mut self) -> Self {
        self.turns = None;
        self
    }

    /// The tally's listener hears of each step from here on, or does not.
    pub fn listen(&mut self, is_listening: bool) {
        self.is_listening = is_listening;
        self.tally.listen(is_listening);
    }

    /// Returns how many frames were taken from the memo so far.
    pub fn memo_hits(&self) -> u64 {
        self.hits + self.flows.iter().map(|(_, entry)| entry.flow.hits()).sum::<u64>()
    }

    /// Returns what was tallied so far.
    pub fn tally(&mut self) -> &T {
        for entry in self.flows.iter_mut() {
            entry.announce(&mut self.tally);
            entry.flow.tell(&mut self.tally);
        }
        &self.tally
    }

    /// Returns the tally, as far as it was told.
    pub fn tally_mut(&mut self) -> &mut T {
        &mut self.tally
    }

    /// Takes in what was found in a frame.
    pub fn found(&mut self, found: Found<'_>, at: Moment) {
        match found {
            Found::Segment(segment) | Found::Reassembled(segment) => self.segment(segment, at),
            Found::Call(call) => self.call(call, at),
        }
    }

    /// Takes in one segment.
    pub fn segment(&mut self, segment: &Segment<'_>, at: Moment) {
        let (key, is_from_lesser) = Key::of(segment.source, segment.destination);
        self.take((key, is_from_lesser), segment.bare(), || *segment, at);
    }

    /// Takes in the segment of a frame with the usual headers.
    #[inline(always)]
    pub fn plain(&mut self, plain: &Plain<'_>, at: Moment) {
        self.take(Key::of_words(plain.ends()), plain.bare(), || segment_of(*plain), at);
    }

    /// Takes in what a TLS library was called with.
    #[cold]
    pub fn call(&mut self, call: &CallPacket<'_>, at: Moment) {
        let early = self.early.get_or_insert_default();
        if let CallPacket::Part(part) = call {
            let (key, _) = Key::of(part.sender, part.receiver);
            early.add(key, part, at.clock_ns);
            self.offer(key);
        }
    }

    /// Gives a connection the calls that wait for it, as far as it can take them.
    #[cold]
    fn offer(&mut self, key: Key) {
        let Self { early: Some(early), flows, tally, .. } = self else { return };
        let Some(entry) = flows.get_mut(&key) else { return };
        entry.announce(tally);
        let mut taken = 0;
        early.offer(&key, |part| {
            let is_taken = entry.flow.call(part, tally);
            taken += if is_taken { part.len } else { 0 };
            is_taken
        });
        entry.unweighed = entry.unweighed.saturating_add(taken);
        if let Some(before) = entry.weigh_if_due() {
            self.holdings.change(before, entry.held);
            self.keep_within_bounds();
        }
    }

    /// Takes in a segment between ends of which the sender's is the lesser, or is not.
    #[inline(always)]
    fn take<'a>(
        &mut self,
        (key, is_from_lesser): (Key, bool),
        bare: Option<Bare<'_>>,
        segment: impl FnOnce() -> Segment<'a>,
        at: Moment,
    ) {
        if let Some(entry) = self.flows.get_mut(&key) {
            entry.announce(&mut self.tally);
            // A connection that has ended recalls nothing any more.
            let recalls = |bare| entry.flow.recall(is_from_lesser, bare, at.number, &mut self.tally);
            if self.is_listening || !bare.as_ref().is_some_and(recalls) {
                let segment = segment();
                if entry.is_gone(at.clock_ns) || entry.flow.is_succeeded_by(&segment) {
                    self.first(&segment, key, at);
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
        if self.early.as_ref().is_some_and(|early| early.has(&key)) {
            self.offer(key);
        }
        if self.tally.statements() > limits::STATEMENTS {
            self.shed_statements();
        }
        if at.clock_ns > self.next_retired_ns {
            self.retire(at.clock_ns);
        }
    }

    /// The first segment of a connection, which may follow another one between the same ends.
    #[cold]
    fn first(&mut self, segment: &Segment<'_>, key: Key, at: Moment) {
        if let Some(entry) = self.flows.remove(&key) {
            self.end(entry);
            self.forget_stale_closings();
        }
        self.count += 1;
        let (number, verdict) = (self.count, self.selection.judge(segment));
        let selected = !verdict.candidates.is_empty();
        let mut flow = Flow::new(segment, &verdict, self.keys.clone(), self.shared.clone(), self.turns.clone());
        if self.early.is_some() {
            flow.expect_calls();
        }
        self.flows.insert(key, Entry { flow, number, closed_ns: None, held: 0, unweighed: 0, selected });
        if selected {
            self.holdings.begin();
        }
        self.segment(segment, at);
        if !selected {
            self.unselected.push_back((number, key));
            self.forget_unselected();
        } else if self.flows.get(&key).is_some_and(|entry| entry.held == 0) {
            self.half_open.push_back((number, key));
            self.make_room_for_bare();
        }
    }

    /// Forgets the oldest connections of no selected port where there are too many: their frames are counted already.
    fn forget_unselected(&mut self) {
        while self.unselected.len() > limits::UNSELECTED
            && let Some((number, key)) = self.unselected.pop_front()
        {
            if let Some(entry) = self.remove_numbered(number, &key, |_| true) {
                self.end(entry);
            }
        }
    }

    /// Gives up connections without payload where there are too many: half-open and closed ones first, the oldest first.
    fn make_room_for_bare(&mut self) {
        let flows = &self.flows;
        let is_bare =
            |(number, key): &(u64, Key)| flows.get(key).is_some_and(|entry| entry.number == *number && entry.held == 0);
        // Most have payload soon.
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

    /// Gives up what it takes if all connections hold more than is allowed.
    #[inline]
    fn keep_within_bounds(&mut self) {
        if self.holdings.is_over() {
            self.make_room();
        }
    }

    /// Sheds some of the statements, of which there are too many. Which ones depends on what was tallied so far, so all that waits
    /// in memos is told first, and nothing is remembered by the number of one that is gone.
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

    /// Gives up what it takes for some room: closed connections, what others no longer need, then the largest.
    #[cold]
    fn make_room(&mut self) {
        // Closed ones wait for stragglers alone.
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

    /// Gives up connections until there is some room: the largest, and of equal ones the oldest.
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

    /// Ends a connection before its time; what it has to come will be taken for a new one.
    fn give_up(&mut self, number: u64, key: &Key, is_due: impl FnOnce(&Entry) -> bool) {
        if let Some(entry) = self.remove_numbered(number, key, is_due) {
            self.totals.tcp.given_up += u64::from(entry.closed_ns.is_none());
            self.end(entry);
        }
    }

    /// Takes the connection of this number out of the table, where it is still there and `is_due`.
    fn remove_numbered(&mut self, number: u64, key: &Key, is_due: impl FnOnce(&Entry) -> bool) -> Option<Entry> {
        self.flows.get(key).filter(|entry| entry.number == number && is_due(entry))?;
        self.flows.remove(key)
    }

    /// Ends connections that closed long ago.
    #[cold]
    fn retire(&mut self, clock_ns: u64) {
        let is_due = |&mut (closed_ns, _): &mut (u64, Key)| clock_ns.saturating_sub(closed_ns) > limits::LINGER_NS;
        while let Some((closed_ns, key)) = self.closing.pop_front_if(is_due) {
            self.retire_one(closed_ns, key);
        }
        let next = self.closing.front();
        self.next_retired_ns = next.map_or(u64::MAX, |&(closed_ns, _)| closed_ns.saturating_add(limits::LINGER_NS));
    }

    /// Forgets the closing of connections that gave way to a successor, where they are many.
    fn forget_stale_closings(&mut self) {
        if self.closing.len() > 2 * self.flows.len() + limits::BARE {
            let flows = &self.flows;
            self.closing
                .retain(|(closed_ns, key)| flows.get(key).is_some_and(|entry| entry.closed_ns == Some(*closed_ns)));
        }
    }

    /// Ends a connection that closed then, where it is still there.
    fn retire_one(&mut self, closed_ns: u64, key: Key) {
        if self.flows.get(&key).is_some_and(|entry| entry.closed_ns == Some(closed_ns))
            && let Some(entry) = self.flows.remove(&key)
        {
            self.end(entry);
        }
    }

    /// Ends all connections and gives the tally, and what is to be added to the totals.
    pub fn finish(mut self) -> (T, Totals) {
        let mut open = self.flows.drain();
        open.sort_unstable_by_key(|of| of.1.number);
        for of in open {
            self.end(of.1);
        }
        self.totals.uncaptured_call_bytes += self.early.as_ref().map_or(0, EarlyCalls::bytes);
        let refused = self.shared.refused();
        if refused > 0 {
            self.totals.notes.insert(Note::Expansion, refused);
        }
        (self.tally, self.totals)
    }

    fn end(&mut self, entry: Entry) {
        if entry.selected {
            self.holdings.end(entry.held);
        }
        self.shared.statements.withhold(true);
        entry.announce(&mut self.tally);
        self.tally.trace(Trace::Ending { connection: entry.number });
        let Finished { tcp, transport, other, notes, hits } = entry.flow.finish(&mut self.tally);
        self.shared.statements.withhold(false);
        self.hits += hits;
        let tcp = tcp.unwrap_or_default();
        let transports = transport.into_iter().collect();
        self.totals.add(&Totals { transports, other, tcp, notes, ..Totals::default() });
    }
}

/// Apart, and of a copy: what was read of a frame need not lie in memory for those that are recalled.
#[inline(never)]
fn segment_of(plain: Plain<'_>) -> Segment<'_> {
    plain.segment()
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
        source: segment.source,
        destination: segment.destination,
        seq: segment.seq,
        window: segment.window,
    }
}
