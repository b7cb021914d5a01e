//! Request bodies (section 4.1) to postings.

use super::cells;
use super::decode::CqlBody;
use super::pair::CqlCompression;
use super::statement::CqlStatement;
use super::types::CqlTypeTable;
use super::wire::{Header, bytes, flag, free_bytes, opcode, string, string_list};
use crate::statement::{NormalisedStatement, StatementDialect, StatementText as Asked};
use overhead_decode::{Cursor, FieldRead, Free, Reader, Short};
use overhead_model::{Account, Side};

/// Flags of `<query_parameters>` (section 4.1.4).
mod parameter {
    pub const VALUES: u32 = 0x01;
    pub const PAGE_SIZE: u32 = 0x04;
    pub const PAGING_STATE: u32 = 0x08;
    pub const SERIAL_CONSISTENCY: u32 = 0x10;
    pub const TIMESTAMP: u32 = 0x20;
    pub const NAMES: u32 = 0x40;
    pub const KEYSPACE: u32 = 0x80;
    pub const NOW: u32 = 0x100;
}

/// Distinct statements of a batch that are kept; more would be cut from the text anyway.
const BATCH: usize = 32;

impl CqlBody<'_> {
    /// Posts the body of a request and records its statement.
    pub fn request<R: Reader>(&mut self, cursor: &mut Cursor<'_, '_, '_, R>) -> FieldRead {
        if self.header.has(flag::CUSTOM_PAYLOAD) && self.header.version > 3 {
            custom_payload(cursor)?;
        }
        match self.header.opcode {
            opcode::STARTUP => self.startup(cursor),
            opcode::CREDENTIALS => options(cursor, |_, _| {}),
            opcode::QUERY => self.query(cursor),
            opcode::PREPARE => self.prepare(cursor),
            opcode::EXECUTE => self.execute(cursor),
            opcode::BATCH => self.batch(cursor),
            opcode::REGISTER => string_list(cursor, Account::Metadata, "event type"),
            opcode::AUTH_RESPONSE => bytes(cursor, Account::Metadata, "token"),
            _ => Ok(()),
        }
    }

    fn startup<R: Reader>(&mut self, cursor: &mut Cursor<'_, '_, '_, R>) -> FieldRead {
        let (mut name, mut version): (&[u8], &[u8]) = (b"", b"");
        let memory = &mut self.session.memory;
        memory.put(|memory| &mut memory.compression, CqlCompression::None);
        let result = options(cursor, |key, value| match key {
            b"COMPRESSION" => {
                let compression = match value.to_ascii_lowercase().as_slice() {
                    b"lz4" => CqlCompression::Lz4,
                    b"snappy" => CqlCompression::Snappy,
                    _ => CqlCompression::None,
                };
                memory.put(|memory| &mut memory.compression, compression);
            }
            b"DRIVER_NAME" => name = value,
            b"DRIVER_VERSION" => version = value,
            b"SCYLLA_USE_METADATA_ID" => memory.put(|memory| &mut memory.extensions.metadata_ids, true),
            b"TABLETS_ROUTING_V2_EXPERIMENTAL_V2" => memory.put(|memory| &mut memory.extensions.tablet_versions, true),
            _ => {}
        });
        if !name.is_empty() {
            let text = format!("{} {}", String::from_utf8_lossy(name), String::from_utf8_lossy(version));
            cursor.out().software(Side::Request, text.trim_end());
        }
        result
    }

    fn query<R: Reader>(&mut self, cursor: &mut Cursor<'_, '_, '_, R>) -> FieldRead {
        let (text, asked) = statement(cursor)?;
        self.session.name_by_text(self.exchange, text);
        self.exchange.asked = asked;
        if self.header.version == 1 {
            return cursor.skip(2, Account::Metadata, "consistency");
        }
        parameters(self.header, &CqlTypeTable::default(), cursor)
    }

    fn prepare<R: Reader>(&mut self, cursor: &mut Cursor<'_, '_, '_, R>) -> FieldRead {
        let (text, asked) = statement(cursor)?;
        self.session.name_prepare(self.exchange, text);
        self.exchange.asked = asked;
        if self.header.version >= 5 {
            let flags = cursor.u32_be(Account::Metadata, "flags")?;
            if flags & 0x01 != 0 {
                string(cursor, Account::Schema, "keyspace name")?;
            }
        }
        Ok(())
    }

    fn execute<R: Reader>(&mut self, cursor: &mut Cursor<'_, '_, '_, R>) -> FieldRead {
        let id = string(cursor, Account::Metadata, "statement id")?;
        self.session.name_by_id(self.exchange, id);
        if self.header.version >= 5 || self.session.memory.extensions.metadata_ids {
            let metadata_id = string(cursor, Account::Metadata, "result metadata id")?;
            if let Some(statement) = self.exchange.statement {
                self.session.adopt_result_types(statement, metadata_id);
            }
        }
        let untyped = CqlTypeTable::default();
        let prepared = self.exchange.statement.and_then(|statement| self.session.prepared(statement));
        let types = prepared.map_or(&untyped, |prepared| &prepared.bind);
        if self.header.version == 1 {
            values(false, types, cursor)?;
            return cursor.skip(2, Account::Metadata, "consistency");
        }
        parameters(self.header, types, cursor)?;
        if self.session.memory.extensions.tablet_versions {
            cursor.skip(1, Account::Metadata, "tablet version block")?;
        }
        Ok(())
    }

    fn batch<R: Reader>(&mut self, cursor: &mut Cursor<'_, '_, '_, R>) -> FieldRead {
        self.session.mark_used();
        let is_wanted = cursor.out().wants_statements();
        let mut asked = Vec::new();
        cursor.skip(1, Account::Metadata, "batch type")?;
        let count = cursor.u16_be(Account::Framing, "statement count")?;
        let untyped = CqlTypeTable::default();
        for _ in 0..count {
            cursor.out().enter("batch statement");
            let types = match cursor.u8(Account::Framing, "statement kind")? {
                0 => {
                    let (_, text) = statement(cursor)?;
                    add(text, &mut asked);
                    &untyped
                }
                1 => {
                    let id = string(cursor, Account::Metadata, "statement id")?;
                    let prepared = self.session.find(id).and_then(|statement| self.session.prepared(statement));
                    add(prepared.map_or_else(|| self.session.unseen(id), |prepared| prepared.text.clone()), &mut asked);
                    prepared.map_or(&untyped, |prepared| &prepared.bind)
                }
                _ => return Err(Short),
            };
            // Values of a batch are never named: the flag follows them (section 4.1.7).
            values(false, types, cursor)?;
            cursor.out().leave();
        }
        if is_wanted {
            self.exchange.asked = Asked::joined(&asked);
        }
        cursor.skip(2, Account::Metadata, "consistency")?;
        if self.header.version < 3 {
            return Ok(());
        }
        let flags = query_flags(self.header, cursor)?;
        tail(self.header, flags, cursor)
    }
}

/// `[bytes map]` for or from a query handler; ScyllaDB puts `tablets-routing-v1` there.
pub fn custom_payload<R: Reader>(cursor: &mut Cursor<'_, '_, '_, R>) -> FieldRead {
    cursor.out().enter("custom payload");
    let count = cursor.u16_be(Account::Framing, "map length")?;
    for _ in 0..count {
        string(cursor, Account::Metadata, "key")?;
        bytes(cursor, Account::Metadata, "value")?;
    }
    cursor.out().leave();
    Ok(())
}

fn options<'a, R: Reader>(cursor: &mut Cursor<'a, '_, '_, R>, mut option: impl FnMut(&'a [u8], &'a [u8])) -> FieldRead {
    let count = cursor.u16_be(Account::Framing, "map length")?;
    for _ in 0..count {
        let key = string(cursor, Account::Metadata, "option")?;
        let value = string(cursor, Account::Metadata, "option value")?;
        option(key, value);
    }
    Ok(())
}

/// Reads the text of a statement. Digits of numbers are free to differ: no recognised word contains any.
fn statement<'a, R: Reader>(cursor: &mut Cursor<'a, '_, '_, R>) -> FieldRead<(&'a [u8], Asked)> {
    let length = u64::from(cursor.u32_be(Account::Framing, "string length")?);
    let here = cursor.peek();
    let whole = usize::try_from(length).ok().and_then(|length| here.get(..length));
    let verb = |text| move || CqlStatement::parse(text).verb.unwrap_or_default().to_owned();
    let read = |text| crate::statement::normalise_cached(text, whole.is_some(), StatementDialect::Cql, verb(text));
    let is_wanted = cursor.out().wants_statements();
    let normalised = if is_wanted { read(whole.unwrap_or(here)) } else { NormalisedStatement::default() };
    if normalised.has_free_numbers {
        cursor.out().free_numbers(whole.unwrap_or_default());
    }
    Ok((cursor.text(length, Account::Query, "statement")?, normalised.statement))
}

/// `<query_parameters>` of `QUERY` and `EXECUTE`.
fn parameters<R: Reader>(header: &Header, types: &CqlTypeTable, cursor: &mut Cursor<'_, '_, '_, R>) -> FieldRead {
    cursor.skip(2, Account::Metadata, "consistency")?;
    let flags = query_flags(header, cursor)?;
    if flags & parameter::VALUES != 0 {
        values(flags & parameter::NAMES != 0, types, cursor)?;
    }
    if flags & parameter::PAGE_SIZE != 0 {
        cursor.skip(4, Account::Metadata, "page size")?;
    }
    if flags & parameter::PAGING_STATE != 0 {
        free_bytes(cursor, Account::Metadata, "paging state")?;
    }
    tail(header, flags, cursor)
}

/// The last parameters, which `BATCH` has too.
fn tail<R: Reader>(header: &Header, flags: u32, cursor: &mut Cursor<'_, '_, '_, R>) -> FieldRead {
    if flags & parameter::SERIAL_CONSISTENCY != 0 {
        cursor.skip(2, Account::Metadata, "serial consistency")?;
    }
    if flags & parameter::TIMESTAMP != 0 {
        cursor.skip_free(8, Account::Metadata, "timestamp", Free::Any)?;
    }
    if header.version >= 5 && flags & parameter::KEYSPACE != 0 {
        string(cursor, Account::Schema, "keyspace name")?;
    }
    if header.version >= 5 && flags & parameter::NOW != 0 {
        cursor.skip(4, Account::Metadata, "now in seconds")?;
    }
    Ok(())
}

/// One byte up to version 4, four from version 5.
fn query_flags<R: Reader>(header: &Header, cursor: &mut Cursor<'_, '_, '_, R>) -> FieldRead<u32> {
    if header.version >= 5 {
        cursor.u32_be(Account::Metadata, "flags")
    } else {
        cursor.u8(Account::Metadata, "flags").map(u32::from)
    }
}

fn values<R: Reader>(named: bool, types: &CqlTypeTable, cursor: &mut Cursor<'_, '_, '_, R>) -> FieldRead {
    cursor.out().enter("values");
    let count = cursor.u16_be(Account::Framing, "value count")?;
    for index in 0..usize::from(count) {
        if named {
            // Named values may have any order, so the markers' types do not apply.
            string(cursor, Account::Schema, "value name")?;
        }
        cells::value(types.columns.get(index).filter(|_| !named), cursor)?;
    }
    cursor.out().leave();
    Ok(())
}

/// Adds a statement that the batch does not contain yet.
fn add(statement: Asked, asked: &mut Vec<Asked>) {
    if asked.len() < BATCH && !asked.contains(&statement) {
        asked.push(statement);
    }
}
