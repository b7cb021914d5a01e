//! Client messages to postings (PostgreSQL manual, chapter 55.7, "F").

use super::copy::{CopyReader, CopyTransfers};
use super::decode::header;
use super::pair::{PgExpectedReply, PgRequest, PgSetupKind};
use super::values::{self, PgTypeShape};
use super::wire::{CANCEL_REQUEST, GSSENC_REQUEST, SSL_REQUEST, c_text, formats};
use super::{PgPhase, Pgwire, copy};
use crate::statement::{StatementDialect, StatementSummary, StatementText as Asked};
use overhead_decode::{Cursor, DecodeStep, FieldRead, Input, Out, Reader, near};
use overhead_model::{Account, Class, Outcome, Side};

/// Authentication requests (`AuthenticationSASL`, …) that the client's next message answers.
const CLEARTEXT: u32 = 3;
const MD5: u32 = 5;
const SASL: u32 = 10;

pub fn startup<R: Reader>(
    state: &mut Pgwire,
    code: u32,
    total: u64,
    input: Input<'_>,
    out: &mut Out<'_, R>,
) -> DecodeStep<()> {
    let (request, name) = match code {
        SSL_REQUEST => (PgRequest::Ssl, "SSLREQUEST"),
        GSSENC_REQUEST => (PgRequest::Gss, "GSSENCREQUEST"),
        CANCEL_REQUEST => {
            let op = state.pairing.charge_unanswered(Class::Setup, "CANCEL", out);
            let mut c = Cursor::new(input, total, out);
            let _ = cancel(&mut c);
            c.finish();
            out.close(op, Outcome::NoReply);
            return Ok(());
        }
        _ => (PgRequest::Startup, "STARTUP"),
    };
    state.pairing.restart();
    let unit = state.pairing.open_single(request, out)?;
    state.pairing.label_setup(unit, name, out);
    let mut c = Cursor::new(input, total, out);
    let _ = c.skip(4, Account::Framing, "packet length");
    if request == PgRequest::Startup {
        (state.phase, state.is_started) = (PgPhase::Messages, true);
        let _ = c.skip(4, Account::Framing, "protocol version");
        if code >> 16 == 2 {
            c.rest(Account::Metadata, "start-up parameters");
        }
        let _ = parameters(state, &mut c);
    } else {
        let _ = c.skip(4, Account::Framing, "request code");
    }
    c.finish();
    Ok(())
}

fn cancel<R: Reader>(c: &mut Cursor<'_, '_, '_, R>) -> FieldRead {
    c.skip(4, Account::Framing, "packet length")?;
    c.skip(4, Account::Framing, "request code")?;
    c.skip(4, Account::Metadata, "process id")?;
    c.rest(Account::Metadata, "secret key");
    Ok(())
}

fn parameters<R: Reader>(state: &mut Pgwire, c: &mut Cursor<'_, '_, '_, R>) -> FieldRead {
    c.out().enter("parameter");
    while c.remaining() > 1 {
        let name = c.c_string(Account::Metadata, "name")?;
        let value = c.c_string(Account::Metadata, "value")?;
        match name {
            b"application_name" | b"fallback_application_name" => state.name_client(value, c.out()),
            b"replication" => {
                let off = [&b""[..], b"false", b"off", b"no", b"0"];
                state.pairing.facts.replicates = !off.iter().any(|off| value.eq_ignore_ascii_case(off));
            }
            _ => {}
        }
    }
    c.out().leave();
    c.skip(c.remaining(), Account::Framing, "terminator")
}

/// A complete message, as far as it was captured.
#[derive(Clone, Copy)]
pub(super) struct PgMessage<'a> {
    pub kind: u8,
    /// Bytes of the message, with its header.
    pub total: u64,
    pub input: Input<'a>,
}

impl<'a> PgMessage<'a> {
    /// Posts the message as a `group`; `inside` posts what follows the header.
    pub fn read<R: Reader, T: Default>(
        self,
        group: &'static str,
        out: &mut Out<'_, R>,
        inside: impl FnOnce(&mut Cursor<'a, '_, '_, R>) -> FieldRead<T>,
    ) -> T {
        out.enter(group);
        let mut c = Cursor::new(self.input, self.total, out);
        let read = header(&mut c).and_then(|()| inside(&mut c));
        c.finish();
        read.unwrap_or_default()
    }
}

/// Posts a body that is one text and its NUL, and returns the captured text.
pub fn only_text<'a, R: Reader>(
    c: &mut Cursor<'a, '_, '_, R>,
    account: Account,
    field: &'static str,
) -> FieldRead<&'a [u8]> {
    let (here, len) = (c.peek(), c.remaining().saturating_sub(1));
    c.skip_all([(account, field, len), (Account::Framing, "terminator", c.remaining() - len)])?;
    Ok(usize::try_from(len).ok().and_then(|len| here.get(..len)).unwrap_or(here))
}

impl Pgwire {
    /// Reports the client's name for itself; only the first one counts.
    pub(super) fn name_client<R: Reader>(&mut self, name: &[u8], out: &mut Out<'_, R>) {
        if let Ok(name) = std::str::from_utf8(name)
            && !name.is_empty()
            && !self.pairing.facts.client_named
        {
            self.pairing.facts.client_named = true;
            out.software(Side::Request, name);
        }
    }

    pub(super) fn client_message<R: Reader>(&mut self, message: PgMessage<'_>, out: &mut Out<'_, R>) -> DecodeStep<()> {
        match message.kind {
            b'Q' => self.query(message, out),
            b'F' => self.function(message, out),
            b'P' => self.parse(message, out),
            b'B' => self.bind(message, out),
            b'D' | b'C' => self.describe_or_close(message, out),
            b'E' => self.execute(message, out),
            b'S' | b'H' => self.ending(message, out),
            b'd' | b'c' | b'f' => {
                self.copy_data(message, out);
                Ok(())
            }
            b'p' => {
                self.pairing.charge_authentication(out);
                message.read("password", out, |c| password(self.pairing.facts.authentication, c));
                Ok(())
            }
            _ => {
                let op = self.pairing.charge_unanswered(Class::Setup, "TERMINATE", out);
                message.read("terminate", out, |_| Ok(()));
                out.close(op, Outcome::NoReply);
                Ok(())
            }
        }
    }

    fn query<R: Reader>(&mut self, message: PgMessage<'_>, out: &mut Out<'_, R>) -> DecodeStep<()> {
        let unit = self.pairing.open_single(PgRequest::Query, out)?;
        let (summary, copies) = message.read("query", out, |c| {
            let text = c.peek();
            let end = usize::try_from(c.remaining().saturating_sub(1)).unwrap_or(usize::MAX);
            let summary = statement(text.get(..end), text, true, c.out());
            only_text(c, Account::Query, "statement").map(|_| summary)
        });
        let unknown = if message.input.opaque > 0 { "QUERY" } else { "EMPTY" };
        self.pairing.label_verb(unit, &summary, (unknown, "simple"), out);
        if let Some(copies) = copies {
            self.pairing.start_copies(unit, copies);
        }
        self.pairing.settle(unit, out);
        Ok(())
    }

    fn function<R: Reader>(&mut self, message: PgMessage<'_>, out: &mut Out<'_, R>) -> DecodeStep<()> {
        let unit = self.pairing.open_single(PgRequest::Function, out)?;
        message.read("function call", out, |c| {
            c.skip(4, Account::Query, "function")?;
            let codes = formats(c)?;
            let count = c.u16_be(Account::Framing, "argument count")?;
            c.out().enter("arguments");
            for index in 0..usize::from(count) {
                values::cell(c, PgTypeShape::Unknown, codes.is_binary(index))?;
            }
            c.out().leave();
            c.skip(2, Account::Metadata, "format code")
        });
        self.pairing.label(unit, "FUNCTION", false, "function call", Asked::None, out);
        self.pairing.settle(unit, out);
        Ok(())
    }

    fn parse<R: Reader>(&mut self, message: PgMessage<'_>, out: &mut Out<'_, R>) -> DecodeStep<()> {
        let unit = self.pairing.charge_extended(PgSetupKind::Parse, out);
        let session = &mut self.pairing.session;
        let prepared = message.read("parse", out, |c| {
            let name = c.c_string(Account::Metadata, "statement name")?;
            let id = session.parse(name);
            let text = c.peek();
            let end = near::find(0, text).unwrap_or(text.len());
            let (summary, copies) = statement(text.get(..end), text, false, c.out());
            c_text(c, Account::Query, "statement")?;
            let asked = summary.text.clone();
            session.learn(name, &summary);
            session.set_text(id, summary, copies);
            let count = c.u16_be(Account::Framing, "parameter count")?;
            let types = c.text(4 * u64::from(count), Account::Schema, "parameter type")?;
            session.set_parameters(id, types);
            Ok(asked)
        });
        self.pairing.set_statement(unit, prepared, true);
        self.pairing.expect(PgExpectedReply::to(PgRequest::Parse, unit), out)
    }

    fn bind<R: Reader>(&mut self, message: PgMessage<'_>, out: &mut Out<'_, R>) -> DecodeStep<()> {
        let unit = self.pairing.charge_extended(PgSetupKind::Bind, out);
        let session = &mut self.pairing.session;
        message.read("bind", out, |c| {
            let portal = c.c_string(Account::Metadata, "portal name")?;
            let name = c.c_string(Account::Metadata, "statement name")?;
            let id = session.statement_named(name);
            let types = session.statement(id).map_or(&[][..], |statement| &statement.parameters);
            let count = arguments(c, types);
            if let Ok(count) = count {
                session.bind_unseen(id, name, count);
            }
            let results = count.and_then(|_| formats(c));
            session.bind(portal, id, results.unwrap_or_default());
            results.map(|_| ())
        });
        self.pairing.expect(PgExpectedReply::to(PgRequest::Bind, unit), out)
    }

    fn describe_or_close<R: Reader>(&mut self, message: PgMessage<'_>, out: &mut Out<'_, R>) -> DecodeStep<()> {
        let describes = message.kind == b'D';
        let (request, setup, group) = if describes {
            (PgRequest::Describe, PgSetupKind::Describe, "describe")
        } else {
            (PgRequest::Close, PgSetupKind::Close, "close")
        };
        let unit = self.pairing.charge_extended(setup, out);
        let session = &mut self.pairing.session;
        let mut closed = None;
        let statement = message.read(group, out, |c| {
            let what = c.u8(Account::Framing, "statement or portal")?;
            let name = c.c_string(Account::Metadata, "name")?;
            match (describes, what) {
                (true, b'S') => return Ok(Some(session.statement_named(name))),
                (true, _) => {
                    let portal = session.portal_named(name);
                    return Ok(session.statement_of(portal));
                }
                (false, b'S') => {
                    let id = session.statement_named(name);
                    closed = session.statement(id).map(|of| of.summary.text.clone());
                    session.close_statement(name);
                    session.forget(name);
                }
                (false, _) => {
                    let of = session.statement_of_portal(name).and_then(|id| session.statement(id));
                    closed = of.map(|of| of.summary.text.clone());
                    session.close_portal(name);
                }
            }
            Ok(None)
        });
        let described = statement.and_then(|id| self.pairing.session.statement(id)).map(|of| of.summary.text.clone());
        if let Some(text) = closed.or(described) {
            self.pairing.set_statement(unit, text, false);
        }
        self.pairing.expect(PgExpectedReply { statement, ..PgExpectedReply::to(request, unit) }, out)
    }

    fn execute<R: Reader>(&mut self, message: PgMessage<'_>, out: &mut Out<'_, R>) -> DecodeStep<()> {
        let unit = self.pairing.charge_extended(PgSetupKind::Bind, out);
        let session = &mut self.pairing.session;
        let portal = message.read("execute", out, |c| {
            let name = c.c_string(Account::Metadata, "portal name")?;
            let portal = session.portal_named(name);
            c.skip(4, Account::Metadata, "row limit")?;
            Ok(Some(portal))
        });
        let statement = portal.and_then(|portal| session.statement_of(portal));
        let known = statement.and_then(|id| session.statement(id));
        let summary = known.map_or_else(StatementSummary::default, |known| known.summary.clone());
        let copies = known.and_then(|known| known.copies.clone());
        let via = if known.is_some_and(|known| known.named) { "prepared" } else { "extended" };
        self.pairing.label_verb(unit, &summary, ("EXECUTE", via), out);
        self.pairing.executed(unit);
        if let Some(copies) = copies {
            self.pairing.start_copies(unit, copies);
        }
        self.pairing.expect(PgExpectedReply { portal, ..PgExpectedReply::to(PgRequest::Execute, unit) }, out)
    }

    fn ending<R: Reader>(&mut self, message: PgMessage<'_>, out: &mut Out<'_, R>) -> DecodeStep<()> {
        let (setup, group) =
            if message.kind == b'S' { (PgSetupKind::Sync, "sync") } else { (PgSetupKind::Flush, "flush") };
        let unit = self.pairing.charge_ending(setup, out);
        message.read(group, out, |_| Ok(()));
        if message.kind == b'S' {
            self.pairing.synced(unit, out)?;
        }
        Ok(())
    }

    fn copy_data<R: Reader>(&mut self, message: PgMessage<'_>, out: &mut Out<'_, R>) {
        let mut stray = CopyReader::Opaque;
        let copy = self.pairing.client_copy(out);
        let known = copy.is_some();
        let copy = copy.unwrap_or(&mut stray);
        message.read("copy", out, |c| match message.kind {
            b'd' => copy.data(c),
            b'f' => only_text(c, Account::Status, "reason").map(|_| ()),
            _ => Ok(()),
        });
        if known && message.kind != b'd' {
            self.pairing.client_copy_done(out);
        }
    }
}

/// Summarises the text posted next, with the copies that it starts: `whole`, or `here` if its end was not captured. With
/// `several`, it may hold more than one statement.
fn statement<R: Reader>(
    whole: Option<&[u8]>,
    here: &[u8],
    several: bool,
    out: &mut Out<'_, R>,
) -> (StatementSummary, Option<CopyTransfers>) {
    let text = whole.unwrap_or(here);
    let (summary, has_free_numbers) =
        StatementSummary::new(text, whole.is_some(), StatementDialect::Postgres, out.wants_statements());
    if copy::may_copy(text, &summary.verb, several) {
        return (summary, copy::copies(text));
    }
    if has_free_numbers {
        out.free_numbers(text);
    }
    (summary, None)
}

fn arguments<R: Reader>(c: &mut Cursor<'_, '_, '_, R>, types: &[PgTypeShape]) -> FieldRead<u16> {
    let codes = formats(c)?;
    let count = c.u16_be(Account::Framing, "parameter count")?;
    c.out().enter("parameters");
    for index in 0..usize::from(count) {
        let shape = types.get(index).copied().unwrap_or(PgTypeShape::Unknown);
        values::cell(c, shape, codes.is_binary(index))?;
    }
    c.out().leave();
    Ok(count)
}

fn password<R: Reader>(authentication: u32, c: &mut Cursor<'_, '_, '_, R>) -> FieldRead {
    match authentication {
        CLEARTEXT | MD5 => only_text(c, Account::Metadata, "password").map(|_| ()),
        SASL => {
            c.c_string(Account::Metadata, "mechanism")?;
            c.skip(4, Account::Framing, "response length")?;
            c.rest(Account::Metadata, "response");
            Ok(())
        }
        _ => {
            c.rest(Account::Metadata, "response");
            Ok(())
        }
    }
}
