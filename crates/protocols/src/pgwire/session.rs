//! Prepared statements, portals and result columns of a connection.
//!
//! Statements and portals live while a name or a request in flight refers to them. Buffers are reused: repeating the
//! same few statements allocates nothing.

use super::copy::CopyTransfers;
use super::values::PgTypeShape;
use super::wire::{PgFormatCodes, u16_at, u32_at};
use crate::GivenStatements;
use crate::limits;
use crate::statement::{StatementDialect, StatementSummary, StatementText, add_column};
use overhead_decode::{FastMap, Versioned};
use std::borrow::Cow;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct PgStatement {
    pub summary: StatementSummary,
    pub copies: Option<CopyTransfers>,
    pub named: bool,
    /// Its name still refers to it.
    is_listed: bool,
    /// In order. Unknown types may be missing at the end, here and in `columns`.
    pub parameters: Vec<PgTypeShape>,
    pub columns: Vec<PgTypeShape>,
}

#[derive(Debug, Default)]
pub(super) struct PgPortal {
    statement: Option<PgStatementId>,
    /// Format codes of its result, as on the wire.
    formats: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PgStatementId(usize);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PgPortalId(usize);

/// Reference-counted values.
#[derive(Debug, Default)]
struct RefCountedSlab<T> {
    slots: Vec<(T, usize)>,
    free: Vec<usize>,
}

impl<T: Default> RefCountedSlab<T> {
    /// Returns a slot with one reference and its previous contents.
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

    /// Returns whether this was the last reference.
    fn release(&mut self, index: usize) -> bool {
        let Some((_, references @ 1..)) = self.slots.get_mut(index) else { return false };
        *references -= 1;
        let last = *references == 0;
        if last {
            self.free.push(index);
        }
        last
    }
}

/// Bounded map of names: once half of [`limits::STATEMENTS`] are young, they become old and the old ones are dropped.
/// The empty name, the most common one, has a field. Only the first [`KEY`] bytes of a name count.
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

    /// Returns the names dropped to make room. `name` must be unused.
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
}

/// Bytes of a name that are compared; SQL identifiers have at most 63.
const KEY: usize = 255;

/// Returns a statement's name as text.
fn shown(name: &[u8]) -> Cow<'_, str> {
    if name.is_empty() { "unnamed".into() } else { String::from_utf8_lossy(name) }
}

fn key(name: &[u8]) -> &[u8] {
    name.get(..KEY).unwrap_or(name)
}

#[derive(Debug, Default)]
pub(super) struct Session {
    statements: RefCountedSlab<PgStatement>,
    portals: RefCountedSlab<PgPortal>,
    statement_names: PgNameTable,
    portal_names: PgNameTable,
    /// Columns and formats of the current simple query's result.
    simple: (Vec<PgTypeShape>, Vec<u8>),
    /// Capacity for parameters and columns of all statements.
    types: usize,
    /// Bytes of all statements' texts.
    texts: usize,
    /// Number of changes to named statements.
    amendments: u64,
    /// Columns of the description being read.
    described: Vec<PgTypeShape>,
    /// Their names, if the statement was prepared before the capture.
    described_names: Option<String>,
    pub given: GivenStatements,
}

/// Session state between requests, as far as later decoding depends on it. Sessions with equal views behave alike.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct PgSessionView<'a> {
    /// Changes with any named statement or portal.
    named: u64,
    unnamed: Option<Cow<'a, PgStatement>>,
    /// Format codes and statement of the unnamed portal.
    portal: Option<(Cow<'a, [u8]>, PgPortalTarget<'a>)>,
    /// Columns and formats of the last result of a simple query.
    columns: Cow<'a, [PgTypeShape]>,
    formats: Cow<'a, [u8]>,
}

/// Statement of the unnamed portal.
#[derive(Debug, PartialEq, Eq)]
enum PgPortalTarget<'a> {
    /// The unnamed statement.
    Unnamed,
    /// The slot of a statement that its name still refers to.
    Named(usize),
    /// A statement that no name refers to.
    Other(Cow<'a, PgStatement>),
}

impl PgSessionView<'_> {
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

    /// Returns the number of list entries.
    pub fn entries(&self) -> usize {
        let statement = |of: &PgStatement| of.parameters.len() + of.columns.len();
        let portal = self.portal.as_ref().map_or(0, |(formats, link)| match link {
            PgPortalTarget::Other(of) => formats.len() + statement(of),
            _ => formats.len(),
        });
        self.unnamed.as_deref().map_or(0, statement) + portal + self.columns.len() + self.formats.len()
    }

    /// Returns whether a session with `other` can never return to this state.
    pub fn is_unreachable_from(&self, other: &PgSessionView<'_>) -> bool {
        self.named != other.named
    }
}

impl Session {
    pub fn held(&self) -> usize {
        self.statements.slots.len() * size_of::<PgStatement>()
            + self.portals.slots.len() * (size_of::<PgPortal>() + KEY)
            + self.types * size_of::<PgTypeShape>()
            + self.texts
    }

    /// Returns the state between requests; `None` if a portal has a name, which is rare.
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
            described_names: _,
            given: _,
        } = self;
        let NameGenerations { young, old } = &*portal_names.named;
        if !young.is_empty() || !old.is_empty() {
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

    /// Creates a statement for this name, with unknown contents.
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

    fn unlist(&mut self, slot: usize) {
        if let Some(statement) = self.statements.get_mut(slot) {
            statement.is_listed = false;
        }
        self.release_statement(PgStatementId(slot));
    }

    /// Creates an unnamed statement with one reference.
    fn unknown_statement(&mut self) -> PgStatementId {
        let id = PgStatementId(self.statements.take());
        if let Some(statement) = self.statements.get_mut(id.0) {
            statement.copies = None;
            self.texts -= std::mem::take(&mut statement.summary).text.held();
            statement.named = false;
            statement.is_listed = false;
            statement.parameters.clear();
            statement.columns.clear();
        }
        id
    }

    /// Remembers a statement for later captures, unless it is unnamed.
    pub fn learn(&self, name: &[u8], summary: &StatementSummary) {
        if !name.is_empty() {
            self.given.learn(|| shown(name).into_owned(), summary);
        }
    }

    pub fn forget(&self, name: &[u8]) {
        self.given.forget(|| shown(name).into_owned());
    }

    /// Returns the statement with this name, or an unknown one if its preparation was not captured.
    pub fn statement_named(&mut self, name: &[u8]) -> PgStatementId {
        if let Some(id) = self.statement_names.get(name) {
            return PgStatementId(id);
        }
        let id = self.parse(name);
        let summary = self.given.summary(&shown(name), StatementDialect::Postgres);
        self.set_text(id, summary, None);
        id
    }

    /// Names a statement that was prepared before the capture by its parameters, too.
    pub fn bind_unseen(&mut self, id: PgStatementId, name: &[u8], parameters: u16) {
        let Some(statement) = self.statement(id).filter(|known| known.summary.text.is_unseen()) else { return };
        let plural = if parameters == 1 { "" } else { "s" };
        let own = StatementText::prepared_before(&shown(name), format_args!(", {parameters} parameter{plural}"));
        self.rename_unseen(id, own.described(statement.summary.text.columns()));
    }

    fn rename_unseen(&mut self, id: PgStatementId, text: StatementText) {
        if self.statement(id).is_some_and(|known| known.summary.text != text) {
            self.set_text(id, StatementSummary { text, ..StatementSummary::default() }, None);
        }
    }

    pub fn statement(&self, id: PgStatementId) -> Option<&PgStatement> {
        self.statements.get(id.0)
    }

    /// Returns a statement whose contents are about to change.
    fn amend(&mut self, id: PgStatementId) -> Option<&mut PgStatement> {
        let statement = self.statements.get_mut(id.0)?;
        self.amendments += u64::from(statement.is_listed);
        Some(statement)
    }

    pub fn set_text(&mut self, id: PgStatementId, summary: StatementSummary, copies: Option<CopyTransfers>) {
        if let Some(statement) = self.amend(id) {
            statement.copies = copies;
            let now = summary.text.held();
            let before = std::mem::replace(&mut statement.summary, summary).text.held();
            self.texts = self.texts + now - before;
        }
    }

    pub fn close_statement(&mut self, name: &[u8]) {
        if let Some(slot) = self.statement_names.remove(name) {
            self.unlist(slot);
        }
    }

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

    /// Returns the portal with this name, or one with an unknown statement if its binding was not captured.
    pub fn portal_named(&mut self, name: &[u8]) -> PgPortalId {
        if let Some(id) = self.portal_names.get(name) {
            return PgPortalId(id);
        }
        let statement = self.unknown_statement();
        let portal = self.bind(name, statement, PgFormatCodes(&[]));
        self.release_statement(statement);
        portal
    }

    pub fn statement_of(&self, portal: PgPortalId) -> Option<PgStatementId> {
        self.portals.get(portal.0)?.statement
    }

    /// Returns the statement of the portal with this name, if it was bound.
    pub fn statement_of_portal(&self, name: &[u8]) -> Option<PgStatementId> {
        self.statement_of(PgPortalId(self.portal_names.get(name)?))
    }

    pub fn close_portal(&mut self, name: &[u8]) {
        if let Some(id) = self.portal_names.remove(name) {
            self.release_portal(PgPortalId(id));
        }
    }

    pub fn retain_statement(&mut self, id: PgStatementId) {
        self.statements.retain(id.0);
    }

    pub fn release_statement(&mut self, id: PgStatementId) {
        self.statements.release(id.0);
    }

    pub fn retain_portal(&mut self, id: PgPortalId) {
        self.portals.retain(id.0);
    }

    pub fn release_portal(&mut self, id: PgPortalId) {
        if self.portals.release(id.0)
            && let Some(statement) = self.statement_of(id)
        {
            self.release_statement(statement);
        }
    }

    /// Returns columns and formats of the rows of a portal, or of a simple query.
    pub fn row(&self, portal: Option<PgPortalId>) -> (&[PgTypeShape], PgFormatCodes<'_>) {
        let Some(portal) = portal.and_then(|id| self.portals.get(id.0)) else {
            return (&self.simple.0, PgFormatCodes(&self.simple.1));
        };
        let statement = portal.statement.and_then(|id| self.statement(id));
        let columns = statement.map_or(&[][..], |statement| &statement.columns);
        (columns, PgFormatCodes(&portal.formats))
    }

    pub fn begin_columns(&mut self, statement: Option<PgStatementId>) {
        self.described.clear();
        let unseen = statement.and_then(|id| self.statement(id)).filter(|known| known.summary.text.is_unseen());
        self.described_names = unseen.map(|_| String::new());
        if statement.is_none() {
            self.simple.1.clear();
        }
    }

    /// Adds a column to the description of a statement, or of a simple query. `fields` follow its name on the wire.
    pub fn column(&mut self, statement: Option<PgStatementId>, name: &[u8], fields: &[u8]) {
        let (Some(table), Some(oid), Some(format)) = (u32_at(fields, 0), u32_at(fields, 6), u16_at(fields, 16)) else {
            return;
        };
        if let Some(names) = self.described_names.as_mut().filter(|_| table > 0) {
            add_column(names, &[name]);
        }
        if statement.is_none() && self.simple.1.len() < 2 * limits::COLUMNS {
            self.simple.1.extend_from_slice(&format.to_be_bytes());
        }
        if self.described.len() < limits::COLUMNS {
            self.described.push(PgTypeShape::from_oid(oid));
        }
    }

    /// Completes the description started by [`Session::begin_columns`].
    pub fn end_columns(&mut self, statement: Option<PgStatementId>) {
        let Some(id) = statement else {
            let before = self.simple.0.capacity();
            self.simple.0.clone_from(&self.described);
            self.types += self.simple.0.capacity() - before;
            return;
        };
        if let (Some(names), Some(statement)) = (self.described_names.take(), self.statement(id)) {
            self.rename_unseen(id, statement.summary.text.described(&names));
        }
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

    /// Sets the known parameter types; `oids` are in wire format.
    pub fn set_parameters(&mut self, id: PgStatementId, oids: &[u8]) {
        let shapes = oids
            .chunks_exact(4)
            .take(limits::PARAMETERS)
            .map(|oid| u32_at(oid, 0).map_or(PgTypeShape::Unknown, PgTypeShape::from_oid));
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
