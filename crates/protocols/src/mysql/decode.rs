//! The two streams of packets: what a packet is, and who reads it.

use super::boundary;
use super::command::{self, Command};
use super::handshake::{self, Opening};
use super::pair::{Kind, Pairing};
use super::response::{Next, Packet, Stage};
use super::session::Session;
use super::values::Layout;
use super::wire::{self, FULL, HEADER, capability};
use overhead_decode::{Boundary, Cursor, Input, Malformed, OpId, Out, Reader, Short, Step, Versioned};
use overhead_model::{Account, Class, Outcome, Side};

/// A connection whose packets are not compressed, or what compressed ones hold.
#[derive(Debug, Default)]
pub(super) struct Plain {
    pub session: Versioned<Session>,
    pub pairing: Pairing,
    phase: Phase,
    /// The server's capabilities, where its greeting was seen.
    server: Option<u64>,
    /// From here on, packets are compressed.
    is_compressed: bool,
    /// What is left of a command, in the packets that continue it.
    rest_of_command: Option<Rest>,
    /// What is left of a row, in the packets that continue it.
    pub rest_of_row: Option<Continued>,
    /// Where the answer at the front of the queue is.
    pub stage: Stage,
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
enum Phase {
    /// It has not logged in.
    #[default]
    Start,
    /// It has.
    Begun,
}

/// What is left of a message that goes on in another packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Continued {
    /// All of one account.
    All(Account, &'static str),
    /// So many bytes of a value, and further ones.
    Values(u64, Vec<Layout>),
    /// What could not be decoded.
    Undecoded,
}

/// What is left of a command.
#[derive(Debug)]
struct Rest {
    /// Whose it is; `None` where that was closed since.
    op: Option<OpId>,
    is_answered: bool,
    what: Continued,
}

/// What a packet of the client is.
#[derive(Clone, Copy, Debug)]
enum Client {
    Continued,
    Command(u8, Command),
    /// A replica says what it has got.
    SemiSync,
    Authentication,
    File,
    Opening,
    Stray,
}

impl Plain {
    pub fn new(mid_stream: bool) -> Self {
        let mut session = Session::default();
        session.has_begun = mid_stream;
        let phase = if mid_stream { Phase::Begun } else { Phase::Start };
        Self { session: Versioned::new(session), phase, ..Self::default() }
    }

    /// Returns whether packets are compressed from here on.
    pub fn turns_compressed(&mut self) -> bool {
        std::mem::take(&mut self.is_compressed)
    }

    pub fn step<R: Reader>(&mut self, side: Side, input: Input<'_>, out: &mut Out<'_, R>) -> Result<Step, Malformed> {
        let Some((len, sequence)) = wire::header(input.bytes) else { return Ok(Step::More) };
        let first = input.bytes.get(HEADER as usize).copied().filter(|_| len > 0);
        if first.is_none() && len > 0 && input.opaque == 0 {
            return Ok(Step::More);
        }
        let total = HEADER + len;
        let packet = Packet { first, len, is_continued: len == FULL };
        match side {
            Side::Request => {
                let what = self.client(packet, sequence, input)?;
                if input.available() < total {
                    return Ok(Step::Need(total));
                }
                self.request(what, packet, input, out)
            }
            Side::Response if input.available() < total => Ok(Step::Need(total)),
            Side::Response => self.response(packet, sequence, input, out),
        }
    }

    /// Tells what a packet of the client is.
    fn client(&self, packet: Packet, sequence: u8, input: Input<'_>) -> Result<Client, Malformed> {
        if self.rest_of_command.is_some() {
            return Ok(Client::Continued);
        }
        let kind = self.pairing.kind();
        let Packet { first, len, .. } = packet;
        let command = first.and_then(|code| Some((code, command::command(code)?)));
        match command {
            Some((code, command)) if sequence == 0 && self.phase == Phase::Begun || self.is_early(packet, sequence) => {
                return Ok(Client::Command(code, command));
            }
            _ => {}
        }
        Ok(match kind {
            _ if self.phase == Phase::Start => Client::Opening,
            Some(Kind::Stream) if first == Some(command::SEMI_SYNC) => Client::SemiSync,
            _ if sequence == 0 && len > 0 && input.bytes.len() as u64 > HEADER => {
                return Err(Malformed("not a MySQL command"));
            }
            Some(Kind::Login | Kind::ChangeUser) => Client::Authentication,
            Some(_) if self.stage == Stage::Infile => Client::File,
            _ if boundary::is_login(input.bytes) => Client::Opening,
            _ => Client::Stray,
        })
    }

    /// Returns whether a packet before the login is a command all the same: the login was not captured.
    fn is_early(&self, packet: Packet, sequence: u8) -> bool {
        self.phase == Phase::Start && sequence == 0 && packet.first.is_some_and(|code| command::fits(code, packet.len))
    }

    /// A packet of the client.
    fn request<R: Reader>(
        &mut self,
        what: Client,
        packet: Packet,
        input: Input<'_>,
        out: &mut Out<'_, R>,
    ) -> Result<Step, Malformed> {
        let total = HEADER + packet.len;
        match what {
            Client::Command(code, command) => {
                self.phase = Phase::Begun;
                let op = self.begin_operation(out);
                let mut c = begin(input, total, out);
                let rest = self.command((op, code, command), &mut c, packet.is_continued);
                c.finish();
                let is_answered = command.kind.is_some();
                let what = rest?.unwrap_or(Continued::Undecoded);
                if packet.is_continued {
                    self.rest_of_command = Some(Rest { op: Some(op), is_answered, what });
                } else if !is_answered {
                    out.close(op, Outcome::NoReply);
                }
                out.release();
            }
            Client::Continued => self.continue_command(packet, input, out),
            Client::Opening => return self.open(packet, input, out),
            Client::SemiSync => self.aside("semi-synchronous", Account::Metadata, total, input, out),
            Client::Authentication => self.aside("authentication data", Account::Metadata, total, input, out),
            Client::File => self.aside("file", Account::Data, total, input, out),
            Client::Stray => {
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
        if self.pairing.is_given_up() {
            self.drop_all(out);
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
    fn continue_command<R: Reader>(&mut self, packet: Packet, input: Input<'_>, out: &mut Out<'_, R>) {
        let Some(Rest { op, is_answered, what }) = self.rest_of_command.take() else { return };
        match op {
            Some(op) => out.charge(op),
            None => self.pairing.charge_stray(out),
        }
        let mut c = begin(input, HEADER + packet.len, out);
        let what = what.go_on(&mut c, packet.is_continued);
        c.finish();
        if packet.is_continued {
            let what = what.ok().flatten().unwrap_or(Continued::Undecoded);
            self.rest_of_command = Some(Rest { op, is_answered, what });
        } else if let Some(op) = op.filter(|_| !is_answered) {
            out.close(op, Outcome::NoReply);
        }
        out.release();
    }

    /// A login, or the request for TLS that comes before it.
    fn open<R: Reader>(&mut self, packet: Packet, input: Input<'_>, out: &mut Out<'_, R>) -> Result<Step, Malformed> {
        let payload = input.bytes.get(HEADER as usize..).unwrap_or_default();
        let opening = handshake::opening(payload, packet.len);
        let is_greeted = self.pairing.front().filter(|front| front.kind == Kind::Login).map(|front| front.op);
        let op = match is_greeted {
            Some(op) => op,
            None => self.start(out)?,
        };
        out.charge(op);
        let mut c = begin(input, HEADER + packet.len, out);
        c.out().enter("login");
        let capabilities = handshake::fixed(&mut c);
        if opening == Opening::Tls {
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
        self.session.put(|session| &mut session.has_begun, false);
        self.phase = Phase::Begun;
        out.release();
        Ok(Step::Progress)
    }

    /// Opens the operation of the handshake.
    fn start<R: Reader>(&mut self, out: &mut Out<'_, R>) -> Result<OpId, Malformed> {
        let op = self.begin_operation(out);
        out.label(op, Class::Setup, "STARTUP", "handshake");
        self.stage = Stage::First;
        self.pairing.expect(op, Kind::Login)?;
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
        packet: Packet,
        sequence: u8,
        input: Input<'_>,
        out: &mut Out<'_, R>,
    ) -> Result<Step, Malformed> {
        if self.may_be_over() && !(packet.first == Some(wire::EOF) && packet.len <= wire::EOF_LENGTH) {
            self.end_without_eof();
            self.answered(out);
        }
        let is_greeting = sequence == 0 && boundary::is_greeting_of(packet.first, packet.len);
        let is_start = match self.phase {
            Phase::Start => is_greeting || packet.first == Some(wire::ERR),
            Phase::Begun => is_greeting && boundary::is_greeting(input.bytes),
        };
        let next = match self.pairing.front() {
            None if is_start => {
                self.phase = Phase::Start;
                self.start(out)?;
                self.packet(Kind::Login, is_greeting, packet, input, out)
            }
            None => {
                self.pairing.stray_answer(out);
                self.stage = Stage::First;
                self.packet(Kind::Result { is_binary: None }, false, packet, input, out)
            }
            Some(front) => {
                let (op, kind) = (front.op, front.kind);
                let is_greeting = is_greeting && kind == Kind::Login && !front.is_answered;
                front.is_answered = true;
                out.charge(op);
                self.packet(kind, is_greeting, packet, input, out)
            }
        };
        out.release();
        if next == Next::Done {
            self.answered(out);
        }
        Ok(Step::Progress)
    }

    /// Posts a packet of the server, to the operation that is charged.
    fn packet<R: Reader>(
        &mut self,
        kind: Kind,
        is_greeting: bool,
        packet: Packet,
        input: Input<'_>,
        out: &mut Out<'_, R>,
    ) -> Next {
        let mut c = begin(input, HEADER + packet.len, out);
        let next = if is_greeting {
            c.out().enter("greeting");
            handshake::greeting(&mut c, &mut self.server).map(|()| Next::More)
        } else if let Some(rest) = self.rest_of_row.take() {
            self.continue_row(rest, packet.is_continued, &mut c).map(|()| Next::More)
        } else {
            self.answer(kind, packet, &mut c)
        };
        c.finish();
        next.unwrap_or_else(|Short| {
            if packet.is_continued {
                self.rest_of_row = Some(Continued::Undecoded);
            }
            self.undecoded(packet)
        })
    }

    /// A packet could not be decoded to its end: what the answer goes on with depends on what it was.
    fn undecoded(&mut self, packet: Packet) -> Next {
        match (self.stage, packet.first) {
            (Stage::Columns(left), _) => {
                // The type is not known, and neither are those behind it: they have no place without it.
                self.columns.push(0xf0);
                self.stage = if left > 1 { Stage::Columns(left - 1) } else { Stage::Defined };
                Next::More
            }
            (Stage::Rows, Some(first)) if first != wire::EOF => Next::More,
            _ => {
                self.stage = Stage::Blind;
                self.pairing.doubt();
                Next::More
            }
        }
    }

    /// The answer at the front of the queue is whole.
    fn answered<R: Reader>(&mut self, out: &mut Out<'_, R>) {
        self.stage = Stage::First;
        self.rest_of_row = None;
        let Some(done) = self.pairing.answered(out) else { return };
        if done.outcome == Outcome::Error {
            return;
        }
        if done.resets && self.session.has_statements() {
            self.session.change(Session::reset);
        }
        if done.kind == Kind::Login {
            let compresses = capability::COMPRESS | capability::ZSTD;
            self.is_compressed = self.session.has(compresses) == Some(true);
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
        match side {
            Side::Request => {
                self.rest_of_command = None;
                self.pairing.doubt();
                self.phase = Phase::Begun;
            }
            Side::Response => {
                self.drop_all(out);
            }
        }
    }

    /// Nothing of the server is captured.
    pub fn abandon<R: Reader>(&mut self, out: &mut Out<'_, R>) {
        self.drop_all(out);
    }

    /// Nothing that waits will be seen answered.
    fn drop_all<R: Reader>(&mut self, out: &mut Out<'_, R>) {
        self.pairing.drop_all(out);
        self.rest_of_row = None;
        self.stage = Stage::First;
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
        (is_idle && self.phase == Phase::Begun).then(|| self.session.version())
    }

    /// Returns about how many bytes of memory it holds.
    pub fn held(&self) -> usize {
        self.session.held() + self.pairing.held() + self.columns.capacity()
    }
}

/// A cursor over a packet of `total` bytes, behind its header.
fn begin<'a, 'o, 'r, R: Reader>(input: Input<'a>, total: u64, out: &'o mut Out<'r, R>) -> Cursor<'a, 'o, 'r, R> {
    let mut c = Cursor::new(input, total, out);
    let _ = c.skip(HEADER, Account::Framing, "packet header");
    c
}
