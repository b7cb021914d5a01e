//! Decodes both directions into postings.

use super::Resp;
use super::argument::ArgumentField;
use super::command::Command;
use super::pair::{LeafConsumer, RespReplyTarget};
use super::value::{self, LeafAccounts, LeafListener, RespValue};
use super::wire::{self, BulkString, MAX_BULK, MAX_COUNT};
use crate::lines::line;
use overhead_decode::{DecodeStep, Input, Malformed, MaybeStep, Out, Reader, Step};
use overhead_model::{Account, Side};

/// Longest argument whose content is read, and waited for.
const INSPECTED: u64 = 512;

#[derive(Debug, Default)]
pub(super) struct RespRequest {
    pub stage: RespStage,
    pub command: Command,
    /// An argument that is not a bulk string, which Redis refuses. Absent before the first one.
    odd: Option<Box<RespValue>>,
    pub scanned: usize,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum RespStage {
    /// Between commands.
    #[default]
    Idle,
    /// Before the next argument, with the number of arguments left.
    Arguments(u64),
    /// In an argument; `further` ones follow.
    Body { left: u64, field: ArgumentField, further: u64 },
    /// In an argument that is not a bulk string; the number that follows.
    Odd(u64),
}

/// Accounts of values in the place of a string.
const ODD: LeafAccounts = LeafAccounts { status: Account::Data, integer: Account::Data, free: false };

impl RespRequest {
    /// Returns whether no command is incomplete.
    #[inline]
    pub fn is_between(&self) -> bool {
        let Self { stage, command: _, odd: _, scanned: _ } = self;
        *stage == RespStage::Idle
    }

    fn odd(&mut self) -> &mut RespValue {
        self.odd.get_or_insert_default()
    }
}

impl Resp {
    /// Decodes commands until `input` ends, and returns the step to stop with.
    pub(super) fn commands<R: Reader>(&mut self, input: &mut Input<'_>, out: &mut Out<'_, R>) -> DecodeStep {
        while input.available() > 0 {
            let blocked = match self.request.stage {
                RespStage::Idle => self.begin_command(input, out)?,
                RespStage::Arguments(further) => self.arguments(further, input, out)?,
                RespStage::Body { .. } => self.argument_body(input, out)?,
                RespStage::Odd(further) => match self.request.odd().run(input, ODD, None, out)? {
                    None => {
                        self.request.command.odd_argument();
                        self.end_argument(further, out)?;
                        None
                    }
                    blocked => blocked,
                },
            };
            if let Some(step) = blocked {
                return Ok(step);
            }
        }
        Ok(Step::Progress)
    }

    fn begin_command<R: Reader>(&mut self, input: &mut Input<'_>, out: &mut Out<'_, R>) -> MaybeStep {
        if let Some((count @ 1.., len)) = wire::header(input.bytes, b'*') {
            self.request.scanned = 0;
            self.begin_array(count as u64, len as u64, out);
            input.advance(len as u64);
            return self.arguments(count as u64, input, out);
        }
        let Some(line) = line(input.bytes, &mut self.request.scanned)? else {
            return input.await_more("a line without an end").map(Some);
        };
        let len = line.len() as u64;
        let text = line.trim_ascii_end();
        match text.split_first() {
            // Redis skips empty lines and empty arrays without a reply.
            None => out.post_alone("(empty)", (Account::Framing, "empty command", len)),
            Some((b'*', digits)) => {
                let count = wire::number(digits).ok_or(Malformed("the count of a command's arguments"))?;
                if count <= 0 {
                    out.post_alone("(empty)", (Account::Framing, "empty command", len));
                } else if count as u64 > MAX_COUNT {
                    return Err(Malformed("the count of a command's arguments"));
                } else {
                    self.begin_array(count as u64, len, out);
                }
            }
            Some(_) => self.inline(line, text, out)?,
        }
        input.advance(len);
        Ok(None)
    }

    /// Posts a complete inline command, with words separated by spaces.
    fn inline<R: Reader>(&mut self, line: &[u8], text: &[u8], out: &mut Out<'_, R>) -> DecodeStep<()> {
        if !text.iter().all(|&byte| byte >= b' ' || byte == b'\t') {
            return Err(Malformed("neither a command nor an inline command"));
        }
        let words = text.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()).count();
        let command = &mut self.request.command;
        command.begin(out.open(), words as u64, out.wants_statements());
        command.inline = true;
        out.charge(command.op);
        let mut rest = text;
        while !rest.is_empty() {
            let blank = rest.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
            out.post(Account::Framing, "space", blank as u64);
            rest = rest.get(blank..).unwrap_or_default();
            let word = rest.split(u8::is_ascii_whitespace).next().unwrap_or_default();
            if !word.is_empty() {
                let field = command.argument(Some(word)).between_blanks();
                command.take_key(field, word);
                command.content(word, out);
                field.post(word.len() as u64, out);
            }
            rest = rest.get(word.len()..).unwrap_or_default();
        }
        out.post(Account::Framing, "line end", (line.len() - text.len()) as u64);
        self.pairing.request(&mut self.request.command, out)
    }

    /// Starts a command of `count` arguments with a line of `len` bytes.
    fn begin_array<R: Reader>(&mut self, count: u64, len: u64, out: &mut Out<'_, R>) {
        self.request.command.begin(out.open(), count, out.wants_statements());
        out.charge(self.request.command.op);
        out.post(Account::Framing, "argument count", len);
        self.request.stage = RespStage::Arguments(count);
    }

    /// Posts complete arguments of the `further` ones, and the available part of the next one.
    fn arguments<R: Reader>(&mut self, mut further: u64, input: &mut Input<'_>, out: &mut Out<'_, R>) -> MaybeStep {
        while let Some(BulkString { header, body, rest }) = BulkString::read(input.bytes) {
            let command = &mut self.request.command;
            let is_looked_at = command.needs_content();
            let word = (is_looked_at && body.len() as u64 <= INSPECTED).then_some(body);
            let field = command.argument(word);
            command.take_key(field, body);
            if let Some(word) = word {
                command.content(word, out);
            }
            let (header, field) = (header as u64, field.announce(header as u64, body.len() as u64, out));
            out.post_all([(Account::Framing, "argument length", header), field, (Account::Framing, "CRLF", 2)]);
            (input.bytes, self.request.scanned) = (rest, 0);
            further -= 1;
            if further == 0 {
                self.request.stage = RespStage::Idle;
                self.pairing.request(&mut self.request.command, out)?;
                return Ok(None);
            }
        }
        self.request.stage = RespStage::Arguments(further);
        if input.available() == 0 { Ok(None) } else { self.begin_argument(further, input, out) }
    }

    #[inline(never)]
    fn begin_argument<R: Reader>(&mut self, further: u64, input: &mut Input<'_>, out: &mut Out<'_, R>) -> MaybeStep {
        let Some(&first) = input.bytes.first() else { return Err(Malformed("an argument that was not captured")) };
        if first != b'$' {
            self.request.odd().reset();
            self.request.stage = RespStage::Odd(further - 1);
            return Ok(None);
        }
        let Some(line) = line(input.bytes, &mut self.request.scanned)? else {
            return input.await_more("a line without an end").map(Some);
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
            input.advance(header);
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
        input.advance(header);
        self.request.stage = RespStage::Body { left: len, field, further: further - 1 };
        Ok(None)
    }

    fn argument_body<R: Reader>(&mut self, input: &mut Input<'_>, out: &mut Out<'_, R>) -> MaybeStep {
        let RespStage::Body { left, field, further } = self.request.stage else { return Ok(None) };
        let taken = left.min(input.available());
        let captured = input.bytes.get(..taken as usize).unwrap_or(input.bytes);
        self.request.command.take_key_piece(field, captured, taken);
        field.post(taken, out);
        input.advance(taken);
        self.request.stage = RespStage::Body { left: left - taken, field, further };
        if taken < left {
            return Ok(Some(Step::More));
        }
        if input.available() < 2 {
            return Ok(Some(Step::Need(2)));
        }
        value::end_of_bulk(input, out)?;
        self.request.command.end_key(field);
        self.end_argument(further, out)?;
        Ok(None)
    }

    fn end_argument<R: Reader>(&mut self, further: u64, out: &mut Out<'_, R>) -> DecodeStep<()> {
        if further > 0 {
            self.request.stage = RespStage::Arguments(further);
            return Ok(());
        }
        self.request.stage = RespStage::Idle;
        self.pairing.request(&mut self.request.command, out)
    }

    /// Decodes replies until `input` ends, and returns the step to stop with.
    pub(super) fn replies<R: Reader>(&mut self, input: &mut Input<'_>, out: &mut Out<'_, R>) -> DecodeStep {
        while input.available() > 0 {
            if self.pairing.replicates() && self.target.is_none() {
                let replication = self.replication.get_or_insert_default();
                if let Some(step) = replication.run(!self.pairing.pending.is_empty(), input, out)? {
                    return Ok(step);
                }
            }
            let target = match self.target.take() {
                Some(target) => target,
                None => match self.begin_reply(input, out)? {
                    Some(Ok(target)) => {
                        self.reply.reset();
                        out.charge(target.op);
                        target
                    }
                    Some(Err(step)) => return Ok(step),
                    None => continue,
                },
            };
            let pairing = &mut self.pairing;
            let mut software = None;
            let mut observe =
                |kind: u8, leaf: &[u8]| software = pairing.read_leaf(target.consumer, kind, leaf).or(software.take());
            let inspect = (target.consumer != LeafConsumer::Nobody).then_some(&mut observe as LeafListener<'_>);
            let progress = self.reply.run(input, target.leaves, inspect, out);
            if let Some(name) = software {
                out.software(Side::Response, &name);
            }
            if !matches!(progress, Ok(None)) {
                self.target = Some(target);
            }
            match progress? {
                Some(step) => return Ok(step),
                None => self.pairing.reply(target, self.reply.kind, out),
            }
        }
        Ok(Step::Progress)
    }

    /// Returns the operation of the next value; the step to stop with if that needs more bytes; `None` if the bytes
    /// belong to no value.
    #[inline]
    fn begin_reply<R: Reader>(
        &mut self,
        input: &mut Input<'_>,
        out: &mut Out<'_, R>,
    ) -> DecodeStep<Option<Result<RespReplyTarget, Step>>> {
        let first = input.bytes.first().copied();
        match first.and_then(|first| self.pairing.plain_target(first)) {
            Some(target) => Ok(Some(Ok(target))),
            None => self.find_target(first, input, out),
        }
    }

    /// Does the same if the first byte is not enough.
    #[inline(never)]
    fn find_target<R: Reader>(
        &mut self,
        first: Option<u8>,
        input: &mut Input<'_>,
        out: &mut Out<'_, R>,
    ) -> DecodeStep<Option<Result<RespReplyTarget, Step>>> {
        if let Some(op) = first.and_then(|first| self.pairing.awaits_snapshot(first)) {
            if first == Some(b'$') {
                self.pairing.begin_snapshot(out);
            } else {
                out.charge(op);
                out.post(Account::Framing, "keep-alive", 1);
                input.advance(1);
            }
            return Ok(None);
        }
        match self.pairing.target(input.bytes, out) {
            None => input.await_more("a reply that was not captured").map(|step| Some(Err(step))),
            Some(target) => Ok(Some(Ok(target))),
        }
    }
}
