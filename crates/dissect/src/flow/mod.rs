//! One TCP connection: segments in, ordered bytes to the decoder, every frame to the ledger.

mod half;
mod memo;
mod probe;
mod recall;
mod recent;

use crate::engine::Engine;
use crate::ledger::{Arrival, Book, Ledger, Owner};
use crate::limits;
use crate::packet::{Headers, Segment};
use crate::select::Verdict;
use crate::tls::KeyLog;
use half::{Acked, Early, Half, ORIGIN, Place};
use overhead_decode::{Foreign, Look, Note};
use overhead_model::record::TcpTotals;
use overhead_model::{Account, ConnectionSummary, DecidedBy, Protocol, Side, Tally, Trace};
use overhead_protocols::{AnyDecoder, Judgement, Shared, Sniff, judge, judge_both, look, sniff};
use probe::Probe;
use recall::Memory;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::Arc;

/// State of one connection.
#[derive(Debug)]
pub struct Flow {
    /// By [`Side`] of their sender: client, server.
    ends: [SocketAddr; 2],
    halves: [Half; 2],
    book: Book,
    stage: Stage,
    decided_by: DecidedBy,
    mid_stream: bool,
    first_ns: u64,
    frames: u64,
    wire_bytes: u64,
    tcp: TcpTotals,
    tls: bool,
    /// By side, a byte sent into a window of 0 whose fate is open. Few connections have any.
    probes: [Option<Box<Probe>>; 2],
    /// The selected or well-known port, where one end has it.
    server_port: Option<u16>,
    /// By [`Side`], whether any frame of it was seen.
    seen: [bool; 2],
    /// Frames with payload.
    payload_frames: u64,
    /// Of a port of one protocol, and no bytes have shown yet that they are of it.
    unproven: bool,
    memory: Memory,
    /// Frames that were taken in by memory.
    hits: u64,
}

/// What is known of the protocol.
#[derive(Debug)]
enum Stage {
    /// Being decoded.
    Decoding(Box<Engine<AnyDecoder>>),
    /// To be told by content.
    Sniffing(Box<Sniffing>),
    /// Of no selected protocol.
    Other,
}

/// What waits for the verdict on the protocol.
#[derive(Debug)]
struct Sniffing {
    candidates: Vec<Protocol>,
    /// The captured start of each direction.
    pieces: Vec<(Side, Piece)>,
    /// Bytes of these.
    held: usize,
    ready: Ready,
}

/// What it takes to decode.
#[derive(Debug)]
enum Ready {
    /// The protocol is to be told by content: secrets that TLS is to be decrypted with, and what connections share.
    Parts(Option<Arc<KeyLog>>, Shared),
    /// It is that of the port, unless the content says otherwise.
    Engine(Box<Engine<AnyDecoder>>),
}

/// Ordered bytes that wait for the verdict on the protocol.
#[derive(Debug)]
enum Piece {
    Bytes(Vec<u8>),
    Opaque(u64),
    /// Bytes outside the stream, the captured ones of `len`.
    Stray {
        bytes: Vec<u8>,
        frame: Arrival,
        len: u64,
    },
}

/// What a finished flow leaves behind.
#[derive(Debug, Default)]
pub struct Finished {
    /// Transport totals, where the connection was selected.
    pub tcp: Option<TcpTotals>,
    /// Bytes of its frames, where it was not.
    pub other: u64,
    /// Warnings that came up on it, and how often.
    pub notes: BTreeMap<Note, u64>,
    /// Frames that were taken in by memory.
    pub hits: u64,
}

impl Flow {
    /// Returns a connection whose first segment is `segment`; with `has_memo`, turns like earlier ones are counted, not decoded.
    pub fn new(
        segment: &Segment<'_>,
        verdict: &Verdict,
        keys: Option<Arc<KeyLog>>,
        shared: Shared,
        has_memo: bool,
    ) -> Self {
        let (source, destination) = (segment.source, segment.destination);
        let (from_client, decided_by) = match (segment.flags.syn, verdict.server_port) {
            (true, _) => (!segment.flags.ack, DecidedBy::Syn),
            (false, Some(port)) if destination.port() == port => (true, DecidedBy::Port),
            (false, Some(_)) => (false, DecidedBy::Port),
            (false, None) => (true, DecidedBy::Content),
        };
        let mid_stream = !segment.flags.syn;
        let stage = match verdict.candidates.as_slice() {
            [] => Stage::Other,
            [protocol] if decided_by != DecidedBy::Content => Stage::decoding(*protocol, mid_stream, keys, &shared),
            candidates => {
                let candidates = candidates.to_vec();
                let ready = Ready::Parts(keys, shared);
                Stage::Sniffing(Box::new(Sniffing { candidates, pieces: Vec::new(), held: 0, ready }))
            }
        };
        let protocol = verdict.candidates.first().copied().unwrap_or(Protocol::Resp);
        Self {
            ends: if from_client { [source, destination] } else { [destination, source] },
            halves: [Half::default(), Half::default()],
            book: Book::new(protocol),
            unproven: matches!(stage, Stage::Decoding(_)),
            stage,
            decided_by,
            mid_stream,
            first_ns: segment.time_ns,
            frames: 0,
            wire_bytes: 0,
            tcp: TcpTotals { connections: 1, ..TcpTotals::default() },
            tls: false,
            probes: [None, None],
            server_port: verdict.server_port,
            seen: [false; 2],
            payload_frames: 0,
            memory: Memory::new(has_memo),
            hits: 0,
        }
    }

    /// Returns whether both ends have sent something.
    pub fn is_answered(&self) -> bool {
        self.seen == [true; 2]
    }

    /// Returns how many bytes of memory it holds, roughly; 0 as long as no payload was seen.
    #[inline]
    pub fn held(&self) -> usize {
        if self.payload_frames == 0 {
            return 0;
        }
        let stage = match &self.stage {
            Stage::Decoding(engine) => engine.held(),
            Stage::Sniffing(sniffing) => sniffing.held,
            Stage::Other => 0,
        };
        limits::CONNECTION
            + self.book.held()
            + self.halves.iter().map(Half::held).sum::<usize>()
            + self.memory.held()
            + stage
    }

    /// Returns whether `segment` opens a new connection between the same ends.
    pub fn is_succeeded_by(&self, segment: &Segment<'_>) -> bool {
        segment.flags.syn && self.halves[self.side_of(segment) as usize].is_other_connection(segment.seq)
    }

    /// Returns whether both ends have said that they are done.
    pub fn is_closed(&self) -> bool {
        self.halves.iter().all(Half::fin_seen)
    }

    /// Room is short, or the connection has closed: keeps nothing that can be done without.
    pub fn shrink<T: Tally>(&mut self, tally: &mut T) {
        self.fall_back(tally);
        self.forget(tally);
        self.book.shrink();
        if let Stage::Decoding(engine) = &mut self.stage {
            engine.shrink();
        }
    }

    fn side_of(&self, segment: &Segment<'_>) -> Side {
        if segment.source == self.ends[0] { Side::Request } else { Side::Response }
    }

    /// Client and server were taken for each other.
    fn swap_sides<T: Tally>(&mut self, tally: &mut T) {
        self.ends.swap(0, 1);
        self.halves.swap(0, 1);
        self.probes.swap(0, 1);
        self.seen.swap(0, 1);
        self.book.swap_sides();
        if let Stage::Sniffing(sniffing) = &mut self.stage {
            for (side, _) in &mut sniffing.pieces {
                *side = side.other();
            }
        }
        tally.trace(Trace::Swapped);
    }

    /// Where both ends open the connection at once (RFC 9293 section 3.5), the port says which is the server.
    fn settle_sides<T: Tally>(&mut self, segment: &Segment<'_>, tally: &mut T) {
        let answers = segment.flags.syn && !segment.flags.ack && segment.source != self.ends[0];
        let untouched = self.halves.iter().all(|half| half.high() <= ORIGIN);
        if answers && untouched && self.decided_by == DecidedBy::Syn && self.server_port == Some(self.ends[0].port()) {
            self.swap_sides(tally);
            self.decided_by = DecidedBy::Port;
        }
    }

    /// Takes in one segment, which came in the frame of this number.
    pub fn segment<T: Tally>(&mut self, segment: &Segment<'_>, number: u64, tally: &mut T) {
        if self.frames == 0 && matches!(self.stage, Stage::Decoding(_)) {
            tally.trace(Trace::Decoding);
        }
        self.book.at(number, segment.frames);
        self.frames += 1;
        self.wire_bytes += u64::from(segment.wire_len);
        if matches!(self.stage, Stage::Other) {
            return self.track_other(segment);
        }
        let Headers { ip, tcp, .. } = segment.headers;
        if ip + tcp + segment.payload_len > limits::ETHERNET_MTU {
            self.oversize(segment);
        }
        self.settle_sides(segment, tally);
        let side = self.side_of(segment);
        self.seen[side as usize] = true;
        if self.recall(side, segment, number, tally) {
            return;
        }
        if segment.flags.syn {
            self.halves[side as usize].syn(segment.seq);
        }
        if segment.flags.rst {
            self.halves.iter_mut().for_each(Half::fin);
        }
        let acked = self.acknowledge(side, segment, tally);
        if segment.payload_len > 0 {
            self.payload_frames += 1;
            self.payload(side, segment, number, tally);
            if !self.seen[Side::Response as usize] {
                self.abandon(tally);
            }
            self.learnt(tally);
        } else {
            self.control(side, segment, acked, tally);
        }
        if segment.flags.fin {
            self.halves[side as usize].fin();
        }
        // Not before the segment is done with: client and server may turn out to be the other way round.
        self.decide(tally);
        if self.frames > limits::SNIFF_FRAMES && matches!(self.stage, Stage::Sniffing(_)) {
            self.decide_at_last(tally);
        }
    }

    /// Closes requests that wait, where they are many and no frame of the server was captured.
    fn abandon<T: Tally>(&mut self, tally: &mut T) {
        if let Stage::Decoding(engine) = &mut self.stage
            && self.book.outstanding() > limits::OUTSTANDING_ONE_WAY
        {
            engine.abandon(&mut Ledger::new(&mut self.book, tally));
            if !self.book.is_noted(Note::Abandoned) {
                self.book.note(Note::Abandoned);
            }
        }
    }

    /// Counts a frame that no Ethernet carries in one piece, and the headers of the further pieces.
    #[cold]
    fn oversize(&mut self, segment: &Segment<'_>) {
        let Headers { link, ip, tcp } = segment.headers;
        let room = limits::ETHERNET_MTU.saturating_sub(ip + tcp);
        // A packet of several fragments was cut to size already.
        if segment.frames > 1 || room == 0 {
            return;
        }
        let further = segment.payload_len.div_ceil(room).saturating_sub(1);
        self.tcp.oversize_frames += 1;
        self.tcp.oversize_header_bytes += u64::from(further) * u64::from(link + ip + tcp);
        let packet = u64::from(ip + tcp + segment.payload_len);
        self.tcp.oversize_longest_bytes = self.tcp.oversize_longest_bytes.max(packet);
    }

    /// Keeps of other connections only what tells a successor.
    fn track_other(&mut self, segment: &Segment<'_>) {
        let half = &mut self.halves[usize::from(segment.source != self.ends[0])];
        if segment.flags.syn {
            half.syn(segment.seq);
        }
        if segment.flags.fin {
            half.fin();
        }
        if segment.flags.rst {
            self.halves.iter_mut().for_each(Half::fin);
        }
    }

    /// Takes in the acknowledgment; gives whom it concerns, where it acknowledges anything new.
    fn acknowledge<T: Tally>(&mut self, side: Side, segment: &Segment<'_>, tally: &mut T) -> Option<Owner> {
        if !segment.flags.ack {
            return None;
        }
        let of = side.other();
        let half = &mut self.halves[of as usize];
        if !segment.flags.rst {
            half.window(segment.window);
        }
        let before = half.acked().min(half.high());
        match half.acknowledge(segment.ack) {
            Acked::Nothing => return None,
            Acked::Handshake => return Some(Owner::Connect),
            Acked::Bytes => {}
        }
        self.probe_acknowledged(of, tally);
        let half = &self.halves[of as usize];
        let now = half.acked().min(half.high());
        self.book.acknowledged(of, now.saturating_sub(ORIGIN));
        // The receiver has bytes that follow a hole: what is in the hole was lost by the capture, not by the network.
        while let Some(hole) = self.halves[of as usize].hole() {
            if self.halves[of as usize].acked() <= hole.end {
                break;
            }
            self.give_up(of, &hole, tally);
        }
        (now > before).then(|| Owner::Byte(of, now - 1 - ORIGIN))
    }

    fn control<T: Tally>(&mut self, side: Side, segment: &Segment<'_>, acked: Option<Owner>, tally: &mut T) {
        self.tcp.control_frames += 1;
        let flags = segment.flags;
        let owner = if flags.syn || flags.fin || flags.rst {
            Owner::Connect
        } else if let Some(owner) = acked {
            owner
        } else if self.halves[side.other() as usize].fin_seen() {
            Owner::Connect
        } else {
            Owner::Latest
        };
        self.book.charge(side, owner, Account::Control, u64::from(segment.wire_len), tally);
    }

    fn payload<T: Tally>(&mut self, side: Side, segment: &Segment<'_>, number: u64, tally: &mut T) {
        let len = u64::from(segment.payload_len);
        self.tcp.payload_bytes += len;
        self.tcp.snapped_bytes += len - segment.payload.len() as u64;
        let seq = segment.seq.wrapping_add(u32::from(segment.flags.syn));
        let half = &mut self.halves[side as usize];
        let start = match half.place(seq, len) {
            Place::At(start) => start,
            Place::Astray => {
                let frame = self.book.arrival(segment.time_ns, segment.headers, len);
                self.stray(side, segment.payload, frame, len, tally);
                return;
            }
        };
        if half.is_next(start) && self.probes[side as usize].is_none() {
            self.next_bytes(side, segment, len, tally);
            return;
        }
        if self.probe(side, segment, start, number, tally) {
            return;
        }
        let half = &mut self.halves[side as usize];
        let mut new_parts = Vec::new();
        half.unseen(start..start + len, &mut new_parts);
        let new: u64 = new_parts.iter().map(|part| part.end - part.start).sum();
        self.repeated(side, segment, start, len - new, new, tally);
        if new > 0 {
            let half = &self.halves[side as usize];
            let late = new_parts.first().is_some_and(|part| part.start < half.high());
            self.tcp.out_of_order_frames += u64::from(late);
            let frame = self.book.arrival(segment.time_ns, segment.headers, new);
            for part in &new_parts {
                self.new_part(side, segment, start, part, frame, tally);
            }
            self.drain(side, tally);
        }
    }

    /// The payload begins at the next byte and nothing is held back: the rule.
    #[inline]
    fn next_bytes<T: Tally>(&mut self, side: Side, segment: &Segment<'_>, len: u64, tally: &mut T) {
        let frame = self.book.arrival(segment.time_ns, segment.headers, len);
        self.book.slice(side, frame, len);
        self.halves[side as usize].deliver_bytes(segment.payload, len);
        self.decode(side, segment.payload, len - segment.payload.len() as u64, tally);
    }

    /// Charges what a frame repeats: all of it where it brings nothing new.
    fn repeated<T: Tally>(
        &mut self,
        side: Side,
        segment: &Segment<'_>,
        start: u64,
        repeated: u64,
        new: u64,
        tally: &mut T,
    ) {
        if repeated == 0 {
            return;
        }
        self.tcp.retransmitted_bytes += repeated;
        let half = &self.halves[side as usize];
        let flags = segment.flags;
        let bare = !(flags.syn || flags.fin || flags.rst);
        // RFC 9293 section 3.8.4: a keep-alive repeats the last byte, which has been acknowledged.
        let keep_alive =
            bare && segment.payload_len == 1 && start + 1 == half.high().max(ORIGIN) && half.acked() > start;
        let before_stream = bare && segment.payload_len == 1 && start + 1 == ORIGIN && half.syn_seen();
        if !keep_alive && half.contradicts(start, segment.payload) {
            self.book.note(Note::Conflict);
        }
        let (owner, account, bytes) = if new > 0 {
            (Owner::Byte(side, start.saturating_sub(ORIGIN)), Account::Retransmission, repeated)
        } else if keep_alive || before_stream {
            (Owner::Latest, Account::Control, u64::from(segment.wire_len))
        } else {
            (Owner::Byte(side, start.saturating_sub(ORIGIN)), Account::Retransmission, u64::from(segment.wire_len))
        };
        self.book.charge(side, owner, account, bytes, tally);
    }

    /// Delivers, holds or files one stretch of new payload.
    fn new_part<T: Tally>(
        &mut self,
        side: Side,
        segment: &Segment<'_>,
        start: u64,
        part: &Range<u64>,
        frame: Arrival,
        tally: &mut T,
    ) {
        let len = part.end - part.start;
        let from = usize::try_from(part.start - start).unwrap_or(usize::MAX);
        let to = usize::try_from(part.end - start).unwrap_or(usize::MAX).min(segment.payload.len());
        let bytes = segment.payload.get(from..to).unwrap_or_default();
        let half = &mut self.halves[side as usize];
        match part.start.cmp(&half.next()) {
            Ordering::Less => {
                half.fill(part);
                half.lower(part.start);
                self.stray(side, bytes, frame, len, tally);
            }
            Ordering::Equal => {
                half.deliver_bytes(bytes, len);
                self.book.slice(side, frame, len);
                self.decode(side, bytes, len - bytes.len() as u64, tally);
            }
            Ordering::Greater => {
                let hopeless = half.acked() >= part.end && half.hole().is_some();
                half.hold(part.start, Early { frame, bytes: bytes.to_vec(), len });
                // Acknowledged before it was captured, and not what an earlier piece waits for: that is not going to come.
                if hopeless && let Some(hole) = self.halves[side as usize].hole() {
                    self.give_up(side, &hole, tally);
                }
            }
        }
    }

    /// `len` new bytes of a frame lie outside the ordered stream. They wait as well until it is known whose they are.
    fn stray<T: Tally>(&mut self, side: Side, bytes: &[u8], frame: Arrival, len: u64, tally: &mut T) {
        if let Stage::Sniffing(sniffing) = &mut self.stage {
            sniffing.push(side, Piece::Stray { bytes: bytes.to_vec(), frame, len });
            return;
        }
        tally.trace(Trace::Stray { bytes });
        self.book.stray(side, frame, len, tally);
    }

    /// Delivers what was held and is next, and gives holes up where too much is held.
    fn drain<T: Tally>(&mut self, side: Side, tally: &mut T) {
        loop {
            while let Some(early) = self.halves[side as usize].take_next() {
                self.halves[side as usize].deliver_bytes(&early.bytes, early.len);
                self.book.slice(side, early.frame, early.len);
                self.decode(side, &early.bytes, early.len - early.bytes.len() as u64, tally);
            }
            match self.halves[side as usize].hole() {
                Some(hole) if self.halves[side as usize].overfull() => self.skip_hole(side, &hole, tally),
                _ => return,
            }
        }
    }

    fn give_up<T: Tally>(&mut self, side: Side, hole: &Range<u64>, tally: &mut T) {
        self.skip_hole(side, hole, tally);
        self.drain(side, tally);
    }

    fn skip_hole<T: Tally>(&mut self, side: Side, hole: &Range<u64>, tally: &mut T) {
        let len = hole.end - hole.start;
        if len > 0 {
            self.halves[side as usize].give_up(hole);
            self.book.gap(side, len);
            self.decode(side, &[], len, tally);
        }
    }

    /// Hands ordered bytes on: `bytes`, then `opaque` more that cannot be read.
    fn decode<T: Tally>(&mut self, side: Side, bytes: &[u8], opaque: u64, tally: &mut T) {
        match &mut self.stage {
            Stage::Decoding(_) if self.unproven => self.prove(side, bytes, opaque, tally),
            Stage::Decoding(engine) => {
                tally.trace(Trace::Bytes { side, bytes, opaque });
                let mut ledger = Ledger::new(&mut self.book, tally);
                engine.bytes(side, bytes, &mut ledger);
                if opaque > 0 {
                    engine.opaque(side, opaque, &mut ledger);
                }
            }
            Stage::Sniffing(sniffing) => {
                if !bytes.is_empty() {
                    sniffing.push(side, Piece::Bytes(bytes.to_vec()));
                }
                if opaque > 0 {
                    sniffing.push(side, Piece::Opaque(opaque));
                }
            }
            Stage::Other => {}
        }
    }

    /// The first bytes of a connection on a port of one protocol: are they of it?
    #[cold]
    fn prove<T: Tally>(&mut self, side: Side, bytes: &[u8], opaque: u64, tally: &mut T) {
        let judged = match bytes.get(..limits::SNIFF).unwrap_or(bytes) {
            // There will be no more to judge by.
            [] => Judgement::Expected,
            start => judge(self.book.protocol(), side, start, self.mid_stream),
        };
        self.unproven = false;
        match judged {
            Judgement::Expected => {}
            Judgement::Foreign(look) => self.refuse(look),
            Judgement::Open => {
                if let Stage::Decoding(engine) = std::mem::replace(&mut self.stage, Stage::Other) {
                    let (candidates, ready) = (vec![self.book.protocol()], Ready::Engine(engine));
                    self.stage = Stage::Sniffing(Box::new(Sniffing { candidates, pieces: Vec::new(), held: 0, ready }));
                }
            }
        }
        self.decode(side, bytes, opaque, tally);
    }

    /// The connection is not of the protocol that its port is of.
    fn refuse(&mut self, look: Look) {
        let port = self.ends[Side::Response as usize].port();
        self.book.note(Note::Foreign(Foreign { port, look, expected: Some(self.book.protocol()) }));
        match &mut self.stage {
            Stage::Decoding(engine) => engine.refuse(),
            Stage::Sniffing(sniffing) => {
                if let Ready::Engine(engine) = &mut sniffing.ready {
                    engine.refuse();
                }
            }
            Stage::Other => {}
        }
    }

    /// Tries to tell whether the pieces so far are of the protocol that the port is of. `is_last` where there will be no more.
    fn decide_expected<T: Tally>(&mut self, is_last: bool, tally: &mut T) {
        let Stage::Sniffing(sniffing) = &self.stage else { return };
        let protocol = self.book.protocol();
        let starts = Side::BOTH.map(|side| start_of(&sniffing.pieces, side));
        let of_sides = Side::BOTH.map(|side| judge(protocol, side, &starts[side as usize], self.mid_stream));
        let server_first = !self.mid_stream && sniffing.pieces.first().is_some_and(|(side, _)| *side == Side::Response);
        // In the midst of a connection, the first bytes may be the midst of a message.
        let is_vague = self.mid_stream && starts.iter().all(|start| !start.is_empty());
        let judged = match of_sides {
            [Judgement::Expected, _] | [_, Judgement::Expected] => Judgement::Expected,
            [Judgement::Foreign(look), _] | [_, Judgement::Foreign(look)] => Judgement::Foreign(look),
            _ if is_vague || (self.mid_stream && is_last) => Judgement::Expected,
            _ => judge_both(protocol, starts.each_ref().map(Vec::as_slice), server_first, is_last),
        };
        match judged {
            Judgement::Open if !is_last => return,
            Judgement::Foreign(look) => self.refuse(look),
            _ => {}
        }
        self.begin(protocol, Side::Request, tally);
    }

    /// The protocol was not told, and will not be.
    fn decide_at_last<T: Tally>(&mut self, tally: &mut T) {
        match &self.stage {
            Stage::Sniffing(sniffing) if matches!(sniffing.ready, Ready::Engine(_)) => {
                self.decide_expected(true, tally);
            }
            Stage::Sniffing(sniffing) => {
                let starts = Side::BOTH.map(|side| start_of(&sniffing.pieces, side));
                self.leave(&starts);
            }
            _ => {}
        }
    }

    /// Of no protocol that is decoded: says what else it looks like.
    fn leave(&mut self, starts: &[Vec<u8>; 2]) {
        let looks = |side: Side| {
            look(&starts[side as usize])
                .map(|(look, of)| (look, if of == Side::Response { side } else { side.other() }))
        };
        if let Some((look, server)) = Side::BOTH.into_iter().find_map(looks) {
            let port = self.ends[server as usize].port();
            self.book.note(Note::Foreign(Foreign { port, look, expected: None }));
        }
        self.stage = Stage::Other;
    }

    /// Tries to tell the protocol from the pieces so far.
    fn decide<T: Tally>(&mut self, tally: &mut T) {
        let Stage::Sniffing(sniffing) = &mut self.stage else {
            return;
        };
        let Sniffing { candidates, pieces, ready, .. } = &mut **sniffing;
        if pieces.iter().all(|(_, piece)| matches!(piece, Piece::Stray { .. })) {
            return;
        }
        if matches!(ready, Ready::Engine(_)) {
            return self.decide_expected(false, tally);
        }
        let mut undecided = false;
        let mut found = None;
        // No server of a protocol that may look like others speaks first.
        let first = pieces.first().filter(|_| !self.mid_stream).map(|(side, _)| *side);
        let starts = Side::BOTH.map(|side| start_of(pieces, side));
        for side in Side::BOTH {
            let start = &starts[side as usize];
            if start.is_empty() {
                continue;
            }
            // Some messages of MySQL could be of PostgreSQL.
            if look(start).is_some_and(|(look, _)| look == Look::Mysql) {
                return self.leave(&starts);
            }
            for &protocol in candidates.iter() {
                match sniff(protocol, start) {
                    Sniff::No => {}
                    Sniff::More => undecided |= start.len() < limits::SNIFF,
                    Sniff::Request => found = found.or(Some((protocol, side))),
                    Sniff::Response => found = found.or(Some((protocol, side.other()))),
                    Sniff::Perhaps(of) => {
                        let client = if of == Side::Request { side } else { side.other() };
                        let other = &starts[side.other() as usize];
                        undecided |= other.len() < limits::SNIFF;
                        if first != Some(client.other()) && sniff(protocol, other) == Sniff::Perhaps(of.other()) {
                            found = found.or(Some((protocol, client)));
                        }
                    }
                }
            }
        }
        match found {
            Some((protocol, client)) => self.begin(protocol, client, tally),
            None if undecided => {}
            // A named protocol on a named port is decoded all the same; its decoder says what is wrong.
            None if candidates.len() == 1 => {
                let protocol = candidates[0];
                self.begin(protocol, Side::Request, tally);
            }
            None => self.leave(&starts),
        }
    }

    /// Begins to decode; what waited is decoded first.
    fn begin<T: Tally>(&mut self, protocol: Protocol, client: Side, tally: &mut T) {
        let stage = std::mem::replace(&mut self.stage, Stage::Other);
        let Stage::Sniffing(sniffing) = stage else { return };
        let Sniffing { pieces, ready, .. } = *sniffing;
        self.stage = match ready {
            Ready::Parts(keys, shared) => {
                tally.trace(Trace::Decoding);
                Stage::decoding(protocol, self.mid_stream, keys, &shared)
            }
            Ready::Engine(engine) => Stage::Decoding(engine),
        };
        let swap = client == Side::Response && self.decided_by == DecidedBy::Content;
        if swap {
            self.swap_sides(tally);
        }
        self.book.set_protocol(protocol);
        for (side, piece) in pieces {
            let side = if swap { side.other() } else { side };
            match piece {
                Piece::Bytes(bytes) => self.decode(side, &bytes, 0, tally),
                Piece::Opaque(n) => self.decode(side, &[], n, tally),
                Piece::Stray { bytes, frame, len } => self.stray(side, &bytes, frame, len, tally),
            }
        }
    }

    /// Ends the connection: open holes are given up, open operations closed.
    pub fn finish<T: Tally>(mut self, tally: &mut T) -> Finished {
        self.fall_back(tally);
        self.tell(tally);
        for side in Side::BOTH {
            self.reject_probe(side, tally);
            while let Some(hole) = self.halves[side as usize].hole() {
                self.give_up(side, &hole, tally);
            }
        }
        self.decide(tally);
        match &self.stage {
            Stage::Sniffing(sniffing)
                if sniffing.candidates.len() == 1 && matches!(sniffing.ready, Ready::Parts(..)) =>
            {
                self.begin(sniffing.candidates[0], Side::Request, tally);
            }
            _ => self.decide_at_last(tally),
        }
        let Stage::Decoding(mut engine) = std::mem::replace(&mut self.stage, Stage::Other) else {
            let mut notes = self.book.take_notes();
            notes.retain(|note, _| matches!(note, Note::Foreign(_)));
            return Finished { tcp: None, other: self.wire_bytes, notes, hits: self.hits };
        };
        engine.finish(&mut Ledger::new(&mut self.book, tally));
        self.book.finish(tally);
        self.tcp.gap_bytes = self.halves.iter().map(Half::hole_bytes).sum();
        self.tls = self.book.is_noted(Note::Tls);
        if self.payload_frames > 0 {
            self.tcp.request_only += u64::from(self.seen == [true, false]);
            self.tcp.response_only += u64::from(self.seen == [false, true]);
        }
        if self.payload_frames >= limits::ONE_WAY_FRAMES && self.seen != [true; 2] {
            self.book.note(Note::OneWay);
        }
        tally.connection(self.summary());
        Finished { tcp: Some(self.tcp), other: 0, notes: self.book.take_notes(), hits: self.hits }
    }

    fn summary(&self) -> ConnectionSummary {
        ConnectionSummary {
            client: self.ends[0],
            server: self.ends[1],
            protocol: self.book.protocol(),
            server_software: self.book.software(Side::Response).map(str::to_owned),
            client_software: self.book.software(Side::Request).map(str::to_owned),
            tls: self.tls,
            server_decided_by: self.decided_by,
            first_ns: self.first_ns,
            operations: self.book.operations(),
            wire_bytes: self.wire_bytes,
            payload_bytes: self.tcp.payload_bytes.saturating_sub(self.tcp.retransmitted_bytes),
        }
    }
}

impl Sniffing {
    fn push(&mut self, side: Side, piece: Piece) {
        if let Piece::Bytes(bytes) | Piece::Stray { bytes, .. } = &piece {
            self.held += bytes.len();
        }
        self.pieces.push((side, piece));
    }
}

impl Stage {
    fn decoding(protocol: Protocol, mid_stream: bool, keys: Option<Arc<KeyLog>>, shared: &Shared) -> Self {
        let decoder = AnyDecoder::new(protocol, mid_stream, shared);
        Self::Decoding(Box::new(Engine::with_keys(decoder, mid_stream, keys)))
    }
}

/// Returns the first captured bytes of a direction.
fn start_of(pieces: &[(Side, Piece)], side: Side) -> Vec<u8> {
    let mut start = Vec::with_capacity(limits::SNIFF);
    for (of, piece) in pieces {
        match piece {
            Piece::Bytes(bytes) if *of == side => start.extend(bytes.iter().take(limits::SNIFF - start.len())),
            Piece::Opaque(_) if *of == side => break,
            _ => {}
        }
    }
    start
}
