//! Client messages to postings (PostgreSQL manual, chapter 55.7, "F").

use super::copy::CopyReader;
use super::decode::header;
use super::pair::{PgRequest, PgSetupKind};
use super::session::PgStatement;
use super::sql::SqlSummary;
use super::values::{self, PgTypeShape};
use super::wire::{CANCEL_REQUEST, GSSENC_REQUEST, SSL_REQUEST, c_text, formats};
use super::{PgPhase, Pgwire, copy, sql};
use crate::statement::{NormalisedStatement, StatementDialect, StatementText as Asked};
use overhead_decode::near;
use overhead_decode::{Cursor, Input, Malformed, Out, Reader, Short};
use overhead_model::{Account, Class, Outcome, Side};

/// Authentication requests (`AuthenticationSASL`, …) that the client's next message answers.
const CLEARTEXT: u32 = 3;
const MD5: u32 = 5;
const SASL: u32 = 10;

pub(super) fn startup<R: Reader>(
    state: &mut Pgwire,
    code: u32,
    total: u64,
    input: Input<'_>,
    out: &mut Out<'_, R>,
) -> Result<(), Malformed> {
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
    state.pairing.label_setup(unit, name, "", out);
    let mut c = Cursor::new(input, total, out);
    let _ = c.skip(4, Account::Framing, "packet length");
    if request == PgRequest::Startup {
        state.phase = PgPhase::Messages;
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

fn cancel<R: Reader>(c: &mut Cursor<'_, '_, '_, R>) -> Result<(), Short> {
    c.skip(4, Account::Framing, "packet length")?;
    c.skip(4, Account::Framing, "request code")?;
    c.skip(4, Account::Metadata, "process id")?;
    c.rest(Account::Metadata, "secret key");
    Ok(())
}

fn parameters<R: Reader>(state: &mut Pgwire, c: &mut Cursor<'_, '_, '_, R>) -> Result<(), Short> {
    c.out().enter("parameter");
    while c.remaining() > 1 {
        let name = c.c_string(Account::Metadata, "name")?;
        let value = c.c_string(Account::Metadata, "value")?;
        match name {
            b"application_name" | b"fallback_application_name" => state.name_client(value, c.out()),
            b"replication" => {
                let off = [&b""[..], b"false", b"off", b"no", b"0"];
                state.pairing.replicates = !off.iter().any(|off| value.eq_ignore_ascii_case(off));
            }
            _ => {}
        }
    }
    c.out().leave();
    c.skip(c.remaining(), Account::Framing, "terminator")
}

impl Pgwire {
    /// Reports the client's name for itself; only the first one counts.
    pub(super) fn name_client<R: Reader>(&mut self, name: &[u8], out: &mut Out<'_, R>) {
        if let Ok(name) = std::str::from_utf8(name)
            && !name.is_empty()
            && !self.client_named
        {
            self.client_named = true;
            out.software(Side::Request, name);
        }
    }
}

pub(super) fn message<R: Reader>(
    state: &mut Pgwire,
    kind: u8,
    total: u64,
    input: Input<'_>,
    out: &mut Out<'_, R>,
) -> Result<(), Malformed> {
    match kind {
        b'Q' => query(state, total, input, out),
        b'F' => function(state, total, input, out),
        b'P' => parse(state, total, input, out),
        b'B' => bind(state, total, input, out),
        b'D' | b'C' => describe_or_close(state, kind, total, input, out),
        b'E' => execute(state, total, input, out),
        b'S' | b'H' => ending(state, kind, total, input, out),
        b'd' | b'c' | b'f' => {
            copy_data(state, kind, total, input, out);
            Ok(())
        }
        b'p' => {
            state.pairing.charge_authentication(out);
            read(input, total, "password", out, |c| password(state.authentication, c));
            Ok(())
        }
        _ => {
            let op = state.pairing.charge_unanswered(Class::Setup, "TERMINATE", out);
            read(input, total, "terminate", out, |_| Ok(()));
            out.close(op, Outcome::NoReply);
            Ok(())
        }
    }
}

pub(super) fn read<'a, R: Reader, T: Default>(
    input: Input<'a>,
    total: u64,
    group: &'static str,
    out: &mut Out<'_, R>,
    inside: impl FnOnce(&mut Cursor<'a, '_, '_, R>) -> Result<T, Short>,
) -> T {
    out.enter(group);
    let mut c = Cursor::new(input, total, out);
    let read = header(&mut c).and_then(|()| inside(&mut c));
    c.finish();
    read.unwrap_or_default()
}

/// Posts a body that is one text and its NUL, and returns the captured text.
pub(super) fn only_text<'a, R: Reader>(
    c: &mut Cursor<'a, '_, '_, R>,
    account: Account,
    field: &'static str,
) -> Result<&'a [u8], Short> {
    let (here, len) = (c.peek(), c.remaining().saturating_sub(1));
    c.skip_all([(account, field, len), (Account::Framing, "terminator", c.remaining() - len)])?;
    Ok(usize::try_from(len).ok().and_then(|len| here.get(..len)).unwrap_or(here))
}

fn query<R: Reader>(state: &mut Pgwire, total: u64, input: Input<'_>, out: &mut Out<'_, R>) -> Result<(), Malformed> {
    let unit = state.pairing.open_single(PgRequest::Query, out)?;
    let summary = read(input, total, "query", out, |c| {
        let text = c.peek();
        let end = usize::try_from(c.remaining().saturating_sub(1)).unwrap_or(usize::MAX);
        let summary = statement(text.get(..end), text, true, c.out());
        only_text(c, Account::Query, "statement").map(|_| summary)
    });
    let unknown = if input.opaque > 0 { "QUERY" } else { "EMPTY" };
    state.pairing.label_verb(unit, &summary, (unknown, "simple"), out);
    if let Some(copies) = summary.copies {
        state.pairing.start_copies(unit, copies);
    }
    state.pairing.settle(unit, out);
    Ok(())
}

/// Summarises the text posted next: `whole`, or `here` if its end was not captured. With `several`, it may hold more
/// than one statement.
fn statement<R: Reader>(whole: Option<&[u8]>, here: &[u8], several: bool, out: &mut Out<'_, R>) -> SqlSummary {
    let text = whole.unwrap_or(here);
    let (verb, settings) = (sql::verb(text), sql::is_settings(text));
    let is_wanted = out.wants_statements();
    let normalised = is_wanted
        .then(|| crate::statement::of(text, whole.is_some(), StatementDialect::Postgres, || verb.as_str().to_owned()));
    let NormalisedStatement { statement, has_free_numbers } = normalised.unwrap_or_default();
    if copy::may_copy(text, &verb, several) {
        return SqlSummary { verb, settings, copies: copy::copies(text), statement };
    }
    if has_free_numbers {
        out.free_numbers(text);
    }
    SqlSummary { verb, settings, copies: None, statement }
}

fn function<R: Reader>(
    state: &mut Pgwire,
    total: u64,
    input: Input<'_>,
    out: &mut Out<'_, R>,
) -> Result<(), Malformed> {
    let unit = state.pairing.open_single(PgRequest::Function, out)?;
    read(input, total, "function call", out, |c| {
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
    state.pairing.label(unit, "FUNCTION", false, "function call", Asked::None, out);
    state.pairing.settle(unit, out);
    Ok(())
}

fn parse<R: Reader>(state: &mut Pgwire, total: u64, input: Input<'_>, out: &mut Out<'_, R>) -> Result<(), Malformed> {
    let unit = state.pairing.charge_extended(PgSetupKind::Parse, out);
    let session = &mut state.pairing.session;
    let prepared = read(input, total, "parse", out, |c| {
        let name = c.c_string(Account::Metadata, "statement name")?;
        let id = session.parse(name);
        let text = c.peek();
        let end = near::find(0, text).unwrap_or(text.len());
        let summary = statement(text.get(..end), text, false, c.out());
        c_text(c, Account::Query, "statement")?;
        let asked = summary.statement.clone();
        session.set_text(id, summary);
        let count = c.u16_be(Account::Framing, "parameter count")?;
        let types = c.text(4 * u64::from(count), Account::Schema, "parameter type")?;
        session.set_parameters(id, types);
        Ok(asked)
    });
    state.pairing.set_prepared(unit, prepared);
    state.pairing.expect(PgRequest::Parse, unit, None, None)
}

fn bind<R: Reader>(state: &mut Pgwire, total: u64, input: Input<'_>, out: &mut Out<'_, R>) -> Result<(), Malformed> {
    let unit = state.pairing.charge_extended(PgSetupKind::Bind, out);
    let session = &mut state.pairing.session;
    read(input, total, "bind", out, |c| {
        let portal = c.c_string(Account::Metadata, "portal name")?;
        let name = c.c_string(Account::Metadata, "statement name")?;
        let id = session.statement_named(name);
        let types = session.statement(id).map_or(&[][..], |statement| &statement.parameters);
        let results = arguments(c, types).and_then(|()| formats(c));
        session.bind(portal, id, results.unwrap_or(super::wire::PgFormatCodes(&[])));
        results.map(|_| ())
    });
    state.pairing.expect(PgRequest::Bind, unit, None, None)
}

fn arguments<R: Reader>(c: &mut Cursor<'_, '_, '_, R>, types: &[PgTypeShape]) -> Result<(), Short> {
    let codes = formats(c)?;
    let count = c.u16_be(Account::Framing, "parameter count")?;
    c.out().enter("parameters");
    for index in 0..usize::from(count) {
        let shape = types.get(index).copied().unwrap_or(PgTypeShape::Unknown);
        values::cell(c, shape, codes.is_binary(index))?;
    }
    c.out().leave();
    Ok(())
}

fn describe_or_close<R: Reader>(
    state: &mut Pgwire,
    kind: u8,
    total: u64,
    input: Input<'_>,
    out: &mut Out<'_, R>,
) -> Result<(), Malformed> {
    let describes = kind == b'D';
    let (request, setup, group) = if describes {
        (PgRequest::Describe, PgSetupKind::Describe, "describe")
    } else {
        (PgRequest::Close, PgSetupKind::Close, "close")
    };
    let unit = state.pairing.charge_extended(setup, out);
    let session = &mut state.pairing.session;
    let statement = read(input, total, group, out, |c| {
        let what = c.u8(Account::Framing, "statement or portal")?;
        let name = c.c_string(Account::Metadata, "name")?;
        match (describes, what) {
            (true, b'S') => return Ok(Some(session.statement_named(name))),
            (true, _) => {
                let portal = session.portal_named(name);
                return Ok(session.statement_of(portal));
            }
            (false, b'S') => session.close_statement(name),
            (false, _) => session.close_portal(name),
        }
        Ok(None)
    });
    state.pairing.expect(request, unit, None, statement)
}

fn execute<R: Reader>(state: &mut Pgwire, total: u64, input: Input<'_>, out: &mut Out<'_, R>) -> Result<(), Malformed> {
    let unit = state.pairing.charge_extended(PgSetupKind::Bind, out);
    let session = &mut state.pairing.session;
    let portal = read(input, total, "execute", out, |c| {
        let name = c.c_string(Account::Metadata, "portal name")?;
        let portal = session.portal_named(name);
        c.skip(4, Account::Metadata, "row limit")?;
        Ok(Some(portal))
    });
    let statement = portal.and_then(|portal| session.statement_of(portal));
    let known = statement.and_then(|id| session.statement(id));
    let summary = known.map_or_else(SqlSummary::default, PgStatement::summary);
    let via = if known.is_some_and(|known| known.named) { "prepared" } else { "extended" };
    state.pairing.label_verb(unit, &summary, ("EXECUTE", via), out);
    state.pairing.executed(unit);
    if let Some(copies) = summary.copies {
        state.pairing.start_copies(unit, copies);
    }
    state.pairing.expect(PgRequest::Execute, unit, portal, None)
}

fn ending<R: Reader>(
    state: &mut Pgwire,
    kind: u8,
    total: u64,
    input: Input<'_>,
    out: &mut Out<'_, R>,
) -> Result<(), Malformed> {
    let (setup, group) = if kind == b'S' { (PgSetupKind::Sync, "sync") } else { (PgSetupKind::Flush, "flush") };
    let unit = state.pairing.charge_ending(setup, out);
    read(input, total, group, out, |_| Ok(()));
    if kind == b'S' {
        state.pairing.synced(unit, out)?;
    }
    Ok(())
}

fn copy_data<R: Reader>(state: &mut Pgwire, kind: u8, total: u64, input: Input<'_>, out: &mut Out<'_, R>) {
    let mut stray = CopyReader::stray();
    let copy = state.pairing.client_copy(out);
    let known = copy.is_some();
    let copy = copy.unwrap_or(&mut stray);
    read(input, total, "copy", out, |c| match kind {
        b'd' => copy.data(c),
        b'f' => only_text(c, Account::Status, "reason").map(|_| ()),
        _ => Ok(()),
    });
    if known && kind != b'd' {
        state.pairing.client_copy_done(out);
    }
}

fn password<R: Reader>(authentication: u32, c: &mut Cursor<'_, '_, '_, R>) -> Result<(), Short> {
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
