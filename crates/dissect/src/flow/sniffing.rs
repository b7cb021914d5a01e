//! Detects a connection's protocol from its first bytes.

use super::ConnectionFlow;
use super::midst::MidStreamPairing;
use crate::engine::ConnectionEngine;
use crate::ledger::Arrival;
use crate::limits;
use crate::proxy;
use crate::tls::KeyLog;
use overhead_decode::{ApparentProtocol, ForeignTraffic, Note};
use overhead_model::{DecidedBy, Protocol, Side, Tally, Trace};
use overhead_protocols::{
    AnyDecoder, SharedContext, Sniff, SniffVerdict, judge, judge_both, judge_so_far, look, sniff,
};
use std::sync::Arc;

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
    expects_calls: bool,
}

/// The question that the content decides.
#[derive(Debug)]
enum OpenQuestion {
    /// Which of several protocols it is; with the secrets for TLS, and the context that connections share.
    Which { candidates: Vec<Protocol>, keys: Option<Arc<KeyLog>>, shared: SharedContext },
    /// Whether it is the port's protocol.
    Whether(DecodingStage),
}

/// A piece of payload that waits for the verdict on the protocol.
#[derive(Debug)]
pub(super) enum HeldPayload {
    /// With how much of the other stream their sender had received.
    Bytes(Vec<u8>, u64),
    Opaque(u64),
    /// Bytes outside the stream: `len` of them, as far as captured.
    Stray {
        bytes: Vec<u8>,
        frame: Arrival,
        len: u64,
    },
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
            FlowStage::Sniffing(_) => {
                self.decide_which(true, tally);
                if let FlowStage::Sniffing(sniffing) = &self.stage {
                    let starts = Side::BOTH.map(|side| start_of(&sniffing.pieces, side));
                    self.leave(&starts);
                }
            }
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

    /// Stops decoding, and notes what else the bytes look like.
    fn leave(&mut self, starts: &[Vec<u8>; 2]) {
        let looks = |side: Side| {
            look(&starts[side as usize])
                .map(|(look, of)| (look, if of == Side::Response { side } else { side.other() }))
        };
        if let Some((look, server)) = Side::BOTH.into_iter().find_map(looks) {
            let port = self.ends[server as usize].port();
            self.book.note(Note::Foreign(ForeignTraffic { port, look, expected: None }));
        }
        self.stage = FlowStage::Other;
    }

    pub(super) fn decide<T: Tally>(&mut self, tally: &mut T) {
        let FlowStage::Sniffing(sniffing) = &self.stage else { return };
        let SniffingStage { question, pieces, .. } = &**sniffing;
        if pieces.iter().all(|(_, piece)| matches!(piece, HeldPayload::Stray { .. })) {
            return;
        }
        match question {
            OpenQuestion::Which { .. } => self.decide_which(false, tally),
            OpenQuestion::Whether(_) => self.decide_expected(false, tally),
        }
    }

    /// Tries to detect which of several protocols the pieces so far belong to. `is_last` means that no more will come.
    fn decide_which<T: Tally>(&mut self, is_last: bool, tally: &mut T) {
        let FlowStage::Sniffing(sniffing) = &self.stage else { return };
        let SniffingStage { question: OpenQuestion::Which { candidates, .. }, pieces, .. } = &**sniffing else {
            return;
        };
        let starts = Side::BOTH.map(|side| start_of(pieces, side));
        let is_begun = |(_, piece): &(Side, HeldPayload)| matches!(piece, HeldPayload::Bytes(..));
        if pieces.iter().any(is_begun) && starts.iter().all(Vec::is_empty) {
            return;
        }
        let first = pieces.first().filter(|_| !self.mid_stream).map(|(side, _)| *side);
        // The first bytes of a connection joined midway may be the middle of a message, and look like another protocol's.
        let is_marked =
            |start: &Vec<u8>| look(start).is_some_and(|(look, _)| !matches!(look, ApparentProtocol::Ours(_)));
        let told = if self.mid_stream && candidates.len() > 1 && !starts.iter().any(is_marked) {
            match told_by_turns(candidates, pieces, self.server_port, is_last) {
                ToldProtocol::Foreign => told(candidates, &starts, first),
                told => told,
            }
        } else {
            told(candidates, &starts, first)
        };
        match told {
            ToldProtocol::Of(protocol, client) => {
                let is_contrary = client == Side::Response && self.is_by_port_alone();
                if is_contrary && !is_last && starts.iter().any(Vec::is_empty) {
                    return;
                }
                if self.is_reversed(protocol, &starts) {
                    self.decided_by = DecidedBy::Content;
                }
                self.begin(protocol, client, tally);
            }
            ToldProtocol::Open => {}
            ToldProtocol::Foreign => self.leave(&starts),
        }
    }

    /// Starts to decode, with the waiting pieces first.
    fn begin<T: Tally>(&mut self, protocol: Protocol, client: Side, tally: &mut T) {
        let stage = std::mem::replace(&mut self.stage, FlowStage::Other);
        let FlowStage::Sniffing(sniffing) = stage else { return };
        let SniffingStage { pieces, question, expects_calls, .. } = *sniffing;
        self.stage = FlowStage::Decoding(match question {
            OpenQuestion::Which { keys, shared, .. } => {
                tally.trace(Trace::Decoding { protocol });
                DecodingStage::new(protocol, self.mid_stream, keys, &shared)
            }
            OpenQuestion::Whether(decoding) => decoding,
        });
        if expects_calls {
            self.expect_calls();
        }
        let swap = client == Side::Response && self.decided_by == DecidedBy::Content;
        if swap {
            self.swap_sides(tally);
        }
        for (side, piece) in pieces {
            let side = if swap { side.other() } else { side };
            match piece {
                HeldPayload::Bytes(bytes, received) => {
                    self.book.received(side, received);
                    self.decode(side, &bytes, 0, tally);
                }
                HeldPayload::Opaque(n) => self.decode(side, &[], n, tally),
                HeldPayload::Stray { bytes, frame, len } => self.stray(side, &bytes, frame, len, tally),
            }
        }
        if self.is_settled {
            self.book.settle_received();
        }
        if self.mid_stream {
            self.midst = MidStreamPairing::for_protocol(protocol);
        }
    }
}

impl SniffingStage {
    /// Returns the state that detects one of `candidates`.
    pub fn among(candidates: Vec<Protocol>, keys: Option<Arc<KeyLog>>, shared: SharedContext) -> Self {
        Self::new(OpenQuestion::Which { candidates, keys, shared })
    }

    fn new(question: OpenQuestion) -> Self {
        Self { question, pieces: Vec::new(), held: 0, expects_calls: false }
    }

    pub fn expect_calls(&mut self) {
        match &mut self.question {
            OpenQuestion::Whether(decoding) => decoding.engine.expect_calls(),
            OpenQuestion::Which { .. } => self.expects_calls = true,
        }
    }

    pub fn held(&self) -> usize {
        self.held
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
        self.pieces.push((side, piece));
    }
}

impl DecodingStage {
    /// Returns the decoding of a new connection; `mid_stream` if its handshake was not captured.
    pub fn new(protocol: Protocol, mid_stream: bool, keys: Option<Arc<KeyLog>>, shared: &SharedContext) -> Self {
        let decoder = AnyDecoder::new(protocol, mid_stream, shared);
        Self { protocol, engine: Box::new(ConnectionEngine::with_keys(decoder, mid_stream, keys)) }
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
    if starts.iter().any(|start| look(start).is_some_and(|(look, _)| is_other(look))) {
        return ToldProtocol::Foreign;
    }
    let mut is_open = false;
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

/// Returns the protocol of a connection joined midway, by how turns start: the one that most of them fit, on both sides. If the turns of
/// a first few do not tell, the protocol whose own port this is outranks others. `Foreign` if neither tells.
fn told_by_turns(among: &[Protocol], pieces: &[(Side, HeldPayload)], at: Option<u16>, is_last: bool) -> ToldProtocol {
    // Nothing else changes what the turns tell.
    let begins_turn = matches!(pieces, [.., (before, _), (side, HeldPayload::Bytes(..))] if before != side);
    if !begins_turn && !is_last {
        return ToldProtocol::Open;
    }
    let mut turns: Vec<(Side, &[u8])> = Vec::new();
    let mut before = None;
    for (side, piece) in pieces {
        match piece {
            HeldPayload::Bytes(bytes, _) if before.is_some_and(|before| before != *side) => turns.push((*side, bytes)),
            _ => {}
        }
        before = Some(*side);
    }
    let fits_of = |protocol: Protocol, client: Side| {
        let fit = |side: Side| {
            let of = if side == client { Side::Request } else { Side::Response };
            let starts = turns.iter().filter(|(sender, _)| *sender == side);
            starts.filter(|(_, start)| speaks(protocol, start.get(..limits::SNIFF).unwrap_or(start), of)).count()
        };
        let [ours, theirs] = [client, client.other()].map(fit);
        if ours.min(theirs) == 0 { 0 } else { ours + theirs }
    };
    let sides = among.iter().flat_map(|&protocol| Side::BOTH.map(|client| (protocol, client)));
    let best = sides.map(|(protocol, client)| (fits_of(protocol, client), protocol, client)).max_by_key(|best| best.0);
    let own = among.iter().copied().find(|of| at.is_some_and(|port| of.ports().contains(&port)));
    match best {
        Some((limits::SNIFF_TURNS.., protocol, client)) => ToldProtocol::Of(protocol, client),
        _ if !is_last => ToldProtocol::Open,
        Some((1.., protocol, client)) if own.is_none() => ToldProtocol::Of(protocol, client),
        _ => own.map_or(ToldProtocol::Foreign, |own| ToldProtocol::Of(own, Side::Request)),
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
