//! Server messages to postings (PostgreSQL manual, chapter 55.7, "B").

use super::Pgwire;
use super::client::{only_text, read};
use super::copy::CopyReader;
use super::pair::{PgExpectedReply, PgRequest};
use super::session::{PgStatementId, Session};
use super::values::{self, PgTypeShape};
use super::wire::{formats, u32_at};
use overhead_decode::near;
use overhead_decode::{Cursor, Input, Out, Reader, Short};
use overhead_model::{Account, Outcome, Side};

/// Authentication requests (`AuthenticationOk`, …).
const OK: u32 = 0;
const MD5: u32 = 5;
const SASL: u32 = 10;

/// Bytes of a column description after its name, up to the format code.
const COLUMN: u64 = 16;

pub(super) fn message<R: Reader>(state: &mut Pgwire, kind: u8, total: u64, input: Input<'_>, out: &mut Out<'_, R>) {
    match kind {
        b'A' => asynchronous(state, "NOTIFICATION", false, out, |_, out| {
            read(input, total, "notification", out, notification);
        }),
        b'N' => asynchronous(state, "NOTICE", true, out, |_, out| {
            read(input, total, "notice", out, fields);
        }),
        b'S' => asynchronous(state, "PARAMETER STATUS", true, out, |state, out| {
            read(input, total, "parameter status", out, |c| parameter_status(state, c));
        }),
        _ => {
            let front = state.pairing.match_response(kind, out);
            response(state, front, (kind, total), input, out);
        }
    }
}

fn asynchronous<R: Reader>(
    state: &mut Pgwire,
    name: &str,
    within: bool,
    out: &mut Out<'_, R>,
    read: impl FnOnce(&mut Pgwire, &mut Out<'_, R>),
) {
    let op = state.pairing.charge_asynchronous(name, within, out);
    read(state, out);
    if let Some(op) = op {
        out.close(op, Outcome::Unsolicited);
    }
}

/// Reads a response; `front` is its request, if captured.
fn response<R: Reader>(
    state: &mut Pgwire,
    front: Option<PgExpectedReply>,
    (kind, total): (u8, u64),
    input: Input<'_>,
    out: &mut Out<'_, R>,
) {
    match kind {
        b'D' => data_row(state, front, total, input, out),
        b'T' | b't' | b'n' => describe(state, front, (kind, total), input, out),
        b'C' => {
            let tag = read(input, total, "command complete", out, |c| {
                let tag = c.peek();
                c.out().free_numbers(tag);
                only_text(c, Account::Status, "command tag")
            });
            if let Some(front) = front {
                state.pairing.command_complete(front.unit, tag, out);
            }
            finish_execute(state, front, out);
        }
        b'I' | b's' => {
            let group = if kind == b'I' { "empty query" } else { "portal suspended" };
            read(input, total, group, out, |_| Ok(()));
            if let Some(front) = front.filter(|_| kind == b'I') {
                state.pairing.command_complete(front.unit, b"EMPTY", out);
            }
            finish_execute(state, front, out);
        }
        b'1' | b'2' | b'3' => {
            let group = match kind {
                b'1' => "parse complete",
                b'2' => "bind complete",
                _ => "close complete",
            };
            read(input, total, group, out, |_| Ok(()));
            if front.is_some() {
                state.pairing.pop(out);
            }
        }
        b'Z' => {
            read(input, total, "ready for query", out, |c| c.skip(1, Account::Status, "transaction status"));
            state.pairing.ready_for_query(front, out);
        }
        b'E' => {
            let fatal = read(input, total, "error", out, fields);
            match front {
                Some(front) => state.pairing.fail(front, fatal, out),
                None => state.pairing.fail_stray(fatal, out),
            }
        }
        _ => rare_response(state, front, (kind, total), input, out),
    }
}

/// Reads the messages of start-up, copies and function calls.
fn rare_response<R: Reader>(
    state: &mut Pgwire,
    front: Option<PgExpectedReply>,
    (kind, total): (u8, u64),
    input: Input<'_>,
    out: &mut Out<'_, R>,
) {
    match kind {
        b'R' => state.authentication = read(input, total, "authentication", out, authentication),
        b'K' => read(input, total, "backend key", out, |c| {
            c.skip(4, Account::Metadata, "process id")?;
            c.rest(Account::Metadata, "secret key");
            Ok(())
        }),
        b'v' => read(input, total, "negotiate protocol version", out, negotiate),
        b'V' => read(input, total, "function result", out, |c| values::cell(c, PgTypeShape::Unknown, true)),
        b'd' => {
            let mut stray = CopyReader::stray();
            let copy = state.pairing.server_copy().filter(|_| front.is_some()).unwrap_or(&mut stray);
            read(input, total, "copy", out, |c| copy.data(c));
        }
        b'c' => {
            read(input, total, "copy", out, |_| Ok(()));
            state.pairing.end_copy_out();
        }
        _ => {
            let format = read(input, total, "copy response", out, |c| {
                let format = c.u8(Account::Metadata, "copy format")?;
                formats(c)?;
                Ok(format)
            });
            let Some(front) = front else { return };
            if kind != b'G' {
                state.pairing.begin_copy_out(front, format);
            }
            if kind != b'H' {
                state.pairing.begin_copy_in(front, out);
            }
        }
    }
}

/// Ends the answer to an `Execute`; one to a `Query` may continue.
fn finish_execute<R: Reader>(state: &mut Pgwire, front: Option<PgExpectedReply>, out: &mut Out<'_, R>) {
    if front.is_some_and(|front| front.request == PgRequest::Execute) {
        state.pairing.pop(out);
    }
}

fn data_row<R: Reader>(
    state: &Pgwire,
    front: Option<PgExpectedReply>,
    total: u64,
    input: Input<'_>,
    out: &mut Out<'_, R>,
) {
    let (columns, codes) = match front {
        Some(front) => state.pairing.session.row(front.portal),
        None => (&[][..], super::wire::PgFormatCodes(&[])),
    };
    read(input, total, "row", out, |c| {
        let count = c.u16_be(Account::Framing, "column count")?;
        for index in 0..usize::from(count) {
            let shape = columns.get(index).copied().unwrap_or(PgTypeShape::Unknown);
            values::cell(c, shape, codes.is_binary(index))?;
        }
        Ok(())
    });
}

fn describe<R: Reader>(
    state: &mut Pgwire,
    front: Option<PgExpectedReply>,
    (kind, total): (u8, u64),
    input: Input<'_>,
    out: &mut Out<'_, R>,
) {
    let session = &mut state.pairing.session;
    let statement = front.and_then(|front| front.statement);
    match kind {
        b't' => read(input, total, "parameter description", out, |c| {
            let count = c.u16_be(Account::Framing, "parameter count")?;
            let types = c.text(4 * u64::from(count), Account::Schema, "parameter type")?;
            if let Some(id) = statement {
                session.set_parameters(id, types);
            }
            Ok(())
        }),
        b'T' => {
            let keeps = front.is_some_and(|front| front.request == PgRequest::Query || statement.is_some());
            let session = keeps.then_some(session);
            read(input, total, "row description", out, |c| row_description(session, statement, c));
        }
        _ => read(input, total, "no data", out, |_| Ok(())),
    }
    if kind != b't' && front.is_some_and(|front| front.request == PgRequest::Describe) {
        state.pairing.pop(out);
    }
}

fn row_description<R: Reader>(
    mut session: Option<&mut Session>,
    statement: Option<PgStatementId>,
    c: &mut Cursor<'_, '_, '_, R>,
) -> Result<(), Short> {
    let count = c.u16_be(Account::Framing, "column count")?;
    let Some(session) = session.as_mut() else {
        return columns(count, |_| {}, c);
    };
    session.begin_columns(statement);
    let read = columns(count, |fields| session.column(statement, fields), c);
    session.end_columns(statement);
    read
}

/// Posts column descriptions and passes the bytes after each name to `column`.
fn columns<'a, R: Reader>(
    count: u16,
    mut column: impl FnMut(&'a [u8]),
    c: &mut Cursor<'a, '_, '_, R>,
) -> Result<(), Short> {
    for _ in 0..count {
        c.out().enter("column");
        c.c_string(Account::Schema, "name")?;
        let fields = c.peek();
        c.skip_all([
            (Account::Schema, "table", 4),
            (Account::Schema, "attribute number", 2),
            (Account::Schema, "type", 4),
            (Account::Schema, "type size", 2),
            (Account::Schema, "type modifier", COLUMN - 12),
            (Account::Metadata, "format code", 2),
        ])?;
        c.out().leave();
        column(fields);
    }
    Ok(())
}

/// Returns the authentication code.
fn authentication<R: Reader>(c: &mut Cursor<'_, '_, '_, R>) -> Result<u32, Short> {
    // A code without a body is the outcome.
    let code = u32_at(c.peek(), 0).ok_or(Short)?;
    let account = if code == OK { Account::Status } else { Account::Framing };
    c.skip(4, account, "authentication type")?;
    match code {
        MD5 => c.skip(4, Account::Metadata, "salt")?,
        SASL => {
            while c.remaining() > 1 {
                c.c_string(Account::Metadata, "mechanism")?;
            }
            c.skip(c.remaining(), Account::Framing, "terminator")?;
        }
        _ => c.rest(Account::Metadata, "challenge"),
    }
    Ok(code)
}

fn negotiate<R: Reader>(c: &mut Cursor<'_, '_, '_, R>) -> Result<(), Short> {
    c.skip(4, Account::Framing, "protocol version")?;
    let count = c.u32_be(Account::Framing, "option count")?;
    for _ in 0..count {
        c.c_string(Account::Metadata, "option")?;
    }
    Ok(())
}

fn notification<R: Reader>(c: &mut Cursor<'_, '_, '_, R>) -> Result<(), Short> {
    c.skip(4, Account::Metadata, "process id")?;
    c.c_string(Account::Metadata, "channel")?;
    c.c_string(Account::Data, "payload")?;
    Ok(())
}

/// Reads the fields of an error or notice; true if the server closes the connection after it.
fn fields<R: Reader>(c: &mut Cursor<'_, '_, '_, R>) -> Result<bool, Short> {
    let mut fatal = false;
    while c.remaining() > 1 {
        let code = c.u8(Account::Framing, "field code")?;
        if !matches!(code, b'S' | b'V') {
            let text = c.peek();
            let end = near::find(0, text).unwrap_or(text.len());
            c.out().free_numbers(text.get(..end).unwrap_or_default());
        }
        let text = c.c_string(Account::Status, field_name(code))?;
        fatal |= matches!(code, b'S' | b'V') && matches!(text, b"FATAL" | b"PANIC");
    }
    c.skip(c.remaining(), Account::Framing, "terminator")?;
    Ok(fatal)
}

/// Names of the fields (chapter 55.8).
fn field_name(code: u8) -> &'static str {
    match code {
        b'S' | b'V' => "severity",
        b'C' => "code",
        b'M' => "message",
        b'D' => "detail",
        b'H' => "hint",
        b'P' | b'p' => "position",
        b'q' => "internal query",
        b'W' => "where",
        b's' => "schema name",
        b't' => "table name",
        b'c' => "column name",
        b'd' => "data type name",
        b'n' => "constraint name",
        b'F' => "file",
        b'L' => "line",
        b'R' => "routine",
        _ => "field",
    }
}

fn parameter_status<R: Reader>(state: &mut Pgwire, c: &mut Cursor<'_, '_, '_, R>) -> Result<(), Short> {
    let name = c.c_string(Account::Metadata, "name")?;
    let value = c.c_string(Account::Metadata, "value")?;
    match name {
        b"server_version" => {
            let version = std::str::from_utf8(value).unwrap_or_default();
            let version = version.split_whitespace().next().unwrap_or_default();
            // YugabyteDB appends its version to PostgreSQL's.
            match version.split_once("-YB-") {
                Some((_, version)) => name_server("YugabyteDB", version, c.out()),
                None if state.server_named => {}
                None => name_server("PostgreSQL", version, c.out()),
            }
        }
        // CockroachDB's `server_version` names the compatible PostgreSQL.
        b"crdb_version" => {
            let version = std::str::from_utf8(value).unwrap_or_default();
            let version = version.split_whitespace().find(|word| word.starts_with('v')).unwrap_or_default();
            state.server_named = true;
            name_server("CockroachDB", version.trim_start_matches('v'), c.out());
        }
        b"application_name" => state.name_client(value, c.out()),
        _ => {}
    }
    Ok(())
}

fn name_server<R: Reader>(product: &str, version: &str, out: &mut Out<'_, R>) {
    let mut name = String::with_capacity(product.len() + 1 + version.len());
    name.push_str(product);
    if !version.is_empty() {
        name.push(' ');
        name.push_str(version);
    }
    out.software(Side::Response, &name);
}
