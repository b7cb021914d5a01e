//! What a connection remembers: prepared statements, portals and the columns of their results.
//!
//! Statements and portals are kept while a name or a request in flight refers to them; their buffers are used again, so
//! that a connection which prepares and executes the same few statements allocates nothing.

use super::copy::Copies;
use super::sql::{Said, Verb};
use super::values::Shape;
use super::wire::{Formats, u16_at, u32_at};
use crate::limits;
use overhead_decode::FastMap;
use overhead_decode::Versioned;
use std::borrow::Cow;

/// A prepared statement.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Statement {
    /// Its verb; empty where its text was not seen.
    pub verb: Verb,
    /// It does nothing but `SET` and `SHOW`.
    pub settings: bool,
    /// What it copies.
    pub copies: Option<Copies>,
    /// What it asks for, without the values in it.
    pub text: crate::statement::Statement,
    /// It was given a name.
    pub named: bool,
    /// The name still stands for it.
    is_listed: bool,
    /// Parameters in order; unknown ones may be missing.
    pub parameters: Vec<Shape>,
    /// Columns of its result, likewise.
    pub columns: Vec<Shape>,
}

impl Statement {
    /// Returns what its text says.
    pub fn said(&self) -> Said {
        let Self { verb, settings, copies, text, .. } = self;
        Said { verb: *verb, settings: *settings, copies: copies.clone(), statement: text.clone() }
    }
}

/// A statement bound to parameters.
#[derive(Debug, Default)]
pub(super) struct Portal {
    statement: Option<StatementId>,
    /// Format codes of its result, as on the wire.
    formats: Vec<u8>,
}

/// A statement that is referred to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StatementId(usize);

/// A portal that is referred to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PortalId(usize);

/// Values with the number of references to each.
#[derive(Debug)]
struct Slab<T> {
    slots: Vec<(T, usize)>,
    free: Vec<usize>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self { slots: Vec::new(), free: Vec::new() }
    }
}

impl<T: Default> Slab<T> {
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
struct Names {
    unnamed: Option<usize>,
    named: Versioned<Generations>,
}

#[derive(Debug, Default)]
struct Generations {
    young: FastMap<Box<[u8]>, usize>,
    old: FastMap<Box<[u8]>, usize>,
}

impl Names {
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
    statements: Slab<Statement>,
    portals: Slab<Portal>,
    statement_names: Names,
    portal_names: Names,
    /// Columns and formats of the result that a simple query is sending.
    simple: (Vec<Shape>, Vec<u8>),
    /// Room for types of parameters and columns in all statements.
    types: usize,
    /// Bytes of the texts of all statements.
    texts: usize,
    /// How often something became known of a statement that has a name.
    amendments: u64,
    /// Columns of the description being read.
    described: Vec<Shape>,
}

/// What a session remembers at a moment when no request waits, as far as a later one could depend on it. Two sessions with
/// equal ones go on alike.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct View<'a> {
    /// Changes with everything that has a name.
    named: u64,
    unnamed: Option<Cow<'a, Statement>>,
    /// The portal without a name: format codes and statement.
    portal: Option<(Cow<'a, [u8]>, Link<'a>)>,
    /// Of the result of the last simple query that had one: columns and formats.
    columns: Cow<'a, [Shape]>,
    formats: Cow<'a, [u8]>,
}

/// The statement of the portal without a name.
#[derive(Debug, PartialEq, Eq)]
enum Link<'a> {
    /// The one without a name.
    Unnamed,
    /// In this slot, with a name that stands for it.
    Named(usize),
    /// One that had no name, or one, which is of another by now.
    Other(Cow<'a, Statement>),
}

impl View<'_> {
    /// Copies what it refers to.
    pub fn into_owned(self) -> View<'static> {
        let statement = |of: Cow<'_, Statement>| Cow::Owned(of.into_owned());
        let link = |link: Link<'_>| match link {
            Link::Unnamed => Link::Unnamed,
            Link::Named(slot) => Link::Named(slot),
            Link::Other(of) => Link::Other(statement(of)),
        };
        View {
            named: self.named,
            unnamed: self.unnamed.map(statement),
            portal: self.portal.map(|(formats, of)| (Cow::Owned(formats.into_owned()), link(of))),
            columns: Cow::Owned(self.columns.into_owned()),
            formats: Cow::Owned(self.formats.into_owned()),
        }
    }

    /// Returns how many entries its lists have.
    pub fn weight(&self) -> usize {
        let statement = |of: &Statement| of.parameters.len() + of.columns.len();
        let portal = self.portal.as_ref().map_or(0, |(formats, link)| match link {
            Link::Other(of) => formats.len() + statement(of),
            _ => formats.len(),
        });
        self.unnamed.as_deref().map_or(0, statement) + portal + self.columns.len() + self.formats.len()
    }

    /// Returns whether a session that has `other` can never have this one again.
    pub fn is_past(&self, other: &View<'_>) -> bool {
        self.named != other.named
    }
}

impl Session {
    /// Returns about how many bytes of memory it holds.
    pub fn held(&self) -> usize {
        self.statements.slots.len() * size_of::<Statement>()
            + self.portals.slots.len() * (size_of::<Portal>() + KEY)
            + self.types * size_of::<Shape>()
            + self.texts
    }

    /// Returns what is remembered, where no request waits. `None` while portals have names, which is seldom.
    pub fn view(&self) -> Option<View<'_>> {
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
                let StatementId(slot) = portal.statement?;
                let link = match statements.get(slot)? {
                    _ if statement_names.unnamed == Some(slot) => Link::Unnamed,
                    statement if statement.is_listed => Link::Named(slot),
                    statement => Link::Other(Cow::Borrowed(statement)),
                };
                Some((Cow::Borrowed(&*portal.formats), link))
            }
        };
        Some(View {
            named: statement_names.named.version() + portal_names.named.version() + amendments,
            unnamed: statement_names.unnamed.and_then(|slot| statements.get(slot)).map(Cow::Borrowed),
            portal,
            columns: Cow::Borrowed(&simple.0),
            formats: Cow::Borrowed(&simple.1),
        })
    }

    /// Goes to a state that was there before, from one with the same names. No request waits.
    pub fn go_to(&mut self, view: &View<'_>) {
        let View { named: _, unnamed, portal, columns, formats } = view;
        self.close_portal(b"");
        match unnamed.as_deref() {
            None => self.close_statement(b""),
            Some(statement) => {
                let id = self.parse(b"");
                self.become_alike(id, statement);
            }
        }
        if let Some((formats, link)) = portal {
            match link {
                Link::Unnamed => {
                    let id = self.statement_named(b"");
                    self.bind(b"", id, Formats(formats));
                }
                Link::Named(slot) => {
                    self.bind(b"", StatementId(*slot), Formats(formats));
                }
                Link::Other(statement) => {
                    let id = self.unknown_statement();
                    self.become_alike(id, statement);
                    self.bind(b"", id, Formats(formats));
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
    fn become_alike(&mut self, id: StatementId, other: &Statement) {
        if let Some(statement) = self.statements.get_mut(id.0) {
            let Statement { verb, settings, copies, text, named, is_listed, parameters, columns } = other;
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
    pub fn parse(&mut self, name: &[u8]) -> StatementId {
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
        self.release_statement(StatementId(slot));
    }

    /// A statement without a name, with one reference.
    fn unknown_statement(&mut self) -> StatementId {
        let id = StatementId(self.statements.take());
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
    pub fn statement_named(&mut self, name: &[u8]) -> StatementId {
        match self.statement_names.get(name) {
            Some(id) => StatementId(id),
            None => self.parse(name),
        }
    }

    /// Returns a statement.
    pub fn statement(&self, id: StatementId) -> Option<&Statement> {
        self.statements.get(id.0)
    }

    /// A statement of which something becomes known that was not, or was otherwise.
    fn amend(&mut self, id: StatementId) -> Option<&mut Statement> {
        let statement = self.statements.get_mut(id.0)?;
        self.amendments += u64::from(statement.is_listed);
        Some(statement)
    }

    /// What a statement's text says.
    pub fn set_text(&mut self, id: StatementId, said: Said) {
        if let Some(statement) = self.amend(id) {
            let Said { verb, settings, copies, statement: text } = said;
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
    pub fn bind(&mut self, name: &[u8], statement: StatementId, formats: Formats<'_>) -> PortalId {
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
            self.release_portal(PortalId(forgotten));
        }
        PortalId(id)
    }

    /// Returns the portal of this name; where it was bound out of sight, one on a statement of which nothing is known.
    pub fn portal_named(&mut self, name: &[u8]) -> PortalId {
        if let Some(id) = self.portal_names.get(name) {
            return PortalId(id);
        }
        let statement = self.unknown_statement();
        let portal = self.bind(name, statement, Formats(&[]));
        self.release_statement(statement);
        portal
    }

    /// Returns the statement of a portal.
    pub fn statement_of(&self, portal: PortalId) -> Option<StatementId> {
        self.portals.get(portal.0)?.statement
    }

    /// The portal's name stands for nothing.
    pub fn close_portal(&mut self, name: &[u8]) {
        if let Some(id) = self.portal_names.remove(name) {
            self.release_portal(PortalId(id));
        }
    }

    /// Keeps a statement until it is released.
    pub fn retain_statement(&mut self, id: StatementId) {
        self.statements.retain(id.0);
    }

    /// See [`Session::retain_statement`].
    pub fn release_statement(&mut self, id: StatementId) {
        self.statements.release(id.0);
    }

    /// Keeps a portal until it is released.
    pub fn retain_portal(&mut self, id: PortalId) {
        self.portals.retain(id.0);
    }

    /// See [`Session::retain_portal`].
    pub fn release_portal(&mut self, id: PortalId) {
        if self.portals.release(id.0)
            && let Some(statement) = self.statement_of(id)
        {
            self.release_statement(statement);
        }
    }

    /// Columns and formats of the rows that a portal, or without one a simple query, sends.
    pub fn row(&self, portal: Option<PortalId>) -> (&[Shape], Formats<'_>) {
        let Some(portal) = portal.and_then(|id| self.portals.get(id.0)) else {
            return (&self.simple.0, Formats(&self.simple.1));
        };
        let statement = portal.statement.and_then(|id| self.statement(id));
        let columns = statement.map_or(&[][..], |statement| &statement.columns);
        (columns, Formats(&portal.formats))
    }

    /// A result is being described anew.
    pub fn begin_columns(&mut self, statement: Option<StatementId>) {
        self.described.clear();
        if statement.is_none() {
            self.simple.1.clear();
        }
    }

    /// Remembers a described column: of a statement, or without one of a simple query. `fields` follow its name on the wire.
    pub fn column(&mut self, statement: Option<StatementId>, fields: &[u8]) {
        let (Some(oid), Some(format)) = (u32_at(fields, 6), u16_at(fields, 16)) else {
            return;
        };
        if statement.is_none() && self.simple.1.len() < 2 * limits::COLUMNS {
            self.simple.1.extend_from_slice(&format.to_be_bytes());
        }
        if self.described.len() < limits::COLUMNS {
            self.described.push(Shape::of(oid));
        }
    }

    /// The description is read: its columns are those of the statement, or without one of a simple query.
    pub fn end_columns(&mut self, statement: Option<StatementId>) {
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
    pub fn set_parameters(&mut self, id: StatementId, oids: &[u8]) {
        let shapes =
            oids.chunks_exact(4).take(limits::PARAMETERS).map(|oid| u32_at(oid, 0).map_or(Shape::Unknown, Shape::of));
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
