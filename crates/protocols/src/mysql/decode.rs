//! Decodes the packets of both directions, outside or inside compressed packets.

use super::boundary;
use super::client_packet::ClientPacket;
use super::command;
use super::continuation::{CommandRemainder, PacketContinuation, PacketRemainder};
use super::handshake;
use super::pair::{ExpectedResponse, MysqlPairing, MysqlPending};
use super::response::{MysqlPacket, ResponseProgress, ResponseStage};
use super::session::Session;
use super::wire::{self, FULL, HEADER, capability};
use crate::GivenStatements;
use overhead_decode::{
    Cursor, DecodeStep, Input, Malformed, MessageBoundary, OpId, Out, Reader, Short, Step, Versioned,
};
use overhead_model::{Account, Class, Outcome, Side};

/// Bytes of a packet decoded at once: enough for the types of the most parameters a statement can have. The rest is
/// posted as it arrives, whatever its length.
const AT_ONCE: u64 = 256 << 10;

/// A connection without compression, or the content of compressed packets.
#[derive(Debug, Default)]
pub(super) struct PlainDecoder {
    pub session: Versioned<Session>,
    pub pairing: MysqlPairing,
    pub phase: LoginPhase,
    /// The server's capabilities, if its greeting was seen.
    server: Option<u64>,
    /// Packets are compressed, or will be from here on.
    pub is_compressed: bool,
    /// The start was not captured, or bytes were lost: a reply may belong to an unseen request.
    pub is_unsure: bool,
    /// Sequence number of the last packet other than a command.
    sequence: u8,
    /// The rest of a command that continues in further packets.
    pub rest_of_command: Option<CommandRemainder>,
    /// The rest of a row that continues in further packets.
    pub rest_of_row: Option<PacketContinuation>,
    /// The rest of the current packet, by side.
    pub flows: [Option<PacketRemainder>; 2],
    /// Progress of the first reply in the queue.
    pub stage: ResponseStage,
    /// Column types of the current result, as far as defined.
    pub columns: Vec<u8>,
    pub column_count: u64,
    pub is_defined: bool,
    /// Rows are binary; `None` if the first one decides.
    pub is_binary: Option<bool>,
    /// The statement being defined.
    pub prepared: u32,
    pub given: GivenStatements,
    /// Columns of the current result, if its statement was prepared before the capture.
    pub unseen_columns: Option<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum LoginPhase {
    #[default]
    Start,
    Begun,
}

impl PlainDecoder {
    pub fn new(mid_stream: bool, given: GivenStatements) -> Self {
        let mut session = Session::default();
        session.has_begun = mid_stream;
        let phase = if mid_stream { LoginPhase::Begun } else { LoginPhase::Start };
        Self { session: Versioned::new(session), phase, is_unsure: mid_stream, given, ..Self::default() }
    }

    pub fn step<R: Reader>(&mut self, side: Side, input: Input<'_>, out: &mut Out<'_, R>) -> DecodeStep {
        if let Some(flow) = self.flows[side as usize] {
            return Ok(self.flow(flow, input, out));
        }
        let Some((len, sequence)) = wire::header(input.bytes) else { return Ok(Step::More) };
        let first = input.bytes.get(HEADER as usize).copied().filter(|_| len > 0);
        if first.is_none() && len > 0 && input.opaque == 0 {
            return Ok(Step::More);
        }
        let mut packet = MysqlPacket { input, first, sequence, len, here: len, is_continued: len == FULL };
        let what = match side {
            Side::Request => match self.client(packet)? {
                // More bytes are needed to decide.
                ClientPacket::Stray if self.is_unsure && input.opaque == 0 => return Ok(Step::More),
                what => Some(what),
            },
            Side::Response => {
                if self.is_unsure && !self.goes_on(sequence) {
                    match self.boundary(side, input.bytes) {
                        MessageBoundary::Yes => {}
                        MessageBoundary::More
                            if input.opaque == 0 && input.bytes.len() < crate::limits::BOUNDARY_WINDOW =>
                        {
                            return Ok(Step::More);
                        }
                        _ => return Err(Malformed("not what MySQL answers with")),
                    }
                }
                None
            }
        };
        if len > AT_ONCE && what.map_or(self.may_flow(packet), ClientPacket::may_flow) {
            (packet.here, packet.is_continued) = (AT_ONCE, true);
        }
        if input.available() < HEADER + packet.here {
            return Ok(Step::Need(HEADER + packet.here));
        }
        if !matches!(what, Some(ClientPacket::Command(..))) {
            self.sequence = sequence;
        }
        let before = out.posted();
        let step = match what {
            Some(what) => self.request(what, packet, out),
            None => self.response(packet, out),
        };
        let left = (HEADER + len).saturating_sub(out.posted() - before);
        if packet.here < len && left > 0 {
            self.flows[side as usize] = Some(PacketRemainder { left, is_continued: len == FULL });
        }
        step
    }

    /// Returns whether a server packet with this number continues the current reply, or starts the awaited one.
    fn goes_on(&self, sequence: u8) -> bool {
        // Inside compressed packets, servers continue the numbers of those.
        let is_next = self.is_compressed || sequence == 1 || sequence == self.sequence.wrapping_add(1);
        self.pairing.kind().is_some() && is_next
    }

    /// Returns whether a server packet may be decoded piece by piece: rows and their continuations.
    fn may_flow(&self, packet: MysqlPacket<'_>) -> bool {
        let is_row = match self.stage {
            ResponseStage::Rows | ResponseStage::Defined => true,
            ResponseStage::First | ResponseStage::Cloning | ResponseStage::Cloned => {
                matches!(self.pairing.kind(), Some(ExpectedResponse::Fetch | ExpectedResponse::Stream))
            }
            _ => false,
        };
        self.rest_of_row.is_some() || is_row && packet.first != Some(wire::ERR)
    }

    fn request<R: Reader>(&mut self, what: ClientPacket, packet: MysqlPacket<'_>, out: &mut Out<'_, R>) -> DecodeStep {
        match what {
            ClientPacket::Command(code, command) => {
                self.phase = LoginPhase::Begun;
                let op = self.begin_operation(out);
                if self.pairing.queue.is_empty() {
                    // The previous reply is complete.
                    self.sequence = 0;
                }
                let mut c = packet.begin(out);
                let rest = self.command((op, code, command), &mut c, packet.is_continued);
                let is_whole = end(c, packet);
                let is_answered = command.kind.is_some();
                let what = rest?.filter(|_| is_whole).unwrap_or(PacketContinuation::Undecoded);
                if packet.is_continued {
                    self.rest_of_command = Some(CommandRemainder { op: Some(op), is_answered, what });
                } else if !is_answered {
                    out.close(op, Outcome::NoReply);
                }
                out.release();
            }
            ClientPacket::Continued => self.continue_command(packet, out),
            ClientPacket::Opening => return self.open(packet, out),
            ClientPacket::SemiSync => self.aside("semi-synchronous", Account::Metadata, packet, out),
            ClientPacket::Authentication => self.aside("authentication data", Account::Metadata, packet, out),
            ClientPacket::File => {
                if packet.len == 0 {
                    self.stage = ResponseStage::FileSent;
                }
                self.aside("file", Account::Data, packet, out);
            }
            ClientPacket::Clone => {
                if packet.first == Some(command::CLONE_EXIT) {
                    self.stage = ResponseStage::Cloned;
                }
                self.aside("clone command", Account::Metadata, packet, out);
            }
            ClientPacket::Stray => {
                self.pairing.charge_stray(out);
                packet.begin(out).finish();
                out.release();
            }
        }
        Ok(Step::Progress)
    }

    /// Opens an operation and charges it. Drops waiting operations that must have been answered unseen.
    fn begin_operation<R: Reader>(&mut self, out: &mut Out<'_, R>) -> OpId {
        self.end_if_over(out);
        if self.pairing.is_given_up() {
            self.abandon(out);
        } else if self.pairing.is_stray() {
            // Clients wait for replies, so this one is complete.
            self.drop_front(out);
        }
        self.pairing.open(out)
    }

    /// Decodes a packet that belongs to the first operation in the queue.
    fn aside<R: Reader>(
        &mut self,
        field: &'static str,
        account: Account,
        packet: MysqlPacket<'_>,
        out: &mut Out<'_, R>,
    ) {
        if let Some(front) = self.pairing.front() {
            out.charge(front.op);
        }
        let mut c = packet.begin(out);
        c.rest(account, field);
        c.finish();
        out.release();
    }

    /// Decodes a login, or the request for TLS before it.
    fn open<R: Reader>(&mut self, packet: MysqlPacket<'_>, out: &mut Out<'_, R>) -> DecodeStep {
        let payload = packet.input.bytes.get(HEADER as usize..).unwrap_or_default();
        let requests_tls = handshake::requests_tls(payload, packet.len);
        let is_greeted =
            self.pairing.front().filter(|front| front.kind == ExpectedResponse::Login).map(|front| front.op);
        let op = match is_greeted {
            Some(op) => op,
            None => self.start(out)?,
        };
        out.charge(op);
        let mut c = packet.begin(out);
        c.out().enter("login");
        let capabilities = handshake::fixed(&mut c);
        if requests_tls {
            c.finish();
            out.label(op, Class::Setup, "SSLREQUEST", "handshake");
            self.pairing.answered(out);
            return Ok(Step::Tls);
        }
        if let Ok(capabilities) = capabilities {
            let _ = handshake::login(&mut c, capabilities);
            let known = self.common(capabilities);
            self.session.put(|session| &mut session.capabilities, Some(known));
        }
        c.finish();
        // Nothing is unsure from here on; the session state does not show that.
        self.session.change(|session| session.has_begun = false);
        self.is_unsure = false;
        self.phase = LoginPhase::Begun;
        out.release();
        Ok(Step::Progress)
    }

    fn start<R: Reader>(&mut self, out: &mut Out<'_, R>) -> DecodeStep<OpId> {
        let op = self.begin_operation(out);
        out.label(op, Class::Setup, "STARTUP", "handshake");
        self.stage = ResponseStage::First;
        self.pairing.expect(op, ExpectedResponse::Login, out)?;
        Ok(op)
    }

    /// Returns the capabilities of both sides. `MariaDB`'s flags count only between two `MariaDB` sides.
    fn common(&self, client: u64) -> u64 {
        match self.server {
            Some(server) => client & server,
            None if client & capability::LONG_PASSWORD == 0 => client & !capability::ZSTD,
            None => client,
        }
    }

    fn response<R: Reader>(&mut self, packet: MysqlPacket<'_>, out: &mut Out<'_, R>) -> DecodeStep {
        if !packet.is_eof() {
            self.end_if_over(out);
        }
        if self.stage == ResponseStage::Blind && packet.sequence == 1 && self.pairing.queue.len() > 1 {
            self.drop_front(out);
        }
        if self.is_unsure && packet.sequence != 1 && self.awaits_command() {
            // The start of this reply was not seen.
            self.pairing.stray_answer(out);
            self.stage = ResponseStage::Blind;
        }
        if self.awaits_start() {
            let verdict = self.pairing.queue.judge(out);
            for _ in 0..verdict.lost {
                self.drop_front(out);
            }
            if !verdict.is_paired && !self.pairing.queue.is_empty() {
                self.pairing.stray_answer(out);
            }
        }
        let is_greeting = packet.sequence == 0 && boundary::is_greeting_of(packet.first, packet.len);
        let is_start = match self.phase {
            LoginPhase::Start => is_greeting || packet.first == Some(wire::ERR),
            LoginPhase::Begun => is_greeting && boundary::is_greeting(packet.input.bytes),
        };
        let next = match self.pairing.front() {
            None if is_start => {
                self.phase = LoginPhase::Start;
                self.start(out)?;
                self.packet(ExpectedResponse::Login, is_greeting, packet, out)
            }
            None => {
                self.pairing.stray_answer(out);
                self.stage = ResponseStage::First;
                self.packet(ExpectedResponse::Result { is_binary: None }, false, packet, out)
            }
            Some(front) => {
                let (op, kind) = (front.op, front.kind);
                let is_greeting = is_greeting && kind == ExpectedResponse::Login && !front.is_answered;
                front.is_answered = true;
                out.charge(op);
                self.packet(kind, is_greeting, packet, out)
            }
        };
        out.release();
        if next == ResponseProgress::Done {
            self.answered(out);
        }
        Ok(Step::Progress)
    }

    /// Returns whether the next server packet should start a reply.
    fn awaits_start(&mut self) -> bool {
        let is_first = self.stage == ResponseStage::First && self.rest_of_row.is_none();
        is_first && self.pairing.front().is_none_or(|front| !front.is_answered)
    }

    /// Returns whether the next server packet should start the reply to a command.
    fn awaits_command(&mut self) -> bool {
        let is_first = self.stage == ResponseStage::First && self.rest_of_row.is_none();
        let is_command = |front: &mut MysqlPending| {
            !front.is_answered && !matches!(front.kind, ExpectedResponse::Login | ExpectedResponse::ChangeUser)
        };
        is_first && self.pairing.front().is_some_and(is_command)
    }

    /// Posts a packet of the server to the charged operation.
    fn packet<R: Reader>(
        &mut self,
        kind: ExpectedResponse,
        is_greeting: bool,
        packet: MysqlPacket<'_>,
        out: &mut Out<'_, R>,
    ) -> ResponseProgress {
        let mut c = packet.begin(out);
        let next = if is_greeting {
            c.out().enter("greeting");
            handshake::greeting(&mut c, &mut self.server).map(|()| ResponseProgress::More)
        } else if let Some(rest) = self.rest_of_row.take() {
            self.continue_row(rest, packet.is_continued, &mut c).map(|()| ResponseProgress::More)
        } else {
            self.reply_packet(kind, packet, &mut c)
        };
        let is_whole = end(c, packet);
        if packet.is_continued && (next.is_err() || !is_whole || self.rest_of_row.is_none()) {
            self.rest_of_row = Some(PacketContinuation::Undecoded);
        }
        next.unwrap_or_else(|Short| self.undecoded(packet))
    }

    /// Handles a packet that could not be decoded completely, depending on what it was.
    fn undecoded(&mut self, packet: MysqlPacket<'_>) -> ResponseProgress {
        match (self.stage, packet.first) {
            (ResponseStage::Columns(left), _) => {
                // Without this type, the types after it have no place.
                self.columns.push(0xf0);
                self.stage = if left > 1 { ResponseStage::Columns(left - 1) } else { ResponseStage::Defined };
                ResponseProgress::More
            }
            (ResponseStage::Rows, Some(first)) if first != wire::EOF => ResponseProgress::More,
            _ => {
                self.stage = ResponseStage::Blind;
                self.pairing.mark_unsure();
                ResponseProgress::More
            }
        }
    }

    /// Ends the first reply in the queue.
    pub(super) fn answered<R: Reader>(&mut self, out: &mut Out<'_, R>) {
        self.stage = ResponseStage::First;
        self.rest_of_row = None;
        let Some(done) = self.pairing.answered(out) else { return };
        if done.outcome == Outcome::Error {
            return;
        }
        if done.resets && self.session.has_statements() {
            self.session.change(Session::reset);
        }
        if done.kind == ExpectedResponse::Login {
            let compresses = capability::COMPRESS | capability::ZSTD;
            self.is_compressed |= self.session.has(compresses) == Some(true);
        }
    }

    pub fn boundary(&self, side: Side, bytes: &[u8]) -> MessageBoundary {
        match side {
            Side::Request => boundary::request_boundary(bytes),
            Side::Response => boundary::response_boundary(bytes, self.pairing.kind()),
        }
    }

    pub fn lost<R: Reader>(&mut self, side: Side, out: &mut Out<'_, R>) {
        self.is_unsure = true;
        // Earlier knowledge no longer holds.
        self.session.change(|_| {});
        self.flows[side as usize] = None;
        match side {
            Side::Request => {
                self.rest_of_command = None;
                self.phase = LoginPhase::Begun;
            }
            Side::Response if !self.awaits_start() => self.drop_front(out),
            Side::Response => {}
        }
        self.pairing.queue.lose(side, out);
    }

    fn drop_front<R: Reader>(&mut self, out: &mut Out<'_, R>) {
        let op = self.pairing.front().map(|front| front.op);
        if let Some(rest) = self.rest_of_command.as_mut().filter(|rest| rest.is_answered && rest.op == op) {
            rest.op = None;
        }
        self.pairing.drop_front(out);
        self.rest_of_row = None;
        self.stage = ResponseStage::First;
    }

    /// Drops all waiting operations, whose replies will not be seen.
    pub fn abandon<R: Reader>(&mut self, out: &mut Out<'_, R>) {
        self.pairing.drop_all(out);
        self.rest_of_row = None;
        self.stage = ResponseStage::First;
        if let Some(rest) = self.rest_of_command.as_mut().filter(|rest| rest.is_answered) {
            rest.op = None;
        }
    }

    pub fn end<R: Reader>(&mut self, out: &mut Out<'_, R>) {
        self.end_if_over(out);
        self.pairing.finish(out);
    }

    /// Returns the number of the state while nothing is in progress; see [`overhead_decode::Decoder::idle_state`].
    #[inline]
    pub fn idle_state(&self) -> Option<u64> {
        // All fields are named, so that a new one cannot be missed. The ignored ones belong to the login, a packet or a
        // reply, or only matter after a loss.
        let Self {
            session,
            pairing,
            phase,
            rest_of_command,
            rest_of_row,
            server: _,
            is_compressed: _,
            is_unsure: _,
            sequence: _,
            flows: _,
            stage: _,
            columns: _,
            column_count: _,
            is_defined: _,
            is_binary: _,
            prepared: _,
            given: _,
            unseen_columns: _,
        } = self;
        let is_idle = pairing.is_idle() && rest_of_command.is_none() && rest_of_row.is_none();
        (is_idle && *phase == LoginPhase::Begun).then(|| session.version() << 2 | pairing.queue.habit())
    }

    pub fn held(&self) -> usize {
        self.session.held() + self.pairing.queue.held() + self.columns.capacity()
    }
}

/// Ends a packet, or its decoded piece; returns whether it was decoded completely.
pub fn end<R: Reader>(c: Cursor<'_, '_, '_, R>, packet: MysqlPacket<'_>) -> bool {
    let left = c.remaining();
    if packet.here < packet.len && left < wire::LENGTH as u64 {
        // The start of a length, which continues in the next piece.
        return true;
    }
    c.finish();
    left == 0
}
