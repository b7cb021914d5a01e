//! Walks through the body of a message and its BSON without recursion. The stack of open documents outlives a call, so
//! messages of any size are posted as they arrive, without buffering.

#![expect(clippy::inline_always, reason = "posting a field is a few instructions, and every field is posted")]

use super::element::{BsonElement, c_string, length};
use super::facts::MongoFacts;
use super::roles::{self, DocumentRole};
use super::shape::CommandShape;
use super::wire::{self, BsonLayout, EMPTY_DOCUMENT, MongoOpcode};
use crate::limits;
use overhead_decode::{Cursor, Field, Free, Note, Out, Reader};
use overhead_model::Account::{self, Framing, Metadata, Unknown};
use overhead_model::Side;

/// Why the walk stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BodyStop {
    /// The available bytes end inside something that must be complete.
    Wait,
    /// The bytes contradict the surrounding lengths or the specification.
    Damaged,
}

/// The result of a step through a body.
pub(super) type Walked = Result<(), BodyStop>;

/// The content of an open range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RangeKind {
    Document,
    /// Like a document, with indexes as names.
    Array,
    Documents,
    /// The sections of an `OP_MSG`.
    Sections,
}

#[derive(Clone, Copy, Debug)]
struct BodyRange {
    kind: RangeKind,
    role: DocumentRole,
    /// No element was read yet.
    first: bool,
    /// End position in the body.
    end: u64,
}

/// Bytes posted as they arrive, whatever their content.
#[derive(Clone, Copy, Debug)]
struct PendingBytes {
    left: u64,
    account: Account,
    field: &'static str,
    /// Their values do not matter.
    free: bool,
}

/// The walk through a body; reused between messages.
#[derive(Debug, Default)]
pub(super) struct BodyWalk {
    pub facts: MongoFacts,
    pub shape: CommandShape,
    pub opcode: MongoOpcode,
    side: Option<Side>,
    /// Length of the body, and the bytes posted so far.
    end: u64,
    pos: u64,
    /// The fields before the documents were read.
    started: bool,
    ranges: Vec<BodyRange>,
    /// At most three, the next one last.
    pieces: Vec<PendingBytes>,
    /// Role of the documents in an `OP_REPLY`, and of documents in a cursor.
    pub reply: DocumentRole,
    batch: DocumentRole,
    /// Role of the first bare document, if it differs from the following ones.
    lead: Option<DocumentRole>,
}

impl BodyWalk {
    /// Starts a body of `len` bytes; `wants_shape` if its statement is wanted.
    pub fn begin(&mut self, side: Side, opcode: MongoOpcode, len: u64, wants_shape: bool) {
        self.facts.clear();
        self.shape.clear(wants_shape && side == Side::Request);
        self.ranges.clear();
        self.pieces.clear();
        self.opcode = opcode;
        self.side = Some(side);
        self.end = len;
        self.pos = 0;
        self.started = false;
        self.expect(DocumentRole::Reply, DocumentRole::Document);
        self.lead = None;
    }

    /// Sets the roles of documents in a reply.
    pub fn expect(&mut self, reply: DocumentRole, batch: DocumentRole) {
        self.reply = reply;
        self.batch = batch;
    }

    /// Returns the bytes not yet posted.
    pub fn left(&self) -> u64 {
        self.end - self.pos
    }

    /// Reopens the groups that were open at the end of the last step.
    pub fn reopen<R: Reader>(&self, out: &mut Out<'_, R>) {
        out.enter(self.opcode.name());
        for range in &self.ranges {
            out.enter(range.group());
        }
    }

    /// Posts as much of the body as the available bytes allow.
    pub fn run<R: Reader>(&mut self, cursor: &mut Cursor<'_, '_, '_, R>) {
        let unreadable = cursor.remaining() > cursor.peek().len() as u64;
        while cursor.remaining() > 0 {
            match self.next(cursor) {
                Ok(()) => {}
                Err(BodyStop::Wait) if unreadable => self.skip_unreadable(cursor),
                Err(BodyStop::Wait) => return,
                Err(BodyStop::Damaged) => self.give_up(cursor.out()),
            }
        }
    }

    /// Leaves the rest of the body undecoded.
    pub fn give_up<R: Reader>(&mut self, out: &mut Out<'_, R>) {
        out.note(Note::UndecodedMessage);
        self.ranges.drain(..).for_each(|_| out.leave());
        self.pieces.clear();
        self.shape.give_up();
        self.started = true;
        self.push(self.left(), Unknown, "undecoded");
    }

    /// Bytes were not captured: continues after the innermost range with a known end.
    fn skip_unreadable<R: Reader>(&mut self, cursor: &mut Cursor<'_, '_, '_, R>) {
        let end = self.ranges.last().map_or(self.end, |range| range.end);
        self.pop(cursor);
        self.started = true;
        self.push(end - self.pos, Unknown, "not captured");
    }

    fn next<R: Reader>(&mut self, cursor: &mut Cursor<'_, '_, '_, R>) -> Walked {
        if let Some(piece) = self.pieces.pop() {
            return self.fill(cursor, piece);
        }
        if !self.started {
            super::layout::fixed(self, cursor)?;
            self.started = true;
            return Ok(());
        }
        let Some(&range) = self.ranges.last() else { return self.trailer() };
        match range.kind {
            RangeKind::Document | RangeKind::Array => self.element(cursor, range),
            RangeKind::Documents | RangeKind::Sections if self.pos == range.end => {
                self.pop(cursor);
                Ok(())
            }
            RangeKind::Documents => self.bare_document(cursor, range),
            RangeKind::Sections => self.section(cursor, range),
        }
    }

    /// Posts the checksum after the documents, if there is one.
    fn trailer(&mut self) -> Walked {
        let checksum = self.opcode == MongoOpcode::Msg && self.facts.flags & wire::CHECKSUM_PRESENT > 0;
        if !checksum || self.left() != 4 {
            return Err(BodyStop::Damaged);
        }
        self.push_value(4, Framing, "checksum", true);
        Ok(())
    }

    fn fill<R: Reader>(&mut self, cursor: &mut Cursor<'_, '_, '_, R>, mut piece: PendingBytes) -> Walked {
        let now = piece.left.min(cursor.remaining());
        self.put_value(cursor, (piece.account, piece.field, now), piece.free)?;
        piece.left -= now;
        if piece.left > 0 {
            self.pieces.push(piece);
        }
        Ok(())
    }

    // Its fields travel in registers.
    #[inline(always)]
    pub fn put<R: Reader>(&mut self, cursor: &mut Cursor<'_, '_, '_, R>, (account, name, len): Field) -> Walked {
        self.put_one(cursor, account, name, len)
    }

    fn put_one<R: Reader>(
        &mut self,
        cursor: &mut Cursor<'_, '_, '_, R>,
        account: Account,
        name: &'static str,
        len: u64,
    ) -> Walked {
        self.put_fields(cursor, [(account, name, len)])
    }

    #[inline(always)]
    pub fn put_fields<const N: usize, R: Reader>(
        &mut self,
        cursor: &mut Cursor<'_, '_, '_, R>,
        fields: [Field; N],
    ) -> Walked {
        let before = cursor.remaining();
        let put = cursor.skip_all(fields);
        self.pos += before - cursor.remaining();
        put.map_err(|_| BodyStop::Wait)
    }

    /// Posts available bytes; `free` if their values do not matter.
    fn put_value<R: Reader>(&mut self, cursor: &mut Cursor<'_, '_, '_, R>, field: Field, free: bool) -> Walked {
        let (account, name, len) = field;
        if !free {
            return self.put(cursor, field);
        }
        cursor.skip_free(len, account, name, Free::Any).map_err(|_| BodyStop::Wait)?;
        self.pos += len;
        Ok(())
    }

    /// Queues bytes to be posted as they arrive. The last one queued is posted first.
    pub fn push(&mut self, left: u64, account: Account, field: &'static str) {
        self.push_value(left, account, field, false);
    }

    /// Like [`BodyWalk::push`]; `free` if the values do not matter.
    pub fn push_value(&mut self, left: u64, account: Account, field: &'static str, free: bool) {
        if left > 0 {
            self.pieces.push(PendingBytes { left, account, field, free });
        }
    }

    /// Posts the available bytes and queues the rest. The body must contain them, and nothing may be queued.
    pub fn put_all<R: Reader>(
        &mut self,
        cursor: &mut Cursor<'_, '_, '_, R>,
        (account, name, len): Field,
        free: bool,
    ) -> Walked {
        let now = len.min(cursor.remaining());
        self.put_value(cursor, (account, name, now), free)?;
        self.push_value(len - now, account, name, free);
        Ok(())
    }

    /// Opens the range of bare documents up to the end of the body; `lead` is the role of the first one.
    pub fn open_documents<R: Reader>(&mut self, out: &mut Out<'_, R>, lead: DocumentRole, role: DocumentRole) {
        self.lead = Some(lead);
        self.enter(out, RangeKind::Documents, role, self.end);
    }

    /// Opens the sections, which end before the checksum if there is one.
    pub fn open_sections<R: Reader>(&mut self, out: &mut Out<'_, R>) -> Walked {
        let checksum = if self.facts.flags & wire::CHECKSUM_PRESENT > 0 { 4 } else { 0 };
        let end = self.end.checked_sub(checksum).filter(|&end| end > self.pos);
        self.enter(out, RangeKind::Sections, DocumentRole::Options, end.ok_or(BodyStop::Damaged)?);
        Ok(())
    }

    fn enter<R: Reader>(&mut self, out: &mut Out<'_, R>, kind: RangeKind, role: DocumentRole, end: u64) {
        let is_value =
            self.ranges.last().is_some_and(|outer| matches!(outer.kind, RangeKind::Document | RangeKind::Array));
        self.shape.open(kind == RangeKind::Array, kind == RangeKind::Document && !is_value, role);
        let range = BodyRange { kind, role, first: true, end };
        out.enter(range.group());
        self.ranges.push(range);
    }

    fn pop<R: Reader>(&mut self, cursor: &mut Cursor<'_, '_, '_, R>) {
        if self.ranges.pop().is_some() {
            self.shape.close();
            cursor.out().leave();
        }
    }

    /// Opens a document or array of `len` bytes at its length field.
    fn open_document<R: Reader>(
        &mut self,
        cursor: &mut Cursor<'_, '_, '_, R>,
        kind: RangeKind,
        role: DocumentRole,
        len: u64,
    ) -> Walked {
        if self.ranges.len() >= limits::NESTING {
            return Err(BodyStop::Damaged);
        }
        let end = self.pos + len;
        self.put(cursor, (Framing, "document length", 4))?;
        self.enter(cursor.out(), kind, role, end);
        Ok(())
    }

    fn section<R: Reader>(&mut self, cursor: &mut Cursor<'_, '_, '_, R>, range: BodyRange) -> Walked {
        let here = cursor.peek();
        let (room, is_request) = (range.end - self.pos, self.side == Some(Side::Request));
        match here.first() {
            None => Err(BodyStop::Wait),
            Some(0) => {
                let role = if is_request { DocumentRole::Command } else { DocumentRole::Reply };
                let len = length(here, 1, EMPTY_DOCUMENT, room - 1)?;
                self.put(cursor, (Framing, "section kind", 1))?;
                self.open_document(cursor, RangeKind::Document, role, len)
            }
            Some(1) => {
                let len = length(here, 1, 4, room - 1)?;
                let name = c_string(here, 5, len.checked_sub(4).ok_or(BodyStop::Damaged)?)?;
                let end = self.pos + 1 + len;
                let role = if is_request { roles::option(name).child } else { DocumentRole::Document };
                self.put(cursor, (Framing, "section kind", 1))?;
                self.put(cursor, (Framing, "section length", 4))?;
                self.put(cursor, (Metadata, "sequence identifier", name.len() as u64))?;
                self.put(cursor, (Framing, "terminator", 1))?;
                self.enter(cursor.out(), RangeKind::Documents, role, end);
                Ok(())
            }
            Some(2) => {
                let token = c_string(here, 1, room - 1)?;
                self.put(cursor, (Framing, "section kind", 1))?;
                self.put(cursor, (Metadata, "security token", token.len() as u64))?;
                self.put(cursor, (Framing, "terminator", 1))
            }
            Some(_) => Err(BodyStop::Damaged),
        }
    }

    fn bare_document<R: Reader>(&mut self, cursor: &mut Cursor<'_, '_, '_, R>, range: BodyRange) -> Walked {
        let len = length(cursor.peek(), 0, EMPTY_DOCUMENT, range.end - self.pos)?;
        if self.opcode == MongoOpcode::Update && self.lead.is_none() {
            self.shape.is_next_update = true;
        }
        let role = self.lead.take().unwrap_or(range.role);
        self.open_document(cursor, RangeKind::Document, role, len)
    }

    /// Posts one element of a document or array, or its terminator.
    fn element<R: Reader>(&mut self, cursor: &mut Cursor<'_, '_, '_, R>, range: BodyRange) -> Walked {
        let here = cursor.peek();
        // Most bytes of the element: the document's terminator follows.
        let room = (range.end - self.pos).checked_sub(1).ok_or(BodyStop::Damaged)?;
        let &kind = here.first().ok_or(BodyStop::Wait)?;
        if kind == 0 {
            return if room == 0 {
                self.put(cursor, (Framing, "terminator", 1))?;
                self.pop(cursor);
                Ok(())
            } else {
                Err(BodyStop::Damaged)
            };
        }
        let value = BsonLayout::from_kind(kind).ok_or(BodyStop::Damaged)?;
        let name = c_string(here, 1, room.checked_sub(1).ok_or(BodyStop::Damaged)?)?;
        let head = 2 + name.len();
        let element = BsonElement {
            kind,
            value,
            name,
            array: range.kind == RangeKind::Array,
            field: match range.kind {
                RangeKind::Array => range.role.element(),
                _ => range.role.field(name, range.first),
            },
            bytes: here.get(head..).unwrap_or_default(),
            cut: cursor.remaining() > here.len() as u64,
            room: room.checked_sub(head as u64).ok_or(BodyStop::Damaged)?,
        };
        self.post_element(cursor, &element)
    }

    pub fn put_name<R: Reader>(&mut self, cursor: &mut Cursor<'_, '_, '_, R>, element: &BsonElement<'_>) -> Walked {
        let fields = self.name(element);
        self.put_fields(cursor, fields)
    }

    /// Returns the fields for type and name of an element, and notes it as read.
    #[inline(always)]
    pub fn name(&mut self, element: &BsonElement<'_>) -> [Field; 3] {
        if let Some(range) = self.ranges.last_mut() {
            range.first = false;
            self.shape.element(range.role, element.name, element.value, element.field.child);
        }
        let name = (element.field.name, element.name_title(), element.name.len() as u64);
        [(Framing, "element type", 1), name, (Framing, "terminator", 1)]
    }

    pub fn open_value<R: Reader>(
        &mut self,
        cursor: &mut Cursor<'_, '_, '_, R>,
        element: &BsonElement<'_>,
        len: u64,
    ) -> Walked {
        let kind = match element.value {
            BsonLayout::Array => RangeKind::Array,
            _ => RangeKind::Document,
        };
        let role = match element.field.child {
            DocumentRole::Batch => self.batch,
            role => role,
        };
        self.open_document(cursor, kind, role, len)
    }

    /// Opens the scope document of a code value, in a range up to the end of the value.
    pub fn open_scope<R: Reader>(&mut self, out: &mut Out<'_, R>, len: u64) -> Walked {
        if self.ranges.len() >= limits::NESTING {
            return Err(BodyStop::Damaged);
        }
        self.enter(out, RangeKind::Documents, DocumentRole::Document, self.pos + len);
        Ok(())
    }
}

impl BodyRange {
    fn group(&self) -> &'static str {
        match self.kind {
            RangeKind::Sections => "sections",
            RangeKind::Documents => "documents",
            RangeKind::Document | RangeKind::Array => self.role.group(),
        }
    }
}
