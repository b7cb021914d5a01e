//! Finds the wanted operation in a capture.

use super::number::{BegunOperation, Numbering};
use crate::limits;
use overhead_model::{Class, Listener, Operation, Outcome, Tally, Trace};
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OperationQuery {
    /// The one with this number.
    Number(u64),
    /// The `nth` operation that meets all conditions.
    Fitting {
        /// Its name, ignoring case; `None` for any.
        name: Option<String>,
        /// Its statement, ignoring case, with an ellipsis for omitted text; `None` for any.
        statement: Option<String>,
        /// Its kind; `None` for any.
        kind: Option<QueryKind>,
        /// Position among the operations that fit, from 1.
        nth: u64,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueryKind {
    Class(Class),
    /// Answered with an error.
    Error,
    /// Unanswered, though an answer was due.
    Unanswered,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FoundOperation {
    /// From 1.
    pub number: u64,
    pub connection: u64,
    /// Its number on the connection; `None` for `CONNECT`.
    pub op: Option<u64>,
}

/// An operation that stands for others of its size on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SizedOperation {
    pub found: FoundOperation,
    /// Its bytes on the wire.
    pub bytes: u64,
    /// Operations of about this size.
    pub count: u64,
}

/// Finds an operation by number, or by name, statement and kind.
#[derive(Debug)]
pub struct Finder {
    wanted: OperationQuery,
    pub numbering: Numbering,
    open: HashMap<(u64, Option<u64>), OpenCandidate>,
    fitting: BTreeMap<u64, FoundOperation>,
    /// Operations that fit, by their bytes on the wire.
    sizes: BTreeMap<u64, SizedOperation>,
    /// At most [`limits::NAMES_LISTED`] operation names, with the number of times each occurred.
    pub names: BTreeMap<String, u64>,
    /// The most recent label.
    label: Option<Rc<FoundLabel>>,
}

#[derive(Debug)]
struct OpenCandidate {
    number: u64,
    /// `None` until the operation has one.
    label: Option<Rc<FoundLabel>>,
}

/// An operation's label; most open operations share theirs.
#[derive(Debug, PartialEq, Eq)]
struct FoundLabel {
    class: Class,
    name: String,
    statement: String,
}

impl Finder {
    /// Returns a finder for one operation.
    pub fn new(wanted: OperationQuery) -> Self {
        Self {
            wanted,
            numbering: Numbering::default(),
            open: HashMap::new(),
            fitting: BTreeMap::new(),
            sizes: BTreeMap::new(),
            names: BTreeMap::new(),
            label: None,
        }
    }

    /// Returns matching operations by number, up to the wanted one.
    pub fn fitting(&self) -> impl Iterator<Item = FoundOperation> + '_ {
        self.fitting.values().copied()
    }

    /// Returns the wanted operation; `None` if too few match.
    pub fn found(&self) -> Option<FoundOperation> {
        let last = self.fitting.values().next_back().copied();
        last.filter(|_| self.fitting.len() as u64 == self.enough())
    }

    /// Returns the median and the largest of all operations that fit, by their bytes on the wire.
    pub fn median_and_largest(&self) -> Option<[SizedOperation; 2]> {
        let count = self.fitting_count();
        let mut below = 0;
        let median = self.sizes.values().find(|sized| {
            below += sized.count;
            2 * below >= count
        })?;
        Some([*median, *self.sizes.values().next_back()?])
    }

    /// Returns how many operations fit.
    pub fn fitting_count(&self) -> u64 {
        self.sizes.values().map(|sized| sized.count).sum()
    }

    /// Adds an operation that fits. Beyond the limit on sizes, it counts with the nearest smaller one; the largest stays exact.
    fn add_size(&mut self, found: FoundOperation, bytes: u64) {
        let is_full = self.sizes.len() >= limits::SIZES && self.sizes.keys().next_back() > Some(&bytes);
        let near = || self.sizes.range(..=bytes).next_back().or_else(|| self.sizes.first_key_value());
        let key = if is_full { near().map_or(bytes, |(near, _)| *near) } else { bytes };
        self.sizes.entry(key).or_insert(SizedOperation { found, bytes, count: 0 }).count += 1;
    }

    /// Returns how many operations must match.
    fn enough(&self) -> u64 {
        match self.wanted {
            OperationQuery::Number(_) => 1,
            OperationQuery::Fitting { nth, .. } => nth,
        }
    }

    fn close(&mut self, op: Option<u64>, operation: &Operation) {
        let connection = self.numbering.connection();
        let Some(candidate) = self.open.remove(&(connection, op)) else { return };
        let found = FoundOperation { number: candidate.number, connection, op };
        if self.fits(&candidate, operation.outcome) {
            self.add_size(found, operation.sides.iter().map(|side| side.amounts.total()).sum());
            self.fitting.insert(found.number, found);
            if self.fitting.len() as u64 > self.enough() {
                self.fitting.pop_last();
            }
        }
        let name = candidate.label.as_ref().map_or("", |label| &label.name);
        if let Some(count) = self.names.get_mut(name) {
            *count += 1;
        } else if self.names.len() < limits::NAMES_LISTED {
            self.names.insert(name.to_owned(), 1);
        }
    }

    fn fits(&self, candidate: &OpenCandidate, outcome: Outcome) -> bool {
        match &self.wanted {
            OperationQuery::Number(number) => candidate.number == *number,
            OperationQuery::Fitting { name, statement, kind, .. } => {
                let label = candidate.label.as_deref();
                let of = |part: fn(&FoundLabel) -> &str| label.map_or("", part);
                let named = name.as_ref().is_none_or(|name| of(|label| &label.name).eq_ignore_ascii_case(name));
                let stated = statement.as_ref().is_none_or(|wanted| is_statement(of(|label| &label.statement), wanted));
                let class = label.map_or(Class::Unmatched, |label| label.class);
                named
                    && stated
                    && kind.is_none_or(|kind| match kind {
                        QueryKind::Class(wanted) => class == wanted,
                        QueryKind::Error => outcome == Outcome::Error,
                        QueryKind::Unanswered => outcome == Outcome::Unanswered,
                    })
            }
        }
    }
}

/// Returns whether a statement matches the wanted one, which may come from a table that shortened it.
fn is_statement(statement: &str, wanted: &str) -> bool {
    let (statement, wanted) = (statement.to_ascii_lowercase(), wanted.to_ascii_lowercase());
    statement == wanted
        || wanted.split_once('…').is_some_and(|(start, end)| {
            statement.len() >= start.len() + end.len() && statement.starts_with(start) && statement.ends_with(end)
        })
}

impl Tally for Finder {
    fn listener(&mut self) -> Option<&mut dyn Listener> {
        Some(self)
    }
}

impl Listener for Finder {
    fn hear(&mut self, step: Trace<'_>) {
        if let Some(BegunOperation { number, op }) = self.numbering.hear(&step) {
            self.open.insert((self.numbering.connection(), op), OpenCandidate { number, label: None });
        }
        match step {
            Trace::Labelled { op, class, name, statement, .. } => {
                if let Some(candidate) = self.open.get_mut(&(self.numbering.connection(), op)) {
                    let is_it = |label: &Rc<FoundLabel>| {
                        (label.class, &*label.name, &*label.statement) == (class, name, statement)
                    };
                    let label = self.label.take_if(|label| is_it(label)).unwrap_or_else(|| {
                        Rc::new(FoundLabel { class, name: name.to_owned(), statement: statement.to_owned() })
                    });
                    self.label = Some(Rc::clone(&label));
                    candidate.label = Some(label);
                }
            }
            Trace::Closed { op, operation } => self.close(op, operation),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_is_found_as_it_was_printed() {
        let statement = "SELECT c FROM sbtest1 WHERE id = ?";
        let found = |wanted| is_statement(statement, wanted);
        assert!(found(statement) && found("select c from SBTEST1 where id = ?"));
        assert!(found("SELECT c …RE id = ?") && found("…") && found("SELECT…"));
        assert!(!found("SELECT c") && !found("SELECT d…id = ?") && !found(""));
        assert!(!found(&format!("{statement}…{statement}")));
    }
}
