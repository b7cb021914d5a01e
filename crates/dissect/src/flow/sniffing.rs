//! Detects a connection's protocol from its first bytes.

use super::ConnectionFlow;
use super::midst::MidStreamPairing;
use super::trial::{HeldPayload, Roles, TrialVerdict};
use crate::engine::ConnectionEngine;
use crate::limits;
use crate::proxy;
use crate::tls::ConnectionKeys;
use overhead_decode::{ApparentProtocol, ForeignTraffic, Note};
use overhead_model::{DecidedBy, Protocol, Side, Tally, Trace};
use overhead_protocols::{
    AnyDecoder, SharedContext, Sniff, SniffVerdict, judge, judge_both, judge_so_far, look, marked, sniff,
};

#[derive(Debug)]
pub(super) enum FlowStage {
    Decoding(DecodingStage),
    Sniffing(Box<SniffingStage>),
    /// None of the selected protocols.
    Other,
}

#[derive(Debug)]
pub(super) struct DecodingStage {
    pub protocol: Protocol,
    pub engine: Box<ConnectionEngine<AnyDecoder>>,
}

/// Data that waits for the verdict on the protocol.
#[derive(Debug)]
pub(super) struct SniffingStage {
    question: OpenQuestion,
    /// The captured start of each direction.
    pieces: Vec<(Side, HeldPayload)>,
    held: usize,
    /// Changes of the sender.
    turns: u32,
    /// Their number at which the candidates are compared next.
    next_turn: u32,
}

/// The question that the content decides.
#[derive(Debug)]
enum OpenQuestion {
    /// Which of several protocols it is; with the secrets for TLS, and the context that connections share.
    Which { candidates: Vec<Protocol>, keys: Option<ConnectionKeys>, shared: SharedContext },
    /// Whether it is the port's protocol.
    Whether(DecodingStage),
}

impl ConnectionFlow {
    /// Checks whether the first bytes on a port of one protocol belong to that protocol.
    #[cold]
    pub(super) fn prove<T: Tally>(&mut self, side: Side, bytes: &[u8], opaque: u64, tally: &mut T) {
        let FlowStage::Decoding(DecodingStage { protocol, .. }) = self.stage else { return };
        let start = proxy::ProxyHeader::behind(bytes);
        let judged = match start.get(..limits::SNIFF).unwrap_or(start) {
            // Only a proxy has spoken.
            [] if !bytes.is_empty() => SniffVerdict::Open,
            // No more bytes to judge by will come.
            [] => SniffVerdict::Expected,
            // Both sides are needed to contradict the port.
            start if self.is_by_port_alone() && speaks(protocol, start, side.other()) => SniffVerdict::Open,
            start => judge_so_far(protocol, side, start, self.mid_stream),
        };
        self.unproven = false;
        match judged {
            SniffVerdict::Expected => {}
            SniffVerdict::Foreign(look) => self.refuse(look),
            SniffVerdict::Open => {
                if let FlowStage::Decoding(decoding) = std::mem::replace(&mut self.stage, FlowStage::Other) {
                    self.stage = FlowStage::Sniffing(Box::new(SniffingStage::new(OpenQuestion::Whether(decoding))));
                }
            }
        }
        self.decode(side, bytes, opaque, tally);
    }

    /// Gives up decoding: the connection does not use its port's protocol.
    fn refuse(&mut self, look: ApparentProtocol) {
        let decoding = match &mut self.stage {
            FlowStage::Decoding(decoding) => decoding,
            FlowStage::Sniffing(sniffing) => match &mut sniffing.question {
                OpenQuestion::Whether(decoding) => decoding,
                OpenQuestion::Which { .. } => return,
            },
            FlowStage::Other => return,
        };
        if look == ApparentProtocol::Tls && self.mid_stream && decoding.engine.secure_midway() {
            return;
        }
        decoding.engine.refuse();
        let expected = Some(decoding.protocol);
        self.note_foreign(look, expected);
    }

    pub(super) fn note_foreign(&mut self, look: ApparentProtocol, expected: Option<Protocol>) {
        let port = self.ends[Side::Response as usize].port();
        self.book.note(Note::Foreign(ForeignTraffic { port, look, expected }));
    }

    /// Gives up decoding a connection that carries part of another one's payload, and so no whole messages.
    pub(super) fn leave_subflow(&mut self) {
        self.unproven = false;
        if let FlowStage::Decoding(_) = self.stage {
            return self.refuse(ApparentProtocol::Subflow);
        }
        if let FlowStage::Sniffing(_) = std::mem::replace(&mut self.stage, FlowStage::Other) {
            self.note_foreign(ApparentProtocol::Subflow, None);
        }
    }

    /// Tries to decide whether the pieces so far belong to the port's protocol. `is_last` means that no more will come.
    fn decide_expected<T: Tally>(&mut self, is_last: bool, tally: &mut T) {
        let FlowStage::Sniffing(sniffing) = &self.stage else { return };
        let OpenQuestion::Whether(DecodingStage { protocol, .. }) = sniffing.question else { return };
        let starts = Side::BOTH.map(|side| start_of(&sniffing.pieces, side));
        let is_all = is_last || starts.iter().all(|start| !start.is_empty());
        if self.is_by_port_alone() {
            if self.is_reversed(protocol, &starts) {
                self.decided_by = DecidedBy::Content;
                return self.begin(protocol, Side::Response, tally);
            }
            if !is_all && Side::BOTH.into_iter().any(|side| speaks(protocol, &starts[side as usize], side.other())) {
                return;
            }
        }
        let judge = if is_all { judge } else { judge_so_far };
        let of_sides = Side::BOTH.map(|side| judge(protocol, side, &starts[side as usize], self.mid_stream));
        let server_first = !self.mid_stream && sniffing.pieces.first().is_some_and(|(side, _)| *side == Side::Response);
        // On a connection joined midway, the first bytes may be the middle of a message.
        let is_vague = self.mid_stream && starts.iter().all(|start| !start.is_empty());
        let judged = match of_sides {
            [SniffVerdict::Expected, _] | [_, SniffVerdict::Expected] => SniffVerdict::Expected,
            [SniffVerdict::Foreign(look), _] | [_, SniffVerdict::Foreign(look)] => SniffVerdict::Foreign(look),
            _ if is_vague || (self.mid_stream && is_last) => SniffVerdict::Expected,
            _ => judge_both(protocol, starts.each_ref().map(Vec::as_slice), server_first, is_last),
        };
        match judged {
            SniffVerdict::Open if !is_last => return,
            SniffVerdict::Foreign(look) => self.refuse(look),
            _ => {}
        }
        self.begin(protocol, Side::Request, tally);
    }

    /// Decides without further bytes.
    pub(super) fn decide_at_last<T: Tally>(&mut self, tally: &mut T) {
        match &self.stage {
            FlowStage::Sniffing(sniffing) if matches!(sniffing.question, OpenQuestion::Whether(_)) => {
                self.decide_expected(true, tally);
            }
            FlowStage::Sniffing(_) if self.mid_stream => self.decide_midway(true, tally),
            FlowStage::Sniffing(_) => self.leave(tally),
            _ => {}
        }
    }

    /// Returns whether only a port identifies the server. On a connection joined midway, the content may contradict it.
    fn is_by_port_alone(&self) -> bool {
        self.mid_stream && self.decided_by == DecidedBy::Port
    }

    /// Returns whether the server by port starts with a request, and the other side with a response.
    fn is_reversed(&self, protocol: Protocol, starts: &[Vec<u8>; 2]) -> bool {
        self.is_by_port_alone()
            && Side::BOTH.into_iter().all(|side| speaks(protocol, &starts[side as usize], side.other()))
    }

    /// Decides at the end of the connection: a named protocol is believed; for any other, no more bytes will come.
    pub(super) fn decide_at_end<T: Tally>(&mut self, tally: &mut T) {
        self.decide(tally);
        if let FlowStage::Sniffing(sniffing) = &self.stage
            && let OpenQuestion::Which { candidates, .. } = &sniffing.question
            && let [protocol] = candidates[..]
        {
            return self.begin(protocol, Side::Request, tally);
        }
        self.decide_at_last(tally);
    }

    /// Decodes the protocol that is known of the server, unless the bytes contradict it. Otherwise stops decoding, and notes what else
    /// the bytes look like.
    fn leave<T: Tally>(&mut self, tally: &mut T) {
        let FlowStage::Sniffing(sniffing) = &self.stage else { return };
        let starts = Side::BOTH.map(|side| start_of(&sniffing.pieces, side));
        let expected = if sniffing.held == 0 { self.expected_roles() } else { self.known_roles() };
        if let Some((protocol, client)) = expected {
            let is_foreign = |side: Side| {
                let role = if client == Side::Request { side } else { side.other() };
                matches!(judge(protocol, role, &starts[side as usize], self.mid_stream), SniffVerdict::Foreign(_))
            };
            if !Side::BOTH.into_iter().any(is_foreign) {
                return self.begin_midway((protocol, client), tally);
            }
        }
        let looks = |side: Side| {
            look(&starts[side as usize])
                .map(|(look, of)| (look, if of == Side::Response { side } else { side.other() }))
        };
        if let Some((look, server)) = Side::BOTH.into_iter().find_map(looks) {
            // Few bytes, but unique ones.
            if let ApparentProtocol::Ours(protocol) = look
                && self.mid_stream
                && self.is_possible((protocol, server.other()))
            {
                return self.begin_midway((protocol, server.other()), tally);
            }
            let port = self.ends[server as usize].port();
            self.book.note(Note::Foreign(ForeignTraffic { port, look, expected: None }));
        }
        self.stage = FlowStage::Other;
    }

    /// Returns whether the protocol is a candidate, and the roles do not contradict what is known.
    fn is_possible(&self, (protocol, client): Roles) -> bool {
        let FlowStage::Sniffing(sniffing) = &self.stage else { return false };
        let OpenQuestion::Which { candidates, .. } = &sniffing.question else { return false };
        candidates.contains(&protocol) && (self.decided_by == DecidedBy::Content || client == Side::Request)
    }

    /// Returns the roles that earlier connections with the server suggest.
    fn known_roles(&self) -> Option<Roles> {
        let FlowStage::Sniffing(sniffing) = &self.stage else { return None };
        let OpenQuestion::Which { shared, .. } = &sniffing.question else { return None };
        shared.servers.roles(self.ends).filter(|roles| self.is_possible(*roles))
    }

    /// Returns the roles that earlier connections with the server suggest, or else the port.
    fn expected_roles(&self) -> Option<Roles> {
        let FlowStage::Sniffing(sniffing) = &self.stage else { return None };
        let OpenQuestion::Which { candidates, .. } = &sniffing.question else { return None };
        let own = self.server_port.and_then(|port| candidates.iter().find(|of| of.ports().contains(&port)));
        self.known_roles().or(own.filter(|_| self.mid_stream).map(|protocol| (*protocol, Side::Request)))
    }

    pub(super) fn decide<T: Tally>(&mut self, tally: &mut T) {
        let FlowStage::Sniffing(sniffing) = &self.stage else { return };
        let SniffingStage { question, pieces, .. } = &**sniffing;
        if pieces.iter().all(|(_, piece)| matches!(piece, HeldPayload::Stray { .. })) {
            return;
        }
        match question {
            OpenQuestion::Which { .. } if self.mid_stream => self.decide_midway(false, tally),
            OpenQuestion::Which { .. } => self.decide_which(tally),
            OpenQuestion::Whether(_) => self.decide_expected(false, tally),
        }
    }

    /// Tries to detect which of several protocols the pieces so far belong to.
    fn decide_which<T: Tally>(&mut self, tally: &mut T) {
        let FlowStage::Sniffing(sniffing) = &self.stage else { return };
        let SniffingStage { question: OpenQuestion::Which { candidates, .. }, pieces, .. } = &**sniffing else {
            return;
        };
        let starts = Side::BOTH.map(|side| start_of(pieces, side));
        let is_begun = |(_, piece): &(Side, HeldPayload)| matches!(piece, HeldPayload::Bytes(..));
        if pieces.iter().any(is_begun) && starts.iter().all(Vec::is_empty) {
            return;
        }
        match told(candidates, &starts, pieces.first().map(|(side, _)| *side)) {
            ToldProtocol::Of(protocol, client) => self.begin(protocol, client, tally),
            ToldProtocol::Open => {}
            ToldProtocol::Foreign => self.leave(tally),
        }
    }

    /// Compares how well the pieces of a connection joined midway fit each protocol.
    fn compare_protocols(&self) -> Option<TrialVerdict> {
        let FlowStage::Sniffing(sniffing) = &self.stage else { return None };
        let OpenQuestion::Which { candidates, .. } = &sniffing.question else { return None };
        let may_swap = self.decided_by != DecidedBy::Socket;
        Some(TrialVerdict::new(candidates, &sniffing.pieces, self.expected_roles(), may_swap))
    }

    /// Tries to detect the protocol of a connection joined midway, and which end is the server. `is_last` means that no more will come.
    fn decide_midway<T: Tally>(&mut self, is_last: bool, tally: &mut T) {
        let FlowStage::Sniffing(sniffing) = &mut self.stage else { return };
        if !is_last && !sniffing.is_due() {
            return;
        }
        let Some(verdict) = self.compare_protocols() else { return };
        match verdict.roles(is_last) {
            Some(roles) => self.begin_midway(roles, tally),
            None if is_last => {
                self.leave(tally);
                if verdict.is_possible() && matches!(self.stage, FlowStage::Other) {
                    self.note_foreign(ApparentProtocol::Undecided, None);
                }
            }
            None => {}
        }
    }

    /// Decides at the end of the capture, if the content of a connection joined midway suffices.
    pub fn decide_by_content<T: Tally>(&mut self, tally: &mut T) {
        if self.mid_stream
            && let Some(roles) = self.compare_protocols().and_then(|verdict| verdict.roles(true))
        {
            self.begin_midway(roles, tally);
        }
    }

    fn begin_midway<T: Tally>(&mut self, (protocol, client): Roles, tally: &mut T) {
        if client == Side::Response {
            self.decided_by = DecidedBy::Content;
        }
        self.begin(protocol, client, tally);
    }

    /// Starts to decode, with the waiting pieces first.
    fn begin<T: Tally>(&mut self, protocol: Protocol, client: Side, tally: &mut T) {
        let stage = std::mem::replace(&mut self.stage, FlowStage::Other);
        let FlowStage::Sniffing(sniffing) = stage else { return };
        let SniffingStage { pieces, question, .. } = *sniffing;
        self.stage = FlowStage::Decoding(match question {
            OpenQuestion::Which { keys, shared, .. } => {
                tally.trace(Trace::Decoding { protocol });
                shared.servers.add(self.ends[client.other() as usize], protocol);
                DecodingStage::new(protocol, self.mid_stream, keys, &shared)
            }
            OpenQuestion::Whether(decoding) => decoding,
        });
        let swap = client == Side::Response && self.decided_by == DecidedBy::Content;
        if swap {
            self.swap_sides(tally);
        }
        if self.mid_stream {
            self.midst = MidStreamPairing::for_protocol(protocol);
        }
        for (side, piece) in pieces {
            let side = if swap { side.other() } else { side };
            let before = self.before(side);
            match piece {
                HeldPayload::Bytes(bytes, received) => {
                    self.book.received(side, received);
                    self.decode(side, &bytes, 0, tally);
                }
                HeldPayload::Opaque(n) => self.decode(side, &[], n, tally),
                HeldPayload::Stray { bytes, frame, len } => self.stray(side, &bytes, frame, len, tally),
            }
            if let Some(before) = before {
                self.compare(before);
            }
        }
        if self.is_settled {
            self.book.settle_received();
        }
    }
}

impl SniffingStage {
    /// Returns the state that detects one of `candidates`.
    pub fn among(candidates: Vec<Protocol>, keys: Option<ConnectionKeys>, shared: SharedContext) -> Self {
        Self::new(OpenQuestion::Which { candidates, keys, shared })
    }

    fn new(question: OpenQuestion) -> Self {
        Self { question, pieces: Vec::new(), held: 0, turns: 0, next_turn: 1 }
    }

    /// Returns whether enough waits to decide by it.
    pub fn is_full(&self, mid_stream: bool) -> bool {
        let pieces = if mid_stream { limits::SNIFF_PIECES } else { limits::SNIFF_FRAMES };
        self.pieces.len() > pieces || (mid_stream && self.held > limits::SNIFF_BYTES)
    }

    pub fn held(&self) -> usize {
        self.held
    }

    /// Returns the side of the latest bytes.
    pub fn latest(&self) -> Option<Side> {
        self.pieces.last().map(|(side, _)| *side)
    }

    pub fn swap_sides(&mut self) {
        for (side, _) in &mut self.pieces {
            *side = side.other();
        }
    }

    pub fn push(&mut self, side: Side, piece: HeldPayload) {
        if let HeldPayload::Bytes(bytes, _) | HeldPayload::Stray { bytes, .. } = &piece {
            self.held += bytes.len();
        }
        self.turns += u32::from(self.pieces.last().is_some_and(|(last, _)| *last != side));
        self.pieces.push((side, piece));
    }

    /// Returns whether to compare candidates now: after one turn, and then after four times as many each time, so that all comparisons
    /// together take little longer than the last.
    fn is_due(&mut self) -> bool {
        let is_due = self.turns >= self.next_turn;
        if is_due {
            self.next_turn = 4 * self.turns.max(2);
        }
        is_due
    }
}

impl DecodingStage {
    /// Returns the decoding of a new connection; `mid_stream` if its handshake was not captured.
    pub fn new(protocol: Protocol, mid_stream: bool, keys: Option<ConnectionKeys>, shared: &SharedContext) -> Self {
        let decoder = AnyDecoder::new(protocol, mid_stream, shared);
        Self { protocol, engine: Box::new(ConnectionEngine::at(decoder, mid_stream, keys)) }
    }
}

fn speaks(protocol: Protocol, bytes: &[u8], side: Side) -> bool {
    match sniff(protocol, bytes) {
        Sniff::Request => side == Side::Request,
        Sniff::Response => side == Side::Response,
        Sniff::Perhaps(of) => side == of,
        Sniff::No | Sniff::More => false,
    }
}

/// The verdict from the first bytes of both directions.
#[derive(Clone, Copy, Debug)]
enum ToldProtocol {
    /// This protocol, with the client on this side.
    Of(Protocol, Side),
    Open,
    Foreign,
}

/// Returns which of `candidates` the `starts` of both sides belong to. `first` is the side that spoke first, if that was captured.
fn told(candidates: &[Protocol], starts: &[Vec<u8>; 2], first: Option<Side>) -> ToldProtocol {
    // Some messages with one protocol's mark also fit another protocol, which lacks that mark.
    let is_other =
        |look: ApparentProtocol| matches!(look, ApparentProtocol::Ours(marked) if !candidates.contains(&marked));
    let is_foreign = |look: ApparentProtocol| !matches!(look, ApparentProtocol::Ours(_));
    if starts
        .iter()
        .any(|start| look(start).is_some_and(|(look, _)| is_other(look)) || marked(start).is_some_and(is_foreign))
    {
        return ToldProtocol::Foreign;
    }
    // A message of the other side may be clearer.
    let mut is_open = starts.iter().any(Vec::is_empty);
    let mut found = None;
    for (side, &protocol) in Side::BOTH.into_iter().flat_map(|side| candidates.iter().map(move |of| (side, of))) {
        let (start, other) = (&starts[side as usize], &starts[side.other() as usize]);
        if start.is_empty() {
            continue;
        }
        match sniff(protocol, start) {
            Sniff::No => {}
            Sniff::More => is_open |= start.len() < limits::SNIFF,
            Sniff::Request => found = found.or(Some((protocol, side))),
            Sniff::Response => found = found.or(Some((protocol, side.other()))),
            Sniff::Perhaps(of) => {
                let client = if of == Side::Request { side } else { side.other() };
                is_open |= other.len() < limits::SNIFF;
                // Servers of protocols that resemble others never speak first.
                if first != Some(client.other()) && sniff(protocol, other) == Sniff::Perhaps(of.other()) {
                    found = found.or(Some((protocol, client)));
                }
            }
        }
    }
    match (found, candidates) {
        (Some((protocol, client)), _) => ToldProtocol::Of(protocol, client),
        (None, _) if is_open => ToldProtocol::Open,
        // A named protocol on a named port is decoded anyway; its decoder reports errors.
        (None, &[protocol]) => ToldProtocol::Of(protocol, Side::Request),
        (None, _) => ToldProtocol::Foreign,
    }
}

/// Returns the first captured bytes of a direction, after any proxy header.
fn start_of(pieces: &[(Side, HeldPayload)], side: Side) -> Vec<u8> {
    const MOST: usize = limits::SNIFF + proxy::LONGEST;
    let mut start = Vec::with_capacity(limits::SNIFF);
    for (of, piece) in pieces {
        match piece {
            HeldPayload::Bytes(bytes, _) if *of == side => start.extend(bytes.iter().take(MOST - start.len())),
            HeldPayload::Opaque(_) if *of == side => break,
            _ => {}
        }
    }
    start.drain(..start.len() - proxy::ProxyHeader::behind(&start).len());
    start.truncate(limits::SNIFF);
    start
}
