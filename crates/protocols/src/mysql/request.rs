//! Decodes commands into postings.

use super::command::{self, Command};
use super::continuation::PacketContinuation;
use super::decode::PlainDecoder;
use super::pair::label;
use super::response::ResponseStage;
use super::session::{LAST_PREPARED, MysqlStatement};
use super::values::{BulkRows, ValueLayout, present, untyped, values};
use super::wire::{capability, lenenc, lenenc_at, lenenc_text};
use crate::limits;
use crate::statement::{StatementDialect, StatementSummary};
use overhead_decode::{Cursor, DecodeStep, FieldRead, Label, OpId, Reader, Short};
use overhead_model::{Account, Class};

/// `COM_STMT_EXECUTE`: a parameter count follows the flags even without parameters.
const PARAMETER_COUNT_AVAILABLE: u8 = 8;
/// `COM_STMT_BULK_EXECUTE`: types are sent.
const SEND_TYPES: u16 = 128;

#[derive(Debug, Default)]
pub(super) struct DecodedRequest {
    /// The rest of its last field, if another packet continues it.
    pub rest: Option<PacketContinuation>,
    pub statement: Option<u32>,
    /// The text of that statement is unknown.
    pub is_unseen: bool,
    pub prepares: StatementSummary,
}

type RequestRead = FieldRead<DecodedRequest>;

impl DecodedRequest {
    fn all(account: Account, field: &'static str) -> Self {
        Self { rest: Some(PacketContinuation::All(account, field)), ..Self::default() }
    }
}

impl PlainDecoder {
    /// Posts a command after the packet header, charged to `op`. Labels the operation and queues it for its reply.
    pub(super) fn command<R: Reader>(
        &mut self,
        (op, code, command): (OpId, u8, Command),
        c: &mut Cursor<'_, '_, '_, R>,
        is_continued: bool,
    ) -> DecodeStep<Option<PacketContinuation>> {
        c.out().label(op, self.class_of(command), command.name, via_of(code));
        let sent = self.body(code, c, is_continued).unwrap_or_default();
        let Some(kind) = command.kind else { return Ok(sent.rest) };
        let pending = self.pairing.expect(op, kind, c.out())?;
        (pending.statement, pending.is_unseen) = (sent.statement, sent.is_unseen);
        pending.resets = matches!(code, command::RESET_CONNECTION | command::CHANGE_USER);
        pending.prepares = sent.prepares;
        if code == command::CLONE && self.pairing.queue.len() == 1 {
            self.stage = ResponseStage::Cloning;
        }
        Ok(sent.rest)
    }

    fn class_of(&self, command: Command) -> Class {
        let is_workload = command.class == Class::Workload;
        if is_workload && self.session.replicates { Class::Background } else { command.class }
    }

    fn body<R: Reader>(&mut self, code: u8, c: &mut Cursor<'_, '_, '_, R>, is_continued: bool) -> RequestRead {
        c.skip(1, Account::Framing, "command")?;
        match code {
            command::QUERY => self.query(c, is_continued),
            command::STMT_PREPARE => {
                let prepares = text(c, is_continued, self.session.is_unescaped);
                let statement = prepares.text.as_str();
                c.out().label_current(Label { class: Class::Setup, name: "PREPARE", via: via_of(code), statement });
                Ok(DecodedRequest { prepares, ..DecodedRequest::all(Account::Query, "statement") })
            }
            command::STMT_EXECUTE => self.execute(c, is_continued),
            command::STMT_BULK_EXECUTE => self.bulk(c, is_continued),
            command::STMT_SEND_LONG_DATA => self.long_data(c),
            command::STMT_CLOSE | command::STMT_RESET | command::STMT_FETCH => self.manage_prepared(code, c),
            _ => self.administer(code, c),
        }
    }

    /// Posts a command on a prepared statement other than preparation and execution.
    fn manage_prepared<R: Reader>(&mut self, code: u8, c: &mut Cursor<'_, '_, '_, R>) -> RequestRead {
        let id = c.u32_le(Account::Metadata, "statement id")?;
        match code {
            command::STMT_FETCH => {
                self.label_part(id, "FETCH", c);
                c.skip(4, Account::Metadata, "row limit")?;
                return Ok(DecodedRequest { statement: Some(id), ..DecodedRequest::default() });
            }
            command::STMT_RESET => {
                self.label_part(id, "STMT RESET", c);
                self.forget_sent_ahead(id);
            }
            _ => {
                self.given.forget(|| id.to_string());
                let Some(known) = self.session.statement(id) else { return Ok(DecodedRequest::default()) };
                let statement = known.named.text.as_str();
                c.out().label_current(Label { class: Class::Setup, name: "CLOSE", via: via_of(code), statement });
                self.session.change(|session| session.closed(id));
            }
        }
        Ok(DecodedRequest::default())
    }

    /// Posts a command without a statement.
    fn administer<R: Reader>(&mut self, code: u8, c: &mut Cursor<'_, '_, '_, R>) -> RequestRead {
        match code {
            command::INIT_DB => c.rest(Account::Metadata, "database name"),
            command::CREATE_DB | command::DROP_DB => c.rest(Account::Schema, "database name"),
            command::FIELD_LIST => {
                super::wire::nul_text(c, Account::Schema, "table name")?;
                c.rest(Account::Schema, "pattern");
            }
            command::CHANGE_USER => super::handshake::change_user(c, &self.session)?,
            command::BINLOG_DUMP | command::BINLOG_DUMP_GTID | command::REGISTER_REPLICA | command::TABLE_DUMP => {
                self.session.put(|session| &mut session.replicates, true);
                c.rest(Account::Metadata, "position");
            }
            _ => c.rest(Account::Metadata, "argument"),
        }
        Ok(DecodedRequest::default())
    }

    /// Posts `COM_QUERY`: attributes, if any, and a text.
    fn query<R: Reader>(&mut self, c: &mut Cursor<'_, '_, '_, R>, is_continued: bool) -> RequestRead {
        // A text never starts with these bytes.
        let looks_so = || c.peek().get(1) == Some(&1) && c.peek().first().is_some_and(|count| *count < b'\t');
        if self.session.has(capability::QUERY_ATTRIBUTES).unwrap_or_else(looks_so) {
            c.out().enter("attributes");
            let count = lenenc(c, Account::Framing, "parameter count")?;
            lenenc(c, Account::Framing, "parameter set count")?;
            if count > 0 {
                let nulls = c.take(count.div_ceil(8), Account::Framing, "null bitmap")?;
                c.skip(1, Account::Metadata, "new parameters")?;
                let types = parameter_types(c, count, true)?;
                values(c, &mut present(&types, nulls, 0), is_continued)?;
            }
            c.out().leave();
        }
        let named = text(c, is_continued, self.session.is_unescaped);
        let has_begun = self.session.has_begun;
        if self.session.replicates {
            let (name, statement) = (named.verb.or("QUERY"), named.text.as_str());
            c.out().label_current(Label { class: Class::Background, name, via: "text", statement });
        } else {
            label(&named, ("QUERY", "text"), has_begun, c.out());
        }
        self.session.put(|session| &mut session.has_begun, has_begun || !named.is_settings);
        Ok(DecodedRequest::all(Account::Query, "statement"))
    }

    fn execute<R: Reader>(&mut self, c: &mut Cursor<'_, '_, '_, R>, is_continued: bool) -> RequestRead {
        let id = c.u32_le(Account::Metadata, "statement id")?;
        let is_unseen = self.label_execution(id, "prepared", c);
        let flags = c.u8(Account::Metadata, "flags")?;
        c.skip(4, Account::Metadata, "iteration count")?;
        let sent = DecodedRequest { statement: Some(id), is_unseen, ..DecodedRequest::default() };
        if c.remaining() == 0 {
            self.forget_sent_ahead(id);
            return Ok(sent);
        }
        let known = self.known(id).map(|statement| u64::from(statement.parameters));
        let Some(mut count) = known else {
            match if is_continued { None } else { fitted(c) } {
                // Without the number of parameters, values cannot be located.
                None => {
                    return Ok(DecodedRequest { rest: is_continued.then_some(PacketContinuation::Undecoded), ..sent });
                }
                // Later executions omit the types.
                Some(types) if id == LAST_PREPARED => self.pairing.bind_last(types),
                Some(_) => {}
            }
            return Ok(sent);
        };
        let has_names =
            self.session.has(capability::QUERY_ATTRIBUTES).unwrap_or(flags & PARAMETER_COUNT_AVAILABLE != 0);
        if has_names && (count > 0 || flags & PARAMETER_COUNT_AVAILABLE != 0) {
            count = lenenc(c, Account::Framing, "parameter count")?;
        }
        if count == 0 {
            return Ok(sent);
        }
        let rest = self.parameters(id, (count, has_names), c, is_continued)?;
        Ok(DecodedRequest { rest, ..sent })
    }

    /// Posts the parameters of an execution: null bitmap, types if they are new, and values.
    fn parameters<R: Reader>(
        &mut self,
        id: u32,
        (count, has_names): (u64, bool),
        c: &mut Cursor<'_, '_, '_, R>,
        is_continued: bool,
    ) -> FieldRead<Option<PacketContinuation>> {
        let nulls = c.take(count.div_ceil(8), Account::Framing, "null bitmap")?;
        let is_bound = c.u8(Account::Metadata, "new parameters")? == 1;
        if is_bound {
            let types = parameter_types(c, count, has_names)?;
            if self.session.statement(id).is_some_and(|statement| statement.bound != types) {
                self.session.change(|session| session.change_statement(id, |statement| statement.bound = types));
            }
        }
        let Some(statement) = self.session.statement(id) else { return Err(Short) };
        let mut nulls = std::borrow::Cow::Borrowed(nulls);
        for &index in &statement.sent_ahead {
            // Parameters sent in advance are absent here.
            if let Some(byte) = nulls.to_mut().get_mut(usize::from(index) / 8) {
                *byte |= 1 << (index % 8);
            }
        }
        let mut layouts = present(&statement.bound, &nulls, 0);
        c.out().enter("parameters");
        let read = values(c, &mut layouts, is_continued)?;
        let rest = PacketContinuation::from_values_read(read, layouts);
        untyped(c);
        c.out().leave();
        self.forget_sent_ahead(id);
        Ok(rest.filter(|_| is_continued))
    }

    /// Posts `COM_STMT_BULK_EXECUTE` of `MariaDB`: rows of parameters, each with an indicator byte.
    fn bulk<R: Reader>(&mut self, c: &mut Cursor<'_, '_, '_, R>, is_continued: bool) -> RequestRead {
        let id = c.u32_le(Account::Metadata, "statement id")?;
        self.label_execution(id, "bulk", c);
        let sent = DecodedRequest {
            statement: Some(id),
            rest: Some(PacketContinuation::Undecoded),
            ..DecodedRequest::default()
        };
        let flags = c.array(Account::Metadata, "flags").map(u16::from_le_bytes)?;
        let Some(count) = self.known(id).map(|known| known.parameters) else { return Ok(sent) };
        if flags & SEND_TYPES != 0 {
            let types = parameter_types(c, u64::from(count), false)?;
            if self.session.statement(id).is_some_and(|statement| statement.bound != types) {
                self.session.change(|session| session.change_statement(id, |statement| statement.bound = types));
            }
        }
        let Some(statement) = self.session.statement(id) else { return Ok(sent) };
        let layouts: Option<Vec<ValueLayout>> =
            statement.bound.iter().map(|&kind| ValueLayout::from_kind(kind)).collect();
        let Some(layouts) = layouts.filter(|layouts| !layouts.is_empty()) else {
            untyped(c);
            return Ok(sent);
        };
        let rest = BulkRows::new(layouts)
            .rows(c, is_continued)
            .ok()
            .flatten()
            .map_or(PacketContinuation::Undecoded, PacketContinuation::Bulk);
        Ok(DecodedRequest { rest: Some(rest), ..sent })
    }

    /// Posts `COM_STMT_SEND_LONG_DATA`: part of a parameter.
    fn long_data<R: Reader>(&mut self, c: &mut Cursor<'_, '_, '_, R>) -> RequestRead {
        let id = c.u32_le(Account::Metadata, "statement id")?;
        self.label_part(id, "LONG DATA", c);
        let index = c.array(Account::Metadata, "parameter number").map(u16::from_le_bytes)?;
        c.rest(Account::Data, "value");
        let is_new = self.session.statement(id).is_some_and(|known| !known.sent_ahead.contains(&index));
        if is_new {
            self.session.change(|session| session.change_statement(id, |statement| statement.sent_ahead.push(index)));
        }
        Ok(DecodedRequest::all(Account::Data, "value"))
    }

    /// An execution uses up the parameters sent in advance.
    fn forget_sent_ahead(&mut self, id: u32) {
        if self.session.statement(id).is_some_and(|statement| !statement.sent_ahead.is_empty()) {
            self.session.change(|session| session.change_statement(id, |statement| statement.sent_ahead.clear()));
        }
    }

    /// Returns the statement with this id, if its definition is known.
    fn known(&self, id: u32) -> Option<&MysqlStatement> {
        let is_open = id == LAST_PREPARED && self.pairing.prepares_last().is_some();
        self.session.statement(id).filter(|_| !is_open)
    }

    /// Returns the summary of the statement with this id.
    fn named(&self, id: u32) -> StatementSummary {
        let known = if id == LAST_PREPARED { self.pairing.prepares_last() } else { None };
        known
            .or_else(|| Some(self.session.statement(id)?.named.clone()))
            .unwrap_or_else(|| self.given.summary(&id.to_string(), StatementDialect::mysql(self.session.is_unescaped)))
    }

    /// Labels a command that accompanies the execution of a statement.
    fn label_part<R: Reader>(&mut self, id: u32, name: &str, c: &mut Cursor<'_, '_, '_, R>) {
        let class = if self.session.replicates { Class::Background } else { Class::Workload };
        let named = self.named(id);
        c.out().label_current(Label { class, name, via: "prepared", statement: named.text.as_str() });
    }

    /// Names an execution after its statement. Returns whether its text is unknown.
    fn label_execution<R: Reader>(&mut self, id: u32, via: &'static str, c: &mut Cursor<'_, '_, '_, R>) -> bool {
        let has_begun = self.session.has_begun;
        let named = self.named(id);
        label(&named, ("EXECUTE", via), has_begun, c.out());
        self.session.put(|session| &mut session.has_begun, has_begun || !named.is_settings);
        named.text.is_unseen()
    }
}

/// Most parameters tried for an unknown statement.
const TRIED: usize = 256;

/// Posts the parameters of an unknown statement and returns their types, if exactly one number of parameters fits.
fn fitted<R: Reader>(c: &mut Cursor<'_, '_, '_, R>) -> Option<Vec<u8>> {
    let inside = c.peek();
    if inside.len() as u64 != c.remaining() {
        return None;
    }
    let mut fitting = (1..=TRIED).filter_map(|count| Some((count, parameters_of(inside, count)?)));
    let (Some((count, types)), None) = (fitting.next(), fitting.next()) else { return None };
    let bitmap = count.div_ceil(8);
    let _ = c.skip(bitmap as u64, Account::Framing, "null bitmap");
    let _ = c.skip(1, Account::Metadata, "new parameters");
    let _ = c.skip(2 * count as u64, Account::Schema, "parameter type");
    let nulls = inside.get(..bitmap).unwrap_or_default();
    c.out().enter("parameters");
    // Other values might fit another number.
    c.out().set_read(true);
    let done = values(c, &mut present(&types, nulls, 0), false);
    c.out().set_read(false);
    c.out().leave();
    done.is_ok().then_some(types)
}

/// Returns the types of `count` parameters, if they take up exactly `inside`.
fn parameters_of(inside: &[u8], count: usize) -> Option<Vec<u8>> {
    let (nulls, behind) = inside.split_at_checked(count.div_ceil(8))?;
    let (&1, behind) = behind.split_first()? else { return None };
    let (pairs, mut values) = behind.split_at_checked(2 * count)?;
    // Unused bits are 0, and so are all flags but one.
    let is_sound = count.is_multiple_of(8) || nulls.last()? >> (count % 8) == 0;
    let types: Vec<u8> = pairs.chunks_exact(2).filter(|pair| matches!(pair[1], 0 | 0x80)).map(|pair| pair[0]).collect();
    let is_known = types.len() == count && types.iter().all(|&kind| ValueLayout::from_kind(kind).is_some());
    for layout in present(&types, nulls, 0).filter(|_| is_sound && is_known) {
        let (len, used) = match layout {
            ValueLayout::Fixed(len) => (u64::from(len), 0),
            ValueLayout::Counted | ValueLayout::Text => lenenc_at(values)?,
        };
        values = values.get(used..)?.get(usize::try_from(len).ok()?..)?;
    }
    (is_sound && is_known && values.is_empty()).then_some(types)
}

/// Returns the `via` of a command.
fn via_of(code: u8) -> &'static str {
    match code {
        command::QUERY => "text",
        command::STMT_BULK_EXECUTE => "bulk",
        command::STMT_PREPARE..=command::STMT_RESET | command::STMT_FETCH => "prepared",
        _ => "",
    }
}

/// Posts the text of a statement and returns its summary. It may continue in another packet. `is_unescaped`:
/// backslashes are ordinary characters.
fn text<R: Reader>(c: &mut Cursor<'_, '_, '_, R>, is_continued: bool, is_unescaped: bool) -> StatementSummary {
    let text = c.peek();
    let is_whole = !is_continued && text.len() as u64 == c.remaining();
    let is_wanted = c.out().wants_statements();
    let dialect = StatementDialect::mysql(is_unescaped);
    let (named, has_free_numbers) = StatementSummary::new(text, is_whole, dialect, is_wanted);
    if has_free_numbers {
        c.out().free_numbers(text);
    }
    c.rest(Account::Query, "statement");
    named
}

/// Posts the types of parameters, with their names if there are any, and returns the types.
fn parameter_types<R: Reader>(c: &mut Cursor<'_, '_, '_, R>, count: u64, has_names: bool) -> FieldRead<Vec<u8>> {
    let most = usize::try_from(count).ok().filter(|&count| count <= limits::PARAMETERS * 4).ok_or(Short)?;
    if !has_names {
        let pairs = c.take(2 * count, Account::Schema, "parameter type")?;
        return Ok(pairs.chunks_exact(2).filter_map(|pair| pair.first().copied()).collect());
    }
    let mut types = Vec::with_capacity(most.min(c.peek().len()));
    for _ in 0..count {
        let [kind, _] = c.array(Account::Schema, "parameter type")?;
        types.push(kind);
        lenenc_text(c, Account::Schema, "parameter name")?;
    }
    Ok(types)
}
