//! One TCP connection: takes segments in, passes ordered bytes to the decoder and every frame to the ledger.

mod counts;
mod disorder;
mod end;
mod half;
mod mask;
mod memo;
mod midst;
mod order;
mod payload;
mod probe;
mod recall;
mod recent;
mod sniffing;
mod trial;
mod turn;
mod turns;

use crate::ledger::{ChargeOwner, ConnectionLedger, LedgerReader};
use crate::limits;
use crate::packet::{self, Segment};
use crate::relay::FirstRequests;
use crate::select::PortVerdict;
use crate::tls::{ConnectionKeys, ConnectionPlace, KeyLog};
use counts::FlowCounts;
use half::{AckedData, ORIGIN, StreamReassembly};
use midst::MidStreamPairing;
use overhead_decode::{ApparentProtocol, Note};
use overhead_model::record::TcpTotals;
use overhead_model::{Account, ConnectionEnds, DecidedBy, RowId, Side, StreamPiece, Tally, Trace, Transport};
use overhead_protocols::SharedContext;
use probe::ZeroWindowProbe;
use recall::MemoMode;
use sniffing::{DecodingStage, FlowStage, SniffingStage};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
pub use turns::SharedTurns;

#[derive(Debug)]
#[allow(clippy::struct_excessive_bools, reason = "each is a fact by itself, and any may hold with any other")]
pub struct ConnectionFlow {
    /// By [`Side`] of the sender: client, server.
    pub ends: [SocketAddr; 2],
    is_client_lesser: bool,
    halves: [StreamReassembly; 2],
    book: ConnectionLedger,
    stage: FlowStage,
    decided_by: DecidedBy,
    mid_stream: bool,
    /// Absent if each answer certainly belongs to its request.
    midst: Option<MidStreamPairing>,
    first_ns: u64,
    counts: FlowCounts,
    /// By side, a byte sent into a zero window whose fate is open. Few connections have any.
    probes: [Option<Box<ZeroWindowProbe>>; 2],
    /// The selected or well-known port, if one end has it.
    server_port: Option<u16>,
    /// By [`Side`], whether any of its frames was seen.
    seen: [bool; 2],
    /// The port names one protocol, and no bytes have confirmed it yet.
    unproven: bool,
    memory: MemoMode,
    requests: FirstRequests,
    /// As of the last segment on the general path: nothing is held or was given up, no byte probes a window, both ends have room, all
    /// acknowledged bytes were seen, and neither end has sent a FIN.
    is_settled: bool,
    /// Bytes that were held back have been decoded since [`ConnectionFlow::take_released`] was called.
    has_released: bool,
    /// Set for a stream that no frames carried.
    stream: Option<Box<StreamIdentity>>,
}

#[derive(Debug)]
struct StreamIdentity {
    id: u64,
    transport: Transport,
    names: [String; 2],
}

impl StreamIdentity {
    fn new(piece: &StreamPiece<'_>) -> Self {
        let names = [piece.client, piece.server].map(str::to_owned);
        Self { id: piece.id, transport: piece.transport, names }
    }
}

#[derive(Debug, Default)]
pub struct FinishedFlow {
    /// Transport totals, if the connection was selected.
    pub tcp: Option<TcpTotals>,
    pub transport: Option<Transport>,
    /// Bytes of its frames, if it was not selected.
    pub other: u64,
    pub wire_bytes: u64,
    pub notes: BTreeMap<Note, u64>,
    /// Frames counted from memory.
    pub hits: u64,
    pub requests: FirstRequests,
}

impl ConnectionFlow {
    /// Returns a connection whose first segment is `segment`. If there is room for turns, it counts turns like earlier ones instead of
    /// decoding them.
    pub fn new(
        segment: &Segment<'_>,
        verdict: &PortVerdict,
        keys: Option<Arc<KeyLog>>,
        mut shared: SharedContext,
        turns: Option<SharedTurns>,
    ) -> Self {
        let (source, destination) = (segment.source, segment.destination);
        shared.given = shared.given.between([source, destination]);
        let (from_client, decided_by) = match (segment.stream, segment.flags.syn, verdict.server_port) {
            (Some(piece), ..) => (piece.to_server, DecidedBy::Socket),
            (None, true, _) => (!segment.flags.ack, DecidedBy::Syn),
            (None, false, Some(port)) if destination.port() == port => (true, DecidedBy::Port),
            (None, false, Some(_)) => (false, DecidedBy::Port),
            (None, false, None) => (true, DecidedBy::Content),
        };
        let mid_stream = segment.stream.map_or(!segment.flags.syn, |piece| !piece.begins);
        let is_client_known = decided_by != DecidedBy::Content;
        let keys = keys.map(|log| ConnectionKeys::new(log, is_client_known.then(|| place(segment, from_client))));
        let stage = match verdict.candidates.as_slice() {
            [] => FlowStage::Other,
            [protocol] if decided_by != DecidedBy::Content => {
                FlowStage::Decoding(DecodingStage::new(*protocol, mid_stream, keys, &shared))
            }
            candidates => FlowStage::Sniffing(Box::new(SniffingStage::among(candidates.to_vec(), keys, shared))),
        };
        let midst = match &stage {
            FlowStage::Decoding(decoding) if mid_stream => MidStreamPairing::for_protocol(decoding.protocol),
            _ => None,
        };
        let ends = if from_client { [source, destination] } else { [destination, source] };
        let mut flow = Self {
            ends,
            is_client_lesser: ends[0] <= ends[1],
            halves: [segment.stream.is_some(); 2].map(StreamReassembly::new),
            book: ConnectionLedger::new(),
            unproven: matches!(&stage, FlowStage::Decoding(decoding) if !decoding.engine.is_secured()),
            stage,
            decided_by,
            mid_stream,
            midst,
            first_ns: segment.time_ns,
            counts: FlowCounts::default(),
            probes: [None, None],
            server_port: verdict.server_port,
            seen: [false; 2],
            memory: MemoMode::new(turns),
            requests: FirstRequests::default(),
            is_settled: false,
            has_released: false,
            stream: segment.stream.map(|piece| Box::new(StreamIdentity::new(piece))),
        };
        if segment.flags.syn && packet::has_multipath_option(segment.options, packet::MP_JOIN) {
            flow.leave_subflow();
        } else if mid_stream && packet::has_multipath_option(segment.options, packet::MP_DSS) {
            // Decoded all the same: the connection may have no other subflow.
            flow.note_foreign(ApparentProtocol::Subflow, None);
        }
        flow
    }

    pub fn ends(&self, number: u64) -> ConnectionEnds {
        ConnectionEnds { number, client: self.ends[0], server: self.ends[1], first_ns: self.first_ns }
    }

    /// Returns the names of the ends if their addresses are only stand-ins, client first.
    pub fn names(&self) -> Option<&[String; 2]> {
        self.stream.as_ref().map(|stream| &stream.names)
    }

    /// Gives the ends these addresses, client first.
    pub fn rename(&mut self, ends: [SocketAddr; 2]) {
        self.ends = ends;
        self.is_client_lesser = ends[0] <= ends[1];
    }

    /// Returns whether a segment has nothing new.
    pub fn repeats(&self, segment: &Segment<'_>) -> bool {
        if matches!(self.stage, FlowStage::Other) {
            return false;
        }
        let side = self.side_of(segment);
        let is_bare_ack = segment.payload_len == 0 && segment.flags.ack && !segment.flags.syn && !segment.flags.fin;
        if is_bare_ack {
            return self.halves[side.other() as usize].is_acknowledged_again(segment.ack);
        }
        self.halves[side as usize].repeats(segment)
    }

    pub fn is_answered(&self) -> bool {
        self.seen == [true; 2]
    }

    /// Replaces row ids after the tally renumbered its rows.
    pub fn renumber(&mut self, number: impl Fn(RowId) -> RowId) {
        self.book.renumber(&number);
    }

    /// Returns the approximate memory held, in bytes; 0 before any payload.
    #[inline]
    pub fn held(&self) -> usize {
        if self.counts.payload_frames == 0 {
            return 0;
        }
        let stage = match &self.stage {
            FlowStage::Decoding(decoding) => decoding.engine.held(),
            FlowStage::Sniffing(sniffing) => sniffing.held(),
            FlowStage::Other => 0,
        };
        limits::CONNECTION
            + self.book.held()
            + self.halves.iter().map(StreamReassembly::held).sum::<usize>()
            + self.memory.held()
            + self.requests.held()
            + stage
    }

    /// Returns whether bytes that were held back have been decoded since the last call: any number of operations, whatever the length
    /// of the segment that completed them.
    pub fn take_released(&mut self) -> bool {
        std::mem::take(&mut self.has_released)
    }

    /// Returns whether `segment` opens a new connection between the same ends.
    pub fn is_succeeded_by(&self, segment: &Segment<'_>) -> bool {
        if let (Some(piece), Some(stream)) = (segment.stream, &self.stream) {
            return piece.id != stream.id;
        }
        segment.flags.syn && self.halves[self.side_of(segment) as usize].is_other_connection(segment.seq)
    }

    pub fn is_closed(&self) -> bool {
        self.halves.iter().all(|half| half.fin)
    }

    /// Drops everything dispensable, when room is short or the connection has closed.
    pub fn shrink<T: Tally>(&mut self, tally: &mut T) {
        self.forget_turns(tally);
        self.book.shrink();
        if let FlowStage::Decoding(decoding) = &mut self.stage {
            decoding.engine.shrink();
        }
    }

    fn side_of(&self, segment: &Segment<'_>) -> Side {
        if segment.source == self.ends[0] { Side::Request } else { Side::Response }
    }

    fn swap_sides<T: Tally>(&mut self, tally: &mut T) {
        self.ends.swap(0, 1);
        self.is_client_lesser = self.ends[0] <= self.ends[1];
        self.halves.swap(0, 1);
        self.probes.swap(0, 1);
        self.seen.swap(0, 1);
        self.book.swap_sides();
        self.requests.clear();
        if let FlowStage::Sniffing(sniffing) = &mut self.stage {
            sniffing.swap_sides();
        }
        tally.swap_ends();
        tally.trace(Trace::Swapped);
    }

    /// Lets the port decide which end is the server if both open the connection at once (RFC 9293 section 3.5).
    fn settle_sides<T: Tally>(&mut self, segment: &Segment<'_>, tally: &mut T) {
        let answers = segment.flags.syn && !segment.flags.ack && segment.source != self.ends[0];
        let untouched = self.halves.iter().all(|half| half.high <= ORIGIN);
        if answers && untouched && self.decided_by == DecidedBy::Syn && self.server_port == Some(self.ends[0].port()) {
            self.swap_sides(tally);
            self.decided_by = DecidedBy::Port;
        }
    }

    /// Takes in one segment of the frame with this number, on the general path.
    #[inline(always)]
    pub fn segment<T: Tally>(&mut self, segment: &Segment<'_>, number: u64, tally: &mut T) {
        if self.counts.frames == 0
            && let FlowStage::Decoding(DecodingStage { protocol, .. }) = &self.stage
        {
            tally.trace(Trace::Decoding { protocol: *protocol });
        }
        self.book.at(number, segment.frames);
        self.counts.frames += 1;
        self.counts.wire_bytes += u64::from(segment.wire_len);
        if matches!(self.stage, FlowStage::Other) {
            return self.track_other(segment);
        }
        self.counts.segment(segment.headers, segment.payload_len, segment.frames);
        self.settle_sides(segment, tally);
        let side = self.side_of(segment);
        self.seen[side as usize] = true;
        self.divert(side, segment, number, tally);
        if segment.flags.syn {
            self.halves[side as usize].syn(segment.seq);
        }
        if segment.flags.rst {
            self.halves[side as usize].reset_at(segment.seq);
            self.halves.iter_mut().for_each(StreamReassembly::fin);
        }
        let acked = self.acknowledge(side, segment, tally);
        self.note_wait(side, segment);
        if segment.payload_len > 0 {
            if self.counts.payload_frames <= limits::RELAY_FRAMES {
                self.requests.add(side, segment);
            }
            let before = self.before(side);
            self.payload(side, segment, number, tally);
            if let Some(before) = before {
                self.compare(before);
            }
            if !self.seen[Side::Response as usize] {
                self.abandon(tally);
            }
            self.learnt(tally);
        } else {
            self.control(side, segment, acked, tally);
        }
        if segment.flags.fin {
            self.halves[side as usize].fin();
            let taken = segment.payload_len + u32::from(segment.flags.syn);
            self.halves[side as usize].end_at(segment.seq.wrapping_add(taken));
        }
        self.settle();
        // Only after the segment is handled: client and server may turn out to be swapped.
        if let FlowStage::Sniffing(_) = self.stage {
            self.decide(tally);
        }
        if let FlowStage::Sniffing(sniffing) = &self.stage
            && sniffing.is_full(self.mid_stream)
        {
            self.decide_at_last(tally);
        }
    }

    /// Determines anew whether the connection is settled.
    #[inline]
    fn settle(&mut self) {
        let is_settled = |half: &StreamReassembly| half.is_orderly() && !half.fin && !half.is_ahead();
        let was_settled = std::mem::replace(
            &mut self.is_settled,
            self.halves.iter().all(is_settled) && self.probes.iter().all(Option::is_none),
        );
        if self.is_settled && !was_settled {
            self.book.settle_received();
            // The new bytes may have been acknowledged before they came.
            for side in Side::BOTH {
                self.book.acknowledged(side, self.halves[side as usize].acked_bytes());
            }
        }
    }

    /// Notes what the client has waited for: the handshake, unless it sent data with its SYN (RFC 7413), and, on a stream without
    /// acknowledgments, all that the server sent before.
    fn note_wait(&mut self, side: Side, segment: &Segment<'_>) {
        if segment.stream.is_some() {
            let other = side.other();
            let sent = self.halves[other as usize].next.saturating_sub(ORIGIN);
            self.book.acknowledged(other, sent);
        } else if segment.flags.syn && side == Side::Response && self.halves[Side::Request as usize].acked <= ORIGIN {
            self.book.shake_hands();
        }
    }

    /// Closes waiting requests if they are many and no frame of the server was captured.
    fn abandon<T: Tally>(&mut self, tally: &mut T) {
        if let FlowStage::Decoding(DecodingStage { protocol, engine }) = &mut self.stage
            && self.book.outstanding() > limits::OUTSTANDING_ONE_WAY
        {
            engine.abandon(&mut LedgerReader::new(&mut self.book, *protocol, tally));
            self.book.note_once(Note::Abandoned);
        }
    }

    /// Keeps only what is needed to recognize the successor of an undecoded connection.
    fn track_other(&mut self, segment: &Segment<'_>) {
        let half = &mut self.halves[usize::from(segment.source != self.ends[0])];
        if segment.flags.syn {
            half.syn(segment.seq);
        }
        if segment.flags.fin {
            half.fin();
        }
        if segment.flags.rst {
            self.halves.iter_mut().for_each(StreamReassembly::fin);
        }
    }

    /// Takes in the acknowledgment. Returns the owner it concerns, if it acknowledges anything new.
    fn acknowledge<T: Tally>(&mut self, side: Side, segment: &Segment<'_>, tally: &mut T) -> Option<ChargeOwner> {
        if !segment.flags.ack {
            return None;
        }
        let of = side.other();
        if self.probes[of as usize].is_some() && packet::sacks_last_byte(segment.options, segment.ack) {
            self.drop_keep_alive(of, tally);
        }
        let half = &mut self.halves[of as usize];
        if !segment.flags.rst {
            half.window(segment.window);
        }
        let before = half.acked_seen();
        match half.acknowledge(segment.ack) {
            AckedData::Nothing => return None,
            AckedData::Handshake => return Some(ChargeOwner::Connect),
            AckedData::Astray => {
                self.resume(of, tally);
                self.halves[of as usize].acknowledge(segment.ack);
            }
            AckedData::Bytes => {}
        }
        self.probe_acknowledged(of, tally);
        let half = &self.halves[of as usize];
        let now = half.acked_seen();
        self.book.acknowledged(of, half.acked_bytes());
        // The receiver has bytes that follow a hole, so the capture lost the hole, not the network.
        while let Some(hole) = self.halves[of as usize].hole() {
            if self.halves[of as usize].acked <= hole.end {
                break;
            }
            self.give_up(of, &hole, tally);
        }
        (now > before).then(|| ChargeOwner::Byte(of, now - 1 - ORIGIN))
    }

    fn control<T: Tally>(&mut self, side: Side, segment: &Segment<'_>, acked: Option<ChargeOwner>, tally: &mut T) {
        // No frame carries the end of a stream, so there is nothing to charge.
        if segment.stream.is_some() {
            return;
        }
        let flags = segment.flags;
        if !(flags.syn || flags.rst || self.halves[side as usize].is_next_seq(segment.seq)) {
            self.halves[side as usize].reach(segment.seq);
        }
        if side == Side::Response && !self.is_settled {
            self.note_bare(segment);
        }
        let owner = if flags.syn || flags.fin || flags.rst {
            ChargeOwner::Connect
        } else if let Some(owner) = acked {
            owner
        } else if self.halves[side.other() as usize].fin {
            ChargeOwner::Connect
        } else {
            self.latest()
        };
        self.book.charge(side, owner, Account::Control, u64::from(segment.wire_len), tally);
    }

    /// Returns the owner of a frame that concerns no byte: the latest operation. If the latest bytes still wait for the
    /// verdict on the protocol, this is the operation of the last one.
    fn latest(&self) -> ChargeOwner {
        let awaited = match &self.stage {
            FlowStage::Sniffing(sniffing) => {
                sniffing.latest().map(|side| (side, self.halves[side as usize].next.saturating_sub(ORIGIN)))
            }
            FlowStage::Decoding(_) | FlowStage::Other => None,
        };
        awaited.map_or(ChargeOwner::Latest, |(side, end)| ChargeOwner::Byte(side, end.saturating_sub(1)))
    }
}

/// Returns the connection of a segment, the client's end first.
fn place(segment: &Segment<'_>, from_client: bool) -> ConnectionPlace {
    let (ends, next) = ([segment.source, segment.destination], [segment.seq, segment.ack]);
    let place = ConnectionPlace { network_namespace: 0, ends, next };
    if from_client { place } else { place.swapped() }
}
