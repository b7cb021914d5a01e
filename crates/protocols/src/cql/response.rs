//! Response bodies (section 4.2) to postings.

use super::cells;
use super::decode::CqlBody;
use super::request::custom_payload;
use super::statement::is_system_keyspace;
use super::types::CqlTypeTable;
use super::wire::{Header, bytes, flag, free_bytes, opcode, string, string_list};
use crate::limits::NESTING;
use crate::statement::add_column;
use overhead_decode::{Cursor, FieldRead, Reader, Short};
use overhead_model::{Account, Class, Side};

/// Flags of `<metadata>` (section 4.2.5.2).
mod metadata {
    pub const GLOBAL_TABLE: u32 = 0x01;
    pub const MORE_PAGES: u32 = 0x02;
    pub const ABSENT: u32 = 0x04;
    pub const CHANGED: u32 = 0x08;
}

impl CqlBody<'_> {
    pub fn response<R: Reader>(&mut self, cursor: &mut Cursor<'_, '_, '_, R>) -> FieldRead {
        if self.header.has(flag::TRACING) {
            cursor.skip(16, Account::Metadata, "tracing id")?;
        }
        if self.header.has(flag::WARNING) && self.header.version > 3 {
            cursor.out().enter("warnings");
            string_list(cursor, Account::Status, "warning")?;
            cursor.out().leave();
        }
        if self.header.has(flag::CUSTOM_PAYLOAD) && self.header.version > 3 {
            custom_payload(cursor)?;
        }
        match self.header.opcode {
            opcode::ERROR => self.error(cursor),
            opcode::AUTHENTICATE => string(cursor, Account::Metadata, "authenticator").map(drop),
            opcode::SUPPORTED => self.supported(cursor),
            opcode::RESULT => self.result(cursor),
            opcode::EVENT => event(cursor),
            opcode::AUTH_CHALLENGE | opcode::AUTH_SUCCESS => bytes(cursor, Account::Metadata, "token"),
            _ => Ok(()),
        }
    }

    /// `[string multimap]` of the server's options.
    fn supported<R: Reader>(&mut self, cursor: &mut Cursor<'_, '_, '_, R>) -> FieldRead {
        let count = cursor.u16_be(Account::Framing, "map length")?;
        for _ in 0..count {
            let key = string(cursor, Account::Metadata, "option")?;
            let values = cursor.u16_be(Account::Framing, "list length")?;
            if key.starts_with(b"SCYLLA_") {
                self.session.memory.put(|memory| &mut memory.extensions.scylla, true);
            }
            for _ in 0..values {
                let value = string(cursor, Account::Metadata, "option value")?;
                if key == b"SCYLLA_RATE_LIMIT_ERROR" {
                    let code = value.strip_prefix(b"ERROR_CODE=").and_then(|code| std::str::from_utf8(code).ok());
                    let code = code.and_then(|code| code.parse::<i32>().ok()).map(i32::cast_unsigned);
                    self.session.memory.put(|memory| &mut memory.extensions.rate_limit_code, code);
                }
            }
        }
        if self.session.memory.extensions.scylla {
            cursor.out().software(Side::Response, "ScyllaDB");
        }
        Ok(())
    }

    /// Code, message, and details that depend on the code (section 9).
    fn error<R: Reader>(&mut self, cursor: &mut Cursor<'_, '_, '_, R>) -> FieldRead {
        const STATUS: Account = Account::Status;
        let code = cursor.u32_be(STATUS, "error code")?;
        string(cursor, STATUS, "error message")?;
        match code {
            // Unavailable; unknown outcome of a conditional write.
            0x1000 | 0x1700 => cursor.skip(10, STATUS, "replicas"),
            // Write timeout.
            0x1100 => {
                cursor.skip(10, STATUS, "replicas")?;
                let write_type = string(cursor, STATUS, "write type")?;
                let contentions = self.header.version >= 5 && write_type == b"CAS";
                cursor.skip(if contentions { 2 } else { 0 }, STATUS, "contentions")
            }
            // Read timeout.
            0x1200 => {
                cursor.skip(10, STATUS, "replicas")?;
                cursor.skip(1, STATUS, "data present")
            }
            // Read and write failure.
            0x1300 => {
                failures(self.header, cursor)?;
                cursor.skip(1, STATUS, "data present")
            }
            0x1500 => {
                failures(self.header, cursor)?;
                string(cursor, STATUS, "write type").map(drop)
            }
            // Function failure.
            0x1400 => {
                string(cursor, Account::Schema, "keyspace name")?;
                string(cursor, Account::Schema, "function name")?;
                string_list(cursor, Account::Schema, "argument type")
            }
            // Already exists.
            0x2400 => {
                string(cursor, Account::Schema, "keyspace name")?;
                string(cursor, Account::Schema, "table name").map(drop)
            }
            // Unprepared.
            0x2500 => string(cursor, Account::Metadata, "statement id").map(drop),
            code if Some(code) == self.session.memory.extensions.rate_limit_code => {
                cursor.skip(1, STATUS, "operation type")?;
                cursor.skip(1, STATUS, "rejected by coordinator")
            }
            _ => Ok(()),
        }
    }

    fn result<R: Reader>(&mut self, cursor: &mut Cursor<'_, '_, '_, R>) -> FieldRead {
        // A kind without a body is the whole answer.
        let account = if cursor.remaining() == 4 { Account::Status } else { Account::Framing };
        match cursor.u32_be(account, "result kind")? {
            1 => Ok(()),
            2 => self.rows(cursor),
            3 => {
                let name = string(cursor, Account::Schema, "keyspace name")?;
                self.session.memory.put(|memory| &mut memory.in_system_keyspace, is_system_keyspace(name));
                Ok(())
            }
            4 => self.prepared(cursor),
            5 => schema_change(cursor),
            _ => Err(Short),
        }
    }

    fn rows<R: Reader>(&mut self, cursor: &mut Cursor<'_, '_, '_, R>) -> FieldRead {
        let mut types = std::mem::take(&mut self.session.row_types);
        types.clear();
        // Collections had another layout before version 3.
        let untyped = CqlTypeTable::default();
        let metadata = read_metadata(cursor, &mut types, self.exchange.unseen.is_some(), |_| Ok(()));
        let done = metadata.and_then(|metadata| {
            self.apply_metadata(&metadata, &types);
            let prepared = self.exchange.statement.and_then(|statement| self.session.prepared(statement));
            let known = match prepared {
                Some(prepared) if !metadata.stated && prepared.result.columns.len() == metadata.columns as usize => {
                    &prepared.result
                }
                _ => &types,
            };
            let known = if self.header.version < 3 { &untyped } else { known };
            metadata.cells(self.session.memory.extensions.scylla, known, cursor)
        });
        self.session.row_types = types;
        done
    }

    /// Updates the statement and its name from the metadata of its rows.
    fn apply_metadata(&mut self, metadata: &CqlMetadata<'_>, types: &CqlTypeTable) {
        if let (true, Some(metadata_id), Some(statement)) = (metadata.stated, metadata.changed, self.exchange.statement)
        {
            self.session.result_changed(statement, metadata_id, types);
        }
        if let (true, Some(system)) = (self.exchange.guessed, metadata.system) {
            if !metadata.conditional {
                self.exchange.name = "SELECT";
            }
            if system {
                self.exchange.class = Class::Background;
            }
        }
        if let (Some(_), Some(columns), false) = (metadata.system, &metadata.names, metadata.conditional)
            && let Some(id) = self.exchange.unseen.take()
        {
            self.exchange.asked = self.session.unseen(&id).described(columns);
            let ids = (&*id, metadata.changed.unwrap_or_default());
            let result = if self.header.version < 3 { CqlTypeTable::default() } else { types.clone() };
            self.session.remember(self.exchange, ids, CqlTypeTable::default(), result, metadata.system);
        }
    }

    fn prepared<R: Reader>(&mut self, cursor: &mut Cursor<'_, '_, '_, R>) -> FieldRead {
        let id = string(cursor, Account::Metadata, "statement id")?;
        let mut metadata_id: &[u8] = &[];
        if self.header.version >= 5 || self.session.memory.extensions.metadata_ids {
            metadata_id = string(cursor, Account::Metadata, "result metadata id")?;
        }
        let (mut bind, mut result) = (CqlTypeTable::default(), CqlTypeTable::default());
        let is_unseen = self.exchange.prepares.is_none();
        let metadata = prepared_metadata(self.header, (&mut bind, &mut result), is_unseen, cursor);
        if self.header.version < 3 {
            (bind, result) = (CqlTypeTable::default(), CqlTypeTable::default());
        }
        let rows = metadata.as_ref().ok().and_then(|metadata| metadata.system.filter(|_| !metadata.conditional));
        if is_unseen {
            let columns = metadata.as_ref().ok().and_then(|metadata| metadata.names.as_deref());
            self.exchange.asked = self.session.unseen(id).described(columns.unwrap_or_default());
        }
        // A snapped message still provides the id and some types.
        self.session.remember(self.exchange, (id, metadata_id), bind, result, rows);
        metadata.map(drop)
    }
}

/// Consistency, received, required, then a failure count or, from version 5, the reason for each.
fn failures<R: Reader>(header: &Header, cursor: &mut Cursor<'_, '_, '_, R>) -> FieldRead {
    cursor.skip(10, Account::Status, "replicas")?;
    if header.version < 5 {
        return cursor.skip(4, Account::Status, "failures");
    }
    let count = cursor.u32_be(Account::Framing, "map length")?;
    for _ in 0..count {
        let size = cursor.u8(Account::Framing, "address length")?;
        cursor.skip(u64::from(size), Account::Status, "address")?;
        cursor.skip(2, Account::Status, "failure code")?;
    }
    Ok(())
}

fn event<R: Reader>(cursor: &mut Cursor<'_, '_, '_, R>) -> FieldRead {
    match string(cursor, Account::Status, "event type")? {
        b"SCHEMA_CHANGE" => schema_change(cursor),
        b"TOPOLOGY_CHANGE" | b"STATUS_CHANGE" => {
            string(cursor, Account::Status, "change")?;
            let size = cursor.u8(Account::Framing, "address length")?;
            cursor.skip(u64::from(size), Account::Status, "address")?;
            cursor.skip(4, Account::Status, "port")
        }
        b"CLIENT_ROUTES_CHANGE" => {
            string(cursor, Account::Status, "change")?;
            string_list(cursor, Account::Status, "connection id")?;
            string_list(cursor, Account::Status, "host id")
        }
        _ => Err(Short),
    }
}

/// A change of schema (section 4.2.6), in an event or a result.
fn schema_change<R: Reader>(cursor: &mut Cursor<'_, '_, '_, R>) -> FieldRead {
    string(cursor, Account::Status, "change")?;
    let target = string(cursor, Account::Status, "target")?;
    string(cursor, Account::Schema, "keyspace name")?;
    match target {
        b"KEYSPACE" => Ok(()),
        b"FUNCTION" | b"AGGREGATE" => {
            string(cursor, Account::Schema, "name")?;
            string_list(cursor, Account::Schema, "argument type")
        }
        _ => string(cursor, Account::Schema, "name").map(drop),
    }
}

/// Contents of `<metadata>` other than the types.
#[derive(Default)]
struct CqlMetadata<'a> {
    columns: u32,
    /// The types are included.
    stated: bool,
    /// Id of the types, if they changed since the statement was prepared.
    changed: Option<&'a [u8]>,
    /// Whether the keyspace belongs to the server, if columns are included.
    system: Option<bool>,
    /// The result of a conditional write.
    conditional: bool,
    /// The column with the server's release.
    release: Option<u32>,
    /// Tables and columns, if wanted.
    names: Option<String>,
}

impl CqlMetadata<'_> {
    /// Posts the cells of all rows.
    fn cells<R: Reader>(&self, scylla: bool, types: &CqlTypeTable, cursor: &mut Cursor<'_, '_, '_, R>) -> FieldRead {
        let rows = cursor.u32_be(Account::Framing, "row count")?;
        cursor.out().enter("rows");
        for row in 0..if self.columns == 0 { 0 } else { rows } {
            for column in 0..self.columns {
                if row == 0 && self.release == Some(column) {
                    release(scylla, cursor);
                    cursor.out().set_read(true);
                }
                let read = cells::value(types.columns.get(column as usize), cursor);
                if row == 0 {
                    cursor.out().set_read(false);
                }
                read?;
            }
        }
        cursor.out().leave();
        Ok(())
    }

    /// Reads keyspace and table; true for `system.local`. Returns the table, too.
    fn table<'c, R: Reader>(&mut self, cursor: &mut Cursor<'c, '_, '_, R>) -> FieldRead<(bool, &'c [u8])> {
        let keyspace = string(cursor, Account::Schema, "keyspace name")?;
        let table = string(cursor, Account::Schema, "table name")?;
        let system = is_system_keyspace(keyspace);
        self.system = Some(system);
        Ok((system && table == b"local", table))
    }
}

/// Reports the server's release from the cell at the cursor.
fn release<R: Reader>(scylla: bool, cursor: &mut Cursor<'_, '_, '_, R>) {
    let &[a, b, c, d, ref rest @ ..] = cursor.peek() else { return };
    let length = usize::try_from(i32::from_be_bytes([a, b, c, d])).unwrap_or(0);
    let version = rest.get(..length).and_then(|version| std::str::from_utf8(version).ok());
    // ScyllaDB states the compatible Cassandra release.
    if let (Some(version @ [_, ..]), false) = (version.map(str::as_bytes), scylla) {
        let name = format!("Cassandra {}", String::from_utf8_lossy(version));
        cursor.out().software(Side::Response, &name);
    }
}

/// Reads the `<metadata>` of rows and prepared statements. `indexes` reads the prepared statements' fields after the
/// count.
fn read_metadata<'a, R: Reader>(
    cursor: &mut Cursor<'a, '_, '_, R>,
    types: &mut CqlTypeTable,
    wants_names: bool,
    indexes: impl FnOnce(&mut Cursor<'a, '_, '_, R>) -> FieldRead,
) -> FieldRead<CqlMetadata<'a>> {
    cursor.out().enter("metadata");
    let flags = cursor.u32_be(Account::Metadata, "flags")?;
    let mut metadata = CqlMetadata {
        columns: cursor.u32_be(Account::Framing, "column count")?,
        stated: flags & metadata::ABSENT == 0,
        names: wants_names.then(String::new),
        ..CqlMetadata::default()
    };
    indexes(cursor)?;
    if flags & metadata::MORE_PAGES != 0 {
        free_bytes(cursor, Account::Metadata, "paging state")?;
    }
    if flags & metadata::CHANGED != 0 {
        metadata.changed = Some(string(cursor, Account::Metadata, "result metadata id")?);
    }
    // A column takes at least a name length and a type id.
    if metadata.stated && u64::from(metadata.columns) * 4 > cursor.remaining() {
        return Err(Short);
    }
    if metadata.stated {
        columns(flags & metadata::GLOBAL_TABLE != 0, &mut metadata, types, cursor)?;
    }
    cursor.out().leave();
    Ok(metadata)
}

fn columns<R: Reader>(
    global: bool,
    metadata: &mut CqlMetadata<'_>,
    types: &mut CqlTypeTable,
    cursor: &mut Cursor<'_, '_, '_, R>,
) -> FieldRead {
    let (mut local, mut of) = (false, &b""[..]);
    if global {
        (local, of) = metadata.table(cursor)?;
    }
    for column in 0..metadata.columns {
        if !global {
            (local, of) = metadata.table(cursor)?;
        }
        let name = string(cursor, Account::Schema, "column name")?;
        let is_plain = || name.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
        if let Some(names) = metadata.names.as_mut().filter(|_| is_plain()) {
            add_column(names, &[of, name]);
        }
        if local && name == b"release_version" {
            metadata.release = Some(column);
        }
        metadata.conditional |= column == 0 && name == b"[applied]";
        let column = types.read(cursor, NESTING)?;
        types.columns.push(column);
    }
    Ok(())
}

/// Reads the types of bind markers and result; returns the result's metadata.
fn prepared_metadata<'a, R: Reader>(
    header: &Header,
    (bind, result): (&mut CqlTypeTable, &mut CqlTypeTable),
    wants_names: bool,
    cursor: &mut Cursor<'a, '_, '_, R>,
) -> FieldRead<CqlMetadata<'a>> {
    cursor.out().enter("bind markers");
    read_metadata(cursor, bind, false, |cursor| {
        if header.version < 4 {
            return Ok(());
        }
        let count = cursor.u32_be(Account::Framing, "partition key count")?;
        cursor.skip(u64::from(count) * 2, Account::Schema, "partition key indexes")
    })?;
    cursor.out().leave();
    if header.version == 1 {
        return Ok(CqlMetadata::default());
    }
    cursor.out().enter("result");
    let metadata = read_metadata(cursor, result, wants_names, |_| Ok(()))?;
    cursor.out().leave();
    Ok(metadata)
}
