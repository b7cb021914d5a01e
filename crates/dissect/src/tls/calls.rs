//! Content of TLS records, taken from the calls of the library that sealed or opened them.
//!
//! A call gives the bytes it moved and the part of the TCP stream that went through the socket meanwhile. Records wait until a call shows
//! which of them hold its bytes. Everything between two calls, or too large for one call, belongs to TLS: the rest of the handshake,
//! tickets, key updates, alerts. TLS 1.2 record types show this too. If calls and records disagree, the direction ignores further
//! calls: its content is unknown, never guessed.

use super::records::{ALERT, APPLICATION_DATA, HANDSHAKE};
use super::session::RecordLayout;
use crate::limits;
use overhead_model::Side;
use std::collections::VecDeque;

/// Part of the bytes that one call moved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ClearPart {
    pub side: Side,
    /// Whether this is a call of the sender's library, not the receiver's.
    pub sent: bool,
    /// Start of the part of the TCP stream that was sent or received for the call.
    pub from: u64,
    pub to: u64,
    /// Position of the call's first byte among all bytes the library has moved.
    pub call_start: u64,
    pub call_len: u64,
    /// Bytes of the call before this part.
    pub before: u64,
    pub len: u64,
    /// Those bytes; empty if they were unavailable.
    pub bytes: Vec<u8>,
}

/// A protected record whose content is not known yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct PendingRecord {
    /// Its end in the TCP stream, and its type on the wire.
    pub end: u64,
    pub kind: u8,
    /// Its layout if it holds application data.
    pub layout: RecordLayout,
    /// Whether the other end had already sent protected records.
    pub is_late: bool,
    /// Records of both directions so far, including this one.
    pub number: u64,
}

/// Known facts about one record, in stream order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RecordFacts {
    /// Application data.
    Data(RecordLayout),
    /// A TLS record without application data, during the handshake or after it.
    ///
    /// `is_overtaken`: later application data of the other end was reported first.
    Own { layout: RecordLayout, is_session: bool, is_overtaken: bool },
    /// Content that is not known, with the type on the wire.
    Sealed(RecordLayout, u8),
}

const DISAGREEMENT: &str = "what the TLS library was called with is not what lies in the records";
const TOO_MANY: &str = "records that no call of the TLS library has told the content of";
const TOO_MUCH: &str = "calls of the TLS library whose records were not captured";

/// The calls about one connection, and the records that wait for them.
#[derive(Debug, Default)]
pub(super) struct LibraryCalls {
    parts: VecDeque<ClearPart>,
    part_bytes: usize,
    directions: [CallDirection; 2],
    records: u64,
    /// Keys give the content, so calls are not needed.
    is_ignored: bool,
}

#[derive(Debug, Default)]
struct CallDirection {
    waiting: VecDeque<PendingRecord>,
    /// Bytes of the TCP stream captured or given up so far.
    heard: u64,
    laid: u64,
    /// Whether the calls of the sender are used, not the receiver's. Set by the first call.
    source: Option<bool>,
    /// End of the records assigned to calls, as a position among the bytes the library moved.
    told: u64,
    /// End of the content handed on, as such a position.
    handed: u64,
    has_data: bool,
    /// Number of the last record of application data.
    last_data: u64,
    given_up: bool,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum CallEvent {
    /// Post the next record as this.
    Record(RecordFacts),
    /// Decode the next content of posted records.
    Content(Vec<u8>),
    /// Skip this many bytes of content, which is unknown.
    Missing(u64),
    /// Calls no longer count, for this reason.
    GivenUp(&'static str),
}

impl LibraryCalls {
    /// Returns the approximate memory held, in bytes.
    pub fn held(&self) -> usize {
        let records = self.directions.iter().map(|direction| direction.waiting.capacity() * size_of::<PendingRecord>());
        self.parts.capacity() * size_of::<ClearPart>() + self.part_bytes + records.sum::<usize>()
    }

    /// Counts bytes of the stream that arrived or were given up.
    pub fn hear(&mut self, side: Side, len: u64) {
        self.directions[side as usize].heard += len;
    }

    /// Returns the start of the record that begins with the last `available` bytes heard.
    pub fn position(&self, side: Side, available: u64) -> u64 {
        self.directions[side as usize].heard.saturating_sub(available)
    }

    /// Drops all calls, because keys give the content.
    pub fn ignore(&mut self) {
        self.is_ignored = true;
        (self.parts, self.part_bytes) = (VecDeque::new(), 0);
    }

    pub fn add(&mut self, part: ClearPart) {
        if self.is_ignored {
            return;
        }
        let direction = &mut self.directions[part.side as usize];
        if direction.source.is_none() {
            (direction.told, direction.handed) = (part.call_start, part.call_start);
        }
        if *direction.source.get_or_insert(part.sent) == part.sent && !direction.given_up {
            self.part_bytes += part.bytes.len();
            self.parts.push_back(part);
        }
    }

    /// Queues a protected record.
    pub fn lay(&mut self, side: Side, mut record: PendingRecord) {
        record.is_late = !self.directions[side.other() as usize].is_untouched();
        self.records += 1;
        record.number = self.records;
        let direction = &mut self.directions[side as usize];
        direction.laid = record.end;
        direction.waiting.push_back(record);
    }

    pub fn is_waiting(&self, side: Side) -> bool {
        !self.directions[side as usize].waiting.is_empty()
    }

    /// Returns the end, in the TCP stream, of the last waiting record that may begin an operation: one from the client, or the server's
    /// first one after it, which may be a ticket.
    pub fn awaited(&self) -> Option<(Side, u64)> {
        let [request, response] = &self.directions;
        let last = request.waiting.back().map_or(request.last_data, |record| record.number);
        let is_ticket = |record: &&PendingRecord| record.number > last && !response.has_data && !record.says_its_type();
        let ticket = response.waiting.front().filter(is_ticket).map(|record| (Side::Response, record.end));
        ticket.or_else(|| Some((Side::Request, request.waiting.back()?.end)))
    }

    /// Reports everything the parts so far show, in order.
    pub fn tell(&mut self, out: &mut Vec<(Side, CallEvent)>) {
        while let Some(part) = self.parts.front() {
            let side = part.side;
            let direction = &mut self.directions[side as usize];
            if !direction.given_up && direction.awaits(part) {
                break;
            }
            let Some(part) = self.pop() else { break };
            let others = self.directions[side.other() as usize].last_data;
            let direction = &mut self.directions[side as usize];
            if !direction.given_up && direction.part(part, (side, others), out).is_none() {
                self.give_up(side, DISAGREEMENT, out);
            }
        }
        let is_too_much = self.part_bytes > limits::CLEAR_BYTES;
        for side in Side::BOTH {
            if is_too_much {
                self.give_up(side, TOO_MUCH, out);
            } else if self.directions[side as usize].waiting.len() > limits::SEALED_RECORDS {
                self.give_up(side, TOO_MANY, out);
            }
        }
    }

    fn pop(&mut self) -> Option<ClearPart> {
        let part = self.parts.pop_front()?;
        self.part_bytes -= part.bytes.len();
        Some(part)
    }

    /// Stops using calls for a direction.
    fn give_up(&mut self, side: Side, reason: &'static str, out: &mut Vec<(Side, CallEvent)>) {
        let direction = &mut self.directions[side as usize];
        if !std::mem::replace(&mut direction.given_up, true) {
            self.seal(side, out);
            out.push((side, CallEvent::GivenUp(reason)));
        }
    }

    /// Ends the connection: records still waiting stay unknown. A last record of two bytes that no call moved is the alert that ends most
    /// connections.
    pub fn end(&mut self, out: &mut Vec<(Side, CallEvent)>) {
        self.tell(out);
        for side in Side::BOTH {
            let direction = &mut self.directions[side as usize];
            if let [last] = direction.waiting.make_contiguous()
                && (last.layout.content == 2 || last.kind == ALERT)
                && direction.has_data
                && !direction.given_up
            {
                out.push((side, CallEvent::Record(last.own(true, 0))));
                direction.waiting.clear();
            }
            self.seal(side, out);
        }
    }

    /// Reports waiting records as sealed, and content not handed on as missing.
    pub fn seal(&mut self, side: Side, out: &mut Vec<(Side, CallEvent)>) {
        let direction = &mut self.directions[side as usize];
        let missing = direction.told - direction.handed;
        direction.handed = direction.told;
        if missing > 0 {
            out.push((side, CallEvent::Missing(missing)));
        }
        let waiting = std::mem::take(&mut direction.waiting);
        out.extend(waiting.into_iter().map(|record| (side, CallEvent::Record(record.sealed()))));
    }

    pub fn is_given_up(&self, side: Side) -> bool {
        self.directions[side as usize].given_up
    }
}

impl PendingRecord {
    fn sealed(&self) -> RecordFacts {
        RecordFacts::Sealed(self.layout, self.kind)
    }

    /// Returns it as a record without application data. `others` is the number of the other end's last record of application data.
    fn own(&self, is_session: bool, others: u64) -> RecordFacts {
        // An alert has two bytes; no message of a handshake has fewer than four.
        let kind = match (self.kind, self.layout.content) {
            (APPLICATION_DATA, 2) => ALERT,
            (APPLICATION_DATA, _) => HANDSHAKE,
            (kind, _) => kind,
        };
        RecordFacts::Own {
            layout: RecordLayout { kind, ..self.layout },
            is_session,
            is_overtaken: others > self.number,
        }
    }

    fn may_be_data(&self) -> bool {
        self.kind == APPLICATION_DATA && self.layout.content > 0
    }

    /// Returns whether the type on the wire is the content type (before TLS 1.3).
    fn says_its_type(&self) -> bool {
        self.kind != APPLICATION_DATA || self.layout.type_bytes == 0
    }

    /// Returns whether it cannot hold application data, or is as short as an alert or a key update.
    fn is_short(&self) -> bool {
        !self.may_be_data() || matches!(self.layout.content, 2 | 5)
    }

    fn content(&self) -> u64 {
        if self.may_be_data() { self.layout.content as u64 } else { 0 }
    }
}

impl CallDirection {
    fn is_untouched(&self) -> bool {
        self.waiting.is_empty() && !self.has_data && !self.given_up
    }

    /// Returns whether records of this part's call are still to come. A FIN after the last one may have been counted as a byte.
    fn awaits(&self, part: &ClearPart) -> bool {
        part.call_start + part.call_len > self.told && self.laid + 1 < part.to
    }

    /// Takes in a part; `None` if calls and records disagree. `others` is as in [`PendingRecord::own`].
    fn part(&mut self, part: ClearPart, (side, others): (Side, u64), out: &mut Vec<(Side, CallEvent)>) -> Option<()> {
        let (start, end) = (part.call_start + part.before, part.call_start + part.call_len);
        if end > self.told {
            // Earlier calls may have been lost, but their records are here.
            let wanted = end - self.told;
            let reached = self.waiting.iter().take_while(|record| record.end <= part.to).count();
            let first = self.first_of_data(wanted, reached, part.sent)?;
            self.tell_records((first, reached), wanted, (side, others), out);
            if self.told < end || (part.sent && self.told > end) {
                return None;
            }
        }
        let missing = start.checked_sub(self.handed)?;
        if missing > 0 {
            out.push((side, CallEvent::Missing(missing)));
        }
        self.handed = start + part.len;
        let is_there = part.bytes.len() as u64 == part.len;
        out.push((side, if is_there { CallEvent::Content(part.bytes) } else { CallEvent::Missing(part.len) }));
        Some(())
    }

    /// Returns the index, among the first `reached` records, of the first with application data, for a call that moved `wanted` bytes.
    fn first_of_data(&self, wanted: u64, reached: usize, sent: bool) -> Option<usize> {
        let reached = || self.waiting.iter().take(reached);
        if reached().all(PendingRecord::says_its_type) {
            return Some(0);
        }
        // A call ends with the record that has its last bytes: earlier records that do not fit belong to TLS.
        let mut sum = 0;
        let backwards = reached().enumerate().rev();
        let (first, _) = backwards.map(|(index, record)| (index, record.content())).find(|(_, content)| {
            sum += content;
            sum >= wanted
        })?;
        // A library that reads ahead has received more than it has handed out.
        let is_ahead = !sent && self.has_data && !reached().take(first).all(PendingRecord::is_short);
        Some(if is_ahead { 0 } else { first })
    }

    /// Reports the records before `first`, which hold no data, then as many of those `reached` as hold `wanted` bytes.
    fn tell_records(
        &mut self,
        (first, reached): (usize, usize),
        wanted: u64,
        (side, others): (Side, u64),
        out: &mut Vec<(Side, CallEvent)>,
    ) {
        let (goal, had_data) = (self.told + wanted, self.has_data);
        for index in 0..reached {
            if self.told >= goal {
                return;
            }
            let Some(record) = self.waiting.pop_front() else { return };
            let told = if index >= first && record.may_be_data() {
                (self.has_data, self.last_data) = (true, record.number);
                self.told += record.content();
                RecordFacts::Data(record.layout)
            } else {
                // A TLS 1.3 server sends its tickets after the client finishes the handshake and before any data.
                let is_ticket = side == Side::Response && record.is_late && !record.says_its_type();
                record.own(had_data || is_ticket, others)
            };
            out.push((side, CallEvent::Record(told)));
        }
    }
}

#[cfg(test)]
mod tests;
