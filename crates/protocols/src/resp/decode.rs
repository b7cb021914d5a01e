//! Bytes to postings, for both directions.

use super::command::{Command, Field};
use super::pair::{Listens, Pairing, Target};
use super::replication::Replication;
use super::value::{self, Leaves, Listener, Progress, Value, advance};
use super::wire::{self, MAX_BULK, MAX_COUNT};
use crate::limits;
use overhead_decode::near;
use overhead_decode::{Boundary, Decoder, Input, Malformed, Out, Reader, Step};
use overhead_model::{Account, Side};

/// Arguments up to this length are waited for where it matters what they say.
pub(super) const INSPECTED: u64 = 512;

/// One connection.
#[derive(Debug)]
pub struct Resp {
    pub(super) request: Request,
    reply: Value,
    /// Whose value is being read.
    target: Option<Target>,
    pub(super) pairing: Pairing,
    /// What comes where the server is a primary and the client its replica. Absent until then.
    replication: Option<Box<Replication>>,
}

/// The command being read.
#[derive(Debug)]
pub(super) struct Request {
    stage: Stage,
    pub command: Command,
    /// An argument that is not a bulk string, which Redis refuses. Absent until there is one.
    odd: Option<Box<Value>>,
    scanned: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Between commands.
    Idle,
    /// Before the next of this many arguments.
    Arguments(u64),
    /// Within an argument; then this many more.
    Body { left: u64, field: Field, further: u64 },
    /// Within an argument that is not a bulk string.
    Odd(u64),
}

/// Accounts of values that a client sends where a string was due.
const ODD: Leaves = Leaves { status: Account::Data, integer: Account::Data, data: Account::Data, free: false };

impl Request {
    fn odd(&mut self) -> &mut Value {
        self.odd.get_or_insert_with(|| Box::new(Value::new()))
    }
}

impl Resp {
    /// A decoder for a new connection; `mid_stream` where its start was not captured.
    pub fn new(mid_stream: bool) -> Self {
        Self {
            request: Request { stage: Stage::Idle, command: Command::default(), odd: None, scanned: 0 },
            reply: Value::new(),
            target: None,
            pairing: Pairing::new(mid_stream),
            replication: None,
        }
    }

    /// Decodes commands as far as `input` goes; the step that stopped it.
    fn commands<R: Reader>(&mut self, input: &mut Input<'_>, out: &mut Out<'_, R>) -> Result<Step, Malformed> {
        while input.available() > 0 {
            if self.request.stage == Stage::Idle
                && let Some(len) = self.plain_command(input.bytes, out)?
            {
                self.request.scanned = 0;
                advance(input, len as u64);
                continue;
            }
            let blocked = match self.request.stage {
                Stage::Idle => self.begin_command(input, out)?,
                Stage::Arguments(further) => self.begin_argument(further, input, out)?,
                Stage::Body { .. } => self.argument_body(input, out)?,
                Stage::Odd(further) => match self.request.odd().run(input, ODD, None, out)? {
                    Progress::Blocked(step) => Some(step),
                    Progress::Done => {
                        self.request.command.odd_argument();
                        self.end_argument(further, out)?;
                        None
                    }
                },
            };
            if let Some(step) = blocked {
                return Ok(step);
            }
        }
        Ok(Step::Progress)
    }

    /// A line that ends in LF; where there is none yet, the step to return.
    fn line<'a>(&mut self, input: &Input<'a>) -> Result<Result<&'a [u8], Step>, Malformed> {
        let from = self.request.scanned.min(input.bytes.len());
        if let Some(end) = near::find(b'\n', input.bytes.get(from..).unwrap_or_default()) {
            self.request.scanned = 0;
            return Ok(Ok(input.bytes.get(..=from + end).unwrap_or_default()));
        }
        self.request.scanned = input.bytes.len();
        if input.opaque > 0 || input.bytes.len() > limits::LINE {
            return Err(Malformed("a line without an end"));
        }
        Ok(Err(Step::More))
    }

    fn begin_command<R: Reader>(
        &mut self,
        input: &mut Input<'_>,
        out: &mut Out<'_, R>,
    ) -> Result<Option<Step>, Malformed> {
        let line = match self.line(input)? {
            Ok(line) => line,
            Err(step) => return Ok(Some(step)),
        };
        let len = line.len() as u64;
        let text = line.trim_ascii_end();
        match text.split_first() {
            None => Self::empty(len, out),
            Some((b'*', digits)) => {
                let count = wire::number(digits).ok_or(Malformed("the count of a command's arguments"))?;
                if count <= 0 {
                    Self::empty(len, out);
                } else if count as u64 > MAX_COUNT {
                    return Err(Malformed("the count of a command's arguments"));
                } else {
                    self.request.command.begin(out.open(), count as u64);
                    out.charge(self.request.command.op);
                    out.post(Account::Framing, "argument count", len);
                    self.request.stage = Stage::Arguments(count as u64);
                }
            }
            Some(_) => self.inline(line, text, out)?,
        }
        advance(input, len);
        Ok(None)
    }

    /// Redis passes over empty lines and empty arrays without an answer.
    fn empty<R: Reader>(len: u64, out: &mut Out<'_, R>) {
        let op = out.orphan("(empty)");
        out.post(Account::Framing, "empty command", len);
        out.close(op, overhead_model::Outcome::NoReply);
    }

    /// A whole command on one line, words apart by spaces.
    fn inline<R: Reader>(&mut self, line: &[u8], text: &[u8], out: &mut Out<'_, R>) -> Result<(), Malformed> {
        if !text.iter().all(|&byte| byte >= b' ' || byte == b'\t') {
            return Err(Malformed("neither a command nor an inline command"));
        }
        let words = text.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()).count();
        let command = &mut self.request.command;
        command.begin(out.open(), words as u64);
        command.inline = true;
        out.charge(command.op);
        let mut rest = text;
        while !rest.is_empty() {
            let blank = rest.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
            out.post(Account::Framing, "space", blank as u64);
            rest = rest.get(blank..).unwrap_or_default();
            let word = rest.split(u8::is_ascii_whitespace).next().unwrap_or_default();
            if !word.is_empty() {
                let field = command.argument(Some(word));
                command.content(word, out);
                field.post(word.len() as u64, out);
            }
            rest = rest.get(word.len()..).unwrap_or_default();
        }
        out.post(Account::Framing, "line end", (line.len() - text.len()) as u64);
        self.pairing.request(&self.request.command, out)
    }

    fn begin_argument<R: Reader>(
        &mut self,
        further: u64,
        input: &mut Input<'_>,
        out: &mut Out<'_, R>,
    ) -> Result<Option<Step>, Malformed> {
        let Some(&first) = input.bytes.first() else { return Err(Malformed("an argument that was not captured")) };
        if first != b'$' {
            self.request.odd().reset();
            self.request.stage = Stage::Odd(further - 1);
            return Ok(None);
        }
        let line = match self.line(input)? {
            Ok(line) => line,
            Err(step) => return Ok(Some(step)),
        };
        let [b'$', digits @ .., b'\r', b'\n'] = line else { return Err(Malformed("a line that ends in LF alone")) };
        let len = match wire::number(digits) {
            Some(-1) => None,
            Some(len) if u64::try_from(len).is_ok_and(|len| len <= MAX_BULK) => Some(len as u64),
            _ => return Err(Malformed("the length of an argument")),
        };
        let header = line.len() as u64;
        let body = input.bytes.get(line.len()..).unwrap_or_default();
        let Some(len) = len else {
            out.post(Account::Framing, "null", header);
            advance(input, header);
            self.request.command.odd_argument();
            self.end_argument(further - 1, out)?;
            return Ok(None);
        };
        let command = &mut self.request.command;
        let inspected = command.needs_content() && len <= INSPECTED;
        if inspected && (body.len() as u64) < len && input.opaque == 0 {
            return Ok(Some(Step::Need(header + len)));
        }
        let word = if inspected { body.get(..len as usize) } else { None };
        let field = command.argument(word);
        if let Some(word) = word {
            command.content(word, out);
        }
        out.post(Account::Framing, "argument length", header);
        advance(input, header);
        self.request.stage = Stage::Body { left: len, field, further: further - 1 };
        Ok(None)
    }

    fn argument_body<R: Reader>(
        &mut self,
        input: &mut Input<'_>,
        out: &mut Out<'_, R>,
    ) -> Result<Option<Step>, Malformed> {
        let Stage::Body { left, field, further } = self.request.stage else { return Ok(None) };
        let taken = left.min(input.available());
        if taken > 0 {
            field.post(taken, out);
        }
        advance(input, taken);
        self.request.stage = Stage::Body { left: left - taken, field, further };
        if taken < left {
            return Ok(Some(Step::More));
        }
        if input.available() < 2 {
            return Ok(Some(Step::Need(2)));
        }
        value::end_of_bulk(input, out)?;
        self.end_argument(further, out)?;
        Ok(None)
    }

    fn end_argument<R: Reader>(&mut self, further: u64, out: &mut Out<'_, R>) -> Result<(), Malformed> {
        if further > 0 {
            self.request.stage = Stage::Arguments(further);
            return Ok(());
        }
        self.request.stage = Stage::Idle;
        self.pairing.request(&self.request.command, out)
    }

    /// Decodes replies as far as `input` goes; the step that stopped it.
    fn replies<R: Reader>(&mut self, input: &mut Input<'_>, out: &mut Out<'_, R>) -> Result<Step, Malformed> {
        while input.available() > 0 {
            if self.pairing.replicates() && self.target.is_none() {
                let replication = self.replication.get_or_insert_with(|| Box::new(Replication::new()));
                if let Some(step) = replication.run(self.pairing.waits(), input, out)? {
                    return Ok(step);
                }
            }
            if self.target.is_none()
                && let Some(len) = self.plain_reply(input.bytes, out)
            {
                advance(input, len as u64);
                continue;
            }
            let Some(target) = self.reply_target(input, out)? else { continue };
            let target = match target {
                Ok(target) => target,
                Err(step) => return Ok(step),
            };
            let pairing = &mut self.pairing;
            let mut heard = None;
            let mut listen = |kind: u8, leaf: &[u8]| heard = pairing.hear(target.listens, kind, leaf).or(heard.take());
            let inspect = (target.listens != Listens::Nobody).then_some(&mut listen as Listener<'_>);
            let progress = self.reply.run(input, target.leaves, inspect, out);
            if let Some(name) = heard {
                out.software(Side::Response, &name);
            }
            match progress? {
                Progress::Blocked(step) => return Ok(step),
                Progress::Done => {
                    self.target = None;
                    self.pairing.reply(target, self.reply.kind, out);
                }
            }
        }
        Ok(Step::Progress)
    }

    /// Whose value is being read or begins; the step to return where it takes more to say that, `None` where what came is of
    /// none.
    #[inline(never)]
    fn reply_target<R: Reader>(
        &mut self,
        input: &mut Input<'_>,
        out: &mut Out<'_, R>,
    ) -> Result<Option<Result<Target, Step>>, Malformed> {
        if let Some(target) = self.target {
            return Ok(Some(Ok(target)));
        }
        let first = input.bytes.first().copied();
        if let Some(op) = first.and_then(|first| self.pairing.awaits_snapshot(first)) {
            if first == Some(b'$') {
                self.pairing.begin_snapshot(out);
            } else {
                out.charge(op);
                out.post(Account::Framing, "keep-alive", 1);
                advance(input, 1);
            }
            return Ok(None);
        }
        match self.pairing.target(input.bytes, out) {
            None if input.opaque > 0 => Err(Malformed("a reply that was not captured")),
            None => Ok(Some(Err(Step::More))),
            Some(target) => {
                self.reply.reset();
                out.charge(target.op);
                Ok(Some(Ok(*self.target.insert(target))))
            }
        }
    }
}

impl Decoder for Resp {
    fn step<R: Reader>(&mut self, side: Side, input: Input<'_>, out: &mut Out<'_, R>) -> Result<Step, Malformed> {
        let mut left = input;
        let step = match side {
            Side::Request => self.commands(&mut left, out),
            Side::Response => self.replies(&mut left, out),
        }?;
        // What a step needs is counted from its start; where something was consumed, the next call asks again.
        Ok(if left.available() < input.available() { Step::Progress } else { step })
    }

    fn boundary(&self, side: Side, bytes: &[u8]) -> Boundary {
        super::boundary(side, bytes)
    }

    fn lost<R: Reader>(&mut self, side: Side, out: &mut Out<'_, R>) {
        match side {
            Side::Request => {
                if self.request.stage != Stage::Idle {
                    self.request.stage = Stage::Idle;
                    out.close(self.request.command.op, overhead_model::Outcome::NoReply);
                }
                self.request.scanned = 0;
            }
            Side::Response => {
                self.target = None;
                self.reply.reset();
                self.pairing.lost(out);
                if let Some(replication) = &mut self.replication {
                    replication.lost(out);
                }
            }
        }
    }

    fn quiet(&self) -> Option<u64> {
        // What is not named here is of the message being read.
        let Self { request, reply: _, target, pairing, replication } = self;
        let between = request.stage == Stage::Idle && target.is_none() && replication.is_none();
        between.then(|| pairing.quiet()).flatten()
    }

    fn held(&self) -> usize {
        self.pairing.held()
    }
}
