//! Server messages to postings (PostgreSQL manual, chapter 55.7, "B").

use super::Pgwire;
use super::client::{PgMessage, only_text};
use super::copy::CopyReader;
use super::pair::{PgExpectedReply, PgRequest};
use super::session::{PgStatementId, Session};
use super::values::{self, PgTypeShape};
use super::wire::{formats, u32_at};
use overhead_decode::{Cursor, FieldRead, Out, Reader, Short, near};
use overhead_model::{Account, Outcome, Side};

/// Authentication requests (`AuthenticationOk`, …).
const OK: u32 = 0;
const MD5: u32 = 5;
const SASL: u32 = 10;

/// Bytes of a column description after its name, up to the format code.
const COLUMN: u64 = 16;

impl Pgwire {
    pub(super) fn server_message<R: Reader>(&mut self, message: PgMessage<'_>, out: &mut Out<'_, R>) {
        if matches!(message.kind, b'A' | b'N' | b'S') {
            return self.asynchronous(message, out);
        }
        let front = self.pairing.match_response(message.kind, out);
        match message.kind {
            b'D' => self.data_row(front, message, out),
            b'T' | b't' | b'n' => self.describe(front, message, out),
            b'C' => {
                let tag = message.read("command complete", out, |c| {
                    let tag = c.peek();
                    c.out().free_numbers(tag);
                    only_text(c, Account::Status, "command tag")
                });
                if let Some(front) = front {
                    self.pairing.command_complete(front.unit, tag, out);
                }
                self.finish_execute(front, out);
            }
            b'I' | b's' => {
                let group = if message.kind == b'I' { "empty query" } else { "portal suspended" };
                message.read(group, out, |_| Ok(()));
                if let Some(front) = front.filter(|_| message.kind == b'I') {
                    self.pairing.command_complete(front.unit, b"EMPTY", out);
                }
                self.finish_execute(front, out);
            }
            b'1' | b'2' | b'3' => {
                let group = match message.kind {
                    b'1' => "parse complete",
                    b'2' => "bind complete",
                    _ => "close complete",
                };
                message.read(group, out, |_| Ok(()));
                if front.is_some() {
                    self.pairing.pop(out);
                }
            }
            b'Z' => {
                message.read("ready for query", out, |c| c.skip(1, Account::Status, "transaction status"));
                self.pairing.ready_for_query(front, out);
            }
            b'E' => {
                let fatal = message.read("error", out, fields);
                match front {
                    Some(front) => self.pairing.fail(front, fatal, out),
                    None if fatal => self.pairing.end_stray(1, out),
                    None => {}
                }
            }
            _ => self.rare_response(front, message, out),
        }
    }

    fn asynchronous<R: Reader>(&mut self, message: PgMessage<'_>, out: &mut Out<'_, R>) {
        let (name, within) = match message.kind {
            b'A' => ("NOTIFICATION", false),
            b'N' => ("NOTICE", true),
            _ => ("PARAMETER STATUS", true),
        };
        let op = self.pairing.charge_asynchronous(name, within, out);
        match message.kind {
            b'A' => message.read("notification", out, notification),
            b'N' => {
                message.read("notice", out, fields);
            }
            _ => message.read("parameter status", out, |c| parameter_status(self, c)),
        }
        if let Some(op) = op {
            out.close(op, Outcome::Unsolicited);
        }
    }

    /// Reads the messages of start-up, copies and function calls.
    fn rare_response<R: Reader>(
        &mut self,
        front: Option<PgExpectedReply>,
        message: PgMessage<'_>,
        out: &mut Out<'_, R>,
    ) {
        match message.kind {
            b'R' => self.pairing.facts.authentication = message.read("authentication", out, authentication),
            b'K' => message.read("backend key", out, |c| {
                c.skip(4, Account::Metadata, "process id")?;
                c.rest(Account::Metadata, "secret key");
                Ok(())
            }),
            b'v' => message.read("negotiate protocol version", out, negotiate),
            b'V' => message.read("function result", out, |c| values::cell(c, PgTypeShape::Unknown, true)),
            b'd' => {
                let mut stray = CopyReader::Opaque;
                let copy = self.pairing.copy_out.as_deref_mut().filter(|_| front.is_some()).unwrap_or(&mut stray);
                message.read("copy", out, |c| copy.data(c));
            }
            b'c' => {
                message.read("copy", out, |_| Ok(()));
                self.pairing.copy_out = None;
            }
            _ => {
                let format = message.read("copy response", out, |c| {
                    let format = c.u8(Account::Metadata, "copy format")?;
                    formats(c)?;
                    Ok(format)
                });
                let Some(front) = front else { return };
                if message.kind != b'G' {
                    self.pairing.begin_copy_out(front, format);
                }
                if message.kind != b'H' {
                    self.pairing.begin_copy_in(front, out);
                }
            }
        }
    }

    /// Ends the answer to an `Execute`; one to a `Query` may continue.
    fn finish_execute<R: Reader>(&mut self, front: Option<PgExpectedReply>, out: &mut Out<'_, R>) {
        if front.is_some_and(|front| front.request == PgRequest::Execute) {
            self.pairing.pop(out);
        }
    }

    fn data_row<R: Reader>(&self, front: Option<PgExpectedReply>, message: PgMessage<'_>, out: &mut Out<'_, R>) {
        let (columns, codes) = front.map(|front| self.pairing.session.row(front.portal)).unwrap_or_default();
        message.read("row", out, |c| {
            let count = c.u16_be(Account::Framing, "column count")?;
            for index in 0..usize::from(count) {
                let shape = columns.get(index).copied().unwrap_or(PgTypeShape::Unknown);
                values::cell(c, shape, codes.is_binary(index))?;
            }
            Ok(())
        });
    }

    fn describe<R: Reader>(&mut self, front: Option<PgExpectedReply>, message: PgMessage<'_>, out: &mut Out<'_, R>) {
        let session = &mut self.pairing.session;
        let statement = front.and_then(|front| front.statement);
        match message.kind {
            b't' => message.read("parameter description", out, |c| {
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
                message.read("row description", out, |c| row_description(session, statement, c));
                if let Some(unit) = front.map(|front| front.unit) {
                    self.pairing.describe_unseen(unit, statement, out);
                }
            }
            _ => message.read("no data", out, |_| Ok(())),
        }
        if message.kind != b't' && front.is_some_and(|front| front.request == PgRequest::Describe) {
            self.pairing.pop(out);
        }
    }
}

fn row_description<R: Reader>(
    mut session: Option<&mut Session>,
    statement: Option<PgStatementId>,
    c: &mut Cursor<'_, '_, '_, R>,
) -> FieldRead {
    let count = c.u16_be(Account::Framing, "column count")?;
    let Some(session) = session.as_mut() else { return columns(count, |_, _| {}, c) };
    session.begin_columns(statement);
    let read = columns(count, |name, fields| session.column(statement, name, fields), c);
    session.end_columns(statement);
    read
}

/// Posts column descriptions and passes each name and the bytes after it to `column`.
fn columns<'a, R: Reader>(
    count: u16,
    mut column: impl FnMut(&'a [u8], &'a [u8]),
    c: &mut Cursor<'a, '_, '_, R>,
) -> FieldRead {
    for _ in 0..count {
        c.out().enter("column");
        let name = c.c_string(Account::Schema, "name")?;
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
        column(name, fields);
    }
    Ok(())
}

/// Returns the authentication code.
fn authentication<R: Reader>(c: &mut Cursor<'_, '_, '_, R>) -> FieldRead<u32> {
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

fn negotiate<R: Reader>(c: &mut Cursor<'_, '_, '_, R>) -> FieldRead {
    c.skip(4, Account::Framing, "protocol version")?;
    let count = c.u32_be(Account::Framing, "option count")?;
    for _ in 0..count {
        c.c_string(Account::Metadata, "option")?;
    }
    Ok(())
}

fn notification<R: Reader>(c: &mut Cursor<'_, '_, '_, R>) -> FieldRead {
    c.skip(4, Account::Metadata, "process id")?;
    c.c_string(Account::Metadata, "channel")?;
    c.c_string(Account::Data, "payload")?;
    Ok(())
}

/// Reads the fields of an error or notice; true if the server closes the connection after it.
fn fields<R: Reader>(c: &mut Cursor<'_, '_, '_, R>) -> FieldRead<bool> {
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

fn parameter_status<R: Reader>(state: &mut Pgwire, c: &mut Cursor<'_, '_, '_, R>) -> FieldRead {
    let name = c.c_string(Account::Metadata, "name")?;
    let value = c.c_string(Account::Metadata, "value")?;
    match name {
        b"server_version" => {
            let version = std::str::from_utf8(value).unwrap_or_default();
            let version = version.split_whitespace().next().unwrap_or_default();
            // YugabyteDB appends its version to PostgreSQL's.
            match version.split_once("-YB-") {
                Some((_, version)) => name_server("YugabyteDB", version, c.out()),
                None if state.pairing.facts.server_named => {}
                None => name_server("PostgreSQL", version, c.out()),
            }
        }
        // CockroachDB's `server_version` names the compatible PostgreSQL.
        b"crdb_version" => {
            let version = std::str::from_utf8(value).unwrap_or_default();
            let version = version.split_whitespace().find(|word| word.starts_with('v')).unwrap_or_default();
            state.pairing.facts.server_named = true;
            name_server("CockroachDB", version.trim_start_matches('v'), c.out());
        }
        b"application_name" => state.name_client(value, c.out()),
        _ => {}
    }
    Ok(())
}

fn name_server<R: Reader>(product: &str, version: &str, out: &mut Out<'_, R>) {
    out.software(Side::Response, format!("{product} {version}").trim_end());
}
