//! Decodes replies into postings: `OK`, errors, results, definitions, rows ("Generic Response Packets", "Text
//! Resultset", "Binary Protocol Resultset" in `MySQL`'s manual).

use super::continuation::PacketContinuation;
use super::decode::PlainDecoder;
use super::pair::{ExpectedResponse, label};
use super::values::{ValueLayout, present, untyped, values};
use super::wire::{self, HEADER, capability, lenenc, lenenc_free, lenenc_text, status, u16_at};
use crate::statement::{StatementSummary, add_column};
use overhead_decode::{Cursor, FieldRead, Input, Out, Reader, Short};
use overhead_model::{Account, Outcome};

/// Most columns of a result (`MAX_FIELDS` of the server).
const COLUMNS: u64 = 4096;

/// The next expected packet of the current reply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum ResponseStage {
    /// The first packet of a reply or of a further result.
    #[default]
    First,
    /// A column definition; the number left.
    Columns(u64),
    /// An `EOF` packet after the definitions, if the server sends one, or a row.
    Defined,
    Rows,
    /// A parameter definition; the number left, and the number of columns after them.
    Parameters(u64, u64),
    /// The `EOF` packet after parameter definitions; the number of columns.
    Parameterized(u64),
    /// A column definition of a statement; the number left.
    PreparedColumns(u64),
    /// The last `EOF` packet of a statement.
    Prepared,
    Infile,
    /// The file is complete; its reply follows.
    FileSent,
    /// The client clones the server's data with commands of the clone protocol.
    Cloning,
    /// The client has ended the clone.
    Cloned,
    /// The packets cannot be identified.
    Blind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ResponseProgress {
    More,
    /// The reply is complete.
    Done,
}

/// What follows a packet of a reply.
pub(super) type ReplyRead = FieldRead<ResponseProgress>;

/// A packet, or the available part of a long one.
#[derive(Clone, Copy, Debug)]
pub(super) struct MysqlPacket<'a> {
    /// The bytes from its header on.
    pub input: Input<'a>,
    /// `None` if it is empty or was not captured.
    pub first: Option<u8>,
    pub sequence: u8,
    pub len: u64,
    /// Bytes decoded at once; the rest is posted as it arrives.
    pub here: u64,
    /// The message continues, in this packet or another one.
    pub is_continued: bool,
}

impl<'a> MysqlPacket<'a> {
    /// Returns a cursor over the packet, or its decoded piece, after its header.
    pub fn begin<'o, 'r, R: Reader>(self, out: &'o mut Out<'r, R>) -> Cursor<'a, 'o, 'r, R> {
        let mut c = Cursor::new(self.input, HEADER + self.here, out);
        let _ = c.skip(HEADER, Account::Framing, "packet header");
        c
    }

    /// Returns whether it ends definitions or rows.
    fn is_end(self) -> bool {
        self.first == Some(wire::EOF) && self.len < wire::FULL
    }

    pub fn is_eof(self) -> bool {
        self.first == Some(wire::EOF) && self.len <= wire::EOF_LENGTH
    }
}

impl PlainDecoder {
    pub(super) fn reply_packet<R: Reader>(
        &mut self,
        kind: ExpectedResponse,
        packet: MysqlPacket<'_>,
        c: &mut Cursor<'_, '_, '_, R>,
    ) -> ReplyRead {
        use {ExpectedResponse as Kind, ResponseStage as Stage};
        let Some(first) = packet.first.or_else(|| (packet.len == 0).then_some(0)) else {
            self.stage = Stage::Blind;
            return Err(Short);
        };
        if first == wire::ERR && self.stage != Stage::Blind {
            return Ok(self.error(c));
        }
        match (self.stage, kind) {
            (Stage::Rows, _) | (Stage::First, Kind::FieldList) if packet.is_end() => self.end_result(packet, c),
            (Stage::Rows, _) => self.row(packet, c),
            (Stage::First | Stage::Infile, Kind::Login | Kind::ChangeUser) => self.authentication(first, c),
            (Stage::First, Kind::Prepare) => self.prepare_ok(c),
            (Stage::First, Kind::Fetch) => {
                self.recall_columns();
                self.is_binary = Some(true);
                self.stage = Stage::Rows;
                if packet.is_end() { self.end_result(packet, c) } else { self.row(packet, c) }
            }
            (Stage::First, Kind::FieldList) => self.column(true, c).map(|_| ResponseProgress::More),
            (Stage::First, Kind::Text) => {
                c.rest(Account::Data, "text");
                Ok(ResponseProgress::Done)
            }
            (Stage::Cloned, Kind::Stream) if super::command::ends_clone(first) => {
                c.rest(Account::Status, "clone response");
                Ok(ResponseProgress::Done)
            }
            (Stage::First | Stage::Cloning | Stage::Cloned, Kind::Stream) => {
                let end = event(packet, c);
                self.rest_of_row = packet.is_continued.then_some(PacketContinuation::All(Account::Data, "event"));
                Ok(end)
            }
            (Stage::First | Stage::Infile | Stage::FileSent, Kind::Result { is_binary }) => {
                self.result(is_binary, packet, first, c)
            }
            (Stage::Columns(left), _) => {
                let kind = self.column(false, c)?;
                self.columns.push(kind);
                self.stage = if left > 1 { Stage::Columns(left - 1) } else { self.defined(c.out()) };
                Ok(ResponseProgress::More)
            }
            (Stage::Defined, _) => self.behind_definitions(packet, c),
            (Stage::Parameters(..) | Stage::Parameterized(_) | Stage::PreparedColumns(_) | Stage::Prepared, _) => {
                self.definitions(packet, c)
            }
            (Stage::Infile | Stage::FileSent | Stage::Cloning | Stage::Cloned | Stage::Blind, _) => Err(Short),
        }
    }

    /// Posts the first packet of a result.
    fn result<R: Reader>(
        &mut self,
        is_binary: Option<bool>,
        packet: MysqlPacket<'_>,
        first: u8,
        c: &mut Cursor<'_, '_, '_, R>,
    ) -> ReplyRead {
        // A column count of 0 is sent only with omitted definitions, in two bytes.
        match first {
            wire::OK => self.ok(c),
            wire::EOF if packet.is_end() => self.end_result(packet, c),
            wire::LOCAL_INFILE => {
                c.out().enter("file request");
                c.skip(1, Account::Framing, "header")?;
                c.rest(Account::Metadata, "file name");
                c.out().leave();
                self.stage = ResponseStage::Infile;
                Ok(ResponseProgress::More)
            }
            _ => {
                let count = lenenc(c, Account::Framing, "column count")?;
                let follows = if c.remaining() > 0 { c.u8(Account::Schema, "definitions follow")? != 0 } else { true };
                self.is_binary = is_binary;
                if count == 0 || count > COLUMNS {
                    self.stage = ResponseStage::Blind;
                    return Err(Short);
                }
                self.columns.clear();
                let is_unseen = self.pairing.queue.front_mut().is_some_and(|front| front.is_unseen);
                self.unseen_columns = is_unseen.then(String::new);
                self.column_count = count;
                self.is_defined = follows;
                if follows {
                    self.stage = ResponseStage::Columns(count);
                } else {
                    self.recall_columns();
                    self.stage = self.defined(c.out());
                }
                Ok(ResponseProgress::More)
            }
        }
    }

    /// Returns the stage after column definitions.
    fn defined<R: Reader>(&mut self, out: &mut Out<'_, R>) -> ResponseStage {
        self.remember_columns();
        if let (Some(columns), Some(front)) = (self.unseen_columns.take(), self.pairing.queue.front_mut())
            && let (Some(id), false) = (front.statement, columns.is_empty())
        {
            let named = StatementSummary::prepared_before(&id.to_string(), columns);
            label(&named, ("EXECUTE", "prepared"), true, out);
        }
        if self.session.has_eof() == Some(false) { ResponseStage::Rows } else { ResponseStage::Defined }
    }

    /// Posts the packet after definitions: an `EOF` packet if the server sends one; if unknown, this packet decides.
    fn behind_definitions<R: Reader>(&mut self, packet: MysqlPacket<'_>, c: &mut Cursor<'_, '_, '_, R>) -> ReplyRead {
        self.stage = ResponseStage::Rows;
        if self.session.has_eof().is_none() {
            self.session.put(|session| &mut session.is_eof_seen, Some(packet.is_eof()));
        }
        if !packet.is_eof() {
            return if packet.is_end() { self.end_result(packet, c) } else { self.row(packet, c) };
        }
        let flags = eof(packet, c)?;
        // A cursor was opened: rows will be fetched.
        if flags & status::CURSOR_EXISTS != 0 { Ok(self.ended(flags)) } else { Ok(ResponseProgress::More) }
    }

    fn row<R: Reader>(&mut self, packet: MysqlPacket<'_>, c: &mut Cursor<'_, '_, '_, R>) -> ReplyRead {
        let is_binary = *self.is_binary.get_or_insert_with(|| {
            let cells = usize::try_from(self.column_count).unwrap_or(usize::MAX);
            packet.first == Some(wire::OK) && !super::values::is_text_row(c.peek(), cells)
        });
        c.out().enter("row");
        let read = if is_binary { self.binary_row(packet, c) } else { self.text_row(packet, c) };
        c.out().leave();
        read.map(|()| ResponseProgress::More)
    }

    fn text_row<R: Reader>(&mut self, packet: MysqlPacket<'_>, c: &mut Cursor<'_, '_, '_, R>) -> FieldRead {
        let cells = usize::try_from(self.column_count).unwrap_or(usize::MAX);
        let mut layouts = std::iter::repeat_n(ValueLayout::Text, cells);
        let read = values(c, &mut layouts, packet.is_continued)?;
        self.rest_of_row = PacketContinuation::from_values_read(read, layouts).filter(|_| packet.is_continued);
        Ok(())
    }

    fn binary_row<R: Reader>(&mut self, packet: MysqlPacket<'_>, c: &mut Cursor<'_, '_, '_, R>) -> FieldRead {
        c.skip(1, Account::Framing, "header")?;
        if self.column_count == 0 || (self.columns.len() as u64) < self.column_count {
            // The statement was prepared and executed unseen.
            return Err(Short);
        }
        let nulls = c.take((self.column_count + 9) / 8, Account::Framing, "null bitmap")?;
        let mut layouts = present(&self.columns, nulls, 2);
        let read = values(c, &mut layouts, packet.is_continued)?;
        self.rest_of_row = PacketContinuation::from_values_read(read, layouts).filter(|_| packet.is_continued);
        if self.rest_of_row.is_none() {
            untyped(c);
        }
        Ok(())
    }

    /// Posts a column definition and returns its type.
    pub(super) fn column<R: Reader>(&mut self, has_default: bool, c: &mut Cursor<'_, '_, '_, R>) -> FieldRead<u8> {
        c.out().enter("column");
        let kind = if self.session.is_old() { old_column(c)? } else { self.new_column(c)? };
        if has_default && c.remaining() > 0 {
            if c.peek().first() == Some(&wire::LOCAL_INFILE) {
                c.skip(1, Account::Framing, "null")?;
            } else {
                lenenc_text(c, Account::Schema, "default")?;
            }
        }
        c.out().leave();
        Ok(kind)
    }

    fn new_column<R: Reader>(&mut self, c: &mut Cursor<'_, '_, '_, R>) -> FieldRead<u8> {
        for field in ["catalog", "schema", "table"] {
            lenenc_text(c, Account::Schema, field)?;
        }
        let table = lenenc_text(c, Account::Schema, "original table")?;
        lenenc_text(c, Account::Schema, "name")?;
        let column = lenenc_text(c, Account::Schema, "original name")?;
        // An expression has neither; its name may contain values.
        if let Some(columns) = self.unseen_columns.as_mut().filter(|_| !column.is_empty()) {
            add_column(columns, &[table, column]);
        }
        // Twelve bytes with a length follow the names; the type in words may precede them.
        let is_extended = || c.peek().first() != Some(&12);
        if self.session.has(capability::EXTENDED_METADATA).unwrap_or_else(is_extended) {
            lenenc_text(c, Account::Schema, "extended type")?;
        }
        lenenc(c, Account::Framing, "length")?;
        c.skip(2, Account::Schema, "character set")?;
        c.skip(4, Account::Schema, "longest value")?;
        let kind = c.u8(Account::Schema, "type")?;
        c.skip(2, Account::Schema, "flags")?;
        c.skip(1, Account::Schema, "decimals")?;
        c.skip(2, Account::Framing, "filler")?;
        Ok(kind)
    }

    /// Remembers column types for a statement, whose later executions and fetches may lack definitions.
    fn remember_columns(&mut self) {
        let Some(id) = self.pairing.queue.front_mut().filter(|_| self.is_defined).and_then(|front| front.statement)
        else {
            return;
        };
        if self.session.statement(id).is_some_and(|known| known.columns != self.columns) {
            let columns = self.columns.clone();
            self.session.change(|session| session.change_statement(id, |statement| statement.columns = columns));
        }
    }

    /// Restores the column types of a statement whose result lacks definitions.
    fn recall_columns(&mut self) {
        self.columns.clear();
        let id = self.pairing.queue.front_mut().and_then(|front| front.statement);
        if let Some(statement) = id.and_then(|id| self.session.statement(id)) {
            self.columns.extend_from_slice(&statement.columns);
        }
        if self.pairing.kind() == Some(ExpectedResponse::Fetch) {
            self.column_count = self.columns.len() as u64;
        }
    }

    /// Posts the packet after rows or definitions: `EOF`, or the `OK` that replaced it.
    fn end_result<R: Reader>(&mut self, packet: MysqlPacket<'_>, c: &mut Cursor<'_, '_, '_, R>) -> ReplyRead {
        if packet.is_eof() { eof(packet, c).map(|flags| self.ended(flags)) } else { self.ok(c) }
    }

    /// Ends a result; another one may follow.
    fn ended(&mut self, flags: u16) -> ResponseProgress {
        self.stage = ResponseStage::First;
        self.session.put(|session| &mut session.is_unescaped, flags & status::NO_BACKSLASH_ESCAPES != 0);
        if flags & status::MORE_RESULTS != 0 { ResponseProgress::More } else { ResponseProgress::Done }
    }

    pub(super) fn ok<R: Reader>(&mut self, c: &mut Cursor<'_, '_, '_, R>) -> ReplyRead {
        c.out().enter("OK");
        c.skip(1, Account::Status, "header")?;
        lenenc_free(c, Account::Status, "affected rows")?;
        lenenc_free(c, Account::Status, "last insert id")?;
        let mut flags = 0;
        let is_old = self.session.is_old();
        if !is_old || self.session.has(capability::TRANSACTIONS) == Some(true) {
            flags = c.array(Account::Status, "status flags").map(u16::from_le_bytes)?;
        }
        if !is_old && c.remaining() >= 2 {
            c.skip(2, Account::Status, "warnings")?;
        }
        let has_state = flags & status::SESSION_STATE_CHANGED != 0;
        if has_state && self.session.has(capability::SESSION_TRACK) != Some(false) && c.remaining() > 0 {
            let len = lenenc(c, Account::Status, "length")?;
            c.skip(len, Account::Status, "info")?;
            if c.remaining() > 0 {
                lenenc_text(c, Account::Metadata, "session state")?;
            }
        }
        let info = c.peek();
        c.out().free_numbers(info);
        c.rest(Account::Status, "info");
        c.out().leave();
        Ok(self.ended(flags))
    }

    /// Posts an error or a progress report.
    pub(super) fn error<R: Reader>(&mut self, c: &mut Cursor<'_, '_, '_, R>) -> ResponseProgress {
        let is_progress = u16_at(c.peek(), 1) == Some(wire::PROGRESS) && !self.session.is_old();
        c.out().enter(if is_progress { "progress" } else { "error" });
        c.rest(Account::Status, if is_progress { "report" } else { "message" });
        c.out().leave();
        if is_progress {
            return ResponseProgress::More;
        }
        if let Some(front) = self.pairing.queue.front_mut() {
            front.outcome = Outcome::Error;
        }
        self.stage = ResponseStage::First;
        ResponseProgress::Done
    }

    /// Posts an authentication packet: `OK`, a switch to another plugin, or more data.
    fn authentication<R: Reader>(&mut self, first: u8, c: &mut Cursor<'_, '_, '_, R>) -> ReplyRead {
        match first {
            wire::OK => self.ok(c),
            wire::EOF if c.remaining() > 1 => {
                c.out().enter("authentication switch");
                c.skip(1, Account::Framing, "header")?;
                wire::nul_text(c, Account::Metadata, "authentication plugin")?;
                c.rest(Account::Metadata, "authentication data");
                c.out().leave();
                Ok(ResponseProgress::More)
            }
            _ => {
                c.skip(1, Account::Framing, "header")?;
                c.rest(Account::Metadata, "authentication data");
                Ok(ResponseProgress::More)
            }
        }
    }

    /// Posts the rest of a row in the packet that continues it.
    pub(super) fn continue_row<R: Reader>(
        &mut self,
        rest: PacketContinuation,
        is_continued: bool,
        c: &mut Cursor<'_, '_, '_, R>,
    ) -> FieldRead {
        c.out().enter("row");
        self.rest_of_row = rest.go_on(c, is_continued)?;
        c.out().leave();
        Ok(())
    }
}

/// Posts a column definition of before version 4.1 and returns its type.
fn old_column<R: Reader>(c: &mut Cursor<'_, '_, '_, R>) -> FieldRead<u8> {
    lenenc_text(c, Account::Schema, "table")?;
    lenenc_text(c, Account::Schema, "name")?;
    lenenc_text(c, Account::Schema, "longest value")?;
    let kind = lenenc_text(c, Account::Schema, "type")?.first().copied().ok_or(Short)?;
    lenenc_text(c, Account::Schema, "flags")?;
    Ok(kind)
}

/// Posts an `EOF` packet and returns its status flags.
pub(super) fn eof<R: Reader>(packet: MysqlPacket<'_>, c: &mut Cursor<'_, '_, '_, R>) -> FieldRead<u16> {
    let flags = if packet.len >= wire::EOF_LENGTH { u16_at(c.peek(), 3).ok_or(Short)? } else { 0 };
    c.rest(Account::Status, "EOF");
    Ok(flags)
}

/// Posts an event of a binary log, after its marker byte; its header has 19 bytes.
fn event<R: Reader>(packet: MysqlPacket<'_>, c: &mut Cursor<'_, '_, '_, R>) -> ResponseProgress {
    if packet.is_end() {
        c.rest(Account::Status, "EOF");
        return ResponseProgress::Done;
    }
    c.out().enter("event");
    let _ = c.skip(1.min(c.remaining()), Account::Framing, "header");
    if c.peek().first() == Some(&super::command::SEMI_SYNC) {
        let _ = c.skip(2, Account::Metadata, "semi-synchronous");
    }
    let _ = c.skip(19.min(c.remaining()), Account::Metadata, "event header");
    c.rest(Account::Data, "event");
    c.out().leave();
    ResponseProgress::More
}
