//! The two streams of packets: what a packet is, and who reads it.

use super::boundary;
use super::command::{self, Command};
use super::handshake::{self, LoginPacket};
use super::pair::{ExpectedResponse, MysqlPairing, MysqlPending};
use super::response::{ResponsePacket, ResponseProgress, ResponseStage};
use super::session::Session;
use super::values::{BulkRows, ValueLayout};
use super::wire::{self, FULL, HEADER, capability};
use overhead_decode::{Boundary, Cursor, Input, Malformed, OpId, Out, Reader, Short, Step, Versioned};
use overhead_model::{Account, Class, Outcome, Side};

/// Bytes of a packet that are decoded at once: enough for the types of all parameters that a statement can have. What is
/// behind them flows by, so that a packet's length does not matter.
const AT_ONCE: u64 = 256 << 10;

/// A connection whose packets are not compressed, or what compressed ones hold.
#[derive(Debug, Default)]
pub(super) struct PlainDecoder {
    pub session: Versioned<Session>,
    pub pairing: MysqlPairing,
    phase: LoginPhase,
    /// The server's capabilities, where its greeting was seen.
    server: Option<u64>,
    /// Packets lie in compressed ones, or do from here on.
    pub is_compressed: bool,
    /// The beginning was not seen, or bytes were lost: what comes need not answer what was seen.
    is_unsure: bool,
    /// Sequence number of the last packet that was not a command.
    sequence: u8,
    /// What is left of a command, in the packets that continue it.
    rest_of_command: Option<CommandRemainder>,
    /// What is left of a row, in the packets that continue it.
    pub rest_of_row: Option<PacketContinuation>,
    /// What is left of the current packet, by side.
    flows: [Option<PacketRemainder>; 2],
    /// Where the answer at the front of the queue is.
    pub stage: ResponseStage,
    /// Types of the columns of the current result, as far as they were described.
    pub columns: Vec<u8>,
    pub column_count: u64,
    /// Its columns are described.
    pub is_defined: bool,
    /// Its rows are in binary; `None` where the first one is to tell.
    pub is_binary: Option<bool>,
    /// The statement that is being described.
    pub prepared: u32,
}

/// How far the client is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum LoginPhase {
    /// It has not logged in.
    #[default]
    Start,
    /// It has.
    Begun,
}

/// What is left of a message that goes on in another packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PacketContinuation {
    /// All of one account.
    All(Account, &'static str),
    /// So many bytes of a value, and further ones.
    Values(u64, Vec<ValueLayout>),
    /// Rows of parameters.
    Bulk(BulkRows),
    /// What could not be decoded.
    Undecoded,
}

/// A long packet of which the beginning was decoded.
#[derive(Clone, Copy, Debug)]
struct PacketRemainder {
    left: u64,
    /// Another packet continues it.
    is_continued: bool,
}

/// What is left of a command.
#[derive(Debug)]
struct CommandRemainder {
    /// Whose it is; `None` where that was closed since.
    op: Option<OpId>,
    is_answered: bool,
    what: PacketContinuation,
}

/// What a packet of the client is.
#[derive(Clone, Copy, Debug)]
enum ClientPacket {
    Continued,
    Command(u8, Command),
    /// A replica says what it has got.
    SemiSync,
    Authentication,
    File,
    /// A command of a clone under way.
    Clone,
    Opening,
    Stray,
}

impl ClientPacket {
    /// Returns whether it may be decoded piece by piece.
    fn may_flow(self) -> bool {
        matches!(self, Self::Continued | Self::Command(..))
    }
}

impl PlainDecoder {
    pub fn new(mid_stream: bool) -> Self {
        let mut session = Session::default();
        session.has_begun = mid_stream;
        let phase = if mid_stream { LoginPhase::Begun } else { LoginPhase::Start };
        Self { session: Versioned::new(session), phase, is_unsure: mid_stream, ..Self::default() }
    }

    pub fn step<R: Reader>(&mut self, side: Side, input: Input<'_>, out: &mut Out<'_, R>) -> Result<Step, Malformed> {
        if let Some(flow) = self.flows[side as usize] {
            return Ok(self.flow(flow, side, input, out));
        }
        let Some((len, sequence)) = wire::header(input.bytes) else { return Ok(Step::More) };
        let first = input.bytes.get(HEADER as usize).copied().filter(|_| len > 0);
        if first.is_none() && len > 0 && input.opaque == 0 {
            return Ok(Step::More);
        }
        let mut packet = ResponsePacket { first, len, here: len, is_continued: len == FULL };
        let what = match side {
            Side::Request => match self.client(packet, sequence, input)? {
                // More bytes tell, and its length may be none.
                ClientPacket::Stray if self.is_unsure && input.opaque == 0 => return Ok(Step::More),
                what => Some(what),
            },
            Side::Response => {
                if self.is_unsure && !self.goes_on(sequence) {
                    match self.boundary(side, input.bytes) {
                        Boundary::Yes => {}
                        Boundary::More if input.opaque == 0 && input.bytes.len() < crate::limits::BOUNDARY_WINDOW => {
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
            Some(what) => self.request(what, packet, input, out),
            None => self.response(packet, sequence, input, out),
        };
        let left = (HEADER + len).saturating_sub(out.posted() - before);
        if packet.here < len && left > 0 {
            self.flows[side as usize] = Some(PacketRemainder { left, is_continued: len == FULL });
        }
        step
    }

    /// Returns whether a packet of the server with this number goes on with what came before, or begins what is awaited.
    fn goes_on(&self, sequence: u8) -> bool {
        // Within compressed packets, servers go on from the numbers of these.
        let is_next = self.is_compressed || sequence == 1 || sequence == self.sequence.wrapping_add(1);
        self.pairing.kind().is_some() && is_next
    }

    /// Returns whether a packet of the server may be decoded piece by piece: rows, and what continues them.
    fn may_flow(&self, packet: ResponsePacket) -> bool {
        let is_row = match self.stage {
            ResponseStage::Rows | ResponseStage::Defined => true,
            ResponseStage::First | ResponseStage::Cloning | ResponseStage::Cloned => {
                matches!(self.pairing.kind(), Some(ExpectedResponse::Fetch | ExpectedResponse::Stream))
            }
            _ => false,
        };
        self.rest_of_row.is_some() || is_row && packet.first != Some(wire::ERR)
    }

    /// A further piece of a long packet.
    fn flow<R: Reader>(&mut self, flow: PacketRemainder, side: Side, input: Input<'_>, out: &mut Out<'_, R>) -> Step {
        let here = flow.left.min(input.available());
        let is_last = here == flow.left;
        let what = self.charge_rest(side, out);
        let mut c = Cursor::new(input, here, out);
        let rest = what.clone().go_on(&mut c, !is_last || flow.is_continued);
        // Amid the length of a value, the next piece decides.
        let is_cut = rest.is_ok() && !is_last && c.remaining() < wire::LENGTH as u64;
        let used = c.position();
        if is_cut && used == 0 {
            self.set_rest(side, Some(what), out);
            return Step::Need(here + 1);
        }
        let is_whole = c.remaining() == 0;
        let left = if is_cut { flow.left - used } else { flow.left - here };
        if !is_cut {
            c.finish();
        }
        let rest = rest.ok().flatten().filter(|_| is_whole || is_cut).unwrap_or(PacketContinuation::Undecoded);
        self.flows[side as usize] = (left > 0).then_some(PacketRemainder { left, ..flow });
        self.set_rest(side, (left > 0 || flow.is_continued).then_some(rest), out);
        out.release();
        Step::Progress
    }

    /// Charges the operation whose message goes on; gives what goes on.
    fn charge_rest<R: Reader>(&mut self, side: Side, out: &mut Out<'_, R>) -> PacketContinuation {
        if side == Side::Response {
            if let Some(op) = self.pairing.front().map(|front| front.op) {
                out.charge(op);
            } else {
                self.pairing.stray_answer(out);
                self.stage = ResponseStage::Blind;
            }
            return self.rest_of_row.take().unwrap_or(PacketContinuation::Undecoded);
        }
        match self.rest_of_command.as_ref().and_then(|rest| rest.op) {
            Some(op) => out.charge(op),
            None => self.pairing.charge_stray(out),
        }
        let what =
            self.rest_of_command.as_mut().map(|rest| std::mem::replace(&mut rest.what, PacketContinuation::Undecoded));
        what.unwrap_or(PacketContinuation::Undecoded)
    }

    /// Keeps what goes on, or ends the message.
    fn set_rest<R: Reader>(&mut self, side: Side, what: Option<PacketContinuation>, out: &mut Out<'_, R>) {
        match (side, what) {
            (Side::Response, what) => self.rest_of_row = what,
            (Side::Request, Some(what)) => {
                if let Some(rest) = &mut self.rest_of_command {
                    rest.what = what;
                }
            }
            (Side::Request, None) => {
                if let Some(CommandRemainder { op: Some(op), is_answered: false, .. }) = self.rest_of_command.take() {
                    out.close(op, Outcome::NoReply);
                }
            }
        }
    }

    /// Tells what a packet of the client is.
    fn client(&self, packet: ResponsePacket, sequence: u8, input: Input<'_>) -> Result<ClientPacket, Malformed> {
        if self.rest_of_command.is_some() {
            return Ok(ClientPacket::Continued);
        }
        let kind = self.pairing.kind();
        // A file goes on up to a packet without content. There is no more to tell by: the numbers of its packets begin anew.
        if self.stage == ResponseStage::Infile && kind.is_some() && !self.is_unsure {
            return Ok(ClientPacket::File);
        }
        if matches!(self.stage, ResponseStage::Cloning | ResponseStage::Cloned)
            && sequence == 0
            && command::is_of_clone(packet.first)
        {
            return Ok(ClientPacket::Clone);
        }
        let ResponsePacket { first, len, .. } = packet;
        let command = first.and_then(|code| Some((code, command::command(code)?)));
        match command {
            Some((code, command))
                if sequence == 0 && self.phase == LoginPhase::Begun || self.is_early(packet, sequence) =>
            {
                return Ok(ClientPacket::Command(code, command));
            }
            _ => {}
        }
        Ok(match kind {
            _ if self.phase == LoginPhase::Start => ClientPacket::Opening,
            Some(ExpectedResponse::Stream) if first == Some(command::SEMI_SYNC) => ClientPacket::SemiSync,
            _ if sequence == 0 && len > 0 && input.bytes.len() as u64 > HEADER => {
                return Err(Malformed("not a MySQL command"));
            }
            Some(ExpectedResponse::Login | ExpectedResponse::ChangeUser) => ClientPacket::Authentication,
            Some(_) if self.stage == ResponseStage::Infile => ClientPacket::File,
            _ if boundary::is_login(input.bytes) => ClientPacket::Opening,
            _ if self.is_unsure && boundary::of_request(input.bytes) != Boundary::More => {
                return Err(Malformed("not what a MySQL client begins with"));
            }
            _ => ClientPacket::Stray,
        })
    }

    /// Returns whether a packet before the login is a command all the same: the login was not captured.
    fn is_early(&self, packet: ResponsePacket, sequence: u8) -> bool {
        self.phase == LoginPhase::Start
            && sequence == 0
            && packet.first.is_some_and(|code| command::fits(code, packet.len))
    }

    /// A packet of the client.
    fn request<R: Reader>(
        &mut self,
        what: ClientPacket,
        packet: ResponsePacket,
        input: Input<'_>,
        out: &mut Out<'_, R>,
    ) -> Result<Step, Malformed> {
        let total = HEADER + packet.here;
        match what {
            ClientPacket::Command(code, command) => {
                self.phase = LoginPhase::Begun;
                let op = self.begin_operation(out);
                if !self.pairing.is_waiting() {
                    // What the last answer came to is over.
                    self.sequence = 0;
                }
                let mut c = begin(input, total, out);
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
            ClientPacket::Continued => self.continue_command(packet, input, out),
            ClientPacket::Opening => return self.open(packet, input, out),
            ClientPacket::SemiSync => self.aside("semi-synchronous", Account::Metadata, total, input, out),
            ClientPacket::Authentication => self.aside("authentication data", Account::Metadata, total, input, out),
            ClientPacket::File => {
                if packet.len == 0 {
                    self.stage = ResponseStage::FileSent;
                }
                self.aside("file", Account::Data, total, input, out);
            }
            ClientPacket::Clone => {
                if packet.first == Some(command::CLONE_EXIT) {
                    self.stage = ResponseStage::Cloned;
                }
                self.aside("clone command", Account::Metadata, total, input, out);
            }
            ClientPacket::Stray => {
                self.pairing.charge_stray(out);
                begin(input, total, out).finish();
                out.release();
            }
        }
        Ok(Step::Progress)
    }

    /// Opens an operation and charges it. What was answered out of sight, or may be over, is.
    fn begin_operation<R: Reader>(&mut self, out: &mut Out<'_, R>) -> OpId {
        if self.may_be_over() {
            self.end_without_eof();
            self.answered(out);
        }
        if self.pairing.is_given_up() && !self.session.pipelines {
            self.drop_all(out);
        } else if self.pairing.is_stray() {
            // Clients wait for answers: that one was over.
            self.drop_front(out);
        }
        if self.pairing.is_waiting() {
            self.session.put(|session| &mut session.pipelines, true);
        }
        self.pairing.open(out)
    }

    /// A packet that belongs to the operation at the front of the queue.
    fn aside<R: Reader>(
        &mut self,
        field: &'static str,
        account: Account,
        total: u64,
        input: Input<'_>,
        out: &mut Out<'_, R>,
    ) {
        if let Some(front) = self.pairing.front() {
            out.charge(front.op);
        }
        let mut c = begin(input, total, out);
        c.rest(account, field);
        c.finish();
        out.release();
    }

    /// A packet that continues a command.
    fn continue_command<R: Reader>(&mut self, packet: ResponsePacket, input: Input<'_>, out: &mut Out<'_, R>) {
        let what = self.charge_rest(Side::Request, out);
        let mut c = begin(input, HEADER + packet.here, out);
        let what = what.go_on(&mut c, packet.is_continued);
        let is_whole = end(c, packet);
        let what = what.ok().flatten().filter(|_| is_whole).unwrap_or(PacketContinuation::Undecoded);
        self.set_rest(Side::Request, packet.is_continued.then_some(what), out);
        out.release();
    }

    /// A login, or the request for TLS that comes before it.
    fn open<R: Reader>(
        &mut self,
        packet: ResponsePacket,
        input: Input<'_>,
        out: &mut Out<'_, R>,
    ) -> Result<Step, Malformed> {
        let payload = input.bytes.get(HEADER as usize..).unwrap_or_default();
        let opening = handshake::opening(payload, packet.len);
        let is_greeted =
            self.pairing.front().filter(|front| front.kind == ExpectedResponse::Login).map(|front| front.op);
        let op = match is_greeted {
            Some(op) => op,
            None => self.start(out)?,
        };
        out.charge(op);
        let mut c = begin(input, HEADER + packet.here, out);
        c.out().enter("login");
        let capabilities = handshake::fixed(&mut c);
        if opening == LoginPacket::Tls {
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
        // From here on nothing is unsure, which no part of the session says.
        self.session.change(|session| session.has_begun = false);
        self.is_unsure = false;
        self.phase = LoginPhase::Begun;
        out.release();
        Ok(Step::Progress)
    }

    /// Opens the operation of the handshake.
    fn start<R: Reader>(&mut self, out: &mut Out<'_, R>) -> Result<OpId, Malformed> {
        let op = self.begin_operation(out);
        out.label(op, Class::Setup, "STARTUP", "handshake");
        self.stage = ResponseStage::First;
        self.pairing.expect(op, ExpectedResponse::Login)?;
        Ok(op)
    }

    /// Returns what both ends can, by what the client says. Flags of `MariaDB` are such only between two that are of it.
    fn common(&self, client: u64) -> u64 {
        match self.server {
            Some(server) => client & server,
            None if client & capability::LONG_PASSWORD == 0 => client & !capability::ZSTD,
            None => client,
        }
    }

    /// A packet of the server.
    fn response<R: Reader>(
        &mut self,
        packet: ResponsePacket,
        sequence: u8,
        input: Input<'_>,
        out: &mut Out<'_, R>,
    ) -> Result<Step, Malformed> {
        if self.may_be_over() && !(packet.first == Some(wire::EOF) && packet.len <= wire::EOF_LENGTH) {
            self.end_without_eof();
            self.answered(out);
        }
        if self.stage == ResponseStage::Blind && sequence == 1 && self.pairing.has_next() {
            self.drop_front(out);
        }
        if self.is_unsure && sequence != 1 && self.awaits_command() {
            // It goes on with an answer whose beginning was not seen.
            self.pairing.stray_answer(out);
            self.stage = ResponseStage::Blind;
        }
        let is_greeting = sequence == 0 && boundary::is_greeting_of(packet.first, packet.len);
        let is_start = match self.phase {
            LoginPhase::Start => is_greeting || packet.first == Some(wire::ERR),
            LoginPhase::Begun => is_greeting && boundary::is_greeting(input.bytes),
        };
        let next = match self.pairing.front() {
            None if is_start => {
                self.phase = LoginPhase::Start;
                self.start(out)?;
                self.packet(ExpectedResponse::Login, is_greeting, packet, input, out)
            }
            None => {
                self.pairing.stray_answer(out);
                self.stage = ResponseStage::First;
                self.packet(ExpectedResponse::Result { is_binary: None }, false, packet, input, out)
            }
            Some(front) => {
                let (op, kind) = (front.op, front.kind);
                let is_greeting = is_greeting && kind == ExpectedResponse::Login && !front.is_answered;
                front.is_answered = true;
                out.charge(op);
                self.packet(kind, is_greeting, packet, input, out)
            }
        };
        out.release();
        if next == ResponseProgress::Done {
            self.answered(out);
        }
        Ok(Step::Progress)
    }

    /// Returns whether the next packet of the server should be the first one that answers a command.
    fn awaits_command(&mut self) -> bool {
        let is_first = self.stage == ResponseStage::First && self.rest_of_row.is_none();
        let is_command = |front: &mut MysqlPending| {
            !front.is_answered && !matches!(front.kind, ExpectedResponse::Login | ExpectedResponse::ChangeUser)
        };
        is_first && self.pairing.front().is_some_and(is_command)
    }

    /// Posts a packet of the server, to the operation that is charged.
    fn packet<R: Reader>(
        &mut self,
        kind: ExpectedResponse,
        is_greeting: bool,
        packet: ResponsePacket,
        input: Input<'_>,
        out: &mut Out<'_, R>,
    ) -> ResponseProgress {
        let mut c = begin(input, HEADER + packet.here, out);
        let next = if is_greeting {
            c.out().enter("greeting");
            handshake::greeting(&mut c, &mut self.server).map(|()| ResponseProgress::More)
        } else if let Some(rest) = self.rest_of_row.take() {
            self.continue_row(rest, packet.is_continued, &mut c).map(|()| ResponseProgress::More)
        } else {
            self.answer(kind, packet, &mut c)
        };
        let is_whole = end(c, packet);
        if packet.is_continued && (next.is_err() || !is_whole || self.rest_of_row.is_none()) {
            self.rest_of_row = Some(PacketContinuation::Undecoded);
        }
        next.unwrap_or_else(|Short| self.undecoded(packet))
    }

    /// A packet could not be decoded to its end: what the answer goes on with depends on what it was.
    fn undecoded(&mut self, packet: ResponsePacket) -> ResponseProgress {
        match (self.stage, packet.first) {
            (ResponseStage::Columns(left), _) => {
                // The type is not known, and neither are those behind it: they have no place without it.
                self.columns.push(0xf0);
                self.stage = if left > 1 { ResponseStage::Columns(left - 1) } else { ResponseStage::Defined };
                ResponseProgress::More
            }
            (ResponseStage::Rows, Some(first)) if first != wire::EOF => ResponseProgress::More,
            _ => {
                self.stage = ResponseStage::Blind;
                self.pairing.doubt();
                ResponseProgress::More
            }
        }
    }

    /// The answer at the front of the queue is whole.
    fn answered<R: Reader>(&mut self, out: &mut Out<'_, R>) {
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

    pub fn boundary(&self, side: Side, bytes: &[u8]) -> Boundary {
        match side {
            Side::Request => boundary::of_request(bytes),
            Side::Response => boundary::of_response(bytes, self.pairing.kind()),
        }
    }

    /// Bytes of `side` were lost.
    pub fn lost<R: Reader>(&mut self, side: Side, out: &mut Out<'_, R>) {
        self.is_unsure = true;
        // What was learnt before holds no more.
        self.session.change(|_| {});
        match side {
            Side::Request => {
                self.rest_of_command = None;
                self.flows[side as usize] = None;
                self.pairing.doubt();
                self.phase = LoginPhase::Begun;
            }
            Side::Response => {
                self.flows[side as usize] = None;
                self.drop_all(out);
            }
        }
    }

    /// Nothing of the server is captured.
    pub fn abandon<R: Reader>(&mut self, out: &mut Out<'_, R>) {
        self.drop_all(out);
    }

    /// The answer at the front is given up.
    fn drop_front<R: Reader>(&mut self, out: &mut Out<'_, R>) {
        self.pairing.drop_front(out);
        self.rest_of_row = None;
        self.stage = ResponseStage::First;
    }

    /// Nothing that waits will be seen answered.
    fn drop_all<R: Reader>(&mut self, out: &mut Out<'_, R>) {
        self.pairing.drop_all(out);
        self.rest_of_row = None;
        self.stage = ResponseStage::First;
        if let Some(rest) = self.rest_of_command.as_mut().filter(|rest| rest.is_answered) {
            rest.op = None;
        }
    }

    /// The connection is over.
    pub fn end<R: Reader>(&mut self, out: &mut Out<'_, R>) {
        if self.may_be_over() {
            self.end_without_eof();
            self.answered(out);
        }
        self.pairing.finish(out);
    }

    /// Returns the number of the state while nothing is under way: see [`overhead_decode::Decoder::quiet`].
    #[inline]
    pub fn quiet(&self) -> Option<u64> {
        let is_idle = self.pairing.is_idle() && self.rest_of_command.is_none() && self.rest_of_row.is_none();
        (is_idle && self.phase == LoginPhase::Begun).then(|| self.session.version())
    }

    /// Returns about how many bytes of memory it holds.
    pub fn held(&self) -> usize {
        self.session.held() + self.pairing.held() + self.columns.capacity()
    }
}

/// Ends a packet, or the piece of it that was decoded; gives whether that was to the end.
fn end<R: Reader>(c: Cursor<'_, '_, '_, R>, packet: ResponsePacket) -> bool {
    let left = c.remaining();
    if packet.here < packet.len && left < wire::LENGTH as u64 {
        // The beginning of a length, which the next piece goes on with.
        return true;
    }
    c.finish();
    left == 0
}

/// A cursor over a packet of `total` bytes, behind its header.
fn begin<'a, 'o, 'r, R: Reader>(input: Input<'a>, total: u64, out: &'o mut Out<'r, R>) -> Cursor<'a, 'o, 'r, R> {
    let mut c = Cursor::new(input, total, out);
    let _ = c.skip(HEADER, Account::Framing, "packet header");
    c
}
