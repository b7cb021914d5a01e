//! Sums the postings of all operations by field, in one reading of a capture.

use super::CaptureReading;
use super::turns::ConnectionStates;
use crate::limits;
use overhead_model::record::FieldRow;
use overhead_model::{Account, Class, Listener, Operation, Protocol, RowId, RowKey, Side, Tally, Trace};
use std::collections::{BTreeMap, HashMap};

/// Identifies a row of the record, and one of its statements.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RowName {
    pub protocol: Protocol,
    pub class: Class,
    pub name: String,
    pub via: &'static str,
    /// The statement; empty for operations without one, or beyond the limit on statements.
    pub statement: String,
}

/// Sums the bytes of each row's fields over all its operations.
#[derive(Debug, Default)]
pub struct FieldSums {
    turns: ConnectionStates<OpenNames>,
    paths: FieldPaths,
    rows: Vec<(RowName, AmountsByField)>,
    numbers: HashMap<RowName, RowId>,
    closed: Vec<(FieldKey, u64)>,
}

/// Side, account, and the number of the field's path.
type FieldKey = (Side, Account, u32);
type AmountsByField = BTreeMap<FieldKey, u64>;

#[derive(Debug, Default)]
struct OpenNames {
    sides: [DecoderPlace; 2],
    /// One map serves all operations: separate maps would take 200 bytes each for two numbers.
    open: BTreeMap<(Option<u64>, FieldKey), u64>,
}

impl OpenNames {
    /// Removes an operation and returns its sums.
    fn close(&mut self, op: Option<u64>) -> Vec<(FieldKey, u64)> {
        let first = (op, (Side::Request, Account::ALL[0], 0));
        let of_op = self.open.range(first..).take_while(|((of, _), _)| *of == op);
        let closed: Vec<_> = of_op.map(|((_, field), bytes)| (*field, *bytes)).collect();
        for (field, _) in &closed {
            self.open.remove(&(op, *field));
        }
        closed
    }
}

/// A decoder's place in one direction.
#[derive(Debug, Default)]
struct DecoderPlace {
    /// Enclosing groups.
    path: Vec<&'static str>,
    field: &'static str,
}

/// Assigns a number to each field within its groups.
#[derive(Debug, Default)]
pub struct FieldPaths {
    numbers: HashMap<Vec<&'static str>, u32>,
    /// Group and field names, joined by dots, by number.
    pub names: Vec<String>,
}

impl FieldPaths {
    /// Returns the number of a field in these groups. Beyond the limit, all share the last one.
    pub fn number(&mut self, groups: &mut Vec<&'static str>, field: &'static str, limit: usize) -> u32 {
        groups.push(field);
        let number = match self.numbers.get(groups) {
            Some(&number) => number,
            None if self.names.len() >= limit => limit as u32,
            None => {
                let number = self.names.len() as u32;
                self.names.push(groups.join("."));
                self.numbers.insert(groups.clone(), number);
                number
            }
        };
        groups.pop();
        number
    }

    pub fn name(&self, number: u32) -> &str {
        self.names.get(number as usize).map_or("(others)", String::as_str)
    }
}

impl FieldSums {
    /// Returns the fields of each statement of each row, ordered by side, account and name.
    pub fn into_rows(self) -> HashMap<RowName, Vec<FieldRow>> {
        let Self { rows, paths, .. } = self;
        let fields = |sums: AmountsByField| {
            let field =
                |((side, account, path), bytes)| FieldRow { side, account, field: paths.name(path).to_owned(), bytes };
            let mut fields: Vec<FieldRow> = sums.into_iter().map(field).collect();
            fields.sort_by(|a, b| (a.side, a.account, &a.field).cmp(&(b.side, b.account, &b.field)));
            fields
        };
        rows.into_iter().map(|(name, sums)| (name, fields(sums))).collect()
    }
}

impl CaptureReading for FieldSums {}

impl Tally for FieldSums {
    fn row(&mut self, key: RowKey<'_>) -> RowId {
        let name = RowName {
            protocol: key.protocol,
            class: key.class,
            name: key.name.to_owned(),
            via: key.via,
            statement: key.statement.to_owned(),
        };
        if let Some(&number) = self.numbers.get(&name) {
            return number;
        }
        let bound = if name.statement.is_empty() { limits::SUMMED_ROWS } else { limits::SUMMED_STATEMENTS };
        if self.rows.len() >= bound {
            // Beyond the limit, statements share the sums of their row.
            return if key.statement.is_empty() { RowId(u64::MAX) } else { self.row(RowKey { statement: "", ..key }) };
        }
        let number = RowId(self.rows.len() as u64);
        self.rows.push((name.clone(), AmountsByField::new()));
        self.numbers.insert(name, number);
        number
    }

    fn operation(&mut self, row: RowId, _: &Operation) {
        let closed = std::mem::take(&mut self.closed);
        let Some((_, sums)) = self.rows.get_mut(row.0 as usize) else { return };
        for (field, bytes) in closed {
            *sums.entry(field).or_default() += bytes;
        }
    }

    fn listener(&mut self) -> Option<&mut dyn Listener> {
        Some(self)
    }
}

impl Listener for FieldSums {
    fn hear(&mut self, step: Trace<'_>) {
        self.turns.hear(&step);
        let connection = self.turns.kept();
        match step {
            Trace::Swapped => connection.sides.swap(0, 1),
            Trace::Enter { side, group } => connection.sides[side as usize].path.push(group),
            Trace::Leave { side } => _ = connection.sides[side as usize].path.pop(),
            Trace::Field { side, field, .. } => connection.sides[side as usize].field = field,
            // Bytes in no captured frame are not accounted.
            Trace::Posted { frame: None, .. } => {}
            Trace::Posted { side, op, account, len, in_order, .. } => {
                let mut outside = DecoderPlace { path: Vec::new(), field: "outside the stream" };
                let place = if in_order { &mut connection.sides[side as usize] } else { &mut outside };
                let path = self.paths.number(&mut place.path, place.field, limits::SUMMED_FIELDS);
                *connection.open.entry((op, (side, account, path))).or_default() += len;
            }
            Trace::Closed { op, .. } => self.closed = connection.close(op),
            _ => {}
        }
    }
}
