//! What a connection remembers: prepared statements, portals and the columns of their results.
//!
//! Statements and portals are kept while a name or a request in flight refers to them; their buffers are used again, so
//! that a connection which prepares and executes the same few statements allocates nothing.

use super::copy::CopyTransfers;
use super::sql::{SqlSummary, Verb};
use super::values::PgTypeShape;
use super::wire::{PgFormatCodes, u16_at, u32_at};
use crate::limits;
use overhead_decode::FastMap;
use overhead_decode::Versioned;
use std::borrow::Cow;

/// A prepared statement.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct PgStatement {
    /// Its verb; empty where its text was not seen.
    pub verb: Verb,
    /// It does nothing but `SET` and `SHOW`.
    pub settings: bool,
    /// What it copies.
    pub copies: Option<CopyTransfers>,
    /// What it asks for, without the values in it.
    pub text: crate::statement::Statement,
    /// It was given a name.
    pub named: bool,
    /// The name still stands for it.
    is_listed: bool,
    /// Parameters in order; unknown ones may be missing.
    pub parameters: Vec<PgTypeShape>,
    /// Columns of its result, likewise.
    pub columns: Vec<PgTypeShape>,
}

impl PgStatement {
    /// Returns what its text says.
    pub fn summary(&self) -> SqlSummary {
        let Self { verb, settings, copies, text, .. } = self;
        SqlSummary { verb: *verb, settings: *settings, copies: copies.clone(), statement: text.clone() }
    }
}

/// A statement bound to parameters.
#[derive(Debug, Default)]
pub(super) struct PgPortal {
    statement: Option<PgStatementId>,
    /// Format codes of its result, as on the wire.
    formats: Vec<u8>,
}

/// A statement that is referred to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PgStatementId(usize);

/// A portal that is referred to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PgPortalId(usize);

/// Values with the number of references to each.
#[derive(Debug)]
struct RefCountedSlab<T> {
    slots: Vec<(T, usize)>,
    free: Vec<usize>,
}

impl<T> Default for RefCountedSlab<T> {
    fn default() -> Self {
        Self { slots: Vec::new(), free: Vec::new() }
    }
}

impl<T: Default> RefCountedSlab<T> {
    /// A slot with one reference. Holds what it held before.
    fn take(&mut self) -> usize {
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push((T::default(), 0));
            self.slots.len() - 1
        });
        self.retain(index);
        index
    }

    fn get(&self, index: usize) -> Option<&T> {
        self.slots.get(index).map(|(value, _)| value)
    }

    fn get_mut(&mut self, index: usize) -> Option<&mut T> {
        self.slots.get_mut(index).map(|(value, _)| value)
    }

    fn retain(&mut self, index: usize) {
        if let Some((_, references)) = self.slots.get_mut(index) {
            *references += 1;
        }
    }

    /// Gives true where that was the last reference.
    fn release(&mut self, index: usize) -> bool {
        let Some((_, references @ 1..)) = self.slots.get_mut(index) else {
            return false;
        };
        *references -= 1;
        let last = *references == 0;
        if last {
            self.free.push(index);
        }
        last
    }
}

/// Names and what they stand for, bounded: when half of [`limits::STATEMENTS`] are young, the old ones are forgotten
/// and the young grow old. The empty name stands apart; it is the one of most requests. Names count up to [`KEY`] bytes.
#[derive(Debug, Default)]
struct PgNameTable {
    unnamed: Option<usize>,
    named: Versioned<NameGenerations>,
}

#[derive(Debug, Default)]
struct NameGenerations {
    young: FastMap<Box<[u8]>, usize>,
    old: FastMap<Box<[u8]>, usize>,
}

impl PgNameTable {
    fn get(&self, name: &[u8]) -> Option<usize> {
        if name.is_empty() {
            return self.unnamed;
        }
        self.named.young.get(key(name)).or_else(|| self.named.old.get(key(name))).copied()
    }

    fn remove(&mut self, name: &[u8]) -> Option<usize> {
        if name.is_empty() {
            return self.unnamed.take();
        }
        self.get(name)?;
        self.named.change(|named| named.young.remove(key(name)).or_else(|| named.old.remove(key(name))))
    }

    /// Gives those that are forgotten for it. `name` stood for nothing.
    fn insert(&mut self, name: &[u8], index: usize) -> FastMap<Box<[u8]>, usize> {
        if name.is_empty() {
            self.unnamed = Some(index);
            return FastMap::default();
        }
        self.named.change(|named| {
            named.young.insert(key(name).into(), index);
            if named.young.len() < limits::STATEMENTS / 2 {
                return FastMap::default();
            }
            std::mem::replace(&mut named.old, std::mem::take(&mut named.young))
        })
    }

    /// Returns whether nothing but the empty name stands for something.
    fn has_no_names(&self) -> bool {
        self.named.young.is_empty() && self.named.old.is_empty()
    }
}

/// Bytes of a name that tell it from others; the server itself makes names of up to 63.
const KEY: usize = 255;

/// Returns the part of a name that counts.
fn key(name: &[u8]) -> &[u8] {
    name.get(..KEY).unwrap_or(name)
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Session {
    statements: RefCountedSlab<PgStatement>,
    portals: RefCountedSlab<PgPortal>,
    statement_names: PgNameTable,
    portal_names: PgNameTable,
    /// Columns and formats of the result that a simple query is sending.
    simple: (Vec<PgTypeShape>, Vec<u8>),
    /// Room for types of parameters and columns in all statements.
    types: usize,
    /// Bytes of the texts of all statements.
    texts: usize,
    /// How often something became known of a statement that has a name.
    amendments: u64,
    /// Columns of the description being read.
    described: Vec<PgTypeShape>,
}

/// What a session remembers at a moment when no request waits, as far as a later one could depend on it. Two sessions with
/// equal ones go on alike.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct PgSessionView<'a> {
    /// Changes with everything that has a name.
    named: u64,
    unnamed: Option<Cow<'a, PgStatement>>,
    /// The portal without a name: format codes and statement.
    portal: Option<(Cow<'a, [u8]>, PgPortalTarget<'a>)>,
    /// Of the result of the last simple query that had one: columns and formats.
    columns: Cow<'a, [PgTypeShape]>,
    formats: Cow<'a, [u8]>,
}

/// The statement of the portal without a name.
#[derive(Debug, PartialEq, Eq)]
enum PgPortalTarget<'a> {
    /// The one without a name.
    Unnamed,
    /// In this slot, with a name that stands for it.
    Named(usize),
    /// One that had no name, or one, which is of another by now.
    Other(Cow<'a, PgStatement>),
}

impl PgSessionView<'_> {
    /// Copies what it refers to.
    pub fn into_owned(self) -> PgSessionView<'static> {
        let statement = |of: Cow<'_, PgStatement>| Cow::Owned(of.into_owned());
        let link = |link: PgPortalTarget<'_>| match link {
            PgPortalTarget::Unnamed => PgPortalTarget::Unnamed,
            PgPortalTarget::Named(slot) => PgPortalTarget::Named(slot),
            PgPortalTarget::Other(of) => PgPortalTarget::Other(statement(of)),
        };
        PgSessionView {
            named: self.named,
            unnamed: self.unnamed.map(statement),
            portal: self.portal.map(|(formats, of)| (Cow::Owned(formats.into_owned()), link(of))),
            columns: Cow::Owned(self.columns.into_owned()),
            formats: Cow::Owned(self.formats.into_owned()),
        }
    }

    /// Returns how many entries its lists have.
    pub fn entries(&self) -> usize {
        let statement = |of: &PgStatement| of.parameters.len() + of.columns.len();
        let portal = self.portal.as_ref().map_or(0, |(formats, link)| match link {
            PgPortalTarget::Other(of) => formats.len() + statement(of),
            _ => formats.len(),
        });
        self.unnamed.as_deref().map_or(0, statement) + portal + self.columns.len() + self.formats.len()
    }

    /// Returns whether a session that has `other` can never have this one again.
    pub fn is_unreachable_from(&self, other: &PgSessionView<'_>) -> bool {
        self.named != other.named
    }
}

impl Session {
    /// Returns about how many bytes of memory it holds.
    pub fn held(&self) -> usize {
        self.statements.slots.len() * size_of::<PgStatement>()
            + self.portals.slots.len() * (size_of::<PgPortal>() + KEY)
            + self.types * size_of::<PgTypeShape>()
            + self.texts
    }

    /// Returns what is remembered, where no request waits. `None` while portals have names, which is seldom.
    pub fn view(&self) -> Option<PgSessionView<'_>> {
        let Self {
            statements,
            portals,
            statement_names,
            portal_names,
            simple,
            types: _,
            texts: _,
            amendments,
            described: _,
        } = self;
        if !portal_names.has_no_names() {
            return None;
        }
        let portal = match portal_names.unnamed {
            None => None,
            Some(slot) => {
                let portal = portals.get(slot)?;
                let PgStatementId(slot) = portal.statement?;
                let link = match statements.get(slot)? {
                    _ if statement_names.unnamed == Some(slot) => PgPortalTarget::Unnamed,
                    statement if statement.is_listed => PgPortalTarget::Named(slot),
                    statement => PgPortalTarget::Other(Cow::Borrowed(statement)),
                };
                Some((Cow::Borrowed(&*portal.formats), link))
            }
        };
        Some(PgSessionView {
            named: statement_names.named.version() + portal_names.named.version() + amendments,
            unnamed: statement_names.unnamed.and_then(|slot| statements.get(slot)).map(Cow::Borrowed),
            portal,
            columns: Cow::Borrowed(&simple.0),
            formats: Cow::Borrowed(&simple.1),
        })
    }

    /// Goes to a state that was there before, from one with the same names. No request waits.
    pub fn restore(&mut self, view: &PgSessionView<'_>) {
        let PgSessionView { named: _, unnamed, portal, columns, formats } = view;
        self.close_portal(b"");
        match unnamed.as_deref() {
            None => self.close_statement(b""),
            Some(statement) => {
                let id = self.parse(b"");
                self.overwrite(id, statement);
            }
        }
        if let Some((formats, link)) = portal {
            match link {
                PgPortalTarget::Unnamed => {
                    let id = self.statement_named(b"");
                    self.bind(b"", id, PgFormatCodes(formats));
                }
                PgPortalTarget::Named(slot) => {
                    self.bind(b"", PgStatementId(*slot), PgFormatCodes(formats));
                }
                PgPortalTarget::Other(statement) => {
                    let id = self.unknown_statement();
                    self.overwrite(id, statement);
                    self.bind(b"", id, PgFormatCodes(formats));
                    self.release_statement(id);
                }
            }
        }
        self.simple.0.clear();
        self.simple.0.extend_from_slice(columns);
        self.simple.1.clear();
        self.simple.1.extend_from_slice(formats);
    }

    /// A statement that no name stands for, or the empty one, becomes like another.
    fn overwrite(&mut self, id: PgStatementId, other: &PgStatement) {
        if let Some(statement) = self.statements.get_mut(id.0) {
            let PgStatement { verb, settings, copies, text, named, is_listed, parameters, columns } = other;
            (statement.verb, statement.settings, statement.copies) = (*verb, *settings, copies.clone());
            self.texts += text.held();
            self.texts -= std::mem::replace(&mut statement.text, text.clone()).held();
            (statement.named, statement.is_listed) = (*named, *is_listed);
            let before = statement.parameters.capacity() + statement.columns.capacity();
            statement.parameters.clone_from(parameters);
            statement.columns.clone_from(columns);
            self.types += statement.parameters.capacity() + statement.columns.capacity() - before;
        }
    }

    /// A new statement of this name, of which nothing is known yet.
    pub fn parse(&mut self, name: &[u8]) -> PgStatementId {
        self.close_statement(name);
        let id = self.unknown_statement();
        if let Some(statement) = self.statements.get_mut(id.0) {
            statement.named = !name.is_empty();
            statement.is_listed = statement.named;
        }
        for forgotten in self.statement_names.insert(name, id.0).into_values() {
            self.unlist(forgotten);
        }
        id
    }

    /// A name stands for this statement no longer.
    fn unlist(&mut self, slot: usize) {
        if let Some(statement) = self.statements.get_mut(slot) {
            statement.is_listed = false;
        }
        self.release_statement(PgStatementId(slot));
    }

    /// A statement without a name, with one reference.
    fn unknown_statement(&mut self) -> PgStatementId {
        let id = PgStatementId(self.statements.take());
        if let Some(statement) = self.statements.get_mut(id.0) {
            statement.verb = Verb::default();
            statement.settings = false;
            statement.copies = None;
            self.texts -= std::mem::replace(&mut statement.text, crate::statement::Statement::PreparedBefore).held();
            statement.named = false;
            statement.is_listed = false;
            statement.parameters.clear();
            statement.columns.clear();
        }
        id
    }

    /// Returns the statement of this name; where it was prepared out of sight, one of which nothing is known.
    pub fn statement_named(&mut self, name: &[u8]) -> PgStatementId {
        match self.statement_names.get(name) {
            Some(id) => PgStatementId(id),
            None => self.parse(name),
        }
    }

    /// Returns a statement.
    pub fn statement(&self, id: PgStatementId) -> Option<&PgStatement> {
        self.statements.get(id.0)
    }

    /// A statement of which something becomes known that was not, or was otherwise.
    fn amend(&mut self, id: PgStatementId) -> Option<&mut PgStatement> {
        let statement = self.statements.get_mut(id.0)?;
        self.amendments += u64::from(statement.is_listed);
        Some(statement)
    }

    /// What a statement's text says.
    pub fn set_text(&mut self, id: PgStatementId, summary: SqlSummary) {
        if let Some(statement) = self.amend(id) {
            let SqlSummary { verb, settings, copies, statement: text } = summary;
            (statement.verb, statement.settings, statement.copies) = (verb, settings, copies);
            let (now, before) = (text.held(), std::mem::replace(&mut statement.text, text).held());
            self.texts = self.texts + now - before;
        }
    }

    /// The statement's name stands for nothing.
    pub fn close_statement(&mut self, name: &[u8]) {
        if let Some(slot) = self.statement_names.remove(name) {
            self.unlist(slot);
        }
    }

    /// A portal of this name on `statement`.
    pub fn bind(&mut self, name: &[u8], statement: PgStatementId, formats: PgFormatCodes<'_>) -> PgPortalId {
        self.close_portal(name);
        self.retain_statement(statement);
        let id = self.portals.take();
        if let Some(portal) = self.portals.get_mut(id) {
            portal.statement = Some(statement);
            portal.formats.clear();
            let kept = formats.0.len().min(2 * limits::COLUMNS);
            portal.formats.extend_from_slice(formats.0.get(..kept).unwrap_or_default());
        }
        for forgotten in self.portal_names.insert(name, id).into_values() {
            self.release_portal(PgPortalId(forgotten));
        }
        PgPortalId(id)
    }

    /// Returns the portal of this name; where it was bound out of sight, one on a statement of which nothing is known.
    pub fn portal_named(&mut self, name: &[u8]) -> PgPortalId {
        if let Some(id) = self.portal_names.get(name) {
            return PgPortalId(id);
        }
        let statement = self.unknown_statement();
        let portal = self.bind(name, statement, PgFormatCodes(&[]));
        self.release_statement(statement);
        portal
    }

    /// Returns the statement of a portal.
    pub fn statement_of(&self, portal: PgPortalId) -> Option<PgStatementId> {
        self.portals.get(portal.0)?.statement
    }

    /// The portal's name stands for nothing.
    pub fn close_portal(&mut self, name: &[u8]) {
        if let Some(id) = self.portal_names.remove(name) {
            self.release_portal(PgPortalId(id));
        }
    }

    /// Keeps a statement until it is released.
    pub fn retain_statement(&mut self, id: PgStatementId) {
        self.statements.retain(id.0);
    }

    /// See [`Session::retain_statement`].
    pub fn release_statement(&mut self, id: PgStatementId) {
        self.statements.release(id.0);
    }

    /// Keeps a portal until it is released.
    pub fn retain_portal(&mut self, id: PgPortalId) {
        self.portals.retain(id.0);
    }

    /// See [`Session::retain_portal`].
    pub fn release_portal(&mut self, id: PgPortalId) {
        if self.portals.release(id.0)
            && let Some(statement) = self.statement_of(id)
        {
            self.release_statement(statement);
        }
    }

    /// Columns and formats of the rows that a portal, or without one a simple query, sends.
    pub fn row(&self, portal: Option<PgPortalId>) -> (&[PgTypeShape], PgFormatCodes<'_>) {
        let Some(portal) = portal.and_then(|id| self.portals.get(id.0)) else {
            return (&self.simple.0, PgFormatCodes(&self.simple.1));
        };
        let statement = portal.statement.and_then(|id| self.statement(id));
        let columns = statement.map_or(&[][..], |statement| &statement.columns);
        (columns, PgFormatCodes(&portal.formats))
    }

    /// A result is being described anew.
    pub fn begin_columns(&mut self, statement: Option<PgStatementId>) {
        self.described.clear();
        if statement.is_none() {
            self.simple.1.clear();
        }
    }

    /// Remembers a described column: of a statement, or without one of a simple query. `fields` follow its name on the wire.
    pub fn column(&mut self, statement: Option<PgStatementId>, fields: &[u8]) {
        let (Some(oid), Some(format)) = (u32_at(fields, 6), u16_at(fields, 16)) else {
            return;
        };
        if statement.is_none() && self.simple.1.len() < 2 * limits::COLUMNS {
            self.simple.1.extend_from_slice(&format.to_be_bytes());
        }
        if self.described.len() < limits::COLUMNS {
            self.described.push(PgTypeShape::of(oid));
        }
    }

    /// The description is read: its columns are those of the statement, or without one of a simple query.
    pub fn end_columns(&mut self, statement: Option<PgStatementId>) {
        let Some(id) = statement else {
            let before = self.simple.0.capacity();
            self.simple.0.clone_from(&self.described);
            self.types += self.simple.0.capacity() - before;
            return;
        };
        if self.statement(id).is_none_or(|statement| statement.columns == self.described) {
            return;
        }
        let described = std::mem::take(&mut self.described);
        if let Some(statement) = self.amend(id) {
            let before = statement.columns.capacity();
            statement.columns.clone_from(&described);
            self.types += self.statement(id).map_or(0, |statement| statement.columns.capacity() - before);
        }
        self.described = described;
    }

    /// Remembers the types of a statement's parameters, as far as they are said: OIDs as on the wire.
    pub fn set_parameters(&mut self, id: PgStatementId, oids: &[u8]) {
        let shapes = oids
            .chunks_exact(4)
            .take(limits::PARAMETERS)
            .map(|oid| u32_at(oid, 0).map_or(PgTypeShape::Unknown, PgTypeShape::of));
        let Some(known) = self.statement(id) else { return };
        if known.parameters.iter().copied().eq(shapes.clone()) {
            return;
        }
        let before = known.parameters.capacity();
        if let Some(statement) = self.amend(id) {
            statement.parameters.clear();
            statement.parameters.extend(shapes);
            self.types += self.statement(id).map_or(0, |statement| statement.parameters.capacity() - before);
        }
    }
}
